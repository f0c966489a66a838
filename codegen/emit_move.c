/* Ops that only move elements, and those at the edge of the network. */
#include "site.h"

#include <math.h>
#include <string.h>

kv emit_concat(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_axis *a = kb_attr(s);
    int rank = kb_desc(s, 0)->rank, n = s->f->op[s->op].nsrc;
    int64_t start = kb_desc(s, -1)->dim[a->axis];
    kv value = {0}, at[YIR_MAX_RANK];
    memcpy(at, ix, (size_t)rank * sizeof *ix);
    for (int k = n - 1; k >= 0; k--) { /* the last operand first, so that a chain of `index < end` chooses */
        int64_t size = kb_desc(s, k)->dim[a->axis];
        start -= size;
        kv local = kb_addi(b, ix[a->axis], -start);
        kv low = kb_imax(b, local, kb_immi(b, 0));
        at[a->axis] = kb_imin(b, low, kb_immi(b, size - 1));
        kv v = kb_arg(b, s, k, at);
        if (k == n - 1) {
            value = v;
            continue;
        }
        kv here = kb_ilt(b, ix[a->axis], kb_immi(b, start + size));
        value = kb_select(b, here, v, value);
    }
    return value;
}

kv emit_slice(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_slice *a = kb_attr(s);
    kv at[YIR_MAX_RANK];
    memcpy(at, ix, (size_t)kb_desc(s, 0)->rank * sizeof *ix);
    at[a->axis] = kb_addi(b, ix[a->axis], a->start);
    return kb_arg(b, s, 0, at);
}

kv emit_upsample(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_factor *a = kb_attr(s);
    kv factor = kb_immi(b, a->factor);
    kv y = kb_idiv(b, ix[2], factor);
    kv x = kb_idiv(b, ix[3], factor);
    return kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y, x});
}

kv emit_pad(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_pad *a = kb_attr(s);
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv row = kb_addi(b, ix[2], -a->pad[0]);
    kv col = kb_addi(b, ix[3], -a->pad[1]);
    kv row_in = kb_inside(b, row, x->dim[2]);
    kv col_in = kb_inside(b, col, x->dim[3]);
    kv in = kb_and(b, row_in, col_in);
    kv value = kb_immf(b, (double)a->value);
    return kb_arg_if(b, s, 0, in, (kv[]){ix[0], ix[1], row, col}, value);
}

/* Channel (column offset, row offset, c): the row offset varies first. */
kv emit_s2d(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_factor *a = kb_attr(s);
    kv channels = kb_immi(b, kb_desc(s, 0)->dim[1]), factor = kb_immi(b, a->factor);
    kv c = kb_irem(b, ix[1], channels);
    kv block = kb_idiv(b, ix[1], channels);
    kv row_off = kb_irem(b, block, factor);
    kv col_off = kb_idiv(b, block, factor);
    kv row0 = kb_imul(b, ix[2], factor);
    kv col0 = kb_imul(b, ix[3], factor);
    kv row = kb_iadd(b, row0, row_off);
    kv col = kb_iadd(b, col0, col_off);
    return kb_arg(b, s, 0, (kv[]){ix[0], c, row, col});
}

kv emit_cast(struct kb *b, const struct site *s, const kv *ix)
{
    return kb_arg(b, s, 0, ix); /* conversion happens where it is stored */
}

kv emit_flatten(struct kb *b, const struct site *s, const kv *ix)
{
    kv width = kb_immi(b, kb_desc(s, 0)->dim[3]);
    kv y = kb_idiv(b, ix[2], width);
    kv x = kb_irem(b, ix[2], width);
    return kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y, x});
}

/* A byte times r = 1/div and one step of correction is the division, rounded as that, for each of the 256: then it need not be
 * a division. A product alone would round otherwise. */
static bool product_divides(const struct kb *b, float div, float r)
{
    for (int v = 0; v < 256; v++) {
        float x = (float)v, q = x * r;
        float rest = b->target->has_fma ? fmaf(-q, div, x) : -q * div + x;
        float y = b->target->has_fma ? fmaf(rest, r, q) : rest * r + q;
        if (y != x / div) return false;
    }
    return true;
}

kv kb_pixel(struct kb *b, kv pixel, const struct yir_a_image *a)
{
    float r = 1 / a->div;
    if (a->div == 1) return pixel;
    if (b->rough) return kb_fmul(b, pixel, kb_immf(b, (double)r));
    if (!product_divides(b, a->div, r)) return kb_fdiv(b, pixel, kb_immf(b, (double)a->div));
    kv inverse = kb_immf(b, (double)r);
    kv q = kb_fmul(b, pixel, inverse);
    kv minus = kb_fneg(b, q);
    kv rest = kb_fma(b, minus, kb_immf(b, (double)a->div), pixel);
    return kb_fma(b, rest, inverse, q);
}

kv emit_image(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_image *a = kb_attr(s);
    kv c = a->bgr ? kb_isub(b, kb_immi(b, 2), ix[1]) : ix[1];
    kv pixel = kb_arg(b, s, 0, (kv[]){ix[0], ix[2], ix[3], c});
    return kb_pixel(b, pixel, a);
}

/* Always a view: both operands live in its memory, and only one of them is computed in a run. */
kv emit_either(struct kb *b, const struct site *s, const kv *ix)
{
    return kb_arg(b, s, 0, ix);
}

kv emit_d2s(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_factor *a = kb_attr(s);
    kv factor = kb_immi(b, a->factor);
    kv row = kb_idiv(b, ix[2], factor);
    kv row_off = kb_irem(b, ix[2], factor);
    kv col = kb_idiv(b, ix[3], factor);
    kv col_off = kb_irem(b, ix[3], factor);
    kv rows_before = kb_imul(b, row_off, factor);
    kv block = kb_iadd(b, rows_before, col_off);
    kv first = kb_muli(b, block, kb_desc(s, -1)->dim[1]);
    kv c = kb_iadd(b, first, ix[1]);
    return kb_arg(b, s, 0, (kv[]){ix[0], c, row, col});
}

kv emit_tokens(struct kb *b, const struct site *s, const kv *ix)
{
    kv width = kb_immi(b, kb_desc(s, 0)->dim[3]);
    kv y = kb_idiv(b, ix[2], width);
    kv x = kb_irem(b, ix[2], width);
    return kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y, x});
}

kv emit_rows(struct kb *b, const struct site *s, const kv *ix)
{
    kv width = kb_immi(b, kb_desc(s, 0)->dim[3]);
    kv y = kb_idiv(b, ix[1], width);
    kv x = kb_irem(b, ix[1], width);
    return kb_arg(b, s, 0, (kv[]){ix[0], ix[2], y, x});
}

kv emit_from_rows(struct kb *b, const struct site *s, const kv *ix)
{
    return kb_arg(b, s, 0, (kv[]){ix[0], ix[2], ix[1]});
}

kv emit_ravel(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *d = kb_desc(s, 0);
    kv plane = kb_immi(b, d->dim[2] * d->dim[3]), width = kb_immi(b, d->dim[3]);
    kv c = kb_idiv(b, ix[1], plane);
    kv position = kb_irem(b, ix[1], plane);
    kv y = kb_idiv(b, position, width);
    kv x = kb_irem(b, position, width);
    return kb_arg(b, s, 0, (kv[]){ix[0], c, y, x});
}

/* floor(i * in / out). */
static kv nearest_index(struct kb *b, kv i, int64_t in, int64_t out)
{
    if (in == out) return i;
    kv scaled = kb_muli(b, i, in);
    return kb_idiv(b, scaled, kb_immi(b, out));
}

kv emit_nearest(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *in = kb_desc(s, 0), *out = kb_desc(s, -1);
    kv y = nearest_index(b, ix[2], in->dim[2], out->dim[2]);
    kv x = nearest_index(b, ix[3], in->dim[3], out->dim[3]);
    return kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y, x});
}
