/* Packs the dense rows of n channels from `first` on (packing.h), for whatever vectors this file is compiled with. Every value comes
 * from the same operations in double in all of them, so that the bytes are the same everywhere. */
#include "packing.h"

#include <string.h>

/* Place of input channel c and tap t among those of one output channel. */
static int64_t step_of(const struct rt_packing *p, int64_t c, int64_t t)
{
    if (p->packing == YM_PACK_OBLOCK_PLANES) return (t / p->across * p->ci + c) * p->across + t % p->across;
    return t * p->ci + (p->packing == YM_PACK_OBLOCK_BACK ? p->ci - 1 - c : c);
}

/* One element of each of n channels, `pitch` elements apart, to n places beside each other. */
static inline void gather(const char *from, int64_t pitch, int64_t n, int64_t size, char *to)
{
    for (int64_t l = 0; size == 4 && n == RT_PACK_ROWS && l < RT_PACK_ROWS; l++) memcpy(to + l * 4, from + l * pitch * 4, 4);
    for (int64_t l = 0; size == 4 && n != RT_PACK_ROWS && l < n; l++) memcpy(to + l * 4, from + l * pitch * 4, 4);
    for (int64_t l = 0; size != 4 && l < n; l++) memcpy(to + l * size, from + l * pitch * size, (size_t)size);
}

static void pack_oblock(const struct rt_packing *p, int64_t first, int64_t n, const char *in, char *out)
{
    int64_t row = p->ci * p->taps, block = p->arg, base = first / block * row * block + first % block;
    for (int64_t t = 0; t < p->taps; t++)
        for (int64_t c = 0; c < p->ci; c++)
            gather(in + (c * p->taps + t) * p->size, row, n, p->size, out + (base + step_of(p, c, t) * block) * p->size);
}

static void pack_dw(const struct rt_packing *p, int64_t first, int64_t n, const char *in, char *out)
{
    int64_t wide = (p->co + p->arg - 1) / p->arg * p->arg;
    for (int64_t t = 0; t < p->taps; t++) gather(in + t * p->size, p->taps, n, p->size, out + (t * wide + first) * p->size);
}

/* Four channels side by side. */
enum { SIDE = 4 };
typedef double channels __attribute__((vector_size(SIDE * sizeof(double))));
typedef float narrow __attribute__((vector_size(SIDE * sizeof(float))));

/* G x of F(m x m, 3 x 3), points 0, 1, -1, infinity, and 2, -2 for m = 4, whose G is
 * 1 0 0, 1/2 1/2 1/2, 1/2 -1/2 1/2, 0 0 1 and
 * 1/4 0 0, -1/6 -1/6 -1/6, -1/6 1/6 -1/6, 1/24 1/12 1/6, 1/24 -1/12 1/6, 0 0 1; x and the results lie `step` apart. */
static inline void to_points2(const channels *x, int step, channels *o, int to)
{
    channels even = (x[0] + x[2 * step]) * 0.5, odd = x[step] * 0.5;
    o[0] = x[0];
    o[to] = even + odd;
    o[2 * to] = even - odd;
    o[3 * to] = x[2 * step];
}

static inline void to_points4(const channels *x, int step, channels *o, int to)
{
    channels even = (x[0] + x[2 * step]) * (-1.0 / 6), odd = x[step] * (1.0 / 6);
    channels far = x[0] * (1.0 / 24) + x[2 * step] * (1.0 / 6), odd_far = x[step] * (1.0 / 12);
    o[0] = x[0] * 0.25;
    o[to] = even - odd;
    o[2 * to] = even + odd;
    o[3 * to] = far + odd_far;
    o[4 * to] = far - odd_far;
    o[5 * to] = x[2 * step];
}

/* G w G^T of the 3x3 filters w. */
static inline void transform2(const channels w[9], channels u[16])
{
    channels half[4 * 3]; /* [point][column] */
    for (int q = 0; q < 3; q++) to_points2(w + q, 3, half + q, 3);
    for (int r = 0; r < 4; r++) to_points2(half + 3 * r, 1, u + 4 * r, 1);
}

static inline void transform4(const channels w[9], channels u[36])
{
    channels half[6 * 3];
    for (int q = 0; q < 3; q++) to_points4(w + q, 3, half + q, 3);
    for (int r = 0; r < 6; r++) to_points4(half + 3 * r, 1, u + 6 * r, 1);
}

/* The filters of SIDE channels, `pitch` floats apart; each point of them to a row of `to`, from `at` on. */
static inline void transform(const float *in, int64_t pitch, int four, float (*to)[RT_PACK_ROWS], int64_t at)
{
    channels w[9], u[36];
    for (int i = 0; i < 9; i++) {
        narrow f = {in[i], in[pitch + i], in[2 * pitch + i], in[3 * pitch + i]};
        w[i] = __builtin_convertvector(f, channels);
    }
    if (four) transform4(w, u);
    else transform2(w, u);
    for (int k = 0; k < (four ? 36 : 16); k++) {
        narrow f = __builtin_convertvector(u[k], narrow);
        memcpy(to[k] + at, &f, sizeof f);
    }
}

/* The filters of one input channel. Whole cache lines are written, since those of the points lie on the same places of the cache. */
static inline void pack_filters(const float *in, int64_t pitch, int64_t n, int four, int64_t step, float *out)
{
    float points[36][RT_PACK_ROWS], last[SIDE * 9] = {0};
    int64_t whole = n / SIDE * SIDE;
    for (int64_t l = 0; l < whole; l += SIDE) transform(in + l * pitch, pitch, four, points, l);
    for (int64_t l = whole; l < n; l++) memcpy(last + (l - whole) * 9, in + l * pitch, 9 * sizeof *last);
    if (whole < n) transform(last, 9, four, points, whole);
    for (int k = 0; k < (four ? 36 : 16); k++) {
        if (n == RT_PACK_ROWS) memcpy(out + k * step, points[k], sizeof points[k]);
        else memcpy(out + k * step, points[k], (size_t)n * sizeof *out);
    }
}

static void pack_wino(const struct rt_packing *p, int64_t first, int64_t n, const float *in, float *out)
{
    int four = p->packing == YM_PACK_WINO4;
    int64_t block = p->arg, nn = four ? 36 : 16, row = p->ci * 9, step = p->ci * block;
    out += first / block * nn * step + first % block;
    for (int64_t c = 0; c < p->ci; c++) {
        if (four) pack_filters(in + c * 9, row, n, 1, step, out + c * block);
        else pack_filters(in + c * 9, row, n, 0, step, out + c * block);
    }
}

static void pack_part(const struct rt_packing *p, int64_t first, int64_t n, const void *rows, void *out)
{
    int64_t row = p->ci * p->taps * p->size;
    switch (p->packing) {
    case YM_PACK_NONE: memcpy((char *)out + first * row, rows, (size_t)(n * row)); return;
    case YM_PACK_OBLOCK:
    case YM_PACK_OBLOCK_BACK:
    case YM_PACK_OBLOCK_PLANES: pack_oblock(p, first, n, rows, out); return;
    case YM_PACK_WINO2:
    case YM_PACK_WINO4: pack_wino(p, first, n, rows, out); return;
    case YM_PACK_DW: pack_dw(p, first, n, rows, out); return;
    }
}
