/* Descriptions and weights together: scales, widths, classes, and what happens where they disagree. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "datafile.h"
#include "frontend/describe.h"
#include "frontend/numbers.h"
#include "frontend/scale.h"
#include "tensorfile.h"

static const char small[] = "nc: 2\n"
                            "scales:\n"
                            "  n: [0.33, 0.25, 1024]\n"
                            "  s: [0.33, 0.50, 1024]\n"
                            "  m: [0.67, 0.50, 1024]\n"
                            "backbone:\n"
                            "  - [-1, 1, Conv, [64, 3, 2]]\n"
                            "  - [-1, 1, Conv, [64, 3, 2]]\n"
                            "  - [-1, 3, C2f, [64, True]]\n"
                            "head:\n"
                            "  - [-1, 1, Conv, [128, 3, 2]]\n"
                            "  - [[2, 3], 1, Detect, [nc]]\n";

static const char anchored[] = "nc: 5\n"
                               "width_multiple: 0.25\n"
                               "anchors:\n"
                               "  - [1,2, 3,4, 5,6]\n"
                               "  - [10,20, 30,40, 50,60]\n"
                               "backbone:\n"
                               "  - [-1, 1, Conv, [64, 3, 2]]\n"
                               "  - [-1, 1, nn.Upsample, ['None', 2, 'nearest']]\n"
                               "head:\n"
                               "  - [-1, 1, Conv, [64, 3, 2]]\n"
                               "  - [[1, 2], 1, Detect, [nc, anchors]]\n";

struct bench { /* one build */
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct fe_model_opts opts;
    const struct fe_model *model;
};

static void setup_bench(struct bench *b)
{
    b->arena = yir_arena_new(NULL, NULL);
    b->diags = yir_diags_new(b->arena, NULL, NULL);
    b->opts = (struct fe_model_opts){.path = "my.yaml", .batch = 1, .height = 64, .width = 64};
    b->model = NULL;
}

/* The diagnostics of the build begin anew; the arena stays. */
static const struct fe_model *build(struct bench *b, const char *yaml)
{
    b->diags = yir_diags_new(b->arena, NULL, NULL);
    const struct fe_value *root = fe_yaml_parse(b->arena, b->diags, b->opts.path, yaml, strlen(yaml));
    cr_assert_not_null(root, "%s", yir_diag_count(b->diags) ? yir_diag_at(b->diags, 0)->rendered : "");
    b->model = fe_model_build(b->arena, yir_types_new(b->arena), b->diags, root, &b->opts);
    return b->model;
}

static const char *all_text(const struct bench *b)
{
    struct yir_str s = {.arena = b->arena};
    for (size_t i = 0; i < yir_diag_count(b->diags); i++)
        yir_str_fmt(&s, "%s\n", yir_diag_at(b->diags, i)->rendered);
    return s.text ? s.text : "";
}

static void expect_built(struct bench *b, const char *yaml)
{
    build(b, yaml);
    cr_assert_not_null(b->model, "%s", all_text(b));
}

/* One error of this kind, whose text holds `part`. */
static void expect_refused(struct bench *b, const char *yaml, enum yir_diag_id id, const char *part)
{
    cr_assert_null(build(b, yaml), "%s", part);
    cr_expect_eq(yir_diag_errors(b->diags), 1, "%s", all_text(b));
    for (size_t i = 0; i < yir_diag_count(b->diags); i++)
        if (yir_diag_at(b->diags, i)->severity == YIR_ERROR) {
            cr_expect_eq(yir_diag_at(b->diags, i)->id, id, "%s", all_text(b));
            break;
        }
    cr_expect(strstr(all_text(b), part), "%s: lacks %s", all_text(b), part);
}

static void expect_warned(const struct bench *b, enum yir_diag_id id, const char *part)
{
    for (size_t i = 0; i < yir_diag_count(b->diags); i++)
        if (yir_diag_at(b->diags, i)->id == id && strstr(yir_diag_at(b->diags, i)->text, part)) return;
    cr_expect_fail("no warning with %s among: %s", part, all_text(b));
}

static const struct fe_want *want(const struct bench *b, const char *name)
{
    for (size_t i = 0; i < b->model->nwant; i++)
        if (strcmp(b->model->want[i].name, name) == 0) return &b->model->want[i];
    cr_assert_fail("no weight %s is wanted", name);
    return NULL;
}

static int64_t channels(const struct bench *b, const char *name)
{
    return want(b, name)->dim[0];
}

static size_t count_ops(const struct bench *b, enum yir_code c)
{
    size_t n = 0;
    for (uint32_t i = 1; i < b->model->func->nop; i++)
        n += b->model->func->op[i].code == c;
    return n;
}

/* --- weights made here -------------------------------------------------------------------------------------- */

static const struct fe_weights *finish_weights(struct bench *b, const struct tensorfile *m)
{
    struct yir_str file = tensorfile_finish(b->arena, m);
    const struct fe_weights *w =
        fe_weights_read(b->arena, b->diags, "made.safetensors", file.text, file.len, NULL);
    cr_assert_not_null(w, "%s", all_text(b));
    return w;
}

/* What a change does to each tensor: renames it, alters its shape, or answers false to leave it out. */
typedef bool (*change_fn)(const char **name, int64_t *dim, int *rank);

static bool keep(const char **name, int64_t *dim, int *rank)
{
    (void)name, (void)dim, (void)rank;
    return true;
}

/* The weights that `yaml` wants at a scale, with a change. Afterwards the bench builds with them. */
static void use_weights(struct bench *b, const char *yaml, const char *scale, change_fn change)
{
    struct tensorfile m = {{.arena = b->arena}, {.arena = b->arena}};
    b->opts.weights = NULL;
    b->opts.scale = scale;
    expect_built(b, yaml);
    for (size_t i = 0; i < b->model->nwant; i++) {
        struct fe_want w = b->model->want[i];
        if (change(&w.name, w.dim, &w.rank)) tensorfile_add(&m, w.name, w.dim, w.rank, 1);
    }
    b->opts.weights = finish_weights(b, &m);
    b->opts.scale = NULL;
}

/* --- scales and widths -------------------------------------------------------------------------------------- */

static struct bench bench;

static void setup(void)
{
    setup_bench(&bench);
}

static void teardown(void)
{
    yir_arena_free(bench.arena);
}

TestSuite(front_model, .init = setup, .fini = teardown);

Test(front_model, repeats_round_half_to_even)
{
    static const struct {
        int64_t n;
        double depth;
        int64_t expected;
    } rows[] = {{3, 1.5, 4}, {5, .5, 2},  {9, .5, 4},  {6, .75, 4}, {7, 1.5, 10}, {10, .25, 2},
                {1, .33, 1}, {3, .33, 1}, {9, .33, 3}, {2, .1, 1},  {3, .67, 2},  {9, 1.33, 12}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        cr_expect_eq(fe_scale_repeats((double)rows[i].n, rows[i].depth), rows[i].expected, "%lld * %g",
                     (long long)rows[i].n, rows[i].depth);
}

Test(front_model, scale_from_option_and_file_name)
{
    static const struct {
        const char *path, *option, *scale, *name;
    } rows[] = {{"yolov8s.yaml", NULL, "s", "yolov8s"},
                {"/a/yolov8.yaml", "s", "s", "yolov8s"},
                {"yolov8s-p2.yaml", "m", "m", "yolov8s-p2"},
                {"yolov8-p2.yaml", "m", "m", "yolov8m-p2"},
                {"yolo11m.yaml", NULL, "m", "yolo11m"},
                {"my.yaml", "n", "n", "my_n"},
                {"my.yaml", NULL, "n", "my_n"},
                {"my-yolov8s-head.yaml", NULL, "s", "my-yolov8s-head"},
                {"yolov8.yaml", NULL, "n", "yolov8n"}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        bench.opts.path = rows[i].path;
        bench.opts.scale = rows[i].option;
        expect_built(&bench, small);
        cr_expect_str_eq(bench.model->scale, rows[i].scale, "%s", rows[i].path);
        cr_expect_str_eq(bench.model->name, rows[i].name, "%s", rows[i].path);
    }
    expect_warned(&bench, W_SCALE, "no scale is given");
    bench.opts.scale = "q";
    expect_refused(&bench, small, E_SCALE, "scale q (from --scale) is not among the model's scales: n, s, m");
    bench.opts.scale = NULL;
    bench.opts.path = "yolov8x.yaml";
    expect_refused(&bench, small, E_SCALE, "scale x (from the file name)");
    bench.opts.scale = "n";
    bench.opts.path = "my.yaml";
    expect_refused(&bench, anchored, E_SCALE, "this model has no scales");
}

static const char *one_conv(const char *keys, int c)
{
    return yir_format(bench.arena,
                      "nc: 2\n%sbackbone:\n  - [-1, 1, Conv, [%d, 3, 2]]\nhead:\n  - [-1, 1, Detect, [nc]]\n",
                      keys, c);
}

Test(front_model, widths)
{
    bench.opts.scale = "x";
    expect_built(&bench, one_conv("scales: {x: [1.00, 1.25, 512]}\n", 1024));
    cr_expect_eq(channels(&bench, "model.0.conv.weight"), 640, "max_channels comes before width");
    expect_built(&bench, one_conv("scales: {x: [1, 1, 512]}\n", 1024));
    cr_expect_eq(channels(&bench, "model.0.conv.weight"), 512);
    bench.opts.scale = NULL;
    expect_built(&bench, one_conv("width_multiple: 0.33\n", 512));
    cr_expect_eq(channels(&bench, "model.0.conv.weight"), 176);
    expect_built(&bench, one_conv("", 100));
    cr_expect_eq(channels(&bench, "model.0.conv.weight"), 104);
    expect_warned(&bench, W_CHANGED, "100 becomes 104");
}

/* yolov5's rule leaves a width alone that equals the outputs of an anchor head: na * (nc + 5). */
Test(front_model, anchor_width_is_not_scaled)
{
    static const struct {
        int nc, c;
    } rows[] = {{11, 48}, {27, 96}, {59, 192}, {251, 768}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        const char *yaml =
            yir_format(bench.arena,
                       "nc: %d\nwidth_multiple: 0.5\nanchors: 3\nbackbone:\n  - [-1, 1, Conv, [%d, 3, 2]]\n"
                       "  - [-1, 1, Conv, [%d, 3, 2]]\nhead:\n  - [-1, 1, Detect, [nc, anchors]]\n",
                       rows[i].nc, rows[i].c, 2 * rows[i].c);
        expect_built(&bench, yaml);
        cr_expect_eq(channels(&bench, "model.0.conv.weight"), rows[i].c);
        cr_expect_eq(channels(&bench, "model.1.conv.weight"), rows[i].c);
    }
}

/* Class branch: as wide as the first level, or the number of classes up to 100. */
Test(front_model, class_branch_width)
{
    static const int rows[][2] = {{1, 16}, {15, 16}, {80, 80}, {100, 100}, {101, 100}, {365, 100}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        bench.opts.nc = rows[i][0];
        expect_built(&bench, small);
        cr_expect_eq(bench.model->nc, rows[i][0]);
        cr_expect_eq(channels(&bench, "model.4.cv3.0.0.conv.weight"), rows[i][1], "nc %d", rows[i][0]);
        cr_expect_eq(channels(&bench, "model.4.cv3.0.2.weight"), rows[i][0]);
    }
}

Test(front_model, sizes_are_rounded_up)
{
    bench.opts.height = 100;
    bench.opts.width = 64;
    expect_built(&bench, small);
    cr_expect(bench.model->height == 128 && bench.model->width == 64);
    expect_warned(&bench, W_CHANGED, "100x64 (height x width) becomes 128x64");
    bench.opts.height = bench.opts.width = 0;
    expect_built(&bench, small);
    cr_expect(bench.model->height == 640 && bench.model->width == 640);
    bench.opts.height = 64;
    expect_refused(&bench, small, E_IMGSZ, "image size");
    bench.opts.width = 100000;
    expect_refused(&bench, small, E_IMGSZ, "image size");
}

Test(front_model, strides_of_levels)
{
    expect_built(&bench, small);
    cr_expect(bench.model->nl == 2 && bench.model->stride[0] == 4 && bench.model->stride[1] == 8);
    cr_expect_eq(bench.model->stride_max, 32,
                 "pictures are letterboxed to multiples of 32 whatever the strides");
}

/* --- activations and arguments ------------------------------------------------------------------------------ */

Test(front_model, activation_stays_in_its_model)
{
    const char *leaky = yir_format(bench.arena, "activation: nn.LeakyReLU(0.1)\n%s", small);
    expect_built(&bench, leaky);
    cr_expect_eq(count_ops(&bench, YIR_silu), 0);
    cr_expect_gt(count_ops(&bench, YIR_leaky), 0);
    for (uint32_t i = 1; i < bench.model->func->nop; i++)
        if (bench.model->func->op[i].code == YIR_leaky)
            cr_expect_eq(((const struct yir_a_slope *)yir_attrs(bench.model->func, i))->slope, 0.1f);
    expect_built(&bench, small);
    cr_expect_eq(count_ops(&bench, YIR_leaky), 0);
    expect_built(&bench, yir_format(bench.arena, "activation: torch.nn.ReLU(inplace=True)\n%s", small));
    cr_expect_gt(count_ops(&bench, YIR_relu), 0);
    static const char *const bad[] = {"__import__('os').system('x')", "nn.ReLU(",      "nn.ReLU(0.5)",
                                      "nn.LeakyReLU(x=0.1)",          "nn.ReLU() + 1", "nn.Softmax()"};
    for (size_t i = 0; i < YIR_COUNT(bad); i++)
        expect_refused(&bench, yir_format(bench.arena, "activation: \"%s\"\n%s", bad[i], small), E_ACTIVATION,
                       "E111");
}

Test(front_model, arguments_by_name_and_as_text)
{
    const char *yaml = "nc: 3\nreg_max: 4\nbackbone:\n  - [-1, 1, Conv, [64, '3', 2, 'None', 1, 1, "
                       "'False']]\nhead:\n  - [-1, 1, Detect, ['nc']]\n";
    expect_built(&bench, yaml);
    cr_expect_eq(bench.model->nc, 3);
    cr_expect_eq(bench.model->reg_max, 4);
    cr_expect_eq(count_ops(&bench, YIR_silu), 4, "only the head's convolutions have an activation");
}

Test(front_model, input_channels)
{
    expect_built(&bench, yir_format(bench.arena, "ch: 6\n%s", small));
    cr_expect_eq(want(&bench, "model.0.conv.weight")->dim[1], 6);
    expect_built(&bench, yir_format(bench.arena, "channels: 1\n%s", small));
    cr_expect_eq(want(&bench, "model.0.conv.weight")->dim[1], 1);
    use_weights(&bench, small, "n", keep);
    bench.opts.scale = "n";
    expect_refused(&bench, yir_format(bench.arena, "ch: 6\n%s", small), E_WEIGHT,
                   "expected shape [16,6,3,3], found [16,3,3,3]");
}

/* --- anchors ------------------------------------------------------------------------------------------------ */

static const float *anchors_of(const struct bench *b, int level)
{
    yir_ref r = yir_find_weight(b->model->func, yir_format(b->arena, "model.3.anchors_px.%d", level));
    cr_assert_eq(yir_kind(r), YIR_WGT);
    return b->model->func->weight[yir_index(r)].data;
}

Test(front_model, anchors_of_the_yaml)
{
    expect_built(&bench, anchored);
    cr_expect_eq(bench.model->head, FE_HEAD_ANCHOR);
    cr_expect_eq(bench.model->na, 3);
    cr_expect_eq(channels(&bench, "model.3.m.0.weight"), 30);
    cr_expect(anchors_of(&bench, 0)[0] == 1 && anchors_of(&bench, 1)[5] == 60);
    cr_expect_eq(bench.model->iou, 0.45f);
}

/* Rows may list the levels from the largest stride down; small anchors belong to small strides even so. */
Test(front_model, anchors_are_ordered_by_stride)
{
    const char *yaml = "nc: 5\nanchors:\n  - [10,20]\n  - [1,2]\nbackbone:\n  - [-1, 1, Conv, [64, 3, 2]]\n  "
                       "- [-1, 1, Conv, [64, 3, 2]]\n"
                       "head:\n  - [-1, 1, nn.Identity, []]\n  - [[0, 1], 1, Detect, [nc, anchors]]\n";
    expect_built(&bench, yaml);
    cr_expect_eq(anchors_of(&bench, 0)[0], 1);
    cr_expect_eq(anchors_of(&bench, 1)[0], 10);
}

Test(front_model, anchors_as_a_count)
{
    const char *yaml = "nc: 5\nanchors: 4\nbackbone:\n  - [-1, 1, Conv, [64, 3, 2]]\nhead:\n  - [-1, 1, "
                       "nn.Upsample, [\"None\", 2, 'nearest']]\n"
                       "  - [[0, 1], 1, Detect, [nc, anchors]]\n";
    expect_built(&bench, yaml);
    cr_expect_eq(channels(&bench, "model.2.m.0.weight"), 40);
    use_weights(&bench, yaml, NULL, keep);
    expect_built(&bench, yaml);
    struct tensorfile m = {{.arena = bench.arena}, {.arena = bench.arena}};
    for (size_t i = 0; i < bench.model->nwant; i++)
        if (!strstr(bench.model->want[i].name, "anchors"))
            tensorfile_add(&m, bench.model->want[i].name, bench.model->want[i].dim, bench.model->want[i].rank,
                        1);
    bench.opts.weights = finish_weights(&bench, &m);
    expect_refused(&bench, yaml, E_ANCHORS, "the yaml only counts anchors (4 a level)");
}

/* Mask heads of either kind below a key that stands there for nobody, or for the head that takes it. */
static const char *masked(const char *keys, const char *args)
{
    return yir_format(bench.arena, "nc: 5\n%sbackbone:\n  - [-1, 1, Conv, [64, 3, 2]]\nhead:\n  - [-1, 1, Conv, [64, 3, 2]]\n"
                      "  - [[0, 1], 1, %s]\n", keys, args);
}

#define PAIRS "[[1,2, 3,4, 5,6], [10,20, 30,40, 50,60]]"

Test(front_model, anchors_by_arguments_and_weights)
{
    static const struct {
        const char *keys, *head;
        enum fe_head kind;
    } rows[] = {
        {"anchors: " PAIRS "\n", "Segment, [nc, 32, 256]", FE_HEAD_FREE},
        {"anchors: 3\n", "Segment, [nc, 32, 256]", FE_HEAD_FREE},
        {"anchors: 3\n", "Pose, [nc, [17, 3]]", FE_HEAD_FREE},
        {"anchors: 3\n", "Detect, [nc]", FE_HEAD_FREE},
        {"anchors: 3\n", "Segment, [nc, anchors, 32, 256]", FE_HEAD_ANCHOR},
        {"", "Segment, [nc, 3, 32, 256]", FE_HEAD_ANCHOR},
        {"", "Segment, [nc, " PAIRS ", 32, 256]", FE_HEAD_ANCHOR},
        {"", "Detect, [nc, " PAIRS "]", FE_HEAD_ANCHOR},
        {"", "Detect, [nc, 3]", FE_HEAD_ANCHOR},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        expect_built(&bench, masked(rows[i].keys, rows[i].head));
        cr_expect_eq(bench.model->head, rows[i].kind, "%s%s", rows[i].keys, rows[i].head);
    }
    const char *keys = "anchors: " PAIRS "\n", *bare = masked(keys, "Detect, [nc]");
    use_weights(&bench, bare, NULL, keep);
    expect_built(&bench, bare);
    cr_expect_eq(bench.model->head, FE_HEAD_FREE, "its weights have branches");
    use_weights(&bench, masked(keys, "Detect, [nc, anchors]"), NULL, keep);
    expect_built(&bench, bare);
    cr_expect_eq(bench.model->head, FE_HEAD_ANCHOR, "its weights have one matrix a level");
}

Test(front_model, anchors_of_the_weights_win)
{
    use_weights(&bench, anchored, NULL, keep);
    expect_built(&bench, anchored);
    expect_warned(&bench, W_DISAGREE, "the anchors in the weights");
    cr_expect_eq(anchors_of(&bench, 0)[0], bench.model->stride[0], "1 in units of the stride");
    cr_expect_eq(anchors_of(&bench, 1)[0], bench.model->stride[1]);
}

/* --- weights ------------------------------------------------------------------------------------------------ */

Test(front_model, weights_that_fit)
{
    use_weights(&bench, small, "n", keep);
    expect_built(&bench, small);
    cr_expect_eq(yir_diag_count(bench.diags), 0, "%s", all_text(&bench));
    cr_expect_str_eq(bench.model->scale, "n", "the weights tell the scale");
    for (uint32_t i = 0; i < bench.model->func->nweight; i++)
        cr_expect_not_null(bench.model->func->weight[i].data);
    use_weights(&bench, small, "s", keep);
    expect_built(&bench, small);
    cr_expect_str_eq(bench.model->scale, "s");
}

Test(front_model, wrong_scale_names_the_right_one)
{
    use_weights(&bench, small, "s", keep);
    bench.opts.scale = "n";
    expect_refused(&bench, small, E_WEIGHT,
                   "expected shape [16,3,3,3] at scale n, found [32,3,3,3]; the file fits scale s");
    use_weights(&bench, small, "s", keep);
    bench.opts.scale = "m";
    expect_refused(&bench, small, E_WEIGHT, "the file fits scale s");
    use_weights(&bench, small, "m", keep);
    bench.opts.scale = "s";
    expect_refused(&bench, small, E_WEIGHT, "the file fits scale m");
}

Test(front_model, classes_of_the_weights)
{
    use_weights(&bench, small, "n", keep);
    bench.opts.scale = "n";
    const char *many = yir_format(bench.arena, "nc: 80%s", small + 5);
    expect_built(&bench, many);
    cr_expect_eq(bench.model->nc, 2);
    expect_warned(&bench, W_DISAGREE, "nc is 80 in the yaml");
    bench.opts.nc = 80;
    expect_refused(&bench, small, E_NC, "--nc asks for 80 classes, the weights have 2");
    bench.opts.nc = 2;
    expect_built(&bench, many);
}

static bool drop_one(const char **name, int64_t *dim, int *rank)
{
    (void)dim, (void)rank;
    return strcmp(*name, "model.3.conv.weight") != 0;
}

Test(front_model, missing_weight)
{
    use_weights(&bench, small, "n", drop_one);
    bench.opts.scale = "n";
    expect_refused(&bench, small, E_WEIGHT,
                   "model.3.conv.weight, of shape [32,16,3,3], is missing in made.safetensors");
}

static bool drop_convs(const char **name, int64_t *dim, int *rank)
{
    if (strcmp(*name, "model.1.bn.bias") == 0) dim[0] = 7;
    return *rank != 4 || strncmp(*name, "model.0.", 8) == 0;
}

/* One error with the first ten, whatever rows they belong to. */
Test(front_model, weights_missing_all_over)
{
    use_weights(&bench, small, "n", drop_convs);
    bench.opts.scale = "n";
    expect_refused(&bench, small, E_WEIGHT, "model.1.conv.weight, of shape [16,16,3,3], is missing in made.safetensors");
    cr_expect_eq(yir_diag_errors(bench.diags), 1);
    cr_expect_eq(yir_diag_count(bench.diags), 12);
    cr_expect_str_eq(yir_diag_at(bench.diags, 1)->text, "model.1.bn.bias: expected shape [16], found [7] in made.safetensors");
    cr_expect_str_eq(yir_diag_at(bench.diags, 2)->text,
                     "model.2.cv1.conv.weight, of shape [16,16,1,1], is missing in made.safetensors");
    const char *more = yir_diag_at(bench.diags, 10)->text;
    cr_expect(strncmp(more, "and ", 4) == 0 && strstr(more, " more"), "%s", more);
    cr_expect(strstr(yir_diag_at(bench.diags, 11)->text, "the file holds"));
}

static bool narrow_first(const char **name, int64_t *dim, int *rank)
{
    (void)rank;
    if (strncmp(*name, "model.0.", 8) == 0 && *rank) dim[0] = 10;
    if (strcmp(*name, "model.1.conv.weight") == 0) dim[1] = 10;
    return true;
}

Test(front_model, pruned_weights_decide)
{
    use_weights(&bench, small, "n", narrow_first);
    bench.opts.scale = "n";
    expect_built(&bench, small);
    expect_warned(&bench, W_DISAGREE,
                  "1 weight of other shape than the yaml gives, the first is model.0.conv.weight");
    yir_ref w = yir_find_weight(bench.model->func, "model.0.conv.weight");
    cr_expect_eq(yir_desc(bench.model->func, w)->dim[0], 10);
}

static bool narrow_alone(const char **name, int64_t *dim, int *rank)
{
    if (strncmp(*name, "model.0.", 8) == 0 && *rank) dim[0] = 10;
    return true;
}

Test(front_model, shapes_that_form_no_graph)
{
    use_weights(&bench, small, "n", narrow_alone);
    bench.opts.scale = "n";
    expect_refused(&bench, small, E_WEIGHT,
                   "model.1.conv.weight: expected shape [16,10,3,3], found [16,16,3,3]");
}

static bool empty_first(const char **name, int64_t *dim, int *rank)
{
    if (strncmp(*name, "model.0.", 8) == 0 && *rank) dim[0] = 0;
    return true;
}

static bool flat_anchors(const char **name, int64_t *dim, int *rank)
{
    (void)dim;
    if (strstr(*name, ".anchors")) *rank = 2;
    return true;
}

Test(front_model, shapes_that_no_model_has)
{
    use_weights(&bench, small, "n", empty_first);
    bench.opts.scale = "n";
    expect_refused(&bench, small, E_WEIGHT, "expected shape");
    use_weights(&bench, anchored, NULL, flat_anchors);
    expect_refused(&bench, anchored, E_ANCHORS, "expected shape");
}

static bool fuse(const char **name, int64_t *dim, int *rank)
{
    (void)dim, (void)rank;
    const char *bn = strstr(*name, ".bn.");
    if (!bn) return true;
    if (strcmp(bn, ".bn.bias") != 0) return false;
    *name = yir_format(bench.arena, "%.*s.conv.bias", (int)(bn - *name), *name);
    return true;
}

Test(front_model, fused_weights)
{
    use_weights(&bench, small, "n", fuse);
    bench.opts.scale = "n";
    expect_built(&bench, small);
    cr_expect_eq(count_ops(&bench, YIR_batchnorm), 0);
    cr_expect_eq(yir_diag_count(bench.diags), 0, "%s", all_text(&bench));
}

static bool add_one(const char **name, int64_t *dim, int *rank)
{
    (void)dim, (void)rank;
    if (strcmp(*name, "model.3.bn.num_batches_tracked") == 0) *name = "model.9.extra";
    return true;
}

Test(front_model, unused_weights)
{
    use_weights(&bench, small, "n", add_one);
    bench.opts.scale = "n";
    expect_built(&bench, small);
    expect_warned(&bench, W_UNUSED, "not used: 1 tensor, the first is model.9.extra");
}

Test(front_model, values_that_are_no_numbers)
{
    struct tensorfile m = {{.arena = bench.arena}, {.arena = bench.arena}};
    bench.opts.scale = "n";
    expect_built(&bench, small);
    for (size_t i = 0; i < bench.model->nwant; i++) {
        const struct fe_want *w = &bench.model->want[i];
        tensorfile_add(&m, w->name, w->dim, w->rank, strcmp(w->name, "model.0.bn.bias") == 0 ? NAN : 1);
    }
    bench.opts.weights = finish_weights(&bench, &m);
    expect_built(&bench, small);
    expect_warned(&bench, W_NONFINITE,
                  "NaN or infinite values: 16 in 1 tensor, the first is model.0.bn.bias");
    bench.opts.strict = true;
    expect_refused(&bench, small, E_NONFINITE,
                   "NaN or infinite values: 16 in 1 tensor, the first is model.0.bn.bias");
}

Test(front_model, variances_that_are_none)
{
    struct tensorfile m = {{.arena = bench.arena}, {.arena = bench.arena}};
    bench.opts.scale = "n";
    expect_built(&bench, small);
    for (size_t i = 0; i < bench.model->nwant; i++) {
        const struct fe_want *w = &bench.model->want[i];
        tensorfile_add(&m, w->name, w->dim, w->rank, strcmp(w->name, "model.1.bn.running_var") == 0 ? -1e-3f : 1);
    }
    bench.opts.weights = finish_weights(&bench, &m);
    expect_built(&bench, small);
    expect_warned(&bench, W_NONFINITE, "variances not above -eps: 16 in 1 tensor, the first is model.1.bn.running_var");
    bench.opts.strict = true;
    expect_refused(&bench, small, E_NONFINITE, "variances not above -eps: 16 in 1 tensor, the first is model.1.bn.running_var");
    cr_expect_eq(fe_numbers_of_file(bench.arena, bench.diags, bench.opts.weights, false), 0);
    cr_expect_neq(fe_numbers_of_file(bench.arena, bench.diags, bench.opts.weights, true), 0);
}

/* A class branch of depthwise convolutions, as later families have it, is told by its weights' names. */
Test(front_model, class_branch_by_the_weights)
{
    static const struct {
        const char *name;
        int64_t dim[4];
    } extra[] = {{"0.0.conv.weight", {16, 1, 3, 3}},
                 {"0.1.conv.weight", {16, 16, 1, 1}},
                 {"1.0.conv.weight", {16, 1, 3, 3}},
                 {"1.1.conv.weight", {16, 16, 1, 1}},
                 {"0.0.conv.bias", {16}},
                 {"0.1.conv.bias", {16}},
                 {"1.0.conv.bias", {16}},
                 {"1.1.conv.bias", {16}}};
    struct tensorfile m = {{.arena = bench.arena}, {.arena = bench.arena}};
    bench.opts.scale = "n";
    expect_built(&bench, small);
    for (size_t i = 0; i < bench.model->nwant; i++) {
        const struct fe_want *w = &bench.model->want[i];
        if (!strstr(w->name, ".cv3.0.0.") && !strstr(w->name, ".cv3.0.1."))
            tensorfile_add(&m, w->name, w->dim, w->rank, 1);
    }
    for (size_t i = 0; i < YIR_COUNT(extra); i++)
        tensorfile_add(&m, yir_format(bench.arena, "model.4.cv3.0.%s", extra[i].name), extra[i].dim,
                    strstr(extra[i].name, "bias") ? 1 : 4, 1);
    bench.opts.weights = finish_weights(&bench, &m);
    expect_built(&bench, small);
    cr_expect_eq(yir_kind(yir_find_weight(bench.model->func, "model.4.cv3.0.1.1.conv.weight")), YIR_WGT);
}

/* --- rule weights ------------------------------------------------------------------------------------------- */

Test(front_model, rule_weights_fill_everything)
{
    static const float first[3] = {-0.294817239f, 0.327380002f, 0.3115035f};
    bench.opts.rule = true;
    bench.opts.scale = "n";
    expect_built(&bench, small);
    yir_ref r = yir_find_weight(bench.model->func, "model.0.conv.weight");
    const float *data = bench.model->func->weight[yir_index(r)].data;
    for (int i = 0; i < 3; i++)
        cr_expect_eq(data[i], first[i]);
    for (uint32_t i = 0; i < bench.model->func->nweight; i++)
        cr_expect_not_null(bench.model->func->weight[i].data);
}

/* --- names -------------------------------------------------------------------------------------------------- */

Test(front_model, names_of_classes)
{
    expect_built(&bench, yir_format(bench.arena, "names: [cat, \"\xc3\xa4\"]\n%s", small));
    cr_expect_str_eq(bench.model->names[1], "\xc3\xa4");
    expect_built(&bench, yir_format(bench.arena, "names: {1: dog, 0: cat}\n%s", small));
    cr_expect_str_eq(bench.model->names[0], "cat");
    expect_built(&bench, yir_format(bench.arena, "names: [cat]\n%s", small));
    cr_expect_str_eq(bench.model->names[1], "1");
    expect_warned(&bench, W_NAMES, "1 class names are given for 2 classes");
    bench.opts.nc = 80;
    expect_built(&bench, small);
    cr_expect_str_eq(bench.model->names[79], "toothbrush");
}

/* --- our own additions to rows ------------------------------------------------------------------------------ */

Test(front_model, rows_with_names)
{
    const char *yaml = "nc: 2\ninput: {color: bgr, scale: 255, letterbox: topleft, size: 96}\nbackbone:\n"
                       "  - [-1, 1, Conv, [64, 3, 2], name: stem.first]\nhead:\n  - [-1, 1, Detect, [nc]]\n";
    bench.opts.height = bench.opts.width = 0;
    expect_built(&bench, yaml);
    want(&bench, "stem.first.bn.weight");
    cr_expect(bench.model->input_bgr && bench.model->input_div == 1 && bench.model->letterbox == 2 &&
              bench.model->height == 96);
    cr_expect(bench.model->func->image_bgr && bench.model->func->image_div == 1);
    const char *twice =
        "nc: 2\nbackbone:\n  - [-1, 1, Conv, [64, 3, 2], name: a]\n  - [-1, 1, Conv, [64, 3, 2], name: a]\n"
        "head:\n  - [-1, 1, Detect, [nc]]\n";
    cr_assert_null(build(&bench, twice));
    cr_expect(strstr(all_text(&bench), "two modules have the weight a.conv.weight"), "%s", all_text(&bench));
}

/* --- what must not happen ----------------------------------------------------------------------------------- */

Test(front_model, networks_that_unfold_without_end)
{
    struct yir_str s = {.arena = bench.arena};
    yir_str_fmt(&s, "nc: 2\nbackbone:\n");
    for (int i = 0; i < 9000; i++)
        yir_str_fmt(&s, "  - [-1, 1000, C3, [64]]\n");
    yir_str_fmt(&s, "head:\n  - [-1, 1, Detect, [nc]]\n");
    clock_t start = clock();
    expect_refused(&bench, s.text, E_LIMIT, "more than");
    cr_expect_lt((double)(clock() - start) / CLOCKS_PER_SEC, 20.0);
    expect_refused(&bench,
                   "nc: 2\nbackbone:\n  - [-1, 1, Conv, [65536, 3, 2]]\n  - [-1, 1, Conv, [65536, 3, "
                   "2]]\nhead:\n  - [-1, 1, Detect, [nc]]\n",
                   E_LIMIT, "weights");
}

Test(front_model, places_of_mistakes)
{
    expect_refused(&bench, "nc: 2\nbackbone:\n  - [-1, 1, Convv, [64]]\nhead:\n  - [-1, 1, Detect, [nc]]\n",
                   E_MODULE, "did you mean Conv?");
    cr_expect(yir_diag_at(bench.diags, 0)->loc.line == 3 && yir_diag_at(bench.diags, 0)->loc.col == 13);
    expect_refused(&bench, "nc: 2\nbackbone:\n  - [-1, 1, Index, [64]]\nhead:\n  - [-1, 1, Detect, [nc]]\n",
                   E_ARGS, "Index");
    expect_refused(&bench,
                   "nc: 2\nbackbone:\n  - [-1, 1, Conv, [64, 3, 0]]\nhead:\n  - [-1, 1, Detect, [nc]]\n",
                   E_SHAPE, "in module model.0.conv");
    expect_refused(&bench,
                   "nc: 2\nbackbone:\n  - [-1, 1, Conv, [64]]\nhead:\n  - [[-1, 0], 1, SPPF, [64]]\n  - [-1, "
                   "1, Detect, [nc]]\n",
                   E_FROM, "SPPF takes one input, not 2");
    expect_refused(&bench, "nc: 2\nbackbone:\n  - [-1, 1, Conv, [64]]\nhead:\n  - [-1, 1, Conv, [64]]\n",
                   E_ROW, "the last row must be a head");
}

/* --- checkpoints -------------------------------------------------------------------------------------------- */

static bool open_checkpoint(const char *name)
{
    char path[512];
    if (!test_data_exists(name)) return false;
    test_data_path(path, sizeof path, name);
    bench.opts = (struct fe_model_opts){.path = path, .batch = 1};
    bench.opts.weights = fe_weights_open(bench.arena, bench.diags, path, NULL);
    cr_assert(bench.opts.weights && bench.opts.weights->yaml, "%s", all_text(&bench));
    bench.model = fe_model_build(bench.arena, yir_types_new(bench.arena), bench.diags,
                                 bench.opts.weights->yaml, &bench.opts);
    cr_assert_not_null(bench.model, "%s", all_text(&bench));
    return true;
}

Test(front_model, checkpoint_of_a_yolov3_fork)
{
    if (!open_checkpoint("weights/pt_yolov3fork_head_plus_final.pt")) cr_skip("no data");
    cr_expect_eq(count_ops(&bench, YIR_silu), 0, "its activation is ReLU, which only the pickle says");
    cr_expect_gt(count_ops(&bench, YIR_relu), 0);
    cr_expect(bench.model->stride[0] == 4 && bench.model->stride[2] == 16);
    cr_expect_str_eq(bench.model->names[0], "head");
    cr_expect_eq(yir_diag_count(bench.diags), 0, "%s", all_text(&bench));
}

Test(front_model, checkpoint_pruned_and_fused)
{
    if (!open_checkpoint("weights/pt_yolov3fork_head_pruned20_FUSED_fp32.pt")) cr_skip("no data");
    cr_expect_eq(count_ops(&bench, YIR_batchnorm), 0);
    expect_warned(&bench, W_DISAGREE,
                  "the first is model.0.conv.weight: expected [8,3,3,3], found [2,3,3,3]");
}

Test(front_model, checkpoints_without_complaint)
{
    static const struct {
        const char *name;
        int nc, size;
        enum fe_head head;
    } rows[] = {{"weights/parts_v8_detect.pt", 4, 160, FE_HEAD_FREE},
                {"weights/tiny_v8_detect.pt", 5, 96, FE_HEAD_FREE},
                {"weights/tiny_v5_anchor.pt", 3, 96, FE_HEAD_ANCHOR},
                {"weights/pt_yolov5n_duckie_danhgithub.pt", 4, 416, FE_HEAD_ANCHOR},
                {"weights/pt_yolov5n_coco80_tobymuller233.pt", 80, 640, FE_HEAD_ANCHOR}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        if (!open_checkpoint(rows[i].name)) cr_skip("no data");
        cr_expect_eq(bench.model->nc, rows[i].nc, "%s", rows[i].name);
        cr_expect_eq(bench.model->head, rows[i].head, "%s", rows[i].name);
        cr_expect_eq(bench.model->height, rows[i].size, "%s", rows[i].name);
        cr_expect_eq(yir_verify(bench.model->func, 0), 0);
        cr_expect_eq(yir_diag_count(bench.diags), 0, "%s", all_text(&bench));
    }
}

Test(front_model, yolox_nano)
{
    char path[512];
    if (!test_data_exists("weights/yolox_nano.safetensors")) cr_skip("no data");
    test_data_path(path, sizeof path, "weights/yolox_nano.safetensors");
    bench.opts = (struct fe_model_opts){.path = "models/yolox.yaml", .batch = 1};
    bench.opts.weights = fe_weights_open(bench.arena, bench.diags, path, NULL);
    const struct fe_value *root =
        fe_yaml_read(bench.arena, bench.diags, fe_model_file(bench.arena, "models/yolox_nano.yaml"));
    cr_assert(bench.opts.weights && root, "%s", all_text(&bench));
    bench.model = fe_model_build(bench.arena, yir_types_new(bench.arena), bench.diags, root, &bench.opts);
    cr_assert_not_null(bench.model, "%s", all_text(&bench));
    cr_expect_eq(yir_diag_count(bench.diags), 0, "all 226 tensors are used: %s", all_text(&bench));
    cr_expect_eq(bench.model->func->nweight, 226);
    cr_expect_str_eq(bench.model->name, "yolox_nano");
    cr_expect_eq(bench.model->height, 416);
    int64_t params = 0;
    for (uint32_t i = 0; i < bench.model->func->nweight; i++)
        params += yir_numel(yir_tdesc(bench.model->func->types, bench.model->func->weight[i].type));
    cr_expect_eq(params, 904463);
}
