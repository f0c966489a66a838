/* Drops ops that no output needs, and the weights that nothing reads any more; inputs stay, they are the
 * interface. */
#include "walk.h"

/* Weights that live ops read, in their old order; the others map to NIL. */
static yir_ref *keep_weights(struct yir_func *f, const struct yir_func *old, const bool *live,
                             struct yir_arena *a)
{
    yir_ref *map = yir_alloc_n(a, old->nweight, sizeof *map);
    bool *used = yir_alloc_n(a, old->nweight, sizeof *used);
    for (uint32_t i = 1; i < old->nop; i++)
        for (int k = 0; live[i] && k < old->op[i].nsrc; k++)
            if (yir_kind(yir_src(old, i, k)) == YIR_WGT) used[yir_index(yir_src(old, i, k))] = true;
    for (uint32_t i = 0; i < old->noutput; i++)
        if (yir_kind(old->output[i].ref) == YIR_WGT) used[yir_index(old->output[i].ref)] = true;
    for (uint32_t i = 0; i < old->nweight; i++)
        if (used[i]) map[i] = yir_keep_weight(f, &old->weight[i]);
    return map;
}

static yir_ref remap(const struct rebuild *r, const yir_ref *weight, yir_ref old)
{
    return yir_kind(old) == YIR_WGT ? weight[yir_index(old)] : yir_map(r->map, old);
}

int pass_dce(struct pass *p)
{
    const struct yir_func *old = p->in;
    const bool *live = pass_live(old, p->arena);
    struct rebuild r = {.old = old, .f = yir_func_bare(old)};
    r.map = yir_alloc_n(p->arena, old->nop, sizeof *r.map);
    const yir_ref *weight = keep_weights(r.f, old, live, p->arena);
    for (uint32_t i = 1; i < old->nop; i++) {
        if (!live[i]) continue;
        const struct yir_op *o = &old->op[i];
        yir_ref src[64];
        for (int k = 0; k < o->nsrc; k++) src[k] = remap(&r, weight, yir_src(old, i, k));
        pass_rebuild_emit(&r, i, (enum yir_code)o->code, src, o->nsrc, yir_attrs(old, i));
    }
    for (uint32_t i = 0; i < old->noutput; i++)
        yir_add_output(r.f, old->output[i].name, remap(&r, weight, old->output[i].ref), old->output[i].layer);
    return pass_rebuild_done(&r, p);
}
