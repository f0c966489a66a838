#include "engine.h"

#include <stdio.h>
#include <stdlib.h>

void cli_device_opts(yolort_context_opts *o, const struct cli_device *d)
{
    yolort_context_opts_init(o, sizeof *o);
    o->threads = d->threads;
    o->guard = d->guard;
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

/* How many rows `decoded` has, and whether their length fits the class count; 0 when it does not. */
static size_t rows_of(const yolort_info *info, const yolort_io *io)
{
    if (io->rank != 3 || io->dtype != YOLORT_F32)
        return 0;
    int across = info->head == YOLORT_HEAD_FREE;
    int64_t wanted = (across ? 4 : 5) + (int64_t)info->nc;
    return io->dim[across ? 1 : 2] == wanted ? (size_t)io->dim[across ? 2 : 1] : 0;
}

static int is_picture_input(const yolort_io *io, const yolort_info *info)
{
    return io->dtype == YOLORT_U8 && io->rank == 4 && io->dim[1] == info->height &&
           io->dim[2] == info->width && io->dim[3] == 3;
}

static int bind(struct cli_engine *g, const char *name, struct cli_error *e)
{
    int in = yolort_io_find(g->module, "input_u8"), out = yolort_io_find(g->module, "decoded");
    if (in < 0)
        return cli_fail(e, CLI_RUN,
                        "%s: takes no pictures, which have three channels; `yoloc run` takes its tensors",
                        name);
    if (out < 0 || g->info->head == YOLORT_HEAD_NONE)
        return cli_fail(e, CLI_RUN, "%s: finds no boxes (its task is %s)", name, g->info->task);
    const yolort_io *picture = yolort_io_at(g->module, (size_t)in),
                    *rows = yolort_io_at(g->module, (size_t)out);
    g->nrow = rows_of(g->info, rows);
    if (!is_picture_input(picture, g->info) || g->nrow == 0)
        return cli_fail(e, CLI_MODULE_FILE, "%s: inputs, outputs and class count do not fit together", name);
    g->picture = malloc(picture->bytes_per_image);
    g->rows = malloc(rows->bytes_per_image);
    g->work = malloc(yolort_nms_work_size(g->nrow));
    g->found = calloc(g->capacity, sizeof *g->found);
    if (!g->picture || !g->rows || !g->work || !g->found)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", name);
    yolort_status s = yolort_bind(g->context, (size_t)in, g->picture, picture->bytes_per_image);
    if (s == YOLORT_OK)
        s = yolort_bind(g->context, (size_t)out, g->rows, rows->bytes_per_image);
    return cli_runtime_check(s, name, yolort_error(g->context), e);
}

int cli_engine_open(struct cli_engine *g, yolort_module *m, struct cli_modfile *file, const char *name,
                    const yolort_context_opts *opts, size_t capacity, struct cli_error *e)
{
    *g = (struct cli_engine){.module = m, .info = yolort_module_info(m), .capacity = capacity};
    if (file)
        g->file = *file;
    int rc = cli_runtime_check(yolort_context_new(&g->context, m, opts), name, NULL, e);
    if (rc == 0)
        rc = bind(g, name, e);
    if (rc != 0)
        cli_engine_close(g);
    return rc;
}

void cli_engine_close(struct cli_engine *g)
{
    yolort_context_free(g->context);
    yolort_module_free(g->module);
    free(g->picture);
    free(g->rows);
    free(g->work);
    free(g->found);
    cli_modfile_free(&g->file);
    *g = (struct cli_engine){.module = NULL};
}

int cli_engine_detect(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p,
                      const yolort_nms_opts *nms, size_t *count, struct cli_error *e)
{
    yolort_image source = {im->rgb, im->width, im->height, 0};
    size_t bytes = (size_t)p->out_width * (size_t)p->out_height * 3;
    yolort_status s = yolort_letterbox(&source, p, g->picture, bytes);
    if (s == YOLORT_OK)
        s = yolort_run(g->context, 1, NULL);
    if (s == YOLORT_OK)
        s = yolort_nms(g->rows, g->nrow, g->info->nc, g->info->head, nms, g->work, g->found, g->capacity,
                       count);
    if (s == YOLORT_OK)
        yolort_unletterbox(g->found, *count, g->info->head, p, im->width, im->height);
    return cli_runtime_check(s, g->info->model, yolort_error(g->context), e);
}
