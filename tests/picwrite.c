#include "picwrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "msan.h"

uint8_t picwrite_shade(int x, int y, int c)
{
    return (uint8_t)(20 + 11 * x + (c == 1 ? 9 : 3) * y + 40 * c);
}

/* One entry: Orientation, SHORT, count 1. */
size_t picwrite_exif(uint8_t *out, int orientation, int big)
{
    static const uint8_t little[26] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0};
    static const uint8_t large[26] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1};
    memcpy(out, big ? large : little, 26);
    out[big ? 19 : 18] = (uint8_t)orientation;
    return 26;
}

struct picwrite picwrite_jpeg(int components, int space, int orientation, int progressive)
{
    struct jpeg_compress_struct j;
    struct jpeg_error_mgr errors;
    uint8_t *out = NULL, row[PICWRITE_W * 4], marker[64] = "Exif\0";
    unsigned long n = 0;
    j.err = jpeg_std_error(&errors);
    jpeg_create_compress(&j);
    jpeg_mem_dest(&j, &out, &n);
    j.image_width = PICWRITE_W;
    j.image_height = PICWRITE_H;
    j.input_components = components;
    j.in_color_space = (J_COLOR_SPACE)space;
    jpeg_set_defaults(&j);
    jpeg_set_quality(&j, 95, TRUE);
    if (progressive)
        jpeg_simple_progression(&j);
    jpeg_start_compress(&j, TRUE);
    if (orientation)
        jpeg_write_marker(&j, JPEG_APP0 + 1, marker,
                          6 + (unsigned)picwrite_exif(marker + 6, orientation, orientation % 2));
    for (int y = 0; y < PICWRITE_H; y++) {
        JSAMPROW rows[1] = {row};
        for (int i = 0; i < PICWRITE_W * components; i++)
            row[i] = picwrite_shade(i / components, y, i % components);
        jpeg_write_scanlines(&j, rows, 1);
    }
    jpeg_finish_compress(&j);
    jpeg_destroy_compress(&j);
    test_written(out, n);
    return (struct picwrite){out, n};
}

static void append(png_structp png, png_bytep p, size_t n)
{
    struct picwrite *b = png_get_io_ptr(png);
    b->p = realloc(b->p, b->n + n);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

struct picwrite picwrite_png(int colour, int bits, int interlaced, int orientation)
{
    struct picwrite b = {NULL, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[16];
    uint8_t rows[PICWRITE_H][PICWRITE_W * 8], exif[26];
    png_bytep row[PICWRITE_H];
    for (int y = 0; y < PICWRITE_H; y++) {
        row[y] = rows[y];
        for (int i = 0; i < PICWRITE_W * 8; i++)
            rows[y][i] = (uint8_t)(7 * i + 31 * y);
    }
    for (int i = 0; i < 16; i++)
        palette[i] = (png_color){(uint8_t)(i * 16), (uint8_t)(255 - i), (uint8_t)(i * i)};
    png_set_write_fn(png, &b, append, NULL);
    png_set_IHDR(png, info, PICWRITE_W, PICWRITE_H, bits, colour, interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 16);
    if (orientation)
        png_set_eXIf_1(png, info, (png_uint_32)picwrite_exif(exif, orientation, 1), exif);
    png_write_info(png, info);
    png_write_image(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    test_written(b.p, b.n);
    return b;
}
