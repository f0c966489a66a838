/* Random networks as native code of this machine, kernel after kernel as the runtime runs them, against the
 * evaluator on the same program (random_networks compares that with the network as it is written). */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "codegen/codegen.h"
#include "longer.h"
#include "passes/pass.h"
#include "randnet.h"
#include "runtime/module.h"

/* As many networks as fit into the time, at least LEAST and at most 500; YOLOC_TEST_LONG: 5,000. */
enum { LEAST = 20, NORMAL = 500, SECONDS = 25, LONG = 5000 };

/* Each build has others, so that together they get through more. */
#ifdef __clang__
enum { FIRST = TEST_SANITIZED ? 30000 : 10000 };
#else
enum { FIRST = TEST_SANITIZED ? 20000 : 0 };
#endif

struct run {
    struct yir_arena *arena;
    struct yir_diags *diags;
    const struct yir_func *f;
    unsigned long long seed;
    int batch;
    enum yir_dtype precision;
};

/* Memory of the buffers twice: doubles for the evaluator (in fp32 only), floats and what else there is for the code. */
struct memory {
    double **ref;
    float **native;
};

/* Random floats, or bytes where the input is a picture. */
static void fill_input(const struct yir_func *f, uint32_t i, uint64_t seed, double *ref, void *native)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->input[f->buf[i].io].type);
    uint64_t state = i + seed;
    for (int64_t k = 0, n = yir_numel(d); k < n; k++) {
        float v = randnet_float(&state);
        ref[k] = d->dtype == YIR_U8 ? (double)floorf(fabsf(v) * 255.0f) : (double)v;
        yir_dtype_store(d->dtype, native, (size_t)k, ref[k]);
        ref[k] = yir_dtype_load(d->dtype, native, (size_t)k);
    }
}

static struct memory memory_of(const struct run *r)
{
    const struct yir_func *f = r->f;
    struct memory m = {yir_alloc_n(r->arena, f->nbuf, sizeof(double *)),
                       yir_alloc_n(r->arena, f->nbuf, sizeof(float *))};
    double *ref = yir_alloc_n(r->arena, f->arena_size / 4, sizeof *ref);
    float *native = yir_alloc_n(r->arena, f->arena_size / 4 + 16, sizeof *native);
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        bool inner = b->kind == YIR_BUF_ARENA;
        m.ref[i] = inner ? ref + b->offset / 4 : yir_alloc_n(r->arena, b->bytes, sizeof(double)); /* bytes: enough */
        m.native[i] =
            inner ? native + b->offset / 4 : yir_alloc_n(r->arena, b->bytes / 4 + 16, sizeof(float));
        if (b->kind == YIR_BUF_IN) fill_input(f, i, r->seed, m.ref[i], m.native[i]);
    }
    return m;
}

static void *packed_weight(const struct run *r, const struct kb_mem *mem)
{
    const struct yir_weight *w = &r->f->weight[yir_index(mem->ref)];
    void *packed = yir_alloc_n(r->arena, (size_t)mem->elems + 16, yir_dtype_size(mem->dtype));
    cg_pack(yir_tdesc(r->f->types, w->type), w->data, mem->packing, mem->pack_arg, packed);
    return packed;
}

/* What the evaluator reads and writes for a value: in fp32 what it wrote before; in half precision what the code left there, so that
 * both round the same numbers. */
static double *ref_of(const struct run *r, const struct memory *m, const struct kb_mem *mem, const struct yir_place *at, const void *native)
{
    if (r->precision == YIR_F32) return m->ref[at->buf - 1] + at->offset / 4;
    double *out = yir_alloc_n(r->arena, (size_t)mem->elems, sizeof *out);
    for (int64_t i = 0; i < mem->elems; i++) out[i] = yir_dtype_load(mem->dtype, native, (size_t)i);
    return out;
}

/* got is want, calculated otherwise and rounded to the type. */
static bool near(enum yir_dtype t, double want, double got)
{
    const double step = t == YIR_F16 ? 0x1p-10 : t == YIR_BF16 ? 0x1p-7 : 0, end = t == YIR_F16 ? 65504 : 3e38;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (fabs(want) >= end && fabs(got) >= end) return (want < 0) == (got < 0);
    return fabs(want - got) <= 1e-3 * (1 + fabs(want)) + step * fabs(want) || want == got;
}

static void compare_value(const struct run *r, const struct cg_kernel *k, const struct kb_mem *mem, const double *want, const void *native)
{
    for (int64_t i = 0; i < mem->elems; i++) {
        double got = yir_dtype_load(mem->dtype, native, (size_t)i);
        cr_assert(near(mem->dtype, want[i], got), "network %llu, %s: element %lld is %.9g, not %.9g", r->seed, k->label, (long long)i, got,
                  want[i]);
    }
}

/* One kernel both ways. */
static void run_kernel(const struct run *r, const struct memory *m, const struct cg_kernel *k, ym_cpu_fn fn)
{
    const struct kb *b = k->prog;
    double *ref[KB_MAX_MEM] = {NULL};
    void *arg[KB_MAX_MEM], *value[KB_MAX_MEM], *scratch = NULL;
    int narg = 0, bad = 0;
    for (int i = 0; i < b->nmem; i++) {
        const struct kb_mem *mem = &b->mem[i];
        if (mem->kind == KB_MEM_SCRATCH) {
            scratch = yir_alloc_n(r->arena, (size_t)mem->elems + 16, sizeof(double));
        } else if (mem->kind == KB_MEM_WEIGHT) {
            void *w = arg[narg++] = packed_weight(r, mem);
            ref[i] = yir_alloc_n(r->arena, (size_t)mem->elems, sizeof(double));
            for (int64_t e = 0; e < mem->elems; e++)
                ref[i][e] = yir_dtype_load(mem->dtype, w, (size_t)e);
        } else {
            const struct yir_place input = {.buf = yir_index(mem->ref) + 1};
            const struct yir_place *at =
                yir_kind(mem->ref) == YIR_INP ? &input : &r->f->place[yir_index(mem->ref)];
            value[i] = arg[narg++] = (char *)m->native[at->buf - 1] + at->offset;
            ref[i] = ref_of(r, m, mem, at, value[i]);
        }
    }
    cr_assert_eq(kb_ref_run(r->arena, b, ref, 0, b->units * r->batch, &bad), 0, "network %llu", r->seed);
    cr_assert_eq(fn(&(struct ym_cpu_call){arg, scratch, 0, b->units * r->batch}), 0, "network %llu, %s",
                 r->seed, k->label);
    for (int i = 0; i < b->nmem && r->precision != YIR_F32; i++)
        if (b->mem[i].written && b->mem[i].kind == KB_MEM_VALUE) compare_value(r, k, &b->mem[i], ref[i], value[i]);
}

static void compare(const struct run *r, const struct memory *m)
{
    if (r->precision != YIR_F32) return; /* each kernel was */
    for (uint32_t i = 0; i < r->f->noutput; i++) {
        uint32_t buf = r->f->ninput + i; /* inputs, then outputs */
        int64_t n = yir_numel(yir_desc(r->f, r->f->output[i].ref));
        for (int64_t k = 0; k < n; k++) {
            double want = m->ref[buf][k], got = (double)m->native[buf][k];
            cr_assert(near(YIR_F32, want, got), "network %llu: element %lld of %s is %.9g, not %.9g", r->seed, (long long)k,
                      r->f->output[i].name, got, want);
        }
    }
}

static void check(uint64_t seed, bool fuse, enum yir_dtype precision)
{
    struct run r = {.arena = yir_arena_new(NULL, NULL), .seed = (unsigned long long)seed, .precision = precision};
    r.diags = yir_diags_new(r.arena, NULL, NULL);
    struct yir_func *f = randnet(r.arena, r.diags, seed);
    struct pass_opts po;
    struct cg_target target;
    struct cg_code code;
    pass_opts_init(&po);
    randnet_weights(f, seed);
    r.batch = po.max_batch = (int)yir_tdesc(f->types, f->input[0].type)->dim[0];
    po.fuse = po.reuse = fuse;
    po.precision = precision;
    cr_assert_eq(cg_target_find(r.arena, r.diags, "cpu:native", &target), 0);
    r.f = pass_run_all(f, r.diags, &po);
    cr_assert_not_null(r.f);
    const struct cg_opts co = {.max_batch = r.batch};
    const struct cg_program *p = cg_kernels(r.arena, (struct yir_func *)r.f, &target, &co);
    if (cg_llvm_compile(r.arena, r.diags, p, &target, &code, NULL)) {
        const char *text = yir_diag_at(r.diags, 0)->text;
        if (strstr(text, "no LLVM library")) cr_skip_test("LLVM is not installed");
        cr_assert_fail("network %llu: %s", r.seed, text);
    }
    size_t size = (code.size + 4095) & ~(size_t)4095;
    char *exec = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(exec, MAP_FAILED);
    memcpy(exec, code.blob, code.size);
    cr_assert_eq(mprotect(exec, size, PROT_READ | PROT_EXEC), 0);
    struct memory m = memory_of(&r);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        ym_cpu_fn fn;
        void *at = exec + code.entry[i];
        memcpy(&fn, &at, sizeof at);
        run_kernel(&r, &m, &p->kernel[i], fn);
    }
    compare(&r, &m);
    munmap(exec, size);
    yir_arena_free(r.arena);
}

Test(llvm_networks, same_as_the_evaluator, .timeout = 3600)
{
    const int most = test_count(NORMAL, LONG);
    clock_t start = clock();
    int n = 0;
    while (n < LEAST || (n < most && (most == LONG || clock() - start < SECONDS * CLOCKS_PER_SEC))) {
        n++;
        check((uint64_t)FIRST + (uint64_t)n, n % 4 != 0, n % 8 == 3 ? YIR_F16 : n % 8 == 7 ? YIR_BF16 : YIR_F32);
    }
    printf("%d networks in %.0f s\n", n, (double)(clock() - start) / CLOCKS_PER_SEC);
}
