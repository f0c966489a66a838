#include "blocks.h"

#include <math.h>
#include <string.h>

#include "check.h"

yir_ref fe_spp(struct fe_lower *l, yir_ref x, int64_t c2, const int64_t *k, size_t nk, const char *names[2])
{
    enum { MAX_POOLS = 16 };
    yir_ref y[1 + MAX_POOLS];
    if (FE_BREAKS(SPP_POOLS, nk > MAX_POOLS))
        return fe_fail(l, E_ARGS, "%s: more than %d pools", l->at->path, MAX_POOLS), YIR_NONE;
    int64_t half = fe_channels(l, x) / 2;
    y[0] = fe_conv(l, names[0], x, fe_conv_of(l, half ? half : 1, 1, 1));
    for (size_t i = 0; i < nk; i++) {
        if (FE_BREAKS(SPP_SIZE, k[i] < 1 || k[i] > 255 || k[i] % 2 == 0))
            return fe_fail(l, E_ARGS, "%s: a pool of size %lld does not keep the map's size", l->at->path,
                           (long long)k[i]),
                   YIR_NONE;
        y[1 + i] = fe_maxpool(l, y[0], k[i], 1, k[i] / 2);
    }
    return fe_conv(l, names[1], fe_concat(l, y, (int)nk + 1, 1), fe_conv_of(l, c2, 1, 1));
}

yir_ref fe_low_spp(struct fe_lower *l, const struct fe_site *s)
{
    static const char *names[2] = {"cv1", "cv2"};
    const struct fe_arg *k = fe_arg(s, "k");
    return fe_spp(l, s->in[0], fe_arg_int(s, "c2"), k->list, k->nlist, names);
}

/* Pools in a row. With more arguments than [c2, k], Ultralytics' first convolution has no activation. */
yir_ref fe_low_sppf(struct fe_lower *l, const struct fe_site *s)
{
    enum { MAX_POOLS = 16 };
    yir_ref x = s->in[0], y[1 + MAX_POOLS];
    int64_t c2 = fe_arg_int(s, "c2"), half = s->c1 / 2, n = fe_int(l, "n", 0, fe_arg_int(s, "n"));
    if (FE_BREAKS(SPPF_POOLS, n > MAX_POOLS))
        return fe_fail(l, E_ARGS, "SPPF: more than %d pools", MAX_POOLS), YIR_NONE;
    struct fe_conv first = fe_conv_of(l, half ? half : 1, 1, 1);
    if (l->dialect == FE_UL && s->written > 2) first.act = fe_act_none;
    fe_child(l, "m");
    int64_t k = fe_int(l, "kernel_size", 0, fe_arg_int(s, "k"));
    fe_leave(l);
    y[0] = fe_conv(l, "cv1", x, first);
    for (int64_t i = 0; i < n; i++)
        y[i + 1] = fe_maxpool(l, y[i], k, 1, k / 2);
    yir_ref out = fe_conv(l, "cv2", fe_concat(l, y, (int)n + 1, 1), fe_conv_of(l, c2, 1, 1));
    bool add = fe_int(l, "add", 0, fe_arg_int(s, "shortcut") && s->c1 == c2) != 0;
    return add ? fe_add(l, out, x) : out;
}

static yir_ref pool(struct fe_lower *l, const struct fe_site *s, enum yir_code code)
{
    const struct fe_arg *k = fe_arg(s, "kernel_size"), *step = fe_arg(s, "stride"), *p = fe_arg(s, "padding");
    struct yir_a_pool a = {0};
    for (int i = 0; i < 2; i++) {
        a.kernel[i] = (int32_t)fe_int(l, "kernel_size", i, k->i[i]);
        a.stride[i] = (int32_t)fe_int(l, "stride", i, step->none ? k->i[i] : step->i[i]);
        a.pad[i] = a.pad[i + 2] = (int32_t)fe_int(l, "padding", i, p->i[i]);
    }
    if (FE_BREAKS(POOL_CEIL, fe_int(l, "ceil_mode", 0, fe_arg_int(s, "ceil_mode"))))
        return fe_fail(l, E_UNSUPPORTED, "%s: ceil_mode is not supported", l->at->path), YIR_NONE;
    return fe_op(l, code, &s->in[0], 1, &a);
}

yir_ref fe_low_maxpool(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *d = fe_arg(s, "dilation");
    if (FE_BREAKS(POOL_DILATION, fe_int(l, "dilation", 0, d->i[0]) != 1 || fe_int(l, "dilation", 1, d->i[1]) != 1))
        return fe_fail(l, E_UNSUPPORTED, "MaxPool2d: dilation is not supported"), YIR_NONE;
    if (FE_BREAKS(POOL_INDICES, fe_int(l, "return_indices", 0, fe_arg_int(s, "return_indices"))))
        return fe_fail(l, E_UNSUPPORTED, "MaxPool2d: return_indices is not supported"), YIR_NONE;
    return pool(l, s, YIR_maxpool);
}

yir_ref fe_low_avgpool(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *divisor = fe_arg(s, "divisor_override"), *p = fe_arg(s, "padding");
    bool padded = fe_int(l, "padding", 0, p->i[0]) || fe_int(l, "padding", 1, p->i[1]);
    if (FE_BREAKS(POOL_DIVISOR, (divisor->v && divisor->v->kind != FE_NONE) || fe_int(l, "divisor_override", 0, 0)))
        return fe_fail(l, E_UNSUPPORTED, "AvgPool2d: divisor_override is not supported"), YIR_NONE;
    if (FE_BREAKS(POOL_COUNTED, padded && !fe_int(l, "count_include_pad", 0, fe_arg_int(s, "count_include_pad"))))
        return fe_fail(l, E_UNSUPPORTED, "AvgPool2d: padding counts as zeros; count_include_pad=False is not supported"), YIR_NONE;
    return pool(l, s, YIR_avgpool);
}

yir_ref fe_low_zeropad(struct fe_lower *l, const struct fe_site *s)
{
    static const int from[4] = {2, 0, 3, 1}; /* top, left, bottom, right of left, right, top, bottom */
    const struct fe_arg *p = fe_arg(s, "padding");
    if (FE_BREAKS(PAD_FIELDS, p->nlist != 1 && p->nlist != 4))
        return fe_fail(l, E_ARGS, "ZeroPad2d: padding is one integer or [left, right, top, bottom]"),
               YIR_NONE;
    struct yir_a_pad a = {.value = 0};
    for (int i = 0; i < 4; i++)
        a.pad[i] = (int32_t)fe_int(l, "padding", from[i], p->list[p->nlist == 4 ? from[i] : 0]);
    return fe_op(l, YIR_pad, &s->in[0], 1, &a);
}

yir_ref fe_low_upsample(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *size = fe_arg(s, "size"), *mode = fe_arg(s, "mode");
    const struct fe_value *pickled = fe_node_attr(l->at->node, "mode");
    const char *text = pickled && pickled->kind == FE_STR   ? pickled->s
                       : mode->v && mode->v->kind == FE_STR ? mode->v->s
                                                            : "nearest";
    if (FE_BREAKS(UPSAMPLE_SIZE, !size->none))
        return fe_fail(l, E_UNSUPPORTED, "Upsample: a fixed size is not supported, only a factor"), YIR_NONE;
    bool linear = strcmp(text, "bilinear") == 0;
    if (FE_BREAKS(UPSAMPLE_MODE, !linear && strcmp(text, "nearest") != 0))
        return fe_fail(l, E_UNSUPPORTED, "Upsample: the mode %s is not supported, only nearest and bilinear", text),
               YIR_NONE;
    double factor = fe_float(l, "scale_factor", (double)fe_arg_int(s, "scale_factor"));
    if (FE_BREAKS(UPSAMPLE_FACTOR, !(factor >= 1 && factor <= 64) || factor != floor(factor)))
        return fe_fail(l, E_UNSUPPORTED, "Upsample: the factor %g is not supported, only whole numbers from 1 to 64",
                       factor),
               YIR_NONE;
    if (linear) {
        const struct fe_value *corners = fe_node_attr(l->at->node, "align_corners");
        struct yir_a_resize r = {.factor = (int32_t)factor, .corners = (int32_t)fe_arg_int(s, "align_corners")};
        if (corners && corners->kind == FE_BOOL) r.corners = (int32_t)corners->i;
        return fe_op(l, YIR_bilinear, &s->in[0], 1, &r);
    }
    struct yir_a_factor a = {(int32_t)factor};
    return fe_op(l, YIR_upsample, &s->in[0], 1, &a);
}

yir_ref fe_low_concat(struct fe_lower *l, const struct fe_site *s)
{
    int64_t axis = fe_int(l, "d", 0, fe_arg_int(s, "dimension"));
    if (FE_BREAKS(CONCAT_AXIS, axis != 1))
        return fe_fail(l, E_UNSUPPORTED, "Concat: only channels (dimension 1) are joined, not dimension %lld",
                       (long long)axis),
               YIR_NONE;
    return fe_concat(l, s->in, s->nin, 1);
}

yir_ref fe_low_identity(struct fe_lower *l, const struct fe_site *s)
{
    (void)l;
    return s->in[0];
}

/* Space to depth with the row offset outermost, where s2d has the column offset there. */
yir_ref fe_low_contract(struct fe_lower *l, const struct fe_site *s)
{
    enum { MAX_GAIN = 8 };
    int64_t gain = fe_int(l, "gain", 0, fe_arg_int(s, "gain"));
    if (FE_BREAKS(CONTRACT_GAIN, gain < 1 || gain > MAX_GAIN))
        return fe_fail(l, E_ARGS, "Contract: the gain must be 1 to %d", MAX_GAIN), YIR_NONE;
    struct yir_a_factor a = {(int32_t)gain};
    yir_ref x = fe_op(l, YIR_s2d, &s->in[0], 1, &a), part[MAX_GAIN * MAX_GAIN];
    for (int64_t row = 0; row < gain; row++)
        for (int64_t col = 0; col < gain; col++)
            part[row * gain + col] = fe_slice(l, x, (col * gain + row) * s->c1, s->c1);
    return fe_concat(l, part, (int)(gain * gain), 1);
}

/* The inverse of Contract. */
yir_ref fe_low_expand(struct fe_lower *l, const struct fe_site *s)
{
    struct yir_a_factor a = {(int32_t)fe_int(l, "gain", 0, fe_arg_int(s, "gain"))};
    return fe_op(l, YIR_d2s, &s->in[0], 1, &a);
}

/* --- YOLOv9 ------------------------------------------------------------------------------------------------- */

static yir_ref mean_of_four(struct fe_lower *l, yir_ref x)
{
    struct yir_a_pool a = {.kernel = {2, 2}, .stride = {1, 1}};
    return fe_op(l, YIR_avgpool, &x, 1, &a);
}

static struct fe_conv halving(struct fe_lower *l, int64_t c2)
{
    struct fe_conv c = fe_conv_of(l, c2, 3, 2);
    c.p[0] = c.p[1] = 1;
    return c;
}

yir_ref fe_low_aconv(struct fe_lower *l, const struct fe_site *s)
{
    return fe_conv(l, "cv1", mean_of_four(l, s->in[0]), halving(l, fe_arg_int(s, "c2")));
}

/* Half of the channels by a convolution, the other half by a pool and a 1x1. */
yir_ref fe_low_adown(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), first = (s->c1 + 1) / 2;
    yir_ref x = mean_of_four(l, s->in[0]), y[2];
    y[0] = fe_conv(l, "cv1", fe_slice(l, x, 0, first), halving(l, c2 / 2));
    y[1] = fe_maxpool(l, fe_slice(l, x, first, s->c1 - first), 3, 2, 1);
    y[1] = fe_conv(l, "cv2", y[1], fe_conv_of(l, c2 / 2, 1, 1));
    return fe_concat(l, y, 2, 1);
}

/* "cv2" to "cv4" are the pools. */
yir_ref fe_low_sppelan(struct fe_lower *l, const struct fe_site *s)
{
    int64_t k = fe_arg_int(s, "k");
    yir_ref y[4] = {fe_conv(l, "cv1", s->in[0], fe_conv_of(l, fe_arg_int(s, "c3"), 1, 1))};
    for (int i = 0; i < 3; i++)
        y[i + 1] = fe_maxpool(l, y[i], k, 1, k / 2);
    return fe_conv(l, "cv5", fe_concat(l, y, 4, 1), fe_conv_of(l, fe_arg_int(s, "c2"), 1, 1));
}

yir_ref fe_low_batchnorm(struct fe_lower *l, const struct fe_site *s)
{
    return fe_batchnorm_here(l, s->in[0]);
}
