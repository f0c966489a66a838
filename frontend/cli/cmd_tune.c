/* yoloc tune: measures the kernels of a network and keeps what was found for compile --tune. */
#include "commands.h"
#include "compiler.h"
#include "fileio.h"
#include "interrupt.h"
#include "model.h"

#include <stdio.h>
#include <string.h>

struct options {
    struct cli_build build;
    const char *output;
    struct cli_trust trust;
    int json;
};

static const struct cli_option rows[] = {
    {.name = "output", .letter = 'o', .value = CLI_TEXT, .at = offsetof(struct options, output),
     .metavar = "FILE", .help = "write the tuned module here; else none is written"},
    CLI_ROWS_WEIGHTS(options),
    CLI_ROW_STRICT(options),
    CLI_ROWS_MODEL(options),
    CLI_ROWS_SIZE(options),
    {.name = "target", .letter = 't', .value = CLI_TEXT, .at = CLI_BUILD_AT(options, target),
     .metavar = "TARGET", .help = "cpu:native, or one of `yoloc --list-targets` that runs here"},
    CLI_ROW_PRECISION(options),
    CLI_ROW_PRECISION_FILE(options),
    CLI_ROW_LAYERS(options),
    {.name = "strip", .value = CLI_FLAG, .at = CLI_BUILD_AT(options, strip),
     .help = "with -o: leave out the weights as they came: what kernels read is there instead"},
    CLI_ROW_CHECKED(options),
    CLI_ROW_TUNE(options, "full"),
    CLI_ROWS_TUNING(options),
    CLI_ROWS_CACHE(options),
    {.name = "json", .value = CLI_FLAG, .at = offsetof(struct options, json), .help = "print the summary as JSON"},
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, build.limit),
};

static void print_json(const yoloc_tuning *t, double seconds)
{
    printf("{\"version\":1,\"kernels\":%d,\"known\":%d,\"measured\":%d,\"left\":%d,\"single\":%d,\"changed\":%d,", t->kernels, t->known,
           t->measured, t->left, cli_tuning_single(t), t->changed);
    if (t->before_ms > 0)
        printf("\"before_ms\":%.4f,\"after_ms\":%.4f,", t->before_ms, t->after_ms);
    else
        printf("\"before_ms\":null,\"after_ms\":null,");
    printf("\"seconds\":%.3f}\n", seconds);
}

static void print_text(const yoloc_tuning *t, double seconds)
{
    cli_print_tuning(t);
    printf("tuned in %.1f s\n", seconds);
}

static int write_module(struct cli_compiler *c, const char *path, const yoloc_result *module, struct cli_error *e)
{
    cli_interrupt_hold();
    int rc = cli_compiler_check(c, yoloc_write_file(c->handle, path, module->bytes, module->size), e);
    cli_interrupt_release();
    return rc;
}

static int tune(struct cli_compiler *c, const struct options *o, const char *model, const struct cli_limits *limits, struct cli_error *e)
{
    yoloc_result module = {NULL, 0};
    yoloc_tuning t = {.size = sizeof t};
    double start = cli_seconds();
    int rc = cli_model_compile(c, &o->build, &o->trust, "tune", model, limits, &module, e);
    if (rc == 0)
        rc = cli_compiler_check(c, yoloc_last_tuning(c->handle, &t), e);
    if (rc == 0 && o->output)
        rc = write_module(c, o->output, &module, e);
    yoloc_free_result(&module);
    if (rc == 0)
        (o->json ? print_json : print_text)(&t, cli_seconds() - start);
    return rc;
}

static int check(const struct options *o, const char *model, struct cli_error *e)
{
    if (strcmp(o->build.tune, "off") == 0)
        return cli_fail(e, CLI_USAGE, "tune: --tune off leaves nothing to be done");
    if (!o->output)
        return o->build.strip ? cli_fail(e, CLI_USAGE, "tune: --strip has no meaning without -o") : 0;
    if (cli_output_spares(o->output, model, e) != 0 || cli_output_spares(o->output, o->build.weights, e) != 0)
        return -1;
    return cli_output_check(o->output, e);
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    struct cli_build with = o->build;
    struct cli_compiler c;
    struct cli_limits limits;
    with.limits = &limits;
    with.module = args->rest[0];
    with.pass_limit = -1;
    with.caching = 2; /* a module in the cache would tell nothing of its kernels */
    if (cli_limits_read(&limits, &o->build.limit, e) != 0 || check(o, args->rest[0], e) != 0)
        return -1;
    if (cli_compiler_open(&c, &with, e) != 0)
        return -1;
    int rc = tune(&c, o, args->rest[0], &limits, e);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_tune = {
    .name = "tune",
    .arguments = "MODEL.yaml|FILE.pt|MODULE",
    .summary = "Measures the kernels of a network on this machine, for compile --tune.",
    .details =
        "What is found is kept in the cache folder, so that `yoloc compile --tune fast` with the same model takes it from there, and so "
        "does any network that has kernels in common. Kernels that are known are not measured again. A compile without --tune never "
        "looks at what was found.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
