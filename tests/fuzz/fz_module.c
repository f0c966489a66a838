/* Module files. The input is a list of patches (offset, value) on a good module, sealed again, so that the checks behind the
 * digest are reached; or, when it starts like one, a module as it stands. Nothing of it is run. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "modbuild.h"
#include "runtime/module.h"
#include "runtime/yolort.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void seal(uint8_t *bytes, size_t size)
{
    XXH128_canonical_t digest;
    if (size < sizeof(struct ym_header)) return;
    memset(bytes + offsetof(struct ym_header, digest), 0, sizeof digest);
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, size));
    memcpy(bytes + offsetof(struct ym_header, digest), &digest, sizeof digest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct modbuild b;
    size_t n;
    yolort_module *m = NULL;
    if (size >= 8 && !memcmp(data, YM_MAGIC, 8)) {
        if (yolort_load(&m, data, size, NULL, 0) == YOLORT_OK) yolort_module_free(m);
        return 0;
    }
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &n);
    for (size_t i = 0; i + 3 <= size; i += 3) bytes[(data[i] | (size_t)data[i + 1] << 8) % n] = data[i + 2];
    seal(bytes, n);
    if (yolort_load(&m, bytes, n, NULL, 0) == YOLORT_OK) {
        for (size_t i = 0; i < yolort_io_count(m); i++) (void)strlen(yolort_io_at(m, i)->name);
        yolort_module_free(m);
    }
    free(bytes);
    return 0;
}
