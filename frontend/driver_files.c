/* Tensor files and whole files of yoloc.h. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "outfile.h"
#include "rule.h"

struct yoloc_tensors {
    struct yir_arena *arena; /* holds the file's bytes */
    yoloc_tensor *tensor;
    size_t n;
};

struct files_arg {
    const char *path;
    const yoloc_tensor *tensor;
    size_t n;
    const void *bytes;
    yoloc_tensors *out;
};

static int64_t dense_stride(const struct fe_tensor *t, int axis)
{
    int64_t s = 1;
    for (int i = t->rank - 1; i > axis; i--) s *= t->dim[i];
    return s;
}

/* A file may have its data anywhere. */
static const void *aligned_data(struct yir_arena *a, const struct fe_tensor *t, size_t bytes)
{
    if ((uintptr_t)t->data % yir_dtype_size(t->dtype) == 0) return t->data;
    return memcpy(yir_alloc(a, bytes), t->data, bytes);
}

static int read_body(struct call *k, void *p)
{
    struct files_arg *a = p;
    a->out->arena = call_arena(k);
    const struct fe_weights *w = fe_weights_open(a->out->arena, k->diags, a->path, NULL);
    if (!w) return -1;
    if (w->kind != FE_WEIGHTS_SAFETENSORS)
        return yir_diag(k->diags, (struct yir_loc){.file = w->file}, E_KIND, "a safetensors file is wanted here");
    a->out->n = w->ntensor;
    a->out->tensor = yir_alloc_n(a->out->arena, w->ntensor, sizeof *a->out->tensor);
    for (size_t i = 0; i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        yoloc_tensor *o = &a->out->tensor[i];
        for (int d = 0; d < t->rank; d++) YIR_ASSERT(t->dim[d] <= 1 || t->stride[d] == dense_stride(t, d));
        *o = (yoloc_tensor){.name = t->name, .dtype = (int)t->dtype, .rank = t->rank};
        o->bytes = (size_t)t->numel * yir_dtype_size(t->dtype);
        o->data = aligned_data(a->out->arena, t, o->bytes);
        for (int d = 0; d < t->rank; d++) o->dim[d] = t->dim[d];
    }
    return 0;
}

yoloc_status yoloc_tensors_read(yoloc *c, const char *path, yoloc_tensors **out)
{
    if (!c || !path || !out) return YOLOC_USAGE;
    yoloc_tensors *t = calloc(1, sizeof *t);
    if (!t) return call_no_memory(&c->opts);
    struct files_arg a = {.path = path, .out = t};
    yoloc_status s = call_run(c, read_body, &a);
    if (s == YOLOC_OK)
        *out = t;
    else
        yoloc_tensors_free(t);
    return s;
}

size_t yoloc_tensors_count(const yoloc_tensors *t)
{
    return t ? t->n : 0;
}

const yoloc_tensor *yoloc_tensors_at(const yoloc_tensors *t, size_t i)
{
    return t && i < t->n ? &t->tensor[i] : NULL;
}

void yoloc_tensors_free(yoloc_tensors *t)
{
    if (!t) return;
    yir_arena_free(t->arena);
    free(t);
}

static int write_body(struct call *k, void *p)
{
    struct files_arg *a = p;
    struct fe_out_tensor *t = yir_alloc_n(k->arena, a->n, sizeof *t);
    for (size_t i = 0; i < a->n; i++) {
        const yoloc_tensor *from = &a->tensor[i];
        if (!from->name || !from->data || from->rank < 0 || from->rank > FE_MAX_RANK || from->dtype < 0 || from->dtype >= YIR_NDTYPE)
            return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, "tensor %zu can't be written", i);
        t[i] = (struct fe_out_tensor){from->name, (enum yir_dtype)from->dtype, from->rank, {0}, from->data};
        memcpy(t[i].dim, from->dim, sizeof t[i].dim);
    }
    return fe_safetensors_write(k->arena, k->diags, a->path, t, a->n);
}

yoloc_status yoloc_tensors_write(yoloc *c, const char *path, const yoloc_tensor *t, size_t n)
{
    if (!path || (n && !t)) return YOLOC_USAGE;
    struct files_arg a = {.path = path, .tensor = t, .n = n};
    return call_run(c, write_body, &a);
}

static int put_body(struct call *k, void *p)
{
    struct files_arg *a = p;
    return fe_outfile_put(k->diags, a->path, a->bytes, a->n);
}

yoloc_status yoloc_write_file(yoloc *c, const char *path, const void *bytes, size_t size)
{
    if (!path || (size && !bytes)) return YOLOC_USAGE;
    struct files_arg a = {.path = path, .bytes = bytes, .n = size};
    return call_run(c, put_body, &a);
}

void yoloc_test_picture(uint8_t *rgb, int h, int w, uint32_t seed)
{
    fe_rule_image(rgb, h, w, seed);
}
