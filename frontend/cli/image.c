#include "image.h"

#include "check.h"
#include "fileio.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What users pass by mistake, by leading bytes. */
static const struct magic {
    uint8_t at, len;
    const char *bytes, *kind;
} magics[] = {
    {0, 6, "GIF87a", "a GIF picture"},
    {0, 6, "GIF89a", "a GIF picture"},
    {8, 4, "WEBP", "a WebP picture"},
    {4, 8, "ftypheic", "a HEIC picture"},
    {4, 8, "ftypheix", "a HEIC picture"},
    {4, 8, "ftypmif1", "a HEIF picture"},
    {4, 8, "ftypavif", "an AVIF picture"},
    {4, 4, "ftyp", "a video"},
    {8, 4, "AVI ", "a video"},
    {0, 4, "\x1a\x45\xdf\xa3", "a video"},
    {0, 4, "II*\0", "a TIFF picture"},
    {0, 4, "MM\0*", "a TIFF picture"},
    {0, 2, "BM", "a BMP picture"},
    {0, 4, "%PDF", "a PDF document"},
    {0, 8, "YOLOCMOD", "a compiled module"},
    {0, 4, "PK\x03\x04", "a zip archive, as PyTorch checkpoints are"},
    {0, 2, "\x1f\x8b", "a gzip archive"},
    {8, 2, "{\"", "a safetensors file"},
    {0, 4, "\x7f" "ELF", "a program"},
    {0, 1, "{", "JSON"},
};

static int looks_like_html(const uint8_t *p, size_t n)
{
    static const char *const heads[] = {"<!doctype", "<html", "<head", "<body", "<?xml", "<svg"};
    while (n &&
           (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n' || *p == 0xef || *p == 0xbb || *p == 0xbf))
        p++, n--;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        size_t len = strlen(heads[i]);
        if (n >= len && strncasecmp((const char *)p, heads[i], len) == 0)
            return 1;
    }
    return 0;
}

static int looks_like_text(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n && i < 512; i++) {
        if (p[i] < 32 && p[i] != '\t' && p[i] != '\n' && p[i] != '\r')
            return 0;
    }
    return 1;
}

static int all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n && i < 4096; i++) {
        if (p[i])
            return 0;
    }
    return 1;
}

const char *cli_file_kind(const uint8_t *bytes, size_t size)
{
    if (size == 0)
        return "an empty file";
    if (looks_like_html(bytes, size))
        return "an HTML or XML page, perhaps an error page saved under this name";
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const struct magic *m = &magics[i];
        if (size >= (size_t)m->at + m->len && memcmp(bytes + m->at, m->bytes, m->len) == 0)
            return m->kind;
    }
    if (looks_like_text(bytes, size))
        return "text";
    return all_zero(bytes, size) ? "a file of zero bytes" : "something else";
}

int cli_image_alloc_within(struct cli_image *out, const char *name, uint64_t width, uint64_t height,
                           const struct cli_limits *l, struct cli_error *e)
{
    if (!CLI_HOLDS(IMG_EMPTY, width != 0 && height != 0))
        return cli_fail(e, CLI_IMAGE, "%s: the picture has no pixels", name);
    if (!CLI_HOLDS(IMG_SIDES, width <= l->side && height <= l->side) ||
        !CLI_HOLDS(IMG_PIXELS, width * height <= l->pixels))
        return cli_fail(e, CLI_LIMIT,
                        "%s: %llu x %llu pixels; the limits are %llu a side and %llu in all "
                        "(--limit picture-side=N, picture-pixels=N)",
                        name, (unsigned long long)width, (unsigned long long)height,
                        (unsigned long long)l->side, (unsigned long long)l->pixels);
    *out = (struct cli_image){malloc((size_t)(width * height * 3)), (int)width, (int)height, 0};
    if (!out->rgb)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory for %d x %d pixels", name, out->width, out->height);
    return 0;
}

int cli_image_alloc(struct cli_image *out, const char *name, uint64_t width, uint64_t height,
                    struct cli_error *e)
{
    struct cli_limits l;
    return cli_limits_read(&l, NULL, e) == 0 ? cli_image_alloc_within(out, name, width, height, &l, e) : -1;
}

void cli_image_free(struct cli_image *im)
{
    free(im->rgb);
    *im = (struct cli_image){0};
}

int cli_image_decode_within(struct cli_image *out, const char *name, const uint8_t *bytes, size_t size,
                            const struct cli_limits *l, struct cli_error *e)
{
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    int orientation = 1, rc;
    *out = (struct cli_image){0};
    if (size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff)
        rc = cli_jpeg_decode(out, &orientation, name, bytes, size, l, e);
    else if (size >= sizeof png && memcmp(bytes, png, sizeof png) == 0)
        rc = cli_png_decode(out, &orientation, name, bytes, size, l, e);
    else
        rc = cli_fail(e, CLI_IMAGE, "%s: not a JPEG or PNG picture; it looks like %s", name,
                      cli_file_kind(bytes, size));
    if (rc == 0)
        rc = cli_image_orient(out, orientation, name, l, e);
    if (rc != 0)
        cli_image_free(out);
    return rc;
}

int cli_image_load_within(struct cli_image *out, const char *path, const struct cli_limits *l, struct cli_error *e)
{
    uint8_t *bytes;
    size_t size;
    *out = (struct cli_image){0};
    if (cli_file_read(path, (size_t)l->picture_bytes, &bytes, &size, e) != 0)
        return -1;
    int rc = cli_image_decode_within(out, path, bytes, size, l, e);
    free(bytes);
    return rc;
}

int cli_image_load(struct cli_image *out, const char *path, struct cli_error *e)
{
    struct cli_limits l;
    return cli_limits_read(&l, NULL, e) == 0 ? cli_image_load_within(out, path, &l, e) : -1;
}

int cli_image_decode(struct cli_image *out, const char *name, const uint8_t *bytes, size_t size,
                     struct cli_error *e)
{
    struct cli_limits l;
    return cli_limits_read(&l, NULL, e) == 0 ? cli_image_decode_within(out, name, bytes, size, &l, e) : -1;
}
