/* PyTorch files. An input that starts with a zero byte is the pickles of a legacy file behind its fixed head, so that the
 * pickle machine is reached without a zip archive around it; any other is a file as it stands. */
#include <stdlib.h>
#include <string.h>

#include "fz_weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Magic number, protocol 1001, and system information {protocol_version, little_endian, type_sizes}. */
static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                           "\x80\x02M\xe9\x03."
                           "\x80\x02}("
                           "X\x10\0\0\0protocol_versionM\xe9\x03"
                           "X\x0d\0\0\0little_endian\x88"
                           "X\x0a\0\0\0type_sizes}u.";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || data[0]) {
        fuzz_weights(data, size);
        return 0;
    }
    size_t n = sizeof head - 1;
    char *file = malloc(n + size);
    if (!file) return 0;
    memcpy(file, head, n);
    memcpy(file + n, data + 1, size - 1);
    fuzz_weights(file, n + size - 1);
    free(file);
    return 0;
}
