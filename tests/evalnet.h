/* Whole functions in the evaluator: every kernel of a program, on buffers of doubles. */
#ifndef EVALNET_H
#define EVALNET_H

#include "codegen/codegen.h"

struct evalnet {
    const struct yir_func *f;
    double **buf; /* of each buffer of f, one double an element, not rounded to its type; inputs first, then outputs */
};

/* Buffers of f: its inputs hold numbers of `seed`, whole ones of 0 to 255 where they are bytes; the arena is NaN. */
struct evalnet evalnet_new(struct yir_arena *a, const struct yir_func *f, uint64_t seed);

/* Runs kernel k of a program on them for so many images. 0, or 1 + the number of the memory that an access left. */
int evalnet_run(struct yir_arena *a, const struct evalnet *m, const struct cg_kernel *k, int batch);

#endif
