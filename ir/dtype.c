#include "dtype.h"

#include <string.h>

struct row {
    const char *text;
    uint8_t bytes, acc;
    bool is_float;
};

static const struct row rows[YIR_NDTYPE] = {
#define DTYPE(id, text, bits, acc, is_float) [YIR_##id] = {text, (bits) / 8, YIR_##acc, is_float},
#include "dtypes.def"
#undef DTYPE
};

unsigned yir_dtype_size(enum yir_dtype t)
{
    YIR_ASSERT(t < YIR_NDTYPE);
    return rows[t].bytes;
}

const char *yir_dtype_name(enum yir_dtype t)
{
    YIR_ASSERT(t < YIR_NDTYPE);
    return rows[t].text;
}

bool yir_dtype_is_float(enum yir_dtype t)
{
    YIR_ASSERT(t < YIR_NDTYPE);
    return rows[t].is_float;
}

enum yir_dtype yir_dtype_acc(enum yir_dtype t)
{
    YIR_ASSERT(t < YIR_NDTYPE);
    return (enum yir_dtype)rows[t].acc;
}

bool yir_dtype_by_name(const char *text, size_t len, enum yir_dtype *out)
{
    for (unsigned t = 0; t < YIR_NDTYPE; t++) {
        if (strlen(rows[t].text) != len || memcmp(rows[t].text, text, len) != 0) continue;
        *out = (enum yir_dtype)t;
        return true;
    }
    return false;
}

/* A 16-bit float format: 1 sign bit, ebits of exponent, mbits of fraction. */
struct half {
    unsigned ebits, mbits;
};
static const struct half f16 = {5, 10};
static const struct half bf16 = {8, 7};

static double from_bits(uint64_t b)
{
    double v;
    memcpy(&v, &b, sizeof v);
    return v;
}

static double widen(struct half h, uint16_t bits)
{
    int bias = (1 << (h.ebits - 1)) - 1;
    uint64_t sign = (uint64_t)(bits >> 15) << 63;
    unsigned exp = (unsigned)(bits >> h.mbits) & ((1u << h.ebits) - 1);
    uint64_t frac = bits & ((1u << h.mbits) - 1);
    if (exp == (1u << h.ebits) - 1) return from_bits(sign | (uint64_t)0x7ff << 52 | frac << (52 - h.mbits));
    if (exp == 0) {
        /* Subnormal: frac * 2^(1 - bias - mbits), both factors and the product exact in double. */
        double unit = from_bits((uint64_t)(1023 + 1 - bias - (int)h.mbits) << 52);
        double v = (double)frac * unit;
        return sign ? -v : v;
    }
    return from_bits(sign | (uint64_t)((int)exp - bias + 1023) << 52 | frac << (52 - h.mbits));
}

/* One rounding, to nearest even. Going through float first would round twice. */
static uint16_t narrow(struct half h, double v)
{
    uint64_t b;
    memcpy(&b, &v, sizeof b);
    uint16_t sign = (uint16_t)(b >> 63 << 15);
    uint16_t inf = (uint16_t)(((1u << h.ebits) - 1) << h.mbits);
    int bias = (1 << (h.ebits - 1)) - 1;
    int exp = (int)(b >> 52 & 0x7ff) - 1023;
    uint64_t frac = b & (((uint64_t)1 << 52) - 1);
    if (exp == 1024) return (uint16_t)(sign | inf | (frac ? 1u << (h.mbits - 1) : 0));
    if (exp == -1023) return sign; /* zero, or a double subnormal, far below half of the smallest value */
    frac |= (uint64_t)1 << 52;
    int least = 1 - bias;
    unsigned drop = 52 - h.mbits + (exp < least ? (unsigned)(least - exp) : 0);
    if (drop > 53) return sign;
    if (exp < least) exp = least;
    uint64_t kept = frac >> drop, rest = frac & (((uint64_t)1 << drop) - 1), half = (uint64_t)1 << (drop - 1);
    if (rest > half || (rest == half && (kept & 1))) kept++;
    /* kept holds the leading one of a normal value, which adds 1 to the exponent field. A carry does the
     * same. */
    uint64_t bits = ((uint64_t)(exp + bias - 1) << h.mbits) + kept;
    return (uint16_t)(sign | (bits < inf ? bits : inf));
}

/* Truncated toward zero after clamping; NaN becomes 0. */
static int64_t to_int(double v, double lo, double hi)
{
    if (v != v) return 0;
    if (v <= lo) return (int64_t)lo;
    if (v >= hi) return hi >= 0x1p63 ? INT64_MAX : (int64_t)hi;
    return (int64_t)v;
}

union element {
    float f32;
    double f64;
    uint16_t u16;
    uint8_t u8;
    int8_t i8;
    int32_t i32;
    int64_t i64;
};

double yir_dtype_load(enum yir_dtype t, const void *data, size_t i)
{
    union element v;
    YIR_ASSERT(t < YIR_NDTYPE);
    memcpy(&v, (const unsigned char *)data + i * rows[t].bytes, rows[t].bytes);
    switch (t) {
    case YIR_F32:
        return (double)v.f32;
    case YIR_F16:
        return widen(f16, v.u16);
    case YIR_BF16:
        return widen(bf16, v.u16);
    case YIR_F64:
        return v.f64;
    case YIR_U8:
        return v.u8;
    case YIR_I8:
        return v.i8;
    case YIR_I32:
        return v.i32;
    case YIR_I64:
        return (double)v.i64;
    case YIR_BOOL:
        return v.u8 != 0;
    case YIR_NDTYPE:
        break;
    }
    YIR_BUG("element type %d", (int)t);
}

void yir_dtype_store(enum yir_dtype t, void *data, size_t i, double v)
{
    union element w;
    YIR_ASSERT(t < YIR_NDTYPE);
    switch (t) {
    case YIR_F32:
        w.f32 = (float)v;
        break;
    case YIR_F16:
        w.u16 = narrow(f16, v);
        break;
    case YIR_BF16:
        w.u16 = narrow(bf16, v);
        break;
    case YIR_F64:
        w.f64 = v;
        break;
    case YIR_U8:
        w.u8 = (uint8_t)to_int(v, 0, UINT8_MAX);
        break;
    case YIR_I8:
        w.i8 = (int8_t)to_int(v, INT8_MIN, INT8_MAX);
        break;
    case YIR_I32:
        w.i32 = (int32_t)to_int(v, INT32_MIN, INT32_MAX);
        break;
    case YIR_I64:
        w.i64 = to_int(v, -0x1p63, 0x1p63);
        break;
    case YIR_BOOL:
        w.u8 = v != 0;
        break;
    case YIR_NDTYPE:
        YIR_BUG("element type %d", (int)t);
    }
    memcpy((unsigned char *)data + i * rows[t].bytes, &w, rows[t].bytes);
}

/* A half's exponent and fraction, moved to a float's place, are too small by 2^112: also for subnormal ones,
 * and exactly. Only infinite and NaN need their exponent filled up. */
static float float_of_half(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13, special = (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
    float f;
    memcpy(&f, &bits, 4);
    f *= 0x1p112f;
    memcpy(&bits, &f, 4);
    bits |= special | (uint32_t)(h & 0x8000) << 16;
    memcpy(&f, &bits, 4);
    return f;
}

void yir_dtype_load_f32(enum yir_dtype t, const void *data, size_t n, float *out)
{
    if (t == YIR_F32) {
        memcpy(out, data, n * sizeof *out);
        return;
    }
    for (size_t i = 0; t == YIR_F16 && i < n; i++) {
        uint16_t h;
        memcpy(&h, (const unsigned char *)data + 2 * i, 2);
        out[i] = float_of_half(h);
    }
    for (size_t i = 0; t != YIR_F16 && i < n; i++)
        out[i] = (float)yir_dtype_load(t, data, i);
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

/* As narrow(f16, v). Below the least normal half, the sum with 0.5 has the bits that are kept at its end, rounded by the machine. */
static uint16_t half_of_float(float v)
{
    const uint32_t infinite = 0x7f800000u, too_large = 0x47800000u, least = 0x38800000u;
    uint32_t bits = bits_of(v), sign = bits >> 16 & 0x8000u, all = bits & 0x7fffffffu;
    float size;
    memcpy(&size, &all, 4);
    uint32_t small = bits_of(size + 0.5f) - bits_of(0.5f);
    uint32_t normal = (all - (112u << 23) + 0xfffu + (all >> 13 & 1)) >> 13;
    uint32_t special = all > infinite ? 0x7e00u : 0x7c00u;
    return (uint16_t)(sign | (all >= too_large ? special : all < least ? small : normal));
}

/* As narrow(bf16, v). */
static uint16_t bhalf_of_float(float v)
{
    uint32_t bits = bits_of(v), rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16 & 0x8000u) | 0x7fc0u : rounded);
}

void yir_dtype_store_f32(enum yir_dtype t, void *data, size_t n, const float *in)
{
    if (t == YIR_F32) {
        memcpy(data, in, n * sizeof *in);
        return;
    }
    if (t != YIR_F16 && t != YIR_BF16) {
        for (size_t i = 0; i < n; i++) yir_dtype_store(t, data, i, (double)in[i]);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t half = t == YIR_F16 ? half_of_float(in[i]) : bhalf_of_float(in[i]);
        memcpy((unsigned char *)data + 2 * i, &half, 2);
    }
}
