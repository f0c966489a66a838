#include "blocks.h"

#include <math.h>

#include "check.h"

/* The convolution that a row's arguments k, s, act and, where its schema has them, p, g and d describe. */
static struct fe_conv conv_of_row(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv c = fe_conv_of(l, fe_arg_int(s, "c2"), 1, 1);
    for (int i = 0; i < 2; i++) {
        c.k[i] = fe_arg(s, "k")->i[i];
        c.s[i] = fe_arg(s, "s")->i[i];
    }
    c.act = fe_arg(s, "act")->act;
    return c;
}

static void set_padding(struct fe_conv *c, const struct fe_arg *p)
{
    for (int i = 0; i < 2 && !p->none; i++)
        c->p[i] = p->i[i];
}

yir_ref fe_low_conv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv c = conv_of_row(l, s);
    set_padding(&c, fe_arg(s, "p"));
    c.g = fe_arg_int(s, "g");
    c.d = fe_arg_int(s, "d");
    return fe_conv_here(l, s->in[0], &c);
}

yir_ref fe_low_dwconv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv c = conv_of_row(l, s);
    c.g = FE_DEPTHWISE;
    c.d = fe_arg_int(s, "d");
    return fe_conv_here(l, s->in[0], &c);
}

yir_ref fe_low_focus(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv c = conv_of_row(l, s);
    set_padding(&c, fe_arg(s, "p"));
    c.g = fe_arg_int(s, "g");
    struct yir_a_factor two = {2};
    return fe_conv(l, "conv", fe_op(l, YIR_s2d, &s->in[0], 1, &two), c);
}

/* Half of the channels by a convolution, the other half from those by a cheap depthwise one. */
static yir_ref ghost_conv(struct fe_lower *l, yir_ref x, struct fe_conv c)
{
    struct fe_conv cheap = fe_conv_of(l, c.c2 / 2, 5, 1);
    cheap.g = FE_DEPTHWISE;
    cheap.act = c.act;
    c.c2 /= 2;
    yir_ref y[2];
    y[0] = fe_conv(l, "cv1", x, c);
    y[1] = fe_conv(l, "cv2", y[0], cheap);
    return fe_concat(l, y, 2, 1);
}

yir_ref fe_low_ghostconv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv c = conv_of_row(l, s);
    c.g = fe_arg_int(s, "g");
    return ghost_conv(l, s->in[0], c);
}

static yir_ref ghost_child(struct fe_lower *l, const char *child, yir_ref x, struct fe_conv c)
{
    fe_child(l, child);
    x = ghost_conv(l, x, c);
    fe_leave(l);
    return x;
}

yir_ref fe_ghost_bottleneck(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s)
{
    struct fe_conv first = fe_conv_of(l, c2 / 2, 1, 1), last = fe_conv_of(l, c2, 1, 1),
                   dw = fe_conv_of(l, c2 / 2, k, s);
    last.act = dw.act = fe_act_none;
    dw.g = FE_DEPTHWISE;
    yir_ref y = ghost_child(l, "conv.0", x, first);
    if (s == 2) y = fe_conv(l, "conv.1", y, dw);
    y = ghost_child(l, "conv.2", y, last);
    if (s == 2) {
        dw.c2 = fe_channels(l, x);
        x = fe_conv(l, "shortcut.0", x, dw);
        x = fe_conv(l, "shortcut.1", x, last);
    }
    return fe_add(l, y, x);
}

yir_ref fe_low_ghostbottleneck(struct fe_lower *l, const struct fe_site *s)
{
    return fe_ghost_bottleneck(l, s->in[0], fe_arg_int(s, "c2"), fe_arg_int(s, "k"), fe_arg_int(s, "s"));
}

yir_ref fe_cross_conv(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s, int64_t g, double e,
                      bool shortcut)
{
    struct fe_conv row = fe_conv_of(l, (int64_t)((double)c2 * e), k, s), column = fe_conv_of(l, c2, k, s);
    row.k[0] = row.s[0] = 1;
    column.k[1] = column.s[1] = 1;
    column.g = g;
    yir_ref y = fe_conv(l, "cv1", x, row);
    y = fe_conv(l, "cv2", y, column);
    bool add = fe_int(l, "add", 0, shortcut && fe_channels(l, x) == fe_channels(l, y)) != 0;
    return add ? fe_add(l, x, y) : y;
}

yir_ref fe_low_crossconv(struct fe_lower *l, const struct fe_site *s)
{
    return fe_cross_conv(l, s->in[0], fe_arg_int(s, "c2"), fe_arg_int(s, "k"), fe_arg_int(s, "s"),
                         fe_arg_int(s, "g"), fe_arg(s, "e")->f, fe_arg_int(s, "shortcut") != 0);
}

enum { MOST_KERNELS = 16, MOST_SIDE = 255 }; /* of a MixConv2d */

/* Channels of each kernel: as equal as can be in order, or so that all kernels have as many weights. */
static void mix_shares(const struct fe_arg *k, int64_t c2, bool equal, int64_t *share)
{
    double all = 0, n = (double)k->nlist;
    for (size_t i = 0; i < k->nlist; i++) {
        share[i] = 0;
        all += 1.0 / ((double)k->list[i] * (double)k->list[i]);
    }
    for (int64_t c = 0; equal && c < c2; c++)
        share[c2 > 1 ? (size_t)((double)c * (n - 1e-6) / (double)(c2 - 1)) : 0]++;
    for (size_t i = 0; !equal && i < k->nlist; i++)
        share[i] = (int64_t)rint((double)c2 / ((double)k->list[i] * (double)k->list[i] * all));
}

static bool mix_is_whole(const struct fe_arg *k, const int64_t *share, int64_t c2)
{
    int64_t sum = 0;
    bool some = true;
    for (size_t i = 0; i < k->nlist; sum += share[i++])
        some &= share[i] > 0;
    return some && sum == c2;
}

/* Convolutions of several sizes side by side, then normalisation and SiLU for all. */
yir_ref fe_low_mixconv(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *k = fe_arg(s, "k");
    int64_t share[MOST_KERNELS], c2 = fe_arg_int(s, "c2");
    yir_ref part[MOST_KERNELS];
    bool sizes = k->nlist >= 1 && k->nlist <= MOST_KERNELS;
    for (size_t i = 0; sizes && i < k->nlist; i++)
        sizes = k->list[i] >= 1 && k->list[i] <= MOST_SIDE;
    if (FE_BREAKS(MIXCONV_SIZES, !sizes))
        return fe_fail(l, E_ARGS, "MixConv2d: 1 to %d kernels of 1 to %d", MOST_KERNELS, MOST_SIDE), YIR_NONE;
    mix_shares(k, c2, fe_arg_int(s, "equal_ch") != 0, share);
    if (FE_BREAKS(MIXCONV_SHARES, !mix_is_whole(k, share, c2)))
        return fe_fail(l, E_ARGS, "MixConv2d: %lld channels can't be shared by %zu kernels", (long long)c2, k->nlist), YIR_NONE;
    for (size_t i = 0; i < k->nlist; i++) {
        struct fe_conv c = fe_bare_of(l, share[i], k->list[i], fe_arg_int(s, "s"));
        c.p[0] = c.p[1] = k->list[i] / 2;
        c.g = FE_DEPTHWISE;
        fe_child(l, fe_indexed(l, "m", (int64_t)i));
        part[i] = fe_conv2d(l, s->in[0], &c, false);
        fe_leave(l);
    }
    yir_ref x = fe_batchnorm(l, "bn", fe_concat(l, part, (int)k->nlist, 1));
    return fe_activate(l, x, (struct fe_act){YIR_silu, 0});
}

/* 1x1, then a depthwise convolution that makes the map smaller. */
yir_ref fe_low_scdown(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2");
    yir_ref x = fe_conv(l, "cv1", s->in[0], fe_conv_of(l, c2, 1, 1));
    return fe_conv(l, "cv2", x,
                   fe_depthwise_of(l, fe_channels(l, x), fe_arg_int(s, "k"), fe_arg_int(s, "s")));
}

/* --- larger maps
 * -------------------------------------------------------------------------------------------- */

/* pad: what the row calls its padding. */
static struct fe_deconv deconv_of_row(const struct fe_site *s, const char *pad)
{
    struct fe_deconv c = {.c2 = fe_arg_int(s, "c2"), .g = 1};
    for (int i = 0; i < 2; i++) {
        c.k[i] = fe_arg(s, "k")->i[i];
        c.s[i] = fe_arg(s, "s")->i[i];
        c.p[i] = fe_arg(s, pad)->i[i];
    }
    return c;
}

/* Without normalisation and activation, with bias: the class of torch. */
yir_ref fe_low_deconv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_deconv c = deconv_of_row(s, "p");
    for (int i = 0; i < 2; i++)
        c.grow[i] = fe_arg(s, "op")->i[i];
    c.g = fe_arg_int(s, "groups");
    if (FE_BREAKS(DECONV_SPREAD, fe_arg_int(s, "dilation") != 1))
        return fe_fail(l, E_UNSUPPORTED, "ConvTranspose2d: dilation is not supported"), YIR_NONE;
    return fe_deconv2d(l, s->in[0], &c, fe_has(l, "bias", fe_arg_int(s, "bias") != 0));
}

yir_ref fe_low_dwdeconv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_deconv c = deconv_of_row(s, "p1");
    for (int i = 0; i < 2; i++)
        c.grow[i] = fe_arg(s, "p2")->i[i];
    c.g = FE_DEPTHWISE;
    return fe_deconv2d(l, s->in[0], &c, true);
}

yir_ref fe_low_convtranspose(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_deconv c = deconv_of_row(s, "p");
    fe_child(l, "conv_transpose");
    yir_ref x = fe_deconv2d(l, s->in[0], &c, false);
    bool fused = l->data && fe_has(l, "bias", false);
    fe_leave(l);
    if (!fused && fe_arg_int(s, "bn")) x = fe_batchnorm(l, "bn", x);
    return fe_activate(l, x, fe_arg(s, "act")->act);
}
