/* Memory of a GPU: addresses are reserved once, and memory is put behind them where something is to lie. */
#include "cuda_device.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    ALIGN = 512,                 /* of blocks */
    VIRTUAL_MEMORY = 102,        /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
    OUT_OF_MEMORY = 2,
    NOT_SUPPORTED = 801,
};
#define LARGE_HOLE (32ull << 20) /* the split limit: a hole of more bytes is not broken for less than an eighth of it */

/* CUmemAllocationProp of plain memory of a device, CUmemAccessDesc to read and write it. */
static struct cuda_memory_kind kind_of(const struct cuda_device *d)
{
    return (struct cuda_memory_kind){.type = 1, .at = {1, d->device}};
}

static struct cuda_access access_of(const struct cuda_device *d)
{
    return (struct cuda_access){.at = {1, d->device}, .flags = 3};
}

/* --- memory behind addresses ------------------------------------------------------------------------------------ */

static uint64_t up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

static void unmap(struct cuda_device *d, struct cuda_extent **at)
{
    struct cuda_extent *x = *at;
    *at = x->next;
    d->api.unmap(d->pool.base + x->begin, x->size);
    d->api.memory_release(x->handle);
    d->pool.mapped -= x->size;
    free(x);
}

static int back(struct cuda_device *d, struct cuda_extent *x)
{
    const struct cuda_api *api = &d->api;
    const struct cuda_memory_kind kind = kind_of(d);
    const struct cuda_access access = access_of(d);
    int error = api->memory_create(&x->handle, x->size, &kind, 0);
    if (error) return error;
    error = api->map(d->pool.base + x->begin, x->size, 0, x->handle, 0);
    if (!error) {
        error = api->set_access(d->pool.base + x->begin, x->size, &access, 1);
        if (!error) return 0;
        api->unmap(d->pool.base + x->begin, x->size);
    }
    api->memory_release(x->handle);
    return error;
}

/* In front of *at, which lies behind it; at becomes the place behind it. */
static int map_gap(struct cuda_device *d, struct cuda_extent ***at, uint64_t begin, uint64_t end)
{
    struct cuda_extent *x = malloc(sizeof *x);
    if (!x) return OUT_OF_MEMORY;
    *x = (struct cuda_extent){.next = **at, .begin = begin, .size = end - begin};
    int error = back(d, x);
    if (error) {
        free(x);
        return error;
    }
    d->pool.mapped += x->size;
    **at = x;
    *at = &x->next;
    return 0;
}

/* Puts memory behind all of [begin, end), whole granules of them. What was put there stays when not all can be. */
static int map_range(struct cuda_device *d, uint64_t begin, uint64_t end)
{
    uint64_t at = begin / d->pool.granule * d->pool.granule, to = up(end, d->pool.granule);
    struct cuda_extent **x = &d->pool.extent;
    while (at < to) {
        while (*x && (*x)->begin + (*x)->size <= at) x = &(*x)->next;
        if (*x && (*x)->begin <= at) {
            at = (*x)->begin + (*x)->size;
            continue;
        }
        uint64_t stop = *x && (*x)->begin < to ? (*x)->begin : to;
        int error = map_gap(d, &x, at, stop);
        if (error) return error;
        at = stop;
    }
    return 0;
}

/* Bytes of [begin, end) without memory. */
static uint64_t missing(const struct cuda_pool *p, uint64_t begin, uint64_t end)
{
    uint64_t n = end - begin;
    for (const struct cuda_extent *x = p->extent; x && x->begin < end; x = x->next) {
        uint64_t from = x->begin > begin ? x->begin : begin, to = x->begin + x->size < end ? x->begin + x->size : end;
        if (from < to) n -= to - from;
    }
    return n;
}

static int is_in_use(const struct cuda_pool *p, const struct cuda_extent *x)
{
    for (const struct cuda_block *b = p->first; b; b = b->next)
        if (b->used && b->begin < x->begin + x->size && x->begin < b->begin + b->size) return 1;
    return 0;
}

/* The pool's lock is held in all that follows, and the context is current. */
static void trim(struct cuda_device *d)
{
    for (struct cuda_extent **x = &d->pool.extent; *x;)
        if (is_in_use(&d->pool, *x))
            x = &(*x)->next;
        else
            unmap(d, x);
}

/* --- blocks ------------------------------------------------------------------------------------------------------ */

/* Cheapest first: the least new memory, then the smallest hole, then the lowest address. */
static struct cuda_block *choose(const struct cuda_pool *p, uint64_t want)
{
    struct cuda_block *best = NULL;
    uint64_t least = UINT64_MAX;
    for (struct cuda_block *b = p->first; b; b = b->next) {
        if (b->used || b->size < want || (b->next && b->size > LARGE_HOLE && want < b->size / 8)) continue;
        uint64_t cost = missing(p, b->begin, b->begin + want);
        if (cost > least || (cost == least && b->size >= best->size)) continue;
        best = b;
        least = cost;
    }
    return best;
}

static int split(struct cuda_block *b, uint64_t want)
{
    if (b->size == want) return 0;
    struct cuda_block *rest = malloc(sizeof *rest);
    if (!rest) return -1;
    *rest = (struct cuda_block){b, b->next, b->begin + want, b->size - want, 0};
    if (b->next) b->next->before = rest;
    b->next = rest;
    b->size = want;
    return 0;
}

static void join(struct cuda_block *b)
{
    struct cuda_block *gone = b->next;
    b->size += gone->size;
    b->next = gone->next;
    if (b->next) b->next->before = b;
    free(gone);
}

static int take_reserved(struct cuda_device *d, uint64_t want, struct cuda_block **out)
{
    struct cuda_block *b = choose(&d->pool, want);
    if (!b) return OUT_OF_MEMORY;
    int error = map_range(d, b->begin, b->begin + want);
    if (error == OUT_OF_MEMORY) {
        trim(d);
        error = map_range(d, b->begin, b->begin + want);
    }
    if (error) {
        trim(d);
        return error;
    }
    if (split(b, want)) return OUT_OF_MEMORY;
    *out = b;
    return 0;
}

/* Without addresses of our own a block is an allocation of the driver's. */
static int take_plain(struct cuda_device *d, uint64_t want, struct cuda_block **out)
{
    struct cuda_pool *p = &d->pool;
    struct cuda_block *b = calloc(1, sizeof *b);
    if (!b) return OUT_OF_MEMORY;
    int error = d->api.alloc(&b->begin, want);
    if (error) {
        free(b);
        return error;
    }
    b->size = want;
    b->next = p->first;
    if (b->next) b->next->before = b;
    p->first = b;
    p->mapped += want;
    *out = b;
    return 0;
}

static yolort_status refuse(struct cuda_device *d, int error, uint64_t bytes, const char *what, const struct rt_error *e)
{
    size_t unused = 0, total = 0;
    if (error != OUT_OF_MEMORY || d->api.memory_info(&unused, &total)) return rt_cuda_device_check(d, error, what, e);
    return rt_fail(e, YOLORT_OOM_DEVICE, "%s: %" PRIu64 " bytes are wanted, %zu of %zu are free on device %d", what, bytes, unused, total,
                   d->ordinal);
}

static int take(struct cuda_device *d, uint64_t bytes, uint64_t *out)
{
    struct cuda_pool *p = &d->pool;
    struct cuda_block *b = NULL;
    if (bytes > UINT64_MAX - ALIGN) return OUT_OF_MEMORY;
    uint64_t want = up(bytes ? bytes : 1, ALIGN);
    int error = p->size ? take_reserved(d, want, &b) : take_plain(d, want, &b);
    if (error) return error;
    b->used = 1;
    p->used += want;
    p->blocks++;
    if (p->used > p->peak) p->peak = p->used;
    *out = p->base + b->begin;
    return 0;
}

yolort_status rt_cuda_pool_alloc(struct cuda_device *d, uint64_t *out, uint64_t bytes, const char *what, const struct rt_error *e)
{
    void *old;
    RT_TRY(rt_cuda_device_check(d, d->api.push(d->context), "context", e));
    pthread_mutex_lock(&d->pool.lock);
    int error = take(d, bytes, out);
    pthread_mutex_unlock(&d->pool.lock);
    yolort_status s = error ? refuse(d, error, bytes, what, e) : YOLORT_OK;
    d->api.pop(&old);
    return s;
}

static void give_plain(struct cuda_device *d, struct cuda_block *b)
{
    d->api.free(b->begin);
    d->pool.mapped -= b->size;
    if (b->next) b->next->before = b->before;
    if (b->before)
        b->before->next = b->next;
    else
        d->pool.first = b->next;
    free(b);
}

static void give(struct cuda_device *d, uint64_t at)
{
    struct cuda_pool *p = &d->pool;
    struct cuda_block *b = p->first;
    while (b && (!b->used || p->base + b->begin != at)) b = b->next;
    if (!b) return;
    p->used -= b->size;
    p->blocks--;
    b->used = 0;
    if (!p->size) {
        give_plain(d, b);
        return;
    }
    if (b->next && !b->next->used) join(b);
    if (b->before && !b->before->used) join(b->before);
}

void rt_cuda_pool_free(struct cuda_device *d, uint64_t at)
{
    void *old;
    if (!at || d->api.push(d->context)) return;
    pthread_mutex_lock(&d->pool.lock);
    give(d, at);
    pthread_mutex_unlock(&d->pool.lock);
    d->api.pop(&old);
}

void rt_cuda_pool_trim(struct cuda_device *d)
{
    void *old;
    if (d->api.push(d->context)) return;
    pthread_mutex_lock(&d->pool.lock);
    trim(d);
    pthread_mutex_unlock(&d->pool.lock);
    d->api.pop(&old);
}

/* --- life --------------------------------------------------------------------------------------------------------- */

static int has_calls(const struct cuda_api *api)
{
    return api->reserve && api->unreserve && api->memory_create && api->memory_release && api->map && api->unmap && api->set_access &&
           api->granularity;
}

/* As many addresses as the device has memory. Where that fails the pool does without. */
static yolort_status reserve(struct cuda_device *d, const struct rt_error *e)
{
    struct cuda_pool *p = &d->pool;
    const struct cuda_memory_kind kind = kind_of(d);
    size_t granule = 0, total = 0;
    int can = 0;
    if (!has_calls(&d->api)) return YOLORT_OK;
    RT_TRY(rt_cuda_device_check(d, d->api.device_attribute(&can, VIRTUAL_MEMORY, d->device), "device", e));
    if (!can) return YOLORT_OK;
    RT_TRY(rt_cuda_device_check(d, d->api.granularity(&granule, &kind, 0), "memory", e));
    RT_TRY(rt_cuda_device_check(d, d->api.device_memory(&total, d->device), "memory", e));
    if (!granule) return YOLORT_OK;
    uint64_t size = up(total, granule);
    int error = d->api.reserve(&p->base, size, 0, 0, 0);
    if (error == OUT_OF_MEMORY || error == NOT_SUPPORTED) return YOLORT_OK;
    RT_TRY(rt_cuda_device_check(d, error, "addresses", e));
    p->first = calloc(1, sizeof *p->first);
    if (!p->first) {
        d->api.unreserve(p->base, size);
        return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    }
    p->first->size = p->size = size;
    p->granule = granule;
    return YOLORT_OK;
}

yolort_status rt_cuda_pool_open(struct cuda_device *d, const struct rt_error *e)
{
    pthread_mutex_init(&d->pool.lock, NULL);
    return reserve(d, e);
}

void rt_cuda_pool_close(struct cuda_device *d)
{
    struct cuda_pool *p = &d->pool;
    while (p->extent) unmap(d, &p->extent);
    if (p->size) d->api.unreserve(p->base, p->size);
    for (struct cuda_block *b = p->first, *next; b; b = next) {
        next = b->next;
        if (!p->size) d->api.free(b->begin);
        free(b);
    }
    pthread_mutex_destroy(&p->lock);
}
