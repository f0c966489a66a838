/* Modules with attention over the places of a map. */
#include "blocks.h"

#include <math.h>
#include <string.h>

#include "check.h"

/* Channels at .. at + count of each head's share, side by side. */
static yir_ref head_parts(struct fe_lower *l, yir_ref x, int64_t heads, int64_t at, int64_t count)
{
    int64_t share = fe_channels(l, x) / heads;
    yir_ref *part = yir_alloc_n(l->arena, (size_t)heads, sizeof *part);
    for (int64_t i = 0; i < heads; i++)
        part[i] = fe_slice(l, x, i * share + at, count);
    return fe_concat(l, part, (int)heads, 1);
}

/* What the attentions of the convolutional networks share: "qkv", whose channels are per head q, k (kd each) and v (hd);
 * attention within areas; "pe", a depthwise convolution of v, is added; "proj". */
struct attention {
    int64_t heads, kd, hd, areas, pe;
};

static yir_ref attend(struct fe_lower *l, yir_ref x, const struct attention *t)
{
    int64_t c = fe_channels(l, x);
    fe_order(l, "qkv,proj,pe");
    yir_ref qkv = fe_conv(l, "qkv", x, fe_bare_of(l, t->heads * (2 * t->kd + t->hd), 1, 1));
    if (yir_kind(qkv) == YIR_NIL) return YIR_NONE;
    struct yir_a_attn a = {.heads = (int32_t)t->heads, .dim = (int32_t)t->kd, .kat = (int32_t)t->kd,
                           .areas = (int32_t)t->areas, .scale = (float)(1 / sqrt((double)t->kd))};
    yir_ref s = fe_softmax(l, fe_op(l, YIR_attn_scores, (yir_ref[]){qkv, qkv}, 2, &a), 4);
    struct yir_a_mix mix = {(int32_t)t->hd, (int32_t)(2 * t->kd), (int32_t)t->areas};
    yir_ref y = fe_op(l, YIR_attn_mix, (yir_ref[]){s, qkv}, 2, &mix);
    yir_ref v = head_parts(l, qkv, t->heads, 2 * t->kd, t->hd);
    y = fe_add(l, y, fe_conv(l, "pe", v, fe_depthwise_of(l, t->heads * t->hd, t->pe, 1)));
    return fe_conv(l, "proj", y, fe_bare_of(l, c, 1, 1));
}

static int check_heads(struct fe_lower *l, int64_t c, int64_t heads)
{
    int most = yir_opinfo(YIR_concat)->hi;
    if (FE_HOLDS(PSA_HEADS, heads >= 1 && heads <= most && c % heads == 0 && c / heads >= 2)) return 0;
    return fe_fail(l, E_ARGS, "%s: %lld channels do not divide into %lld heads (at most %d)", l->at->path, (long long)c,
                   (long long)heads, most);
}

/* x + attn(x), then plus two convolutions of that. */
static yir_ref residual_pair(struct fe_lower *l, yir_ref x, const struct attention *t, const char *mlp, int64_t width)
{
    int64_t c = fe_channels(l, x);
    if (check_heads(l, c, t->heads)) return YIR_NONE;
    fe_child(l, "attn");
    yir_ref y = attend(l, x, t);
    fe_leave(l);
    x = fe_add(l, x, y);
    fe_child(l, mlp);
    y = fe_conv(l, "0", x, fe_conv_of(l, width, 1, 1));
    y = fe_conv(l, "1", y, fe_bare_of(l, c, 1, 1));
    fe_leave(l);
    return fe_add(l, x, y);
}

yir_ref fe_psa_block(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    (void)b;
    int64_t heads = c / 64 > 1 ? c / 64 : 1;
    struct attention t = {heads, c / heads / 2, c / heads, 1, 3};
    return residual_pair(l, x, &t, "ffn", 2 * c);
}

static yir_ref two_halves(struct fe_lower *l, const struct fe_site *s, int64_t n, bool numbered)
{
    int64_t h = fe_hidden(s->c1, fe_arg(s, "e")->f);
    yir_ref half[2];
    fe_order(l, "cv1,cv2");
    fe_split_cv1(l, s->in[0], h, half);
    half[1] = numbered ? fe_chain(l, half[1], n, fe_channels(l, half[1]), fe_psa_block, NULL)
                       : fe_psa_block(l, half[1], fe_channels(l, half[1]), NULL);
    return fe_conv(l, "cv2", fe_concat(l, half, 2, 1), fe_conv_of(l, s->c1, 1, 1));
}

static bool same_channels(struct fe_lower *l, const struct fe_site *s)
{
    if (FE_HOLDS(PSA_CHANNELS, s->c1 == fe_arg_int(s, "c2"))) return true;
    fe_fail(l, E_ARGS, "%s gives as many channels as it takes, %lld, not %lld", s->module->name, (long long)s->c1,
            (long long)fe_arg_int(s, "c2"));
    return false;
}

yir_ref fe_low_c2psa(struct fe_lower *l, const struct fe_site *s)
{
    return same_channels(l, s) ? two_halves(l, s, s->n, true) : YIR_NONE;
}

yir_ref fe_low_psa(struct fe_lower *l, const struct fe_site *s)
{
    return same_channels(l, s) ? two_halves(l, s, 1, false) : YIR_NONE;
}

yir_ref fe_low_c2fpsa(struct fe_lower *l, const struct fe_site *s)
{
    return fe_c2f(l, s, fe_arg(s, "e")->f, fe_psa_block, NULL);
}

/* --- C3k2: the wiring of C2f around bottlenecks, C3k or attention -------------------------------------------- */

static yir_ref bottleneck_and_psa(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    struct fe_inner half = *b;
    half.e = 0.5;
    fe_child(l, "0");
    x = fe_bottleneck(l, x, c, &half);
    fe_leave(l);
    fe_child(l, "1");
    x = fe_psa_block(l, x, c, NULL);
    fe_leave(l);
    return x;
}

static bool scale_is(const struct fe_lower *l, const char *letters)
{
    return l->scale[0] && !l->scale[1] && strchr(letters, l->scale[0]);
}

yir_ref fe_low_c3k2(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 3, 3, 0.5);
    bool attn = fe_arg_int(s, "attn") != 0, c3k = fe_arg_int(s, "c3k") || scale_is(l, "mlx");
    b.n = 2;
    l->legacy = false;
    attn = fe_has(l, "m.0.1.attn.qkv.conv.weight", attn);
    c3k = fe_has(l, "m.0.cv3.conv.weight", c3k);
    return fe_c2f(l, s, fe_arg(s, "e")->f, attn ? bottleneck_and_psa : c3k ? fe_c3k : fe_bottleneck, &b);
}

/* --- A2C2f -------------------------------------------------------------------------------------------------- */

static yir_ref area_pair(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    struct attention t = {c / 32, 32, 32, b->area < 1 ? 1 : b->area, 7};
    for (int i = 0; i < 2; i++) {
        fe_child(l, yir_format(l->arena, "%d", i));
        x = residual_pair(l, x, &t, "mlp", (int64_t)((double)c * b->ratio));
        fe_leave(l);
    }
    return x;
}

/* x + gamma * y, gamma by channel. */
static yir_ref layer_scale(struct fe_lower *l, yir_ref x, yir_ref y)
{
    int64_t c = fe_channels(l, y);
    struct yir_a_conv a = {.stride = {1, 1}, .dil = {1, 1}, .groups = (int32_t)c};
    yir_ref gamma = fe_weight_map(l, "gamma", &c, 1, 0);
    return fe_add(l, x, fe_op(l, YIR_conv2d, (yir_ref[]){y, gamma}, 2, &a));
}

yir_ref fe_low_a2c2f(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), h = fe_hidden(c2, fe_arg(s, "e")->f);
    const struct fe_arg *area = fe_arg(s, "area");
    bool large = scale_is(l, "lx"), a2 = fe_has(l, "m.0.0.attn.qkv.conv.weight", fe_arg_int(s, "a2") != 0);
    bool residual = fe_arg(s, "residual")->given ? fe_arg_int(s, "residual") != 0 : large;
    struct fe_inner b = {.k = {3, 3}, .e = 0.5, .shortcut = fe_arg_int(s, "shortcut") != 0, .g = fe_arg_int(s, "g"), .n = 2};
    b.ratio = fe_arg(s, "mlp_ratio")->given || !large ? fe_arg(s, "mlp_ratio")->f : 1.2;
    b.area = area->nlist == 1 ? area->list[0] : 1;
    l->legacy = false;
    if (FE_BREAKS(A2C2F_WIDTH, a2 && h % 32))
        return fe_fail(l, E_ARGS, "A2C2f: %lld channels inside are no multiple of 32", (long long)h), YIR_NONE;
    fe_order(l, "cv1,cv2,m");
    residual = a2 && fe_has(l, "gamma", residual);
    yir_ref *y = yir_alloc_n(l->arena, (size_t)s->n + 1, sizeof *y);
    y[0] = fe_conv(l, "cv1", s->in[0], fe_conv_of(l, h, 1, 1));
    for (int64_t i = 0; i < s->n; i++) {
        fe_child(l, fe_indexed(l, "m", i));
        y[i + 1] = a2 ? area_pair(l, y[i], h, &b) : fe_c3k(l, y[i], h, &b);
        fe_leave(l);
    }
    yir_ref out = fe_conv(l, "cv2", fe_concat(l, y, (int)s->n + 1, 1), fe_conv_of(l, c2, 1, 1));
    return residual ? layer_scale(l, s->in[0], out) : out;
}

/* --- transformers ------------------------------------------------------------------------------------------- */

/* Attention and two matrices, each beside its input; no normalisation and no activation. */
static yir_ref transformer_layer(struct fe_lower *l, yir_ref x, int64_t heads)
{
    int64_t c = fe_channels(l, x);
    yir_ref q = fe_linear(l, "q", x, c, false);
    yir_ref k = fe_linear(l, "k", x, c, false);
    yir_ref v = fe_linear(l, "v", x, c, false);
    x = fe_add(l, fe_multihead(l, "ma", q, k, v, heads), x);
    yir_ref y = fe_linear(l, "fc1", x, c, false);
    return fe_add(l, fe_linear(l, "fc2", y, c, false), x);
}

yir_ref fe_low_c3tr(struct fe_lower *l, const struct fe_site *s)
{
    enum { HEADS = 4 };
    int64_t c2 = fe_arg_int(s, "c2"), h = fe_hidden(c2, fe_arg(s, "e")->f);
    fe_order(l, "cv1,cv2,cv3");
    yir_ref y[2] = {fe_conv(l, "cv1", s->in[0], fe_conv_of(l, h, 1, 1))};
    fe_child(l, "m");
    y[0] = fe_add(l, y[0], fe_linear(l, "linear", y[0], fe_channels(l, y[0]), true));
    for (int64_t i = 0; i < s->n; i++) {
        fe_child(l, fe_indexed(l, "tr", i));
        y[0] = transformer_layer(l, y[0], HEADS);
        fe_leave(l);
    }
    fe_leave(l);
    y[1] = fe_conv(l, "cv2", s->in[0], fe_conv_of(l, h, 1, 1));
    return fe_conv(l, "cv3", fe_concat(l, y, 2, 1), fe_conv_of(l, c2, 1, 1));
}

/* Frequencies of the code of a place: 10000^(-i/n). */
static yir_ref frequencies(struct fe_lower *l, int64_t n)
{
    float *w = yir_alloc_n(l->arena, (size_t)n, sizeof *w);
    for (int64_t i = 0; i < n; i++)
        w[i] = (float)pow(10000.0, -(double)i / (double)n);
    return fe_constant(l, "frequencies", &n, 1, w);
}

yir_ref fe_low_aifi(struct fe_lower *l, const struct fe_site *s)
{
    yir_ref x = s->in[0];
    int64_t c = s->c1;
    if (FE_BREAKS(AIFI_WIDTH, c % 4)) return fe_fail(l, E_ARGS, "AIFI: %lld channels are not four equal parts", (long long)c), YIR_NONE;
    yir_ref placed = fe_op(l, YIR_posenc, (yir_ref[]){x, frequencies(l, c / 4)}, 2, NULL);
    yir_ref y = fe_multihead(l, "ma", placed, placed, x, fe_arg_int(s, "heads"));
    fe_order(l, "fc1,fc2,norm1,norm2");
    x = fe_layernorm(l, "norm1", fe_add(l, x, y));
    y = fe_unary(l, YIR_gelu, fe_linear(l, "fc1", x, fe_arg_int(s, "cm"), true));
    y = fe_linear(l, "fc2", y, c, true);
    return fe_layernorm(l, "norm2", fe_add(l, x, y));
}

/* --- attention to texts ------------------------------------------------------------------------------------- */

/* Each place weighs its channels, a head's together, by how near it is to the nearest text. */
static yir_ref attend_to_text(struct fe_lower *l, yir_ref x, int64_t ec, int64_t heads)
{
    int64_t c = fe_channels(l, x), hc = c / heads;
    fe_child(l, "attn");
    yir_ref bias = fe_weight(l, "bias", &heads, 1, 0);
    yir_ref guide = fe_linear(l, "gl", yir_kind(l->text_now) == YIR_NIL ? fe_text(l, 512) : l->text_now, ec, true);
    struct yir_a_attn a = {.heads = (int32_t)heads, .dim = (int32_t)hc, .areas = 1, .scale = (float)(1 / sqrt((double)hc))};
    yir_ref w = fe_op(l, YIR_attn_peak, (yir_ref[]){x, guide}, 2, &a);
    float *one = yir_alloc_n(l->arena, (size_t)heads, sizeof *one);
    for (int64_t i = 0; i < heads; i++)
        one[i] = 1;
    struct yir_a_conv each = {.stride = {1, 1}, .dil = {1, 1}, .groups = (int32_t)heads};
    yir_ref ones = fe_constant(l, "ones", (int64_t[]){heads, 1, 1, 1}, 4, one);
    w = fe_op(l, YIR_conv2d, (yir_ref[]){w, ones, bias}, 3, &each);
    w = fe_unary(l, YIR_sigmoid, w);
    x = fe_conv(l, "proj_conv", x, fe_bare_of(l, c, 3, 1));
    fe_leave(l);
    return fe_op(l, YIR_gate, (yir_ref[]){x, w}, 2, NULL);
}

/* The wiring of C2f with the attention to texts as the last part. */
yir_ref fe_low_c2fattn(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), h = fe_hidden(c2, 0.5);
    double cap = rint(fmin((double)fe_arg_int(s, "nh"), l->max_channels / 2 / 32));
    int64_t heads = (int64_t)fmax(cap * l->width, 1);
    struct fe_inner b = {.k = {3, 3}, .e = 1, .shortcut = fe_arg_int(s, "shortcut") != 0, .g = fe_arg_int(s, "g")};
    if (FE_BREAKS(C2FATTN_HEADS, h % heads))
        return fe_fail(l, E_ARGS, "C2fAttn: %lld channels do not divide into %lld heads", (long long)h, (long long)heads),
               YIR_NONE;
    yir_ref *y = yir_alloc_n(l->arena, (size_t)s->n + 3, sizeof *y);
    fe_order(l, "cv1,cv2");
    fe_split_cv1(l, s->in[0], h, y);
    for (int64_t i = 0; i < s->n; i++) {
        fe_child(l, fe_indexed(l, "m", i));
        y[i + 2] = fe_bottleneck(l, y[i + 1], fe_channels(l, y[i + 1]), &b);
        fe_leave(l);
    }
    y[s->n + 2] = attend_to_text(l, y[s->n + 1], h, heads);
    return fe_conv(l, "cv2", fe_concat(l, y, (int)s->n + 3, 1), fe_conv_of(l, c2, 1, 1));
}

/* Layer normalisation and a matrix: children 0 and 1. */
static yir_ref normed_linear(struct fe_lower *l, const char *child, yir_ref x, int64_t c2)
{
    fe_child(l, child);
    x = fe_layernorm(l, "0", x);
    x = fe_linear(l, "1", x, c2, true);
    fe_leave(l);
    return x;
}

/* Texts attend to what the levels show; later modules see the result in place of the texts. */
yir_ref fe_low_imagepool(struct fe_lower *l, const struct fe_site *s)
{
    enum { BINS = 3, HEADS = 8 };
    int64_t ec = fe_arg_int(s, "ec");
    yir_ref text = fe_text(l, 512), *part = yir_alloc_n(l->arena, (size_t)s->nin, sizeof *part);
    if (FE_BREAKS(IMAGEPOOL_WIDTH, ec % HEADS)) return fe_fail(l, E_ARGS, "ImagePoolingAttn: %lld is no multiple of 8", (long long)ec), YIR_NONE;
    fe_order(l, "query,key,value,proj");
    for (int i = 0; i < s->nin; i++) {
        struct fe_conv c = fe_conv_of(l, ec, 1, 1);
        fe_child(l, fe_indexed(l, "projections", i));
        part[i] = fe_conv2d(l, s->in[i], &c, true);
        fe_leave(l);
        struct yir_a_count bins = {BINS};
        part[i] = fe_op(l, YIR_maxbins, &part[i], 1, &bins);
        part[i] = fe_unary(l, YIR_tokens, part[i]);
    }
    yir_ref seen = fe_concat(l, part, s->nin, 2);
    yir_ref q = normed_linear(l, "query", text, ec);
    yir_ref k = normed_linear(l, "key", seen, ec);
    yir_ref v = normed_linear(l, "value", seen, ec);
    int32_t dim = (int32_t)(ec / HEADS);
    struct yir_a_attn a = {.heads = HEADS, .dim = dim, .areas = 1, .scale = (float)(1 / sqrt((double)dim))};
    yir_ref w = fe_softmax(l, fe_op(l, YIR_attn_scores, (yir_ref[]){q, k}, 2, &a), 4);
    struct yir_a_mix mix = {.dim = dim, .areas = 1};
    yir_ref y = fe_op(l, YIR_attn_mix, (yir_ref[]){w, v}, 2, &mix);
    y = fe_linear(l, "proj", y, fe_channels(l, text), true);
    l->text_now = fe_add(l, text, y);
    return fe_unary(l, YIR_rows, l->text_now);
}
