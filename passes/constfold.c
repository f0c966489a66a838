/* Ops on weights alone are computed now and become weights. Only ops that a model file can put there have a
 * row. Without weight data the fold is in form only. Weights are row-major, so a cast to NHWC stays. */
#include "walk.h"

#include <string.h>

struct consts {               /* one op being computed */
    const struct yir_func *f; /* new function */
    const yir_ref *src;
    int nsrc;
    const void *attr;
    const struct yir_tdesc *out;
    void *data;
};

static double operand(const struct consts *c, int k, int64_t i)
{
    const struct yir_weight *w = &c->f->weight[yir_index(c->src[k])];
    return yir_dtype_load(yir_tdesc(c->f->types, w->type)->dtype, w->data, (size_t)i);
}

static void put(const struct consts *c, int64_t i, double v)
{
    yir_dtype_store(c->out->dtype, c->data, (size_t)i, v);
}

static void fold_cast(const struct consts *c)
{
    int64_t n = yir_numel(c->out);
    for (int64_t i = 0; i < n; i++) put(c, i, operand(c, 0, i));
}

static void fold_add(const struct consts *c)
{
    int64_t n = yir_numel(c->out);
    for (int64_t i = 0; i < n; i++) put(c, i, operand(c, 0, i) + operand(c, 1, i));
}

static void fold_mul(const struct consts *c)
{
    int64_t n = yir_numel(c->out);
    for (int64_t i = 0; i < n; i++) put(c, i, operand(c, 0, i) * operand(c, 1, i));
}

static int64_t product(const struct yir_tdesc *d, int from, int to)
{
    int64_t n = 1;
    for (int k = from; k < to; k++) n *= d->dim[k];
    return n;
}

static void fold_slice(const struct consts *c)
{
    const struct yir_a_slice *a = c->attr;
    const struct yir_tdesc *in = yir_desc(c->f, c->src[0]);
    int64_t outer = product(in, 0, a->axis), inner = product(in, a->axis + 1, in->rank);
    int64_t run = a->count * inner;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < run; i++)
            put(c, o * run + i, operand(c, 0, (o * in->dim[a->axis] + a->start) * inner + i));
}

static void fold_concat(const struct consts *c)
{
    int axis = ((const struct yir_a_axis *)c->attr)->axis;
    int64_t outer = product(c->out, 0, axis), inner = product(c->out, axis + 1, c->out->rank);
    int64_t pitch = c->out->dim[axis] * inner, before = 0;
    for (int k = 0; k < c->nsrc; k++) {
        int64_t run = yir_desc(c->f, c->src[k])->dim[axis] * inner;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t i = 0; i < run; i++) put(c, o * pitch + before + i, operand(c, k, o * run + i));
        before += run;
    }
}

static void (*const fold_table[YIR_NCODE])(const struct consts *) = {
    [YIR_cast] = fold_cast,   [YIR_add] = fold_add,       [YIR_mul] = fold_mul,
    [YIR_slice] = fold_slice, [YIR_concat] = fold_concat,
};

static bool on_weights(const struct rebuild *r, uint32_t op)
{
    const struct yir_op *o = &r->old->op[op];
    if (!fold_table[o->code] || yir_tdesc(r->old->types, o->type)->layout == YIR_NHWC) return false;
    for (int k = 0; k < o->nsrc; k++)
        if (yir_kind(pass_rebuild_src(r, op, k)) != YIR_WGT) return false;
    return true;
}

/* "a-const" for a result of $a, and for a result of that too. */
static const char *result_name(const struct yir_func *f, yir_ref first)
{
    static const char suffix[] = "-const";
    const char *name = f->weight[yir_index(first)].name, *cut = strstr(name, suffix);
    return pass_weight_name(f, cut ? yir_strndup(f->arena, name, (size_t)(cut - name)) : name, suffix);
}

static yir_ref fold(struct rebuild *r, uint32_t op)
{
    const struct yir_op *o = &r->old->op[op];
    yir_ref src[64];
    bool data = true;
    for (int k = 0; k < o->nsrc; k++) {
        src[k] = pass_rebuild_src(r, op, k);
        data = data && r->f->weight[yir_index(src[k])].data;
    }
    struct consts c = {r->f, src, o->nsrc, yir_attrs(r->old, op), yir_tdesc(r->old->types, o->type), NULL};
    if (data) {
        c.data = yir_alloc_n(r->f->arena, (size_t)yir_numel(c.out), yir_dtype_size(c.out->dtype));
        fold_table[o->code](&c);
    }
    return yir_add_weight(r->f, result_name(r->f, src[0]), o->type, c.data);
}

int pass_constfold(struct pass *p)
{
    struct rebuild r;
    pass_rebuild_begin(&r, p);
    for (uint32_t i = 1; i < p->in->nop; i++) {
        if (on_weights(&r, i)) r.map[i] = fold(&r, i);
        else pass_rebuild_copy(&r, i);
    }
    return pass_rebuild_end(&r, p);
}
