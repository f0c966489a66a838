/* yoloc bench: latency of whole runs, and time, work and traffic of each kernel. */
#include "commands.h"
#include "engine.h"
#include "frontend/yoloc.h"
#include "progress.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 1000000
#define PROFILED_RUNS 5

struct options {
    struct cli_device device;
    int batch, runs, warmup, json;
    double seconds;
    const char *image;
    struct cli_trust trust;
    struct cli_texts limit;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "batch", .letter = 'b', .value = CLI_INT, .at = AT(batch), .low = 1, .high = 65536,
     .metavar = "N", .fallback = "1", .help = "images in one run"},
    {.name = "runs", .letter = 'n', .value = CLI_INT, .group = 1, .at = AT(runs), .low = 1, .high = MAX_RUNS,
     .metavar = "N", .help = "number of runs measured"},
    {.name = "seconds", .letter = 's', .value = CLI_REAL, .group = 1, .at = AT(seconds), .low = 0.01,
     .high = 86400, .metavar = "T", .fallback = "3", .help = "measure for this long, and ten runs at least"},
    {.name = "warmup", .value = CLI_INT, .at = AT(warmup), .low = 0, .high = MAX_RUNS, .metavar = "N",
     .fallback = "3", .help = "runs before that are not measured"},
    CLI_ROWS_DEVICE(options),
    {.name = "image", .value = CLI_TEXT, .at = AT(image), .metavar = "FILE",
     .help = "the picture to run on; else a made one"},
    {.name = "json", .value = CLI_FLAG, .at = AT(json), .help = "as JSON"},
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, limit),
};

struct bench {
    const struct options *o;
    const char *path;
    struct cli_limits limits;
    struct cli_modfile file;
    yolort_module *module;
    const yolort_info *info;
    yolort_context *context;
    void **buffers;             /* one an input or output, NULL when unbound */
    int threads;
    double *ms;                 /* sorted once measured */
    size_t n;
    yolort_step *layers;        /* ms: least of the profiled runs */
    size_t nlayer;
    struct cli_error *e;
};

/* --- set-up --- */

static int bind(struct bench *b, size_t at)
{
    const yolort_io *io = yolort_io_at(b->module, at);
    size_t bytes = io->bytes_per_image * (size_t)b->o->batch;
    b->buffers[at] = calloc(1, bytes ? bytes : 1);
    if (!b->buffers[at])
        return cli_fail(b->e, CLI_MEMORY, "%s: out of memory", b->path);
    return cli_runtime_check(yolort_bind(b->context, at, b->buffers[at], bytes), b->path,
                             yolort_error(b->context), b->e);
}

/* What detection needs; a network without boxes gives all it has, but for outputs that --layers added. */
static int bind_outputs(struct bench *b)
{
    int decoded = yolort_io_find(b->module, "decoded");
    if (decoded >= 0)
        return bind(b, (size_t)decoded);
    for (size_t i = 0; i < yolort_io_count(b->module); i++) {
        const yolort_io *io = yolort_io_at(b->module, i);
        if (io->is_output && strncmp(io->name, "layer.", 6) != 0 && bind(b, i) != 0)
            return -1;
    }
    return 0;
}

static int letterbox(struct bench *b, const char *path, uint8_t *picture, size_t bytes)
{
    struct cli_image im;
    yolort_placement p;
    if (cli_image_load_within(&im, path, &b->limits, b->e) != 0)
        return -1;
    yolort_image source = {im.rgb, im.width, im.height, 0};
    yolort_letterbox_mode mode = b->info->letterbox == YOLORT_TOPLEFT ? YOLORT_TOPLEFT : YOLORT_SQUARE;
    yolort_status s = yolort_letterbox_plan(im.width, im.height, b->info->width, b->info->height, mode,
                                            b->info->stride, 1, &p);
    if (s == YOLORT_OK)
        s = yolort_letterbox(&source, &p, picture, bytes);
    cli_image_free(&im);
    return cli_runtime_check(s, path, NULL, b->e);
}

/* A network that takes no pictures (other than three channels): numbers in [0, 1) from a fixed linear congruence. */
static int fill_numbers(struct bench *b)
{
    int at = yolort_io_find(b->module, "images");
    if (at < 0 || b->o->image)
        return cli_fail(b->e, CLI_RUN, "%s: has no input for pictures", b->path);
    if (bind(b, (size_t)at) != 0)
        return -1;
    float *to = b->buffers[at];
    size_t n = yolort_io_at(b->module, (size_t)at)->bytes_per_image / sizeof *to * (size_t)b->o->batch;
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = (float)(state >> 8) / 16777216.0f;
    }
    return 0;
}

/* Inputs beside the picture, as the embeddings of texts: zeros, which take as long as other numbers. */
static int bind_beside(struct bench *b)
{
    for (size_t i = 0; i < yolort_io_count(b->module); i++) {
        const yolort_io *io = yolort_io_at(b->module, i);
        int picture = strcmp(io->name, "input_u8") == 0 || strcmp(io->name, "images") == 0;
        if (!io->is_output && !picture && bind(b, i) != 0)
            return -1;
    }
    return 0;
}

static int fill_input(struct bench *b)
{
    int at = yolort_io_find(b->module, "input_u8");
    if (at < 0)
        return fill_numbers(b);
    if (bind(b, (size_t)at) != 0)
        return -1;
    uint8_t *picture = b->buffers[at];
    size_t bytes = (size_t)b->info->height * (size_t)b->info->width * 3;
    if (b->o->image && letterbox(b, b->o->image, picture, bytes) != 0)
        return -1;
    if (!b->o->image)
        yoloc_test_picture(picture, b->info->height, b->info->width, 1);
    for (int i = 1; i < b->o->batch; i++)
        memcpy(picture + (size_t)i * bytes, picture, bytes);
    return 0;
}

static int open_bench(struct bench *b)
{
    yolort_context_opts opts;
    cli_device_opts(&opts, &b->o->device);
    if (cli_limits_read(&b->limits, &b->o->limit, b->e) != 0 ||
        cli_modfile_read(&b->file, b->path, &b->o->trust, &b->limits, b->e) != 0 ||
        cli_modfile_load(&b->module, &b->file, b->path, &b->limits, b->e) != 0)
        return -1;
    b->info = yolort_module_info(b->module);
    if (b->o->batch > b->info->max_batch)
        return cli_fail(b->e, CLI_USAGE, "bench: --batch %d, but the module was compiled for at most %d",
                        b->o->batch, b->info->max_batch);
    if (cli_runtime_check(yolort_context_new(&b->context, b->module, &opts), b->path, NULL, b->e) != 0)
        return -1;
    cli_device_told(&b->o->device, b->context);
    b->threads = yolort_threads(b->context);
    b->nlayer = yolort_step_count(b->module);
    b->buffers = calloc(yolort_io_count(b->module) + 1, sizeof *b->buffers);
    b->layers = calloc(b->nlayer + 1, sizeof *b->layers);
    if (!b->buffers || !b->layers)
        return cli_fail(b->e, CLI_MEMORY, "%s: out of memory", b->path);
    return fill_input(b) == 0 && bind_beside(b) == 0 ? bind_outputs(b) : -1;
}

static void close_bench(struct bench *b)
{
    yolort_context_free(b->context);
    for (size_t i = 0; b->buffers && i < yolort_io_count(b->module); i++)
        free(b->buffers[i]);
    yolort_module_free(b->module);
    cli_modfile_free(&b->file);
    free(b->buffers);
    free(b->layers);
    free(b->ms);
}

/* --- measuring --- */

static int run_once(struct bench *b)
{
    yolort_status s = yolort_run(b->context, b->o->batch, NULL);
    if (s == YOLORT_OK)
        s = yolort_wait(b->context);
    return cli_runtime_check(s, b->path, yolort_error(b->context), b->e);
}

static int add_time(struct bench *b, double ms)
{
    if (b->n % 1024 == 0) {
        double *more = realloc(b->ms, (b->n + 1024) * sizeof *more);
        if (!more)
            return cli_fail(b->e, CLI_MEMORY, "out of memory");
        b->ms = more;
    }
    b->ms[b->n++] = ms;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(struct bench *b)
{
    struct cli_progress progress;
    size_t least = b->o->runs ? (size_t)b->o->runs : 10;
    cli_progress_begin(&progress);
    for (int i = 0; i < b->o->warmup; i++) {
        if (run_once(b) != 0)
            return -1;
    }
    double start = cli_seconds(), now = start;
    while (b->n < least || (!b->o->runs && now - start < b->o->seconds && b->n < MAX_RUNS)) {
        double before = cli_seconds();
        if (run_once(b) != 0)
            return -1;
        now = cli_seconds();
        if (add_time(b, (now - before) * 1e3) != 0)
            return -1;
        cli_progress_step(&progress, "run", b->n, b->o->runs ? least : 0, "");
    }
    cli_progress_clear(&progress);
    qsort(b->ms, b->n, sizeof *b->ms, by_size);
    return 0;
}

/* Steps that serve inputs or outputs other than the bound ones have not run. */
static void drop_skipped(struct bench *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->nlayer; i++) {
        if (b->layers[i].ms > 0)
            b->layers[n++] = b->layers[i];
    }
    b->nlayer = n;
}

/* Apart from the measured runs, as reading clocks between kernels costs time. */
static int profile(struct bench *b)
{
    int rc = cli_runtime_check(yolort_profile(b->context, YOLORT_STEPS | YOLORT_STEPS_ALONE), b->path, yolort_error(b->context), b->e);
    for (int r = 0; rc == 0 && r < PROFILED_RUNS; r++) {
        rc = run_once(b);
        for (size_t i = 0; rc == 0 && i < b->nlayer; i++) {
            yolort_step s, *kept = &b->layers[i];
            rc =
                cli_runtime_check(yolort_step_at(b->context, i, &s), b->path, yolort_error(b->context), b->e);
            if (rc == 0 && (r == 0 || s.ms < kept->ms))
                *kept = s;
        }
    }
    drop_skipped(b);
    return rc;
}

/* --- report --- */

/* The smallest time that at least this share of the runs did not exceed. */
static double percentile(const struct bench *b, double share)
{
    size_t i = (size_t)ceil(share * (double)b->n);
    return b->ms[i ? i - 1 : 0];
}

static double images_per_second(const struct bench *b)
{
    double total = 0;
    for (size_t i = 0; i < b->n; i++)
        total += b->ms[i];
    return total > 0 ? 1e3 * (double)b->n * b->o->batch / total : 0;
}

/* Work of the whole batch in 1e9 units a second. */
static double rate(const struct bench *b, double per_image, double ms)
{
    return ms > 0 ? per_image * b->o->batch / ms * 1e-6 : 0;
}

static const struct {
    const char *name;
    double share;
} points[] = {{"min", 0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
enum { NPOINT = sizeof points / sizeof *points };

static void json_layer(struct cli_text *t, const struct bench *b, const yolort_step *s)
{
    cli_text_add(t, "\n {\"kernel\":");
    cli_text_json(t, s->kernel);
    cli_text_member(t, "label", s->label);
    cli_text_addf(t, ",\"line\":%d", s->line);
    cli_text_member_number(t, "ms", s->ms, 6);
    cli_text_member_number(t, "flops", s->flops * b->o->batch, 0);
    cli_text_member_number(t, "bytes", s->bytes * b->o->batch, 0);
    cli_text_member_number(t, "gflops_per_s", rate(b, s->flops, s->ms), 3);
    cli_text_member_number(t, "gbytes_per_s", rate(b, s->bytes, s->ms), 3);
    cli_text_add(t, "}");
}

static void json_report(struct cli_text *t, const struct bench *b)
{
    cli_text_add(t, "{\"version\":1");
    cli_text_member(t, "model", b->info->model);
    cli_text_member(t, "target", b->info->target);
    cli_text_member(t, "precision", b->info->precision);
    cli_text_addf(t, ",\"height\":%d,\"width\":%d,\"batch\":%d,\"threads\":%d,\"runs\":%zu,\"latency_ms\":{",
                  b->info->height, b->info->width, b->o->batch, b->threads, b->n);
    for (int i = 0; i < NPOINT; i++) {
        cli_text_addf(t, i ? ",\"%s\":" : "\"%s\":", points[i].name);
        cli_text_number(t, percentile(b, points[i].share), 6);
    }
    cli_text_add(t, "}");
    cli_text_member_number(t, "images_per_s", images_per_second(b), 3);
    cli_text_add(t, ",\"layers\":[");
    for (size_t i = 0; i < b->nlayer; i++) {
        cli_text_add(t, i ? "," : "");
        json_layer(t, b, &b->layers[i]);
    }
    cli_text_add(t, "]}\n");
}

static void table_layer(struct cli_text *t, const struct bench *b, const yolort_step *s, double total)
{
    cli_text_column(t, s->ms, 4, 10);
    cli_text_column(t, total > 0 ? 100 * s->ms / total : 0, 1, 6);
    cli_text_column(t, rate(b, s->flops, s->ms), 2, 10);
    cli_text_column(t, s->bytes * b->o->batch / 1e6, 3, 10);
    cli_text_column(t, rate(b, s->bytes, s->ms), 2, 8);
    cli_text_add(t, "  ");
    cli_text_plain(t, s->kernel, 28);
    cli_text_add(t, " ");
    cli_text_plain(t, s->label, 0);
    if (s->line)
        cli_text_addf(t, " (line %d)", s->line);
    cli_text_add(t, "\n");
}

static void table_report(struct cli_text *t, const struct bench *b)
{
    double total = 0, flops = 0, bytes = 0;
    cli_text_plain(t, b->info->model, 0);
    cli_text_addf(t, " %d x %d, ", b->info->height, b->info->width);
    cli_text_plain(t, b->info->target, 0);
    cli_text_add(t, ", ");
    cli_text_plain(t, b->info->precision, 0);
    cli_text_addf(t, ", batch %d, %d thread%s, %zu runs\n", b->o->batch, b->threads, b->threads == 1 ? "" : "s", b->n);
    cli_text_add(t, "latency ms:");
    for (int i = 0; i < NPOINT; i++) {
        cli_text_addf(t, "  %s ", points[i].name);
        cli_text_column(t, percentile(b, points[i].share), 3, 0);
    }
    cli_text_add(t, "   images/s ");
    cli_text_column(t, images_per_second(b), 1, 0);
    cli_text_addf(t, "\n\n%10s%6s%10s%10s%8s  %-28s %s\n", "ms", "%", "GFLOP/s", "MB", "GB/s", "kernel",
                  "layers");
    for (size_t i = 0; i < b->nlayer; i++) {
        total += b->layers[i].ms;
        flops += b->layers[i].flops;
        bytes += b->layers[i].bytes;
    }
    for (size_t i = 0; i < b->nlayer; i++)
        table_layer(t, b, &b->layers[i], total);
    yolort_step sum = {.kernel = "all", .label = "", .flops = flops, .bytes = bytes, .ms = total};
    table_layer(t, b, &sum, total);
}

static int report(const struct bench *b)
{
    struct cli_text t = {0};
    if (b->o->json)
        json_report(&t, b);
    else
        table_report(&t, b);
    int rc = cli_text_flush(&t, stdout, b->e);
    cli_text_free(&t);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    struct bench b = {.o = options, .path = args->rest[0], .e = e};
    int rc = open_bench(&b);
    if (rc == 0)
        rc = measure(&b);
    if (rc == 0)
        rc = profile(&b);
    if (rc == 0)
        rc = report(&b);
    close_bench(&b);
    return rc;
}

const struct cli_command cli_command_bench = {
    .name = "bench",
    .arguments = "MODULE",
    .summary = "Measures a module: latency, and time and rates of each kernel.",
    .details = "A run goes from the letterboxed picture to decoded rows. Times of kernels are the least of a "
               "few runs "
               "apart; GFLOP/s and MB are of the work and the traffic that the kernel cannot avoid.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
