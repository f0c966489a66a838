#include "attn_text.h"

#include <math.h>

#include "mma_text.h"

enum { ROWS = 16 }; /* queries of a warp */

static int64_t size_of(const struct attn *t)
{
    return (int64_t)yir_dtype_size(t->dtype);
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int64_t attn_whole(const struct attn *t, int64_t channels)
{
    return round_up(channels, 32 / size_of(t));
}

/* Bytes from one row to the next in shared memory: an odd number of 16 bytes, so that 8 rows lie in different banks. */
static int64_t pitch(const struct attn *t, int64_t channels)
{
    return attn_whole(t, channels) * size_of(t) + 16;
}

/* Floats from one row of results to the next: rows of 32 bytes more than a multiple of 64. */
static int64_t sums_pitch(const struct attn *t)
{
    return round_up(attn_whole(t, t->values), 16) + 8;
}

int attn_threads(const struct attn *t)
{
    return 32 * t->warps * t->split;
}

static int64_t chunks(const struct attn *t)
{
    return (t->queries + ROWS * t->warps - 1) / (ROWS * t->warps);
}

int64_t attn_units(const struct attn *t)
{
    return t->areas * t->heads * chunks(t);
}

int64_t attn_tiles(const struct attn *t)
{
    return (t->keys + t->tile * t->split - 1) / (t->tile * t->split);
}

int64_t attn_shared(const struct attn *t)
{
    int64_t stage = t->tile * t->split * (pitch(t, t->dim) + pitch(t, t->values)), tiles = attn_tiles(t);
    int64_t loop = ROWS * t->warps * pitch(t, t->dim) + (tiles < t->stages ? tiles : t->stages) * stage;
    int64_t sums = t->split * ROWS * t->warps * (sums_pitch(t) + 2) * 4;
    return loop > sums ? loop : sums;
}

static const char *kind_name(const struct attn *t)
{
    return t->dtype == YIR_F16 ? "_f16" : t->dtype == YIR_BF16 ? "_bf16" : "_tf32";
}

static bool has_async(const struct attn *t)
{
    return t->sm >= 80;
}

/* --- functions ---------------------------------------------------------------------------------------------- */

static const char turned_text[] =
    "static __device__ void ptx_fragment_turned(unsigned v[4], unsigned from)\n"
    "{\n"
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
    "                 : \"=r\"(v[0]), \"=r\"(v[1]), \"=r\"(v[2]), \"=r\"(v[3]) : \"r\"(from) : \"memory\");\n"
    "}\n";

const char attn_power_text[] =
    "static __device__ __forceinline__ float ptx_power(float x)\n"
    "{\n"
    "    float y;\n"
    "    asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));\n"
    "    return y;\n"
    "}\n";

void attn_put_head(struct yir_str *out, const struct attn *t)
{
    static const int aligns[] = {16, 8, 4};
    mma_put_fragment(out);
    mma_put_product(out, t->dtype, t->sm);
    if (t->dtype != YIR_F32) {
        yir_str_fmt(out, "%s", turned_text);
        mma_put_pair(out, t->dtype, t->sm);
    }
    yir_str_fmt(out, "%s", attn_power_text);
    for (int i = 0; i < 3 && has_async(t); i++)
        if (t->q.align == aligns[i] || t->k.align == aligns[i] || t->v.align == aligns[i]) mma_put_copy(out, aligns[i]);
    if (has_async(t)) mma_put_order(out);
}

/* --- body --------------------------------------------------------------------------------------------------- */

static const char start_text[] =
    "    extern __shared__ __align__(128) unsigned char shared[];\n"
    "    const unsigned base = (unsigned)__cvta_generic_to_shared(shared);\n"
    "    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;\n"
    "    const int part = warp / WARPS, row0 = warp % WARPS * 16;\n"
    "    const int image = (int)blockIdx.x / UNITS, unit = (int)blockIdx.x % UNITS;\n"
    "    const int query0 = unit % CHUNKS * ROWS, head = unit / CHUNKS % HEADS, area = unit / CHUNKS / HEADS;\n";

static void put_names(struct yir_str *out, const struct attn *t)
{
    yir_str_fmt(out,
                "    enum {\n"
                "        WARPS = %d, SPLIT = %d, STAGES = %d, THREADS = 32 * WARPS * SPLIT,\n"
                "        ROWS = 16 * WARPS, EACH = %d, TILE = EACH * SPLIT, /* queries; keys of a warp, and of all */\n"
                "        DIM = %d, VALUES = %d, STEPS = DIM / %d, /* channels; products that a score is the sum of */\n"
                "        PITCH_K = %d, PITCH_V = %d, BYTES_K = TILE * PITCH_K, STAGE = TILE * (PITCH_K + PITCH_V),\n"
                "        HEADS = %d, QUERIES = %d, KEYS = %d, TILES = %d, CHUNKS = %d, UNITS = %d, WIDTH = %d, PITCH = %d\n"
                "    };\n",
                t->warps, t->split, t->stages, (int)t->tile, (int)attn_whole(t, t->dim), (int)attn_whole(t, t->values),
                (int)(32 / size_of(t)), (int)pitch(t, t->dim), (int)pitch(t, t->values), (int)t->heads, (int)t->queries, (int)t->keys,
                (int)attn_tiles(t), (int)chunks(t), (int)attn_units(t), (int)t->width, (int)sums_pitch(t));
}

/* A function that copies `count` rows from position p on to shared memory; what lies behind the area's last is zero. */
static void put_copy(struct yir_str *out, const struct attn *t, const char *name, const struct attn_source *s, int64_t channels,
                     const char *pitch_name, int64_t count, const char *limit)
{
    const char *type = t->dtype == YIR_F32 ? "float" : "unsigned short", *words[] = {"unsigned", "uint2", "uint4"};
    int64_t each = 16 / size_of(t), columns = attn_whole(t, channels) / each;
    int64_t copies = (count * columns + attn_threads(t) - 1) / attn_threads(t); /* many at once would take many registers */
    yir_str_fmt(out,
                "    const %s *const from_%s = m%d + (long long)image * %lld + (long long)area * %lld + head * %d + %d;\n"
                "    auto copy_%s = [&](int to, int p) {\n"
                "        enum { COLUMNS = %d, COPIES = (%d * COLUMNS + THREADS - 1) / THREADS };\n"
                "        #pragma unroll %d\n"
                "        for (int i = 0; i < COPIES; i++) {\n"
                "            const int at = thread + i * THREADS, row = at / COLUMNS, column = at %% COLUMNS;\n"
                "            if (%d * COLUMNS %% THREADS != 0 && row >= %d) break;\n"
                "            const bool in = p + row < %s && column < %d;\n"
                "            const %s *const f = in ? from_%s + (p + row) * %d + column * %d : from_%s;\n",
                type, name, s->mem, (long long)s->image, (long long)(*limit == 'Q' ? t->queries : t->keys) * s->step, (int)s->head,
                (int)s->first, name, (int)columns, (int)count, copies > 8 ? 4 : (int)copies, (int)count, (int)count, limit, (int)(channels / each), type, name,
                (int)s->step, (int)each, name);
    for (int i = 0; i < 16; i += s->align) {
        if (has_async(t))
            yir_str_fmt(out, "            ptx_copy%d(base + to + row * %s + column * 16 + %d, f + %d, in ? %d : 0);\n", s->align,
                        pitch_name, i, i / (int)size_of(t), s->align);
        else
            yir_str_fmt(out, "            const %s v%d = *(const %s *)(f + %d), z%d = {};\n"
                             "            *(%s *)(shared + to + row * %s + column * 16 + %d) = in ? v%d : z%d;\n",
                        words[s->align / 8], i, words[s->align / 8], i / (int)size_of(t), i, words[s->align / 8], pitch_name, i, i, i);
    }
    yir_str_fmt(out, "        }\n"
                     "    };\n");
}

static void put_copies(struct yir_str *out, const struct attn *t)
{
    put_copy(out, t, "q", &t->q, t->dim, "PITCH_K", (int64_t)ROWS * t->warps, "QUERIES");
    put_copy(out, t, "k", &t->k, t->dim, "PITCH_K", t->tile * t->split, "KEYS");
    put_copy(out, t, "v", &t->v, t->values, "PITCH_V", t->tile * t->split, "KEYS");
}

static const char state_text[] =
    "    unsigned left[STEPS][4];\n"
    "    float top[2] = {-1e30f, -1e30f}, sum[2] = {0.0f, 0.0f}; /* of rows lane / 4, and 8 more */\n"
    "    float out[VALUES / 8][4];\n"
    "    #pragma unroll\n"
    "    for (int i = 0; i < VALUES / 8; i++)\n"
    "        #pragma unroll\n"
    "        for (int e = 0; e < 4; e++) out[i][e] = 0.0f;\n";

static void put_ahead(struct yir_str *out, const struct attn *t, const char *wait)
{
    yir_str_fmt(out, "%s"
                     "    copy_q(0, query0);\n"
                     "    #pragma unroll\n"
                     "    for (int k = 0; k < STAGES - 1; k++) {\n"
                     "        if (k < TILES) {\n"
                     "            copy_k(ROWS * PITCH_K + k * STAGE, k * TILE);\n"
                     "            copy_v(ROWS * PITCH_K + k * STAGE + BYTES_K, k * TILE);\n"
                     "        }\n"
                     "%s"
                     "    }\n",
                wait, has_async(t) ? "        ptx_commit();\n" : "");
}

static void put_queries(struct yir_str *out, const struct attn *t)
{
    yir_str_fmt(out, "        if (k == 0) {\n"
                     "            #pragma unroll\n"
                     "            for (int s = 0; s < STEPS; s++) {\n"
                     "                ptx_fragment(left[s], base + (row0 + lane %% 16) * PITCH_K + (s * 2 + lane / 16) * 16);\n");
    if (t->dtype == YIR_F32)
        yir_str_fmt(out, "                #pragma unroll\n"
                         "                for (int e = 0; e < 4; e++) left[s][e] = ptx_tf32(left[s][e]);\n");
    yir_str_fmt(out, "            }\n"
                     "        }\n");
}

/* The warp's keys: 8 columns of scores from each two rows of 16 bytes. */
static void put_scores(struct yir_str *out, const struct attn *t)
{
    yir_str_fmt(out,
                "        float score[EACH / 8][4];\n"
                "        const unsigned keys = base + ROWS * PITCH_K + now * STAGE + part * EACH * PITCH_K;\n"
                "        #pragma unroll\n"
                "        for (int j = 0; j < EACH / 8; j++)\n"
                "            #pragma unroll\n"
                "            for (int e = 0; e < 4; e++) score[j][e] = 0.0f;\n"
                "        #pragma unroll\n"
                "        for (int s = 0; s < STEPS; s++)\n"
                "            #pragma unroll\n"
                "            for (int j = 0; j < EACH / 16; j++) {\n"
                "                unsigned right[4];\n"
                "                ptx_fragment(right, keys + (j * 16 + lane / 16 * 8 + lane %% 8) * PITCH_K + (s * 2 + lane / 8 %% 2) * 16);\n");
    if (t->dtype == YIR_F32)
        yir_str_fmt(out, "                #pragma unroll\n"
                         "                for (int e = 0; e < 4; e++) right[e] = ptx_tf32(right[e]);\n");
    yir_str_fmt(out,
                "                ptx_mma%s(score[j * 2], left[s], right[0], right[1]);\n"
                "                ptx_mma%s(score[j * 2 + 1], left[s], right[2], right[3]);\n"
                "            }\n",
                kind_name(t), kind_name(t));
}

/* Columns behind the last key have no weight. */
static void put_tail(struct yir_str *out, const struct attn *t)
{
    if (t->keys % (t->tile * t->split) == 0) return;
    yir_str_fmt(out, "        const int exist = KEYS - k * TILE - part * EACH; /* keys, from the warp's first on */\n"
                     "        if (exist < EACH) {\n"
                     "            #pragma unroll\n"
                     "            for (int j = 0; j < EACH / 8; j++)\n"
                     "                #pragma unroll\n"
                     "                for (int e = 0; e < 4; e++)\n"
                     "                    if (j * 8 + lane %% 4 * 2 + e %% 2 >= exist) score[j][e] = __int_as_float(0xff800000);\n"
                     "        }\n");
}

/* Scores to weights, as powers of two of what they are less than the largest times SCALE; what was summed before is made smaller where
 * a larger one has come. What `top` begins with is below all scores, but times SCALE still finite: a warp may have no keys at all. */
static void put_weights(struct yir_str *out)
{
    yir_str_fmt(out,
                "        float more[2] = {top[0], top[1]};\n"
                "        #pragma unroll\n"
                "        for (int j = 0; j < EACH / 8; j++)\n"
                "            #pragma unroll\n"
                "            for (int e = 0; e < 4; e++) more[e / 2] = fmaxf(more[e / 2], score[j][e]);\n"
                "        #pragma unroll\n"
                "        for (int r = 0; r < 2; r++) {\n"
                "            more[r] = fmaxf(more[r], __shfl_xor_sync(0xffffffffu, more[r], 1));\n"
                "            more[r] = fmaxf(more[r], __shfl_xor_sync(0xffffffffu, more[r], 2));\n"
                "            const float less = ptx_power((top[r] - more[r]) * SCALE);\n"
                "            top[r] = more[r];\n"
                "            sum[r] *= less;\n"
                "            #pragma unroll\n"
                "            for (int i = 0; i < VALUES / 8; i++) out[i][r * 2] *= less, out[i][r * 2 + 1] *= less;\n"
                "        }\n"
                "        #pragma unroll\n"
                "        for (int j = 0; j < EACH / 8; j++)\n"
                "            #pragma unroll\n"
                "            for (int e = 0; e < 4; e++) {\n"
                "                score[j][e] = ptx_power(fmaf(score[j][e], SCALE, -top[e / 2] * SCALE));\n"
                "                sum[e / 2] += score[j][e];\n"
                "            }\n");
}

/* Two columns of weights side by side are what a product takes as a row's two elements. */
static void put_mix_halves(struct yir_str *out, const struct attn *t)
{
    const char *kind = kind_name(t);
    yir_str_fmt(out,
                "        const unsigned values = base + ROWS * PITCH_K + now * STAGE + BYTES_K + part * EACH * PITCH_V;\n"
                "        #pragma unroll\n"
                "        for (int j = 0; j < EACH / 16; j++) {\n"
                "            const unsigned w[4] = {ptx_pair%s(score[j * 2][0], score[j * 2][1]), ptx_pair%s(score[j * 2][2], score[j * 2][3]),\n"
                "                                   ptx_pair%s(score[j * 2 + 1][0], score[j * 2 + 1][1]),\n"
                "                                   ptx_pair%s(score[j * 2 + 1][2], score[j * 2 + 1][3])};\n"
                "            #pragma unroll\n"
                "            for (int i = 0; i < VALUES / 16; i++) {\n"
                "                unsigned right[4];\n"
                "                ptx_fragment_turned(right, values + (j * 16 + lane %% 16) * PITCH_V + (i * 2 + lane / 16) * 16);\n"
                "                ptx_mma%s(out[i * 2], w, right[0], right[1]);\n"
                "                ptx_mma%s(out[i * 2 + 1], w, right[2], right[3]);\n"
                "            }\n"
                "        }\n",
                kind, kind, kind, kind, kind, kind);
}

/* A product's columns 0 to 3 are the even keys of eight, the others the odd ones: so each lane has the weights that it needs. */
static void put_mix_floats(struct yir_str *out)
{
    yir_str_fmt(out,
                "        const unsigned char *const values = shared + ROWS * PITCH_K + now * STAGE + BYTES_K + part * EACH * PITCH_V;\n"
                "        #pragma unroll\n"
                "        for (int j = 0; j < EACH / 8; j++) {\n"
                "            unsigned w[4] = {__float_as_uint(score[j][0]), __float_as_uint(score[j][2]), __float_as_uint(score[j][1]),\n"
                "                             __float_as_uint(score[j][3])};\n"
                "            const unsigned *const v = (const unsigned *)(values + (j * 8 + lane %% 4 * 2) * PITCH_V) + lane / 4;\n"
                "            #pragma unroll\n"
                "            for (int e = 0; e < 4; e++) w[e] = ptx_tf32(w[e]);\n"
                "            #pragma unroll\n"
                "            for (int i = 0; i < VALUES / 8; i++)\n"
                "                ptx_mma_tf32(out[i], w, ptx_tf32(v[i * 8]), ptx_tf32(v[i * 8 + PITCH_V / 4]));\n"
                "        }\n");
}

static void put_loop(struct yir_str *out, const struct attn *t)
{
    yir_str_fmt(out, "    int now = 0, next = STAGES - 1;\n"
                     "    #pragma unroll 1\n"
                     "    for (int k = 0; k < TILES; k++) {\n"
                     "%s"
                     "        __syncthreads();\n"
                     "        if (k + STAGES - 1 < TILES) {\n"
                     "            copy_k(ROWS * PITCH_K + next * STAGE, (k + STAGES - 1) * TILE);\n"
                     "            copy_v(ROWS * PITCH_K + next * STAGE + BYTES_K, (k + STAGES - 1) * TILE);\n"
                     "        }\n"
                     "%s"
                     "        next = next + 1 == STAGES ? 0 : next + 1;\n",
                has_async(t) ? "        ptx_wait<STAGES - 2>();\n" : "", has_async(t) ? "        ptx_commit();\n" : "");
    put_queries(out, t);
    put_scores(out, t);
    put_tail(out, t);
    put_weights(out);
    if (t->dtype == YIR_F32) put_mix_floats(out);
    else put_mix_halves(out, t);
    yir_str_fmt(out, "        now = now + 1 == STAGES ? 0 : now + 1;\n"
                     "    }\n"
                     "%s",
                has_async(t) ? "    ptx_wait<0>();\n" : "");
}

static const char store_text[] =
    "    /* What each group of warps has summed, by queries, in the place of the tiles. */\n"
    "    __syncthreads();\n"
    "    float *const sums = (float *)shared, *const tops = sums + SPLIT * ROWS * PITCH, *const weights = tops + SPLIT * ROWS;\n"
    "    #pragma unroll\n"
    "    for (int r = 0; r < 2; r++) {\n"
    "        const int row = part * ROWS + row0 + lane / 4 + r * 8;\n"
    "        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 1);\n"
    "        sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], 2);\n"
    "        if (lane % 4 == 0) tops[row] = top[r], weights[row] = sum[r];\n"
    "        #pragma unroll\n"
    "        for (int i = 0; i < VALUES / 8; i++)\n"
    "            *(float2 *)(sums + row * PITCH + i * 8 + lane % 4 * 2) = make_float2(out[i][r * 2], out[i][r * 2 + 1]);\n"
    "    }\n"
    "    __syncthreads();\n";

static const char finish_text[] =
    "    enum { EIGHTS = %d / 8, ALL = ROWS * EIGHTS };\n"
    "    for (int i = thread; i < ALL; i += THREADS) {\n"
    "        const int row = i / EIGHTS, position = area * QUERIES + query0 + row;\n"
    "        if (query0 + row >= QUERIES) continue;\n"
    "        const int g0 = image, g1 = position / WIDTH, g2 = position %% WIDTH, g3 = (head * EIGHTS + i %% EIGHTS) * 8;\n"
    "        float most = tops[row], all = 0.0f, g4[8] = {};\n"
    "        #pragma unroll\n"
    "        for (int p = 1; p < SPLIT; p++) most = fmaxf(most, tops[p * ROWS + row]);\n"
    "        #pragma unroll\n"
    "        for (int p = 0; p < SPLIT; p++) {\n"
    "            const float less = SPLIT == 1 ? 1.0f : ptx_power((tops[p * ROWS + row] - most) * SCALE);\n"
    "            all += weights[p * ROWS + row] * less;\n"
    "            #pragma unroll\n"
    "            for (int e = 0; e < 8; e += 4) {\n"
    "                const float4 v = *(const float4 *)(sums + (p * ROWS + row) * PITCH + i %% EIGHTS * 8 + e);\n"
    "                g4[e] += v.x * less, g4[e + 1] += v.y * less, g4[e + 2] += v.z * less, g4[e + 3] += v.w * less;\n"
    "            }\n"
    "        }\n"
    "        const float share = 1.0f / all;\n"
    "        #pragma unroll\n"
    "        for (int e = 0; e < 8; e++) g4[e] *= share;\n";

void attn_put_body(struct yir_str *out, const struct attn *t, const char *wait, const char *finish)
{
    put_names(out, t);
    yir_str_fmt(out, "%s", start_text);
    put_copies(out, t);
    yir_str_fmt(out, "    const float SCALE = %af; /* in powers of two */\n%s", (double)(float)(t->scale * 1.4426950408889634), state_text);
    put_ahead(out, t, wait);
    put_loop(out, t);
    yir_str_fmt(out, "%s", store_text);
    yir_str_fmt(out, finish_text, (int)t->values);
    yir_str_fmt(out, "%s    }\n", finish);
}
