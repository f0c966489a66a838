/* Anchor-free head of Ultralytics: distances to the box sides as distributions over reg_max bins. */
#include "heads.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t settle_reg_max(struct fe_lower *l)
{
    const struct fe_tensor *t = fe_tensor(l, "cv2.0.2.weight");
    int64_t r = fe_int(l, "reg_max", 0, l->reg_max);
    if (t && t->rank == 4 && t->dim[0] >= 4 && t->dim[0] % 4 == 0) r = t->dim[0] / 4;
    if (r != l->reg_max && fe_get(l->description, "reg_max"))
        fe_warn(l, W_DISAGREE, "reg_max is %lld in the yaml and %lld in the weights, which decide",
                (long long)l->reg_max, (long long)r);
    return r;
}

static yir_ref box_branch(struct fe_lower *l, int level, yir_ref x, int64_t width, int64_t r)
{
    fe_child(l, fe_indexed(l, "cv2", level));
    x = fe_conv(l, "0", x, fe_conv_of(l, width, 3, 1));
    x = fe_conv(l, "1", x, fe_conv_of(l, width, 3, 1));
    x = fe_predict(l, "2", x, 4 * r);
    fe_leave(l);
    return x;
}

static yir_ref depthwise_pair(struct fe_lower *l, const char *child, yir_ref x, int64_t c2)
{
    struct fe_conv dw = fe_conv_of(l, fe_channels(l, x), 3, 1);
    dw.g = FE_DEPTHWISE;
    fe_child(l, child);
    x = fe_conv(l, "0", x, dw);
    x = fe_conv(l, "1", x, fe_conv_of(l, c2, 1, 1));
    fe_leave(l);
    return x;
}

static yir_ref class_branch(struct fe_lower *l, int level, yir_ref x, int64_t width)
{
    fe_child(l, fe_indexed(l, "cv3", level));
    if (fe_has(l, "0.0.conv.weight", !l->legacy)) {
        x = depthwise_pair(l, "0", x, width);
        x = depthwise_pair(l, "1", x, width);
    } else {
        x = fe_conv(l, "0", x, fe_conv_of(l, width, 3, 1));
        x = fe_conv(l, "1", x, fe_conv_of(l, width, 3, 1));
    }
    x = fe_predict(l, "2", x, l->nc);
    fe_leave(l);
    return x;
}

/* One level's part of `decoded`, [n, 4+nc, h*w]. */
static yir_ref decode(struct fe_lower *l, int level, yir_ref box, yir_ref cls, int64_t r)
{
    struct yir_a_box a = {(int32_t)r, (float)fe_level_stride(l, level, box)};
    yir_ref part[2] = {fe_op(l, YIR_dfl_box, &box, 1, &a)};
    yir_ref score = fe_op(l, YIR_sigmoid, &cls, 1, NULL);
    part[1] = fe_op(l, YIR_flatten, &score, 1, NULL);
    return fe_concat(l, part, 2, 1);
}

static void declare_dfl(struct fe_lower *l, int64_t r)
{
    if (r == 1) return;
    fe_child(l, "dfl.conv");
    fe_declare(l, "weight", (int64_t[]){1, r, 1, 1}, 4, true);
    fe_leave(l);
}

yir_ref fe_low_detect(struct fe_lower *l, const struct fe_site *s)
{
    yir_ref box[FE_MAX_LEVELS], cls[FE_MAX_LEVELS], flat[FE_MAX_LEVELS], logit[FE_MAX_LEVELS],
        part[FE_MAX_LEVELS];
    const struct fe_value *end2end = fe_get(l->description, "end2end");
    if (fe_head_begin(l, s, FE_HEAD_FREE)) return YIR_NONE;
    if (end2end && end2end->kind == FE_BOOL && end2end->i)
        return fe_fail(l, E_UNSUPPORTED,
                       "Detect with end2end (one-to-one branches) is not supported by this version"),
               YIR_NONE;
    int64_t r = settle_reg_max(l), ch0 = s->c1;
    if (r < 1 || r > 1024) return fe_fail(l, E_ARGS, "Detect: reg_max must be 1 to 1024"), YIR_NONE;
    int64_t box_width = larger(larger(16, ch0 / 4), 4 * r),
            cls_width = larger(ch0, l->nc < 100 ? l->nc : 100);
    for (int i = 0; i < s->nin; i++)
        box[i] = box_branch(l, i, s->in[i], box_width, r);
    for (int i = 0; i < s->nin; i++)
        cls[i] = class_branch(l, i, s->in[i], cls_width);
    declare_dfl(l, r);
    for (int i = 0; i < s->nin; i++) {
        flat[i] = fe_op(l, YIR_flatten, &box[i], 1, NULL);
        logit[i] = fe_op(l, YIR_flatten, &cls[i], 1, NULL);
        part[i] = decode(l, i, box[i], cls[i], r);
    }
    fe_output(l, "decoded", fe_concat(l, part, s->nin, 2));
    fe_output(l, "boxes", fe_concat(l, flat, s->nin, 2));
    fe_output(l, "scores", fe_concat(l, logit, s->nin, 2));
    l->head.reg_max = (int)r;
    l->head.iou = 0.7f;
    return YIR_NONE;
}
