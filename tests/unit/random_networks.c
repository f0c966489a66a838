/* Random networks through passes, emitters and the evaluator: as they are written, and fused with memory
 * used again, by the generic way and by the fast families of several targets, they give the same numbers. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "evalnet.h"
#include "passes/pass.h"
#include "randnet.h"

enum { NETWORKS = 300 };

struct run {
    struct yir_arena *arena;
    struct yir_diags *diags;
    unsigned long long seed;
    int batch;
    enum yir_dtype precision;
};

/* Buffers of the outputs after a run. */
static struct evalnet evaluate(const struct run *r, const struct cg_target *t, bool fuse)
{
    struct pass_opts po;
    pass_opts_init(&po);
    po.verify_each = true;
    po.fuse = po.reuse = fuse;
    po.max_batch = r->batch;
    po.precision = r->precision;
    struct yir_func *f = randnet(r->arena, r->diags, r->seed);
    randnet_weights(f, r->seed);
    f = pass_run_all(f, r->diags, &po);
    cr_assert_not_null(f);
    struct evalnet m = evalnet_new(r->arena, f, r->seed);
    const struct cg_opts co = {.no_fast = t->kb.lanes == 1, .max_batch = r->batch};
    const struct cg_program *p = cg_kernels(r->arena, f, t, &co);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct cg_kernel *k = &p->kernel[i];
        int bad = evalnet_run(r->arena, &m, k, r->batch);
        cr_assert_eq(bad, 0, "network %llu, %s (%s): left memory %d", r->seed, k->label, k->family, bad - 1);
    }
    return m;
}

/* The exponential that kernels are made of is exact to 1e-7 or so, and jumps by that. */
static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * (1 + fabs(a)) || (isnan(a) && isnan(b)) || a == b;
}

static void compare(const struct run *r, const char *what, const struct evalnet *want,
                    const struct evalnet *got)
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

static void check(uint64_t seed, enum yir_dtype precision)
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
    struct run r = {.arena = yir_arena_new(NULL, NULL), .seed = (unsigned long long)seed, .precision = precision};
    r.diags = yir_diags_new(r.arena, NULL, NULL);
    const struct yir_func *f = randnet(r.arena, r.diags, seed);
    r.batch = (int)yir_tdesc(f->types, f->input[0].type)->dim[0];
    struct evalnet want = evaluate(&r, &scalar, false);
    for (size_t i = 0; i < YIR_COUNT(ways); i++) {
        struct evalnet got = evaluate(&r, ways[i].target, ways[i].fuse);
        compare(&r, ways[i].what, &want, &got);
    }
    yir_arena_free(r.arena);
}

Test(random_networks, same_numbers)
{
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) check(seed, YIR_F32);
}

/* Weights are rounded, values are not: the evaluator keeps them in double whatever their type. */
Test(random_networks, same_numbers_in_half_precision)
{
    for (uint64_t seed = 1; seed <= NETWORKS / 3; seed++) check(seed, seed % 2 ? YIR_F16 : YIR_BF16);
}
