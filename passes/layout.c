/* Channels innermost inside the network: every map (rank 4) becomes NHWC, with casts where inputs and
 * weights are read as maps and where maps leave as outputs, which users get as NCHW. Each output becomes a
 * value of its own, read by nothing else, so that later passes can let it live in the caller's memory. Old
 * casts between layouts vanish. */
#include "walk.h"

struct layout {
    struct rebuild r;
    yir_ref *input, *weight; /* their NHWC casts, NIL before the first reader */
    uint32_t *uses;          /* of old values */
    uint32_t *output;        /* old value -> 1 + the first output it is, 0: none */
    uint32_t *next;          /* output -> 1 + the next output that is the same value */
    yir_ref *given;          /* what each output is in the new function */
};

static bool is_map(const struct yir_tdesc *d)
{
    return d->rank == 4 && d->layout != YIR_OIHW;
}

static yir_ref cast(struct yir_func *f, yir_ref x, enum yir_dtype dtype, enum yir_layout layout)
{
    const struct yir_a_cast a = {(int32_t)dtype, (int32_t)layout};
    return yir_emit(f, YIR_cast, &x, 1, &a);
}

/* An old value as the ops inside read it. */
static yir_ref inside(struct layout *l, yir_ref old)
{
    struct yir_func *f = l->r.f;
    yir_ref x = yir_map(l->r.map, old);
    if (yir_kind(x) == YIR_NIL || yir_kind(x) == YIR_VAL) return x;
    const struct yir_tdesc *d = yir_desc(f, x);
    if (!is_map(d) || d->layout == YIR_NHWC) return x;
    yir_ref *made = yir_kind(x) == YIR_INP ? &l->input[yir_index(x)] : &l->weight[yir_index(x)];
    if (yir_kind(*made) == YIR_NIL) *made = cast(f, x, d->dtype, YIR_NHWC);
    return *made;
}

static void emit_cast(struct layout *l, uint32_t op)
{
    const struct yir_tdesc *d = yir_tdesc(l->r.old->types, l->r.old->op[op].type);
    yir_ref x = inside(l, yir_src(l->r.old, op, 0));
    const struct yir_tdesc *from = yir_desc(l->r.f, x);
    if (is_map(d) && from->layout == YIR_NHWC && from->dtype == d->dtype) {
        l->r.map[op] = x;
        return;
    }
    struct yir_a_cast a = {(int32_t)d->dtype, is_map(d) ? YIR_NHWC : (int32_t)d->layout};
    pass_rebuild_emit(&l->r, op, YIR_cast, &x, 1, &a);
}

static void emit_op(struct layout *l, uint32_t op)
{
    const struct yir_op *o = &l->r.old->op[op];
    yir_ref src[64];
    l->r.f->cur_loc = o->loc;
    if (o->code == YIR_cast) {
        emit_cast(l, op);
        return;
    }
    /* The picture is bytes of [n,h,w,3]: no map, but of rank 4. */
    for (int k = 0; k < o->nsrc; k++)
        src[k] = o->code == YIR_image ? pass_rebuild_src(&l->r, op, k) : inside(l, yir_src(l->r.old, op, k));
    pass_rebuild_emit(&l->r, op, (enum yir_code)o->code, src, o->nsrc, yir_attrs(l->r.old, op));
}

/* The value given out for an old output: a map in NCHW, a value read elsewhere or no op's own as a copy. */
static yir_ref outside(struct layout *l, yir_ref old)
{
    struct yir_func *f = l->r.f;
    yir_ref x = inside(l, old);
    const struct yir_tdesc *d = yir_desc(f, x);
    f->cur_loc = yir_kind(x) == YIR_VAL ? yir_opof(f, x)->loc : 0;
    if (is_map(d)) return cast(f, x, d->dtype, YIR_NCHW);
    bool own = yir_kind(x) == YIR_VAL && l->uses[yir_index(old)] == 1;
    return own ? x : cast(f, x, d->dtype, d->layout);
}

/* Copies stand next to what they copy, so that this need not live on. */
static void give_out(struct layout *l, uint32_t op)
{
    for (uint32_t i = l->output[op]; i; i = l->next[i - 1])
        l->given[i - 1] = outside(l, l->r.old->output[i - 1].ref);
}

static void find_outputs(struct layout *l)
{
    const struct yir_func *f = l->r.old;
    for (uint32_t i = f->noutput; i > 0; i--) {
        yir_ref x = f->output[i - 1].ref;
        if (yir_kind(x) != YIR_VAL) continue;
        l->next[i - 1] = l->output[yir_index(x)];
        l->output[yir_index(x)] = i;
    }
}

int pass_layout(struct pass *p)
{
    const struct yir_func *old = p->in;
    struct layout l = {.uses = yir_uses(old, p->arena)};
    l.input = yir_alloc_n(p->arena, old->ninput, sizeof *l.input);
    l.weight = yir_alloc_n(p->arena, old->nweight, sizeof *l.weight);
    l.output = yir_alloc_n(p->arena, old->nop, sizeof *l.output);
    l.next = yir_alloc_n(p->arena, old->noutput, sizeof *l.next);
    l.given = yir_alloc_n(p->arena, old->noutput, sizeof *l.given);
    pass_rebuild_begin(&l.r, p);
    find_outputs(&l);
    for (uint32_t i = 1; i < old->nop; i++) {
        emit_op(&l, i);
        if (l.r.failed) return -1;
        give_out(&l, i);
    }
    for (uint32_t i = 0; i < old->noutput; i++) {
        yir_ref x = old->output[i].ref;
        yir_add_output(l.r.f, old->output[i].name, yir_kind(x) == YIR_VAL ? l.given[i] : outside(&l, x),
                       old->output[i].layer);
    }
    return pass_rebuild_done(&l.r, p);
}
