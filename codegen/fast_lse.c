/* The log of sums of exponents on GPUs: a warp for each row, whose lanes share the elements. */
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

static const char body_text[] =
    "    const int lane = threadIdx.x & 31;\n"
    "    const long long row = (long long)blockIdx.x * %d + (threadIdx.x >> 5);\n"
    "    if (row >= total) return;\n"
    "%s"
    "    const int g0 = (int)row, g2 = g0;\n"
    "    const auto element = [&](int g1) {\n%s    };\n"
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
    struct yir_str body = {.arena = b->arena}, element = {.arena = b->arena}, wait = {.arena = b->arena}, finish = {.arena = b->arena};
    kv ix[YIR_MAX_RANK];
    row_index(b, k->last, 0, ix);
    ix[axis_of(b->f, k->last)] = kb_given_index(b, 1, 1);
    kv v = kb_ref_at(b, yir_src(b->f, k->last, 0), ix);
    uint32_t end = b->nnode;
    kb_cuda_part(&element, b, 1, end, 2);
    yir_str_fmt(&element, "        return ");
    kb_cuda_value(&element, b, v);
    yir_str_fmt(&element, ";\n");
    row_index(b, k->last, 2, ix);
    kb_store_op(b, k->last, ix, kb_given(b, KB_F, 1, 3));
    kb_cuda_part(&finish, b, end, b->nnode, 2);
    kb_cuda_wait(&wait, b->target, 1);
    int64_t n = length_of(b->f, k->last);
    yir_str_fmt(&body, body_text, WARPS, wait.text ? wait.text : "", element.text, (long long)n, (long long)n, finish.text);
    b->units = rows_of(b->f, k->last);
    k->cuda = body.text;
    k->launch = (struct cg_launch){.threads = WARPS * WARP, .per_block = WARPS};
}
