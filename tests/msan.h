/* MemorySanitizer does not see what the system's libraries write, since they are built without it. */
#ifndef TEST_MSAN_H
#define TEST_MSAN_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define TEST_MSAN 1
#endif
#endif
#ifndef TEST_MSAN
#define TEST_MSAN 0
#endif

/* n bytes from p on were written by such a library. */
static inline void test_written(const void *p, size_t n)
{
#if TEST_MSAN
    __msan_unpoison(p, n);
#else
    (void)p;
    (void)n;
#endif
}

#endif
