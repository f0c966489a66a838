/* ppm PICTURE OUT: a picture as binary PPM, what docs/example_detect.c reads. */
#include <stdio.h>

#include "frontend/cli/image.h"

int main(int argc, char **argv)
{
    struct cli_error e = {0};
    struct cli_image im = {0};
    if (argc != 3 || cli_image_load(&im, argv[1], &e) < 0) {
        fprintf(stderr, "ppm: %s\n", argc == 3 ? e.text : "usage: ppm PICTURE OUT");
        return 1;
    }
    FILE *f = fopen(argv[2], "wb");
    size_t bytes = (size_t)im.width * (size_t)im.height * 3;
    int ok = f && fprintf(f, "P6 %d %d 255\n", im.width, im.height) > 0 && fwrite(im.rgb, 1, bytes, f) == bytes;
    if (f && fclose(f) != 0)
        ok = 0;
    cli_image_free(&im);
    return !ok;
}
