#include "heads.h"

#include <string.h>

#include "check.h"

static const struct fe_tensor *at(struct yir_arena *a, const struct fe_weights *w, const char *path,
                                  const char *name)
{
    return fe_weights_find(w, yir_format(a, "%s.%s", path, name));
}

/* Rows of the tensor, 0 when it is not there. */
static int64_t rows_of(struct yir_arena *a, const struct fe_weights *w, const char *path, const char *name)
{
    const struct fe_tensor *t = at(a, w, path, name);
    return t && t->rank >= 2 ? t->dim[0] : 0;
}

/* Where heads without anchors keep as many rows as there are classes. */
static int64_t rows_of_classes(struct yir_arena *a, const struct fe_weights *w, const struct fe_row *head)
{
    static const struct {
        const char *module, *name;
    } other[] = {{"Classify", "linear.weight"},
                 {"SemanticSegment", "classifier.1.weight"},
                 {"RTDETRDecoder", "enc_score_head.weight"}};
    for (size_t i = 0; i < YIR_COUNT(other); i++)
        if (strcmp(head->module, other[i].module) == 0) return rows_of(a, w, head->path, other[i].name);
    if (at(a, w, head->path, "cv4.0.logit_scale") || at(a, w, head->path, "one2one_cv4.0.logit_scale"))
        return 0;
    static const char *const names[] = {"cv3.0.2.weight", "one2one_cv3.0.2.weight", "cv3.0.3.weight"};
    int64_t rows = 0;
    for (size_t i = 0; i < YIR_COUNT(names) && !rows; i++)
        rows = rows_of(a, w, head->path, names[i]);
    return rows;
}

/* Mask coefficients that an anchor's numbers end with. */
static int64_t coefficients(const struct fe_row *head)
{
    int64_t nm = 32;
    if (strcmp(head->module, "Segment") != 0) return 0;
    return head->args->n > 2 && !fe_as_int(head->args->item[2], &nm) ? 32 : nm;
}

int64_t fe_head_nc(struct yir_arena *a, const struct fe_weights *w, const struct fe_row *head,
                   enum fe_dialect dialect, int64_t na)
{
    if (dialect == FE_X) return rows_of(a, w, head->path, "cls_preds.0.weight");
    if (dialect == FE_UL) return rows_of_classes(a, w, head);
    const struct fe_tensor *t = at(a, w, head->path, "anchors");
    if (t && t->rank == 3) na = t->dim[1];
    int64_t rows = rows_of(a, w, head->path, "m.0.weight"), beside = 5 + coefficients(head);
    return na > 0 && rows % na == 0 && rows / na > beside ? rows / na - beside : 0;
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
    bool classes = s->narg && s->arg[0].len == 2 && memcmp(s->arg[0].name, "nc", 2) == 0;
    if (classes && !l->nc_fixed) l->nc = fe_arg_int(s, "nc");
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
