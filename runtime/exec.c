#include "cpucount.h"
#include "object.h"
#include "opts.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_THREADS = 1024,
    MAX_THREADS_A_CORE = 4, /* no more than those are started */
    SPIN_US = 50, /* a run of yolov8n on two threads: 28.8 ms with 0, 28.0 with 5, 27.2 with 20, 26.7 with 50 and with 200 */
    MAX_SPIN_US = 1000000,
    MAX_DEVICE = 1023,
    MAX_TIMED = 10000, /* runs; each takes an event */
    GRAPH_BITS = YOLORT_GRAPH_OFF | YOLORT_GRAPH_CHAIN | YOLORT_GRAPH_FULL_EDGES,
};

static int is_context(const yolort_context *c)
{
    return RT_HOLDS(HANDLE_CONTEXT, c && c->kind == RT_CONTEXT_KIND);
}

struct rt_error rt_context_error(yolort_context *c)
{
    return (struct rt_error){c->error, sizeof c->error};
}

static void destroy(yolort_context *c)
{
    rt_pool_free(c->pool);
    for (size_t i = 0; i < YM_MAX_IO; i++) rt_hold_drop(c, i);
    rt_host_drop_all(c);
    if (c->session) rt_service_free(c);
    if (c->session) c->m->dev->own->close(c->session);
    rt_detector_free(&c->detect);
    rt_block_free(&c->arena);
    rt_block_free(&c->scratch);
    free(c->arg);
    free(c->ms);
    rt_module_drop(c->m);
    c->kind = 0;
    free(c);
}

yolort_status rt_context_enter(yolort_context *c)
{
    int idle = RT_IDLE;
    if (!is_context(c)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_BUSY, atomic_compare_exchange_strong(&c->state, &idle, RT_BUSY))) return YOLORT_BUSY;
    c->error[0] = 0;
    return YOLORT_OK;
}

yolort_status rt_context_leave(yolort_context *c, yolort_status s)
{
    int busy = RT_BUSY;
    if (!atomic_compare_exchange_strong(&c->state, &busy, RT_IDLE)) destroy(c);
    return s;
}

void yolort_context_free(yolort_context *c)
{
    if (!is_context(c)) return;
    if (atomic_exchange(&c->state, RT_DOOMED) == RT_IDLE) destroy(c);
}

void yolort_context_opts_init(yolort_context_opts *o, size_t size)
{
    const yolort_context_opts own = {.size = sizeof own};
    rt_opts_init(o, size, &own, sizeof own);
}

int yolort_cpu_threads(void)
{
    int cores = rt_cpu_count();
    return cores < MAX_THREADS ? cores : MAX_THREADS;
}

static int thread_count(int wanted)
{
    if (wanted == 1) return 1;
    int cores = yolort_cpu_threads(), most = MAX_THREADS_A_CORE * cores;
    return !wanted ? cores : wanted < most ? wanted : most;
}

static yolort_status read_opts(yolort_context_opts *own, const yolort_context_opts *opts)
{
    yolort_context_opts_init(own, sizeof *own);
    if (opts && rt_opts_read(own, sizeof *own, opts)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_THREADS, own->threads >= 0 && own->threads <= MAX_THREADS)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_SPIN, own->spin_us >= -1 && own->spin_us <= MAX_SPIN_US)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_DEVICE, own->device >= 0 && own->device <= MAX_DEVICE)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_GRAPH, !(own->graph & ~GRAPH_BITS))) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_ENGINES, !(own->no_engines & ~1))) return YOLORT_ARG;
    own->threads = thread_count(own->threads);
    if (!own->spin_us) own->spin_us = SPIN_US;
    return YOLORT_OK;
}

/* What does not depend on bindings; the others stay NULL. */
static void wire_fixed(yolort_context *c)
{
    const struct rt_tables *t = &c->m->t;
    for (uint32_t i = 0; i < t->narg; i++) {
        const struct ym_arg *a = &t->arg[i];
        if (a->slot == YM_SLOT_ARENA) c->arg[i] = c->memory.arena + a->offset;
        if (a->slot == YM_SLOT_CONSTANT) c->arg[i] = c->memory.constants + a->offset;
    }
}

static yolort_status allocate_host(yolort_context *c, int spin_us)
{
    const struct rt_tables *t = &c->m->t;
    /* Two lines apart, so that no prefetch of one thread takes lines from the next. */
    c->scratch_stride = (size_t)rt_align(t->target->scratch_size, 2 * RT_LINE);
    if (rt_block_new(&c->arena, t->target->arena_size, c->guard)) return YOLORT_OOM_HOST;
    if (rt_block_new(&c->scratch, (uint64_t)c->scratch_stride * (uint64_t)c->threads, c->guard))
        return YOLORT_OOM_HOST;
    c->pool = rt_pool_new(c->threads, spin_us > 0 ? spin_us : 0);
    c->memory.arena = c->arena.data;
    c->memory.constants = (uint8_t *)(uintptr_t)t->constants.data;
    return c->pool ? YOLORT_OK : YOLORT_OOM_HOST;
}

static yolort_status allocate(yolort_context *c, const yolort_context_opts *own)
{
    const struct rt_dev *dev = c->m->dev;
    const struct rt_tables *t = &c->m->t;
    struct rt_error e = rt_context_error(c);
    c->arg = calloc((size_t)t->narg + 1, sizeof *c->arg);
    c->ms = calloc((size_t)t->nstep + 1, sizeof *c->ms);
    if (!c->arg || !c->ms) return YOLORT_OOM_HOST;
    if (dev->own) return dev->own->open(&c->session, &c->m->code, own, t, &c->memory, &e);
    return allocate_host(c, own->spin_us);
}

yolort_status yolort_context_new(yolort_context **out, yolort_module *m, const yolort_context_opts *opts)
{
    yolort_context_opts own;
    if (!RT_HOLDS(CTX_NULL, out && yolort_module_info(m))) return YOLORT_ARG;
    RT_TRY(read_opts(&own, opts));
    if (!RT_HOLDS(CTX_LOOK, m->dev)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_DEVICE, own.device == 0 || m->dev->own)) return YOLORT_ARG;
    if (!RT_HOLDS(CTX_MEMORY_CPU, !own.memory || m->dev->own)) return YOLORT_ARG;
    yolort_context *c = calloc(1, sizeof *c);
    if (!c) return YOLORT_OOM_HOST;
    c->kind = RT_CONTEXT_KIND;
    atomic_init(&c->state, RT_IDLE);
    c->owner = getpid();
    c->m = m;
    c->threads = m->dev->own ? 1 : own.threads;
    c->guard = own.guard;
    rt_module_keep(m);
    yolort_status s = allocate(c, &own);
    if (s) {
        destroy(c);
        return s;
    }
    wire_fixed(c);
    *out = c;
    return YOLORT_OK;
}

int rt_is_picture(const yolort_module *m, size_t io)
{
    return !(m->t.io[io].flags & (YM_IO_OUTPUT | YM_IO_BESIDE));
}

static void unbind(yolort_context *c, size_t io)
{
    rt_hold_drop(c, io);
    c->bound.io[io] = (struct rt_binding){NULL, 0, 0};
}

yolort_status rt_bind(yolort_context *c, size_t io, void *data, size_t bytes)
{
    struct rt_error e = rt_context_error(c);
    RT_CHECK(&e, ARG, BIND_IO, io < c->m->t.nio, "bind: io %zu of %u", io, c->m->t.nio);
    const yolort_io *d = &c->m->io[io];
    size_t align = rt_dtype_size((uint32_t)d->dtype);
    RT_CHECK(&e, ARG, BIND_BYTES, !data || bytes >= d->bytes_per_image,
             "bind: %s: %zu bytes, an image has %zu", d->name, bytes, d->bytes_per_image);
    RT_CHECK(&e, ARG, BIND_ALIGN, (uintptr_t)data % align == 0, "bind: %s: address is no multiple of %zu",
             d->name, align);
    int on_device = 0;
    if (data && c->session) RT_TRY(c->m->dev->own->locate(c->session, data, &on_device, &e));
    RT_CHECK(&e, ARG, BIND_ALIGN_DEVICE, on_device < 1 || (uintptr_t)data % (1u << YM_MOST_ALIGN) == 0,
             "bind: %s: device address is no multiple of %u", d->name, 1u << YM_MOST_ALIGN);
    RT_CHECK(&e, ARG, BIND_DEVICE, on_device >= 0, "bind: %s: memory of another device", d->name);
    for (size_t i = 0; data && rt_is_picture(c->m, io) && i < c->m->t.nio; i++)
        if (rt_is_picture(c->m, i)) unbind(c, i);
    unbind(c, io);
    c->bound.io[io] = (struct rt_binding){data, data ? bytes : 0, on_device};
    c->wired = NULL;
    return YOLORT_OK;
}

yolort_status yolort_bind(yolort_context *c, size_t io, void *data, size_t bytes)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, rt_bind(c, io, data, bytes));
}

static int overlap(const struct rt_binding *a, size_t a_bytes, const struct rt_binding *b, size_t b_bytes)
{
    uintptr_t p = (uintptr_t)a->data, q = (uintptr_t)b->data;
    return p < q + b_bytes && q < p + a_bytes;
}

/* Output i against every bound io before it, and every input. */
static yolort_status check_apart(yolort_context *c, const struct rt_bindings *b, size_t i, size_t batch,
                                 const struct rt_error *e)
{
    const yolort_io *io = c->m->io;
    for (size_t k = 0; k < c->m->t.nio; k++) {
        if (!b->io[k].data || k == i || (k > i && io[k].is_output)) continue;
        RT_CHECK(e, ARG, RUN_APART,
                 !overlap(&b->io[i], io[i].bytes_per_image * batch, &b->io[k], io[k].bytes_per_image * batch),
                 "run: %s and %s overlap", io[i].name, io[k].name);
    }
    return YOLORT_OK;
}

/* in, out: what is bound. */
static yolort_status check_bound(yolort_context *c, const struct rt_bindings *b, size_t batch, uint64_t in[2],
                                 uint64_t out[2], const struct rt_error *e)
{
    const yolort_io *io = c->m->io;
    int pictures = 0;
    for (uint32_t i = 0; i < c->m->t.nio; i++) {
        RT_CHECK(e, ARG, RUN_BESIDE, b->io[i].data || io[i].is_output || rt_is_picture(c->m, i),
                 "run: %s is not bound", io[i].name);
        if (!b->io[i].data) continue;
        pictures += rt_is_picture(c->m, i);
        RT_CHECK(e, ARG, RUN_BYTES, b->io[i].bytes / batch >= io[i].bytes_per_image,
                 "run: %s: %zu bytes, %zu images have %zu", io[i].name, b->io[i].bytes, batch,
                 io[i].bytes_per_image * batch);
        rt_mask_set(io[i].is_output ? out : in, i);
        if (io[i].is_output) RT_TRY(check_apart(c, b, i, batch, e));
    }
    RT_CHECK(e, ARG, RUN_INPUT, pictures, "run: no input is bound");
    RT_CHECK(e, ARG, RUN_OUTPUT, out[0] | out[1], "run: no output is bound");
    return YOLORT_OK;
}

static void wire(yolort_context *c, const struct rt_bindings *b)
{
    const struct rt_tables *t = &c->m->t;
    if (c->wired == b) return;
    for (uint32_t i = 0; i < t->narg; i++) {
        const struct ym_arg *a = &t->arg[i];
        if (a->slot != YM_SLOT_IO) continue;
        const struct rt_binding *at = &b->io[a->io];
        uint8_t *data = at->data && !at->on_device && c->memory.io[a->io] ? c->memory.io[a->io] : at->data;
        c->arg[i] = data ? data + a->offset : NULL;
    }
    c->wired = b;
}

/* Host memory that is bound, to the device (output 0) or from it (1). */
static yolort_status copy_bound(yolort_context *c, const struct rt_bindings *b, int batch, int output, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    for (uint32_t i = 0; i < c->m->t.nio; i++) {
        const struct rt_binding *at = &b->io[i];
        size_t bytes = c->m->io[i].bytes_per_image * (size_t)batch;
        if (!at->data || at->on_device || !!c->m->io[i].is_output != output) continue;
        RT_TRY(output ? own->get(c->session, at->data, c->memory.io[i], bytes, e)
                      : own->put(c->session, c->memory.io[i], at->data, bytes, e));
    }
    return YOLORT_OK;
}

static yolort_status run_inside(yolort_context *c, const struct rt_bindings *b, int batch, const uint64_t in[2],
                                const uint64_t out[2], const struct rt_error *e)
{
    if (c->guard) RT_TRY(c->m->dev->own->poison(c->session, e));
    RT_TRY(copy_bound(c, b, batch, 0, e));
    RT_TRY(rt_steps_run(c, batch, in, out, e));
    return copy_bound(c, b, batch, 1, e);
}

static yolort_status run_on_device(yolort_context *c, const struct rt_bindings *b, int batch, const uint64_t in[2],
                                   const uint64_t out[2], void *stream, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->begin(c->session, stream, e));
    yolort_status s = run_inside(c, b, batch, in, out, e), end = own->end(c->session, s ? NULL : e);
    return s ? s : end;
}

/* What is bound is fit for a run, and wired. */
static yolort_status make_ready(yolort_context *c, const struct rt_bindings *b, int batch, uint64_t in[2], uint64_t out[2])
{
    struct rt_error e = rt_context_error(c);
    RT_CHECK(&e, ARG, RUN_BATCH, batch >= 1 && batch <= c->m->t.target->max_batch, "run: batch %d of at most %d",
             batch, c->m->t.target->max_batch);
    RT_CHECK(&e, ARG, RUN_FORK, c->owner == getpid(), "run: the context was made before a fork");
    RT_TRY(check_bound(c, b, (size_t)batch, in, out, &e));
    c->detect.protos = 0;
    wire(c, b);
    return YOLORT_OK;
}

static yolort_status run_here(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e)
{
    if (c->guard) rt_block_poison(&c->arena);
    return rt_steps_run(c, batch, in, out, e);
}

yolort_status rt_context_run(yolort_context *c, const struct rt_bindings *b, int batch, void *stream)
{
    struct rt_error e = rt_context_error(c);
    uint64_t in[2] = {0, 0}, out[2] = {0, 0};
    RT_TRY(make_ready(c, b, batch, in, out));
    if (c->session) return run_on_device(c, b, batch, in, out, stream, &e);
    return run_here(c, batch, in, out, &e);
}

yolort_status rt_context_wait(yolort_context *c)
{
    struct rt_error e = rt_context_error(c);
    return c->session ? c->m->dev->own->wait(c->session, &e) : YOLORT_OK;
}

static yolort_status run(yolort_context *c, int batch, void *stream)
{
    struct rt_error e = rt_context_error(c);
    RT_CHECK(&e, ARG, RUN_STREAM, !stream || c->session, "run: a CPU module takes no stream");
    return rt_context_run(c, &c->bound, batch, stream);
}

yolort_status yolort_run(yolort_context *c, int batch, void *stream)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, run(c, batch, stream));
}

/* Between begin and end. */
static yolort_status run_marked(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], int runs, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->mark(c->session, 0, e));
    for (int i = 0; i < runs; i++) {
        RT_TRY(run_inside(c, &c->bound, batch, in, out, e));
        RT_TRY(own->mark(c->session, i + 1, e));
    }
    RT_TRY(own->settle(c->session, e));
    return YOLORT_OK;
}

static yolort_status time_on_device(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], void *stream, int runs,
                                    double *ms, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->begin(c->session, stream, e));
    yolort_status s = run_marked(c, batch, in, out, runs, e);
    for (int i = 0; i < runs && !s; i++) s = own->between(c->session, i, &ms[i], e);
    yolort_status end = own->end(c->session, s ? NULL : e);
    return s ? s : end;
}

static yolort_status time_runs(yolort_context *c, int batch, void *stream, int runs, double *ms)
{
    struct rt_error e = rt_context_error(c);
    uint64_t in[2] = {0, 0}, out[2] = {0, 0};
    RT_CHECK(&e, ARG, RUN_STREAM, !stream || c->session, "run: a CPU module takes no stream");
    RT_CHECK(&e, ARG, TIME_RUNS, ms && runs >= 1 && runs <= MAX_TIMED, "time: %d runs, or no room for them", runs);
    RT_TRY(make_ready(c, &c->bound, batch, in, out));
    if (c->session) return time_on_device(c, batch, in, out, stream, runs, ms, &e);
    for (int i = 0; i < runs; i++) {
        double start = rt_now_ms();
        RT_TRY(run_here(c, batch, in, out, &e));
        ms[i] = rt_now_ms() - start;
    }
    return YOLORT_OK;
}

yolort_status yolort_time(yolort_context *c, int batch, void *stream, int runs, double *ms)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, time_runs(c, batch, stream, runs, ms));
}

/* CPU work is done when yolort_run returns; then only a context inside another call is to be told. */
yolort_status yolort_wait(yolort_context *c)
{
    if (!is_context(c)) return YOLORT_ARG;
    if (!c->session) return atomic_load(&c->state) == RT_IDLE ? YOLORT_OK : YOLORT_BUSY;
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, rt_context_wait(c));
}

const char *yolort_error(const yolort_context *c)
{
    return is_context(c) ? c->error : "";
}

/* A copy of the device's arena, taken now. */
static yolort_status mirror_arena(yolort_context *c)
{
    const struct rt_own_memory *own = c->m->dev->own;
    struct rt_error e = rt_context_error(c);
    if (!c->arena.data && rt_block_new(&c->arena, c->m->t.target->arena_size, 0)) return YOLORT_OOM_HOST;
    RT_TRY(own->begin(c->session, NULL, &e));
    yolort_status s = own->get(c->session, c->arena.data, c->memory.arena, c->m->t.target->arena_size, &e);
    if (!s) s = own->settle(c->session, &e);
    yolort_status end = own->end(c->session, s ? NULL : &e);
    return s ? s : end;
}

void *yolort_arena(yolort_context *c, size_t *bytes)
{
    if (bytes) *bytes = 0;
    if (!is_context(c)) return NULL;
    if (c->session && mirror_arena(c)) return NULL;
    if (bytes) *bytes = c->arena.size;
    return c->arena.data;
}

int yolort_threads(const yolort_context *c)
{
    return is_context(c) ? c->threads : 0;
}

yolort_status yolort_profile(yolort_context *c, int what)
{
    RT_TRY(rt_context_enter(c));
    c->profile = what & YOLORT_STEPS ? what & (YOLORT_STEPS | YOLORT_STEPS_ALONE) : 0;
    c->parts = what & YOLORT_PARTS;
    return rt_context_leave(c, YOLORT_OK);
}

int yolort_step_engine(const yolort_context *c, size_t i)
{
    if (!is_context(c) || i >= c->m->t.nstep || !rt_engine_of(&c->m->t, (uint32_t)i)) return 0;
    return c->session && c->m->dev->own->engine(c->session, (uint32_t)i) ? 1 : -1;
}

yolort_status yolort_step_at(const yolort_context *c, size_t i, yolort_step *out)
{
    if (!is_context(c)) return YOLORT_ARG;
    const struct rt_tables *t = &c->m->t;
    RT_TRY(yolort_module_step(c->m, i, out));
    if (yolort_step_engine(c, i) > 0) out->kernel = t->strings + rt_engine_of(t, (uint32_t)i)->name;
    out->ms = c->ms[i];
    return YOLORT_OK;
}
