/* NVIDIA GPUs through the CUDA driver. */
#include "block.h"
#include "cuda_graph.h"
#include "cuda_guard.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARENA_ALIGN = 256,
    IO_ALIGN = 256,           /* bytes between inputs and outputs in device memory */
    DEVICE_MEMORY = 2,        /* CU_MEMORYTYPE_DEVICE */
    MEMORY_TYPE = 2,          /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
    DEVICE_ORDINAL = 9,       /* CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
    HOST_MEMORY = 1,          /* CU_MEMORYTYPE_HOST */
    EVENT_WITHOUT_TIMING = 2, /* CU_EVENT_DISABLE_TIMING */
    PORTABLE = 1,             /* CU_MEMHOSTALLOC_PORTABLE: pinned for all devices */
    GATE_OPEN = 1,
    WAIT_EQUAL = 1,           /* CU_STREAM_WAIT_VALUE_EQ */
    CAPTURE_ACTIVE = 1,       /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
};

/* A context's part. */
struct session {
    struct cuda_program *p;
    struct cuda_placed *at;
    struct cuda_device *device; /* at's */
    uint64_t arena, own_arena, io; /* device memory; io: of all inputs and outputs */
    size_t arena_size;
    void *stream, *done; /* of the run that goes on or went before; event behind it */
    int pending;         /* done was recorded */
    int guarded;
    struct cuda_guard guard;
    void **mark;         /* events, made when first needed */
    int nmark;
    uint32_t *gate;      /* pinned: the stream that is held waits for GATE_OPEN; NULL: none yet */
    int captured;        /* the caller captures the stream: what is put on it does not run now */
    struct cuda_graphs graphs;
    struct cuda_engines *engines; /* NULL: none */
};

/* --- errors ------------------------------------------------------------------------------------------------- */

static yolort_status check(const struct session *s, int error, const char *what, const struct rt_error *e)
{
    return rt_cuda_device_check(s->device, error, what, e);
}

static yolort_status still_there(const struct session *s, const struct rt_error *e)
{
    int error = atomic_load(&s->device->lost);
    return error ? rt_fail(e, YOLORT_DEVICE_LOST, "the device was lost by an earlier error (%d)", error) : YOLORT_OK;
}

static void leave(const struct cuda_program *p)
{
    void *old;
    p->api.pop(&old);
}

/* --- contexts ----------------------------------------------------------------------------------------------- */

static void cuda_close(void *session)
{
    struct session *s = session;
    const struct cuda_api *api = &s->p->api;
    if (!api->push(s->device->context)) {
        if (s->pending) api->event_sync(s->done);
        rt_cuda_graphs_free(&s->graphs);
        rt_cuda_engines_close(s->engines);
        if (s->done) api->event_destroy(s->done);
        for (int i = 0; i < s->nmark; i++) api->event_destroy(s->mark[i]);
        if (s->gate) api->host_free(s->gate);
        leave(s->p);
    }
    rt_cuda_pool_free(s->device, s->own_arena);
    rt_cuda_pool_free(s->device, s->io);
    rt_cuda_leave_placed(s->p, s->at);
    free(s->mark);
    free(s);
}

static uint64_t io_room(const struct rt_tables *t, uint32_t i)
{
    return rt_align(rt_io_bytes(&t->io[i]) * (uint64_t)t->target->max_batch, IO_ALIGN);
}

static void add_band(struct session *s, uint64_t at)
{
    if (s->guarded) s->guard.band[s->guard.n++] = at;
}

static yolort_status locate(struct session *s, const void *pointer, int *where, const struct rt_error *e);

static yolort_status take_arena(struct session *s, const yolort_context_opts *o, const struct rt_error *e)
{
    uint64_t band = s->guarded ? CUDA_BAND : 0;
    int where = 1;
    s->arena_size = (size_t)s->p->t->target->arena_size;
    if (o->memory) {
        RT_TRY(locate(s, o->memory, &where, e));
        RT_CHECK(e, ARG, CTX_MEMORY, where == 1 && (uintptr_t)o->memory % ARENA_ALIGN == 0 && o->memory_bytes >= s->arena_size,
                 "memory of another device, too small, or not aligned");
        s->arena = (uint64_t)(uintptr_t)o->memory;
        return YOLORT_OK;
    }
    if (!s->arena_size) return YOLORT_OK;
    RT_TRY(rt_cuda_pool_alloc(s->device, &s->own_arena, s->arena_size + 2 * band, "memory of a context", e));
    s->arena = s->own_arena + band;
    add_band(s, s->own_arena);
    add_band(s, s->arena + s->arena_size);
    return YOLORT_OK;
}

static yolort_status take_io(struct session *s, struct rt_memory *out, const struct rt_error *e)
{
    const struct rt_tables *t = s->p->t;
    uint64_t band = s->guarded ? CUDA_BAND : 0, size = band;
    for (uint32_t i = 0; i < t->nio; i++) size += io_room(t, i) + band;
    RT_TRY(rt_cuda_pool_alloc(s->device, &s->io, size, "inputs and outputs", e));
    uint64_t at = s->io;
    for (uint32_t i = 0; i < t->nio; i++) {
        add_band(s, at);
        out->io[i] = (uint8_t *)(uintptr_t)(at + band);
        at += band + io_room(t, i);
    }
    add_band(s, at);
    return YOLORT_OK;
}

static yolort_status allocate(struct session *s, const yolort_context_opts *o, struct rt_memory *out, const struct rt_error *e)
{
    *out = (struct rt_memory){NULL, (uint8_t *)(uintptr_t)s->at->constants, {NULL}};
    RT_TRY(take_arena(s, o, e));
    RT_TRY(take_io(s, out, e));
    out->arena = (uint8_t *)(uintptr_t)s->arena;
    RT_TRY(check(s, s->p->api.event_create(&s->done, EVENT_WITHOUT_TIMING), "event", e));
    if (!o->no_engines) RT_TRY(rt_cuda_engines_open(&s->engines, &s->p->api, &s->device->lost, s->p->t, s->arena, s->at->constants, e));
    s->graphs.engines = s->engines;
    return s->guarded ? rt_cuda_guard_fill(&s->guard, s->device, e) : YOLORT_OK;
}

static int64_t count_blocks(const struct ym_kernel *k, int64_t total, int multiprocessors)
{
    int64_t blocks = (total - 1) / k->per_block + 1, most = (int64_t)k->most_blocks * multiprocessors;
    if (most && most < k->least_blocks) most = k->least_blocks;
    return most && blocks > most ? most : blocks;
}

/* cuTensorMapEncodeTiled's numbers: elements by their size, since only zeros are filled in. */
static yolort_status encode(const struct session *s, const struct ym_map *m, size_t element, void *address, struct cuda_map *out,
                            const struct rt_error *e)
{
    enum { UINT8 = 0, UINT16 = 1, UINT32 = 2, PLAIN = 0, L2_256 = 3, ZEROS = 0 };
    static const uint32_t each[YM_MAP_RANK] = {1, 1, 1, 1, 1};
    uint64_t dim[YM_MAP_RANK];
    for (uint32_t i = 0; i < YM_MAP_RANK; i++) dim[i] = m->dim[i];
    if (!s->p->api.tensor_map) return rt_fail(e, YOLORT_INCOMPATIBLE, "the driver is too old for this program");
    int error = s->p->api.tensor_map(out, element == 1 ? UINT8 : element == 2 ? UINT16 : UINT32, m->rank, address, dim, m->stride,
                                     m->box, each, PLAIN, (int)m->swizzle, L2_256, ZEROS);
    return check(s, error, "map of memory", e);
}

static yolort_status encode_maps(const struct session *s, const struct rt_launch *l, struct cuda_call *out, const struct rt_error *e)
{
    const struct rt_tables *t = s->p->t;
    const struct ym_kernel *k = &t->kernel[l->kernel];
    for (uint32_t i = 0; i < k->nmap; i++) {
        const struct ym_map *m = &t->map[k->first_map + i];
        size_t element = rt_dtype_size(t->param[k->first_param + m->param].dtype);
        RT_TRY(encode(s, m, element, l->arg[m->param], &out->map[i], e));
        out->parameter[l->narg + 1 + i] = &out->map[i];
    }
    return YOLORT_OK;
}

/* cuLaunchKernel's parameters of a step. */
static yolort_status cuda_describe(void *session, const struct rt_launch *l, struct cuda_call *out, const struct rt_error *e)
{
    struct session *s = session;
    const struct ym_kernel *k = &s->p->t->kernel[l->kernel];
    int64_t blocks = count_blocks(k, l->total, s->at->multiprocessors);
    if (blocks > INT_MAX) return rt_fail(e, YOLORT_LIMIT, "%s: too many units for a GPU", l->name);
    out->kernel = (struct cuda_kernel){
        .function = s->at->function[l->kernel],
        .grid = {(unsigned)blocks, 1, 1},
        .block = {k->threads, 1, 1},
        .shared = k->shared,
        .parameter = out->parameter,
    };
    out->total = l->total;
    for (uint32_t i = 0; i < l->narg; i++) out->parameter[i] = (void *)(uintptr_t)&l->arg[i];
    out->parameter[l->narg] = &out->total;
    return encode_maps(s, l, out, e);
}

static yolort_status cuda_open(void **session, const struct rt_code *code, const yolort_context_opts *o, const struct rt_tables *t,
                               struct rt_memory *out, const struct rt_error *e)
{
    struct cuda_program *p = code->own;
    struct cuda_placed *at;
    RT_TRY(rt_cuda_enter_placed(p, o->device, &at, e));
    struct session *s = calloc(1, sizeof *s);
    if (!s) {
        rt_cuda_leave_placed(p, at);
        return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    }
    s->p = p;
    s->at = at;
    s->device = at->device;
    s->guarded = o->guard;
    s->graphs = (struct cuda_graphs){.api = &p->api, .t = t, .lost = &at->device->lost, .user = s, .describe = cuda_describe, .mode = o->graph};
    yolort_status r = check(s, p->api.push(at->device->context), "context", e);
    if (!r) {
        r = allocate(s, o, out, e);
        leave(p);
    }
    if (r)
        cuda_close(s);
    else
        *session = s;
    return r;
}

/* The device's context is current. */
static yolort_status locate(struct session *s, const void *pointer, int *where, const struct rt_error *e)
{
    unsigned type = 0;
    int ordinal = -1;
    const int attribute[] = {MEMORY_TYPE, DEVICE_ORDINAL};
    void *value[] = {&type, &ordinal};
    int error = s->p->api.pointer_attributes(2, attribute, value, (uint64_t)(uintptr_t)pointer);
    *where = type != DEVICE_MEMORY ? 0 : ordinal == s->device->ordinal ? 1 : -1;
    return check(s, error, "where memory lies", e);
}

static yolort_status cuda_locate(void *session, const void *pointer, int *where, const struct rt_error *e)
{
    struct session *s = session;
    RT_TRY(still_there(s, e));
    RT_TRY(check(s, s->p->api.push(s->device->context), "context", e));
    yolort_status r = locate(s, pointer, where, e);
    leave(s->p);
    return r;
}

struct shared {
    struct rt_shared head;
    struct cuda_device *device;
};

/* What others put on their streams may still use the memory. */
static void drop_shared(struct rt_shared *shared)
{
    struct shared *s = (struct shared *)shared;
    void *old;
    if (!s->device->api.push(s->device->context)) {
        s->device->api.context_sync();
        s->device->api.pop(&old);
    }
    rt_cuda_pool_free(s->device, (uint64_t)(uintptr_t)s->head.data);
    rt_cuda_device_drop(s->device);
    free(s);
}

static yolort_status cuda_share(void *session, size_t bytes, struct rt_shared **out, const struct rt_error *e)
{
    struct session *s = session;
    uint64_t at;
    RT_TRY(still_there(s, e));
    struct shared *x = calloc(1, sizeof *x);
    if (!x) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    yolort_status r = rt_cuda_pool_alloc(s->device, &at, bytes, "output", e);
    if (r) {
        free(x);
        return r;
    }
    rt_cuda_device_keep(s->device);
    x->device = s->device;
    x->head = (struct rt_shared){.data = (void *)(uintptr_t)at, .on_device = 1, .ordinal = s->device->ordinal, .drop = drop_shared};
    atomic_init(&x->head.refs, 1);
    *out = &x->head;
    return YOLORT_OK;
}

static int is_captured(const struct session *s, void *stream, int *error)
{
    int status = 0;
    *error = s->p->api.stream_capturing(stream, &status);
    return !*error && status == CAPTURE_ACTIVE;
}

/* A run waits for the one before it, which may be on another stream: they share the arena. What is captured can't wait for what
 * is not. */
static yolort_status cuda_begin(void *session, void *stream, const struct rt_error *e)
{
    struct session *s = session;
    int error;
    RT_TRY(still_there(s, e));
    RT_TRY(check(s, s->p->api.push(s->device->context), "context", e));
    s->captured = is_captured(s, stream, &error);
    if (!error && s->pending && !s->captured) error = s->p->api.stream_wait_event(stream, s->done, 0);
    s->stream = stream;
    if (!error) return YOLORT_OK;
    leave(s->p);
    return check(s, error, "run", e);
}

static yolort_status cuda_end(void *session, const struct rt_error *e)
{
    struct session *s = session;
    yolort_status r = still_there(s, e);
    if (!r && !s->captured) r = check(s, s->p->api.event_record(s->done, s->stream), "run", e);
    if (!r && !s->captured) s->pending = 1;
    leave(s->p);
    return r;
}

static yolort_status cuda_poison(void *session, const struct rt_error *e)
{
    struct session *s = session;
    if (!s->arena) return YOLORT_OK;
    return check(s, s->p->api.fill(s->arena, 0xff, s->arena_size, s->stream), "arena", e);
}

static yolort_status cuda_put(void *session, uint8_t *to, const void *from, size_t bytes, const struct rt_error *e)
{
    struct session *s = session;
    return check(s, s->p->api.copy_in((uint64_t)(uintptr_t)to, from, bytes, s->stream), "input", e);
}

static yolort_status cuda_get(void *session, void *to, const uint8_t *from, size_t bytes, const struct rt_error *e)
{
    struct session *s = session;
    if (!bytes) return YOLORT_OK;
    return check(s, s->p->api.copy_out(to, (uint64_t)(uintptr_t)from, bytes, s->stream), "output", e);
}

static yolort_status cuda_settle(void *session, const struct rt_error *e)
{
    struct session *s = session;
    return check(s, s->p->api.stream_sync(s->stream), "run", e);
}

static yolort_status cuda_wait(void *session, const struct rt_error *e)
{
    struct session *s = session;
    RT_TRY(still_there(s, e));
    if (!s->pending) return YOLORT_OK;
    RT_TRY(check(s, s->p->api.push(s->device->context), "context", e));
    yolort_status r = check(s, s->p->api.event_sync(s->done), "run", e);
    if (!r && s->guarded) r = rt_cuda_guard_check(&s->guard, s->p, s->at, e);
    leave(s->p);
    return r;
}

/* done 0: the step's kernel has to do it. What cuDNN calls a failed run may be the end of the device, as the driver says at the next
 * call. */
static yolort_status launch_engine(struct session *s, const struct rt_launch *l, int *done, const struct rt_error *e)
{
    struct cuda_engine *by = rt_cuda_engine_of(s->engines, l);
    *done = by && rt_cuda_engine_run(s->engines, by, l, s->stream);
    if (!by || *done || s->captured) return YOLORT_OK;
    return check(s, s->p->api.event_record(s->done, s->stream), l->name, e);
}

static int cuda_engine(void *session, uint32_t step)
{
    const struct session *s = session;
    const struct ym_engine *row = s->engines ? rt_engine_of(s->p->t, step) : NULL;
    return row && s->engines->engine[row - s->p->t->engine].plan;
}

static yolort_status cuda_launch(const struct rt_launch *l, int32_t *stray, const struct rt_error *e)
{
    struct session *s = l->session;
    struct cuda_call call;
    int done;
    *stray = 0;
    RT_TRY(launch_engine(s, l, &done, e));
    if (done) return YOLORT_OK;
    RT_TRY(cuda_describe(s, l, &call, e));
    const struct cuda_kernel *k = &call.kernel;
    int error = s->p->api.launch(k->function, k->grid[0], k->grid[1], k->grid[2], k->block[0], k->block[1], k->block[2], k->shared,
                                 s->stream, k->parameter, k->extra);
    return check(s, error, l->name, e);
}

/* --- times -------------------------------------------------------------------------------------------------- */

/* Events 0 .. i are there. */
static yolort_status make_marks(struct session *s, int i, const struct rt_error *e)
{
    if (i < s->nmark) return YOLORT_OK;
    void **more = realloc(s->mark, ((size_t)i + 1) * sizeof *more);
    if (!more) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    s->mark = more;
    for (; s->nmark <= i; s->nmark++) RT_TRY(check(s, s->p->api.event_create(&s->mark[s->nmark], 0), "event", e));
    return YOLORT_OK;
}

static yolort_status cuda_mark(void *session, int i, const struct rt_error *e)
{
    struct session *s = session;
    RT_TRY(make_marks(s, i, e));
    return check(s, s->p->api.event_record(s->mark[i], s->stream), "event", e);
}

static yolort_status cuda_between(void *session, int i, double *ms, const struct rt_error *e)
{
    struct session *s = session;
    float v = 0;
    RT_TRY(check(s, s->p->api.event_elapsed(&v, s->mark[i], s->mark[i + 1]), "event", e));
    *ms = (double)v;
    return YOLORT_OK;
}

/* With unified addresses, which every driver of 64 bits has, pinned memory has the same address on the device. */
static yolort_status cuda_hold(void *session, int on, const struct rt_error *e)
{
    struct session *s = session;
    const struct cuda_api *api = &s->p->api;
    if (!on && s->gate) __atomic_store_n(s->gate, GATE_OPEN, __ATOMIC_RELEASE);
    if (!on || !api->stream_wait_value || s->captured) return YOLORT_OK;
    void *gate = s->gate;
    if (!gate) RT_TRY(check(s, api->host_alloc(&gate, sizeof *s->gate, 0), "pinned memory", e));
    s->gate = gate;
    *s->gate = 0;
    yolort_status r = check(s, api->stream_wait_value(s->stream, (uint64_t)(uintptr_t)gate, GATE_OPEN, WAIT_EQUAL), "profile", e);
    if (r != YOLORT_UNSUPPORTED) return r;
    if (e && e->size) e->text[0] = 0;
    return YOLORT_OK;
}

/* --- before and after the network --------------------------------------------------------------------------- */

static int cuda_has_service(void *session)
{
    const struct session *s = session;
    return s->at->service_module != NULL;
}

static yolort_status cuda_serve(void *session, int kernel, int64_t blocks, const void *call, const struct rt_error *e)
{
    static const struct {
        const char *name;
        unsigned threads;
    } row[] = {
#define X(number, name, threads) {#name, threads},
        YM_SERVICES(X)
#undef X
    };
    struct session *s = session;
    void *parameter[] = {(void *)(uintptr_t)call};
    if (blocks > INT_MAX) return rt_fail(e, YOLORT_LIMIT, "%s: too many blocks for a GPU", row[kernel].name);
    int error =
        s->p->api.launch(s->at->service[kernel], (unsigned)blocks, 1, 1, row[kernel].threads, 1, 1, 0, s->stream, parameter, NULL);
    return check(s, error, row[kernel].name, e);
}

static yolort_status cuda_put_rows(void *session, uint8_t *to, const void *from, size_t row_bytes, size_t pitch, size_t rows,
                                   const struct rt_error *e)
{
    struct session *s = session;
    const struct cuda_rows copy = {.from = {.kind = HOST_MEMORY, .host = from, .pitch = pitch},
                                   .to = {.kind = DEVICE_MEMORY, .device = (uint64_t)(uintptr_t)to, .pitch = row_bytes},
                                   .row_bytes = row_bytes,
                                   .rows = rows};
    return check(s, s->p->api.copy_rows(&copy, s->stream), "picture", e);
}

static yolort_status cuda_clear(void *session, uint8_t *at, size_t bytes, const struct rt_error *e)
{
    struct session *s = session;
    return check(s, s->p->api.fill((uint64_t)(uintptr_t)at, 0, bytes, s->stream), "counts", e);
}

static yolort_status cuda_take(void *session, int pinned, size_t bytes, uint8_t **out, const struct rt_error *e)
{
    struct session *s = session;
    uint64_t device = 0;
    void *host = NULL;
    RT_TRY(still_there(s, e));
    if (!pinned) {
        RT_TRY(rt_cuda_pool_alloc(s->device, &device, bytes, "memory", e));
        *out = (uint8_t *)(uintptr_t)device;
        return YOLORT_OK;
    }
    RT_TRY(check(s, s->p->api.push(s->device->context), "context", e));
    int error = s->p->api.host_alloc(&host, bytes, PORTABLE);
    leave(s->p);
    *out = host;
    return check(s, error, "pinned memory", e);
}

static yolort_status cuda_drop(void *session, int pinned, uint8_t *p, const struct rt_error *e)
{
    struct session *s = session;
    if (!pinned) rt_cuda_pool_free(s->device, (uint64_t)(uintptr_t)p);
    if (!pinned || !p) return YOLORT_OK;
    RT_TRY(check(s, s->p->api.push(s->device->context), "context", e));
    s->p->api.host_free(p);
    leave(s->p);
    return YOLORT_OK;
}

static const struct rt_service service = {
    .has = cuda_has_service,
    .serve = cuda_serve,
    .put_rows = cuda_put_rows,
    .clear = cuda_clear,
    .take = cuda_take,
    .drop = cuda_drop,
};

static yolort_status cuda_play(void *session, const struct rt_play *p, int *played, const struct rt_error *e)
{
    struct session *s = session;
    *played = 0;
    return s->captured ? YOLORT_OK : rt_cuda_graph_play(&s->graphs, p, s->stream, played, e);
}

static const struct rt_own_memory own = {
    .open = cuda_open,
    .close = cuda_close,
    .locate = cuda_locate,
    .share = cuda_share,
    .begin = cuda_begin,
    .poison = cuda_poison,
    .play = cuda_play,
    .put = cuda_put,
    .get = cuda_get,
    .settle = cuda_settle,
    .mark = cuda_mark,
    .between = cuda_between,
    .hold = cuda_hold,
    .engine = cuda_engine,
    .end = cuda_end,
    .wait = cuda_wait,
};

const struct rt_dev rt_dev_cuda = {
    .name = "cuda",
    .kind = YM_CUDA,
    .fits = rt_cuda_fits,
    .load = rt_cuda_program_load,
    .unload = rt_cuda_program_unload,
    .launch = cuda_launch,
    .service = &service,
    .own = &own,
};
