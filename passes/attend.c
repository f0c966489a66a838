/* Attention as one op: weighted sums whose weights are a softmax, over keys, of scores that nothing else reads. Where kernels can do
 * that as a whole (`whole_attention` says so), neither scores nor weights lie in memory. */
#include "walk.h"

struct attend {
    struct rebuild r;
    uint32_t *uses;
    bool *gone; /* scores and what is made of them, of attentions that become one op */
};

static bool used(const struct attend *t, uint32_t op, uint32_t times)
{
    return t->uses[op] == times;
}

/* The scores that the weights of attn_mix `op` are a softmax of, or 0. */
static uint32_t scores_of(const struct attend *t, uint32_t op)
{
    enum { KEYS = 4 };
    const struct yir_func *f = t->r.old;
    yir_ref w = yir_src(f, op, 0);
    if (!pass_is(f, w, YIR_softmax) || !used(t, yir_index(w), 1)) return 0;
    uint32_t soft = yir_index(w);
    yir_ref s = yir_src(f, soft, 0), sums = yir_src(f, soft, 1);
    if (!pass_is(f, s, YIR_attn_scores) || !used(t, yir_index(s), 2)) return 0;
    if (!pass_is(f, sums, YIR_lse) || !used(t, yir_index(sums), 1) || !yir_same(yir_src(f, yir_index(sums), 0), s)) return 0;
    const struct yir_a_axis *soft_axis = yir_attrs(f, soft), *sums_axis = yir_attrs(f, yir_index(sums));
    const struct yir_a_attn *a = yir_attrs(f, yir_index(s));
    const struct yir_a_mix *m = yir_attrs(f, op);
    return soft_axis->axis == KEYS && sums_axis->axis == KEYS && a->areas == m->areas ? yir_index(s) : 0;
}

static void find_gone(struct attend *t)
{
    const struct yir_func *f = t->r.old;
    for (uint32_t i = 1; i < f->nop; i++) {
        if (f->op[i].code != YIR_attn_mix || !scores_of(t, i)) continue;
        uint32_t soft = yir_index(yir_src(f, i, 0));
        t->gone[soft] = t->gone[yir_index(yir_src(f, soft, 0))] = t->gone[yir_index(yir_src(f, soft, 1))] = true;
    }
}

static void emit_whole(struct attend *t, uint32_t op, uint32_t scores)
{
    const struct yir_func *f = t->r.old;
    const struct yir_a_mix *m = yir_attrs(f, op);
    const struct yir_a_attention a = {.score = *(const struct yir_a_attn *)yir_attrs(f, scores), .values = m->dim, .vat = m->at};
    const yir_ref src[] = {pass_rebuild_src(&t->r, scores, 0), pass_rebuild_src(&t->r, scores, 1), pass_rebuild_src(&t->r, op, 1)};
    pass_rebuild_emit(&t->r, op, YIR_attention, src, 3, &a);
}

int pass_attend(struct pass *p)
{
    const struct yir_func *f = p->in;
    struct attend t = {.uses = yir_uses(f, p->arena), .gone = yir_alloc_n(p->arena, f->nop, sizeof *t.gone)};
    if (!p->opts->whole_attention) return 0;
    pass_rebuild_begin(&t.r, p);
    find_gone(&t);
    for (uint32_t i = 1; i < f->nop; i++) {
        if (t.gone[i]) continue;
        uint32_t scores = f->op[i].code == YIR_attn_mix ? scores_of(&t, i) : 0;
        if (scores) emit_whole(&t, i, scores);
        else pass_rebuild_copy(&t.r, i);
        if (t.r.failed) return -1;
    }
    return pass_rebuild_end(&t.r, p);
}
