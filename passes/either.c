/* Moves each `either` behind the first convolution that alone reads it, and behind the point-wise ops that follow:
 * either(a, b) read by f becomes either(f(a), f(b)). Only one of the two is computed in a run, so nothing is done twice, and
 * what turns a picture into floats becomes a prologue of the convolution instead of a map in memory. */
#include "walk.h"

struct sink {
    struct rebuild r;
    const uint32_t *uses;
    uint32_t *reader; /* of each value: the last op that reads it */
    uint32_t *end;    /* of each either: the last op of its chain, 0: it stays */
    bool *chained;    /* op is in a chain: it is emitted with that */
};

static bool weights_from(const struct yir_func *f, uint32_t op, int k)
{
    for (; k < f->op[op].nsrc; k++)
        if (yir_kind(yir_src(f, op, k)) != YIR_WGT) return false;
    return true;
}

/* The only reader of a value, when it reads nothing else that is computed; else 0. */
static uint32_t next_of(const struct sink *s, uint32_t op)
{
    uint32_t next = s->reader[op];
    if (s->uses[op] != 1 || !next || !weights_from(s->r.old, next, 1)) return 0;
    return yir_same(yir_src(s->r.old, next, 0), yir_mkref(YIR_VAL, op)) ? next : 0;
}

static enum yir_opclass class_of(const struct sink *s, uint32_t op)
{
    return yir_opinfo((enum yir_code)s->r.old->op[op].code)->cls;
}

/* Moving ops, one convolution, point-wise ops. */
static void find_chain(struct sink *s, uint32_t either)
{
    uint32_t op = next_of(s, either);
    while (op && class_of(s, op) == YIR_MOVE) op = next_of(s, op);
    if (!op || class_of(s, op) != YIR_CONTRACT) return;
    for (uint32_t next = next_of(s, op); next && class_of(s, next) == YIR_EW; next = next_of(s, op)) op = next;
    s->end[either] = op;
    for (uint32_t i = either; i != op; i = s->reader[i]) s->chained[s->reader[i]] = true;
}

static yir_ref emit_with(struct sink *s, uint32_t op, yir_ref x)
{
    const struct yir_op *o = &s->r.old->op[op];
    yir_ref src[64];
    src[0] = x;
    for (int k = 1; k < o->nsrc; k++) src[k] = pass_rebuild_src(&s->r, op, k);
    return pass_rebuild_emit(&s->r, op, (enum yir_code)o->code, src, o->nsrc, yir_attrs(s->r.old, op));
}

static void emit_chain(struct sink *s, uint32_t either)
{
    yir_ref way[2];
    for (int k = 0; k < 2; k++) {
        way[k] = pass_rebuild_src(&s->r, either, k);
        for (uint32_t i = either; i != s->end[either]; i = s->reader[i]) way[k] = emit_with(s, s->reader[i], way[k]);
    }
    s->r.map[s->end[either]] = pass_rebuild_emit(&s->r, s->end[either], YIR_either, way, 2, NULL);
}

int pass_either(struct pass *p)
{
    const struct yir_func *f = p->in;
    struct sink s = {.uses = yir_uses(f, p->arena)};
    s.reader = yir_alloc_n(p->arena, f->nop, sizeof *s.reader);
    s.end = yir_alloc_n(p->arena, f->nop, sizeof *s.end);
    s.chained = yir_alloc_n(p->arena, f->nop, sizeof *s.chained);
    pass_rebuild_begin(&s.r, p);
    for (uint32_t i = 1; i < f->nop; i++)
        for (int k = 0; k < f->op[i].nsrc; k++)
            if (yir_kind(yir_src(f, i, k)) == YIR_VAL) s.reader[yir_index(yir_src(f, i, k))] = i;
    for (uint32_t i = 1; i < f->nop; i++)
        if (f->op[i].code == YIR_either) find_chain(&s, i);
    for (uint32_t i = 1; i < f->nop; i++) {
        if (s.end[i]) emit_chain(&s, i);
        else if (!s.chained[i]) pass_rebuild_copy(&s.r, i);
        if (s.r.failed) return -1;
    }
    return pass_rebuild_end(&s.r, p);
}
