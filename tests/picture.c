#include "picture.h"

#include "datafile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

static int read_png(struct test_picture *p, const char *path)
{
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!png_image_begin_read_from_file(&image, path)) return -1;
    image.format = PNG_FORMAT_RGB;
    p->width = (int)image.width;
    p->height = (int)image.height;
    p->rgb = malloc(PNG_IMAGE_SIZE(image));
    if (p->rgb && png_image_finish_read(&image, NULL, p->rgb, 0, NULL)) return 0;
    png_image_free(&image);
    return -1;
}

/* Default settings are the ones of the stored results. An error of libjpeg ends the program. */
static int read_jpeg(struct test_picture *p, const char *path)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr err;
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    d.err = jpeg_std_error(&err);
    jpeg_create_decompress(&d);
    jpeg_stdio_src(&d, f);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    p->width = (int)d.output_width;
    p->height = (int)d.output_height;
    p->rgb = malloc((size_t)p->width * (size_t)p->height * 3);
    while (p->rgb && d.output_scanline < d.output_height) {
        uint8_t *row = p->rgb + (size_t)d.output_scanline * (size_t)p->width * 3;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_destroy_decompress(&d);
    fclose(f);
    return p->rgb ? 0 : -1;
}

int test_picture_read(struct test_picture *p, const char *name)
{
    char path[1024];
    size_t n = strlen(name);
    memset(p, 0, sizeof *p);
    test_data_path(path, sizeof path, name);
    int png = n > 4 && !strcmp(name + n - 4, ".png");
    if (!(png ? read_png(p, path) : read_jpeg(p, path))) return 0;
    fprintf(stderr, "%s: cannot be read\n", path);
    free(p->rgb);
    p->rgb = NULL;
    return -1;
}
