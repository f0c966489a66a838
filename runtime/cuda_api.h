/* The CUDA driver, loaded at run time: nothing links against it, and a machine without it runs CPU modules all the same. */
#ifndef RT_CUDA_API_H
#define RT_CUDA_API_H

#include "status.h"

#include <stdatomic.h>

/* CUDA_MEMCPY2D. */
struct cuda_side {
    size_t x_bytes, y;
    int kind; /* CUmemorytype */
    const void *host;
    uint64_t device;
    void *array;
    size_t pitch;
};
struct cuda_rows {
    struct cuda_side from, to;
    size_t row_bytes, rows;
};

/* What a launch is told, of cuLaunchKernel and of a graph's node: CUDA_KERNEL_NODE_PARAMS_v1. */
struct cuda_kernel {
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameter, **extra;
};

/* CUmemAllocationProp, CUmemAccessDesc. */
struct cuda_place {
    int kind, id;
};
struct cuda_memory_kind {
    int type, handles;
    struct cuda_place at;
    void *windows;
    uint8_t flags[8];
};
struct cuda_access {
    struct cuda_place at;
    int flags;
};

/* CUgraphEdgeData. */
struct cuda_edge {
    uint8_t from_port, to_port, type, reserved[5];
};

struct cuda_api {
#define CUDA(name, symbol, args) int(*name) args;
#define CUDA_MAYBE CUDA
#include "cuda.def"
#undef CUDA_MAYBE
#undef CUDA
};

/* Loads libcuda.so.1, or the file that YOLOC_LIBCUDA names, and initialises it. NO_DEVICE when there is none. It stays loaded
 * until the process ends. */
yolort_status rt_cuda_load(struct cuda_api *out, const struct rt_error *e);

/* The status for an error number of the driver, with a text "what: CUDA_ERROR_..."; 0 is OK. */
yolort_status rt_cuda_status(const struct cuda_api *api, int error, const char *what, const struct rt_error *e);

/* The same; an error after which nothing works any more on the device's context is kept in *lost. lost may be NULL. */
yolort_status rt_cuda_check(const struct cuda_api *api, atomic_int *lost, int error, const char *what, const struct rt_error *e);

/* After this error nothing works any more on the device's context. */
int rt_cuda_is_fatal(int error);

/* Compute capability as 10 * major + minor. */
yolort_status rt_cuda_capability(const struct cuda_api *api, int device, int *out, const struct rt_error *e);

/* Whether code made for "sm_86" runs on that capability: the same major number, and no older; "sm_90a" on 9.0 alone. */
int rt_cuda_arch_fits(const char *arch, int capability);

#endif
