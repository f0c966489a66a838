#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cli_device_opts(yolort_context_opts *o, const struct cli_device *d)
{
    yolort_context_opts_init(o, sizeof *o);
    o->threads = d->threads;
    o->guard = d->guard;
    o->graph = d->no_graph ? YOLORT_GRAPH_OFF : 0;
}

void cli_device_told(const struct cli_device *d, const yolort_context *c)
{
    int used = yolort_threads(c);
    if (used > 1 && d->threads > used)
        cli_warn("--threads %d: %d are used, which is what the cores here can bear", d->threads, used);
}

static enum cli_number number_of(yolort_status s)
{
    switch (s) {
    case YOLORT_FORMAT:
    case YOLORT_LIMIT:
    case YOLORT_INTEGRITY:
    case YOLORT_UNSUPPORTED: return CLI_MODULE_FILE;
    case YOLORT_INCOMPATIBLE:
    case YOLORT_NO_DEVICE: return CLI_MODULE_TARGET;
    case YOLORT_OOM_HOST:
    case YOLORT_OOM_DEVICE: return CLI_MEMORY;
    case YOLORT_IO: return CLI_OPEN;
    default: return CLI_RUN;
    }
}

int cli_runtime_check(yolort_status s, const char *what, const char *text, struct cli_error *e)
{
    if (s == YOLORT_OK)
        return 0;
    cli_fail(e, number_of(s), "%s: %s", what, text && text[0] ? text : yolort_status_name(s));
    if (s == YOLORT_BUSY || s == YOLORT_TIMEOUT || s == YOLORT_DEVICE_LOST)
        e->exit_code = CLI_NO_RESOURCE;
    return -1;
}

static size_t extras_of(const struct cli_engine *g)
{
    return yolort_extra_count(g->info);
}

/* How many rows `decoded` has, and whether their length fits the class count; 0 when it does not. */
static size_t rows_of(const yolort_info *info, const yolort_io *io)
{
    if (io->rank != 3 || io->dtype != YOLORT_F32)
        return 0;
    int across = info->head == YOLORT_HEAD_FREE || info->head == YOLORT_HEAD_BEST;
    int64_t wanted = (across ? 4 : 5) + (int64_t)info->nc + (int64_t)yolort_extra_count(info);
    return io->dim[across ? 1 : 2] == wanted ? (size_t)io->dim[across ? 2 : 1] : 0;
}

static int is_picture_input(const yolort_io *io, const yolort_info *info)
{
    return io->dtype == YOLORT_U8 && io->rank == 4 && io->dim[1] == info->height &&
           io->dim[2] == info->width && io->dim[3] == 3;
}

static int is_map(const yolort_io *io, const yolort_info *info, int64_t channels)
{
    return io->dtype == YOLORT_F32 && io->rank == 4 && io->dim[1] == channels && io->dim[2] == info->height &&
           io->dim[3] == info->width;
}

/* What is asked of a module of each task without boxes. */
static const struct {
    const char *task, *output;
    enum cli_answer answer;
} others[] = {{"classify", "prob", CLI_CLASSES},
              {"semantic", "logits_x8", CLI_LABELS},
              {"depth", "depth_x4", CLI_DEPTHS}};

/* The output that holds the answer; -1: there is none. */
static int find_output(struct cli_engine *g)
{
    if (g->info->head != YOLORT_HEAD_NONE)
        return yolort_io_find(g->module, "decoded");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(g->info->task, others[i].task) != 0)
            continue;
        g->answer = others[i].answer;
        return yolort_io_find(g->module, others[i].output);
    }
    return -1;
}

/* Whether the output has the shape of the answer; sets nrow. */
static int fits(struct cli_engine *g, const yolort_io *io)
{
    switch (g->answer) {
    case CLI_BOXES: return (g->nrow = rows_of(g->info, io)) != 0;
    case CLI_CLASSES: return io->dtype == YOLORT_F32 && io->rank == 2 && io->dim[1] == g->info->nc && g->info->nc > 0;
    case CLI_LABELS: return g->info->nc > 0 && is_map(io, g->info, g->info->nc);
    case CLI_DEPTHS: return is_map(io, g->info, 1);
    }
    return 0;
}

static int bind_protos(struct cli_engine *g, const char *name, struct cli_error *e)
{
    int at = yolort_io_find(g->module, "proto");
    const yolort_io *io = at < 0 ? NULL : yolort_io_at(g->module, (size_t)at);
    if (!io || io->dtype != YOLORT_F32 || io->rank != 4 || io->dim[1] != g->info->coefficients)
        return cli_fail(e, CLI_MODULE_FILE, "%s: prototypes of masks and coefficients do not fit together", name);
    g->protos = malloc(io->bytes_per_image);
    g->masks = calloc(g->capacity, sizeof *g->masks);
    if (!g->protos || !g->masks)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", name);
    g->proto = (yolort_proto){g->protos, (int)io->dim[1], (int)io->dim[2], (int)io->dim[3]};
    return cli_runtime_check(yolort_bind(g->context, (size_t)at, g->protos, io->bytes_per_image), name,
                             yolort_error(g->context), e);
}

static int bind_boxes(struct cli_engine *g, const char *name, struct cli_error *e)
{
    size_t floats = (size_t)g->info->points * (size_t)g->info->point_dims;
    g->work = malloc(yolort_nms_work_size(g->nrow));
    g->found = calloc(g->capacity, sizeof *g->found);
    g->extra = calloc(extras_of(g) + 1, sizeof *g->extra);
    if (floats)
        g->points = calloc(g->capacity, floats * sizeof *g->points);
    if (g->info->angles)
        g->turned = calloc(g->capacity, sizeof *g->turned);
    if (!g->work || !g->found || !g->extra || (floats && !g->points) || (g->info->angles && !g->turned))
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", name);
    return g->info->coefficients ? bind_protos(g, name, e) : 0;
}

static int is_beside(const yolort_io *io)
{
    return !io->is_output && strcmp(io->name, "input_u8") != 0 && strcmp(io->name, "images") != 0;
}

int cli_engine_compares(const yolort_module *m)
{
    for (size_t i = 0; i < yolort_io_count(m); i++)
        if (is_beside(yolort_io_at(m, i)))
            return 1;
    return 0;
}

const yoloc_tensor *cli_tensor_named(const yoloc_tensors *t, const char *name)
{
    for (size_t i = 0; i < yoloc_tensors_count(t); i++)
        if (strcmp(yoloc_tensors_at(t, i)->name, name) == 0)
            return yoloc_tensors_at(t, i);
    return NULL;
}

/* A tensor may lack the batch's dimension. */
static int has_shape(const yoloc_tensor *t, const yolort_io *io)
{
    int lacks = t->rank == io->rank - 1;
    if (t->dtype != (int)io->dtype || t->bytes != io->bytes_per_image || (t->rank != io->rank && !lacks))
        return 0;
    for (int i = 1; i < io->rank; i++)
        if (t->dim[i - lacks] != io->dim[i])
            return 0;
    return 1;
}

static int bind_text(struct cli_engine *g, size_t at, const struct cli_beside *b, const char *name, struct cli_error *e)
{
    const yolort_io *io = yolort_io_at(g->module, at);
    long long texts = io->rank == 3 ? io->dim[1] : 0, width = io->rank == 3 ? io->dim[2] : 0;
    if (!b->file)
        return cli_fail(e, CLI_USAGE, "%s compares pictures with texts: --embeddings FILE brings %s, F32 [%lld,%lld]", name,
                        io->name, texts, width);
    const yoloc_tensor *t = cli_tensor_named(b->tensors, io->name);
    if (!t || !has_shape(t, io))
        return cli_fail(e, CLI_TENSOR_IN, "%s: holds no %s of F32 [%lld,%lld]", b->file, io->name, texts, width);
    union { /* an input is only read */
        const void *in;
        void *out;
    } data = {t->data};
    return cli_runtime_check(yolort_bind(g->context, at, data.out, t->bytes), name, yolort_error(g->context), e);
}

static int bind_beside(struct cli_engine *g, const struct cli_beside *b, const char *name, struct cli_error *e)
{
    for (size_t i = 0; i < yolort_io_count(g->module); i++)
        if (is_beside(yolort_io_at(g->module, i)) && bind_text(g, i, b, name, e) != 0)
            return -1;
    return 0;
}

static int bind(struct cli_engine *g, const char *name, struct cli_error *e)
{
    int in = yolort_io_find(g->module, "input_u8"), out = find_output(g);
    if (in < 0)
        return cli_fail(e, CLI_RUN,
                        "%s: takes no pictures, which have three channels; `yoloc run` takes its tensors",
                        name);
    if (out < 0)
        return cli_fail(e, CLI_RUN, "%s: nothing that is known is to be found with it (its task is %s)", name,
                        g->info->task);
    const yolort_io *picture = yolort_io_at(g->module, (size_t)in),
                    *rows = yolort_io_at(g->module, (size_t)out);
    if (!is_picture_input(picture, g->info) || !fits(g, rows))
        return cli_fail(e, CLI_MODULE_FILE, "%s: inputs, outputs and class count do not fit together", name);
    g->picture = malloc(picture->bytes_per_image);
    g->rows = malloc(rows->bytes_per_image);
    if (!g->picture || !g->rows)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", name);
    if (g->answer == CLI_BOXES && bind_boxes(g, name, e) != 0)
        return -1;
    yolort_status s = yolort_bind(g->context, (size_t)in, g->picture, picture->bytes_per_image);
    if (s == YOLORT_OK)
        s = yolort_bind(g->context, (size_t)out, g->rows, rows->bytes_per_image);
    return cli_runtime_check(s, name, yolort_error(g->context), e);
}

int cli_engine_open(struct cli_engine *g, yolort_module *m, struct cli_modfile *file, const char *name,
                    const yolort_context_opts *opts, size_t capacity, const struct cli_beside *beside, struct cli_error *e)
{
    *g = (struct cli_engine){.module = m, .info = yolort_module_info(m), .capacity = capacity};
    if (file)
        g->file = *file;
    int rc = cli_runtime_check(yolort_context_new(&g->context, m, opts), name, NULL, e);
    if (rc == 0)
        rc = bind(g, name, e);
    if (rc == 0)
        rc = bind_beside(g, beside, name, e);
    if (rc != 0)
        cli_engine_close(g);
    return rc;
}

static void drop_masks(struct cli_engine *g)
{
    for (size_t i = 0; i < g->nmask; i++)
        cli_rle_free(&g->masks[i]);
    g->nmask = 0;
}

static void drop_maps(struct cli_engine *g)
{
    free(g->labels);
    free(g->depths);
    g->labels = NULL;
    g->depths = NULL;
}

void cli_engine_close(struct cli_engine *g)
{
    yolort_context_free(g->context);
    yolort_module_free(g->module);
    drop_masks(g);
    free(g->picture);
    free(g->rows);
    free(g->work);
    free(g->found);
    free(g->extra);
    free(g->points);
    free(g->turned);
    free(g->protos);
    free(g->masks);
    drop_maps(g);
    cli_modfile_free(&g->file);
    *g = (struct cli_engine){.module = NULL};
}

/* --- a picture --- */

/* Of the detections, in one working memory: its masks are as large as the picture. */
static yolort_status find_masks(struct cli_engine *g, const struct cli_image *im, size_t n)
{
    size_t bytes = (size_t)im->width * (size_t)im->height;
    void *work = malloc(yolort_mask_work_size(&g->proto));
    uint8_t *mask = malloc(bytes);
    yolort_status s = work && mask ? YOLORT_OK : YOLORT_OOM_HOST;
    for (size_t i = 0; i < n && s == YOLORT_OK; i++) {
        s = yolort_extra(g->rows, g->nrow, g->info, g->found[i].row, g->extra);
        if (s == YOLORT_OK)
            s = yolort_mask(&g->proto, g->extra, &g->found[i], im->width, im->height, work, mask, bytes);
        if (s == YOLORT_OK && cli_rle_new(&g->masks[i], mask, im->width, im->height) != 0)
            s = YOLORT_OOM_HOST;
        g->nmask = i + 1;
    }
    free(work);
    free(mask);
    return s;
}

static yolort_status find_points(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p, size_t n)
{
    size_t floats = (size_t)g->info->points * (size_t)g->info->point_dims;
    for (size_t i = 0; i < n; i++) {
        yolort_status s = yolort_extra(g->rows, g->nrow, g->info, g->found[i].row, g->extra);
        if (s != YOLORT_OK)
            return s;
        memcpy(g->points + i * floats, g->extra + g->info->coefficients, floats * sizeof *g->points);
    }
    yolort_unletterbox_points(g->points, n * (size_t)g->info->points, g->info->point_dims, g->info->head, p, im->width,
                              im->height);
    return YOLORT_OK;
}

static yolort_status find_turned(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p, size_t n)
{
    yolort_status s = YOLORT_OK;
    for (size_t i = 0; i < n && s == YOLORT_OK; i++)
        s = yolort_turn(g->rows, g->nrow, g->info, p, im->width, im->height, &g->found[i], &g->turned[i]);
    return s;
}

static yolort_status find_boxes(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p,
                                const yolort_nms_opts *nms, size_t *count)
{
    yolort_nms_opts o = *nms;
    o.extra = (int)extras_of(g);
    o.rotated = g->info->angles;
    yolort_status s = yolort_nms(g->rows, g->nrow, g->info->nc, g->info->head, &o, g->work, g->found, g->capacity, count);
    if (s != YOLORT_OK)
        return s;
    yolort_unletterbox(g->found, *count, g->info->head, p, im->width, im->height);
    if (g->masks)
        s = find_masks(g, im, *count);
    if (s == YOLORT_OK && g->points)
        s = find_points(g, im, p, *count);
    return s == YOLORT_OK && g->turned ? find_turned(g, im, p, *count) : s;
}

static yolort_status find_map(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p)
{
    size_t n = (size_t)im->width * (size_t)im->height;
    drop_maps(g);
    if (g->answer == CLI_LABELS) {
        g->labels = malloc(n * sizeof *g->labels);
        return g->labels ? yolort_labels(g->rows, g->info->nc, p, im->width, im->height, g->labels, n)
                         : YOLORT_OOM_HOST;
    }
    g->depths = malloc(n * sizeof *g->depths);
    return g->depths ? yolort_depths(g->rows, p, im->width, im->height, g->depths, n) : YOLORT_OOM_HOST;
}

int cli_engine_predict(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p,
                       const yolort_nms_opts *nms, size_t *count, struct cli_error *e)
{
    yolort_image source = {im->rgb, im->width, im->height, 0};
    size_t bytes = (size_t)g->info->width * (size_t)g->info->height * 3;
    drop_masks(g);
    yolort_status s = g->answer == CLI_CLASSES
                          ? yolort_crop(&source, g->info->width, g->info->height, g->picture, bytes)
                          : yolort_letterbox(&source, p, g->picture, bytes);
    if (s == YOLORT_OK)
        s = yolort_run(g->context, 1, NULL);
    if (s == YOLORT_OK)
        s = yolort_wait(g->context);
    if (s == YOLORT_OK && g->answer == CLI_BOXES)
        s = find_boxes(g, im, p, nms, count);
    else if (s == YOLORT_OK && g->answer == CLI_CLASSES)
        s = yolort_top(g->rows, g->info->nc, g->top, CLI_TOP, count);
    else if (s == YOLORT_OK)
        s = find_map(g, im, p);
    return cli_runtime_check(s, g->info->model, yolort_error(g->context), e);
}
