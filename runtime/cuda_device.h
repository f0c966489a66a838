/* A GPU as this process uses it: the driver's context, whether it was lost, and its memory. One for each device, shared by all
 * programs and whoever else holds on to it; it goes with the last of them. */
#ifndef RT_CUDA_DEVICE_H
#define RT_CUDA_DEVICE_H

#include "cuda_api.h"

#include <pthread.h>

/* Addresses [begin, begin + size) of the pool. */
struct cuda_block {
    struct cuda_block *before, *next; /* by address */
    uint64_t begin, size;
    int used;
};

/* Memory behind a part of the pool's addresses. */
struct cuda_extent {
    struct cuda_extent *next; /* by address */
    uint64_t begin, size, handle;
};

struct cuda_pool {
    pthread_mutex_t lock;
    uint64_t base, size, granule; /* addresses reserved; size 0: the device can't, blocks are the driver's own */
    struct cuda_block *first;     /* all of the addresses */
    struct cuda_extent *extent;
    uint64_t mapped, used, peak, blocks;
};

struct cuda_device {
    struct cuda_device *next;
    struct cuda_api api;
    int refs; /* under the registry's lock */
    int ordinal, device;
    void *context;
    atomic_int lost; /* error after which the context does nothing more; 0: none */
    struct cuda_pool pool;
};

/* The device of that ordinal, started when it is not yet in use. A lost one is not given out again. */
yolort_status rt_cuda_device_get(struct cuda_device **out, const struct cuda_api *api, int ordinal, const struct rt_error *e);
void rt_cuda_device_keep(struct cuda_device *d);
void rt_cuda_device_drop(struct cuda_device *d);

/* As rt_cuda_check, for calls on this device. */
yolort_status rt_cuda_device_check(struct cuda_device *d, int error, const char *what, const struct rt_error *e);

/* cuda_pool.c. The device's context is current in both. Addresses are multiples of 512; the memory holds anything. OOM_DEVICE says
 * what was wanted and what is free. */
yolort_status rt_cuda_pool_open(struct cuda_device *d, const struct rt_error *e);
void rt_cuda_pool_close(struct cuda_device *d);

/* The device's context need not be current in these. Work on what is freed must be done. */
yolort_status rt_cuda_pool_alloc(struct cuda_device *d, uint64_t *out, uint64_t bytes, const char *what, const struct rt_error *e);
void rt_cuda_pool_free(struct cuda_device *d, uint64_t at); /* 0 is allowed */
void rt_cuda_pool_trim(struct cuda_device *d);              /* gives back memory with nothing in it */

#endif
