/*
 * Trained checkpoints against stored boxes and raw outputs, through the command as a user would:
 *   expected YOLOC [--only NAME] [--share I/N] [--half] [COMPILE-OPTION...]
 * --share: each N-th of them from number I on, so that several processes share the work.
 * Bounds are those of fp32, or with --half those of half precision (struct bounds).
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datafile.h"
#include "network.h"

#define DEFAULT_CONF 0.25 /* of `yoloc predict` */

struct bounds {
    double raw_box, raw_part, raw_score; /* pixels and part of the value; scores and probabilities */
    double edge, overlap;                /* pixels, or instead of these at least so much in common */
    double score, prob, point, angle, mask; /* mask: part of its pixels */
    double near_conf;                    /* what is scored within this of the limit may be there or not */
    double ties;                         /* part of the boxes that may be those of other, as well scored rows, in another place */
    double faint;                        /* raw boxes of rows scored below are not compared: half precision leaves little of them */
};
static const struct bounds single_bounds = {0.005, 1e-4, 5e-5, 0.1, 2, 5e-4, 5e-5, 0.1, 1e-3, 0.005, 0, 0, 0};
/* Widths and heights of YOLOX are exponentials, so what rounding leaves of them is a part of the value. */
static const struct bounds half_bounds = {0.5, 0.04, 0.02, 1.5, 0.97, 0.02, 0.02, 1.5, 0.02, 0.05, 0.02, 0.1, 0.02};

struct checkpoint {
    const char *name;
    const char *compile; /* what is compiled; %D stands for the data folder */
    const char *boxes, *raw, *images; /* NULL: nothing is stored */
    const char *head; /* of results that tell theirs, those of this one */
    const char *beside; /* NULL, or with nothing stored: what each detection must have beside its box ("": nothing) */
};

static const struct checkpoint checkpoints[] = {
    {"yolov5n_coco80", "%D/weights/pt_yolov5n_coco80_tobymuller233.pt",
     "boxes/pt_yolov5n_coco80_tobymuller233.json", "raw/pt_yolov5n_coco80_tobymuller233.safetensors", "images", NULL, NULL},
    {"yolov5n_duckie", "%D/weights/pt_yolov5n_duckie_danhgithub.pt", "boxes/pt_yolov5n_duckie_danhgithub.json",
     "raw/pt_yolov5n_duckie_danhgithub.safetensors", "images", NULL, NULL},
    {"head_plus_final", "%D/weights/pt_yolov3fork_head_plus_final.pt", "boxes/pt_yolov3fork_head_plus_final.json",
     "raw/pt_yolov3fork_head_plus_final.safetensors", "images", NULL, NULL},
    {"head_pruned20", "%D/weights/pt_yolov3fork_head_pruned20_FUSED_fp32.pt",
     "boxes/pt_yolov3fork_head_pruned20_FUSED_fp32.json", "raw/pt_yolov3fork_head_pruned20_FUSED_fp32.safetensors",
     "images", NULL, NULL},
    {"yolox_nano", "models/yolox.yaml --weights models/demo/yolox_nano.safetensors", "boxes/yolox_nano.json",
     "raw/yolox_nano.safetensors", "images", NULL, NULL},
    {"leyolo_nano", "%D/weights/pt_ultralytics8.1_LeYOLONano_coco80.pt", "boxes/pt_ultralytics8.1_LeYOLONano_coco80.json",
     "raw/pt_ultralytics8.1_LeYOLONano_coco80.safetensors", "images", NULL, NULL},
    {"espdet_224", "%D/weights/pt_ultralytics8.3_espdet-pico_cat_224.pt", "boxes/pt_ultralytics8.3_espdet-pico_cat_224.json",
     "raw/pt_ultralytics8.3_espdet-pico_cat_224.safetensors", "images", NULL, NULL},
    {"espdet_416", "%D/weights/pt_ultralytics8.3_espdet-pico_cat_416.pt", "boxes/pt_ultralytics8.3_espdet-pico_cat_416.json",
     "raw/pt_ultralytics8.3_espdet-pico_cat_416.safetensors", "images", NULL, NULL},
    {"espdet_wheelchair", "%D/weights/pt_ultralytics8.4_espdet-pico_wheelchair_unstripped.pt",
     "boxes/pt_ultralytics8.4_espdet-pico_wheelchair_unstripped.json",
     "raw/pt_ultralytics8.4_espdet-pico_wheelchair_unstripped.safetensors", "images", NULL, NULL},
    {"cls_v8", "%D/weights/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.pt",
     "boxes/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.json",
     "raw/pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.safetensors", "images", NULL, NULL},
    {"cls_11", "%D/weights/pt_ultralytics8.4_yolo11n-cls_plastic_lagnadlinus.pt",
     "boxes/pt_ultralytics8.4_yolo11n-cls_plastic_lagnadlinus.json",
     "raw/pt_ultralytics8.4_yolo11n-cls_plastic_lagnadlinus.safetensors", "images", NULL, NULL},
    {"parts_v8", "%D/weights/parts_v8_detect.pt", "parts/parts_v8_detect.json", NULL, "images/parts", NULL, NULL},
    {"parts_v8_pose", "%D/weights/parts_v8_pose.pt", "parts/parts_v8_pose.json", NULL, "images/parts", NULL, NULL},
    {"parts_11_segment", "%D/weights/parts_11_segment.pt", "parts/parts_11_segment.json", NULL, "images/parts", NULL, NULL},
    {"parts_11_obb", "%D/weights/parts_11_obb.pt", "parts/parts_11_obb.json", NULL, "images/parts", NULL, NULL},
    {"parts_26_many", "%D/weights/parts_26_detect.pt --head one2many", "parts/parts_26_detect.json", NULL, "images/parts",
     "one2many", NULL},
    {"parts_26_one", "%D/weights/parts_26_detect.pt --head one2one", "parts/parts_26_detect.json", NULL, "images/parts",
     "one2one", NULL},
    {"tiny_v8", "%D/weights/tiny_v8_detect.pt", NULL, NULL, "images", NULL, ""},
    {"tiny_v5", "%D/weights/tiny_v5_anchor.pt", NULL, NULL, "images", NULL, ""},
    {"tiny_26", "%D/weights/tiny_26_detect.pt --head one2one", NULL, NULL, "images", NULL, ""},
    {"tiny_v8_pose", "%D/weights/tiny_v8_pose.pt", NULL, NULL, "images", NULL, "keypoints"},
    {"tiny_11_segment", "%D/weights/tiny_11_segment.pt", NULL, NULL, "images", NULL, "mask"},
    {"tiny_11_obb", "%D/weights/tiny_11_obb.pt", NULL, NULL, "images", NULL, "obb"},
};

struct run {
    const char *yoloc, *options, *scratch;
    const struct checkpoint *of;
    const struct bounds *bounds;
    double conf; /* of the results being compared */
    int faults, compared, ties, more;
    double worst_edge, worst_score;
    double worst_point, worst_angle, worst_mask; /* px, radians, share of its pixels */
};

static void fault(struct run *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("  %s: ", r->of->name);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    r->faults++;
}

/* --- the command ---------------------------------------------------------------------------------------- */

/* Runs `yoloc <words>` by the shell, its output into the file `out`; 0 when it exits with 0. */
static int command(struct run *r, const char *out, const char *words)
{
    size_t room = strlen(words) + strlen(out) + strlen(r->yoloc) + 64;
    char *line = malloc(room);
    if (!line)
        return -1;
    snprintf(line, room, "'%s' %s >'%s' </dev/null", r->yoloc, words, out);
    fflush(stdout);
    int rc = system(line);
    if (rc != 0)
        fault(r, "exit status %d of %s", rc, line);
    free(line);
    return rc;
}

/* The row's compile words with the data folder put in. */
static void compile_words(const struct checkpoint *c, char *out, size_t size)
{
    char folder[1024];
    const char *mark = strstr(c->compile, "%D");
    test_data_path(folder, sizeof folder, "");
    snprintf(out, size, "%s%s", mark ? folder : "", mark ? mark + 3 : c->compile);
}

/* The module of that size, compiled once. */
static int compile(struct run *r, int height, int width, char *module, size_t size)
{
    char what[1200], words[2600], log[600];
    compile_words(r->of, what, sizeof what);
    snprintf(module, size, "%s/%s-%dx%d.yoloc", r->scratch, r->of->name, width, height);
    snprintf(log, sizeof log, "%s/compile.log", r->scratch);
    snprintf(words, sizeof words, "compile %s --imgsz %d,%d %s -o '%s'", what, height, width, r->options,
             module);
    return access(module, R_OK) == 0 ? 0 : command(r, log, words);
}

/* --- raw outputs ---------------------------------------------------------------------------------------- */

static const yoloc_tensor *tensor_named(const yoloc_tensors *t, const char *name)
{
    for (size_t i = 0; i < yoloc_tensors_count(t); i++)
        if (strcmp(yoloc_tensors_at(t, i)->name, name) == 0)
            return yoloc_tensors_at(t, i);
    return NULL;
}

/* Rows of 5 + nc: four box numbers, then objectness and class scores. */
/* Rows of boxes are [.., N, 5 + classes] or, without objectness, columns of [.., 4 + classes, N]; probabilities have none. */
static int is_box(const yoloc_tensor *t, int64_t i)
{
    if (t->rank != 3)
        return 0;
    return (t->dim[1] < t->dim[2] ? i / t->dim[2] % t->dim[1] : i % t->dim[2]) < 4;
}

/* The objectness, or the best class score, of the row that element i belongs to. */
static double row_score(const yoloc_tensor *t, const float *data, int64_t i)
{
    int64_t rows = t->dim[2], channels = t->dim[1];
    if (channels >= rows)
        return (double)data[i / rows * rows + 4];
    double best = 0;
    for (int64_t c = 4; c < channels; c++)
        best = fmax(best, (double)data[i - i % (rows * channels) + c * rows + i % rows]);
    return best;
}

static void compare_raw(struct run *r, const yoloc_tensor *want, const yoloc_tensor *ours)
{
    if (!want || !ours || want->bytes != ours->bytes || want->rank != ours->rank ||
        memcmp(want->dim, ours->dim, (size_t)want->rank * sizeof want->dim[0]) != 0) {
        fault(r, "raw output is missing or has another shape");
        return;
    }
    const float *a = want->data, *b = ours->data;
    double worst_box = 0, worst_score = 0;
    for (size_t i = 0; i < want->bytes / sizeof *a; i++) {
        double off = fabs((double)a[i] - (double)b[i]);
        int box = is_box(want, (int64_t)i);
        if (box && r->bounds->faint > 0 && row_score(want, a, (int64_t)i) < r->bounds->faint)
            continue;
        double bound = box ? r->bounds->raw_box + r->bounds->raw_part * fabs((double)a[i]) : r->bounds->raw_score;
        if (!(off <= bound) && r->faults < 10)
            fault(r, "raw element %zu: %g, wanted %g", i, (double)b[i], (double)a[i]);
        double *worst = box ? &worst_box : &worst_score;
        *worst = fmax(*worst, off / (box ? bound : 1));
    }
    printf("  %s: raw boxes at most %.2g of their bound, scores %.2g\n", r->of->name, worst_box, worst_score);
}

static void check_raw(struct run *r)
{
    char stored[1200], module[600], out[600], words[3200], name[300], log[600];
    yoloc_opts o;
    yoloc_tensors *want = NULL, *ours = NULL;
    snprintf(name, sizeof name, "expected/%s", r->of->raw);
    test_data_path(stored, sizeof stored, name);
    snprintf(out, sizeof out, "%s/out.safetensors", r->scratch);
    snprintf(log, sizeof log, "%s/run.log", r->scratch);
    yoloc_opts_init(&o, sizeof o);
    yoloc *c = test_compiler(&o);
    if (!c || yoloc_tensors_read(c, stored, &want) != YOLOC_OK) {
        fault(r, "%s cannot be read", stored);
        yoloc_close(c);
        return;
    }
    const yoloc_tensor *picture = tensor_named(want, "input_u8");
    int failed = !picture || compile(r, (int)picture->dim[0], (int)picture->dim[1], module, sizeof module);
    snprintf(words, sizeof words, "run '%s' --in '%s' --out '%s'", module, stored, out);
    if (!failed && command(r, log, words) == 0 && yoloc_tensors_read(c, out, &ours) == YOLOC_OK)
        compare_raw(r, tensor_named(want, "output"), tensor_named(ours, tensor_named(ours, "decoded") ? "decoded" : "prob"));
    yoloc_tensors_free(want);
    yoloc_tensors_free(ours);
    yoloc_close(c);
}

/* --- boxes ---------------------------------------------------------------------------------------------- */

struct box {
    int cls;
    double score, edge[4];
};

static struct box box_of(const json_t *detection, const char *cls, const char *edges)
{
    struct box b = {(int)test_json_number(detection, cls), test_json_number(detection, "score"), {0}};
    const json_t *list = test_json_list(detection, edges);
    for (size_t i = 0; i < 4; i++)
        b.edge[i] = test_json_at(list, i);
    return b;
}

static double edge_distance(const struct box *a, const struct box *b)
{
    double worst = 0;
    for (int i = 0; i < 4; i++)
        worst = fmax(worst, fabs(a->edge[i] - b->edge[i]));
    return worst;
}

static double area(const double e[4])
{
    return fmax(0, e[2] - e[0]) * fmax(0, e[3] - e[1]);
}

static double overlap(const struct box *a, const struct box *b)
{
    double cut[4] = {fmax(a->edge[0], b->edge[0]), fmax(a->edge[1], b->edge[1]), fmin(a->edge[2], b->edge[2]),
                     fmin(a->edge[3], b->edge[3])};
    double common = area(cut), all = area(a->edge) + area(b->edge) - common;
    return all > 0 ? common / all : 0;
}

/* Our box that is this stored one: same class, largest overlap, above 0.9; -1: none. */
static int partner(const struct box *want, const json_t *ours)
{
    int best = -1;
    double most = 0.9;
    for (size_t i = 0; i < json_array_size(ours); i++) {
        struct box b = box_of(json_array_get(ours, i), "class", "box");
        if (b.cls != want->cls || overlap(want, &b) <= most)
            continue;
        most = overlap(want, &b);
        best = (int)i;
    }
    return best;
}

/* --- what detections have beside boxes ------------------------------------------------------------------- */

/* The largest distance between two lists of numbers, or of such lists. */
static double distance(const json_t *want, const json_t *ours)
{
    double worst = 0;
    if (!json_is_array(want))
        return fabs(json_number_value(want) - json_number_value(ours));
    if (json_array_size(want) != json_array_size(ours))
        return INFINITY;
    for (size_t i = 0; i < json_array_size(want); i++)
        worst = fmax(worst, distance(json_array_get(want, i), json_array_get(ours, i)));
    return worst;
}

static void bounded(struct run *r, const char *what, double off, double bound, double *worst)
{
    if (!(off <= bound))
        fault(r, "%s off by %.3g, at most %.3g is allowed", what, off, bound);
    *worst = fmax(*worst, off);
}

/* Pixels row by row; runs go row by row or column by column. free() */
static uint8_t *pixels_of(const json_t *mask, int by_columns, size_t *size)
{
    const json_t *sides = json_object_get(mask, "size"), *counts = json_object_get(mask, "counts");
    size_t height = (size_t)test_json_at(sides, 0), width = (size_t)test_json_at(sides, 1), at = 0;
    uint8_t *v = calloc(height * width + 1, 1);
    for (size_t k = 0; v && k < json_array_size(counts); k++)
        for (size_t n = (size_t)test_json_at(counts, k); n > 0 && at < height * width; n--, at++)
            v[by_columns ? at % height * width + at / height : at] = k % 2;
    *size = height * width;
    return v;
}

static void compare_mask(struct run *r, const json_t *want, const json_t *ours)
{
    size_t n, m, differ = 0, inside = 0;
    uint8_t *a = pixels_of(want, 0, &n), *b = pixels_of(ours, 1, &m);
    for (size_t i = 0; a && b && n == m && i < n; i++) {
        differ += a[i] != b[i];
        inside += a[i];
    }
    bounded(r, "mask", !a || !b || n != m || !inside ? INFINITY : (double)differ / (double)inside, r->bounds->mask, &r->worst_mask);
    free(a);
    free(b);
}

static void compare_turned(struct run *r, const json_t *want, const json_t *obb)
{
    static const char *const names[] = {"cx", "cy", "w", "h", "angle"};
    const json_t *list = json_object_get(want, "xywhr");
    for (size_t k = 0; k < 5; k++)
        bounded(r, names[k], fabs(test_json_at(list, k) - test_json_number(obb, names[k])), k < 4 ? r->bounds->point : r->bounds->angle,
                k < 4 ? &r->worst_point : &r->worst_angle);
    bounded(r, "corner", distance(json_object_get(want, "corners"), json_object_get(obb, "corners")), r->bounds->point, &r->worst_point);
}

static void compare_extras(struct run *r, const json_t *want, const json_t *ours)
{
    const json_t *points = json_object_get(want, "keypoints"), *mask = json_object_get(want, "mask_source");
    if (points)
        bounded(r, "keypoint", distance(points, json_object_get(ours, "keypoints")), r->bounds->point, &r->worst_point);
    if (json_object_get(want, "xywhr"))
        compare_turned(r, want, json_object_get(ours, "obb"));
    if (mask)
        compare_mask(r, mask, json_object_get(ours, "mask"));
}

/* Turned boxes, in order. */
static void compare_in_order(struct run *r, const char *image, const char *mode, const json_t *want, const json_t *ours)
{
    if (json_array_size(want) != json_array_size(ours))
        fault(r, "%s %s: %zu boxes, wanted %zu", image, mode, json_array_size(ours), json_array_size(want));
    for (size_t i = 0; i < json_array_size(want) && i < json_array_size(ours); i++) {
        const json_t *a = json_array_get(want, i), *b = json_array_get(ours, i);
        if (test_json_number(a, "cls") != test_json_number(b, "class"))
            fault(r, "%s %s: box %zu is of another class", image, mode, i);
        bounded(r, "score", fabs(test_json_number(a, "score") - test_json_number(b, "score")), r->bounds->score, &r->worst_score);
        compare_extras(r, a, b);
        r->compared++;
    }
}

/* Classes with probabilities that rounding may exchange are compared by these alone. */
static void compare_classes(struct run *r, const char *image, const json_t *want, const json_t *ours)
{
    if (json_array_size(want) != json_array_size(ours))
        fault(r, "%s: %zu classes, wanted %zu", image, json_array_size(ours), json_array_size(want));
    for (size_t i = 0; i < json_array_size(want) && i < json_array_size(ours); i++) {
        const json_t *a = json_array_get(want, i), *b = json_array_get(ours, i);
        if (test_json_number(a, "cls") != test_json_number(b, "class") && test_json_number(a, "prob") > 1e-4)
            fault(r, "%s: class %zu is another", image, i);
        bounded(r, "probability", fabs(test_json_number(a, "prob") - test_json_number(b, "prob")), r->bounds->prob, &r->worst_score);
        r->compared++;
    }
}

/* Ours that no stored box is partner of. */
static void check_extra(struct run *r, const char *image, const char *mode, const json_t *want, const json_t *ours)
{
    for (size_t i = 0; i < json_array_size(ours); i++) {
        struct box b = box_of(json_array_get(ours, i), "class", "box");
        int found = b.score < r->conf + r->bounds->near_conf;
        for (size_t k = 0; !found && k < json_array_size(want); k++) {
            struct box a = box_of(json_array_get(want, k), "cls", "xyxy");
            found = a.cls == b.cls && overlap(&a, &b) > 0.9;
        }
        r->more += !found;
        if (!found && r->bounds->ties == 0)
            fault(r, "%s %s: a box more, scored %.3g", image, mode, b.score);
    }
}

/* Stable results are met box for box; of others, those found by both are compared. */
static void compare_boxes(struct run *r, const char *image, const char *mode, const json_t *want,
                          const json_t *ours, int stable)
{
    if (stable && r->bounds->near_conf == 0 && json_array_size(want) != json_array_size(ours))
        fault(r, "%s %s: %zu boxes, wanted %zu", image, mode, json_array_size(ours), json_array_size(want));
    for (size_t i = 0; i < json_array_size(want); i++) {
        struct box a = box_of(json_array_get(want, i), "cls", "xyxy");
        int at = partner(&a, ours);
        if (at < 0) {
            int counts = stable && a.score >= r->conf + r->bounds->near_conf;
            r->ties += counts && r->bounds->ties > 0;
            if (counts && r->bounds->ties == 0)
                fault(r, "%s %s: box %zu is missing", image, mode, i);
            continue;
        }
        struct box b = box_of(json_array_get(ours, (size_t)at), "class", "box");
        double edge = edge_distance(&a, &b), score = fabs(a.score - b.score);
        int apart = edge > r->bounds->edge && overlap(&a, &b) < r->bounds->overlap;
        r->ties += apart;
        if ((apart && r->bounds->ties == 0) || !(score <= r->bounds->score))
            fault(r, "%s %s: box %zu: edges off by %.3g px, score by %.3g", image, mode, i, edge, score);
        r->worst_edge = fmax(r->worst_edge, edge);
        r->worst_score = fmax(r->worst_score, score);
        compare_extras(r, json_array_get(want, i), json_array_get(ours, (size_t)at));
        r->compared++;
    }
    if (stable)
        check_extra(r, image, mode, want, ours);
}

static json_t *detect_json(struct run *r, const char *module, const char *image, const char *mode,
                           const json_t *stored)
{
    char words[3000], out[600], path[1200], name[300], limits[100] = "";
    json_error_t e;
    snprintf(out, sizeof out, "%s/detect.json", r->scratch);
    snprintf(name, sizeof name, "%s/%s", r->of->images, image);
    test_data_path(path, sizeof path, name);
    if (json_object_get(stored, "conf"))
        snprintf(limits, sizeof limits, " --conf %.9g", test_json_number(stored, "conf"));
    if (json_object_get(stored, "iou") && !(r->of->head && strcmp(r->of->head, "one2one") == 0))
        snprintf(limits + strlen(limits), sizeof limits - strlen(limits), " --iou %.9g", test_json_number(stored, "iou"));
    snprintf(words, sizeof words, "predict '%s' '%s' --json%s%s", module, path, limits,
             strcmp(mode, "rect") == 0 ? " --rect" : "");
    if (command(r, out, words) != 0)
        return NULL;
    json_t *j = json_load_file(out, 0, &e);
    if (!j || test_json_number(j, "version") != 1 || json_array_size(test_json_list(j, "images")) != 1)
        fault(r, "%s: detect --json gives no version 1 with one image", image);
    return j;
}

static void check_size(struct run *r, const json_t *ours, const json_t *result)
{
    const json_t *want = test_json_list(result, "source_wh");
    if (test_json_number(ours, "width") != test_json_at(want, 0) ||
        test_json_number(ours, "height") != test_json_at(want, 1))
        fault(r, "%s: size of the source differs", test_json_text(result, "image"));
}

static void compare_answer(struct run *r, const json_t *result, const json_t *ours, const char *image, const char *mode)
{
    const json_t *flag = json_object_get(result, "stable"), *want = json_object_get(result, "boxes");
    const json_t *top = json_object_get(result, "top5"), *found = test_json_list(ours, "detections");
    check_size(r, ours, result);
    if (top) {
        compare_classes(r, image, top, json_object_get(ours, "probs"));
        return;
    }
    want = want ? want : test_json_list(result, "detections");
    if (json_object_get(json_array_get(want, 0), "xywhr"))
        compare_in_order(r, image, mode, want, found);
    else
        compare_boxes(r, image, mode, want, found, !flag || json_is_true(flag));
}

static void check_result(struct run *r, const json_t *stored, const json_t *result)
{
    char module[600];
    const char *image = test_json_text(result, "image"), *head = json_string_value(json_object_get(result, "head"));
    const char *mode = json_object_get(result, "mode") ? test_json_text(result, "mode") : "square";
    int size = (int)test_json_number(result, json_object_get(result, "size") ? "size" : "imgsz");
    if (head && r->of->head && strcmp(head, r->of->head) != 0)
        return;
    if (compile(r, size, size, module, sizeof module) != 0)
        return;
    r->conf = json_object_get(stored, "conf") ? test_json_number(stored, "conf") : DEFAULT_CONF;
    json_t *j = detect_json(r, module, image, mode, stored);
    const json_t *ours = json_array_get(json_object_get(j, "images"), 0);
    if (ours)
        compare_answer(r, result, ours, image, mode);
    json_decref(j);
}

/* A network whose outputs alone are stored (records_tiny): it finds something, each with what its task gives. */
static void check_runs(struct run *r)
{
    char module[600];
    json_t *limits = json_pack("{s:f}", "conf", 0.001);
    json_t *j = compile(r, 96, 128, module, sizeof module) == 0 ? detect_json(r, module, "bus.jpg", "square", limits) : NULL;
    json_decref(limits);
    const json_t *found = json_object_get(json_array_get(json_object_get(j, "images"), 0), "detections");
    for (size_t i = 0; i < json_array_size(found); i++, r->compared++)
        if (*r->of->beside && !json_object_get(json_array_get(found, i), r->of->beside))
            fault(r, "detection %zu has no %s", i, r->of->beside);
    if (!json_array_size(found))
        fault(r, "nothing was found");
    json_decref(j);
}

static void check_checkpoint(struct run *r)
{
    char name[300];
    snprintf(name, sizeof name, "expected/%s", r->of->boxes ? r->of->boxes : "");
    json_t *stored = r->of->boxes ? test_data_json(name) : NULL;
    size_t i;
    json_t *result;
    json_array_foreach(stored ? test_json_list(stored, "results") : NULL, i, result)
        check_result(r, stored, result);
    json_decref(stored);
    if (r->of->raw)
        check_raw(r);
    if (r->of->beside)
        check_runs(r);
    if (r->ties > r->bounds->ties * r->compared || r->more > r->ties)
        fault(r, "of %d boxes %d are elsewhere, %d more are there", r->compared, r->ties, r->more);
    printf("%-4s %s: %d boxes or classes, edges within %.3f px, scores within %.2g, points %.3f px, angles %.2g, masks %.2g\n",
           r->faults ? "FAIL" : "ok", r->of->name, r->compared, r->worst_edge, r->worst_score, r->worst_point,
           r->worst_angle, r->worst_mask);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char options[512] = "";
    const struct bounds *bounds = &single_bounds;
    const char *only = NULL, *scratch = getenv("YOLOC_TEST_SCRATCH");
    unsigned share = 0, shares = 1;
    if (argc < 2 || !scratch) {
        fprintf(stderr, "usage: YOLOC_TEST_SCRATCH=folder expected YOLOC [--only NAME] [--share I/N] [--half] [COMPILE-OPTION...]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--share") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%u/%u", &share, &shares) == 2 && shares)
            i++;
        else if (strcmp(argv[i], "--half") == 0)
            bounds = &half_bounds;
        else
            snprintf(options + strlen(options), sizeof options - strlen(options), "%s ", argv[i]);
    }
    if (!test_data_exists("expected/boxes")) {
        printf("skipped: no expected/boxes below the test data folder\n");
        return TEST_SKIP;
    }
    int faults = 0, boxes = 0, count = 0;
    for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints; i++) {
        struct run r = {.yoloc = argv[1], .options = options, .scratch = scratch, .of = &checkpoints[i], .bounds = bounds};
        if ((only && strcmp(only, checkpoints[i].name) != 0) || i % shares != share)
            continue;
        check_checkpoint(&r);
        faults += r.faults;
        boxes += r.compared;
        count++;
    }
    printf("%d checkpoints, %d boxes, %d faults\n", count, boxes, faults);
    return faults || !count;
}
