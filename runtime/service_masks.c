/* Masks on a device: what boxes cut out of the picture, as bits, some boxes at a time. */
#include "served.h"

#include "mask.h"

#include <string.h>

_Static_assert(sizeof(struct ym_masked) == 56 && sizeof(struct ym_masks) <= 4096, "kernels know these sizes");

enum {
    THREADS = 256,
    MOST_BOXES = 1024,
    MOST_NUMBERS = 1 << 24 /* values, or words of bits, of the boxes of a round; one box may have more */
};

/* Boxes of one round, and where in memory of both sides they lie: first what goes to the device. */
struct round {
    struct ym_masks call;
    size_t first;             /* of the request's boxes */
    int n, value_blocks, word_blocks;
    long long values, words;
    size_t coefficient, value, bits; /* bytes before each */
    struct ym_masked *at;     /* in the host's memory */
};

static int blocks_of(long long units)
{
    return (int)((units + THREADS - 1) / THREADS);
}

/* Samples of an axis that pixels first .. first + n - 1 of the source need: of `size` enlarged ones from `from` on, of which the whole axis
 * has factor * side. */
static void span_needed(int first, int n, int source, int from, int size, int side, int factor, int *out, int *count)
{
    int a = from + ym_sample_at(first, size, source).a, b = from + ym_sample_at(first + n - 1, size, source).b;
    *out = ym_sample_at(a, side, factor * side).a;
    *count = ym_sample_at(b, side, factor * side).b - *out + 1;
}

static struct ym_masked describe(const struct ym_mask_plan *p, const yolort_detection *d)
{
    struct rt_window w = rt_mask_window(d, p->src_width, p->src_height);
    struct ym_masked m = {.x = w.x0, .y = w.y0, .width = w.x1 - w.x0, .height = w.y1 - w.y0};
    if (m.width <= 0 || m.height <= 0) return (struct ym_masked){0};
    span_needed(m.x, m.width, p->src_width, p->x_from, p->x_size, p->width, p->factor, &m.from_x, &m.across);
    span_needed(m.y, m.height, p->src_height, p->y_from, p->y_size, p->height, p->factor, &m.from_y, &m.down);
    return m;
}

static long long values_of(const struct ym_masked *m)
{
    return (long long)m->across * m->down;
}

static long long words_of(const struct ym_masked *m)
{
    return (long long)((m->width + 31) / 32) * m->height;
}

static void append(struct round *t, struct ym_masked *m)
{
    m->value = t->values;
    m->word = t->words;
    m->value_block = t->value_blocks;
    m->word_block = t->word_blocks;
    t->values += values_of(m);
    t->words += words_of(m);
    t->value_blocks += blocks_of(values_of(m));
    t->word_blocks += blocks_of(words_of(m));
    t->n++;
}

/* Boxes from t->first on, as many as go into a round; to (NULL: they are counted) gets them. */
static void list_boxes(const struct rt_mask_request *r, struct round *t, struct ym_masked *to)
{
    t->n = t->value_blocks = t->word_blocks = 0;
    t->values = t->words = 0;
    for (size_t i = t->first; i < r->n && t->n < MOST_BOXES; i++) {
        struct ym_masked m = describe(&t->call.plan, &r->boxes[i]);
        if (t->n && (t->values + values_of(&m) > MOST_NUMBERS || t->words + words_of(&m) > MOST_NUMBERS)) return;
        append(t, &m);
        if (to) to[t->n - 1] = m;
    }
}

static yolort_status prepare(yolort_context *c, const struct rt_mask_request *r, struct round *t, const struct rt_error *e)
{
    struct rt_detector *d = &c->detect;
    list_boxes(r, t, NULL);
    size_t used = 0, n = (size_t)t->n;
    rt_carve(NULL, &used, n * sizeof *t->at);
    t->coefficient = used;
    rt_carve(NULL, &used, n * (size_t)r->proto.count * sizeof(float));
    t->bits = used;
    rt_carve(NULL, &used, (size_t)t->words * sizeof(unsigned));
    t->value = used;
    RT_TRY(rt_ensure(c, &d->pinned, 1, used, e));
    rt_carve(NULL, &used, (size_t)t->values * sizeof(float));
    return rt_ensure(c, &d->lists, 0, used, e);
}

static void load(const yolort_context *c, const struct rt_mask_request *r, struct round *t)
{
    uint8_t *host = c->detect.pinned.data, *device = c->detect.lists.data;
    size_t count = (size_t)r->proto.count;
    t->at = (struct ym_masked *)(void *)host;
    list_boxes(r, t, t->at);
    for (size_t i = 0; i < (size_t)t->n; i++)
        memcpy(host + t->coefficient + i * count * sizeof(float), r->extra + (t->first + i) * r->each, count * sizeof(float));
    t->call.box = (const struct ym_masked *)(const void *)device;
    t->call.coefficient = (const float *)(const void *)(device + t->coefficient);
    t->call.value = (float *)(void *)(device + t->value);
    t->call.bits = (unsigned *)(void *)(device + t->bits);
    t->call.boxes = t->n;
}

static yolort_status launch(yolort_context *c, const struct round *t, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    uint8_t *host = c->detect.pinned.data, *device = c->detect.lists.data;
    RT_TRY(own->put(c->session, device, host, t->bits, e));
    RT_TRY(rt_service_of(c)->serve(c->session, YM_MASK_VALUES, t->value_blocks, &t->call, e));
    RT_TRY(rt_service_of(c)->serve(c->session, YM_MASKS, t->word_blocks, &t->call, e));
    RT_TRY(own->get(c->session, host + t->bits, device + t->bits, (size_t)t->words * sizeof(unsigned), e));
    return own->settle(c->session, e);
}

static void spread(const struct ym_masked *m, const unsigned *bits, int src_width, uint8_t *out)
{
    const unsigned *row = bits + m->word;
    for (int y = 0; y < m->height; y++, row += (m->width + 31) / 32) {
        uint8_t *to = out + (size_t)(m->y + y) * (size_t)src_width + (size_t)m->x;
        for (int x = 0; x < m->width; x++) to[x] = row[x / 32] >> x % 32 & 1;
    }
}

static void give(const yolort_context *c, const struct rt_mask_request *r, const struct round *t)
{
    size_t bytes = (size_t)r->src_width * (size_t)r->src_height;
    const unsigned *bits = (const unsigned *)(const void *)(c->detect.pinned.data + t->bits);
    for (int i = 0; i < t->n; i++) {
        uint8_t *out = r->out + (t->first + (size_t)i) * bytes;
        memset(out, 0, bytes);
        if (t->at[i].height) spread(&t->at[i], bits, r->src_width, out);
    }
}

static yolort_status run_round(yolort_context *c, const struct rt_mask_request *r, struct round *t, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(prepare(c, r, t, e));
    load(c, r, t);
    if (t->words) {
        RT_TRY(own->begin(c->session, r->stream, e));
        yolort_status s = launch(c, t, e), end = own->end(c->session, s ? NULL : e);
        RT_TRY(s ? s : end);
    }
    give(c, r, t);
    return YOLORT_OK;
}

yolort_status rt_serve_masks(yolort_context *c, const struct rt_mask_request *r, const struct rt_error *e)
{
    struct round t = {.call = {.proto = r->proto.data, .count = r->proto.count}};
    rt_mask_plan(&r->proto, r->src_width, r->src_height, &t.call.plan);
    for (; t.first < r->n; t.first += (size_t)t.n) {
        yolort_status s = run_round(c, r, &t, e);
        if (s) rt_abandon(c, r->stream);
        RT_TRY(s);
    }
    return YOLORT_OK;
}
