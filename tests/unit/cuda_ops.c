/* CUDA C of each op: run on the host beside the mock driver against stored results (tests/ops/cases.json), and compiled by NVRTC. */
#include <criterion/criterion.h>
#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/kb_cuda.h"
#include "codegen/modwrite.h"
#include "longer.h"
#include "opcase.h"
#include "passes/pass.h"
#include "runtime/module.h"
#include "runtime/yolort.h"

struct run {
    struct yir_arena *arena;
    struct yir_types *types;
    struct yir_diags *diags;
    const char *name;
    struct yir_func *front, *fused;
    struct cg_target target;
    struct cg_program *program;
    const json_t *c;
    int batch;
};

static void parse(struct run *r)
{
    r->name = opcase_name(r->arena, r->c);
    r->front = opcase_parse(r->arena, r->types, r->diags, r->c);
    cr_assert(r->front, "%s does not parse", r->name);
    r->batch = (int)yir_tdesc(r->types, r->front->input[0].type)->dim[0];
}

/* Up to kernels. */
static void prepare(struct run *r, const json_t *c, const char *target)
{
    struct pass_opts po;
    *r = (struct run){.arena = yir_arena_new(NULL, NULL), .c = c};
    r->types = yir_types_new(r->arena);
    r->diags = yir_diags_new(r->arena, opcase_print, NULL);
    parse(r);
    pass_opts_init(&po);
    po.max_batch = r->batch;
    r->fused = pass_run_all(r->front, r->diags, &po);
    cr_assert(r->fused, "%s: passes", r->name);
    cr_assert_eq(cg_target_find(r->arena, r->diags, target, &r->target), 0);
    r->program = cg_kernels(r->arena, r->fused, &r->target, &(struct cg_opts){.max_batch = r->batch});
}

/* --- on the host -------------------------------------------------------------------------------------------- */

/* Adds what kernels of the case are not there yet. */
static void add_kernels(struct yir_str *text, const struct run *r)
{
    for (uint32_t i = 0; i < r->program->nkernel; i++) {
        const struct cg_kernel *k = &r->program->kernel[i];
        char head[256];
        snprintf(head, sizeof head, " %s(\n", k->symbol);
        if (text->len && strstr(text->text, head)) continue;
        yir_str_fmt(text, "/* %s */\n", k->label);
        kb_cuda_text(text, k, r->batch);
    }
}

/* All kernels of all cases in one library, which the mock driver is told of. */
static void make_library(struct yir_arena *a, const json_t *list)
{
    struct yir_str text = {.arena = a};
    const char *scratch = getenv("YOLOC_TEST_SCRATCH");
    char folder[256], so[300], command[700];
    const json_t *c;
    size_t i;
    json_array_foreach(list, i, c)
    {
        struct run r;
        prepare(&r, c, "cuda:sm_90a");
        add_kernels(&text, &r);
        yir_arena_free(r.arena);
    }
    snprintf(folder, sizeof folder, "%s/cuda_ops.XXXXXX", scratch ? scratch : P_tmpdir);
    cr_assert(mkdtemp(folder));
    snprintf(so, sizeof so, "%s/k.so", folder);
    snprintf(command, sizeof command, "%s/k.cu", folder);
    FILE *f = fopen(command, "w");
    cr_assert(f && fwrite(text.text, 1, text.len, f) == text.len && !fclose(f));
    snprintf(command, sizeof command, "bash tests/cuda/host.sh '%s/k.cu' '%s'", folder, so);
    if (system(command)) cr_assert_fail("the kernels do not compile for the host");
    setenv("MOCKCUDA_KERNELS", so, 1);
    setenv("YOLOC_LIBCUDA", MOCKCUDA, 1);
}

static void remove_library(void)
{
    char command[400];
    const char *so = getenv("MOCKCUDA_KERNELS");
    snprintf(command, sizeof command, "rm -r '%.*s'", (int)(strlen(so) - strlen("/k.so")), so);
    cr_expect_eq(system(command), 0);
}

/* In the place of code: cubins without anything in them. */
static struct cg_code no_code(const struct run *r)
{
    enum { EACH = 3 * YM_ALIGN };
    const Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                          .e_machine = EM_CUDA,
                          .e_shentsize = sizeof(Elf64_Shdr)};
    uint32_t n = r->program->nkernel;
    unsigned char *blob = yir_alloc_n(r->arena, n, EACH);
    struct cg_code code = {.blob = blob, .size = (size_t)n * EACH, .compiler = "none"};
    code.entry = yir_alloc_n(r->arena, n, sizeof *code.entry);
    for (uint32_t i = 0; i < n; i++) {
        code.entry[i] = r->program->kernel[i].same_as * EACH + YM_ALIGN;
        memcpy(blob + i * EACH + YM_ALIGN, &h, sizeof h);
    }
    return code;
}

static void run_module(const struct run *r, const void *bytes, size_t size, float *out, size_t nout)
{
    char why[256];
    yolort_module *m;
    yolort_context *c;
    yolort_context_opts co;
    cr_assert_eq(yolort_load(&m, bytes, size, why, sizeof why), YOLORT_OK, "%s: %s", r->name, why);
    yolort_context_opts_init(&co, sizeof co);
    co.guard = 1;
    cr_assert_eq(yolort_context_new(&c, m, &co), YOLORT_OK);
    const yolort_io *in = yolort_io_at(m, 0);
    const json_t *x = json_object_get(r->c, "x");
    size_t n = json_array_size(x);
    unsigned char *data = malloc(n * sizeof(double));
    for (size_t i = 0; i < n; i++) yir_dtype_store((enum yir_dtype)in->dtype, data, i, json_number_value(json_array_get(x, i)));
    memset(out, 0xff, nout * sizeof *out);
    cr_assert_eq(yolort_bind(c, 0, data, in->bytes_per_image * (size_t)r->batch), YOLORT_OK);
    cr_assert_eq(yolort_bind(c, 1, out, nout * sizeof *out), YOLORT_OK);
    cr_assert_eq(yolort_run(c, r->batch, NULL), YOLORT_OK, "%s: %s", r->name, yolort_error(c));
    cr_assert_eq(yolort_wait(c), YOLORT_OK);
    yolort_context_free(c);
    yolort_module_free(m);
    free(data);
}

/* The bound is the one that kernels for CPUs keep (llvm_ops.c). */
static void compare(const struct run *r, const float *got, size_t n)
{
    const json_t *want = json_object_get(r->c, "y");
    double sum = 0, worst = 0;
    for (size_t i = 0; i < n; i++) sum += fabs(json_number_value(json_array_get(want, i)));
    double scale = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double w = json_number_value(json_array_get(want, i));
        double d = fabs((double)got[i] - w) / (fabs(w) > scale ? fabs(w) : scale);
        if (!(d <= worst)) worst = isnan(d) ? 1e30 : d;
    }
    cr_expect(worst <= 2e-6, "%s: differs by %.2e of the value", r->name, worst);
}

static void run_case(const json_t *c)
{
    struct run r;
    void *bytes;
    size_t size, n = json_array_size(json_object_get(c, "y"));
    prepare(&r, c, "cuda:sm_90a");
    struct cg_code code = no_code(&r);
    struct cg_module mod = {.meta = {.model = "op", .task = "op", .height = 1, .width = 1, .max_batch = r.batch, .stride = 1,
                                     .conf = 0.25f, .iou = 0.5f, .max_det = 1, .weights_from = "", .options = ""},
                            .front = r.front, .variant = &(struct cg_variant){&r.target, r.program, &code}, .nvariant = 1};
    cr_assert_eq(cg_module_write(r.arena, r.diags, &mod, &bytes, &size), 0);
    float *out = malloc(n * sizeof *out);
    run_module(&r, bytes, size, out, n);
    compare(&r, out, n);
    free(out);
    free(bytes);
    yir_arena_free(r.arena);
}

Test(cuda_ops, against_stored_results)
{
    json_t *root = opcase_load(), *list = json_object_get(root, "cases"), *c;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    size_t i;
    make_library(a, list);
    json_array_foreach(list, i, c) run_case(c);
    remove_library();
    yir_arena_free(a);
    json_decref(root);
}

/* --- through NVRTC ------------------------------------------------------------------------------------------ */

Test(cuda_ops, nvrtc_takes_each)
{
    static const char *const targets[] = {"cuda:sm_90a", "cuda:sm_75", "cuda:sm_80", "cuda:sm_86",
                                          "cuda:sm_87",  "cuda:sm_89", "cuda:sm_100", "cuda:sm_120"};
    json_t *root = opcase_load(), *list = json_object_get(root, "cases"), *c;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    size_t i, n = (size_t)test_count(1, YIR_COUNT(targets));
    if (!cg_nvrtc_version(a, yir_diags_new(a, NULL, NULL))) cr_skip_test("no NVRTC here");
    for (size_t t = 0; t < n; t++)
        json_array_foreach(list, i, c)
        {
            struct run r;
            struct cg_code code;
            prepare(&r, c, targets[t]);
            cr_expect_eq(cg_nvrtc_compile(r.arena, r.diags, r.program, &r.target, &code), 0, "%s: %s", r.name, targets[t]);
            yir_arena_free(r.arena);
        }
    yir_arena_free(a);
    json_decref(root);
}
