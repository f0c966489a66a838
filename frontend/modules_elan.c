/* Modules with several kernels side by side that training merges, and those built from them (YOLOv9, v10, RT-DETR). */
#include "blocks.h"

#include "check.h"

/* act(3x3 + 1x1), and the map itself normalised where the weights have that, or without weights where `bn` says so; after training
 * one 3x3 with bias. */
static yir_ref rep_conv(struct fe_lower *l, yir_ref x, int64_t c2, int64_t s, int64_t g, bool bn, struct fe_act act)
{
    struct fe_conv large = fe_bare_of(l, c2, 3, s), small = fe_bare_of(l, c2, 1, s);
    large.g = small.g = g;
    yir_ref y;
    if (fe_has(l, "conv.weight", false)) {
        fe_child(l, "conv");
        y = fe_conv2d(l, x, &large, true);
        fe_leave(l);
    } else {
        bn = fe_has(l, "bn.weight", bn && s == 1 && c2 == fe_channels(l, x));
        if (bn) fe_order(l, "bn");
        y = fe_conv(l, "conv1", x, large);
        y = fe_add(l, y, fe_conv(l, "conv2", x, small));
        if (bn) y = fe_add(l, y, fe_batchnorm(l, "bn", x));
    }
    return fe_activate(l, y, act);
}

yir_ref fe_low_repconv(struct fe_lower *l, const struct fe_site *s)
{
    int64_t k = fe_arg_int(s, "k"), p = fe_arg_int(s, "p");
    if (FE_BREAKS(REPCONV_KERNEL, k != 3 || p != 1))
        return fe_fail(l, E_ARGS, "RepConv has a kernel of 3 and a padding of 1, not of %lld and %lld", (long long)k, (long long)p),
               YIR_NONE;
    return rep_conv(l, s->in[0], fe_arg_int(s, "c2"), fe_arg_int(s, "s"), fe_arg_int(s, "g"), fe_arg_int(s, "bn") != 0,
                    fe_arg(s, "act")->act);
}

static yir_ref rep_block(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    (void)b;
    return rep_conv(l, x, c, 1, 1, false, l->act);
}

yir_ref fe_low_repc3(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), h = fe_hidden(c2, fe_arg(s, "e")->f);
    fe_order(l, "cv1,cv2");
    yir_ref a = fe_conv(l, "cv1", s->in[0], fe_conv_of(l, h, 1, 1));
    a = fe_chain(l, a, s->n, fe_channels(l, a), rep_block, NULL);
    yir_ref y = fe_add(l, a, fe_conv(l, "cv2", s->in[0], fe_conv_of(l, h, 1, 1)));
    return fe_has(l, "cv3.conv.weight", h != c2) ? fe_conv(l, "cv3", y, fe_conv_of(l, c2, 1, 1)) : y;
}

/* A bottleneck whose first convolution is a RepConv. */
static yir_ref rep_bottleneck(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    (void)b;
    fe_child(l, "cv1");
    yir_ref y = rep_conv(l, x, c, 1, 1, false, l->act);
    fe_leave(l);
    y = fe_conv(l, "cv2", y, fe_conv_of(l, c, 3, 1));
    bool add = fe_int(l, "add", 0, 1) != 0;
    return add ? fe_add(l, x, y) : y;
}

/* "cv2" or "cv3": a C3 of RepConv bottlenecks, then a 3x3; or in ELAN1 a 3x3 alone. */
static yir_ref elan_branch(struct fe_lower *l, const char *child, yir_ref x, int64_t c4, int64_t n, bool rep)
{
    if (!rep) return fe_conv(l, child, x, fe_conv_of(l, c4, 3, 1));
    fe_child(l, child);
    fe_child(l, "0");
    x = fe_c3(l, x, c4, n, 0.5, rep_bottleneck, NULL);
    fe_leave(l);
    x = fe_conv(l, "1", x, fe_conv_of(l, c4, 3, 1));
    fe_leave(l);
    return x;
}

static yir_ref lower_elan(struct fe_lower *l, const struct fe_site *s, int64_t n, bool rep)
{
    int64_t c3 = fe_arg_int(s, "c3"), c4 = fe_arg_int(s, "c4");
    yir_ref y[4];
    fe_split_cv1(l, s->in[0], c3 / 2, y);
    y[2] = elan_branch(l, "cv2", y[1], c4, n, rep);
    y[3] = elan_branch(l, "cv3", y[2], c4, n, rep);
    return fe_conv(l, "cv4", fe_concat(l, y, 4, 1), fe_conv_of(l, fe_arg_int(s, "c2"), 1, 1));
}

yir_ref fe_low_repelan(struct fe_lower *l, const struct fe_site *s)
{
    return lower_elan(l, s, fe_arg_int(s, "n"), true);
}

yir_ref fe_low_elan1(struct fe_lower *l, const struct fe_site *s)
{
    return lower_elan(l, s, 1, false);
}

/* --- C2fCIB ------------------------------------------------------------------------------------------------- */

/* SiLU(7x7 + 3x3), both depthwise; after training one 7x7 with bias. */
static yir_ref rep_vgg(struct fe_lower *l, const char *child, yir_ref x, int64_t c)
{
    struct fe_conv large = fe_depthwise_of(l, c, 7, 1);
    yir_ref y;
    fe_child(l, child);
    if (fe_has(l, "conv.weight", false)) {
        fe_child(l, "conv");
        y = fe_conv2d(l, x, &large, true);
        fe_leave(l);
    } else {
        y = fe_conv(l, "conv", x, large);
        y = fe_add(l, y, fe_conv(l, "conv1", x, fe_depthwise_of(l, c, 3, 1)));
    }
    y = fe_activate(l, y, (struct fe_act){YIR_silu, 0});
    fe_leave(l);
    return y;
}

static struct fe_conv active_depthwise(struct fe_lower *l, int64_t c)
{
    struct fe_conv dw = fe_depthwise_of(l, c, 3, 1);
    dw.act = l->act;
    return dw;
}

static yir_ref cib(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    int64_t wide = 2 * fe_hidden(c, b->e);
    fe_child(l, "cv1");
    yir_ref y = fe_conv(l, "0", x, active_depthwise(l, fe_channels(l, x)));
    y = fe_conv(l, "1", y, fe_conv_of(l, wide, 1, 1));
    wide = fe_channels(l, y);
    bool large = fe_has(l, "2.conv1.conv.weight", b->large) || fe_has(l, "2.conv.weight", false);
    y = large && !fe_has(l, "2.bn.weight", false) ? rep_vgg(l, "2", y, wide) : fe_conv(l, "2", y, active_depthwise(l, wide));
    y = fe_conv(l, "3", y, fe_conv_of(l, c, 1, 1));
    y = fe_conv(l, "4", y, active_depthwise(l, c));
    fe_leave(l);
    bool add = fe_int(l, "add", 0, b->shortcut && fe_channels(l, x) == c) != 0;
    return add ? fe_add(l, x, y) : y;
}

yir_ref fe_low_c2fcib(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 3, 3, 1.0);
    b.large = fe_arg_int(s, "lk") != 0;
    l->legacy = false;
    return fe_c2f(l, s, fe_arg(s, "e")->f, cib, &b);
}

/* --- routing of YOLOv9 -------------------------------------------------------------------------------------- */

/* One convolution, cut into values of the widths given. */
yir_ref fe_low_cblinear(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *w = fe_arg(s, "c2s");
    int64_t total = 0, at = 0, most = (int64_t)yir_limits_of(l->diags)->max_channels;
    for (size_t i = 0; i < w->nlist; i++) {
        if (FE_BREAKS(CBLINEAR_WIDTHS, w->list[i] < 1 || w->list[i] > most || total > most))
            return fe_fail(l, E_ARGS, "CBLinear: the widths must be 1 to %lld", (long long)most), YIR_NONE;
        total += w->list[i];
    }
    struct fe_conv c = fe_conv_of(l, total, fe_arg_int(s, "k"), fe_arg_int(s, "s"));
    if (FE_BREAKS(CBLINEAR_LIST, !w->nlist)) return fe_fail(l, E_ARGS, "CBLinear needs a list of widths"), YIR_NONE;
    fe_child(l, "conv");
    yir_ref x = fe_conv2d(l, s->in[0], &c, true);
    fe_leave(l);
    yir_ref *part = yir_alloc_n(l->arena, w->nlist, sizeof *part);
    for (size_t i = 0; i < w->nlist; at += w->list[i++])
        part[i] = fe_slice(l, x, at, w->list[i]);
    if (yir_kind(x) != YIR_NIL) fe_add_parts(l, x, part, (int)w->nlist);
    return x;
}

/* The last input plus one part of each of the others, brought to its size. */
yir_ref fe_low_cbfuse(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *idx = fe_arg(s, "idx");
    if (FE_BREAKS(CBFUSE_COUNT, idx->nlist != (size_t)s->nin - 1))
        return fe_fail(l, E_ARGS, "CBFuse: %zu indexes for %d inputs before the last", idx->nlist, s->nin - 1), YIR_NONE;
    yir_ref like = s->in[s->nin - 1], sum = YIR_NONE;
    for (int i = 0; i < s->nin - 1; i++) {
        const struct fe_parts *p = fe_parts_of(l, s->in[i]);
        if (FE_BREAKS(CBFUSE_PARTS, !p)) return fe_fail(l, E_ARGS, "CBFuse: input %d is no CBLinear", i), YIR_NONE;
        if (FE_BREAKS(CBFUSE_INDEX, idx->list[i] < 0 || idx->list[i] >= p->n))
            return fe_fail(l, E_ARGS, "CBFuse: input %d has no part %lld", i, (long long)idx->list[i]), YIR_NONE;
        yir_ref x = fe_op(l, YIR_nearest, (yir_ref[]){p->part[idx->list[i]], like}, 2, NULL);
        sum = i ? fe_add(l, sum, x) : x;
    }
    return yir_kind(sum) == YIR_NIL ? like : fe_add(l, sum, like);
}
