/* CUDA C of the convolutions by wgmma. */
#ifndef CG_WGMMA_TEXT_H
#define CG_WGMMA_TEXT_H

#include "wgmma.h"

/* What the body calls the kernel's memories; bias -1: none. `flat`: the epilogue takes the pixels of a 1x1 convolution as one
 * row, however long. */
struct wg_names {
    int weights, bias;
    bool flat;
};

/* Text before the function, and its body. In the body b's nodes stand where g0 (image), g1 (first channel), g2 (row), g3
 * (column) and float g4[8] (the convolution's values, bias added) are known. */
const char *wg_head(struct yir_arena *a, const struct wg_plan *p);
const char *wg_body(const struct kb *b, const struct wg_plan *p, const struct wg_names *names);

#endif
