#include "letterbox.h"

#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 65535, FILL = 114, ONE = 2048 /* weight 1 of a sample */ };

static int is_side(int v)
{
    return v >= 1 && v <= MAX_SIDE;
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

/* Half of the room on each side; an odd pixel goes right or down. */
static void center(double room, int *before, int *after)
{
    *before = (int)rint(room / 2 - 0.1);
    *after = (int)rint(room / 2 + 0.1);
}

static void plan_topleft(yolort_placement *p, int sw, int sh, int width, int height, double r)
{
    p->resized_width = max_int((int)(sw * r), 1);
    p->resized_height = max_int((int)(sh * r), 1);
    p->right = width - p->resized_width;
    p->bottom = height - p->resized_height;
    p->scale_x = p->scale_y = r;
}

static void plan_centered(yolort_placement *p, int sw, int sh, int width, int height, double r, int multiple)
{
    p->resized_width = max_int((int)rint(sw * r), 1);
    p->resized_height = max_int((int)rint(sh * r), 1);
    int dw = width - p->resized_width, dh = height - p->resized_height;
    center(multiple ? dw % multiple : dw, &p->left, &p->right);
    center(multiple ? dh % multiple : dh, &p->top, &p->bottom);
    p->scale_x = (double)p->resized_width / sw;
    p->scale_y = (double)p->resized_height / sh;
}

yolort_status yolort_letterbox_plan(int src_width, int src_height, int width, int height,
                                    yolort_letterbox_mode mode, int stride, int scaleup,
                                    yolort_placement *out)
{
    if (!RT_HOLDS(PLAN_NULL, out)) return YOLORT_ARG;
    if (!RT_HOLDS(PLAN_SOURCE, is_side(src_width) && is_side(src_height))) return YOLORT_ARG;
    if (!RT_HOLDS(PLAN_TARGET, is_side(width) && is_side(height))) return YOLORT_ARG;
    if (!RT_HOLDS(PLAN_MODE, mode == YOLORT_SQUARE || mode == YOLORT_RECT || mode == YOLORT_TOPLEFT))
        return YOLORT_ARG;
    if (!RT_HOLDS(PLAN_STRIDE, mode != YOLORT_RECT || stride >= 1)) return YOLORT_ARG;
    yolort_placement p = {0};
    double ry = (double)height / src_height, rx = (double)width / src_width, r = ry < rx ? ry : rx;
    if (!scaleup && r > 1) r = 1;
    if (mode == YOLORT_TOPLEFT)
        plan_topleft(&p, src_width, src_height, width, height, r);
    else
        plan_centered(&p, src_width, src_height, width, height, r, mode == YOLORT_RECT ? stride : 0);
    p.out_width = p.left + p.resized_width + p.right;
    p.out_height = p.top + p.resized_height + p.bottom;
    *out = p;
    return YOLORT_OK;
}

/* Output sample i of m from n source samples on an axis lies between `first` and the next one; w: their
 * weights. */
struct sample {
    int32_t first;
    int16_t w[2];
};

static struct sample sample_at(int i, int n, int m)
{
    double scale = 1.0 / ((double)m / n);
    float f = (float)((i + 0.5) * scale - 0.5);
    float s = floorf(f);
    f -= s;
    return (struct sample){(int32_t)s, {(int16_t)rintf((1 - f) * ONE), (int16_t)rintf(f * ONE)}};
}

/* Like sample_at, but such that `first` and the next are both in the picture (when it has two). */
static struct sample column_at(int i, int n, int m)
{
    struct sample s = sample_at(i, n, m);
    if (s.first < 0) return (struct sample){0, {ONE, 0}};
    if (s.first < n - 1) return s;
    return n > 1 ? (struct sample){n - 2, {0, ONE}} : (struct sample){0, {ONE, 0}};
}

/* A source row at the width of the output. Sums have 19 bits; the 4 that the rows' step drops first are
 * dropped here, so that 16 are enough (255 * 2049 >> 4 < 2^15). */
static void resize_row(int16_t *restrict to, const uint8_t *restrict from,
                       const struct sample *restrict column, int m, int next)
{
    for (int i = 0; i < m; i++, to += 3) {
        const uint8_t *a = from + 3 * column[i].first, *b = a + next;
        int w0 = column[i].w[0], w1 = column[i].w[1];
        to[0] = (int16_t)((a[0] * w0 + b[0] * w1) >> 4);
        to[1] = (int16_t)((a[1] * w0 + b[1] * w1) >> 4);
        to[2] = (int16_t)((a[2] * w0 + b[2] * w1) >> 4);
    }
}

/* Each product is cut before the sum. The largest value is (255 * 2049 >> 4) * 2049 >> 16 = 1020: 255 at
 * most. */
static void blend_rows(uint8_t *restrict to, const int16_t *restrict a, const int16_t *restrict b, int v0,
                       int v1, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint8_t)(((a[i] * v0 >> 16) + (b[i] * v1 >> 16) + 2) >> 2);
}

struct rows {
    const uint8_t *rgb;
    size_t row_bytes;
    int width, height; /* of the source */
    const struct sample *column;
    int16_t *row[2];
    int at[2]; /* source rows they hold */
};

/* Buffer of a source row, resized unless one of the two holds it; `keep` is not overwritten. */
static int fetch_row(struct rows *s, int y, int m, int keep)
{
    if (s->at[0] == y) return 0;
    if (s->at[1] == y) return 1;
    int k = keep == 0 ? 1 : 0;
    resize_row(s->row[k], s->rgb + (size_t)y * s->row_bytes, s->column, m, s->width > 1 ? 3 : 0);
    s->at[k] = y;
    return k;
}

static int clamp_int(int v, int hi)
{
    return v < 0 ? 0 : v > hi ? hi : v;
}

static void resize(const yolort_image *src, const yolort_placement *p, uint8_t *dst, size_t pitch, void *work)
{
    int m = p->resized_width;
    struct sample *column = work;
    int16_t *row = (int16_t *)(void *)(column + m);
    struct rows s = {src->rgb, src->row_bytes, src->width, src->height, column, {row, row + 3 * (size_t)m},
                     {-1, -1}};
    for (int i = 0; i < m; i++)
        column[i] = column_at(i, src->width, m);
    for (int y = 0; y < p->resized_height; y++, dst += pitch) {
        struct sample v = sample_at(y, src->height, p->resized_height);
        int y0 = clamp_int(v.first, src->height - 1), y1 = clamp_int(v.first + 1, src->height - 1);
        int keep = s.at[0] == y1 ? 0 : s.at[1] == y1 ? 1 : -1;
        int a = fetch_row(&s, y0, m, keep), b = fetch_row(&s, y1, m, a);
        blend_rows(dst, s.row[a], s.row[b], v.w[0], v.w[1], 3 * m);
    }
}

/* Exactly half on both axes has a rule of its own: the rounded mean of each 2 x 2. */
static void halve(const yolort_image *src, const yolort_placement *p, uint8_t *dst, size_t pitch)
{
    for (int y = 0; y < p->resized_height; y++, dst += pitch) {
        const uint8_t *a = src->rgb + (size_t)y * 2 * src->row_bytes, *b = a + src->row_bytes;
        for (int x = 0; x < p->resized_width; x++, a += 6, b += 6)
            for (int c = 0; c < 3; c++)
                dst[3 * x + c] = (uint8_t)((a[c] + a[c + 3] + b[c] + b[c + 3] + 2) >> 2);
    }
}

static void copy_rows(const yolort_image *src, const yolort_placement *p, uint8_t *dst, size_t pitch)
{
    size_t bytes = (size_t)p->resized_width * 3;
    for (int y = 0; y < p->resized_height; y++)
        memcpy(dst + (size_t)y * pitch, src->rgb + (size_t)y * src->row_bytes, bytes);
}

static void fill_border(const yolort_placement *p, uint8_t *dst, size_t pitch)
{
    size_t left = (size_t)p->left * 3, right = (size_t)p->right * 3;
    memset(dst, FILL, pitch * (size_t)p->top);
    memset(dst + pitch * (size_t)(p->out_height - p->bottom), FILL, pitch * (size_t)p->bottom);
    for (int y = p->top; y < p->out_height - p->bottom; y++) {
        uint8_t *row = dst + (size_t)y * pitch;
        memset(row, FILL, left);
        memset(row + pitch - right, FILL, right);
    }
}

int rt_is_placement(const yolort_placement *p)
{
    const int part[] = {p->left, p->right, p->top, p->bottom};
    for (int i = 0; i < 4; i++)
        if (part[i] < 0 || part[i] > MAX_SIDE) return 0;
    return is_side(p->resized_width) && is_side(p->resized_height) && is_side(p->out_width) &&
           is_side(p->out_height) && p->left + p->resized_width + p->right == p->out_width &&
           p->top + p->resized_height + p->bottom == p->out_height;
}

size_t rt_letterbox_work_size(int resized_width)
{
    return (size_t)resized_width * (sizeof(struct sample) + 2 * 3 * sizeof(int16_t));
}

static yolort_status check_args(const yolort_image *src, const yolort_placement *p, const uint8_t *dst,
                                size_t dst_bytes)
{
    if (!RT_HOLDS(BOX_NULL, src && src->rgb && p && dst)) return YOLORT_ARG;
    if (!RT_HOLDS(BOX_SOURCE, is_side(src->width) && is_side(src->height))) return YOLORT_ARG;
    if (!RT_HOLDS(BOX_ROW, !src->row_bytes || src->row_bytes >= (size_t)src->width * 3)) return YOLORT_ARG;
    if (!RT_HOLDS(BOX_ROW_LIMIT, src->row_bytes <= SIZE_MAX / MAX_SIDE)) return YOLORT_ARG;
    if (!RT_HOLDS(BOX_PLACEMENT, rt_is_placement(p))) return YOLORT_ARG;
    size_t rows = dst_bytes / 3 / (size_t)p->out_width;
    return RT_HOLDS(BOX_ROOM, rows >= (size_t)p->out_height) ? YOLORT_OK : YOLORT_ARG;
}

yolort_status rt_letterbox(const yolort_image *src, const yolort_placement *p, uint8_t *dst, size_t dst_bytes,
                           void *work)
{
    yolort_status s = check_args(src, p, dst, dst_bytes);
    if (s) return s;
    yolort_image from = *src;
    if (!from.row_bytes) from.row_bytes = (size_t)from.width * 3;
    size_t pitch = (size_t)p->out_width * 3;
    uint8_t *inner = dst + (size_t)p->top * pitch + (size_t)p->left * 3;
    fill_border(p, dst, pitch);
    if (from.width == p->resized_width && from.height == p->resized_height)
        copy_rows(&from, p, inner, pitch);
    else if (from.width == 2 * p->resized_width && from.height == 2 * p->resized_height)
        halve(&from, p, inner, pitch);
    else
        resize(&from, p, inner, pitch, work);
    return YOLORT_OK;
}

yolort_status yolort_letterbox(const yolort_image *src, const yolort_placement *p, uint8_t *dst,
                               size_t dst_bytes)
{
    yolort_status s = check_args(src, p, dst, dst_bytes);
    if (s) return s;
    void *work = malloc(rt_letterbox_work_size(p->resized_width));
    if (!work) return YOLORT_OOM_HOST;
    s = rt_letterbox(src, p, dst, dst_bytes, work);
    free(work);
    return s;
}
