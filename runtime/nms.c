#include "check.h"
#include "opts.h"
#include "rotate.h"
#include "yolort.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { MOST_EXTRA = 1 << 20 };
enum { MOST_ROTATED = 30000 }; /* candidates that are compared with each other */
enum { MOST_BEST = 300 }; /* rows that a head without suppression gives out at most */
enum { BLOCK = 512 }; /* rows whose best classes are sought together: their state stays in the first cache */

/*
 * Candidates are a binary heap of keys, the next in order at the root: the complement of the score's bits (in
 * an order that integers keep) above the row. Most are never taken out, as NMS ends with the max_det-th box
 * kept.
 */
struct candidates {
    uint64_t *key;
    int32_t *cls; /* by row */
    size_t n;
};

struct scan {
    const float *data;
    size_t rows, stride; /* stride: floats of a row for anchor heads */
    int nc;
    yolort_head head;
    yolort_nms_opts opts;
};

void yolort_nms_opts_init(yolort_nms_opts *o, size_t size)
{
    const yolort_nms_opts own = {.size = sizeof own, .conf = 0.25f, .iou = 0.45f, .max_det = 300};
    rt_opts_init(o, size, &own, sizeof own);
}

size_t yolort_nms_work_size(size_t rows)
{
    return rows > (size_t)INT32_MAX ? SIZE_MAX : rows * (sizeof(uint64_t) + sizeof(int32_t));
}

/* Ascending keys: score descending, then row ascending. */
static uint64_t key_of(float score, size_t row)
{
    uint32_t bits;
    score += 0.0f; /* -0 orders as 0 */
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)~bits << 32 | row;
}

static float score_of(uint64_t key)
{
    uint32_t bits = ~(uint32_t)(key >> 32);
    float score;
    bits = bits >> 31 ? bits & 0x7fffffffu : ~bits;
    memcpy(&score, &bits, sizeof score);
    return score;
}

static void sift_down(uint64_t *key, size_t n, size_t at)
{
    uint64_t v = key[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && key[child + 1] < key[child]) child++;
        if (v <= key[child]) break;
        key[at] = key[child];
    }
    key[at] = v;
}

static void heapify(struct candidates *c)
{
    for (size_t i = c->n / 2; i-- > 0;)
        sift_down(c->key, c->n, i);
}

static uint64_t pop(struct candidates *c)
{
    uint64_t top = c->key[0];
    c->key[0] = c->key[--c->n];
    if (c->n) sift_down(c->key, c->n, 0);
    return top;
}

static void add_row(struct candidates *c, const struct scan *s, size_t row, float score, int32_t cls)
{
    if (!(score > s->opts.conf) || (s->opts.classes && !s->opts.classes[cls])) return;
    c->cls[row] = cls;
    c->key[c->n++] = key_of(score, row);
}

/* Class scores of rows lie side by side: one class after the other over a block of rows. A NaN stays a NaN.
 */
static void scan_free(struct candidates *c, const struct scan *s)
{
    float best[BLOCK];
    int32_t cls[BLOCK];
    for (size_t first = 0; first < s->rows; first += BLOCK) {
        int n = (int)(s->rows - first < BLOCK ? s->rows - first : BLOCK);
        const float *score = s->data + 4 * s->rows + first;
        memcpy(best, score, (size_t)n * sizeof *best);
        memset(cls, 0, sizeof cls);
        for (int k = 1; k < s->nc; k++) {
            score += s->rows;
            for (int i = 0; i < n; i++) {
                int better = !(score[i] <= best[i]) && best[i] == best[i];
                best[i] = better ? score[i] : best[i];
                cls[i] = better ? k : cls[i];
            }
        }
        for (int i = 0; i < n; i++)
            add_row(c, s, first + (size_t)i, best[i], cls[i]);
    }
}

/* Class scores are probabilities, so that a row whose objectness is not above conf needs no look at them. */
static void scan_anchor(struct candidates *c, const struct scan *s)
{
    const float *row = s->data;
    for (size_t r = 0; r < s->rows; r++, row += s->stride) {
        float obj = row[4];
        if (!(obj > s->opts.conf)) continue;
        float best = obj * row[5];
        int32_t cls = 0;
        for (int k = 1; k < s->nc; k++) {
            float v = obj * row[5 + k];
            if (v <= best || best != best) continue;
            best = v;
            cls = k;
        }
        add_row(c, s, r, best, cls);
    }
}

static int is_across(yolort_head head)
{
    return head == YOLORT_HEAD_FREE || head == YOLORT_HEAD_BEST;
}

static yolort_detection box_at(const struct scan *s, uint64_t key, int32_t cls)
{
    size_t row = (uint32_t)key;
    size_t step = is_across(s->head) ? s->rows : 1;
    const float *p = s->data + (is_across(s->head) ? row : row * s->stride);
    float w = p[2 * step] / 2, h = p[3 * step] / 2;
    if (s->head == YOLORT_HEAD_BEST && !s->opts.rotated)
        return (yolort_detection){p[0], p[step], p[2 * step], p[3 * step], score_of(key), cls, (int32_t)row};
    return (yolort_detection){
        .x1 = p[0] - w,
        .y1 = p[step] - h,
        .x2 = p[0] + w,
        .y2 = p[step] + h,
        .score = score_of(key),
        .cls = cls,
        .row = (int32_t)row,
    };
}

static float area(const yolort_detection *d)
{
    return (d->x2 - d->x1) * (d->y2 - d->y1);
}

/* Not fminf and fmaxf: those are calls, for the sake of NaN. */
static float smaller(float a, float b)
{
    return a < b ? a : b;
}

static float larger(float a, float b)
{
    return a > b ? a : b;
}

/* 0/0, of two points in one place, is no overlap. */
static float iou(const yolort_detection *a, const yolort_detection *b)
{
    float w = smaller(a->x2, b->x2) - larger(a->x1, b->x1);
    float h = smaller(a->y2, b->y2) - larger(a->y1, b->y1);
    if (!(w > 0) || !(h > 0)) return 0;
    float inter = w * h;
    return inter / (area(a) + area(b) - inter);
}

static int is_suppressed(const yolort_detection *d, const yolort_detection *kept, size_t n,
                         const yolort_nms_opts *o)
{
    for (size_t i = 0; i < n; i++)
        if ((o->agnostic || kept[i].cls == d->cls) && iou(&kept[i], d) > o->iou) return 1;
    return 0;
}

static size_t suppress(struct candidates *c, const struct scan *s, yolort_detection *out, size_t limit)
{
    size_t n = 0;
    heapify(c);
    while (n < limit && c->n) {
        uint64_t key = pop(c);
        yolort_detection d = box_at(s, key, c->cls[(uint32_t)key]);
        if (!is_suppressed(&d, out, n, &s->opts)) out[n++] = d;
    }
    return n;
}

static struct rt_rotated rotated_at(const struct scan *s, size_t row)
{
    size_t step = is_across(s->head) ? s->rows : 1, last = s->stride - 1;
    const float *p = s->data + (is_across(s->head) ? row : row * s->stride);
    if (is_across(s->head)) last--; /* no objectness */
    return rt_rotated_of((double)p[0], (double)p[step], (double)p[2 * step], (double)p[3 * step],
                         (double)p[last * step]);
}

/* Turned boxes yield to every better one, also to those that were suppressed themselves, as Ultralytics does it. What was
 * taken out of the heap lies behind it. */
static size_t suppress_rotated(struct candidates *c, const struct scan *s, yolort_detection *out, size_t limit)
{
    size_t n = 0, all = c->n;
    heapify(c);
    while (n < limit && c->n && all - c->n < MOST_ROTATED) {
        uint64_t key = pop(c);
        size_t row = (uint32_t)key;
        struct rt_rotated box = rotated_at(s, row);
        int worse = 0;
        for (size_t i = all; i-- > c->n + 1 && !worse;) {
            size_t other = (uint32_t)c->key[i];
            if (!s->opts.agnostic && c->cls[other] != c->cls[row]) continue;
            struct rt_rotated better = rotated_at(s, other);
            worse = rt_rotated_overlap(&better, &box) >= (double)s->opts.iou;
        }
        c->key[c->n] = key;
        if (!worse) out[n++] = box_at(s, key, c->cls[row]);
    }
    return n;
}

/* key: the complement of those above; of equal ones the lower class is better. */
struct choice {
    uint64_t key;
    int32_t cls;
};

struct best {
    struct choice at[MOST_BEST]; /* a heap, the worst at the root */
    size_t n, limit;
};

static int is_worse(const struct choice *a, const struct choice *b)
{
    return a->key < b->key || (a->key == b->key && a->cls > b->cls);
}

static void offer(struct best *b, uint64_t key, int32_t cls)
{
    const struct choice own = {~key, cls};
    size_t at = b->n;
    if (at == b->limit && (!at || !is_worse(&b->at[0], &own))) return;
    if (at < b->limit) {
        b->n++;
        for (; at > 0 && is_worse(&own, &b->at[(at - 1) / 2]); at = (at - 1) / 2) b->at[at] = b->at[(at - 1) / 2];
    } else {
        at = 0;
        for (size_t child; (child = 2 * at + 1) < b->n; at = child) {
            if (child + 1 < b->n && is_worse(&b->at[child + 1], &b->at[child])) child++;
            if (!is_worse(&b->at[child], &own)) break;
            b->at[at] = b->at[child];
        }
    }
    b->at[at] = own;
}

/* The best scores of all rows and classes; a row may come more than once. In each step of such a head the rows with the best
 * class are taken first: those hold the best scores. */
static size_t take_best(const struct scan *s, yolort_detection *out, size_t limit)
{
    struct best b = {.limit = limit < MOST_BEST ? limit : MOST_BEST};
    if (b.limit > s->rows) b.limit = s->rows;
    for (int k = 0; k < s->nc; k++) {
        const float *score = s->data + (4 + (size_t)k) * s->rows;
        if (s->opts.classes && !s->opts.classes[k]) continue;
        for (size_t r = 0; r < s->rows; r++)
            if (score[r] > s->opts.conf) offer(&b, key_of(score[r], r), k);
    }
    size_t n = b.n;
    for (size_t i = 0; i < n; i++) { /* few: the best of what is left goes next */
        size_t best = i;
        for (size_t k = i + 1; k < n; k++)
            if (is_worse(&b.at[best], &b.at[k])) best = k;
        struct choice next = b.at[best];
        b.at[best] = b.at[i];
        out[i] = box_at(s, ~next.key, next.cls);
    }
    return n;
}

/* The rows' floats have to fit the address space. */
static yolort_status check_shape(const struct scan *s)
{
    size_t bytes;
    if (!RT_HOLDS(NMS_HEAD, s->head >= YOLORT_HEAD_FREE && s->head <= YOLORT_HEAD_BEST)) return YOLORT_ARG;
    if (!RT_HOLDS(NMS_CLASSES, s->nc >= 1)) return YOLORT_ARG;
    if (!RT_HOLDS(NMS_ROWS, s->rows <= (size_t)INT32_MAX)) return YOLORT_ARG;
    if (!RT_HOLDS(NMS_BYTES, !__builtin_mul_overflow(s->rows, s->stride * sizeof(float), &bytes)))
        return YOLORT_ARG;
    const yolort_nms_opts *o = &s->opts;
    if (!RT_HOLDS(NMS_NAN, !isnan(o->conf) && !isnan(o->iou))) return YOLORT_ARG;
    if (!RT_HOLDS(NMS_EXTRA, o->extra >= 0 && o->extra <= MOST_EXTRA && (!o->rotated || o->extra >= 1)))
        return YOLORT_ARG;
    return RT_HOLDS(NMS_MAX_DET, o->max_det >= 0) ? YOLORT_OK : YOLORT_ARG;
}

yolort_status yolort_nms(const float *data, size_t rows, int nc, yolort_head head,
                         const yolort_nms_opts *opts, void *work, yolort_detection *out, size_t capacity,
                         size_t *count)
{
    struct scan s = {data, rows, (size_t)nc + 5, nc, head, {0}};
    if (!RT_HOLDS(NMS_NULL, count && (out || !capacity) && (!rows || (data && work)))) return YOLORT_ARG;
    if (!RT_HOLDS(NMS_ALIGN, (uintptr_t)work % sizeof(uint64_t) == 0)) return YOLORT_ARG;
    yolort_nms_opts_init(&s.opts, sizeof s.opts);
    if (opts && rt_opts_read(&s.opts, sizeof s.opts, opts)) return YOLORT_ARG;
    s.stride += (size_t)s.opts.extra;
    yolort_status status = check_shape(&s);
    if (status) return status;
    uint64_t *key = work;
    struct candidates c = {key, (int32_t *)(void *)(key + rows), 0};
    size_t limit = (size_t)s.opts.max_det < capacity ? (size_t)s.opts.max_det : capacity;
    if (head == YOLORT_HEAD_BEST) {
        *count = take_best(&s, out, limit);
        return YOLORT_OK;
    }
    if (rows && head == YOLORT_HEAD_FREE)
        scan_free(&c, &s);
    else if (rows)
        scan_anchor(&c, &s);
    *count = s.opts.rotated ? suppress_rotated(&c, &s, out, limit) : suppress(&c, &s, out, limit);
    return YOLORT_OK;
}

/* Not a number becomes a border: the result is always in the picture. */
float rt_to_source(float v, int pad, double scale, int side)
{
    float x = (float)(((double)v - pad) / scale);
    return fmaxf(0, fminf(x, (float)side));
}

/* In the middle and as large as it can be: what a placement worked out again is bound to be. */
static int is_centered(const yolort_placement *p)
{
    int64_t left = p->left, top = p->top, right = p->right, bottom = p->bottom; /* of any size: the caller's */
    return right - left <= 1 && bottom - top <= 1 && (!(left + right) || !(top + bottom));
}

yolort_placement rt_placement_back(yolort_head head, const yolort_placement *p, int src_width, int src_height)
{
    yolort_placement again;
    if (is_across(head) && is_centered(p) &&
        !yolort_letterbox_plan(src_width, src_height, p->out_width, p->out_height, YOLORT_SQUARE, 1, 1, &again))
        return again;
    return *p;
}

void yolort_unletterbox(yolort_detection *d, size_t n, yolort_head head, const yolort_placement *p,
                        int src_width, int src_height)
{
    if (!d || !p) return;
    yolort_placement again = rt_placement_back(head, p, src_width, src_height);
    p = &again;
    for (size_t i = 0; i < n; i++) {
        d[i].x1 = rt_to_source(d[i].x1, p->left, p->scale_x, src_width);
        d[i].y1 = rt_to_source(d[i].y1, p->top, p->scale_y, src_height);
        d[i].x2 = rt_to_source(d[i].x2, p->left, p->scale_x, src_width);
        d[i].y2 = rt_to_source(d[i].y2, p->top, p->scale_y, src_height);
    }
}
