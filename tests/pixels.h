/* Pictures of every kind that the runtime takes, from a file, for programs that try them on a device. */
#ifndef TEST_PIXELS_H
#define TEST_PIXELS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/yolort.h"

enum { PIXELS_KINDS = 4 };

/* A PPM file as each kind, by yolort_pixels, never freed. 0, or -1 after a line on stderr. NV12 has green as luma and the others as chroma,
 * in rows that are not dense. */
int pixels_load(yolort_picture to[PIXELS_KINDS], const char *path);

size_t pixels_luma_bytes(const yolort_picture *p);
size_t pixels_chroma_bytes(const yolort_picture *p);

/* As dense RGB, by hand; free(). NULL without memory. */
uint8_t *pixels_rgb(const yolort_picture *p);

#endif
