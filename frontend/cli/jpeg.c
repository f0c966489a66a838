/* JPEG by libjpeg-turbo, with its defaults (accurate integer DCT, triangle chroma upsampling), from memory.
 * The library reports through callbacks; a fatal one jumps back to decode. */
#include "check.h"
#include "image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const struct cli_limits *limits;
    struct cli_error *error;
    const char *name;
    uint8_t *row;       /* one row of CMYK */
    int truncated, scans_exceeded;
};

static void on_error(j_common_ptr jpeg)
{
    struct decoder *d = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    if (d->scans_exceeded)
        cli_fail(d->error, CLI_LIMIT, "%s: more than %llu progressive scans" CLI_RAISE("jpeg-scans"), d->name,
                 (unsigned long long)d->limits->scans);
    else if (d->truncated)
        cli_fail(d->error, CLI_IMAGE, "%s: truncated JPEG: the file ends before the picture does", d->name);
    else if (jpeg->err->msg_code == JERR_NO_BACKING_STORE)
        cli_fail(d->error, CLI_LIMIT, "%s: a progressive JPEG that needs more than %llu bytes" CLI_RAISE("jpeg-bytes"),
                 d->name, (unsigned long long)d->limits->jpeg_bytes);
    else if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY)
        cli_fail(d->error, CLI_MEMORY, "%s: out of memory", d->name);
    else
        cli_fail(d->error, CLI_IMAGE, "%s: damaged JPEG: %s", d->name, text);
    longjmp(d->back, 1);
}

/* Level -1 is a warning: data that was skipped or made up. Running out of data is final while rows are
 * lacking. */
static void on_message(j_common_ptr jpeg, int level)
{
    struct decoder *d = jpeg->client_data;
    if (level >= 0)
        return;
    jpeg->err->num_warnings++;
    if (jpeg->err->msg_code == JWRN_JPEG_EOF)
        d->truncated = 1;
    if (!CLI_HOLDS(JPEG_END, !d->truncated || d->jpeg.output_scanline >= d->jpeg.output_height))
        on_error(jpeg);
}

static void on_output(j_common_ptr jpeg)
{
    (void)jpeg;
}

/* A file of 80,000 tiny scans costs a full pass over the coefficients each. */
static void on_progress(j_common_ptr jpeg)
{
    struct decoder *d = jpeg->client_data;
    if (CLI_HOLDS(JPEG_SCANS, (uint64_t)d->jpeg.input_scan_number <= d->limits->scans))
        return;
    d->scans_exceeded = 1;
    on_error(jpeg);
}

static int exif_of(const struct jpeg_decompress_struct *jpeg)
{
    static const char head[6] = "Exif\0";
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next) {
        if (m->marker == JPEG_APP0 + 1 && m->data_length > sizeof head &&
            memcmp(m->data, head, sizeof head) == 0)
            return cli_exif_orientation(m->data + sizeof head, m->data_length - sizeof head);
    }
    return 1;
}

/* Four-component files hold inverted inks, as Adobe writes them: 255 is no ink. The arithmetic, with its
 * shift in place of a division by 255, is that of OpenCV's imread. */
static void rgb_of_cmyk(uint8_t *rgb, const uint8_t *cmyk, int width)
{
    for (int x = 0; x < width; x++, rgb += 3, cmyk += 4) {
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(cmyk[3] - ((255 - cmyk[c]) * cmyk[3] >> 8));
    }
}

static void read_rows(struct decoder *d, struct cli_image *out)
{
    size_t pitch = (size_t)out->width * 3;
    while (d->jpeg.output_scanline < d->jpeg.output_height) {
        uint8_t *rgb = out->rgb + d->jpeg.output_scanline * pitch;
        JSAMPROW row = d->row ? d->row : rgb;
        jpeg_read_scanlines(&d->jpeg, &row, 1);
        if (d->row)
            rgb_of_cmyk(rgb, d->row, out->width);
    }
}

static int start(struct decoder *d, struct cli_image *out, int *orientation)
{
    jpeg_read_header(&d->jpeg, TRUE);
    *orientation = exif_of(&d->jpeg);
    if (cli_image_alloc_within(out, d->name, d->jpeg.image_width, d->jpeg.image_height, d->limits, d->error) != 0)
        return -1;
    int inks = d->jpeg.num_components == 4;
    d->jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    if (inks && !(d->row = malloc((size_t)out->width * 4)))
        return cli_fail(d->error, CLI_MEMORY, "%s: out of memory", d->name);
    jpeg_start_decompress(&d->jpeg);
    return 0;
}

/* The one frame that a longjmp returns to; it owns nothing itself, so nothing of it can be clobbered. */
static int decode(struct decoder *d, struct cli_image *out, int *orientation, const uint8_t *bytes,
                  size_t size)
{
    if (setjmp(d->back))
        return -1;
    jpeg_create_decompress(&d->jpeg);
    d->jpeg.mem->max_memory_to_use = (long)d->limits->jpeg_bytes;
    d->jpeg.progress = &d->progress;
    jpeg_mem_src(&d->jpeg, bytes, (unsigned long)size);
    jpeg_save_markers(&d->jpeg, JPEG_APP0 + 1, 0xffff);
    if (start(d, out, orientation) != 0)
        return -1;
    read_rows(d, out);
    jpeg_finish_decompress(&d->jpeg);
    out->damaged = d->errors.num_warnings > 0;
    return 0;
}

int cli_jpeg_decode(struct cli_image *out, int *orientation, const char *name, const uint8_t *bytes,
                    size_t size, const struct cli_limits *l, struct cli_error *e)
{
    struct decoder d = {.limits = l, .error = e, .name = name};
    d.jpeg.err = jpeg_std_error(&d.errors);
    d.errors.error_exit = on_error;
    d.errors.emit_message = on_message;
    d.errors.output_message = on_output;
    d.progress.progress_monitor = on_progress;
    d.jpeg.client_data = &d;
    int rc = decode(&d, out, orientation, bytes, size);
    jpeg_destroy_decompress(&d.jpeg);
    free(d.row);
    if (rc != 0)
        cli_image_free(out);
    return rc;
}
