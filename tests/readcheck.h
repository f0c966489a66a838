/* One reading of a weights file in memory or of a file, with what it reported. */
#ifndef TEST_READCHECK_H
#define TEST_READCHECK_H

#include "frontend/weights.h"

struct readcheck {
    struct yir_arena *a;
    struct yir_diags *d;
    const struct fe_weights *w; /* NULL: refused */
};

/* limits NULL: defaults. The bytes are copied to a block of exactly their length, so that reading past them
 * shows. */
struct readcheck readcheck_bytes(const void *bytes, size_t len, const struct yir_limits *limits);
struct readcheck readcheck_file(const char *path);

/* Of the first report; YIR_DIAG_NONE and "" without one. */
enum yir_diag_id readcheck_id(const struct readcheck *r);
const char *readcheck_text(const struct readcheck *r);

void readcheck_end(struct readcheck *r);

#endif
