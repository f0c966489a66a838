/* A call of yolort_detect, yolort_detect_batch or yolort_predict, and what detect.c and the service files share of it. */
#ifndef RT_DETECT_H
#define RT_DETECT_H

#include "object.h"

struct rt_request {
    const yolort_image *images; /* NULL: pictures */
    const yolort_picture *pictures;
    const yolort_placement *placements; /* NULL: the module's letterbox */
    int n;
    int any;                    /* answers other than boxes will do */
    yolort_answer answer;       /* found */
    yolort_nms_opts opts;       /* chosen and right */
    yolort_detection *out;
    size_t capacity, *counts;
    float *extra;               /* NULL: not wanted */
    yolort_turned *turned;      /* NULL: not wanted */
    float *prob;
    uint16_t *const *labels;
    float *const *depths;
    void *stream;
    int proto;                  /* io; -1: not wanted */
    int input, output;          /* found */
    size_t rows;                /* found: of decoded, for one image */
};

/* Masks of some boxes of a picture. */
struct rt_mask_request {
    yolort_proto proto;         /* data: where the prototypes lie, in the device's memory or the host's */
    int src_width, src_height;
    const yolort_detection *boxes;
    const float *extra;
    size_t each, n;             /* each: numbers of a box in extra */
    uint8_t *out;
    void *stream;
};

/* detect.c: picture i, settled, and where it goes (classifiers: nowhere). */
yolort_status rt_request_picture(const yolort_context *c, const struct rt_request *r, int i, yolort_picture *out, yolort_placement *p,
                                 const struct rt_error *e);

/* detect.c: all of it; opts NULL: the module's. */
yolort_status rt_request_run(yolort_context *c, struct rt_request *r, const yolort_nms_opts *opts);

/* service.c: whether the device does all of it; and that. */
int rt_can_serve(const yolort_context *c, const struct rt_request *r);
yolort_status rt_serve(yolort_context *c, const struct rt_request *r, const struct rt_error *e);

/* service_masks.c */
yolort_status rt_serve_masks(yolort_context *c, const struct rt_mask_request *r, const struct rt_error *e);

/* Inputs beside the picture are as the caller has bound them. */
void rt_take_beside(yolort_context *c, struct rt_bindings *b);

#endif
