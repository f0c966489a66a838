#include "cpufeature.h"
#include "digest.h"

static void digest_plain(const uint8_t *bytes, size_t size, size_t at, uint8_t out[RT_DIGEST]);

#define NAME digest_plain
#include "digest_body.h"

void rt_digest(const uint8_t *bytes, size_t size, size_t at, uint8_t out[RT_DIGEST])
{
#ifdef RT_DIGEST_AVX2
    if (rt_cpu_has("avx2")) {
        rt_digest_avx2(bytes, size, at, out);
        return;
    }
#endif
    digest_plain(bytes, size, at, out);
}
