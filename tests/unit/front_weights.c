/* Weights that a description is given: what fits, what is missing or of another shape, which of the two decides; and checkpoints. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "datafile.h"
#include "frontbox.h"
#include "frontend/numbers.h"

TestSuite(front_weights, .init = setup, .fini = teardown);

Test(front_weights, weights_that_fit)
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

Test(front_weights, wrong_scale_names_the_right_one)
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

Test(front_weights, classes_of_the_weights)
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

Test(front_weights, missing_weight)
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
Test(front_weights, weights_missing_all_over)
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

Test(front_weights, pruned_weights_decide)
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

Test(front_weights, shapes_that_form_no_graph)
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

Test(front_weights, shapes_that_no_model_has)
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

Test(front_weights, fused_weights)
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

Test(front_weights, unused_weights)
{
    use_weights(&bench, small, "n", add_one);
    bench.opts.scale = "n";
    expect_built(&bench, small);
    expect_warned(&bench, W_UNUSED, "not used: 1 tensor, the first is model.9.extra");
}

Test(front_weights, values_that_are_no_numbers)
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

Test(front_weights, variances_that_are_none)
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
Test(front_weights, class_branch_by_the_weights)
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

Test(front_weights, checkpoint_of_a_yolov3_fork)
{
    if (!open_checkpoint("weights/pt_yolov3fork_head_plus_final.pt")) cr_skip("no data");
    cr_expect_eq(count_ops(&bench, YIR_silu), 0, "its activation is ReLU, which only the pickle says");
    cr_expect_gt(count_ops(&bench, YIR_relu), 0);
    cr_expect(bench.model->stride[0] == 4 && bench.model->stride[2] == 16);
    cr_expect_str_eq(bench.model->names[0], "head");
    cr_expect_eq(yir_diag_count(bench.diags), 0, "%s", all_text(&bench));
}

Test(front_weights, checkpoint_pruned_and_fused)
{
    if (!open_checkpoint("weights/pt_yolov3fork_head_pruned20_FUSED_fp32.pt")) cr_skip("no data");
    cr_expect_eq(count_ops(&bench, YIR_batchnorm), 0);
    expect_warned(&bench, W_DISAGREE,
                  "the first is model.0.conv.weight: expected [8,3,3,3], found [2,3,3,3]");
}

Test(front_weights, checkpoints_without_complaint)
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

Test(front_weights, yolox_nano)
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
