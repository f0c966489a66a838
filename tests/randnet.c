#include "randnet.h"

#include <math.h>

enum { MAX_VALUES = 64, MAX_ELEMS = 1024 };

struct gen {
    struct yir_func *f;
    uint64_t state;
    yir_ref value[MAX_VALUES];
    int n;
};

/* 0 .. n-1, by xorshift64*. */
static int pick(struct gen *g, int n)
{
    g->state ^= g->state >> 12;
    g->state ^= g->state << 25;
    g->state ^= g->state >> 27;
    return (int)((g->state * UINT64_C(0x2545f4914f6cdd1d) >> 33) % (uint64_t)n);
}

/* Mostly one of the newest values. */
static yir_ref pick_value(struct gen *g)
{
    int back = pick(g, 4) ? pick(g, g->n < 6 ? g->n : 6) : pick(g, g->n);
    return g->value[g->n - 1 - back];
}

static yir_ref add_weight(struct gen *g, enum yir_layout layout, int rank, const int64_t *dim)
{
    struct yir_tdesc d = {.dtype = YIR_F32, .layout = layout, .rank = rank};
    for (int k = 0; k < rank; k++) d.dim[k] = dim[k];
    return yir_add_weight(g->f, yir_format(g->f->arena, "w%u", g->f->nweight), yir_type_of(g->f->types, &d),
                          NULL);
}

/* Emits when the shapes fit and the result is small. */
static void try_op(struct gen *g, enum yir_code c, const yir_ref *src, int nsrc, const void *attr)
{
    int32_t dflt[16];
    if (!attr) yir_attr_defaults(c, dflt);
    yir_type ty = yir_infer(g->f, c, src, nsrc, attr ? attr : dflt, false);
    if (!ty.id || yir_numel(yir_tdesc(g->f->types, ty)) > MAX_ELEMS || g->n == MAX_VALUES) return;
    g->value[g->n++] = yir_emit(g->f, c, src, nsrc, attr);
}

static void try_conv(struct gen *g)
{
    yir_ref src[3] = {pick_value(g)};
    const struct yir_tdesc *d = yir_desc(g->f, src[0]);
    if (d->rank != 4) return;
    int k = pick(g, 2) ? 3 : 1, pad = k / 2;
    struct yir_a_conv a = {{1 + pick(g, 2), 1}, {pad, pad, pad, pad}, {1, 1}, 1};
    a.stride[1] = a.stride[0];
    int64_t co = 4 << pick(g, 2), depthwise = d->dim[1] == co && pick(g, 4) == 0;
    if (depthwise) a.groups = (int32_t)co;
    src[1] = add_weight(g, YIR_OIHW, 4, (int64_t[]){co, depthwise ? 1 : d->dim[1], k, k});
    src[2] = add_weight(g, YIR_ROW, 1, &co);
    try_op(g, YIR_conv2d, src, 2 + pick(g, 2), &a);
}

static void try_unary(struct gen *g)
{
    static const enum yir_code code[] = {YIR_silu, YIR_relu, YIR_relu6, YIR_sigmoid, YIR_leaky};
    yir_ref x = pick_value(g);
    try_op(g, code[pick(g, (int)YIR_COUNT(code))], &x, 1, NULL);
}

static void try_binary(struct gen *g)
{
    yir_ref src[2] = {pick_value(g), pick_value(g)};
    try_op(g, pick(g, 2) ? YIR_add : YIR_mul, src, 2, NULL);
}

static void try_concat(struct gen *g)
{
    yir_ref src[4];
    int n = 1 + pick(g, 4);
    struct yir_a_axis a = {1 + pick(g, 3) % 2 + pick(g, 5) / 4};
    for (int k = 0; k < n; k++) src[k] = pick_value(g);
    try_op(g, YIR_concat, src, n, &a);
}

static void try_slice(struct gen *g)
{
    yir_ref x = pick_value(g);
    const struct yir_tdesc *d = yir_desc(g->f, x);
    struct yir_a_slice a = {1 + pick(g, 4) / 3 * pick(g, d->rank - 1), 0, 0};
    int size = (int)d->dim[a.axis];
    a.start = pick(g, 3) ? 0 : pick(g, size);
    a.count = 1 + pick(g, size - a.start);
    try_op(g, YIR_slice, &x, 1, &a);
}

/* Both halves, and side by side with something made of one, as split blocks do. */
static void try_split(struct gen *g)
{
    yir_ref x = pick_value(g), part[3];
    const struct yir_tdesc *d = yir_desc(g->f, x);
    int half = (int)d->dim[1] / 2, before = g->n;
    if (d->dim[1] != 2 * half) return;
    try_op(g, YIR_slice, &x, 1, &(struct yir_a_slice){1, 0, half});
    try_op(g, YIR_slice, &x, 1, &(struct yir_a_slice){1, half, half});
    if (g->n != before + 2) return;
    part[0] = g->value[before];
    part[1] = g->value[before + 1];
    try_op(g, YIR_silu, &part[1], 1, NULL);
    part[2] = g->value[g->n - 1];
    try_op(g, YIR_concat, part, 3, NULL);
}

static void try_move(struct gen *g)
{
    yir_ref x = pick_value(g);
    switch (pick(g, 6)) {
    case 0: try_op(g, YIR_upsample, &x, 1, &(struct yir_a_factor){1 + pick(g, 2)}); break;
    case 1: try_op(g, YIR_s2d, &x, 1, &(struct yir_a_factor){1 + pick(g, 2)}); break;
    case 2: try_op(g, YIR_flatten, &x, 1, NULL); break;
    case 3:
        try_op(g, YIR_pad, &x, 1,
               &(struct yir_a_pad){{pick(g, 2), pick(g, 2), pick(g, 2), pick(g, 2)}, (float)pick(g, 2)});
        break;
    case 4: try_op(g, YIR_cast, &x, 1, &(struct yir_a_cast){YIR_F32, YIR_NCHW}); break;
    default: try_op(g, YIR_dfl_box, &x, 1, &(struct yir_a_box){1 + pick(g, 2), 8, 0}); break;
    }
}

static void try_pool(struct gen *g)
{
    yir_ref x = pick_value(g);
    int k = 1 + pick(g, 3), pad = k / 2, stride = 1 + pick(g, 2);
    struct yir_a_pool a = {{k, k}, {stride, stride}, {pad, pad, pad, pad}};
    try_op(g, pick(g, 3) ? YIR_maxpool : YIR_avgpool, &x, 1, &a);
}

static void add_outputs(struct gen *g)
{
    int n = 1 + pick(g, 5);
    for (int i = 0; i < n; i++) {
        yir_ref x = pick(g, 8) ? pick_value(g) : g->value[0];
        yir_add_output(g->f, yir_format(g->f->arena, "o%d", i), x, false);
    }
}

struct yir_func *randnet(struct yir_arena *a, struct yir_diags *d, uint64_t seed)
{
    static void (*const step[])(struct gen *) = {try_conv,   try_conv,   try_conv,   try_unary, try_unary,
                                                 try_binary, try_binary, try_concat, try_split, try_slice,
                                                 try_move,   try_move,   try_pool};
    struct gen g = {.f = yir_func_new(a, yir_types_new(a), d, "random"),
                    .state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    int64_t n = 1 + pick(&g, 2), h = 4 << pick(&g, 2);
    struct yir_tdesc t = {.dtype = YIR_F32, .layout = YIR_NCHW, .rank = 4, .dim = {n, 3, h, 4}};
    g.value[g.n++] = yir_add_input(g.f, "images", yir_type_of(g.f->types, &t));
    t.dim[1] = 8;
    g.value[g.n++] = yir_add_input(g.f, "x", yir_type_of(g.f->types, &t));
    int ops = 5 + pick(&g, 36);
    for (int tries = 0; tries < 2000 && g.f->nop <= (uint32_t)ops; tries++)
        step[pick(&g, (int)YIR_COUNT(step))](&g);
    add_outputs(&g);
    return g.f;
}

float randnet_float(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(*state >> 40) / (double)(1 << 24) * 2 - 1);
}

void randnet_weights(struct yir_func *f, uint64_t seed)
{
    for (uint32_t i = 0; i < f->nweight; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[i].type);
        int64_t n = yir_numel(d);
        float *v = yir_alloc_n(f->arena, (size_t)n, sizeof *v);
        for (int64_t k = 0; k < n; k++)
            v[k] = randnet_float(&seed) * sqrtf(2.0f * (float)d->dim[0] / (float)n);
        f->weight[i].data = v;
    }
}

void randnet_typed_weights(struct yir_func *f, uint64_t seed)
{
    randnet_weights(f, seed);
    for (uint32_t i = 0; i < f->nweight; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[i].type);
        const float *from = f->weight[i].data;
        void *to = yir_alloc_n(f->arena, (size_t)yir_numel(d), yir_dtype_size(d->dtype));
        for (int64_t k = 0; k < yir_numel(d); k++) yir_dtype_store(d->dtype, to, (size_t)k, (double)from[k]);
        f->weight[i].data = to;
    }
}
