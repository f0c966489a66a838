/* Decoding of the detection heads. */
#include "site.h"

#include <string.h>

/* Distance of one side (a number 0..3, or an index) at a cell: expectation of the softmax over the bins; one bin is the
 * distance itself. The largest logit is taken off first, so that no exponent is large. */
static kv distance(struct kb *b, const struct site *s, const kv *cell, kv side)
{
    const struct yir_a_box *a = kb_attr(s);
    kv first = kb_muli(b, side, a->bins);
    if (a->bins == 1) return kb_arg(b, s, 0, (kv[]){cell[0], first, cell[2], cell[3]});

    kv start = kb_arg(b, s, 0, (kv[]){cell[0], first, cell[2], cell[3]});
    kv top = kb_var(b, start);
    kv i = kb_loop(b, kb_immi(b, 1), kb_immi(b, a->bins), 1);
    kv ci = kb_iadd(b, first, i);
    kv vi = kb_arg(b, s, 0, (kv[]){cell[0], ci, cell[2], cell[3]});
    kv most = kb_end_max(b, top, vi);

    kv sum = kb_var(b, kb_immf(b, 0.0));
    kv weighted = kb_var(b, kb_immf(b, 0.0));
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, a->bins), 1);
    kv cj = kb_iadd(b, first, j);
    kv vj = kb_arg(b, s, 0, (kv[]){cell[0], cj, cell[2], cell[3]});
    kv shifted = kb_fsub(b, vj, most);
    kv e = kb_exp(b, shifted);
    kv sum_old = kb_get(b, sum);
    kv sum_new = kb_fadd(b, sum_old, e);
    kb_set(b, sum, sum_new);
    kv bin = kb_itof(b, j);
    kv weighted_old = kb_get(b, weighted);
    kv weighted_new = kb_fma(b, e, bin, weighted_old);
    kb_set(b, weighted, weighted_new);
    kb_end(b);
    kv num = kb_get(b, weighted);
    kv den = kb_get(b, sum);
    return kb_fdiv(b, num, den);
}

/* Cell of a flattened position. */
static void cell_of(struct kb *b, const struct site *s, kv n, kv position, kv cell[4])
{
    kv width = kb_immi(b, kb_desc(s, 0)->dim[3]);
    cell[0] = n;
    cell[1] = kb_immi(b, 0);
    cell[2] = kb_idiv(b, position, width);
    cell[3] = kb_irem(b, position, width);
}

/* Result channel ix[1]: cx, cy, w, h, or the corners. With near (l or t) and far (r or b) of the channel's axis and p = cell + 0.5: centre
 * p + (far - near) / 2, size near + far, in units of the stride. Formed from the corners, as the reference does. */
kv emit_dfl_box(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_box *a = kb_attr(s);
    kv cell[4];
    cell_of(b, s, ix[0], ix[2], cell);
    kv axis = kb_irem(b, ix[1], kb_immi(b, 2));
    kv far_side = kb_addi(b, axis, 2);
    kv near = distance(b, s, cell, axis);
    kv far = distance(b, s, cell, far_side);
    kv vertical = kb_ieq(b, axis, kb_immi(b, 1));
    kv at = kb_select(b, vertical, cell[2], cell[3]);
    kv atf = kb_itof(b, at);
    kv p = kb_fadd(b, atf, kb_immf(b, 0.5));
    kv low = kb_fsub(b, p, near);
    kv high = kb_fadd(b, p, far);
    kv sum = kb_fadd(b, low, high);
    kv centre = kb_fmul(b, sum, kb_immf(b, 0.5));
    kv size = kb_fsub(b, high, low);
    kv is_first = kb_ilt(b, ix[1], kb_immi(b, 2));
    kv v = a->corners ? kb_select(b, is_first, low, high) : kb_select(b, is_first, centre, size);
    return kb_fmul(b, v, kb_immf(b, (double)a->stride));
}

void kb_turned(struct kb *b, const kv side[4], kv angle, kv d[2])
{
    kv half = kb_immf(b, 0.5);
    kv right = kb_fsub(b, side[2], side[0]);
    kv xf = kb_fmul(b, right, half);
    kv down = kb_fsub(b, side[3], side[1]);
    kv yf = kb_fmul(b, down, half);
    kv cosine = kb_cos(b, angle);
    kv sine = kb_sin(b, angle);
    kv yf_sine = kb_fmul(b, yf, sine);
    kv xf_cosine = kb_fmul(b, xf, cosine);
    d[0] = kb_fsub(b, xf_cosine, yf_sine);
    kv yf_cosine = kb_fmul(b, yf, cosine);
    kv xf_sine = kb_fmul(b, xf, sine);
    d[1] = kb_fadd(b, xf_sine, yf_cosine);
}

/* The distances are those of the box before it turned about the cell's middle p: centre p + turn((r - l) / 2, (b - t) / 2),
 * size l + r, t + b. */
kv emit_obb_box(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_box *a = kb_attr(s);
    kv cell[4], side[4], turned[2];
    cell_of(b, s, ix[0], ix[2], cell);
    for (int i = 0; i < 4; i++) side[i] = distance(b, s, cell, kb_immi(b, i));
    kv angle = kb_arg(b, s, 1, cell);
    kb_turned(b, side, angle, turned);
    kv vertical = kb_irem(b, ix[1], kb_immi(b, 2));
    kv is_y = kb_ieq(b, vertical, kb_immi(b, 1));
    kv d = kb_select(b, is_y, turned[1], turned[0]);
    kv at = kb_select(b, is_y, cell[2], cell[3]);
    kv atf = kb_itof(b, at);
    kv p = kb_fadd(b, atf, kb_immf(b, 0.5));
    kv middle = kb_fadd(b, p, d);
    kv width = kb_fadd(b, side[0], side[2]);
    kv height = kb_fadd(b, side[1], side[3]);
    kv size = kb_select(b, is_y, height, width);
    kv is_middle = kb_ilt(b, ix[1], kb_immi(b, 2));
    kv v = kb_select(b, is_middle, middle, size);
    return kb_fmul(b, v, kb_immf(b, (double)a->stride));
}

kv emit_points(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_points *a = kb_attr(s);
    kv cell[4];
    cell_of(b, s, ix[0], ix[2], cell);
    kv raw = kb_arg(b, s, 0, (kv[]){cell[0], ix[1], cell[2], cell[3]});
    kv number = kb_irem(b, ix[1], kb_immi(b, a->dims));
    kv is_y = kb_ieq(b, number, kb_immi(b, 1));
    kv at = kb_select(b, is_y, cell[2], cell[3]);
    kv atf = kb_itof(b, at);
    kv start = kb_fadd(b, atf, kb_immf(b, (double)a->shift));
    kv place = kb_fma(b, raw, kb_immf(b, (double)a->scale), start);
    kv pixels = kb_fmul(b, place, kb_immf(b, (double)a->stride));
    if (a->dims == 2) return pixels;
    kv seen = kb_sigmoid(b, raw);
    kv is_seen = kb_ieq(b, number, kb_immi(b, 2));
    return kb_select(b, is_seen, seen, pixels);
}

kv emit_anchor_raw(struct kb *b, const struct site *s, const kv *ix)
{
    int64_t no = kb_desc(s, -1)->dim[4];
    kv base = kb_muli(b, ix[1], no);
    kv channel = kb_iadd(b, base, ix[4]);
    return kb_arg(b, s, 0, (kv[]){ix[0], channel, ix[2], ix[3]});
}

/* s = sigmoid: xy = (2s + cell - 0.5) * stride; wh = (2s)^2 * anchor; others s, the last `plain` ones as they are. Rows in order anchor, y, x. */
kv emit_anchor_box(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_anchor *a = kb_attr(s);
    const struct yir_tdesc *x = kb_desc(s, 0);
    int64_t no = kb_desc(s, -1)->dim[2];
    kv plane = kb_immi(b, x->dim[2] * x->dim[3]);
    kv anchor = kb_idiv(b, ix[1], plane);
    kv position = kb_irem(b, ix[1], plane);
    kv cell[4];
    cell_of(b, s, ix[0], position, cell);
    kv base = kb_muli(b, anchor, no);
    kv channel = kb_iadd(b, base, ix[2]);
    kv raw = kb_arg(b, s, 0, (kv[]){cell[0], channel, cell[2], cell[3]});
    kv v = kb_sigmoid(b, raw);
    kv twice = kb_fmul(b, v, kb_immf(b, 2.0));

    kv vertical = kb_irem(b, ix[2], kb_immi(b, 2)); /* columns 0..3: x, y, w, h */
    kv is_vertical = kb_ieq(b, vertical, kb_immi(b, 1));
    kv at = kb_select(b, is_vertical, cell[2], cell[3]);
    kv atf = kb_itof(b, at);
    kv corner = kb_fsub(b, atf, kb_immf(b, 0.5));
    kv shifted = kb_fadd(b, twice, corner);
    kv centre = kb_fmul(b, shifted, kb_immf(b, (double)a->stride));
    kv side = kb_arg(b, s, 1, (kv[]){anchor, vertical});
    kv square = kb_fmul(b, twice, twice);
    kv size = kb_fmul(b, square, side);

    kv is_centre = kb_ilt(b, ix[2], kb_immi(b, 2));
    kv is_box = kb_ilt(b, ix[2], kb_immi(b, 4));
    kv box = kb_select(b, is_centre, centre, size);
    kv row = kb_select(b, is_box, box, v);
    if (a->plain < 1) return row;
    kv is_plain = kb_ilt(b, kb_immi(b, no - a->plain - 1), ix[2]);
    return kb_select(b, is_plain, raw, row);
}

/* cx = (p0 + x) * s, cy = (p1 + y) * s, w = exp(p2) * s, h = exp(p3) * s; the rest as it is. */
kv emit_x_box(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_stride *a = kb_attr(s);
    kv stride = kb_immf(b, (double)a->stride);
    kv cell[4];
    cell_of(b, s, ix[0], ix[1], cell);
    kv p = kb_arg(b, s, 0, (kv[]){cell[0], ix[2], cell[2], cell[3]});
    kv vertical = kb_ieq(b, ix[2], kb_immi(b, 1));
    kv at = kb_select(b, vertical, cell[2], cell[3]);
    kv atf = kb_itof(b, at);
    kv shifted = kb_fadd(b, p, atf);
    kv centre = kb_fmul(b, shifted, stride);
    kv e = kb_exp(b, p);
    kv size = kb_fmul(b, e, stride);
    kv is_centre = kb_ilt(b, ix[2], kb_immi(b, 2));
    kv is_box = kb_ilt(b, ix[2], kb_immi(b, 4));
    kv box = kb_select(b, is_centre, centre, size);
    return kb_select(b, is_box, box, p);
}
