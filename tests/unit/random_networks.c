/* Random networks through passes, emitters and the evaluator: as they are written, and fused with memory
 * used again, by the generic way and by the fast families of several targets, they give the same numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "codegen/codegen.h"
#include "passes/pass.h"
#include "randnet.h"

enum { NETWORKS = 300 };

struct run {
    struct yir_arena *arena;
    struct yir_diags *diags;
    unsigned long long seed;
    int batch;
};

struct memory {
    const struct yir_func *f;
    double **buf; /* of each buffer, one double an element of f32 */
};

static struct memory memory_of(const struct run *r, const struct yir_func *f)
{
    struct memory m = {f, yir_alloc_n(r->arena, f->nbuf, sizeof(double *))};
    double *arena = yir_alloc_n(r->arena, f->arena_size / 4, sizeof *arena);
    for (uint64_t i = 0; i < f->arena_size / 4; i++) arena[i] = NAN;
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        m.buf[i] = b->kind == YIR_BUF_ARENA ? arena + b->offset / 4
                                            : yir_alloc_n(r->arena, b->bytes, sizeof(double));
        uint64_t state = i + r->seed;
        for (uint64_t k = 0; b->kind == YIR_BUF_IN && k < b->bytes / 4; k++)
            m.buf[i][k] = (double)randnet_float(&state);
    }
    return m;
}

static double *weight_memory(const struct run *r, const struct yir_func *f, const struct kb_mem *mem)
{
    const struct yir_weight *w = &f->weight[yir_index(mem->ref)];
    void *packed = yir_alloc_n(r->arena, (size_t)mem->elems, yir_dtype_size(mem->dtype));
    double *v = yir_alloc_n(r->arena, (size_t)mem->elems, sizeof *v);
    cg_pack(yir_tdesc(f->types, w->type), w->data, mem->packing, mem->pack_arg, packed);
    for (int64_t k = 0; k < mem->elems; k++) v[k] = yir_dtype_load(mem->dtype, packed, (size_t)k);
    return v;
}

static void run_kernel(const struct run *r, const struct memory *m, const struct cg_kernel *k)
{
    const struct kb *b = k->prog;
    double *mem[KB_MAX_MEM] = {NULL};
    for (int i = 0; i < b->nmem; i++) {
        yir_ref ref = b->mem[i].ref;
        if (b->mem[i].kind == KB_MEM_WEIGHT) mem[i] = weight_memory(r, m->f, &b->mem[i]);
        if (b->mem[i].kind != KB_MEM_VALUE) continue;
        const struct yir_place input = {.buf = yir_index(ref) + 1};
        const struct yir_place *at = yir_kind(ref) == YIR_INP ? &input : &m->f->place[yir_index(ref)];
        mem[i] = m->buf[at->buf - 1] + at->offset / 4;
    }
    int bad = 0;
    cr_assert_eq(kb_ref_run(r->arena, b, mem, 0, b->units * r->batch, &bad), 0,
                 "network %llu, %s (%s): left memory %d", r->seed, k->label, k->family, bad);
}

/* Buffers of the outputs after a run. */
static struct memory evaluate(const struct run *r, const struct cg_target *t, bool fuse)
{
    struct pass_opts po;
    pass_opts_init(&po);
    po.verify_each = true;
    po.fuse = po.reuse = fuse;
    po.max_batch = r->batch;
    struct yir_func *f = randnet(r->arena, r->diags, r->seed);
    randnet_weights(f, r->seed);
    f = pass_run_all(f, r->diags, &po);
    cr_assert_not_null(f);
    struct memory m = memory_of(r, f);
    const struct cg_opts co = {.no_fast = t->kb.lanes == 1, .max_batch = r->batch};
    const struct cg_program *p = cg_kernels(r->arena, f, t, &co);
    for (uint32_t i = 0; i < p->nkernel; i++) run_kernel(r, &m, &p->kernel[i]);
    return m;
}

/* The exponential that kernels are made of is exact to 1e-7 or so, and jumps by that. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * (1 + fabs(a)) || (isnan(a) && isnan(b)) || a == b;
}

static void compare(const struct run *r, const char *what, const struct memory *want,
                    const struct memory *got)
{
    for (uint32_t i = 0; i < want->f->noutput; i++) {
        const uint32_t buf = want->f->ninput + i; /* inputs, then outputs */
        int64_t n = yir_numel(yir_desc(want->f, want->f->output[i].ref));
        for (int64_t k = 0; k < n; k++)
            cr_assert(near(want->buf[buf][k], got->buf[buf][k]),
                      "network %llu, %s: element %lld of %s is %.17g, not %.17g", r->seed, what, (long long)k,
                      want->f->output[i].name, got->buf[buf][k], want->buf[buf][k]);
    }
}

static void check(uint64_t seed)
{
    static const struct cg_target scalar = {.kb = {.name = "1", .lanes = 1, .vregs = 16}}; /* the generic way */
    static const struct cg_target four = {.kb = {.name = "4", .lanes = 4, .vregs = 32}};
    static const struct cg_target eight = {.kb = {.name = "8", .lanes = 8, .vregs = 16}};
    static const struct cg_target sixteen = {.kb = {.name = "16", .lanes = 16, .vregs = 32, .mem_splat = true}};
    static const struct {
        const char *what;
        const struct cg_target *target;
        bool fuse;
    } ways[] = {{"fused", &scalar, true},
                {"four lanes, fused", &four, true},
                {"eight lanes", &eight, false},
                {"eight lanes, fused", &eight, true},
                {"sixteen lanes, fused", &sixteen, true}};
    struct run r = {.arena = yir_arena_new(NULL, NULL), .seed = (unsigned long long)seed};
    r.diags = yir_diags_new(r.arena, NULL, NULL);
    const struct yir_func *f = randnet(r.arena, r.diags, seed);
    r.batch = (int)yir_tdesc(f->types, f->input[0].type)->dim[0];
    struct memory want = evaluate(&r, &scalar, false);
    for (size_t i = 0; i < YIR_COUNT(ways); i++) {
        struct memory got = evaluate(&r, ways[i].target, ways[i].fuse);
        compare(&r, ways[i].what, &want, &got);
    }
    yir_arena_free(r.arena);
}

Test(random_networks, same_numbers)
{
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) check(seed);
}
