#include "mask.h"

#include "check.h"

#include <string.h>

enum { MAX_SIDE = 65535, MAX_COUNT = 4096, MOST = 4 /* the network's input has that many pixels for one of a prototype */ };

/* Where the picture lies along one axis of the enlarged values. */
struct span {
    int from, size;
};

static int content(int source, double scale)
{
    return (int)fmax(rint(source * scale), 1);
}

static double scale_to(const yolort_proto *p, int factor, int sw, int sh)
{
    return fmin((double)factor * p->height / sh, (double)factor * p->width / sw);
}

/* How far values are enlarged before the padding is cut off, so that it ends, and so does half of it, between two of them. */
static int enlargement(const yolort_proto *p, int sw, int sh)
{
    double g = scale_to(p, MOST, sw, sh);
    int px = MOST * p->width - content(sw, g), py = MOST * p->height - content(sh, g), f = 1;
    while (f < MOST && (px * f % (2 * MOST) != 0 || py * f % (2 * MOST) != 0))
        f *= 2;
    return f;
}

static struct span span(int side, int source, double scale)
{
    struct span s = {0, content(source, scale)};
    s.size = s.size < side ? s.size : side;
    s.from = (int)rint((side - s.size) / 2.0 - 0.1);
    s.from = s.from > 0 ? s.from : 0;
    return s;
}

void rt_mask_plan(const yolort_proto *p, int src_width, int src_height, struct ym_mask_plan *out)
{
    int f = enlargement(p, src_width, src_height);
    double scale = scale_to(p, f, src_width, src_height);
    struct span x = span(f * p->width, src_width, scale), y = span(f * p->height, src_height, scale);
    *out = (struct ym_mask_plan){f, p->width, p->height, x.from, x.size, y.from, y.size, src_width, src_height};
}

/* First whole number that is not below v, in 0 .. side; 0 for NaN. */
static int edge(float v, int side)
{
    return v > 0 ? v < (float)side ? (int)ceilf(v) : side : 0;
}

struct rt_window rt_mask_window(const yolort_detection *d, int src_width, int src_height)
{
    return (struct rt_window){edge(d->x1, src_width), edge(d->y1, src_height), edge(d->x2, src_width), edge(d->y2, src_height)};
}

struct mask {
    const yolort_proto *p;
    struct ym_mask_plan is;
    int width;         /* enlarged */
    float *value;      /* height * width of the prototypes */
    float *row[2], *line;
    int at[2];         /* enlarged rows that `row` holds; -1: none */
};

static void sum_up(struct mask *m, const float *coefficient)
{
    size_t n = (size_t)m->p->height * (size_t)m->p->width;
    memset(m->value, 0, n * sizeof *m->value);
    for (int k = 0; k < m->p->count; k++) {
        const float *from = m->p->data + (size_t)k * n;
        for (size_t i = 0; i < n; i++)
            m->value[i] += coefficient[k] * from[i];
    }
}

static void enlarge_row(struct mask *m, int y, float *to)
{
    struct ym_sample v = ym_sample_at(y, m->p->height, m->is.factor * m->p->height);
    const float *a = m->value + (size_t)v.a * (size_t)m->p->width, *b = m->value + (size_t)v.b * (size_t)m->p->width;
    for (int x = 0; x < m->width; x++) {
        struct ym_sample h = ym_sample_at(x, m->p->width, m->width);
        to[x] = ym_mix(ym_mix(a[h.a], a[h.b], h.t), ym_mix(b[h.a], b[h.b], h.t), v.t);
    }
}

static const float *enlarged(struct mask *m, int y, int other)
{
    int slot = m->at[0] == y ? 0 : m->at[1] == y ? 1 : m->at[0] == other;
    if (m->at[slot] != y) enlarge_row(m, y, m->row[slot]);
    m->at[slot] = y;
    return m->row[slot];
}

static void fill(struct mask *m, const yolort_detection *d, uint8_t *out)
{
    const struct ym_mask_plan *is = &m->is;
    struct rt_window w = rt_mask_window(d, is->src_width, is->src_height);
    for (int y = w.y0; y < w.y1; y++) {
        struct ym_sample v = ym_sample_at(y, is->y_size, is->src_height);
        int ya = v.a + is->y_from, yb = v.b + is->y_from;
        const float *a = enlarged(m, ya, yb), *b = enlarged(m, yb, ya);
        for (int x = is->x_from; x < is->x_from + is->x_size; x++)
            m->line[x] = ym_mix(a[x], b[x], v.t);
        for (int x = w.x0; x < w.x1; x++) {
            struct ym_sample h = ym_sample_at(x, is->x_size, is->src_width);
            const float *line = m->line + is->x_from;
            out[(size_t)y * (size_t)is->src_width + (size_t)x] = ym_mix(line[h.a], line[h.b], h.t) > 0;
        }
    }
}

static int is_side(int v)
{
    return v >= 1 && v <= MAX_SIDE;
}

static int is_proto(const yolort_proto *p)
{
    return p && p->data && p->count >= 1 && p->count <= MAX_COUNT && is_side(p->height) && is_side(p->width);
}

size_t yolort_mask_work_size(const yolort_proto *p)
{
    if (!RT_HOLDS(MASK_PROTO, is_proto(p))) return 0;
    return ((size_t)p->height + 3 * MOST) * (size_t)p->width * sizeof(float);
}

yolort_status yolort_mask(const yolort_proto *p, const float *coefficient, const yolort_detection *d, int src_width,
                          int src_height, void *work, uint8_t *out, size_t out_bytes)
{
    if (!RT_HOLDS(MASK_PROTO, is_proto(p))) return YOLORT_ARG;
    if (!RT_HOLDS(MASK_NULL, coefficient && d && work && out)) return YOLORT_ARG;
    if (!RT_HOLDS(MASK_ALIGN, (uintptr_t)work % sizeof(float) == 0)) return YOLORT_ARG;
    if (!RT_HOLDS(MASK_SOURCE, is_side(src_width) && is_side(src_height))) return YOLORT_ARG;
    size_t bytes = (size_t)src_width * (size_t)src_height;
    if (!RT_HOLDS(MASK_ROOM, out_bytes >= bytes)) return YOLORT_ARG;
    struct mask m = {.p = p, .value = work, .at = {-1, -1}};
    rt_mask_plan(p, src_width, src_height, &m.is);
    m.width = m.is.factor * p->width;
    m.row[0] = m.value + (size_t)p->height * (size_t)p->width;
    m.row[1] = m.row[0] + m.width;
    m.line = m.row[1] + m.width;
    memset(out, 0, bytes);
    sum_up(&m, coefficient);
    fill(&m, d, out);
    return YOLORT_OK;
}
