/* Pictures: JPEG and PNG. */
#include "frontend/cli/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cli_error e = {0};
    struct cli_image im = {0};
    if (cli_image_decode(&im, "fuzz", data, size, &e) == 0) {
        volatile uint8_t last = im.rgb[(size_t)im.width * (size_t)im.height * 3 - 1];
        (void)last;
        cli_image_free(&im);
    }
    return 0;
}
