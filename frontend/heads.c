#include "heads.h"

#include "check.h"

static const struct fe_tensor *at(struct yir_arena *a, const struct fe_weights *w, const char *path,
                                  const char *name)
{
    return fe_weights_find(w, yir_format(a, "%s.%s", path, name));
}

int64_t fe_head_nc(struct yir_arena *a, const struct fe_weights *w, const char *path, enum fe_dialect dialect,
                   int64_t na)
{
    const struct fe_tensor *t = at(a, w, path, dialect == FE_X ? "cls_preds.0.weight" : "cv3.0.2.weight");
    if (dialect != FE_Y5) return t && t->rank == 4 ? t->dim[0] : 0;
    t = at(a, w, path, "anchors");
    if (t && t->rank == 3) na = t->dim[1];
    t = at(a, w, path, "m.0.weight");
    return t && t->rank == 4 && na > 0 && t->dim[0] % na == 0 && t->dim[0] / na > 5 ? t->dim[0] / na - 5 : 0;
}

double fe_level_stride(struct fe_lower *l, int level, yir_ref x)
{
    const struct fe_value *v = fe_node_attr(l->at->node, "stride");
    double stride = 0;
    if (v && v->kind == FE_LIST && (size_t)level < v->n) fe_as_float(v->item[level], &stride);
    if (!(stride > 0 && stride <= 65536)) stride = l->stride[level];
    if (stride <= 0 && yir_kind(x) != YIR_NIL)
        stride = (double)l->input_height / (double)yir_desc(l->func, x)->dim[2];
    l->head.stride[level] = stride;
    return stride;
}

int fe_head_begin(struct fe_lower *l, const struct fe_site *s, enum fe_head kind)
{
    if (FE_BREAKS(HEAD_LEVELS, s->nin > FE_MAX_LEVELS))
        return fe_fail(l, E_LIMIT, "%s: %d levels; %d are the most", s->module->name, s->nin, FE_MAX_LEVELS);
    l->head.kind = kind;
    l->head.nl = s->nin;
    if (!l->nc_fixed) l->nc = fe_arg_int(s, "nc");
    if (FE_BREAKS(HEAD_NC, l->nc < 1))
        return fe_fail(l, E_ARGS, "%s: nc must be at least 1", s->module->name);
    return 0;
}

void fe_output(struct fe_lower *l, const char *name, yir_ref x)
{
    if (yir_kind(x) != YIR_NIL) yir_add_output(l->func, name, x, false);
}

yir_ref fe_predict(struct fe_lower *l, const char *child, yir_ref x, int64_t c2)
{
    struct fe_conv c = fe_conv_of(l, c2, 1, 1);
    fe_child(l, child);
    x = fe_conv2d(l, x, &c, true);
    fe_leave(l);
    return x;
}
