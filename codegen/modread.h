/* Reads module files for the compiler: what recompiling and inspecting need. Programs are the runtime's matter. */
#ifndef CG_MODREAD_H
#define CG_MODREAD_H

#include "modwrite.h"
#include "runtime/module.h"

struct cg_modview {
    const unsigned char *bytes; /* borrowed */
    size_t size;
    uint32_t file;              /* of the diagnostics */
    const char *name;
    const char *strings;        /* nstrings bytes, the last one 0 */
    size_t nstrings;
    const unsigned char *section; /* struct ym_section[nsection] */
    uint32_t nsection;
    struct cg_meta meta;
    uint32_t producer;
};

/* Checks the digest, then header, sections, strings and meta; the file is hostile. -1 after reporting. */
int cg_module_open(struct yir_arena *a, struct yir_diags *d, const char *name, const void *bytes, size_t size,
                   struct cg_modview *out);

/* Bytes of the first section of a kind and program number; NULL when there is none. */
const void *cg_module_section(const struct cg_modview *v, uint32_t kind, uint32_t index, size_t *size);

/* A string by its offset; "" when the offset is outside. */
const char *cg_module_string(const struct cg_modview *v, uint32_t at);

/* The front-end function, its weights widened to the types of the text. NULL after reporting, also for stripped modules
 * when with_weights is set. */
struct yir_func *cg_module_front(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const struct cg_modview *v,
                                 bool with_weights);

#endif
