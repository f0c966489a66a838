#include "blocks.h"

#include <math.h>
#include <string.h>

#include "check.h"

const struct fe_act fe_act_none = {YIR_NOP, 0};

struct fe_conv fe_conv_of(struct fe_lower *l, int64_t c2, int64_t k, int64_t s)
{
    return (struct fe_conv){
        .c2 = c2, .k = {k, k}, .s = {s, s}, .p = {FE_AUTO, FE_AUTO}, .d = 1, .g = 1, .act = l->act};
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static int check_groups(struct fe_lower *l, int64_t c1, int64_t c2, int64_t g)
{
    const struct fe_value *mode = fe_node_attr(l->at->node, "padding_mode");
    if (FE_BREAKS(CONV_PADDING, mode && mode->kind == FE_STR && strcmp(mode->s, "zeros") != 0))
        return fe_fail(l, E_UNSUPPORTED, "%s: the padding mode %s is not supported", l->at->path, mode->s);
    if (FE_HOLDS(CONV_GROUPS, g > 0 && c1 % g == 0 && c2 % g == 0)) return 0;
    return fe_fail(l, E_ARGS, "%s: %lld channels in and %lld out do not divide into %lld groups", l->at->path,
                   (long long)c1, (long long)c2, (long long)g);
}

yir_ref fe_conv2d(struct fe_lower *l, yir_ref x, const struct fe_conv *c, bool bias)
{
    if (yir_kind(x) == YIR_NIL) return YIR_NONE;
    int64_t c1 = fe_channels(l, x), found[FE_MAX_RANK], c2 = c->c2;
    if (fe_shape(l, "weight", found) == 4) c2 = found[0];
    int64_t g = c->g == FE_DEPTHWISE ? gcd(c1, c2) : c->g;
    if (l->data) g = fe_int(l, "groups", 0, g);
    if (check_groups(l, c1, c2, g)) return YIR_NONE;
    int64_t dim[4] = {c->c2, c1 / g, c->k[0], c->k[1]};
    yir_ref src[3] = {x, fe_weight(l, "weight", dim, 4, FE_W_SOFT0 | FE_W_SOFT0 << 2 | FE_W_SOFT0 << 3)};
    if (yir_kind(src[1]) == YIR_NIL) return YIR_NONE;
    const int64_t *w = yir_desc(l->func, src[1])->dim;
    struct yir_a_conv a = {.groups = (int32_t)g};
    for (int i = 0; i < 2; i++) {
        int64_t d = fe_int(l, "dilation", i, c->d),
                p = c->p[i] == FE_AUTO ? (d * (w[2 + i] - 1) + 1) / 2 : c->p[i];
        a.dil[i] = (int32_t)d;
        a.stride[i] = (int32_t)fe_int(l, "stride", i, c->s[i]);
        a.pad[i] = a.pad[i + 2] = (int32_t)fe_int(l, "padding", i, p);
    }
    src[2] = fe_weight(l, "bias", w, 1, bias ? 0 : FE_W_OPTIONAL);
    if (bias && yir_kind(src[2]) == YIR_NIL) return YIR_NONE;
    return fe_op(l, YIR_conv2d, src, yir_kind(src[2]) == YIR_NIL ? 2 : 3, &a);
}

yir_ref fe_batchnorm_here(struct fe_lower *l, yir_ref x)
{
    if (yir_kind(x) == YIR_NIL) return YIR_NONE;
    int64_t c = fe_channels(l, x);
    struct yir_a_eps a = {(float)fe_float(l, "eps", l->eps)};
    yir_ref src[5] = {x};
    src[1] = fe_weight(l, "weight", &c, 1, 0);
    src[2] = fe_weight(l, "bias", &c, 1, 0);
    src[3] = fe_weight(l, "running_mean", &c, 1, FE_W_BUFFER);
    src[4] = fe_weight(l, "running_var", &c, 1, FE_W_BUFFER);
    fe_declare(l, "num_batches_tracked", NULL, 0, false);
    return fe_op(l, YIR_batchnorm, src, 5, &a);
}

yir_ref fe_batchnorm(struct fe_lower *l, const char *child, yir_ref x)
{
    fe_child(l, child);
    x = fe_batchnorm_here(l, x);
    fe_leave(l);
    return x;
}

yir_ref fe_activate(struct fe_lower *l, yir_ref x, struct fe_act act)
{
    fe_child(l, "act");
    const struct fe_node *n = l->at->node;
    fe_leave(l);
    /* One of a network is enough: the others have it too. */
    if (n && !l->failed && fe_act_node(l->diags, l->row, l->at->path, n, &act)) l->failed = true;
    if (act.op == YIR_NOP) return x;
    struct yir_a_slope slope = {act.slope};
    return fe_op(l, act.op, &x, 1, yir_opinfo(act.op)->nattr ? &slope : NULL);
}

yir_ref fe_conv_here(struct fe_lower *l, yir_ref x, const struct fe_conv *c)
{
    fe_child(l, "conv");
    bool fused = l->data && fe_has(l, "bias", false);
    x = fe_conv2d(l, x, c, false);
    fe_leave(l);
    if (!fused || fe_has(l, "bn.weight", true)) x = fe_batchnorm(l, "bn", x);
    return fe_activate(l, x, c->act);
}

yir_ref fe_conv(struct fe_lower *l, const char *child, yir_ref x, struct fe_conv c)
{
    fe_child(l, child);
    x = fe_conv_here(l, x, &c);
    fe_leave(l);
    return x;
}

yir_ref fe_add(struct fe_lower *l, yir_ref a, yir_ref b)
{
    return fe_op(l, YIR_add, (yir_ref[]){a, b}, 2, NULL);
}

yir_ref fe_concat(struct fe_lower *l, const yir_ref *x, int n, int axis)
{
    int most = yir_opinfo(YIR_concat)->hi;
    if (FE_BREAKS(CONCAT_INPUTS, n > most))
        return fe_fail(l, E_LIMIT, "%s: %d values to join; %d are the most", l->at->path, n, most), YIR_NONE;
    struct yir_a_axis a = {axis};
    return fe_op(l, YIR_concat, x, n, &a);
}

yir_ref fe_slice(struct fe_lower *l, yir_ref x, int64_t start, int64_t count)
{
    struct yir_a_slice a = {1, (int32_t)start, (int32_t)count};
    return fe_op(l, YIR_slice, &x, 1, &a);
}

yir_ref fe_slice_axis(struct fe_lower *l, yir_ref x, int axis, int64_t start, int64_t count)
{
    struct yir_a_slice a = {axis, (int32_t)start, (int32_t)count};
    return fe_op(l, YIR_slice, &x, 1, &a);
}

yir_ref fe_mul(struct fe_lower *l, yir_ref a, yir_ref b)
{
    return fe_op(l, YIR_mul, (yir_ref[]){a, b}, 2, NULL);
}

yir_ref fe_unary(struct fe_lower *l, enum yir_code c, yir_ref x)
{
    return fe_op(l, c, &x, 1, NULL);
}

yir_ref fe_affine(struct fe_lower *l, yir_ref x, double mul, double add)
{
    struct yir_a_affine a = {(float)mul, (float)add};
    return fe_op(l, YIR_affine, &x, 1, &a);
}

struct fe_conv fe_depthwise_of(struct fe_lower *l, int64_t c, int64_t k, int64_t s)
{
    struct fe_conv conv = fe_bare_of(l, c, k, s);
    conv.g = FE_DEPTHWISE;
    return conv;
}

struct fe_conv fe_bare_of(struct fe_lower *l, int64_t c2, int64_t k, int64_t s)
{
    struct fe_conv c = fe_conv_of(l, c2, k, s);
    c.act = fe_act_none;
    return c;
}

yir_ref fe_deconv2d(struct fe_lower *l, yir_ref x, const struct fe_deconv *c, bool bias)
{
    if (yir_kind(x) == YIR_NIL) return YIR_NONE;
    int64_t c1 = fe_channels(l, x), g = fe_int(l, "groups", 0, c->g == FE_DEPTHWISE ? gcd(c1, c->c2) : c->g);
    if (FE_BREAKS(DECONV_GROUPS, g < 1 || c->c2 % g))
        return fe_fail(l, E_ARGS, "%s: %lld channels do not divide into %lld groups", l->at->path, (long long)c->c2,
                       (long long)g),
               YIR_NONE;
    int64_t dim[4] = {c1, c->c2 / g, c->k[0], c->k[1]};
    yir_ref src[3] = {x, fe_weight(l, "weight", dim, 4, FE_W_SOFT0 << 1 | FE_W_SOFT0 << 2 | FE_W_SOFT0 << 3)};
    if (yir_kind(src[1]) == YIR_NIL) return YIR_NONE;
    struct yir_a_deconv a = {.groups = (int32_t)g};
    for (int i = 0; i < 2; i++) {
        a.stride[i] = (int32_t)fe_int(l, "stride", i, c->s[i]);
        a.pad[i] = (int32_t)fe_int(l, "padding", i, c->p[i]);
        a.grow[i] = (int32_t)fe_int(l, "output_padding", i, c->grow[i]);
        if (FE_BREAKS(DECONV_DILATION, fe_int(l, "dilation", i, 1) != 1))
            return fe_fail(l, E_UNSUPPORTED, "%s: a transposed convolution with dilation is not supported", l->at->path),
                   YIR_NONE;
    }
    int64_t outputs = yir_desc(l->func, src[1])->dim[1] * g;
    src[2] = fe_weight(l, "bias", &outputs, 1, bias ? 0 : FE_W_OPTIONAL);
    if (bias && yir_kind(src[2]) == YIR_NIL) return YIR_NONE;
    return fe_op(l, YIR_deconv2d, src, yir_kind(src[2]) == YIR_NIL ? 2 : 3, &a);
}

static void declare_batchnorm(struct fe_lower *l, const char *child, int64_t c)
{
    fe_child(l, child);
    fe_declare(l, "weight", &c, 1, true);
    fe_declare(l, "bias", &c, 1, true);
    fe_declare(l, "running_mean", &c, 1, false);
    fe_declare(l, "running_var", &c, 1, false);
    fe_declare(l, "num_batches_tracked", NULL, 0, false);
    fe_leave(l);
}

void fe_declare_conv(struct fe_lower *l, const char *child, int64_t c1, int64_t c2, int64_t k)
{
    fe_child(l, child);
    fe_child(l, "conv");
    fe_declare(l, "weight", (int64_t[]){c2, c1, k, k}, 4, true);
    fe_leave(l);
    declare_batchnorm(l, "bn", c2);
    fe_leave(l);
}

void fe_declare_predict(struct fe_lower *l, const char *child, int64_t c1, int64_t c2, int64_t k)
{
    fe_child(l, child);
    fe_declare(l, "weight", (int64_t[]){c2, c1, k, k}, 4, true);
    fe_declare(l, "bias", &c2, 1, true);
    fe_leave(l);
}

/* --- sequences: maps whose places are tokens ---------------------------------------------------------------- */

struct fe_linear fe_linear_of(struct fe_lower *l, int64_t c1, int64_t c2, bool bias)
{
    struct fe_linear m = {fe_weight_map(l, "weight", (int64_t[]){c2, c1}, 2, 0), YIR_NONE};
    if (bias) m.b = fe_weight(l, "bias", &c2, 1, 0);
    return m;
}

yir_ref fe_apply(struct fe_lower *l, yir_ref x, const struct fe_linear *m)
{
    struct yir_a_conv a = {.stride = {1, 1}, .dil = {1, 1}, .groups = 1};
    return fe_op(l, YIR_conv2d, (yir_ref[]){x, m->w, m->b}, yir_kind(m->b) == YIR_NIL ? 2 : 3, &a);
}

yir_ref fe_linear(struct fe_lower *l, const char *child, yir_ref x, int64_t c2, bool bias)
{
    fe_child(l, child);
    struct fe_linear m = fe_linear_of(l, fe_channels(l, x), c2, bias);
    x = fe_apply(l, x, &m);
    fe_leave(l);
    return x;
}

yir_ref fe_layernorm(struct fe_lower *l, const char *child, yir_ref x)
{
    int64_t c = fe_channels(l, x);
    fe_child(l, child);
    struct yir_a_eps a = {(float)fe_float(l, "eps", 1e-5)};
    yir_ref src[4] = {x, fe_op(l, YIR_moments, &x, 1, &a)};
    src[2] = fe_weight(l, "weight", &c, 1, 0);
    src[3] = fe_weight(l, "bias", &c, 1, 0);
    x = fe_op(l, YIR_layernorm, src, 4, NULL);
    fe_leave(l);
    return x;
}

yir_ref fe_softmax(struct fe_lower *l, yir_ref x, int axis)
{
    struct yir_a_axis a = {axis};
    yir_ref lse = fe_op(l, YIR_lse, &x, 1, &a);
    return fe_op(l, YIR_softmax, (yir_ref[]){x, lse}, 2, &a);
}

yir_ref fe_multihead(struct fe_lower *l, const char *child, yir_ref q, yir_ref k, yir_ref v, int64_t heads)
{
    int64_t c = fe_channels(l, q);
    if (FE_BREAKS(MULTIHEAD, heads < 1 || c % heads))
        return fe_fail(l, E_ARGS, "%s: %lld channels do not divide into %lld heads", l->at->path, (long long)c,
                       (long long)heads),
               YIR_NONE;
    yir_ref w[3], b[3], x[3] = {q, k, v};
    fe_child(l, child);
    fe_weight_parts(l, "in_proj_weight", (int64_t[]){3 * c, c}, 2, 3, w);
    fe_weight_parts(l, "in_proj_bias", (int64_t[]){3 * c}, 1, 3, b);
    for (int i = 0; i < 3; i++)
        x[i] = fe_apply(l, x[i], &(struct fe_linear){w[i], b[i]});
    int32_t dim = (int32_t)(c / heads);
    struct yir_a_attn a = {.heads = (int32_t)heads, .dim = dim, .areas = 1, .scale = (float)(1 / sqrt((double)dim))};
    yir_ref s = fe_softmax(l, fe_op(l, YIR_attn_scores, x, 2, &a), 4);
    struct yir_a_mix mix = {.dim = dim, .areas = 1};
    yir_ref y = fe_op(l, YIR_attn_mix, (yir_ref[]){s, x[2]}, 2, &mix);
    y = fe_linear(l, "out_proj", y, c, true);
    fe_leave(l);
    return y;
}

yir_ref fe_maxpool(struct fe_lower *l, yir_ref x, int64_t k, int64_t s, int64_t p)
{
    struct yir_a_pool a = {.kernel = {(int32_t)k, (int32_t)k}, .stride = {(int32_t)s, (int32_t)s}};
    for (int i = 0; i < 4; i++)
        a.pad[i] = (int32_t)p;
    return fe_op(l, YIR_maxpool, &x, 1, &a);
}

const char *fe_indexed(struct fe_lower *l, const char *name, int64_t i)
{
    return yir_format(l->arena, "%s.%lld", name, (long long)i);
}
