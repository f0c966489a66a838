#include "dlpack.h"

#include "object.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    yolort_dtype type;
    struct dl_type as;
} types[] = {
    {YOLORT_F32, {DL_FLOAT, 32, 1}}, {YOLORT_F16, {DL_FLOAT, 16, 1}}, {YOLORT_BF16, {DL_BFLOAT, 16, 1}},
    {YOLORT_F64, {DL_FLOAT, 64, 1}}, {YOLORT_U8, {DL_UINT, 8, 1}},    {YOLORT_I8, {DL_INT, 8, 1}},
    {YOLORT_I32, {DL_INT, 32, 1}},   {YOLORT_I64, {DL_INT, 64, 1}},   {YOLORT_BOOL, {DL_BOOL, 8, 1}},
};

static struct dl_type type_of(yolort_dtype t)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == t) return types[i].as;
    return (struct dl_type){0, 0, 0};
}

/* --- in --------------------------------------------------------------------------------------------------------- */

static int is_dense(const struct dl_tensor *t)
{
    int64_t each = 1;
    for (int i = t->rank - 1; t->strides && i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != each) return 0;
        each *= t->shape[i];
    }
    return 1;
}

static yolort_status check_shape(const yolort_io *d, const struct dl_tensor *t, int most, const struct rt_error *e)
{
    RT_CHECK(e, ARG, DL_RANK, t->rank == d->rank && t->shape, "bind: %s: tensor of rank %d, %d is wanted", d->name, t->rank, d->rank);
    RT_CHECK(e, ARG, DL_BATCH, t->shape[0] >= 1 && t->shape[0] <= most, "bind: %s: tensor of %" PRId64 " images, at most %d are wanted",
             d->name, t->shape[0], most);
    for (int i = 1; i < d->rank; i++)
        RT_CHECK(e, ARG, DL_SHAPE, t->shape[i] == d->dim[i], "bind: %s: dimension %d of the tensor is %" PRId64 ", not %" PRId64, d->name, i,
                 t->shape[i], d->dim[i]);
    RT_CHECK(e, ARG, DL_DENSE, is_dense(t), "bind: %s: the tensor's elements are not side by side", d->name);
    return YOLORT_OK;
}

static yolort_status check_tensor(const yolort_context *c, const yolort_io *d, const struct dl_tensor *t, const struct rt_error *e)
{
    struct dl_type want = type_of(d->dtype);
    int host = t->device.type == DL_CPU || t->device.type == DL_CUDA_HOST;
    RT_CHECK(e, ARG, DL_TYPE, t->type.code == want.code && t->type.bits == want.bits && t->type.lanes == 1,
             "bind: %s: tensor of another element type", d->name);
    RT_CHECK(e, ARG, DL_PLACE, host || (c->session && t->device.type == DL_CUDA), "bind: %s: tensor on a device of kind %d", d->name,
             t->device.type);
    RT_CHECK(e, ARG, DL_DATA, t->data, "bind: %s: tensor without data", d->name);
    return check_shape(d, t, c->m->t.target->max_batch, e);
}

static yolort_status bind_tensor(yolort_context *c, size_t io, struct DLManagedTensor *t)
{
    struct rt_error e = rt_context_error(c);
    RT_CHECK(&e, ARG, BIND_IO, io < c->m->t.nio, "bind: io %zu of %u", io, c->m->t.nio);
    RT_CHECK(&e, ARG, DL_NULL, t, "bind: NULL tensor");
    const yolort_io *d = &c->m->io[io];
    RT_TRY(check_tensor(c, d, &t->tensor, &e));
    RT_TRY(rt_bind(c, io, (uint8_t *)t->tensor.data + t->tensor.byte_offset, d->bytes_per_image * (size_t)t->tensor.shape[0]));
    c->hold[io].lent = t;
    return YOLORT_OK;
}

yolort_status yolort_bind_dlpack(yolort_context *c, size_t io, struct DLManagedTensor *t)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, bind_tensor(c, io, t));
}

/* --- out -------------------------------------------------------------------------------------------------------- */

struct view {
    struct DLManagedTensor t;
    int64_t shape[YOLORT_MAX_RANK], strides[YOLORT_MAX_RANK];
    struct rt_shared *shared;
};

static void drop_view(struct DLManagedTensor *self)
{
    struct view *v = self->user;
    rt_shared_drop(v->shared);
    free(v);
}

static struct view *new_view(const yolort_io *d, int batch, struct rt_shared *s)
{
    struct view *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    int64_t each = 1;
    for (int i = d->rank - 1; i >= 0; i--) {
        v->shape[i] = i ? d->dim[i] : batch;
        v->strides[i] = each;
        each *= v->shape[i];
    }
    v->shared = s;
    v->t = (struct DLManagedTensor){
        {s->data, {s->on_device ? DL_CUDA : DL_CPU, s->ordinal}, d->rank, type_of(d->dtype), v->shape, v->strides, 0}, v, drop_view};
    return v;
}

static void drop_host(struct rt_shared *s)
{
    free(s->data);
    free(s);
}

static yolort_status share_host(size_t bytes, struct rt_shared **out, const struct rt_error *e)
{
    enum { HOST_ALIGN = 64 };
    struct rt_shared *s = calloc(1, sizeof *s);
    void *data = s ? aligned_alloc(HOST_ALIGN, (size_t)rt_align(bytes, HOST_ALIGN)) : NULL;
    if (!data) {
        free(s);
        return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    }
    s->data = data;
    s->drop = drop_host;
    atomic_init(&s->refs, 1);
    *out = s;
    return YOLORT_OK;
}

void rt_shared_drop(struct rt_shared *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) s->drop(s);
}

/* The memory belongs to the tensor and to the binding. */
static yolort_status view_output(yolort_context *c, size_t io, int batch, struct DLManagedTensor **out)
{
    struct rt_error e = rt_context_error(c);
    struct rt_shared *s;
    RT_CHECK(&e, ARG, DL_OUTPUT, out && io < c->m->t.nio && c->m->io[io].is_output, "output: io %zu is none", io);
    RT_CHECK(&e, ARG, DL_OUTPUT_BATCH, batch >= 1 && batch <= c->m->t.target->max_batch, "output: batch %d of at most %d", batch,
             c->m->t.target->max_batch);
    const yolort_io *d = &c->m->io[io];
    size_t bytes = d->bytes_per_image * (size_t)batch;
    RT_TRY(c->session ? c->m->dev->own->share(c->session, bytes, &s, &e) : share_host(bytes, &s, &e));
    struct view *v = new_view(d, batch, s);
    yolort_status r = v ? rt_bind(c, io, s->data, bytes) : rt_fail(&e, YOLORT_OOM_HOST, "no memory");
    if (r) {
        free(v);
        rt_shared_drop(s);
        return r;
    }
    atomic_fetch_add(&s->refs, 1);
    c->hold[io].shared = s;
    *out = &v->t;
    return YOLORT_OK;
}

yolort_status yolort_output_dlpack(yolort_context *c, size_t io, int batch, struct DLManagedTensor **out)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, view_output(c, io, batch, out));
}

/* --- what bindings hold ----------------------------------------------------------------------------------------- */

void rt_hold_drop(yolort_context *c, size_t io)
{
    struct rt_hold *h = &c->hold[io];
    if (!h->lent && !h->shared) return;
    if (c->session) rt_context_wait(c); /* a run may still be using it */
    if (h->lent && h->lent->deleter) h->lent->deleter(h->lent);
    rt_shared_drop(h->shared);
    *h = (struct rt_hold){NULL, NULL};
}

/* --- pinned memory ---------------------------------------------------------------------------------------------- */

static yolort_status host_alloc(yolort_context *c, size_t bytes, void **out)
{
    struct rt_error e = rt_context_error(c);
    RT_CHECK(&e, ARG, HOST_BYTES, out && bytes && bytes <= SIZE_MAX / 2, "host memory: %zu bytes, or nowhere to put the address", bytes);
    struct rt_host *h = calloc(1, sizeof *h);
    if (!h) return rt_fail(&e, YOLORT_OOM_HOST, "no memory");
    if (c->session) {
        yolort_status s = c->m->dev->service->take(c->session, 1, bytes, &h->data, &e);
        if (s) {
            free(h);
            return s;
        }
    } else if (!(h->data = aligned_alloc(64, (size_t)rt_align(bytes, 64)))) {
        free(h);
        return rt_fail(&e, YOLORT_OOM_HOST, "no memory");
    }
    h->next = c->host;
    c->host = h;
    *out = h->data;
    return YOLORT_OK;
}

yolort_status yolort_host_alloc(yolort_context *c, size_t bytes, void **out)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, host_alloc(c, bytes, out));
}

static void drop_host_memory(yolort_context *c, struct rt_host **at)
{
    struct rt_host *h = *at;
    *at = h->next;
    if (c->session)
        c->m->dev->service->drop(c->session, 1, h->data, NULL);
    else
        free(h->data);
    free(h);
}

static yolort_status host_free(yolort_context *c, void *p)
{
    struct rt_error e = rt_context_error(c);
    struct rt_host **at = &c->host;
    while (*at && (*at)->data != p) at = &(*at)->next;
    RT_CHECK(&e, ARG, HOST_ADDRESS, !p || *at, "host memory: the address is none of this context's");
    if (!p) return YOLORT_OK;
    if (c->session) rt_context_wait(c);
    drop_host_memory(c, at);
    return YOLORT_OK;
}

yolort_status yolort_host_free(yolort_context *c, void *p)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, host_free(c, p));
}

void rt_host_drop_all(yolort_context *c)
{
    while (c->host) drop_host_memory(c, &c->host);
}
