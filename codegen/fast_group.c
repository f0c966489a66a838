/* Convolution in groups, or with columns of the window apart: rows packed through the prologue, then for each group, and each
 * element of the window, sums of pixels x a block of the group's channels in registers. */
#include "fast_conv.h"

struct grouped {
    struct conv c;
    struct cg_sums s;
    int64_t rows, block;     /* of a unit; output channels side by side, a divisor of the group's */
    int64_t inputs, outputs; /* channels of a group */
    struct cg_packed packed;
    int mem_bias;
    kv n, row0, y, x, channel; /* row within the unit, first pixel; first channel of the block */
};

/* The largest divisor of n up to `most`. */
static int64_t divisor(int64_t n, int64_t most)
{
    int64_t d = n < most ? n : most;
    while (n % d) d--;
    return d;
}

static struct grouped grouped_of(const struct conv *c)
{
    struct grouped d = {.c = *c, .inputs = c->ci / c->groups, .outputs = c->co / c->groups};
    d.block = divisor(d.outputs, (int64_t)MAX_VECTORS * c->lanes);
    d.s.vectors = (int)((d.block + c->lanes - 1) / c->lanes);
    d.s.last = (int)(d.block - (int64_t)(d.s.vectors - 1) * c->lanes);
    int64_t most = cg_most_pixels(c->t, d.s.vectors);
    d.s.pixels = cg_pixels(c->ow, most < 1 ? 1 : most);
    return d;
}

bool guard_conv_group(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct conv c;
    if (!cg_conv_of(f, first, last, t, &c) || (c.groups == 1 && c.win.dil[1] == 1)) return false;
    return c.groups != c.ci || c.co != c.ci; /* else conv_dw */
}

size_t list_conv_group(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                       size_t most)
{
    struct conv c;
    (void)most;
    cg_conv_of(f, first, last, t, &c);
    const struct grouped d = grouped_of(&c);
    double filled = (double)d.block / (double)(d.s.vectors * c.lanes), steps = (double)(c.win.kernel[0] * c.win.kernel[1] * d.inputs);
    return cg_list_one(f, first, last, t, steps * 0.7 / filled + cg_epilogue_cycles(&c), out);
}

/* Adds the products of one element of the window. */
static void add_tap(struct kb *b, const struct grouped *d, kv group, kv acc[][MAX_VECTORS])
{
    const struct cg_window *w = &d->c.win;
    int64_t line = d->packed.columns * d->packed.channels, taps = w->kernel[0] * w->kernel[1];
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->kernel[0]), 1);
    kv t = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->kernel[1]), 1);
    kv row = kb_muli(b, d->y, w->stride[0] * line);
    kv column = kb_muli(b, d->x, w->stride[1] * d->packed.channels);
    kv pixel = kb_iadd(b, row, column);
    kv down = kb_muli(b, r, w->dil[0] * line);
    kv right = kb_muli(b, t, w->dil[1] * d->packed.channels);
    kv shift = kb_iadd(b, down, right);
    kv at = kb_iadd(b, pixel, shift);
    kv inputs = kb_muli(b, group, d->inputs);
    kv from = kb_iadd(b, at, inputs);
    kv before = kb_muli(b, d->channel, taps * d->inputs); /* a multiple of the block */
    kv above = kb_muli(b, r, w->kernel[1]);
    kv number = kb_iadd(b, above, t);
    kv within = kb_muli(b, number, d->inputs * d->block);
    kv weights = kb_iadd(b, before, within);
    cg_add_products(b, &d->s, from, weights, acc);
    kb_end(b);
    kb_end(b);
}

static void group_block(struct kb *b, const struct grouped *d, kv group)
{
    const struct conv *c = &d->c;
    kv acc[MAX_PIXELS][MAX_VECTORS];
    for (int v = 0; v < d->s.vectors; v++) {
        kv start = kb_wide(b, kb_immf(b, 0.0));
        if (yir_kind(c->bias) != YIR_NIL) start = kb_load(b, d->mem_bias, cg_vector(b, &d->s, d->channel, v));
        for (int64_t p = 0; p < d->s.pixels; p++) acc[p][v] = kb_var(b, start);
    }
    b->valid = b->lanes;
    add_tap(b, d, group, acc);
    kv out_y = kb_iadd(b, d->row0, d->y);
    for (int64_t p = 0; p < d->s.pixels; p++)
        for (int v = 0; v < d->s.vectors; v++) {
            kv channel = cg_vector(b, &d->s, d->channel, v);
            kv out_x = kb_addi(b, d->x, p);
            cg_bind(b, c->op, kb_get(b, acc[p][v]));
            cg_store_all(b, c->first, c->last, (kv[]){d->n, channel, out_y, out_x});
            b->nbound--;
        }
    b->valid = b->lanes;
}

void emit_fast_conv_group(struct kb *b, struct cg_kernel *k)
{
    struct conv c;
    cg_conv_of(b->f, k->first, k->last, b->target, &c);
    struct grouped d = grouped_of(&c);
    kv zero = kb_immi(b, 0);
    d.rows = cg_rows_per_unit(c.oh, c.ow, cg_packed_size(&c.win, 1, c.ow, c.ci) / c.win.kernel[0]);
    cg_conv_unit(b, &c, d.rows, &d.n, &d.row0);
    d.packed = cg_pack_rows(b, c.x, &c.win, d.n, d.row0, d.rows, c.ow, c.lanes);
    d.s.mem_x = d.packed.mem;
    d.s.mem_w = kb_mem_weight(b, c.w, KB_PACK_OBLOCK, (int32_t)d.block);
    if (yir_kind(c.bias) != YIR_NIL) d.mem_bias = kb_mem_weight(b, c.bias, KB_PACK_OBLOCK, (int32_t)d.block);
    d.s.steps = d.inputs;
    d.s.x_pixel = c.win.stride[1] * d.packed.channels;
    d.s.x_step = 1;
    d.s.w_step = d.block;
    b->lanes = b->valid = c.lanes;
    kv group = kb_loop(b, zero, kb_immi(b, c.groups), 1);
    kv part = kb_loop(b, zero, kb_immi(b, d.outputs), d.block);
    kv before = kb_muli(b, group, d.outputs);
    d.channel = kb_iadd(b, before, part);
    d.y = kb_loop(b, zero, kb_immi(b, d.rows), 1);
    kv xi = kb_loop(b, zero, kb_immi(b, c.ow), d.s.pixels);
    d.x = cg_early(b, xi, c.ow, d.s.pixels);
    group_block(b, &d, group);
    for (int i = 0; i < 4; i++) kb_end(b);
    b->lanes = b->valid = 1;
}
