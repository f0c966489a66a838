#include "ir/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static uint16_t stored16(enum yir_dtype t, double v)
{
    uint16_t bits;
    yir_dtype_store(t, &bits, 0, v);
    return bits;
}

/* All 65536 values of both half formats survive the way through double. */
Test(dtype, halves_round_trip)
{
    static const enum yir_dtype types[] = {YIR_F16, YIR_BF16};
    for (size_t i = 0; i < YIR_COUNT(types); i++) {
        for (unsigned b = 0; b < 65536; b++) {
            uint16_t bits = (uint16_t)b;
            double v = yir_dtype_load(types[i], &bits, 0);
            if (isnan(v))
                cr_assert(isnan(yir_dtype_load(types[i], &(uint16_t){stored16(types[i], v)}, 0)));
            else
                cr_assert_eq(stored16(types[i], v), bits, "%s %04x", yir_dtype_name(types[i]), b);
        }
    }
}

Test(dtype, known_halves)
{
    static const struct {
        enum yir_dtype t;
        uint16_t bits;
        double value;
    } rows[] = {
        {YIR_F16, 0x3c00, 1},           {YIR_F16, 0xc000, -2},         {YIR_F16, 0x7bff, 65504},
        {YIR_F16, 0x0400, 0x1p-14},     {YIR_F16, 0x0001, 0x1p-24},    {YIR_F16, 0x03ff, 0x1p-14 - 0x1p-24},
        {YIR_F16, 0x7c00, INFINITY},    {YIR_F16, 0x3555, 0x1.554p-2}, {YIR_BF16, 0x3f80, 1},
        {YIR_BF16, 0x4049, 3.140625},   {YIR_BF16, 0x0080, 0x1p-126},  {YIR_BF16, 0x0001, 0x1p-133},
        {YIR_BF16, 0x7f7f, 0x1.fep127}, {YIR_BF16, 0xff80, -INFINITY},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        cr_assert_eq(yir_dtype_load(rows[i].t, &rows[i].bits, 0), rows[i].value, "row %zu", i);
        cr_assert_eq(stored16(rows[i].t, rows[i].value), rows[i].bits, "row %zu", i);
    }
}

/* Between neighbours: half way goes to the even one, more or less to the nearer one. */
Test(dtype, rounding)
{
    static const enum yir_dtype types[] = {YIR_F16, YIR_BF16};
    static const unsigned top[] = {0x7bff, 0x7f7f};
    for (size_t i = 0; i < YIR_COUNT(types); i++) {
        for (unsigned b = 0; b < top[i]; b++) {
            uint16_t lo = (uint16_t)b, hi = (uint16_t)(b + 1), even = (uint16_t)(b & 1 ? hi : lo);
            double x = yir_dtype_load(types[i], &lo, 0), y = yir_dtype_load(types[i], &hi, 0),
                   mid = (x + y) / 2;
            cr_assert_eq(stored16(types[i], mid), even, "%04x", b);
            cr_assert_eq(stored16(types[i], nextafter(mid, INFINITY)), hi, "%04x", b);
            cr_assert_eq(stored16(types[i], nextafter(mid, -INFINITY)), lo, "%04x", b);
            cr_assert_eq(stored16(types[i], -mid), even | 0x8000, "%04x", b);
        }
    }
    cr_assert_eq(stored16(YIR_F16, 65520), 0x7c00);
    cr_assert_eq(stored16(YIR_F16, nextafter(65520, 0)), 0x7bff);
    cr_assert_eq(stored16(YIR_F16, 1e300), 0x7c00);
    cr_assert_eq(stored16(YIR_F16, 1e-300), 0);
    cr_assert_eq(stored16(YIR_F16, -0.0), 0x8000);
    /* Through float this would round twice, to 0x3c01. */
    cr_assert_eq(stored16(YIR_F16, 1 + 0x1p-11), 0x3c00);
    cr_assert_eq(stored16(YIR_F16, 1 + 0x1p-11 + 0x1p-40), 0x3c01);
}

Test(dtype, many_at_once)
{
    static uint16_t bits[65536];
    static float out[65536];
    for (unsigned b = 0; b < 65536; b++)
        bits[b] = (uint16_t)b;
    for (unsigned t = 0; t < YIR_NDTYPE; t++) {
        size_t n = sizeof bits / yir_dtype_size((enum yir_dtype)t);
        if (n > 65536) n = 65536;
        yir_dtype_load_f32((enum yir_dtype)t, bits, n, out);
        for (size_t i = 0; i < n; i++) {
            float want = (float)yir_dtype_load((enum yir_dtype)t, bits, i);
            bool same = isnan(want) ? isnan(out[i]) : out[i] == want && !signbit(out[i]) == !signbit(want);
            cr_assert(same, "%s, element %zu", yir_dtype_name((enum yir_dtype)t), i);
        }
    }
}

/* Floats at every border of rounding: all upper halves, with lower halves that lie on ties, beside them and far from them. */
Test(dtype, many_stored_at_once)
{
    static const uint32_t low[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x2000, 0x3000, 0x5555, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff};
    enum { N = 65536 };
    static float in[N];
    static double out[N];
    for (size_t k = 0; k < sizeof low / sizeof *low; k++) {
        for (uint32_t i = 0; i < N; i++) {
            uint32_t bits = i << 16 | low[k];
            memcpy(&in[i], &bits, sizeof bits);
        }
        for (unsigned t = 0; t < YIR_NDTYPE; t++) {
            unsigned char want[sizeof(double)];
            unsigned size = yir_dtype_size((enum yir_dtype)t);
            yir_dtype_store_f32((enum yir_dtype)t, out, N, in);
            for (size_t i = 0; i < N; i++) {
                yir_dtype_store((enum yir_dtype)t, want, 0, (double)in[i]);
                if (t == YIR_F32 && isnan(in[i])) continue; /* a copy, which keeps what kind of NaN it is */
                cr_assert_arr_eq((char *)out + i * size, want, size, "%s of %a", yir_dtype_name((enum yir_dtype)t), (double)in[i]);
            }
        }
    }
}

Test(dtype, integers_clamp_and_truncate)
{
    static const struct {
        enum yir_dtype t;
        double in, out;
    } rows[] = {
        {YIR_U8, 3.99, 3},
        {YIR_U8, -1, 0},
        {YIR_U8, 300, 255},
        {YIR_U8, NAN, 0},
        {YIR_I8, -3.99, -3},
        {YIR_I8, -1e9, -128},
        {YIR_I8, 127.5, 127},
        {YIR_I32, 1e30, INT32_MAX},
        {YIR_I32, -1e30, INT32_MIN},
        {YIR_I64, -0x1p63, -0x1p63},
        {YIR_I64, 1e30, 0x1p63},
        {YIR_BOOL, 0.1, 1},
        {YIR_BOOL, 0, 0},
        {YIR_I64, 12345678901.0, 12345678901.0},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        unsigned char raw[16] = {0};
        yir_dtype_store(rows[i].t, raw, 1, rows[i].in);
        cr_assert_eq(yir_dtype_load(rows[i].t, raw, 1), rows[i].out, "row %zu", i);
    }
}

Test(dtype, names_and_places)
{
    enum yir_dtype t;
    for (unsigned i = 0; i < YIR_NDTYPE; i++) {
        const char *name = yir_dtype_name((enum yir_dtype)i);
        cr_assert(yir_dtype_by_name(name, strlen(name), &t) && t == i);
    }
    cr_assert_not(yir_dtype_by_name("f3", 2, &t));
    cr_assert_not(yir_dtype_by_name("f320", 4, &t));
    cr_assert_eq(yir_dtype_acc(YIR_F16), YIR_F32);
    cr_assert(yir_dtype_is_float(YIR_BF16) && !yir_dtype_is_float(YIR_BOOL));
    unsigned char raw[9];
    yir_dtype_store(YIR_F32, raw + 1, 1, 0.1); /* unaligned */
    cr_assert_eq(yir_dtype_load(YIR_F32, raw + 1, 1), (double)0.1f);
}
