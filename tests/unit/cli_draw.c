#include "frontend/cli/draw.h"
#include "frontend/cli/font.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct cli_image grey(int width, int height)
{
    struct cli_image im;
    struct cli_error e;
    cr_assert_eq(cli_image_alloc(&im, "x", (uint64_t)width, (uint64_t)height, &e), 0);
    memset(im.rgb, 128, (size_t)(width * height * 3));
    return im;
}

static int is_colour(const struct cli_image *im, int x, int y, const uint8_t rgb[3])
{
    return memcmp(im->rgb + 3 * (y * im->width + x), rgb, 3) == 0;
}

static const char *const names[] = {"person", "caf\xc3\xa9"};

Test(cli_draw, outline_has_the_class_colour_and_the_inside_is_left)
{
    struct cli_image im = grey(300, 200);
    yolort_detection d = {50, 60, 250, 180, 0.9f, 0, 0};
    uint8_t rgb[3];
    static const uint8_t ground[3] = {128, 128, 128};
    cli_class_colour(0, rgb);
    cli_draw_detections(&im, &d, 1, names, 2);
    cr_expect(is_colour(&im, 50, 120, rgb) && is_colour(&im, 249, 120, rgb));
    cr_expect(is_colour(&im, 150, 60, rgb) && is_colour(&im, 150, 179, rgb));
    cr_expect(is_colour(&im, 150, 120, ground) && is_colour(&im, 49, 120, ground) &&
              is_colour(&im, 250, 120, ground));
    cr_expect(is_colour(&im, 50, 58, rgb), "the tag stands on the box");
    free(im.rgb);
}

/* Lines and letters grow with the picture. */
Test(cli_draw, large_pictures_get_thick_lines)
{
    struct cli_image im = grey(3000, 2000);
    yolort_detection d = {500, 600, 2500, 1800, 0.9f, 0, 0};
    uint8_t rgb[3];
    cli_class_colour(0, rgb);
    cli_draw_detections(&im, &d, 1, names, 2);
    for (int x = 500; x < 505; x++)
        cr_expect(is_colour(&im, x, 1200, rgb));
    cli_image_free(&im);
}

/* Whatever a module says, nothing outside the picture is touched: the sanitizer watches. */
Test(cli_draw, wild_boxes_stay_inside)
{
    static const float edges[] = {-1e30f, -5, 0, 1, 7, 1e9f, INFINITY, -INFINITY, NAN};
    enum { N = sizeof edges / sizeof *edges };
    struct cli_image im = grey(9, 7);
    for (int i = 0; i < N * N * N * N; i++) {
        yolort_detection d = {edges[i % N], edges[i / N % N], edges[i / N / N % N], edges[i / N / N / N],
                              i % 2 ? NAN : 0.5f, i % 5 - 2, 0};
        cli_draw_detections(&im, &d, 1, names, 2);
    }
    cli_image_free(&im);
}

Test(cli_draw, neighbouring_classes_differ)
{
    for (int a = 0; a < 20; a++) {
        for (int b = a + 1; b < 20; b++) {
            uint8_t p[3], q[3];
            cli_class_colour(a, p);
            cli_class_colour(b, q);
            cr_expect_gt(abs(p[0] - q[0]) + abs(p[1] - q[1]) + abs(p[2] - q[2]), 30, "%d and %d", a, b);
        }
    }
}

static int glyph_equal(int a, int b)
{
    for (int i = 0; i < CLI_FONT_WIDTH * CLI_FONT_HEIGHT; i++) {
        int x = i % CLI_FONT_WIDTH, y = i / CLI_FONT_WIDTH;
        if (cli_font_pixel((unsigned char)a, x, y) != cli_font_pixel((unsigned char)b, x, y))
            return 0;
    }
    return 1;
}

Test(cli_draw, no_two_glyphs_look_alike)
{
    for (int a = 32; a < 127; a++) {
        for (int b = a + 1; b < 127; b++)
            cr_expect_not(glyph_equal(a, b), "%c and %c", a, b);
    }
    cr_expect(glyph_equal('?', 200) && glyph_equal('?', 7) && glyph_equal('?', 127));
    for (int y = 0; y < CLI_FONT_HEIGHT; y++)
        cr_expect_eq(cli_font_pixel('W', CLI_FONT_WIDTH - 1, y), 0, "letters do not touch");
}

Test(cli_draw, masks_and_maps_colour_the_pixels)
{
    struct cli_image im = grey(100, 50);
    uint32_t runs[] = {60 * 50, 10, 100 * 50 - 60 * 50 - 10};
    struct cli_rle mask = {runs, 3, 100, 50};
    yolort_detection d = {90, 40, 95, 45, 0.5f, 0, 0};
    struct cli_record r = {.d = &d, .n = 1, .names = names, .nc = 2, .masks = &mask};
    uint8_t rgb[3], mixed[3];
    static const uint8_t ground[3] = {128, 128, 128};
    cli_class_colour(0, rgb);
    for (int c = 0; c < 3; c++)
        mixed[c] = (uint8_t)((128 + rgb[c]) / 2);
    cli_draw_record(&im, &r);
    cr_expect(is_colour(&im, 60, 0, mixed) && is_colour(&im, 60, 9, mixed), "ten pixels down the column");
    cr_expect(is_colour(&im, 60, 10, ground) && is_colour(&im, 61, 0, ground));
    cli_image_free(&im);
    im = grey(2, 1);
    const uint16_t labels[] = {0, 1};
    const float depths[] = {2, 8};
    static const uint8_t near[3] = {255, 0, 0}, far[3] = {0, 0, 255};
    r = (struct cli_record){.names = names, .nc = 2, .labels = labels};
    cli_draw_record(&im, &r);
    cr_expect(is_colour(&im, 0, 0, mixed) && !is_colour(&im, 1, 0, mixed));
    r = (struct cli_record){.names = names, .nc = 2, .depths = depths};
    cli_draw_record(&im, &r);
    cr_expect(is_colour(&im, 0, 0, near) && is_colour(&im, 1, 0, far));
    cli_image_free(&im);
}

Test(cli_draw, wild_points_stay_inside)
{
    static const float odd[] = {-1e30f, -5, 0, 1, 7, 1e9f, INFINITY, -INFINITY, NAN};
    enum { N = sizeof odd / sizeof *odd, BODY = 17 };
    struct cli_image im = grey(9, 7);
    float points[3 * BODY];
    uint32_t runs[] = {1000, 1000}; /* of another picture */
    struct cli_rle mask = {runs, 2, 100, 20};
    for (int i = 0; i < N * N; i++) {
        yolort_detection d = {0, 0, 5, 5, 0.5f, 0, 0};
        yolort_turned t = {.corner = {{odd[i % N], odd[i / N]}, {odd[i / N], 3}, {4, odd[i % N]}, {1, 1}}};
        yolort_class top = {i - 9, odd[i % N]};
        for (int k = 0; k < 3 * BODY; k++)
            points[k] = odd[(i * (k % 4 + 1) + k) % N];
        struct cli_record r = {.d = &d, .n = 1, .names = names, .nc = 2, .points = points, .npoint = BODY, .point_dims = 3,
                               .turned = &t, .masks = &mask, .top = &top, .ntop = 1};
        cli_draw_record(&im, &r);
        r.depths = points;
        im.height = 5; /* 45 of the 51 numbers */
        cli_draw_record(&im, &r);
        im.height = 7;
    }
    cli_image_free(&im);
}
