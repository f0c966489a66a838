#include "names.h"

/* The 80 classes of COCO detection, in the order every YOLO family numbers them.
 * clang-format off */
static const char *const coco[] = {
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow",
    "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee",
    "skis", "snowboard", "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard",
    "tennis racket", "bottle", "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple",
    "sandwich", "orange", "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch",
    "potted plant", "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard",
    "cell phone", "microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase",
    "scissors", "teddy bear", "hair drier", "toothbrush",
};
/* clang-format on */

static const char *text_of(struct yir_arena *a, const struct fe_value *v)
{
    if (v->kind == FE_STR || v->kind == FE_OPAQUE) return v->s;
    struct yir_str s = {.arena = a};
    fe_print(&s, v);
    return s.text ? s.text : "";
}

/* Index of the i-th entry: its place in a list, its key in a dict (numbers, or texts of numbers). */
static int64_t index_of(struct yir_arena *a, const struct fe_value *names, size_t i)
{
    int64_t k = -1;
    if (names->kind == FE_LIST) return (int64_t)i;
    const struct fe_value *key = names->key[i];
    if (key->kind == FE_STR) key = fe_literal(a, key->s, key->loc);
    return fe_as_int(key, &k) ? k : -1;
}

const char *const *fe_names(struct yir_arena *a, struct yir_diags *d, const struct fe_weights *w,
                            const struct fe_value *root, int64_t nc)
{
    const char **out = yir_alloc_n(a, (size_t)nc + 1, sizeof *out);
    const struct fe_value *names = w && w->names ? w->names : fe_get(root, "names");
    bool listed = names && (names->kind == FE_LIST || names->kind == FE_DICT);
    for (size_t i = 0; listed && i < names->n; i++) {
        int64_t k = index_of(a, names, i);
        if (k >= 0 && k < nc) out[k] = text_of(a, names->item[i]);
    }
    if (listed && names->n != (size_t)nc) {
        struct yir_loc loc = names->loc.line || !w ? names->loc : (struct yir_loc){w->file, 0, 0};
        yir_diag(d, loc, W_NAMES, "%zu class names are given for %lld classes", names->n, (long long)nc);
    }
    for (int64_t k = 0; k < nc; k++)
        if (!out[k])
            out[k] =
                !listed && nc == (int64_t)YIR_COUNT(coco) ? coco[k] : yir_format(a, "%lld", (long long)k);
    return out;
}
