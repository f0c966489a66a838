#include "frontend/cli/fileio.h"
#include "frontend/cli/image.h"
#include "picwrite.h"
#include "sha256.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

/* --- stored digests --- */

static const char *data_folder(void)
{
    const char *env = getenv("YOLOC_TEST_DATA");
    return env && *env ? env : "../shared/data";
}

static void check_photo(const char *name, int width, int height, const char *expected)
{
    char path[512], hex[65];
    struct cli_image im;
    struct cli_error e;
    snprintf(path, sizeof path, "%s/images/%s", data_folder(), name);
    cr_assert_eq(cli_image_load(&im, path, &e), 0, "%s", e.text);
    cr_expect_eq(im.width, width);
    cr_expect_eq(im.height, height);
    cr_expect_eq(im.damaged, 0);
    test_sha256(im.rgb, (size_t)im.width * (size_t)im.height * 3, hex);
    cr_expect_str_eq(hex, expected, "%s", name);
    cli_image_free(&im);
}

Test(cli_image, photos_decode_to_the_stored_pixels)
{
    char path[512];
    snprintf(path, sizeof path, "%s/expected/decoded.json", data_folder());
    if (access(path, R_OK) != 0)
        cr_skip_test("no test data");
    json_t *root = json_load_file(path, 0, NULL), *entry;
    json_t *images = json_object_get(root, "images");
    size_t i;
    cr_assert_gt(json_array_size(images), 0);
    json_array_foreach(images, i, entry) {
        json_t *wh = json_object_get(entry, "wh");
        check_photo(json_string_value(json_object_get(entry, "image")),
                    (int)json_integer_value(json_array_get(wh, 0)),
                    (int)json_integer_value(json_array_get(wh, 1)),
                    json_string_value(json_object_get(entry, "sha256")));
    }
    json_decref(root);
}

Test(cli_image, sha256_of_known_text)
{
    char hex[65], many[200];
    test_sha256("abc", 3, hex);
    cr_expect_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    memset(many, 'a', sizeof many);
    test_sha256(many, 119, hex);
    cr_expect_str_eq(hex, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb");
}

/* --- pictures made here --- */

enum { W = PICWRITE_W, H = PICWRITE_H };

static void decode(struct cli_image *im, struct picwrite b)
{
    struct cli_error e = {.text = ""};
    cr_assert_eq(cli_image_decode(im, "made", b.p, b.n, &e), 0, "%s", e.text);
}

static const uint8_t *pixel(const struct cli_image *im, int x, int y)
{
    return im->rgb + 3 * (y * im->width + x);
}

/* Where EXIF 2.3 says that row 0 and column 0 of the stored picture lie in the upright one. */
static void upright(int orientation, int x, int y, int *u, int *v)
{
    int right = W - 1 - x, bottom = H - 1 - y;
    switch (orientation) {
    case 2: *u = right, *v = y; break;
    case 3: *u = right, *v = bottom; break;
    case 4: *u = x, *v = bottom; break;
    case 5: *u = y, *v = x; break;
    case 6: *u = bottom, *v = x; break;
    case 7: *u = bottom, *v = right; break;
    case 8: *u = y, *v = right; break;
    default: *u = x, *v = y;
    }
}

Test(cli_image, all_orientations_of_jpeg)
{
    struct picwrite plain = picwrite_jpeg(3, JCS_RGB, 0, 0);
    struct cli_image stored, im;
    decode(&stored, plain);
    for (int o = 1; o <= 9; o++) {
        struct picwrite b = picwrite_jpeg(3, JCS_RGB, o, 0);
        decode(&im, b);
        cr_assert_eq(im.width, o >= 5 && o <= 8 ? H : W);
        for (int i = 0; i < W * H; i++) {
            int u, v;
            upright(o, i % W, i / W, &u, &v);
            cr_assert_arr_eq(pixel(&im, u, v), pixel(&stored, i % W, i / W), 3, "orientation %d", o);
        }
        cli_image_free(&im);
        free(b.p);
    }
    cli_image_free(&stored);
    free(plain.p);
}

Test(cli_image, broken_exif_means_upright)
{
    uint8_t good[26], block[26];
    picwrite_exif(good, 6, 0);
    cr_assert_eq(cli_exif_orientation(good, sizeof good), 6);
    for (size_t n = 0; n < 20; n++) {
        uint8_t *cut = malloc(n ? n : 1); /* exact, so that reading on is seen by the sanitizer */
        memcpy(cut, good, n);
        cr_expect_eq(cli_exif_orientation(cut, n), 1);
        free(cut);
    }
    for (size_t i = 0; i < 8 * sizeof good; i++) {
        memcpy(block, good, sizeof good);
        block[i / 8] ^= (uint8_t)(1u << i % 8);
        int o = cli_exif_orientation(block, sizeof block);
        cr_expect(o >= 1 && o <= 8);
    }
    memcpy(block, good, sizeof good);
    memset(block + 4, 0xff, 4);
    cr_expect_eq(cli_exif_orientation(block, sizeof block), 1);
}

Test(cli_image, grey_and_progressive_jpeg)
{
    struct cli_image im;
    struct picwrite grey = picwrite_jpeg(1, JCS_GRAYSCALE, 0, 0), slow = picwrite_jpeg(3, JCS_RGB, 0, 1);
    decode(&im, grey);
    for (int i = 0; i < W * H; i++) {
        const uint8_t *p = pixel(&im, i % W, i / W);
        cr_assert(p[0] == p[1] && p[1] == p[2]);
        cr_assert_leq(abs(p[0] - picwrite_shade(i % W, i / W, 0)), 8);
    }
    cli_image_free(&im);
    decode(&im, slow);
    cr_expect_eq(im.width, W);
    cli_image_free(&im);
    free(grey.p);
    free(slow.p);
}

/* 255 is no ink: full light from the black plate leaves the three others as they are. */
Test(cli_image, inks_become_light)
{
    struct picwrite b = picwrite_jpeg(4, JCS_CMYK, 0, 0);
    struct cli_image im;
    decode(&im, b);
    for (int i = 0; i < W * H; i++) {
        const uint8_t *p = pixel(&im, i % W, i / W);
        for (int c = 0; c < 3; c++) {
            int light = picwrite_shade(i % W, i / W, c) * picwrite_shade(i % W, i / W, 3) / 255;
            cr_assert_leq(abs(p[c] - light), 24, "%d: %d, not %d", i, p[c], light);
        }
    }
    cli_image_free(&im);
    free(b.p);
}

/* --- PNG --- */

static const struct png_case {
    int colour, bits, samples; /* of a pixel */
} png_cases[] = {
    {PNG_COLOR_TYPE_GRAY, 1, 1},  {PNG_COLOR_TYPE_GRAY, 2, 1}, {PNG_COLOR_TYPE_GRAY, 4, 1},
    {PNG_COLOR_TYPE_GRAY, 8, 1},  {PNG_COLOR_TYPE_GRAY, 16, 1}, {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 2},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 2}, {PNG_COLOR_TYPE_PALETTE, 4, 1}, {PNG_COLOR_TYPE_RGB, 8, 3},
    {PNG_COLOR_TYPE_RGB, 16, 3}, {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4}, {PNG_COLOR_TYPE_RGB_ALPHA, 16, 4},
};

/* The value that the PNG standard gives sample `at` of a row, scaled to 8 bits; 16 bits lose the low byte. */
static int stored(const struct png_case *c, int y, int at)
{
    int bit = at * c->bits, byte = (uint8_t)(7 * (bit / 8) + 31 * y);
    if (c->bits >= 8)
        return byte;
    int max = (1 << c->bits) - 1, v = byte >> (8 - c->bits - bit % 8) & max;
    return c->colour == PNG_COLOR_TYPE_PALETTE ? v : v * 255 / max;
}

static void check_png(const struct png_case *c, const struct cli_image *im)
{
    for (int i = 0; i < W * H; i++) {
        int x = i % W, y = i / W;
        for (int k = 0; k < 3; k++) {
            int v = stored(c, y, x * c->samples + (c->samples >= 3 ? k : 0));
            if (c->colour == PNG_COLOR_TYPE_PALETTE)
                v = k == 0 ? v * 16 : k == 1 ? 255 - v : v * v;
            cr_assert_eq(pixel(im, x, y)[k], v, "colour %d, %d bits, %d,%d", c->colour, c->bits, x, y);
        }
    }
}

Test(cli_image, every_kind_of_png)
{
    for (size_t i = 0; i < 2 * sizeof png_cases / sizeof *png_cases; i++) {
        const struct png_case *c = &png_cases[i / 2];
        struct picwrite b = picwrite_png(c->colour, c->bits, i % 2, 0);
        struct cli_image im;
        decode(&im, b);
        check_png(c, &im);
        cli_image_free(&im);
        free(b.p);
    }
}

Test(cli_image, orientation_of_png)
{
    struct picwrite b = picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 6);
    struct cli_image im;
    decode(&im, b);
    cr_expect_eq(im.width, H);
    cli_image_free(&im);
    free(b.p);
}

/* --- what is no picture --- */

static void check_cuts(struct picwrite b, size_t accepted_tail)
{
    for (size_t n = 0; n < b.n; n++) {
        struct cli_image im;
        struct cli_error e = {.number = 0};
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, b.p, n);
        int rc = cli_image_decode(&im, "cut", cut, n, &e);
        if (n + accepted_tail < b.n)
            cr_assert_eq(rc, -1, "cut to %zu of %zu was accepted", n, b.n);
        if (rc != 0)
            cr_assert(im.rgb == NULL && e.number == CLI_IMAGE && strncmp(e.text, "cut: ", 5) == 0);
        cli_image_free(&im);
        free(cut);
    }
    free(b.p);
}

Test(cli_image, every_truncation_is_refused)
{
    check_cuts(picwrite_jpeg(3, JCS_RGB, 6, 0), 2); /* the end marker may be missing */
    check_cuts(picwrite_jpeg(3, JCS_RGB, 0, 1), 2);
    check_cuts(picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 0), 0);
}

Test(cli_image, flipped_bits_do_no_harm)
{
    struct picwrite all[] = {picwrite_jpeg(3, JCS_RGB, 6, 1), picwrite_jpeg(4, JCS_CMYK, 0, 0),
                          picwrite_png(PNG_COLOR_TYPE_PALETTE, 4, 1, 6)};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (size_t i = 0; i < all[k].n; i++) {
            struct cli_image im;
            struct cli_error e;
            all[k].p[i] ^= (uint8_t)(1u << i % 8);
            if (cli_image_decode(&im, "x", all[k].p, all[k].n, &e) == 0)
                cr_assert_not_null(im.rgb);
            cli_image_free(&im);
            all[k].p[i] ^= (uint8_t)(1u << i % 8);
        }
        free(all[k].p);
    }
}

Test(cli_image, the_error_says_what_the_file_is)
{
    static const struct {
        const char *bytes, *says;
        size_t n;
    } cases[] = {
        {"", "an empty file", 0},
        {"\n <!DOCTYPE html><html>", "an HTML", 23},
        {"GIF89a......", "a GIF picture", 12},
        {"RIFF....WEBP", "a WebP picture", 12},
        {"just a note", "text", 11},
        {"PK\003\004..", "a zip archive", 6},
        {"\0\0\0\0\0\0\0\0", "zero bytes", 8},
        {"\1\2\3\4", "something else", 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cli_image im;
        struct cli_error e;
        int rc = cli_image_decode(&im, "a.jpg", (const uint8_t *)cases[i].bytes, cases[i].n, &e);
        cr_expect_eq(rc, -1);
        cr_expect_eq(e.exit_code, CLI_BAD_INPUT);
        cr_expect(strstr(e.text, cases[i].says) != NULL, "%s", e.text);
    }
}

/* --- limits --- */

Test(cli_image, limits_hold)
{
    struct picwrite b = picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 0);
    static const uint32_t sides[][2] = {{65536, 1}, {1, 65536}, {16385, 16384}, {0x7fffffff, 0x7fffffff}};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct cli_image im;
        struct cli_error e;
        cr_expect_eq(cli_image_alloc(&im, "x", sides[i][0], sides[i][1], &e), -1);
        cr_expect_eq(e.number, CLI_LIMIT);
        png_save_uint_32(b.p + 16, sides[i][0]);
        png_save_uint_32(b.p + 20, sides[i][1]);
        cr_expect_eq(cli_image_decode(&im, "x", b.p, b.n, &e), -1); /* its checksum is wrong besides */
    }
    free(b.p);
}

/* Found by fuzzing: a file of 135 bytes made libpng ask for 640 MiB. */
Test(cli_image, chunk_that_claims_much)
{
    struct picwrite b = picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 6);
    static const struct {
        uint32_t length;
        int number;
    } rows[] = {{0x7fffffff, CLI_LIMIT}, {8000001, CLI_LIMIT}, {8000000, CLI_IMAGE}, {100000, CLI_IMAGE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cli_image im;
        struct cli_error e = {.text = ""};
        cr_assert_eq(memcmp(b.p + 37, "eXIf", 4), 0);
        png_save_uint_32(b.p + 33, rows[i].length);
        cr_expect_eq(cli_image_decode(&im, "x", b.p, b.n, &e), -1);
        cr_expect_eq(e.number, rows[i].number, "%u: %s", rows[i].length, e.text);
    }
    free(b.p);
}

/* A progressive file repeats its last scan, as an attacker would to make a small file cost hours. */
Test(cli_image, too_many_scans)
{
    struct picwrite b = picwrite_jpeg(3, JCS_RGB, 0, 1);
    size_t scan = b.n;
    while (!(b.p[scan - 1] == 0xda && b.p[scan - 2] == 0xff))
        scan--;
    scan -= 2;
    size_t len = b.n - 2 - scan, copies = 600, n = scan + copies * len + 2;
    uint8_t *p = malloc(n);
    memcpy(p, b.p, scan);
    for (size_t i = 0; i < copies; i++)
        memcpy(p + scan + i * len, b.p + scan, len);
    memcpy(p + n - 2, "\xff\xd9", 2);
    struct cli_image im;
    struct cli_error e;
    cr_expect_eq(cli_image_decode(&im, "x", p, n, &e), -1);
    cr_expect_eq(e.number, CLI_LIMIT);
    free(p);
    free(b.p);
}

/* A small file may claim to be huge; a progressive one would make us hold all of it. */
Test(cli_image, huge_progressive_jpeg)
{
    struct picwrite b = picwrite_jpeg(3, JCS_RGB, 0, 1);
    size_t at = 0;
    while (!(b.p[at] == 0xff && b.p[at + 1] == 0xc2))
        at++;
    memcpy(b.p + at + 5, "\x3e\x80\x3e\x80", 4); /* 16000 x 16000 */
    struct cli_image im;
    struct cli_error e;
    cr_expect_eq(cli_image_decode(&im, "x", b.p, b.n, &e), -1);
    cr_expect_eq(e.number, CLI_LIMIT, "%s", e.text);
    free(b.p);
}

/* --- writing --- */

Test(cli_image, png_written_is_png_read)
{
    char folder[] = "/tmp/cli_image.XXXXXX", path[64];
    struct cli_image im, again;
    struct cli_error e;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.png", folder);
    cr_assert_eq(cli_image_alloc(&im, "x", W, H, &e), 0);
    for (int i = 0; i < W * H * 3; i++)
        im.rgb[i] = (uint8_t)(i * 37);
    cr_assert_eq(cli_image_save_png(&im, path, &e), 0, "%s", e.text);
    cr_assert_eq(cli_image_load(&again, path, &e), 0, "%s", e.text);
    cr_expect_arr_eq(im.rgb, again.rgb, W * H * 3);
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "a temporary file was left");
    cr_expect_eq(cli_image_save_png(&im, path, &e), -1);
    cr_expect_eq(e.number, CLI_WRITE);
    cli_image_free(&im);
    cli_image_free(&again);
}
