/* Attention and what goes with it: reductions over channels and keys, and the ops that use their results. */
#include "site.h"

#include <string.h>

/* Positions of a map in row-major order. */
static kv position_of(struct kb *b, const struct yir_tdesc *d, kv row, kv column)
{
    kv start = kb_muli(b, row, d->dim[3]);
    return kb_iadd(b, start, column);
}

static void split_position(struct kb *b, const struct yir_tdesc *d, kv position, kv *row, kv *column)
{
    kv width = kb_immi(b, d->dim[3]);
    *row = kb_idiv(b, position, width);
    *column = kb_irem(b, position, width);
}

/* Channel `at` of a head's share of the channels. */
static kv channel_of(struct kb *b, kv head, int64_t channels, int64_t heads, int64_t at)
{
    kv first = kb_muli(b, head, channels / heads);
    return kb_addi(b, first, at);
}

/* Position of key j for the query at (row, column) of a map: keys of the same area. */
static kv key_position(struct kb *b, const struct yir_tdesc *q, kv row, kv column, int64_t areas, int64_t keys, kv j)
{
    if (areas == 1) return j;
    kv at = position_of(b, q, row, column);
    kv area = kb_idiv(b, at, kb_immi(b, q->dim[2] * q->dim[3] / areas));
    kv start = kb_muli(b, area, keys);
    return kb_iadd(b, start, j);
}

/* scale * q . k of a head, a query's place and a key. The op's attributes are those of attention scores, or begin with them. */
static kv score(struct kb *b, const struct site *s, const kv *query, kv head, kv key)
{
    const struct yir_a_attn *a = kb_attr(s);
    const struct yir_tdesc *q = kb_desc(s, 0), *k = kb_desc(s, 1);
    kv key_row, key_column;
    split_position(b, k, key, &key_row, &key_column);
    kv q0 = channel_of(b, head, q->dim[1], a->heads, a->qat);
    kv k0 = channel_of(b, head, k->dim[1], a->heads, a->kat);
    kv sum = kb_var(b, kb_immf(b, 0.0));
    kv d = kb_loop(b, kb_immi(b, 0), kb_immi(b, a->dim), 1);
    kv qc = kb_iadd(b, q0, d);
    kv kc = kb_iadd(b, k0, d);
    kv x = kb_arg(b, s, 0, (kv[]){query[0], qc, query[1], query[2]});
    kv y = kb_arg(b, s, 1, (kv[]){query[0], kc, key_row, key_column});
    kv all = kb_end_fma(b, sum, x, y);
    return kb_fmul(b, all, kb_immf(b, (double)a->scale));
}

kv emit_attn_scores(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_attn *a = kb_attr(s);
    kv key = key_position(b, kb_desc(s, 0), ix[1], ix[2], a->areas, kb_desc(s, -1)->dim[4], ix[4]);
    return score(b, s, ix, ix[3], key);
}

kv emit_attn_peak(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_attn *a = kb_attr(s);
    const struct yir_tdesc *k = kb_desc(s, 1);
    int64_t keys = k->dim[2] * k->dim[3] / a->areas;
    kv top = kb_var(b, kb_immf(b, -3.4028234663852886e38));
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, keys), 1);
    kv key = key_position(b, kb_desc(s, 0), ix[2], ix[3], a->areas, keys, j);
    kv v = score(b, s, (kv[]){ix[0], ix[2], ix[3]}, ix[1], key);
    return kb_end_max(b, top, v);
}

kv emit_attn_mix(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_mix *a = kb_attr(s);
    const struct yir_tdesc *w = kb_desc(s, 0), *v = kb_desc(s, 1);
    kv head = kb_idiv(b, ix[1], kb_immi(b, a->dim));
    kv part = kb_irem(b, ix[1], kb_immi(b, a->dim));
    kv first = channel_of(b, head, v->dim[1], w->dim[3], a->at);
    kv channel = kb_iadd(b, first, part);
    kv sum = kb_var(b, kb_immf(b, 0.0));
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, w->dim[4]), 1);
    kv key = key_position(b, kb_desc(s, -1), ix[2], ix[3], a->areas, w->dim[4], j);
    kv row, column;
    split_position(b, v, key, &row, &column);
    kv weight = kb_arg(b, s, 0, (kv[]){ix[0], ix[2], ix[3], head, j});
    kv value = kb_arg(b, s, 1, (kv[]){ix[0], channel, row, column});
    return kb_end_fma(b, sum, weight, value);
}

/* The largest score is taken off first, so that no exponent is large. */
kv emit_attention(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_attention *a = kb_attr(s);
    const struct yir_tdesc *q = kb_desc(s, 0), *v = kb_desc(s, 2);
    int64_t areas = a->score.areas, keys = v->dim[2] * v->dim[3] / areas;
    const kv query[] = {ix[0], ix[2], ix[3]};
    kv head = kb_idiv(b, ix[1], kb_immi(b, a->values));
    kv part = kb_irem(b, ix[1], kb_immi(b, a->values));
    kv first = channel_of(b, head, v->dim[1], a->score.heads, a->vat);
    kv channel = kb_iadd(b, first, part);
    kv most = kb_var(b, kb_immf(b, -3.4028234663852886e38));
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, keys), 1);
    kv key = key_position(b, q, ix[2], ix[3], areas, keys, j);
    kv x = score(b, s, query, head, key);
    kv top = kb_end_max(b, most, x);
    kv weights = kb_var(b, kb_immf(b, 0.0));
    kv sum = kb_var(b, kb_immf(b, 0.0));
    j = kb_loop(b, kb_immi(b, 0), kb_immi(b, keys), 1);
    key = key_position(b, q, ix[2], ix[3], areas, keys, j);
    x = score(b, s, query, head, key);
    kv less = kb_fsub(b, x, top);
    kv e = kb_exp(b, less);
    kv old = kb_get(b, weights);
    kb_set(b, weights, kb_fadd(b, old, e));
    kv row, column;
    split_position(b, v, key, &row, &column);
    kv value = kb_arg(b, s, 2, (kv[]){ix[0], channel, row, column});
    kv all = kb_end_fma(b, sum, e, value);
    return kb_fdiv(b, all, kb_get(b, weights));
}

/* --- softmax ------------------------------------------------------------------------------------------------ */

/* The largest is taken off first, so that no exponent is large. */
kv emit_lse(struct kb *b, const struct site *s, const kv *ix)
{
    int axis = ((const struct yir_a_axis *)kb_attr(s))->axis;
    const struct yir_tdesc *x = kb_desc(s, 0);
    kv at[YIR_MAX_RANK];
    memcpy(at, ix, (size_t)x->rank * sizeof *ix);
    kv top = kb_var(b, kb_immf(b, -3.4028234663852886e38));
    at[axis] = kb_loop(b, kb_immi(b, 0), kb_immi(b, x->dim[axis]), 1);
    kv v = kb_arg(b, s, 0, at);
    kv most = kb_end_max(b, top, v);
    kv sum = kb_var(b, kb_immf(b, 0.0));
    at[axis] = kb_loop(b, kb_immi(b, 0), kb_immi(b, x->dim[axis]), 1);
    v = kb_arg(b, s, 0, at);
    kv less = kb_fsub(b, v, most);
    kv e = kb_exp(b, less);
    kv all = kb_end_add(b, sum, e);
    kv logarithm = kb_log(b, all);
    return kb_fadd(b, logarithm, most);
}

kv emit_softmax(struct kb *b, const struct site *s, const kv *ix)
{
    int axis = ((const struct yir_a_axis *)kb_attr(s))->axis;
    kv at[YIR_MAX_RANK];
    memcpy(at, ix, (size_t)kb_desc(s, 0)->rank * sizeof *ix);
    at[axis] = kb_immi(b, 0);
    kv x = kb_arg(b, s, 0, ix);
    kv lse = kb_arg(b, s, 1, at);
    kv less = kb_fsub(b, x, lse);
    return kb_exp(b, less);
}

/* --- channels as vectors ------------------------------------------------------------------------------------ */

/* Sum over the channels at a place of x, or of (x - less)^2 when `less` is given. */
static kv sum_channels(struct kb *b, const struct site *s, const kv *ix, const kv *less)
{
    kv sum = kb_var(b, kb_immf(b, 0.0));
    kv c = kb_loop(b, kb_immi(b, 0), kb_immi(b, kb_desc(s, 0)->dim[1]), 1);
    kv x = kb_arg(b, s, 0, (kv[]){ix[0], c, ix[2], ix[3]});
    kv old = kb_get(b, sum);
    kv more;
    if (less) {
        kv d = kb_fsub(b, x, *less);
        more = kb_fma(b, d, d, old);
    } else {
        more = kb_fadd(b, old, x);
    }
    kb_set(b, sum, more);
    kb_end(b);
    return kb_get(b, sum);
}

kv emit_moments(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_eps *a = kb_attr(s);
    kv n = kb_immf(b, (double)kb_desc(s, 0)->dim[1]);
    kv sum = sum_channels(b, s, ix, NULL);
    kv mean = kb_fdiv(b, sum, n);
    kv squares = sum_channels(b, s, ix, &mean);
    kv variance = kb_fdiv(b, squares, n);
    kv biased = kb_fadd(b, variance, kb_immf(b, (double)a->eps));
    kv root = kb_sqrt(b, biased);
    kv inverse = kb_fdiv(b, kb_immf(b, 1.0), root);
    kv first = kb_ieq(b, ix[1], kb_immi(b, 0));
    return kb_select(b, first, mean, inverse);
}

kv emit_layernorm(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv mean = kb_arg(b, s, 1, (kv[]){ix[0], kb_immi(b, 0), ix[2], ix[3]});
    kv inverse = kb_arg(b, s, 1, (kv[]){ix[0], kb_immi(b, 1), ix[2], ix[3]});
    kv gamma = kb_arg(b, s, 2, &ix[1]);
    kv beta = kb_arg(b, s, 3, &ix[1]);
    kv centred = kb_fsub(b, x, mean);
    kv unit = kb_fmul(b, centred, inverse);
    return kb_fma(b, unit, gamma, beta);
}

kv emit_rnorm(struct kb *b, const struct site *s, const kv *ix)
{
    kv zero = kb_immf(b, 0.0);
    kv squares = sum_channels(b, s, ix, &zero);
    kv length = kb_sqrt(b, squares);
    kv least = kb_fmax(b, kb_immf(b, 1e-12), length);
    return kb_fdiv(b, kb_immf(b, 1.0), least);
}

kv emit_peak(struct kb *b, const struct site *s, const kv *ix)
{
    kv top = kb_var(b, kb_immf(b, -3.4028234663852886e38));
    kv c = kb_loop(b, kb_immi(b, 0), kb_immi(b, kb_desc(s, 0)->dim[1]), 1);
    kv x = kb_arg(b, s, 0, (kv[]){ix[0], c, ix[2], ix[3]});
    return kb_end_max(b, top, x);
}

kv emit_gate(struct kb *b, const struct site *s, const kv *ix)
{
    int64_t share = kb_desc(s, 0)->dim[1] / kb_desc(s, 1)->dim[1];
    kv group = kb_idiv(b, ix[1], kb_immi(b, share));
    kv x = kb_arg(b, s, 0, ix);
    kv g = kb_arg(b, s, 1, (kv[]){ix[0], group, ix[2], ix[3]});
    return kb_fmul(b, x, g);
}

kv emit_contrast(struct kb *b, const struct site *s, const kv *ix)
{
    kv zero = kb_immi(b, 0);
    kv sum = kb_var(b, kb_immf(b, 0.0));
    kv c = kb_loop(b, zero, kb_immi(b, kb_desc(s, 0)->dim[1]), 1);
    kv x = kb_arg(b, s, 0, (kv[]){ix[0], c, ix[2], ix[3]});
    kv t = kb_arg(b, s, 1, (kv[]){ix[0], c, ix[1], zero});
    kv all = kb_end_fma(b, sum, x, t);
    kv scale = kb_arg(b, s, 2, &zero);
    kv grown = kb_exp(b, scale);
    kv bias = kb_arg(b, s, 3, &zero);
    return kb_fma(b, all, grown, bias);
}
