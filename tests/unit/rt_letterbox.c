/* Letterbox: every stored case bit for bit, geometry, and what is refused. */
#include <criterion/criterion.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "datafile.h"
#include "picture.h"
#include "runtime/yolort.h"
#include "sha256.h"

static yolort_letterbox_mode mode_of(const char *name)
{
    return !strcmp(name, "square") ? YOLORT_SQUARE : !strcmp(name, "rect") ? YOLORT_RECT : YOLORT_TOPLEFT;
}

static void check_placement(const yolort_placement *p, const json_t *c, const char *label)
{
    json_t *pad = test_json_list(c, "pad"), *size = test_json_list(c, "resized_wh"), *out = test_json_list(c, "out_wh");
    const int found[] = {p->left, p->top, p->right, p->bottom};
    for (size_t i = 0; i < 4; i++) cr_expect_eq(found[i], (int)test_json_at(pad, i), "%s: pad %zu", label, i);
    cr_expect_eq(p->resized_width, (int)test_json_at(size, 0), "%s: width", label);
    cr_expect_eq(p->resized_height, (int)test_json_at(size, 1), "%s: height", label);
    cr_expect_eq(p->out_width, (int)test_json_at(out, 0), "%s: out width", label);
    cr_expect_eq(p->out_height, (int)test_json_at(out, 1), "%s: out height", label);
}

static void check_case(const json_t *c, const struct test_picture *src)
{
    const char *mode = test_json_text(c, "mode");
    int target = (int)test_json_number(c, "target"), scaleup = json_is_true(json_object_get(c, "scaleup"));
    char label[256], hex[65];
    snprintf(label, sizeof label, "%s %s %d scaleup %d", test_json_text(c, "source"), mode, target, scaleup);
    yolort_image image = {src->rgb, src->width, src->height, 0};
    yolort_placement p;
    cr_assert_eq(
        yolort_letterbox_plan(src->width, src->height, target, target, mode_of(mode), 32, scaleup, &p), YOLORT_OK);
    check_placement(&p, c, label);
    size_t bytes = (size_t)p.out_width * (size_t)p.out_height * 3;
    uint8_t *out = malloc(bytes);
    cr_assert_eq(yolort_letterbox(&image, &p, out, bytes), YOLORT_OK, "%s", label);
    test_sha256(out, bytes, hex);
    cr_expect_str_eq(hex, test_json_text(c, "sha256"), "%s", label);
    free(out);
}

Test(rt_letterbox, stored_cases)
{
    if (!test_data_exists("expected/preprocess/letterbox.json")) cr_skip("no test data");
    json_t *all = test_data_json("expected/preprocess/letterbox.json"), *cases, *c;
    struct test_picture src = {0};
    char last[256] = "", name[300];
    size_t i, done = 0;
    cr_assert(all);
    cases = test_json_list(all, "cases");
    json_array_foreach(cases, i, c) {
        const char *source = test_json_text(c, "source");
        if (strcmp(source, last)) {
            free(src.rgb);
            snprintf(last, sizeof last, "%s", source);
            snprintf(name, sizeof name, "%s%s", strncmp(source, "images/", 7) ? "expected/" : "", source);
            cr_assert_eq(test_picture_read(&src, name), 0);
        }
        check_case(c, &src);
        done++;
    }
    cr_assert_geq(done, 100);
    free(src.rgb);
    json_decref(all);
}

/* Rows further apart than they are long: what lies between is not looked at. */
Test(rt_letterbox, row_bytes)
{
    enum { W = 5, H = 4, PITCH = 3 * W + 7, OUT = 8 * 8 * 3 };
    uint8_t dense[W * H * 3], padded[PITCH * H], a[OUT], b[OUT];
    memset(padded, 0xee, sizeof padded);
    for (int i = 0; i < W * H * 3; i++) {
        dense[i] = (uint8_t)(i * 37);
        padded[i / (3 * W) * PITCH + i % (3 * W)] = dense[i];
    }
    yolort_placement p;
    cr_assert_eq(yolort_letterbox_plan(W, H, 8, 8, YOLORT_SQUARE, 0, 1, &p), YOLORT_OK);
    cr_assert_eq(yolort_letterbox(&(yolort_image){dense, W, H, 0}, &p, a, OUT), YOLORT_OK);
    cr_assert_eq(yolort_letterbox(&(yolort_image){padded, W, H, PITCH}, &p, b, OUT), YOLORT_OK);
    cr_assert_arr_eq(a, b, OUT);
}

/* The longest side that is allowed, one pixel wide. */
Test(rt_letterbox, thin)
{
    enum { N = 65535 };
    uint8_t *rgb = calloc(N, 3), out[64 * 64 * 3];
    yolort_placement p;
    for (int k = 0; k < 2; k++) {
        yolort_image image = {rgb, k ? N : 1, k ? 1 : N, 0};
        cr_assert_eq(yolort_letterbox_plan(image.width, image.height, 64, 64, YOLORT_SQUARE, 32, 1, &p), YOLORT_OK);
        cr_expect_eq(p.resized_width * p.resized_height, 64);
        cr_expect_eq(yolort_letterbox(&image, &p, out, sizeof out), YOLORT_OK);
        cr_expect_eq(out[0], 114);
        cr_expect_eq(out[(k ? 31 * 64 : 31) * 3], 0);
    }
    free(rgb);
}

Test(rt_letterbox, plan_refuses)
{
    yolort_placement p;
    const int bad[][6] = {{0, 1, 8, 8, 0, 32},     {1, 0, 8, 8, 0, 32},  {65536, 1, 8, 8, 0, 32},
                          {1, 65536, 8, 8, 0, 32}, {1, 1, 0, 8, 0, 32},  {1, 1, 8, 0, 0, 32},
                          {1, 1, 65536, 8, 0, 32}, {1, 1, 8, 8, 1, 0},   {1, 1, 8, 8, 1, -32},
                          {1, 1, 8, 8, 3, 32},     {1, 1, 8, 8, -1, 32}, {-5, 1, 8, 8, 0, 32}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(yolort_letterbox_plan(bad[i][0], bad[i][1], bad[i][2], bad[i][3],
                                           (yolort_letterbox_mode)bad[i][4], bad[i][5], 1, &p),
                     YOLORT_ARG, "row %zu", i);
    cr_expect_eq(yolort_letterbox_plan(1, 1, 8, 8, YOLORT_SQUARE, 32, 1, NULL), YOLORT_ARG);
}

Test(rt_letterbox, refuses)
{
    uint8_t rgb[4 * 4 * 3] = {0}, out[8 * 8 * 3];
    yolort_image image = {rgb, 4, 4, 0}, i;
    yolort_placement plan, p;
    cr_assert_eq(yolort_letterbox_plan(4, 4, 8, 8, YOLORT_SQUARE, 32, 0, &plan), YOLORT_OK);
    cr_expect_eq(yolort_letterbox(NULL, &plan, out, sizeof out), YOLORT_ARG);
    cr_expect_eq(yolort_letterbox(&image, NULL, out, sizeof out), YOLORT_ARG);
    cr_expect_eq(yolort_letterbox(&image, &plan, NULL, sizeof out), YOLORT_ARG);
    cr_expect_eq(yolort_letterbox(&image, &plan, out, sizeof out - 1), YOLORT_ARG);
    i = image, i.rgb = NULL;
    cr_expect_eq(yolort_letterbox(&i, &plan, out, sizeof out), YOLORT_ARG);
    i = image, i.row_bytes = 11;
    cr_expect_eq(yolort_letterbox(&i, &plan, out, sizeof out), YOLORT_ARG);
    i = image, i.row_bytes = SIZE_MAX - 1;
    cr_expect_eq(yolort_letterbox(&i, &plan, out, sizeof out), YOLORT_ARG);
    i = image, i.width = 0;
    cr_expect_eq(yolort_letterbox(&i, &plan, out, sizeof out), YOLORT_ARG);
    p = plan, p.left++;
    cr_expect_eq(yolort_letterbox(&image, &p, out, sizeof out), YOLORT_ARG);
    p = plan, p.top -= 4, p.bottom += 4;
    cr_expect_eq(yolort_letterbox(&image, &p, out, sizeof out), YOLORT_ARG);
    p = plan, p.resized_height = 0, p.bottom += 4;
    cr_expect_eq(yolort_letterbox(&image, &p, out, sizeof out), YOLORT_ARG);
    cr_expect_eq(yolort_letterbox(&image, &plan, out, sizeof out), YOLORT_OK);
}

Test(rt_letterbox, back_to_source)
{
    yolort_placement p;
    yolort_detection d[] = {{.x1 = 80, .y1 = 0, .x2 = 560, .y2 = 640}, {.x1 = -5, .y1 = 320, .x2 = 900, .y2 = 352}};
    cr_assert_eq(yolort_letterbox_plan(810, 1080, 640, 640, YOLORT_SQUARE, 32, 1, &p), YOLORT_OK);
    yolort_unletterbox(d, 2, YOLORT_HEAD_ANCHOR, &p, 810, 1080);
    cr_expect_float_eq(d[0].x1, 0, 1e-4);
    cr_expect_float_eq(d[0].x2, 810, 1e-4);
    cr_expect_float_eq(d[0].y2, 1080, 1e-4);
    cr_expect_float_eq(d[1].x1, 0, 0);
    cr_expect_float_eq(d[1].x2, 810, 0);
    cr_expect_float_eq(d[1].y1, 540, 1e-4);
    cr_expect_float_eq(d[1].y2, 594, 1e-4);
}

/* Top-left: one ratio on both axes, though the resized picture is cut to whole pixels. */
Test(rt_letterbox, back_from_topleft)
{
    yolort_placement p;
    yolort_detection d = {.x1 = 10, .y1 = 10, .x2 = 100, .y2 = 400};
    cr_assert_eq(yolort_letterbox_plan(773, 512, 416, 416, YOLORT_TOPLEFT, 32, 1, &p), YOLORT_OK);
    cr_expect_eq(p.scale_x, 416.0 / 773);
    cr_expect_eq(p.scale_y, p.scale_x);
    yolort_unletterbox(&d, 1, YOLORT_HEAD_X, &p, 773, 512);
    cr_expect_float_eq(d.x1, (float)(10 * 773 / 416.0), 1e-4);
    cr_expect_float_eq(d.y2, 512, 0);
}

/* A 161x97 picture in a rect input of 160x96: 160 columns wide, but the reference works out 159 from the input's size. */
Test(rt_letterbox, back_as_the_predictor_does)
{
    yolort_placement p;
    yolort_detection plain = {.x1 = 16, .y1 = 8, .x2 = 80, .y2 = 48}, again = plain;
    cr_assert_eq(yolort_letterbox_plan(161, 97, 160, 160, YOLORT_RECT, 32, 1, &p), YOLORT_OK);
    cr_assert_eq(p.out_width, 160);
    cr_assert_eq(p.out_height, 96);
    yolort_unletterbox(&plain, 1, YOLORT_HEAD_ANCHOR, &p, 161, 97);
    yolort_unletterbox(&again, 1, YOLORT_HEAD_FREE, &p, 161, 97);
    cr_expect_float_eq(plain.x2, (float)(80 * 161.0 / 160), 1e-4);
    cr_expect_float_eq(again.x2, (float)(80 * 161.0 / 159), 1e-4);
    cr_expect_float_eq(again.y2, (float)(48 * 97.0 / 96), 1e-4);
}

/* A placement is the caller's: numbers that no letterbox has give some box of the picture. */
Test(rt_letterbox, back_from_no_placement)
{
    static const int side[] = {INT_MIN, INT_MIN + 1, -1, 0, 1, INT_MAX};
    for (size_t i = 0; i < 36; i++) {
        yolort_placement p = {.left = side[i / 6], .top = side[i % 6], .right = side[i % 6], .bottom = side[i / 6]};
        yolort_detection d = {.x1 = 1, .y1 = 2, .x2 = 3, .y2 = 4};
        yolort_unletterbox(&d, 1, YOLORT_HEAD_FREE, &p, 40, 20);
        cr_expect(d.x1 >= 0 && d.x2 <= 40 && d.y1 >= 0 && d.y2 <= 20);
    }
}

/* What a predictor could not have worked out is taken as it is: top-left, and a small picture that was not enlarged. */
Test(rt_letterbox, back_from_other_placements)
{
    const yolort_letterbox_mode mode[] = {YOLORT_TOPLEFT, YOLORT_SQUARE, YOLORT_RECT};
    for (int i = 0; i < 3; i++) {
        yolort_placement p;
        cr_assert_eq(yolort_letterbox_plan(40, 20, 160, 160, mode[i], 32, i == 0, &p), YOLORT_OK);
        float x = (float)(p.left + 10 * p.scale_x), y = (float)(p.top + 5 * p.scale_y);
        yolort_detection d = {.x1 = x, .y1 = y, .x2 = x + (float)p.scale_x, .y2 = y + (float)p.scale_y};
        yolort_unletterbox(&d, 1, YOLORT_HEAD_FREE, &p, 40, 20);
        cr_expect_float_eq(d.x1, 10, 1e-4);
        cr_expect_float_eq(d.y1, 5, 1e-4);
        cr_expect_float_eq(d.x2, 11, 1e-4);
        cr_expect_float_eq(d.y2, 6, 1e-4);
    }
}
