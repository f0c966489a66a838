#include "check.h"
#include "service.h"
#include "yolort.h"

enum { MAX_SIDE = 65535, MAX_CLASSES = 65536 };

static int is_side(int v)
{
    return v >= 1 && v <= MAX_SIDE;
}

static int is_axis(int before, int size, int after, int out)
{
    return is_side(out) && is_side(size) && before >= 0 && after >= 0 && before <= out - size &&
           after == out - size - before;
}

static int is_placement(const yolort_placement *p)
{
    return p && is_axis(p->left, p->resized_width, p->right, p->out_width) &&
           is_axis(p->top, p->resized_height, p->bottom, p->out_height);
}

static int is_room(int sw, int sh, size_t count)
{
    return count >= (size_t)sw * (size_t)sh;
}

/* The rows of the map that row y of the source lies between, t of the way from a to b. */
struct rows {
    const float *a, *b;
    float t;
};

static struct rows rows_of(const float *map, const yolort_placement *p, int y, int src_height)
{
    double v = ym_place(y, src_height, p->top, p->resized_height);
    int last = p->top + p->resized_height - 1, y0 = (int)v, y1 = y0 < last ? y0 + 1 : y0;
    size_t width = (size_t)p->out_width;
    return (struct rows){map + (size_t)y0 * width, map + (size_t)y1 * width, (float)(v - y0)};
}

yolort_status yolort_labels(const float *logits, int nc, const yolort_placement *p, int src_width, int src_height,
                            uint16_t *out, size_t out_count)
{
    if (!RT_HOLDS(MAP_NULL, logits && out)) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_CLASSES, nc >= 1 && nc <= MAX_CLASSES)) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_PLACEMENT, is_placement(p))) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_SOURCE, is_side(src_width) && is_side(src_height))) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_ROOM, is_room(src_width, src_height, out_count))) return YOLORT_ARG;
    int last = p->left + p->resized_width - 1;
    long long step = (long long)p->out_width * p->out_height;
    for (int y = 0; y < src_height; y++) {
        struct rows r = rows_of(logits, p, y, src_height);
        for (int x = 0; x < src_width; x++)
            *out++ = ym_best_class(r.a, r.b, r.t, ym_place(x, src_width, p->left, p->resized_width), last, nc, step);
    }
    return YOLORT_OK;
}

yolort_status yolort_depths(const float *depth, const yolort_placement *p, int src_width, int src_height, float *out,
                            size_t out_count)
{
    if (!RT_HOLDS(MAP_NULL, depth && out)) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_PLACEMENT, is_placement(p))) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_SOURCE, is_side(src_width) && is_side(src_height))) return YOLORT_ARG;
    if (!RT_HOLDS(MAP_ROOM, is_room(src_width, src_height, out_count))) return YOLORT_ARG;
    int last = p->left + p->resized_width - 1;
    for (int y = 0; y < src_height; y++) {
        struct rows r = rows_of(depth, p, y, src_height);
        for (int x = 0; x < src_width; x++)
            *out++ = ym_depth(r.a, r.b, r.t, ym_place(x, src_width, p->left, p->resized_width), last);
    }
    return YOLORT_OK;
}
