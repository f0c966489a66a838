/* Weights in the order kernels read them: pure functions of the dense weight, the packing and its argument. The compiler
 * (codegen/packing.c) and the loader (constants.c) include this and packing_body.h, so that both make the same bytes. */
#ifndef RT_PACKING_H
#define RT_PACKING_H

#include "module.h"

/* How a weight [co, ci, taps...] is packed. */
struct rt_packing {
    enum ym_packing packing;
    int64_t arg, size;         /* of the packing; bytes of an element */
    int64_t co, ci, taps, across; /* across: taps in a row of the window */
};

/* Output channels that lie beside each other in the packed form. */
static inline int64_t rt_packing_block(const struct rt_packing *p)
{
    return p->packing == YM_PACK_NONE || p->packing == YM_PACK_DW ? p->co : p->arg;
}

/* 0 when there is no such form of this weight, whose dims have been found possible (or rank 0); *elems: of the packed form. */
static inline int rt_packing_of(struct rt_packing *p, uint32_t packing, int64_t arg, uint32_t rank, const int64_t *dim, int64_t size,
                                uint64_t *elems)
{
    int wino = packing == YM_PACK_WINO2 || packing == YM_PACK_WINO4;
    uint64_t all = 1, points = packing == YM_PACK_WINO2 ? 16 : 36, co = 1;
    for (uint32_t i = 0; i < rank; i++) all *= (uint64_t)dim[i];
    if (packing >= YM_NPACK || (packing == YM_PACK_NONE ? arg != 0 : arg < 1 || arg > INT32_MAX || rank < 1)) return 0;
    if ((wino || packing == YM_PACK_OBLOCK_PLANES) && rank != 4) return 0;
    if (wino && (dim[2] != 3 || dim[3] != 3 || size != sizeof(float))) return 0;
    *p = (struct rt_packing){(enum ym_packing)packing, arg, size, rank ? dim[0] : 1, 1, 1, 1};
    if (rank > 1 && packing != YM_PACK_DW) p->ci = dim[1];
    p->taps = (int64_t)(all / (uint64_t)p->co / (uint64_t)p->ci);
    if (packing == YM_PACK_OBLOCK_PLANES) p->across = dim[3];
    co = packing == YM_PACK_NONE ? (uint64_t)p->co : ((uint64_t)p->co + (uint64_t)arg - 1) / (uint64_t)arg * (uint64_t)arg;
    return !__builtin_mul_overflow(co, (uint64_t)p->ci, elems) &&
           !__builtin_mul_overflow(*elems, wino ? points : (uint64_t)p->taps, elems) && *elems <= INT64_MAX;
}

/* Output channels that are packed at once: a cache line of floats. */
enum { RT_PACK_ROWS = 16 };

/* How many calls pack all of it, and the channels of the i-th: *n of them from *first on, within a block. */
static inline int64_t rt_packing_parts(const struct rt_packing *p)
{
    int64_t block = rt_packing_block(p), each = (block + RT_PACK_ROWS - 1) / RT_PACK_ROWS;
    return (p->co / block) * each + (p->co % block + RT_PACK_ROWS - 1) / RT_PACK_ROWS;
}

static inline void rt_packing_part(const struct rt_packing *p, int64_t i, int64_t *first, int64_t *n)
{
    int64_t block = rt_packing_block(p), each = (block + RT_PACK_ROWS - 1) / RT_PACK_ROWS;
    int64_t begin = i / each * block, at = i % each * RT_PACK_ROWS, end = begin + block < p->co ? begin + block : p->co;
    *first = begin + at;
    *n = end - *first < RT_PACK_ROWS ? end - *first : RT_PACK_ROWS;
}

/* packing.c: packs n <= RT_PACK_ROWS channels from `first` on, whose dense rows (of type `from`, YOLORT_F32 or YOLORT_F16, or of
 * the packed type when that is none of them) lie at `rows`. Each is multiplied by its factor first, in double and rounded to
 * float, unless factor is NULL. stage: room for n rows of floats. out was zeroed. */
struct rt_pack_rows {
    const void *rows;
    uint32_t from;
    const double *factor;
    int64_t first, n;
};
void rt_pack(const struct rt_packing *p, const struct rt_pack_rows *r, float *stage, void *out);

/* The same by AVX2; only in builds for x86-64, and only where the CPU has it. */
void rt_pack_avx2(const struct rt_packing *p, const struct rt_pack_rows *r, float *stage, void *out);

#endif
