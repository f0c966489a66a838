#include "blocks.h"

#include "check.h"

/* Hidden width; never 0, however small e is. A width that no weight can have is refused with its weights. */
int64_t fe_hidden(int64_t c2, double e)
{
    double h = (double)c2 * e;
    return h < 1 ? 1 : h < YIR_MAX_DIM ? (int64_t)h : YIR_MAX_DIM;
}

yir_ref fe_bottleneck(struct fe_lower *l, yir_ref x, int64_t c2, const struct fe_inner *b)
{
    struct fe_conv second = fe_conv_of(l, c2, b->k[1], 1);
    second.g = b->g;
    yir_ref y = fe_conv(l, "cv1", x, fe_conv_of(l, fe_hidden(c2, b->e), b->k[0], 1));
    y = fe_conv(l, "cv2", y, second);
    bool add = fe_int(l, "add", 0, b->shortcut && fe_channels(l, x) == c2) != 0;
    return add ? fe_add(l, x, y) : y;
}

static yir_ref ghost(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    (void)b;
    return fe_ghost_bottleneck(l, x, c, 3, 1);
}

static yir_ref cross(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    return fe_cross_conv(l, x, c, 3, 1, b->g, 1.0, b->shortcut);
}

static yir_ref conv3(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    (void)b;
    struct fe_conv conv = fe_conv_of(l, c, 3, 1);
    return fe_conv_here(l, x, &conv);
}

/* n blocks "m.0", "m.1" ... one after the other. */
yir_ref fe_chain(struct fe_lower *l, yir_ref x, int64_t n, int64_t c, fe_block_fn block,
                     const struct fe_inner *b)
{
    for (int64_t i = 0; i < n && yir_kind(x) != YIR_NIL; i++) {
        fe_child(l, fe_indexed(l, "m", i));
        x = block(l, x, c, b);
        fe_leave(l);
    }
    return x;
}

struct fe_inner fe_inner_of_row(const struct fe_site *s, int64_t k0, int64_t k1, double e)
{
    return (struct fe_inner){
        .k = {k0, k1}, .e = e, .shortcut = fe_arg_int(s, "shortcut") != 0, .g = fe_arg_int(s, "g")};
}

/* --- bottlenecks as rows
 * ------------------------------------------------------------------------------------ */

yir_ref fe_low_bottleneck_ul(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *k = fe_arg(s, "k");
    if (FE_BREAKS(BOTTLENECK_PAIR, k->nlist != 2) ||
        FE_BREAKS(BOTTLENECK_KERNELS,
                  k->list[0] < 1 || k->list[1] < 1 || k->list[0] > 255 || k->list[1] > 255))
        return fe_fail(l, E_ARGS, "Bottleneck: k must be a pair of kernel sizes"), YIR_NONE;
    struct fe_inner b = fe_inner_of_row(s, k->list[0], k->list[1], fe_arg(s, "e")->f);
    return fe_bottleneck(l, s->in[0], fe_arg_int(s, "c2"), &b);
}

yir_ref fe_low_bottleneck_y5(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 1, 3, fe_arg(s, "e")->f);
    return fe_bottleneck(l, s->in[0], fe_arg_int(s, "c2"), &b);
}

/* Inverted: six times as wide inside, the last convolution has an activation too. */
yir_ref fe_low_bottleneck3(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2");
    yir_ref x = s->in[0], y = fe_conv(l, "cv1", x, fe_conv_of(l, 6 * c2, 1, 1));
    struct fe_conv dw = fe_conv_of(l, fe_channels(l, y), 3, 1);
    dw.g = FE_DEPTHWISE;
    y = fe_conv(l, "cv2", y, dw);
    y = fe_conv(l, "cv3", y, fe_conv_of(l, c2, 1, 1));
    bool add = fe_int(l, "add", 0, fe_channels(l, x) == c2) != 0;
    return add ? fe_add(l, x, y) : y;
}

/* --- two branches, one with a chain
 * ------------------------------------------------------------------------- */

yir_ref fe_c3(struct fe_lower *l, yir_ref x, int64_t c2, int64_t n, double e, fe_block_fn block,
              const struct fe_inner *b)
{
    int64_t h = fe_hidden(c2, e);
    fe_order(l, "cv1,cv2,cv3");
    yir_ref y[2] = {fe_conv(l, "cv1", x, fe_conv_of(l, h, 1, 1))};
    y[0] = fe_chain(l, y[0], n, fe_channels(l, y[0]), block, b);
    y[1] = fe_conv(l, "cv2", x, fe_conv_of(l, h, 1, 1));
    return fe_conv(l, "cv3", fe_concat(l, y, 2, 1), fe_conv_of(l, c2, 1, 1));
}

static yir_ref lower_c3(struct fe_lower *l, const struct fe_site *s, fe_block_fn block, const struct fe_inner *b)
{
    return fe_c3(l, s->in[0], fe_arg_int(s, "c2"), s->n, fe_arg(s, "e")->f, block, b);
}

yir_ref fe_c3k(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    struct fe_inner inner = {.k = {3, 3}, .e = 1.0, .shortcut = b->shortcut, .g = b->g};
    return fe_c3(l, x, c, b->n, 0.5, fe_bottleneck, &inner);
}

yir_ref fe_low_c3(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 1, 3, 1.0);
    return lower_c3(l, s, fe_bottleneck, &b);
}

yir_ref fe_low_c3x(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 1, 3, 1.0);
    return lower_c3(l, s, cross, &b);
}

yir_ref fe_low_c3ghost(struct fe_lower *l, const struct fe_site *s)
{
    return lower_c3(l, s, ghost, NULL);
}

yir_ref fe_low_c3spp(struct fe_lower *l, const struct fe_site *s)
{
    static const char *names[2] = {"cv1", "cv2"};
    const struct fe_arg *k = fe_arg(s, "k");
    int64_t c2 = fe_arg_int(s, "c2"), h = fe_hidden(c2, fe_arg(s, "e")->f);
    fe_order(l, "cv1,cv2,cv3");
    yir_ref y[2] = {fe_conv(l, "cv1", s->in[0], fe_conv_of(l, h, 1, 1))};
    fe_child(l, "m");
    y[0] = fe_spp(l, y[0], h, k->list, k->nlist, names);
    fe_leave(l);
    y[1] = fe_conv(l, "cv2", s->in[0], fe_conv_of(l, h, 1, 1));
    return fe_conv(l, "cv3", fe_concat(l, y, 2, 1), fe_conv_of(l, c2, 1, 1));
}

/* Both branches end in a bare convolution; they share a batch normalisation and a SiLU of their own. */
yir_ref fe_low_bottleneckcsp(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), h = fe_hidden(c2, fe_arg(s, "e")->f);
    struct fe_conv bare = fe_conv_of(l, h, 1, 1);
    struct fe_inner b = fe_inner_of_row(s, 1, 3, 1.0);
    if (l->dialect == FE_UL) b.k[0] = 3;
    fe_order(l, "cv1,cv2,cv3,cv4,bn");
    yir_ref y[2] = {fe_conv(l, "cv1", s->in[0], fe_conv_of(l, h, 1, 1))};
    y[0] = fe_chain(l, y[0], s->n, fe_channels(l, y[0]), fe_bottleneck, &b);
    fe_child(l, "cv3");
    y[0] = fe_conv2d(l, y[0], &bare, false);
    fe_leave(l);
    fe_child(l, "cv2");
    y[1] = fe_conv2d(l, s->in[0], &bare, false);
    fe_leave(l);
    yir_ref x = fe_batchnorm(l, "bn", fe_concat(l, y, 2, 1));
    x = fe_activate(l, x, (struct fe_act){YIR_silu, 0});
    return fe_conv(l, "cv4", x, fe_conv_of(l, c2, 1, 1));
}

/* --- one convolution, split in halves
 * ----------------------------------------------------------------------- */

/* "cv1" and its two halves; the first has the middle channel of an odd number. */
void fe_split_cv1(struct fe_lower *l, yir_ref x, int64_t h, yir_ref half[2])
{
    yir_ref y = fe_conv(l, "cv1", x, fe_conv_of(l, 2 * h, 1, 1));
    int64_t c = fe_channels(l, y), first = (c + 1) / 2;
    half[0] = fe_slice(l, y, 0, first);
    half[1] = fe_slice(l, y, first, c - first);
}

yir_ref fe_c2f(struct fe_lower *l, const struct fe_site *s, double e, fe_block_fn block, const struct fe_inner *b)
{
    int64_t c2 = fe_arg_int(s, "c2");
    yir_ref *y = yir_alloc_n(l->arena, (size_t)s->n + 2, sizeof *y);
    fe_order(l, "cv1,cv2");
    fe_split_cv1(l, s->in[0], fe_hidden(c2, e), y);
    for (int64_t i = 0; i < s->n; i++) {
        fe_child(l, fe_indexed(l, "m", i));
        y[i + 2] = block(l, y[i + 1], fe_channels(l, y[i + 1]), b);
        fe_leave(l);
    }
    return fe_conv(l, "cv2", fe_concat(l, y, (int)s->n + 2, 1), fe_conv_of(l, c2, 1, 1));
}

yir_ref fe_low_c2f(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 3, 3, 1.0);
    return fe_c2f(l, s, fe_arg(s, "e")->f, fe_bottleneck, &b);
}

yir_ref fe_low_c2(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2");
    struct fe_inner b = fe_inner_of_row(s, 3, 3, 1.0);
    yir_ref y[2];
    fe_order(l, "cv1,cv2");
    fe_split_cv1(l, s->in[0], fe_hidden(c2, fe_arg(s, "e")->f), y);
    y[0] = fe_chain(l, y[0], s->n, fe_channels(l, y[0]), fe_bottleneck, &b);
    return fe_conv(l, "cv2", fe_concat(l, y, 2, 1), fe_conv_of(l, c2, 1, 1));
}

yir_ref fe_low_c1(struct fe_lower *l, const struct fe_site *s)
{
    yir_ref y = fe_conv(l, "cv1", s->in[0], fe_conv_of(l, fe_arg_int(s, "c2"), 1, 1));
    return fe_add(l, y, fe_chain(l, y, s->n, fe_channels(l, y), conv3, NULL));
}
