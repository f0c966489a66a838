/* yoloc opt: IR text in, passes, IR text out. */
#include "commands.h"
#include "compiler.h"
#include "fileio.h"
#include "interrupt.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_TEXT ((size_t)1 << 30) /* read at all; what is refused before is the library's to say */

struct options {
    struct cli_build build;
    const char *passes, *output, *save_weights;
    int locs;
};

static const struct cli_option rows[] = {
    {.name = "passes", .letter = 'p', .value = CLI_TEXT, .at = offsetof(struct options, passes),
     .metavar = "NAMES|all", .help = "run these passes (comma-joined), or the whole pipeline; else none"},
    {.name = "output", .letter = 'o', .value = CLI_TEXT, .at = offsetof(struct options, output),
     .metavar = "FILE", .help = "write here instead of stdout"},
    {.name = "save-weights", .value = CLI_TEXT, .at = offsetof(struct options, save_weights),
     .metavar = "FILE", .help = "write the weights that the text names here, as .safetensors"},
    {.name = "locs", .value = CLI_FLAG, .at = offsetof(struct options, locs),
     .help = "print source positions, which are no part of the canonical text"},
    CLI_ROWS_WEIGHTS(options),
    CLI_ROWS_MODEL(options),
    CLI_ROWS_SIZE(options),
    CLI_ROW_PRECISION(options),
    CLI_ROWS_PASSES(options),
    CLI_ROW_LIMIT(options, build.limit),
};

static int is_model(const char *path)
{
    static const char *const endings[] = {".yaml", ".yml", ".pt"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++) {
        if (strcasecmp(dot, endings[i]) == 0)
            return 1;
    }
    return 0;
}

static int run_passes(struct cli_compiler *c, const struct options *o, const char *path, const char *text,
                      size_t n, struct cli_error *e)
{
    yoloc_result out = {NULL, 0};
    const char *passes = o->passes ? o->passes : "";
    int rc = cli_compiler_check(c, yoloc_opt_text(c->handle, path, text, n, passes, o->locs, &out), e);
    if (rc == 0 && o->output)
        rc = cli_file_write(o->output, out.bytes, out.size, e);
    else if (rc == 0) {
        cli_print_result(&out);
        return 0;
    }
    yoloc_free_result(&out);
    return rc;
}

static int from_model(struct cli_compiler *c, const struct options *o, const char *path, struct cli_error *e)
{
    yoloc_result text = {NULL, 0};
    int rc = cli_compiler_check(c, yoloc_ir_text(c->handle, path, o->build.weights, &text), e);
    if (rc == 0)
        rc = run_passes(c, o, path, text.bytes, text.size, e);
    yoloc_free_result(&text);
    if (rc != 0 || !o->save_weights)
        return rc;
    cli_interrupt_hold();
    yoloc_status s = yoloc_ir_weights(c->handle, path, o->build.weights, o->passes ? o->passes : "", o->save_weights);
    cli_interrupt_release();
    return cli_compiler_check(c, s, e);
}

static int from_text(struct cli_compiler *c, const struct options *o, const char *path, struct cli_error *e)
{
    uint8_t *text;
    size_t n;
    int standard = strcmp(path, "-") == 0;
    if ((standard ? cli_stdin_read(MOST_TEXT, &text, &n, e) : cli_file_read(path, MOST_TEXT, &text, &n, e)) != 0)
        return -1;
    const char *name = standard ? "stdin" : path;
    int rc = n == 0 ? cli_fail(e, CLI_KIND, "%s: this is no IR text but an empty file", name)
                    : run_passes(c, o, name, (const char *)text, n, e);
    free(text);
    return rc;
}

/* The first pass option that means nothing with these passes, or NULL. */
static const char *useless(const struct options *o)
{
    const struct cli_build *b = &o->build;
    int all = o->passes && strcmp(o->passes, "all") == 0;
    if (b->skip && !all)
        return "--no-pass";
    if (b->pass_limit >= 0 && !all)
        return "--pass-limit";
    if (b->dump_after && !o->passes)
        return "--dump-after";
    return b->time_passes && !o->passes ? "--time-passes" : NULL;
}

/* An output file, which may be NULL, is none of the inputs. */
static int spares(const struct options *o, const char *output, const char *model, struct cli_error *e)
{
    if (!output)
        return 0;
    return cli_output_spares(output, model, e) == 0 ? cli_output_spares(output, o->build.weights, e) : -1;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    const char *path = args->rest[0];
    int model = is_model(path);
    if (!model && (o->build.weights || o->build.scale || o->build.nc || o->build.head || o->build.size.height || o->save_weights))
        return cli_fail(e, CLI_USAGE,
                        "opt: --weights, --save-weights, --scale, --nc, --head and --imgsz are for models, %s is IR text", path);
    const char *flag = useless(o);
    if (flag)
        return cli_fail(e, CLI_USAGE, "opt: %s has no effect on %s", flag,
                        o->passes ? "passes that are named one by one" : "text that goes through no pass");
    if (model && (spares(o, o->output, path, e) != 0 || spares(o, o->save_weights, path, e) != 0))
        return -1;
    struct cli_compiler c;
    if (cli_compiler_open(&c, &o->build, e) != 0)
        return -1;
    int rc = model ? from_model(&c, o, path, e) : from_text(&c, o, path, e);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_opt = {
    .name = "opt",
    .arguments = "FILE.yir|-|MODEL.yaml|FILE.pt",
    .summary = "Prints IR text, after passes if wanted.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
