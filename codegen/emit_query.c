/* Choosing and sampling positions of maps by values: what a decoder of queries needs. Indexes that come from data are
 * clamped before they are used. */
#include "site.h"

/* A number as an index in [0, size); NaN gives 0. */
static kv index_of(struct kb *b, kv x, int64_t size)
{
    kv low = kb_fmax(b, x, kb_immf(b, 0.0));
    kv safe = kb_fmin(b, low, kb_immf(b, (double)(size - 1)));
    return kb_ftoi(b, safe);
}

static kv element(struct kb *b, const struct site *s, int k, kv n, kv c, kv position)
{
    kv width = kb_immi(b, kb_desc(s, k)->dim[3]);
    kv row = kb_idiv(b, position, width);
    kv column = kb_irem(b, position, width);
    return kb_arg(b, s, k, (kv[]){n, c, row, column});
}

/* Counts what comes before the element: larger ones, and equal ones at an earlier place. */
kv emit_rank(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv zero = kb_immf(b, 0.0), one = kb_immf(b, 1.0);
    kv mine = kb_arg(b, s, 0, ix);
    kv start = kb_muli(b, ix[2], x->dim[3]);
    kv place = kb_iadd(b, start, ix[3]);
    kv count = kb_var(b, zero);
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, x->dim[2] * x->dim[3]), 1);
    kv other = element(b, s, 0, ix[0], ix[1], j);
    kv larger = kb_flt(b, mine, other);
    kv smaller = kb_flt(b, other, mine);
    kv not_smaller = kb_not(b, smaller);
    kv earlier = kb_ilt(b, j, place);
    kv tie = kb_and(b, not_smaller, earlier);
    kv before = kb_or(b, larger, tie);
    kv more = kb_select(b, before, one, zero);
    return kb_end_add(b, count, more);
}

kv emit_order(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv wanted = kb_itof(b, ix[2]);
    kv low = kb_fsub(b, wanted, kb_immf(b, 0.5));
    kv high = kb_fadd(b, wanted, kb_immf(b, 0.5));
    kv found = kb_var(b, kb_immf(b, 0.0));
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, x->dim[2] * x->dim[3]), 1);
    kv rank = element(b, s, 0, ix[0], kb_immi(b, 0), j);
    kv above = kb_flt(b, low, rank);
    kv below = kb_flt(b, rank, high);
    kv here = kb_and(b, above, below);
    kv place = kb_itof(b, j);
    kv old = kb_get(b, found);
    kv now = kb_select(b, here, place, old);
    kb_set(b, found, now);
    kb_end(b);
    return kb_get(b, found);
}

kv emit_gather(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv zero = kb_immi(b, 0);
    kv place = kb_arg(b, s, 1, (kv[]){ix[0], zero, ix[2], zero});
    kv position = index_of(b, place, x->dim[2] * x->dim[3]);
    return element(b, s, 0, ix[0], ix[1], position);
}

/* --- anchors of queries ------------------------------------------------------------------------------------- */

static kv centre(struct kb *b, kv i, int64_t size)
{
    kv f = kb_itof(b, i);
    kv half = kb_fadd(b, f, kb_immf(b, 0.5));
    return kb_fdiv(b, half, kb_immf(b, (double)size));
}

static kv within(struct kb *b, kv x)
{
    kv above = kb_flt(b, kb_immf(b, 0.01), x);
    kv below = kb_flt(b, x, kb_immf(b, 0.99));
    return kb_and(b, above, below);
}

/* All four numbers of the place's anchor lie within (0.01, 0.99). */
static kv is_valid(struct kb *b, const struct site *s, kv cx, kv cy)
{
    kv side = kb_immf(b, (double)((const struct yir_a_side *)kb_attr(s))->side);
    kv x_in = within(b, cx);
    kv y_in = within(b, cy);
    kv side_in = within(b, side);
    kv both = kb_and(b, x_in, y_in);
    return kb_and(b, both, side_in);
}

kv emit_detr_anchor(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv one = kb_immf(b, 1.0), side = kb_immf(b, (double)((const struct yir_a_side *)kb_attr(s))->side);
    kv cx = centre(b, ix[3], x->dim[3]);
    kv cy = centre(b, ix[2], x->dim[2]);
    kv valid = is_valid(b, s, cx, cy);
    kv is_x = kb_ieq(b, ix[1], kb_immi(b, 0));
    kv is_y = kb_ieq(b, ix[1], kb_immi(b, 1));
    kv not_x = kb_select(b, is_y, cy, side);
    kv v = kb_select(b, is_x, cx, not_x);
    kv rest = kb_fsub(b, one, v);
    kv odds = kb_fdiv(b, v, rest);
    kv logit = kb_log(b, odds);
    return kb_select(b, valid, logit, kb_immf(b, 1e4));
}

kv emit_detr_valid(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *d = kb_desc(s, 0);
    kv cx = centre(b, ix[3], d->dim[3]);
    kv cy = centre(b, ix[2], d->dim[2]);
    kv valid = is_valid(b, s, cx, cy);
    kv x = kb_arg(b, s, 0, ix);
    return kb_select(b, valid, x, kb_immf(b, 0.0));
}

kv emit_query_box(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_stride *a = kb_attr(s);
    const struct yir_tdesc *like = kb_desc(s, 1);
    kv zero = kb_immi(b, 0);
    kv axis = kb_irem(b, ix[1], kb_immi(b, 2));
    kv size_channel = kb_addi(b, axis, 2);
    kv middle = kb_arg(b, s, 0, (kv[]){ix[0], axis, ix[2], zero});
    kv size = kb_arg(b, s, 0, (kv[]){ix[0], size_channel, ix[2], zero});
    kv is_far = kb_ilt(b, kb_immi(b, 1), ix[1]);
    kv plus = kb_immf(b, 0.5);
    kv minus = kb_immf(b, -0.5);
    kv sign = kb_select(b, is_far, plus, minus);
    kv side = kb_fma(b, size, sign, middle);
    kv is_y = kb_ieq(b, axis, kb_immi(b, 1));
    kv height = kb_immf(b, (double)like->dim[2] * (double)a->stride);
    kv width = kb_immf(b, (double)like->dim[3] * (double)a->stride);
    kv pixels = kb_select(b, is_y, height, width);
    return kb_fmul(b, side, pixels);
}

/* --- deformable attention ----------------------------------------------------------------------------------- */

/* Where a sample falls along one axis: the element before it, and how far behind that it is. What lies outside by more
 * than an element gives 0 whatever it is exactly. */
static void locate(struct kb *b, kv at, int64_t size, kv *before, kv *fraction)
{
    kv scaled = kb_fmul(b, at, kb_immf(b, (double)size));
    kv pixel = kb_fadd(b, scaled, kb_immf(b, 1.5)); /* less half an element, plus two, so that it is positive */
    kv low = kb_fmax(b, pixel, kb_immf(b, 0.0));
    kv safe = kb_fmin(b, low, kb_immf(b, (double)size + 3.0));
    kv whole = kb_ftoi(b, safe);
    kv floor = kb_itof(b, whole);
    *fraction = kb_fsub(b, safe, floor);
    *before = kb_addi(b, whole, -2);
}

/* The value's element, 0 outside the map. */
static kv tap(struct kb *b, const struct site *s, kv n, kv c, kv row, kv column)
{
    const struct yir_tdesc *v = kb_desc(s, 0);
    kv row_in = kb_inside(b, row, v->dim[2]);
    kv column_in = kb_inside(b, column, v->dim[3]);
    kv in = kb_and(b, row_in, column_in);
    return kb_arg_if(b, s, 0, in, (kv[]){n, c, row, column}, kb_immf(b, 0.0));
}

static kv mix(struct kb *b, kv x, kv y, kv fraction)
{
    kv step = kb_fsub(b, y, x);
    return kb_fma(b, step, fraction, x);
}

static kv sample(struct kb *b, const struct site *s, kv n, kv c, kv x, kv y)
{
    const struct yir_tdesc *v = kb_desc(s, 0);
    kv row, column, row_part, column_part;
    locate(b, y, v->dim[2], &row, &row_part);
    locate(b, x, v->dim[3], &column, &column_part);
    kv row1 = kb_addi(b, row, 1);
    kv column1 = kb_addi(b, column, 1);
    kv v00 = tap(b, s, n, c, row, column);
    kv v01 = tap(b, s, n, c, row, column1);
    kv v10 = tap(b, s, n, c, row1, column);
    kv v11 = tap(b, s, n, c, row1, column1);
    kv top = mix(b, v00, v01, column_part);
    kv bottom = mix(b, v10, v11, column_part);
    return mix(b, top, bottom, row_part);
}

/* Coordinate of a sample: the box's centre plus offset/points of half its size. */
static kv sample_at(struct kb *b, const struct site *s, kv n, kv query, kv offset_channel, int axis)
{
    const struct yir_a_deform *a = kb_attr(s);
    kv zero = kb_immi(b, 0);
    kv channel = kb_addi(b, offset_channel, axis);
    kv offset = kb_arg(b, s, 2, (kv[]){n, channel, query, zero});
    kv middle = kb_arg(b, s, 1, (kv[]){n, kb_immi(b, axis), query, zero});
    kv size = kb_arg(b, s, 1, (kv[]){n, kb_immi(b, 2 + axis), query, zero});
    kv share = kb_fmul(b, offset, kb_immf(b, 0.5 / a->points));
    return kb_fma(b, share, size, middle);
}

void kb_deform_sums(struct kb *b, const struct site *s, kv n, kv head, kv query, const kv *channel, int count, kv *sum)
{
    const struct yir_a_deform *a = kb_attr(s);
    kv zero = kb_immi(b, 0);
    kv heads_before = kb_muli(b, head, a->levels);
    kv group = kb_addi(b, heads_before, a->level);
    kv first = kb_muli(b, group, a->points);
    for (int i = 0; i < count; i++) sum[i] = kb_var(b, kb_wide(b, kb_immf(b, 0.0)));
    kv p = kb_loop(b, zero, kb_immi(b, a->points), 1);
    kv point = kb_iadd(b, first, p);
    kv offsets = kb_muli(b, point, 2);
    kv x = sample_at(b, s, n, query, offsets, 0);
    kv y = sample_at(b, s, n, query, offsets, 1);
    kv weight = kb_arg(b, s, 3, (kv[]){n, point, query, zero});
    for (int i = 0; i < count; i++) {
        kv v = sample(b, s, n, channel[i], x, y);
        kv old = kb_get(b, sum[i]);
        kb_set(b, sum[i], kb_fma(b, v, weight, old));
    }
    kb_end(b);
    for (int i = 0; i < count; i++) sum[i] = kb_get(b, sum[i]);
}

kv emit_deform(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_deform *a = kb_attr(s);
    kv head = kb_idiv(b, ix[1], kb_immi(b, kb_desc(s, 0)->dim[1] / a->heads)), sum;
    kb_deform_sums(b, s, ix[0], head, ix[2], &ix[1], 1, &sum);
    return sum;
}
