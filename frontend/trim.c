#include "lower.h"

struct trim {
    const struct yir_func *old;
    bool *live, *used;     /* ops and weights of the old function that an output needs */
    yir_ref *map, *weight; /* old values and weights -> new */
};

static void mark(struct trim *t, yir_ref r)
{
    if (yir_kind(r) == YIR_VAL) t->live[yir_index(r)] = true;
    if (yir_kind(r) == YIR_WGT) t->used[yir_index(r)] = true;
}

static void find_needed(struct trim *t)
{
    const struct yir_func *f = t->old;
    for (uint32_t i = 0; i < f->noutput; i++)
        mark(t, f->output[i].ref);
    for (uint32_t i = f->nop - 1; i > 0; i--)
        for (int k = 0; t->live[i] && k < f->op[i].nsrc; k++)
            mark(t, yir_src(f, i, k));
}

static yir_ref moved(const struct trim *t, yir_ref r)
{
    if (yir_kind(r) == YIR_VAL) return t->map[yir_index(r)];
    return yir_kind(r) == YIR_WGT ? t->weight[yir_index(r)] : r;
}

static void copy_op(const struct trim *t, struct yir_func *f, uint32_t op)
{
    const struct yir_op *o = &t->old->op[op];
    yir_ref src[64];
    for (int k = 0; k < o->nsrc; k++)
        src[k] = moved(t, yir_src(t->old, op, k));
    f->cur_loc = o->loc;
    t->map[op] = yir_emit(f, (enum yir_code)o->code, src, o->nsrc, yir_attrs(t->old, op));
    YIR_ASSERT(yir_kind(t->map[op]) == YIR_VAL);
}

struct yir_func *fe_trim(const struct yir_func *old)
{
    struct trim t = {.old = old};
    t.live = yir_alloc_n(old->arena, old->nop, sizeof *t.live);
    t.used = yir_alloc_n(old->arena, (size_t)old->nweight + 1, sizeof *t.used);
    t.map = yir_alloc_n(old->arena, old->nop, sizeof *t.map);
    t.weight = yir_alloc_n(old->arena, (size_t)old->nweight + 1, sizeof *t.weight);
    find_needed(&t);
    struct yir_func *f = yir_func_bare(old);
    for (uint32_t i = 0; i < old->nweight; i++)
        if (t.used[i]) t.weight[i] = yir_keep_weight(f, &old->weight[i]);
    for (uint32_t i = 1; i < old->nop; i++)
        if (t.live[i]) copy_op(&t, f, i);
    for (uint32_t i = 0; i < old->noutput; i++)
        yir_add_output(f, old->output[i].name, moved(&t, old->output[i].ref), old->output[i].layer);
    return f;
}
