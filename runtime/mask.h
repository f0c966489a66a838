/* Geometry of masks, for the functions and the kernels that make them. */
#ifndef RT_MASK_H
#define RT_MASK_H

#include "service.h"
#include "yolort.h"

/* Pixels of the source that a box cuts out: x0 <= x < x1. */
struct rt_window {
    int x0, y0, x1, y1;
};

/* p is one; sides of the source are 1 .. 65535. */
void rt_mask_plan(const yolort_proto *p, int src_width, int src_height, struct ym_mask_plan *out);
struct rt_window rt_mask_window(const yolort_detection *d, int src_width, int src_height);

#endif
