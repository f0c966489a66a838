/* Sums of products in registers: the main loop that convolutions, transposed convolutions and attention share. */
#ifndef CG_FAST_SUMS_H
#define CG_FAST_SUMS_H

#include "fast.h"

enum { MAX_PIXELS = 24, MAX_VECTORS = 4 };

/* acc[p][v] += x[p][k] * w[k][v] for k in [0, steps): x one number, w a vector. */
struct cg_sums {
    int mem_x, mem_w;
    int vectors, last;  /* vectors of w, and lanes of the last one that exist */
    int64_t pixels;
    int64_t steps;
    int64_t x_pixel, x_step, w_step; /* elements from one pixel, and from one k, to the next */
};
void cg_add_products(struct kb *b, const struct cg_sums *s, kv x, kv w, kv acc[][MAX_VECTORS]);

/* The same from nothing: acc gets new variables. */
void cg_new_products(struct kb *b, const struct cg_sums *s, kv x, kv w, kv acc[][MAX_VECTORS]);

/* Pixels whose sums fit in registers beside the weights of one step and one input, unless inputs are memory operands. */
int64_t cg_most_pixels(const struct kb_target *t, int vectors);

/* Sets vectors, last and pixels so that blocks cover `channels` x `pixels` with little done twice: a block that would run over
 * the edge starts early (cg_early). channels below a vector's lanes: one vector, part of it. */
void cg_choose_block(const struct kb_target *t, int64_t channels, int64_t pixels, struct cg_sums *s);

/* Start of a block that would run over the end. */
kv cg_early(struct kb *b, kv start, int64_t size, int64_t block);

/* Index of vector v of a block, marked; b->valid is set to its lanes. */
kv cg_vector(struct kb *b, const struct cg_sums *s, kv start, int v);

#endif
