/* Random networks for property tests: small maps and rows, the ops that passes rewrite, each seed its own. */
#ifndef RANDNET_H
#define RANDNET_H

#include "ir/ir.h"

/* Inputs `images` and `x`, 5 to 40 ops, 1 to 5 outputs, batch 1 or 2. No weight has data. */
struct yir_func *randnet(struct yir_arena *a, struct yir_diags *d, uint64_t seed);

/* A number in [-1, 1) and the next state. */
float randnet_float(uint64_t *state);

/* Gives every weight data, of a size that keeps sums near one. */
void randnet_weights(struct yir_func *f, uint64_t seed);

/* The same, rounded to the types that they have; randnet_weights leaves them floats. */
void randnet_typed_weights(struct yir_func *f, uint64_t seed);

#endif
