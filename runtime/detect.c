#include "letterbox.h"
#include "object.h"
#include "opts.h"

#include <string.h>

void rt_detector_free(struct rt_detector *d)
{
    rt_block_free(&d->input);
    rt_block_free(&d->decoded);
    rt_block_free(&d->resize);
    rt_block_free(&d->nms);
    memset(d, 0, sizeof *d);
}

struct frame {
    int input, decoded; /* io */
    size_t rows;        /* of decoded, for one image */
};

static yolort_status find_frame(const yolort_context *c, struct frame *f, const struct rt_error *e)
{
    const yolort_module *m = c->m;
    f->input = yolort_io_find(m, "input_u8");
    f->decoded = yolort_io_find(m, "decoded");
    RT_CHECK(e, UNSUPPORTED, DET_BOXES, m->info.head != YOLORT_HEAD_NONE && f->decoded >= 0,
             "detect: the module finds no boxes");
    RT_CHECK(e, UNSUPPORTED, DET_PICTURES, f->input >= 0, "detect: the module takes no pictures of bytes");
    f->rows = (size_t)m->io[f->decoded].dim[m->info.head == YOLORT_HEAD_FREE ? 2 : 1];
    return YOLORT_OK;
}

/* Room for n images. */
static yolort_status prepare(yolort_context *c, const struct frame *f, int n, const struct rt_error *e)
{
    struct rt_detector *d = &c->detect;
    for (uint32_t i = 0; i < c->m->t.nio; i++)
        if (!c->m->io[i].is_output && !rt_is_picture(c->m, i)) d->bound.io[i] = c->bound.io[i];
    if (n <= d->max_batch) return YOLORT_OK;
    size_t in = c->m->io[f->input].bytes_per_image * (size_t)n;
    size_t out = c->m->io[f->decoded].bytes_per_image * (size_t)n;
    rt_detector_free(d);
    c->wired = NULL;
    if (rt_block_new(&d->input, in, 0) || rt_block_new(&d->decoded, out, 0) ||
        rt_block_new(&d->resize, rt_letterbox_work_size(c->m->info.width), 0) ||
        rt_block_new(&d->nms, yolort_nms_work_size(f->rows), 0)) {
        rt_detector_free(d);
        return rt_fail(e, YOLORT_OOM_HOST, "detect: no memory for %d images", n);
    }
    d->bound.io[f->input] = (struct rt_binding){d->input.data, in, 0};
    d->bound.io[f->decoded] = (struct rt_binding){d->decoded.data, out, 0};
    d->max_batch = n;
    return YOLORT_OK;
}

static yolort_status plan(const yolort_info *m, const yolort_image *image, int i, yolort_placement *p,
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

static yolort_status place(yolort_context *c, const yolort_image *image, int i, size_t bytes,
                           const struct rt_error *e)
{
    yolort_placement p;
    RT_TRY(plan(&c->m->info, image, i, &p, e));
    RT_CHECK(e, ARG, DET_PIXELS,
             !rt_letterbox(image, &p, c->detect.input.data + (size_t)i * bytes, bytes, c->detect.resize.data),
             "detect: image %d has no pixels or short rows", i);
    return YOLORT_OK;
}

static yolort_status find_boxes(yolort_context *c, const struct frame *f, const yolort_image *image, int i,
                                const yolort_nms_opts *opts, yolort_detection *out, size_t capacity,
                                size_t *count, const struct rt_error *e)
{
    const yolort_info *m = &c->m->info;
    const uint8_t *at = c->detect.decoded.data + (size_t)i * c->m->io[f->decoded].bytes_per_image;
    yolort_placement p;
    RT_TRY(plan(m, image, i, &p, e));
    const float *rows = (const float *)(const void *)at;
    yolort_turned turned;
    RT_CHECK(e, ARG, DET_OPTIONS,
             !yolort_nms(rows, f->rows, m->nc, m->head, opts, c->detect.nms.data, out, capacity, count),
             "detect: bad options, or no room for boxes");
    yolort_unletterbox(out, *count, m->head, &p, image->width, image->height);
    for (size_t k = 0; m->angles && k < *count; k++)
        RT_TRY(yolort_turn(rows, f->rows, m, &p, image->width, image->height, &out[k], &turned));
    return YOLORT_OK;
}

/* The caller's options, else the module's; what rows hold beside boxes is the module's alone. */
static yolort_status choose_options(const yolort_info *m, const yolort_nms_opts *opts, yolort_nms_opts *out,
                                    const struct rt_error *e)
{
    yolort_nms_opts_init(out, sizeof *out);
    if (opts) {
        RT_CHECK(e, ARG, DET_OPTS_READ, !rt_opts_read(out, sizeof *out, opts), "detect: bad options");
    } else {
        out->conf = m->conf;
        out->iou = m->iou;
        out->max_det = m->max_det;
    }
    out->extra = (int)yolort_extra_count(m);
    out->rotated = m->angles;
    return YOLORT_OK;
}

static yolort_status detect(yolort_context *c, const yolort_image *images, int n, const yolort_nms_opts *opts,
                            yolort_detection *out, size_t capacity, size_t *counts)
{
    struct rt_error e = rt_context_error(c);
    const yolort_info *m = &c->m->info;
    yolort_nms_opts own;
    struct frame f = {0};
    RT_CHECK(&e, ARG, DET_NULL, images && counts && (out || !capacity), "detect: NULL argument");
    RT_CHECK(&e, ARG, DET_COUNT, n >= 1 && n <= m->max_batch, "detect: %d images of at most %d", n,
             m->max_batch);
    RT_TRY(find_frame(c, &f, &e));
    RT_TRY(prepare(c, &f, n, &e));
    RT_TRY(choose_options(m, opts, &own, &e));
    for (int i = 0; i < n; i++)
        RT_TRY(place(c, &images[i], i, c->m->io[f.input].bytes_per_image, &e));
    RT_TRY(rt_context_run(c, &c->detect.bound, n, NULL));
    RT_TRY(rt_context_wait(c));
    for (int i = 0; i < n; i++)
        RT_TRY(find_boxes(c, &f, &images[i], i, &own, out + (size_t)i * capacity, capacity,
                          &counts[i], &e));
    return YOLORT_OK;
}

yolort_status yolort_detect(yolort_context *c, const yolort_image *images, int n, const yolort_nms_opts *opts,
                            yolort_detection *out, size_t capacity, size_t *counts)
{
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, detect(c, images, n, opts, out, capacity, counts));
}
