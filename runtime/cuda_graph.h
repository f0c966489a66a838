/* Runs of a CUDA context kept as executable graphs: one for each batch and set of bound inputs and outputs, of which only the
 * steps that touch these are changed when other memory is bound. */
#ifndef RT_CUDA_GRAPH_H
#define RT_CUDA_GRAPH_H

#include "cuda_engine.h"

/* A map in the driver's form. */
struct cuda_map {
    _Alignas(64) uint8_t byte[128];
};

/* A step's launch as the driver takes it. It points into itself and at the arguments. */
struct cuda_call {
    struct cuda_map map[YM_MAX_MAPS];
    struct cuda_kernel kernel;
    void *parameter[YM_MAX_ARGS + 1 + YM_MAX_MAPS];
    int64_t total;
};

struct cuda_graph;

/* Of one context, zeroed at first. */
struct cuda_graphs {
    const struct cuda_api *api;
    const struct rt_tables *t;
    atomic_int *lost;
    void *user;
    yolort_status (*describe)(void *user, const struct rt_launch *l, struct cuda_call *out, const struct rt_error *e);
    struct cuda_engines *engines; /* NULL: none */
    int mode; /* of enum yolort_graph */
    int off;  /* this driver does it not */
    struct cuda_graph *first; /* used last */
};

/* Puts the run on the stream. *played: 0 when graphs are not possible here; then nothing was done. */
yolort_status rt_cuda_graph_play(struct cuda_graphs *g, const struct rt_play *p, void *stream, int *played, const struct rt_error *e);

/* The driver's context is current. Graphs that run go once they are done. */
void rt_cuda_graphs_free(struct cuda_graphs *g);

#endif
