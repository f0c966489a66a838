/* Blocks of zeroed pages from the system: arenas, scratch, whole files. */
#ifndef RT_BLOCK_H
#define RT_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { RT_LINE = 64 }; /* alignment of everything kernels read or write by vectors */

struct rt_block {
    uint8_t *data; /* 64-byte aligned, never NULL in a live block */
    size_t size;   /* as asked for */
    void *map;     /* NULL: not a live block */
    size_t map_size;
    int guard;
};

/* guard: an untouchable page before and after; data ends (but for the alignment) where the page after begins.
 * 0, or -1 when there is no memory; the block is then dead and may be freed. */
int rt_block_new(struct rt_block *b, uint64_t size, int guard);
void rt_block_free(struct rt_block *b);

/* Every float type reads as NaN afterwards. */
void rt_block_poison(struct rt_block *b);

/* From now on nothing may write to it, this process included. */
void rt_block_seal(struct rt_block *b);

static inline uint64_t rt_align(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
