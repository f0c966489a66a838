/* Functions of floats that most targets lack, by primitives that all have: estimates, polynomials, reductions of the argument. */
#include "kb.h"

#include <math.h>

static bool full_vector(const struct kb *b, kv x)
{
    int lanes = b->node[x.id].lanes;
    return lanes > 1 && lanes == b->target->lanes;
}

/* With an estimate r of 1/y and one step of Newton, r + r*(1 - y*r): its error is squared, to 2^-28. */
kv kb_ratio(struct kb *b, kv x, kv y)
{
    if (b->target->sm) {
        kv inverse = kb_float(b, KB_RCPE, (kv[]){y}, 1);
        return kb_fmul(b, x, inverse);
    }
    if (!b->target->rcp14 || !full_vector(b, y)) return kb_fdiv(b, x, y);
    kv one = kb_immf(b, 1.0);
    kv r = kb_float(b, KB_RCPE, (kv[]){y}, 1);
    kv minus = kb_fneg(b, y);
    kv rest = kb_fma(b, minus, r, one);
    kv better = kb_fma(b, r, rest, r);
    return kb_fmul(b, x, better);
}

/* Horner's rule, highest coefficient first. */
static kv polynomial(struct kb *b, kv x, const double *c, int n)
{
    kv p = kb_immf(b, c[0]);
    for (int i = 1; i < n; i++) {
        kv term = kb_immf(b, c[i]);
        p = kb_fma(b, p, x, term);
    }
    return p;
}

/* e^-x as 2^floor(t) * 2^frac(t), t = -x*log2(e), 2^r on [0, 1) interpolated at Chebyshev nodes, degree 5: relative error 1e-7,
 * and |t| * 6e-8 from rounding t, which counts where the result is small. t is held between -125 and 125, where
 * all is finite and normal, reciprocal estimates too: a subnormal or an underflow costs hundreds of cycles. */
static kv exp2_parts(struct kb *b, kv x)
{
    static const double c[] = {0.0018937540582209126, 0.008949590423294776, 0.05586033707728194,
                               0.24014181820143185,   0.6931544896632322,   0.9999998983500243};
    kv t = kb_fmul(b, x, kb_immf(b, -1.4426950408889634));
    kv low = kb_fmin(b, kb_immf(b, 125.0), t);
    kv held = kb_fmax(b, kb_immf(b, -125.0), low);
    kv r = kb_float(b, KB_FRAC, (kv[]){held}, 1);
    kv p = polynomial(b, r, c, (int)YIR_COUNT(c));
    return kb_float(b, KB_SCALE, (kv[]){p, held}, 2);
}

/* y / (1 + e^-x) = y/2 + y/2 * tanh(x/2) */
static kv rough_logistic(struct kb *b, kv x, kv y)
{
    kv half = kb_immf(b, 0.5), half_x = kb_fmul(b, x, half), half_y = kb_fmul(b, y, half);
    kv t = kb_float(b, KB_TANHE, (kv[]){half_x}, 1);
    return kb_fma(b, half_y, t, half_y);
}

/* Of a rounded product: the error is |x| * 9e-8, which counts where the result is small. */
static kv exp2_estimate(struct kb *b, kv x)
{
    kv t = kb_fmul(b, x, kb_immf(b, -1.4426950408889634));
    return kb_float(b, KB_EXP2E, (kv[]){t}, 1);
}

kv kb_logistic(struct kb *b, kv x, kv y)
{
    if (b->rough) return rough_logistic(b, x, y);
    bool quick = b->target->scalef && full_vector(b, x);
    kv e = b->target->sm ? exp2_estimate(b, x) : quick ? exp2_parts(b, x) : kb_exp(b, kb_fneg(b, x));
    kv den = kb_fadd(b, e, kb_immf(b, 1.0));
    return kb_ratio(b, y, den);
}

/* exp by 2^k * p(r), r in [-ln2/2, ln2/2]: p interpolates at Chebyshev nodes, degree 6, relative error 2e-8 in float.
 * Arguments are clamped to [-87.3, 87.3], where the result and 1 / (1 + result) are normal floats: subnormal scores of
 * saturated sigmoids cost hundreds of cycles each. NaN passes. */
kv kb_exp(struct kb *b, kv x)
{
    if (b->target->native_math) return kb_float(b, KB_EXP, (kv[]){x}, 1);
    static const double c[] = {0.0013941160753825471, 0.0083751682889542,  0.041666352268082525, 0.1666641501129006,
                               0.5000000047259399,    1.0000000378296146, 1.0};
    kv high = kb_fmin(b, kb_immf(b, 87.3), x);
    kv y = kb_fmax(b, kb_immf(b, -87.3), high);
    kv scaled = kb_fmul(b, y, kb_immf(b, 1.4426950408889634));
    kv k = kb_rint(b, scaled);
    kv r = kb_fma(b, k, kb_immf(b, -0.693359375), y); /* ln2 in two parts, the first exact in few bits */
    r = kb_fma(b, k, kb_immf(b, 0.00021219444005471377), r);
    kv p = polynomial(b, r, c, (int)YIR_COUNT(c));
    if (b->target->scalef && full_vector(b, p)) return kb_float(b, KB_SCALE, (kv[]){p, k}, 2);
    kv scale = kb_float(b, KB_POW2I, (kv[]){k}, 1);
    return kb_fmul(b, p, scale);
}

/* log of a positive normal: e*ln2 + 2*atanh(s), s = (m-1)/(m+1), m in [sqrt(1/2), sqrt(2)); five terms, error 7e-10. */
kv kb_log(struct kb *b, kv x)
{
    if (b->target->native_math) return kb_float(b, KB_LOG, (kv[]){x}, 1);
    static const double c[] = {2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0};
    kv one = kb_immf(b, 1.0);
    kv e = kb_float(b, KB_LOGB, (kv[]){x}, 1);
    kv m = kb_float(b, KB_SIGNIF, (kv[]){x}, 1);
    kv big = kb_flt(b, kb_immf(b, 1.4142135623730951), m);
    kv half = kb_fmul(b, m, kb_immf(b, 0.5));
    m = kb_select(b, big, half, m);
    kv e1 = kb_fadd(b, e, one);
    e = kb_select(b, big, e1, e);
    kv num = kb_fsub(b, m, one);
    kv den = kb_fadd(b, m, one);
    kv s = kb_fdiv(b, num, den);
    kv s2 = kb_fmul(b, s, s);
    kv p = polynomial(b, s2, c, (int)YIR_COUNT(c));
    kv series = kb_fmul(b, p, s);
    return kb_fma(b, e, kb_immf(b, 0.6931471805599453), series);
}

/* erf by the rational form 7.1.26 of Abramowitz and Stegun, absolute error 1.5e-7. */
kv kb_erf(struct kb *b, kv x)
{
    if (b->target->native_math) return kb_float(b, KB_ERF, (kv[]){x}, 1);
    static const double c[] = {1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0};
    kv one = kb_immf(b, 1.0);
    kv negated = kb_fneg(b, x);
    kv negative = kb_flt(b, x, kb_immf(b, 0.0));
    kv size = kb_select(b, negative, negated, x);
    kv den = kb_fma(b, size, kb_immf(b, 0.3275911), one);
    kv t = kb_fdiv(b, one, den);
    kv p = polynomial(b, t, c, (int)YIR_COUNT(c));
    kv square = kb_fmul(b, size, size);
    kv decay = kb_exp(b, kb_fneg(b, square));
    kv tail = kb_fmul(b, p, decay);
    kv y = kb_fsub(b, one, tail);
    kv minus = kb_fneg(b, y);
    return kb_select(b, negative, minus, y);
}

/* sin(k*pi + r) = (-1)^k * sin(r), r in [-pi/2, pi/2] by its series; pi in two parts, the first exact in few bits, the second
 * with all that the first lacks in double. */
kv kb_sin(struct kb *b, kv x)
{
    static const double c[] = {1 / 355687428096000.0, -1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0, 1 / 362880.0,
                               -1 / 5040.0,           1 / 120.0,            -1 / 6.0,         1.0};
    kv turns = kb_fmul(b, x, kb_immf(b, M_1_PI));
    kv k = kb_rint(b, turns);
    kv r = kb_fma(b, k, kb_immf(b, -3.140625), x);
    r = kb_fma(b, k, kb_immf(b, -(M_PI - 3.140625)), r);
    kv half = kb_fmul(b, k, kb_immf(b, 0.5));
    kv even = kb_rint(b, half);
    kv odd = kb_fma(b, even, kb_immf(b, -2.0), k); /* -1, 0 or 1 */
    kv square = kb_fmul(b, odd, odd);
    kv minus_two = kb_immf(b, -2.0);
    kv one = kb_immf(b, 1.0);
    kv sign = kb_fma(b, square, minus_two, one);
    kv r2 = kb_fmul(b, r, r);
    kv p = polynomial(b, r2, c, (int)YIR_COUNT(c));
    kv sine = kb_fmul(b, p, r);
    return kb_fmul(b, sine, sign);
}

kv kb_cos(struct kb *b, kv x)
{
    kv shifted = kb_fadd(b, x, kb_immf(b, M_PI_2));
    return kb_sin(b, shifted);
}
