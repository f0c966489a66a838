/* SHA-256 (FIPS 180-4), for comparing with stored digests. */
#ifndef TEST_SHA256_H
#define TEST_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* `hex` gets 64 lower-case digits and a NUL. */
void test_sha256(const void *bytes, size_t size, char hex[65]);

#endif
