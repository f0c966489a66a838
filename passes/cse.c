/* Equal ops become one: same op, operands, attributes. Operands of commuting ops are put in order first. */
#include "walk.h"

#include <string.h>

struct table { /* open addressing; op indexes of the new function, 0 empty */
    uint32_t *slot;
    size_t mask;
};

static uint64_t mix(uint64_t h, uint32_t word)
{
    return (h ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

static uint64_t hash_op(const struct yir_func *f, uint32_t op)
{
    const struct yir_op *o = &f->op[op];
    int words = yir_opinfo((enum yir_code)o->code)->nwords;
    uint64_t h = o->code;
    for (int k = 0; k < o->nsrc; k++) h = mix(h, f->ref[o->src + (uint32_t)k].bits);
    for (int k = 0; k < words; k++) h = mix(h, (uint32_t)f->word[o->attr + (uint32_t)k]);
    return h ^ h >> 32;
}

static bool equal_ops(const struct yir_func *f, uint32_t a, uint32_t b)
{
    const struct yir_op *x = &f->op[a], *y = &f->op[b];
    if (x->code != y->code || x->nsrc != y->nsrc) return false;
    size_t words = (size_t)yir_opinfo((enum yir_code)x->code)->nwords;
    return !memcmp(f->ref + x->src, f->ref + y->src, x->nsrc * sizeof *f->ref) &&
           !memcmp(f->word + x->attr, f->word + y->attr, words * sizeof *f->word);
}

/* The first op equal to `op`, which is entered when there is none before it. */
static uint32_t first_equal(const struct yir_func *f, struct table *t, uint32_t op)
{
    size_t i = (size_t)hash_op(f, op) & t->mask;
    while (t->slot[i] && !equal_ops(f, t->slot[i], op)) i = (i + 1) & t->mask;
    if (!t->slot[i]) t->slot[i] = op;
    return t->slot[i];
}

static void sort_operands(struct yir_func *f, uint32_t op)
{
    const struct yir_op *o = &f->op[op];
    if (!(yir_opinfo((enum yir_code)o->code)->traits & YIR_T_COMM)) return;
    yir_ref *s = f->ref + o->src;
    if (s[0].bits <= s[1].bits) return;
    yir_ref first = s[0];
    s[0] = s[1];
    s[1] = first;
}

int pass_cse(struct pass *p)
{
    struct rebuild r;
    struct table t = {.mask = 63};
    while (t.mask < 2 * (size_t)p->in->nop) t.mask = 2 * t.mask + 1;
    t.slot = yir_alloc_n(p->arena, t.mask + 1, sizeof *t.slot);
    pass_rebuild_begin(&r, p);
    for (uint32_t i = 1; i < p->in->nop; i++) {
        yir_ref x = pass_rebuild_copy(&r, i);
        if (yir_kind(x) == YIR_NIL) return -1;
        sort_operands(r.f, yir_index(x));
        uint32_t same = first_equal(r.f, &t, yir_index(x));
        if (same == yir_index(x)) continue;
        r.f->nop--; /* the newest op is not needed */
        r.map[i] = yir_mkref(YIR_VAL, same);
    }
    return pass_rebuild_end(&r, p);
}
