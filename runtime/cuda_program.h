/* A CUDA program of a module, and where it is loaded. */
#ifndef RT_CUDA_PROGRAM_H
#define RT_CUDA_PROGRAM_H

#include "cuda_device.h"
#include "dev.h"
#include "service.h"

/* On one device; contexts there share it. */
struct cuda_placed {
    struct cuda_placed *next;
    struct cuda_device *device;
    int ordinal, multiprocessors;
    int sessions; /* contexts that use it; under the program's lock */
    void **module, **function; /* by kernel */
    uint32_t nmodule;
    void *service_module, *service[YM_NSERVICE]; /* NULL: none */
    uint64_t constants;
};

struct cuda_program {
    struct cuda_api api;
    const struct rt_tables *t;
    pthread_mutex_t lock; /* over the list */
    struct cuda_placed *first;
};

/* The functions of struct rt_dev. */
yolort_status rt_cuda_fits(const char *arch, const char *features, const struct rt_error *e);
yolort_status rt_cuda_program_load(struct rt_code *out, const struct rt_tables *t, const struct rt_error *e);
void rt_cuda_program_unload(struct rt_code *c);

/* The program on a device, loaded there when it is not yet; rt_cuda_leave_placed when the context goes. */
yolort_status rt_cuda_enter_placed(struct cuda_program *p, int ordinal, struct cuda_placed **out, const struct rt_error *e);
void rt_cuda_leave_placed(struct cuda_program *p, struct cuda_placed *at);

#endif
