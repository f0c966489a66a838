/* yoloc compile: a description and weights, or a module, to a module. */
#include "commands.h"
#include "compiler.h"
#include "fileio.h"
#include "host.h"
#include "interrupt.h"
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct cli_build build;
    const char *output;
    struct cli_trust trust;
};

static const struct cli_option rows[] = {
    {.name = "output", .letter = 'o', .value = CLI_TEXT, .at = offsetof(struct options, output),
     .metavar = "FILE", .help = "the module to write; else the model's name with .yoloc, in this folder"},
    CLI_ROWS_WEIGHTS(options),
    CLI_ROW_STRICT(options),
    CLI_ROWS_MODEL(options),
    CLI_ROWS_SIZE(options),
    {.name = "target", .letter = 't', .value = CLI_TEXT, .at = CLI_BUILD_AT(options, target),
     .metavar = "TARGET", .help = "cpu:native, or one of `yoloc --list-targets`, or several (comma-joined)"},
    CLI_ROW_PRECISION(options),
    CLI_ROW_PRECISION_FILE(options),
    CLI_ROW_LAYERS(options),
    {.name = "strip", .value = CLI_FLAG, .at = CLI_BUILD_AT(options, strip),
     .help = "leave out the weights as they came: the module holds what kernels read instead, and can't be compiled again"},
    CLI_ROW_NO_FAST(options),
    {.name = "no-fuse", .value = CLI_FLAG, .at = CLI_BUILD_AT(options, no_fuse),
     .help = "one kernel an operation"},
    {.name = "no-reuse", .value = CLI_FLAG, .at = CLI_BUILD_AT(options, no_reuse),
     .help = "a buffer of its own for each value"},
    CLI_ROW_CHECKED(options),
    {.name = "keep-kernels", .value = CLI_TEXT, .at = CLI_BUILD_AT(options, keep), .metavar = "DIR",
     .help = "write each kernel as program, LLVM IR and object here"},
    CLI_ROW_TUNE(options, "off"),
    CLI_ROWS_TUNING(options),
    CLI_ROWS_CACHE(options),
    CLI_ROWS_PASSES(options),
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, build.limit),
};

/* File name without folder and ending. */
static char *default_output(const char *model)
{
    const char *slash = strrchr(model, '/'), *file = slash ? slash + 1 : model, *dot = strrchr(file, '.');
    char *out = NULL;
    int n = dot && dot != file ? (int)(dot - file) : (int)strlen(file);
    return asprintf(&out, "%.*s.yoloc", n, file) < 0 ? NULL : out;
}

static int build(struct cli_compiler *c, const struct options *o, const char *model, const char *output,
                 const struct cli_limits *limits, struct cli_error *e)
{
    yoloc_result module = {NULL, 0};
    yoloc_tuning tuning = {.size = sizeof tuning};
    double start = cli_seconds();
    int rc = cli_model_compile(c, &o->build, &o->trust, "compile", model, limits, &module, e);
    if (rc == 0) {
        cli_interrupt_hold();
        rc = cli_compiler_check(c, yoloc_write_file(c->handle, output, module.bytes, module.size), e);
        cli_interrupt_release();
    }
    if (rc == 0 && cli_host_has_output() && yoloc_last_tuning(c->handle, &tuning) == YOLOC_OK)
        cli_print_tuning(&tuning);
    if (rc == 0 && cli_host_has_output())
        printf("%s: %.1f MB, compiled in %.1f s\n", output, (double)module.size / 1e6, cli_seconds() - start);
    yoloc_free_result(&module);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    struct cli_build with = o->build;
    struct cli_compiler c;
    struct cli_limits limits;
    with.limits = &limits;
    with.module = args->rest[0];
    /* Who asks for proof of where a module comes from takes none from the cache. */
    with.caching = !o->trust.key && !getenv("YOLOC_REQUIRE_SIGNATURE");
    if (cli_limits_read(&limits, &o->build.limit, e) != 0)
        return -1;
    char *output = o->output ? strdup(o->output) : default_output(args->rest[0]);
    if (!output)
        return cli_fail(e, CLI_MEMORY, "out of memory");
    int rc = cli_output_spares(output, args->rest[0], e);
    if (rc == 0)
        rc = cli_output_spares(output, o->build.weights, e);
    if (rc == 0)
        rc = cli_output_check(output, e);
    if (rc == 0)
        rc = cli_compiler_open(&c, &with, e);
    if (rc == 0) {
        rc = build(&c, o, args->rest[0], output, &limits, e);
        cli_compiler_close(&c);
    }
    free(output);
    return rc;
}

const struct cli_command cli_command_compile = {
    .name = "compile",
    .arguments = "MODEL.yaml|FILE.pt|MODULE",
    .summary = "Compiles a model description and weights to a module.",
    .details =
        "A .pt that holds its description needs no yaml. A module is compiled again from what it holds, for "
        "another target, size or batch.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
