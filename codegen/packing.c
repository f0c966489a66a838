/* Weights in the order kernels read them. Pure functions of the dense weight, the packing and its argument. */
#include "codegen.h"
#include "mma_text.h"
#include "stem_text.h"

#include <string.h>

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

enum { MMA_CHANNELS = 16, MMA_BLOCK = 512 }; /* output channels and bytes of a block of KB_PACK_MMA */

static int64_t mma_packed_elems(const struct yir_tdesc *d, int32_t groups)
{
    int64_t blocks = round_up(d->dim[0] / groups, MMA_CHANNELS) / MMA_CHANNELS * groups;
    return blocks * mma_steps_of(d->dtype, d->dim[2] * d->dim[3], d->dim[1]) * (MMA_BLOCK / (int64_t)yir_dtype_size(d->dtype));
}

int64_t cg_packed_elems(const struct yir_tdesc *d, enum kb_packing p, int32_t arg)
{
    if (p == KB_PACK_NONE) return yir_numel(d);
    if (p == KB_PACK_STEM) return stem_steps(d->dtype, d->dim[2], d->dim[3], d->dim[1]) * d->dim[0] * 32 / (int64_t)yir_dtype_size(d->dtype);
    if (p == KB_PACK_MMA) return mma_packed_elems(d, arg);
    if (p == KB_PACK_WINO2) return round_up(d->dim[0], arg) * d->dim[1] * 16;
    if (p == KB_PACK_WINO4) return round_up(d->dim[0], arg) * d->dim[1] * 36;
    if (p == KB_PACK_DECONV) return round_up(d->dim[1], arg) * (yir_numel(d) / d->dim[1]);
    return round_up(d->dim[0], arg) * (yir_numel(d) / d->dim[0]);
}

/* Place of input channel c and tap t among those of one output channel. */
static int64_t oblock_step(const struct yir_tdesc *d, enum kb_packing p, int64_t ci, int64_t c, int64_t t)
{
    if (p == KB_PACK_OBLOCK_PLANES) return (t / d->dim[3] * ci + c) * d->dim[3] + t % d->dim[3];
    return t * ci + (p == KB_PACK_OBLOCK_BACK ? ci - 1 - c : c);
}

static void pack_oblock(const struct yir_tdesc *d, const char *in, size_t size, enum kb_packing p, int32_t block, char *out)
{
    int64_t co = d->dim[0], ci = d->rank > 1 ? d->dim[1] : 1, taps = yir_numel(d) / (co * ci);
    for (int64_t o = 0; o < co; o++)
        for (int64_t c = 0; c < ci; c++)
            for (int64_t t = 0; t < taps; t++) {
                int64_t to = (o / block * taps * ci + oblock_step(d, p, ci, c, t)) * block + o % block;
                memcpy(out + (size_t)to * size, in + (size_t)((o * ci + c) * taps + t) * size, size);
            }
}

static void pack_dw(const struct yir_tdesc *d, const char *in, size_t size, int32_t block, char *out)
{
    int64_t c = d->dim[0], taps = yir_numel(d) / c, wide = round_up(c, block);
    for (int64_t i = 0; i < c; i++)
        for (int64_t t = 0; t < taps; t++)
            memcpy(out + (size_t)(t * wide + i) * size, in + (size_t)(i * taps + t) * size, size);
}

static void pack_deconv(const struct yir_tdesc *d, const char *in, size_t size, int32_t block, char *out)
{
    int64_t ci = d->dim[0], co = d->dim[1], taps = d->dim[2] * d->dim[3], wide = round_up(co, block);
    for (int64_t c = 0; c < ci; c++)
        for (int64_t o = 0; o < co; o++)
            for (int64_t t = 0; t < taps; t++) {
                int64_t to = t * wide * ci + (o / block * ci + c) * block + o % block;
                memcpy(out + (size_t)to * size, in + (size_t)((c * co + o) * taps + t) * size, size);
            }
}

/* G of F(m x m, 3 x 3), m + 2 rows; points 0, 1, -1, infinity, and 2, -2 for m = 4. */
static const double points2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
static const double points4[6][3] = {{1.0 / 4, 0, 0},
                                     {-1.0 / 6, -1.0 / 6, -1.0 / 6},
                                     {-1.0 / 6, 1.0 / 6, -1.0 / 6},
                                     {1.0 / 24, 1.0 / 12, 1.0 / 6},
                                     {1.0 / 24, -1.0 / 12, 1.0 / 6},
                                     {0, 0, 1}};

/* G w G^T of one 3x3 filter, to out[n*n], in double. */
static void transform_filter(const double g[][3], int n, const double w[9], double *out)
{
    double half[6][3];
    for (int r = 0; r < n; r++)
        for (int q = 0; q < 3; q++) half[r][q] = g[r][0] * w[q] + g[r][1] * w[3 + q] + g[r][2] * w[6 + q];
    for (int r = 0; r < n; r++)
        for (int q = 0; q < n; q++) out[r * n + q] = g[q][0] * half[r][0] + g[q][1] * half[r][1] + g[q][2] * half[r][2];
}

static void pack_wino(const struct yir_tdesc *d, const void *in, int32_t block, int n, const double g[][3], void *out)
{
    int64_t co = d->dim[0], ci = d->dim[1], nn = (int64_t)n * n;
    for (int64_t o = 0; o < co; o++)
        for (int64_t c = 0; c < ci; c++) {
            double w[9], u[36];
            for (int i = 0; i < 9; i++) w[i] = yir_dtype_load(d->dtype, in, (size_t)((o * ci + c) * 9 + i));
            transform_filter(g, n, w, u);
            for (int64_t k = 0; k < nn; k++)
                yir_dtype_store(d->dtype, out, (size_t)(((o / block * nn + k) * ci + c) * block + o % block), u[k]);
        }
}

/* The bits of a float rounded to tf32: nearest, ties away from zero. */
static void round_tf32(void *v)
{
    uint32_t bits;
    memcpy(&bits, v, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & 0xffffe000u;
    memcpy(v, &bits, sizeof bits);
}

/* Bytes from the start of a group's weights to the element of output channel o at place k of the sum, a multiple of `chunk` elements
 * for each tap. Of the 16 bytes that a lane has in a block, the words are both halves of the step for channels 0-7, then for 8-15. */
static int64_t mma_at(int64_t o, int64_t k, int64_t blocks, int64_t size)
{
    int64_t chunk = 16 / size, step = k / (2 * chunk), half = k / chunk % 2, within = k % chunk;
    int64_t lane = o % 8 * 4 + within * size / 4, word = o / 8 % 2 * 2 + half;
    return (step * blocks + o / MMA_CHANNELS) * MMA_BLOCK + lane * 16 + word * 4 + within * size % 4;
}

static void pack_mma(const struct yir_tdesc *d, const char *in, int32_t groups, char *out)
{
    int64_t size = (int64_t)yir_dtype_size(d->dtype), co = d->dim[0] / groups, ci = d->dim[1], taps = d->dim[2] * d->dim[3];
    int64_t whole = round_up(ci, 16 / size), blocks = round_up(co, MMA_CHANNELS) / MMA_CHANNELS;
    int64_t group = mma_packed_elems(d, groups) / groups * size;
    for (int64_t o = 0; o < d->dim[0]; o++)
        for (int64_t c = 0; c < ci; c++)
            for (int64_t t = 0; t < taps; t++) {
                char *to = out + o / co * group + mma_at(o % co, t * whole + c, blocks, size);
                memcpy(to, in + ((o * ci + c) * taps + t) * size, (size_t)size);
                if (d->dtype == YIR_F32) round_tf32(to);
            }
}

/* Word `q` of a window's, of channel `o`: lane 4 * column + q % 4 has it in its pair of the step as the first or the second. */
static void pack_stem(const struct yir_tdesc *d, const char *in, char *out)
{
    int64_t size = (int64_t)yir_dtype_size(d->dtype), each = 4 / size, co = d->dim[0], ci = d->dim[1], kh = d->dim[2], kw = d->dim[3];
    int64_t window = stem_window(d->dtype, kw, ci);
    for (int64_t block = 0; block < co / 8; block++)
        for (int64_t column = 0; column < 8; column++)
            for (int64_t i = 0; i < kh * kw * ci; i++) {
                int64_t r = i / (kw * ci), e = i % (kw * ci), q = r * window + e / each, o = stem_channel(co, block, column);
                int64_t pair = (q / 8 * (co / 8) + block) * 32 + column * 4 + q % 4;
                char *to = out + (pair * 2 + q % 8 / 4) * 4 + e % each * size;
                memcpy(to, in + (((o * ci + e % ci) * kh + r) * kw + e / ci) * size, (size_t)size);
                if (d->dtype == YIR_F32) round_tf32(to);
            }
}

void cg_pack(const struct yir_tdesc *d, const void *data, enum kb_packing p, int32_t arg, void *out)
{
    size_t size = yir_dtype_size(d->dtype);
    switch (p) {
    case KB_PACK_NONE: memcpy(out, data, (size_t)yir_numel(d) * size); break;
    case KB_PACK_OBLOCK:
    case KB_PACK_OBLOCK_BACK:
    case KB_PACK_OBLOCK_PLANES: pack_oblock(d, data, size, p, arg, out); break;
    case KB_PACK_WINO2: pack_wino(d, data, arg, 4, points2, out); break;
    case KB_PACK_WINO4: pack_wino(d, data, arg, 6, points4, out); break;
    case KB_PACK_STEM: pack_stem(d, data, out); break;
    case KB_PACK_MMA: pack_mma(d, data, arg, out); break;
    case KB_PACK_DW: pack_dw(d, data, size, arg, out); break;
    case KB_PACK_DECONV: pack_deconv(d, data, size, arg, out); break;
    }
}
