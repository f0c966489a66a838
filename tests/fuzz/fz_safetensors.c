/* Safetensors. An input that starts with a brace is the text of a header, up to a zero byte, and the data behind it: the
 * count of bytes in front and the alignment are put right. Any other input is a file as it stands. */
#include <stdlib.h>
#include <string.h>

#include "fz_weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size || data[0] != '{') {
        fuzz_weights(data, size);
        return 0;
    }
    size_t text = strnlen((const char *)data, size), padded = (text + 7) / 8 * 8;
    size_t rest = text < size ? size - text - 1 : 0;
    uint8_t *file = malloc(8 + padded + rest);
    if (!file) return 0;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)padded >> (8 * i));
    memset(file + 8, ' ', padded);
    memcpy(file + 8, data, text);
    if (rest) memcpy(file + 8 + padded, data + text + 1, rest);
    fuzz_weights(file, 8 + padded + rest);
    free(file);
    return 0;
}
