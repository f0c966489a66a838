#include "stem_text.h"

#include "mma_text.h"

static int64_t each(enum yir_dtype t)
{
    return 4 / (int64_t)yir_dtype_size(t);
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int64_t stem_window(enum yir_dtype t, int64_t kw, int64_t ci)
{
    return round_up(kw * ci, each(t)) / each(t);
}

int64_t stem_steps(enum yir_dtype t, int64_t kh, int64_t kw, int64_t ci)
{
    return round_up(kh * stem_window(t, kw, ci), 8) / 8;
}

/* Each lane's sums are of adjacent channels. */
int64_t stem_channel(int64_t co, int64_t block, int64_t column)
{
    return column / 2 * (co / 4) + 2 * block + column % 2;
}

int64_t stem_lines(const struct stem *s)
{
    return (s->rows - 1) * s->stride[0] + (s->kernel[0] - 1) * s->dil[0] + 1;
}

/* One more than windows reach: the last word of a window's row may begin the next pixel. */
int64_t stem_columns(const struct stem *s)
{
    return (s->width - 1) * s->stride[1] + s->kernel[1] + 1;
}

/* Words of a line. */
static int64_t pitch(const struct stem *s)
{
    return round_up(stem_columns(s) * s->ci, each(s->dtype)) / each(s->dtype);
}

int64_t stem_shared(const struct stem *s)
{
    return stem_lines(s) * pitch(s) * 4;
}

int64_t stem_units(const struct stem *s)
{
    return (s->oh + s->rows - 1) / s->rows * s->segments;
}

void stem_put_head(struct yir_str *out, const struct stem *s)
{
    mma_put_product(out, s->dtype, s->sm);
}

static void put_numbers(struct yir_str *out, const struct stem *s, int lanes)
{
    const struct {
        const char *name;
        int64_t value;
    } row[] = {{"CI", s->ci},
               {"IH", s->ih},
               {"IW", s->iw},
               {"OH", s->oh},
               {"OW", s->ow},
               {"BLOCKS", s->co / 8},
               {"UNITS", stem_units(s)},
               {"SEGMENTS", s->segments},
               {"ROWS", s->rows},
               {"WIDTH", s->width},
               {"LINES", stem_lines(s)},
               {"COLUMNS", stem_columns(s)},
               {"PITCH", pitch(s)},
               {"EACH", each(s->dtype)},
               {"DOWN", s->stride[0]},
               {"ACROSS", s->stride[1]},
               {"TOP", s->pad[0]},
               {"LEFT", s->pad[1]},
               {"KERNEL", s->kernel[0]},
               {"DILATION", s->dil[0]},
               {"WINDOW", stem_window(s->dtype, s->kernel[1], s->ci)},
               {"STEPS", stem_steps(s->dtype, s->kernel[0], s->kernel[1], s->ci)},
               {"THREADS", s->threads},
               {"LANES", lanes}};
    yir_str_fmt(out, "    enum {");
    for (size_t i = 0; i < YIR_COUNT(row); i++) yir_str_fmt(out, "%s %s = %lld", i ? "," : "", row[i].name, (long long)row[i].value);
    yir_str_fmt(out, " };\n");
}

static const char begin_text[] =
    "    extern __shared__ __align__(16) unsigned char shared[];\n"
    "    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;\n"
    "    const int g0 = (int)(blockIdx.x / UNITS), g4 = g0, unit = (int)(blockIdx.x %% UNITS);\n"
    "    const int top = unit / SEGMENTS * ROWS, left = unit %% SEGMENTS * WIDTH;\n"
    "    uint2 weight[STEPS][BLOCKS];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < STEPS * BLOCKS; i++) weight[i / BLOCKS][i %% BLOCKS] = ((const uint2 *)m%d)[i * 32 + lane];\n";

/* All lines of a column at once: their loads are under way together. */
static const char stage_text[] =
    "    for (int e = threadIdx.x; e < COLUMNS * CI; e += THREADS) {\n"
    "        const int column = %s, channel = %s;\n"
    "        const int x = left * ACROSS - LEFT + column;\n"
    "        const bool in = (unsigned)x < IW;\n"
    "        float v[LINES];\n"
    "#pragma unroll\n"
    "        for (int line = 0; line < LINES; line++) {\n"
    "            const int y = top * DOWN - TOP + line;\n"
    "            const float f = element(channel, (unsigned)y < IH ? y : 0, in ? x : 0);\n"
    "            v[line] = in && (unsigned)y < IH ? f : 0.0f;\n"
    "        }\n"
    "#pragma unroll\n"
    "        for (int line = 0; line < LINES; line++)\n"
    "            ((%s *)shared)[line * PITCH * EACH + column * CI + channel] = %s(v[line])%s;\n"
    "    }\n"
    "    __syncthreads();\n";

static const char multiply_text[] =
    "    const unsigned *const words = (const unsigned *)shared;\n"
    "    int at[STEPS][2];\n"
    "#pragma unroll\n"
    "    for (int s = 0; s < 2 * STEPS; s++) {\n"
    "        const int q = s * 4 + t;\n"
    "        at[s / 2][s %% 2] = q < KERNEL * WINDOW ? q / WINDOW * DILATION * PITCH + q %% WINDOW : -1;\n"
    "    }\n"
    "    for (int tile = warp; tile < ROWS * (WIDTH / 16); tile += THREADS / 32) {\n"
    "        const int row = tile / (WIDTH / 16), start = tile %% (WIDTH / 16) * 16;\n"
    "        const unsigned *const from = words + row * DOWN * PITCH + (start + g) * (ACROSS * CI / EACH);\n"
    "        float sums[BLOCKS][4];\n"
    "#pragma unroll\n"
    "        for (int j = 0; j < BLOCKS; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0.0f;\n"
    "#pragma unroll\n"
    "        for (int s = 0; s < STEPS; s++) {\n"
    "            unsigned a[4];\n"
    "#pragma unroll\n"
    "            for (int h = 0; h < 4; h++) a[h] = at[s][h / 2] < 0 ? 0u : from[at[s][h / 2] + h %% 2 * 8 * (ACROSS * CI / EACH)];\n"
    "#pragma unroll\n"
    "            for (int j = 0; j < BLOCKS; j++) ptx_mma_%s(sums[j], a, weight[s][j].x, weight[s][j].y);\n"
    "        }\n"
    "#pragma unroll\n"
    "        for (int h = 0; h < 2; h++) {\n"
    "            const int g5 = top + row, g6 = left + start + g + 8 * h;\n"
    "            if (g5 >= OH || g6 >= OW) continue;\n"
    "#pragma unroll\n"
    "            for (int i = 0; i < 2 * BLOCKS / LANES; i++) {\n"
    "                const int g7 = t * 2 * BLOCKS + i * LANES;\n"
    "                float g8[LANES];\n"
    "#pragma unroll\n"
    "                for (int l = 0; l < LANES; l++) g8[l] = sums[(i * LANES + l) / 2][2 * h + l %% 2];\n"
    "%s"
    "            }\n"
    "        }\n"
    "    }\n";

void stem_put_body(struct yir_str *out, const struct stem *s, const char *wait, const char *element, int lanes, const char *finish)
{
    bool single = s->dtype == YIR_F32;
    const char *type = single ? "unsigned" : "unsigned short";
    const char *convert = single ? "ptx_tf32(__float_as_uint" : s->dtype == YIR_F16 ? "to_f16" : "to_bf16";
    put_numbers(out, s, lanes);
    yir_str_fmt(out, begin_text, s->mem_w);
    yir_str_fmt(out, "%s", wait);
    yir_str_fmt(out, "    const auto element = [&](int g1, int g2, int g3) {\n%s    };\n", element);
    yir_str_fmt(out, stage_text, s->planes ? "e % COLUMNS" : "e / CI", s->planes ? "e / COLUMNS" : "e % CI", type, convert,
                single ? ")" : "");
    yir_str_fmt(out, multiply_text, single ? "tf32" : yir_dtype_name(s->dtype), finish);
}
