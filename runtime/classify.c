#include "crop.h"

#include "check.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 65535 };

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

static struct ym_axis axis(int n, int64_t of, int64_t first)
{
    struct ym_axis a = {.scale = (double)n / (double)of, .first = first, .n = n};
    a.reach = a.scale > 1 ? a.scale : 1;
    a.most = (int)ceil(2 * a.reach) + 2;
    return a;
}

void rt_crop_axes(int src_width, int src_height, int width, int height, struct ym_axis *columns, struct ym_axis *rows)
{
    struct crop c = plan(src_width, src_height, width, height);
    *columns = axis(src_width, c.width, c.left);
    *rows = axis(src_height, c.height, c.top);
}

static void axis_free(struct ym_axis *a)
{
    free(a->from);
    free(a->count);
    free(a->weight);
}

/* Tables for m samples. 0, or -1 without memory. */
static int axis_fill(struct ym_axis *a, int m)
{
    a->from = calloc((size_t)m, sizeof *a->from);
    a->count = calloc((size_t)m, sizeof *a->count);
    a->weight = calloc((size_t)m, (size_t)a->most * sizeof *a->weight);
    if (!a->from || !a->count || !a->weight) return -1;
    for (int i = 0; i < m; i++)
        ym_fill_sample(a, i);
    return 0;
}

static void resize_row(uint8_t *to, const uint8_t *row, const struct ym_axis *a, int m)
{
    for (int i = 0; i < m; i++, to += 3) {
        const int *w = a->weight + (size_t)i * (size_t)a->most;
        const uint8_t *p = row + 3 * (size_t)a->from[i];
        int32_t sum[3] = {0, 0, 0};
        for (int k = 0; k < a->count[i]; k++, p += 3)
            for (int c = 0; c < 3; c++)
                sum[c] += p[c] * w[k];
        for (int c = 0; c < 3; c++)
            to[c] = ym_weighted(sum[c]);
    }
}

/* Source rows at the output's width, as many as a row of the output can need; row y lies in slot y % slots. */
struct ring {
    uint8_t *rows;
    size_t bytes; /* of a row */
    int slots, next; /* next: of the source, not yet there */
};

static void blend(uint8_t *to, const struct ring *r, const struct ym_axis *a, int i)
{
    const int *w = a->weight + (size_t)i * (size_t)a->most;
    for (size_t x = 0; x < r->bytes; x++) {
        int32_t sum = 0;
        for (int k = 0; k < a->count[i]; k++)
            sum += r->rows[(size_t)((a->from[i] + k) % r->slots) * r->bytes + x] * w[k];
        to[x] = ym_weighted(sum);
    }
}

static void resize(const yolort_image *src, size_t row_bytes, const struct ym_axis *columns, const struct ym_axis *rows, int width,
                   int height, struct ring *r, uint8_t *dst)
{
    r->next = rows->from[0];
    for (int i = 0; i < height; i++) {
        if (r->next < rows->from[i]) r->next = rows->from[i];
        for (; r->next < rows->from[i] + rows->count[i]; r->next++)
            resize_row(r->rows + (size_t)(r->next % r->slots) * r->bytes, src->rgb + (size_t)r->next * row_bytes, columns, width);
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
    struct ym_axis columns, rows;
    rt_crop_axes(src->width, src->height, width, height, &columns, &rows);
    struct ring r = {.bytes = (size_t)width * 3};
    yolort_status status = YOLORT_OOM_HOST;
    if (!axis_fill(&columns, width) && !axis_fill(&rows, height)) {
        r.slots = rows.most;
        r.rows = malloc((size_t)r.slots * r.bytes);
        if (r.rows) {
            resize(src, row_bytes, &columns, &rows, width, height, &r, dst);
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
