/* Half precision through the compiler's API: whole networks stay near fp32, and `verify` says where they do not. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "network.h"

static yoloc_opts options(const char *precision, int side)
{
    yoloc_opts o;
    yoloc_opts_init(&o, sizeof o);
    o.height = o.width = side;
    o.precision = precision;
    return o;
}

/* --- whole networks ----------------------------------------------------------------------------------------- */

static double overlap(const double a[4], const double b[4])
{
    double w = fmin(a[0] + a[2] / 2, b[0] + b[2] / 2) - fmax(a[0] - a[2] / 2, b[0] - b[2] / 2);
    double h = fmin(a[1] + a[3] / 2, b[1] + b[3] / 2) - fmax(a[1] - a[3] / 2, b[1] - b[3] / 2);
    double both = w > 0 && h > 0 ? w * h : 0;
    return both / (a[2] * a[3] + b[2] * b[3] - both);
}

/* Rows of `decoded` [84, n]: boxes overlap, scores are near. */
static void compare(const char *what, const float *want, const float *got, size_t n, double least, double most)
{
    for (size_t i = 0; i < n; i++) {
        double a[4], b[4];
        for (size_t k = 0; k < 4; k++) {
            a[k] = (double)want[k * n + i];
            b[k] = (double)got[k * n + i];
        }
        cr_assert(overlap(a, b) >= least, "%s: box %zu overlaps by %g", what, i, overlap(a, b));
        for (size_t k = 4; k < 84; k++) {
            double off = fabs((double)want[k * n + i] - (double)got[k * n + i]);
            cr_assert(off <= most, "%s: score %zu of box %zu is off by %g", what, k - 4, i, off);
        }
    }
}

static struct test_net run(const char *precision)
{
    struct test_net n;
    yoloc_opts o = options(precision, 160);
    if (test_net_open(&n, "models/yolov8n.yaml", "rule", &o, 1)) cr_skip("nothing here compiles for this CPU");
    cr_assert_str_eq(yolort_module_info(n.module)->precision, precision);
    cr_assert_eq(test_net_run(&n, 1), 0);
    return n;
}

Test(precision, networks_stay_near, .timeout = 300)
{
    static const struct {
        const char *precision;
        double overlap, score;
    } rows[] = {{"fp16", 0.97, 2e-3}, {"bf16", 0.9, 2e-2}};
    struct test_net full = run("fp32");
    const yolort_io *io;
    const float *want = test_net_output(&full, "decoded", &io);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct test_net half = run(rows[i].precision);
        const float *got = test_net_output(&half, "decoded", &io);
        size_t n = (size_t)io->dim[2];
        cr_assert_eq(io->dim[1], 84);
        cr_assert(memcmp(want, got, 84 * n * sizeof *want), "%s changes nothing", rows[i].precision);
        compare(rows[i].precision, want, got, n, rows[i].overlap, rows[i].score);
        cr_assert_lt(yolort_module_info(half.module)->constant_bytes, yolort_module_info(full.module)->constant_bytes * 2 / 3);
        test_net_free(&half);
    }
    test_net_free(&full);
}

/* --- what verify says --------------------------------------------------------------------------------------- */

struct said {
    char text[4096];
};

static void keep(void *user, const yoloc_diag *d)
{
    struct said *s = user;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s\n", d->text);
}

struct scratch {
    char dir[64], weights[96], lines[96];
};

static struct scratch scratch(void)
{
    struct scratch s = {.dir = "/tmp/yoloc-precision-XXXXXX"};
    cr_assert(mkdtemp(s.dir));
    snprintf(s.weights, sizeof s.weights, "%s/w.safetensors", s.dir);
    snprintf(s.lines, sizeof s.lines, "%s/layers", s.dir);
    return s;
}

static void clean(const struct scratch *s)
{
    unlink(s->weights);
    unlink(s->lines);
    rmdir(s->dir);
}

/* The rule's weights of the tiny network, one of its tensors times `by`. */
static void write_weights(const struct scratch *s, const char *tensor, float by)
{
    yoloc_opts o = options(NULL, 64);
    yoloc *c = test_compiler(&o);
    yoloc_tensors *t;
    cr_assert_eq(yoloc_ir_weights(c, "tests/tiny.yaml", "rule", "", s->weights), YOLOC_OK);
    cr_assert_eq(yoloc_tensors_read(c, s->weights, &t), YOLOC_OK);
    size_t n = yoloc_tensors_count(t), found = 0;
    yoloc_tensor *out = calloc(n, sizeof *out);
    float *scaled = NULL;
    cr_assert(out);
    for (size_t i = 0; i < n; i++) {
        out[i] = *yoloc_tensors_at(t, i);
        if (strcmp(out[i].name, tensor)) continue;
        found++;
        scaled = malloc(out[i].bytes);
        cr_assert(scaled);
        memcpy(scaled, out[i].data, out[i].bytes);
        for (size_t k = 0; k < out[i].bytes / sizeof *scaled; k++) scaled[k] *= by;
        out[i].data = scaled;
    }
    cr_assert_eq(found, 1);
    cr_assert_eq(yoloc_tensors_write(c, s->weights, out, n), YOLOC_OK);
    free(scaled);
    free(out);
    yoloc_tensors_free(t);
    yoloc_close(c);
}

/* Compiles the tiny network and verifies it; what was said is in *said. */
static yoloc_status verify(const struct scratch *s, const char *precision, const char *lines, const yoloc_verify_opts *v, struct said *said)
{
    yoloc_opts o = options(precision, 64);
    yoloc_result module = {NULL, 0}, text = {NULL, 0};
    yoloc *c;
    *said = (struct said){""};
    o.diag = keep;
    o.user = said;
    if (lines) {
        FILE *f = fopen(s->lines, "w");
        cr_assert(f && fputs(lines, f) >= 0 && !fclose(f));
        o.precision_file = s->lines;
    }
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    yoloc_status status = yoloc_compile(c, "tests/tiny.yaml", s->weights, &module);
    if (status == YOLOC_RESOURCE) cr_skip("nothing here compiles for this CPU");
    if (status == YOLOC_OK) status = yoloc_verify(c, module.bytes, module.size, v, &text);
    yoloc_free_result(&module);
    yoloc_free_result(&text);
    yoloc_close(c);
    return status;
}

static void expect(const struct said *said, const char *text)
{
    cr_expect(strstr(said->text, text), "\"%s\" is not in \"%s\"", text, said->text);
}

Test(precision, verify_names_the_layer)
{
    const yoloc_verify_opts v = {.size = sizeof v, .height = 64, .width = 64, .samples = -1};
    struct scratch s = scratch();
    struct said said;

    write_weights(&s, "model.1.bn.weight", 1);
    cr_expect_eq(verify(&s, "fp16", NULL, &v, &said), YOLOC_OK, "%s", said.text);
    cr_expect_eq(verify(&s, "bf16", NULL, &v, &said), YOLOC_OK, "%s", said.text);
    cr_expect_eq(verify(&s, NULL, "model.1* fp16\n", &v, &said), YOLOC_OK, "%s", said.text);

    write_weights(&s, "model.1.bn.weight", 1e5f); /* weights fit into fp16, their sums do not */
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_OK, "%s", said.text);
    cr_expect_eq(verify(&s, "bf16", NULL, &v, &said), YOLOC_OK, "%s", said.text);
    cr_expect_eq(verify(&s, "fp16", NULL, &v, &said), YOLOC_INPUT);
    expect(&said, "fp16 first goes wrong at model.1.conv conv2d+silu (line 7 of the description)");
    expect(&said, "some elements are infinite");
    cr_expect_eq(verify(&s, "fp16", "model.1 fp32\nmodel.2 fp32\n", &v, &said), YOLOC_OK, "%s", said.text);

    write_weights(&s, "model.1.bn.weight", 1e8f);
    cr_expect_eq(verify(&s, "fp16", NULL, &v, &said), YOLOC_INPUT);
    expect(&said, "warning: model.1.conv stays in fp32: a weight of size ");
    expect(&said, "fp16 first goes wrong at model.1.conv");
    cr_expect_eq(verify(&s, "fp16", "model.2 bf16", &v, &said), YOLOC_OK, "%s", said.text);
    clean(&s);
}

Test(precision, verify_counts_what_it_compares)
{
    yoloc_verify_opts v = {.size = sizeof v, .height = 64, .width = 64};
    struct scratch s = scratch();
    struct said said;
    write_weights(&s, "model.1.bn.weight", NAN);
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_INPUT);
    expect(&said, "first divergence at model.1.conv conv2d+silu (line 7 of the description");
    expect(&said, "it makes NaN");
    write_weights(&s, "model.1.bn.weight", 1);
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_OK, "%s", said.text);
    v.bound = 1e-12;
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_INPUT);
    expect(&said, "it differs from the evaluator");
    v.bound = NAN;
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_USAGE);
    v.bound = -1;
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_USAGE);
    v = (yoloc_verify_opts){.size = sizeof v, .height = 64, .width = 64, .samples = -2};
    cr_expect_eq(verify(&s, NULL, NULL, &v, &said), YOLOC_USAGE);
    v = (yoloc_verify_opts){.size = sizeof v, .height = 64, .width = 64, .layer_bound = 1e-9};
    cr_expect_eq(verify(&s, "fp16", NULL, &v, &said), YOLOC_INPUT);
    expect(&said, "fp16 first goes wrong at model.0.conv");
    expect(&said, "of the mean away from fp32, more than 1.0e-09");
    clean(&s);
}

/* --- mistakes ----------------------------------------------------------------------------------------------- */

Test(precision, mistakes)
{
    static const struct {
        const char *precision, *lines, *says;
        yoloc_status status;
    } rows[] = {
        {"fp8", NULL, "error: 'fp8' is no precision: fp32, tf32, fp16 and bf16 are [E001]", YOLOC_USAGE},
        {"tf32", NULL, " has no tf32: GPUs have it from sm_80 on [E405]", YOLOC_INPUT},
        {"fp16", "# fine\n\nmodel.1 fp32 # too\nmodl.1 fp32\n", "layers:4:1: error: no layer is called modl.1; did you mean model.1", YOLOC_INPUT},
        {"fp16", "elsewhere* fp32", "layers:1:1: error: no layer is called elsewhere* [E405]", YOLOC_INPUT},
        {"fp16", "model.1 half", "layers:1:9: error: 'half' is no precision", YOLOC_INPUT},
        {"fp16", "model.1", "layers:1:1: error: expected a layer's name, a space and a precision", YOLOC_INPUT},
        {"fp16", "model.1=fp32", "layers:1:1: error: expected a layer's name, a space and a precision", YOLOC_INPUT},
        {"fp16", "  model.1 fp32 now", "layers:1:16: error: a line is a layer's name and a precision, no more", YOLOC_INPUT},
        {"fp16", "model.1 tf32", "layers:1:9: error: fp32 and tf32 are for a whole network", YOLOC_INPUT},
        {"tf32", "model.1 fp32", "layers:1:9: error: fp32 and tf32 are for a whole network", YOLOC_INPUT},
    };
    struct scratch s = scratch();
    struct said said;
    write_weights(&s, "model.1.bn.weight", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(verify(&s, rows[i].precision, rows[i].lines, NULL, &said), rows[i].status, "%s", rows[i].says);
        expect(&said, rows[i].says);
    }
    clean(&s);
}

/* --- modules keep it ---------------------------------------------------------------------------------------- */

static yoloc_result recompile(const yoloc_result *module, const yoloc_opts *o)
{
    yoloc_result out = {NULL, 0};
    yoloc *c = test_compiler(o);
    cr_assert_eq(yoloc_recompile(c, module->bytes, module->size, &out), YOLOC_OK);
    yoloc_close(c);
    return out;
}

Test(precision, modules_keep_it)
{
    struct scratch s = scratch();
    FILE *f = fopen(s.lines, "w");
    cr_assert(f && fputs("model.* bf16\nmodel.2 fp32\n", f) >= 0 && !fclose(f));
    yoloc_opts o = options("fp16", 64);
    o.precision_file = s.lines;
    struct test_net n;
    if (test_net_open(&n, "tests/tiny.yaml", "rule", &o, 0)) cr_skip("nothing here compiles for this CPU");
    cr_expect_str_eq(yolort_module_info(n.module)->precision, "fp16 model.*=bf16 model.2=fp32");
    yoloc_opts plain = options(NULL, 64), full = options("fp32", 64);
    yoloc_result again = recompile(&n.bytes, &plain), wide = recompile(&n.bytes, &full);
    cr_expect(again.size == n.bytes.size && !memcmp(again.bytes, n.bytes.bytes, again.size), "recompiled it is another module");
    yolort_module *m;
    cr_assert_eq(yolort_load(&m, wide.bytes, wide.size, NULL, 0), YOLORT_OK);
    cr_expect_str_eq(yolort_module_info(m)->precision, "fp32");
    yolort_module_free(m);
    yoloc_free_result(&again);
    yoloc_free_result(&wide);
    test_net_free(&n);
    clean(&s);
}
