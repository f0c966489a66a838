/* What the files share that work with the kernels of service.h (service.c, service_pictures.c, service_masks.c). */
#ifndef RT_SERVED_H
#define RT_SERVED_H

#include "detect.h"
#include "picture.h"
#include "service.h"

const struct rt_service *rt_service_of(const yolort_context *c);

/* At least so much memory. Neither between begin and end, nor while what lies there is in use. */
yolort_status rt_ensure(yolort_context *c, struct rt_taken *t, int pinned, size_t bytes, const struct rt_error *e);

/* The next `bytes` of memory of which the size alone is sought when base is NULL; what lies in it begins so far apart. */
void *rt_carve(uint8_t *base, size_t *used, size_t bytes);
size_t rt_apart(size_t bytes);

/* After a failure: what is still under way reads memory of the caller's. */
void rt_abandon(yolort_context *c, void *stream);

/* Where part i - 1 of a call ends, when they are timed. */
yolort_status rt_mark_part(yolort_context *c, int i, const struct rt_error *e);

/* Pictures of a call of a kernel, from `first` on. */
struct rt_group {
    int first, n;
    yolort_picture picture[YM_PICTURES];
    yolort_placement place[YM_PICTURES];
    int on_device[YM_PICTURES];
};

/* service_pictures.c: memory for the pictures of a call, and, between begin and end, pictures into the network's input; marks 0 to 2. */
yolort_status rt_pictures_ensure(yolort_context *c, const struct rt_request *r, struct rt_group *g, const struct rt_error *e);
yolort_status rt_pictures_put(yolort_context *c, const struct rt_request *r, struct rt_group *g, const struct rt_error *e);

#endif
