#include "check.h"
#include "yolort.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 65535, BITS = 22 /* of a weight after the point */ };

/* Output samples first .. first + m - 1 of `of`, made from n source samples: sample i is the sum of weight[i * most + k]
 * times source sample from[i] + k, for k below count[i]. */
struct axis {
    int m, most;
    int32_t *from, *count, *weight;
};

struct crop {
    int64_t width, height; /* of the resized picture */
    int64_t left, top;     /* of what is cut out of it */
};

static int is_side(int v)
{
    return v >= 1 && v <= MAX_SIDE;
}

/* The shorter side becomes that of the square; a target that is no square is filled as it is. */
static struct crop plan(int sw, int sh, int width, int height)
{
    struct crop c = {width, height, 0, 0};
    if (width != height) return c;
    if (sw <= sh)
        c.height = (int64_t)((double)((int64_t)width * sh) / sw);
    else
        c.width = (int64_t)((double)((int64_t)width * sw) / sh);
    c.left = (int64_t)rint((double)(c.width - width) / 2);
    c.top = (int64_t)rint((double)(c.height - height) / 2);
    return c;
}

static void axis_free(struct axis *a)
{
    free(a->from);
    free(a->count);
    free(a->weight);
}

/* The filter is a triangle as wide as two source samples, or two output samples where those are farther apart. */
static void fill_sample(struct axis *a, int i, double center, double reach, int n)
{
    int from = (int)(center - reach + 0.5), to = (int)(center + reach + 0.5);
    double sum = 0;
    from = from < 0 ? 0 : from;
    to = to > n ? n : to;
    for (int j = from; j < to; j++)
        sum += fmax(0, 1 - fabs((j - center + 0.5) / reach));
    for (int j = from; j < to; j++) {
        double w = fmax(0, 1 - fabs((j - center + 0.5) / reach)) / sum;
        a->weight[(size_t)i * (size_t)a->most + (size_t)(j - from)] = (int32_t)(0.5 + w * (1 << BITS));
    }
    a->from[i] = from;
    a->count[i] = to - from;
}

/* 0, or -1 without memory. */
static int axis_new(struct axis *a, int n, int64_t of, int64_t first, int m)
{
    double scale = (double)n / (double)of, reach = scale > 1 ? scale : 1;
    *a = (struct axis){.m = m, .most = (int)ceil(2 * reach) + 2};
    a->from = calloc((size_t)m, sizeof *a->from);
    a->count = calloc((size_t)m, sizeof *a->count);
    a->weight = calloc((size_t)m, (size_t)a->most * sizeof *a->weight);
    if (!a->from || !a->count || !a->weight) return -1;
    for (int i = 0; i < m; i++)
        fill_sample(a, i, ((double)(first + i) + 0.5) * scale, reach, n);
    return 0;
}

static uint8_t rounded(int32_t sum)
{
    int32_t v = (sum + (1 << (BITS - 1))) >> BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void resize_row(uint8_t *to, const uint8_t *row, const struct axis *a)
{
    for (int i = 0; i < a->m; i++, to += 3) {
        const int32_t *w = a->weight + (size_t)i * (size_t)a->most;
        const uint8_t *p = row + 3 * (size_t)a->from[i];
        int32_t sum[3] = {0, 0, 0};
        for (int k = 0; k < a->count[i]; k++, p += 3)
            for (int c = 0; c < 3; c++)
                sum[c] += p[c] * w[k];
        for (int c = 0; c < 3; c++)
            to[c] = rounded(sum[c]);
    }
}

/* Source rows at the output's width, as many as a row of the output can need; row y lies in slot y % slots. */
struct ring {
    uint8_t *rows;
    size_t bytes; /* of a row */
    int slots, next; /* next: of the source, not yet there */
};

static void blend(uint8_t *to, const struct ring *r, const struct axis *a, int i)
{
    const int32_t *w = a->weight + (size_t)i * (size_t)a->most;
    for (size_t x = 0; x < r->bytes; x++) {
        int32_t sum = 0;
        for (int k = 0; k < a->count[i]; k++)
            sum += r->rows[(size_t)((a->from[i] + k) % r->slots) * r->bytes + x] * w[k];
        to[x] = rounded(sum);
    }
}

static void resize(const yolort_image *src, size_t row_bytes, const struct axis *columns, const struct axis *rows,
                   struct ring *r, uint8_t *dst)
{
    r->next = rows->from[0];
    for (int i = 0; i < rows->m; i++) {
        if (r->next < rows->from[i]) r->next = rows->from[i];
        for (; r->next < rows->from[i] + rows->count[i]; r->next++)
            resize_row(r->rows + (size_t)(r->next % r->slots) * r->bytes, src->rgb + (size_t)r->next * row_bytes,
                       columns);
        blend(dst + (size_t)i * r->bytes, r, rows, i);
    }
}

yolort_status yolort_crop(const yolort_image *src, int width, int height, uint8_t *dst, size_t dst_bytes)
{
    if (!RT_HOLDS(CROP_NULL, src && src->rgb && dst)) return YOLORT_ARG;
    if (!RT_HOLDS(CROP_SOURCE, is_side(src->width) && is_side(src->height))) return YOLORT_ARG;
    if (!RT_HOLDS(CROP_TARGET, is_side(width) && is_side(height))) return YOLORT_ARG;
    size_t dense = (size_t)src->width * 3, row_bytes = src->row_bytes ? src->row_bytes : dense;
    if (!RT_HOLDS(CROP_ROW, row_bytes >= dense && row_bytes <= PTRDIFF_MAX / MAX_SIDE)) return YOLORT_ARG;
    if (!RT_HOLDS(CROP_ROOM, dst_bytes >= (size_t)width * (size_t)height * 3)) return YOLORT_ARG;
    struct crop c = plan(src->width, src->height, width, height);
    struct axis columns = {0}, rows = {0};
    struct ring r = {.bytes = (size_t)width * 3};
    yolort_status status = YOLORT_OOM_HOST;
    if (!axis_new(&columns, src->width, c.width, c.left, width) &&
        !axis_new(&rows, src->height, c.height, c.top, height)) {
        r.slots = rows.most;
        r.rows = malloc((size_t)r.slots * r.bytes);
        if (r.rows) {
            resize(src, row_bytes, &columns, &rows, &r, dst);
            status = YOLORT_OK;
        }
    }
    free(r.rows);
    axis_free(&columns);
    axis_free(&rows);
    return status;
}

yolort_status yolort_top(const float *prob, int nc, yolort_class *out, size_t capacity, size_t *count)
{
    if (!RT_HOLDS(TOP_NULL, prob && count && (out || !capacity))) return YOLORT_ARG;
    if (!RT_HOLDS(TOP_CLASSES, nc >= 1)) return YOLORT_ARG;
    size_t n = 0;
    for (int k = 0; k < nc; k++) {
        size_t at = n;
        if (isnan(prob[k])) continue;
        while (at > 0 && out[at - 1].prob < prob[k])
            at--;
        if (at == capacity) continue;
        n += n < capacity;
        memmove(out + at + 1, out + at, (n - 1 - at) * sizeof *out);
        out[at] = (yolort_class){k, prob[k]};
    }
    *count = n;
    return YOLORT_OK;
}
