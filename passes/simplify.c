/* Local rewrites, keyed by the root op: the rows at the end. They are tried on each op as it is emitted
 * again, until none applies. Why it ends: a rule either removes the root, or replaces an operand of it by
 * one nearer to the inputs, or lessens the number of operands; none adds an op. The whole walk is repeated
 * until it changes nothing, as an op removed may have been the second reader that held a rule back. */
#include "walk.h"

#include <string.h>

struct rewrite { /* an op about to be emitted */
    struct rebuild *r;
    const uint32_t *readers; /* live readers of each value of the new function, or more */
    enum yir_code code;
    yir_ref src[64];
    int nsrc;
    union {
        int32_t word[16];
        struct yir_a_conv conv;
        struct yir_a_pool pool;
        struct yir_a_slice slice;
        struct yir_a_axis axis;
        struct yir_a_factor factor;
        struct yir_a_pad pad;
        struct yir_a_cast cast;
    } attr;
    yir_ref done; /* what the op is replaced by; NIL: emit it */
};

/* Attributes of the producer of operand k when that is an op c, else NULL. */
static const void *producer(const struct rewrite *w, int k, enum yir_code c)
{
    return pass_is(w->r->f, w->src[k], c) ? yir_attrs(w->r->f, yir_index(w->src[k])) : NULL;
}

static yir_ref operand_of(const struct rewrite *w, yir_ref value, int k)
{
    return yir_src(w->r->f, yir_index(value), k);
}

static int64_t dim_of(const struct rewrite *w, yir_ref x, int axis)
{
    return yir_desc(w->r->f, x)->dim[axis];
}

static bool replace(struct rewrite *w, yir_ref by)
{
    w->done = by;
    return true;
}

static bool slice_whole(struct rewrite *w)
{
    const struct yir_a_slice *a = &w->attr.slice;
    return a->count == dim_of(w, w->src[0], a->axis) && replace(w, w->src[0]);
}

static bool slice_of_slice(struct rewrite *w)
{
    const struct yir_a_slice *in = producer(w, 0, YIR_slice);
    if (!in || in->axis != w->attr.slice.axis) return false;
    w->attr.slice.start += in->start;
    w->src[0] = operand_of(w, w->src[0], 0);
    return true;
}

/* The slice lies within one operand of the concat. */
static bool slice_of_concat(struct rewrite *w)
{
    const struct yir_a_axis *in = producer(w, 0, YIR_concat);
    struct yir_a_slice *a = &w->attr.slice;
    if (!in || in->axis != a->axis) return false;
    int64_t before = 0;
    for (int k = 0; k < yir_opof(w->r->f, w->src[0])->nsrc; k++) {
        yir_ref part = operand_of(w, w->src[0], k);
        int64_t size = dim_of(w, part, a->axis);
        if (a->start >= before && a->start + a->count <= before + size) {
            a->start -= (int32_t)before;
            w->src[0] = part;
            return true;
        }
        before += size;
    }
    return false;
}

static bool concat_of_one(struct rewrite *w)
{
    return w->nsrc == 1 && replace(w, w->src[0]);
}

/* Neighbours that are the slices of one value, in order and all of it, are that value. */
static bool concat_of_slices(struct rewrite *w)
{
    int axis = w->attr.axis.axis;
    for (int k = 0; k < w->nsrc; k++) {
        const struct yir_a_slice *a = producer(w, k, YIR_slice);
        if (!a || a->axis != axis || a->start) continue;
        yir_ref whole = operand_of(w, w->src[k], 0);
        int64_t end = a->count;
        int n = k + 1;
        for (; n < w->nsrc && end < dim_of(w, whole, axis); n++) {
            a = producer(w, n, YIR_slice);
            if (!a || a->axis != axis || a->start != end || !yir_same(operand_of(w, w->src[n], 0), whole))
                break;
            end += a->count;
        }
        if (end != dim_of(w, whole, axis)) continue;
        w->src[k] = whole;
        memmove(w->src + k + 1, w->src + n, (size_t)(w->nsrc - n) * sizeof w->src[0]);
        w->nsrc -= n - k - 1;
        return true;
    }
    return false;
}

static bool concat_of_concat(struct rewrite *w)
{
    for (int k = 0; k < w->nsrc; k++) {
        const struct yir_a_axis *in = producer(w, k, YIR_concat);
        if (!in || in->axis != w->attr.axis.axis || w->readers[yir_index(w->src[k])] != 1) continue;
        yir_ref inner = w->src[k];
        int n = yir_opof(w->r->f, inner)->nsrc;
        if (w->nsrc + n - 1 > yir_opinfo(YIR_concat)->hi) continue;
        memmove(w->src + k + n, w->src + k + 1, (size_t)(w->nsrc - k - 1) * sizeof w->src[0]);
        for (int j = 0; j < n; j++) w->src[k + j] = operand_of(w, inner, j);
        w->nsrc += n - 1;
        return true;
    }
    return false;
}

/* Zeros around the map are what the window's own padding reads. */
static bool absorb_pad(struct rewrite *w, int32_t pad[4])
{
    const struct yir_a_pad *in = producer(w, 0, YIR_pad);
    if (!in || in->value != 0) return false;
    for (int k = 0; k < 4; k++)
        if (pad[k] + in->pad[k] > 65536) return false;
    for (int k = 0; k < 4; k++) pad[k] += in->pad[k];
    w->src[0] = operand_of(w, w->src[0], 0);
    return true;
}

static bool conv_of_pad(struct rewrite *w)
{
    return absorb_pad(w, w->attr.conv.pad);
}

static bool pad_nothing(struct rewrite *w)
{
    const int32_t *p = w->attr.pad.pad;
    return !p[0] && !p[1] && !p[2] && !p[3] && replace(w, w->src[0]);
}

static bool cast_same(struct rewrite *w)
{
    const struct yir_tdesc *d = yir_desc(w->r->f, w->src[0]);
    return w->attr.cast.dtype == (int32_t)d->dtype && w->attr.cast.layout == (int32_t)d->layout &&
           replace(w, w->src[0]);
}

/* The inner cast changes the layout alone. */
static bool cast_of_cast(struct rewrite *w)
{
    if (!producer(w, 0, YIR_cast)) return false;
    yir_ref from = operand_of(w, w->src[0], 0);
    if (yir_desc(w->r->f, from)->dtype != yir_desc(w->r->f, w->src[0])->dtype) return false;
    w->src[0] = from;
    return true;
}

static bool factor_one(struct rewrite *w)
{
    return w->attr.factor.factor == 1 && replace(w, w->src[0]);
}

static bool pool_one(struct rewrite *w)
{
    const struct yir_a_pool *a = &w->attr.pool;
    return a->kernel[0] == 1 && a->kernel[1] == 1 && a->stride[0] == 1 && a->stride[1] == 1 &&
           replace(w, w->src[0]);
}

static bool either_same(struct rewrite *w)
{
    return yir_same(w->src[0], w->src[1]) && replace(w, w->src[0]);
}

/* f(f(x)) = f(x). */
static bool relu_of_relu(struct rewrite *w)
{
    return producer(w, 0, w->code) && replace(w, w->src[0]);
}

static const struct rule {
    enum yir_code root;
    bool (*apply)(struct rewrite *w);
} rules[] = {
    {YIR_slice, slice_whole},    {YIR_slice, slice_of_slice},    {YIR_slice, slice_of_concat},
    {YIR_concat, concat_of_one}, {YIR_concat, concat_of_slices}, {YIR_concat, concat_of_concat},
    {YIR_conv2d, conv_of_pad},   {YIR_pad, pad_nothing},         {YIR_cast, cast_same},
    {YIR_cast, cast_of_cast},    {YIR_upsample, factor_one},     {YIR_s2d, factor_one},
    {YIR_maxpool, pool_one},     {YIR_avgpool, pool_one},        {YIR_either, either_same},
    {YIR_relu, relu_of_relu},    {YIR_relu6, relu_of_relu},
};

static bool apply_one(struct rewrite *w)
{
    for (size_t i = 0; i < YIR_COUNT(rules); i++)
        if (rules[i].root == w->code && rules[i].apply(w)) return true;
    return false;
}

static void emit(struct rebuild *r, uint32_t op, const uint32_t *readers)
{
    const struct yir_op *o = &r->old->op[op];
    struct rewrite w = {.r = r, .readers = readers, .code = (enum yir_code)o->code, .nsrc = o->nsrc};
    size_t words = (size_t)yir_opinfo(w.code)->nwords;
    YIR_ASSERT(words <= YIR_COUNT(w.attr.word));
    memcpy(w.attr.word, yir_attrs(r->old, op), words * sizeof w.attr.word[0]);
    for (int k = 0; k < w.nsrc; k++) w.src[k] = pass_rebuild_src(r, op, k);
    while (yir_kind(w.done) == YIR_NIL && apply_one(&w)) continue;
    if (yir_kind(w.done) == YIR_NIL) pass_rebuild_emit(r, op, w.code, w.src, w.nsrc, w.attr.word);
    else r->map[op] = w.done;
}

/* Readers of each old value by ops and outputs that are live. */
static uint32_t *live_readers(const struct yir_func *f, struct yir_arena *a)
{
    const bool *live = pass_live(f, a);
    uint32_t *n = yir_uses(f, a);
    for (uint32_t i = 1; i < f->nop; i++)
        for (int k = 0; !live[i] && k < f->op[i].nsrc; k++)
            if (yir_kind(yir_src(f, i, k)) == YIR_VAL) n[yir_index(yir_src(f, i, k))]--;
    return n;
}

static int walk(struct pass *p)
{
    struct rebuild r;
    const uint32_t *old = live_readers(p->in, p->arena);
    uint32_t *now = yir_alloc_n(p->arena, p->in->nop, sizeof *now); /* a walk adds no ops */
    pass_rebuild_begin(&r, p);
    for (uint32_t i = 1; i < p->in->nop; i++) {
        emit(&r, i, now);
        if (r.failed) return -1;
        if (yir_kind(r.map[i]) == YIR_VAL) now[yir_index(r.map[i])] += old[i];
    }
    return pass_rebuild_end(&r, p);
}

int pass_simplify(struct pass *p)
{
    struct pass step = *p;
    int changed = 0, rc;
    while ((rc = walk(&step)) > 0) {
        changed = 1;
        step.in = step.out;
        step.out = NULL;
    }
    if (rc < 0) return -1;
    p->out = changed ? step.in : NULL;
    return changed;
}
