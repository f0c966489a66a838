/* What foldbn and constfold compute, against the same sums done here in double. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/pass.h"

struct bench {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct yir_func *f;
    struct pass_opts opts;
};

static struct bench open_bench(void)
{
    struct bench b = {.arena = yir_arena_new(NULL, NULL)};
    b.diags = yir_diags_new(b.arena, NULL, NULL);
    b.f = yir_func_new(b.arena, yir_types_new(b.arena), b.diags, "fold");
    pass_opts_init(&b.opts);
    b.opts.verify_each = true;
    return b;
}

static yir_ref weight(struct bench *b, const char *name, enum yir_dtype t, int rank, const int64_t *dim,
                      const void *data)
{
    struct yir_tdesc d = {.dtype = t, .layout = rank == 4 ? YIR_OIHW : YIR_ROW, .rank = rank};
    memcpy(d.dim, dim, (size_t)rank * sizeof *dim);
    return yir_add_weight(b->f, name, yir_type_of(b->f->types, &d), data);
}

static yir_ref vector(struct bench *b, const char *name, int64_t n, const float *data)
{
    return weight(b, name, YIR_F32, 1, &n, data);
}

static yir_ref input(struct bench *b, int64_t c)
{
    struct yir_tdesc d = {.dtype = YIR_F32, .layout = YIR_NCHW, .rank = 4, .dim = {1, c, 4, 4}};
    return yir_add_input(b->f, "x", yir_type_of(b->f->types, &d));
}

enum { CO = 3, CI = 2, KERNEL = 4 };
static const float conv_w[CO * CI * KERNEL] = {0.5f,  -1.25f, 3e-3f, 7,   1e5f,  -1e-7f, 0.1f, 0.2f,
                                               -0.3f, 0.7f,   11,    -13, 1,     2,      3,    4,
                                               0.01f, 0.02f,  -5,    -6,  1e-3f, 9,      8,    0};
static const float conv_b[CO] = {0.125f, -3, 1e-4f};
static const float gamma_w[CO] = {1.5f, -0.25f, 1e-3f}, beta_w[CO] = {0.1f, 2, -7};
static const float mean_w[CO] = {-0.5f, 1e3f, 0.33f}, var_w[CO] = {0.9f, 1e-6f, 123.4f};
static const float eps = 1e-3f;

static yir_ref batchnorm(struct bench *b, yir_ref x, const float *var)
{
    yir_ref src[5] = {x, vector(b, "bn.weight", CO, gamma_w), vector(b, "bn.bias", CO, beta_w),
                      vector(b, "bn.mean", CO, mean_w), vector(b, "bn.var", CO, var)};
    struct yir_a_eps a = {eps};
    return yir_emit(b->f, YIR_batchnorm, src, 5, &a);
}

static yir_ref conv(struct bench *b, yir_ref x, bool bias)
{
    yir_ref src[3] = {x, weight(b, "c.weight", YIR_F32, 4, (int64_t[]){CO, CI, 2, 2}, conv_w), YIR_NONE};
    if (bias) src[2] = vector(b, "c.bias", CO, conv_b);
    return yir_emit(b->f, YIR_conv2d, src, bias ? 3 : 2, NULL);
}

static const float *data_of(const struct yir_func *f, const char *name)
{
    yir_ref r = yir_find_weight(f, name);
    cr_assert_eq(yir_kind(r), YIR_WGT, "%s", name);
    return f->weight[yir_index(r)].data;
}

static double scale(int c)
{
    return (double)gamma_w[c] / sqrt((double)var_w[c] + (double)eps);
}

static void check_conv(bool bias)
{
    struct bench b = open_bench();
    yir_add_output(b.f, "y", batchnorm(&b, conv(&b, input(&b, CI), bias), var_w), false);
    struct yir_func *f = pass_run_named(b.f, b.diags, "foldbn,dce", &b.opts);
    cr_assert_not_null(f);
    cr_assert_eq(f->nop, 2);
    cr_assert_eq(f->nweight, 2);
    const float *w = data_of(f, "c.weight-folded"), *shift = data_of(f, "c.bias-folded");
    for (int i = 0; i < CO * CI * KERNEL; i++)
        cr_assert_eq(w[i], (float)((double)conv_w[i] * scale(i / (CI * KERNEL))));
    for (int c = 0; c < CO; c++) {
        double old = bias ? (double)conv_b[c] : 0,
               want = (old - (double)mean_w[c]) * scale(c) + (double)beta_w[c];
        cr_assert_float_eq(shift[c], want, 1e-7 * (1 + fabs(want)), "%d: %.9g, not %.9g", c, (double)shift[c],
                           want);
    }
    yir_arena_free(b.arena);
}

Test(passes_fold, conv)
{
    check_conv(false);
}

Test(passes_fold, conv_with_bias)
{
    check_conv(true);
}

/* A reader besides the normalisation: y = x * scale + shift as a depthwise convolution. */
Test(passes_fold, alone)
{
    struct bench b = open_bench();
    yir_add_output(b.f, "y", batchnorm(&b, input(&b, CO), var_w), false);
    struct yir_func *f = pass_run_named(b.f, b.diags, "foldbn", &b.opts);
    cr_assert_not_null(f);
    const float *w = data_of(f, "bn.weight-folded"), *shift = data_of(f, "bn.bias-folded");
    for (int c = 0; c < CO; c++) {
        cr_assert_eq(w[c], (float)scale(c));
        double want = (double)beta_w[c] - (double)mean_w[c] * scale(c);
        cr_assert_float_eq(shift[c], want, 1e-7 * (1 + fabs(want)));
    }
    cr_assert_eq(f->op[1].code, YIR_conv2d);
    cr_assert_eq(((const struct yir_a_conv *)yir_attrs(f, 1))->groups, CO);
    yir_arena_free(b.arena);
}

/* Never a NaN in silence. */
Test(passes_fold, bad_statistics)
{
    static const struct {
        float var;
        const char *sum; /* as the text has it; NULL: nothing is wrong */
    } cases[] = {{-1, "-0.999"}, {-1e-3f, "0"}, {NAN, "nan"}, {INFINITY, NULL}, {0, NULL}};
    for (size_t i = 0; i < 2 * YIR_COUNT(cases); i++) {
        struct bench b = open_bench();
        float var[CO] = {1, cases[i / 2].var, 1};
        char want[160] = "";
        b.opts.strict = i % 2;
        yir_add_output(b.f, "y", batchnorm(&b, conv(&b, input(&b, CI), false), var), false);
        const struct yir_func *f = pass_run_named(b.f, b.diags, "foldbn", &b.opts);
        const char *sum = cases[i / 2].sum;
        cr_assert_eq(f == NULL, sum && b.opts.strict, "case %zu", i);
        cr_assert_eq(yir_diag_count(b.diags), sum ? 1u : 0u, "case %zu", i);
        snprintf(want, sizeof want,
                 "batch normalisation at bn.weight: 1 of 3 channels become NaN or infinite, the first is channel 1 with "
                 "variance + eps %s", sum ? sum : "");
        if (sum) cr_assert_str_eq(yir_diag_at(b.diags, 0)->text, want);
        if (sum) cr_assert_eq(yir_diag_at(b.diags, 0)->id, b.opts.strict ? E_NONFINITE : W_NONFINITE);
        yir_arena_free(b.arena);
    }
}

Test(passes_fold, half_precision)
{
    struct bench b = open_bench();
    uint16_t half[CO * CI * KERNEL];
    for (size_t i = 0; i < CO * CI * KERNEL; i++) yir_dtype_store(YIR_F16, half, i, (double)(i % 5) - 2);
    yir_ref src[2] = {input(&b, CI), weight(&b, "c.weight", YIR_F16, 4, (int64_t[]){CO, CI, 2, 2}, half)};
    yir_add_output(b.f, "y", batchnorm(&b, yir_emit(b.f, YIR_conv2d, src, 2, NULL), var_w), false);
    struct yir_func *f = pass_run_named(b.f, b.diags, "foldbn", &b.opts);
    cr_assert_not_null(f);
    const void *w = data_of(f, "c.weight-folded");
    for (size_t i = 0; i < CO * CI * KERNEL; i++) {
        uint16_t want;
        yir_dtype_store(YIR_F16, &want, 0, ((double)(i % 5) - 2) * scale((int)i / (CI * KERNEL)));
        cr_assert_eq(((const uint16_t *)w)[i], want);
    }
    yir_arena_free(b.arena);
}

static yir_ref emit(struct bench *b, enum yir_code c, yir_ref x, yir_ref y, const void *attr)
{
    yir_ref src[2] = {x, y};
    return yir_emit(b->f, c, src, yir_kind(y) == YIR_NIL ? 1 : 2, attr);
}

Test(passes_fold, constants)
{
    static const float a[] = {1, 2, 3, 4, 5, 6}, c[] = {10, 20, 30, 40, 50, 60};
    struct bench b = open_bench();
    yir_ref x = weight(&b, "a", YIR_F32, 2, (int64_t[]){2, 3}, a),
            y = weight(&b, "c", YIR_F32, 2, (int64_t[]){2, 3}, c);
    yir_ref sum = emit(&b, YIR_add, x, y, NULL), product = emit(&b, YIR_mul, sum, y, NULL);
    yir_ref wide = emit(&b, YIR_concat, product, x, &(struct yir_a_axis){1});
    yir_ref part = emit(&b, YIR_slice, wide, YIR_NONE, &(struct yir_a_slice){1, 2, 3});
    yir_add_output(b.f, "y", emit(&b, YIR_cast, part, YIR_NONE, &(struct yir_a_cast){YIR_I32, YIR_ROW}),
                   false);
    struct yir_func *f = pass_run_named(b.f, b.diags, "constfold,dce", &b.opts);
    cr_assert_not_null(f);
    cr_assert_eq(f->nop, 1);
    cr_assert_eq(f->nweight, 1);
    static const int32_t want[] = {33 * 30, 1, 2, 66 * 60, 4, 5};
    cr_assert_arr_eq(f->weight[0].data, want, sizeof want);
    yir_arena_free(b.arena);
}
