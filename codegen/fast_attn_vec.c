/* Attention as a whole without tensor cores: a query a thread, keys and values passing by in shared memory as floats. A query's largest
 * score so far, the sum of its weights and its weighted sums of values are corrected as larger scores come; the warps of a block take
 * different keys, and what they have is joined at the end. */
#include "attn_text.h"
#include "fast_vec.h"
#include "kb_cuda.h"

#include <math.h>
#include <string.h>

enum { KNOB_SPLIT, KNOB_KEYS };
enum { ROWS = 32, MOST_CHANNELS = 144 }; /* queries of a block; of keys and values, which are in registers */

struct source {
    const char *name;
    int operand;
    int64_t first, channels, limit; /* first channel of a head; positions of an area */
};

struct vec {
    const struct yir_func *f;
    uint32_t op;
    struct source q, k, v;
    int64_t heads, areas, width, parts; /* parts: of a head's values, each of which a block of its own sums */
    double scale;
    int64_t split, each; /* groups of keys; of one group in each tile */
    int lanes;           /* channels that are finished at once */
};

static int64_t fours(int64_t n)
{
    return (n + 3) / 4 * 4;
}

static bool take(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct vec *s)
{
    uint32_t op = cg_only_op(f, first, last, YIR_attention);
    if (!op || !t->sm || !cg_lanes_ok(f, first, last, op)) return false;
    const struct yir_a_attention *a = yir_attrs(f, op);
    const struct yir_tdesc *q = yir_desc(f, yir_src(f, op, 0)), *v = yir_desc(f, yir_src(f, op, 2));
    int64_t queries = q->dim[2] * q->dim[3] / a->score.areas, keys = v->dim[2] * v->dim[3] / a->score.areas;
    *s = (struct vec){.f = f, .op = op, .heads = a->score.heads, .areas = a->score.areas, .width = q->dim[3], .scale = (double)a->score.scale,
                      .q = {"q", 0, a->score.qat, a->score.dim, queries}, .k = {"k", 1, a->score.kat, a->score.dim, keys},
                      .v = {"v", 2, a->vat, a->values, keys}, .lanes = 8};
    for (s->parts = 1; fours(a->score.dim) + fours(s->v.channels) > MOST_CHANNELS; s->v.channels = a->values / s->parts)
        do
            if (++s->parts > a->values) return false;
        while (a->values % s->parts);
    while (s->v.channels % s->lanes) s->lanes /= 2;
    for (int i = 0; i < 3; i++) {
        yir_ref r = yir_src(f, op, i);
        if (!cg_readable(f, f->op[op].kernel, r) || f->place[yir_index(r)].stride[0] > INT32_MAX) return false;
    }
    return fabs(s->scale) < 1e6;
}

bool guard_attn_vec(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    struct vec s;
    return take(f, first, last, t, &s);
}

/* --- configurations ----------------------------------------------------------------------------------------- */

static int64_t chunks(const struct vec *s)
{
    return (s->q.limit + ROWS - 1) / ROWS;
}

static int64_t units(const struct vec *s)
{
    return s->areas * s->heads * s->parts * chunks(s);
}

static int64_t pitch(const struct vec *s)
{
    return fours(s->v.channels) + 4;
}

static int64_t shared(const struct vec *s)
{
    int64_t tile = s->each * s->split * (fours(s->k.channels) + fours(s->v.channels)), sums = s->split * ROWS * (pitch(s) + 2);
    return (tile > sums ? tile : sums) * 4;
}

static double cycles_of(const struct vec *s, const struct kb_target *t)
{
    enum { START = 3000, SCHEDULERS = 4, MEMORY = 947 }; /* memory: queries, then each tile */
    double images = t->batch > 0 ? t->batch : 1, k = (double)fours(s->k.channels), v = (double)fours(s->v.channels);
    double blocks = (double)units(s) * images, keys = ceil((double)s->k.limit / (double)s->split);
    double turns = fmax(blocks * (double)s->split / (SCHEDULERS * t->sms), fmax(1.5, (double)s->split / SCHEDULERS));
    double work = keys * ((k + v) * 1.25 + v / 4 + 14) + (double)s->k.limit * (k + v) / (double)(s->split * ROWS) * 10;
    double tiles = ceil((double)s->k.limit / (double)(s->each * s->split));
    return START + (1 + tiles) * MEMORY + turns * (work + v / 8 * (20 + 12 * (double)s->split));
}

size_t list_attn_vec(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    enum { MOST_SHARED = 48 << 10 };
    struct vec s;
    size_t n = 0;
    take(f, first, last, t, &s);
    for (int32_t split = 1; split <= 8; split *= 2)
        for (int32_t keys = 8; keys <= 32 && n < most; keys *= 2) {
            s.split = split;
            s.each = keys;
            if (n && shared(&s) > MOST_SHARED) continue;
            out[n++] = (struct cg_config){.knob = {split, keys}, .cycles = cycles_of(&s, t)};
        }
    return n;
}

/* --- text --------------------------------------------------------------------------------------------------- */

static void put_names(struct yir_str *out, const struct vec *s)
{
    yir_str_fmt(out,
                "    enum {\n"
                "        ROWS = %d, SPLIT = %d, EACH = %d, TILE = EACH * SPLIT, THREADS = ROWS * SPLIT, /* queries; keys */\n"
                "        DIM = %d, VALUES = %d, PITCH = %d, LANES = %d, GROUPS = %d, /* channels */\n"
                "        HEADS = %d, PARTS = %d, QUERIES = %d, KEYS = %d, CHUNKS = %d, UNITS = %d, WIDTH = %d\n"
                "    };\n"
                "    extern __shared__ __align__(128) unsigned char shared[];\n"
                "    float *const keys = (float *)shared, *const values = keys + TILE * DIM;\n"
                "    const int thread = (int)threadIdx.x, lane = thread %% ROWS, part = thread / ROWS;\n"
                "    const int image = (int)blockIdx.x / UNITS, unit = (int)blockIdx.x %% UNITS;\n"
                "    const int query0 = unit %% CHUNKS * ROWS, slice = unit / CHUNKS %% PARTS, head = unit / CHUNKS / PARTS %% HEADS;\n"
                "    const int area = unit / CHUNKS / PARTS / HEADS;\n",
                (int)ROWS, (int)s->split, (int)s->each, (int)fours(s->k.channels), (int)fours(s->v.channels), (int)pitch(s), s->lanes, (int)(s->v.channels / s->lanes),
                (int)s->heads, (int)s->parts, (int)s->q.limit, (int)s->k.limit, (int)chunks(s), (int)units(s), (int)s->width);
}

/* A function that gives channel c at position p of the head and area; 0 outside. */
static void put_source(struct yir_str *out, struct kb *b, const struct vec *s, const struct source *from)
{
    yir_ref r = yir_src(s->f, s->op, from->operand);
    const int64_t *stride = s->f->place[yir_index(r)].stride;
    const struct yir_tdesc *d = yir_desc(s->f, r);
    const char *load = d->dtype == YIR_F32 ? "" : d->dtype == YIR_F16 ? "from_f16" : "from_bf16";
    int mem = kb_mem_value(b, r);
    yir_str_fmt(out,
                "    const auto *const from_%s = m%d + (long long)image * %lld + (long long)area * %lld + head * %d + %d%s;\n"
                "    auto %s = [&](int p, int c) { return p < %d && c < %d ? %s(from_%s[p * %d + c]) : 0.0f; };\n",
                from->name, mem, (long long)stride[0], (long long)(from->limit * stride[3]), (int)(d->dim[1] / s->heads), (int)from->first,
                from == &s->v ? " + slice * GROUPS * LANES" : "", from->name, (int)from->limit, (int)from->channels, load, from->name, (int)stride[3]);
}

static const char state_text[] =
    "    float query[DIM], out[VALUES], top = -1e30f, sum = 0.0f; /* no score is as low */\n"
    "    #pragma unroll\n"
    "    for (int c = 0; c < DIM; c++) query[c] = q(query0 + lane, c) * %af; /* scores are powers of two */\n"
    "    #pragma unroll\n"
    "    for (int c = 0; c < VALUES; c++) out[c] = 0.0f;\n";

static const char loop_text[] =
    "    #pragma unroll 1\n"
    "    for (int k0 = 0; k0 < KEYS; k0 += TILE) {\n"
    "        __syncthreads();\n"
    "        for (int i = thread; i < TILE * DIM; i += THREADS) keys[i] = k(k0 + i / DIM, i % DIM);\n"
    "        for (int i = thread; i < TILE * VALUES; i += THREADS) values[i] = v(k0 + i / VALUES, i % VALUES);\n"
    "        __syncthreads();\n"
    "        const int left = KEYS - k0 - part * EACH, exist = left < EACH ? left : EACH;\n"
    "        #pragma unroll 1\n"
    "        for (int j = 0; j < exist; j += 4) {\n"
    "            const float4 *const key = (const float4 *)(keys + (part * EACH + j) * DIM);\n"
    "            const float4 *const value = (const float4 *)(values + (part * EACH + j) * VALUES);\n"
    "            float score[4] = {}, most = top;\n"
    "            #pragma unroll\n"
    "            for (int c = 0; c < DIM; c += 4)\n"
    "                #pragma unroll\n"
    "                for (int e = 0; e < 4; e++) {\n"
    "                    const float4 x = key[(e * DIM + c) / 4];\n"
    "                    score[e] = fmaf(query[c], x.x, score[e]), score[e] = fmaf(query[c + 1], x.y, score[e]);\n"
    "                    score[e] = fmaf(query[c + 2], x.z, score[e]), score[e] = fmaf(query[c + 3], x.w, score[e]);\n"
    "                }\n"
    "            #pragma unroll\n"
    "            for (int e = 0; e < 4; e++) {\n"
    "                if (j + e >= exist) score[e] = __int_as_float(0xff800000);\n"
    "                most = fmaxf(most, score[e]);\n"
    "            }\n"
    "            const float less = ptx_power(top - most);\n"
    "            top = most;\n"
    "            sum *= less;\n"
    "            #pragma unroll\n"
    "            for (int c = 0; c < VALUES; c++) out[c] *= less;\n"
    "            #pragma unroll\n"
    "            for (int e = 0; e < 4; e++) {\n"
    "                score[e] = ptx_power(score[e] - top);\n"
    "                sum += score[e];\n"
    "                #pragma unroll\n"
    "                for (int c = 0; c < VALUES; c += 4) {\n"
    "                    const float4 x = value[(e * VALUES + c) / 4];\n"
    "                    out[c] = fmaf(score[e], x.x, out[c]), out[c + 1] = fmaf(score[e], x.y, out[c + 1]);\n"
    "                    out[c + 2] = fmaf(score[e], x.z, out[c + 2]), out[c + 3] = fmaf(score[e], x.w, out[c + 3]);\n"
    "                }\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    /* What each group of keys came to, by queries, in the place of the tiles. */\n"
    "    __syncthreads();\n"
    "    float *const sums = (float *)shared, *const tops = sums + SPLIT * ROWS * PITCH, *const weights = tops + SPLIT * ROWS;\n"
    "    tops[thread] = top, weights[thread] = sum;\n"
    "    #pragma unroll\n"
    "    for (int c = 0; c < VALUES; c += 4) *(float4 *)(sums + thread * PITCH + c) = make_float4(out[c], out[c + 1], out[c + 2], out[c + 3]);\n"
    "    __syncthreads();\n";

static const char finish_text[] =
    "    for (int i = thread; i < ROWS * GROUPS; i += THREADS) {\n"
    "        const int row = i / GROUPS, position = area * QUERIES + query0 + row;\n"
    "        if (query0 + row >= QUERIES) continue;\n"
    "        const int g0 = image, g1 = position / WIDTH, g2 = position %% WIDTH, g3 = ((head * PARTS + slice) * GROUPS + i %% GROUPS) * LANES;\n"
    "        float most = tops[row], all = 0.0f, %s[LANES] = {};\n"
    "        #pragma unroll\n"
    "        for (int p = 1; p < SPLIT; p++) most = fmaxf(most, tops[p * ROWS + row]);\n"
    "        #pragma unroll\n"
    "        for (int p = 0; p < SPLIT; p++) {\n"
    "            const float less = SPLIT == 1 ? 1.0f : ptx_power(tops[p * ROWS + row] - most);\n"
    "            all += weights[p * ROWS + row] * less;\n"
    "            #pragma unroll\n"
    "            for (int e = 0; e < LANES; e++) %s[e] += sums[(p * ROWS + row) * PITCH + i %% GROUPS * LANES + e] * less;\n"
    "        }\n"
    "        const float share = 1.0f / all;\n"
    "        #pragma unroll\n"
    "        for (int e = 0; e < LANES; e++) %s[e] *= share;\n";

/* The values g4 of some channels from g3 on through the rest of the kernel. */
static void record_epilogue(struct kb *b, const struct cg_kernel *k, const struct vec *s)
{
    kv n = kb_given_index(b, 0, 1), y = kb_given_index(b, 1, 1), x = kb_given_index(b, 2, 1);
    kv c = kb_given_index(b, 3, (uint32_t)s->lanes);
    b->lanes = b->valid = s->lanes;
    cg_bind(b, s->op, kb_given(b, KB_F, s->lanes, 4));
    if (s->lanes > 1) c = kb_lane(b, c);
    cg_store_all(b, k->first, k->last, (kv[]){n, c, y, x});
    b->nbound--;
    b->lanes = b->valid = 1;
}

void emit_fast_attn_vec(struct kb *b, struct cg_kernel *k)
{
    struct vec s;
    struct yir_str body = {.arena = b->arena}, end = {.arena = b->arena};
    take(b->f, k->first, k->last, b->target, &s);
    s.split = k->config.knob[KNOB_SPLIT];
    s.each = k->config.knob[KNOB_KEYS];
    put_names(&body, &s);
    put_source(&body, b, &s, &s.q);
    put_source(&body, b, &s, &s.k);
    put_source(&body, b, &s, &s.v);
    record_epilogue(b, k, &s);
    kb_cuda_wait(&body, b->target, 1);
    yir_str_fmt(&body, state_text, (double)(float)(s.scale * 1.4426950408889634));
    yir_str_fmt(&body, "%s", loop_text);
    const char *result = s.lanes > 1 ? "g4" : "one"; /* a vector, or a vector of one, which programs take as a number */
    yir_str_fmt(&body, finish_text, result, result, result);
    if (s.lanes == 1) yir_str_fmt(&body, "        const float g4 = one[0];\n");
    kb_cuda_nodes(&end, b, 2);
    yir_str_fmt(&body, "%s    }\n", end.text);
    b->units = units(&s);
    k->cuda = body.text;
    k->cuda_head = attn_power_text;
    k->launch = (struct cg_launch){.threads = (int32_t)(ROWS * s.split), .per_block = 1, .shared = (int32_t)shared(&s), .resident = 1};
}
