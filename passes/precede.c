#include "precede.h"

#include <string.h>

enum { MOST_KERNELS = 4096 }; /* a bit is kept for each op and kernel */

static void join(uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t w = 0; w < words; w++) to[w] |= from[w];
}

static void mark(uint64_t *row, uint32_t kernel)
{
    row[kernel / 64] |= 1ull << (kernel % 64);
}

/* Row i: the kernels that op i's value takes, its own among them when it has one; those of a kernel as a whole are gathered in
 * row[kernel] of `kernels`. */
static void find_before(const struct yir_func *f, size_t words, uint64_t *ops, uint64_t *kernels)
{
    for (uint32_t i = 1; i < f->nop; i++) {
        uint64_t *row = ops + i * words;
        uint32_t k = f->op[i].kernel;
        for (int s = 0; s < f->op[i].nsrc; s++) {
            yir_ref x = yir_src(f, i, s);
            if (yir_kind(x) == YIR_VAL) join(row, ops + yir_index(x) * words, words);
        }
        if (!k) continue;
        join(kernels + k * words, row, words);
        mark(row, k);
    }
}

static void touch(struct pass_precede *p, uint32_t buf, uint32_t kernel)
{
    if (buf) mark(p->touch + (buf - 1) * p->words, kernel);
}

static void wrote(struct pass_precede *p, uint32_t buf, const uint64_t *before)
{
    if (!buf) return;
    uint64_t *row = p->behind + (buf - 1) * p->words;
    for (size_t w = 0; w < p->words; w++) row[w] &= before[w];
}

static void find_accesses(const struct yir_func *f, struct pass_precede *p, const uint64_t *kernels)
{
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t k = f->op[i].kernel;
        if (!k) continue; /* a view neither reads nor writes */
        touch(p, f->place[i].buf, k);
        wrote(p, f->place[i].buf, kernels + k * p->words);
        for (int s = 0; s < f->op[i].nsrc; s++) {
            yir_ref x = yir_src(f, i, s);
            if (yir_kind(x) == YIR_VAL) touch(p, f->place[yir_index(x)].buf, k);
        }
    }
}

struct pass_precede *pass_precede(const struct yir_func *f, struct yir_arena *a)
{
    if (f->nkernel > MOST_KERNELS) return NULL;
    struct pass_precede *p = yir_alloc(a, sizeof *p);
    p->words = f->nkernel / 64 + 1;
    size_t buffers = (size_t)f->nbuf * p->words;
    uint64_t *ops = yir_alloc_n(a, (size_t)f->nop * p->words, sizeof *ops);
    uint64_t *kernels = yir_alloc_n(a, ((size_t)f->nkernel + 1) * p->words, sizeof *kernels);
    p->touch = yir_alloc_n(a, buffers + 1, sizeof *p->touch);
    p->behind = yir_alloc_n(a, buffers + 1, sizeof *p->behind);
    memset(p->behind, 0xff, buffers * sizeof *p->behind);
    find_before(f, p->words, ops, kernels);
    for (uint32_t k = 0; k <= f->nkernel; k++) kernels[k * p->words + k / 64] &= ~(1ull << (k % 64));
    find_accesses(f, p, kernels);
    return p;
}

static bool within(const uint64_t *part, const uint64_t *whole, size_t words)
{
    for (size_t w = 0; w < words; w++)
        if (part[w] & ~whole[w]) return false;
    return true;
}

bool pass_precedes(const struct pass_precede *p, uint32_t i, uint32_t k)
{
    return within(p->touch + i * p->words, p->behind + k * p->words, p->words) ||
           within(p->touch + k * p->words, p->behind + i * p->words, p->words);
}
