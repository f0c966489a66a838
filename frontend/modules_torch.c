/* Classes of torch.nn as rows of their own. Rows after one are built for as many channels as came into it. */
#include "blocks.h"

#include <string.h>

#include "check.h"

/* Named as in the table of activations. A number among its arguments is its parameter. */
yir_ref fe_low_activation(struct fe_lower *l, const struct fe_site *s)
{
    struct fe_act act = fe_act_named(s->module->name + strlen("nn."));
    for (int i = 0; i < s->narg; i++)
        if (s->arg[i].kind == 'f') act.slope = (float)s->arg[i].f;
    if (l->at->node && !l->failed && fe_act_node(l->diags, l->row, l->at->path, l->at->node, &act)) l->failed = true;
    if (act.op == YIR_NOP) return s->in[0];
    struct yir_a_slope slope = {act.slope};
    return fe_op(l, act.op, &s->in[0], 1, yir_opinfo(act.op)->nattr ? &slope : NULL);
}

/* Only by its exact formula. */
yir_ref fe_low_gelu(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *formula = fe_arg(s, "approximate");
    if (FE_BREAKS(GELU_FORMULA, formula->v && formula->v->kind == FE_STR && strcmp(formula->v->s, "none") != 0))
        return fe_fail(l, E_UNSUPPORTED, "GELU by the %s formula is not supported", formula->v->s), YIR_NONE;
    return fe_low_activation(l, s);
}

yir_ref fe_low_conv2d(struct fe_lower *l, const struct fe_site *s)
{
    int64_t c1 = fe_arg_int(s, "in_channels"), c2 = fe_arg_int(s, "out_channels");
    struct fe_conv c = {.c2 = c2, .d = fe_arg_int(s, "dilation"), .g = fe_arg_int(s, "groups")};
    if (FE_BREAKS(CONV2D_INPUTS, c1 != s->c1))
        return fe_fail(l, E_ARGS, "nn.Conv2d: in_channels is %lld, but its input has %lld (width does not scale it)", (long long)c1,
                       (long long)s->c1),
               YIR_NONE;
    if (FE_BREAKS(CONV2D_OUTPUTS, c1 != c2))
        return fe_fail(l, E_ARGS,
                       "nn.Conv2d: %lld channels in and %lld out: rows after it are built for as many as come in; Conv takes another number",
                       (long long)c1, (long long)c2),
               YIR_NONE;
    for (int i = 0; i < 2; i++) {
        c.k[i] = fe_arg(s, "kernel_size")->i[i];
        c.s[i] = fe_arg(s, "stride")->i[i];
        c.p[i] = fe_arg(s, "padding")->i[i];
    }
    return fe_conv2d(l, s->in[0], &c, fe_has(l, "bias", fe_arg_int(s, "bias") != 0));
}

/* The mean of the map, whatever its size. */
yir_ref fe_low_adaptivepool(struct fe_lower *l, const struct fe_site *s)
{
    const struct fe_arg *size = fe_arg(s, "output_size");
    int64_t h = fe_int(l, "output_size", 0, size->i[0]), w = fe_int(l, "output_size", 1, size->i[1]);
    if (FE_BREAKS(ADAPTIVE_SIZE, h != 1 || w != 1))
        return fe_fail(l, E_UNSUPPORTED, "AdaptiveAvgPool2d: only a map of 1x1 is supported, not %lldx%lld", (long long)h, (long long)w),
               YIR_NONE;
    return fe_op(l, YIR_avgmap, &s->in[0], 1, NULL);
}
