#include "cuda_device.h"

#include <stdlib.h>

/* A device's context and memory are the process's, whoever uses them; so is this list. */
static struct {
    pthread_mutex_t lock;
    struct cuda_device *first;
} devices = {.lock = PTHREAD_MUTEX_INITIALIZER};

yolort_status rt_cuda_device_check(struct cuda_device *d, int error, const char *what, const struct rt_error *e)
{
    return rt_cuda_check(&d->api, &d->lost, error, what, e);
}

static void stop(struct cuda_device *d)
{
    void *old;
    if (d->context && !d->api.push(d->context)) {
        rt_cuda_pool_close(d);
        d->api.pop(&old);
    }
    if (d->context) d->api.primary_release(d->device);
    free(d);
}

static yolort_status start(struct cuda_device *d, const struct rt_error *e)
{
    void *old;
    RT_TRY(rt_cuda_device_check(d, d->api.device_get(&d->device, d->ordinal), "device", e));
    RT_TRY(rt_cuda_device_check(d, d->api.primary_retain(&d->context, d->device), "context", e));
    RT_TRY(rt_cuda_device_check(d, d->api.push(d->context), "context", e));
    yolort_status s = rt_cuda_pool_open(d, e);
    d->api.pop(&old);
    return s;
}

static yolort_status make(struct cuda_device **out, const struct cuda_api *api, int ordinal, const struct rt_error *e)
{
    struct cuda_device *d = calloc(1, sizeof *d);
    if (!d) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    d->api = *api;
    d->ordinal = ordinal;
    atomic_init(&d->lost, 0);
    yolort_status s = start(d, e);
    if (s) {
        stop(d);
        return s;
    }
    d->refs = 1;
    d->next = devices.first;
    devices.first = d;
    *out = d;
    return YOLORT_OK;
}

/* Of the same driver, which tests exchange. */
static struct cuda_device *find(const struct cuda_api *api, int ordinal)
{
    for (struct cuda_device *d = devices.first; d; d = d->next)
        if (d->ordinal == ordinal && d->api.launch == api->launch && !atomic_load(&d->lost)) return d;
    return NULL;
}

yolort_status rt_cuda_device_get(struct cuda_device **out, const struct cuda_api *api, int ordinal, const struct rt_error *e)
{
    yolort_status s = YOLORT_OK;
    pthread_mutex_lock(&devices.lock);
    *out = find(api, ordinal);
    if (*out)
        (*out)->refs++;
    else
        s = make(out, api, ordinal, e);
    pthread_mutex_unlock(&devices.lock);
    return s;
}

void rt_cuda_device_keep(struct cuda_device *d)
{
    pthread_mutex_lock(&devices.lock);
    d->refs++;
    pthread_mutex_unlock(&devices.lock);
}

void rt_cuda_device_drop(struct cuda_device *d)
{
    if (!d) return;
    pthread_mutex_lock(&devices.lock);
    if (!--d->refs) {
        struct cuda_device **from = &devices.first;
        while (*from != d) from = &(*from)->next;
        *from = d->next;
        stop(d);
    }
    pthread_mutex_unlock(&devices.lock);
}

/* --- what the public header says of them ------------------------------------------------------------------------ */

/* In use, and kept; NULL: none. */
static struct cuda_device *look_up(int ordinal)
{
    struct cuda_device *d;
    pthread_mutex_lock(&devices.lock);
    for (d = devices.first; d && (d->ordinal != ordinal || atomic_load(&d->lost)); d = d->next)
        ;
    if (d) d->refs++;
    pthread_mutex_unlock(&devices.lock);
    return d;
}

static yolort_status room(struct cuda_device *d, yolort_memory *out)
{
    size_t unused = 0, total = 0;
    void *old;
    RT_TRY(rt_cuda_device_check(d, d->api.push(d->context), "context", NULL));
    int error = d->api.memory_info(&unused, &total);
    d->api.pop(&old);
    out->free_bytes = unused;
    out->total_bytes = total;
    return rt_cuda_device_check(d, error, "memory", NULL);
}

yolort_status yolort_memory_stats(int device, yolort_memory *out)
{
    if (!RT_HOLDS(MEMORY_NULL, out)) return YOLORT_ARG;
    *out = (yolort_memory){0};
    struct cuda_device *d = look_up(device);
    if (!d) return YOLORT_NO_DEVICE;
    struct cuda_pool *p = &d->pool;
    pthread_mutex_lock(&p->lock);
    *out = (yolort_memory){.reserved_bytes = p->size, .mapped_bytes = p->mapped, .used_bytes = p->used, .peak_bytes = p->peak, .blocks = p->blocks};
    pthread_mutex_unlock(&p->lock);
    yolort_status s = room(d, out);
    rt_cuda_device_drop(d);
    return s;
}

yolort_status yolort_memory_trim(int device)
{
    struct cuda_device *d = look_up(device);
    if (!d) return YOLORT_NO_DEVICE;
    rt_cuda_pool_trim(d);
    rt_cuda_device_drop(d);
    return YOLORT_OK;
}
