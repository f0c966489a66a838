/* EXIF is a TIFF block: byte order, then directories of 12-byte entries {tag, type, count, value}.
 * Orientation is a SHORT in the first directory. Everything is read through bounds-checked accessors. */
#include "check.h"
#include "image.h"

#include <string.h>

#define TAG_ORIENTATION 0x0112
#define TYPE_SHORT 3

struct tiff {
    const uint8_t *p;
    size_t size;
    int big;
};

static int get16(const struct tiff *t, size_t at, unsigned *out)
{
    if (!CLI_HOLDS(EXIF_INSIDE, at <= t->size && t->size - at >= 2))
        return -1;
    const uint8_t *p = t->p + at;
    *out = t->big ? (unsigned)(p[0] << 8 | p[1]) : (unsigned)(p[1] << 8 | p[0]);
    return 0;
}

static int get32(const struct tiff *t, size_t at, uint32_t *out)
{
    unsigned a, b;
    if (get16(t, at, &a) != 0 || get16(t, at + 2, &b) != 0)
        return -1;
    *out = t->big ? (uint32_t)a << 16 | b : (uint32_t)b << 16 | a;
    return 0;
}

static int find_orientation(const struct tiff *t)
{
    unsigned magic, entries, tag, type, value;
    uint32_t dir, count;
    if (get16(t, 2, &magic) != 0 || !CLI_HOLDS(EXIF_MAGIC, magic == 42) || get32(t, 4, &dir) != 0 || get16(t, dir, &entries) != 0)
        return 1;
    for (size_t i = 0; i < entries; i++) {
        size_t at = (size_t)dir + 2 + 12 * i;
        if (get16(t, at, &tag) != 0)
            return 1;
        if (tag != TAG_ORIENTATION)
            continue;
        if (get16(t, at + 2, &type) != 0 || get32(t, at + 4, &count) != 0 || get16(t, at + 8, &value) != 0)
            return 1;
        int kept = CLI_HOLDS(EXIF_TYPE, type == TYPE_SHORT) && CLI_HOLDS(EXIF_COUNT, count == 1) &&
                   CLI_HOLDS(EXIF_VALUE, value >= 1 && value <= 8);
        return kept ? (int)value : 1;
    }
    return 1;
}

int cli_exif_orientation(const uint8_t *tiff, size_t size)
{
    if (size < 8 || !CLI_HOLDS(EXIF_ORDER, memcmp(tiff, "II", 2) == 0 || memcmp(tiff, "MM", 2) == 0))
        return 1;
    struct tiff t = {tiff, size, tiff[0] == 'M'};
    return find_orientation(&t);
}

/* Where stored pixel (x, y) goes, as three bits: transpose first (x and y change places), then mirror
 * columns, then mirror rows. EXIF: 2 mirrored, 3 half turn, 4 flipped, 5 transposed, 6 needs a clockwise
 * quarter turn, 7 transverse, 8 needs a counter-clockwise one. */
enum { SWAP = 1, MIRROR = 2, FLIP = 4 };
static const uint8_t turn_of[9] = {
    0, 0, MIRROR, MIRROR | FLIP, FLIP, SWAP, SWAP | MIRROR, SWAP | MIRROR | FLIP, SWAP | FLIP};

static void turn(struct cli_image *dst, const struct cli_image *src, int how)
{
    const uint8_t *s = src->rgb;
    for (int y = 0; y < src->height; y++) {
        for (int x = 0; x < src->width; x++, s += 3) {
            int u = how & SWAP ? y : x, v = how & SWAP ? x : y;
            u = how & MIRROR ? dst->width - 1 - u : u;
            v = how & FLIP ? dst->height - 1 - v : v;
            memcpy(dst->rgb + ((size_t)v * (size_t)dst->width + (size_t)u) * 3, s, 3);
        }
    }
}

int cli_image_orient(struct cli_image *im, int orientation, const char *name, const struct cli_limits *l,
                     struct cli_error *e)
{
    int how = orientation >= 1 && orientation <= 8 ? turn_of[orientation] : 0;
    if (how == 0)
        return 0;
    int w = how & SWAP ? im->height : im->width, h = how & SWAP ? im->width : im->height;
    struct cli_image out;
    if (cli_image_alloc_within(&out, name, (uint64_t)w, (uint64_t)h, l, e) != 0)
        return -1;
    turn(&out, im, how);
    out.damaged = im->damaged;
    cli_image_free(im);
    *im = out;
    return 0;
}
