#include "check.h"
#include "yolort.h"

#include <math.h>
#include <string.h>

enum { MAX_SIDE = 65535, MAX_COUNT = 4096, MOST = 4 /* the network's input has that many pixels for one of a prototype */ };

/* A sample of `in` for pixel i of `out`, by centres of pixels: between `a` and `b`, `t` of the way. */
struct between {
    int a, b;
    float t;
};

static struct between between(int i, int in, int out)
{
    float at = ((float)in / (float)out) * ((float)i + 0.5f) - 0.5f;
    at = at > 0 ? at : 0;
    int a = (int)at;
    a = a < in ? a : in - 1;
    return (struct between){a, a + 1 < in ? a + 1 : a, at - (float)a};
}

static float mix(float a, float b, float t)
{
    return a + (b - a) * t;
}

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

struct mask {
    const yolort_proto *p;
    int f, width;      /* enlargement, and the width with it */
    struct span x, y;
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
    struct between v = between(y, m->p->height, m->f * m->p->height);
    const float *a = m->value + (size_t)v.a * (size_t)m->p->width, *b = m->value + (size_t)v.b * (size_t)m->p->width;
    for (int x = 0; x < m->width; x++) {
        struct between h = between(x, m->p->width, m->width);
        to[x] = mix(mix(a[h.a], a[h.b], h.t), mix(b[h.a], b[h.b], h.t), v.t);
    }
}

static const float *enlarged(struct mask *m, int y, int other)
{
    int slot = m->at[0] == y ? 0 : m->at[1] == y ? 1 : m->at[0] == other;
    if (m->at[slot] != y) enlarge_row(m, y, m->row[slot]);
    m->at[slot] = y;
    return m->row[slot];
}

/* First whole number that is not below v, in 0 .. side; 0 for NaN. */
static int edge(float v, int side)
{
    return v > 0 ? v < (float)side ? (int)ceilf(v) : side : 0;
}

static void fill(struct mask *m, const yolort_detection *d, int sw, int sh, uint8_t *out)
{
    int x0 = edge(d->x1, sw), x1 = edge(d->x2, sw), y0 = edge(d->y1, sh), y1 = edge(d->y2, sh);
    for (int y = y0; y < y1; y++) {
        struct between v = between(y, m->y.size, sh);
        int ya = v.a + m->y.from, yb = v.b + m->y.from;
        const float *a = enlarged(m, ya, yb), *b = enlarged(m, yb, ya);
        for (int x = m->x.from; x < m->x.from + m->x.size; x++)
            m->line[x] = mix(a[x], b[x], v.t);
        for (int x = x0; x < x1; x++) {
            struct between h = between(x, m->x.size, sw);
            const float *line = m->line + m->x.from;
            out[(size_t)y * (size_t)sw + (size_t)x] = mix(line[h.a], line[h.b], h.t) > 0;
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
    int f = enlargement(p, src_width, src_height);
    struct mask m = {.p = p, .f = f, .width = f * p->width, .value = work, .at = {-1, -1}};
    m.row[0] = m.value + (size_t)p->height * (size_t)p->width;
    m.row[1] = m.row[0] + m.width;
    m.line = m.row[1] + m.width;
    double scale = scale_to(p, f, src_width, src_height);
    m.x = span(m.width, src_width, scale);
    m.y = span(f * p->height, src_height, scale);
    memset(out, 0, bytes);
    sum_up(&m, coefficient);
    fill(&m, d, src_width, src_height, out);
    return YOLORT_OK;
}
