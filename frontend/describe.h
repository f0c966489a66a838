/* A model description: rows, scales and keys, checked and typed, before anything is built. */
#ifndef FE_DESCRIBE_H
#define FE_DESCRIBE_H

#include "lower.h"

struct fe_row {
    int index;
    const int *from;   /* rows, -1: the network's input */
    int nfrom;
    double repeats;    /* as written: 0, or a number with a fraction */
    const char *module;
    const struct fe_value *args;
    const char *path;  /* "model.3", or the row's own name */
    struct yir_loc loc, module_loc;
};

struct fe_scale {
    const char *name;  /* "" when there are no scales */
    double depth, width, max_channels;
    bool depthwise;
};

struct fe_desc {
    const struct fe_value *root;
    struct fe_row *row;
    int nrow;
    struct fe_scale *scale;
    int nscale;        /* at least 1 */
    int64_t nc;        /* 0: not given */
    int64_t ch, reg_max, na;
    bool anchors;      /* the head's row takes anchors */
    struct fe_act act;
    float input_div;
    bool input_bgr;
    int letterbox;
    int64_t size;      /* default of the family, 0: not given */
};

/* 0, or -1 after reporting whatever is wrong. */
int fe_describe_model(struct yir_arena *a, struct yir_diags *d, const struct fe_value *root,
                      struct fe_desc *out);

#endif
