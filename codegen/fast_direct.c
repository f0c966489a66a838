/* Direct convolution on vectors of output channels. A unit is a few output rows: their input rows are packed into scratch
 * through the prologue (with zeros around the map), then blocks of pixels x channels are accumulated in registers and finished
 * by the epilogue. A 1x1 convolution over a value in memory reads it where it is. */
#include "fast_conv.h"

struct direct {
    struct conv c;
    int vectors;          /* a block: vectors * lanes channels ... */
    int64_t pixels, rows; /* ... and pixels; a unit's rows */
    bool flat;            /* 1x1: pixels of all rows of a unit are one run */
    bool in_place;        /* input read where it lies */
    int64_t step, row;    /* elements from one input column, and row, to the next, as the main loop reads */
    int64_t taps, run;    /* loops over rows of the window (in planes: rows x channels) and over what is one run in a row: its
                           * columns x channels (in planes: its columns) */
    int64_t line;         /* elements from one such row of the window to the next */
    struct cg_packed packed;
    kv n, row0;
    int mem_x, mem_w, mem_bias;
};

bool guard_conv_direct(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    return cg_conv_of(f, first, last, t, &c) && c.groups == 1 && c.win.dil[1] == 1;
}

static struct direct direct_of(const struct conv *c)
{
    struct direct d = {.c = *c};
    const struct cg_window *w = &c->win;
    bool one = w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 && c->ih == c->oh &&
               c->iw == c->ow; /* no padding, on any side */
    d.in_place = one && cg_conv_in_place(c);
    d.flat = one && cg_pointwise(c->f, c->first, c->last, c->op) && (!d.in_place || cg_one_run(c->f, c->x));
    d.taps = w->kernel[0];
    d.run = w->kernel[1] * c->ci;
    return d;
}

/* --- configurations ----------------------------------------------------------------------------------------- */

/* Accumulators are vectors x pixels registers, beside the weights of one step and one input, unless inputs are memory operands. */
static int64_t most_pixels(const struct kb_target *t, int vectors)
{
    int64_t most = (t->vregs - vectors - (t->mem_splat ? 0 : 1)) / vectors;
    return most > MAX_PIXELS ? MAX_PIXELS : most;
}

/* Cycles of a block's main loop and its ends. Two multiply-adds and two loads a cycle, four cycles until a sum can be used again;
 * a block that leaves few registers over spills or waits (measured). */
static double block_cycles(const struct direct *d, int vectors, int64_t pixels)
{
    const struct kb_target *t = d->c.t;
    double v = vectors, p = (double)pixels, steps = (double)(d->taps * d->run);
    double fma = v * p / 2, load = (v + p) / 2, step = fma > load ? fma : load;
    if (step < 4) step = 4;
    if (v * p + v > t->vregs - 6) step *= 1.12;
    return step * steps + 24 + v * p * cg_epilogue_cycles(&d->c);
}

static double config_cycles(const struct direct *d, int vectors, int64_t pixels, int64_t rows)
{
    const struct conv *c = &d->c;
    int64_t units = (c->oh + rows - 1) / rows, width = d->flat ? rows * c->ow : c->ow;
    int64_t across = (width + pixels - 1) / pixels * (d->flat ? 1 : rows);
    int64_t block = (int64_t)vectors * c->lanes, whole = c->co / block, rest = (c->co % block + c->lanes - 1) / c->lanes;
    double blocks = (double)whole * block_cycles(d, vectors, pixels);
    if (rest) blocks += block_cycles(d, (int)rest, pixels);
    double pack = d->in_place ? 0 : 2.5 * (double)(cg_packed_size(&c->win, rows, c->ow, c->ci) / c->lanes);
    /* Weights come again from the second-level cache for every unit. */
    double weights = 0.4 * (double)(c->co * d->taps * d->run / c->lanes);
    return cg_shared_cycles((double)units * ((double)across * blocks + pack + weights + 100), units);
}

static size_t add_config(const struct direct *d, int vectors, int64_t pixels, int64_t rows, struct cg_config *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (out[i].knob[0] == pixels && out[i].knob[1] == vectors && out[i].knob[2] == rows) return n;
    out[n] = (struct cg_config){.knob = {(int32_t)pixels, vectors, (int32_t)rows},
                                .cycles = config_cycles(d, vectors, pixels, rows)};
    return n + 1;
}

/* Numbers of rows worth trying: enough units to share out, little done twice, scratch within the second-level cache. */
static int list_rows(const struct direct *d, int64_t rows[8])
{
    enum { CACHE_ELEMS = 192 * 1024 };
    static const int64_t some[] = {1, 2, 3, 4, 5, 8, 10};
    const struct conv *c = &d->c;
    int n = 0;
    for (size_t i = 0; i < YIR_COUNT(some); i++) {
        int64_t r = some[i], units = (c->oh + r - 1) / r;
        if (r > c->oh || (r > 1 && units < 4) || (r > 1 && units * r - c->oh >= (r + 1) / 2)) continue;
        if (r > 1 && !d->in_place && cg_packed_size(&c->win, r, c->ow, c->ci) > CACHE_ELEMS) continue;
        rows[n++] = r;
    }
    return n;
}

size_t list_conv_direct(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t,
                        struct cg_config *out, size_t most)
{
    struct conv c;
    int64_t rows[8];
    size_t n = 0;
    cg_conv_of(f, first, last, t, &c);
    struct direct d = direct_of(&c);
    int nrows = list_rows(&d, rows);
    for (int r = 0; r < nrows; r++)
        for (int v = 1; v <= MAX_VECTORS && (v == 1 || (int64_t)(v - 1) * c.lanes < c.co); v++) {
            int64_t width = d.flat ? rows[r] * c.ow : c.ow, high = most_pixels(t, v), low = (high + 1) / 2;
            if (high < 2 && v > 1) continue;
            for (int64_t p = high; p >= low && n < most; p--) {
                int64_t fit = p < width ? p : width;
                n = add_config(&d, v, fit, rows[r], out, n);
            }
        }
    return cg_best_configs(out, n, 24);
}

/* --- program ------------------------------------------------------------------------------------------------ */

static void locate_input(struct kb *b, struct direct *d)
{
    const struct conv *c = &d->c;
    if (d->in_place) {
        const int64_t *stride = b->f->place[yir_index(c->x)].stride;
        d->mem_x = kb_mem_value(b, c->x);
        d->step = stride[3];
        d->row = stride[2];
        d->line = c->win.dil[0] * d->row;
        return;
    }
    d->packed = cg_pack_rows(b, c->x, &c->win, d->n, d->row0, d->rows, c->ow, 1);
    d->mem_x = d->packed.mem;
    d->step = c->ci;
    d->row = d->packed.columns * c->ci;
    d->line = c->win.dil[0] * d->row;
    if (d->packed.order != CG_PLANES) return;
    d->step = 1;
    d->line = d->packed.columns;
    d->taps = c->win.kernel[0] * c->ci;
    d->run = c->win.kernel[1];
}

/* The packing of weights for the order in which the main loop meets the input channels. */
static enum kb_packing weight_packing(const struct direct *d)
{
    if (d->in_place) return KB_PACK_OBLOCK;
    switch (d->packed.order) {
    case CG_CHANNELS: return KB_PACK_OBLOCK;
    case CG_REVERSED: return KB_PACK_OBLOCK_BACK;
    case CG_PLANES: return KB_PACK_OBLOCK_PLANES;
    }
    YIR_BUG("no such order: %d", (int)d->packed.order);
}

/* First input element of output pixel (y within the unit, x), window row 0. */
static kv input_base(struct kb *b, const struct direct *d, kv y, kv x)
{
    kv row = kb_muli(b, y, d->c.win.stride[0] * d->row);
    kv col = kb_muli(b, x, d->c.win.stride[1] * d->step);
    kv base = kb_iadd(b, row, col);
    if (!d->in_place) return base;
    kv zero = kb_immi(b, 0);
    kv unit = kb_address(b, d->c.x, (kv[]){d->n, zero, d->row0, zero});
    return kb_iadd(b, unit, base);
}

/* Sums of one block: pixels x vectors, from `channel` (a multiple of the block, or the start of the rest) on. */
static void accumulate(struct kb *b, const struct direct *d, int vectors, kv base, kv channel, kv acc[][MAX_VECTORS])
{
    const struct conv *c = &d->c;
    int64_t block = (int64_t)d->vectors * c->lanes;
    kv weights = kb_muli(b, channel, d->taps * d->run); /* OBLOCK: channel / block * (taps * run * block) */
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->taps), 1);
    kv row = kb_muli(b, r, d->line);
    kv from = kb_iadd(b, base, row);
    kv row_weights = kb_muli(b, r, d->run * block);
    kv wr = kb_iadd(b, weights, row_weights);
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->run), 1);
    kv step = kb_muli(b, j, block);
    kv at = kb_iadd(b, wr, step);
    kv xj = kb_iadd(b, from, j);
    kv w[MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        kv wv = kb_addi(b, at, (int64_t)v * c->lanes);
        w[v] = kb_load(b, d->mem_w, kb_lane(b, wv));
        kb_ahead(b, d->mem_w, kb_addi(b, wv, CG_AHEAD * block));
    }
    for (int64_t p = 0; p < d->pixels; p++) {
        kv xp = kb_addi(b, xj, p * c->win.stride[1] * d->step);
        kv x = kb_load(b, d->mem_x, xp);
        for (int v = 0; v < vectors; v++) {
            kv old = kb_get(b, acc[p][v]);
            kv sum = kb_fma(b, x, w[v], old);
            kb_set(b, acc[p][v], sum);
        }
    }
    kb_end(b);
    kb_end(b);
}

/* The epilogue of a block. `last` lanes of its last vector exist. */
static void finish(struct kb *b, const struct direct *d, int vectors, int last, kv y, kv x, kv channel, kv acc[][MAX_VECTORS])
{
    const struct conv *c = &d->c;
    for (int64_t p = 0; p < d->pixels; p++)
        for (int v = 0; v < vectors; v++) {
            b->valid = v == vectors - 1 ? last : c->lanes;
            kv start = kb_addi(b, channel, (int64_t)v * c->lanes);
            kv ch = kb_lane(b, start);
            kv xp = kb_addi(b, x, p);
            kv sum = kb_get(b, acc[p][v]);
            cg_bind(b, c->op, sum);
            cg_store_all(b, c->first, c->last, (kv[]){d->n, ch, y, xp});
            b->nbound--;
        }
    b->valid = b->lanes;
}

/* All pixels of the unit for the channels from `channel` on: `vectors` vectors, the last one `last` lanes wide. */
static void channel_block(struct kb *b, const struct direct *d, int vectors, int last, kv channel)
{
    const struct conv *c = &d->c;
    int64_t width = d->flat ? d->rows * c->ow : c->ow, rows = d->flat ? 1 : d->rows;
    kv bias[MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        bias[v] = kb_wide(b, kb_immf(b, 0.0));
        if (yir_kind(c->bias) == YIR_NIL) continue;
        kv at = kb_addi(b, channel, (int64_t)v * c->lanes);
        bias[v] = kb_load(b, d->mem_bias, kb_lane(b, at));
    }
    kv y = kb_loop(b, kb_immi(b, 0), kb_immi(b, rows), 1);
    kv out_y = kb_iadd(b, d->row0, y);
    kv xi = kb_loop(b, kb_immi(b, 0), kb_immi(b, width), d->pixels);
    kv x = kb_imin(b, xi, kb_immi(b, width - d->pixels));
    kv base = input_base(b, d, y, x);
    kv acc[MAX_PIXELS][MAX_VECTORS];
    for (int64_t p = 0; p < d->pixels; p++)
        for (int v = 0; v < vectors; v++) acc[p][v] = kb_var(b, bias[v]);
    accumulate(b, d, vectors, base, channel, acc);
    finish(b, d, vectors, last, out_y, x, channel, acc);
    kb_end(b);
    kb_end(b);
}

void emit_fast_conv_direct(struct kb *b, struct cg_kernel *k)
{
    struct conv c;
    cg_conv_of(b->f, k->first, k->last, b->target, &c);
    struct direct d = direct_of(&c);
    d.pixels = k->config.knob[0];
    d.vectors = k->config.knob[1];
    d.rows = k->config.knob[2];
    cg_conv_unit(b, &c, d.rows, &d.n, &d.row0);
    locate_input(b, &d);
    int64_t block = (int64_t)d.vectors * c.lanes, whole = c.co / block, rest = c.co % block;
    d.mem_w = kb_mem_weight(b, c.w, weight_packing(&d), (int32_t)block);
    if (yir_kind(c.bias) != YIR_NIL) d.mem_bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, (int32_t)block);
    b->lanes = b->valid = c.lanes;
    if (whole) {
        kv ch = kb_loop(b, kb_immi(b, 0), kb_immi(b, whole * block), block);
        channel_block(b, &d, d.vectors, c.lanes, ch);
        kb_end(b);
    }
    if (rest) {
        int vectors = (int)((rest + c.lanes - 1) / c.lanes), last = (int)(rest - (int64_t)(vectors - 1) * c.lanes);
        channel_block(b, &d, vectors, last, kb_immi(b, whole * block));
    }
    b->lanes = b->valid = 1;
}
