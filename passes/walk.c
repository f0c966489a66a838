#include "walk.h"

#include <string.h>

void pass_rebuild_begin(struct rebuild *r, struct pass *p)
{
    r->old = p->in;
    r->f = yir_func_like(p->in);
    r->map = yir_alloc_n(p->arena, p->in->nop, sizeof *r->map);
    r->failed = false;
}

yir_ref pass_rebuild_src(const struct rebuild *r, uint32_t op, int k)
{
    return yir_map(r->map, yir_src(r->old, op, k));
}

yir_ref pass_rebuild_emit(struct rebuild *r, uint32_t op, enum yir_code c, const yir_ref *src, int nsrc,
                          const void *attr)
{
    r->f->cur_loc = r->old->op[op].loc;
    r->map[op] = yir_emit(r->f, c, src, nsrc, attr);
    if (yir_kind(r->map[op]) == YIR_NIL) r->failed = true;
    return r->map[op];
}

yir_ref pass_rebuild_copy(struct rebuild *r, uint32_t op)
{
    const struct yir_op *o = &r->old->op[op];
    yir_ref src[64];
    YIR_ASSERT(o->nsrc <= YIR_COUNT(src));
    for (int k = 0; k < o->nsrc; k++) src[k] = pass_rebuild_src(r, op, k);
    return pass_rebuild_emit(r, op, (enum yir_code)o->code, src, o->nsrc, yir_attrs(r->old, op));
}

static bool same_op(const struct yir_func *a, const struct yir_func *b, uint32_t i)
{
    const struct yir_op *x = &a->op[i], *y = &b->op[i];
    if (x->code != y->code || x->nsrc != y->nsrc || x->type.id != y->type.id || x->kernel != y->kernel ||
        x->flags != y->flags)
        return false;
    size_t words = (size_t)yir_opinfo((enum yir_code)x->code)->nwords;
    return !memcmp(a->ref + x->src, b->ref + y->src, x->nsrc * sizeof *a->ref) &&
           !memcmp(a->word + x->attr, b->word + y->attr, words * sizeof *a->word);
}

/* Same text: inputs and weights are compared by number, for passes only ever add or drop some. */
static bool same_func(const struct yir_func *a, const struct yir_func *b)
{
    if (a->nop != b->nop || a->ninput != b->ninput || a->nweight != b->nweight || a->noutput != b->noutput ||
        a->nkernel != b->nkernel || a->nbuf != b->nbuf)
        return false;
    for (uint32_t i = 1; i < a->nop; i++)
        if (!same_op(a, b, i)) return false;
    for (uint32_t i = 0; i < a->noutput; i++)
        if (!yir_same(a->output[i].ref, b->output[i].ref)) return false;
    return true;
}

int pass_rebuild_done(struct rebuild *r, struct pass *p)
{
    if (r->failed) return -1;
    if (same_func(r->old, r->f)) return 0;
    p->out = r->f;
    return 1;
}

int pass_rebuild_end(struct rebuild *r, struct pass *p)
{
    if (r->failed) return -1;
    yir_copy_outputs(r->f, r->old, r->map);
    return pass_rebuild_done(r, p);
}

bool pass_is(const struct yir_func *f, yir_ref r, enum yir_code c)
{
    return yir_kind(r) == YIR_VAL && yir_opof(f, r)->code == c;
}

bool *pass_live(const struct yir_func *f, struct yir_arena *a)
{
    bool *live = yir_alloc_n(a, f->nop, sizeof *live);
    for (uint32_t i = 0; i < f->noutput; i++)
        if (yir_kind(f->output[i].ref) == YIR_VAL) live[yir_index(f->output[i].ref)] = true;
    for (uint32_t i = f->nop - 1; i > 0; i--) {
        if (!live[i]) continue;
        for (int k = 0; k < f->op[i].nsrc; k++)
            if (yir_kind(yir_src(f, i, k)) == YIR_VAL) live[yir_index(yir_src(f, i, k))] = true;
    }
    return live;
}

const char *pass_weight_name(const struct yir_func *f, const char *base, const char *suffix)
{
    struct yir_arena_mark m = yir_arena_mark(f->arena);
    const char *name = yir_format(f->arena, "%s%s", base, suffix);
    for (uint32_t n = f->nweight; yir_kind(yir_find_weight(f, name)) != YIR_NIL; n++) {
        yir_arena_reset(f->arena, m);
        name = yir_format(f->arena, "%s%s%u", base, suffix, n);
    }
    return name;
}
