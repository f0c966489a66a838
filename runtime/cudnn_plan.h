/* Convolutions of cuDNN: the graph of operations, engines that do it, and what they run as. */
#ifndef RT_CUDNN_PLAN_H
#define RT_CUDNN_PLAN_H

#include "cudnn_api.h"
#include "module.h"

/* Descriptors that are given back together, the last made first. */
struct cudnn_bag {
    const struct cudnn_api *api;
    void **made;
    size_t n, room;
    int error;         /* of the first call that failed: nothing is called after it */
    const char *call;  /* what that was */
};

/* What is computed with: a handle, or the description of a device (a descriptor of cuDNN's) on which nothing can run. */
struct cudnn_where {
    const struct cudnn_api *api;
    void *handle, *device;
};

struct cudnn_plan {
    struct cudnn_bag bag;
    void *plan;
    uint64_t space_bytes; /* working memory */
};

/* An engine as it is chosen: the fields of a struct ym_engine. */
struct cudnn_choice {
    uint32_t number, nknob;
    struct ym_knob knob[YM_MAX_KNOBS];
    uint64_t space_bytes;
};

enum { RT_CUDNN_DETERMINISTIC = 1 };

/* Makes a checked convolution ready to run by an engine. It is freed on failure. */
yolort_status rt_cudnn_plan(struct cudnn_plan *out, const struct cudnn_where *w, const struct ym_conv *c, const struct cudnn_choice *by,
                            const struct rt_error *e);
void rt_cudnn_plan_free(struct cudnn_plan *p);

/* Puts it on the handle's stream. NULL for what is not there. */
struct cudnn_memory {
    const void *x, *weights, *bias, *added;
    void *out, *space;
};
yolort_status rt_cudnn_run(const struct cudnn_plan *p, void *handle, const struct cudnn_memory *m, const struct rt_error *e);

/* The first `most` engines that cuDNN proposes, best first, that it says to work here with at most so much memory, sum in F32 and change nothing by
 * transforms; with RT_CUDNN_DETERMINISTIC, those that always give the same. */
yolort_status rt_cudnn_suggest(const struct cudnn_where *w, const struct ym_conv *c, int flags, uint64_t most_space, struct cudnn_choice *out,
                               size_t most, size_t *n, const struct rt_error *e);

#endif
