#include "frontend/cli/output.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"person", "a \"b\"\\\n\xff\xc3\xa9"};

static const yolort_detection detections[] = {
    {10.0f, 20.5f, 30.25f, 40.1234f, 0.91f, 0, 7},
    {0, 0, 100, 50, 0.3333333f, 1, 8},
};

static char *render(const struct cli_format *f, const struct cli_record *r, size_t n)
{
    struct cli_text t = {0};
    struct cli_count before = {0, 0};
    f->begin(&t);
    for (size_t i = 0; i < n; i++) {
        f->image(&t, &r[i], &before);
        before.images++;
        before.detections += r[i].n;
    }
    f->end(&t);
    cr_assert_eq(t.failed, 0);
    return t.p ? t.p : strdup("");
}

static const struct cli_record two[] = {
    {.path = "dir/000000000139.jpg", .width = 100, .height = 50, .names = names, .nc = 2, .ms = -1},
    {.path = "dir/000000000139.jpg", .width = 100, .height = 50, .d = detections, .n = 2, .names = names, .nc = 2, .ms = 12.34},
};

Test(cli_output, json_is_the_contract)
{
    char *s = render(&cli_format_json, two, 2);
    json_t *root = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root, "%s", s);
    cr_expect_eq(json_integer_value(json_object_get(root, "version")), 1);
    json_t *images = json_object_get(root, "images");
    cr_assert_eq(json_array_size(images), 2);
    cr_expect_eq(json_array_size(json_object_get(json_array_get(images, 0), "detections")), 0);
    json_t *im = json_array_get(images, 1), *d = json_array_get(json_object_get(im, "detections"), 0);
    cr_expect_str_eq(json_string_value(json_object_get(im, "path")), "dir/000000000139.jpg");
    cr_expect_eq(json_integer_value(json_object_get(im, "width")), 100);
    cr_expect_eq(json_integer_value(json_object_get(im, "height")), 50);
    cr_expect_eq(json_integer_value(json_object_get(d, "class")), 0);
    cr_expect_str_eq(json_string_value(json_object_get(d, "name")), "person");
    cr_expect_float_eq(json_number_value(json_object_get(d, "score")), 0.91, 1e-6);
    json_t *box = json_object_get(d, "box");
    cr_assert_eq(json_array_size(box), 4);
    cr_expect_float_eq(json_number_value(json_array_get(box, 3)), 40.123, 1e-9);
    d = json_array_get(json_object_get(im, "detections"), 1);
    cr_expect_str_eq(json_string_value(json_object_get(d, "name")), "a \"b\"\\\n\xef\xbf\xbd\xc3\xa9");
    json_decref(root);
    free(s);
}

Test(cli_output, json_text_is_stable)
{
    char *s = render(&cli_format_json, &two[1], 1);
    cr_expect_str_eq(s,
                     "{\"version\":1,\"images\":[\n"
                     "{\"path\":\"dir/000000000139.jpg\",\"width\":100,\"height\":50,\"detections\":[\n"
                     " {\"class\":0,\"name\":\"person\",\"score\":0.91,\"box\":[10.0,20.5,30.25,40.123]},\n"
                     " {\"class\":1,\"name\":\"a \\\"b\\\"\\\\\\u000a\\ufffd\xc3\xa9\",\"score\":0.333333,"
                     "\"box\":[0.0,0.0,100.0,50.0]}]}\n]}\n");
    free(s);
}

Test(cli_output, txt_is_relative_to_the_picture)
{
    char *s = render(&cli_format_txt, two, 2);
    cr_expect_str_eq(s, "0 0.20125 0.606234 0.2025 0.392468 0.91\n1 0.5 0.5 1.0 1.0 0.333333\n");
    free(s);
}

Test(cli_output, coco_is_a_list_of_results)
{
    struct cli_record named = two[1];
    named.path = "street.01.png";
    const struct cli_record records[] = {two[0], two[1], named};
    char *s = render(&cli_format_coco, records, 3);
    json_t *root = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root, "%s", s);
    cr_assert_eq(json_array_size(root), 4);
    json_t *d = json_array_get(root, 0), *bbox = json_object_get(d, "bbox");
    cr_expect_eq(json_integer_value(json_object_get(d, "image_id")), 139);
    cr_expect_str_eq(json_string_value(json_object_get(d, "file_name")), "000000000139.jpg");
    cr_expect_eq(json_integer_value(json_object_get(d, "category_id")), 0);
    cr_expect_float_eq(json_number_value(json_array_get(bbox, 0)), 10, 1e-9);
    cr_expect_float_eq(json_number_value(json_array_get(bbox, 2)), 20.25, 1e-9);
    cr_expect_float_eq(json_number_value(json_array_get(bbox, 3)), 19.623, 1e-9);
    d = json_array_get(root, 2);
    cr_expect_str_eq(json_string_value(json_object_get(d, "image_id")), "street.01");
    json_decref(root);
    free(s);
}

Test(cli_output, nothing_found_is_still_a_document)
{
    static const struct cli_format *const all[] = {&cli_format_json, &cli_format_coco};
    for (int i = 0; i < 4; i++) {
        char *s = render(all[i / 2], two, (size_t)(i % 2));
        json_t *root = json_loads(s, 0, NULL);
        cr_expect_not_null(root, "%s", s);
        json_decref(root);
        free(s);
    }
}

Test(cli_output, table_is_for_people)
{
    char *s = render(&cli_format_table, &two[1], 1);
    cr_expect_str_eq(s,
                     "dir/000000000139.jpg: 100 x 50, 2 objects, 12.3 ms\n"
                     "  class                  score        x1        y1        x2        y2\n"
                     "  person                 0.910      10.0      20.5      30.2      40.1\n"
                     "  a \"b\"\\??\xc3\xa9              0.333       0.0       0.0     100.0      50.0\n");
    free(s);
}

Test(cli_output, numbers)
{
    static const struct {
        double v;
        int decimals;
        const char *text;
    } cases[] = {{0, 3, "0.0"},
                 {-0.0001, 3, "0.0"},
                 {-0.5, 1, "-0.5"},
                 {1.5, 0, "2"},
                 {1e14, 3, "100000000000000.0"},
                 {NAN, 3, "null"},
                 {INFINITY, 3, "null"},
                 {-1e16, 3, "null"},
                 {0.1234567, 6, "0.123457"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cli_text t = {0};
        cli_text_number(&t, cases[i].v, cases[i].decimals);
        cr_expect_str_eq(t.p, cases[i].text);
        cli_text_free(&t);
    }
}

/* Every two-byte and many three-byte strings give JSON that a strict reader takes. */
Test(cli_output, strings_are_always_utf8)
{
    for (int i = 1; i < 65536; i++) {
        struct cli_text t = {0};
        char s[4] = {(char)(i >> 8 ? i >> 8 : 0x7f), (char)(i & 255), (char)(i * 7 & 255), 0};
        cli_text_json(&t, s);
        json_t *v = json_loads(t.p, JSON_DECODE_ANY, NULL);
        cr_assert_not_null(v, "%04x: %s", (unsigned)i, t.p);
        json_decref(v);
        cli_text_free(&t);
    }
}

/* What a terminal obeys, or what turns the text around it: of one byte, of two (C1) and of three. */
Test(cli_output, strings_are_harmless)
{
    struct cli_text t = {0};
    cli_text_json(&t, "a\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\xc3\xa9\"\\\xf0\x9f\x90\x88\xe2\x80");
    cr_expect_str_eq(t.p, "\"a\\u001b[2J\\u007f\\u009b\\u202e\\u2066\\u2028\xc3\xa9\\\"\\\\\xf0\x9f\x90\x88\\ufffd\\ufffd\"");
    cli_text_free(&t);
    cli_text_plain(&t, "a\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\x9b\xc3\xa9", 10);
    cr_expect_str_eq(t.p, "a?[2J????\xc3\xa9");
    cli_text_free(&t);
    cli_text_plain(&t, "\xe2\x80", 4);
    cr_expect_str_eq(t.p, "??  ");
    cli_text_free(&t);
}

/* --- other tasks --- */

static const yolort_detection one[] = {{10, 20, 30, 40, 0.5f, 0, 0}};
static const float points[] = {10, 25, 0.75f, 50, 50, 0.25f};
static const yolort_turned turned[] = {{20, 30, 8, 4, 0.5f, {{1, 2}, {3, 4}, {5, 6}, {7, 8}}}};
static uint32_t runs[] = {3, 2, 4995};
static const struct cli_rle masks[] = {{runs, 3, 100, 50}};

static struct cli_record plain(void)
{
    return (struct cli_record){.path = "7.png", .width = 100, .height = 50, .d = one, .n = 1, .names = names, .nc = 2, .ms = -1};
}

static void expect_text(const struct cli_format *f, const struct cli_record *r, const char *part)
{
    char *s = render(f, r, 1);
    cr_expect_not_null(strstr(s, part), "%s is not in %s", part, s);
    if (f == &cli_format_json || f == &cli_format_coco) {
        json_t *root = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
        cr_expect_not_null(root, "%s", s);
        json_decref(root);
    }
    free(s);
}

Test(cli_output, keypoints)
{
    struct cli_record r = plain();
    r.points = points;
    r.npoint = 2;
    r.point_dims = 3;
    expect_text(&cli_format_json, &r, "\"keypoints\":[[10.0,25.0,0.75],[50.0,50.0,0.25]]");
    expect_text(&cli_format_coco, &r, "\"keypoints\":[10.0,25.0,0.75,50.0,50.0,0.25]");
    expect_text(&cli_format_txt, &r, "0 0.2 0.6 0.2 0.4 0.1 0.5 0.75 0.5 1.0 0.25 0.5\n");
    r.npoint = 3;
    r.point_dims = 2;
    expect_text(&cli_format_json, &r, "\"keypoints\":[[10.0,25.0],[0.75,50.0],[50.0,0.25]]");
    expect_text(&cli_format_coco, &r, "\"keypoints\":[10.0,25.0,1.0,0.75,50.0,1.0,50.0,0.25,1.0]");
}

Test(cli_output, turned_boxes)
{
    struct cli_record r = plain();
    r.turned = turned;
    expect_text(&cli_format_json, &r,
                "\"obb\":{\"cx\":20.0,\"cy\":30.0,\"w\":8.0,\"h\":4.0,\"angle\":0.5,\"corners\":[[1.0,2.0],[3.0,4.0],");
    expect_text(&cli_format_coco, &r, "\"rbox\":[20.0,30.0,8.0,4.0,0.5],\"poly\":[1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0]");
    expect_text(&cli_format_txt, &r, "0 0.01 0.04 0.03 0.08 0.05 0.12 0.07 0.16 0.5\n");
}

Test(cli_output, masks)
{
    struct cli_record r = plain();
    r.masks = masks;
    expect_text(&cli_format_json, &r, "\"mask\":{\"size\":[50,100],\"counts\":[3,2,4995]}");
    expect_text(&cli_format_coco, &r, "\"segmentation\":{\"size\":[50,100],\"counts\":\"32");
    expect_text(&cli_format_txt, &r, "0 0.0 0.06 0.01 0.06 0.01 0.1 0.0 0.1 0.5\n");
}

Test(cli_output, classes)
{
    const yolort_class top[] = {{1, 0.75f}, {0, 0.25f}};
    struct cli_record r = plain();
    r.n = 0;
    r.top = top;
    r.ntop = 2;
    expect_text(&cli_format_json, &r, "\"detections\":[],\"probs\":[\n {\"class\":1,");
    expect_text(&cli_format_json, &r, "{\"class\":0,\"name\":\"person\",\"prob\":0.25}]");
    expect_text(&cli_format_txt, &r, "0.25 person\n");
    expect_text(&cli_format_table, &r, "7.png: 100 x 50\n");
    expect_text(&cli_format_table, &r, "  person                0.2500\n");
}

Test(cli_output, maps)
{
    static uint16_t labels[5000];
    static float depths[5000];
    struct cli_record r = plain();
    r.n = 0;
    for (int i = 100; i < 5000; i++)
        labels[i] = 1;
    depths[7] = 50;
    r.labels = labels;
    expect_text(&cli_format_json, &r, "\"labels\":{\"size\":[50,100],\"runs\":[0,100,1,4900]}");
    expect_text(&cli_format_table, &r, "  person                  2.0 %\n");
    r.labels = NULL;
    r.depths = depths;
    expect_text(&cli_format_json, &r, "\"depth\":{\"least\":0.0,\"mean\":0.01,\"most\":50.0}");
    expect_text(&cli_format_table, &r, "  depth     0.000 to    50.000, mean     0.010\n");
}
