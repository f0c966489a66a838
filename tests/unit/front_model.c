/* What a description makes: scales, widths, activations, names, and what is refused. Its anchors: front_anchors; its weights:
 * front_weights. */
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "frontbox.h"
#include "frontend/scale.h"

TestSuite(front_model, .init = setup, .fini = teardown);

/* --- scales and widths -------------------------------------------------------------------------------------- */

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
