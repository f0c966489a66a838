/* Resizing for classifiers. */
#ifndef RT_CROP_H
#define RT_CROP_H

#include "service.h"
#include "yolort.h"

/* Axes of yolort_crop without their tables, for sides of 1 .. 65535. */
void rt_crop_axes(int src_width, int src_height, int width, int height, struct ym_axis *columns, struct ym_axis *rows);

#endif
