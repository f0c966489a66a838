#include "cudarows.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "codegen/kb_cuda.h"
#include "cudanet.h"
#include "passes/pass.h"
#include "randnet.h"

enum { PICKS = 3 };

static const struct cudarows_opts usual;

static void print_diag(void *user, const struct yir_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->rendered);
}

struct net {
    struct yir_arena *arena;
    const struct yir_func *f;
    struct cg_target target;
    int batch;
};

static struct net prepare(const struct cudarow *r, const char *target, const struct cudarows_opts *o)
{
    struct net n = {.arena = yir_arena_new(NULL, NULL)};
    struct yir_diags *d = yir_diags_new(n.arena, print_diag, NULL);
    struct pass_opts po;
    struct yir_func *f = yir_parse(n.arena, yir_types_new(n.arena), d, "row", r->ir, strlen(r->ir));
    cr_assert(f, "%s", r->ir);
    n.batch = (int)yir_tdesc(f->types, f->input[0].type)->dim[0];
    randnet_typed_weights(f, 7);
    pass_opts_init(&po);
    po.verify_each = true;
    po.max_batch = n.batch;
    n.f = pass_run_all(f, d, &po);
    cr_assert(n.f, "%s", r->ir);
    cr_assert_eq(cg_target_find(n.arena, d, target, &n.target), 0);
    n.target.kb.tf32 = o->tf32 && !strcmp(target, o->tf32);
    return n;
}

struct picking {
    const char *family;
    int pick;
    bool taken;
};

static size_t pick(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct picking *p = user;
    size_t first = n, count = 0;
    (void)k;
    for (size_t i = 0; i < n; i++)
        if (legal[i].family != CG_GENERIC && !strcmp(cg_fast_at((size_t)legal[i].family)->name, p->family)) {
            if (!count++) first = i;
        }
    if (!count) return n - 1;
    p->taken = true;
    size_t wanted = (count - 1) * (size_t)p->pick / (PICKS - 1);
    for (size_t i = first;; i++) {
        if (legal[i].family != legal[first].family) continue;
        if (!wanted--) return i;
    }
}

static const struct cg_program *program(const struct net *n, struct picking *p)
{
    const struct cg_opts co = {.max_batch = n->batch, .no_fast = !p, .choose = p ? pick : NULL, .choose_user = p};
    return cg_kernels(n->arena, n->f, &n->target, &co);
}

static const char *configs(const struct net *n, const struct cg_program *p)
{
    struct yir_str s = {.arena = n->arena};
    for (uint32_t i = 0; i < p->nkernel; i++) yir_str_fmt(&s, "%s; ", cg_config_text(n->arena, &p->kernel[i].config));
    return s.text;
}

/* Of the mean or the value: rounding on the way, of a picture too. */
static double bound_of(const struct cudarow *r, const struct cudarows_opts *o)
{
    return strstr(r->ir, "bf16") ? 1.6e-2 : o->bound > 0 ? o->bound : strstr(r->ir, "f16") ? 3e-3 : 1e-5;
}

static void check(const struct cudarow *r, const struct net *n, const struct cg_program *p, void *library, const struct cudarows_opts *o)
{
    struct cudanet m = cudanet_new(n->arena, n->f, 3);
    cudanet_evaluate(n->arena, &m, program(n, NULL), n->batch);
    cudanet_run(n->arena, &m, p, library, n->batch);
    for (uint32_t i = 0; i < n->f->noutput; i++) {
        double off = cudanet_difference(&m, i, n->batch);
        cr_expect(off <= bound_of(r, o), "%s of %s differs by %.2e: %s", n->f->output[i].name, r->ir, off, configs(n, p));
    }
}

void cudarows_evaluate(const struct cudarow *rows, size_t n, const struct cudarows_opts *o)
{
    if (!o) o = &usual;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct net *net = yir_alloc_n(a, n, sizeof *net);
    const struct cg_program *(*p)[PICKS] = yir_alloc_n(a, n, sizeof *p);
    struct yir_str text = {.arena = a};
    for (size_t i = 0; i < n; i++) {
        net[i] = prepare(&rows[i], rows[i].target, o);
        for (int k = 0; k < PICKS; k++) {
            struct picking picking = {.family = rows[i].family, .pick = k};
            p[i][k] = program(&net[i], &picking);
            cr_expect_eq(picking.taken, rows[i].takes, "%s, %s: %s", rows[i].family, rows[i].target, rows[i].ir);
            cudanet_add(&text, p[i][k]);
        }
    }
    void *library = cudanet_load(a, &text);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < PICKS; k++) check(&rows[i], &net[i], p[i][k], library, o);
        yir_arena_free(net[i].arena);
    }
    yir_arena_free(a);
}

static void compile(const struct cudarow *r, const char *target, const struct cudarows_opts *o)
{
    struct net n = prepare(r, target, o);
    struct picking picking = {.family = r->family};
    struct cg_code code;
    const struct cg_program *p = program(&n, &picking);
    cr_expect_eq(cg_nvrtc_compile(n.arena, yir_diags_new(n.arena, print_diag, NULL), p, &n.target, &code), 0, "%s: %s", target, r->ir);
    yir_arena_free(n.arena);
}

bool cudarows_compile(const struct cudarow *rows, size_t n, const char *const *targets, size_t ntargets, const struct cudarows_opts *o)
{
    if (!o) o = &usual;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    bool here = cg_nvrtc_version(a, yir_diags_new(a, NULL, NULL)) != NULL;
    for (size_t t = 0; here && t < ntargets; t++)
        for (size_t i = 0; i < n; i++)
            if (rows[i].takes) compile(&rows[i], targets[t], o);
    yir_arena_free(a);
    return here;
}
