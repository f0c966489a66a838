/* Anchors of a description and of its weights: counted, listed, as arguments of the head; which head they make it. */
#include <criterion/criterion.h>
#include <string.h>

#include "frontbox.h"

TestSuite(front_anchors, .init = setup, .fini = teardown);

static const float *anchors_of(const struct bench *b, int level)
{
    yir_ref r = yir_find_weight(b->model->func, yir_format(b->arena, "model.3.anchors_px.%d", level));
    cr_assert_eq(yir_kind(r), YIR_WGT);
    return b->model->func->weight[yir_index(r)].data;
}

Test(front_anchors, anchors_of_the_yaml)
{
    expect_built(&bench, anchored);
    cr_expect_eq(bench.model->head, FE_HEAD_ANCHOR);
    cr_expect_eq(bench.model->na, 3);
    cr_expect_eq(channels(&bench, "model.3.m.0.weight"), 30);
    cr_expect(anchors_of(&bench, 0)[0] == 1 && anchors_of(&bench, 1)[5] == 60);
    cr_expect_eq(bench.model->iou, 0.45f);
}

/* Rows may list the levels from the largest stride down; small anchors belong to small strides even so. */
Test(front_anchors, anchors_are_ordered_by_stride)
{
    const char *yaml = "nc: 5\nanchors:\n  - [10,20]\n  - [1,2]\nbackbone:\n  - [-1, 1, Conv, [64, 3, 2]]\n  "
                       "- [-1, 1, Conv, [64, 3, 2]]\n"
                       "head:\n  - [-1, 1, nn.Identity, []]\n  - [[0, 1], 1, Detect, [nc, anchors]]\n";
    expect_built(&bench, yaml);
    cr_expect_eq(anchors_of(&bench, 0)[0], 1);
    cr_expect_eq(anchors_of(&bench, 1)[0], 10);
}

Test(front_anchors, anchors_as_a_count)
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

Test(front_anchors, anchors_by_arguments_and_weights)
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

Test(front_anchors, anchors_of_the_weights_win)
{
    use_weights(&bench, anchored, NULL, keep);
    expect_built(&bench, anchored);
    expect_warned(&bench, W_DISAGREE, "the anchors in the weights");
    cr_expect_eq(anchors_of(&bench, 0)[0], bench.model->stride[0], "1 in units of the stride");
    cr_expect_eq(anchors_of(&bench, 1)[0], bench.model->stride[1]);
}
