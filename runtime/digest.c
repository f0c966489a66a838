#include "cpufeature.h"
#include "digest.h"

static int digest_plain(const uint8_t *bytes, size_t size, size_t at, const struct rt_coming *coming, uint8_t out[RT_DIGEST]);

#define NAME digest_plain
#include "digest_body.h"

int rt_digest(const uint8_t *bytes, size_t size, size_t at, const struct rt_coming *coming, uint8_t out[RT_DIGEST])
{
#ifdef RT_DIGEST_AVX2
    if (rt_cpu_has("avx2")) return rt_digest_avx2(bytes, size, at, coming, out);
#endif
    return digest_plain(bytes, size, at, coming, out);
}
