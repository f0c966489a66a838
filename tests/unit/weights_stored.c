/* The real checkpoints of the test data. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "datafile.h"
#include "readcheck.h"

struct stored { /* a file of the test data: what is known about it from its own Python tools */
    const char *name;
    size_t ntensor, nnames;
    const char *stored_in, *class_name, *first_name;
    int64_t nc;
};

static const struct stored files[] = {
    {"pt_yolov5n_coco80_tobymuller233.pt", 350, 80, "model", "Model", "person", 80},
    {"pt_yolov5n_duckie_danhgithub.pt", 349, 4, "model", "DetectionModel", "duckie", 4},
    {"pt_yolov3fork_head_plus_final.pt", 367, 1, "model", "DetectionModel", "head", 1},
    {"pt_yolov3fork_head_pruned20_FUSED_fp32.pt", 127, 1, "model", "DetectionModel", "head", 1},
    {"pt_ultralytics8.1_LeYOLONano_coco80.pt", 651, 80, "model", "DetectionModel", "person", 80},
    {"pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.pt", 158, 4, "model", "ClassificationModel", NULL, 4},
    {"pt_ultralytics8.3_espdet-pico_cat_224.pt", 628, 1, "model", "DetectionModel", NULL, 1},
    {"pt_ultralytics8.3_espdet-pico_cat_416.pt", 628, 1, "model", "DetectionModel", NULL, 1},
    {"pt_ultralytics8.4_espdet-pico_wheelchair_unstripped.pt", 628, 1, "ema", "DetectionModel", "wheelchair",
     1},
    {"pt_ultralytics8.4_yolo11n-cls_plastic_lagnadlinus.pt", 236, 5, "model", "ClassificationModel", NULL, 5},
    {"tiny_v5_anchor.pt", 349, 3, "ema", "DetectionModel", NULL, 3},
    {"tiny_v8_detect.pt", 355, 5, "model", "DetectionModel", "thing0", 5},
    {"tiny_v8_pose.pt", 397, 1, "ema", "PoseModel", NULL, 1},
    {"tiny_11_segment.pt", 561, 4, "model", "SegmentationModel", NULL, 4},
    {"tiny_11_obb.pt", 541, 6, "model", "OBBModel", NULL, 6},
    {"tiny_26_detect.pt", 727, 5, "model", "DetectionModel", NULL, 5},
    {"parts_v8_detect.pt", 355, 4, "model", "DetectionModel", NULL, 4},
    {"parts_v8_pose.pt", 397, 1, "model", "PoseModel", NULL, 1},
    {"parts_11_segment.pt", 561, 4, "model", "SegmentationModel", NULL, 4},
    {"parts_11_obb.pt", 541, 4, "model", "OBBModel", NULL, 4},
    {"parts_26_detect.pt", 708, 4, "model", "DetectionModel", NULL, 4},
};

static struct readcheck read_stored(const char *name)
{
    char file[256], path[1024];
    snprintf(file, sizeof file, "weights/%s", name);
    return readcheck_file(test_data_path(path, sizeof path, file));
}

static void check_stored(const struct stored *s)
{
    struct readcheck r = read_stored(s->name);
    cr_assert(r.w, "%s: %s", s->name, readcheck_text(&r));
    cr_assert_eq(r.w->ntensor, s->ntensor, "%s: %zu tensors", s->name, r.w->ntensor);
    cr_assert_str_eq(r.w->stored_in, s->stored_in, "%s", s->name);
    cr_assert_str_eq(r.w->root->class_name, s->class_name, "%s", s->name);
    cr_assert(r.w->names && r.w->names->n == s->nnames, "%s", s->name);
    if (s->first_name) cr_assert_str_eq(r.w->names->item[0]->s, s->first_name, "%s", s->name);
    int64_t nc = 0;
    cr_assert(fe_as_int(fe_get(r.w->yaml, "nc"), &nc) && nc == s->nc, "%s: nc %lld", s->name, (long long)nc);
    cr_assert_eq(fe_get(r.w->yaml, "backbone")->kind, FE_LIST);
    const struct fe_node *first = fe_weights_node(r.w, "model.0");
    cr_assert(first && fe_node_attr(first, "type"), "%s", s->name);
    for (size_t i = 0; i < r.w->ntensor; i++) {
        cr_assert_eq(fe_weights_find(r.w, r.w->tensor[i].name), &r.w->tensor[i]);
        cr_assert_eq(fe_tensor_nonfinite(&r.w->tensor[i]), 0, "%s: %s", s->name, r.w->tensor[i].name);
    }
    readcheck_end(&r);
}

Test(weights_stored, all_load)
{
    if (!test_data_exists("weights/tiny_v8_detect.pt")) cr_skip("no test data");
    for (size_t i = 0; i < YIR_COUNT(files); i++)
        check_stored(&files[i]);
}

Test(weights_stored, bad_files)
{
    static const struct {
        const char *name;
        enum yir_diag_id id;
        const char *part;
    } rows[] = {
        {"bad_html404_DongDz191_yolov5n.pt", E_PT_KIND, "web page"},
        {"bad_lfs_pointer_Yikinge_best.pt", E_PT_KIND, "Git LFS"},
        {"bad_truncated_zip_tahagaber_yolov5n.pt", E_ZIP, "cut off"},
        {"onnx_head_plus_final.onnx", E_PT_KIND, "ONNX"},
    };
    if (!test_data_exists("weights/tiny_v8_detect.pt")) cr_skip("no test data");
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct readcheck r = read_stored(rows[i].name);
        cr_assert(!r.w && readcheck_id(&r) == rows[i].id && strstr(readcheck_text(&r), rows[i].part),
                  "%s: %s", rows[i].name, readcheck_text(&r));
        cr_assert_eq(yir_diag_count(r.d), 1u);
        readcheck_end(&r);
    }
}

/* Attributes that lowering asks for, in a file of each line. */
Test(weights_stored, attributes)
{
    if (!test_data_exists("weights/pt_yolov5n_duckie_danhgithub.pt")) cr_skip("no test data");
    struct readcheck r = read_stored("pt_yolov5n_duckie_danhgithub.pt");
    int64_t i;
    double f;
    cr_assert(fe_as_float(fe_node_attr(fe_weights_node(r.w, "model.0.bn"), "eps"), &f) && f == 0.001);
    cr_assert_str_eq(fe_weights_node(r.w, "model.0.act")->class_name, "SiLU");
    cr_assert_str_eq(fe_weights_node(r.w, "model.24")->class_path, "models.yolo.Detect");
    cr_assert(fe_as_int(fe_node_attr(fe_weights_node(r.w, "model.24"), "nl"), &i) && i == 3);
    cr_assert(fe_as_int(fe_get(fe_get(r.w->top, "opt"), "imgsz"), &i) && i == 416);
    const struct fe_value *stride = fe_node_attr(r.w->root, "stride");
    cr_assert(stride->n == 3 && stride->item[0]->f == 8 && stride->item[2]->f == 32);
    const struct fe_tensor *anchors = fe_weights_find(r.w, "model.24.anchors");
    cr_assert(anchors && anchors->buffer && anchors->rank == 3 && anchors->dim[2] == 2);
    readcheck_end(&r);
    r = read_stored("pt_yolov3fork_head_plus_final.pt");
    cr_assert_str_eq(fe_weights_node(r.w, "model.0.act")->class_name, "ReLU");
    readcheck_end(&r);
    r = read_stored("pt_ultralytics8.2_yolov8n-cls_weather_29aarushi.pt");
    cr_assert(fe_as_float(fe_node_attr(fe_weights_node(r.w, "model.0.bn"), "eps"), &f) && f == 1e-5);
    readcheck_end(&r);
}
