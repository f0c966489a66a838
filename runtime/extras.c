#include "check.h"
#include "rotate.h"

#include <math.h>

size_t yolort_extra_count(const yolort_info *info)
{
    if (!info) return 0;
    return (size_t)info->coefficients + (size_t)info->points * (size_t)info->point_dims + (size_t)info->angles;
}

/* Number k of a row. */
static float number(const float *data, size_t rows, const yolort_info *info, int32_t row, size_t k)
{
    if (info->head == YOLORT_HEAD_FREE || info->head == YOLORT_HEAD_BEST) return data[k * rows + (size_t)row];
    return data[(size_t)row * (5 + (size_t)info->nc + yolort_extra_count(info)) + k];
}

static size_t first_extra(const yolort_info *info)
{
    int across = info->head == YOLORT_HEAD_FREE || info->head == YOLORT_HEAD_BEST;
    return (across ? 4 : 5) + (size_t)info->nc;
}

yolort_status yolort_extra(const float *data, size_t rows, const yolort_info *info, int32_t row, float *out)
{
    if (!RT_HOLDS(EXTRA_NULL, data && info && out)) return YOLORT_ARG;
    if (!RT_HOLDS(EXTRA_ROW, row >= 0 && (size_t)row < rows)) return YOLORT_ARG;
    size_t n = yolort_extra_count(info);
    for (size_t k = 0; k < n; k++)
        out[k] = number(data, rows, info, row, first_extra(info) + k);
    return YOLORT_OK;
}

void yolort_unletterbox_points(float *point, size_t n, int dims, yolort_head head, const yolort_placement *p,
                               int src_width, int src_height)
{
    if (!point || !p || dims < 2) return;
    yolort_placement back = rt_placement_back(head, p, src_width, src_height);
    for (size_t i = 0; i < n; i++, point += dims) {
        point[0] = rt_to_source(point[0], back.left, back.scale_x, src_width);
        point[1] = rt_to_source(point[1], back.top, back.scale_y, src_height);
    }
}

/* Edges change places so that the angle lies in [0, pi / 2). */
static void settle_angle(yolort_turned *t, double angle)
{
    double half = acos(0.0), turns = floor(angle / (2 * half));
    double rest = angle - turns * 2 * half;
    if (rest >= half) {
        float w = t->w;
        t->w = t->h;
        t->h = w;
        rest -= half;
    }
    t->angle = (float)rest;
}

static void set_corners(yolort_turned *t)
{
    static const int sign[4][2] = {{1, 1}, {1, -1}, {-1, -1}, {-1, 1}};
    double c = cos((double)t->angle), s = sin((double)t->angle), w = (double)t->w / 2, h = (double)t->h / 2;
    for (int i = 0; i < 4; i++) {
        double u = sign[i][0] * w, v = sign[i][1] * h;
        t->corner[i][0] = (float)((double)t->cx + u * c - v * s);
        t->corner[i][1] = (float)((double)t->cy + u * s + v * c);
    }
}

static float within(float v, int side)
{
    return fmaxf(0, fminf(v, (float)side));
}

static void set_hull(yolort_detection *d, const yolort_turned *t, int width, int height)
{
    d->x1 = d->x2 = t->corner[0][0];
    d->y1 = d->y2 = t->corner[0][1];
    for (int i = 1; i < 4; i++) {
        d->x1 = fminf(d->x1, t->corner[i][0]);
        d->x2 = fmaxf(d->x2, t->corner[i][0]);
        d->y1 = fminf(d->y1, t->corner[i][1]);
        d->y2 = fmaxf(d->y2, t->corner[i][1]);
    }
    d->x1 = within(d->x1, width);
    d->x2 = within(d->x2, width);
    d->y1 = within(d->y1, height);
    d->y2 = within(d->y2, height);
}

yolort_turned rt_turn(const float row[5], const yolort_placement *back, int src_width, int src_height, yolort_detection *d)
{
    yolort_turned t = {
        .cx = (float)(((double)row[0] - back->left) / back->scale_x),
        .cy = (float)(((double)row[1] - back->top) / back->scale_y),
        .w = (float)((double)row[2] / back->scale_x),
        .h = (float)((double)row[3] / back->scale_y),
    };
    settle_angle(&t, (double)row[4]);
    set_corners(&t);
    set_hull(d, &t, src_width, src_height);
    return t;
}

yolort_status yolort_turn(const float *data, size_t rows, const yolort_info *info, const yolort_placement *p,
                          int src_width, int src_height, yolort_detection *d, yolort_turned *out)
{
    if (!RT_HOLDS(TURN_NULL, data && info && p && d && out)) return YOLORT_ARG;
    if (!RT_HOLDS(EXTRA_ROW, d->row >= 0 && (size_t)d->row < rows)) return YOLORT_ARG;
    if (!RT_HOLDS(TURN_ANGLE, info->angles == 1)) return YOLORT_ARG;
    yolort_placement back = rt_placement_back(info->head, p, src_width, src_height);
    size_t last = first_extra(info) + yolort_extra_count(info) - 1;
    float row[5];
    for (size_t k = 0; k < 4; k++) row[k] = number(data, rows, info, d->row, k);
    row[4] = number(data, rows, info, d->row, last);
    *out = rt_turn(row, &back, src_width, src_height, d);
    return YOLORT_OK;
}
