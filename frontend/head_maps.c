/* Heads without boxes: classes of the picture, maps of classes and of depth; and the prototypes of masks. */
#include "heads.h"

#include "check.h"

/* --- prototypes ----------------------------------------------------------------------------------------------- */

static yir_ref twice(struct fe_lower *l, const char *child, yir_ref x)
{
    struct fe_deconv c = {.c2 = fe_channels(l, x), .k = {2, 2}, .s = {2, 2}, .g = 1};
    fe_child(l, child);
    x = fe_deconv2d(l, x, &c, true);
    fe_leave(l);
    return x;
}

/* 26: all levels at the size of the first, summed; and a map of classes that training alone needs. */
static yir_ref sum_levels(struct fe_lower *l, const struct fe_site *s, int64_t npr)
{
    yir_ref x = s->in[0];
    int64_t c = s->c1;
    for (int i = 1; i < s->nin; i++) {
        yir_ref y = fe_conv(l, fe_indexed(l, "feat_refine", i - 1), s->in[i], fe_conv_of(l, c, 1, 1));
        x = fe_add(l, x, fe_op(l, YIR_nearest, (yir_ref[]){y, s->in[0]}, 2, NULL));
    }
    x = fe_conv(l, "feat_fuse", x, fe_conv_of(l, npr, 3, 1));
    if (fe_has(l, "semseg.2.weight", true)) {
        fe_child(l, "semseg");
        fe_declare_conv(l, "0", c, npr, 3);
        fe_declare_conv(l, "1", npr, npr, 3);
        fe_declare_predict(l, "2", npr, l->nc, 1);
        fe_leave(l);
    }
    return x;
}

yir_ref fe_mask_proto(struct fe_lower *l, const struct fe_site *s, int64_t npr, int64_t nm, bool all_levels)
{
    fe_child(l, "proto");
    fe_order(l, "cv1,upsample,cv2,cv3");
    yir_ref x = all_levels ? sum_levels(l, s, npr) : s->in[0];
    x = fe_conv(l, "cv1", x, fe_conv_of(l, npr, 3, 1));
    if (l->dialect == FE_Y5)
        x = fe_op(l, YIR_upsample, &x, 1, &(struct yir_a_factor){2});
    else
        x = twice(l, "upsample", x);
    x = fe_conv(l, "cv2", x, fe_conv_of(l, npr, 3, 1));
    x = fe_conv(l, "cv3", x, fe_conv_of(l, nm, 1, 1));
    fe_leave(l);
    return x;
}

/* --- classes of the picture ----------------------------------------------------------------------------------- */

yir_ref fe_low_classify(struct fe_lower *l, const struct fe_site *s)
{
    enum { WIDTH = 1280 };
    if (fe_head_begin(l, s, FE_HEAD_NONE)) return YIR_NONE;
    l->head.task = "classify";
    l->head.nl = 0;
    yir_ref x = s->nin > 1 ? fe_concat(l, s->in, s->nin, 1) : s->in[0];
    x = fe_conv(l, "conv", x, fe_conv_of(l, WIDTH, 1, 1));
    x = fe_unary(l, YIR_avgmap, x);
    x = fe_linear(l, "linear", x, l->nc, true);
    fe_output(l, "prob", fe_unary(l, YIR_ravel, fe_softmax(l, x, 1)));
    fe_output(l, "logits", fe_unary(l, YIR_ravel, x));
    return YIR_NONE;
}

/* --- maps ------------------------------------------------------------------------------------------------------ */

static yir_ref enlarge(struct fe_lower *l, yir_ref x, int factor, bool corners)
{
    struct yir_a_resize a = {factor, corners};
    return fe_op(l, YIR_bilinear, &x, 1, &a);
}

yir_ref fe_low_semantic(struct fe_lower *l, const struct fe_site *s)
{
    enum { FACTOR = 8 };
    int64_t c = s->c1;
    if (fe_head_begin(l, s, FE_HEAD_NONE)) return YIR_NONE;
    l->head.task = "semantic";
    fe_child(l, "classifier");
    yir_ref x = fe_conv(l, "0", s->in[0], fe_conv_of(l, c, 3, 1));
    x = fe_predict(l, "1", x, l->nc);
    fe_leave(l);
    l->head.stride[0] = FACTOR; /* checkpoints say 32, the stride of the deepest layer */
    if (s->nin > 1 && fe_has(l, "aux_head.1.weight", true)) {
        fe_child(l, "aux_head");
        fe_declare_conv(l, "0", fe_channels(l, s->in[1]), c, 3);
        fe_declare_predict(l, "1", c, l->nc, 1);
        fe_leave(l);
    }
    fe_output(l, "logits", x);
    fe_output(l, "logits_x8", enlarge(l, x, FACTOR, false));
    return YIR_NONE;
}

static yir_ref refine(struct fe_lower *l, int level, yir_ref x, int64_t c)
{
    fe_child(l, fe_indexed(l, "refine", level));
    x = fe_conv(l, "0", x, fe_conv_of(l, c, 3, 1));
    x = fe_conv(l, "1", x, fe_conv_of(l, c, 3, 1));
    fe_leave(l);
    return x;
}

/* From the last level to the first, each time twice as large; then twice as large again. */
yir_ref fe_low_depth(struct fe_lower *l, const struct fe_site *s)
{
    enum { FACTOR = 4 };
    int64_t c = fe_arg_int(s, "c_mid"), one = 1;
    yir_ref level[FE_MAX_LEVELS], src[3];
    if (fe_head_begin(l, s, FE_HEAD_NONE)) return YIR_NONE;
    if (FE_BREAKS(DEPTH_WIDTH, c < 4 || c > 65536)) return fe_fail(l, E_ARGS, "Depth: the width must be 4 to 65536"), YIR_NONE;
    l->head.task = "depth";
    src[1] = fe_weight_implied(l, "cal_a", &one, 1, 1);
    src[2] = fe_weight_implied(l, "cal_b", &one, 1, 0);
    for (int i = 0; i < s->nin; i++) {
        level[i] = fe_conv(l, fe_indexed(l, "proj", i), s->in[i], fe_conv_of(l, c, 1, 1));
        fe_level_stride(l, i, level[i]);
    }
    for (int i = 0; i < s->nin - 1; i++)
        fe_order(l, fe_indexed(l, "refine", i));
    yir_ref x = level[s->nin - 1];
    for (int i = s->nin - 2; i >= 0; i--)
        x = refine(l, i, fe_add(l, enlarge(l, x, 2, true), level[i]), c);
    fe_child(l, "head");
    x = fe_conv(l, "0", x, fe_conv_of(l, c / 2, 3, 1));
    x = twice(l, "1", x);
    x = fe_conv(l, "2", x, fe_conv_of(l, c / 4, 3, 1));
    src[0] = fe_predict(l, "3", x, 1);
    fe_leave(l);
    x = fe_op(l, YIR_depth, src, 3, NULL);
    fe_output(l, "depth", x);
    fe_output(l, "depth_x4", enlarge(l, x, FACTOR, true));
    return YIR_NONE;
}
