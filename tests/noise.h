/* Inputs for networks: noise, the same for each seed. */
#ifndef TEST_NOISE_H
#define TEST_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes, or numbers from 0 to 1. */
static inline void fill_noise(void *to, size_t bytes, bool floats, uint32_t seed)
{
    for (size_t i = 0; i < bytes / (floats ? sizeof(float) : 1); i++) {
        seed = seed * 1664525u + 1013904223u;
        float v = (float)(seed >> 8) / 16777216.0f;
        if (floats)
            memcpy((char *)to + i * sizeof v, &v, sizeof v);
        else
            ((uint8_t *)to)[i] = (uint8_t)(seed >> 24);
    }
}

#endif
