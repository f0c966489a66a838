/* The steps of a CUDA context that cuDNN does. */
#ifndef RT_CUDA_ENGINE_H
#define RT_CUDA_ENGINE_H

#include "cuda_api.h"
#include "cudnn_plan.h"
#include "dev.h"

struct cuda_engine {
    const struct ym_engine *row;
    const struct cudnn_plan *plan; /* NULL: this cuDNN does not take it; the step's kernel does it then */
};

struct cuda_engines {
    const struct cuda_api *api;
    struct cudnn_api cudnn;
    const struct rt_tables *t;
    uint64_t arena, constants; /* device memory */
    void *handle;
    void *stream;              /* of our own, on which graphs are captured */
    struct cuda_engine *engine; /* [t->nengine], in the order of its rows */
    struct cudnn_plan *plan;   /* [nplan]: equal rows share one */
    uint32_t nplan;
};

/* NULL: the program has no rows, or there is no cuDNN here. The driver's context is current in all of these. OOM_HOST and what the
 * driver says; that cuDNN refuses a row is no failure. */
yolort_status rt_cuda_engines_open(struct cuda_engines **out, const struct cuda_api *api, atomic_int *lost, const struct rt_tables *t,
                                   uint64_t arena, uint64_t constants, const struct rt_error *e);
void rt_cuda_engines_close(struct cuda_engines *x); /* NULL is allowed */

/* The engine that does this launch, or NULL: the step's kernel does it. */
struct cuda_engine *rt_cuda_engine_of(const struct cuda_engines *x, const struct rt_launch *l);

/* Puts the launch on a stream. 0: cuDNN failed, and the engine is not used any more. */
int rt_cuda_engine_run(struct cuda_engines *x, struct cuda_engine *g, const struct rt_launch *l, void *stream);

/* The launch as a graph, which the caller destroys. *graph NULL: it can't be had here, and the engine is not used any more. */
yolort_status rt_cuda_engine_graph(struct cuda_engines *x, struct cuda_engine *g, const struct rt_launch *l, void **graph, atomic_int *lost,
                                   const struct rt_error *e);

#endif
