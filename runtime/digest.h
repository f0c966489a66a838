/* XXH3-128 of a module file whose own digest counts as zeros. */
#ifndef RT_DIGEST_H
#define RT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { RT_DIGEST = 16 };

/* Canonical (big-endian) digest of bytes with [at, at + 16) taken as zeros; at + 16 <= size. */
void rt_digest(const uint8_t *bytes, size_t size, size_t at, uint8_t out[RT_DIGEST]);

/* The same by AVX2, twice as fast; only in builds for x86-64, and only where the CPU has it. */
void rt_digest_avx2(const uint8_t *bytes, size_t size, size_t at, uint8_t out[RT_DIGEST]);

#endif
