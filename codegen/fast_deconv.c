/* Transposed convolution whose windows lie side by side (kernel = stride, no padding): each tap is a 1x1 convolution to every
 * so many rows and columns of the result. */
#include "fast_sums.h"

struct deconv {
    uint32_t first, last, op;
    yir_ref x, w, bias;
    int64_t ci, co, ih, iw, taps[2];
};

static struct deconv deconv_of(const struct yir_func *f, uint32_t first, uint32_t last)
{
    uint32_t op = cg_only_op(f, first, last, YIR_deconv2d);
    struct deconv d = {.first = first, .last = last, .op = op};
    if (!op) return d;
    d.x = yir_src(f, op, 0);
    d.w = yir_src(f, op, 1);
    d.bias = f->op[op].nsrc == 3 ? yir_src(f, op, 2) : YIR_NONE;
    const struct yir_tdesc *x = yir_desc(f, d.x), *w = yir_desc(f, d.w);
    d.ci = x->dim[1];
    d.ih = x->dim[2];
    d.iw = x->dim[3];
    d.co = w->dim[1];
    d.taps[0] = w->dim[2];
    d.taps[1] = w->dim[3];
    return d;
}

static bool side_by_side(const struct yir_func *f, const struct deconv *d)
{
    const struct yir_a_deconv *a = yir_attrs(f, d->op);
    return a->groups == 1 && a->stride[0] == d->taps[0] && a->stride[1] == d->taps[1] && !a->pad[0] && !a->pad[1] && !a->grow[0] &&
           !a->grow[1];
}

bool guard_deconv(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    const struct deconv d = deconv_of(f, first, last);
    if (t->lanes == 1 || !d.op || !side_by_side(f, &d) || !cg_lanes_ok(f, first, last, d.op)) return false;
    for (int k = 1; k < f->op[d.op].nsrc; k++)
        if (yir_kind(yir_src(f, d.op, k)) != YIR_WGT || yir_desc(f, yir_src(f, d.op, k))->dtype != YIR_F32) return false;
    return cg_readable(f, f->op[d.op].kernel, d.x);
}

size_t list_deconv(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                   size_t most)
{
    const struct deconv d = deconv_of(f, first, last);
    (void)most;
    return cg_list_one(f, first, last, t, (double)d.ci * 0.6 + 4, out);
}

struct tap {
    const struct deconv *d;
    struct cg_sums s;
    int mem_bias;
    kv n, y, x, r, t, channel; /* input row and first column, element of the window, first channel of the block */
};

static void store_tap(struct kb *b, const struct tap *p, kv acc[][MAX_VECTORS])
{
    kv top = kb_muli(b, p->y, p->d->taps[0]);
    kv row = kb_iadd(b, top, p->r);
    for (int64_t i = 0; i < p->s.pixels; i++)
        for (int v = 0; v < p->s.vectors; v++) {
            kv from = kb_addi(b, p->x, i);
            kv left = kb_muli(b, from, p->d->taps[1]);
            kv column = kb_iadd(b, left, p->t);
            kv channel = cg_vector(b, &p->s, p->channel, v);
            cg_bind(b, p->d->op, kb_get(b, acc[i][v]));
            cg_store_all(b, p->d->first, p->d->last, (kv[]){p->n, channel, row, column});
            b->nbound--;
        }
}

static void tap_block(struct kb *b, struct tap *p, int last)
{
    kv acc[MAX_PIXELS][MAX_VECTORS], zero = kb_immi(b, 0);
    int64_t block = p->s.w_step, width = (p->d->co + block - 1) / block * block;
    p->s.last = b->lanes;
    kv row = kb_muli(b, p->r, p->d->taps[1]);
    kv number = kb_iadd(b, row, p->t);
    kv first = kb_muli(b, number, width * p->d->ci);
    kv shift = kb_muli(b, p->channel, p->d->ci); /* a multiple of the block */
    kv weights = kb_iadd(b, first, shift);
    kv xi = kb_loop(b, zero, kb_immi(b, p->d->iw), p->s.pixels);
    p->x = cg_early(b, xi, p->d->iw, p->s.pixels);
    kv from = kb_address(b, p->d->x, (kv[]){p->n, zero, p->y, p->x});
    for (int v = 0; v < p->s.vectors; v++) {
        kv start = kb_wide(b, kb_immf(b, 0.0));
        if (yir_kind(p->d->bias) != YIR_NIL) start = kb_load(b, p->mem_bias, cg_vector(b, &p->s, p->channel, v));
        for (int64_t i = 0; i < p->s.pixels; i++) acc[i][v] = kb_var(b, start);
    }
    cg_add_products(b, &p->s, from, weights, acc);
    p->s.last = last;
    store_tap(b, p, acc);
    kb_end(b);
    b->valid = b->lanes;
}

/* A unit is a row of the input. */
void emit_fast_deconv(struct kb *b, struct cg_kernel *k)
{
    const struct deconv d = deconv_of(b->f, k->first, k->last);
    struct tap p = {.d = &d};
    int64_t lanes = b->target->lanes, vectors = (d.co + lanes - 1) / lanes;
    cg_split_unit(b, d.ih, &p.n, &p.y);
    cg_choose_block(b->target, vectors * lanes, d.iw, &p.s);
    int64_t block = p.s.vectors * lanes, whole = d.co / block * block, rest = d.co - whole;
    p.s.mem_x = kb_mem_value(b, d.x);
    p.s.mem_w = kb_mem_weight(b, d.w, KB_PACK_DECONV, (int32_t)block);
    if (yir_kind(d.bias) != YIR_NIL) p.mem_bias = kb_mem_weight(b, d.bias, KB_PACK_OBLOCK, (int32_t)block);
    p.s.steps = d.ci;
    p.s.x_pixel = b->f->place[yir_index(d.x)].stride[3];
    p.s.x_step = 1;
    p.s.w_step = block;
    b->lanes = b->valid = (int)lanes;
    p.r = kb_loop(b, kb_immi(b, 0), kb_immi(b, d.taps[0]), 1);
    p.t = kb_loop(b, kb_immi(b, 0), kb_immi(b, d.taps[1]), 1);
    if (whole) {
        p.channel = kb_loop(b, kb_immi(b, 0), kb_immi(b, whole), block);
        tap_block(b, &p, (int)lanes);
        kb_end(b);
    }
    if (rest) {
        p.channel = kb_immi(b, whole);
        p.s.vectors = (int)((rest + lanes - 1) / lanes);
        tap_block(b, &p, (int)(rest - (int64_t)(p.s.vectors - 1) * lanes));
    }
    kb_end(b);
    kb_end(b);
    b->lanes = b->valid = 1;
}
