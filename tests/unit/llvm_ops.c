/* Each op compiled and run, against results of an independent implementation (tests/ops/cases.json, made by make.py) and
 * against the evaluator; by the fast families and without, with bounds checks, for several levels of the CPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/modwrite.h"
#include "opcase.h"
#include "passes/pass.h"
#include "runtime/yolort.h"

struct run {
    struct yir_arena *arena;
    struct yir_types *types;
    struct yir_diags *diags;
    const char *name;
    struct yir_func *front, *fused;
    float *out;
    int64_t nout;
};

static void parse(struct run *r, const json_t *c)
{
    r->name = opcase_name(r->arena, c);
    r->front = opcase_parse(r->arena, r->types, r->diags, c);
    cr_assert(r->front, "%s does not parse", r->name);
}

static void fuse(struct run *r, int batch)
{
    struct pass_opts po;
    pass_opts_init(&po);
    po.max_batch = batch;
    po.verify_each = true;
    r->fused = pass_run_all(r->front, r->diags, &po);
    cr_assert(r->fused, "%s: passes", r->name);
}

/* Runs the module on the input of the case; the output is poisoned first. */
static void run_module(struct run *r, const void *bytes, size_t size, const json_t *x, int batch, float *out)
{
    char why[256];
    yolort_module *m;
    yolort_context *c;
    yolort_context_opts co;
    cr_assert_eq(yolort_load(&m, bytes, size, why, sizeof why), YOLORT_OK, "%s: %s", r->name, why);
    yolort_context_opts_init(&co, sizeof co);
    co.guard = 1;
    co.threads = 2;
    cr_assert_eq(yolort_context_new(&c, m, &co), YOLORT_OK);
    const yolort_io *in = yolort_io_at(m, 0);
    size_t n = json_array_size(x);
    unsigned char *data = malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        yir_dtype_store((enum yir_dtype)in->dtype, data, i, json_number_value(json_array_get(x, i)));
    memset(out, 0xff, (size_t)r->nout * sizeof *out);
    cr_assert_eq(yolort_bind(c, 0, data, in->bytes_per_image * (size_t)batch), YOLORT_OK);
    cr_assert_eq(yolort_bind(c, 1, out, (size_t)r->nout * sizeof *out), YOLORT_OK);
    cr_assert_eq(yolort_run(c, batch, NULL), YOLORT_OK, "%s: %s", r->name, yolort_error(c));
    yolort_context_free(c);
    yolort_module_free(m);
    free(data);
}

static void compare(const struct run *r, const char *how, const float *got, const json_t *want)
{
    double sum = 0, worst = 0;
    for (int64_t i = 0; i < r->nout; i++) sum += fabs(json_number_value(json_array_get(want, (size_t)i)));
    double scale = sum / (double)r->nout;
    for (int64_t i = 0; i < r->nout; i++) {
        double w = json_number_value(json_array_get(want, (size_t)i));
        double d = fabs((double)got[i] - w) / (fabs(w) > scale ? fabs(w) : scale);
        if (!(d <= worst)) worst = isnan(d) ? 1e30 : d;
    }
    cr_expect(worst <= 2e-6, "%s, %s: differs by %.2e of the value", r->name, how, worst);
}

struct way {
    const char *name, *target;
    struct cg_opts opts;
};
static const struct way ways[] = {
    {"fast", "cpu:native", {0}},
    {"generic", "cpu:native", {.no_fast = true}},
    {"fast, checked", "cpu:native", {.checked = true}},
    {"generic, checked", "cpu:native", {.no_fast = true, .checked = true}},
    {"fast, v3", "cpu:x86-64-v3", {0}},
    {"fast, v2", "cpu:x86-64-v2", {0}},
};

static void compile_and_run(struct run *r, const struct way *w, const json_t *c, int batch)
{
    struct cg_target target;
    struct cg_code code;
    void *bytes;
    size_t size;
    char error[256];
    yolort_module *m;
    struct cg_opts opts = w->opts;
    opts.max_batch = batch;
    cr_assert_eq(cg_target_find(r->arena, r->diags, w->target, &target), 0);
    struct cg_program *p = cg_kernels(r->arena, r->fused, &target, &opts);
    cr_assert_eq(cg_llvm_compile(r->arena, r->diags, p, &target, &code, NULL), 0, "%s: %s", r->name, w->name);
    struct cg_module mod = {.meta = {.model = "op", .task = "op", .height = 1, .width = 1, .max_batch = batch, .stride = 1,
                                     .conf = 0.25f, .iou = 0.5f, .max_det = 1, .weights_from = "", .options = ""},
                            .front = r->front, .variant = &(struct cg_variant){&target, p, &code}, .nvariant = 1};
    cr_assert_eq(cg_module_write(r->arena, r->diags, &mod, &bytes, &size), 0);
    yolort_status s = yolort_load(&m, bytes, size, error, sizeof error);
    if (s == YOLORT_INCOMPATIBLE) { /* this CPU is of a lower level */
        free(bytes);
        return;
    }
    cr_assert_eq(s, YOLORT_OK, "%s: %s", r->name, error);
    yolort_module_free(m);
    float *out = malloc((size_t)r->nout * sizeof *out);
    run_module(r, bytes, size, json_object_get(c, "x"), batch, out);
    compare(r, w->name, out, json_object_get(c, "y"));
    free(out);
    free(bytes);
}

/* The evaluator on the fused function: memories by buffer, so that views share them. */
static void evaluate(struct run *r, const json_t *c, int batch)
{
    const struct yir_func *f = r->fused;
    struct cg_target target;
    const struct cg_opts opts = {.no_fast = true, .max_batch = batch};
    cr_assert_eq(cg_target_find(r->arena, r->diags, "ref", &target), 0);
    struct cg_program *p = cg_kernels(r->arena, f, &target, &opts);
    const json_t *x = json_object_get(c, "x");
    double **buf = yir_alloc_n(r->arena, f->nbuf, sizeof *buf), *in = yir_alloc_n(r->arena, json_array_size(x), sizeof *in);
    for (size_t i = 0; i < json_array_size(x); i++) in[i] = json_number_value(json_array_get(x, i));
    for (uint32_t i = 0; i < f->nbuf; i++) buf[i] = yir_alloc_n(r->arena, f->buf[i].bytes, sizeof **buf);
    double *out = NULL;
    for (uint32_t i = 0; i < p->nkernel; i++) {
        const struct kb *b = p->kernel[i].prog;
        double *mem[KB_MAX_MEM] = {NULL};
        for (int m = 0; m < b->nmem; m++) {
            yir_ref ref = b->mem[m].ref;
            if (b->mem[m].kind == KB_MEM_WEIGHT) {
                mem[m] = yir_alloc_n(r->arena, (size_t)b->mem[m].elems, sizeof **mem);
                for (int64_t k = 0; k < b->mem[m].elems; k++)
                    mem[m][k] = yir_dtype_load(b->mem[m].dtype, f->weight[yir_index(ref)].data, (size_t)k);
            } else if (yir_kind(ref) == YIR_INP) {
                mem[m] = in;
            } else {
                const struct yir_place *at = &f->place[yir_index(ref)];
                bool input = f->buf[at->buf - 1].kind == YIR_BUF_IN;
                mem[m] = (input ? in : buf[at->buf - 1]) + at->offset / yir_dtype_size(b->mem[m].dtype);
                if (f->buf[at->buf - 1].kind == YIR_BUF_OUT) out = buf[at->buf - 1];
            }
        }
        int bad;
        cr_assert_eq(kb_ref_run(r->arena, b, mem, 0, b->units * batch, &bad), 0, "%s: the evaluator left memory %d", r->name, bad);
    }
    cr_assert(out);
    float *single = yir_alloc_n(r->arena, (size_t)r->nout, sizeof *single);
    for (int64_t i = 0; i < r->nout; i++) single[i] = (float)out[i];
    compare(r, "evaluator", single, json_object_get(c, "y"));
}

Test(llvm_ops, against_stored_results)
{
    json_t *root = opcase_load(), *list = json_object_get(root, "cases"), *c;
    size_t i;
    cr_assert(json_array_size(list) > 40);
    json_array_foreach(list, i, c)
    {
        struct run r = {.arena = yir_arena_new(NULL, NULL)};
        r.types = yir_types_new(r.arena);
        r.diags = yir_diags_new(r.arena, opcase_print, NULL);
        r.nout = (int64_t)json_array_size(json_object_get(c, "y"));
        parse(&r, c);
        int batch = (int)yir_tdesc(r.types, r.front->input[0].type)->dim[0];
        fuse(&r, batch);
        evaluate(&r, c, batch);
        for (size_t w = 0; w < YIR_COUNT(ways); w++) compile_and_run(&r, &ways[w], c, batch);
        yir_arena_free(r.arena);
    }
    json_decref(root);
}

/* Every op has a case; `either` chooses between two network inputs and is covered by whole networks. */
Test(llvm_ops, every_op_has_a_case)
{
    json_t *root = opcase_load(), *list = json_object_get(root, "cases"), *c;
    for (int code = 1; code < YIR_NCODE; code++) {
        bool found = code == YIR_either;
        size_t i;
        json_array_foreach(list, i, c) found |= !strcmp(json_string_value(json_object_get(c, "op")), yir_opinfo((enum yir_code)code)->name);
        cr_expect(found, "no stored case for %s", yir_opinfo((enum yir_code)code)->name);
    }
    json_decref(root);
}
