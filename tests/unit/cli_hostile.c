/* Pictures made to hurt: each is refused, or decoded, within 200 ms and without much memory. */
#include "frontend/cli/image.h"
#include "picwrite.h"
#include "ptwrite.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <jpeglib.h>
#include <png.h>

#if defined(__SANITIZE_ADDRESS__) || defined(YOLOC_SLOW)
enum { SLOWER = 10 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || __has_feature(thread_sanitizer)
enum { SLOWER = 10 };
#else
enum { SLOWER = 1 };
#endif
#else
enum { SLOWER = 1 };
#endif
enum { MOST_MS = 200, MOST_KIB = 64 << 10 };

static long peak(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* Decodes and frees p; the number of the error, 0 when it was accepted. */
static int decode(struct picwrite p, const char *what)
{
    struct cli_image im;
    struct cli_error e = {.number = 0};
    long before = peak();
    clock_t start = clock();
    int rc = cli_image_decode(&im, "made", p.p, p.n, &e);
    double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_expect_leq(ms, MOST_MS * SLOWER, "%s: %g ms", what, ms);
    cr_expect_leq(peak() - before, MOST_KIB * SLOWER, "%s: %ld KiB", what, peak() - before);
    if (rc != 0)
        cr_expect(im.rgb == NULL && strncmp(e.text, "made: ", 6) == 0, "%s: %s", what, e.text);
    cli_image_free(&im);
    free(p.p);
    return rc == 0 ? 0 : e.number;
}

/* --- PNG, chunk by chunk --- */

static void put32(uint8_t *p, uint32_t v)
{
    png_save_uint_32(p, v);
}

static void add_bytes(struct picwrite *p, const void *bytes, size_t n)
{
    p->p = realloc(p->p, p->n + n);
    memcpy(p->p + p->n, bytes, n);
    p->n += n;
}

static void add_chunk(struct picwrite *p, const char *type, const void *bytes, uint32_t n)
{
    uint8_t *c = malloc(n + 12);
    put32(c, n);
    memcpy(c + 4, type, 4);
    if (n)
        memcpy(c + 8, bytes, n);
    put32(c + 8 + n, ptwrite_crc(c + 4, n + 4));
    add_bytes(p, c, n + 12);
    free(c);
}

static struct picwrite png_header(uint32_t width, uint32_t height, int bits, int colour)
{
    struct picwrite p = {NULL, 0};
    uint8_t h[13] = {0};
    put32(h, width);
    put32(h + 4, height);
    h[8] = (uint8_t)bits;
    h[9] = (uint8_t)colour;
    add_bytes(&p, "\x89PNG\r\n\x1a\n", 8);
    add_chunk(&p, "IHDR", h, 13);
    return p;
}

/* The chunk of `from` named `type` gets other bytes. */
static struct picwrite with_chunk(struct picwrite from, const char *type, const void *bytes, uint32_t n)
{
    struct picwrite p = {NULL, 0};
    add_bytes(&p, from.p, 8);
    for (size_t at = 8; at < from.n;) {
        uint32_t len = png_get_uint_32(from.p + at);
        if (memcmp(from.p + at + 4, type, 4) == 0)
            add_chunk(&p, type, bytes, n);
        else
            add_bytes(&p, from.p + at, len + 12);
        at += len + 12;
    }
    free(from.p);
    return p;
}

Test(cli_hostile, sizes)
{
    static const struct {
        uint32_t width, height;
        int number;
    } cases[] = {{65535, 65535, CLI_LIMIT}, {65536, 1, CLI_LIMIT}, {1, 65536, CLI_LIMIT}, {16385, 16384, CLI_LIMIT},
                 {0x7fffffff, 0x7fffffff, CLI_LIMIT}, {0, 1, CLI_IMAGE}, {1, 0, CLI_IMAGE}, {0x80000000, 1, CLI_IMAGE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct picwrite p = png_header(cases[i].width, cases[i].height, 8, PNG_COLOR_TYPE_RGB);
        struct cli_image im = {0};
        struct cli_error e = {.number = 0};
        add_chunk(&p, "IDAT", "\x78\x9c\x03\0\0\0\0\1", 8);
        add_chunk(&p, "IEND", NULL, 0);
        cr_expect_eq(decode(p, "a PNG of that size"), cases[i].number, "%u x %u", cases[i].width, cases[i].height);
        if (cases[i].number == CLI_IMAGE && cases[i].width && cases[i].height)
            continue;
        cr_expect_eq(cli_image_alloc(&im, "x", cases[i].width, cases[i].height, &e), -1);
        cr_expect_eq(e.number, cases[i].number);
        cli_image_free(&im);
    }
}

Test(cli_hostile, jpeg_of_65500_by_65500)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        struct picwrite p = picwrite_jpeg(3, JCS_RGB, 0, progressive);
        size_t at = 0;
        while (!(p.p[at] == 0xff && (p.p[at + 1] == 0xc0 || p.p[at + 1] == 0xc2)))
            at++;
        memcpy(p.p + at + 5, "\xff\xdc\xff\xdc", 4); /* 65500, the most that the library reads */
        cr_expect_eq(decode(p, "a large JPEG"), CLI_LIMIT);
    }
}

Test(cli_hostile, very_many_scans)
{
    struct picwrite b = picwrite_jpeg(3, JCS_RGB, 0, 1);
    size_t scan = b.n;
    while (!(b.p[scan - 1] == 0xda && b.p[scan - 2] == 0xff))
        scan--;
    scan -= 2;
    size_t len = b.n - 2 - scan, copies = 80000;
    struct picwrite p = {malloc(scan + copies * len + 2), scan + copies * len + 2};
    memcpy(p.p, b.p, scan);
    for (size_t i = 0; i < copies; i++)
        memcpy(p.p + scan + i * len, b.p + scan, len);
    memcpy(p.p + p.n - 2, "\xff\xd9", 2);
    cr_expect_eq(decode(p, "80,000 scans"), CLI_LIMIT);
    free(b.p);
}

Test(cli_hostile, very_many_chunks)
{
    struct picwrite p = png_header(4, 4, 8, PNG_COLOR_TYPE_RGB);
    uint8_t *many = malloc(100000 * 16);
    struct picwrite one = {NULL, 0};
    add_chunk(&one, "tEXt", "a\0b", 3);
    for (int i = 0; i < 100000; i++)
        memcpy(many + (size_t)i * one.n, one.p, one.n);
    add_bytes(&p, many, 100000 * one.n);
    add_chunk(&p, "IEND", NULL, 0);
    cr_expect_eq(decode(p, "100,000 chunks"), CLI_LIMIT);
    free(one.p);
    free(many);
}

Test(cli_hostile, very_large_chunk)
{
    struct picwrite p = png_header(4, 4, 8, PNG_COLOR_TYPE_RGB);
    uint8_t *text = calloc(1, 8000001);
    add_chunk(&p, "teXt", text, 8000001);
    add_chunk(&p, "IEND", NULL, 0);
    cr_expect_eq(decode(p, "a chunk over the limit"), CLI_LIMIT);
    free(text);
}

/* Lengths of chunks that the file does not have. */
Test(cli_hostile, chunks_of_a_false_length)
{
    static const uint32_t lengths[] = {14, 0x7fffffff, 0x80000000, 0xffffffff, 8000001};
    static const char *const types[] = {"IDAT", "PLTE", "tEXt", "iCCP", "eXIf", "zTXt"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths * 6; i++) {
        struct picwrite p = png_header(4, 4, 8, PNG_COLOR_TYPE_RGB);
        uint8_t head[8];
        put32(head, lengths[i / 6]);
        memcpy(head + 4, types[i % 6], 4);
        add_bytes(&p, head, 8);
        cr_expect_neq(decode(p, types[i % 6]), 0);
    }
}

/* Indexes beyond the palette, a palette too long, none at all. */
Test(cli_hostile, palettes)
{
    static const uint8_t colours[257 * 3] = {10, 20, 30, 40, 50, 60};
    static const uint32_t counts[] = {0, 1, 2, 15, 16, 17, 256, 257};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct picwrite p = with_chunk(picwrite_png(PNG_COLOR_TYPE_PALETTE, 4, 0, 0), "PLTE", colours, counts[i] * 3);
        int number = decode(p, "a palette");
        cr_expect(number == 0 || number == CLI_IMAGE, "%u colours: %d", counts[i], number);
    }
    cr_expect_eq(decode(with_chunk(picwrite_png(PNG_COLOR_TYPE_PALETTE, 4, 0, 0), "PLTE", colours, 4), "4 bytes"),
                 CLI_IMAGE);
}

Test(cli_hostile, every_first_byte_of_a_header)
{
    for (int field = 8; field < 13; field++) {
        for (int v = 0; v < 256; v++) {
            struct picwrite p = png_header(4, 4, 8, PNG_COLOR_TYPE_RGB);
            p.p[16 + field] = (uint8_t)v;
            put32(p.p + 29, ptwrite_crc(p.p + 12, 17));
            add_chunk(&p, "IDAT", "\x78\x9c\x03\0\0\0\0\1", 8);
            add_chunk(&p, "IEND", NULL, 0);
            cr_expect_neq(decode(p, "a header"), 0);
        }
    }
}

/* Inks, 16 bits: accepted, also when turned. */
Test(cli_hostile, unusual_but_good)
{
    cr_expect_eq(decode(picwrite_jpeg(4, JCS_CMYK, 8, 0), "inks"), 0);
    cr_expect_eq(decode(picwrite_png(PNG_COLOR_TYPE_RGB, 16, 1, 5), "16 bits"), 0);
    cr_expect_eq(decode(picwrite_png(PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0, 9), "16 bits"), 0);
}

/* The rest of the file lies behind its end, so a reader that goes on would find it. */
Test(cli_hostile, bytes_behind_the_end)
{
    struct picwrite p = picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 0);
    for (size_t n = 8; n < p.n; n++) {
        struct cli_image im;
        struct cli_error e = {.number = 0};
        cr_assert_eq(cli_image_decode(&im, "made", p.p, n, &e), -1, "cut to %zu of %zu", n, p.n);
        cr_assert(strstr(e.text, "truncated") != NULL, "%s", e.text);
    }
    free(p.p);
}

/* What EXIF says otherwise than the standard has it means upright. Offsets: 2 magic, 4 place of the directory, 10 tag,
 * 12 type, 14 count, 18 value. */
Test(cli_hostile, exif_lies)
{
    static const struct {
        int at;
        const char *bytes;
        size_t n;
    } lies[] = {{0, "IM", 2}, {0, "XX", 2}, {2, "\x2b", 1}, {4, "\xff\xff\xff\xff", 4}, {4, "\x1a", 1},
                {10, "\x13", 1}, {12, "\4", 1}, {12, "\0", 1}, {14, "\2", 1}, {14, "\0", 1},
                {14, "\xff\xff\xff\xff", 4}, {18, "\0", 1}, {18, "\x09", 1}, {18, "\xff\xff", 2}};
    uint8_t block[64] = {0};
    cr_assert_eq(picwrite_exif(block, 6, 0), 26);
    cr_assert_eq(cli_exif_orientation(block, 26), 6);
    for (size_t n = 0; n < 20; n++)
        cr_expect_eq(cli_exif_orientation(block, n), 1, "cut to %zu", n);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        picwrite_exif(block, 6, 0);
        memcpy(block + lies[i].at, lies[i].bytes, lies[i].n);
        cr_expect_eq(cli_exif_orientation(block, 26), 1, "lie %zu", i);
    }
}

Test(cli_hostile, cut_jpegs)
{
    struct picwrite b = picwrite_jpeg(3, JCS_RGB, 6, 0);
    for (size_t n = 3; n + 2 < b.n; n++) {
        struct picwrite p = {malloc(n), n};
        memcpy(p.p, b.p, n);
        cr_assert_eq(decode(p, "a cut JPEG"), CLI_IMAGE, "%zu of %zu", n, b.n);
    }
    free(b.p);
}
