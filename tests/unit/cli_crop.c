/* What classifiers get of real photos, byte for byte. */
#include "frontend/cli/image.h"
#include "runtime/yolort.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "datafile.h"
#include "sha256.h"

static void check_picture(const json_t *result)
{
    char name[300], path[1200], hex[65];
    struct cli_image im;
    struct cli_error e;
    int side = (int)test_json_number(result, "imgsz");
    size_t bytes = (size_t)side * (size_t)side * 3;
    uint8_t *dst = malloc(bytes);
    snprintf(name, sizeof name, "images/%s", test_json_text(result, "image"));
    test_data_path(path, sizeof path, name);
    cr_assert_eq(cli_image_load(&im, path, &e), 0, "%s", name);
    yolort_image source = {im.rgb, im.width, im.height, 0};
    cr_assert_eq(yolort_crop(&source, side, side, dst, bytes), YOLORT_OK);
    test_sha256(dst, bytes, hex);
    cr_expect_str_eq(hex, test_json_text(result, "input_sha256"), "%s", name);
    cli_image_free(&im);
    free(dst);
}

Test(cli_crop, photos)
{
    static const char *const stored[] = {"expected/boxes/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.json",
                                         "expected/boxes/pt_ultralytics8.4_yolo11n-cls_plastic_lagnadlinus.json"};
    for (size_t k = 0; k < sizeof stored / sizeof *stored; k++) {
        if (!test_data_exists(stored[k])) cr_skip_test("no %s below the test data folder", stored[k]);
        json_t *root = test_data_json(stored[k]), *result;
        size_t i;
        cr_assert_not_null(root);
        json_array_foreach(test_json_list(root, "results"), i, result)
            check_picture(result);
        json_decref(root);
    }
}
