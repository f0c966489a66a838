#include "numbers.h"

#include <math.h>
#include <string.h>

enum { TOLD = 10 }; /* tensors that are named */

static const double usual_eps = 1e-3;

/* Faults of one kind. */
struct fault {
    const char *what; /* of a tensor's values */
    int64_t values, tensors;
    struct {
        const char *name;
        int64_t bad, of;
    } told[TOLD];
};

struct faults {
    struct fault number, variance;
};

static void begin(struct faults *x)
{
    *x = (struct faults){.number.what = "NaN or infinite values", .variance.what = "variances not above -eps"};
}

static void count(struct fault *x, const char *name, int64_t bad, int64_t of)
{
    if (!bad) return;
    if (x->tensors < TOLD) {
        x->told[x->tensors].name = name;
        x->told[x->tensors].bad = bad;
        x->told[x->tensors].of = of;
    }
    x->tensors++;
    x->values += bad;
}

static int tell(struct yir_diags *d, struct yir_loc loc, const struct fault *x, bool strict)
{
    if (!x->tensors) return 0;
    yir_diag(d, loc, strict ? E_NONFINITE : W_NONFINITE, "%s: %lld in %lld tensor%s, the first is %s", x->what,
             (long long)x->values, (long long)x->tensors, x->tensors == 1 ? "" : "s", x->told[0].name);
    for (int64_t i = 0; i < x->tensors && i < TOLD; i++)
        yir_diag_note(d, loc, "%s: %lld of %lld", x->told[i].name, (long long)x->told[i].bad, (long long)x->told[i].of);
    if (x->tensors > TOLD) yir_diag_note(d, loc, "and %lld more tensors", (long long)(x->tensors - TOLD));
    return strict ? -1 : 0;
}

static int tell_both(struct yir_diags *d, struct yir_loc loc, const struct faults *x, bool strict)
{
    int a = tell(d, loc, &x->number, strict), b = tell(d, loc, &x->variance, strict);
    return a || b ? -1 : 0;
}

/* --- of a function ------------------------------------------------------------------------------------------- */

/* Infinities and NaN among floats: nearly all weights are these, and asking for them one by one takes longer than reading them. */
static int64_t bad_floats(const void *data, int64_t n)
{
    const uint32_t exponent = 0x7f800000u;
    const unsigned char *p = data;
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, p + i * (int64_t)sizeof bits, sizeof bits);
        bad += (bits & exponent) == exponent;
    }
    return bad;
}

static void count_numbers(struct fault *x, const struct yir_func *f, const struct yir_weight *w)
{
    const struct yir_tdesc *t = yir_tdesc(f->types, w->type);
    int64_t n = yir_numel(t), bad = 0;
    if (!w->data || !yir_dtype_is_float(t->dtype)) return;
    if (t->dtype == YIR_F32) bad = bad_floats(w->data, n);
    else
        for (int64_t i = 0; i < n; i++) bad += !isfinite(yir_dtype_load(t->dtype, w->data, (size_t)i));
    count(x, w->name, bad, n);
}

static void count_variances(struct fault *x, const struct yir_func *f, uint32_t op)
{
    const struct yir_a_eps *a = yir_attrs(f, op);
    yir_ref r = yir_src(f, op, 4); /* x, gamma, beta, mean, variance */
    if (yir_kind(r) != YIR_WGT) return;
    const struct yir_weight *w = &f->weight[yir_index(r)];
    const struct yir_tdesc *t = yir_tdesc(f->types, w->type);
    int64_t n = yir_numel(t), bad = 0;
    for (int64_t i = 0; w->data && i < n; i++) bad += yir_dtype_load(t->dtype, w->data, (size_t)i) + (double)a->eps <= 0;
    count(x, w->name, bad, n);
}

int fe_numbers_of_func(struct yir_diags *d, struct yir_loc loc, const struct yir_func *f, bool strict)
{
    struct faults x;
    begin(&x);
    for (uint32_t i = 0; i < f->nweight; i++) count_numbers(&x.number, f, &f->weight[i]);
    for (uint32_t i = 1; i < f->nop; i++)
        if (f->op[i].code == YIR_batchnorm) count_variances(&x.variance, f, i);
    return tell_both(d, loc, &x, strict);
}

/* --- of a file ------------------------------------------------------------------------------------------------ */

/* The module that a tensor belongs to, by its name without the last part. */
static double eps_of(struct yir_arena *a, const struct fe_weights *w, const char *name)
{
    double eps = usual_eps;
    const char *dot = strrchr(name, '.');
    if (dot) fe_as_float(fe_node_attr(fe_weights_node(w, yir_strndup(a, name, (size_t)(dot - name))), "eps"), &eps);
    return eps;
}

static void count_file_variances(struct yir_arena *a, struct fault *x, const struct fe_weights *w, const struct fe_tensor *t)
{
    static const char end[] = ".running_var";
    size_t n = strlen(t->name);
    if (n >= sizeof end && !strcmp(t->name + n - (sizeof end - 1), end))
        count(x, t->name, fe_tensor_below(t, -eps_of(a, w, t->name)), t->numel);
}

int fe_numbers_of_file(struct yir_arena *a, struct yir_diags *d, const struct fe_weights *w, bool strict)
{
    struct faults x;
    begin(&x);
    for (size_t i = 0; i < w->ntensor; i++) {
        count(&x.number, w->tensor[i].name, fe_tensor_nonfinite(&w->tensor[i]), w->tensor[i].numel);
        count_file_variances(a, &x.variance, w, &w->tensor[i]);
    }
    return tell_both(d, (struct yir_loc){w->file, 0, 0}, &x, strict);
}
