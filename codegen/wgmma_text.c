#include "wgmma_text.h"

#include "kb_cuda.h"
#include "mma_text.h"

/* --- before the function ------------------------------------------------------------------------------------ */

/* Waits are bounded: a kernel that could not go on would hold the device for good. */
static const char head_barriers[] =
    "struct __align__(64) tensor_map {\n"
    "    unsigned long long word[16];\n"
    "};\n"
    "static __device__ __forceinline__ void ptx_barrier_init(unsigned at, unsigned arrivals)\n"
    "{\n"
    "    asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" ::\"r\"(at), \"r\"(arrivals));\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_barriers_ready()\n"
    "{\n"
    "    asm volatile(\"fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;\" ::: \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_arrive(unsigned at)\n"
    "{\n"
    "    asm volatile(\"mbarrier.arrive.shared::cta.b64 _, [%0];\" ::\"r\"(at) : \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_arrive_bytes(unsigned at, unsigned bytes)\n"
    "{\n"
    "    asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\" ::\"r\"(at), \"r\"(bytes) : \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_await(unsigned at, unsigned phase)\n"
    "{\n"
    "    unsigned passed = 0;\n"
    "    for (int n = 0; !passed; n++) {\n"
    "        asm volatile(\"{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}\"\n"
    "                     : \"=r\"(passed) : \"r\"(at), \"r\"(phase) : \"memory\");\n"
    "        if (n > 1 << 22) __trap();\n"
    "    }\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_copy_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier)\n"
    "{\n"
    "    asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\"\n"
    "                 ::\"r\"(to), \"l\"(from), \"r\"(bytes), \"r\"(barrier) : \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_grid_wait()\n"
    "{\n"
    "    asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_grid_go()\n"
    "{\n"
    "    asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_map_ahead(const tensor_map *map)\n"
    "{\n"
    "    asm volatile(\"prefetch.tensormap [%0];\" ::\"l\"(map) : \"memory\");\n"
    "}\n";

static const char head_products[] =
    "static __device__ __forceinline__ void ptx_wgmma_fence()\n"
    "{\n"
    "    asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
    "}\n"
    "static __device__ __forceinline__ void ptx_wgmma_commit()\n"
    "{\n"
    "    asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
    "}\n"
    "template <int PENDING> static __device__ __forceinline__ void ptx_wgmma_settle()\n"
    "{\n"
    "    asm volatile(\"wgmma.wait_group.sync.aligned %0;\" ::\"n\"(PENDING) : \"memory\");\n"
    "}\n"
    "template <int N> static __device__ __forceinline__ void ptx_registers_down()\n"
    "{\n"
    "    asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" ::\"n\"(N));\n"
    "}\n"
    "template <int N> static __device__ __forceinline__ void ptx_registers_up()\n"
    "{\n"
    "    asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" ::\"n\"(N));\n"
    "}\n"
    "// Lane q of four neighbours has four pairs; then it has pair q of each of them.\n"
    "static __device__ __forceinline__ void turn(float (&v)[8], int lane)\n"
    "{\n"
    "    #pragma unroll\n"
    "    for (int bit = 1; bit <= 2; bit *= 2)\n"
    "        #pragma unroll\n"
    "        for (int i = 0; i < 4; i++) {\n"
    "            const int low = bit == 1 ? i / 2 * 4 + i % 2 : i, high = low + 2 * bit;\n"
    "            const bool up = lane & bit;\n"
    "            const float got = __shfl_xor_sync(0xffffffffu, up ? v[low] : v[high], bit);\n"
    "            v[low] = up ? got : v[low];\n"
    "            v[high] = up ? v[high] : got;\n"
    "        }\n"
    "}\n"
    "struct place {\n"
    "    int stage;\n"
    "    unsigned phase;\n"
    "    template <int STAGES> __device__ __forceinline__ void next()\n"
    "    {\n"
    "        if (++stage < STAGES) return;\n"
    "        stage = 0;\n"
    "        phase ^= 1;\n"
    "    }\n"
    "    template <int STAGES> __device__ __forceinline__ int before() const\n"
    "    {\n"
    "        return stage ? stage - 1 : STAGES - 1;\n"
    "    }\n"
    "};\n";

static int copy_rank(const struct wg_plan *p)
{
    return p->feed == WG_POINT ? 3 : p->feed == WG_PARITY ? 5 : 4;
}

/* Copy of a box: the coordinates of its corner, innermost first. */
static void put_copy(struct yir_str *s, int rank)
{
    yir_str_fmt(s, "static __device__ __forceinline__ void ptx_copy_box(unsigned to, const tensor_map *map, unsigned barrier");
    for (int i = 0; i < rank; i++) yir_str_fmt(s, ", int c%d", i);
    yir_str_fmt(s,
                ")\n{\n"
                "    asm volatile(\"cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes [%%0], [%%1, {",
                rank);
    for (int i = 0; i < rank; i++) yir_str_fmt(s, "%s%%%d", i ? ", " : "", i + 3);
    yir_str_fmt(s, "}], [%%2];\"\n                 ::\"r\"(to), \"l\"(map), \"r\"(barrier)");
    for (int i = 0; i < rank; i++) yir_str_fmt(s, ", \"r\"(c%d)", i);
    yir_str_fmt(s, " : \"memory\");\n}\n");
}

/* The upper half of a descriptor: bytes between groups of 8 rows, and the swizzle of rows of `pitch` bytes. */
static unsigned descriptor_high(int rows, int pitch)
{
    unsigned swizzle = pitch == 128 ? 1 : pitch == 64 ? 2 : 3;
    return (unsigned)(rows * pitch) >> 4 | swizzle << 30;
}

static const char *type_of(const struct wg_plan *p)
{
    return yir_desc(p->c.f, p->c.x)->dtype == YIR_BF16 ? "bf16" : "f16";
}

/* sums += input * weights: 64 rows, n columns, 16 deep. `left`, `operand` and `given`: the left operand's parameters, its place in the
 * instruction, and what fills that. */
static void put_product(struct yir_str *s, const struct wg_plan *p, const char *name, const char *left, const char *operand, const char *given)
{
    const char *type = type_of(p);
    yir_str_fmt(s,
                "static __device__ __forceinline__ void %s_%s(float (&d)[%d], %s, unsigned long long b)\n{\n"
                "    asm volatile(\"{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {",
                name, type, p->n / 2, left, p->n, type, type);
    for (int i = 0; i < p->n / 2; i++) yir_str_fmt(s, "%s%%%d", i ? ", " : "", i);
    yir_str_fmt(s, "}, %s;}\"\n                 : ", operand);
    for (int i = 0; i < p->n / 2; i++) yir_str_fmt(s, "%s\"+f\"(d[%d])", i ? ", " : "", i);
    yir_str_fmt(s, "\n                 : %s, \"l\"(b) : \"memory\");\n}\n", given);
}

/* The operands' places are the lower halves of their descriptors. */
static void put_multiply(struct yir_str *s, const struct wg_plan *p)
{
    int a = p->n / 2;
    put_product(s, p, "ptx_wgmma", "unsigned long long a", yir_format(s->arena, "%%%d, %%%d, p, 1, 1, 0, 0", a, a + 1), "\"l\"(a)");
    yir_str_fmt(s,
                "static __device__ __forceinline__ void multiply(float (&d)[N / 2], unsigned input, unsigned weights)\n{\n"
                "    ptx_wgmma_%s(d, 0x%xull << 32 | input, 0x%xull << 32 | weights);\n}\n",
                type_of(p), descriptor_high(p->stride_rows, p->pitch), descriptor_high(8, 2 * WG_DEPTH));
}

/* The left operand in registers: rows r and r + 8 of a warp's 16 are alike, so that each pair of halves counts for both. */
static void put_multiply_rows(struct yir_str *s, const struct wg_plan *p)
{
    int a = p->n / 2;
    const char *operand = yir_format(s->arena, "{%%%d, %%%d, %%%d, %%%d}, %%%d, p, 1, 1, 0", a, a, a + 1, a + 1, a + 2);
    put_product(s, p, "ptx_wgmma_rows", "unsigned low, unsigned high", operand, "\"r\"(low), \"r\"(high)");
    yir_str_fmt(s,
                "static __device__ __forceinline__ void multiply_rows(float (&d)[N / 2], unsigned low, unsigned high, unsigned weights)\n{\n"
                "    ptx_wgmma_rows_%s(d, low, high, 0x%xull << 32 | weights);\n}\n",
                type_of(p), descriptor_high(8, 2 * WG_DEPTH));
}

/* Offsets in shared memory: the input's stages, the weights, barriers of both. */
static void put_numbers(struct yir_str *s, const struct wg_plan *p)
{
    int step = p->n * WG_DEPTH * 2, weights = p->w * p->stages * p->stage_bytes, full = weights + p->weight_bytes;
    int empty = full + 8 * p->w * p->stages, full_weights = empty + 8 * p->w * p->stages;
    int ring = p->ring ? p->ring : 1;
    yir_str_fmt(s, "enum {\n    N = %d, /* output channels of a tile */\n", p->n);
    yir_str_fmt(s, "    M = %d, /* 64 pixels each, of a tile */\n", p->m);
    yir_str_fmt(s, "    GROUPS = %d, /* warpgroups with a tile each; another one fetches for them */\n", p->w);
    yir_str_fmt(s, "    CHUNKS = %d, STAGES = %d, STAGE = %d, BOX = %d, /* of the input: in all, at once; bytes, bytes copied */\n",
                (int)p->chunks, p->stages, p->stage_bytes, p->box_rows * p->pitch);
    yir_str_fmt(s, "    STEPS = %d, STEP = %d, RING = %d, AT_ONCE = %d, /* of the weights */\n", (int)p->steps, step, ring,
                p->ring ? p->group : (int)p->steps);
    yir_str_fmt(s, "    WEIGHTS = %d, FULL = %d, EMPTY = %d, FULL_WEIGHTS = %d, EMPTY_WEIGHTS = %d,\n", weights, full, empty,
                full_weights, full_weights + 8 * ring);
    yir_str_fmt(s, "    TILES = %d, COLUMNS = %d, /* of an image; of the output channels */\n", (int)p->tiles, (int)p->ntiles);
    yir_str_fmt(s, "    UNITS = %lld\n};\n", (long long)wg_units(p));
}

/* --- products of a chunk ------------------------------------------------------------------------------------ */

/* Chunks with the same steps share a function. */
static bool same_steps(const struct wg_step *x, const struct wg_step *y, int n)
{
    for (int i = 0; i < n; i++)
        if (x[i].tap != y[i].tap || x[i].within != y[i].within) return false;
    return true;
}

static int shift_of(const struct wg_plan *p, int64_t chunk)
{
    return wg_source(p, chunk)->shift;
}

/* How many chunks from `first` on have the same steps, which are n. */
static int64_t run_of(const struct wg_plan *p, int64_t first, struct wg_step *steps, int *n)
{
    struct wg_step other[WG_MOST_STEPS];
    int64_t end = first + 1;
    *n = wg_chunk_steps(&p->order, first, steps);
    while (end < p->chunks && shift_of(p, end) == shift_of(p, first) && wg_chunk_steps(&p->order, end, other) == *n &&
           same_steps(steps, other, *n))
        end++;
    return end - first;
}

static const char chunk_text[] =
    "    ptx_await(full + 8 * in.stage, in.phase);\n"
    "%s"
    "    #pragma unroll\n"
    "    for (int i = 0; i < HERE; i++) {\n"
    "        if (i %% EACH == 0) {\n"
    "%s"
    "            ptx_wgmma_fence();\n"
    "        }\n"
    "        const unsigned b = (weights + %s * STEP) >> 4 | 1 << 16;\n"
    "        #pragma unroll\n"
    "        for (int m = 0; m < M; m++) %s;\n"
    "        if (i %% EACH < EACH - 1) continue;\n"
    "        ptx_wgmma_commit();\n"
    "        ptx_wgmma_settle<1>();\n"
    "        if (lane == 0 && i < EACH && !first) ptx_arrive(empty + 8 * in.before<STAGES>());\n"
    "%s"
    "    }\n"
    "    in.next<STAGES>();\n"
    "}\n";

/* Four small pixels make a warp's two rows of eight. Their halves for each step, in the order of the swizzle. */
static const char repeat_text[] =
    "    unsigned part[HERE / WIDTH][M][4];\n"
    "    #pragma unroll\n"
    "    for (int k = 0; k < HERE / WIDTH; k++)\n"
    "        #pragma unroll\n"
    "        for (int m = 0; m < M; m++) {\n"
    "            const unsigned at = input + in.stage * STAGE + ((m * 4 + warp) * 4 + lane %% 8 / 2) * %d +\n"
    "                (k * WIDTH * 2 + lane / 8 %% (WIDTH * 2)) * 16;\n"
    "            ptx_fragment(part[k][m], at ^ (at >> 3 & %d));\n"
    "        }\n";

/* Where the left operand comes from: steps' places in shared memory, or registers. */
static const char *left_of(const struct yir_str *s, const struct wg_plan *p, bool repeated, const struct wg_step *steps, int n)
{
    struct yir_str left = {.arena = s->arena};
    if (repeated) {
        yir_str_fmt(&left, "    enum { WIDTH = %d }; /* steps of a fragment */\n", p->kc > WG_DEPTH ? 2 : 1);
        yir_str_fmt(&left, repeat_text, p->pitch, p->pitch - 16);
        return left.text;
    }
    yir_str_fmt(&left, "    constexpr int from[] = {");
    for (int i = 0; i < n; i++) {
        int at = wg_tap_row(p, steps[i].tap) * p->pitch + steps[i].within * WG_DEPTH * 2;
        yir_str_fmt(&left, "%s%d", i ? ", " : "", at >> 4);
    }
    yir_str_fmt(&left, "};\n    const unsigned a = (input + in.stage * STAGE) >> 4 | 1 << 16;\n");
    return left.text;
}

/* The products of one chunk. When a stage's have begun and those before are done, the stage before is given back. */
static void put_chunk(struct yir_str *s, const struct wg_plan *p, int number, bool repeated, const struct wg_step *steps, int n)
{
    const char *multiply = repeated ? "multiply_rows(sum[m], part[i / WIDTH][m][i % WIDTH * 2], part[i / WIDTH][m][i % WIDTH * 2 + 1], b)"
                                    : yir_format(s->arena, "multiply(sum[m], a + from[i] + m * %d, b)", p->block_rows * p->pitch >> 4);
    yir_str_fmt(s,
                "static __device__ __forceinline__ void chunk%d(float (&sum)[M][N / 2], unsigned input, unsigned weights, unsigned full,\n"
                "    unsigned empty, %s%sint lane, place &in, bool first)\n{\n"
                "    enum { HERE = %d, EACH = %d };\n",
                number, p->ring ? "unsigned full_weights, place &ring, " : "", repeated ? "int warp, " : "", n, p->ring ? p->group : n);
    yir_str_fmt(s, chunk_text, left_of(s, p, repeated, steps, n),
                p->ring ? "            ptx_await(full_weights + 8 * ring.stage, ring.phase);\n" : "",
                p->ring ? "(ring.stage * AT_ONCE + i % EACH)" : "i", multiply,
                p->ring ? "        if (lane == 0 && !(first && i < EACH)) ptx_arrive(full_weights + 8 * (RING + ring.before<RING>()));\n"
                          "        ring.next<RING>();\n"
                        : "");
}

const char *wg_head(struct yir_arena *a, const struct wg_plan *p)
{
    struct yir_str s = {.arena = a};
    struct wg_step steps[WG_MOST_STEPS];
    int number = 0, n;
    put_numbers(&s, p);
    yir_str_fmt(&s, "%s%s", head_barriers, head_products);
    put_copy(&s, copy_rank(p));
    put_multiply(&s, p);
    if (wg_repeats(p)) {
        mma_put_fragment(&s);
        put_multiply_rows(&s, p);
    }
    for (int64_t c = 0, run; c < p->chunks; c += run) {
        run = run_of(p, c, steps, &n);
        put_chunk(&s, p, number++, shift_of(p, c) > 0, steps, n);
    }
    return s.text;
}

/* --- body --------------------------------------------------------------------------------------------------- */

static const char start_text[] =
    "    extern __shared__ __align__(1024) unsigned char shared[];\n"
    "    const unsigned base = (unsigned)__cvta_generic_to_shared(shared);\n"
    "    const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0);\n"
    "    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5 & 3, 0), lane = threadIdx.x & 31;\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (int i = 0; i < GROUPS * STAGES; i++) {\n"
    "            ptx_barrier_init(base + FULL + 8 * i, 1);\n"
    "            ptx_barrier_init(base + EMPTY + 8 * i, 4);\n"
    "        }\n"
    "        for (int i = 0; i < RING; i++) {\n"
    "            ptx_barrier_init(base + FULL_WEIGHTS + 8 * i, 1);\n"
    "            ptx_barrier_init(base + EMPTY_WEIGHTS + 8 * i, 4 * GROUPS);\n"
    "        }\n"
    "        ptx_barriers_ready();\n"
    "    }\n"
    "    __syncthreads();\n"
    "    ptx_grid_go();\n"
    "    const int column = blockIdx.x % COLUMNS, first_tile = blockIdx.x / COLUMNS * GROUPS;\n"
    "    const int tiles = (int)(total / UNITS) * TILES, stride = gridDim.x / COLUMNS * GROUPS;\n"
    "    if (!stride) __trap();\n"
    "    if (first_tile >= stride) return; /* blocks that are too few for another round of columns */\n";

/* Where the tile begins: p, the first pixel, or y and x. */
static void put_tile(struct yir_str *s, const struct wg_plan *p, int depth)
{
    int in = 4 * depth;
    yir_str_fmt(s, "%*sconst int image = tile / TILES;\n", in, "");
    switch (p->feed) {
    case WG_POINT: yir_str_fmt(s, "%*sconst int p = tile %% TILES * %d;\n", in, "", WG_ROWS * p->m); return;
    case WG_LINES: yir_str_fmt(s, "%*sconst int y = tile %% TILES * %d;\n", in, "", p->lines); return;
    case WG_HALO:
    case WG_PAIRS:
    case WG_PARITY:
    case WG_PARTS:
        yir_str_fmt(s, "%*sconst int y = tile %% TILES / %d * %d, x = tile %% TILES %% %d * 8;\n", in, "", (int)p->tiles_x, 8 * p->m,
                    (int)p->tiles_x);
        return;
    }
}

static void put_corner(struct yir_str *s, const struct wg_plan *p, const struct cg_source *from)
{
    int kc = p->kc, half = (int)(p->chunks / 2), shift = from->shift;
    switch (p->feed) {
    case WG_PARTS: yir_str_fmt(s, "c * %d - %d, x >> %d, y >> %d, image", kc, (int)from->first, shift, shift); return;
    case WG_POINT: yir_str_fmt(s, "c * %d, p, image", kc); return;
    case WG_HALO: yir_str_fmt(s, "c * %d, x - 1, y - 1, image", kc); return;
    case WG_LINES: yir_str_fmt(s, "c * %d, -1, y - 1, image", kc); return;
    case WG_PAIRS: yir_str_fmt(s, "c * %d, x - 1, 2 * y - 1, image", kc); return;
    case WG_PARITY: yir_str_fmt(s, "c %% %d * %d, c / %d, x - 1, 2 * y - 1, image", half, kc, half); return;
    }
}

/* Copy of a chunk's box from the source that it is of. */
static void put_boxes(struct yir_str *s, const struct wg_plan *p)
{
    for (int i = 0; i < p->in.n; i++) {
        const struct cg_source *from = &p->in.at[i];
        if (i + 1 < p->in.n) yir_str_fmt(s, "                    %sif (c < %d) {\n", i ? "} else " : "", (int)(p->in.at[i + 1].first / p->kc));
        if (i && i + 1 == p->in.n) yir_str_fmt(s, "                    } else {\n");
        yir_str_fmt(s, "                    ptx_arrive_bytes(full + 8 * at.stage, BOX >> %d);\n"
                       "                    ptx_copy_box(base + (warp * STAGES + at.stage) * STAGE, &t%d, full + 8 * at.stage, ", 2 * from->shift, i);
        put_corner(s, p, from);
        yir_str_fmt(s, ");\n");
    }
    if (p->in.n > 1) yir_str_fmt(s, "                    }\n");
}

/* One thread of warp w fetches the input of warpgroup w. */
static void put_fetch_input(struct yir_str *s, const struct wg_plan *p)
{
    yir_str_fmt(s, "        if (warp < GROUPS && lane == 0) {\n"
                   "            place at = {0, 1};\n");
    for (int i = 0; i < p->in.n; i++) yir_str_fmt(s, "            ptx_map_ahead(&t%d);\n", i);
    yir_str_fmt(s, "            const unsigned full = base + FULL + 8 * STAGES * warp, empty = base + EMPTY + 8 * STAGES * warp;\n");
    yir_str_fmt(s, "            ptx_grid_wait();\n"
                   "            for (int tile = first_tile + warp; tile < tiles; tile += stride) {\n");
    put_tile(s, p, 4);
    yir_str_fmt(s, "                #pragma unroll 1\n"
                   "                for (int c = 0; c < CHUNKS; c++) {\n"
                   "                    ptx_await(empty + 8 * at.stage, at.phase);\n");
    put_boxes(s, p);
    yir_str_fmt(s, "                    at.next<STAGES>();\n                }\n            }\n        }");
}

/* A thread of the last warp fetches the weights: all, or as they are used. A block without a tile fetches none: what is still on its
 * way when a block ends would be written over the memory of the next. */
static void put_fetch_weights(struct yir_str *s, const struct wg_plan *p, const struct wg_names *names)
{
    yir_str_fmt(s, " else if (warp == 3 && lane == 0 && first_tile < tiles) {\n"
                   "            const unsigned char *from = (const unsigned char *)m%d + (long long)column * (STEPS * STEP);\n",
                names->weights);
    if (p->ring)
        yir_str_fmt(s, "            place at = {0, 1};\n"
                       "            for (int tile = first_tile; tile < tiles; tile += stride)\n"
                       "                #pragma unroll 1\n"
                       "                for (int i = 0; i < STEPS; i += AT_ONCE) {\n"
                       "                    ptx_await(base + EMPTY_WEIGHTS + 8 * at.stage, at.phase);\n"
                       "                    ptx_arrive_bytes(base + FULL_WEIGHTS + 8 * at.stage, AT_ONCE * STEP);\n"
                       "                    ptx_copy_bytes(base + WEIGHTS + at.stage * (AT_ONCE * STEP), from + i * STEP, AT_ONCE * STEP,\n"
                       "                               base + FULL_WEIGHTS + 8 * at.stage);\n"
                       "                    at.next<RING>();\n"
                       "                }\n");
    else
        yir_str_fmt(s, "            enum { PIECE = 8 };\n"
                       "            ptx_arrive_bytes(base + FULL_WEIGHTS, STEPS * STEP);\n"
                       "            for (int i = 0; i < STEPS; i += PIECE)\n"
                       "                ptx_copy_bytes(base + WEIGHTS + i * STEP, from + i * STEP,\n"
                       "                               (STEPS - i < PIECE ? STEPS - i : PIECE) * STEP, base + FULL_WEIGHTS);\n");
    yir_str_fmt(s, "        }\n        return;\n    }\n");
}

static void put_producer(struct yir_str *s, const struct wg_plan *p, const struct wg_names *names)
{
    yir_str_fmt(s, "    if (group == GROUPS) {\n");
    if (p->registers)
        yir_str_fmt(s, "        ptx_registers_down<%d>();\n", WG_PRODUCER_REGISTERS);
    put_fetch_input(s, p);
    put_fetch_weights(s, p, names);
    if (p->registers) yir_str_fmt(s, "    ptx_registers_up<%d>();\n", p->registers);
}

/* Sums begin as the bias, or 0. */
static void put_first_sums(struct yir_str *s, const struct wg_plan *p, const struct wg_names *names)
{
    yir_str_fmt(s, "        #pragma unroll\n        for (int j = 0; j < N / 4; j++) {\n");
    if (names->bias < 0)
        yir_str_fmt(s, "            const float first = 0.0f;\n");
    else {
        enum yir_dtype type = yir_desc(p->c.f, p->c.bias)->dtype;
        yir_str_fmt(s, "            const float first = %s(m%d[column * N + j / 2 * 8 + lane %% 4 * 2 + j %% 2]);\n",
                    type == YIR_F32 ? "" : type == YIR_F16 ? "from_f16" : "from_bf16", names->bias);
    }
    yir_str_fmt(s, "            const int i = j / 2 * 4 + j %% 2;\n"
                   "            #pragma unroll\n"
                   "            for (int m = 0; m < M; m++) sum[m][i] = sum[m][i + 2] = first;\n"
                   "        }\n");
}

/* A warpgroup without a tile in the last round still gives back the weights that the others need. */
static const char drain_text[] =
    "        if (tile >= tiles) {\n"
    "            for (int i = 0; i < STEPS; i += AT_ONCE) {\n"
    "                ptx_await(base + FULL_WEIGHTS + 8 * ring.stage, ring.phase);\n"
    "                if (lane == 0) ptx_arrive(base + EMPTY_WEIGHTS + 8 * ring.stage);\n"
    "                ring.next<RING>();\n"
    "            }\n"
    "            break;\n"
    "        }\n";

/* Calls for a run of chunks. Two in turn where the left operand is in registers, so that a chunk fills others than those that products of
 * the one before still read. */
static void put_run(struct yir_str *s, const struct wg_plan *p, int number, int64_t first, int64_t run, int64_t before, int n)
{
    const bool repeated = shift_of(p, first) > 0;
    const int turns = repeated && run > 1 ? 2 : 1;
    const char *ring = p->ring ? "base + FULL_WEIGHTS, ring, " : "";
    yir_str_fmt(s, "        #pragma unroll 1\n        for (int c = 0; c < %d; c += %d) {\n", (int)run, turns);
    for (int turn = 0; turn < turns; turn++) {
        if (turn && run % 2) yir_str_fmt(s, "            if (c + 1 == %d) break;\n", (int)run);
        yir_str_fmt(s, "            chunk%d(sum, input, base + WEIGHTS", number);
        if (!p->ring) yir_str_fmt(s, " + (%d + c * %d) * STEP", (int)before + turn * n, n);
        yir_str_fmt(s, ", full, empty, %s%slane, in, %s);\n", ring, repeated ? "warp, " : "", first || turn ? "false" : "c == 0");
    }
    yir_str_fmt(s, "        }\n");
}

static void put_products(struct yir_str *s, const struct wg_plan *p)
{
    struct wg_step steps[WG_MOST_STEPS];
    int number = 0, n;
    int64_t before = 0;
    for (int64_t c = 0, run; c < p->chunks; c += run) {
        run = run_of(p, c, steps, &n);
        put_run(s, p, number++, c, run, before, n);
        before += run * n;
    }
    yir_str_fmt(s,
                "        ptx_wgmma_settle<0>();\n"
                "        if (lane == 0) {\n"
                "            ptx_arrive(empty + 8 * in.before<STAGES>());\n%s        }\n",
                p->ring ? "            ptx_arrive(base + EMPTY_WEIGHTS + 8 * ring.before<RING>());\n" : "");
}

/* --- epilogue ----------------------------------------------------------------------------------------------- */

/* g2 and g3, and whether they lie on the map; row: of the tile's. */
static void put_pixel(struct yir_str *s, const struct wg_plan *p, bool flat)
{
    const struct conv *c = &p->c;
    const char *in = "                ";
    switch (p->feed) {
    case WG_POINT:
        yir_str_fmt(s, flat ? "%sconst int g2 = 0, g3 = p + row;\n" : "%sconst int g2 = (p + row) / %d, g3 = (p + row) %% %d;\n", in,
                    (int)c->ow, (int)c->ow);
        yir_str_fmt(s, "%sconst bool inside = p + row < %d", in, (int)(c->oh * c->ow));
        return;
    case WG_LINES:
        yir_str_fmt(s, "%sconst int g2 = y + row / %d, g3 = row %% %d;\n", in, (int)c->iw + 2, (int)c->iw + 2);
        yir_str_fmt(s, "%sconst bool inside = row < %d && g2 < %d && g3 < %d", in, (int)(p->lines * (c->iw + 2)), (int)c->oh,
                    (int)c->ow);
        return;
    case WG_HALO:
    case WG_PAIRS:
    case WG_PARITY:
    case WG_PARTS:
        yir_str_fmt(s, "%sconst int g2 = y + row / 8, g3 = x + row %% 8;\n", in);
        yir_str_fmt(s, "%sconst bool inside = g2 < %d && g3 < %d", in, (int)c->oh, (int)c->ow);
        return;
    }
}

/* Where a vector of 8 channels comes from: 32 channels of a row lie in four lanes, or 16 channels of two rows. */
static const char vector_text[] =
    "        #pragma unroll\n"
    "        for (int m = 0; m < M; m++)\n"
    "            #pragma unroll\n"
    "            for (int part = 0; part < N / 16; part++) {\n"
    "                const bool wide = part < N / 32 * 2;\n"
    "                float g4[8];\n"
    "                #pragma unroll\n"
    "                for (int i = 0; i < 8; i++) {\n"
    "                    const int j = wide ? part / 2 * 4 + i / 2 : N / 8 - 2 + i / 4, half = wide ? part % 2 : i / 2 % 2;\n"
    "                    g4[i] = sum[m][j * 4 + half * 2 + i % 2];\n"
    "                }\n"
    "                turn(g4, lane);\n"
    "                const int row = m * 64 + warp * 16 + lane / 4 + (wide ? part % 2 : lane % 2) * 8;\n"
    "                const int g1 = column * N + (wide ? part / 2 * 4 + lane % 4 : N / 8 - 2 + lane % 4 / 2) * 8;\n";

static void put_epilogue(struct yir_str *s, const struct kb *b, const struct wg_plan *p, const struct wg_names *names)
{
    put_tile(s, p, 2);
    yir_str_fmt(s, "        const int g0 = image;\n%s", vector_text);
    put_pixel(s, p, names->flat);
    if (p->c.co % p->n) yir_str_fmt(s, " && g1 < %d", (int)p->c.co);
    yir_str_fmt(s, ";\n                if (inside) {\n");
    kb_cuda_nodes(s, b, 5);
    yir_str_fmt(s, "                }\n            }\n");
}

const char *wg_body(const struct kb *b, const struct wg_plan *p, const struct wg_names *names)
{
    struct yir_str s = {.arena = b->arena};
    yir_str_fmt(&s, "%s", start_text);
    put_producer(&s, p, names);
    yir_str_fmt(&s, "    const unsigned input = base + group * (STAGES * STAGE);\n"
                    "    const unsigned full = base + FULL + 8 * STAGES * group, empty = base + EMPTY + 8 * STAGES * group;\n"
                    "    place in = {0, 0};\n");
    yir_str_fmt(&s, p->ring ? "    place ring = {0, 0};\n" : "    bool there = false; /* the weights */\n");
    yir_str_fmt(&s, "    #pragma unroll 1\n    for (int tile = first_tile + group; %s; tile += stride) {\n",
                p->ring ? "tile - group < tiles" : "tile < tiles");
    if (p->ring) yir_str_fmt(&s, "%s", drain_text);
    yir_str_fmt(&s, "        float sum[M][N / 2];\n");
    put_first_sums(&s, p, names);
    if (!p->ring) yir_str_fmt(&s, "        if (!there) ptx_await(base + FULL_WEIGHTS, 0);\n        there = true;\n");
    put_products(&s, p);
    put_epilogue(&s, b, p, names);
    yir_str_fmt(&s, "    }\n");
    return s.text;
}
