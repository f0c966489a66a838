/* Depthwise convolution: channels as vectors, rows packed through the prologue. */
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
    int64_t wide;       /* channels of the packed weights */
    int64_t step, line; /* elements from one packed column, and row, to the next */
    kv n, row0, y, x;   /* row within the unit, first pixel */
    int mem_x, mem_w, mem_bias;
};

static void dw_channels(struct kb *b, void *ctx, kv ch)
{
    const struct depthwise *d = ctx;
    const struct conv *c = &d->c;
    kv bias = kb_wide(b, kb_immf(b, 0.0));
    if (yir_kind(c->bias) != YIR_NIL) bias = kb_load(b, d->mem_bias, ch);
    kv acc[MAX_PIXELS];
    for (int64_t p = 0; p < d->pixels; p++) acc[p] = kb_var(b, bias);
    kv row = kb_muli(b, d->y, c->win.stride[0] * d->line);
    kv col = kb_muli(b, d->x, c->win.stride[1] * d->step);
    kv base = kb_iadd(b, row, col);
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, c->win.kernel[0]), 1);
    kv line = kb_muli(b, r, c->win.dil[0] * d->line);
    kv from = kb_iadd(b, base, line);
    kv weights = kb_muli(b, r, c->win.kernel[1] * d->wide);
    for (int64_t t = 0; t < c->win.kernel[1]; t++) {
        kv wt = kb_addi(b, weights, t * d->wide);
        kv w = kb_load(b, d->mem_w, kb_iadd(b, ch, wt));
        for (int64_t p = 0; p < d->pixels; p++) {
            kv at = kb_addi(b, from, (p * c->win.stride[1] + t * c->win.dil[1]) * d->step);
            kv x = kb_load(b, d->mem_x, kb_iadd(b, ch, at));
            kv old = kb_get(b, acc[p]);
            kv sum = kb_fma(b, x, w, old);
            kb_set(b, acc[p], sum);
        }
    }
    kb_end(b);
    kv out_y = kb_iadd(b, d->row0, d->y);
    for (int64_t p = 0; p < d->pixels; p++) {
        kv xp = kb_addi(b, d->x, p);
        kv sum = kb_get(b, acc[p]);
        cg_bind(b, c->op, sum);
        cg_store_all(b, c->first, c->last, (kv[]){d->n, ch, out_y, xp});
        b->nbound--;
    }
}

void emit_fast_conv_dw(struct kb *b, struct cg_kernel *k)
{
    struct depthwise d = {0};
    struct conv *c = &d.c;
    cg_conv_of(b->f, k->first, k->last, b->target, c);
    d.rows = cg_rows_per_unit(c->oh, c->ow, cg_packed_size(&c->win, 1, c->ow, c->ci) / c->win.kernel[0]);
    d.pixels = cg_pixels(c->ow, 8);
    cg_conv_unit(b, c, d.rows, &d.n, &d.row0);
    struct cg_packed packed = cg_pack_rows(b, c->x, &c->win, d.n, d.row0, d.rows, c->ow, c->lanes);
    d.mem_x = packed.mem;
    d.step = packed.channels;
    d.line = packed.columns * d.step;
    d.mem_w = kb_mem_weight(b, c->w, KB_PACK_DW, c->lanes);
    if (yir_kind(c->bias) != YIR_NIL) d.mem_bias = kb_mem_weight(b, c->bias, KB_PACK_OBLOCK, c->lanes);
    d.wide = (c->co + c->lanes - 1) / c->lanes * c->lanes;
    d.y = kb_loop(b, kb_immi(b, 0), kb_immi(b, d.rows), 1);
    kv xi = kb_loop(b, kb_immi(b, 0), kb_immi(b, c->ow), d.pixels);
    d.x = kb_imin(b, xi, kb_immi(b, c->ow - d.pixels));
    cg_channels(b, 0, c->co, dw_channels, &d);
    kb_end(b);
    kb_end(b);
}
