/* Stored pictures as RGB bytes, by libpng and libjpeg alone: independent of the command's own decoder. */
#ifndef TEST_PICTURE_H
#define TEST_PICTURE_H

#include <stdint.h>

struct test_picture {
    int width, height;
    uint8_t *rgb; /* dense rows; free() */
};

/* PNG or JPEG (by the name's end) below the data folder; 0, or -1 after a line on stderr. */
int test_picture_read(struct test_picture *p, const char *name);

#endif
