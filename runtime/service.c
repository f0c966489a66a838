/* Detections on a device with the kernels of service.h: one stream, one wait. */
#include "served.h"

#include "rotate.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct ym_box) == 32 && sizeof(struct ym_found) == 16, "kernels know these sizes");
_Static_assert(offsetof(struct ym_box, score) == offsetof(yolort_detection, score) &&
                   offsetof(struct ym_box, row) == offsetof(yolort_detection, row) && sizeof(yolort_detection) == 28,
               "a box begins with a detection");
_Static_assert(sizeof(struct ym_boxes) <= 4096, "larger than the parameters of a kernel may be");

enum { APART = 256, MOST_PAIRS = 1 << 24 };

const struct rt_service *rt_service_of(const yolort_context *c)
{
    return c->m->dev->service;
}

size_t rt_apart(size_t bytes)
{
    return (bytes + APART - 1) / APART * APART;
}

static int64_t blocks_of(int64_t rows)
{
    return (rows + YM_ROWS - 1) / YM_ROWS;
}

/* --- what a call needs -------------------------------------------------------------------------------------- */

static int is_best(const yolort_context *c)
{
    return c->m->info.head == YOLORT_HEAD_BEST;
}

/* Boxes of an image at most. */
static size_t limit_of(const yolort_context *c, const struct rt_request *r)
{
    size_t limit = r->capacity < (size_t)r->opts.max_det ? r->capacity : (size_t)r->opts.max_det;
    if (is_best(c) && limit > YM_MOST_BEST) limit = YM_MOST_BEST;
    return limit < r->rows ? limit : r->rows;
}

static size_t numbers_of(const yolort_context *c, const struct rt_request *r)
{
    return r->extra || c->m->info.angles ? 4 + (size_t)r->opts.extra : 0;
}

/* Whether kernels can count it. */
static int can_select(const yolort_context *c, const struct rt_request *r)
{
    size_t limit = limit_of(c, r), rows = r->rows, nc = (size_t)c->m->info.nc, n = (size_t)r->n;
    if (!limit || rows > INT_MAX / YM_ROWS || rows * nc > UINT32_MAX || limit * nc > MOST_PAIRS) return 0;
    if (limit * (numbers_of(c, r) + 1) > INT_MAX / sizeof(struct ym_box)) return 0;
    return n * (rows + limit * nc) < INT_MAX;
}

int rt_can_serve(const yolort_context *c, const struct rt_request *r)
{
    const struct rt_service *s = c->session ? rt_service_of(c) : NULL;
    const yolort_info *m = &c->m->info;
    if (!s || !s->has(c->session) || (r->answer == YOLORT_BOXES && !can_select(c, r))) return 0;
    return ((size_t)m->width + YM_QUAD - 1) * (size_t)m->height < INT_MAX / YM_PICTURES;
}

static yolort_status drop(yolort_context *c, struct rt_taken *t, int pinned, const struct rt_error *e)
{
    RT_TRY(rt_service_of(c)->drop(c->session, pinned, t->data, e));
    *t = (struct rt_taken){NULL, 0};
    return YOLORT_OK;
}

void rt_service_free(yolort_context *c)
{
    struct rt_detector *d = &c->detect;
    if (!rt_service_of(c)) return;
    drop(c, &d->pictures, 0, NULL);
    drop(c, &d->lists, 0, NULL);
    drop(c, &d->out, 0, NULL);
    drop(c, &d->pinned, 1, NULL);
}

yolort_status rt_ensure(yolort_context *c, struct rt_taken *t, int pinned, size_t bytes, const struct rt_error *e)
{
    if (bytes <= t->bytes) return YOLORT_OK;
    RT_TRY(drop(c, t, pinned, e));
    RT_TRY(rt_service_of(c)->take(c->session, pinned, bytes, &t->data, e));
    t->bytes = bytes;
    return YOLORT_OK;
}

void *rt_carve(uint8_t *base, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += rt_apart(bytes);
    return base ? base + at : NULL;
}

yolort_status rt_mark_part(yolort_context *c, int i, const struct rt_error *e)
{
    return c->parts ? c->m->dev->own->mark(c->session, i, e) : YOLORT_OK;
}

/* --- boxes -------------------------------------------------------------------------------------------------- */

static void carve_list(struct ym_list *l, uint8_t *base, size_t *used, size_t n)
{
    l->key = rt_carve(base, used, n * (size_t)l->room * sizeof *l->key);
    l->sorted = rt_carve(base, used, n * (size_t)l->room * sizeof *l->sorted);
}

/* Where everything lies; how many bytes that is. Counts come first. */
static size_t lay_out(const yolort_context *c, const struct rt_request *r, struct ym_boxes *b, uint8_t *base)
{
    size_t used = 0, n = (size_t)r->n, all = n * r->rows;
    int *count = rt_carve(base, &used, 2 * n * sizeof *count);
    for (int i = 0; i < 2; i++) b->list[i].count = count ? count + (size_t)i * n : NULL;
    b->list[0].room = (int)r->rows;
    b->list[1].room = is_best(c) ? b->limit * b->nc : 0;
    for (int i = 0; i <= is_best(c); i++) carve_list(&b->list[i], base, &used, n);
    b->corner = rt_carve(base, &used, all * 4 * sizeof *b->corner);
    if (b->keep == YM_KEEP_UNMARKED) {
        b->normal = rt_carve(base, &used, all * 5 * sizeof *b->normal);
        b->worse = rt_carve(base, &used, all);
    }
    b->compared = (int)((r->rows < YM_MOST_COMPARED ? r->rows + 31 : YM_MOST_COMPARED) / 32 * 32);
    if (b->keep == YM_KEEP_APART) b->mask = rt_carve(base, &used, n * (size_t)b->compared * (size_t)b->compared / 8);
    if (r->opts.classes) b->allowed = rt_carve(base, &used, (size_t)b->nc);
    return used;
}

static struct ym_boxes describe_boxes(const yolort_context *c, const struct rt_request *r)
{
    const yolort_info *m = &c->m->info;
    struct ym_boxes b = {
        .decoded = (const float *)(const void *)c->memory.io[r->output],
        .decoded_floats = (long long)(c->m->io[r->output].bytes_per_image / sizeof(float)),
        .images = r->n,
        .rows = (int)r->rows,
        .nc = m->nc,
        .head = (int)m->head,
        .extra = r->opts.extra,
        .rotated = r->opts.rotated != 0,
        .agnostic = r->opts.agnostic != 0,
        .numbers = (int)numbers_of(c, r),
        .limit = (int)limit_of(c, r),
        .keep = is_best(c) ? YM_KEEP_ALL : r->opts.rotated ? YM_KEEP_UNMARKED : YM_KEEP_APART,
        .conf = r->opts.conf,
        .iou = r->opts.iou,
    };
    size_t limit = (size_t)b.limit, bytes = sizeof(struct ym_found) + limit * sizeof(struct ym_box);
    b.out_bytes = (long long)((bytes + limit * (size_t)b.numbers * sizeof(float) + 15) / 16 * 16);
    return b;
}

static yolort_status ensure_boxes(yolort_context *c, const struct rt_request *r, struct ym_boxes *b, const struct rt_error *e)
{
    struct rt_detector *d = &c->detect;
    size_t out = (size_t)b->out_bytes * (size_t)r->n;
    RT_TRY(rt_ensure(c, &d->lists, 0, lay_out(c, r, b, NULL), e));
    RT_TRY(rt_ensure(c, &d->out, 0, out, e));
    RT_TRY(rt_ensure(c, &d->pinned, 1, out, e));
    lay_out(c, r, b, d->lists.data);
    b->out = d->out.data;
    return YOLORT_OK;
}

/* Before the network, which they need not wait for. */
static yolort_status put_lists(yolort_context *c, const struct rt_request *r, const struct ym_boxes *b, const struct rt_error *e)
{
    RT_TRY(rt_service_of(c)->clear(c->session, c->detect.lists.data, 2 * (size_t)r->n * sizeof(int), e));
    if (!r->opts.classes) return YOLORT_OK;
    return c->m->dev->own->put(c->session, (uint8_t *)(uintptr_t)b->allowed, r->opts.classes, (size_t)b->nc, e);
}

static yolort_status serve(yolort_context *c, int kernel, int64_t blocks, const struct ym_boxes *b, const struct rt_error *e)
{
    return rt_service_of(c)->serve(c->session, kernel, blocks * b->images, b, e);
}

static int64_t overlap_blocks(const struct ym_boxes *b)
{
    int64_t rows = (b->compared - 1) / YM_OVERLAP_ROWS + 1, columns = (b->compared - 1) / YM_OVERLAP_COLUMNS + 1;
    return rows * columns;
}

static yolort_status select_boxes(yolort_context *c, struct ym_boxes b, const struct rt_error *e)
{
    RT_TRY(serve(c, YM_CANDIDATES, blocks_of(b.rows), &b, e));
    RT_TRY(serve(c, YM_ORDER, blocks_of(b.list[0].room), &b, e));
    if (b.keep == YM_KEEP_ALL) {
        b.list_at = 1;
        RT_TRY(serve(c, YM_EXPAND, b.limit, &b, e));
        RT_TRY(serve(c, YM_ORDER, blocks_of(b.list[1].room), &b, e));
    }
    if (b.keep == YM_KEEP_UNMARKED)
        RT_TRY(serve(c, YM_COMPARE, blocks_of(b.rows < YM_MOST_ROTATED ? b.rows : YM_MOST_ROTATED), &b, e));
    if (b.keep == YM_KEEP_APART) RT_TRY(serve(c, YM_OVERLAP, overlap_blocks(&b), &b, e));
    return serve(c, YM_KEEP, 1, &b, e);
}

static yolort_status fetch_boxes(yolort_context *c, const struct ym_boxes *b, const struct rt_error *e)
{
    const struct rt_detector *d = &c->detect;
    RT_TRY(select_boxes(c, *b, e));
    RT_TRY(rt_mark_part(c, 4, e));
    return c->m->dev->own->get(c->session, d->pinned.data, d->out.data, (size_t)b->out_bytes * (size_t)b->images, e);
}

/* In source pixels. */
static yolort_status give_boxes(const yolort_context *c, const struct rt_request *r, const struct ym_boxes *b, int i,
                                const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    const uint8_t *at = c->detect.pinned.data + (size_t)i * (size_t)b->out_bytes;
    const struct ym_found *found = (const struct ym_found *)(const void *)at;
    const struct ym_box *box = (const struct ym_box *)(const void *)(found + 1);
    const float *numbers = (const float *)(const void *)(box + b->limit);
    yolort_detection *out = r->out + (size_t)i * r->capacity;
    yolort_picture picture;
    yolort_placement p;
    yolort_turned turned;
    RT_CHECK(e, FORMAT, DET_SERVED, found->count >= 0 && found->count <= b->limit, "detect: %d boxes of at most %d came from the GPU",
             found->count, b->limit);
    RT_TRY(rt_request_picture(c, r, i, &picture, &p, e));
    size_t n = r->counts[i] = (size_t)found->count, extra = (size_t)b->extra;
    for (size_t k = 0; k < n; k++) memcpy(&out[k], &box[k], sizeof out[k]);
    yolort_unletterbox(out, n, m->head, &p, picture.width, picture.height);
    yolort_placement back = rt_placement_back(m->head, &p, picture.width, picture.height);
    for (size_t k = 0; k < n && b->numbers; k++, numbers += b->numbers) {
        const float row[5] = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[b->numbers - 1]};
        if (m->angles) turned = rt_turn(row, &back, picture.width, picture.height, &out[k]);
        if (m->angles && r->turned) r->turned[(size_t)i * r->capacity + k] = turned;
        if (r->extra) memcpy(r->extra + ((size_t)i * r->capacity + k) * extra, numbers + 4, extra * sizeof *numbers);
    }
    return YOLORT_OK;
}

/* --- in the place of boxes ---------------------------------------------------------------------------------- */

static size_t map_element(const struct rt_request *r)
{
    return r->answer == YOLORT_LABELS ? sizeof **r->labels : sizeof **r->depths;
}

static size_t pixels_of(const yolort_picture *p)
{
    return (size_t)p->width * (size_t)p->height;
}

/* Maps of all pictures are made in the same memory, one after the other. */
static yolort_status ensure_map(yolort_context *c, const struct rt_request *r, const struct rt_error *e)
{
    size_t most = 0;
    for (int i = 0; i < r->n; i++) {
        yolort_picture picture;
        yolort_placement p;
        RT_TRY(rt_request_picture(c, r, i, &picture, &p, e));
        most = pixels_of(&picture) > most ? pixels_of(&picture) : most;
    }
    return rt_ensure(c, &c->detect.out, 0, most * map_element(r), e);
}

static yolort_status fetch_map(yolort_context *c, const struct rt_request *r, int i, const struct rt_error *e)
{
    enum { THREADS = 256 };
    const yolort_io *io = &c->m->io[r->output];
    yolort_picture s;
    yolort_placement p;
    RT_TRY(rt_request_picture(c, r, i, &s, &p, e));
    struct ym_source_map call = {
        .value = (const float *)(const void *)(c->memory.io[r->output] + (size_t)i * io->bytes_per_image),
        .out = c->detect.out.data,
        .classes = (int)io->dim[1],
        .width = c->m->info.width,
        .height = c->m->info.height,
        .left = p.left,
        .top = p.top,
        .resized_width = p.resized_width,
        .resized_height = p.resized_height,
        .src_width = s.width,
        .src_height = s.height,
    };
    int labels = r->answer == YOLORT_LABELS;
    int64_t blocks = (int64_t)((pixels_of(&s) - 1) / THREADS + 1);
    RT_TRY(rt_service_of(c)->serve(c->session, labels ? YM_LABELS : YM_DEPTHS, blocks, &call, e));
    void *to = labels ? (void *)r->labels[i] : (void *)r->depths[i];
    return c->m->dev->own->get(c->session, to, c->detect.out.data, pixels_of(&s) * map_element(r), e);
}

static yolort_status fetch_maps(yolort_context *c, const struct rt_request *r, const struct rt_error *e)
{
    for (int i = 0; i < r->n; i++) RT_TRY(fetch_map(c, r, i, e));
    return rt_mark_part(c, 4, e);
}

static yolort_status fetch_classes(yolort_context *c, const struct rt_request *r, const struct rt_error *e)
{
    size_t bytes = c->m->io[r->output].bytes_per_image * (size_t)r->n;
    RT_TRY(rt_mark_part(c, 4, e));
    return c->m->dev->own->get(c->session, r->prob, c->memory.io[r->output], bytes, e);
}

/* --- all of it ---------------------------------------------------------------------------------------------- */

static void bind_own(yolort_context *c, const struct rt_request *r)
{
    struct rt_bindings *b = &c->detect.served;
    const int io[] = {r->input, r->output, r->proto};
    int proto = yolort_io_find(c->m, "proto");
    rt_take_beside(c, b);
    if (proto >= 0 && !b->io[proto].data != (r->proto < 0)) c->wired = NULL;
    if (proto >= 0) b->io[proto] = (struct rt_binding){NULL, 0, 0};
    for (size_t i = 0; i < sizeof io / sizeof *io; i++) {
        if (io[i] < 0) continue;
        size_t bytes = c->m->io[io[i]].bytes_per_image * (size_t)c->m->info.max_batch;
        b->io[io[i]] = (struct rt_binding){c->memory.io[io[i]], bytes, 1};
    }
}

static yolort_status ensure_answer(yolort_context *c, const struct rt_request *r, struct ym_boxes *b, const struct rt_error *e)
{
    if (r->answer == YOLORT_CLASSES) return YOLORT_OK;
    if (r->answer != YOLORT_BOXES) return ensure_map(c, r, e);
    *b = describe_boxes(c, r);
    return ensure_boxes(c, r, b, e);
}

static yolort_status fetch(yolort_context *c, const struct rt_request *r, const struct ym_boxes *b, const struct rt_error *e)
{
    RT_TRY(rt_mark_part(c, 3, e));
    RT_TRY(r->answer == YOLORT_BOXES ? fetch_boxes(c, b, e) : r->answer == YOLORT_CLASSES ? fetch_classes(c, r, e) : fetch_maps(c, r, e));
    RT_TRY(rt_mark_part(c, 5, e));
    return c->m->dev->own->settle(c->session, e);
}

/* Between begin and end. */
static yolort_status before_network(yolort_context *c, const struct rt_request *r, struct rt_group *g, const struct ym_boxes *b,
                                    const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->begin(c->session, r->stream, e));
    yolort_status s = rt_pictures_put(c, r, g, e), end;
    if (!s && r->answer == YOLORT_BOXES) s = put_lists(c, r, b, e);
    end = own->end(c->session, s ? NULL : e);
    return s ? s : end;
}

static yolort_status after_network(yolort_context *c, const struct rt_request *r, const struct ym_boxes *b, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->begin(c->session, r->stream, e));
    yolort_status s = fetch(c, r, b, e), end = own->end(c->session, s ? NULL : e);
    return s ? s : end;
}

static yolort_status work(yolort_context *c, const struct rt_request *r, struct rt_group *g, const struct ym_boxes *b,
                          const struct rt_error *e)
{
    RT_TRY(before_network(c, r, g, b, e));
    RT_TRY(rt_context_run(c, &c->detect.served, r->n, r->stream));
    return after_network(c, r, b, e);
}

void rt_abandon(yolort_context *c, void *stream)
{
    const struct rt_own_memory *own = c->m->dev->own;
    if (own->begin(c->session, stream, NULL)) return;
    own->settle(c->session, NULL);
    own->end(c->session, NULL);
}

static yolort_status read_marks(yolort_context *c, const struct rt_error *e)
{
    for (int i = 0; c->parts && i < RT_MARKS - 1; i++)
        RT_TRY(c->m->dev->own->between(c->session, i, &c->detect.part_ms[i], e));
    return YOLORT_OK;
}

yolort_status rt_serve(yolort_context *c, const struct rt_request *r, const struct rt_error *e)
{
    struct rt_group g;
    struct ym_boxes b = {0};
    RT_TRY(rt_pictures_ensure(c, r, &g, e));
    RT_TRY(ensure_answer(c, r, &b, e));
    bind_own(c, r);
    yolort_status s = work(c, r, &g, &b, e);
    if (s) {
        rt_abandon(c, r->stream);
        return s;
    }
    RT_TRY(read_marks(c, e));
    for (int i = 0; i < r->n && r->answer == YOLORT_BOXES; i++)
        RT_TRY(give_boxes(c, r, &b, i, e));
    c->detect.protos = r->proto < 0 ? 0 : r->n;
    c->detect.served_protos = 1;
    return YOLORT_OK;
}
