/* Blocks of forks whose checkpoints are in wide use: Espressif's detector for microcontrollers and LeYOLO. */
#include "blocks.h"

#include <string.h>

/* --- ESP-Detection
 * -------------------------------------------------------------------------------------------- */

/* A depthwise and a 1x1 convolution, each with bias, normalisation and activation. */
static yir_ref biased(struct fe_lower *l, const char *conv, const char *bn, yir_ref x,
                      const struct fe_conv *c)
{
    fe_child(l, conv);
    x = fe_conv2d(l, x, c, true);
    fe_leave(l);
    if (fe_has(l, yir_format(l->arena, "%s.weight", bn), true)) x = fe_batchnorm(l, bn, x);
    return fe_activate(l, x, c->act);
}

static yir_ref ds_conv(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s, int64_t p,
                       struct fe_act act)
{
    struct fe_conv dw = fe_depthwise_of(l, fe_channels(l, x), k, s), point = fe_conv_of(l, c2, 1, 1);
    dw.p[0] = dw.p[1] = p;
    dw.act = point.act = act;
    fe_order(l, "depthwise,bn1,pointwise,bn2");
    x = biased(l, "depthwise", "bn1", x, &dw);
    return biased(l, "pointwise", "bn2", x, &point);
}

yir_ref fe_ds_conv(struct fe_lower *l, const char *child, yir_ref x, int64_t c2)
{
    fe_child(l, child);
    x = ds_conv(l, x, c2, 3, 1, 1, l->act);
    fe_leave(l);
    return x;
}

yir_ref fe_low_dsconv(struct fe_lower *l, const struct fe_site *s)
{
    return ds_conv(l, s->in[0], fe_arg_int(s, "c2"), fe_arg_int(s, "k"), fe_arg_int(s, "s"),
                   fe_arg_int(s, "p"), fe_arg(s, "act")->act);
}

/* A block. */
static yir_ref ds_bottleneck(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b)
{
    yir_ref y = fe_ds_conv(l, "cv1", x, fe_hidden(c, b->e));
    y = fe_ds_conv(l, "cv2", y, c);
    bool add = fe_int(l, "add", 0, b->shortcut && fe_channels(l, x) == c) != 0;
    return add ? fe_add(l, x, y) : y;
}

yir_ref fe_low_dsc3k2(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_inner b = fe_inner_of_row(s, 3, 3, 0.5);
    b.n = 2;
    bool c3k = fe_has(l, "m.0.cv3.conv.weight", fe_arg_int(s, "c3k") != 0);
    return fe_c2f(l, s, fe_arg(s, "e")->f, c3k ? fe_c3k : ds_bottleneck, &b);
}

/* "cv1" to `inside` channels, bottlenecks of half of c2, "cv2". */
static yir_ref esp_block(struct fe_lower *l, const struct fe_site *s, int64_t inside, int64_t half)
{
    struct fe_inner b = {.e = 1, .shortcut = false};
    fe_order(l, "cv1,cv2");
    yir_ref x = fe_conv(l, "cv1", s->in[0], fe_conv_of(l, inside, 1, 1));
    x = fe_chain(l, x, s->n, half, ds_bottleneck, &b);
    return fe_conv(l, "cv2", x, fe_conv_of(l, fe_arg_int(s, "c2"), 1, 1));
}

yir_ref fe_low_espblocklite(struct fe_lower *l, const struct fe_site *s)
{
    int64_t half = fe_hidden(fe_arg_int(s, "c2"), 0.5);
    return esp_block(l, s, half, half);
}

yir_ref fe_low_espblock(struct fe_lower *l, const struct fe_site *s)
{
    int64_t half = fe_hidden(fe_arg_int(s, "c2"), 0.5);
    return esp_block(l, s, 2 * half, half);
}

/* --- LeYOLO
 * --------------------------------------------------------------------------------------------------- */

/* "RE", "HS", "SI"; what a pickle holds wins. */
static struct fe_act short_act(const struct fe_arg *a)
{
    const char *text = a->v && a->v->kind == FE_STR ? a->v->s : "RE";
    if (strcmp(text, "HS") == 0) return (struct fe_act){YIR_hardswish, 0};
    if (strcmp(text, "SI") == 0) return (struct fe_act){YIR_silu, 0};
    return (struct fe_act){YIR_relu, 0};
}

/* Convolution "c" with bias; a kernel as large as its step has no padding. */
static yir_ref mn_conv(struct fe_lower *l, yir_ref x, struct fe_conv c)
{
    if (c.k[0] == c.s[0]) c.p[0] = c.p[1] = 0;
    return biased(l, "c", "bn", x, &c);
}

yir_ref fe_low_mnconv(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_conv c = fe_conv_of(l, fe_arg_int(s, "c2"), fe_arg_int(s, "k"), fe_arg_int(s, "s"));
    c.act = short_act(fe_arg(s, "act"));
    return mn_conv(l, s->in[0], c);
}

static yir_ref mn_child(struct fe_lower *l, int at, yir_ref x, struct fe_conv c)
{
    fe_child(l, fe_indexed(l, "layers", at));
    x = mn_conv(l, x, c);
    fe_leave(l);
    return x;
}

/* Inverted bottleneck: wider by a 1x1 (unless pw is false), depthwise, narrower by a bare 1x1 with
 * normalisation. */
yir_ref fe_low_mobileblock(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c2 = fe_arg_int(s, "c2"), step = fe_arg_int(s, "s");
    int at = 0;
    yir_ref x = s->in[0], y = x;
    struct fe_conv wide = fe_conv_of(l, fe_arg_int(s, "e"), 1, 1), last = fe_bare_of(l, c2, 1, 1);
    wide.act = short_act(fe_arg(s, "act"));
    if (fe_arg_int(s, "pw")) y = mn_child(l, at++, y, wide);
    struct fe_conv dw = fe_depthwise_of(l, fe_channels(l, y), fe_arg_int(s, "k"), step);
    dw.act = wide.act;
    y = mn_child(l, at++, y, dw);
    fe_child(l, fe_indexed(l, "layers", at++));
    y = fe_conv2d(l, y, &last, true);
    fe_leave(l);
    y = fe_batchnorm(l, fe_indexed(l, "layers", at), y);
    return s->c1 == c2 && step == 1 ? fe_add(l, x, y) : y;
}
