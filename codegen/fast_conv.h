/* What the convolution families share: the convolution's numbers, and how its input is read. */
#ifndef CG_FAST_CONV_H
#define CG_FAST_CONV_H

#include "fast.h"

enum { MAX_PIXELS = 24, MAX_VECTORS = 4 };

struct conv {
    const struct yir_func *f;
    const struct kb_target *t;
    uint32_t first, last, op; /* ops of the kernel; its convolution */
    yir_ref x, w, bias;       /* bias NIL: none */
    struct cg_window win;
    int64_t groups, ci, co, ih, iw, oh, ow;
    int lanes;
};

/* The kernel's only convolution, when its numbers are floats, its weights constants that can be packed, and the rest of the kernel
 * works on vectors of channels. */
bool cg_conv_of(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c);

/* Elements that the stored ops of the kernel need per element of the convolution, in vector operations: activation and so on. */
double cg_epilogue_cycles(const struct conv *c);

/* Batch number and first row of a unit of `rows` rows; the last unit starts early rather than run over the edge. */
void cg_conv_unit(struct kb *b, const struct conv *c, int64_t rows, kv *n, kv *row0);

/* The input lies in memory with adjacent channels, so that a window can read it where it is. */
bool cg_conv_in_place(const struct conv *c);

#endif
