/* From pictures to boxes, with a module whose boxes are known beforehand. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "modbuild.h"
#include "runtime/yolort.h"

static struct modbuild built;
static uint8_t *bytes;
static yolort_module *module;
static yolort_context *context;

/* `built` is ready. */
static void open_module(void)
{
    size_t size;
    char text[256];
    bytes = modbuild_finish(&built, &size);
    cr_assert_eq(yolort_load(&module, bytes, size, text, sizeof text), YOLORT_OK, "%s", text);
    cr_assert_eq(yolort_context_new(&context, module, NULL), YOLORT_OK);
}

static void close_module(void)
{
    yolort_context_free(context);
    yolort_module_free(module);
    free(bytes);
}

static uint8_t white[40 * 40 * 3];

static yolort_image picture(int width, int height)
{
    return (yolort_image){white, width, height, 0};
}

static void expect_box(const yolort_detection *d, int cls, float score, const float *box)
{
    cr_expect_eq(d->cls, cls);
    cr_expect_eq(d->score, score);
    cr_expect(d->x1 == box[0] && d->y1 == box[1] && d->x2 == box[2] && d->y2 == box[3], "%g %g %g %g", (double)d->x1,
              (double)d->y1, (double)d->x2, (double)d->y2);
}

/* 16 x 8 in 8 x 8: half the size, two rows of padding above. 20 x 20: scaled alike on both axes. */
Test(rt_detect, two_pictures)
{
    yolort_image images[] = {picture(16, 8), picture(20, 20)};
    yolort_detection d[20];
    size_t counts[2];
    modbuild_init(&built);
    open_module();
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(yolort_detect(context, images, 1, NULL, d, 10, counts), YOLORT_OK, "%s", yolort_error(context));
        cr_assert_eq(yolort_detect(context, images, 2, NULL, d, 10, counts), YOLORT_OK, "%s", yolort_error(context));
        cr_assert(counts[0] == 2 && counts[1] == 1);
        expect_box(&d[0], 0, 0.9f, (const float[]){2, 0, 6, 2});
        expect_box(&d[1], 1, 0.8f, (const float[]){8, 4, 16, 8});
        expect_box(&d[10], 1, 0.7f, (const float[]){7.5f, 5, 12.5f, 15});
        cr_expect(d[0].row == 0 && d[1].row == 1);
    }
    close_module();
}

Test(rt_detect, options)
{
    yolort_image image = picture(8, 8);
    yolort_nms_opts o;
    yolort_detection d[2];
    size_t count;
    const uint8_t dogs[] = {0, 1};
    modbuild_init(&built);
    built.meta.conf = 0.85f;
    open_module();
    cr_assert_eq(yolort_detect(context, &image, 1, NULL, d, 2, &count), YOLORT_OK);
    cr_expect_eq(count, 1);
    yolort_nms_opts_init(&o, sizeof o);
    cr_assert_eq(yolort_detect(context, &image, 1, &o, d, 2, &count), YOLORT_OK);
    cr_expect_eq(count, 2);
    o.classes = dogs;
    cr_assert_eq(yolort_detect(context, &image, 1, &o, d, 2, &count), YOLORT_OK);
    cr_assert_eq(count, 1);
    cr_expect_eq(d[0].cls, 1);
    o.conf = NAN;
    cr_expect_eq(yolort_detect(context, &image, 1, &o, d, 2, &count), YOLORT_ARG);
    cr_expect(strstr(yolort_error(context), "bad options"));
    o.conf = 0;
    o.size = 1;
    cr_expect_eq(yolort_detect(context, &image, 1, &o, d, 2, &count), YOLORT_ARG);
    close_module();
}

/* A square of side 2 on its corner: the upright box around it. Whatever `extra` the caller has is not asked for. */
Test(rt_detect, turned_boxes_come_upright)
{
    yolort_image image = picture(8, 8);
    yolort_nms_opts o;
    yolort_detection d[2];
    size_t count;
    modbuild_init(&built);
    built.meta.nc = 1, built.meta.angles = 1;
    built.nname = 1;
    built.constant[5 * MB_ROWS] = 0.785398163f;
    open_module();
    yolort_nms_opts_init(&o, sizeof o);
    o.extra = 7;
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(yolort_detect(context, &image, 1, k ? &o : NULL, d, 2, &count), YOLORT_OK, "%s", yolort_error(context));
        cr_assert_eq(count, 1);
        cr_expect_float_eq(d[0].x1, 2 - sqrtf(2), 1e-5);
        cr_expect_float_eq(d[0].y2, 2 + sqrtf(2), 1e-5);
    }
    close_module();
}

/* Bindings of the caller and of yolort_detect do not touch each other. */
Test(rt_detect, beside_bindings)
{
    static float in[2 * MB_ELEMENTS], echo[2 * MB_ELEMENTS];
    yolort_image images[] = {picture(8, 8), picture(8, 8)};
    yolort_detection d[4];
    size_t counts[2];
    modbuild_init(&built);
    open_module();
    for (int i = 0; i < 2 * MB_ELEMENTS; i++) in[i] = (float)i;
    yolort_bind(context, MB_IMAGES, in, sizeof in);
    yolort_bind(context, MB_ECHO, echo, sizeof echo);
    for (int k = 1; k <= 2; k++) {
        memset(echo, 0, sizeof echo);
        cr_assert_eq(yolort_run(context, 2, NULL), YOLORT_OK);
        cr_expect_arr_eq(in, echo, sizeof in);
        memset(echo, 0, sizeof echo);
        cr_assert_eq(yolort_detect(context, images, k, NULL, d, 2, counts), YOLORT_OK);
        cr_expect_eq(counts[0], 2);
        cr_expect_eq(echo[5], 0);
    }
    close_module();
}

/* A rect module takes what letterboxes to its very size. */
Test(rt_detect, rect)
{
    yolort_detection d[2];
    size_t count;
    modbuild_init(&built);
    built.meta.letterbox = YOLORT_RECT;
    open_module();
    const int good[][2] = {{8, 8}, {40, 40}, {16, 10}}, bad[][2] = {{16, 8}, {8, 16}, {40, 16}};
    for (int i = 0; i < 3; i++) {
        yolort_image image = picture(good[i][0], good[i][1]);
        cr_expect_eq(yolort_detect(context, &image, 1, NULL, d, 2, &count), YOLORT_OK, "%s", yolort_error(context));
        image = picture(bad[i][0], bad[i][1]);
        cr_expect_eq(yolort_detect(context, &image, 1, NULL, d, 2, &count), YOLORT_ARG);
    }
    cr_expect_str_eq(yolort_error(context), "detect: image 0 (40 x 16) becomes 8 x 4, this module takes 8 x 8");
    close_module();
}

Test(rt_detect, refuses)
{
    yolort_image image = picture(8, 8), none = {0}, thin = picture(8, 8);
    yolort_detection d[2];
    size_t count;
    thin.row_bytes = 23;
    modbuild_init(&built);
    open_module();
    cr_expect_eq(yolort_detect(NULL, &image, 1, NULL, d, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_detect(context, NULL, 1, NULL, d, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_detect(context, &image, 1, NULL, NULL, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_detect(context, &image, 1, NULL, d, 2, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_detect(context, &image, 0, NULL, d, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_detect(context, &image, 3, NULL, d, 2, &count), YOLORT_ARG);
    cr_expect_str_eq(yolort_error(context), "detect: 3 images of at most 2", "before the pictures are looked at");
    cr_expect_eq(yolort_detect(context, &none, 1, NULL, d, 2, &count), YOLORT_ARG);
    cr_expect_str_eq(yolort_error(context), "detect: image 0 is 0 x 0");
    cr_expect_eq(yolort_detect(context, &thin, 1, NULL, d, 2, &count), YOLORT_ARG);
    cr_expect(strstr(yolort_error(context), "short rows"));
    cr_expect_eq(yolort_detect(context, &image, 1, NULL, NULL, 0, &count), YOLORT_OK);
    cr_expect_eq(count, 0);
    close_module();
}

Test(rt_detect, without_its_tensors)
{
    yolort_image image = picture(8, 8);
    yolort_detection d[2];
    size_t count;
    for (int k = 0; k < 3; k++) {
        modbuild_init(&built);
        if (k == 0) built.io[MB_INPUT_U8].name = modbuild_string(&built, "other");
        if (k == 1) built.io[MB_DECODED].name = modbuild_string(&built, "other");
        if (k == 2) built.meta.head = YOLORT_HEAD_NONE;
        open_module();
        cr_expect_eq(yolort_detect(context, &image, 1, NULL, d, 2, &count), YOLORT_UNSUPPORTED);
        close_module();
    }
}
