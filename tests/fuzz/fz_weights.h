/* A weights file in memory: every tensor that the reader lets through must be readable. */
#ifndef FUZZ_WEIGHTS_H
#define FUZZ_WEIGHTS_H

#include "frontend/weights.h"

static inline void fuzz_weights(const void *bytes, size_t size)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct fe_weights_limits l;
    fe_weights_limits_init(&l);
    l.allow_bad_crc = true; /* or no mutated archive would get past its checksums */
    l.max_tensor_bytes = 1 << 20;
    const struct fe_weights *w = fe_weights_read(a, d, "fuzz", bytes, size, &l);
    if (!w) YIR_ASSERT(yir_diag_errors(d) > 0);
    for (size_t i = 0; w && i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        YIR_ASSERT(fe_weights_find(w, t->name) != NULL);
        if (t->numel <= 1 << 18) fe_tensor_f64(t, yir_alloc_n(a, (size_t)t->numel, sizeof(double)));
    }
    yir_arena_free(a);
}

#endif
