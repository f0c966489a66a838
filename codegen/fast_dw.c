/* Depthwise convolution: channels as vectors. The input is read where it lies, or its rows are packed through the prologue. */
#include "fast_conv.h"

bool guard_conv_dw(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    if (!cg_conv_of(f, first, last, t, &c)) return false;
    const struct yir_tdesc *w = yir_desc(f, c.w);
    return c.groups == w->dim[0] && w->dim[1] == 1 && c.ci == w->dim[0];
}

size_t list_conv_dw(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                    size_t most)
{
    struct conv c;
    (void)most;
    cg_conv_of(f, first, last, t, &c);
    return cg_list_one(f, first, last, t, (double)(c.win.kernel[0] * c.win.kernel[1]) + cg_epilogue_cycles(&c), out);
}

struct depthwise {
    struct conv c;
    int64_t pixels, rows;
    bool in_place;       /* input read where it lies, its rim by narrower windows */
    int64_t inner[2];    /* output columns done by blocks: in place those whose window is within the map, else all */
    int64_t wide;        /* channels of the packed weights */
    int64_t step, line;  /* elements from one column, and row, to the next, as the main loop reads */
    kv n, row0, y, x;    /* row within the unit, first pixel */
    kv r[2], t[2];       /* in place: rows of the window within the map; its columns, at the rim */
    int mem_x, mem_w, mem_bias;
};

/* First element of channel 0 in the window at the first pixel: its row and column 0, which may lie outside the map. */
static kv window_base(struct kb *b, const struct depthwise *d)
{
    const struct conv *c = &d->c;
    kv row = kb_muli(b, d->y, c->win.stride[0] * d->line);
    kv col = kb_muli(b, d->x, c->win.stride[1] * d->step);
    kv base = kb_iadd(b, row, col);
    if (!d->in_place) return base;
    kv zero = kb_immi(b, 0);
    kv image = kb_address(b, c->x, (kv[]){d->n, zero, zero, zero});
    kv first = kb_muli(b, d->row0, c->win.stride[0] * d->line);
    kv unit = kb_iadd(b, image, first);
    kv at = kb_iadd(b, unit, base);
    return kb_addi(b, at, -c->win.pad[0] * d->line - c->win.pad[1] * d->step);
}

/* One column of the window: the weights at `weights`, the pixels from `from` on. */
static void tap(struct kb *b, const struct depthwise *d, int64_t pixels, kv ch, kv weights, kv from, kv *acc)
{
    kv w = kb_load(b, d->mem_w, kb_iadd(b, ch, weights));
    for (int64_t p = 0; p < pixels; p++) {
        kv at = kb_addi(b, from, p * d->c.win.stride[1] * d->step);
        kv x = kb_load(b, d->mem_x, kb_iadd(b, ch, at));
        kv old = kb_get(b, acc[p]);
        kv sum = kb_fma(b, x, w, old);
        kb_set(b, acc[p], sum);
    }
}

static void store_pixels(struct kb *b, const struct depthwise *d, int64_t pixels, kv ch, const kv *acc)
{
    const struct conv *c = &d->c;
    kv out_y = kb_iadd(b, d->row0, d->y);
    for (int64_t p = 0; p < pixels; p++) {
        kv xp = kb_addi(b, d->x, p);
        kv sum = kb_get(b, acc[p]);
        cg_bind(b, c->op, sum);
        cg_store_all(b, c->first, c->last, (kv[]){d->n, ch, out_y, xp});
        b->nbound--;
    }
}

/* Sums of some pixels for the channels ch; `rim`: of one, over the columns d->t of the window. */
static void dw_pixels(struct kb *b, const struct depthwise *d, int64_t pixels, bool rim, kv ch)
{
    const struct conv *c = &d->c;
    kv bias = kb_wide(b, kb_immf(b, 0.0));
    if (yir_kind(c->bias) != YIR_NIL) bias = kb_load(b, d->mem_bias, ch);
    kv acc[MAX_PIXELS];
    for (int64_t p = 0; p < pixels; p++) acc[p] = kb_var(b, bias);
    kv base = window_base(b, d);
    kv r = kb_loop(b, d->r[0], d->r[1], 1);
    kv line = kb_muli(b, r, c->win.dil[0] * d->line);
    kv from = kb_iadd(b, base, line);
    kv weights = kb_muli(b, r, c->win.kernel[1] * d->wide);
    if (rim) {
        kv t = kb_loop(b, d->t[0], d->t[1], 1);
        kv shift = kb_muli(b, t, d->wide);
        kv at_w = kb_iadd(b, weights, shift);
        kv column = kb_muli(b, t, c->win.dil[1] * d->step);
        kv at_x = kb_iadd(b, from, column);
        tap(b, d, pixels, ch, at_w, at_x, acc);
        kb_end(b);
    }
    for (int64_t t = 0; t < c->win.kernel[1] && !rim; t++) {
        kv at_w = kb_addi(b, weights, t * d->wide);
        kv at_x = kb_addi(b, from, t * c->win.dil[1] * d->step);
        tap(b, d, pixels, ch, at_w, at_x, acc);
    }
    kb_end(b);
    store_pixels(b, d, pixels, ch, acc);
}

static void dw_channels(struct kb *b, void *ctx, kv ch)
{
    const struct depthwise *d = ctx;
    dw_pixels(b, d, d->pixels, false, ch);
}

static void dw_rim(struct kb *b, void *ctx, kv ch)
{
    dw_pixels(b, ctx, 1, true, ch);
}

/* The part of a window of `kernel` at `first` (which may be negative) that lies within [0, size). */
static void within(struct kb *b, kv first, int64_t kernel, int64_t size, kv part[2])
{
    kv before = kb_isub(b, kb_immi(b, 0), first);
    kv after = kb_addi(b, before, size);
    part[0] = kb_imax(b, before, kb_immi(b, 0));
    part[1] = kb_imin(b, after, kb_immi(b, kernel));
}

/* Pixels at the rim, one by one. */
static void rim_columns(struct kb *b, struct depthwise *d, int64_t lo, int64_t hi)
{
    const struct conv *c = &d->c;
    if (lo >= hi) return;
    d->x = kb_loop(b, kb_immi(b, lo), kb_immi(b, hi), 1);
    kv col = kb_muli(b, d->x, c->win.stride[1]);
    kv first = kb_addi(b, col, -c->win.pad[1]);
    within(b, first, c->win.kernel[1], c->iw, d->t);
    cg_channels(b, 0, c->co, dw_rim, d);
    kb_end(b);
}

/* Whether reading in place pays: most windows lie within the map's columns. */
static bool find_inner(struct depthwise *d)
{
    const struct conv *c = &d->c;
    const struct cg_window *w = &c->win;
    d->inner[0] = 0;
    d->inner[1] = c->ow;
    if (!cg_conv_in_place(c) || w->dil[0] != 1 || w->dil[1] != 1 || c->iw < w->kernel[1]) return false;
    int64_t end = (c->iw + w->pad[1] - w->kernel[1]) / w->stride[1] + 1;
    int64_t start = (w->pad[1] + w->stride[1] - 1) / w->stride[1];
    if (end > c->ow) end = c->ow;
    if (4 * (end - start) < 3 * c->ow) return false;
    d->inner[0] = start;
    d->inner[1] = end;
    return true;
}

static void locate_input(struct kb *b, struct depthwise *d)
{
    const struct conv *c = &d->c;
    d->r[0] = kb_immi(b, 0);
    d->r[1] = kb_immi(b, c->win.kernel[0]);
    if (d->in_place) {
        const int64_t *stride = b->f->place[yir_index(c->x)].stride;
        d->mem_x = kb_mem_value(b, c->x);
        d->step = stride[3];
        d->line = stride[2];
        return;
    }
    struct cg_packed packed = cg_pack_rows(b, c->x, &c->win, d->n, d->row0, d->rows, c->ow, c->lanes);
    d->mem_x = packed.mem;
    d->step = packed.channels;
    d->line = packed.columns * d->step;
}

void emit_fast_conv_dw(struct kb *b, struct cg_kernel *k)
{
    struct depthwise d = {0};
    struct conv *c = &d.c;
    cg_conv_of(b->f, k->first, k->last, b->target, c);
    d.in_place = find_inner(&d);
    d.rows = cg_rows_per_unit(c->oh, c->ow, cg_packed_size(&c->win, 1, c->ow, c->ci) / c->win.kernel[0]);
    d.pixels = cg_pixels(d.inner[1] - d.inner[0], 8);
    cg_conv_unit(b, c, d.rows, &d.n, &d.row0);
    locate_input(b, &d);
    d.mem_w = kb_mem_weight(b, c->w, KB_PACK_DW, c->lanes);
    if (yir_kind(c->bias) != YIR_NIL) d.mem_bias = kb_mem_weight(b, c->bias, KB_PACK_OBLOCK, c->lanes);
    d.wide = (c->co + c->lanes - 1) / c->lanes * c->lanes;
    d.y = kb_loop(b, kb_immi(b, 0), kb_immi(b, d.rows), 1);
    if (d.in_place) {
        kv out = kb_iadd(b, d.row0, d.y);
        kv row = kb_muli(b, out, c->win.stride[0]);
        kv first = kb_addi(b, row, -c->win.pad[0]);
        within(b, first, c->win.kernel[0], c->ih, d.r);
        rim_columns(b, &d, 0, d.inner[0]);
        rim_columns(b, &d, d.inner[1], c->ow);
    }
    kv xi = kb_loop(b, kb_immi(b, d.inner[0]), kb_immi(b, d.inner[1]), d.pixels);
    d.x = kb_imin(b, xi, kb_immi(b, d.inner[1] - d.pixels));
    cg_channels(b, 0, c->co, dw_channels, &d);
    kb_end(b);
    kb_end(b);
}
