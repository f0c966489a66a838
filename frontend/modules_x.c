/* Modules and head of the YOLOX family. Its "Conv" blocks are depthwise in the smallest member. */
#include "heads.h"

static yir_ref x_conv(struct fe_lower *l, const char *child, yir_ref x, int64_t c2, int64_t k, int64_t s)
{
    fe_child(l, child);
    if (fe_has(l, "dconv.conv.weight", l->depthwise)) {
        struct fe_conv dw = fe_conv_of(l, fe_channels(l, x), k, s);
        dw.g = FE_DEPTHWISE;
        x = fe_conv(l, "dconv", x, dw);
        x = fe_conv(l, "pconv", x, fe_conv_of(l, c2, 1, 1));
    } else {
        struct fe_conv c = fe_conv_of(l, c2, k, s);
        x = fe_conv_here(l, x, &c);
    }
    fe_leave(l);
    return x;
}

yir_ref fe_low_x_dconv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv dw = fe_conv_of(l, s->c1, fe_arg_int(s, "k"), fe_arg_int(s, "s")), c = dw;
    c.c2 = fe_arg_int(s, "c2");
    if (!fe_has(l, "dconv.conv.weight", l->depthwise)) return fe_conv_here(l, s->in[0], &c);
    dw.g = FE_DEPTHWISE;
    yir_ref x = fe_conv(l, "dconv", s->in[0], dw);
    return fe_conv(l, "pconv", x, fe_conv_of(l, c.c2, 1, 1));
}

/* The branch with the bottlenecks comes first in the concat. */
yir_ref fe_low_x_csp(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), h = c2 / 2;
    bool shortcut = fe_arg_int(s, "shortcut") != 0;
    fe_order(l, "conv1,conv2,conv3");
    yir_ref y[2] = {fe_conv(l, "conv1", s->in[0], fe_conv_of(l, h, 1, 1))};
    for (int64_t i = 0; i < s->n && yir_kind(y[0]) != YIR_NIL; i++) {
        int64_t c = fe_channels(l, y[0]);
        fe_child(l, fe_indexed(l, "m", i));
        yir_ref z = fe_conv(l, "conv1", y[0], fe_conv_of(l, c, 1, 1));
        z = x_conv(l, "conv2", z, c, 3, 1);
        y[0] = shortcut ? fe_add(l, z, y[0]) : z;
        fe_leave(l);
    }
    y[1] = fe_conv(l, "conv2", s->in[0], fe_conv_of(l, h, 1, 1));
    return fe_conv(l, "conv3", fe_concat(l, y, 2, 1), fe_conv_of(l, c2, 1, 1));
}

yir_ref fe_low_x_spp(struct fe_lower *l, const struct fe_site *s)
{
    static const char *names[2] = {"conv1", "conv2"};
    const struct fe_arg *k = fe_arg(s, "k");
    return fe_spp(l, s->in[0], fe_arg_int(s, "c2"), k->list, k->nlist, names);
}

/* --- head --------------------------------------------------------------------------------------------------- */

static yir_ref two_convs(struct fe_lower *l, const char *list, int level, yir_ref x, int64_t width)
{
    fe_child(l, list);
    for (int i = 0; i < 2; i++)
        x = x_conv(l, yir_format(l->arena, "%d.%d", level, i), x, width, 3, 1);
    fe_leave(l);
    return x;
}

static yir_ref predict(struct fe_lower *l, const char *list, int level, yir_ref x, int64_t c2)
{
    fe_child(l, list);
    x = fe_predict(l, yir_format(l->arena, "%d", level), x, c2);
    fe_leave(l);
    return x;
}

static yir_ref x_level(struct fe_lower *l, int level, yir_ref x, int64_t width)
{
    fe_child(l, "stems");
    x = fe_conv(l, yir_format(l->arena, "%d", level), x, fe_conv_of(l, width, 1, 1));
    fe_leave(l);
    yir_ref cls = two_convs(l, "cls_convs", level, x, width),
            reg = two_convs(l, "reg_convs", level, x, width);
    yir_ref part[3];
    part[0] = predict(l, "reg_preds", level, reg, 4);
    part[1] = predict(l, "obj_preds", level, reg, 1);
    part[2] = predict(l, "cls_preds", level, cls, l->nc);
    struct yir_a_stride a = {(float)fe_level_stride(l, level, part[0])};
    for (int i = 1; i < 3; i++)
        part[i] = fe_op(l, YIR_sigmoid, &part[i], 1, NULL);
    x = fe_concat(l, part, 3, 1);
    return fe_op(l, YIR_x_box, &x, 1, &a);
}

yir_ref fe_low_x_head(struct fe_lower *l, const struct fe_site *s)
{
    yir_ref part[FE_MAX_LEVELS];
    if (fe_head_begin(l, s, FE_HEAD_X)) return YIR_NONE;
    fe_order(l, "cls_convs,reg_convs,cls_preds,reg_preds,obj_preds,stems");
    for (int i = 0; i < s->nin; i++)
        part[i] = x_level(l, i, s->in[i], fe_arg_int(s, "width"));
    fe_output(l, "decoded", fe_concat(l, part, s->nin, 1));
    l->head.iou = 0.45f;
    return YIR_NONE;
}
