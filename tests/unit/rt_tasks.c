/* What comes after the network in tasks other than plain boxes, by small cases worked out by hand. */
#include <criterion/criterion.h>

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/yolort.h"

/* --- classes of pictures --------------------------------------------------------------------------------- */

/* Grey pictures: v has width * height values. */
static void crop(const uint8_t *v, int sw, int sh, int width, int height, uint8_t *out)
{
    uint8_t rgb[3 * 64], dst[3 * 64];
    for (int i = 0; i < 3 * sw * sh; i++)
        rgb[i] = v[i / 3];
    yolort_image im = {rgb, sw, sh, 0};
    cr_assert_eq(yolort_crop(&im, width, height, dst, sizeof dst), YOLORT_OK);
    for (int i = 0; i < width * height; i++) {
        out[i] = dst[3 * i];
        cr_expect(dst[3 * i + 1] == out[i] && dst[3 * i + 2] == out[i]);
    }
}

/* The filter over twice the reduction: (3 a + 3 b + c) / 7 at the border. */
Test(rt_tasks, crop_reduces_with_a_wide_filter)
{
    const uint8_t row[16] = {0, 70, 140, 210, 0, 70, 140, 210, 0, 70, 140, 210, 0, 70, 140, 210};
    const uint8_t column[16] = {0, 0, 0, 0, 70, 70, 70, 70, 140, 140, 140, 140, 210, 210, 210, 210};
    uint8_t out[4];
    crop(row, 4, 4, 2, 2, out);
    cr_expect(out[0] == 50 && out[1] == 160 && out[2] == 50 && out[3] == 160);
    crop(column, 4, 4, 2, 2, out);
    cr_expect(out[0] == 50 && out[1] == 50 && out[2] == 160 && out[3] == 160);
}

/* The middle; a room of 5 - 2 = 3 is halved to 1.5, and that is rounded to the even 2. */
Test(rt_tasks, crop_takes_the_middle)
{
    const uint8_t v[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    uint8_t out[4];
    crop(v, 5, 2, 2, 2, out);
    cr_expect(out[0] == 3 && out[1] == 4 && out[2] == 8 && out[3] == 9);
    crop(v, 2, 5, 2, 2, out);
    cr_expect(out[0] == 5 && out[1] == 6 && out[2] == 7 && out[3] == 8);
}

/* No square: the whole picture. Enlarging is plain interpolation. */
Test(rt_tasks, crop_fills_a_target_that_is_no_square)
{
    const uint8_t v[2] = {0, 100};
    uint8_t out[4];
    crop(v, 2, 1, 4, 1, out);
    cr_expect(out[0] == 0 && out[1] == 25 && out[2] == 75 && out[3] == 100, "%d %d %d %d", out[0], out[1], out[2], out[3]);
}

/* 65535 times as high as wide: only what is in the middle is ever made. */
Test(rt_tasks, crop_of_a_line)
{
    enum { SIDE = 65535 };
    uint8_t *rgb = malloc(3 * SIDE), *dst = malloc(3 * 32 * 32);
    cr_assert(rgb && dst);
    memset(rgb, 7, 3 * SIDE);
    yolort_image tall = {rgb, 1, SIDE, 0}, flat = {rgb, SIDE, 1, 0};
    cr_assert_eq(yolort_crop(&tall, 32, 32, dst, 3 * 32 * 32), YOLORT_OK);
    cr_expect(dst[0] == 7 && dst[3 * 32 * 32 - 1] == 7);
    cr_assert_eq(yolort_crop(&flat, 32, 32, dst, 3 * 32 * 32), YOLORT_OK);
    cr_expect(dst[0] == 7 && dst[3 * 32 * 32 - 1] == 7);
    free(rgb);
    free(dst);
}

Test(rt_tasks, crop_refuses)
{
    uint8_t rgb[12] = {0}, dst[12];
    yolort_image ok = {rgb, 2, 2, 0}, none = {NULL, 2, 2, 0}, flat = {rgb, 2, 0, 0}, narrow = {rgb, 2, 2, 5};
    cr_expect_eq(yolort_crop(NULL, 2, 2, dst, 12), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&none, 2, 2, dst, 12), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&ok, 2, 2, NULL, 12), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&flat, 2, 2, dst, 12), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&ok, 0, 2, dst, 12), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&ok, 1, 65536, dst, SIZE_MAX), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&narrow, 2, 2, dst, 12), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&ok, 2, 2, dst, 11), YOLORT_ARG);
    cr_expect_eq(yolort_crop(&ok, 2, 2, dst, 12), YOLORT_OK);
}

Test(rt_tasks, top_is_sorted)
{
    const float p[6] = {0.1f, 0.4f, NAN, 0.1f, 0.9f, 0.2f};
    yolort_class out[6];
    size_t n = 9;
    cr_assert_eq(yolort_top(p, 6, out, 4, &n), YOLORT_OK);
    cr_assert_eq(n, 4);
    cr_expect(out[0].cls == 4 && out[1].cls == 1 && out[2].cls == 5 && out[3].cls == 0);
    cr_expect_eq(out[0].prob, 0.9f);
    cr_assert_eq(yolort_top(p, 6, out, 6, &n), YOLORT_OK);
    cr_expect(n == 5 && out[4].cls == 3);
    cr_assert_eq(yolort_top(p, 6, NULL, 0, &n), YOLORT_OK);
    cr_expect_eq(n, 0);
}

Test(rt_tasks, top_refuses)
{
    const float p[1] = {1};
    yolort_class out[1];
    size_t n;
    cr_expect_eq(yolort_top(NULL, 1, out, 1, &n), YOLORT_ARG);
    cr_expect_eq(yolort_top(p, 1, NULL, 1, &n), YOLORT_ARG);
    cr_expect_eq(yolort_top(p, 1, out, 1, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_top(p, 0, out, 1, &n), YOLORT_ARG);
}

/* --- boxes ------------------------------------------------------------------------------------------------ */

enum { MOST = 400 };
static double work[MOST * 2];

static size_t nms(const float *data, size_t rows, int nc, yolort_head head, const yolort_nms_opts *o, yolort_detection *out)
{
    size_t n = SIZE_MAX;
    cr_assert_eq(yolort_nms(data, rows, nc, head, o, work, out, MOST, &n), YOLORT_OK);
    return n;
}

/* Three rows, two classes: corners as they are, the same place twice, and once more with its other class. */
Test(rt_tasks, best_suppresses_nothing)
{
    const float d[6 * 3] = {1, 1, 5, 2, 2, 6, 3, 3, 7, 4, 4, 8, 0.9f, 0.8f, 0.1f, 0.5f, NAN, 0.3f};
    yolort_detection out[MOST];
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    cr_assert_eq(nms(d, 3, 2, YOLORT_HEAD_BEST, &o, out), 3);
    cr_expect(out[0].row == 0 && out[0].cls == 0 && out[0].score == 0.9f);
    cr_expect(out[0].x1 == 1 && out[0].y1 == 2 && out[0].x2 == 3 && out[0].y2 == 4);
    cr_expect(out[1].row == 1 && out[1].cls == 0);
    cr_expect(out[2].row == 0 && out[2].cls == 1);
    o.max_det = 2;
    cr_expect_eq(nms(d, 3, 2, YOLORT_HEAD_BEST, &o, out), 2);
    const uint8_t second[2] = {0, 1};
    o.classes = second;
    cr_assert_eq(nms(d, 3, 2, YOLORT_HEAD_BEST, &o, out), 2);
    cr_expect(out[0].row == 0 && out[1].row == 2);
}

/* More than 300 of them: the best 300 in order, whatever the order they come in. */
Test(rt_tasks, best_are_three_hundred)
{
    static float d[5 * MOST];
    yolort_detection out[MOST];
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.conf = 0;
    o.max_det = MOST;
    for (int i = 0; i < MOST; i++)
        d[4 * MOST + i] = (float)(i * 171 % MOST + 1) / MOST; /* 171 and 400 have no common factor */
    cr_assert_eq(nms(d, MOST, 1, YOLORT_HEAD_BEST, &o, out), 300);
    for (int i = 0; i < 300; i++)
        cr_assert_eq(out[i].score, (float)(MOST - i) / MOST, "%d", i);
}

/* cx, cy, w, h, score, angle of each row; as HEAD_FREE keeps them. */
static void turned(float (*row)[6], int n, float *data)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 6; k++)
            data[k * n + i] = row[i][k];
}

/* The same bar four ways: turned by a half it is the same, across it is another. */
Test(rt_tasks, turned_boxes)
{
    float row[4][6] = {{50, 50, 40, 4, 0.9f, 0.3f},
                       {50, 50, 40, 4, 0.8f, 0.3f + 3.14159265f},
                       {50, 50, 4, 40, 0.7f, 0.3f},
                       {50, 50, 4, 40, 0.6f, 0.3f + 1.57079633f}};
    float d[24];
    yolort_detection out[MOST];
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.iou = 0.7f;
    o.extra = 1;
    o.rotated = 1;
    turned(row, 4, d);
    cr_assert_eq(nms(d, 4, 1, YOLORT_HEAD_FREE, &o, out), 2);
    cr_expect(out[0].row == 0 && out[1].row == 2);
    o.rotated = 0; /* as upright boxes two of each kind are the same */
    cr_expect_eq(nms(d, 4, 1, YOLORT_HEAD_FREE, &o, out), 2);
}

/* A row of equal squares, each overlapping the next: also what is suppressed itself suppresses. */
Test(rt_tasks, turned_boxes_yield_to_suppressed_ones)
{
    float row[3][6] = {{0, 0, 10, 10, 0.9f, 0}, {2, 0, 10, 10, 0.8f, 0}, {4, 0, 10, 10, 0.7f, 0}};
    float d[18];
    yolort_detection out[MOST];
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.extra = o.rotated = 1;
    turned(row, 3, d);
    /* Squares of one size s, d apart: the distance is d^2 / (8 s^2 / 12), so 0.06 and 0.24 here, overlaps 0.76 and 0.54. */
    o.iou = 0.7f;
    cr_assert_eq(nms(d, 3, 1, YOLORT_HEAD_FREE, &o, out), 1);
    o.iou = 0.78f;
    cr_assert_eq(nms(d, 3, 1, YOLORT_HEAD_FREE, &o, out), 3);
}

Test(rt_tasks, nms_refuses)
{
    const float d[8] = {0};
    yolort_detection out[1];
    yolort_nms_opts o;
    size_t n;
    yolort_nms_opts_init(&o, sizeof o);
    o.rotated = 1;
    cr_expect_eq(yolort_nms(d, 1, 1, YOLORT_HEAD_FREE, &o, work, out, 1, &n), YOLORT_ARG);
    o.extra = -1;
    cr_expect_eq(yolort_nms(d, 1, 1, YOLORT_HEAD_FREE, &o, work, out, 1, &n), YOLORT_ARG);
    o.rotated = 0;
    cr_expect_eq(yolort_nms(d, 1, 1, YOLORT_HEAD_FREE, &o, work, out, 1, &n), YOLORT_ARG);
    o.extra = 1;
    cr_expect_eq(yolort_nms(d, 1, 1, YOLORT_HEAD_FREE, &o, work, out, 1, &n), YOLORT_OK);
}

/* Numbers after the classes of a head with anchors make its rows longer, and nothing else. */
Test(rt_tasks, longer_rows)
{
    const float d[2 * 8] = {5, 5, 2, 2, 0.9f, 1, 0.25f, -3, 9, 9, 2, 2, 0.8f, 1, 0.5f, 4};
    yolort_detection out[MOST];
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.extra = 2;
    cr_assert_eq(nms(d, 2, 1, YOLORT_HEAD_ANCHOR, &o, out), 2);
    cr_expect(out[1].row == 1 && out[1].x1 == 8 && out[1].score == 0.8f);
    yolort_info info = {.head = YOLORT_HEAD_ANCHOR, .nc = 1, .coefficients = 2};
    float extra[2];
    cr_assert_eq(yolort_extra(d, 2, &info, 1, extra), YOLORT_OK);
    cr_expect(extra[0] == 0.5f && extra[1] == 4);
}

/* --- what rows have beside boxes -------------------------------------------------------------------------- */

static yolort_placement half(void)
{
    yolort_placement p; /* 20 x 10 in 10 x 10: two rows of padding above, three below */
    cr_assert_eq(yolort_letterbox_plan(20, 10, 10, 10, YOLORT_SQUARE, 1, 1, &p), YOLORT_OK);
    return p;
}

Test(rt_tasks, keypoints)
{
    /* One row of one class and two points of three numbers; and a second row. */
    const float d[11 * 2] = {5, 0, 5, 0, 2, 0, 2, 0, 0.9f, 0, 3, 0, 4, 0, 0.7f, 0, 99, 0, -5, 0, 0.1f, 0};
    yolort_info info = {.head = YOLORT_HEAD_FREE, .nc = 1, .points = 2, .point_dims = 3};
    yolort_placement p = half();
    float v[6];
    cr_assert_eq(yolort_extra_count(&info), 6);
    cr_assert_eq(yolort_extra(d, 2, &info, 0, v), YOLORT_OK);
    yolort_unletterbox_points(v, 2, 3, info.head, &p, 20, 10);
    cr_expect(v[0] == 6 && v[1] == 4 && v[2] == 0.7f, "%g %g %g", (double)v[0], (double)v[1], (double)v[2]);
    cr_expect(v[3] == 20 && v[4] == 0 && v[5] == 0.1f);
}

/* 4 by 2 in the source, turned by a quarter: 2 by 4, not turned, unless rounding put it just below the quarter. */
Test(rt_tasks, turned_box_in_the_source)
{
    const float d[6] = {5, 5, 2, 1, 0.9f, 1.57079633f};
    yolort_info info = {.head = YOLORT_HEAD_FREE, .nc = 1, .angles = 1};
    yolort_placement p = half();
    yolort_detection box = {.row = 0};
    yolort_turned t;
    cr_assert_eq(yolort_turn(d, 1, &info, &p, 20, 10, &box, &t), YOLORT_OK);
    cr_expect(t.cx == 10 && t.cy == 6);
    int upright = t.w == 2 && t.h == 4 && fabsf(t.angle) < 1e-6f; /* or just below a quarter, where that lies below pi / 2 */
    int turned_back = t.w == 4 && t.h == 2 && fabsf(t.angle - 1.57079633f) < 1e-6f;
    cr_expect(upright || turned_back);
    cr_expect(fabsf(box.x1 - 9) < 1e-5f && fabsf(box.x2 - 11) < 1e-5f && fabsf(box.y1 - 4) < 1e-5f &&
              fabsf(box.y2 - 8) < 1e-5f);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += t.corner[i][0];
    cr_expect(fabsf(sum - 40) < 1e-4f);
}

Test(rt_tasks, extras_refuse)
{
    const float d[6] = {5, 5, 2, 1, 0.9f, 0};
    yolort_info info = {.head = YOLORT_HEAD_FREE, .nc = 1, .angles = 1}, plain = {.head = YOLORT_HEAD_FREE, .nc = 1};
    yolort_placement p = half();
    yolort_detection box = {.row = 0}, off = {.row = 1}, below = {.row = -1};
    yolort_turned t;
    float v[1];
    cr_expect_eq(yolort_extra_count(NULL), 0);
    cr_expect_eq(yolort_extra(NULL, 1, &info, 0, v), YOLORT_ARG);
    cr_expect_eq(yolort_extra(d, 1, &info, 1, v), YOLORT_ARG);
    cr_expect_eq(yolort_extra(d, 1, &info, -1, v), YOLORT_ARG);
    cr_expect_eq(yolort_turn(d, 1, NULL, &p, 20, 10, &box, &t), YOLORT_ARG);
    cr_expect_eq(yolort_turn(d, 1, &plain, &p, 20, 10, &box, &t), YOLORT_ARG);
    cr_expect_eq(yolort_turn(d, 1, &info, &p, 20, 10, &off, &t), YOLORT_ARG);
    cr_expect_eq(yolort_turn(d, 1, &info, &p, 20, 10, &below, &t), YOLORT_ARG);
}

/* Whatever stands in the rows, points lie in the picture and boxes are sorted. */
Test(rt_tasks, not_numbers)
{
    const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 0};
    enum { N = sizeof odd / sizeof *odd };
    float d[6 * N];
    yolort_info info = {.head = YOLORT_HEAD_FREE, .nc = 1, .angles = 1};
    yolort_placement p = half();
    yolort_detection out[MOST];
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.extra = o.rotated = 1;
    for (int shift = 0; shift < N; shift++) {
        for (int k = 0; k < 6; k++)
            for (int i = 0; i < N; i++)
                d[k * N + i] = k == 4 ? 0.9f : odd[(i * (k + 1) + shift) % N];
        size_t n = nms(d, N, 1, YOLORT_HEAD_FREE, &o, out);
        for (size_t i = 0; i < n; i++) {
            yolort_turned t;
            cr_assert_eq(yolort_turn(d, N, &info, &p, 20, 10, &out[i], &t), YOLORT_OK);
            cr_expect(out[i].x1 >= 0 && out[i].x2 <= 20 && out[i].y1 >= 0 && out[i].y2 <= 10);
        }
        float v[6];
        memcpy(v, odd, sizeof v);
        yolort_unletterbox_points(v, 3, 2, YOLORT_HEAD_FREE, &p, 20, 10);
        for (int i = 0; i < 6; i++)
            cr_expect(v[i] >= 0 && v[i] <= (i % 2 ? 10 : 20));
    }
}

/* --- masks ------------------------------------------------------------------------------------------------ */

static double room[4096];

static int ones(const uint8_t *v, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += v[i];
    return sum;
}

/* Left half above zero, 4 x 4 prototypes, a picture of the input's size 16 x 16: the sign changes half-way. */
Test(rt_tasks, mask_of_the_input)
{
    float v[16];
    uint8_t out[256];
    const float one = 1, minus = -2;
    for (int i = 0; i < 16; i++)
        v[i] = i % 4 < 2 ? 1 : -1;
    yolort_proto p = {v, 1, 4, 4};
    yolort_detection all = {.x2 = 16, .y2 = 16}, part = {1.5f, 2, 9.25f, 4.001f, 0, 0, 0};
    cr_assert_leq(yolort_mask_work_size(&p), sizeof room);
    cr_assert_eq(yolort_mask(&p, &one, &all, 16, 16, room, out, sizeof out), YOLORT_OK);
    for (int i = 0; i < 256; i++)
        cr_assert_eq(out[i], i % 16 < 8, "%d", i);
    cr_assert_eq(yolort_mask(&p, &minus, &all, 16, 16, room, out, sizeof out), YOLORT_OK);
    cr_expect(ones(out, 256) == 128 && out[15] && !out[0]);
    cr_assert_eq(yolort_mask(&p, &one, &part, 16, 16, room, out, sizeof out), YOLORT_OK);
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16; x++)
            cr_assert_eq(out[16 * y + x], y >= 2 && y < 5 && x >= 2 && x < 8, "%d %d", x, y);
}

/* 32 x 16 in 16 x 16: rows 4 to 11 of the input, 1 and 2 of the prototypes, are the picture. */
Test(rt_tasks, mask_without_the_padding)
{
    float v[16];
    uint8_t out[512];
    const float one = 1;
    for (int i = 0; i < 16; i++)
        v[i] = i / 4 == 1 ? 1 : i / 4 == 2 ? -1 : 50;
    yolort_proto p = {v, 1, 4, 4};
    yolort_detection all = {.x2 = 32, .y2 = 16};
    cr_assert_eq(yolort_mask(&p, &one, &all, 32, 16, room, out, sizeof out), YOLORT_OK);
    for (int i = 0; i < 512; i++)
        cr_assert_eq(out[i], i / 32 < 8, "%d", i);
}

Test(rt_tasks, masks_of_no_numbers)
{
    const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    float v[16];
    uint8_t out[256];
    for (int i = 0; i < 16; i++)
        v[i] = odd[i % 4];
    yolort_proto p = {v, 1, 4, 4};
    for (int k = 0; k < 4; k++) {
        yolort_detection d = {odd[k], odd[(k + 1) % 4], odd[(k + 2) % 4], odd[(k + 3) % 4], 0, 0, 0};
        cr_assert_eq(yolort_mask(&p, &odd[k], &d, 16, 16, room, out, sizeof out), YOLORT_OK);
        for (int i = 0; i < 256; i++)
            cr_assert(out[i] <= 1);
    }
}

Test(rt_tasks, mask_refuses)
{
    float v[16] = {0}, c = 1;
    uint8_t out[256];
    yolort_proto p = {v, 1, 4, 4}, none = {NULL, 1, 4, 4}, flat = {v, 1, 0, 4}, many = {v, 4097, 4, 4};
    yolort_detection d = {.x2 = 1};
    cr_expect_eq(yolort_mask_work_size(NULL), 0);
    cr_expect_eq(yolort_mask(&none, &c, &d, 16, 16, room, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&flat, &c, &d, 16, 16, room, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&many, &c, &d, 16, 16, room, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, NULL, &d, 16, 16, room, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, &c, NULL, 16, 16, room, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, &c, &d, 16, 16, NULL, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, &c, &d, 16, 16, (char *)room + 1, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, &c, &d, 0, 16, room, out, 256), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, &c, &d, 16, 16, room, out, 255), YOLORT_ARG);
    cr_expect_eq(yolort_mask(&p, &c, &d, 16, 16, room, out, 256), YOLORT_OK);
}

/* --- maps ------------------------------------------------------------------------------------------------- */

/* 4 x 2 in 4 x 4: rows 1 and 2. Class 1 wins in the right half, NaN never. */
Test(rt_tasks, labels)
{
    float v[3 * 16];
    uint16_t out[8];
    yolort_placement p;
    cr_assert_eq(yolort_letterbox_plan(4, 2, 4, 4, YOLORT_SQUARE, 1, 1, &p), YOLORT_OK);
    for (int i = 0; i < 16; i++) {
        int padding = i / 4 < 1 || i / 4 > 2;
        v[i] = padding ? 0 : i % 4 < 2 ? 1 : -1;
        v[16 + i] = 0;
        v[32 + i] = padding ? 9 : NAN;
    }
    cr_assert_eq(yolort_labels(v, 3, &p, 4, 2, out, 8), YOLORT_OK);
    for (int i = 0; i < 8; i++)
        cr_expect_eq(out[i], i % 4 >= 2, "%d: %d", i, out[i]);
    v[4] = NAN; /* the first class is no better */
    cr_assert_eq(yolort_labels(v, 2, &p, 4, 2, out, 8), YOLORT_OK);
    cr_expect_eq(out[0], 1);
}

/* 2 x 2 enlarged to 4 x 4: the second class is 0, 1.5, 4.5, 6 along a row, and better than 1 from the second pixel on. */
Test(rt_tasks, labels_between_pixels)
{
    static const float v[8] = {1, 1, 1, 1, 0, 6, 0, 6};
    uint16_t out[16];
    yolort_placement p;
    cr_assert_eq(yolort_letterbox_plan(4, 4, 2, 2, YOLORT_SQUARE, 1, 1, &p), YOLORT_OK);
    cr_assert_eq(yolort_labels(v, 2, &p, 4, 4, out, 16), YOLORT_OK);
    for (int i = 0; i < 16; i++)
        cr_expect_eq(out[i], i % 4 >= 1, "%d: %d", i, out[i]);
}

Test(rt_tasks, depths)
{
    const float v[4] = {0, 4, 8, 12}; /* 2 x 2 */
    float out[16];
    yolort_placement p;
    cr_assert_eq(yolort_letterbox_plan(4, 4, 2, 2, YOLORT_SQUARE, 1, 1, &p), YOLORT_OK);
    cr_assert_eq(yolort_depths(v, &p, 4, 4, out, 16), YOLORT_OK);
    cr_expect(out[0] == 0 && out[1] == 1 && out[2] == 3 && out[3] == 4);
    cr_expect(out[4] == 2 && out[12] == 8 && out[15] == 12);
}

Test(rt_tasks, maps_refuse)
{
    const float v[4] = {0};
    float out[4];
    uint16_t label[4];
    yolort_placement p, off;
    cr_assert_eq(yolort_letterbox_plan(2, 2, 2, 2, YOLORT_SQUARE, 1, 1, &p), YOLORT_OK);
    cr_expect_eq(yolort_labels(NULL, 1, &p, 2, 2, label, 4), YOLORT_ARG);
    cr_expect_eq(yolort_labels(v, 0, &p, 2, 2, label, 4), YOLORT_ARG);
    cr_expect_eq(yolort_labels(v, 65537, &p, 2, 2, label, 4), YOLORT_ARG);
    cr_expect_eq(yolort_labels(v, 1, &p, 2, 2, label, 3), YOLORT_ARG);
    cr_expect_eq(yolort_depths(v, NULL, 2, 2, out, 4), YOLORT_ARG);
    cr_expect_eq(yolort_depths(v, &p, 2, 2, NULL, 4), YOLORT_ARG);
    cr_expect_eq(yolort_depths(v, &p, 2, 0, out, 4), YOLORT_ARG);
    cr_expect_eq(yolort_depths(v, &p, 2, 2, out, 3), YOLORT_ARG);
    off = p;
    off.left = 1;
    cr_expect_eq(yolort_depths(v, &off, 2, 2, out, 4), YOLORT_ARG);
    off = p;
    off.top = INT_MAX;
    off.bottom = INT_MAX;
    cr_expect_eq(yolort_depths(v, &off, 2, 2, out, 4), YOLORT_ARG);
}
