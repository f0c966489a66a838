/* Stems and stages of the networks that detectors borrow: ResNet and HGNetV2. */
#include "blocks.h"

#include <string.h>

#include "check.h"

static const struct fe_act relu = {YIR_relu, 0};

static struct fe_conv relu_conv(struct fe_lower *l, int64_t c2, int64_t k, int64_t s)
{
    struct fe_conv c = fe_conv_of(l, c2, k, s);
    c.act = relu;
    return c;
}

/* --- ResNet as rows ----------------------------------------------------------------------------------------- */

static yir_ref res_block(struct fe_lower *l, yir_ref x, int64_t c, int64_t s)
{
    int64_t c1 = fe_channels(l, x);
    yir_ref y = fe_conv(l, "cv1", x, fe_conv_of(l, c, 1, 1));
    y = fe_conv(l, "cv2", y, fe_conv_of(l, c, 3, s));
    y = fe_conv(l, "cv3", y, fe_bare_of(l, 4 * c, 1, 1));
    if (s != 1 || c1 != 4 * c) x = fe_conv(l, "shortcut.0", x, fe_bare_of(l, 4 * c, 1, s));
    return fe_unary(l, YIR_relu, fe_add(l, y, x));
}

yir_ref fe_low_resnetlayer(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c1 = fe_arg_int(s, "c1"), c = fe_arg_int(s, "c2"), n = fe_arg_int(s, "n");
    yir_ref x = s->in[0];
    if (FE_BREAKS(RESNET_INPUT, c1 != s->c1))
        return fe_fail(l, E_ARGS, "ResNetLayer: c1 is %lld, the input has %lld channels", (long long)c1, (long long)s->c1),
               YIR_NONE;
    if (fe_arg_int(s, "first")) {
        struct fe_conv stem = fe_conv_of(l, c, 7, 2);
        stem.p[0] = stem.p[1] = 3;
        return fe_maxpool(l, fe_conv(l, "layer.0", x, stem), 3, 2, 1);
    }
    if (FE_BREAKS(RESNET_REPEATS, n < 1 || (uint64_t)n > yir_limits_of(l->diags)->max_repeats))
        return fe_fail(l, E_ARGS, "ResNetLayer: n must be 1 to %llu", (unsigned long long)yir_limits_of(l->diags)->max_repeats),
               YIR_NONE;
    for (int64_t i = 0; i < n && yir_kind(x) != YIR_NIL; i++) {
        fe_child(l, fe_indexed(l, "layer", i));
        x = res_block(l, x, c, i ? 1 : fe_arg_int(s, "s"));
        fe_leave(l);
    }
    return x;
}

/* --- ResNet-18 of torchvision ------------------------------------------------------------------------------- */

/* A convolution and its normalisation under names of their own. */
static yir_ref named_conv(struct fe_lower *l, const char *conv, const char *bn, yir_ref x, int64_t c2, int64_t k, int64_t s)
{
    struct fe_conv c = fe_conv_of(l, c2, k, s);
    fe_child(l, conv);
    x = fe_conv2d(l, x, &c, false);
    fe_leave(l);
    return fe_has(l, yir_format(l->arena, "%s.weight", bn), true) ? fe_batchnorm(l, bn, x) : x;
}

static yir_ref basic_block(struct fe_lower *l, yir_ref x, int64_t c, int64_t s)
{
    yir_ref y = fe_unary(l, YIR_relu, named_conv(l, "conv1", "bn1", x, c, 3, s));
    y = named_conv(l, "conv2", "bn2", y, c, 3, 1);
    if (s != 1 || fe_channels(l, x) != c) x = named_conv(l, "downsample.0", "downsample.1", x, c, 1, s);
    return fe_unary(l, YIR_relu, fe_add(l, y, x));
}

yir_ref fe_low_torchvision(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_value *model = fe_arg(s, "model")->v;
    if (FE_BREAKS(RESNET_KIND, !model || model->kind != FE_STR || strcmp(model->s, "resnet18") != 0 ||
                                   fe_arg_int(s, "truncate") != 2 || !fe_arg_int(s, "unwrap")))
        return fe_fail(l, E_UNSUPPORTED, "TorchVision: only resnet18 without its last two layers is supported"), YIR_NONE;
    yir_ref *map = yir_alloc_n(l->arena, 9, sizeof *map), x; /* the input, and after each of the eight parts */
    struct fe_conv stem = fe_conv_of(l, 64, 7, 2);
    map[0] = s->in[0];
    fe_child(l, "m.0");
    map[1] = fe_conv2d(l, s->in[0], &stem, false);
    fe_leave(l);
    map[2] = fe_has(l, "m.1.weight", true) ? fe_batchnorm(l, "m.1", map[1]) : map[1];
    map[3] = fe_unary(l, YIR_relu, map[2]);
    x = map[4] = fe_maxpool(l, map[3], 3, 2, 1);
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < 2; i++) {
            fe_child(l, yir_format(l->arena, "m.%d.%d", 4 + stage, i));
            x = basic_block(l, x, INT64_C(64) << stage, stage && !i ? 2 : 1);
            fe_leave(l);
        }
        map[5 + stage] = x;
    }
    if (fe_arg_int(s, "split") && yir_kind(x) != YIR_NIL) fe_add_parts(l, x, map, 9);
    return x;
}

/* One of the maps of a module that gives several. */
yir_ref fe_low_index(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_parts *p = fe_parts_of(l, s->in[0]);
    int64_t at = fe_arg_int(s, "index"), c2 = fe_arg_int(s, "c2");
    if (FE_BREAKS(INDEX_PARTS, !p)) return fe_fail(l, E_ARGS, "Index: the input is no list of maps"), YIR_NONE;
    if (FE_BREAKS(INDEX_AT, at >= p->n))
        return fe_fail(l, E_ARGS, "Index: the input has %d maps, none is number %lld", p->n, (long long)at), YIR_NONE;
    if (FE_BREAKS(INDEX_WIDTH, fe_channels(l, p->part[at]) != c2))
        return fe_fail(l, E_ARGS, "Index: the map has %lld channels, not %lld", (long long)fe_channels(l, p->part[at]),
                       (long long)c2),
               YIR_NONE;
    return p->part[at];
}

/* --- HGNetV2 ------------------------------------------------------------------------------------------------ */

/* One more row and column of zeros at the far ends. */
static yir_ref grow(struct fe_lower *l, yir_ref x)
{
    struct yir_a_pad a = {{0, 0, 1, 1}, 0};
    return fe_op(l, YIR_pad, &x, 1, &a);
}

yir_ref fe_low_hgstem(struct fe_lower *l, const struct fe_site *s)
{
    int64_t cm = fe_arg_int(s, "cm");
    struct fe_conv half = relu_conv(l, cm / 2, 2, 1), whole = relu_conv(l, cm, 2, 1);
    half.p[0] = half.p[1] = whole.p[0] = whole.p[1] = 0;
    yir_ref x = grow(l, fe_conv(l, "stem1", s->in[0], relu_conv(l, cm, 3, 2))), y[2];
    y[0] = fe_maxpool(l, x, 2, 1, 0);
    y[1] = grow(l, fe_conv(l, "stem2a", x, half));
    y[1] = fe_conv(l, "stem2b", y[1], whole);
    x = fe_conv(l, "stem3", fe_concat(l, y, 2, 1), relu_conv(l, cm, 3, 2));
    return fe_conv(l, "stem4", x, relu_conv(l, fe_arg_int(s, "c2"), 1, 1));
}

static yir_ref light_conv(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, struct fe_act act)
{
    struct fe_conv dw = fe_depthwise_of(l, c2, k, 1);
    dw.act = act;
    x = fe_conv(l, "conv1", x, fe_bare_of(l, c2, 1, 1));
    return fe_conv(l, "conv2", x, dw);
}

yir_ref fe_low_lightconv(struct fe_lower *l, const struct fe_site *s)
{
    return light_conv(l, s->in[0], fe_arg_int(s, "c2"), fe_arg_int(s, "k"), fe_arg(s, "act")->act);
}

yir_ref fe_low_hgblock(struct fe_lower *l, const struct fe_site *s)
{
    int64_t cm = fe_arg_int(s, "cm"), c2 = fe_arg_int(s, "c2"), k = fe_arg_int(s, "k");
    yir_ref *y = yir_alloc_n(l->arena, (size_t)s->n + 1, sizeof *y);
    y[0] = s->in[0];
    for (int64_t i = 0; i < s->n; i++) {
        struct fe_conv c = relu_conv(l, cm, k, 1);
        fe_child(l, fe_indexed(l, "m", i));
        y[i + 1] = fe_arg_int(s, "light") ? light_conv(l, y[i], cm, k, relu) : fe_conv_here(l, y[i], &c);
        fe_leave(l);
    }
    yir_ref x = fe_conv(l, "sc", fe_concat(l, y, (int)s->n + 1, 1), relu_conv(l, c2 / 2, 1, 1));
    x = fe_conv(l, "ec", x, relu_conv(l, c2, 1, 1));
    bool add = fe_int(l, "add", 0, fe_arg_int(s, "shortcut") && s->c1 == c2) != 0;
    return add ? fe_add(l, x, y[0]) : x;
}
