/* Weights files in memory: every tensor that a reader lets through must be readable. */
#ifndef FUZZ_WEIGHTS_H
#define FUZZ_WEIGHTS_H

#include "frontend/weights.h"

static inline struct yir_limits fuzz_limits(void)
{
    struct yir_limits l;
    yir_limits_init(&l);
    l.allow_bad_crc = true; /* or no mutated archive would get past its checksums */
    l.max_tensor_bytes = 1 << 20;
    return l;
}

static inline void fuzz_read_tensors(struct yir_arena *a, const struct fe_weights *w)
{
    for (size_t i = 0; i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        if (t->numel <= 1 << 12) fe_tensor_f64(t, yir_alloc_n(a, (size_t)t->numel, sizeof(double)));
    }
}

static inline void fuzz_weights(const void *bytes, size_t size)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_limits l = fuzz_limits();
    const struct fe_weights *w = fe_weights_read(a, d, "fuzz", bytes, size, &l);
    YIR_ASSERT(w || yir_diag_errors(d) > 0);
    if (w) fuzz_read_tensors(a, w);
    for (size_t i = 0; w && i < w->ntensor; i++) YIR_ASSERT(fe_weights_find(w, w->tensor[i].name) != NULL);
    yir_arena_free(a);
}

#endif
