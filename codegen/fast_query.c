/* Choosing and sampling positions of maps by values, on vectors. */
#include "fast.h"

/* --- ranks -------------------------------------------------------------------------------------------------- */

enum { MOST_VECTORS = 4, MOST_ELEMENTS = 1 << 20 };

/* One channel, its elements side by side. */
static bool plain_line(const struct yir_func *f, yir_ref r)
{
    const struct yir_tdesc *d = yir_desc(f, r);
    return cg_adjacent(f, r) && cg_one_run(f, r) && d->dim[1] == 1 && f->place[yir_index(r)].stride[3] == 1;
}

static int64_t elements_of(const struct yir_func *f, yir_ref r)
{
    const struct yir_tdesc *d = yir_desc(f, r);
    return d->dim[2] * d->dim[3];
}

bool guard_query_rank(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    enum yir_code code = (enum yir_code)f->op[last].code;
    if (t->lanes == 1 || first != last || (code != YIR_rank && code != YIR_order)) return false;
    yir_ref x = yir_src(f, last, 0), y = yir_mkref(YIR_VAL, last);
    return cg_in_memory(f, f->op[last].kernel, x) && plain_line(f, x) && plain_line(f, y) && elements_of(f, y) >= t->lanes &&
           elements_of(f, x) <= MOST_ELEMENTS;
}

size_t list_query_rank(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                       size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 3.0 * (double)elements_of(f, yir_src(f, last, 0)), out);
}

struct line {
    enum yir_code code;
    yir_ref x;
    int mem, vectors;
    int64_t elements;                    /* of x */
    kv n, first;                         /* of the block in the result */
    kv mine[MOST_VECTORS], place[MOST_VECTORS]; /* values (of rank), and numbers of the block's elements */
    kv found[MOST_VECTORS];
};

/* What of the elements [lo, hi) comes before the block's: all that are not smaller where they stand before all of it, the larger
 * ones where they stand after it, by place among its own. */
enum part { EARLIER, AMONG, LATER };

static kv comes_before(struct kb *b, const struct line *l, enum part part, kv j, kv other, int v)
{
    kv larger = kb_flt(b, l->mine[v], other);
    if (part == LATER) return larger;
    kv smaller = kb_flt(b, other, l->mine[v]);
    kv not_smaller = kb_not(b, smaller);
    if (part == EARLIER) return not_smaller;
    kv earlier = kb_flt(b, kb_itof(b, j), l->place[v]);
    kv tie = kb_and(b, not_smaller, earlier);
    return kb_or(b, larger, tie);
}

static void count_before(struct kb *b, struct line *l, enum part part, kv lo, kv hi)
{
    kv j = kb_loop(b, lo, hi, 1), zero = kb_immi(b, 0);
    kv at = kb_address(b, l->x, (kv[]){l->n, zero, zero, j});
    kv other = kb_load(b, l->mem, at);
    for (int v = 0; v < l->vectors; v++) {
        kv before = comes_before(b, l, part, j, other, v);
        kv one = kb_select(b, before, kb_immf(b, 1.0), kb_immf(b, 0.0));
        kv old = kb_get(b, l->found[v]);
        kb_set(b, l->found[v], kb_fadd(b, old, one));
    }
    kb_end(b);
}

static void find_ranks(struct kb *b, struct line *l)
{
    int64_t block = (int64_t)l->vectors * b->lanes;
    kv end = kb_addi(b, l->first, block), zero = kb_immi(b, 0);
    for (int v = 0; v < l->vectors; v++) {
        kv mine = kb_addi(b, l->first, (int64_t)v * b->lanes);
        kv at = kb_address(b, l->x, (kv[]){l->n, zero, zero, mine});
        l->mine[v] = kb_load(b, l->mem, kb_lane(b, at));
    }
    count_before(b, l, EARLIER, zero, l->first);
    count_before(b, l, AMONG, l->first, end);
    count_before(b, l, LATER, end, kb_immi(b, l->elements));
}

/* x holds ranks; found: where the block's are. */
static void find_places(struct kb *b, struct line *l)
{
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, l->elements), 1), zero = kb_immi(b, 0);
    kv at = kb_address(b, l->x, (kv[]){l->n, zero, zero, j});
    kv rank = kb_load(b, l->mem, at);
    kv low = kb_fsub(b, rank, kb_immf(b, 0.5));
    kv high = kb_fadd(b, rank, kb_immf(b, 0.5));
    kv number = kb_itof(b, j);
    for (int v = 0; v < l->vectors; v++) {
        kv above = kb_flt(b, low, l->place[v]);
        kv below = kb_flt(b, l->place[v], high);
        kv here = kb_and(b, above, below);
        kv old = kb_get(b, l->found[v]);
        kb_set(b, l->found[v], kb_select(b, here, number, old));
    }
    kb_end(b);
}

void emit_fast_query_rank(struct kb *b, struct cg_kernel *k)
{
    struct line l = {.code = (enum yir_code)b->f->op[k->last].code, .x = yir_src(b->f, k->last, 0)};
    int64_t lanes = b->target->lanes, wanted = elements_of(b->f, yir_mkref(YIR_VAL, k->last));
    l.elements = elements_of(b->f, l.x);
    l.mem = kb_mem_value(b, l.x);
    l.vectors = (int)(wanted / lanes < MOST_VECTORS ? wanted / lanes : MOST_VECTORS);
    int64_t block = l.vectors * lanes;
    kv u, zero = kb_immi(b, 0);
    cg_split_unit(b, (wanted + block - 1) / block, &l.n, &u);
    kv start = kb_muli(b, u, block);
    l.first = kb_imin(b, start, kb_immi(b, wanted - block));
    b->lanes = b->valid = (int)lanes;
    for (int v = 0; v < l.vectors; v++) {
        kv number = kb_addi(b, l.first, (int64_t)v * lanes);
        l.place[v] = kb_itof(b, kb_lane(b, number));
        l.found[v] = kb_var(b, kb_wide(b, kb_immf(b, 0.0)));
    }
    if (l.code == YIR_rank) find_ranks(b, &l);
    else find_places(b, &l);
    int mem = kb_mem_value(b, yir_mkref(YIR_VAL, k->last));
    kv to = kb_address(b, yir_mkref(YIR_VAL, k->last), (kv[]){l.n, zero, zero, l.first});
    for (int v = 0; v < l.vectors; v++) {
        kv at = kb_addi(b, to, (int64_t)v * lanes);
        kb_store(b, mem, kb_lane(b, at), kb_get(b, l.found[v]));
    }
    b->lanes = b->valid = 1;
}

/* --- deformable attention ----------------------------------------------------------------------------------- */

static int64_t head_share(const struct yir_func *f, uint32_t op)
{
    return yir_desc(f, yir_src(f, op, 0))->dim[1] / ((const struct yir_a_deform *)yir_attrs(f, op))->heads;
}

bool guard_query_deform(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_deform);
    if (t->lanes == 1 || !op || !cg_lanes_ok(f, first, last, op)) return false;
    yir_ref v = yir_src(f, op, 0);
    return yir_kind(v) == YIR_VAL && cg_in_memory(f, f->op[op].kernel, v) && cg_adjacent(f, v) && head_share(f, op) % t->lanes == 0;
}

size_t list_query_deform(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                         size_t most)
{
    const struct yir_a_deform *a = yir_attrs(f, cg_only_op(f, first, last, YIR_deform));
    (void)most;
    return cg_list_one(f, first, last, t, 60.0 * a->points, out);
}

/* A unit is a query. */
void emit_fast_query_deform(struct kb *b, struct cg_kernel *k)
{
    const struct site s = {b->f, cg_only_op(b->f, k->first, k->last, YIR_deform)};
    int64_t share = head_share(b->f, s.op), lanes = b->target->lanes;
    int vectors = MOST_VECTORS;
    while (share / lanes % vectors) vectors--;
    kv n, query, channel[MOST_VECTORS], sum[MOST_VECTORS], zero = kb_immi(b, 0);
    cg_split_unit(b, kb_desc(&s, -1)->dim[2], &n, &query);
    b->lanes = b->valid = (int)lanes;
    kv head = kb_loop(b, zero, kb_immi(b, ((const struct yir_a_deform *)yir_attrs(b->f, s.op))->heads), 1);
    kv part = kb_loop(b, zero, kb_immi(b, share), vectors * lanes);
    kv before = kb_muli(b, head, share);
    kv first = kb_iadd(b, before, part);
    for (int v = 0; v < vectors; v++) channel[v] = kb_lane(b, kb_addi(b, first, v * lanes));
    kb_deform_sums(b, &s, n, head, query, channel, vectors, sum);
    for (int v = 0; v < vectors; v++) {
        cg_bind(b, s.op, sum[v]);
        cg_store_all(b, k->first, k->last, (kv[]){n, channel[v], query, zero});
        b->nbound--;
    }
    kb_end(b);
    kb_end(b);
    b->lanes = b->valid = 1;
}
