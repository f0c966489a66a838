/* Pooling: reductions over a window of the map. */
#include "site.h"

/* Calls for each window position; values outside the map are `outside`. Loops, so that big windows stay small code. */
static kv window(struct kb *b, const struct site *s, const kv *ix, kv outside, kv (*join)(struct kb *, kv, kv))
{
    const struct yir_a_pool *a = kb_attr(s);
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv acc = kb_var(b, b->lanes > 1 ? kb_wide(b, outside) : outside);
    kv row0 = kb_muli(b, ix[2], a->stride[0]);
    kv col0 = kb_muli(b, ix[3], a->stride[1]);
    row0 = kb_addi(b, row0, -a->pad[0]);
    col0 = kb_addi(b, col0, -a->pad[1]);
    kv r = kb_loop(b, kb_immi(b, 0), kb_immi(b, a->kernel[0]), 1);
    kv c = kb_loop(b, kb_immi(b, 0), kb_immi(b, a->kernel[1]), 1);
    kv row = kb_iadd(b, row0, r);
    kv col = kb_iadd(b, col0, c);
    kv row_in = kb_inside(b, row, x->dim[2]);
    kv col_in = kb_inside(b, col, x->dim[3]);
    kv in = kb_and(b, row_in, col_in);
    kv v = kb_arg_if(b, s, 0, in, (kv[]){ix[0], ix[1], row, col}, outside);
    kv old = kb_get(b, acc);
    kv joined = join(b, old, v);
    kb_set(b, acc, joined);
    kb_end(b);
    kb_end(b);
    return kb_get(b, acc);
}

/* a > b ? a : b with the new value second lets NaN through. */
static kv join_max(struct kb *b, kv old, kv v)
{
    return kb_fmax(b, old, v);
}

kv emit_maxpool(struct kb *b, const struct site *s, const kv *ix)
{
    return window(b, s, ix, kb_immf(b, -3.4028234663852886e38), join_max);
}

kv emit_avgpool(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_pool *a = kb_attr(s);
    kv sum = window(b, s, ix, kb_immf(b, 0.0), kb_fadd);
    return kb_fdiv(b, sum, kb_immf(b, (double)a->kernel[0] * a->kernel[1]));
}

kv emit_avgmap(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *d = kb_desc(s, 0);
    kv zero = kb_immf(b, 0.0);
    kv sum = kb_var(b, b->lanes > 1 ? kb_wide(b, zero) : zero);
    kv y = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->dim[2]), 1);
    kv x = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->dim[3]), 1);
    kv v = kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y, x});
    kv old = kb_get(b, sum);
    kv more = kb_fadd(b, old, v);
    kb_set(b, sum, more);
    kb_end(b);
    kb_end(b);
    kv all = kb_get(b, sum);
    return kb_fdiv(b, all, kb_immf(b, (double)(d->dim[2] * d->dim[3])));
}

/* Part i of n: from floor(i * size / n) up to ceil((i + 1) * size / n). */
static void part_of(struct kb *b, kv i, int64_t size, int64_t n, kv *lo, kv *hi)
{
    kv count = kb_immi(b, n);
    kv start = kb_muli(b, i, size);
    *lo = kb_idiv(b, start, count);
    kv end = kb_addi(b, start, size + n - 1);
    *hi = kb_idiv(b, end, count);
}

kv emit_maxbins(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_count *a = kb_attr(s);
    const struct yir_tdesc *d = kb_desc(s, 0);
    kv least = kb_immf(b, -3.4028234663852886e38);
    kv top = kb_var(b, b->lanes > 1 ? kb_wide(b, least) : least);
    kv y0, y1, x0, x1;
    part_of(b, ix[2], d->dim[2], a->count, &y0, &y1);
    part_of(b, ix[3], d->dim[3], a->count, &x0, &x1);
    kv y = kb_loop(b, y0, y1, 1);
    kv x = kb_loop(b, x0, x1, 1);
    kv v = kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y, x});
    kv old = kb_get(b, top);
    kv larger = join_max(b, old, v);
    kb_set(b, top, larger);
    kb_end(b);
    kb_end(b);
    return kb_get(b, top);
}

/* The two elements around place i of the larger map, and the weight of the second. */
static void around(struct kb *b, kv i, int64_t size, const struct yir_a_resize *a, kv *first, kv *second, kv *part)
{
    kv f = kb_itof(b, i);
    kv place;
    if (a->corners) {
        double step = size > 1 ? (double)(size - 1) / (double)(size * a->factor - 1) : 0;
        place = kb_fmul(b, f, kb_immf(b, step));
    } else {
        kv middle = kb_fadd(b, f, kb_immf(b, 0.5));
        kv scaled = kb_fmul(b, middle, kb_immf(b, 1.0 / a->factor));
        kv shifted = kb_fsub(b, scaled, kb_immf(b, 0.5));
        place = kb_fmax(b, shifted, kb_immf(b, 0.0));
    }
    kv last = kb_immi(b, size - 1);
    kv whole = kb_ftoi(b, place);
    *first = kb_imin(b, whole, last);
    kv next = kb_addi(b, *first, 1);
    *second = kb_imin(b, next, last);
    kv floor = kb_itof(b, *first);
    *part = kb_fsub(b, place, floor);
}

kv emit_bilinear(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_tdesc *d = kb_desc(s, 0);
    kv y0, y1, x0, x1, y_part, x_part;
    around(b, ix[2], d->dim[2], kb_attr(s), &y0, &y1, &y_part);
    around(b, ix[3], d->dim[3], kb_attr(s), &x0, &x1, &x_part);
    kv v00 = kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y0, x0});
    kv v01 = kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y0, x1});
    kv v10 = kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y1, x0});
    kv v11 = kb_arg(b, s, 0, (kv[]){ix[0], ix[1], y1, x1});
    kv top_step = kb_fsub(b, v01, v00);
    kv top = kb_fma(b, top_step, x_part, v00);
    kv bottom_step = kb_fsub(b, v11, v10);
    kv bottom = kb_fma(b, bottom_step, x_part, v10);
    kv step = kb_fsub(b, bottom, top);
    return kb_fma(b, step, y_part, top);
}
