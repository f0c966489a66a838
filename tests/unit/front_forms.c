/* Forms that a network's weights come in: after training several kernels become one, normalisation vanishes, of two sets of
 * branches one may be left, and texts may be inside; and ways to enlarge a map. */
#include <criterion/criterion.h>
#include <string.h>

#include "frontend/model.h"
#include "tensorfile.h"

static const char elan[] = "nc: 2\n"
                           "backbone:\n"
                           "  - [-1, 1, Conv, [16, 3, 2]]\n"
                           "  - [-1, 1, RepNCSPELAN4, [32, 16, 16, 1]]\n"
                           "  - [-1, 1, RepConv, [32, 3, 2]]\n"
                           "head:\n"
                           "  - [[1, 2], 1, Detect, [nc]]\n";
static const char cib[] = "nc: 2\n"
                          "backbone:\n"
                          "  - [-1, 1, Conv, [16, 3, 2]]\n"
                          "  - [-1, 1, C2fCIB, [32, True, True]]\n"
                          "head:\n"
                          "  - [[1], 1, v10Detect, [nc]]\n";

struct bench {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct fe_model_opts opts;
};
static struct bench bench;

static void setup(void)
{
    bench.arena = yir_arena_new(NULL, NULL);
    bench.opts = (struct fe_model_opts){.path = "my.yaml", .batch = 1, .height = 64, .width = 64};
}

static void teardown(void)
{
    yir_arena_free(bench.arena);
}

TestSuite(front_forms, .init = setup, .fini = teardown);

static const char *first_diag(void)
{
    return yir_diag_count(bench.diags) ? yir_diag_at(bench.diags, 0)->rendered : "";
}

static const struct fe_model *build(const char *yaml)
{
    bench.diags = yir_diags_new(bench.arena, NULL, NULL);
    const struct fe_value *root = fe_yaml_parse(bench.arena, bench.diags, "my.yaml", yaml, strlen(yaml));
    cr_assert_not_null(root, "%s", first_diag());
    return fe_model_build(bench.arena, yir_types_new(bench.arena), bench.diags, root, &bench.opts);
}

/* What a tensor of the trained network is called in the form under test; NULL: it is not there. */
typedef const char *(*form_fn)(const char *name);

/* Weights of that form for the builds that follow. */
static void take_form(const char *yaml, form_fn form)
{
    struct tensorfile f = {{.arena = bench.arena}, {.arena = bench.arena}};
    bench.opts.weights = NULL;
    const struct fe_model *m = build(yaml);
    cr_assert_not_null(m, "%s", first_diag());
    for (size_t i = 0; i < m->nwant; i++) {
        const struct fe_want *w = &m->want[i];
        const char *name = form(w->name);
        if (name) tensorfile_add(&f, name, w->dim, w->rank, 1);
    }
    struct yir_str file = tensorfile_finish(bench.arena, &f);
    bench.opts.weights = fe_weights_read(bench.arena, bench.diags, "made.safetensors", file.text, file.len, NULL);
    cr_assert_not_null(bench.opts.weights, "%s", first_diag());
}

/* The network with weights of that form, built without a word. */
static const struct fe_model *build_form(const char *yaml, form_fn form)
{
    take_form(yaml, form);
    const struct fe_model *m = build(yaml);
    cr_assert_not_null(m, "%s", first_diag());
    cr_expect_eq(yir_diag_count(bench.diags), 0, "%s", first_diag());
    return m;
}

static size_t count_ops(const struct fe_model *m, enum yir_code c)
{
    size_t n = 0;
    for (uint32_t i = 1; i < m->func->nop; i++) n += m->func->op[i].code == c;
    return n;
}

static bool has_weight(const struct fe_model *m, const char *name)
{
    return yir_kind(yir_find_weight(m->func, name)) == YIR_WGT;
}

/* name with its first `from` replaced. */
static const char *replace(const char *name, const char *from, const char *to)
{
    const char *at = strstr(name, from);
    if (!at) return name;
    return yir_format(bench.arena, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
}

static const char *trained(const char *name)
{
    return name;
}

/* Normalisation in the convolutions. */
static const char *fused(const char *name)
{
    if (!strstr(name, ".bn.")) return name;
    return strstr(name, ".bn.bias") ? replace(name, ".bn.bias", ".conv.bias") : NULL;
}

/* And the kernels of RepConv as one. */
static const char *deployed(const char *name)
{
    name = fused(name);
    if (!name || strstr(name, ".conv2.")) return NULL;
    return replace(name, ".conv1.conv.", ".conv.");
}

Test(front_forms, kernels_that_became_one)
{
    const struct fe_model *m = build_form(elan, trained);
    size_t convs = count_ops(m, YIR_conv2d), adds = count_ops(m, YIR_add);
    cr_expect(has_weight(m, "model.2.conv2.conv.weight") && !has_weight(m, "model.2.conv.weight"));
    m = build_form(elan, deployed);
    cr_expect_eq(count_ops(m, YIR_conv2d), convs - 3);
    cr_expect_eq(count_ops(m, YIR_add), adds - 3);
    cr_expect_eq(count_ops(m, YIR_batchnorm), 0);
    cr_expect(has_weight(m, "model.2.conv.bias"));
    cr_expect(has_weight(m, "model.1.cv2.0.m.0.cv1.conv.bias"));
}

Test(front_forms, fused_with_both_kernels)
{
    const struct fe_model *m = build_form(elan, fused);
    cr_expect_eq(count_ops(m, YIR_batchnorm), 0);
    cr_expect(has_weight(m, "model.2.conv2.conv.bias"));
}

/* With a row that asks for it, or weights that have it, the map itself is a third branch; a stride or another width takes it away. */
static const char identity[] = "nc: 2\n"
                               "backbone:\n"
                               "  - [-1, 1, Conv, [16, 3, 2]]\n"
                               "  - [-1, 1, RepConv, [16, 3, 1, 1, 1, 1, True, True]]\n"
                               "  - [-1, 1, RepConv, [32, 3, 1, 1, 1, 1, True, True]]\n"
                               "  - [-1, 1, RepConv, [32, 3, 2, 1, 1, 1, True, True]]\n"
                               "head:\n"
                               "  - [[2, 3], 1, Detect, [nc]]\n";

Test(front_forms, map_as_third_branch)
{
    const struct fe_model *m = build_form(identity, trained);
    cr_expect(has_weight(m, "model.1.bn.weight") && !has_weight(m, "model.2.bn.weight") && !has_weight(m, "model.3.bn.weight"));
    const struct yir_func *f = m->func;
    size_t found = 0;
    for (uint32_t i = 1; i < f->nop; i++) {
        yir_ref x = yir_src(f, i, 0);
        if (f->op[i].code != YIR_batchnorm || yir_kind(x) != YIR_VAL || yir_opof(f, x)->code != YIR_silu) continue;
        found++; /* it normalises what the convolutions read */
        cr_expect_eq(f->op[i + 1].code, YIR_add);
        cr_expect(yir_same(yir_src(f, i + 1, 1), yir_mkref(YIR_VAL, i)));
    }
    cr_expect_eq(found, 1u);
}

/* The large and the small depthwise kernel as one. */
static const char *one_depthwise(const char *name)
{
    name = fused(name);
    if (!name || strstr(name, ".cv1.2.conv1.")) return NULL;
    return strstr(name, ".cv1.2.conv.conv.") ? replace(name, ".conv.conv.", ".conv.") : name;
}

Test(front_forms, large_depthwise_kernels)
{
    const struct fe_model *m = build_form(cib, trained);
    size_t convs = count_ops(m, YIR_conv2d);
    cr_expect(has_weight(m, "model.1.m.0.cv1.2.conv1.conv.weight"));
    m = build_form(cib, one_depthwise);
    cr_expect_eq(count_ops(m, YIR_conv2d), convs - 1);
    cr_expect(has_weight(m, "model.1.m.0.cv1.2.conv.bias"));
}

static const char *without_one(const char *name)
{
    return strstr(name, ".one2one_") ? NULL : name;
}

static const char *without_many(const char *name)
{
    bool many = strncmp(name, "model.2.cv", 10) == 0;
    return many ? NULL : name;
}

static bool gives_corners(const struct fe_model *m)
{
    for (uint32_t i = 1; i < m->func->nop; i++)
        if (m->func->op[i].code == YIR_dfl_box) return ((const struct yir_a_box *)yir_attrs(m->func, i))->corners != 0;
    return false;
}

Test(front_forms, two_sets_of_branches)
{
    const struct fe_model *m = build_form(cib, trained);
    cr_expect(!m->one2one && !gives_corners(m));
    cr_expect(has_weight(m, "model.2.cv2.0.2.weight") && !has_weight(m, "model.2.one2one_cv2.0.2.weight"));
    bench.opts.one2one = true;
    m = build(cib);
    cr_assert_not_null(m, "%s", first_diag());
    cr_expect(m->one2one && gives_corners(m));
    cr_expect(!has_weight(m, "model.2.cv2.0.2.weight") && has_weight(m, "model.2.one2one_cv2.0.2.weight"));
    cr_expect_eq(yir_verify(m->func, 0), 0);
    bench.opts.layers = true;
    m = build(cib);
    cr_assert_not_null(m, "%s", first_diag());
    cr_expect(has_weight(m, "model.2.cv2.0.2.weight") && has_weight(m, "model.2.one2one_cv2.0.2.weight"));
}

Test(front_forms, one_set_that_is_left)
{
    const struct fe_model *m = build_form(cib, without_one);
    cr_expect(!m->one2one && !gives_corners(m));
    bench.opts.one2one = true;
    cr_assert_null(build(cib));
    cr_expect_eq(yir_diag_at(bench.diags, 0)->id, E_USAGE);
    bench.opts.one2one = false;
    m = build_form(cib, without_many);
    cr_expect(m->one2one && gives_corners(m));
}

/* An embedding as wide as there are classes, so that shapes are the same in both forms. */
static const char texts[] = "nc: 2\n"
                            "backbone:\n"
                            "  - [-1, 1, Conv, [16, 3, 2]]\n"
                            "head:\n"
                            "  - [[0], 1, YOLOESegment, [nc, 8, 16, 2, True]]\n";

/* The texts in the last convolutions of the class branch. */
static const char *without_texts(const char *name)
{
    return strstr(name, ".cv4.") || strstr(name, ".reprta.") || strstr(name, ".savpe.") ? NULL : name;
}

static const char *with_vocabulary(const char *name)
{
    return replace(name, "reprta.m.w12.weight", "lrpc.0.vocab.weight");
}

Test(front_forms, texts_inside)
{
    const struct fe_model *m = build_form(texts, trained);
    cr_expect_eq(count_ops(m, YIR_contrast), 1);
    m = build_form(texts, without_texts);
    cr_expect_eq(count_ops(m, YIR_contrast), 0);
    cr_expect(has_weight(m, "model.1.cv3.0.2.weight"));
    cr_expect(has_weight(m, "model.1.cv5.0.2.weight"));
}

Test(front_forms, vocabulary_inside)
{
    take_form(texts, with_vocabulary);
    cr_expect_null(build(texts));
    cr_expect(strstr(first_diag(), "lrpc"), "%s", first_diag());
}

/* 0 or 1: whether the corners of both maps coincide; -1: the map is not enlarged so. */
static int corners_of(const char *args)
{
    const struct fe_model *m = build(yir_format(bench.arena,
                                                "nc: 2\nbackbone:\n  - [-1, 1, Conv, [16, 3, 2]]\n  - [-1, 1, nn.Upsample, %s]\n"
                                                "head:\n  - [-1, 1, Detect, [nc]]\n", args));
    cr_assert_not_null(m, "%s", first_diag());
    for (uint32_t i = 1; i < m->func->nop; i++)
        if (m->func->op[i].code == YIR_bilinear) return ((const struct yir_a_resize *)yir_attrs(m->func, i))->corners;
    return -1;
}

Test(front_forms, ways_to_enlarge)
{
    cr_expect_eq(corners_of("[None, 2, nearest]"), -1);
    cr_expect_eq(corners_of("[None, 2, bilinear]"), 0);
    cr_expect_eq(corners_of("[None, 2, bilinear, False]"), 0);
    cr_expect_eq(corners_of("[None, 2, bilinear, True]"), 1);
}
