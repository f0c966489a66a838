/* Memory for what is large: whole files. */
#ifndef YIR_LARGE_H
#define YIR_LARGE_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* As malloc; from some megabytes on in large pages where the system has them: the first touch of small ones would take longer than
 * reading a file to them. free gives it back. */
static inline void *yir_large_alloc(size_t size)
{
    const size_t page = (size_t)2 << 20;
    if (size < 4 * page) return malloc(size);
    void *p = size > SIZE_MAX - page ? NULL : aligned_alloc(page, (size + page - 1) / page * page);
    if (p) (void)madvise(p, size, MADV_HUGEPAGE);
    return p;
}

#endif
