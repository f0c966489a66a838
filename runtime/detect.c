#include "detect.h"
#include "letterbox.h"
#include "opts.h"
#include "picture.h"

#include <string.h>
#include <time.h>

void rt_detector_free(struct rt_detector *d)
{
    struct rt_block *const own[] = {&d->input, &d->output, &d->proto, &d->resize, &d->nms, &d->rgb, &d->mask};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) rt_block_free(own[i]);
    memset(d, 0, sizeof *d);
}

static yolort_status find_frame(const yolort_context *c, struct rt_request *r, const struct rt_error *e)
{
    const yolort_module *m = c->m;
    r->input = yolort_io_find(m, "input_u8");
    r->answer = yolort_answer_of(m, &r->output);
    RT_CHECK(e, UNSUPPORTED, DET_BOXES, r->answer == YOLORT_BOXES || (r->answer && r->any), "detect: the module finds no boxes");
    RT_CHECK(e, UNSUPPORTED, DET_PICTURES, r->input >= 0, "detect: the module takes no pictures of bytes");
    if (r->answer != YOLORT_BOXES) return YOLORT_OK;
    r->rows = (size_t)m->io[r->output].dim[m->info.head == YOLORT_HEAD_FREE || m->info.head == YOLORT_HEAD_BEST ? 2 : 1];
    return YOLORT_OK;
}

static yolort_status plan(const yolort_info *m, const yolort_picture *image, int i, yolort_placement *p,
                          const struct rt_error *e)
{
    RT_CHECK(e, ARG, DET_SIDES,
             !yolort_letterbox_plan(image->width, image->height, m->width, m->height, m->letterbox, m->stride,
                                    1, p),
             "detect: image %d is %d x %d", i, image->width, image->height);
    RT_CHECK(e, ARG, DET_SIZE, p->out_width == m->width && p->out_height == m->height,
             "detect: image %d (%d x %d) becomes %d x %d, this module takes %d x %d", i, image->width,
             image->height, p->out_width, p->out_height, m->width, m->height);
    return YOLORT_OK;
}

static yolort_picture picture_of(const struct rt_request *r, int i)
{
    if (!r->images) return r->pictures[i];
    const yolort_image *m = &r->images[i];
    return (yolort_picture){.data = m->rgb, .width = m->width, .height = m->height, .row_bytes = m->row_bytes};
}

static int is_side(int v)
{
    enum { MAX_SIDE = 65535 };
    return v >= 1 && v <= MAX_SIDE;
}

static yolort_status place_of(const yolort_context *c, const struct rt_request *r, int i, const yolort_picture *image, yolort_placement *p,
                              const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    if (r->answer != YOLORT_CLASSES && !r->placements) return plan(m, image, i, p, e);
    RT_CHECK(e, ARG, PRED_SIDES, is_side(image->width) && is_side(image->height), "detect: image %d is %d x %d", i, image->width,
             image->height);
    *p = (yolort_placement){.out_width = m->width, .out_height = m->height};
    if (r->answer == YOLORT_CLASSES) return YOLORT_OK;
    *p = r->placements[i];
    RT_CHECK(e, ARG, PRED_PLACEMENT, rt_is_placement(p) && p->out_width == m->width && p->out_height == m->height,
             "detect: the placement of image %d is none in %d x %d", i, m->width, m->height);
    return YOLORT_OK;
}

yolort_status rt_request_picture(const yolort_context *c, const struct rt_request *r, int i, yolort_picture *out, yolort_placement *p,
                                 const struct rt_error *e)
{
    *out = picture_of(r, i);
    RT_TRY(place_of(c, r, i, out, p, e));
    RT_CHECK(e, ARG, DET_PIXELS, !rt_picture_settle(out), "detect: image %d has no pixels, short rows or a format that is none", i);
    return YOLORT_OK;
}

void rt_take_beside(yolort_context *c, struct rt_bindings *b)
{
    for (uint32_t i = 0; i < c->m->t.nio; i++)
        if (!c->m->io[i].is_output && !rt_is_picture(c->m, i)) b->io[i] = c->bound.io[i];
}

/* --- in the host's memory ----------------------------------------------------------------------------------- */

static yolort_status ensure(struct rt_block *b, size_t bytes, const struct rt_error *e)
{
    if (b->data && b->size >= bytes) return YOLORT_OK;
    rt_block_free(b);
    *b = (struct rt_block){0};
    return rt_block_new(b, bytes, 0) ? rt_fail(e, YOLORT_OOM_HOST, "detect: no memory for %zu bytes", bytes) : YOLORT_OK;
}

/* Binds input or output io to memory for n images. */
static yolort_status bind(yolort_context *c, int io, int n, struct rt_block *b, const struct rt_error *e)
{
    if (io < 0) return YOLORT_OK;
    size_t bytes = c->m->io[io].bytes_per_image * (size_t)n;
    RT_TRY(ensure(b, bytes, e));
    c->detect.bound.io[io] = (struct rt_binding){b->data, bytes, 0};
    return YOLORT_OK;
}

static yolort_status prepare(yolort_context *c, const struct rt_request *r, const struct rt_error *e)
{
    struct rt_detector *d = &c->detect;
    c->wired = NULL;
    memset(&d->bound, 0, sizeof d->bound);
    rt_take_beside(c, &d->bound);
    RT_TRY(bind(c, r->input, r->n, &d->input, e));
    RT_TRY(bind(c, r->output, r->n, &d->output, e));
    RT_TRY(bind(c, r->proto, r->n, &d->proto, e));
    if (r->answer != YOLORT_CLASSES) RT_TRY(ensure(&d->resize, rt_letterbox_work_size(c->m->info.width), e));
    return r->answer == YOLORT_BOXES ? ensure(&d->nms, yolort_nms_work_size(r->rows), e) : YOLORT_OK;
}

/* What is no RGB becomes that first. */
static yolort_status as_rgb(yolort_context *c, const yolort_picture *from, yolort_image *to, const struct rt_error *e)
{
    struct rt_block *b = &c->detect.rgb;
    *to = (yolort_image){from->data, from->width, from->height, from->row_bytes};
    if (from->format == YOLORT_RGB) return YOLORT_OK;
    RT_TRY(ensure(b, (size_t)from->width * (size_t)from->height * 3, e));
    rt_picture_to_rgb(from, b->data);
    *to = (yolort_image){b->data, from->width, from->height, 0};
    return YOLORT_OK;
}

static yolort_status place(yolort_context *c, const struct rt_request *r, int i, const struct rt_error *e)
{
    size_t bytes = c->m->io[r->input].bytes_per_image;
    uint8_t *to = c->detect.input.data + (size_t)i * bytes;
    yolort_picture picture;
    yolort_placement p;
    yolort_image rgb;
    RT_TRY(rt_request_picture(c, r, i, &picture, &p, e));
    RT_TRY(as_rgb(c, &picture, &rgb, e));
    yolort_status s = r->answer == YOLORT_CLASSES ? yolort_crop(&rgb, p.out_width, p.out_height, to, bytes)
                                                  : rt_letterbox(&rgb, &p, to, bytes, c->detect.resize.data);
    if (s == YOLORT_OOM_HOST) return rt_fail(e, s, "detect: no memory for image %d", i);
    RT_CHECK(e, ARG, DET_PIXELS, !s, "detect: image %d has no pixels or short rows", i);
    return YOLORT_OK;
}

static const float *output_of(const yolort_context *c, const struct rt_request *r, int i)
{
    const uint8_t *at = c->detect.output.data + (size_t)i * c->m->io[r->output].bytes_per_image;
    return (const float *)(const void *)at;
}

static yolort_status find_boxes(yolort_context *c, const struct rt_request *r, int i, const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    const float *rows = output_of(c, r, i);
    size_t first = (size_t)i * r->capacity, *count = &r->counts[i], extra = yolort_extra_count(m);
    yolort_detection *out = r->out + first;
    yolort_picture picture;
    yolort_placement p;
    yolort_turned turned;
    RT_TRY(rt_request_picture(c, r, i, &picture, &p, e));
    RT_CHECK(e, ARG, DET_OPTIONS,
             !yolort_nms(rows, r->rows, m->nc, m->head, &r->opts, c->detect.nms.data, out, r->capacity, count),
             "detect: bad options, or no room for boxes");
    yolort_unletterbox(out, *count, m->head, &p, picture.width, picture.height);
    for (size_t k = 0; m->angles && k < *count; k++) {
        RT_TRY(yolort_turn(rows, r->rows, m, &p, picture.width, picture.height, &out[k], &turned));
        if (r->turned) r->turned[first + k] = turned;
    }
    for (size_t k = 0; r->extra && k < *count; k++)
        RT_TRY(yolort_extra(rows, r->rows, m, out[k].row, r->extra + (first + k) * extra));
    return YOLORT_OK;
}

static yolort_status find_map(const yolort_context *c, const struct rt_request *r, int i, const struct rt_error *e)
{
    yolort_picture s;
    yolort_placement p;
    RT_TRY(rt_request_picture(c, r, i, &s, &p, e));
    size_t n = (size_t)s.width * (size_t)s.height;
    if (r->answer == YOLORT_DEPTHS) return yolort_depths(output_of(c, r, i), &p, s.width, s.height, r->depths[i], n);
    return yolort_labels(output_of(c, r, i), (int)c->m->io[r->output].dim[1], &p, s.width, s.height, r->labels[i], n);
}

static yolort_status find(yolort_context *c, const struct rt_request *r, int i, const struct rt_error *e)
{
    size_t nc = (size_t)c->m->info.nc;
    if (r->answer == YOLORT_BOXES) return find_boxes(c, r, i, e);
    if (r->answer != YOLORT_CLASSES) return find_map(c, r, i, e);
    memcpy(r->prob + (size_t)i * nc, output_of(c, r, i), nc * sizeof *r->prob);
    return YOLORT_OK;
}

/* Milliseconds since *last, which becomes now. */
static double lap(struct timespec *last)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double ms = (double)(t.tv_sec - last->tv_sec) * 1e3 + (double)(t.tv_nsec - last->tv_nsec) * 1e-6;
    *last = t;
    return ms;
}

static yolort_status detect_here(yolort_context *c, const struct rt_request *r, const struct rt_error *e)
{
    double part[RT_MARKS - 1] = {0};
    struct timespec t;
    RT_TRY(prepare(c, r, e));
    clock_gettime(CLOCK_MONOTONIC, &t);
    for (int i = 0; i < r->n; i++)
        RT_TRY(place(c, r, i, e));
    part[1] = lap(&t);
    RT_TRY(rt_context_run(c, &c->detect.bound, r->n, r->stream));
    RT_TRY(rt_context_wait(c));
    part[2] = lap(&t);
    for (int i = 0; i < r->n; i++)
        RT_TRY(find(c, r, i, e));
    part[3] = lap(&t);
    if (c->parts) memcpy(c->detect.part_ms, part, sizeof part);
    c->detect.protos = r->proto < 0 ? 0 : r->n;
    c->detect.served_protos = 0;
    return YOLORT_OK;
}

/* --- calls -------------------------------------------------------------------------------------------------- */

/* The caller's options, else the module's; what rows hold beside boxes is the module's alone. */
static yolort_status choose_options(const yolort_info *m, const yolort_nms_opts *opts, yolort_nms_opts *out,
                                    const struct rt_error *e)
{
    size_t none;
    yolort_nms_opts_init(out, sizeof *out);
    if (opts) {
        RT_CHECK(e, ARG, DET_OPTS_READ, !rt_opts_read(out, sizeof *out, opts), "detect: bad options");
    } else {
        out->conf = m->conf;
        out->iou = m->iou;
        out->max_det = m->max_det;
    }
    out->size = sizeof *out;
    out->extra = (int)yolort_extra_count(m);
    out->rotated = m->angles;
    RT_CHECK(e, ARG, DET_OPTIONS, !yolort_nms(NULL, 0, m->nc, m->head, out, NULL, NULL, 0, &none), "detect: bad options");
    return YOLORT_OK;
}

/* What the answer needs room for; `any` alone asks for others than boxes. */
static int has_room(const struct rt_request *r)
{
    switch (r->answer) {
    case YOLORT_CLASSES: return r->prob != NULL;
    case YOLORT_LABELS:
    case YOLORT_DEPTHS:
        for (int i = 0; i < r->n; i++)
            if (r->answer == YOLORT_LABELS ? !r->labels || !r->labels[i] : !r->depths || !r->depths[i]) return 0;
        return 1;
    default: return r->counts && (r->out || !r->capacity);
    }
}

yolort_status rt_request_run(yolort_context *c, struct rt_request *r, const yolort_nms_opts *opts)
{
    struct rt_error e = rt_context_error(c);
    const yolort_info *m = &c->m->info;
    RT_CHECK(&e, ARG, DET_COUNT, r->n >= 1 && r->n <= m->max_batch, "detect: %d images of at most %d", r->n, m->max_batch);
    RT_CHECK(&e, ARG, DET_STREAM, !r->stream || c->session, "detect: a CPU module takes no stream");
    RT_TRY(find_frame(c, r, &e));
    RT_CHECK(&e, ARG, DET_NULL, (r->images || r->pictures) && has_room(r), "detect: NULL argument");
    if (r->answer == YOLORT_BOXES) RT_TRY(choose_options(m, opts, &r->opts, &e));
    return rt_can_serve(c, r) ? rt_serve(c, r, &e) : detect_here(c, r, &e);
}

yolort_status yolort_detect(yolort_context *c, const yolort_image *images, int n, const yolort_nms_opts *opts,
                            yolort_detection *out, size_t capacity, size_t *counts)
{
    struct rt_request r = {.images = images, .n = n, .out = out, .capacity = capacity, .counts = counts, .proto = -1};
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, rt_request_run(c, &r, opts));
}

yolort_status yolort_detect_batch(yolort_context *c, const yolort_picture *pictures, int n, const yolort_nms_opts *opts,
                                  yolort_detection *out, size_t capacity, size_t *counts, float *extra, void *stream)
{
    struct rt_request r = {
        .pictures = pictures, .n = n, .out = out, .capacity = capacity, .counts = counts, .extra = extra, .stream = stream, .proto = -1};
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, rt_request_run(c, &r, opts));
}

yolort_status yolort_parts_of(const yolort_context *c, yolort_parts *out)
{
    if (!RT_HOLDS(PARTS_NULL, c && c->kind == RT_CONTEXT_KIND && out)) return YOLORT_ARG;
    const double *ms = c->detect.part_ms;
    *out = (yolort_parts){ms[0], ms[1], ms[2], ms[3], ms[4]};
    return YOLORT_OK;
}
