/* yoloc weights: what a weights file holds, or what a model wants. */
#include "commands.h"
#include "compiler.h"

#include <string.h>
#include <strings.h>

struct options {
    struct cli_build build;
    int params, json;
};

static const struct cli_option rows[] = {
    CLI_ROWS_MODEL(options),
    {.name = "params", .value = CLI_FLAG, .group = 1, .at = offsetof(struct options, params),
     .help = "parameter counts of the model, in all and by layer, instead of names"},
    {.name = "json", .value = CLI_FLAG, .group = 1, .at = offsetof(struct options, json),
     .help = "the listing of a weights file as JSON"},
    {.name = "allow-bad-crc", .value = CLI_FLAG, .at = CLI_BUILD_AT(options, allow_bad_crc),
     .help = "read a .pt although a checksum in it is wrong"},
    CLI_ROW_STRICT(options),
    CLI_ROW_LIMIT(options, build.limit),
};

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), len = strlen(tail);
    return n > len && strcasecmp(s + n - len, tail) == 0;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    const char *file = args->rest[0];
    int model = ends_with(file, ".yaml") || ends_with(file, ".yml");
    if (model && o->json)
        return cli_fail(e, CLI_USAGE, "weights: --json is for weights files, %s is a model", file);
    if (!model && !o->params && (o->build.scale || o->build.nc || o->build.head))
        return cli_fail(e, CLI_USAGE, "weights: --scale, --nc and --head are for models, %s is none", file);
    struct cli_compiler c;
    yoloc_result text = {NULL, 0};
    if (cli_compiler_open(&c, &o->build, e) != 0)
        return -1;
    yoloc_status s = model || o->params ? yoloc_wanted_text(c.handle, file, o->params, &text)
                                        : yoloc_weights_text(c.handle, file, o->json, &text);
    int rc = cli_compiler_check(&c, s, e);
    cli_print_result(&text);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_weights = {
    .name = "weights",
    .arguments = "FILE.pt|FILE.safetensors|MODEL.yaml",
    .summary = "Lists a weights file, or the weights that a model wants.",
    .details =
        "For a model: one line `name shape` for each tensor, in the order of a state_dict, nothing folded.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
