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
