/* Weights in the order kernels read them. Pure functions of the dense weight, the packing and its argument. */
#include "codegen.h"

#include <string.h>

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int64_t cg_packed_elems(const struct yir_tdesc *d, enum kb_packing p, int32_t arg)
{
    if (p == KB_PACK_NONE) return yir_numel(d);
    return round_up(d->dim[0], arg) * (yir_numel(d) / d->dim[0]);
}

static void pack_oblock(const struct yir_tdesc *d, const char *in, size_t size, int32_t block, char *out)
{
    int64_t co = d->dim[0], ci = d->rank > 1 ? d->dim[1] : 1, taps = yir_numel(d) / (co * ci);
    for (int64_t o = 0; o < co; o++)
        for (int64_t c = 0; c < ci; c++)
            for (int64_t t = 0; t < taps; t++) {
                int64_t to = ((o / block * taps + t) * ci + c) * block + o % block;
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

void cg_pack(const struct yir_tdesc *d, const void *data, enum kb_packing p, int32_t arg, void *out)
{
    size_t size = yir_dtype_size(d->dtype);
    switch (p) {
    case KB_PACK_NONE: memcpy(out, data, (size_t)yir_numel(d) * size); break;
    case KB_PACK_OBLOCK: pack_oblock(d, data, size, arg, out); break;
    case KB_PACK_DW: pack_dw(d, data, size, arg, out); break;
    }
}
