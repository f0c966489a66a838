/* Answers of every task by one call, and masks after it. */
#include "detect.h"
#include "opts.h"

#include <string.h>

enum { MAX_SIDE = 65535 };

void yolort_results_init(yolort_results *r, size_t size)
{
    const yolort_results own = {.size = sizeof own};
    rt_opts_init(r, size, &own, sizeof own);
}

/* What modules of each task without boxes put out, by class or one for all. */
static const struct {
    const char *task, *output;
    yolort_answer answer;
} others[] = {{"classify", "prob", YOLORT_CLASSES}, {"semantic", "logits_x8", YOLORT_LABELS}, {"depth", "depth_x4", YOLORT_DEPTHS}};

static int is_map(const yolort_io *io, const yolort_info *info, int64_t channels)
{
    return io->dtype == YOLORT_F32 && io->rank == 4 && channels > 0 && io->dim[1] == channels && io->dim[2] == info->height &&
           io->dim[3] == info->width;
}

static int fits(const yolort_io *io, const yolort_info *info, yolort_answer answer)
{
    if (!io->is_output) return 0;
    if (answer == YOLORT_CLASSES) return io->dtype == YOLORT_F32 && io->rank == 2 && io->dim[1] == info->nc && info->nc > 0;
    return is_map(io, info, answer == YOLORT_LABELS ? info->nc : 1);
}

static yolort_answer find_answer(const yolort_module *m, const yolort_info *info, int *at)
{
    *at = info->head == YOLORT_HEAD_NONE ? -1 : yolort_io_find(m, "decoded");
    if (info->head != YOLORT_HEAD_NONE) return *at >= 0 ? YOLORT_BOXES : YOLORT_NOTHING;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(info->task, others[i].task)) continue;
        *at = yolort_io_find(m, others[i].output);
        return *at >= 0 && fits(yolort_io_at(m, (size_t)*at), info, others[i].answer) ? others[i].answer : YOLORT_NOTHING;
    }
    return YOLORT_NOTHING;
}

yolort_answer yolort_answer_of(const yolort_module *m, int *io)
{
    int at = -1;
    const yolort_info *info = yolort_module_info(m);
    yolort_answer a = info ? find_answer(m, info, &at) : YOLORT_NOTHING;
    if (io) *io = at;
    return a;
}

/* --- prototypes --------------------------------------------------------------------------------------------- */

/* The output that holds prototypes of the module's coefficients; -1. */
static int find_proto(const yolort_module *m)
{
    int at = yolort_io_find(m, "proto");
    const yolort_io *io = at < 0 ? NULL : &m->io[at];
    return io && io->is_output && io->dtype == YOLORT_F32 && io->rank == 4 && io->dim[1] == m->info.coefficients &&
                   io->dim[2] <= MAX_SIDE && io->dim[3] <= MAX_SIDE
               ? at
               : -1;
}

static yolort_status predict(yolort_context *c, struct rt_request *r, const yolort_nms_opts *opts, const yolort_results *out)
{
    struct rt_error e = rt_context_error(c);
    yolort_results own;
    yolort_results_init(&own, sizeof own);
    RT_CHECK(&e, ARG, PRED_RESULTS, out && !rt_opts_read(&own, sizeof own, out), "predict: bad results");
    r->out = own.boxes;
    r->capacity = own.capacity;
    r->counts = own.counts;
    r->extra = own.extra;
    r->turned = own.turned;
    r->prob = own.prob;
    r->labels = own.labels;
    r->depths = own.depths;
    r->proto = own.protos && c->m->info.coefficients ? find_proto(c->m) : -1;
    RT_CHECK(&e, UNSUPPORTED, PRED_PROTO, r->proto >= 0 || !own.protos || !c->m->info.coefficients,
             "predict: prototypes of masks and coefficients do not fit together");
    return rt_request_run(c, r, opts);
}

yolort_status yolort_predict(yolort_context *c, const yolort_picture *pictures, const yolort_placement *placements, int n,
                             const yolort_nms_opts *opts, const yolort_results *out, void *stream)
{
    struct rt_request r = {.pictures = pictures, .placements = placements, .n = n, .any = 1, .stream = stream};
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, predict(c, &r, opts, out));
}

/* --- masks -------------------------------------------------------------------------------------------------- */

static yolort_status masks_here(yolort_context *c, const struct rt_mask_request *r, const struct rt_error *e)
{
    struct rt_block *work = &c->detect.mask;
    size_t bytes = (size_t)r->src_width * (size_t)r->src_height;
    if (!work->data && rt_block_new(work, yolort_mask_work_size(&r->proto), 0)) return rt_fail(e, YOLORT_OOM_HOST, "masks: no memory");
    for (size_t i = 0; i < r->n; i++)
        RT_TRY(yolort_mask(&r->proto, r->extra + i * r->each, &r->boxes[i], r->src_width, r->src_height, work->data, r->out + i * bytes,
                           bytes));
    return YOLORT_OK;
}

static int is_side(int v)
{
    return v >= 1 && v <= MAX_SIDE;
}

static yolort_status masks(yolort_context *c, struct rt_mask_request *r, int image, size_t out_bytes)
{
    struct rt_error e = rt_context_error(c);
    RT_CHECK(&e, ARG, MASKS_NULL, !r->n || (r->boxes && r->extra && r->out), "masks: NULL argument");
    RT_CHECK(&e, ARG, MASKS_STREAM, !r->stream || c->session, "masks: a CPU module takes no stream");
    RT_CHECK(&e, ARG, MASKS_SOURCE, is_side(r->src_width) && is_side(r->src_height), "masks: an image of %d x %d", r->src_width,
             r->src_height);
    RT_CHECK(&e, ARG, MASKS_ROOM, r->n <= out_bytes / ((size_t)r->src_width * (size_t)r->src_height), "masks: no room for %zu masks", r->n);
    RT_CHECK(&e, ARG, MASKS_IMAGE, image >= 0 && image < c->detect.protos, "masks: the context holds no prototypes of image %d", image);
    int at = find_proto(c->m);
    const yolort_io *io = &c->m->io[at];
    const uint8_t *base = c->detect.served_protos ? c->memory.io[at] : c->detect.proto.data;
    const uint8_t *proto = base + (size_t)image * io->bytes_per_image;
    r->proto = (yolort_proto){(const float *)(const void *)proto, (int)io->dim[1], (int)io->dim[2], (int)io->dim[3]};
    r->each = yolort_extra_count(&c->m->info);
    return c->detect.served_protos ? rt_serve_masks(c, r, &e) : masks_here(c, r, &e);
}

yolort_status yolort_masks(yolort_context *c, int image, int src_width, int src_height, const yolort_detection *boxes,
                           const float *extra, size_t n, uint8_t *out, size_t out_bytes, void *stream)
{
    struct rt_mask_request r = {
        .src_width = src_width, .src_height = src_height, .boxes = boxes, .extra = extra, .n = n, .out = out, .stream = stream};
    RT_TRY(rt_context_enter(c));
    return rt_context_leave(c, masks(c, &r, image, out_bytes));
}
