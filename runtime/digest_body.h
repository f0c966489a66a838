/* The function NAME of digest.h, for whatever vectors this file is compiled with. */
#include "digest.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int NAME(const uint8_t *bytes, size_t size, size_t at, const struct rt_coming *coming, uint8_t out[RT_DIGEST])
{
    static const uint8_t zero[RT_DIGEST];
    size_t done = at + sizeof zero, have = coming ? coming->more(coming->user, 0) : size;
    if (have < done) return -1;
    XXH3_state_t state;
    XXH128_canonical_t found;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, bytes, at);
    XXH3_128bits_update(&state, zero, sizeof zero);
    for (;;) {
        XXH3_128bits_update(&state, bytes + done, have - done);
        done = have;
        if (done == size) break;
        have = coming->more(coming->user, done);
        if (have <= done) return -1;
    }
    XXH128_canonicalFromHash(&found, XXH3_128bits_digest(&state));
    memcpy(out, found.digest, sizeof found.digest);
    return 0;
}
