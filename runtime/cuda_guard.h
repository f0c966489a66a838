/* Debug: patterns around a context's memory on a GPU, which no step may change; nor may one change the weights. */
#ifndef RT_CUDA_GUARD_H
#define RT_CUDA_GUARD_H

#include "cuda_program.h"

enum { CUDA_BAND = 4096 }; /* bytes */

struct cuda_guard {
    uint64_t band[YM_MAX_IO + 3]; /* addresses */
    uint32_t n;
};

/* The device's context is current, and no work of the context is on its way. */
yolort_status rt_cuda_guard_fill(const struct cuda_guard *g, struct cuda_device *d, const struct rt_error *e);
yolort_status rt_cuda_guard_check(const struct cuda_guard *g, const struct cuda_program *p, const struct cuda_placed *at,
                                  const struct rt_error *e);

#endif
