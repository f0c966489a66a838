/* Turned boxes as normal distributions, and the geometry shared by nms.c and extras.c. */
#ifndef RT_ROTATE_H
#define RT_ROTATE_H

#include "yolort.h"

struct rt_rotated {
    double x, y, xx, yy, xy; /* mean and covariances */
};

struct rt_rotated rt_rotated_of(double x, double y, double w, double h, double angle);

/* 1 minus the Hellinger distance; NaN when a number is not finite. */
double rt_rotated_overlap(const struct rt_rotated *a, const struct rt_rotated *b);

/* extras.c: the turned box of cx, cy, w, h, angle in the network's input, in source pixels; d's corners as yolort_turn makes
 * them. back: of rt_placement_back. */
yolort_turned rt_turn(const float row[5], const yolort_placement *back, int src_width, int src_height, yolort_detection *d);

/* nms.c: a coordinate of the network's input in source pixels, clipped; and the placement by which a head's own tools go
 * back. */
float rt_to_source(float v, int pad, double scale, int side);
yolort_placement rt_placement_back(yolort_head head, const yolort_placement *p, int src_width, int src_height);

#endif
