/* Reductions along the innermost dimension, and what uses them: softmax over keys or channels, norms over channels. As many rows
 * as a vector has lanes at once: their partial sums are turned in registers and joined, which gives a result a lane. */
#include "fast.h"

#define LEAST_FLOAT (-3.4028234663852886e38)

bool cg_rows_of(const struct yir_func *f, yir_ref r, struct cg_rows *rows)
{
    const struct yir_tdesc *d = yir_desc(f, r);
    if (yir_kind(r) != YIR_VAL || d->dtype != YIR_F32) return false;
    const int64_t *stride = f->place[yir_index(r)].stride;
    *rows = (struct cg_rows){.x = r, .step = stride[3]};
    if (d->rank == 4) {
        rows->length = d->dim[1];
        rows->count = d->dim[2] * d->dim[3];
        return cg_adjacent(f, r) && cg_one_run(f, r);
    }
    if (d->rank != 5) return false;
    rows->length = d->dim[4];
    rows->count = d->dim[1] * d->dim[2] * d->dim[3];
    return stride[4] == 1 && stride[2] == d->dim[3] * stride[3] && stride[1] == d->dim[2] * stride[2];
}

/* Element 0 of a row. */
static kv row_address(struct kb *b, const struct cg_rows *rows, kv n, kv row)
{
    kv zero = kb_immi(b, 0);
    kv image = kb_address(b, rows->x, (kv[]){n, zero, zero, zero, zero});
    kv shift = kb_muli(b, row, rows->step);
    return kb_iadd(b, image, shift);
}

/* Ops along the innermost dimension alone. */
static bool innermost(const struct yir_func *f, uint32_t op)
{
    switch (f->op[op].code) {
    case YIR_moments:
    case YIR_rnorm:
    case YIR_peak: return true;
    case YIR_lse:
    case YIR_softmax:
        return ((const struct yir_a_axis *)yir_attrs(f, op))->axis == (yir_tdesc(f->types, f->op[op].type)->rank == 4 ? 1 : 4);
    default: return false;
    }
}

static bool rows_source(const struct yir_func *f, uint32_t op, struct cg_rows *rows)
{
    yir_ref x = yir_src(f, op, 0);
    return innermost(f, op) && cg_in_memory(f, f->op[op].kernel, x) && cg_rows_of(f, x, rows);
}

/* --- reductions --------------------------------------------------------------------------------------------- */

bool guard_row_sums(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct cg_rows in, out;
    if (t->lanes == 1 || first != last || f->op[last].code == YIR_softmax || !rows_source(f, last, &in)) return false;
    return in.count >= t->lanes && cg_rows_of(f, yir_mkref(YIR_VAL, last), &out) && out.step == out.length;
}

size_t list_row_sums(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    struct cg_rows in;
    (void)most;
    (void)first;
    rows_source(f, last, &in);
    *out = (struct cg_config){.cycles = (double)(in.count * in.length) / t->lanes * 4};
    return 1;
}

enum sum { SUM_MAX, SUM_PLAIN, SUM_SQUARES, SUM_EXP }; /* largest; of x, (x - shift)^2, e^(x - shift) */

struct sums {
    struct cg_rows in;
    int mem, scratch;
    kv first;               /* element 0 of the block's first row */
    kv shift[KB_MAX_LANES]; /* of each row */
};

/* One vector of a row into what was summed so far. */
static kv joined(struct kb *b, enum sum sum, kv old, kv x, kv shift)
{
    bool part = b->valid < b->lanes;
    kv outside = kb_immf(b, sum == SUM_MAX ? LEAST_FLOAT : 0.0), v = x;
    if (sum == SUM_SQUARES || sum == SUM_EXP) v = kb_fsub(b, x, shift);
    if (sum == SUM_EXP) v = kb_exp(b, v);
    if (part) {
        kv number = kb_itof(b, kb_lane(b, kb_immi(b, 0)));
        kv exists = kb_flt(b, number, kb_immf(b, b->valid - 0.5));
        v = kb_select(b, exists, v, outside);
    }
    if (sum == SUM_MAX) return kb_fmax(b, old, v);
    return sum == SUM_SQUARES ? kb_fma(b, v, v, old) : kb_fadd(b, old, v);
}

static void join_column(struct kb *b, const struct sums *s, enum sum sum, kv column, const kv *acc)
{
    for (int i = 0; i < b->lanes; i++) {
        kv row = kb_addi(b, s->first, i * s->in.step);
        kv at = kb_iadd(b, row, column);
        kv x = kb_load(b, s->mem, kb_lane(b, at));
        kv old = kb_get(b, acc[i]);
        kb_set(b, acc[i], joined(b, sum, old, x, s->shift[i]));
    }
}

/* The sums of the block's rows, one a lane. */
static kv sum_rows(struct kb *b, const struct sums *s, enum sum sum)
{
    kv acc[KB_MAX_LANES], start = kb_wide(b, kb_immf(b, sum == SUM_MAX ? LEAST_FLOAT : 0.0));
    int64_t lanes = b->lanes, whole = s->in.length / lanes * lanes;
    for (int i = 0; i < b->lanes; i++) acc[i] = kb_var(b, start);
    if (whole) {
        kv column = kb_loop(b, kb_immi(b, 0), kb_immi(b, whole), lanes);
        join_column(b, s, sum, column, acc);
        kb_end(b);
    }
    b->valid = (int)(s->in.length - whole);
    if (b->valid) join_column(b, s, sum, kb_immi(b, whole), acc);
    b->valid = b->lanes;
    for (int i = 0; i < b->lanes; i++) acc[i] = kb_get(b, acc[i]);
    cg_turn(b, acc);
    for (int n = b->lanes / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            acc[i] = sum == SUM_MAX ? kb_fmax(b, acc[i], acc[i + n]) : kb_fadd(b, acc[i], acc[i + n]);
    return acc[0];
}

/* Each row's number from the lanes of v. */
static void set_shifts(struct kb *b, struct sums *s, kv v)
{
    kb_store(b, s->scratch, kb_lane(b, kb_immi(b, 0)), v);
    for (int i = 0; i < b->lanes; i++) s->shift[i] = kb_load(b, s->scratch, kb_immi(b, i));
}

static kv mean_of(struct kb *b, const struct sums *s, kv sum)
{
    return kb_fdiv(b, sum, kb_immf(b, (double)s->in.length));
}

static kv inverse(struct kb *b, kv x)
{
    return kb_fdiv(b, kb_immf(b, 1.0), x);
}

/* Result of the op for the block's rows; moments have a second one. */
static kv reduce(struct kb *b, uint32_t op, struct sums *s, kv *second)
{
    const enum yir_code code = (enum yir_code)b->f->op[op].code;
    for (int i = 0; i < b->lanes; i++) s->shift[i] = kb_immf(b, 0.0);
    if (code == YIR_peak) return sum_rows(b, s, SUM_MAX);
    if (code == YIR_rnorm) {
        kv length = kb_sqrt(b, sum_rows(b, s, SUM_SQUARES));
        return inverse(b, kb_fmax(b, kb_immf(b, 1e-12), length));
    }
    if (code == YIR_lse) {
        kv top = sum_rows(b, s, SUM_MAX);
        set_shifts(b, s, top);
        kv all = kb_log(b, sum_rows(b, s, SUM_EXP));
        return kb_fadd(b, all, top);
    }
    kv mean = mean_of(b, s, sum_rows(b, s, SUM_PLAIN));
    set_shifts(b, s, mean);
    kv variance = mean_of(b, s, sum_rows(b, s, SUM_SQUARES));
    kv biased = kb_fadd(b, variance, kb_immf(b, (double)((const struct yir_a_eps *)yir_attrs(b->f, op))->eps));
    *second = inverse(b, kb_sqrt(b, biased));
    return mean;
}

void emit_fast_row_sums(struct kb *b, struct cg_kernel *k)
{
    struct sums s;
    struct cg_rows out;
    kv n, row = {0}, second = {0};
    rows_source(b->f, k->last, &s.in);
    cg_rows_of(b->f, yir_mkref(YIR_VAL, k->last), &out);
    row = cg_begin_block(b, s.in.count, &n);
    s.mem = kb_mem_value(b, s.in.x);
    s.scratch = kb_mem_scratch(b, b->target->lanes);
    s.first = row_address(b, &s.in, n, row);
    b->lanes = b->valid = b->target->lanes;
    kv v = reduce(b, k->last, &s, &second);
    kv to = row_address(b, &out, n, row);
    int mem = kb_mem_value(b, out.x);
    if (second.id) {
        kv low = kb_ziplo(b, v, second), high = kb_ziphi(b, v, second);
        kb_store(b, mem, kb_lane(b, to), low);
        kb_store(b, mem, kb_lane(b, kb_addi(b, to, b->lanes)), high);
    } else {
        kb_store(b, mem, kb_lane(b, to), v);
    }
    b->lanes = b->valid = 1;
}

/* --- softmax ------------------------------------------------------------------------------------------------ */

bool guard_row_soft(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct cg_rows in, out, lse;
    return t->lanes > 1 && first == last && f->op[last].code == YIR_softmax && rows_source(f, last, &in) &&
           cg_in_memory(f, f->op[last].kernel, yir_src(f, last, 1)) && cg_rows_of(f, yir_src(f, last, 1), &lse) &&
           cg_rows_of(f, yir_mkref(YIR_VAL, last), &out);
}

size_t list_row_soft(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 12, out);
}

struct soft {
    int from, to;
    kv x, y, lse;
};

static void soft_part(struct kb *b, void *ctx, kv c)
{
    const struct soft *s = ctx;
    kv from = kb_iadd(b, s->x, c), to = kb_iadd(b, s->y, c);
    kv v = kb_load(b, s->from, from);
    kv less = kb_fsub(b, v, s->lse);
    kb_store(b, s->to, to, kb_exp(b, less));
}

void emit_fast_row_soft(struct kb *b, struct cg_kernel *k)
{
    enum { ROWS = 16 };
    struct cg_rows in, out, lse;
    kv n, u;
    rows_source(b->f, k->last, &in);
    cg_rows_of(b->f, yir_src(b->f, k->last, 1), &lse);
    cg_rows_of(b->f, yir_mkref(YIR_VAL, k->last), &out);
    struct soft s = {.from = kb_mem_value(b, in.x), .to = kb_mem_value(b, out.x)};
    int mem = kb_mem_value(b, lse.x);
    cg_split_unit(b, (in.count + ROWS - 1) / ROWS, &n, &u);
    kv lo = kb_muli(b, u, ROWS);
    kv end = kb_addi(b, lo, ROWS);
    kv hi = kb_imin(b, end, kb_immi(b, in.count));
    kv row = kb_loop(b, lo, hi, 1);
    s.x = row_address(b, &in, n, row);
    s.y = row_address(b, &out, n, row);
    kv at = row_address(b, &lse, n, row);
    s.lse = kb_load(b, mem, at);
    cg_channels(b, 0, in.length, soft_part, &s);
    kb_end(b);
}

/* --- channels times a number of their group ------------------------------------------------------------------ */

bool guard_row_gate(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_gate);
    if (t->lanes == 1 || !op || !cg_lanes_ok(f, first, last, op)) return false;
    for (int i = 0; i < 2; i++) {
        yir_ref r = yir_src(f, op, i);
        if (yir_kind(r) != YIR_VAL || !cg_in_memory(f, f->op[op].kernel, r) || !cg_adjacent(f, r)) return false;
    }
    return true;
}

size_t list_row_gate(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    (void)most;
    return cg_list_one(f, first, last, t, 4, out);
}

struct gate {
    struct cg_kernel *k;
    uint32_t op;
    kv n, y, x, first, value; /* first channel of the group, and its number */
};

static void gate_channels(struct kb *b, void *ctx, kv c)
{
    const struct gate *g = ctx;
    const kv ix[] = {g->n, kb_iadd(b, g->first, c), g->y, g->x};
    kv v = kb_ref_at(b, yir_src(b->f, g->op, 0), ix);
    cg_bind(b, g->op, kb_fmul(b, v, g->value));
    cg_store_all(b, g->k->first, g->k->last, ix);
    b->nbound--;
}

/* A unit is a row of the map. */
void emit_fast_row_gate(struct kb *b, struct cg_kernel *k)
{
    struct gate g = {.k = k, .op = cg_only_op(b->f, k->first, k->last, YIR_gate)};
    yir_ref gates = yir_src(b->f, g.op, 1);
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[g.op].type);
    int64_t groups = yir_desc(b->f, gates)->dim[1], share = d->dim[1] / groups;
    cg_split_unit(b, d->dim[2], &g.n, &g.y);
    g.x = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->dim[3]), 1);
    kv group = kb_loop(b, kb_immi(b, 0), kb_immi(b, groups), 1);
    g.first = kb_muli(b, group, share);
    g.value = kb_ref_at(b, gates, (kv[]){g.n, group, g.y, g.x});
    cg_channels(b, 0, share, gate_channels, &g);
    kb_end(b);
    kb_end(b);
}
