/* Hostile files, made by program: checkpoints that call what runs programs elsewhere, archives with tricks, sizes that lie,
 * structures without end; and model descriptions with code in them. */
#ifndef TEST_BADFILE_H
#define TEST_BADFILE_H

#include "ir/arena.h"
#include "ir/diag.h"

struct badfile {
    const char *name, *row;   /* row of the fault tables: "B1" */
    const uint8_t *bytes;     /* in the arena */
    size_t len;
    enum yir_diag_id expected; /* the first report; YIR_DIAG_NONE: it loads, and is inert */
    bool yaml;                /* a model description rather than weights */
};

size_t badfile_count(void);
void badfile_make(struct badfile *f, struct yir_arena *a, size_t i);

#endif
