/* PNG by libpng: to 8-bit RGB as OpenCV's imread makes it (high byte of 16, alpha dropped, no gamma), and
 * back. */
#include "check.h"
#include "fileio.h"
#include "image.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

struct reader {
    png_structp png;
    png_infop info;
    png_bytep *rows;
    const uint8_t *bytes;
    size_t size, at;
    const char *name;
    const struct cli_limits *limits;
    struct cli_error *error;
};

#define TRUNCATED "%s: truncated PNG: the file ends before the picture does"

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read_error(png_structp png, png_const_charp text)
{
    struct reader *r = png_get_error_ptr(png);
    if (strstr(text, "limit"))
        cli_fail(r->error, CLI_LIMIT, "%s: PNG exceeds a limit: %s (--limit png-chunks=N, png-chunk-bytes=N)", r->name,
                 text);
    else if (r->at > r->size)
        cli_fail(r->error, CLI_IMAGE, TRUNCATED, r->name);
    else
        cli_fail(r->error, CLI_IMAGE, "%s: damaged PNG: %s", r->name, text);
    png_longjmp(png, 1);
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (!CLI_HOLDS(PNG_END, n <= r->size - r->at)) {
        r->at = r->size + 1;
        png_error(png, "end of file");
    }
    memcpy(out, r->bytes + r->at, n);
    r->at += n;
}

/* libpng makes and clears room for a chunk before it knows that the file has as many bytes, and only warns of one beyond
 * its limit: a few bytes could cost 2 GiB. */
static int check_chunks(const struct reader *r)
{
    const uint64_t most = r->limits->chunks, most_bytes = r->limits->chunk_bytes;
    uint64_t others = 0;
    for (size_t at = 8; r->size - at >= 8 && memcmp(r->bytes + at + 4, "IEND", 4) != 0;) {
        const uint8_t *chunk = r->bytes + at;
        uint32_t len = png_get_uint_32(chunk);
        int picture = memcmp(chunk + 4, "IDAT", 4) == 0;
        others += !picture;
        if (!CLI_HOLDS(PNG_CHUNK_COUNT, others <= most))
            return cli_fail(r->error, CLI_LIMIT, "%s: more than %llu PNG chunks" CLI_RAISE("png-chunks"), r->name,
                            (unsigned long long)most);
        if (!CLI_HOLDS(PNG_CHUNK_BYTES, picture || len <= most_bytes))
            return cli_fail(r->error, CLI_LIMIT, "%s: a PNG chunk of %lu bytes, more than %llu" CLI_RAISE("png-chunk-bytes"),
                            r->name, (unsigned long)len, (unsigned long long)most_bytes);
        if (!CLI_HOLDS(PNG_CHUNK, len <= r->size - at - 8))
            return cli_fail(r->error, CLI_IMAGE, TRUNCATED, r->name);
        at += 8 + (size_t)len;
        at += r->size - at < 4 ? r->size - at : 4; /* checksum */
    }
    return 0;
}

static void set_transforms(png_structp png, int colour, int bits)
{
    if (bits == 16)
        png_set_strip_16(png);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (!(colour & PNG_COLOR_MASK_COLOR)) {
        if (bits < 8)
            png_set_expand_gray_1_2_4_to_8(png);
        png_set_gray_to_rgb(png);
    }
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
}

static int start(struct reader *r, struct cli_image *out)
{
    png_read_info(r->png, r->info);
    png_uint_32 w = png_get_image_width(r->png, r->info), h = png_get_image_height(r->png, r->info);
    if (cli_image_alloc_within(out, r->name, w, h, r->limits, r->error) != 0)
        return -1;
    set_transforms(r->png, png_get_color_type(r->png, r->info), png_get_bit_depth(r->png, r->info));
    png_read_update_info(r->png, r->info);
    if (png_get_rowbytes(r->png, r->info) != (size_t)w * 3)
        return cli_fail(r->error, CLI_IMAGE, "%s: PNG of an unknown pixel format", r->name);
    r->rows = malloc((size_t)h * sizeof *r->rows);
    if (!r->rows)
        return cli_fail(r->error, CLI_MEMORY, "%s: out of memory", r->name);
    for (png_uint_32 y = 0; y < h; y++)
        r->rows[y] = out->rgb + (size_t)y * w * 3;
    return 0;
}

static int exif_of(struct reader *r)
{
    png_uint_32 size = 0;
    png_bytep exif = NULL;
    if (!png_get_eXIf_1(r->png, r->info, &size, &exif) || !exif)
        return 1;
    return cli_exif_orientation(exif, size);
}

/* The one frame that a longjmp returns to; it owns nothing itself. */
static int decode(struct reader *r, struct cli_image *out, int *orientation)
{
    if (setjmp(png_jmpbuf(r->png)))
        return -1;
    png_set_read_fn(r->png, r, on_read);
    png_set_user_limits(r->png, 0x7fffffff, 0x7fffffff); /* sides are checked by cli_image_alloc */
    png_set_chunk_cache_max(r->png, (png_uint_32)r->limits->chunks);
    png_set_chunk_malloc_max(r->png, (png_alloc_size_t)r->limits->chunk_bytes);
    if (start(r, out) != 0)
        return -1;
    png_read_image(r->png, r->rows);
    png_read_end(r->png, r->info);
    *orientation = exif_of(r);
    return 0;
}

int cli_png_decode(struct cli_image *out, int *orientation, const char *name, const uint8_t *bytes,
                   size_t size, const struct cli_limits *l, struct cli_error *e)
{
    struct reader r = {.bytes = bytes, .size = size, .name = name, .limits = l, .error = e};
    r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_read_error, on_warning);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    int rc = r.info ? check_chunks(&r) : cli_fail(e, CLI_MEMORY, "%s: out of memory", name);
    if (rc == 0)
        rc = decode(&r, out, orientation);
    if (r.png)
        png_destroy_read_struct(&r.png, r.info ? &r.info : NULL, NULL);
    free(r.rows);
    if (rc != 0)
        cli_image_free(out);
    return rc;
}

struct writer {
    png_structp png;
    png_infop info;
    struct cli_output file;
    struct cli_error *error;
};

static void on_write_error(png_structp png, png_const_charp text)
{
    struct writer *w = png_get_error_ptr(png);
    cli_fail(w->error, CLI_WRITE, "%s: %s", w->file.path, text);
    png_longjmp(png, 1);
}

/* Level 3 and one filter: drawn photos are for looking at, and zlib's default takes three times as long for a
 * few percent of size. */
static int encode(struct writer *w, const struct cli_image *im)
{
    if (setjmp(png_jmpbuf(w->png)))
        return -1;
    png_init_io(w->png, w->file.stream);
    png_set_user_limits(w->png, 65535, 65535); /* what the runtime takes as a side */
    png_set_compression_level(w->png, 3);
    png_set_filter(w->png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB);
    png_set_IHDR(w->png, w->info, (png_uint_32)im->width, (png_uint_32)im->height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->png, w->info);
    for (int y = 0; y < im->height; y++)
        png_write_row(w->png, im->rgb + (size_t)y * (size_t)im->width * 3);
    png_write_end(w->png, NULL);
    return 0;
}

int cli_image_save_png(const struct cli_image *im, const char *path, struct cli_error *e)
{
    struct writer w = {.error = e};
    if (cli_output_open(&w.file, path, e) != 0)
        return -1;
    w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, on_write_error, on_warning);
    w.info = w.png ? png_create_info_struct(w.png) : NULL;
    int rc = w.info ? encode(&w, im) : cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
    if (w.png)
        png_destroy_write_struct(&w.png, w.info ? &w.info : NULL);
    if (rc == 0)
        return cli_output_commit(&w.file, e);
    cli_output_discard(&w.file);
    return rc;
}
