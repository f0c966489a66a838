#include "activation.h"

#include <math.h>
#include <string.h>

#include "check.h"

/* Classes of torch.nn, and names they go by in forks. `parameter` is the one that is not `inplace`. */
static const struct row {
    const char *name;
    enum yir_code op;
    const char *parameter;
    float value;
} rows[] = {
    {"SiLU", YIR_silu, NULL, 0},
    {"Swish", YIR_silu, NULL, 0},
    {"ReLU", YIR_relu, NULL, 0},
    {"ReLU6", YIR_relu6, NULL, 0},
    {"LeakyReLU", YIR_leaky, "negative_slope", 0.01f},
    {"Sigmoid", YIR_sigmoid, NULL, 0},
    {"Hardswish", YIR_hardswish, NULL, 0},
    {"Hardsigmoid", YIR_hardsigmoid, NULL, 0},
    {"Tanh", YIR_tanh, NULL, 0},
    {"GELU", YIR_gelu, NULL, 0},
    {"Mish", YIR_mish, NULL, 0},
    {"ELU", YIR_elu, "alpha", 1.0f},
    {"Identity", YIR_NOP, NULL, 0},
};

static const struct row *find_row(const char *name, size_t len)
{
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) return &rows[i];
    return NULL;
}

static int report_unknown(struct yir_arena *a, struct yir_diags *d, struct yir_loc loc, const char *name)
{
    const char *names[YIR_COUNT(rows)];
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        names[i] = rows[i].name;
    const char *near = yir_nearest(name, names, YIR_COUNT(rows));
    if (near) return yir_diag(d, loc, E_ACTIVATION, "unknown activation %s; did you mean %s?", name, near);
    struct yir_str known = {.arena = a};
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        yir_str_fmt(&known, "%s%s", i ? ", " : "", rows[i].name);
    return yir_diag(d, loc, E_ACTIVATION, "unknown activation %s; known are %s", name, known.text);
}

/* One argument, "0.1", "negative_slope=0.1" or "inplace=True". Positional ones fill the parameter first. */
static bool take_argument(struct yir_arena *a, struct yir_loc loc, const struct row *r, const char *text,
                          struct fe_act *out)
{
    const char *eq = strchr(text, '=');
    const struct fe_value *v = fe_literal(a, eq ? eq + 1 : text, loc);
    if (FE_BREAKS(ACTIVATION_LITERAL, !v)) return false;
    if (v->kind == FE_BOOL)
        return FE_HOLDS(ACTIVATION_FLAG, !eq || strncmp(text, "inplace", (size_t)(eq - text)) == 0);
    double f;
    if (FE_BREAKS(ACTIVATION_PARAMETER, !r->parameter) || FE_BREAKS(ACTIVATION_NUMBER, !fe_as_float(v, &f)) ||
        FE_BREAKS(ACTIVATION_FINITE, !isfinite((float)f)))
        return false;
    size_t n = eq ? (size_t)(eq - text) : strlen(r->parameter);
    if (FE_BREAKS(ACTIVATION_NAME, eq && (strlen(r->parameter) != n || strncmp(text, r->parameter, n) != 0)))
        return false;
    out->slope = (float)f;
    return true;
}

int fe_act_parse(struct yir_arena *a, struct yir_diags *d, struct yir_loc loc, const char *text,
                 struct fe_act *out)
{
    const char *s = text + strspn(text, " ");
    if (strncmp(s, "torch.", 6) == 0) s += 6;
    if (strncmp(s, "nn.", 3) == 0) s += 3;
    size_t n = strcspn(s, "( ");
    const struct row *r = find_row(s, n);
    if (FE_BREAKS(ACTIVATION, !r)) return report_unknown(a, d, loc, yir_strndup(a, s, n));
    *out = (struct fe_act){r->op, r->value};
    s += n;
    if (!*s) return 0;
    size_t close = strcspn(s, ")");
    if (FE_BREAKS(ACTIVATION_FORM, *s != '(' || s[close] != ')' || s[close + 1 + strspn(s + close + 1, " ")]))
        return yir_diag(d, loc, E_ACTIVATION,
                        "an activation is written as nn.%s() or nn.LeakyReLU(0.1), not %s", r->name, text);
    char *args = yir_strndup(a, s + 1, close - 1), *rest = args;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        one += strspn(one, " ");
        if (*one && !take_argument(a, loc, r, one, out))
            return yir_diag(d, loc, E_ACTIVATION, "%s does not take the argument %s", r->name, one);
    }
    return 0;
}

struct fe_act fe_act_named(const char *name)
{
    const struct row *r = find_row(name, strlen(name));
    if (!r) YIR_BUG("the activation %s is not in the table", name);
    return (struct fe_act){r->op, r->value};
}

int fe_act_node(struct yir_diags *d, struct yir_loc loc, const char *path, const struct fe_node *n,
                struct fe_act *out)
{
    const struct row *r = find_row(n->class_name, strlen(n->class_name));
    if (FE_BREAKS(ACTIVATION_CLASS, !r))
        return yir_diag(d, loc, E_ACTIVATION,
                        "%s.%s: the weights hold an activation of class %s, which is not known", path,
                        n->name, n->class_path);
    const struct fe_value *approximate = fe_node_attr(n, "approximate");
    if (FE_BREAKS(ACTIVATION_FORMULA, approximate && approximate->kind == FE_STR && strcmp(approximate->s, "none") != 0))
        return yir_diag(d, loc, E_ACTIVATION, "%s.%s: GELU by the %s formula is not supported", path, n->name,
                        approximate->s);
    double value = r->value;
    if (r->parameter) fe_as_float(fe_node_attr(n, r->parameter), &value);
    if (FE_BREAKS(ACTIVATION_SLOPE, !isfinite((float)value)))
        return yir_diag(d, loc, E_ACTIVATION, "%s.%s: %s of %g in the weights", path, n->name, r->parameter, value);
    *out = (struct fe_act){r->op, (float)value};
    return 0;
}
