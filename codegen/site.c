#include "site.h"

static const kb_emit_fn emitters[YIR_NCODE] = {
#define OP(name, lo, hi, cls, shape, attrs, traits, text) [YIR_##name] = emit_##name,
#include "ir/ops.def"
#undef OP
};

const struct yir_tdesc *kb_desc(const struct site *s, int k)
{
    return k < 0 ? yir_tdesc(s->f->types, s->f->op[s->op].type) : yir_desc(s->f, yir_src(s->f, s->op, k));
}

void kb_input_strides(const struct yir_tdesc *d, int64_t stride[YIR_MAX_RANK])
{
    int64_t s = 1;
    for (int i = YIR_MAX_RANK - 1; i >= 0; i--) {
        stride[i] = i < d->rank ? s : 0;
        if (i < d->rank) s *= d->dim[i];
    }
}

/* Sum of index * stride, outermost dimension first. */
static kv address(struct kb *b, const kv *ix, const int64_t *stride, int rank)
{
    kv sum = kb_immi(b, 0);
    for (int i = 0; i < rank; i++) {
        kv term = kb_muli(b, ix[i], stride[i]);
        sum = kb_iadd(b, sum, term);
    }
    return sum;
}

kv kb_address(struct kb *b, yir_ref r, const kv *ix)
{
    const struct yir_tdesc *d = yir_desc(b->f, r);
    int64_t stride[YIR_MAX_RANK];
    if (yir_kind(r) == YIR_VAL) return address(b, ix, b->f->place[yir_index(r)].stride, d->rank);
    kb_input_strides(d, stride);
    return address(b, ix, stride, d->rank);
}

kv kb_value(struct kb *b, uint32_t op, const kv *ix)
{
    const struct site s = {b->f, op};
    return emitters[b->f->op[op].code](b, &s, ix);
}

static bool computed_here(const struct kb *b, yir_ref r)
{
    if (yir_kind(r) != YIR_VAL) return false;
    const struct yir_op *o = yir_opof(b->f, r);
    return o->kernel == b->kernel && !(o->flags & (YIR_F_STORED | YIR_F_VIEW));
}

static bool find_bound(const struct kb *b, uint32_t op, kv *out)
{
    for (int i = 0; i < b->nbound; i++)
        if (b->bound[i].op == op) {
            *out = b->bound[i].value;
            return true;
        }
    return false;
}

kv kb_op_at(struct kb *b, uint32_t op, const kv *ix)
{
    kv v;
    return find_bound(b, op, &v) ? v : kb_value(b, op, ix);
}

/* An element of a weight. Where a unit is one element, the first dimension (output channels) lies innermost: neighbouring units
 * then read neighbouring elements. */
static kv weight_at(struct kb *b, yir_ref r, const kv *ix)
{
    const struct yir_tdesc *d = yir_desc(b->f, r);
    bool turned = b->target->element_units && (d->rank == 2 || d->rank == 4) && d->dim[0] <= INT32_MAX;
    int mem = turned ? kb_mem_weight(b, r, KB_PACK_OBLOCK, (int32_t)d->dim[0]) : kb_mem_weight(b, r, KB_PACK_NONE, 0);
    kv where = turned ? ix[d->rank == 4 ? 2 : 1] : kb_address(b, r, ix);
    static const int order[] = {3, 1, 0}; /* after the rows: columns, input channels, output channels */
    for (int i = d->rank == 4 ? 0 : 2; turned && i < 3; i++) {
        kv step = kb_muli(b, where, d->dim[order[i]]);
        where = kb_iadd(b, step, ix[order[i]]);
    }
    return kb_load(b, mem, where);
}

kv kb_ref_at(struct kb *b, yir_ref r, const kv *ix)
{
    kv v;
    if (yir_kind(r) == YIR_VAL && find_bound(b, yir_index(r), &v)) return v;
    if (computed_here(b, r)) return kb_value(b, yir_index(r), ix);
    if (yir_kind(r) == YIR_WGT) return weight_at(b, r, ix);
    int mem = kb_mem_value(b, r);
    kv where = kb_address(b, r, ix);
    return kb_load(b, mem, where);
}

kv kb_arg(struct kb *b, const struct site *s, int k, const kv *ix)
{
    return kb_ref_at(b, yir_src(s->f, s->op, k), ix);
}

/* Rows and columns are clamped; they are what windows and padding let run out of the map. */
kv kb_arg_if(struct kb *b, const struct site *s, int k, kv cond, const kv *ix, kv other)
{
    const struct yir_tdesc *d = kb_desc(s, k);
    kv safe[YIR_MAX_RANK];
    for (int i = 0; i < d->rank; i++) {
        safe[i] = ix[i];
        if (i < 2) continue;
        kv low = kb_imax(b, ix[i], kb_immi(b, 0));
        safe[i] = kb_imin(b, low, kb_immi(b, d->dim[i] - 1));
    }
    kv v = kb_arg(b, s, k, safe);
    return kb_select(b, cond, v, other);
}

void kb_store_op(struct kb *b, uint32_t op, const kv *ix, kv value)
{
    yir_ref r = yir_mkref(YIR_VAL, op);
    int mem = kb_mem_value(b, r);
    kv where = kb_address(b, r, ix);
    kb_store(b, mem, where, value);
}

kv kb_inside(struct kb *b, kv x, int64_t size)
{
    kv below = kb_ilt(b, x, kb_immi(b, 0));
    kv at_least = kb_not(b, below);
    kv under = kb_ilt(b, x, kb_immi(b, size));
    return kb_and(b, at_least, under);
}

static kv end_with(struct kb *b, kv var, kv now)
{
    kb_set(b, var, now);
    kb_end(b);
    return kb_get(b, var);
}

kv kb_end_fma(struct kb *b, kv sum, kv x, kv y)
{
    kv old = kb_get(b, sum);
    return end_with(b, sum, kb_fma(b, x, y, old));
}

kv kb_end_add(struct kb *b, kv sum, kv x)
{
    kv old = kb_get(b, sum);
    return end_with(b, sum, kb_fadd(b, old, x));
}

kv kb_end_max(struct kb *b, kv top, kv x)
{
    kv old = kb_get(b, top);
    return end_with(b, top, kb_fmax(b, old, x));
}
