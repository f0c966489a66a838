/* A loaded module made ready to look at one picture at a time. */
#ifndef CLI_ENGINE_H
#define CLI_ENGINE_H

#include "error.h"
#include "frontend/yoloc.h"
#include "image.h"
#include "modfile.h"
#include "rle.h"

enum { CLI_TOP = 5 };

/* Numbers that a network compares the picture with: tensors by name, each read as long as an engine is open. */
struct cli_beside {
    const char *file; /* for error texts; NULL: there are none */
    const yoloc_tensors *tensors;
};

struct cli_engine {
    yolort_module *module;
    const yolort_info *info;
    yolort_context *context;
    yolort_answer answer;
    uint8_t *picture;           /* as the network gets it, height * width * 3; NULL: never asked for */
    yolort_detection *found;
    size_t capacity;
    float *extra;               /* of each detection, yolort_extra_count */
    float *points;              /* of each detection, info->points * info->point_dims; NULL: none */
    yolort_turned *turned;      /* of each detection; NULL: none */
    struct cli_rle *masks;      /* of each detection; NULL: none */
    size_t nmask;
    float *prob;                /* of each class */
    yolort_class top[CLI_TOP];
    uint16_t *labels;           /* LABELS: of the last picture, height * width of it */
    float *depths;              /* DEPTHS: likewise */
    struct cli_modfile file;    /* what the module borrows, unless somebody else keeps it */
};

/* Options of contexts that several commands share; rows for an options struct S with a member `device`. */
struct cli_device {
    int threads, guard, no_graph;
};
#define CLI_ROWS_DEVICE(S) \
    {.name = "threads", .value = CLI_INT, .at = offsetof(struct S, device.threads), .low = 1, .high = 1024, \
     .metavar = "N", .help = "CPU threads, at most four a core; else one for each core"}, \
    {.name = "guard", .value = CLI_FLAG, .at = offsetof(struct S, device.guard), \
     .help = "the arena lies between pages that may not be touched, and starts as NaN"}, \
    {.name = "no-graph", .value = CLI_FLAG, .at = offsetof(struct S, device.no_graph), \
     .help = "GPUs: each step of a run is launched by itself"}

/* Warns when the context has fewer threads than were asked for. */
void cli_device_told(const struct cli_device *d, const yolort_context *c);
void cli_device_opts(yolort_context_opts *o, const struct cli_device *d);

/* 0, or -1: "what: text". */
int cli_runtime_check(yolort_status s, const char *what, const char *text, struct cli_error *e);

/* Takes the module and the file whose bytes it borrows (NULL: they stay the caller's) over, also on failure. `name` is
 * for error texts; capacity: detections a picture; beside: the inputs other than the picture. */
int cli_engine_open(struct cli_engine *g, yolort_module *m, struct cli_modfile *file, const char *name,
                    const yolort_context_opts *opts, size_t capacity, const struct cli_beside *beside, struct cli_error *e);
const yoloc_tensor *cli_tensor_named(const yoloc_tensors *t, const char *name); /* NULL: there is none */

/* Whether the network has inputs beside the picture. */
int cli_engine_compares(const yolort_module *m);
void cli_engine_close(struct cli_engine *g);

/* Leaves in g what was found, in pixels of the image (the placement has the size of the module; classifiers take the middle instead);
 * *count: detections, or classes in g->top. */
int cli_engine_predict(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p,
                       const yolort_nms_opts *nms, size_t *count, struct cli_error *e);

/* Fills g->picture. */
int cli_engine_picture(struct cli_engine *g, const struct cli_image *im, const yolort_placement *p, struct cli_error *e);

#endif
