#include "cuda_engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    OWN_STREAM = 1,   /* CU_STREAM_NON_BLOCKING */
    CAPTURE_LOOSE = 2 /* CU_STREAM_CAPTURE_MODE_RELAXED: cuDNN may load kernels meanwhile */
};

void rt_cuda_engines_close(struct cuda_engines *x)
{
    if (!x) return;
    for (uint32_t i = 0; i < x->nplan; i++) rt_cudnn_plan_free(&x->plan[i]);
    if (x->handle) x->cudnn.destroy(x->handle);
    if (x->stream) x->api->stream_destroy(x->stream);
    free(x->engine);
    free(x->plan);
    free(x);
}

static int is_same(const struct ym_engine *a, const struct ym_engine *b)
{
    return a->number == b->number && a->nknob == b->nknob && !memcmp(a->knob, b->knob, sizeof a->knob) &&
           !memcmp(&a->conv, &b->conv, sizeof a->conv);
}

static void make_plan(struct cuda_engines *x, struct cuda_engine *g)
{
    const struct cudnn_where w = {&x->cudnn, x->handle, NULL};
    struct cudnn_choice by = {.number = g->row->number, .nknob = g->row->nknob};
    struct cudnn_plan *p = &x->plan[x->nplan];
    memcpy(by.knob, g->row->knob, sizeof by.knob);
    if (rt_cudnn_plan(p, &w, &g->row->conv, &by, NULL)) return;
    x->nplan++;
    g->plan = p;
}

/* Another version may need more memory for it than the module has. */
static void make_plans(struct cuda_engines *x)
{
    for (uint32_t i = 0; i < x->t->nengine; i++) {
        struct cuda_engine *g = &x->engine[i];
        uint32_t same = 0;
        g->row = &x->t->engine[i];
        while (same < i && !is_same(x->engine[same].row, g->row)) same++;
        if (same == i)
            make_plan(x, g);
        else
            g->plan = x->engine[same].plan;
        if (g->plan && g->plan->space_bytes > g->row->space_bytes) g->plan = NULL;
    }
}

struct cuda_engine *rt_cuda_engine_of(const struct cuda_engines *x, const struct rt_launch *l)
{
    const struct ym_engine *row = x ? rt_engine_of(x->t, l->step) : NULL;
    if (!row || l->total != x->t->kernel[l->kernel].units * x->t->target->max_batch) return NULL;
    struct cuda_engine *g = &x->engine[row - x->t->engine];
    return g->plan ? g : NULL;
}

static void *at(uint64_t base, uint64_t offset)
{
    return (void *)(uintptr_t)(base + offset);
}

int rt_cuda_engine_run(struct cuda_engines *x, struct cuda_engine *g, const struct rt_launch *l, void *stream)
{
    const struct ym_engine *r = g->row;
    const struct cudnn_memory m = {
        .x = l->arg[r->x],
        .weights = at(x->constants, r->weights),
        .bias = r->conv.biased ? at(x->constants, r->bias) : NULL,
        .added = r->conv.added ? l->arg[r->added] : NULL,
        .out = l->arg[r->out],
        .space = r->space_bytes ? at(x->arena, r->space) : NULL,
    };
    if (!x->cudnn.set_stream(x->handle, stream) && !rt_cudnn_run(g->plan, x->handle, &m, NULL)) return 1;
    g->plan = NULL;
    return 0;
}

/* Each once, on what the arena holds: kernels that are loaded by their first run would be loaded while a stream is held or captured, which
 * the driver may wait for. */
static yolort_status warm_up(struct cuda_engines *x, atomic_int *lost, const struct rt_error *e)
{
    for (uint32_t i = 0; i < x->t->nengine; i++) {
        const struct ym_step *s = &x->t->step[x->engine[i].row->step];
        void *arg[YM_MAX_ARGS];
        const struct rt_launch l = {.arg = arg};
        for (uint32_t k = 0; k < s->narg; k++) arg[k] = at(x->arena, x->t->arg[s->first_arg + k].offset);
        if (x->engine[i].plan) rt_cuda_engine_run(x, &x->engine[i], &l, x->stream);
    }
    return rt_cuda_check(x->api, lost, x->api->stream_sync(x->stream), "cuDNN", e);
}

static yolort_status fill(struct cuda_engines *x, atomic_int *lost, const struct rt_error *e)
{
    x->engine = calloc(x->t->nengine, sizeof *x->engine);
    x->plan = calloc(x->t->nengine, sizeof *x->plan);
    if (!x->engine || !x->plan) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    if (x->cudnn.create(&x->handle)) {
        x->handle = NULL;
        return YOLORT_UNSUPPORTED;
    }
    make_plans(x);
    if (!x->nplan || !x->api->stream_create) return YOLORT_OK;
    RT_TRY(rt_cuda_check(x->api, lost, x->api->stream_create(&x->stream, OWN_STREAM), "stream", e));
    return warm_up(x, lost, e);
}

yolort_status rt_cuda_engines_open(struct cuda_engines **out, const struct cuda_api *api, atomic_int *lost, const struct rt_tables *t,
                                   uint64_t arena, uint64_t constants, const struct rt_error *e)
{
    *out = NULL;
    if (!t->nengine) return YOLORT_OK;
    struct cuda_engines *x = calloc(1, sizeof *x);
    if (!x) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    x->api = api;
    x->t = t;
    x->arena = arena;
    x->constants = constants;
    yolort_status s = rt_cudnn_load(&x->cudnn, NULL) ? YOLORT_UNSUPPORTED : fill(x, lost, e);
    if (!s) {
        *out = x;
        return s;
    }
    rt_cuda_engines_close(x);
    return s == YOLORT_UNSUPPORTED ? YOLORT_OK : s;
}

/* A capture that cuDNN has spoilt ends with an error of the driver that says no more than that. */
static yolort_status capture(struct cuda_engines *x, struct cuda_engine *g, const struct rt_launch *l, void **graph, atomic_int *lost,
                             const struct rt_error *e)
{
    const struct cuda_api *api = x->api;
    if (!x->stream || !api->capture_begin || !api->capture_end || !api->graph_child) return YOLORT_OK;
    RT_TRY(rt_cuda_check(api, lost, api->capture_begin(x->stream, CAPTURE_LOOSE), "capture", e));
    int ran = rt_cuda_engine_run(x, g, l, x->stream), error = api->capture_end(x->stream, graph);
    if (!ran && !rt_cuda_is_fatal(error)) error = 0;
    if ((!ran || error) && *graph) {
        api->graph_destroy(*graph);
        *graph = NULL;
    }
    return rt_cuda_check(api, lost, error, "capture", e);
}

yolort_status rt_cuda_engine_graph(struct cuda_engines *x, struct cuda_engine *g, const struct rt_launch *l, void **graph, atomic_int *lost,
                                   const struct rt_error *e)
{
    *graph = NULL;
    yolort_status s = capture(x, g, l, graph, lost, e);
    if (!*graph) g->plan = NULL;
    return s;
}
