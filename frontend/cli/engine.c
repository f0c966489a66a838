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

static int is_picture_input(const yolort_io *io, const yolort_info *info)
{
    return io->dtype == YOLORT_U8 && io->rank == 4 && io->dim[1] == info->height &&
           io->dim[2] == info->width && io->dim[3] == 3;
}

static size_t points_of(const struct cli_engine *g)
{
    return (size_t)g->info->points * (size_t)g->info->point_dims;
}

/* Room for what is found; that of maps depends on the picture. */
static int make_room(struct cli_engine *g)
{
    size_t n = g->capacity;
    if (g->answer == YOLORT_CLASSES) {
        g->prob = calloc((size_t)g->info->nc, sizeof *g->prob);
        return g->prob ? 0 : -1;
    }
    if (g->answer != YOLORT_BOXES)
        return 0;
    g->found = calloc(n, sizeof *g->found);
    g->extra = calloc(n, (yolort_extra_count(g->info) + 1) * sizeof *g->extra);
    if (points_of(g))
        g->points = calloc(n, points_of(g) * sizeof *g->points);
    if (g->info->angles)
        g->turned = calloc(n, sizeof *g->turned);
    if (g->info->coefficients)
        g->masks = calloc(n, sizeof *g->masks);
    return g->found && g->extra && (g->points || !points_of(g)) && (g->turned || !g->info->angles) &&
                   (g->masks || !g->info->coefficients)
               ? 0
               : -1;
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

static int prepare(struct cli_engine *g, const char *name, struct cli_error *e)
{
    int in = yolort_io_find(g->module, "input_u8"), out;
    g->answer = yolort_answer_of(g->module, &out);
    if (in < 0)
        return cli_fail(e, CLI_RUN,
                        "%s: takes no pictures, which have three channels; `yoloc run` takes its tensors",
                        name);
    if (out < 0)
        return cli_fail(e, CLI_RUN, "%s: nothing that is known is to be found with it (its task is %s)", name,
                        g->info->task);
    if (!is_picture_input(yolort_io_at(g->module, (size_t)in), g->info) || g->answer == YOLORT_NOTHING)
        return cli_fail(e, CLI_MODULE_FILE, "%s: inputs, outputs and class count do not fit together", name);
    return make_room(g) == 0 ? 0 : cli_fail(e, CLI_MEMORY, "%s: out of memory", name);
}

int cli_engine_open(struct cli_engine *g, yolort_module *m, struct cli_modfile *file, const char *name,
                    const yolort_context_opts *opts, size_t capacity, const struct cli_beside *beside, struct cli_error *e)
{
    *g = (struct cli_engine){.module = m, .info = yolort_module_info(m), .capacity = capacity};
    if (file)
        g->file = *file;
    int rc = cli_runtime_check(yolort_context_new(&g->context, m, opts), name, NULL, e);
    if (rc == 0)
        rc = prepare(g, name, e);
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
    free(g->found);
    free(g->extra);
    free(g->points);
    free(g->turned);
    free(g->prob);
    free(g->masks);
    drop_maps(g);
    cli_modfile_free(&g->file);
    *g = (struct cli_engine){.module = NULL};
}

/* --- a picture --- */

enum { MASK_BYTES = 1 << 26 /* of masks that are asked for at once, unless one has more */ };

static yolort_status keep_masks(struct cli_engine *g, const uint8_t *mask, const struct cli_image *im, size_t n)
{
    for (size_t i = 0; i < n; i++, mask += (size_t)im->width * (size_t)im->height)
        if (cli_rle_new(&g->masks[g->nmask++], mask, im->width, im->height) != 0)
            return YOLORT_OOM_HOST;
    return YOLORT_OK;
}

/* Masks are as large as the picture: some of them at a time. */
static yolort_status find_masks(struct cli_engine *g, const struct cli_image *im, size_t n)
{
    size_t bytes = (size_t)im->width * (size_t)im->height, each = yolort_extra_count(g->info);
    size_t most = bytes < MASK_BYTES ? MASK_BYTES / bytes : 1, room = (n < most ? n : most) * bytes;
    uint8_t *mask = n ? malloc(room) : NULL;
    yolort_status s = mask || !n ? YOLORT_OK : YOLORT_OOM_HOST;
    for (size_t i = 0; i < n && s == YOLORT_OK; i += most) {
        size_t now = n - i < most ? n - i : most;
        s = yolort_masks(g->context, 0, im->width, im->height, g->found + i, g->extra + i * each, now, mask, room, NULL);
        if (s == YOLORT_OK)
            s = keep_masks(g, mask, im, now);
    }
    free(mask);
    return s;
}

/* A mask without pixels: one run, of zeros. */
static int is_empty(const struct cli_rle *m)
{
    return m->n < 2;
}

/* Boxes in whose mask no pixel is left are not there, as in ultralytics; the heads with anchors keep theirs. */
static void drop_empty(struct cli_engine *g, size_t *count)
{
    size_t each = yolort_extra_count(g->info), kept = 0;
    if (g->info->head == YOLORT_HEAD_ANCHOR)
        return;
    for (size_t i = 0; i < *count; i++) {
        if (is_empty(&g->masks[i])) {
            cli_rle_free(&g->masks[i]);
            continue;
        }
        g->found[kept] = g->found[i];
        g->masks[kept] = g->masks[i];
        memmove(g->extra + kept * each, g->extra + i * each, each * sizeof *g->extra);
        kept++;
    }
    *count = g->nmask = kept;
}

static void find_points(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p, size_t n)
{
    size_t floats = points_of(g), each = yolort_extra_count(g->info);
    for (size_t i = 0; i < n; i++)
        memcpy(g->points + i * floats, g->extra + i * each + g->info->coefficients, floats * sizeof *g->points);
    yolort_unletterbox_points(g->points, n * (size_t)g->info->points, g->info->point_dims, g->info->head, p, im->width,
                              im->height);
}

/* What is found beside boxes, and classes: from what the runtime left. */
static yolort_status finish(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p, size_t *count)
{
    if (g->answer == YOLORT_CLASSES)
        return yolort_top(g->prob, g->info->nc, g->top, CLI_TOP, count);
    if (g->answer != YOLORT_BOXES)
        return YOLORT_OK;
    if (g->points)
        find_points(g, im, p, *count);
    if (!g->masks)
        return YOLORT_OK;
    yolort_status s = find_masks(g, im, *count);
    if (s == YOLORT_OK)
        drop_empty(g, count);
    return s;
}

static yolort_status make_maps(struct cli_engine *g, const struct cli_image *im)
{
    size_t n = (size_t)im->width * (size_t)im->height;
    drop_maps(g);
    if (g->answer == YOLORT_LABELS)
        g->labels = malloc(n * sizeof *g->labels);
    if (g->answer == YOLORT_DEPTHS)
        g->depths = malloc(n * sizeof *g->depths);
    return (g->labels || g->answer != YOLORT_LABELS) && (g->depths || g->answer != YOLORT_DEPTHS) ? YOLORT_OK : YOLORT_OOM_HOST;
}

static yolort_status predict(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p,
                             const yolort_nms_opts *nms, size_t *count)
{
    const yolort_picture picture = {.data = im->rgb, .width = im->width, .height = im->height, .format = YOLORT_RGB};
    yolort_results r;
    yolort_results_init(&r, sizeof r);
    r.boxes = g->found;
    r.capacity = g->capacity;
    r.counts = count;
    r.extra = g->extra;
    r.turned = g->turned;
    r.protos = g->masks != NULL;
    r.prob = g->prob;
    r.labels = &g->labels;
    r.depths = &g->depths;
    yolort_status s = make_maps(g, im);
    if (s == YOLORT_OK)
        s = yolort_predict(g->context, &picture, p, 1, nms, &r, NULL);
    if (s == YOLORT_OK)
        s = yolort_wait(g->context); /* looks at the guard, where there is one */
    return s == YOLORT_OK ? finish(g, im, p, count) : s;
}

int cli_engine_predict(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p,
                       const yolort_nms_opts *nms, size_t *count, struct cli_error *e)
{
    drop_masks(g);
    return cli_runtime_check(predict(g, im, p, nms, count), g->info->model, yolort_error(g->context), e);
}

int cli_engine_picture(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p, struct cli_error *e)
{
    const yolort_image source = {im->rgb, im->width, im->height, 0};
    int width = g->info->width, height = g->info->height;
    size_t bytes = (size_t)width * (size_t)height * 3;
    if (!g->picture)
        g->picture = malloc(bytes);
    if (!g->picture)
        return cli_fail(e, CLI_MEMORY, "out of memory");
    yolort_status s = g->answer == YOLORT_CLASSES ? yolort_crop(&source, width, height, g->picture, bytes)
                                                  : yolort_letterbox(&source, p, g->picture, bytes);
    return cli_runtime_check(s, g->info->model, NULL, e);
}
