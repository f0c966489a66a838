/* Safetensors files (and whatever else the reader takes for a weights file). */
#include "fz_weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_weights(data, size);
    return 0;
}
