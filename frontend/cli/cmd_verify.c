/* yoloc verify: each kernel of a module against the evaluator. */
#include "commands.h"
#include "compiler.h"
#include "modfile.h"

struct options {
    struct cli_build build;
    struct cli_size size;
    int seed, samples;
    double bound, layer_bound;
    struct cli_trust trust;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "imgsz", .value = CLI_SIZE, .at = AT(size), .low = 1, .high = 4096, .metavar = "N|H,W",
     .fallback = "160", .help = "input size; the evaluator interprets, so small is quick"},
    {.name = "samples", .value = CLI_INT, .at = AT(samples), .low = -1, .high = 1e9, .metavar = "N",
     .fallback = "2048", .help = "elements compared for each kernel; -1: all"},
    {.name = "seed", .value = CLI_INT, .at = AT(seed), .low = 0, .high = 2147483647, .metavar = "N",
     .fallback = "1", .help = "of the test picture"},
    {.name = "bound", .value = CLI_REAL, .at = AT(bound), .low = 1e-12, .high = 1, .metavar = "X",
     .help = "largest difference of a kernel from the evaluator, relative to the mean size of a tensor's elements; else 1e-3, "
             "tf32 1e-2, fp16 5e-3, bf16 3e-2"},
    {.name = "layer-bound", .value = CLI_REAL, .at = AT(layer_bound), .low = 1e-12, .high = 1000, .metavar = "X",
     .help = "below fp32: mean difference of a value from the network in fp32, likewise; else tf32 and fp16 5e-2, bf16 0.4"},
    {.name = "target", .letter = 't', .value = CLI_TEXT, .at = CLI_BUILD_AT(options, target), .metavar = "TARGET",
     .help = "run on this one; else on the module's own if that is a GPU, or as cpu:native"},
    CLI_ROW_PRECISION(options),
    CLI_ROW_PRECISION_FILE(options),
    CLI_ROW_NO_FAST(options),
    CLI_ROW_CHECKED(options),
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, build.limit),
};

static int verify(struct cli_compiler *c, const struct options *o, const char *path, const struct cli_limits *limits,
                  struct cli_error *e)
{
    struct cli_modfile f;
    yoloc_result text = {NULL, 0};
    yoloc_verify_opts v = {.size = sizeof v, .height = o->size.height, .width = o->size.width,
                           .seed = (uint32_t)o->seed, .samples = o->samples, .bound = o->bound,
                           .layer_bound = o->layer_bound};
    if (cli_modfile_read(&f, path, &o->trust, limits, e) != 0)
        return -1;
    int rc = cli_compiler_check(c, yoloc_verify(c->handle, f.bytes, f.size, &v, &text), e);
    cli_print_result(&text);
    cli_modfile_free(&f);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    struct cli_build build = o->build;
    struct cli_compiler c;
    struct cli_limits limits;
    if (o->samples == 0)
        return cli_fail(e, CLI_USAGE, "verify: --samples 0 would compare nothing; -1 compares all");
    if (cli_limits_read(&limits, &build.limit, e) != 0)
        return -1;
    build.limits = &limits;
    build.module = args->rest[0];
    build.pass_limit = -1;
    if (cli_compiler_open(&c, &build, e) != 0)
        return -1;
    int rc = verify(&c, o, args->rest[0], &limits, e);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_verify = {
    .name = "verify",
    .arguments = "MODULE",
    .summary = "Compares every kernel of a module with the evaluator.",
    .details =
        "The module's IR is compiled at a small size and run; each kernel's output is compared with what the "
        "double-precision evaluator makes of the same inputs. The first kernel that differs is named. A network below fp32 is also run in "
        "fp32, and the first layer that goes wrong in the lower precision is named.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
