/* Kernel programs as native code, on every level this machine can run, against the evaluator. Each memory ends at a page
 * that may not be touched. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "runtime/cpufeature.h"
#include "runtime/module.h"

static struct yir_arena *a;
static struct yir_diags *d;
static struct yir_func *f;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    d = yir_diags_new(a, NULL, NULL);
    f = yir_func_new(a, yir_types_new(a), d, "test");
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(llvm_kernels, .init = setup, .fini = teardown, .timeout = 120);

/* --- targets ------------------------------------------------------------------------------------------------ */

static bool runs_here(const struct cg_target *t)
{
    char needs[512];
    if (strcmp(t->arch, rt_cpu_arch())) return false;
    snprintf(needs, sizeof needs, "%s", t->needs);
    for (char *n = strtok(needs, ","); n; n = strtok(NULL, ","))
        if (!rt_cpu_has(n)) return false;
    return true;
}

static const char *const levels[] = {"cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64"};

/* Calls fn for each level that runs here. */
static void on_each(void (*fn)(const struct cg_target *t))
{
    int n = 0;
    for (size_t i = 0; i < YIR_COUNT(levels); i++) {
        struct cg_target *t = yir_alloc(a, sizeof *t);
        cr_assert_eq(cg_target_find(a, d, levels[i], t), 0);
        if (!runs_here(t)) continue;
        fn(t);
        n++;
    }
    if (!n) cr_skip_test("no level runs here");
}

/* --- memories ----------------------------------------------------------------------------------------------- */

/* Bytes whose end is the start of a page without access. Never freed. */
static void *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *p = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(p, MAP_FAILED);
    cr_assert_eq(mprotect(p + whole, page, PROT_NONE), 0);
    return p + whole - bytes;
}

/* A memory of n elements is an input of the function with that many. */
static int memory(struct kb *b, const char *name, enum yir_dtype t, int64_t n)
{
    struct yir_tdesc desc = {.dtype = t, .layout = YIR_ROW, .rank = 1, .dim = {n}};
    return kb_mem_value(b, yir_add_input(f, name, yir_type_of(f->types, &desc)));
}

static struct kb *recorder(const struct cg_target *t, int valid)
{
    f = yir_func_new(a, yir_types_new(a), d, "test");
    struct kb *b = kb_new(a, f, &t->kb, 0);
    b->units = 1;
    b->lanes = t->kb.lanes;
    b->valid = valid ? valid : b->lanes;
    return b;
}

static float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)*seed * 0x1p-31f;
}

/* --- compiling and calling ---------------------------------------------------------------------------------- */

struct native {
    ym_cpu_fn fn[8];
    struct cg_code code;
};

static void report(void)
{
    for (size_t i = 0; i < yir_diag_count(d); i++) fprintf(stderr, "%s\n", yir_diag_at(d, i)->rendered);
}

static void need_llvm(void)
{
    for (size_t i = 0; i < yir_diag_count(d); i++)
        if (strstr(yir_diag_at(d, i)->text, "no LLVM library")) cr_skip_test("LLVM is not installed");
}

static void map_code(struct native *n, uint32_t nkernel)
{
    size_t size = (n->code.size + 4095) & ~(size_t)4095;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(p, MAP_FAILED);
    memcpy(p, n->code.blob, n->code.size);
    cr_assert_eq(mprotect(p, size, PROT_READ | PROT_EXEC), 0);
    for (uint32_t i = 0; i < nkernel; i++) {
        cr_assert_lt(n->code.entry[i], n->code.size);
        void *at = p + n->code.entry[i];
        memcpy(&n->fn[i], &at, sizeof at);
    }
}

static struct native *compile_some(const struct cg_target *t, struct kb *const *b, uint32_t n, bool checked,
                                   struct yir_str *text)
{
    struct native *out = yir_alloc(a, sizeof *out);
    struct cg_kernel *k = yir_alloc_n(a, n, sizeof *k);
    for (uint32_t i = 0; i < n; i++) {
        kb_check(b[i]);
        k[i] = (struct cg_kernel){.prog = b[i], .symbol = yir_format(a, "kernel_%u", i), .label = "test", .same_as = i};
        for (uint32_t j = 0; j < i; j++)
            if (b[j] == b[i]) k[i].same_as = j;
    }
    struct cg_program p = {.f = f, .kernel = k, .nkernel = n, .opts = {.checked = checked}};
    if (cg_llvm_compile(a, d, &p, t, &out->code, text)) {
        need_llvm();
        report();
        cr_assert_fail("%s: does not compile", t->text);
    }
    if (runs_here(t)) map_code(out, n);
    return out;
}

static struct native *compile(const struct cg_target *t, struct kb *b, bool checked)
{
    return compile_some(t, &b, 1, checked, NULL);
}

/* Runs a program whose memories are all floats as native code and in the evaluator, on the same random contents; expects
 * every memory to agree within `bound`, relative to 1 or the value. */
static void compare(const struct cg_target *t, struct kb *b, int64_t units, double bound, const char *what)
{
    void *arg[KB_MAX_MEM];
    double *ref[KB_MAX_MEM];
    float *scratch = NULL;
    uint32_t seed = 7;
    int narg = 0, bad;
    for (int i = 0; i < b->nmem; i++) {
        size_t n = (size_t)b->mem[i].elems;
        ref[i] = yir_alloc_n(a, n, sizeof **ref);
        float *m = guarded(n * sizeof *m);
        for (size_t k = 0; k < n; k++) ref[i][k] = m[k] = 4 * noise(&seed);
        if (b->mem[i].kind == KB_MEM_SCRATCH)
            scratch = m;
        else
            arg[narg++] = m;
    }
    struct native *n = compile(t, b, false);
    /* The range in two calls, as threads would. */
    cr_assert_eq(n->fn[0](&(struct ym_cpu_call){arg, scratch, 0, units / 2}), 0);
    cr_assert_eq(n->fn[0](&(struct ym_cpu_call){arg, scratch, units / 2, units}), 0);
    cr_assert_eq(kb_ref_run(a, b, ref, 0, units, &bad), 0, "%s: evaluator: memory %d", what, bad);
    narg = 0;
    for (int i = 0; i < b->nmem; i++) {
        if (b->mem[i].kind == KB_MEM_SCRATCH) continue;
        const float *m = arg[narg++];
        for (int64_t k = 0; k < b->mem[i].elems; k++) {
            double err = fabs(m[k] - ref[i][k]), size = fmax(1, fabs(ref[i][k]));
            cr_assert(err <= bound * size || (isnan(m[k]) && isnan(ref[i][k])),
                      "%s, %s: memory %d[%d] is %.9g, not %.9g", t->text, what, i, (int)k, (double)m[k], ref[i][k]);
        }
    }
}

/* --- one operation at a time -------------------------------------------------------------------------------- */

static kv op_fma(struct kb *b, kv x, kv y, kv z)
{
    return kb_fma(b, x, y, z);
}

static kv op_sqrt(struct kb *b, kv x, kv y, kv z)
{
    (void)z;
    return kb_sqrt(b, kb_fmax(b, kb_fmul(b, x, y), kb_immf(b, 0.25)));
}

static kv op_exp(struct kb *b, kv x, kv y, kv z)
{
    (void)z;
    return kb_exp(b, kb_fmul(b, x, y));
}

static kv op_log(struct kb *b, kv x, kv y, kv z)
{
    (void)z;
    kv square = kb_fmul(b, x, x);
    kv sum = kb_fma(b, y, y, square);
    return kb_log(b, kb_fadd(b, sum, kb_immf(b, 1e-3)));
}

static kv op_erf(struct kb *b, kv x, kv y, kv z)
{
    (void)y;
    (void)z;
    return kb_erf(b, x);
}

static kv op_select(struct kb *b, kv x, kv y, kv z)
{
    kv less = kb_flt(b, x, y);
    kv small = kb_flt(b, z, kb_immf(b, 0.5));
    kv either = kb_or(b, less, small);
    kv both = kb_and(b, less, small);
    kv one = kb_and(b, either, kb_not(b, both));
    return kb_select(b, one, kb_fneg(b, x), kb_rint(b, kb_fmul(b, y, kb_immf(b, 10))));
}

/* A truth value of one lane chooses between vectors. */
static kv op_uniform_select(struct kb *b, kv x, kv y, kv z)
{
    kv odd = kb_ieq(b, kb_irem(b, kb_unit(b), kb_immi(b, 2)), kb_immi(b, 1));
    (void)z;
    return kb_select(b, odd, x, y);
}

static kv op_index(struct kb *b, kv x, kv y, kv z)
{
    kv u = kb_unit(b);
    kv q = kb_idiv(b, kb_muli(b, u, 7), kb_immi(b, 3));
    kv r = kb_irem(b, q, kb_addi(b, u, 2));
    kv m = kb_imax(b, kb_imin(b, q, kb_immi(b, 5)), kb_isub(b, r, u));
    kv i = kb_select(b, kb_ilt(b, r, q), m, kb_addi(b, u, -3));
    (void)y;
    (void)z;
    return kb_fadd(b, x, kb_itof(b, i));
}

static kv op_ftoi(struct kb *b, kv x, kv y, kv z)
{
    kv u = kb_itof(b, kb_unit(b));
    kv i = kb_ftoi(b, kb_fmul(b, kb_fsub(b, u, kb_immf(b, 1.5)), kb_immf(b, 2.75)));
    (void)y;
    (void)z;
    return kb_fmul(b, x, kb_itof(b, i));
}

static kv op_zip(struct kb *b, kv x, kv y, kv z)
{
    if (b->node[x.id].lanes == 1) return x;
    kv lo = kb_ziplo(b, x, y);
    kv hi = kb_ziphi(b, y, z);
    return kb_fsub(b, lo, kb_fmul(b, hi, kb_immf(b, 0.25)));
}

static kv op_numbers(struct kb *b, kv x, kv y, kv z)
{
    kv u = kb_muli(b, kb_unit(b), 5);
    (void)y;
    (void)z;
    return kb_fmul(b, x, kb_itof(b, b->node[x.id].lanes == 1 ? u : kb_lane(b, u)));
}

#define SIMPLE(name)                                      \
    static kv op_##name(struct kb *b, kv x, kv y, kv z)   \
    {                                                     \
        (void)z;                                          \
        return kb_##name(b, x, y);                        \
    }
SIMPLE(fadd)
SIMPLE(fsub)
SIMPLE(fmul)
SIMPLE(fdiv)
SIMPLE(fmin)
SIMPLE(fmax)

static const struct {
    const char *name;
    kv (*fn)(struct kb *b, kv x, kv y, kv z);
    double bound;
} ops[] = {
    {"fadd", op_fadd, 1e-6},     {"fsub", op_fsub, 1e-6},     {"fmul", op_fmul, 1e-6},
    {"fdiv", op_fdiv, 1e-6},     {"fmin", op_fmin, 0},        {"fmax", op_fmax, 0},
    {"fma", op_fma, 2e-6},       {"sqrt", op_sqrt, 1e-6},     {"exp", op_exp, 4e-6},
    {"log", op_log, 1e-6},       {"erf", op_erf, 1e-6},       {"select", op_select, 0},
    {"uniform", op_uniform_select, 0}, {"index", op_index, 1e-6}, {"ftoi", op_ftoi, 1e-6},
    {"zip", op_zip, 2e-6},       {"numbers", op_numbers, 1e-6},
};

enum { UNITS = 6 };

/* m3[u*lanes + lane] = fn(m0, m1, m2 there), `valid` lanes of each; scalar: one element a unit. */
static struct kb *one_op(const struct cg_target *t, size_t op, int valid, bool scalar)
{
    struct kb *b = recorder(t, valid);
    int n = scalar ? 1 : b->lanes;
    int64_t elems = (int64_t)n * (UNITS - 1) + (scalar ? 1 : b->valid);
    int m[4];
    for (int i = 0; i < 4; i++) m[i] = memory(b, yir_format(a, "m%d", i), YIR_F32, elems);
    kv at = kb_muli(b, kb_unit(b), n);
    if (!scalar) at = kb_lane(b, at);
    kv x = kb_load(b, m[0], at), y = kb_load(b, m[1], at), z = kb_load(b, m[2], at);
    kb_store(b, m[3], at, ops[op].fn(b, x, y, z));
    return b;
}

static void each_op(const struct cg_target *t)
{
    for (size_t i = 0; i < YIR_COUNT(ops); i++) {
        compare(t, one_op(t, i, 0, false), UNITS, ops[i].bound, ops[i].name);
        compare(t, one_op(t, i, 3, false), UNITS, ops[i].bound, ops[i].name);
        compare(t, one_op(t, i, 0, true), UNITS, ops[i].bound, ops[i].name);
    }
}

Test(llvm_kernels, operations)
{
    on_each(each_op);
}

/* --- exp over its range ------------------------------------------------------------------------------------- */

static void exp_range(const struct cg_target *t)
{
    enum { N = 1 << 14 };
    struct kb *b = recorder(t, 0);
    int x = memory(b, "x", YIR_F32, N), y = memory(b, "y", YIR_F32, N);
    kv at = kb_lane(b, kb_muli(b, kb_unit(b), b->lanes));
    kb_store(b, y, at, kb_exp(b, kb_load(b, x, at)));
    float *in = guarded(N * sizeof *in), *out = guarded(N * sizeof *out);
    for (int i = 0; i < N; i++) in[i] = -87.0f + 174.0f * (float)i / (N - 1);
    in[0] = NAN;
    in[1] = INFINITY;
    in[2] = -INFINITY;
    in[3] = 1000;
    in[4] = -1000;
    in[5] = 0;
    in[6] = -0.0f;
    struct native *n = compile(t, b, false);
    cr_assert_eq(n->fn[0](&(struct ym_cpu_call){(void *[]){in, out}, NULL, 0, N / b->lanes}), 0);
    cr_expect(isnan(out[0]));
    cr_expect(out[1] > 8e37f && 1 / (1 + out[1]) >= 0x1p-126f);
    cr_expect_lt(fabsf(out[2]), 2e-38f);
    cr_expect_eq(out[3], out[1]);
    cr_expect_lt(fabsf(out[4]), 2e-38f);
    cr_expect_eq(out[5], 1);
    cr_expect_eq(out[6], 1);
    double worst = 0;
    for (int i = 7; i < N; i++) {
        double e = exp(in[i]), ulps = fabs(out[i] - e) / ldexp(e, -23);
        if (ulps > worst) worst = ulps;
    }
    cr_expect_lt(worst, 2, "%s: error of exp: %.2f", t->text, worst);
}

Test(llvm_kernels, exp_range)
{
    on_each(exp_range);
}

/* --- element types ------------------------------------------------------------------------------------------ */

static const double samples[] = {0.0,     -0.0,   1,        -1,         0.5,        2.5,     -2.5,   3.999, -3.999, 100.7,
                                 127.5,   128,    -128.9,   255.99,     256,        -0.3,    65504,  65519, 65520,  1e6,
                                 -1e6,    1e10,   -1e10,    1e20,       -1e20,      6e-8,    3e-8,   2.9e-8, 1e-5,  6.1e-5,
                                 1.00049, 1.0015, 1.003906, 1.01171875, 3.3895e38,  1e-40,   NAN,    INFINITY, -INFINITY,
                                 0x1.004p0, 0x1.00cp0, 0x1.01p0, 0x1.03p0, 0x1.ffep15, 0x1.ff4p-15, 0x1.7p-24};

static void store_as(const struct cg_target *t, enum yir_dtype type, bool scalar)
{
    enum { N = YIR_COUNT(samples) };
    struct kb *b = recorder(t, 0);
    int n = scalar ? 1 : b->lanes, units = N / n;
    int x = memory(b, "x", YIR_F32, N), y = memory(b, "y", type, N);
    kv at = kb_muli(b, kb_unit(b), n);
    if (!scalar) at = kb_lane(b, at);
    kb_store(b, y, at, kb_load(b, x, at));
    float *in = guarded(N * sizeof *in);
    unsigned size = yir_dtype_size(type);
    unsigned char *out = guarded(N * size), expected[8];
    for (int i = 0; i < N; i++) in[i] = (float)samples[i];
    struct native *code = compile(t, b, false);
    cr_assert_eq(code->fn[0](&(struct ym_cpu_call){(void *[]){in, out}, NULL, 0, units}), 0);
    for (int i = 0; i < units * n; i++) {
        yir_dtype_store(type, expected, 0, in[i]);
        double got = yir_dtype_load(type, out, (size_t)i), want = yir_dtype_load(type, expected, 0);
        if (isnan(want))
            cr_expect(isnan(got), "%s: NaN as %s is %g", t->text, yir_dtype_name(type), got);
        else
            cr_expect_eq(memcmp(out + (size_t)i * size, expected, size), 0, "%s: %a as %s is %g, not %g", t->text,
                         (double)in[i], yir_dtype_name(type), got, want);
    }
}

/* All patterns of types up to 16 bits, and random ones of the others. */
static void load_as(const struct cg_target *t, enum yir_dtype type, bool scalar)
{
    unsigned size = yir_dtype_size(type);
    int64_t n = size == 1 ? 256 : 65536;
    struct kb *b = recorder(t, 0);
    int x = memory(b, "x", type, n), y = memory(b, "y", YIR_F32, n), step = scalar ? 1 : b->lanes;
    kv at = kb_muli(b, kb_unit(b), step);
    if (!scalar) at = kb_lane(b, at);
    kb_store(b, y, at, kb_load(b, x, at));
    unsigned char *in = guarded((size_t)n * size);
    float *out = guarded((size_t)n * sizeof *out);
    uint32_t seed = 3;
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)i;
        if (size > 2) v = (uint64_t)(noise(&seed) * 0x1p31f) << 32 ^ (uint64_t)(noise(&seed) * 0x1p31f);
        memcpy(in + (size_t)i * size, &v, size);
    }
    struct native *code = compile(t, b, false);
    cr_assert_eq(code->fn[0](&(struct ym_cpu_call){(void *[]){in, out}, NULL, 0, n / step}), 0);
    for (int64_t i = 0; i < n; i++) {
        float want = (float)yir_dtype_load(type, in, (size_t)i);
        if (isnan(want))
            cr_expect(isnan(out[i]));
        else
            cr_expect_eq(memcmp(&out[i], &want, sizeof want), 0, "%s: %s element %d is %g, not %g", t->text,
                         yir_dtype_name(type), (int)i, (double)out[i], (double)want);
    }
}

static void each_type(const struct cg_target *t)
{
    for (int type = 0; type < YIR_NDTYPE; type++)
        for (int scalar = 0; scalar < 2; scalar++) {
            store_as(t, (enum yir_dtype)type, scalar);
            load_as(t, (enum yir_dtype)type, scalar);
        }
}

Test(llvm_kernels, element_types)
{
    on_each(each_type);
}

/* Tails of every type: elements past the valid ones are neither read nor written. */
static void each_tail(const struct cg_target *t)
{
    for (int type = 0; type < YIR_NDTYPE; type++) {
        struct kb *b = recorder(t, 3);
        unsigned size = yir_dtype_size((enum yir_dtype)type);
        int x = memory(b, "x", (enum yir_dtype)type, 3), y = memory(b, "y", (enum yir_dtype)type, 5);
        kv at = kb_lane(b, kb_unit(b));
        kb_store(b, y, at, kb_load(b, x, at));
        unsigned char *in = guarded(3 * size), *out = guarded(5 * size), sentinel[5 * 8];
        for (int i = 0; i < 3; i++) yir_dtype_store((enum yir_dtype)type, in, (size_t)i, i != 1);
        memset(out, 0x5a, 5 * size);
        memset(sentinel, 0x5a, sizeof sentinel);
        struct native *code = compile(t, b, false);
        cr_assert_eq(code->fn[0](&(struct ym_cpu_call){(void *[]){in, out}, NULL, 0, 1}), 0);
        cr_expect_eq(memcmp(out, in, 3 * size), 0, "%s %s", t->text, yir_dtype_name((enum yir_dtype)type));
        cr_expect_eq(memcmp(out + 3 * size, sentinel, 2 * size), 0);
    }
}

Test(llvm_kernels, tails)
{
    on_each(each_tail);
}

/* --- variables, loops, scratch ------------------------------------------------------------------------------ */

/* A matrix product with the inner loop over k, accumulators in variables, bounds that depend on the unit. */
static void product(const struct cg_target *t)
{
    enum { M = 5, K = 13 };
    struct kb *b = recorder(t, 0);
    int64_t n = 2 * b->lanes;
    int x = memory(b, "x", YIR_F32, M * K), w = memory(b, "w", YIR_F32, K * n), y = memory(b, "y", YIR_F32, M * n);
    kv u = kb_unit(b);
    kv zero = kb_load(b, x, u);
    kv acc0 = kb_var(b, kb_load(b, w, kb_lane(b, kb_immi(b, 0))));
    kv acc1 = kb_var(b, kb_load(b, w, kb_lane(b, kb_immi(b, b->lanes))));
    kv count = kb_var(b, kb_immi(b, 0));
    kb_set(b, acc1, zero);
    kv from = kb_isub(b, u, kb_immi(b, 2)); /* negative for the first units */
    kv lo = kb_imax(b, from, kb_immi(b, 0));
    kv k = kb_loop(b, lo, kb_immi(b, K), 2);
    kv row = kb_muli(b, u, K);
    kv s = kb_load(b, x, kb_iadd(b, row, k));
    kv col = kb_muli(b, k, n);
    kv w0 = kb_load(b, w, kb_lane(b, col));
    kv w1 = kb_load(b, w, kb_lane(b, kb_addi(b, col, b->lanes)));
    kb_set(b, acc0, kb_fma(b, s, w0, kb_get(b, acc0)));
    kb_set(b, acc1, kb_fma(b, s, w1, kb_get(b, acc1)));
    kb_set(b, count, kb_addi(b, kb_get(b, count), 3));
    kb_loop(b, k, lo, 1); /* never entered after the first round */
    kb_set(b, acc0, kb_immf(b, 1e9));
    kb_end(b);
    kb_end(b);
    kv base = kb_muli(b, u, n);
    kv runs = kb_itof(b, kb_get(b, count));
    kb_store(b, y, kb_lane(b, base), kb_fadd(b, kb_get(b, acc0), runs));
    kb_store(b, y, kb_lane(b, kb_addi(b, base, b->lanes)), kb_get(b, acc1));
    compare(t, b, M, 1e-5, "product");
}

Test(llvm_kernels, loops)
{
    on_each(product);
}

/* Scratch is written in one loop and read in another, at other places; it takes no argument. */
static void scratch(const struct cg_target *t)
{
    enum { N = 8, UNIT = 24 };
    struct kb *b = recorder(t, 0);
    int64_t size = (int64_t)N * b->lanes;
    int tmp = kb_mem_scratch(b, size);
    int x = memory(b, "x", YIR_F32, UNIT + size), y = memory(b, "y", YIR_F32, UNIT * size);
    kv u = kb_unit(b);
    kv i = kb_loop(b, kb_immi(b, 0), kb_immi(b, N), 1);
    kv at = kb_muli(b, i, b->lanes);
    kb_store(b, tmp, kb_lane(b, at), kb_load(b, x, kb_lane(b, kb_iadd(b, u, at))));
    kb_end(b);
    kv j = kb_loop(b, kb_immi(b, 0), kb_immi(b, size), 1);
    kv back = kb_isub(b, kb_immi(b, size - 1), j);
    kv v = kb_load(b, tmp, back);
    kb_store(b, tmp, back, kb_fadd(b, v, kb_immf(b, 1)));
    kv v2 = kb_load(b, tmp, back);
    kv to = kb_iadd(b, kb_muli(b, u, size), j);
    kb_store(b, y, to, kb_fmul(b, v, v2));
    kb_end(b);
    compare(t, b, UNIT, 1e-5, "scratch");
}

Test(llvm_kernels, scratch)
{
    on_each(scratch);
}

/* --- checked code ------------------------------------------------------------------------------------------- */

/* y[u + 1] = x[u + shift], both of N elements; scratch is memory 0, so x is argument 0 and y argument 1. */
static void violations(const struct cg_target *t)
{
    enum { N = 40 };
    for (int wide = 0; wide < 2; wide++) {
        struct kb *b = recorder(t, 3);
        kb_mem_scratch(b, 4);
        int x = memory(b, "x", YIR_F32, N), s = memory(b, "s", YIR_F32, 1), y = memory(b, "y", YIR_F32, N);
        kv shift = kb_ftoi(b, kb_load(b, s, kb_immi(b, 0)));
        kv from = kb_iadd(b, kb_unit(b), shift), to = kb_addi(b, kb_unit(b), 1);
        if (wide) from = kb_lane(b, from), to = kb_lane(b, to);
        kb_store(b, y, to, kb_load(b, x, from));
        float *in = guarded(N * sizeof *in), *out = guarded(N * sizeof *out), *by = guarded(sizeof *by);
        struct native *n = compile(t, b, true);
        struct ym_cpu_call call = {(void *[]){in, by, out}, NULL, 0, 5};
        int last = wide ? N - 3 : N - 1; /* largest good index */
        for (int i = 0; i < N; i++) in[i] = (float)(i + 1);
        *by = (float)(last - 4);
        cr_expect_eq(n->fn[0](&call), 0);
        cr_expect_eq(out[5], (float)last + 1);
        *by = (float)(last - 3);
        cr_expect_eq(n->fn[0](&call), 1, "x is argument 0");
        cr_expect_eq(out[5], 1, "element 0 instead");
        *by = -1;
        cr_expect_eq(n->fn[0](&call), 1);
        *by = 1e15f;
        cr_expect_eq(n->fn[0](&call), 1);
        *by = 0;
        call.begin = last - 1;
        call.end = last + 1;
        cr_expect_eq(n->fn[0](&call), 3, "y is argument 2");
        *by = 1e9f;
        cr_expect_eq(n->fn[0](&call), 1, "the first access outside counts");
    }
}

Test(llvm_kernels, checked)
{
    on_each(violations);
}

/* A memory that is smaller than a vector is not touched at all. */
static void too_small(const struct cg_target *t)
{
    struct kb *b = recorder(t, 0);
    int x = memory(b, "x", YIR_F32, 2), y = memory(b, "y", YIR_F32, 64);
    kv at = kb_lane(b, kb_unit(b));
    kv v = kb_load(b, x, at);
    kb_store(b, y, at, v);
    kb_store(b, x, at, v);
    float *in = guarded(2 * sizeof *in), *out = guarded(64 * sizeof *out);
    in[0] = in[1] = out[0] = 5;
    struct native *n = compile(t, b, true);
    cr_expect_eq(n->fn[0](&(struct ym_cpu_call){(void *[]){in, out}, NULL, 0, 1}), 1);
    cr_expect_eq(out[0], 0);
    cr_expect_eq(in[0], 5);
}

Test(llvm_kernels, checked_small_memory)
{
    on_each(too_small);
}

/* --- whole compiles ----------------------------------------------------------------------------------------- */

/* Equal kernels share code, the bytes of a kernel do not depend on its company, and compiling again gives the same. */
static void several(const struct cg_target *t)
{
    struct kb *b[8];
    for (size_t i = 0; i < 8; i++) b[i] = one_op(t, i % 6, 0, false);
    b[3] = b[1];
    b[7] = b[1];
    struct native *n = compile_some(t, b, 8, false, NULL), *again = compile_some(t, b, 8, false, NULL);
    cr_expect_eq(n->code.nobject, 6);
    cr_expect_eq(n->code.entry[1], n->code.entry[7]);
    cr_expect_neq(n->code.entry[1], n->code.entry[2]);
    for (int i = 0; i < 8; i++) cr_expect_eq(n->code.entry[i] % YM_ALIGN, 0);
    cr_assert_eq(n->code.size, again->code.size);
    cr_expect_eq(memcmp(n->code.blob, again->code.blob, n->code.size), 0);
    struct native *alone = compile_some(t, b, 1, false, NULL);
    cr_assert_eq(alone->code.object[0].size, n->code.object[0].size);
    cr_expect_eq(memcmp(alone->code.object[0].data, n->code.object[0].data, alone->code.object[0].size), 0);
    cr_expect_eq(strncmp(n->code.compiler, "LLVM ", 5), 0);
}

Test(llvm_kernels, several)
{
    on_each(several);
}

/* Levels of other machines compile too, and flat. */
Test(llvm_kernels, cross)
{
    for (size_t i = 0; i < YIR_COUNT(levels); i++) {
        struct cg_target t;
        struct kb *b[YIR_COUNT(ops)];
        cr_assert_eq(cg_target_find(a, d, levels[i], &t), 0);
        for (size_t k = 0; k < YIR_COUNT(ops); k++) b[k] = one_op(&t, k, k % 2 ? 3 : 0, false);
        for (size_t k = 0; k < YIR_COUNT(ops); k += 5) {
            uint32_t left = (uint32_t)(YIR_COUNT(ops) - k);
            struct native *n = compile_some(&t, b + k, left < 5 ? left : 5, k == 5, NULL);
            cr_expect_gt(n->code.size, 0);
        }
    }
}

Test(llvm_kernels, text)
{
    struct cg_target t;
    struct yir_str text = {.arena = a};
    struct kb *b[2];
    cr_assert_eq(cg_target_find(a, d, "cpu:x86-64-v4", &t), 0);
    b[0] = one_op(&t, 0, 3, false);
    b[1] = one_op(&t, 1, 0, false);
    compile_some(&t, b, 2, false, &text);
    const char *first = strstr(text.text, "define i32 @kernel_0(ptr"), *second = strstr(text.text, "define i32 @kernel_1(");
    cr_assert(first && second && first < second, "%s", text.text);
    cr_expect_not_null(strstr(text.text, "<16 x float> @llvm.masked.load"));
    cr_expect_not_null(strstr(text.text, "fsub <16 x float>"));
    cr_expect_null(strstr(text.text, " fast "));
    cr_expect_null(strstr(text.text, "contract"));
}

/* --- no LLVM, another LLVM ---------------------------------------------------------------------------------- */

static void expect_llvm_error(const char *library, const char *says)
{
    struct cg_target t;
    struct cg_code code;
    size_t n = yir_diag_count(d);
    struct cg_program p = {.f = f};
    cr_assert_eq(cg_target_find(a, d, "cpu:x86-64-v3", &t), 0);
    setenv("YOLOC_LIBLLVM", library, 1);
    cr_assert_eq(cg_llvm_compile(a, d, &p, &t, &code, NULL), -1);
    unsetenv("YOLOC_LIBLLVM");
    cr_assert_eq(yir_diag_count(d), n + 1);
    cr_expect_eq(yir_diag_at(d, n)->id, E_LLVM);
    cr_expect_not_null(strstr(yir_diag_at(d, n)->text, says), "%s", yir_diag_at(d, n)->text);
}

Test(llvm_kernels, no_library)
{
    expect_llvm_error("/nonexistent/libLLVM.so", "cannot load YOLOC_LIBLLVM");
    expect_llvm_error("libm.so.6", "older than LLVM 18");
}
