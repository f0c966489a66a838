/* Batch normalisation into the convolution before it, when nothing else reads that: w * s and (b - mean) * s
 * + beta with s = gamma / sqrt(var + eps), in double, rounded once. A normalisation of anything else becomes
 * a 1x1 convolution of one channel a group, so that later passes meet none. Functions without weight data
 * fold in form only. */
#include "walk.h"

#include <math.h>
#include <string.h>

enum { GAMMA = 1, BETA, MEAN, VAR }; /* operands of batchnorm */

struct fold {
    struct rebuild r;
    struct pass *p;
    const uint32_t *uses;
    uint32_t op;           /* the batchnorm */
    int64_t n;             /* channels */
    bool data;             /* weights have values */
    double *scale, *shift; /* y = x * scale + shift, by channel */
};

static const struct yir_weight *weight_of(const struct yir_func *f, uint32_t op, int k)
{
    return &f->weight[yir_index(yir_src(f, op, k))];
}

static bool all_weights(const struct yir_func *f, uint32_t op)
{
    for (int k = 1; k < f->op[op].nsrc; k++)
        if (yir_kind(yir_src(f, op, k)) != YIR_WGT) return false;
    return true;
}

/* The convolution that batchnorm `op` folds into, or 0. */
static uint32_t foldable(const struct fold *b, uint32_t op)
{
    const struct yir_func *f = b->r.old;
    yir_ref x = yir_src(f, op, 0);
    if (f->op[op].code != YIR_batchnorm || !pass_is(f, x, YIR_conv2d)) return 0;
    uint32_t conv = yir_index(x);
    return b->uses[conv] == 1 && all_weights(f, conv) && all_weights(f, op) ? conv : 0;
}

static double at(const struct fold *b, int operand, int64_t c)
{
    const struct yir_weight *w = weight_of(b->r.old, b->op, operand);
    return yir_dtype_load(yir_tdesc(b->r.old->types, w->type)->dtype, w->data, (size_t)c);
}

/* Channels that become NaN or infinite do so as they do unfolded, but not in silence. */
static int report(const struct fold *b, int64_t bad, int64_t first)
{
    const struct yir_func *f = b->r.old;
    const struct yir_a_eps *a = yir_attrs(f, b->op);
    bool strict = b->p->opts->strict;
    if (!bad) return 0;
    yir_diag(b->p->diags, f->loc[f->op[b->op].loc].loc, strict ? E_NONFINITE : W_NONFINITE,
             "batch normalisation at %s: %lld of %lld channels become NaN or infinite, the first is channel %lld with "
             "variance + eps %g",
             weight_of(f, b->op, GAMMA)->name, (long long)bad, (long long)b->n, (long long)first,
             at(b, VAR, first) + (double)a->eps);
    return strict ? -1 : 0;
}

static int read_stats(struct fold *b)
{
    const struct yir_a_eps *a = yir_attrs(b->r.old, b->op);
    b->scale = yir_alloc_n(b->p->arena, (size_t)b->n, sizeof *b->scale);
    b->shift = yir_alloc_n(b->p->arena, (size_t)b->n, sizeof *b->shift);
    int64_t bad = 0, first = 0;
    for (int64_t c = 0; b->data && c < b->n; c++) {
        double var = at(b, VAR, c) + (double)a->eps;
        b->scale[c] = var < 0 ? (double)NAN : at(b, GAMMA, c) / sqrt(var);
        b->shift[c] = at(b, BETA, c) - at(b, MEAN, c) * b->scale[c];
        if (isfinite(b->scale[c]) && isfinite(b->shift[c])) continue;
        if (!bad++) first = c;
    }
    return report(b, bad, first);
}

static bool has_data(const struct yir_func *f, uint32_t op)
{
    for (int k = 1; k < f->op[op].nsrc; k++)
        if (!weight_of(f, op, k)->data) return false;
    return true;
}

/* The name without its last part when that is "weight": "model.0.conv" of "model.0.conv.weight". */
static const char *stem(struct yir_arena *a, const char *name)
{
    size_t n = strlen(name), cut = strlen(".weight");
    return n > cut && !strcmp(name + n - cut, ".weight") ? yir_strndup(a, name, n - cut) : name;
}

static yir_ref add_weight(struct fold *b, const char *base, const char *suffix, const struct yir_tdesc *d,
                          const void *data)
{
    struct yir_func *f = b->r.f;
    return yir_add_weight(f, pass_weight_name(f, stem(f->arena, base), suffix), yir_type_of(f->types, d),
                          b->data ? data : NULL);
}

static void scale_floats(const struct fold *b, const float *in, size_t row, float *out)
{
    for (size_t c = 0; c < (size_t)b->n; c++)
        for (size_t i = c * row; i < (c + 1) * row; i++) out[i] = (float)(b->scale[c] * (double)in[i]);
}

/* w[co,...] * scale[co] for a convolution, or scale alone when w is NULL. */
static yir_ref scaled_weight(struct fold *b, const struct yir_weight *w)
{
    struct yir_types *t = b->r.f->types;
    const struct yir_weight *gamma = weight_of(b->r.old, b->op, GAMMA);
    struct yir_tdesc d = {.layout = YIR_OIHW, .rank = 4, .dim = {b->n, 1, 1, 1}};
    d.dtype = yir_tdesc(t, gamma->type)->dtype;
    if (w) d = *yir_tdesc(t, w->type);
    size_t n = (size_t)yir_numel(&d), row = n / (size_t)b->n;
    void *data = b->data ? yir_alloc_n(b->r.f->arena, n, yir_dtype_size(d.dtype)) : NULL;
    bool floats = w && d.dtype == YIR_F32;
    if (b->data && floats) scale_floats(b, w->data, row, data);
    for (size_t i = 0; b->data && !floats && i < n; i++)
        yir_dtype_store(d.dtype, data, i,
                        b->scale[i / row] * (w ? yir_dtype_load(d.dtype, w->data, i) : 1.0));
    yir_ref r = add_weight(b, w ? w->name : gamma->name, ".weight-folded", &d, data);
    if (!w || !data) return r;
    double *factor = yir_alloc_n(b->r.f->arena, (size_t)b->n, sizeof *factor);
    memcpy(factor, b->scale, (size_t)b->n * sizeof *factor);
    b->r.f->weight[yir_index(r)].origin = w->name;
    b->r.f->weight[yir_index(r)].factor = factor;
    return r;
}

/* bias * scale + shift. */
static yir_ref shifted_bias(struct fold *b, const struct yir_weight *w, const struct yir_weight *bias)
{
    struct yir_types *t = b->r.f->types;
    const struct yir_weight *beta = weight_of(b->r.old, b->op, BETA),
                            *gamma = weight_of(b->r.old, b->op, GAMMA);
    const struct yir_tdesc *d = yir_tdesc(t, beta->type);
    void *data = b->data ? yir_alloc_n(b->r.f->arena, (size_t)b->n, yir_dtype_size(d->dtype)) : NULL;
    for (size_t c = 0; b->data && c < (size_t)b->n; c++) {
        double old = bias ? yir_dtype_load(yir_tdesc(t, bias->type)->dtype, bias->data, c) : 0.0;
        yir_dtype_store(d->dtype, data, c, old * b->scale[c] + b->shift[c]);
    }
    return add_weight(b, w ? w->name : gamma->name, ".bias-folded", d, data);
}

static int emit_folded(struct fold *b, uint32_t op, uint32_t conv)
{
    const struct yir_func *f = b->r.old;
    if (!all_weights(f, op))
        return yir_diag(b->p->diags, f->loc[f->op[op].loc].loc, E_WEIGHT,
                        "batch normalisation: gamma, beta, mean and variance must be weights");
    b->op = op;
    b->n = yir_desc(f, yir_src(f, op, GAMMA))->dim[0];
    b->data = has_data(f, op) && (!conv || has_data(f, conv));
    if (read_stats(b)) return -1;
    const struct yir_weight *w = conv ? weight_of(f, conv, 1) : NULL;
    const struct yir_weight *bias = conv && f->op[conv].nsrc == 3 ? weight_of(f, conv, 2) : NULL;
    struct yir_a_conv one = {{1, 1}, {0}, {1, 1}, (int32_t)b->n};
    yir_ref src[3];
    src[0] = pass_rebuild_src(&b->r, conv ? conv : op, 0);
    src[1] = scaled_weight(b, w);
    src[2] = shifted_bias(b, w, bias);
    uint32_t at = conv ? conv : op; /* whose origin the result has */
    b->r.map[op] = pass_rebuild_emit(&b->r, at, YIR_conv2d, src, 3, conv ? yir_attrs(f, conv) : &one);
    return b->r.failed ? -1 : 0;
}

int pass_foldbn(struct pass *p)
{
    struct fold b = {.p = p, .uses = yir_uses(p->in, p->arena)};
    pass_rebuild_begin(&b.r, p);
    bool *gone =
        yir_alloc_n(p->arena, p->in->nop, sizeof *gone); /* convolutions that a later batchnorm takes over */
    for (uint32_t i = 1; i < p->in->nop; i++) gone[foldable(&b, i)] = true;
    for (uint32_t i = 1; i < p->in->nop; i++) {
        if (p->in->op[i].code == YIR_batchnorm) {
            if (emit_folded(&b, i, foldable(&b, i))) return -1;
        } else if (!gone[i]) {
            pass_rebuild_copy(&b.r, i);
        }
    }
    return pass_rebuild_end(&b.r, p);
}
