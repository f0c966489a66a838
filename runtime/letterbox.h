#ifndef RT_LETTERBOX_H
#define RT_LETTERBOX_H

#include "yolort.h"

/* Working memory of a resize to this width, for any source; 8-byte aligned. */
size_t rt_letterbox_work_size(int resized_width);

/* yolort_letterbox on given working memory. */
yolort_status rt_letterbox(const yolort_image *src, const yolort_placement *p, uint8_t *dst, size_t dst_bytes,
                           void *work);

/* Whether paddings and sides fit together. */
int rt_is_placement(const yolort_placement *p);

#endif
