/* Attention as a whole by mma.sync (attn_text.c): what is taken, configurations, and the program of the epilogue. */
#include "attn_text.h"
#include "fast.h"
#include "kb_cuda.h"
#include "mma_text.h"

#include <math.h>
#include <string.h>

enum { KNOB_WARPS, KNOB_SPLIT, KNOB_KEYS, KNOB_STAGES };

/* --- what is taken ------------------------------------------------------------------------------------------ */

/* An operand, but for its memory: a run of positions whose channels are read 4 bytes or more at a time. */
static bool source_of(const struct yir_func *f, uint32_t op, int k, int64_t heads, int64_t first, struct attn_source *s)
{
    yir_ref r = yir_src(f, op, k);
    if (!cg_readable(f, f->op[op].kernel, r)) return false;
    const struct yir_place *p = &f->place[yir_index(r)];
    const struct yir_buf *buf = &f->buf[p->buf - 1];
    const struct yir_tdesc *d = yir_desc(f, r);
    *s = (struct attn_source){.image = p->stride[0], .step = p->stride[3], .head = d->dim[1] / heads, .first = first, .align = 16};
    uint64_t bytes = (uint64_t)(s->image | s->step | s->head | s->first) * yir_dtype_size(d->dtype) | p->offset;
    if (buf->kind == YIR_BUF_ARENA) bytes |= buf->offset;
    while (s->align > 1 && bytes % (uint64_t)s->align) s->align /= 2;
    return s->align >= 4 && s->image <= INT32_MAX;
}

/* Everything but the memories and the configuration. */
static bool take(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, uint32_t *op, struct attn *a)
{
    enum { MOST = 128 };
    *op = cg_only_op(f, first, last, YIR_attention);
    if (!*op || !t->sm || !cg_lanes_ok(f, first, last, *op)) return false;
    const struct yir_a_attention *at = yir_attrs(f, *op);
    const struct yir_tdesc *q = yir_desc(f, yir_src(f, *op, 0)), *v = yir_desc(f, yir_src(f, *op, 2));
    int64_t chunk = 16 / (int64_t)yir_dtype_size(q->dtype);
    *a = (struct attn){.dtype = q->dtype, .sm = t->sm, .heads = at->score.heads, .areas = at->score.areas, .dim = at->score.dim,
                       .values = at->values, .queries = q->dim[2] * q->dim[3] / at->score.areas,
                       .keys = v->dim[2] * v->dim[3] / at->score.areas, .width = q->dim[3], .scale = (double)at->score.scale};
    if (!mma_has_type(t, a->dtype) || !(a->scale > 0 && a->scale < 1e6) || a->dim % chunk || a->values % 8 || a->dim > MOST || a->values > MOST) return false;
    return source_of(f, *op, 0, a->heads, at->score.qat, &a->q) && source_of(f, *op, 1, a->heads, at->score.kat, &a->k) &&
           source_of(f, *op, 2, a->heads, at->vat, &a->v);
}

bool guard_attn_mma(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op;
    struct attn a;
    return take(f, first, last, t, &op, &a);
}

/* --- configurations ----------------------------------------------------------------------------------------- */

static void set_knobs(struct attn *a, const int32_t *knob)
{
    a->warps = knob[KNOB_WARPS];
    a->split = knob[KNOB_SPLIT];
    a->tile = knob[KNOB_KEYS];
    a->stages = knob[KNOB_STAGES];
}

/* Registers of a thread: sums, scores, queries, and the rest. */
static int64_t registers(const struct attn *a)
{
    int64_t steps = attn_whole(a, a->dim) * (int64_t)yir_dtype_size(a->dtype) / 32;
    return (attn_whole(a, a->values) / 2 + a->tile / 2 + steps * 4 + 56 + 7) / 8 * 8;
}

static bool legal(const struct attn *a)
{
    int64_t all, block;
    int threads;
    mma_limits(a->sm, &all, &block, &threads);
    return attn_shared(a) <= block && registers(a) <= 224 && registers(a) * attn_threads(a) <= 65536;
}

/* Blocks that a multiprocessor has room for at once, with some registers more than are needed; the compiler shares them out to whole
 * fours of warps. */
static int64_t resident(const struct attn *a)
{
    enum { MORE = 48 };
    int64_t all, block;
    int threads;
    mma_limits(a->sm, &all, &block, &threads);
    int64_t fit = all / (attn_shared(a) + 1024), most = threads / attn_threads(a);
    if (most < fit) fit = most;
    while (fit > 1 && (fit * attn_threads(a) + 127) / 128 * 128 * (registers(a) + MORE) > 65536) fit--;
    return fit < 1 ? 1 : fit;
}

/* Cycles of all images. A tile costs a warp its products and what is done to each score; alone on its part of the multiprocessor, it
 * waits for most of its own results. */
static double cycles_of(const struct attn *a, const struct kb_target *t)
{
    const double launch = 1740, product = 11, memory = 947;
    int64_t images = t->batch > 0 ? t->batch : 1, size = (int64_t)yir_dtype_size(a->dtype);
    double blocks = (double)(attn_units(a) * images), warps = a->warps * a->split;
    double depth = (double)attn_whole(a, a->dim) * (double)size / 32, wide = (double)attn_whole(a, a->values) / 8, keys = (double)a->tile / 8;
    double products = keys * depth + keys * (double)size / 4 * wide;
    double issued = products * (product + 2) + keys * 4 * 9 + wide * 5 + 60;
    double waited = products * product * 1.44 + depth * 30 + 500;
    double together = fmin(fmax(1, ceil(blocks / t->sms)), (double)resident(a)), turns = ceil(blocks / (t->sms * together));
    double share = fmax(warps * together / 4, 1);
    double tile = fmax(fmax(issued * share, waited), memory / (a->stages - 1));
    double end = 400 + 16 * (double)(a->warps * a->values) / 8 / (warps * 32) * (30 + 25 * a->split) * share;
    return launch + turns * ((double)attn_tiles(a) * tile + memory + end);
}

enum { KEPT = 24 };

size_t list_attn_mma(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    static const int32_t warps[] = {1, 2, 4, 8}, keys[] = {16, 32, 64};
    struct cg_config all[YIR_COUNT(warps) * YIR_COUNT(warps) * YIR_COUNT(keys) * 2];
    uint32_t op;
    struct attn a;
    size_t n = 0;
    take(f, first, last, t, &op, &a);
    for (size_t w = 0; w < YIR_COUNT(warps); w++)
        for (size_t s = 0; s < YIR_COUNT(warps); s++)
            for (size_t k = 0; k < YIR_COUNT(keys); k++)
                for (int32_t stages = 2; stages <= (t->sm < 80 ? 2 : 3); stages++) {
                    const int32_t knob[CG_KNOBS] = {warps[w], warps[s], keys[k], stages};
                    set_knobs(&a, knob);
                    bool small = w + s + k == 0 && stages == 2; /* always there */
                    if (!small && (warps[w] * warps[s] > 8 || !legal(&a) || (stages > 2 && attn_tiles(&a) < 2))) continue;
                    all[n] = (struct cg_config){.cycles = cycles_of(&a, t)};
                    memcpy(all[n++].knob, knob, sizeof knob);
                }
    n = cg_best_configs(all, n, most < KEPT ? most : KEPT);
    memcpy(out, all, n * sizeof *out);
    return n;
}

/* --- program ------------------------------------------------------------------------------------------------ */

/* The values g4 of 8 channels from g3 on through the rest of the kernel. */
static void record_epilogue(struct kb *b, const struct cg_kernel *k, uint32_t op)
{
    enum { EIGHT = 8 };
    kv n = kb_given_index(b, 0, 1), y = kb_given_index(b, 1, 1), x = kb_given_index(b, 2, 1), channel = kb_given_index(b, 3, EIGHT);
    b->lanes = b->valid = EIGHT;
    cg_bind(b, op, kb_given(b, KB_F, EIGHT, 4));
    cg_store_all(b, k->first, k->last, (kv[]){n, kb_lane(b, channel), y, x});
    b->nbound--;
    b->lanes = b->valid = 1;
}

void emit_fast_attn_mma(struct kb *b, struct cg_kernel *k)
{
    uint32_t op;
    struct attn a;
    struct yir_str head = {.arena = b->arena}, body = {.arena = b->arena}, wait = {.arena = b->arena}, end = {.arena = b->arena};
    take(b->f, k->first, k->last, b->target, &op, &a);
    set_knobs(&a, k->config.knob);
    a.q.mem = kb_mem_value(b, yir_src(b->f, op, 0));
    a.k.mem = kb_mem_value(b, yir_src(b->f, op, 1));
    a.v.mem = kb_mem_value(b, yir_src(b->f, op, 2));
    record_epilogue(b, k, op);
    b->units = attn_units(&a);
    kb_cuda_wait(&wait, b->target, 1);
    kb_cuda_nodes(&end, b, 2);
    attn_put_head(&head, &a);
    attn_put_body(&body, &a, wait.text ? wait.text : "", end.text);
    k->cuda_head = head.text;
    k->cuda = body.text;
    k->launch = (struct cg_launch){.threads = attn_threads(&a), .per_block = 1, .shared = (int32_t)attn_shared(&a), .resident = (int32_t)resident(&a)};
}
