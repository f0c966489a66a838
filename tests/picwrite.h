/* Small pictures of every kind, written by libjpeg and libpng for tests of decoders. */
#ifndef TEST_PICWRITE_H
#define TEST_PICWRITE_H

#include <stddef.h>
#include <stdint.h>

enum { PICWRITE_W = 19, PICWRITE_H = 11 };

struct picwrite {
    uint8_t *p; /* free() */
    size_t n;
};

/* Sample c of a pixel of the JPEG pictures. */
uint8_t picwrite_shade(int x, int y, int c);

/* An EXIF block of one entry, Orientation; 26 bytes, which are returned. */
size_t picwrite_exif(uint8_t *out, int orientation, int big);

/* space: J_COLOR_SPACE. orientation 0: no EXIF block. */
struct picwrite picwrite_jpeg(int components, int space, int orientation, int progressive);

/* colour: PNG_COLOR_TYPE_*. Byte i of row y is 7 * i + 31 * y; a palette has 16 entries. */
struct picwrite picwrite_png(int colour, int bits, int interlaced, int orientation);

#endif
