#include "tests/sha256.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* The standard defines its constants as the first 32 bits of the fractions of square roots (state) and cube
 * roots (rounds) of the first primes; a double holds enough of them. */
static uint32_t fraction(double x)
{
    return (uint32_t)((x - floor(x)) * 4294967296.0);
}

static void make_constants(uint32_t state[8], uint32_t k[64])
{
    int n = 0;
    for (int p = 2; n < 64; p++) {
        int d = 2;
        while (d * d <= p && p % d)
            d++;
        if (d * d <= p)
            continue;
        if (n < 8)
            state[n] = fraction(sqrt(p));
        k[n++] = fraction(cbrt(p));
    }
}

static void compress(uint32_t state[8], const uint32_t k[64], const uint8_t block[64])
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t t = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                     ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
        uint32_t u = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void test_sha256(const void *bytes, size_t size, char hex[65])
{
    uint32_t state[8], k[64];
    make_constants(state, k);
    const uint8_t *p = bytes;
    size_t left = size;
    for (; left >= 64; left -= 64, p += 64)
        compress(state, k, p);
    uint8_t tail[128] = {0};
    if (left)
        memcpy(tail, p, left);
    tail[left] = 0x80;
    size_t end = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        tail[end - 1 - (size_t)i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    compress(state, k, tail);
    if (end == 128)
        compress(state, k, tail + 64);
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)state[i]);
}
