/* Pictures: JPEG and PNG, of at most 65536 pixels so that a run is short. */
#include "frontend/cli/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli_error e = {0};
    struct cli_limits l;
    struct cli_image im = {0};
    if (cli_limits_read(&l, NULL, &e)) __builtin_trap();
    l.pixels = 1 << 16;
    l.jpeg_bytes = 1 << 20;
    if (cli_image_decode_within(&im, "fuzz", data, size, &l, &e) == 0) {
        volatile uint8_t last = im.rgb[(size_t)im.width * (size_t)im.height * 3 - 1];
        (void)last;
        cli_image_free(&im);
    }
    return 0;
}
