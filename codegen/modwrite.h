/* Writes module files (runtime/module.h). */
#ifndef CG_MODWRITE_H
#define CG_MODWRITE_H

#include "codegen.h"

struct cg_meta { /* struct ym_meta with its strings, and what all targets have in common */
    const char *model, *task, *weights_from, *options;
    const char *precision; /* of each target's */
    int head, letterbox, nc, height, width, max_batch, stride, max_det;
    int coefficients, points, point_dims, angles;
    float conf, iou;
    const char *const *names; /* nc */
    uint64_t weights_digest[2];
};

struct cg_variant { /* the network for one target */
    const struct cg_target *target;
    const struct cg_program *program; /* of the same placed function in all variants */
    const struct cg_code *code;
};

struct cg_module {
    struct cg_meta meta;
    const struct yir_func *front; /* un-fused, with weight data: the IR and WEIGHTS sections */
    bool strip;                   /* without the canonical weights */
    const struct cg_variant *variant; /* the loader takes the first that runs on its machine */
    uint32_t nvariant;                /* 1 .. YM_MAX_TARGETS */
};

/* Packed weights that follow from a canonical weight are left to the loader, which makes the same bytes of them; those of stripped
 * modules are in the file.
 * The whole file in one malloc'ed block, which the caller frees. The same inputs give the same bytes. -1 after reporting
 * (E_LIMIT: more outputs than a module holds; E_LINK: no room for seals; E_MEMORY). */
int cg_module_write(struct yir_arena *a, struct yir_diags *d, const struct cg_module *m, void **bytes, size_t *size);

#endif
