/* Point-wise ops: the element at an index needs only its operands' elements at that index. */
#include "site.h"

#include <math.h>

kv kb_sigmoid(struct kb *b, kv x)
{
    return kb_logistic(b, x, kb_immf(b, 1.0));
}

kv emit_sigmoid(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    return kb_sigmoid(b, x);
}

kv emit_silu(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    return kb_logistic(b, x, x);
}

kv emit_relu(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    return kb_fmax(b, kb_immf(b, 0.0), x); /* this order lets NaN through */
}

/* min(max(x, 0), 6), NaN passes. */
static kv clamp6(struct kb *b, kv x)
{
    kv low = kb_fmax(b, kb_immf(b, 0.0), x);
    return kb_fmin(b, kb_immf(b, 6.0), low);
}

kv emit_relu6(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    return clamp6(b, x);
}

kv emit_hardsigmoid(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv shifted = kb_fadd(b, x, kb_immf(b, 3.0));
    kv gate = clamp6(b, shifted);
    return kb_fmul(b, gate, kb_immf(b, 1.0 / 6.0));
}

kv emit_hardswish(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv shifted = kb_fadd(b, x, kb_immf(b, 3.0));
    kv gate = clamp6(b, shifted);
    kv y = kb_fmul(b, x, gate);
    return kb_fmul(b, y, kb_immf(b, 1.0 / 6.0));
}

kv emit_leaky(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_slope *a = kb_attr(s);
    kv x = kb_arg(b, s, 0, ix);
    kv positive = kb_flt(b, kb_immf(b, 0.0), x);
    kv scaled = kb_fmul(b, x, kb_immf(b, (double)a->slope));
    return kb_select(b, positive, x, scaled);
}

kv emit_elu(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_slope *a = kb_attr(s);
    kv x = kb_arg(b, s, 0, ix);
    kv positive = kb_flt(b, kb_immf(b, 0.0), x);
    kv e = kb_exp(b, x);
    kv less = kb_fsub(b, e, kb_immf(b, 1.0));
    kv scaled = kb_fmul(b, less, kb_immf(b, (double)a->slope));
    return kb_select(b, positive, x, scaled);
}

/* (1 - e) / (1 + e), e = exp(-2x). */
static kv tanh_of(struct kb *b, kv x)
{
    kv scaled = kb_fmul(b, x, kb_immf(b, -2.0));
    kv e = kb_exp(b, scaled);
    kv num = kb_fsub(b, kb_immf(b, 1.0), e);
    kv den = kb_fadd(b, e, kb_immf(b, 1.0));
    return kb_fdiv(b, num, den);
}

kv emit_tanh(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    return tanh_of(b, x);
}

kv emit_gelu(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv scaled = kb_fmul(b, x, kb_immf(b, M_SQRT1_2));
    kv e = kb_erf(b, scaled);
    kv phi = kb_fadd(b, e, kb_immf(b, 1.0));
    kv half = kb_fmul(b, x, kb_immf(b, 0.5));
    return kb_fmul(b, half, phi);
}

/* Above 20, log(1 + exp(x)) is x in float, and exp(x) need not be formed. */
kv emit_mish(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv low = kb_fmin(b, kb_immf(b, 20.0), x);
    kv e = kb_exp(b, low);
    kv sum = kb_fadd(b, e, kb_immf(b, 1.0));
    kv soft = kb_log(b, sum);
    kv big = kb_flt(b, kb_immf(b, 20.0), x);
    kv arg = kb_select(b, big, x, soft);
    kv t = tanh_of(b, arg);
    return kb_fmul(b, x, t);
}

kv emit_add(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv y = kb_arg(b, s, 1, ix);
    return kb_fadd(b, x, y);
}

kv emit_mul(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv y = kb_arg(b, s, 1, ix);
    return kb_fmul(b, x, y);
}

kv emit_batchnorm(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_eps *a = kb_attr(s);
    kv x = kb_arg(b, s, 0, ix);
    kv gamma = kb_arg(b, s, 1, &ix[1]);
    kv beta = kb_arg(b, s, 2, &ix[1]);
    kv mean = kb_arg(b, s, 3, &ix[1]);
    kv var = kb_arg(b, s, 4, &ix[1]);
    kv biased = kb_fadd(b, var, kb_immf(b, (double)a->eps));
    kv sd = kb_sqrt(b, biased);
    kv centred = kb_fsub(b, x, mean);
    kv unit = kb_fdiv(b, centred, sd);
    return kb_fma(b, unit, gamma, beta);
}

kv emit_affine(struct kb *b, const struct site *s, const kv *ix)
{
    const struct yir_a_affine *a = kb_attr(s);
    kv x = kb_arg(b, s, 0, ix);
    kv mul = kb_immf(b, (double)a->mul);
    kv add = kb_immf(b, (double)a->add);
    return kb_fma(b, x, mul, add);
}

kv emit_logit(struct kb *b, const struct site *s, const kv *ix)
{
    kv x = kb_arg(b, s, 0, ix);
    kv least = kb_immf(b, 1e-5);
    kv rest = kb_fsub(b, kb_immf(b, 1.0), x);
    kv num = kb_fmax(b, least, x);
    kv den = kb_fmax(b, least, rest);
    kv odds = kb_fdiv(b, num, den);
    return kb_log(b, odds);
}

kv emit_depth(struct kb *b, const struct site *s, const kv *ix)
{
    kv first = kb_immi(b, 0);
    kv x = kb_arg(b, s, 0, ix);
    kv low = kb_fmax(b, kb_immf(b, -4.0), x);
    kv z = kb_fmin(b, kb_immf(b, 5.0), low);
    kv a = kb_arg(b, s, 1, &first);
    kv shift = kb_arg(b, s, 2, &first);
    kv y = kb_fma(b, a, z, shift);
    return kb_exp(b, y);
}

/* Quarters of the channels: sine and cosine of the row, sine and cosine of the column. */
kv emit_posenc(struct kb *b, const struct site *s, const kv *ix)
{
    kv quarter = kb_immi(b, kb_desc(s, 0)->dim[1] / 4);
    kv which = kb_idiv(b, ix[1], quarter);
    kv i = kb_irem(b, ix[1], quarter);
    kv is_row = kb_ilt(b, which, kb_immi(b, 2));
    kv at = kb_select(b, is_row, ix[2], ix[3]);
    kv atf = kb_itof(b, at);
    kv w = kb_arg(b, s, 1, &i);
    kv angle = kb_fmul(b, atf, w);
    kv odd = kb_irem(b, which, kb_immi(b, 2));
    kv is_cosine = kb_ieq(b, odd, kb_immi(b, 1));
    kv sine = kb_sin(b, angle);
    kv cosine = kb_cos(b, angle);
    kv code = kb_select(b, is_cosine, cosine, sine);
    kv x = kb_arg(b, s, 0, ix);
    return kb_fadd(b, x, code);
}
