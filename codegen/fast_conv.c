/* Convolutions on vectors of output channels. A unit is a few output rows: their input rows are packed into scratch through
 * the prologue (with zeros around the map), then blocks of pixels x channels are accumulated in registers and finished by
 * the epilogue. A 1x1 convolution over a value in memory reads it where it is. */
#include "fast.h"

enum { MAX_PIXELS = 24, MAX_VECTORS = 4 };

/* The convolution's numbers and the shape of its register block. */
struct conv {
    struct cg_kernel *k;
    uint32_t op;
    yir_ref x, w, bias;       /* bias NIL: none */
    struct cg_window win;
    int64_t ci, co, oh, ow;
    int lanes, vectors;       /* a block: vectors * lanes channels */
    int64_t pixels, rows;     /* a block's pixels; a unit's rows */
    bool flat;                /* 1x1: pixels of all rows of a unit are one run */
    bool direct;              /* input read in place */
    int64_t step, line;       /* elements from one input column, and row, to the next, as the main loop reads */
    int64_t taps, run;        /* loops over rows of the window and over its columns x channels (one run) */
    struct cg_packed packed;
    kv n, row0;
    int mem_x, mem_w, mem_bias;
};

static struct cg_window window_of(const struct yir_a_conv *a, const struct yir_tdesc *w)
{
    return (struct cg_window){{w->dim[2], w->dim[3]}, {a->stride[0], a->stride[1]}, {a->dil[0], a->dil[1]}, {a->pad[0], a->pad[1]}};
}

static bool float_map(const struct yir_func *f, yir_ref r)
{
    const struct yir_tdesc *d = yir_desc(f, r);
    return d->rank == 4 && d->dtype == YIR_F32;
}

/* The kernel's only convolution, when its numbers are floats and its weights are constants that can be packed. */
static uint32_t plain_conv(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_conv2d);
    if (t->lanes == 1 || !op || !float_map(f, yir_src(f, op, 0))) return 0;
    for (int k = 1; k < f->op[op].nsrc; k++)
        if (yir_kind(yir_src(f, op, k)) != YIR_WGT || yir_desc(f, yir_src(f, op, k))->dtype != YIR_F32) return 0;
    return cg_lanes_ok(f, first, last, op) ? op : 0;
}

bool guard_conv_direct(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = plain_conv(f, first, last, t);
    if (!op) return false;
    const struct yir_a_conv *a = yir_attrs(f, op);
    return a->groups == 1 && a->dil[1] == 1;
}

bool guard_conv_dw(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = plain_conv(f, first, last, t);
    if (!op) return false;
    const struct yir_a_conv *a = yir_attrs(f, op);
    const struct yir_tdesc *w = yir_desc(f, yir_src(f, op, 1));
    return a->groups == w->dim[0] && w->dim[1] == 1 && yir_desc(f, yir_src(f, op, 0))->dim[1] == w->dim[0];
}

static struct conv conv_of(struct kb *b, struct cg_kernel *k)
{
    struct conv c = {.k = k, .op = cg_only_op(b->f, k->first, k->last, YIR_conv2d), .lanes = b->target->lanes};
    const struct yir_a_conv *a = yir_attrs(b->f, c.op);
    c.x = yir_src(b->f, c.op, 0);
    c.w = yir_src(b->f, c.op, 1);
    c.bias = b->f->op[c.op].nsrc == 3 ? yir_src(b->f, c.op, 2) : YIR_NONE;
    c.win = window_of(a, yir_desc(b->f, c.w));
    c.ci = yir_desc(b->f, c.x)->dim[1];
    const struct yir_tdesc *out = yir_tdesc(b->f->types, b->f->op[c.op].type);
    c.co = out->dim[1];
    c.oh = out->dim[2];
    c.ow = out->dim[3];
    return c;
}

/* Unit number to first row; the last unit starts early rather than run over the edge. */
static void begin_unit(struct kb *b, struct conv *c)
{
    kv u;
    cg_split_unit(b, (c->oh + c->rows - 1) / c->rows, &c->n, &u);
    kv row = kb_muli(b, u, c->rows);
    c->row0 = kb_imin(b, row, kb_immi(b, c->oh - c->rows));
}

/* --- direct ------------------------------------------------------------------------------------------------- */

/* Registers: vectors x pixels accumulators, the weights of one step, and one input unless it is a memory operand. Ten
 * pixels x two vectors is what the 32 registers of AVX-512 take best (bench notes); more spill or wait. */
static void choose_block(struct kb *b, struct conv *c)
{
    const struct kb_target *t = b->target;
    c->vectors = c->co > c->lanes ? 2 : 1;
    int spare = t->vregs - c->vectors - (t->mem_splat ? 0 : 1);
    int64_t most = spare / c->vectors;
    if (t->vregs >= 32 && most > 10 * 2 / c->vectors) most = 10 * 2 / c->vectors;
    if (most > MAX_PIXELS) most = MAX_PIXELS;
    const struct cg_window *w = &c->win;
    const struct yir_tdesc *in = yir_desc(b->f, c->x);
    bool one = w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 &&
               in->dim[2] == c->oh && in->dim[3] == c->ow; /* no padding, on any side */
    c->direct = one && cg_in_memory(b->f, b->kernel, c->x) && in->layout == YIR_NHWC && yir_kind(c->x) == YIR_VAL &&
                b->f->place[yir_index(c->x)].stride[1] == 1;
    c->flat = one && cg_pointwise(b->f, c->k->first, c->k->last, c->op) && (!c->direct || cg_one_run(b->f, c->x));
    c->rows = cg_rows_per_unit(c->oh, c->ow, c->direct ? c->ow * c->ci / 4 : cg_packed_size(w, 1, c->ow, c->ci) / w->kernel[0]);
    c->pixels = cg_pixels(c->flat ? c->rows * c->ow : c->ow, most);
}

static void locate_input(struct kb *b, struct conv *c)
{
    c->taps = c->win.kernel[0];
    c->run = c->win.kernel[1] * c->ci;
    if (c->direct) {
        const int64_t *stride = b->f->place[yir_index(c->x)].stride;
        c->mem_x = kb_mem_value(b, c->x);
        c->step = stride[3];
        c->line = stride[2];
        return;
    }
    c->packed = cg_pack_rows(b, c->x, &c->win, c->n, c->row0, c->rows, c->ow, 1);
    c->mem_x = c->packed.mem;
    c->step = c->ci;
    c->line = c->packed.columns * c->ci;
}

/* First input element of output pixel (y within the unit, x), window row 0. */
static kv input_base(struct kb *b, const struct conv *c, kv y, kv x)
{
    kv row = kb_muli(b, y, c->win.stride[0] * c->line);
    kv col = kb_muli(b, x, c->win.stride[1] * c->step);
    kv base = kb_iadd(b, row, col);
    if (!c->direct) return base;
    kv zero = kb_immi(b, 0);
    kv unit = kb_address(b, c->x, (kv[]){c->n, zero, c->row0, zero});
    return kb_iadd(b, unit, base);
}

/* Sums of one block: pixels x vectors, from `channel` (a multiple of the block, or the start of the rest) on. */
static void accumulate(struct kb *b, const struct conv *c, int vectors, kv base, kv channel, kv acc[][MAX_VECTORS])
{
    int64_t block = (int64_t)c->vectors * c->lanes;
    kv weights = kb_muli(b, channel, c->taps * c->run); /* OBLOCK: channel / block * (taps * run * block) */
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, c->taps), 1);
    kv row = kb_muli(b, r, c->win.dil[0] * c->line);
    kv from = kb_iadd(b, base, row);
    kv row_weights = kb_muli(b, r, c->run * block);
    kv wr = kb_iadd(b, weights, row_weights);
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, c->run), 1);
    kv step = kb_muli(b, j, block);
    kv at = kb_iadd(b, wr, step);
    kv xj = kb_iadd(b, from, j);
    kv w[MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        kv wv = kb_addi(b, at, (int64_t)v * c->lanes);
        w[v] = kb_load(b, c->mem_w, kb_lane(b, wv));
    }
    for (int64_t p = 0; p < c->pixels; p++) {
        kv xp = kb_addi(b, xj, p * c->win.stride[1] * c->step);
        kv x = kb_load(b, c->mem_x, xp);
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
static void finish(struct kb *b, const struct conv *c, int vectors, int last, kv y, kv x, kv channel, kv acc[][MAX_VECTORS])
{
    for (int64_t p = 0; p < c->pixels; p++)
        for (int v = 0; v < vectors; v++) {
            b->valid = v == vectors - 1 ? last : c->lanes;
            kv start = kb_addi(b, channel, (int64_t)v * c->lanes);
            kv ch = kb_lane(b, start);
            kv xp = kb_addi(b, x, p);
            kv sum = kb_get(b, acc[p][v]);
            cg_bind(b, c->op, sum);
            cg_store_all(b, c->k->first, c->k->last, (kv[]){c->n, ch, y, xp});
            b->nbound--;
        }
    b->valid = b->lanes;
}

/* All pixels of the unit for the channels from `channel` on: `vectors` vectors, the last one `last` lanes wide. */
static void channel_block(struct kb *b, const struct conv *c, int vectors, int last, kv channel)
{
    int64_t width = c->flat ? c->rows * c->ow : c->ow, rows = c->flat ? 1 : c->rows;
    kv bias[MAX_VECTORS];
    for (int v = 0; v < vectors; v++) {
        bias[v] = kb_wide(b, kb_immf(b, 0.0));
        if (yir_kind(c->bias) == YIR_NIL) continue;
        kv at = kb_addi(b, channel, (int64_t)v * c->lanes);
        bias[v] = kb_load(b, c->mem_bias, kb_lane(b, at));
    }
    kv y = kb_loop(b, kb_immi(b, 0), kb_immi(b, rows), 1);
    kv out_y = kb_iadd(b, c->row0, y);
    kv xi = kb_loop(b, kb_immi(b, 0), kb_immi(b, width), c->pixels);
    kv x = kb_imin(b, xi, kb_immi(b, width - c->pixels));
    kv base = input_base(b, c, y, x);
    kv acc[MAX_PIXELS][MAX_VECTORS];
    for (int64_t p = 0; p < c->pixels; p++)
        for (int v = 0; v < vectors; v++) acc[p][v] = kb_var(b, bias[v]);
    accumulate(b, c, vectors, base, channel, acc);
    finish(b, c, vectors, last, out_y, x, channel, acc);
    kb_end(b);
    kb_end(b);
}

void emit_fast_conv_direct(struct kb *b, struct cg_kernel *k)
{
    struct conv c = conv_of(b, k);
    choose_block(b, &c);
    begin_unit(b, &c);
    locate_input(b, &c);
    int64_t block = (int64_t)c.vectors * c.lanes, whole = c.co / block, rest = c.co % block;
    c.mem_w = kb_mem_weight(b, c.w, KB_PACK_OBLOCK, (int32_t)block);
    if (yir_kind(c.bias) != YIR_NIL) c.mem_bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, (int32_t)block);
    b->lanes = b->valid = c.lanes;
    if (whole) {
        kv ch = kb_loop(b, kb_immi(b, 0), kb_immi(b, whole * block), block);
        channel_block(b, &c, c.vectors, c.lanes, ch);
        kb_end(b);
    }
    if (rest) {
        int vectors = (int)((rest + c.lanes - 1) / c.lanes), last = (int)(rest - (int64_t)(vectors - 1) * c.lanes);
        channel_block(b, &c, vectors, last, kb_immi(b, whole * block));
    }
    b->lanes = b->valid = 1;
}

/* --- depthwise ---------------------------------------------------------------------------------------------- */

struct dw_block {
    struct conv *c;
    int64_t wide; /* channels of the packed weights */
    kv y, x;      /* row within the unit, first pixel */
};

static void dw_channels(struct kb *b, void *ctx, kv ch)
{
    const struct dw_block *d = ctx;
    const struct conv *c = d->c;
    kv bias = kb_wide(b, kb_immf(b, 0.0));
    if (yir_kind(c->bias) != YIR_NIL) bias = kb_load(b, c->mem_bias, ch);
    kv acc[MAX_PIXELS];
    for (int64_t p = 0; p < c->pixels; p++) acc[p] = kb_var(b, bias);
    kv row = kb_muli(b, d->y, c->win.stride[0] * c->line);
    kv col = kb_muli(b, d->x, c->win.stride[1] * c->step);
    kv base = kb_iadd(b, row, col);
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, c->win.kernel[0]), 1);
    kv line = kb_muli(b, r, c->win.dil[0] * c->line);
    kv from = kb_iadd(b, base, line);
    kv weights = kb_muli(b, r, c->win.kernel[1] * d->wide);
    for (int64_t t = 0; t < c->win.kernel[1]; t++) {
        kv wt = kb_addi(b, weights, t * d->wide);
        kv w = kb_load(b, c->mem_w, kb_iadd(b, ch, wt));
        for (int64_t p = 0; p < c->pixels; p++) {
            kv at = kb_addi(b, from, (p * c->win.stride[1] + t * c->win.dil[1]) * c->step);
            kv x = kb_load(b, c->mem_x, kb_iadd(b, ch, at));
            kv old = kb_get(b, acc[p]);
            kv sum = kb_fma(b, x, w, old);
            kb_set(b, acc[p], sum);
        }
    }
    kb_end(b);
    kv out_y = kb_iadd(b, c->row0, d->y);
    for (int64_t p = 0; p < c->pixels; p++) {
        kv xp = kb_addi(b, d->x, p);
        kv sum = kb_get(b, acc[p]);
        cg_bind(b, c->op, sum);
        cg_store_all(b, c->k->first, c->k->last, (kv[]){c->n, ch, out_y, xp});
        b->nbound--;
    }
}

void emit_fast_conv_dw(struct kb *b, struct cg_kernel *k)
{
    struct conv c = conv_of(b, k);
    c.rows = cg_rows_per_unit(c.oh, c.ow, cg_packed_size(&c.win, 1, c.ow, c.ci) / c.win.kernel[0]);
    c.pixels = cg_pixels(c.ow, 8);
    begin_unit(b, &c);
    c.packed = cg_pack_rows(b, c.x, &c.win, c.n, c.row0, c.rows, c.ow, c.lanes);
    c.mem_x = c.packed.mem;
    c.step = c.packed.channels;
    c.line = c.packed.columns * c.step;
    c.mem_w = kb_mem_weight(b, c.w, KB_PACK_DW, c.lanes);
    if (yir_kind(c.bias) != YIR_NIL) c.mem_bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, c.lanes);
    struct dw_block d = {.c = &c, .wide = (c.co + c.lanes - 1) / c.lanes * c.lanes};
    d.y = kb_loop(b, kb_immi(b, 0), kb_immi(b, c.rows), 1);
    kv xi = kb_loop(b, kb_immi(b, 0), kb_immi(b, c.ow), c.pixels);
    d.x = kb_imin(b, xi, kb_immi(b, c.ow - c.pixels));
    cg_channels(b, 0, c.co, dw_channels, &d);
    kb_end(b);
    kb_end(b);
}
