/* Model description + weights -> IR. */
#ifndef FE_MODEL_H
#define FE_MODEL_H

#include "ir/ir.h"
#include "weights.h"

/* --- yaml (yaml.c) ------------------------------------------------------------------------------------------ */

/* Reads a model file by libyaml events into a literal tree, with PyYAML's scalar rules; NULL after
 * reporting. */
const struct fe_value *fe_yaml_read(struct yir_arena *a, struct yir_diags *d, const char *path);
const struct fe_value *fe_yaml_parse(struct yir_arena *a, struct yir_diags *d, const char *name,
                                     const char *text, size_t len);

/* --- building (model.c) ------------------------------------------------------------------------------------- */

struct fe_model_opts {
    const char *path;                /* model file: gives the name, and the scale of a yaml */
    const char *scale;               /* --scale, or NULL */
    int nc;                          /* --nc, 0: yaml's or the weights' */
    int batch, height, width;        /* height 0: the checkpoint's size, else the family's default */
    bool layers;                     /* extra outputs layer.I, layer.I.P */
    const struct fe_weights *weights; /* NULL: shapes only (weights have no data) */
    bool rule;                       /* rule weights fill every tensor */
    bool strict;                     /* weights that are no usable numbers are an error */
    bool one2one;                    /* of a head with two sets of branches, the one without suppression of overlaps */
};

enum fe_head { FE_HEAD_NONE, FE_HEAD_FREE, FE_HEAD_ANCHOR, FE_HEAD_X, FE_HEAD_BEST }; /* as yolort_head */

struct fe_layer { /* a row of the description */
    int index;
    const char *type;      /* "Conv", "Conv*3" when repeated in sequence */
    int64_t params;        /* learnable elements and dfl, without BatchNorm statistics and buffers */
    struct yir_loc loc;
};

struct fe_want {           /* a weight that the model wants, un-fused, in state_dict order */
    const char *name;
    int rank;
    int64_t dim[FE_MAX_RANK];
    bool counted;          /* in `params` */
};

struct fe_model {
    struct yir_func *func; /* un-fused fp32; input `images`; outputs `decoded` and what the head gives */
    const char *name;      /* "yolov8n" */
    const char *task;      /* "detect", "segment", "pose", "obb", "classify", "semantic", "depth" */
    enum fe_head head;     /* NONE: no boxes; BEST: no overlaps to suppress */
    bool one2one;          /* `decoded` is [n, 4+nc+extra, A] with corners, of which the best are taken: no overlaps */
    int nm, kpts, kpt_dims; /* mask coefficients; keypoints and numbers of each; 0 in other tasks */
    int nc, nl, reg_max, stride_max, na;
    const double *stride;  /* nl */
    const char *const *names; /* nc */
    int letterbox;         /* yolort_letterbox_mode of the family: 0 square, 2 topleft */
    float conf, iou;
    int max_det;
    int batch, height, width; /* rounded up to stride_max */
    const struct fe_layer *layer;
    int nlayer;
    const struct fe_want *want;
    size_t nwant;
    const char *scale;     /* letter used, or "" */
    float input_div;       /* pixels are divided by this on their way in: 255, or 1 */
    bool input_bgr;
};

/* root: the description (FE_DICT). NULL after reporting, several mistakes at once where that helps. */
const struct fe_model *fe_model_build(struct yir_arena *a, struct yir_types *t, struct yir_diags *d,
                                      const struct fe_value *root, const struct fe_model_opts *o);

/* A model file that does not exist under its own name but does without its scale (yolov8n.yaml ->
 * yolov8.yaml, yolox_nano.yaml -> yolox.yaml), or path itself. Name and scale still come from `path`. */
const char *fe_model_file(struct yir_arena *a, const char *path);

/* One line a module: name and arguments (`yoloc --list-modules`). */
void fe_modules_list(struct yir_str *out);

/* --- what lowerings call (lower.c) -------------------------------------------------------------------------- */

/* Lowerings build the network with these alone, never yir_ directly: a text form of modules will call them
 * too. */
struct fe_lower; /* state of one build: function, weights, current path, defaults */

/* Enters the child `name` ("cv1", "m.0") and leaves it again. The pickled object there, if any, is then
 * consulted by fe_int and fe_float. */
void fe_child(struct fe_lower *l, const char *name);
void fe_leave(struct fe_lower *l);

/* Children in state_dict order (comma-joined), for modules that do not first use them in that order. */
void fe_order(struct fe_lower *l, const char *names);

/* A parameter of the current module: the pickled attribute `key` when there is one, else `implied`. `at`
 * picks an element of a tuple; a scalar serves for every `at`. */
int64_t fe_int(struct fe_lower *l, const char *key, int at, int64_t implied);
double fe_float(struct fe_lower *l, const char *key, double implied);

enum {
    FE_W_OPTIONAL = 1, /* used only where the weights file has it; not among the wants */
    FE_W_BUFFER = 2,   /* state that is no parameter */
    FE_W_SOFT0 = 4     /* << dimension: the file may settle it */
};

/* The weight "<path>.<name>" as an IR weight. dim: wanted shape; where the file's differs, soft dimensions
 * are taken from it (W_DISAGREE at the end), others are E_WEIGHT. NIL when optional and absent, and after an
 * error. */
yir_ref fe_weight(struct fe_lower *l, const char *name, const int64_t *dim, int rank, unsigned flags);

/* Shape of "<path>.<name>" in the weights file, as far as it is to be followed: dim[] and the rank, or 0. */
int fe_shape(struct fe_lower *l, const char *name, int64_t *dim);
/* Whether the weights file, where there is one, has "<path>.<name>"; `implied` without a file. */
bool fe_has(struct fe_lower *l, const char *name, bool implied);

/* A state_dict entry that no op reads. */
void fe_declare(struct fe_lower *l, const char *name, const int64_t *dim, int rank, bool counted);

int64_t fe_channels(struct fe_lower *l, yir_ref x);
yir_ref fe_op(struct fe_lower *l, enum yir_code c, const yir_ref *src, int nsrc, const void *attr);

#endif
