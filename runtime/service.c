/* Detections on a device with the kernels of service.h: one stream, one wait. */
#include "service.h"

#include "detect.h"
#include "picture.h"
#include "rotate.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(struct ym_box) == 32 && sizeof(struct ym_found) == 16, "kernels know these sizes");
_Static_assert(offsetof(struct ym_box, score) == offsetof(yolort_detection, score) &&
                   offsetof(struct ym_box, row) == offsetof(yolort_detection, row) && sizeof(yolort_detection) == 28,
               "a box begins with a detection");
_Static_assert(sizeof(struct ym_letterbox) <= 4096 && sizeof(struct ym_boxes) <= 4096, "larger than the parameters of a kernel may be");

enum { APART = 256, MOST_PAIRS = 1 << 24 };

static const struct rt_service *service_of(const yolort_context *c)
{
    return c->m->dev->service;
}

static size_t apart(size_t bytes)
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
int rt_can_serve(const yolort_context *c, const struct rt_request *r)
{
    const struct rt_service *s = c->session ? service_of(c) : NULL;
    const yolort_info *m = &c->m->info;
    size_t limit = limit_of(c, r), rows = r->rows, nc = (size_t)m->nc, n = (size_t)r->n;
    if (!s || !s->has(c->session) || !limit) return 0;
    if (rows > INT_MAX / YM_ROWS || rows * nc > UINT32_MAX || limit * nc > MOST_PAIRS) return 0;
    if (limit * (numbers_of(c, r) + 1) > INT_MAX / sizeof(struct ym_box)) return 0;
    size_t quads = ((size_t)m->width + YM_QUAD - 1) / YM_QUAD * (size_t)m->height;
    return quads < INT_MAX / YM_PICTURES && n * (rows + limit * nc) < INT_MAX;
}

static void drop(yolort_context *c, struct rt_taken *t, int pinned)
{
    service_of(c)->drop(c->session, pinned, t->data);
    *t = (struct rt_taken){NULL, 0};
}

void rt_service_free(yolort_context *c)
{
    struct rt_detector *d = &c->detect;
    if (!service_of(c)) return;
    drop(c, &d->pictures, 0);
    drop(c, &d->lists, 0);
    drop(c, &d->out, 0);
    drop(c, &d->pinned, 1);
}

static yolort_status ensure(yolort_context *c, struct rt_taken *t, int pinned, size_t bytes, const struct rt_error *e)
{
    if (bytes <= t->bytes) return YOLORT_OK;
    drop(c, t, pinned);
    RT_TRY(service_of(c)->take(c->session, pinned, bytes, &t->data, e));
    t->bytes = bytes;
    return YOLORT_OK;
}

/* --- pictures ----------------------------------------------------------------------------------------------- */

/* Distance of rows on the device. What lies between rows is copied with them where it is not more than they are: one copy is much
 * faster than one by rows, above all from memory that is not pinned. */
static size_t pitch_of(size_t row, size_t given)
{
    return given <= 2 * row ? given : row;
}

static size_t bytes_of(size_t row, size_t given, size_t rows)
{
    return rows ? (rows - 1) * pitch_of(row, given) + row : 0;
}

static size_t luma_bytes(const yolort_picture *p)
{
    return bytes_of(rt_picture_row(p), p->row_bytes, (size_t)p->height);
}

static size_t picture_bytes(const yolort_picture *p)
{
    return apart(luma_bytes(p)) + bytes_of(rt_picture_chroma_row(p), p->chroma_row_bytes, rt_picture_chroma_rows(p));
}

static size_t letterboxed(const yolort_context *c, const struct rt_request *r)
{
    return c->m->io[r->input].bytes_per_image;
}

/* Pictures of a call of the kernel, from `first` on. */
struct group {
    int first, n;
    yolort_picture picture[YM_PICTURES];
    yolort_placement place[YM_PICTURES];
    int on_device[YM_PICTURES];
};

static yolort_status find_memory(const yolort_context *c, struct group *g, int i, int number, const struct rt_error *e)
{
    const yolort_picture *p = &g->picture[i];
    const struct rt_own_memory *own = c->m->dev->own;
    int data, chroma;
    RT_TRY(own->locate(c->session, p->data, &data, e));
    chroma = data;
    if (rt_picture_is_nv12(p)) RT_TRY(own->locate(c->session, p->chroma, &chroma, e));
    RT_CHECK(e, ARG, DET_DEVICE, data >= 0 && chroma == data, "detect: image %d: memory of another device", number);
    g->on_device[i] = data;
    return YOLORT_OK;
}

static yolort_status load_group(const yolort_context *c, const struct rt_request *r, int first, struct group *g, size_t *bytes,
                                const struct rt_error *e)
{
    g->first = first;
    g->n = r->n - first < YM_PICTURES ? r->n - first : YM_PICTURES;
    *bytes = 0;
    for (int i = 0; i < g->n; i++) {
        RT_TRY(rt_request_picture(c, r, first + i, &g->picture[i], &g->place[i], e));
        RT_TRY(find_memory(c, g, i, first + i, e));
        if (!g->on_device[i]) *bytes += apart(picture_bytes(&g->picture[i]));
    }
    return YOLORT_OK;
}

/* Everything of the caller's is looked at before anything is done. */
static yolort_status ensure_pictures(yolort_context *c, const struct rt_request *r, struct group *g, const struct rt_error *e)
{
    size_t most = 0, bytes;
    for (int first = 0; first < r->n; first += YM_PICTURES) {
        RT_TRY(load_group(c, r, first, g, &bytes, e));
        most = bytes > most ? bytes : most;
    }
    return ensure(c, &c->detect.pictures, 0, most, e);
}

static yolort_status put_rows(yolort_context *c, uint8_t *to, const uint8_t *from, size_t row, size_t *pitch, size_t rows,
                              const struct rt_error *e)
{
    size_t given = *pitch;
    *pitch = pitch_of(row, given);
    if (*pitch == given) return c->m->dev->own->put(c->session, to, from, bytes_of(row, given, rows), e);
    return service_of(c)->put_rows(c->session, to, from, row, given, rows, e);
}

/* The picture is then on the device. */
static yolort_status put_picture(yolort_context *c, yolort_picture *p, uint8_t *to, const struct rt_error *e)
{
    size_t chroma_row = rt_picture_chroma_row(p);
    uint8_t *chroma = to + apart(luma_bytes(p));
    RT_TRY(put_rows(c, to, p->data, rt_picture_row(p), &p->row_bytes, (size_t)p->height, e));
    if (chroma_row) RT_TRY(put_rows(c, chroma, p->chroma, chroma_row, &p->chroma_row_bytes, rt_picture_chroma_rows(p), e));
    p->data = to;
    p->chroma = chroma;
    return YOLORT_OK;
}

static yolort_status put_group(yolort_context *c, struct group *g, const struct rt_error *e)
{
    size_t at = 0;
    for (int i = 0; i < g->n; i++) {
        if (g->on_device[i]) continue;
        size_t bytes = apart(picture_bytes(&g->picture[i]));
        RT_TRY(put_picture(c, &g->picture[i], c->detect.pictures.data + at, e));
        at += bytes;
    }
    return YOLORT_OK;
}

static struct ym_picture describe(const yolort_picture *s, const yolort_placement *p, uint8_t *out)
{
    int same = s->width == p->resized_width && s->height == p->resized_height;
    int half = s->width == 2 * p->resized_width && s->height == 2 * p->resized_height;
    return (struct ym_picture){
        .pixels = s->data,
        .chroma = s->chroma,
        .row_bytes = (long long)s->row_bytes,
        .chroma_row_bytes = (long long)s->chroma_row_bytes,
        .out = out,
        .scale_x = 1.0 / ((double)p->resized_width / s->width),
        .scale_y = 1.0 / ((double)p->resized_height / s->height),
        .width = s->width,
        .height = s->height,
        .left = p->left,
        .top = p->top,
        .resized_width = p->resized_width,
        .resized_height = p->resized_height,
        .format = (int)s->format,
        .resize = same ? YM_AS_IT_IS : half ? YM_HALF : YM_BILINEAR,
    };
}

static yolort_status letterbox(yolort_context *c, const struct rt_request *r, const struct group *g, const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    int quads = (m->width + YM_QUAD - 1) / YM_QUAD;
    struct ym_letterbox call = {.count = g->n, .out_width = m->width, .out_height = m->height};
    call.blocks = (quads * m->height - 1) / YM_LETTERBOX_THREADS + 1;
    for (int i = 0; i < g->n; i++)
        call.picture[i] =
            describe(&g->picture[i], &g->place[i], c->memory.io[r->input] + (size_t)(g->first + i) * letterboxed(c, r));
    return service_of(c)->serve(c->session, YM_LETTERBOX, (int64_t)g->n * call.blocks, &call, e);
}

static yolort_status mark(yolort_context *c, int i, const struct rt_error *e)
{
    return c->parts ? c->m->dev->own->mark(c->session, i, e) : YOLORT_OK;
}

static yolort_status put_pictures(yolort_context *c, const struct rt_request *r, struct group *g, const struct rt_error *e)
{
    size_t bytes;
    RT_TRY(mark(c, 0, e));
    for (int first = 0; first < r->n; first += YM_PICTURES) {
        RT_TRY(load_group(c, r, first, g, &bytes, e));
        RT_TRY(put_group(c, g, e));
        if (!first) RT_TRY(mark(c, 1, e));
        RT_TRY(letterbox(c, r, g, e));
    }
    return mark(c, 2, e);
}

/* --- boxes -------------------------------------------------------------------------------------------------- */

/* The next `bytes` of memory of which the size alone is sought when base is NULL. */
static void *carve(uint8_t *base, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += apart(bytes);
    return base ? base + at : NULL;
}

static void carve_list(struct ym_list *l, uint8_t *base, size_t *used, size_t n)
{
    l->key = carve(base, used, n * (size_t)l->room * sizeof *l->key);
    l->sorted = carve(base, used, n * (size_t)l->room * sizeof *l->sorted);
}

/* Where everything lies; how many bytes that is. Counts come first. */
static size_t lay_out(const yolort_context *c, const struct rt_request *r, struct ym_boxes *b, uint8_t *base)
{
    size_t used = 0, n = (size_t)r->n, all = n * r->rows;
    int *count = carve(base, &used, 2 * n * sizeof *count);
    for (int i = 0; i < 2; i++) b->list[i].count = count ? count + (size_t)i * n : NULL;
    b->list[0].room = (int)r->rows;
    b->list[1].room = is_best(c) ? b->limit * b->nc : 0;
    for (int i = 0; i <= is_best(c); i++) carve_list(&b->list[i], base, &used, n);
    b->corner = carve(base, &used, all * 4 * sizeof *b->corner);
    if (b->keep == YM_KEEP_UNMARKED) {
        b->normal = carve(base, &used, all * 5 * sizeof *b->normal);
        b->worse = carve(base, &used, all);
    }
    b->compared = (int)((r->rows < YM_MOST_COMPARED ? r->rows + 31 : YM_MOST_COMPARED) / 32 * 32);
    if (b->keep == YM_KEEP_APART) b->mask = carve(base, &used, n * (size_t)b->compared * (size_t)b->compared / 8);
    if (r->opts.classes) b->allowed = carve(base, &used, (size_t)b->nc);
    return used;
}

static struct ym_boxes describe_boxes(const yolort_context *c, const struct rt_request *r)
{
    const yolort_info *m = &c->m->info;
    struct ym_boxes b = {
        .decoded = (const float *)(const void *)c->memory.io[r->decoded],
        .decoded_floats = (long long)(c->m->io[r->decoded].bytes_per_image / sizeof(float)),
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
    RT_TRY(ensure(c, &d->lists, 0, lay_out(c, r, b, NULL), e));
    RT_TRY(ensure(c, &d->out, 0, out, e));
    RT_TRY(ensure(c, &d->pinned, 1, out, e));
    lay_out(c, r, b, d->lists.data);
    b->out = d->out.data;
    return YOLORT_OK;
}

/* Before the network, which they need not wait for. */
static yolort_status put_lists(yolort_context *c, const struct rt_request *r, const struct ym_boxes *b, const struct rt_error *e)
{
    RT_TRY(service_of(c)->clear(c->session, c->detect.lists.data, 2 * (size_t)r->n * sizeof(int), e));
    if (!r->opts.classes) return YOLORT_OK;
    return c->m->dev->own->put(c->session, (uint8_t *)(uintptr_t)b->allowed, r->opts.classes, (size_t)b->nc, e);
}

static yolort_status serve(yolort_context *c, int kernel, int64_t blocks, const struct ym_boxes *b, const struct rt_error *e)
{
    return service_of(c)->serve(c->session, kernel, blocks * b->images, b, e);
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
    RT_TRY(mark(c, 3, e));
    RT_TRY(select_boxes(c, *b, e));
    RT_TRY(mark(c, 4, e));
    RT_TRY(c->m->dev->own->get(c->session, d->pinned.data, d->out.data, (size_t)b->out_bytes * (size_t)b->images, e));
    RT_TRY(mark(c, 5, e));
    return c->m->dev->own->settle(c->session, e);
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
    RT_CHECK(e, FORMAT, DET_SERVED, found->count >= 0 && found->count <= b->limit, "detect: %d boxes of at most %d came from the GPU",
             found->count, b->limit);
    RT_TRY(rt_request_picture(c, r, i, &picture, &p, e));
    size_t n = r->counts[i] = (size_t)found->count, extra = (size_t)b->extra;
    for (size_t k = 0; k < n; k++) memcpy(&out[k], &box[k], sizeof out[k]);
    yolort_unletterbox(out, n, m->head, &p, picture.width, picture.height);
    yolort_placement back = rt_placement_back(m->head, &p, picture.width, picture.height);
    for (size_t k = 0; k < n && b->numbers; k++, numbers += b->numbers) {
        const float row[5] = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[b->numbers - 1]};
        if (m->angles) rt_turn(row, &back, picture.width, picture.height, &out[k]);
        if (r->extra) memcpy(r->extra + ((size_t)i * r->capacity + k) * extra, numbers + 4, extra * sizeof *numbers);
    }
    return YOLORT_OK;
}

/* --- all of it ---------------------------------------------------------------------------------------------- */

static void bind_own(yolort_context *c, const struct rt_request *r)
{
    struct rt_bindings *b = &c->detect.served;
    const int io[] = {r->input, r->decoded};
    rt_take_beside(c, b);
    for (int i = 0; i < 2; i++) {
        size_t bytes = c->m->io[io[i]].bytes_per_image * (size_t)c->m->info.max_batch;
        b->io[io[i]] = (struct rt_binding){c->memory.io[io[i]], bytes, 1};
    }
}

/* Between begin and end. */
static yolort_status before_network(yolort_context *c, const struct rt_request *r, struct group *g, const struct ym_boxes *b,
                                    const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->begin(c->session, r->stream, e));
    yolort_status s = put_pictures(c, r, g, e), end;
    if (!s) s = put_lists(c, r, b, e);
    end = own->end(c->session, s ? NULL : e);
    return s ? s : end;
}

static yolort_status after_network(yolort_context *c, const struct rt_request *r, const struct ym_boxes *b, const struct rt_error *e)
{
    const struct rt_own_memory *own = c->m->dev->own;
    RT_TRY(own->begin(c->session, r->stream, e));
    yolort_status s = fetch_boxes(c, b, e), end = own->end(c->session, s ? NULL : e);
    return s ? s : end;
}

static yolort_status work(yolort_context *c, const struct rt_request *r, struct group *g, const struct ym_boxes *b,
                          const struct rt_error *e)
{
    RT_TRY(before_network(c, r, g, b, e));
    RT_TRY(rt_context_run(c, &c->detect.served, r->n, r->stream));
    return after_network(c, r, b, e);
}

/* After a failure: what is still under way reads the caller's pictures. */
static void abandon(yolort_context *c, const struct rt_request *r)
{
    const struct rt_own_memory *own = c->m->dev->own;
    if (own->begin(c->session, r->stream, NULL)) return;
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
    struct group g;
    struct ym_boxes b = describe_boxes(c, r);
    RT_TRY(ensure_pictures(c, r, &g, e));
    RT_TRY(ensure_boxes(c, r, &b, e));
    bind_own(c, r);
    yolort_status s = work(c, r, &g, &b, e);
    if (s) {
        abandon(c, r);
        return s;
    }
    RT_TRY(read_marks(c, e));
    for (int i = 0; i < r->n; i++)
        RT_TRY(give_boxes(c, r, &b, i, e));
    return YOLORT_OK;
}
