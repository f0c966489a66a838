/* Whatever the passes do to random networks, every element of every output means the same afterwards: as an
 * expression over the elements of inputs and the values of weights, hashed. Batch normalisation, which computes
 * new weights, is not among them. */
#include <criterion/criterion.h>
#include <string.h>

#include "passes/pass.h"
#include "randnet.h"

enum { NETWORKS = 400 };

struct meaning { /* hashes of the elements of each value, in row-major order of the logical indexes */
    const struct yir_func *f;
    uint64_t **value, **input, **weight;
};

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 31;
}

static uint64_t mix_text(uint64_t h, const char *s)
{
    for (; *s; s++) h = mix(h, (unsigned char)*s);
    return h;
}

static uint64_t constant(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return mix(77, bits);
}

static uint64_t *named(struct yir_arena *a, const char *name, int64_t n)
{
    uint64_t *h = yir_alloc_n(a, (size_t)n, sizeof *h);
    for (int64_t i = 0; i < n; i++) h[i] = mix(mix_text(5, name), (uint64_t)i);
    return h;
}

static uint64_t *values(struct yir_arena *a, const struct yir_weight *w, const struct yir_tdesc *d)
{
    uint64_t *h = yir_alloc_n(a, (size_t)yir_numel(d), sizeof *h);
    for (int64_t i = 0; i < yir_numel(d); i++) h[i] = constant((float)yir_dtype_load(d->dtype, w->data, (size_t)i));
    return h;
}

static const uint64_t *hashes(const struct meaning *m, yir_ref r)
{
    switch (yir_kind(r)) {
    case YIR_VAL: return m->value[yir_index(r)];
    case YIR_INP: return m->input[yir_index(r)];
    default: return m->weight[yir_index(r)];
    }
}

static const uint64_t *operand(const struct meaning *m, uint32_t op, int k)
{
    return hashes(m, yir_src(m->f, op, k));
}

static const struct yir_tdesc *desc(const struct meaning *m, uint32_t op, int k)
{
    return yir_desc(m->f, yir_src(m->f, op, k));
}

/* One op: index of the result's element and what it is computed from. */
struct element {
    const struct meaning *m;
    uint32_t op;
    const struct yir_tdesc *out;
    int64_t at[YIR_MAX_RANK], linear;
};

static int64_t linear(const struct yir_tdesc *d, const int64_t *at)
{
    int64_t i = 0;
    for (int k = 0; k < d->rank; k++) i = i * d->dim[k] + at[k];
    return i;
}

static uint64_t read(const struct element *e, int k, const int64_t *at)
{
    return operand(e->m, e->op, k)[linear(desc(e->m, e->op, k), at)];
}

/* At (n, c, y, x) of operand 0, or `outside`. */
static uint64_t read_map(const struct element *e, int64_t c, int64_t y, int64_t x, uint64_t outside)
{
    const struct yir_tdesc *d = desc(e->m, e->op, 0);
    if (y < 0 || y >= d->dim[2] || x < 0 || x >= d->dim[3]) return outside;
    return read(e, 0, (int64_t[]){e->at[0], c, y, x});
}

/* A sum of products, in whatever order; each weight's value is its own. */
static uint64_t mean_conv(const struct element *e, const struct yir_a_conv *a)
{
    const struct yir_tdesc *w = desc(e->m, e->op, 1);
    uint64_t sum = 0;
    int64_t group = e->at[1] / (w->dim[0] / a->groups);
    for (int64_t c = 0; c < w->dim[1]; c++)
        for (int64_t y = 0; y < w->dim[2]; y++)
            for (int64_t x = 0; x < w->dim[3]; x++)
                sum += mix(read(e, 1, (int64_t[]){e->at[1], c, y, x}),
                           read_map(e, group * w->dim[1] + c, e->at[2] * a->stride[0] + y - a->pad[0],
                                    e->at[3] * a->stride[1] + x - a->pad[1], constant(0)));
    bool bias = e->m->f->op[e->op].nsrc == 3;
    return mix(4, bias ? mix(read(e, 2, &e->at[1]), sum) : sum);
}

/* Padding counts as zero in a mean and not at all in a maximum. A window of one element is that element. */
static uint64_t mean_pool(const struct element *e, const struct yir_a_pool *a, enum yir_code code)
{
    uint64_t h = code, one = 0;
    if (a->kernel[0] * a->kernel[1] == 1)
        return read_map(e, e->at[1], e->at[2] * a->stride[0], e->at[3] * a->stride[1], 0);
    for (int64_t y = 0; y < a->kernel[0]; y++)
        for (int64_t x = 0; x < a->kernel[1]; x++) {
            one = read_map(e, e->at[1], e->at[2] * a->stride[0] + y - a->pad[0],
                           e->at[3] * a->stride[1] + x - a->pad[1], code == YIR_avgpool ? constant(0) : 0);
            if (one) h = mix(h, one);
        }
    return h;
}

static uint64_t mean_concat(const struct element *e, int axis)
{
    int64_t at[YIR_MAX_RANK];
    memcpy(at, e->at, sizeof at);
    int k = 0;
    for (; at[axis] >= desc(e->m, e->op, k)->dim[axis]; k++) at[axis] -= desc(e->m, e->op, k)->dim[axis];
    return read(e, k, at);
}

static uint64_t mean_slice(const struct element *e, const struct yir_a_slice *a)
{
    int64_t at[YIR_MAX_RANK];
    memcpy(at, e->at, sizeof at);
    at[a->axis] += a->start;
    return read(e, 0, at);
}

/* Applied twice they are the same: the result's low bits say that it is one. */
static uint64_t mean_clamp(uint64_t x, enum yir_code code)
{
    return (x & 0xff) == code ? x : (mix(mix(3, code), x) & ~UINT64_C(0xff)) | code;
}

static uint64_t mean_head(const struct element *e)
{
    uint64_t h =
        mix((uint64_t)e->at[1], (uint64_t)((const struct yir_a_box *)yir_attrs(e->m->f, e->op))->bins);
    const struct yir_tdesc *d = desc(e->m, e->op, 0);
    for (int64_t c = 0; c < d->dim[1]; c++)
        h = mix(h, read_map(e, c, e->at[2] / d->dim[3], e->at[2] % d->dim[3], 0));
    return h;
}

static uint64_t mean_element(const struct element *e)
{
    const void *attr = yir_attrs(e->m->f, e->op);
    enum yir_code code = (enum yir_code)e->m->f->op[e->op].code;
    const struct yir_a_pad *pad = attr;
    int64_t f = code == YIR_upsample || code == YIR_s2d ? ((const struct yir_a_factor *)attr)->factor : 1,
            c = 0;
    switch (code) {
    case YIR_conv2d: return mean_conv(e, attr);
    case YIR_maxpool:
    case YIR_avgpool: return mean_pool(e, attr, code);
    case YIR_concat: return mean_concat(e, ((const struct yir_a_axis *)attr)->axis);
    case YIR_slice: return mean_slice(e, attr);
    case YIR_upsample: return read_map(e, e->at[1], e->at[2] / f, e->at[3] / f, 0);
    case YIR_pad:
        return read_map(e, e->at[1], e->at[2] - pad->pad[0], e->at[3] - pad->pad[1], constant(pad->value));
    case YIR_s2d:
        c = desc(e->m, e->op, 0)->dim[1];
        return read_map(e, e->at[1] % c, e->at[2] * f + e->at[1] / c % f, e->at[3] * f + e->at[1] / c / f, 0);
    case YIR_cast:
    case YIR_flatten: return operand(e->m, e->op, 0)[e->linear];
    case YIR_either: return operand(e->m, e->op, 1)[e->linear]; /* as when the tensor is bound */
    case YIR_dfl_box: return mean_head(e);
    case YIR_relu:
    case YIR_relu6: return mean_clamp(operand(e->m, e->op, 0)[e->linear], code);
    case YIR_image: return mix(9, (uint64_t)e->linear);
    default: break;
    }
    uint64_t x = operand(e->m, e->op, 0)[e->linear];
    if (e->m->f->op[e->op].nsrc == 1) return mix(mix(1, code), x);
    uint64_t y = operand(e->m, e->op, 1)[e->linear];
    return mix(mix(mix(2, code), x + y), x ^ y);
}

static uint64_t *mean_op(const struct meaning *m, uint32_t op)
{
    struct element e = {.m = m, .op = op, .out = yir_tdesc(m->f->types, m->f->op[op].type)};
    uint64_t *h = yir_alloc_n(m->f->arena, (size_t)yir_numel(e.out), sizeof *h);
    for (; e.linear < yir_numel(e.out); e.linear++) {
        int64_t left = e.linear;
        for (int k = e.out->rank - 1; k >= 0; k--) {
            e.at[k] = left % e.out->dim[k];
            left /= e.out->dim[k];
        }
        h[e.linear] = mean_element(&e);
    }
    return h;
}

static struct meaning meaning_of(const struct yir_func *f)
{
    struct meaning m = {.f = f};
    m.value = yir_alloc_n(f->arena, f->nop, sizeof *m.value);
    m.input = yir_alloc_n(f->arena, f->ninput, sizeof *m.input);
    m.weight = yir_alloc_n(f->arena, f->nweight, sizeof *m.weight);
    for (uint32_t i = 0; i < f->ninput; i++)
        m.input[i] = named(f->arena, f->input[i].name, yir_numel(yir_tdesc(f->types, f->input[i].type)));
    for (uint32_t i = 0; i < f->nweight; i++)
        m.weight[i] = values(f->arena, &f->weight[i], yir_tdesc(f->types, f->weight[i].type));
    for (uint32_t i = 1; i < f->nop; i++) m.value[i] = mean_op(&m, i);
    return m;
}

/* One hash for all elements of each output. */
static uint64_t *mean_outputs(const struct yir_func *f)
{
    struct meaning m = meaning_of(f);
    uint64_t *out = yir_alloc_n(f->arena, f->noutput, sizeof *out);
    for (uint32_t i = 0; i < f->noutput; i++) {
        int64_t n = yir_numel(yir_desc(f, f->output[i].ref));
        for (int64_t k = 0; k < n; k++) out[i] = mix(out[i], hashes(&m, f->output[i].ref)[k]);
    }
    return out;
}

static void compare(const struct yir_func *f, const struct yir_func *g, uint64_t seed)
{
    const uint64_t *want = mean_outputs(f), *got = mean_outputs(g);
    cr_assert_eq(f->noutput, g->noutput);
    for (uint32_t i = 0; i < f->noutput; i++)
        cr_assert_eq(want[i], got[i], "network %llu: output %u means something else",
                     (unsigned long long)seed, i);
}

static void check(uint64_t seed, const struct pass_opts *o)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_func *f = randnet(a, d, seed);
    randnet_weights(f, seed);
    struct yir_func *g = pass_run_all(f, d, o);
    cr_assert_not_null(g, "network %llu: %s", (unsigned long long)seed,
                       yir_diag_count(d) ? yir_diag_at(d, 0)->text : "");
    compare(f, g, seed);
    yir_arena_free(a);
}

static struct pass_opts options(void)
{
    struct pass_opts o;
    pass_opts_init(&o);
    o.verify_each = true;
    return o;
}

Test(passes_meaning, all)
{
    struct pass_opts o = options();
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) check(seed, &o);
}

Test(passes_meaning, without_fusion)
{
    struct pass_opts o = options();
    o.fuse = false;
    for (uint64_t seed = 1; seed <= NETWORKS / 4; seed++) check(seed, &o);
}

/* What the other passes rely on being tidied up, they must also do without. */
Test(passes_meaning, some_left_out)
{
    static const char *const skip[] = {"simplify", "cse", "dce", "constfold,simplify,cse,dce"};
    struct pass_opts o = options();
    for (uint64_t seed = 1; seed <= NETWORKS / 2; seed++) {
        o.skip = skip[seed % YIR_COUNT(skip)];
        check(seed, &o);
    }
}

/* Passes in any order: each runs or is refused with E_PASS. */
Test(passes_meaning, any_order)
{
    struct pass_opts o = options();
    uint64_t state = 1;
    for (uint64_t seed = 1; seed <= NETWORKS / 2; seed++) {
        struct yir_arena *a = yir_arena_new(NULL, NULL);
        struct yir_diags *d = yir_diags_new(a, NULL, NULL);
        struct yir_func *f = randnet(a, d, seed), *g = f;
        randnet_weights(f, seed);
        for (int i = 0; i < 12; i++) {
            state = state * UINT64_C(6364136223846793005) + 1;
            struct yir_diags *refused = yir_diags_new(a, NULL, NULL);
            const char *name = pass_at((state >> 33) % pass_count())->name;
            struct yir_func *h = pass_run_named(g, refused, name, &o);
            if (h) g = h;
            else cr_assert_eq(yir_diag_at(refused, 0)->id, E_PASS, "%s", yir_diag_at(refused, 0)->text);
        }
        compare(f, g, seed);
        yir_arena_free(a);
    }
}
