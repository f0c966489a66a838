/* One build of a network: what model.c sets up, lower.c keeps, and heads tell. */
#ifndef FE_LOWER_H
#define FE_LOWER_H

#include "activation.h"
#include "model.h"

/* Ultralytics, the yolov5 and yolov3 repositories, YOLOX. */
enum fe_dialect { FE_UL = 1, FE_Y5 = 2, FE_X = 4 };

struct fe_unit { /* a module of the network; its state_dict entries come before its children's */
    const char *name, *path;
    const struct fe_node *node;
    struct fe_unit *parent, *first, *last, *next;
    struct fe_want *want;
    size_t nwant, cap_want;
};

struct fe_misfit { /* a weight whose shape in the file is not the one wanted */
    const char *name, *expected, *found;
};

struct fe_wrong {
    struct yir_loc row;
    const char *text;
};

enum { FE_MAX_LEVELS = 8, FE_TOLD = 10 };

struct fe_head_facts { /* what a head tells about itself */
    enum fe_head kind;
    const char *task; /* NULL: detect */
    int nl, reg_max, na;
    int nm, kpts, kpt_dims; /* mask coefficients; keypoints and numbers of each */
    double stride[FE_MAX_LEVELS];
    int letterbox;
    float iou;
    bool spare;       /* of two sets of branches one is not given out */
    bool one2one;     /* no overlaps to suppress: `decoded` has corners, the best are taken */
};

/* A value that is a list of values: runs of its channels. */
struct fe_parts {
    yir_ref whole;
    const yir_ref *part;
    int n;
};

struct fe_lower {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct yir_func *func;
    const struct fe_weights *weights; /* NULL: none */
    bool rule;  /* weights are filled by rule */
    bool data;  /* the file's tensors are used, shapes included; otherwise shapes are what the yaml says */
    bool final; /* the build whose warnings are told */

    enum fe_dialect dialect;
    struct fe_act act; /* default activation */
    double eps;        /* of batch normalisation, where nothing else is said */
    const struct fe_value *description; /* the whole model file: keys that arguments name */
    int64_t nc, reg_max;
    bool nc_fixed;     /* by weights or option, whatever the head's row says */
    bool legacy;       /* class branch of plain convolutions */
    bool one2one;      /* of two sets of branches, the one without suppression of overlaps is asked for */
    bool both;         /* both sets are given out */
    const char *scale; /* its letter, or "" */
    yir_ref text;      /* embeddings of the classes as tokens [n,512,nc,1]; NIL before the first use */
    bool text_asked;
    yir_ref text_now;  /* what modules see in its place; NIL: itself */
    struct fe_parts *parts;
    size_t nparts, cap_parts;
    bool depthwise;    /* X: convolutions of blocks and head are depthwise */
    int64_t na;        /* Y5: anchors a level, by the yaml; 0: no anchors there */
    double width, max_channels;
    const char **reported; /* module names that were complained of */
    size_t nreported, cap_reported;
    int64_t rounded[2]; /* first channel count that rounding up to 8 alone changed: as written, result */
    struct yir_loc rounded_at;
    double stride[FE_MAX_LEVELS]; /* of the levels, from the build before; 0: to be computed */
    int64_t input_height;

    struct yir_loc row; /* the row being lowered */
    struct fe_unit *root, *at;
    bool moved; /* the function's place is not yet that of `at` */
    bool failed, full;
    size_t nunit;
    uint64_t nelem;

    struct fe_misfit first;
    size_t nmisfit;
    uint8_t *used; /* tensors of the file */
    struct fe_wrong wrong[FE_TOLD]; /* the first of nwrong weights that are missing or have another shape */
    size_t nwrong;
    bool strict;
    struct fe_head_facts head;
};

/* Starts a build; the function's input is added by the caller. */
void fe_lower_init(struct fe_lower *l);

/* Enters a row's module, whose path may have several parts. */
void fe_enter(struct fe_lower *l, const char *path, struct yir_loc row);

/* Reports at the current row and marks the build failed. */
YIR_PRINTF(3, 4) int fe_fail(struct fe_lower *l, enum yir_diag_id id, const char *fmt, ...);
/* At another place of the description; the row's when loc is none. */
YIR_PRINTF(4, 5)
int fe_fail_at(struct fe_lower *l, struct yir_loc loc, enum yir_diag_id id, const char *fmt, ...);
/* Warns, in the final build only. */
YIR_PRINTF(3, 4) void fe_warn(struct fe_lower *l, enum yir_diag_id id, const char *fmt, ...);

/* A weight that no state_dict has, or whose value is implied: `data` is borrowed. Not among the wants. */
yir_ref fe_constant(struct fe_lower *l, const char *name, const int64_t *dim, int rank, const float *data);

/* As fe_weight, for a matrix or vector that the IR holds as the weight of a 1x1 convolution: [o,i,1,1], [c,1,1,1]. */
yir_ref fe_weight_map(struct fe_lower *l, const char *name, const int64_t *dim, int rank, unsigned flags);
/* As fe_weight, in `parts` equal runs of its rows, each a weight of its own; matrices as in fe_weight_map. */
int fe_weight_parts(struct fe_lower *l, const char *name, const int64_t *dim, int rank, int parts, yir_ref *out);
/* One number, as a vector of one element. */
yir_ref fe_weight_scalar(struct fe_lower *l, const char *name);
/* Numbers that the file may have; elsewhere they have the value `implied`. No learnable weight. */
yir_ref fe_weight_implied(struct fe_lower *l, const char *name, const int64_t *dim, int rank, float implied);

/* The embeddings of the classes: network input `txt_feats` [n,nc,width] as tokens. */
yir_ref fe_text(struct fe_lower *l, int64_t width);

/* Names the value x as a list; NULL when it is none. */
void fe_add_parts(struct fe_lower *l, yir_ref x, const yir_ref *part, int n);
const struct fe_parts *fe_parts_of(const struct fe_lower *l, yir_ref x);

/* Tensor "<path>.<name>" of the weights file, in any build, marked as used; or NULL. */
const struct fe_tensor *fe_tensor(struct fe_lower *l, const char *name);

/* Reports the weights that are missing or have another shape: one error, the first FE_TOLD by notes. */
void fe_lower_wrong(struct fe_lower *l);
/* Warnings that are known only at the end: other widths, unused tensors, infinities (when strict, errors). */
void fe_lower_finish(struct fe_lower *l);

/* All wants in state_dict order. */
struct fe_want *fe_wants(struct fe_lower *l, size_t *n);
/* Of one row: learnable elements. */
int64_t fe_unit_params(const struct fe_unit *u);

/* The function without the ops and weights that no output needs (trim.c). */
struct yir_func *fe_trim(const struct yir_func *old);

const char *fe_shape_text(struct yir_arena *a, const int64_t *dim, int rank);

#endif
