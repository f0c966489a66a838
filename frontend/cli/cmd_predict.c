/* yoloc predict: pictures in, what is in them out. `detect` is its other name. */
#include "ahead.h"
#include "classes.h"
#include "commands.h"
#include "compiler.h"
#include "draw.h"
#include "fileio.h"
#include "output.h"
#include "savedir.h"
#include "shapes.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>

struct options {
    double conf, iou;
    int max_det, agnostic, rect, json, txt, coco;
    struct cli_device device;
    const char *classes, *embeddings, *save, *dump;
    struct cli_size size;
    struct cli_trust trust;
    struct cli_texts limit;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "conf", .value = CLI_REAL, .at = AT(conf), .low = 0, .high = 1, .metavar = "X",
     .help = "scores above this count; else the model's default, 0.25"},
    {.name = "iou", .value = CLI_REAL, .at = AT(iou), .low = 0, .high = 1, .metavar = "X",
     .help = "a box that overlaps a better one by more is dropped; else the model's default, 0.7 or 0.45"},
    {.name = "max-det", .value = CLI_INT, .at = AT(max_det), .low = 1, .high = 100000, .metavar = "N",
     .help = "most boxes a picture; else the model's default, 300"},
    {.name = "classes", .value = CLI_TEXT, .at = AT(classes), .metavar = "LIST",
     .help = "only these classes: names or numbers, comma-joined"},
    {.name = "embeddings", .value = CLI_TEXT, .at = AT(embeddings), .metavar = "FILE",
     .help = "for networks that compare with texts: safetensors with txt_feats (F32 [classes,width]), a row a class"},
    {.name = "agnostic", .value = CLI_FLAG, .at = AT(agnostic),
     .help = "boxes of different classes suppress each other too"},
    {.name = "imgsz", .value = CLI_SIZE, .at = AT(size), .low = 1, .high = CLI_MAX_IMGSZ, .metavar = "N|H,W",
     .help = "input size; else the module's. Another one is compiled once and kept in the cache"},
    {.name = "rect", .value = CLI_FLAG, .at = AT(rect),
     .help = "pad to the next multiple of the stride only; sizes that lack are compiled as for --imgsz"},
    {.name = "save", .value = CLI_TEXT, .at = AT(save), .metavar = "DIR",
     .help = "draw the boxes into DIR/NAME.png; with --txt the lines go to DIR/labels/NAME.txt"},
    {.name = "dump-input", .value = CLI_TEXT, .at = AT(dump), .metavar = "DIR",
     .help = "write the picture as the network gets it to DIR/NAME.png"},
    {.name = "json", .value = CLI_FLAG, .group = 1, .at = AT(json), .help = "one JSON document"},
    {.name = "txt", .value = CLI_FLAG, .group = 1, .at = AT(txt),
     .help = "YOLO lines: class cx cy w h score, relative to the picture"},
    {.name = "coco", .value = CLI_FLAG, .group = 1, .at = AT(coco), .help = "COCO results as JSON"},
    CLI_ROWS_DEVICE(options),
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, limit),
};

struct job {
    const struct options *o;
    const struct cli_format *format;
    struct cli_limits limits;
    struct cli_sources sources;
    struct cli_ahead first;     /* decoded while the module is read */
    struct cli_shapes shapes;
    struct cli_compiler reader; /* of the embeddings */
    yoloc_tensors *texts;
    struct cli_savedir save, labels, dump; /* path NULL: not wanted */
    char *label_folder;
    yolort_nms_opts nms;
    uint8_t *wanted;            /* by class, or NULL */
    yolort_letterbox_mode mode;
    int crop;                   /* the middle of pictures is looked at: a classifier */
    int stride, height, width;  /* size asked for */
    struct cli_text text;
    struct cli_count count;
    struct cli_progress progress;
    int worst;                  /* exit code so far */
    struct cli_error *e;
};

/* --- set-up --- */

static int set_nms(struct job *j, const struct cli_args *args, const yolort_info *info)
{
    const struct options *o = j->o;
    yolort_nms_opts_init(&j->nms, sizeof j->nms);
    j->nms.conf = cli_given(&cli_command_predict, args, "conf") ? (float)o->conf : info->conf;
    j->nms.iou = cli_given(&cli_command_predict, args, "iou") ? (float)o->iou : info->iou;
    j->nms.max_det = o->max_det ? o->max_det : info->max_det;
    j->nms.agnostic = o->agnostic;
    if (!o->classes)
        return 0;
    j->wanted = malloc(info->nc > 0 ? (size_t)info->nc : 1);
    if (!j->wanted)
        return cli_fail(j->e, CLI_MEMORY, "out of memory");
    j->nms.classes = j->wanted;
    return cli_classes_parse(o->classes, info->names, info->nc, j->wanted, j->e);
}

static int round_up(int v, int stride)
{
    return stride > 0 ? (v + stride - 1) / stride * stride : v;
}

enum { CROP = 1, MAP = 2, BEST = 4 };

/* Options that mean nothing for the module: a usage error, so that nobody waits for what they do not do. */
static int refuse_options(struct job *j, const struct cli_args *args, const yolort_info *info)
{
    static const struct {
        const char *option;
        unsigned without; /* kinds of answers that it means nothing for */
    } table[] = {{"conf", CROP | MAP}, {"iou", CROP | MAP | BEST}, {"max-det", CROP | MAP}, {"classes", CROP | MAP},
                 {"agnostic", CROP | MAP | BEST}, {"rect", CROP}, {"coco", CROP | MAP}, {"txt", MAP}};
    int best = info->head == YOLORT_HEAD_BEST;
    unsigned kind = best ? BEST : info->head != YOLORT_HEAD_NONE ? 0 : strcmp(info->task, "classify") == 0 ? CROP : MAP;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].without & kind) &&
            cli_given(&cli_command_predict, args, table[i].option))
            return cli_fail(j->e, CLI_USAGE, "predict: --%s means nothing for %s (%s%s)", table[i].option, info->model,
                            info->task, best ? ", one2one: it suppresses no boxes" : "");
    j->crop = kind == CROP;
    return 0;
}

static int set_size(struct job *j, const yolort_info *info)
{
    const struct cli_size *s = &j->o->size;
    j->stride = info->stride;
    j->height = s->height ? round_up(s->height, info->stride) : info->height;
    j->width = s->width ? round_up(s->width, info->stride) : info->width;
    if (s->height && (j->height != s->height || j->width != s->width))
        cli_warn("--imgsz %d,%d becomes %d,%d, a multiple of the stride %d", s->height, s->width, j->height,
                 j->width, info->stride);
    j->mode = info->letterbox == YOLORT_TOPLEFT ? YOLORT_TOPLEFT : j->o->rect ? YOLORT_RECT : YOLORT_SQUARE;
    if (j->o->rect && info->letterbox == YOLORT_TOPLEFT)
        return cli_fail(j->e, CLI_USAGE,
                        "predict: --rect is not for %s, which pads at the right and the bottom", info->model);
    return 0;
}

static int read_texts(struct job *j, const yolort_module *m)
{
    const char *file = j->o->embeddings;
    if (!file)
        return 0;
    if (!cli_engine_compares(m))
        return cli_fail(j->e, CLI_USAGE, "predict: --embeddings means nothing for %s, which compares with no texts",
                        yolort_module_info(m)->model);
    if (cli_compiler_open(&j->reader, &(struct cli_build){.pass_limit = -1, .limits = &j->limits}, j->e) != 0)
        return -1;
    return cli_compiler_check(&j->reader, yoloc_tensors_read(j->reader.handle, file, &j->texts), j->e);
}

static int open_module(struct job *j, const struct cli_args *args)
{
    const char *path = args->rest[0];
    struct cli_modfile file;
    yolort_module *m;
    yolort_context_opts opts;
    cli_device_opts(&opts, &j->o->device);
    if (cli_modfile_read(&file, path, &j->o->trust, &j->limits, j->e) != 0)
        return -1;
    if (cli_modfile_load(&m, &file, path, &j->limits, j->e) != 0) {
        cli_modfile_free(&file);
        return -1;
    }
    const yolort_info *info = yolort_module_info(m);
    if (refuse_options(j, args, info) != 0 || set_nms(j, args, info) != 0 || set_size(j, info) != 0 || read_texts(j, m) != 0) {
        yolort_module_free(m);
        cli_modfile_free(&file);
        return -1;
    }
    const struct cli_beside beside = {j->o->embeddings, j->texts};
    int rc = cli_shapes_open(&j->shapes, m, &file, path, &j->limits, &opts, (size_t)j->nms.max_det, &beside, j->e);
    if (rc == 0)
        cli_device_told(&j->o->device, j->shapes.engines[0].context);
    return rc;
}

static int open_folders(struct job *j)
{
    const struct options *o = j->o;
    if (o->save && cli_savedir_open(&j->save, o->save, &j->sources, j->e) != 0)
        return -1;
    if (o->dump && cli_savedir_open(&j->dump, o->dump, &j->sources, j->e) != 0)
        return -1;
    if (o->save && o->dump && cli_same_file(o->save, o->dump))
        return cli_fail(j->e, CLI_USAGE, "predict: --save and --dump-input would write the same files");
    if (!o->save || !o->txt)
        return 0;
    j->label_folder = cli_path_join(o->save, "labels", "");
    if (!j->label_folder)
        return cli_fail(j->e, CLI_MEMORY, "out of memory");
    return cli_savedir_open(&j->labels, j->label_folder, &j->sources, j->e);
}

/* --- a picture --- */

/* With --save, YOLO lines go to a file for each picture, which is there also when nothing was found. */
static int emit(struct job *j, const struct cli_source *s, const struct cli_record *r)
{
    j->format->image(&j->text, r, &j->count);
    j->count.images++;
    j->count.detections += r->n;
    if (!j->labels.path) {
        cli_progress_clear(&j->progress);
        return cli_text_flush(&j->text, stdout, j->e);
    }
    if (j->text.failed)
        return cli_fail(j->e, CLI_MEMORY, "out of memory");
    int rc = cli_savedir_text(&j->labels, s->stem, j->text.p, j->text.n, j->e);
    j->text.n = 0;
    return rc;
}

static int dump_input(struct job *j, const struct cli_source *s, const struct cli_image *im, struct cli_engine *g,
                      const yolort_placement *p)
{
    if (!j->dump.path)
        return 0;
    if (cli_engine_picture(g, im, p, j->e) != 0)
        return -1;
    struct cli_image input = {g->picture, g->info->width, g->info->height, 0};
    return cli_savedir_png(&j->dump, s->stem, &input, j->e);
}

static int save_picture(struct job *j, const struct cli_source *s, struct cli_image *im, const struct cli_record *r)
{
    if (!j->save.path)
        return 0;
    cli_draw_record(im, r);
    return cli_savedir_png(&j->save, s->stem, im, j->e);
}

static int predict_in(struct job *j, const struct cli_source *s, struct cli_image *im)
{
    yolort_placement p;
    struct cli_engine *g;
    size_t n = 0;
    yolort_status plan =
        yolort_letterbox_plan(im->width, im->height, j->width, j->height, j->mode, j->stride, 1, &p);
    if (cli_runtime_check(plan, s->path, NULL, j->e) != 0)
        return -1;
    if (j->crop) {
        p.out_height = j->height;
        p.out_width = j->width;
    }
    if (cli_shapes_get(&j->shapes, p.out_height, p.out_width, &g, j->e) != 0)
        return -1;
    double start = cli_seconds();
    if (cli_engine_predict(g, im, &p, &j->nms, &n, j->e) != 0)
        return -1;
    struct cli_record r = {.path = s->path, .width = im->width, .height = im->height, .d = g->found, .n = n,
                           .names = g->info->names, .nc = g->info->nc, .ms = (cli_seconds() - start) * 1e3,
                           .points = g->points, .npoint = g->info->points, .point_dims = g->info->point_dims,
                           .turned = g->turned, .masks = g->masks, .labels = g->labels, .depths = g->depths};
    if (g->answer == YOLORT_CLASSES) {
        r.top = g->top;
        r.n = 0;
        r.ntop = n;
    }
    return dump_input(j, s, im, g, &p) == 0 && save_picture(j, s, im, &r) == 0 ? emit(j, s, &r) : -1;
}

/* A picture that cannot be read is told and left out; the others are still worth having. */
static int predict_source(struct job *j, const struct cli_source *s)
{
    struct cli_image im;
    if (cli_ahead_load(&j->first, &im, s->path, &j->limits, j->e) != 0) {
        cli_progress_clear(&j->progress);
        cli_error_print(j->e);
        j->worst = j->e->exit_code > j->worst ? j->e->exit_code : j->worst;
        return 0;
    }
    if (im.damaged)
        cli_warn("%s: damaged JPEG data; the picture may be wrong in places", s->path);
    int rc = predict_in(j, s, &im);
    cli_image_free(&im);
    return rc;
}

static int predict_all(struct job *j)
{
    j->format->begin(&j->text);
    for (size_t i = 0; i < j->sources.n; i++) {
        cli_progress_step(&j->progress, "picture", i + 1, j->sources.n, j->sources.at[i].path);
        if (predict_source(j, &j->sources.at[i]) != 0)
            return -1;
    }
    cli_progress_clear(&j->progress);
    j->format->end(&j->text);
    return cli_text_flush(&j->text, stdout, j->e) == 0 ? j->worst : -1;
}

static void close_job(struct job *j)
{
    cli_progress_clear(&j->progress);
    cli_ahead_drop(&j->first);
    cli_shapes_close(&j->shapes);
    yoloc_tensors_free(j->texts);
    cli_compiler_close(&j->reader);
    cli_sources_free(&j->sources);
    cli_text_free(&j->text);
    free(j->label_folder);
    free(j->wanted);
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    struct job j = {.o = o, .e = e};
    j.format = o->json   ? &cli_format_json
               : o->txt  ? &cli_format_txt
               : o->coco ? &cli_format_coco
                         : &cli_format_table;
    cli_progress_begin(&j.progress);
    int rc = cli_sources_expand(&j.sources, args->rest + 1, (size_t)args->nrest - 1, e);
    if (rc == 0)
        rc = cli_limits_read(&j.limits, &o->limit, e);
    if (rc == 0 && j.sources.n > 0 && o->device.threads != 1)
        cli_ahead_begin(&j.first, j.sources.at[0].path, &j.limits);
    if (rc == 0)
        rc = open_module(&j, args);
    if (rc == 0)
        rc = open_folders(&j);
    if (rc == 0)
        rc = predict_all(&j);
    close_job(&j);
    return rc;
}

#define COMMAND_ROW(text, what)                                                                              \
    {                                                                                                        \
        .name = text, .arguments = "MODULE SOURCE...", .summary = what, .details = details,                  \
        .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),      \
        .min_rest = 2, .max_rest = -1, .run = run,                                                           \
    }

static const char details[] =
    "The module's task decides what is found: boxes, with masks, keypoints or angles; classes of the whole picture. "
    "Boxes are in pixels of the source, upright as its EXIF data says. The exit code is 0 also when nothing is found.";

const struct cli_command cli_command_predict =
    COMMAND_ROW("predict", "Looks at pictures (JPEG, PNG) or folders of them, as the module's task is.");
const struct cli_command cli_command_detect = COMMAND_ROW("detect", "The same as predict.");
