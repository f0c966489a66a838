/* Pictures of the command: decoded to dense 8-bit RGB, rows top to bottom, upright. */
#ifndef CLI_IMAGE_H
#define CLI_IMAGE_H

#include "limits.h"

#include <stddef.h>
#include <stdint.h>

struct cli_image {
    uint8_t *rgb;       /* 3 * width * height bytes, malloc'd */
    int width, height;
    int damaged; /* the decoder skipped bytes that it could not use; the picture may be wrong in places */
};

/* JPEG or PNG, by content. `name` is for the error text. */
int cli_image_load_within(struct cli_image *out, const char *path, const struct cli_limits *l, struct cli_error *e);
int cli_image_decode_within(struct cli_image *out, const char *name, const uint8_t *bytes, size_t size,
                            const struct cli_limits *l, struct cli_error *e);
/* Within the default limits. */
int cli_image_load(struct cli_image *out, const char *path, struct cli_error *e);
int cli_image_decode(struct cli_image *out, const char *name, const uint8_t *bytes, size_t size,
                     struct cli_error *e);
void cli_image_free(struct cli_image *im);

/* Allocates rgb after checking the limits; contents are undefined. */
int cli_image_alloc_within(struct cli_image *out, const char *name, uint64_t width, uint64_t height,
                           const struct cli_limits *l, struct cli_error *e);
int cli_image_alloc(struct cli_image *out, const char *name, uint64_t width, uint64_t height,
                    struct cli_error *e);

/* Whole or not at all. */
int cli_image_save_png(const struct cli_image *im, const char *path, struct cli_error *e);

/* What a file that is no picture looks like by its first bytes: "an HTML page", "an empty file", ... */
const char *cli_file_kind(const uint8_t *bytes, size_t size);

/* jpeg.c, png.c: pixels as stored; *orientation gets the EXIF value, 1 when there is none. */
int cli_jpeg_decode(struct cli_image *out, int *orientation, const char *name, const uint8_t *bytes,
                    size_t size, const struct cli_limits *l, struct cli_error *e);
int cli_png_decode(struct cli_image *out, int *orientation, const char *name, const uint8_t *bytes,
                   size_t size, const struct cli_limits *l, struct cli_error *e);

/* exif.c: the Orientation tag (1..8) of a TIFF block as EXIF holds it; 1 when absent, out of range or broken.
 */
int cli_exif_orientation(const uint8_t *tiff, size_t size);

/* Turns stored pixels upright, in place or into a new buffer. */
int cli_image_orient(struct cli_image *im, int orientation, const char *name, const struct cli_limits *l,
                     struct cli_error *e);

#endif
