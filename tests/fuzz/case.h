/* Golden cases serve as seeds as they stand: only the input section of a case is used. */
#ifndef FUZZ_CASE_H
#define FUZZ_CASE_H

#include <stddef.h>
#include <string.h>

/* Narrows text to what follows a line `== in ...`, up to the next section; leaves other text alone. */
static inline void fuzz_case_input(const char **text, size_t *size)
{
    const char *at = memmem(*text, *size, "== in", 5);
    const char *end = *text + *size;
    if (!at || (at != *text && at[-1] != '\n')) return;
    const char *nl = memchr(at, '\n', (size_t)(end - at));
    if (!nl) return;
    const char *next = memmem(nl, (size_t)(end - nl), "\n== ", 4);
    *text = nl + 1;
    *size = (size_t)((next && next > nl ? next + 1 : end) - *text);
}

#endif
