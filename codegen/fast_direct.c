/* Direct convolution on vectors of output channels. A unit is a few output rows: their input rows are packed into scratch
 * through the prologue (with zeros around the map), then blocks of pixels x channels are accumulated in registers and finished
 * by the epilogue. A 1x1 convolution over a value in memory reads it where it is. */
#include "fast_conv.h"

#include <string.h>

struct direct {
    struct conv c;
    struct conv_parts p;  /* a block's channels, and a unit's */
    int64_t pixels, rows; /* a block's pixels; a unit's rows */
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

/* Cycles of a block's main loop and its ends. Two multiply-adds and two loads a cycle, four cycles until a sum can be used again;
 * a block that leaves few registers over spills or waits (measured). */
static double block_cycles(const struct direct *d, int vectors, int64_t pixels)
{
    const struct kb_target *t = d->c.t;
    double v = vectors, p = (double)pixels, steps = (double)(d->taps * d->run);
    double fma = v * p / 2, load = (v + p) / 2, step = fma > load ? fma : load;
    if (step < 4) step = 4;
    if (v * p + v > t->vregs - 8) step *= 1.2;
    return step * steps + 24 + v * p * cg_epilogue_cycles(&d->c);
}

/* Weights stream beside the sums at so many cycles a cache line: from beyond the second-level cache the first time, and for
 * every run of rows when they are too many for it (measured). */
static double config_cycles(const struct direct *d, int vectors, int64_t pixels, int64_t rows, int64_t parts)
{
    enum { L2_BYTES = 1200 * 1024 };
    const double far = 8, near = 1;
    const struct conv *c = &d->c;
    int64_t runs = (c->oh + rows - 1) / rows, width = d->flat ? rows * c->ow : c->ow;
    int64_t across = (width + pixels - 1) / pixels * (d->flat ? 1 : rows);
    int64_t block = (int64_t)vectors * c->lanes, whole = c->co / block, rest = (c->co % block + c->lanes - 1) / c->lanes;
    double blocks = (double)whole * block_cycles(d, vectors, pixels);
    if (rest) blocks += block_cycles(d, (int)rest, pixels);
    int64_t packed = d->in_place ? 0 : cg_packed_size(&c->win, rows, c->ow, c->ci);
    double pack = (packed > 96 * 1024 ? 3.5 : 2.5) * (double)(packed / c->lanes);
    double lines = (double)(c->co * d->taps * d->run) * 4 / 64, again = lines * 64 > L2_BYTES ? far : near;
    double all = (double)runs * ((double)across * blocks + (double)parts * (pack + 100)) + lines * (far + (double)(runs - 1) * again);
    return cg_shared_cycles(all, runs * parts);
}

struct list {
    struct direct d;
    struct cg_config all[512];
    size_t n;
};

static void add_config(struct list *l, int vectors, int64_t pixels, int64_t rows, int64_t parts)
{
    const struct conv *c = &l->d.c;
    const int32_t knob[CG_KNOBS] = {(int32_t)pixels, vectors, (int32_t)rows, (int32_t)parts};
    if (l->n == YIR_COUNT(l->all)) l->n = cg_best_configs(l->all, l->n, YIR_COUNT(l->all) / 2);
    for (size_t i = 0; i < l->n; i++)
        if (!memcmp(l->all[i].knob, knob, sizeof knob)) return;
    if (cg_conv_parts(c, vectors, parts).parts != parts) return;
    l->all[l->n] = (struct cg_config){.cycles = config_cycles(&l->d, vectors, pixels, rows, parts)};
    memcpy(l->all[l->n++].knob, knob, sizeof knob);
}

/* Register blocks for a run of rows. */
static void add_blocks(struct list *l, int64_t rows, int64_t parts)
{
    const struct conv *c = &l->d.c;
    for (int v = 1; v <= MAX_VECTORS && (v == 1 || (int64_t)(v - 1) * c->lanes < c->co); v++) {
        int64_t width = l->d.flat ? rows * c->ow : c->ow, high = cg_most_pixels(c->t, v), low = (high + 1) / 2;
        if (high < 2 && v > 1) continue;
        for (int64_t p = high; p >= low; p--) add_config(l, v, p < width ? p : width, rows, parts);
    }
}

/* Runs of rows worth trying: enough units to share out, little done twice, scratch within the second-level cache. A map of few
 * rows shares out its channels too. */
static void add_rows(struct list *l, int64_t rows)
{
    enum { CACHE_ELEMS = 256 * 1024, UNITS = 4 };
    const struct conv *c = &l->d.c;
    int64_t runs = (c->oh + rows - 1) / rows;
    if (rows > c->oh || (rows > 1 && runs * rows - c->oh >= (rows + 1) / 2)) return;
    if (rows > 1 && !l->d.in_place && cg_packed_size(&c->win, rows, c->ow, c->ci) > CACHE_ELEMS) return;
    for (int64_t parts = 1; parts <= 8; parts *= 2)
        if ((runs * parts >= UNITS || rows == 1) && (parts == 1 || runs < 4 * UNITS)) add_blocks(l, rows, parts);
}

size_t list_conv_direct(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t,
                        struct cg_config *out, size_t most)
{
    static const int64_t rows[] = {1, 2, 3, 4, 5, 7, 8, 10, 13, 20};
    struct list l = {.n = 0};
    struct conv c;
    cg_conv_of(f, first, last, t, &c);
    l.d = direct_of(&c);
    for (size_t i = 0; i < YIR_COUNT(rows); i++) add_rows(&l, rows[i]);
    size_t n = cg_best_configs(l.all, l.n, most < 24 ? most : 24);
    memcpy(out, l.all, n * sizeof *out);
    return n;
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
    int64_t block = (int64_t)d->p.vectors * c->lanes;
    kv weights = kb_muli(b, channel, d->taps * d->run); /* OBLOCK: channel / block * (taps * run * block) */
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->taps), 1);
    kv row = kb_muli(b, r, d->line);
    kv from = kb_iadd(b, base, row);
    kv row_weights = kb_muli(b, r, d->run * block);
    kv wr = kb_iadd(b, weights, row_weights);
    const struct cg_sums sums = {.mem_x = d->mem_x, .mem_w = d->mem_w, .vectors = vectors, .last = c->lanes, .pixels = d->pixels,
                                 .steps = d->run, .x_pixel = c->win.stride[1] * d->step, .x_step = 1, .w_step = block};
    cg_add_products(b, &sums, from, wr, acc);
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
static void channel_block(struct kb *b, const void *ctx, int vectors, int last, kv channel)
{
    const struct direct *d = ctx;
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
    const int32_t *knob = k->config.knob;
    cg_conv_of(b->f, k->first, k->last, b->target, &c);
    struct direct d = direct_of(&c);
    d.pixels = knob[0];
    d.rows = knob[2];
    d.p = cg_conv_parts(&c, knob[1], knob[3]);
    kv run, part;
    cg_conv_units(b, &d.p, (c.oh + d.rows - 1) / d.rows, &d.n, &run, &part);
    kv row = kb_muli(b, run, d.rows);
    d.row0 = kb_imin(b, row, kb_immi(b, c.oh - d.rows));
    locate_input(b, &d);
    int32_t block = (int32_t)(d.p.vectors * c.lanes);
    d.mem_w = kb_mem_weight(b, c.w, weight_packing(&d), block);
    if (yir_kind(c.bias) != YIR_NIL) d.mem_bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, block);
    cg_conv_channels(b, &c, &d.p, part, channel_block, &d);
}
