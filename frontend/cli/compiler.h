/* The compiler library as commands use it: diagnostics, dumps and progress go to stderr, statuses become exit
 * codes. */
#ifndef CLI_COMPILER_H
#define CLI_COMPILER_H

#include "args.h"
#include "frontend/yoloc.h"
#include "limits.h"
#include "progress.h"

struct cli_compiler {
    yoloc *handle;
    struct cli_progress progress;
    int errors; /* diagnostics told so far that were errors */
    int asks;   /* interrupts end tuning in order */
};

/* Options that several commands share; rows below. */
struct cli_build {
    const char *weights, *scale, *head, *target;
    const char *skip, *dump_after, *keep;
    const char *precision, *precision_file;
    struct cli_size size;
    int nc, batch, layers, no_fast, checked, no_fuse, no_reuse, strip, allow_bad_crc, strict;
    int verify_each, pass_limit, time_passes;
    const char *tune, *tune_budget, *cache_dir, *cache_limit; /* tune: off, fast, full */
    int tune_threads, tune_report, no_cache, caching; /* caching: this command uses the caches */
    int no_cudnn, deterministic, cudnn_workspace;     /* MiB; 0: unsaid */
    const char *module;                 /* file of the module that is compiled again or looked at, or NULL */
    struct cli_texts limit;             /* as given */
    const struct cli_limits *limits;    /* read already, or NULL: `limit` is what counts */
};

#define CLI_MAX_IMGSZ 16384

/* Rows for an options struct S with a member `build`. */
/* clang-format off */
#define CLI_BUILD_AT(S, field) offsetof(struct S, build.field)
#define CLI_ROWS_MODEL(S) \
    {.name = "scale", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, scale), .metavar = "LETTER", \
     .help = "size of the model, a key of its `scales`; else the file name decides (yolov8s.yaml)"}, \
    {.name = "nc", .value = CLI_INT, .at = CLI_BUILD_AT(S, nc), .low = 1, .high = 65536, .metavar = "N", \
     .help = "number of classes; else yaml and weights decide"}, \
    {.name = "head", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, head), .metavar = "one2many|one2one", \
     .help = "of a head with two sets of branches (v10, 26): with suppression of overlaps, or without (default one2many)"}
#define CLI_ROWS_WEIGHTS(S) \
    {.name = "weights", .letter = 'w', .value = CLI_TEXT, .at = CLI_BUILD_AT(S, weights), \
     .metavar = "FILE|rule", \
     .help = "a .pt or .safetensors file; `rule` makes weights from their names, for tests and benches"}, \
    {.name = "allow-bad-crc", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, allow_bad_crc), \
     .help = "read a .pt although a checksum in it is wrong"}
#define CLI_ROW_STRICT(S) \
    {.name = "strict", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, strict), \
     .help = "NaN, infinities and impossible variances in the weights are an error, not a warning"}
#define CLI_ROWS_SIZE(S) \
    {.name = "imgsz", .value = CLI_SIZE, .at = CLI_BUILD_AT(S, size), .low = 1, .high = CLI_MAX_IMGSZ, \
     .metavar = "N|H,W", .help = "input size; else the checkpoint's or the family's"}, \
    {.name = "batch", .letter = 'b', .value = CLI_INT, .at = CLI_BUILD_AT(S, batch), .low = 1, \
     .high = 65536, .metavar = "N", .fallback = "1", .help = "largest number of images in one run"}
#define CLI_ROW_TUNE(S, usual) \
    {.name = "tune", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, tune), .metavar = "off|fast|full", .fallback = usual, \
     .help = "measure candidate kernels here: off takes the predicted ones, fast the few likeliest (some 20 s for a " \
             "network never seen), full many more"}
#define CLI_ROWS_TUNING(S) \
    {.name = "tune-budget", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, tune_budget), .metavar = "TIME", \
     .help = "end tuning after about this long: 30s, 500ms, 2m (default 20s for fast, 5m for full)"}, \
    {.name = "tune-threads", .value = CLI_INT, .at = CLI_BUILD_AT(S, tune_threads), .low = 1, .high = 1024, .metavar = "N", \
     .help = "tune for this many CPU threads; else one for each core"}, \
    {.name = "tune-report", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, tune_report), \
     .help = "print the time of each candidate measured on stderr"}, \
    {.name = "no-cudnn", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, no_cudnn), \
     .help = "GPUs: convolutions of cuDNN are no candidates, and none that were found before are used"}, \
    {.name = "deterministic", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, deterministic), \
     .help = "GPUs: none of cuDNN's that may give other bits each time; our own kernels always give the same"}, \
    {.name = "cudnn-workspace", .value = CLI_INT, .at = CLI_BUILD_AT(S, cudnn_workspace), .low = 1, .high = 65536, .metavar = "MIB", \
     .help = "GPUs: memory that a convolution of cuDNN may work in (default 64)"}
#define CLI_ROWS_CACHE(S) \
    {.name = "no-cache", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, no_cache), \
     .help = "neither use nor keep tuning records, kernels and modules in the user's cache folder"}, \
    {.name = "cache-dir", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, cache_dir), .metavar = "DIR", \
     .help = "the cache folder; else YOLOC_CACHE_DIR, else XDG_CACHE_HOME/yoloc or ~/.cache/yoloc"}, \
    CLI_ROW_CACHE_LIMIT(S)
#define CLI_ROW_CACHE_LIMIT(S) \
    {.name = "cache-limit", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, cache_limit), .metavar = "SIZE", \
     .help = "compiled results that were used least recently go when they take more: 500M, 4G; else YOLOC_CACHE_LIMIT or 2G"}
#define CLI_ROW_LAYERS(S) \
    {.name = "layers", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, layers), \
     .help = "add the output of every yaml row but the head's, as layer.I or layer.I.P"}
#define CLI_ROW_PRECISION(S) \
    {.name = "precision", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, precision), .metavar = "fp32|tf32|fp16|bf16", \
     .help = "of values and weights inside the network (default fp32, or the module's own); sums, decoding and outputs are fp32; " \
             "tf32: GPUs round what they multiply"}
#define CLI_ROW_PRECISION_FILE(S) \
    {.name = "precision-file", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, precision_file), .metavar = "FILE", \
     .help = "other precisions of some layers: lines of a layer's name (`*` stands for anything) and a precision"}
#define CLI_ROW_NO_FAST(S) \
    {.name = "no-fast", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, no_fast), \
     .help = "generic code only, no fast kernel families"}
#define CLI_ROW_CHECKED(S) \
    {.name = "checked", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, checked), \
     .help = "the code checks the bounds of every access"}
#define CLI_ROWS_PASSES(S) \
    {.name = "verify-each", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, verify_each), \
     .help = "verify the IR after each pass"}, \
    {.name = "no-pass", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, skip), .metavar = "NAMES", \
     .help = "leave these passes out (comma-joined)"}, \
    {.name = "pass-limit", .value = CLI_INT, .at = CLI_BUILD_AT(S, pass_limit), .low = -1, .high = 100000, \
     .metavar = "N", .fallback = "-1", .help = "run the first N optional passes, to find the one at fault; -1: all"}, \
    {.name = "dump-after", .value = CLI_TEXT, .at = CLI_BUILD_AT(S, dump_after), .metavar = "NAMES|all", \
     .help = "print the IR after these passes on stderr"}, \
    {.name = "time-passes", .value = CLI_FLAG, .at = CLI_BUILD_AT(S, time_passes), \
     .help = "print the time of each pass on stderr"}
/* clang-format on */

/* The handle's callbacks refer to *c, which must stay where it is until closed. build NULL: defaults. */
int cli_compiler_open(struct cli_compiler *c, const struct cli_build *build, struct cli_error *e);
void cli_compiler_close(struct cli_compiler *c);

/* 0, or -1 with the exit code of a status whose cause was told already. Ends the progress line. */
int cli_compiler_check(struct cli_compiler *c, yoloc_status s, struct cli_error *e);

/* Prints what tuning found on stdout, a line or two. */
void cli_print_tuning(const yoloc_tuning *t);

/* Bytes of "500M", "2G", "4096", at least 1; -1: it is no such size. */
int cli_read_size(const char *text, uint64_t *bytes);

/* Kernels that had no other form to be measured. */
int cli_tuning_single(const yoloc_tuning *t);

/* Prints a text result on stdout and releases it. */
void cli_print_result(yoloc_result *r);

#endif
