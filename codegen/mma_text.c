#include "mma_text.h"

int64_t mma_chunk(const struct mma *m)
{
    return 16 / (int64_t)yir_dtype_size(m->dtype);
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int64_t mma_steps_of(enum yir_dtype t, int64_t taps, int64_t ci)
{
    int64_t chunk = 16 / (int64_t)yir_dtype_size(t);
    return (taps * ((ci + chunk - 1) / chunk) + 1) / 2;
}

int64_t mma_steps(const struct mma *m)
{
    return mma_steps_of(m->dtype, m->taps[0] * m->taps[1], m->ci);
}

int mma_threads(const struct mma *m)
{
    return 32 * m->warps_m * m->warps_n * m->split;
}

static int64_t tiles_n(const struct mma *m)
{
    return (m->co / m->groups + m->tile_n - 1) / m->tile_n * m->groups;
}

int64_t mma_units(const struct mma *m)
{
    return (m->oh * m->ow + m->tile_m - 1) / m->tile_m * tiles_n(m);
}

/* Floats from one row of sums to the next: rows of 32 bytes more or less than a multiple of 64, so that the 8 rows of a fragment
 * lie in different banks. */
static int64_t pitch(const struct mma *m)
{
    return m->tile_n / 8 % 2 ? m->tile_n : m->tile_n + 8;
}

int64_t mma_shared(const struct mma *m)
{
    int64_t loop = m->stages * (m->tile_m + m->tile_n) * m->tile_k * (int64_t)yir_dtype_size(m->dtype);
    int64_t sums = m->split * m->tile_m * pitch(m) * 4;
    return loop > sums ? loop : sums;
}

/* --- functions ---------------------------------------------------------------------------------------------- */

static const char fragment_text[] =
    "static __device__ void ptx_fragment(unsigned v[4], unsigned from)\n"
    "{\n"
    "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\"\n"
    "                 : \"=r\"(v[0]), \"=r\"(v[1]), \"=r\"(v[2]), \"=r\"(v[3]) : \"r\"(from) : \"memory\");\n"
    "}\n";

static const char copy_text[] =
    "static __device__ void ptx_copy%d(unsigned to, const void *from, int bytes)\n"
    "{\n"
    "    asm volatile(\"cp.async.%s.shared.global [%%0], [%%1], %d, %%2;\" : : \"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\");\n"
    "}\n";

static const char order_text[] =
    "static __device__ void ptx_commit()\n"
    "{\n"
    "    asm volatile(\"cp.async.commit_group;\" : : : \"memory\");\n"
    "}\n"
    "template <int LEFT> static __device__ void ptx_wait()\n"
    "{\n"
    "    asm volatile(\"cp.async.wait_group %0;\" : : \"n\"(LEFT) : \"memory\");\n"
    "}\n";

static const char mma_text[] =
    "static __device__ void ptx_mma%s(float d[4], const unsigned a[4], unsigned b0, unsigned b1)\n"
    "{\n"
    "    asm(\"mma.sync.aligned.%s {%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, {%%8, %%9}, {%%0, %%1, %%2, %%3};\"\n"
    "        : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"
    "        : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b0), \"r\"(b1));\n"
    "}\n";

/* sm_75 has the half of it. */
static const char mma_halves_text[] =
    "static __device__ void ptx_mma_f16(float d[4], const unsigned a[4], unsigned b0, unsigned b1)\n"
    "{\n"
    "    asm(\"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\"\n"
    "        : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[0]), \"r\"(a[1]), \"r\"(b0));\n"
    "    asm(\"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\"\n"
    "        : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a[2]), \"r\"(a[3]), \"r\"(b1));\n"
    "}\n";

static const char tf32_text[] =
    "static __device__ unsigned ptx_tf32(unsigned v)\n"
    "{\n"
    "    asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(v) : \"f\"(__uint_as_float(v)));\n"
    "    return v;\n"
    "}\n";

static bool has_async(const struct mma *m)
{
    return m->sm >= 80;
}

/* The least alignment of the sources. */
static int least_align(const struct mma *m)
{
    int least = 16;
    for (int i = 0; i < m->nsource; i++)
        if (m->source[i].align < least) least = m->source[i].align;
    return least;
}

static const char pair_text[] =
    "static __device__ unsigned ptx_pair%s(float low, float high)\n"
    "{\n"
    "    unsigned v;\n"
    "    asm(\"cvt.rn.%sx2.f32 %%0, %%1, %%2;\" : \"=r\"(v) : \"f\"(high), \"f\"(low));\n"
    "    return v;\n"
    "}\n";

/* sm_75 converts one at a time. */
static const char pair_halves_text[] =
    "static __device__ unsigned ptx_pair_f16(float low, float high)\n"
    "{\n"
    "    unsigned v;\n"
    "    asm(\"{.reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b};}\" : \"=r\"(v) : \"f\"(low), \"f\"(high));\n"
    "    return v;\n"
    "}\n";

static const char *kind_name(enum yir_dtype t)
{
    return t == YIR_F16 ? "_f16" : t == YIR_BF16 ? "_bf16" : "_tf32";
}

static const char *instruction(enum yir_dtype t)
{
    return t == YIR_F16    ? "m16n8k16.row.col.f32.f16.f16.f32"
           : t == YIR_BF16 ? "m16n8k16.row.col.f32.bf16.bf16.f32"
                           : "m16n8k8.row.col.f32.tf32.tf32.f32";
}

void mma_put_product(struct yir_str *out, enum yir_dtype t, int sm)
{
    if (t == YIR_F16 && sm < 80)
        yir_str_fmt(out, "%s", mma_halves_text);
    else
        yir_str_fmt(out, mma_text, kind_name(t), instruction(t));
    if (t == YIR_F32) yir_str_fmt(out, "%s", tf32_text);
}

bool mma_has_type(const struct kb_target *t, enum yir_dtype d)
{
    if (d == YIR_F16) return t->sm >= 75;
    return t->sm >= 80 && (d == YIR_BF16 || (d == YIR_F32 && t->tf32));
}

void mma_put_fragment(struct yir_str *out)
{
    yir_str_fmt(out, "%s", fragment_text);
}

void mma_put_copy(struct yir_str *out, int bytes)
{
    yir_str_fmt(out, copy_text, bytes, bytes == 16 ? "cg" : "ca", bytes);
}

void mma_put_order(struct yir_str *out)
{
    yir_str_fmt(out, "%s", order_text);
}

void mma_put_pair(struct yir_str *out, enum yir_dtype t, int sm)
{
    if (t == YIR_F16 && sm < 80)
        yir_str_fmt(out, "%s", pair_halves_text);
    else
        yir_str_fmt(out, pair_text, kind_name(t), kind_name(t) + 1);
}

void mma_put_head(struct yir_str *out, const struct mma *m)
{
    int align = least_align(m);
    mma_put_fragment(out);
    mma_put_product(out, m->dtype, m->sm);
    if (m->wide) mma_put_pair(out, m->dtype, m->sm);
    if (!has_async(m)) return;
    mma_put_copy(out, 16);
    if (!m->wide && (align == 8 || align == 4)) mma_put_copy(out, align);
    mma_put_order(out);
}

/* --- body: names ------------------------------------------------------------------------------------------- */

static void put_names(struct yir_str *out, const struct mma *m)
{
    int64_t size = (int64_t)yir_dtype_size(m->dtype), chunk = mma_chunk(m), group = m->co / m->groups;
    yir_str_fmt(out,
                "    enum {\n"
                "        TILE_M = %d, TILE_N = %d, ROW = %d, /* pixels, channels, bytes of either in a tile */\n"
                "        WARPS_M = %d, WARPS_N = %d, SPLIT = %d, STAGES = %d, THREADS = 32 * WARPS_M * WARPS_N * SPLIT,\n"
                "        BLOCKS_M = TILE_M / WARPS_M / 16, BLOCKS_N = TILE_N / WARPS_N / 16, /* of a warp */\n"
                "        COLUMNS = ROW / 16, STEPS = ROW / 32, /* of 16 bytes, and of one product */\n"
                "        BYTES_A = TILE_M * ROW, BYTES_B = TILE_N * ROW, PITCH = %d,\n",
                (int)m->tile_m, (int)m->tile_n, (int)(m->tile_k * size), m->warps_m, m->warps_n, m->split, m->stages,
                (int)pitch(m));
    yir_str_fmt(out,
                "        CHUNK = %d, CI = %d, CI_WHOLE = %d, CO = %d, ALL_STEPS = %d, TILES_K = %d,\n"
                "        TILES_N = %d, UNITS = %d, PIXELS = %d, WIDTH = %d\n"
                "    };\n",
                (int)chunk, (int)m->ci, (int)round_up(m->ci, chunk), (int)group, (int)mma_steps(m),
                (int)((mma_steps(m) * 32 + m->tile_k * size - 1) / (m->tile_k * size)), (int)tiles_n(m), (int)mma_units(m),
                (int)(m->oh * m->ow), (int)m->ow);
}

static const char start_text[] =
    "    extern __shared__ __align__(128) unsigned char shared[];\n"
    "    const unsigned base = (unsigned)__cvta_generic_to_shared(shared);\n"
    "    const int thread = (int)threadIdx.x, lane = thread % 32, warp = thread / 32;\n"
    "    const int part = warp / (WARPS_M * WARPS_N), warp_m = warp / WARPS_N % WARPS_M, warp_n = warp % WARPS_N;\n"
    "    const int image = (int)blockIdx.x / UNITS, unit = (int)blockIdx.x % UNITS;\n"
    "    const int pixel0 = unit / TILES_N * TILE_M;\n";

/* The order of 16-byte columns in a row of the tile, so that 8 rows of one column lie in different banks. */
static const char *swizzle(const struct mma *m)
{
    switch (m->tile_k * (int64_t)yir_dtype_size(m->dtype)) {
    case 32: return "column ^ (row >> 2 & 1)";
    case 64: return "column ^ (row >> 1 & 3)";
    default: return "column ^ (row & 7)";
    }
}

static void put_start(struct yir_str *out, const struct mma *m)
{
    yir_str_fmt(out, "%s", start_text);
    if (m->groups > 1)
        yir_str_fmt(out,
                    "    const int group = unit %% TILES_N / (TILES_N / %d);\n"
                    "    const int channel0 = unit %% (TILES_N / %d) * TILE_N;\n",
                    (int)m->groups, (int)m->groups);
    else
        yir_str_fmt(out, "    const int channel0 = unit %% TILES_N * TILE_N;\n");
    yir_str_fmt(out, "    auto place = [](int row, int column) { return row * ROW + (%s) * 16; };\n", swizzle(m));
}

/* --- body: weights ------------------------------------------------------------------------------------------ */

static void put_weights(struct yir_str *out, const struct mma *m)
{
    const char *group = m->groups > 1 ? "group * ALL_STEPS * WEIGHTS_N + " : "";
    yir_str_fmt(out,
                "    /* Weights: [step][16 channels][lane][16 bytes]. */\n"
                "    enum { WEIGHTS_N = (CO + 15) / 16, CHUNKS_B = STEPS * TILE_N * 2, COPIES_B = (CHUNKS_B + THREADS - 1) / THREADS };\n"
                "    const unsigned char *const weights = (const unsigned char *)m%d;\n"
                "    auto copy_weights = [&](int k, int stage) {\n"
                "        #pragma unroll\n"
                "        for (int i = 0; i < COPIES_B; i++) {\n"
                "            const int at = thread + i * THREADS, step = at / (TILE_N * 2), rest = at %% (TILE_N * 2);\n"
                "            if (CHUNKS_B %% THREADS != 0 && at >= CHUNKS_B) break;\n"
                "            const int s = k * STEPS + step, n = channel0 / 16 + rest / 32;\n"
                "            const bool in = s < ALL_STEPS && n < WEIGHTS_N;\n"
                "            const unsigned char *const from = weights + (in ? (%ss * WEIGHTS_N + n) * 512 + rest %% 32 * 16 : 0);\n",
                m->mem_w, group);
    if (has_async(m))
        yir_str_fmt(out, "            ptx_copy16(base + STAGES * BYTES_A + stage * BYTES_B + at * 16, from, in ? 16 : 0);\n");
    else
        yir_str_fmt(out, "            *(uint4 *)(shared + STAGES * BYTES_A + stage * BYTES_B + at * 16) ="
                         " in ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);\n");
    yir_str_fmt(out, "        }\n"
                     "    };\n");
}

/* --- body: input -------------------------------------------------------------------------------------------- */

/* Of memory. */
static const char *element(const struct mma *m)
{
    return m->dtype == YIR_F32 || m->wide ? "float" : "unsigned short";
}

/* One source, as large as the map: a pixel's place is a number for each row of the tile, and a tap's one for the column. */
static bool plain_source(const struct mma *m)
{
    return m->nsource == 1 && !m->source[0].shift;
}

/* What the thread copies of each tile: one column of some rows. Their pixels, and which taps lie in the map. */
static void put_pixels(struct yir_str *out, const struct mma *m)
{
    int64_t taps = m->taps[0] * m->taps[1], past = m->tile_k / round_up(m->ci, mma_chunk(m)) + 2;
    const char *type = taps + past > 32 ? "unsigned long long" : "unsigned";
    yir_str_fmt(out,
                "    enum { ROWS = THREADS / COLUMNS, COPIES_A = (TILE_M + ROWS - 1) / ROWS };\n"
                "    const int column = thread %% COLUMNS, row0 = thread / COLUMNS;\n"
                "    int c = column * CHUNK, tap = 0;\n"
                "    %s inside[COPIES_A]; /* bit for each tap */\n",
                type);
    yir_str_fmt(out, plain_source(m) ? "    int start[COPIES_A];\n" : "    int start_y[COPIES_A], start_x[COPIES_A];\n");
    yir_str_fmt(out,
                "    #pragma unroll\n"
                "    for (int i = 0; i < COPIES_A; i++) {\n"
                "        const int pixel = pixel0 + row0 + i * ROWS;\n"
                "        const int y = pixel / WIDTH * %d - %d, x = pixel %% WIDTH * %d - %d;\n"
                "        %s across = 0, all = 0;\n",
                (int)m->stride[0], (int)m->pad[0], (int)m->stride[1], (int)m->pad[1], type);
    for (int64_t q = 0; q < m->taps[1]; q++)
        yir_str_fmt(out, "        if ((unsigned)(x + %d) < %du) across |= %du;\n", (int)(q * m->dil[1]), (int)m->iw, 1u << q);
    for (int64_t r = 0; r < m->taps[0]; r++)
        yir_str_fmt(out, "        if ((unsigned)(y + %d) < %du) all |= across << %d;\n", (int)(r * m->dil[0]), (int)m->ih,
                    (int)(r * m->taps[1]));
    yir_str_fmt(out, "        inside[i] = pixel < PIXELS ? all : 0;\n");
    if (plain_source(m))
        yir_str_fmt(out, "        start[i] = y * %d + x * %d;\n", (int)m->source[0].down, (int)m->source[0].across);
    else
        yir_str_fmt(out, "        start_y[i] = y;\n"
                         "        start_x[i] = x;\n");
    yir_str_fmt(out, "    }\n");
}

/* The image in each source. */
static void put_sources(struct yir_str *out, const struct mma *m)
{
    for (int i = 0; i < m->nsource; i++) {
        const struct mma_source *s = &m->source[i];
        yir_str_fmt(out, "    const %s *const source%d = m%d + (long long)image * %lld", element(m), i, s->mem, (long long)s->image);
        if (m->groups > 1) yir_str_fmt(out, " + group * CI");
        yir_str_fmt(out, ";\n");
    }
}

/* Where the thread's column of the tile lies. */
static void put_place(struct yir_str *out, const struct mma *m)
{
    int taps = (int)m->taps[1];
    if (plain_source(m)) {
        yir_str_fmt(out, "        const %s *const from = source0 + (c", element(m));
        if (m->taps[0] > 1) yir_str_fmt(out, " + tap / %d * %d", taps, (int)(m->dil[0] * m->source[0].down));
        if (taps > 1) yir_str_fmt(out, " + tap %% %d * %d", taps, (int)(m->dil[1] * m->source[0].across));
        yir_str_fmt(out, ");\n");
        return;
    }
    yir_str_fmt(out, "        const int tap_y = tap / %d * %d, tap_x = tap %% %d * %d;\n", taps, (int)m->dil[0], taps, (int)m->dil[1]);
    yir_str_fmt(out, "        const %s *from = source0 + c;\n"
                     "        int down = %d, across = %d, shift = %d;\n",
                element(m), (int)m->source[0].down, (int)m->source[0].across, m->source[0].shift);
    for (int i = 1; i < m->nsource; i++)
        yir_str_fmt(out, "        if (c >= %d) from = source%d + (c - %d), down = %d, across = %d, shift = %d;\n",
                    (int)m->source[i].first, i, (int)m->source[i].first, (int)m->source[i].down, (int)m->source[i].across,
                    m->source[i].shift);
}

/* 8 floats, of which as many exist as halves fit into `bytes`, as halves. */
static void put_wide_copy(struct yir_str *out, const struct mma *m, const char *to)
{
    const char *kind = kind_name(m->dtype);
    yir_str_fmt(out, "            float f[8];\n"
                     "            #pragma unroll\n");
    if (least_align(m) == 16 && m->ci % 4 == 0)
        yir_str_fmt(out, "            for (int e = 0; e < 8; e += 4) {\n"
                         "                const float4 v = e * 2 < bytes ? *(const float4 *)(at + e) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);\n"
                         "                f[e] = v.x, f[e + 1] = v.y, f[e + 2] = v.z, f[e + 3] = v.w;\n"
                         "            }\n");
    else
        yir_str_fmt(out, "            for (int e = 0; e < 8; e++) f[e] = e * 2 < bytes ? at[e] : 0.0f;\n");
    yir_str_fmt(out,
                "            *(uint4 *)(shared + %s) =\n"
                "                make_uint4(ptx_pair%s(f[0], f[1]), ptx_pair%s(f[2], f[3]), ptx_pair%s(f[4], f[5]), ptx_pair%s(f[6], f[7]));\n",
                to, kind, kind, kind, kind);
}

/* 16 bytes of a pixel, of which `bytes` exist. */
static void put_copy(struct yir_str *out, const struct mma *m)
{
    int align = least_align(m), size = (int)yir_dtype_size(m->dtype);
    const char *to = "stage * BYTES_A + place(row, column)";
    if (m->wide) {
        put_wide_copy(out, m, to);
        return;
    }
    if (align == 16 && has_async(m))
        yir_str_fmt(out, "            ptx_copy16(base + %s, at, bytes);\n", to);
    else if (align == 16)
        yir_str_fmt(out,
                    "            const uint4 v = bytes ? *(const uint4 *)at : make_uint4(0, 0, 0, 0);\n"
                    "            *(uint4 *)(shared + %s) = v;\n",
                    to);
    else if (align >= 4 && has_async(m))
        for (int i = 0; i < 16; i += align)
            yir_str_fmt(out, "            ptx_copy%d(base + %s + %d, at + %d, bytes > %d ? bytes - %d < %d ? bytes - %d : %d : 0);\n",
                        align, to, i, i / size, i, i, align, i, align);
    else
        yir_str_fmt(out,
                    "            %s *const to = (%s *)(shared + %s);\n"
                    "            #pragma unroll\n"
                    "            for (int e = 0; e < CHUNK; e++) to[e] = e * %d < bytes ? at[e] : 0;\n",
                    element(m), element(m), to, size);
}

static void put_input(struct yir_str *out, const struct mma *m)
{
    int size = (int)yir_dtype_size(m->dtype);
    put_sources(out, m);
    put_pixels(out, m);
    yir_str_fmt(out, "    auto copy_input = [&](int stage) {\n"
                     "        while (c >= CI_WHOLE) c -= CI_WHOLE, tap++;\n");
    put_place(out, m);
    yir_str_fmt(out, "        #pragma unroll\n"
                     "        for (int i = 0; i < COPIES_A; i++) {\n"
                     "            const int row = row0 + i * ROWS;\n"
                     "            if (TILE_M %% ROWS != 0 && row >= TILE_M) break;\n"
                     "            const bool in = inside[i] >> tap & 1;\n");
    if (plain_source(m))
        yir_str_fmt(out, "            const %s *const at = in ? from + start[i] : source0;\n", element(m));
    else
        yir_str_fmt(out,
                    "            const %s *const at = in ? from + ((start_y[i] + tap_y) >> shift) * down +"
                    " ((start_x[i] + tap_x) >> shift) * across : source0;\n",
                    element(m));
    if (m->ci % mma_chunk(m))
        yir_str_fmt(out, "            const int bytes = !in ? 0 : c + CHUNK > CI ? (CI - c) * %d : 16;\n", size);
    else
        yir_str_fmt(out, "            const int bytes = in ? 16 : 0;\n");
    put_copy(out, m);
    yir_str_fmt(out, "        }\n"
                     "        c += ROW / %d;\n"
                     "    };\n",
                size);
}

/* --- body: loop --------------------------------------------------------------------------------------------- */

static void put_ahead(struct yir_str *out, const struct mma *m, const char *wait)
{
    yir_str_fmt(out, "    #pragma unroll\n"
                     "    for (int k = 0; k < STAGES - 1; k++)\n"
                     "        if (k < TILES_K) copy_weights(k, k);\n"
                     "%s"
                     "    #pragma unroll\n"
                     "    for (int k = 0; k < STAGES - 1; k++) {\n"
                     "        if (k < TILES_K) copy_input(k);\n"
                     "%s"
                     "    }\n",
                wait, has_async(m) ? "        ptx_commit();\n" : "");
}

static const char sums_text[] =
    "    float sum[BLOCKS_M][BLOCKS_N * 2][4];\n"
    "    #pragma unroll\n"
    "    for (int i = 0; i < BLOCKS_M; i++)\n"
    "        #pragma unroll\n"
    "        for (int j = 0; j < BLOCKS_N * 2; j++)\n"
    "            #pragma unroll\n"
    "            for (int e = 0; e < 4; e++) sum[i][j][e] = 0.0f;\n";

static void put_products(struct yir_str *out, const struct mma *m)
{
    yir_str_fmt(out,
                "        const unsigned a = base + now * BYTES_A;\n"
                "        const uint4 *const b = (const uint4 *)(shared + STAGES * BYTES_A + now * BYTES_B);\n"
                "        #pragma unroll\n"
                "        for (int s = 0; s < STEPS / SPLIT; s++) {\n"
                "            const int step = part * (STEPS / SPLIT) + s;\n"
                "            unsigned left[BLOCKS_M][4];\n"
                "            uint4 right[BLOCKS_N];\n"
                "            #pragma unroll\n"
                "            for (int i = 0; i < BLOCKS_M; i++)\n"
                "                ptx_fragment(left[i], a + place((warp_m * BLOCKS_M + i) * 16 + lane %% 16, step * 2 + lane / 16));\n"
                "            #pragma unroll\n"
                "            for (int j = 0; j < BLOCKS_N; j++) right[j] = b[(step * (TILE_N / 16) + warp_n * BLOCKS_N + j) * 32 + lane];\n");
    if (m->dtype == YIR_F32)
        yir_str_fmt(out, "            #pragma unroll\n"
                         "            for (int i = 0; i < BLOCKS_M * 4; i++) left[i / 4][i %% 4] = ptx_tf32(left[i / 4][i %% 4]);\n");
    yir_str_fmt(out,
                "            #pragma unroll\n"
                "            for (int i = 0; i < BLOCKS_M; i++)\n"
                "                #pragma unroll\n"
                "                for (int j = 0; j < BLOCKS_N; j++) {\n"
                "                    ptx_mma%s(sum[i][j * 2], left[i], right[j].x, right[j].y);\n"
                "                    ptx_mma%s(sum[i][j * 2 + 1], left[i], right[j].z, right[j].w);\n"
                "                }\n"
                "        }\n",
                kind_name(m->dtype), kind_name(m->dtype));
}

static void put_loop(struct yir_str *out, const struct mma *m)
{
    yir_str_fmt(out, "%s"
                     "    int now = 0, next = STAGES - 1;\n"
                     "    #pragma unroll 1\n"
                     "    for (int k = 0; k < TILES_K; k++) {\n"
                     "%s"
                     "        __syncthreads();\n"
                     "        if (k + STAGES - 1 < TILES_K) {\n"
                     "            copy_weights(k + STAGES - 1, next);\n"
                     "            copy_input(next);\n"
                     "        }\n"
                     "%s"
                     "        next = next + 1 == STAGES ? 0 : next + 1;\n",
                sums_text, has_async(m) ? "        ptx_wait<STAGES - 2>();\n" : "", has_async(m) ? "        ptx_commit();\n" : "");
    put_products(out, m);
    yir_str_fmt(out, "        now = now + 1 == STAGES ? 0 : now + 1;\n"
                     "    }\n"
                     "%s",
                has_async(m) ? "    ptx_wait<0>();\n" : "");
}

/* --- body: end ---------------------------------------------------------------------------------------------- */

static const char store_text[] =
    "    /* Sums by pixels, in the place of the tiles. */\n"
    "    __syncthreads();\n"
    "    float *const sums = (float *)shared;\n"
    "    #pragma unroll\n"
    "    for (int i = 0; i < BLOCKS_M; i++)\n"
    "        #pragma unroll\n"
    "        for (int j = 0; j < BLOCKS_N * 2; j++) {\n"
    "            const int row = (warp_m * BLOCKS_M + i) * 16 + lane / 4, at = (warp_n * BLOCKS_N * 2 + j) * 8 + lane % 4 * 2;\n"
    "            float *const to = sums + (part * TILE_M + row) * PITCH + at;\n"
    "            *(float2 *)to = make_float2(sum[i][j][0], sum[i][j][1]);\n"
    "            *(float2 *)(to + 8 * PITCH) = make_float2(sum[i][j][2], sum[i][j][3]);\n"
    "        }\n"
    "    __syncthreads();\n";

static const char finish_text[] =
    "    enum { EIGHTS = TILE_N / 8, ALL = TILE_M * EIGHTS };\n"
    "    #pragma unroll %d\n"
    "    for (int i = thread; i < ALL; i += THREADS) {\n"
    "        const int row = i / EIGHTS, pixel = pixel0 + row, channel = channel0 + i %% EIGHTS * 8;\n"
    "        if (pixel >= PIXELS || channel >= CO) continue;\n"
    "%s"
    "        float g4[8];\n"
    "        #pragma unroll\n"
    "        for (int p = 0; p < SPLIT; p++)\n"
    "            #pragma unroll\n"
    "            for (int e = 0; e < 8; e += 4) {\n"
    "                const float4 v = *(const float4 *)(sums + (p * TILE_M + row) * PITCH + i %% EIGHTS * 8 + e);\n"
    "                g4[e] = p ? g4[e] + v.x : v.x, g4[e + 1] = p ? g4[e + 1] + v.y : v.y;\n"
    "                g4[e + 2] = p ? g4[e + 2] + v.z : v.z, g4[e + 3] = p ? g4[e + 3] + v.w : v.w;\n"
    "            }\n";

/* Where the sums of a pixel's channels belong. */
static const char *targets(struct yir_arena *a, const struct mma *m)
{
    const char *group = m->groups > 1 ? "group * CO + " : "";
    if (!m->spread)
        return yir_format(a, "        const int g0 = image, g1 = pixel / WIDTH, g2 = pixel %% WIDTH, g3 = %schannel;\n", group);
    return yir_format(a,
                      "        const int g3 = channel %% %d, corner = channel / %d;\n"
                      "        const int g0 = image, g1 = pixel / WIDTH * 2 + corner / 2, g2 = pixel %% WIDTH * 2 + corner %% 2;\n",
                      (int)m->spread, (int)m->spread);
}

void mma_put_body(struct yir_str *out, const struct mma *m, const char *wait, const char *finish)
{
    int64_t each = (m->tile_m * m->tile_n / 8 + mma_threads(m) - 1) / mma_threads(m);
    put_names(out, m);
    put_start(out, m);
    put_weights(out, m);
    put_input(out, m);
    put_ahead(out, m, wait);
    put_loop(out, m);
    yir_str_fmt(out, "%s", store_text);
    yir_str_fmt(out, finish_text, each < 4 ? (int)each : 4, targets(out->arena, m));
    yir_str_fmt(out, "%s    }\n", finish);
}
