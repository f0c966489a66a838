/* Counts of tests that have a longer form: YOLOC_TEST_LONG in the environment asks for it (ctest -L long). */
#ifndef TEST_LONGER_H
#define TEST_LONGER_H

#include <stdlib.h>

static inline int test_count(int normal, int longer)
{
    return getenv("YOLOC_TEST_LONG") ? longer : normal;
}

/* Of a sanitizer's slower code. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TEST_SANITIZED 1
#endif
#endif
#ifndef TEST_SANITIZED
#define TEST_SANITIZED 0
#endif

#endif
