/* Sums of products, as plain loops; the fast families compute the same. */
#include "site.h"

/* Adds the product to the sum and closes the three loops over it. */
static kv end_sum(struct kb *b, kv acc, kv v, kv weight)
{
    kv old = kb_get(b, acc);
    kv sum = kb_fma(b, v, weight, old);
    kb_set(b, acc, sum);
    for (int i = 0; i < 3; i++) kb_end(b);
    return kb_get(b, acc);
}

kv emit_conv2d(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_conv *a = kb_attr(s);
    const struct yir_tdesc *x = kb_desc(s, 0), *w = kb_desc(s, 1);
    bool biased = s->f->op[s->op].nsrc == 3;
    kv zero = kb_immf(b, 0.0);
    kv first = biased ? kb_arg(b, s, 2, &ix[1]) : zero;
    kv acc = kb_var(b, first);
    kv group = kb_idiv(b, ix[1], kb_immi(b, w->dim[0] / a->groups));
    kv channel0 = kb_muli(b, group, w->dim[1]);
    kv row0 = kb_muli(b, ix[2], a->stride[0]);
    kv col0 = kb_muli(b, ix[3], a->stride[1]);
    row0 = kb_addi(b, row0, -a->pad[0]);
    col0 = kb_addi(b, col0, -a->pad[1]);
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->dim[2]), 1);
    kv row_off = kb_muli(b, r, a->dil[0]);
    kv row = kb_iadd(b, row0, row_off);
    kv row_in = kb_inside(b, row, x->dim[2]);
    kv t = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->dim[3]), 1);
    kv col_off = kb_muli(b, t, a->dil[1]);
    kv col = kb_iadd(b, col0, col_off);
    kv col_in = kb_inside(b, col, x->dim[3]);
    kv in = kb_and(b, row_in, col_in);
    kv c = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->dim[1]), 1);
    kv channel = kb_iadd(b, channel0, c);
    kv v = kb_arg_if(b, s, 0, in, (kv[]){ix[0], channel, row, col}, zero);
    kv weight = kb_arg(b, s, 1, (kv[]){ix[1], c, r, t});
    return end_sum(b, acc, v, weight);
}

/* What of a source row or column reaches place x through kernel element r: its index, and whether there is one. */
static kv deconv_source(struct kb *b, kv x, kv r, int64_t pad, int64_t stride, int64_t size, kv *there)
{
    kv shifted = kb_addi(b, x, pad);
    kv from = kb_isub(b, shifted, r);
    kv negative = kb_ilt(b, from, kb_immi(b, 0));
    kv positive = kb_not(b, negative);
    kv safe = kb_imax(b, from, kb_immi(b, 0));
    kv step = kb_immi(b, stride);
    kv left = kb_irem(b, safe, step);
    kv whole = kb_ieq(b, left, kb_immi(b, 0));
    kv index = kb_idiv(b, safe, step);
    kv within = kb_ilt(b, index, kb_immi(b, size));
    kv fits = kb_and(b, positive, whole);
    *there = kb_and(b, fits, within);
    return index;
}

kv emit_deconv2d(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_deconv *a = kb_attr(s);
    const struct yir_tdesc *x = kb_desc(s, 0), *w = kb_desc(s, 1);
    int64_t inputs = w->dim[0] / a->groups;
    kv zero = kb_immf(b, 0.0), outputs = kb_immi(b, w->dim[1]);
    kv first = s->f->op[s->op].nsrc == 3 ? kb_arg(b, s, 2, &ix[1]) : zero;
    kv acc = kb_var(b, first);
    kv group = kb_idiv(b, ix[1], outputs);
    kv out = kb_irem(b, ix[1], outputs);
    kv channel0 = kb_muli(b, group, inputs);
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->dim[2]), 1);
    kv row_in, col_in;
    kv row = deconv_source(b, ix[2], r, a->pad[0], a->stride[0], x->dim[2], &row_in);
    kv t = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->dim[3]), 1);
    kv col = deconv_source(b, ix[3], t, a->pad[1], a->stride[1], x->dim[3], &col_in);
    kv in = kb_and(b, row_in, col_in);
    kv c = kb_loop(b, kb_immi(b, 0), kb_immi(b, inputs), 1);
    kv channel = kb_iadd(b, channel0, c);
    kv v = kb_arg_if(b, s, 0, in, (kv[]){ix[0], channel, row, col}, zero);
    kv weight = kb_arg(b, s, 1, (kv[]){channel, out, r, t});
    return end_sum(b, acc, v, weight);
}
