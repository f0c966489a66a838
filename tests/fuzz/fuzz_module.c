/* Module bytes under a valid digest: loading may refuse, never fail otherwise. Nothing is run. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/module.h"
#include "runtime/yolort.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void seal(uint8_t *file, size_t size)
{
    struct ym_header h;
    memcpy(&h, file, sizeof h);
    memcpy(h.magic, YM_MAGIC, sizeof h.magic);
    h.file_size = size;
    memset(h.digest, 0, sizeof h.digest);
    memcpy(file, &h, sizeof h);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(file, size));
    memcpy(file + offsetof(struct ym_header, digest), digest.digest, sizeof digest.digest);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *file = aligned_alloc(YM_ALIGN, (size + YM_ALIGN) / YM_ALIGN * YM_ALIGN);
    if (!file)
        return 0;
    memcpy(file, bytes, size);
    if (size >= sizeof(struct ym_header))
        seal(file, size);
    yolort_module *m = NULL;
    char error[128];
    if (yolort_load(&m, file, size, error, sizeof error) == YOLORT_OK)
        yolort_module_free(m);
    free(file);
    return 0;
}
