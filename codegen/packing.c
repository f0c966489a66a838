/* What the loader of modules makes too is its own arithmetic, so that the bytes are the same; the rest stands in the file packed. */
#include "codegen.h"
#include "mma_text.h"
#include "stem_text.h"
#include "wgmma.h"

#include "runtime/packing_body.h"

#define SAME(name) _Static_assert((int)KB_PACK_##name == (int)YM_PACK_##name, "modules hold these numbers")
SAME(NONE);
SAME(OBLOCK);
SAME(OBLOCK_BACK);
SAME(OBLOCK_PLANES);
SAME(WINO2);
SAME(WINO4);
SAME(DW);

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

static bool is_transformed(enum kb_packing p)
{
    return p == KB_PACK_WINO2 || p == KB_PACK_WINO4;
}

/* Transforms are made in float, whatever the type. */
static struct rt_packing packing_of(const struct yir_tdesc *d, enum kb_packing p, int32_t arg, uint64_t *elems)
{
    struct rt_packing out;
    size_t size = is_transformed(p) ? sizeof(float) : yir_dtype_size(d->dtype);
    int known = rt_packing_of(&out, (uint32_t)p, p == KB_PACK_NONE ? 0 : arg, (uint32_t)d->rank, d->dim, (int64_t)size, elems);
    YIR_ASSERT(known);
    return out;
}

static void transform_narrow(const struct yir_tdesc *d, const void *data, const struct rt_packing *k, void *out)
{
    int four = k->packing == YM_PACK_WINO4;
    int64_t points = four ? 36 : 16, block = k->arg;
    for (int64_t o = 0; o < k->co; o++)
        for (int64_t c = 0; c < k->ci; c++) {
            float in[SIDE * 9] = {0}, to[36][RT_PACK_ROWS];
            for (int i = 0; i < 9; i++) in[i] = (float)yir_dtype_load(d->dtype, data, (size_t)((o * k->ci + c) * 9 + i));
            transform(in, 9, four, to, 0);
            for (int64_t i = 0; i < points; i++)
                yir_dtype_store(d->dtype, out, (size_t)(((o / block * points + i) * k->ci + c) * block + o % block), (double)to[i][0]);
        }
}

/* What KB_PACK_MMA_SPREAD makes of [ci,co,2,2]: [corner * co + o,ci,1,1]. */
static struct yir_tdesc spread(const struct yir_tdesc *d)
{
    return (struct yir_tdesc){d->dtype, d->layout, 4, {d->dim[1] * 4, d->dim[0], 1, 1}};
}

int64_t cg_packed_elems(const struct yir_tdesc *d, enum kb_packing p, int32_t arg)
{
    uint64_t elems;
    if (p == KB_PACK_STEM) return stem_steps(d->dtype, d->dim[2], d->dim[3], d->dim[1]) * d->dim[0] * 32 / (int64_t)yir_dtype_size(d->dtype);
    if (p == KB_PACK_MMA) return mma_packed_elems(d, arg);
    if (p == KB_PACK_WGMMA) return wg_packed_elems(d, arg);
    if (p == KB_PACK_MMA_SPREAD) {
        const struct yir_tdesc s = spread(d);
        return mma_packed_elems(&s, 1);
    }
    if (p == KB_PACK_DECONV) return round_up(d->dim[1], arg) * (yir_numel(d) / d->dim[1]);
    packing_of(d, p, arg, &elems);
    return (int64_t)elems;
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

/* Up to 16 bytes of a tap's channels, `step` bytes apart: 4 bytes for each of 4 lanes. */
static void pack_mma_chunk(const char *in, int64_t step, int64_t n, bool half, char *to)
{
    for (int64_t i = 0; i < n; i++) {
        if (half) {
            memcpy(to + i / 2 * 16 + i % 2 * 2, in + i * step, 2);
        } else {
            memcpy(to + i * 16, in + i * step, 4);
            round_tf32(to + i * 16);
        }
    }
}

static void pack_mma(const struct yir_tdesc *d, const char *in, int32_t groups, char *out)
{
    int64_t size = (int64_t)yir_dtype_size(d->dtype), co = d->dim[0] / groups, ci = d->dim[1], taps = d->dim[2] * d->dim[3];
    int64_t chunk = 16 / size, whole = round_up(ci, chunk), blocks = round_up(co, MMA_CHANNELS) / MMA_CHANNELS;
    int64_t group = mma_packed_elems(d, groups) / groups * size;
    for (int64_t o = 0; o < d->dim[0]; o++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < ci; c += chunk)
                pack_mma_chunk(in + ((o * ci + c) * taps + t) * size, taps * size, ci - c < chunk ? ci - c : chunk, size == 2,
                               out + o / co * group + mma_at(o % co, t * whole + c, blocks, size));
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

static void pack_mma_spread(const struct yir_tdesc *d, const char *in, char *out)
{
    const struct yir_tdesc s = spread(d);
    int64_t size = (int64_t)yir_dtype_size(d->dtype), chunk = 16 / size, ci = d->dim[0], co = d->dim[1];
    int64_t blocks = round_up(s.dim[0], MMA_CHANNELS) / MMA_CHANNELS;
    for (int64_t o = 0; o < s.dim[0]; o++)
        for (int64_t c = 0; c < ci; c += chunk)
            pack_mma_chunk(in + ((c * co + o % co) * 4 + o / co) * size, co * 4 * size, ci - c < chunk ? ci - c : chunk, size == 2,
                           out + mma_at(o, c, blocks, size));
}

/* A form that the loader knows too. */
static void pack_shared(const struct yir_tdesc *d, const void *data, enum kb_packing p, int32_t arg, void *out)
{
    uint64_t elems;
    struct rt_packing k = packing_of(d, p, arg, &elems);
    int64_t row = k.ci * k.taps * k.size, parts = rt_packing_parts(&k), first, n;
    if (is_transformed(p) && d->dtype != YIR_F32) {
        transform_narrow(d, data, &k, out);
        return;
    }
    for (int64_t i = 0; i < parts; i++) {
        rt_packing_part(&k, i, &first, &n);
        pack_part(&k, first, n, (const char *)data + first * row, out);
    }
}

void cg_pack(const struct yir_tdesc *d, const void *data, enum kb_packing p, int32_t arg, void *out)
{
    switch (p) {
    case KB_PACK_STEM: pack_stem(d, data, out); break;
    case KB_PACK_MMA: pack_mma(d, data, arg, out); break;
    case KB_PACK_WGMMA: wg_pack(d, data, arg, out); break;
    case KB_PACK_MMA_SPREAD: pack_mma_spread(d, data, out); break;
    case KB_PACK_DECONV: pack_deconv(d, data, yir_dtype_size(d->dtype), arg, out); break;
    default: pack_shared(d, data, p, arg, out); break;
    }
}
