/* Packed weights: the forms as codegen/kb.h and runtime/module.h describe them, by the compiler and by the loader. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "runtime/cpufeature.h"
#include "runtime/packing.h"
#include "runtime/yolort.h"

struct shape {
    int64_t co, ci, kh, kw;
};
static const struct shape shapes[] = {{1, 1, 1, 1}, {5, 3, 1, 1}, {16, 7, 3, 3}, {17, 2, 3, 3}, {40, 5, 3, 3}, {33, 4, 5, 2}, {64, 1, 7, 7}};
static const int32_t args[] = {1, 4, 8, 16, 24, 32};

static struct yir_tdesc desc_of(const struct shape *s, enum yir_dtype type)
{
    return (struct yir_tdesc){.dtype = type, .layout = YIR_OIHW, .rank = 4, .dim = {s->co, s->ci, s->kh, s->kw}};
}

static float sample(int64_t i)
{
    return (float)((i * 7919 + 13) % 1009 - 500) / 311.0f;
}

/* --- by the letter ---------------------------------------------------------------------------------------------- */

static const double points2[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
static const double points4[6][3] = {{1 / 4., 0, 0},           {-1 / 6., -1 / 6., -1 / 6.}, {-1 / 6., 1 / 6., -1 / 6.},
                                     {1 / 24., 1 / 12., 1 / 6.}, {1 / 24., -1 / 12., 1 / 6.}, {0, 0, 1}};

static double winograd(const float *w, enum kb_packing p, int64_t k)
{
    const double(*g)[3] = p == KB_PACK_WINO2 ? points2 : points4;
    int64_t n = p == KB_PACK_WINO2 ? 4 : 6;
    double sum = 0;
    for (int r = 0; r < 3; r++)
        for (int q = 0; q < 3; q++) sum += g[k / n][r] * (double)w[3 * r + q] * g[k % n][q];
    return sum;
}

/* Element of the packed form at (o, c, k): k is a tap, or a point of a transform. */
static int64_t place(const struct shape *s, enum kb_packing p, int64_t arg, int64_t o, int64_t c, int64_t k)
{
    int64_t taps = s->kh * s->kw, points = p == KB_PACK_WINO2 ? 16 : p == KB_PACK_WINO4 ? 36 : taps, b = o / arg, in = o % arg;
    switch (p) {
    case KB_PACK_NONE: return (o * s->ci + c) * taps + k;
    case KB_PACK_OBLOCK_BACK: return ((b * taps + k) * s->ci + s->ci - 1 - c) * arg + in;
    case KB_PACK_OBLOCK_PLANES: return (((b * s->kh + k / s->kw) * s->ci + c) * s->kw + k % s->kw) * arg + in;
    case KB_PACK_DW: return (c * taps + k) * ((s->co + arg - 1) / arg * arg) + o;
    default: return ((b * points + k) * s->ci + c) * arg + in;
    }
}

static void check_form(const struct shape *s, enum kb_packing p, int32_t arg, const float *dense, const float *packed, int64_t n)
{
    bool wino = p == KB_PACK_WINO2 || p == KB_PACK_WINO4;
    int64_t taps = s->kh * s->kw, points = p == KB_PACK_WINO2 ? 16 : p == KB_PACK_WINO4 ? 36 : taps, set = 0, filled = 0;
    for (int64_t o = 0; o < s->co; o++)
        for (int64_t c = 0; c < s->ci; c++)
            for (int64_t k = 0; k < points; k++) {
                const float *filter = dense + (o * s->ci + c) * taps;
                double want = wino ? winograd(filter, p, k) : (double)filter[k];
                int64_t at = place(s, p, arg, o, c, k);
                cr_assert_lt(at, n);
                cr_assert(fabs((double)packed[at] - want) <= (wino ? 1e-6 : 0), "packing %d by %d: %g instead of %g", (int)p, arg,
                          (double)packed[at], want);
                filled += packed[at] != 0;
            }
    for (int64_t i = 0; i < n; i++) set += packed[i] != 0;
    cr_expect_eq(set, filled, "missing channels are not 0");
}

static void each_form(void (*act)(const struct shape *s, enum kb_packing p, int32_t arg))
{
    for (size_t i = 0; i < YIR_COUNT(shapes); i++)
        for (int p = 0; p < YM_NPACK; p++)
            for (size_t a = 0; a < (p == KB_PACK_NONE ? 1 : YIR_COUNT(args)); a++) {
                bool wino = p == KB_PACK_WINO2 || p == KB_PACK_WINO4;
                if ((wino && (shapes[i].kh != 3 || shapes[i].kw != 3)) || (p == KB_PACK_DW && shapes[i].ci != 1)) continue;
                act(&shapes[i], (enum kb_packing)p, p == KB_PACK_NONE ? 0 : args[a]);
            }
}

static float *dense_of(const struct shape *s, int64_t *n)
{
    *n = s->co * s->ci * s->kh * s->kw;
    float *out = malloc((size_t)*n * sizeof *out);
    for (int64_t i = 0; i < *n; i++) out[i] = sample(i);
    return out;
}

static void by_the_compiler(const struct shape *s, enum kb_packing p, int32_t arg)
{
    int64_t n;
    struct yir_tdesc d = desc_of(s, YIR_F32);
    float *dense = dense_of(s, &n);
    int64_t elems = cg_packed_elems(&d, p, arg);
    float *packed = calloc((size_t)elems, sizeof *packed);
    cg_pack(&d, dense, p, arg, packed);
    check_form(s, p, arg ? arg : 1, dense, packed, elems);
    free(packed);
    free(dense);
}

Test(packing, forms)
{
    each_form(by_the_compiler);
}

/* Elements that are no floats move by their bytes. */
Test(packing, other_types)
{
    static const uint16_t in[3 * 2] = {1, 2, 3, 4, 5, 6};
    static const uint16_t want[2 * 4] = {1, 3, 5, 0, 2, 4, 6, 0};
    const struct yir_tdesc d = {.dtype = YIR_F16, .rank = 2, .dim = {3, 2}};
    uint16_t out[8] = {0};
    cg_pack(&d, in, KB_PACK_OBLOCK, 4, out);
    cr_expect_arr_eq(out, want, sizeof want);
}

/* A transform of weights of half precision is that of the same numbers as floats, rounded. */
Test(packing, transforms_of_halves)
{
    enum { CO = 5, CI = 3, BLOCK = 8, PACKED = BLOCK * CI * 36 };
    const struct yir_tdesc h = {.dtype = YIR_F16, .layout = YIR_OIHW, .rank = 4, .dim = {CO, CI, 3, 3}};
    const struct yir_tdesc f = {.dtype = YIR_F32, .layout = YIR_OIHW, .rank = 4, .dim = {CO, CI, 3, 3}};
    uint16_t half[CO * CI * 9], got[PACKED] = {0};
    float dense[CO * CI * 9], want[PACKED] = {0};
    for (size_t i = 0; i < YIR_COUNT(half); i++) {
        yir_dtype_store(YIR_F16, half, i, (double)sample((int64_t)i));
        dense[i] = (float)yir_dtype_load(YIR_F16, half, i);
    }
    cr_assert_eq(cg_packed_elems(&h, KB_PACK_WINO4, BLOCK), PACKED);
    cg_pack(&h, half, KB_PACK_WINO4, BLOCK, got);
    cg_pack(&f, dense, KB_PACK_WINO4, BLOCK, want);
    for (size_t i = 0; i < PACKED; i++) {
        uint16_t rounded;
        yir_dtype_store(YIR_F16, &rounded, 0, (double)want[i]);
        cr_expect_eq(got[i], rounded);
    }
}

/* --- by the loader ---------------------------------------------------------------------------------------------- */

typedef void pack_fn(const struct rt_packing *p, const struct rt_pack_rows *r, float *stage, void *out);

/* The whole weight, of half precision when half is not NULL, times factors. */
static float *load(pack_fn *pack, const struct shape *s, enum kb_packing p, int32_t arg, const void *dense, bool half, const double *factor)
{
    struct rt_packing k;
    uint64_t elems = 0;
    const int64_t dim[4] = {s->co, s->ci, s->kh, s->kw};
    cr_assert(rt_packing_of(&k, (uint32_t)p, arg, 4, dim, sizeof(float), &elems));
    float *out = calloc(elems, sizeof *out), *stage = malloc((size_t)(RT_PACK_ROWS * k.ci * k.taps) * sizeof *stage);
    for (int64_t i = 0; i < rt_packing_parts(&k); i++) {
        struct rt_pack_rows r = {.from = half ? YOLORT_F16 : YOLORT_F32, .factor = factor};
        rt_packing_part(&k, i, &r.first, &r.n);
        r.rows = (const char *)dense + r.first * k.ci * k.taps * (half ? 2 : 4);
        pack(&k, &r, stage, out);
    }
    free(stage);
    return out;
}

/* Bytes equal to those that the compiler makes of the scaled weight. */
static void check_loader(pack_fn *pack, const struct shape *s, enum kb_packing p, int32_t arg, bool half, bool scaled)
{
    int64_t n;
    struct yir_tdesc d = desc_of(s, YIR_F32);
    float *dense = dense_of(s, &n), *scaled_by = malloc((size_t)n * sizeof *scaled_by);
    uint16_t *halves = malloc((size_t)n * sizeof *halves);
    double *factor = malloc((size_t)s->co * sizeof *factor);
    int64_t elems = cg_packed_elems(&d, p, arg);
    float *want = calloc((size_t)elems, sizeof *want);
    for (int64_t o = 0; o < s->co; o++) factor[o] = (double)sample(o + 3) / 7;
    for (int64_t i = 0; i < n; i++) {
        yir_dtype_store(YIR_F16, halves, (size_t)i, (double)dense[i]);
        double x = half ? yir_dtype_load(YIR_F16, halves, (size_t)i) : (double)dense[i];
        scaled_by[i] = (float)(scaled ? x * factor[i / (n / s->co)] : x);
    }
    cg_pack(&d, scaled_by, p, arg, want);
    float *got = load(pack, s, p, arg, half ? (const void *)halves : dense, half, scaled ? factor : NULL);
    cr_expect_eq(memcmp(got, want, (size_t)elems * sizeof *got), 0, "packing %d by %d of %d channels", (int)p, arg, (int)s->co);
    free(got);
    free(want);
    free(factor);
    free(halves);
    free(scaled_by);
    free(dense);
}

static void by_the_loader(const struct shape *s, enum kb_packing p, int32_t arg)
{
    for (int i = 0; i < 4; i++) {
        check_loader(rt_pack, s, p, arg, i & 1, i & 2);
#if defined(__x86_64__)
        if (rt_cpu_has("avx2")) check_loader(rt_pack_avx2, s, p, arg, i & 1, i & 2);
#endif
    }
}

Test(packing, loader_makes_the_same_bytes)
{
    each_form(by_the_loader);
}

/* All numbers of half precision; what is none stays none. */
Test(packing, halves_are_widened)
{
    static uint16_t half[1 << 16];
    const struct shape s = {1 << 10, 64, 1, 1};
    for (int i = 0; i < 1 << 16; i++) half[i] = (uint16_t)i;
    float *got = load(rt_pack, &s, KB_PACK_NONE, 0, half, true, NULL);
    for (size_t i = 0; i < 1 << 16; i++) {
        float want = (float)yir_dtype_load(YIR_F16, half, i);
        cr_assert(memcmp(&got[i], &want, sizeof want) == 0 || (isnan(got[i]) && isnan(want)), "%zx", i);
    }
    free(got);
}
