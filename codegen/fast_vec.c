/* Families for GPUs whose threads each make some adjacent channels of a pixel: plain programs on vectors, which kb_cuda.c reads and
 * writes 16 bytes at a time where they lie so. */
#include "fast_vec.h"

enum { MOST_LANES = 8, MOST_TAPS = 49, MOST_BINS = 64 };

double cg_gpu_cycles(const struct kb_target *t, double threads, double instructions)
{
    enum { START = 3000, SCHEDULERS = 4, WARP = 32 };
    double images = t->batch > 0 ? t->batch : 1, each = threads * images / (WARP * SCHEDULERS * t->sms);
    double turns = each < 2 ? 2 : each; /* a lone warp waits for its own results */
    return START + turns * instructions;
}

/* Whole vectors of `lanes` channels, and one more for the rest. */
static int64_t groups_of(int64_t channels, int64_t lanes)
{
    return (channels + lanes - 1) / lanes;
}

static double elements_of(const struct yir_func *f, uint32_t op)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    return (double)yir_numel(d) / (double)d->dim[0];
}

/* 16 bytes of the widest type that is stored, and less where that gives too few threads. */
static size_t list_vectors(const struct yir_func *f, uint32_t last, const struct kb_target *t, double work, struct cg_config *out)
{
    size_t n = 0;
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[last].type);
    for (int32_t lanes = 2; lanes <= MOST_LANES; lanes *= 2) {
        if (lanes > 2 && lanes >= 2 * d->dim[1]) break;
        double wide = lanes * (double)yir_dtype_size(d->dtype) > 16 ? 1.2 : 1;
        double threads = elements_of(f, last) / lanes;
        out[n++] = (struct cg_config){.knob = {lanes}, .cycles = cg_gpu_cycles(t, threads, (40 + work * lanes) * wide)};
    }
    return n;
}

void cg_group_channels(struct kb *b, int64_t channels, int lanes, kv group, cg_channel_body body, void *ctx)
{
    int64_t whole = channels / lanes, rest = channels % lanes;
    kv is_whole = kb_ilt(b, group, kb_immi(b, whole)), first = kb_muli(b, group, lanes);
    b->lanes = b->valid = lanes;
    if (whole) {
        if (rest) cg_if(b, is_whole);
        body(b, ctx, kb_lane(b, first));
        if (rest) kb_end(b);
    }
    if (rest) {
        b->valid = (int)rest;
        if (whole) cg_if(b, kb_not(b, is_whole));
        body(b, ctx, kb_lane(b, kb_immi(b, whole * lanes)));
        if (whole) kb_end(b);
    }
    b->lanes = b->valid = 1;
}

/* --- anything that keeps channels apart ----------------------------------------------------------------------- */

bool guard_vec(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[last].type);
    return t->sm && d->rank == 4 && d->dim[1] >= 2 && cg_lanes_ok(f, first, last, 0);
}

size_t list_vec(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out, size_t most)
{
    double work = 4;
    (void)most;
    for (uint32_t i = first; i <= last; i++) {
        if (yir_opinfo((enum yir_code)f->op[i].code)->cls != YIR_WINDOW) continue;
        const struct yir_a_pool *a = yir_attrs(f, i);
        work += 8.0 * a->kernel[0] * a->kernel[1]; /* a loop, with tests of the map's edge */
    }
    return list_vectors(f, last, t, work, out);
}

/* Neighbouring units are neighbouring channels. */
void emit_fast_vec(struct kb *b, struct cg_kernel *k)
{
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[k->last].type);
    struct cg_cell at = {.k = k};
    int lanes = k->config.knob[0];
    int64_t groups = groups_of(d->dim[1], lanes);
    kv u, count = kb_immi(b, groups), width = kb_immi(b, d->dim[3]);
    cg_split_unit(b, d->dim[2] * d->dim[3] * groups, &at.n, &u);
    kv group = kb_irem(b, u, count);
    kv pixel = kb_idiv(b, u, count);
    at.y = kb_idiv(b, pixel, width);
    at.x = kb_irem(b, pixel, width);
    cg_group_channels(b, d->dim[1], lanes, group, cg_store_cell, &at);
}

/* --- depthwise convolution ------------------------------------------------------------------------------------ */

static bool depthwise_of(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c)
{
    if (!t->sm || !cg_conv_of(f, first, last, t, c)) return false;
    const struct yir_tdesc *w = yir_desc(f, c->w);
    return c->groups == w->dim[0] && w->dim[1] == 1 && c->ci == w->dim[0] && c->co >= 2;
}

/* Where the input's channels lie: side by side in x, or from `first` on `count` of them every `share` channels of x. */
struct shares {
    yir_ref x;
    int64_t first, count, share; /* count 0: side by side */
};

/* Operand k of a concat is the next slice. */
static bool add_slice(const struct yir_func *f, uint32_t concat, int k, struct shares *s)
{
    yir_ref r = yir_src(f, concat, k);
    if (yir_kind(r) != YIR_VAL || yir_opof(f, r)->code != YIR_slice) return false;
    const struct yir_a_slice *a = yir_attrs(f, yir_index(r));
    yir_ref x = yir_src(f, yir_index(r), 0);
    if (!k) *s = (struct shares){x, a->start, a->count, a->count};
    if (k == 1) s->share = a->start - s->first;
    return a->axis == 1 && a->count == s->count && yir_same(x, s->x) && a->start == s->first + k * s->share;
}

/* The input is in memory with adjacent channels, or a concat, computed in place, of slices at equal distances of what is. */
static bool find_shares(const struct conv *c, struct shares *s)
{
    const struct yir_func *f = c->f;
    *s = (struct shares){.x = c->x};
    if (cg_conv_in_place(c)) return cg_adjacent(f, c->x);
    if (yir_kind(c->x) != YIR_VAL || yir_opof(f, c->x)->code != YIR_concat) return false;
    uint32_t concat = yir_index(c->x);
    for (int k = 0; k < f->op[concat].nsrc; k++)
        if (!add_slice(f, concat, k, s)) return false;
    return s->share > 0 && s->count % 2 == 0 && cg_in_memory(f, f->op[c->op].kernel, s->x) && cg_adjacent(f, s->x);
}

bool guard_vec_dw(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    struct shares s;
    return depthwise_of(f, first, last, t, &c) && find_shares(&c, &s) && c.win.kernel[0] * c.win.kernel[1] <= MOST_TAPS;
}

size_t list_vec_dw(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                   size_t most)
{
    struct conv c;
    struct shares s;
    size_t n = 0;
    depthwise_of(f, first, last, t, &c);
    find_shares(&c, &s);
    for (int32_t lanes = 2; lanes <= MOST_LANES && (lanes == 2 || lanes < 2 * c.co) && s.count % lanes == 0; lanes *= 2)
        for (int32_t pixels = 1; pixels <= 4 && (pixels == 1 || pixels < 2 * c.ow) && n < most; pixels *= 2) {
            double columns = (double)((pixels - 1) * c.win.stride[1] + (c.win.kernel[1] - 1) * c.win.dil[1] + 1);
            double rows = (double)c.win.kernel[0], taps = rows * (double)c.win.kernel[1];
            double work = 60 + rows * columns * (6 + 1.5 * lanes) + taps * (2 + lanes) + taps * pixels * lanes;
            work += cg_epilogue_cycles(&c) * lanes * pixels;
            double threads = (double)(c.oh * ((c.ow + pixels - 1) / pixels) * groups_of(c.co, lanes));
            out[n++] = (struct cg_config){.knob = {lanes, pixels}, .cycles = cg_gpu_cycles(t, threads, work)};
        }
    return n;
}

struct depthwise {
    struct conv c;
    struct shares s;
    int64_t pixels, wide; /* wide: channels of the packed weights */
    int mem_w, mem_bias;
    kv n, y, x0; /* x0: first of the pixels */
};

enum { MOST_COLUMNS = 64 };

/* Where a vector of the input's channels begins in what is read; it lies within one slice. */
static kv source_channel(struct kb *b, const struct depthwise *d, kv ch)
{
    if (!d->s.count) return ch;
    kv first = kb_unmarked(b, ch), count = kb_immi(b, d->s.count);
    kv slice = kb_idiv(b, first, count);
    kv within = kb_irem(b, first, count);
    kv start = kb_muli(b, slice, d->s.share);
    kv sum = kb_iadd(b, start, within);
    return kb_lane(b, kb_addi(b, sum, d->s.first));
}

/* The input's row `row` at the columns that the pixels need: zero outside the map. Columns between dilated taps are left out. */
static void load_row(struct kb *b, const struct depthwise *d, kv ch, kv row, int64_t columns, const bool *needed, kv *v)
{
    const struct conv *c = &d->c;
    kv zero = kb_immf(b, 0.0), none = kb_immi(b, 0);
    kv row_in = kb_inside(b, row, c->ih);
    kv row_low = kb_imax(b, row, none);
    kv safe_row = kb_imin(b, row_low, kb_immi(b, c->ih - 1));
    kv left = kb_muli(b, d->x0, c->win.stride[1]);
    for (int64_t i = 0; i < columns; i++) {
        if (!needed[i]) continue;
        kv col = kb_addi(b, left, i - c->win.pad[1]);
        kv col_in = kb_inside(b, col, c->iw);
        kv in = kb_and(b, row_in, col_in);
        kv col_low = kb_imax(b, col, none);
        kv safe = kb_imin(b, col_low, kb_immi(b, c->iw - 1));
        kv x = kb_ref_at(b, d->s.x, (kv[]){d->n, ch, safe_row, safe});
        v[i] = kb_select(b, in, x, zero);
    }
}

static void dw_sums(struct kb *b, const struct depthwise *d, kv ch, kv *acc)
{
    const struct conv *c = &d->c;
    const struct cg_window *w = &c->win;
    int64_t columns = (d->pixels - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dil[1] + 1;
    bool needed[MOST_COLUMNS] = {false};
    kv v[MOST_COLUMNS];
    for (int64_t p = 0; p < d->pixels; p++)
        for (int64_t t = 0; t < w->kernel[1]; t++) needed[p * w->stride[1] + t * w->dil[1]] = true;
    kv top = kb_muli(b, d->y, w->stride[0]), from = source_channel(b, d, ch);
    for (int64_t r = 0; r < w->kernel[0]; r++) {
        kv row = kb_addi(b, top, r * w->dil[0] - w->pad[0]);
        load_row(b, d, from, row, columns, needed, v);
        for (int64_t t = 0; t < w->kernel[1]; t++) {
            kv at = kb_addi(b, ch, (r * w->kernel[1] + t) * d->wide);
            kv weight = kb_load(b, d->mem_w, at);
            for (int64_t p = 0; p < d->pixels; p++) acc[p] = kb_fma(b, v[p * w->stride[1] + t * w->dil[1]], weight, acc[p]);
        }
    }
}

static void dw_channels(struct kb *b, void *ctx, kv ch)
{
    const struct depthwise *d = ctx;
    const struct conv *c = &d->c;
    kv acc[4], bias = kb_wide(b, kb_immf(b, 0.0));
    if (yir_kind(c->bias) != YIR_NIL) bias = kb_load(b, d->mem_bias, ch);
    for (int64_t p = 0; p < d->pixels; p++) acc[p] = bias;
    dw_sums(b, d, ch, acc);
    for (int64_t p = 0; p < d->pixels; p++) {
        kv x = kb_addi(b, d->x0, p);
        cg_bind(b, c->op, acc[p]);
        cg_store_all(b, c->first, c->last, (kv[]){d->n, ch, d->y, x});
        b->nbound--;
    }
}

/* The last pixels of a row begin early rather than run over its end. */
void emit_fast_vec_dw(struct kb *b, struct cg_kernel *k)
{
    struct depthwise d = {.pixels = k->config.knob[1]};
    struct conv *c = &d.c;
    int lanes = k->config.knob[0];
    depthwise_of(b->f, k->first, k->last, b->target, c);
    find_shares(c, &d.s);
    if (d.pixels > c->ow) d.pixels = c->ow;
    int64_t groups = groups_of(c->co, lanes), blocks = (c->ow + d.pixels - 1) / d.pixels;
    d.wide = groups_of(c->co, MOST_LANES) * MOST_LANES;
    d.mem_w = kb_mem_weight(b, c->w, KB_PACK_DW, MOST_LANES);
    if (yir_kind(c->bias) != YIR_NIL) d.mem_bias = kb_mem_weight(b, c->bias, KB_PACK_OBLOCK, MOST_LANES);
    kv u, count = kb_immi(b, groups), across = kb_immi(b, blocks);
    cg_split_unit(b, c->oh * blocks * groups, &d.n, &u);
    kv group = kb_irem(b, u, count);
    kv rest = kb_idiv(b, u, count);
    kv block = kb_irem(b, rest, across);
    d.y = kb_idiv(b, rest, across);
    kv start = kb_muli(b, block, d.pixels);
    d.x0 = kb_imin(b, start, kb_immi(b, c->ow - d.pixels));
    cg_group_channels(b, c->co, lanes, group, dw_channels, &d);
}

/* --- boxes from distributions --------------------------------------------------------------------------------- */

bool cg_only_last(const struct yir_func *f, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < last; i++)
        if (f->op[i].flags & YIR_F_STORED) return false;
    return true;
}

bool guard_vec_dfl(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    const struct yir_a_box *a = yir_attrs(f, last);
    if (!t->sm || f->op[last].code != YIR_dfl_box || a->bins > MOST_BINS || !cg_only_last(f, first, last)) return false;
    return cg_is_float(yir_tdesc(f->types, f->op[last].type)->dtype) && cg_flat_source(f, f->op[last].kernel, yir_src(f, last, 0), 0);
}

size_t list_vec_dfl(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                    size_t most)
{
    (void)most;
    (void)first;
    const struct yir_a_box *a = yir_attrs(f, last);
    *out = (struct cg_config){.cycles = cg_gpu_cycles(t, elements_of(f, last) / 2, 60 + 2.0 * a->bins * 8)};
    return 1;
}

struct dfl {
    yir_ref x;
    int64_t bins;
    kv n, p;
};

/* Expectation of the softmax over the bins of one side (an index); one bin is the distance itself. */
static kv expectation(struct kb *b, const struct dfl *d, kv side)
{
    kv v[MOST_BINS], first = kb_muli(b, side, d->bins), zero = kb_immi(b, 0), sum = {0}, weighted = {0};
    for (int64_t j = 0; j < d->bins; j += MOST_LANES) {
        b->lanes = MOST_LANES;
        b->valid = (int)(d->bins - j < MOST_LANES ? d->bins - j : MOST_LANES);
        kv channel = kb_addi(b, first, j);
        kv logits = kb_ref_at(b, d->x, (kv[]){d->n, kb_lane(b, channel), zero, d->p});
        for (int i = 0; i < b->valid; i++) v[j + i] = kb_pick(b, logits, i);
        b->lanes = b->valid = 1;
    }
    if (d->bins == 1) return v[0];
    kv top = v[0];
    for (int64_t j = 1; j < d->bins; j++) top = kb_fmax(b, top, v[j]);
    for (int64_t j = 0; j < d->bins; j++) {
        kv shifted = kb_fsub(b, v[j], top);
        kv e = kb_exp(b, shifted);
        sum = j ? kb_fadd(b, sum, e) : e;
        weighted = j ? kb_fma(b, e, kb_immf(b, (double)j), weighted) : kb_immf(b, 0.0);
    }
    return kb_fdiv(b, weighted, sum);
}

/* A unit is an axis of a cell, which has the two sides across it; cells are neighbours. */
void emit_fast_vec_dfl(struct kb *b, struct cg_kernel *k)
{
    const struct yir_a_box *a = yir_attrs(b->f, k->last);
    struct dfl d = {.x = yir_src(b->f, k->last, 0), .bins = a->bins};
    const struct yir_tdesc *x = yir_desc(b->f, d.x);
    kv u, cells = kb_immi(b, x->dim[2] * x->dim[3]), width = kb_immi(b, x->dim[3]);
    cg_split_unit(b, 2 * x->dim[2] * x->dim[3], &d.n, &u);
    kv axis = kb_idiv(b, u, cells);
    d.p = kb_irem(b, u, cells);
    kv far_side = kb_addi(b, axis, 2);
    kv near = expectation(b, &d, axis);
    kv far = expectation(b, &d, far_side);
    kv vertical = kb_ieq(b, axis, kb_immi(b, 1));
    kv row = kb_idiv(b, d.p, width), column = kb_irem(b, d.p, width);
    kv at = kb_itof(b, kb_select(b, vertical, row, column));
    kv p = kb_fadd(b, at, kb_immf(b, 0.5));
    kv low = kb_fsub(b, p, near);
    kv high = kb_fadd(b, p, far);
    kv both = kb_fadd(b, low, high);
    kv centre = kb_fmul(b, both, kb_immf(b, 0.5));
    kv size = kb_fsub(b, high, low);
    kv stride = kb_immf(b, (double)a->stride);
    kv one = kb_fmul(b, a->corners ? low : centre, stride);
    kv two = kb_fmul(b, a->corners ? high : size, stride);
    kb_store_op(b, k->last, (kv[]){d.n, axis, d.p}, one);
    kb_store_op(b, k->last, (kv[]){d.n, far_side, d.p}, two);
}

/* --- flattening ----------------------------------------------------------------------------------------------- */

bool guard_vec_flat(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    return t->sm && cg_only_last(f, first, last) && guard_head_flat(f, first, last, t);
}

size_t list_vec_flat(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    (void)first;
    (void)most;
    return list_vectors(f, last, t, 12, out);
}

struct flat {
    uint32_t op;
    yir_ref x;
    kv n, p;
};

/* The result's planes are dense: a flattened map, or one in logical order (guard_head_flat). */
static void flat_channels(struct kb *b, void *ctx, kv c)
{
    const struct flat *s = ctx;
    yir_ref r = yir_mkref(YIR_VAL, s->op);
    int mem = kb_mem_value(b, r);
    kv zero = kb_immi(b, 0);
    kv value = kb_ref_at(b, s->x, (kv[]){s->n, c, zero, s->p});
    kv first = kb_unmarked(b, c);
    for (int i = 0; i < b->valid; i++) {
        kv channel = kb_addi(b, first, i);
        kv plane = kb_address(b, r, (kv[]){s->n, channel, zero, zero});
        kv to = kb_iadd(b, plane, s->p);
        kb_store(b, mem, to, kb_pick(b, value, i));
    }
}

/* Neighbouring units are neighbouring positions, whose results lie side by side. */
void emit_fast_vec_flat(struct kb *b, struct cg_kernel *k)
{
    struct flat s = {.op = k->last, .x = yir_src(b->f, k->last, 0)};
    const struct yir_tdesc *d = yir_desc(b->f, s.x);
    int lanes = k->config.knob[0];
    kv u, positions = kb_immi(b, d->dim[2] * d->dim[3]);
    cg_split_unit(b, groups_of(d->dim[1], lanes) * d->dim[2] * d->dim[3], &s.n, &u);
    kv group = kb_idiv(b, u, positions);
    s.p = kb_irem(b, u, positions);
    cg_group_channels(b, d->dim[1], lanes, group, flat_channels, &s);
}
