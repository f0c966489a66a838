/* A call of yolort_detect or yolort_detect_batch, and what detect.c and service.c share of it. */
#ifndef RT_DETECT_H
#define RT_DETECT_H

#include "object.h"

struct rt_request {
    const yolort_image *images; /* NULL: pictures */
    const yolort_picture *pictures;
    int n;
    yolort_nms_opts opts;       /* chosen and right */
    yolort_detection *out;
    size_t capacity, *counts;
    float *extra;               /* NULL: not wanted */
    void *stream;
    int input, decoded;         /* io */
    size_t rows;                /* of decoded, for one image */
};

/* detect.c: picture i, settled, and where it goes. */
yolort_status rt_request_picture(const yolort_context *c, const struct rt_request *r, int i, yolort_picture *out, yolort_placement *p,
                                 const struct rt_error *e);

/* service.c: whether the device does all of it; and that. */
int rt_can_serve(const yolort_context *c, const struct rt_request *r);
yolort_status rt_serve(yolort_context *c, const struct rt_request *r, const struct rt_error *e);

/* Inputs beside the picture are as the caller has bound them. */
void rt_take_beside(yolort_context *c, struct rt_bindings *b);

#endif
