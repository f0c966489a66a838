/* The log of sums of exponents, and sums over channels, on GPUs: a warp for each row, whose lanes share the elements. */
#include <string.h>

#include "fast_vec.h"
#include "kb_cuda.h"

enum { WARP = 32, WARPS = 4, LEAST = 64 };

static int axis_of(const struct yir_func *f, uint32_t op)
{
    return ((const struct yir_a_axis *)yir_attrs(f, op))->axis;
}

static int64_t length_of(const struct yir_func *f, uint32_t op)
{
    return yir_desc(f, yir_src(f, op, 0))->dim[axis_of(f, op)];
}

static int64_t rows_of(const struct yir_func *f, uint32_t op)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    return yir_numel(d) / d->dim[0];
}

bool guard_warp_lse(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    if (!t->sm || f->op[last].code != YIR_lse || !cg_only_last(f, first, last)) return false;
    return axis_of(f, last) > 0 && length_of(f, last) >= LEAST && yir_numel(yir_desc(f, yir_src(f, last, 0))) < INT32_MAX;
}

size_t list_warp_lse(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    (void)first;
    (void)most;
    double work = 120 + 40.0 * (double)length_of(f, last) / WARP;
    *out = (struct cg_config){.cycles = cg_gpu_cycles(t, (double)rows_of(f, last) * WARP, work)};
    return 1;
}

/* Indexes of the row that g<number> counts, over all images; 0 along the axis. */
static void row_index(struct kb *b, uint32_t op, int number, kv *ix)
{
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[op].type);
    kv u = kb_given_index(b, number, 1);
    for (int i = d->rank - 1; i > 0; i--) {
        kv dim = kb_immi(b, d->dim[i]);
        ix[i] = kb_irem(b, u, dim);
        u = kb_idiv(b, u, dim);
    }
    ix[0] = u;
}

static const char row_text[] =
    "    const int lane = threadIdx.x & 31;\n"
    "    const long long row = (long long)blockIdx.x * %d + (threadIdx.x >> 5);\n"
    "    if (row >= total) return;\n";

/* A row a warp: element(g1) of row g0, which is g2 as well. value: the element, what computes it being the nodes before end. */
static void put_row(struct yir_str *out, const struct kb *b, uint32_t end, kv value)
{
    yir_str_fmt(out, row_text, WARPS);
    kb_cuda_wait(out, b->target, 1);
    yir_str_fmt(out, "    const int g0 = (int)row, g2 = g0;\n    const auto element = [&](int g1) {\n");
    kb_cuda_part(out, b, 1, end, 2);
    yir_str_fmt(out, "        return ");
    kb_cuda_value(out, b, value);
    yir_str_fmt(out, ";\n    };\n");
}

static const char lse_text[] =
    "    float top = -3.4028234663852886e38f, sum = 0.0f;\n"
    "    for (int i = lane; i < %lld; i += 32) {\n"
    "        const float v = element(i);\n"
    "        top = top > v ? top : v;\n"
    "    }\n"
    "    for (int step = 16; step; step /= 2) {\n"
    "        const float v = __shfl_xor_sync(0xffffffffu, top, step);\n"
    "        top = top > v ? top : v;\n"
    "    }\n"
    "    for (int i = lane; i < %lld; i += 32) sum += expf(element(i) - top);\n"
    "    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);\n"
    "    const float g3 = logf(sum) + top;\n"
    "    if (lane == 0) {\n%s    }\n";

void emit_fast_warp_lse(struct kb *b, struct cg_kernel *k)
{
    struct yir_str body = {.arena = b->arena}, finish = {.arena = b->arena};
    kv ix[YIR_MAX_RANK];
    row_index(b, k->last, 0, ix);
    ix[axis_of(b->f, k->last)] = kb_given_index(b, 1, 1);
    kv v = kb_ref_at(b, yir_src(b->f, k->last, 0), ix);
    uint32_t end = b->nnode;
    row_index(b, k->last, 2, ix);
    kb_store_op(b, k->last, ix, kb_given(b, KB_F, 1, 3));
    kb_cuda_part(&finish, b, end, b->nnode, 2);
    int64_t n = length_of(b->f, k->last);
    put_row(&body, b, end, v);
    yir_str_fmt(&body, lse_text, (long long)n, (long long)n, finish.text);
    b->units = rows_of(b->f, k->last);
    k->cuda = body.text;
    k->launch = (struct cg_launch){.threads = WARPS * WARP, .per_block = WARPS};
}

/* --- moments, norms and peaks of channels --------------------------------------------------------------------- */

bool guard_warp_sums(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    enum yir_code code = (enum yir_code)f->op[last].code;
    if (!t->sm || (code != YIR_moments && code != YIR_rnorm && code != YIR_peak) || !cg_only_last(f, first, last)) return false;
    const struct yir_tdesc *x = yir_desc(f, yir_src(f, last, 0));
    return x->dim[1] >= WARP && yir_numel(x) < INT32_MAX;
}

/* Rows of an image: its pixels. */
static int64_t pixels_of(const struct yir_func *f, uint32_t op)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    return d->dim[2] * d->dim[3];
}

size_t list_warp_sums(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                      size_t most)
{
    (void)first;
    (void)most;
    double work = 120 + 30.0 * (double)yir_desc(f, yir_src(f, last, 0))->dim[1] / WARP;
    *out = (struct cg_config){.cycles = cg_gpu_cycles(t, (double)pixels_of(f, last) * WARP, work)};
    return 1;
}

static void pixel_index(struct kb *b, uint32_t op, int number, kv channel, kv *ix)
{
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[op].type);
    kv u = kb_given_index(b, number, 1), width = kb_immi(b, d->dim[3]), height = kb_immi(b, d->dim[2]);
    ix[3] = kb_irem(b, u, width);
    u = kb_idiv(b, u, width);
    ix[2] = kb_irem(b, u, height);
    ix[0] = kb_idiv(b, u, height);
    ix[1] = channel;
}

static const char all_text[] =
    "    const auto all = [](float v) {\n"
    "        for (int step = 16; step; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);\n"
    "        return v;\n"
    "    };\n"
    "    enum { CHANNELS = %lld };\n";

static const char moments_text[] =
    "    float sum = 0.0f, squares = 0.0f;\n"
    "    for (int i = lane; i < CHANNELS; i += 32) sum += element(i);\n"
    "    const float g3 = all(sum) / CHANNELS;\n"
    "    for (int i = lane; i < CHANNELS; i += 32) {\n"
    "        const float d = element(i) - g3;\n"
    "        squares = fmaf(d, d, squares);\n"
    "    }\n"
    "    const float g4 = 1.0f / sqrtf(all(squares) / CHANNELS + %af);\n";

static const char norm_text[] =
    "    float squares = 0.0f;\n"
    "    for (int i = lane; i < CHANNELS; i += 32) {\n"
    "        const float v = element(i);\n"
    "        squares = fmaf(v, v, squares);\n"
    "    }\n"
    "    const float length = sqrtf(all(squares)), g3 = 1.0f / (1e-12f > length ? 1e-12f : length);\n";

static const char peak_text[] =
    "    float g3 = -3.4028234663852886e38f;\n"
    "    for (int i = lane; i < CHANNELS; i += 32) {\n"
    "        const float v = element(i);\n"
    "        g3 = g3 > v ? g3 : v;\n"
    "    }\n"
    "    for (int step = 16; step; step /= 2) {\n"
    "        const float v = __shfl_xor_sync(0xffffffffu, g3, step);\n"
    "        g3 = g3 > v ? g3 : v;\n"
    "    }\n";

static void put_sums(struct yir_str *out, const struct yir_func *f, uint32_t op)
{
    switch (f->op[op].code) {
    case YIR_moments: yir_str_fmt(out, moments_text, (double)((const struct yir_a_eps *)yir_attrs(f, op))->eps); return;
    case YIR_rnorm: yir_str_fmt(out, "%s", norm_text); return;
    default: yir_str_fmt(out, "%s", peak_text); return;
    }
}

void emit_fast_warp_sums(struct kb *b, struct cg_kernel *k)
{
    struct yir_str body = {.arena = b->arena}, finish = {.arena = b->arena};
    yir_ref x = yir_src(b->f, k->last, 0);
    kv ix[4];
    pixel_index(b, k->last, 0, kb_given_index(b, 1, 1), ix);
    kv v = kb_ref_at(b, x, ix);
    uint32_t end = b->nnode;
    for (int i = 0; i < (b->f->op[k->last].code == YIR_moments ? 2 : 1); i++) {
        pixel_index(b, k->last, 2, kb_immi(b, i), ix);
        kb_store_op(b, k->last, ix, kb_given(b, KB_F, 1, 3 + i));
    }
    kb_cuda_part(&finish, b, end, b->nnode, 2);
    put_row(&body, b, end, v);
    yir_str_fmt(&body, all_text, (long long)yir_desc(b->f, x)->dim[1]);
    put_sums(&body, b->f, k->last);
    yir_str_fmt(&body, "    if (lane == 0) {\n%s    }\n", finish.text);
    b->units = pixels_of(b->f, k->last);
    k->cuda = body.text;
    k->launch = (struct cg_launch){.threads = WARPS * WARP, .per_block = WARPS};
}
