/* The function NAME of packing.h. */
#include "packing_body.h"
#include "yolort.h"

/* Exact. The parts of a number that is not normal are those of a small integer. */
static void widen(const uint16_t *half, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t h = half[i], sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
        uint32_t bits = (rest << 13) + (rest >= 0x7c00u ? 224u << 23 : 112u << 23);
        float small = (float)(int32_t)rest * 0x1p-24f;
        uint32_t small_bits;
        memcpy(&small_bits, &small, sizeof small_bits);
        bits = sign | (rest < 0x0400u ? small_bits : bits);
        memcpy(&out[i], &bits, sizeof bits);
    }
}

static void scale(const float *in, int64_t n, double factor, float *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = (float)(factor * (double)in[i]);
}

void NAME(const struct rt_packing *p, const struct rt_pack_rows *r, float *stage, void *out)
{
    int64_t row = p->ci * p->taps;
    const void *rows = r->rows;
    if (r->from == YOLORT_F16 && p->size == sizeof *stage) {
        widen(rows, r->n * row, stage);
        rows = stage;
    }
    for (int64_t l = 0; r->factor && l < r->n; l++)
        scale((const float *)rows + l * row, row, r->factor[r->first + l], stage + l * row);
    pack_part(p, r->first, r->n, r->factor ? stage : rows, out);
}
