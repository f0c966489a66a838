/* Words every folder of the compiler uses: fixed-size ints, attributes, and the report of our own bugs. */
#ifndef YIR_BASE_H
#define YIR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define YIR_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define YIR_NORETURN __attribute__((noreturn))
#else
#define YIR_PRINTF(fmt, first)
#define YIR_NORETURN
#endif

#define YIR_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Ends the process after a broken invariant of ours; input of any kind must never reach it. */
YIR_NORETURN YIR_PRINTF(3, 4) void yir_bug(const char *file, int line, const char *fmt, ...);
#define YIR_BUG(...) yir_bug(__FILE__, __LINE__, __VA_ARGS__)
#define YIR_ASSERT(cond) ((cond) ? (void)0 : YIR_BUG("assertion failed: %s", #cond))

/* Checked arithmetic for sizes that come from outside: false on overflow, *out then unchanged. */
static inline bool yir_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (b != 0 && a > UINT64_MAX / b) return false;
    *out = a * b;
    return true;
}

static inline bool yir_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    if (a > UINT64_MAX - b) return false;
    *out = a + b;
    return true;
}

#endif
