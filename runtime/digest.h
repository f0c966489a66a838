/* XXH3-128 of a module file whose own digest counts as zeros. */
#ifndef RT_DIGEST_H
#define RT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { RT_DIGEST = 16 };

/* Bytes that come while the digest is taken: waits until there are more than `have` of them, at least 64 to begin with, and says how many
 * there are; 0: no more will come. */
struct rt_coming {
    size_t (*more)(void *user, size_t have);
    void *user;
};

/* Canonical (big-endian) digest of bytes with [at, at + 16) taken as zeros; at + 16 <= 64, size. coming NULL: all are there. -1 when they
 * did not all come. */
int rt_digest(const uint8_t *bytes, size_t size, size_t at, const struct rt_coming *coming, uint8_t out[RT_DIGEST]);

/* The same by AVX2, twice as fast; only in builds for x86-64, and only where the CPU has it. */
int rt_digest_avx2(const uint8_t *bytes, size_t size, size_t at, const struct rt_coming *coming, uint8_t out[RT_DIGEST]);

#endif
