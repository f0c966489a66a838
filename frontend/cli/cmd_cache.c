/* yoloc cache: what compilation keeps for the next time. */
#include "commands.h"
#include "compiler.h"

#include <stdlib.h>
#include <string.h>

struct options {
    struct cli_build build;
    const char *output, *older, *size, *records_size;
    int json, all;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "json", .value = CLI_FLAG, .at = AT(json), .help = "list and stats as JSON"},
    {.name = "output", .letter = 'o', .value = CLI_TEXT, .at = AT(output), .metavar = "FILE",
     .help = "the file that export writes"},
    {.name = "all", .value = CLI_FLAG, .group = 1, .at = AT(all), .help = "prune: remove everything"},
    {.name = "older-than", .value = CLI_TEXT, .at = AT(older), .metavar = "TIME",
     .help = "prune: remove records made and results used longer ago than this: 30d, 12h, 90m or seconds"},
    {.name = "max-size", .value = CLI_TEXT, .group = 1, .at = AT(size), .metavar = "SIZE",
     .help = "prune: remove the results used least recently until the others take no more: 500M, 2G; else the cache's limit"},
    {.name = "max-records-size", .value = CLI_TEXT, .at = AT(records_size), .metavar = "SIZE",
     .help = "prune: remove the oldest records until the others take no more"},
    {.name = "cache-dir", .value = CLI_TEXT, .at = CLI_BUILD_AT(options, cache_dir), .metavar = "DIR",
     .help = "the cache folder; else YOLOC_CACHE_DIR, else XDG_CACHE_HOME/yoloc or ~/.cache/yoloc"},
    CLI_ROW_CACHE_LIMIT(options),
    CLI_ROW_LIMIT(options, build.limit),
};

/* A whole number and one of the units, or none; -1 when it is something else. */
static double read_amount(const char *text, const char *units, const double *factor)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    double v = (double)strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (*end && (!unit || end[1]))
        return -1;
    v *= unit ? factor[unit - units] : 1;
    return v < 9e18 ? v : -1;
}

static int read_time(const char *option, const char *text, double *seconds, struct cli_error *e)
{
    static const double factor[] = {1, 60, 3600, 86400};
    *seconds = text ? read_amount(text, "smhd", factor) : -1;
    if (text && *seconds < 0)
        return cli_fail(e, CLI_USAGE, "cache: %s %s: expected a time such as 30d, 12h, 90m or 60s", option, text);
    return 0;
}

static int read_size(const char *option, const char *text, int64_t *bytes, struct cli_error *e)
{
    static const double factor[] = {1 << 10, 1 << 20, 1 << 30};
    double v = text ? read_amount(text, "KMG", factor) : -1;
    if (text && v < 0)
        return cli_fail(e, CLI_USAGE, "cache: %s %s: expected a size such as 500M or 2G", option, text);
    *bytes = (int64_t)v;
    return 0;
}

/* --- the verbs --- */

static int show(struct cli_compiler *c, const struct options *o, const struct cli_args *args, struct cli_error *e)
{
    yoloc_result text = {NULL, 0};
    int rc = cli_compiler_check(c, yoloc_cache_text(c->handle, args->rest[0], o->json, &text), e);
    cli_print_result(&text);
    return rc;
}

static int prune(struct cli_compiler *c, const struct options *o, const struct cli_args *args, struct cli_error *e)
{
    yoloc_prune_opts p = {.size = sizeof p};
    yoloc_result text = {NULL, 0};
    (void)args;
    if (read_time("--older-than", o->older, &p.max_age, e) != 0 || read_size("--max-size", o->size, &p.max_bytes, e) != 0 ||
        read_size("--max-records-size", o->records_size, &p.max_record_bytes, e) != 0)
        return -1;
    if (o->all)
        p.max_bytes = p.max_record_bytes = 0;
    int rc = cli_compiler_check(c, yoloc_cache_prune(c->handle, &p, &text), e);
    cli_print_result(&text);
    return rc;
}

static int export_records(struct cli_compiler *c, const struct options *o, const struct cli_args *args, struct cli_error *e)
{
    yoloc_result records = {NULL, 0};
    (void)args;
    if (!o->output)
        return cli_fail(e, CLI_USAGE, "cache: export needs -o FILE");
    int rc = cli_compiler_check(c, yoloc_cache_export(c->handle, &records), e);
    if (rc == 0)
        rc = cli_compiler_check(c, yoloc_write_file(c->handle, o->output, records.bytes, records.size), e);
    if (rc == 0)
        printf("%s: %.1f kB of records\n", o->output, (double)records.size / 1e3);
    yoloc_free_result(&records);
    return rc;
}

static int merge(struct cli_compiler *c, const struct options *o, const struct cli_args *args, struct cli_error *e)
{
    int rc = 0;
    (void)o;
    for (int i = 1; i < args->nrest && rc == 0; i++) {
        yoloc_result text = {NULL, 0};
        rc = cli_compiler_check(c, yoloc_cache_merge(c->handle, args->rest[i], &text), e);
        if (rc == 0)
            printf("%s: ", args->rest[i]);
        cli_print_result(&text);
    }
    return rc;
}

static const struct verb {
    const char *name;
    int least, most; /* words behind it; most below 0: any number */
    int (*run)(struct cli_compiler *c, const struct options *o, const struct cli_args *args, struct cli_error *e);
} verbs[] = {{"list", 0, 0, show}, {"stats", 0, 0, show}, {"prune", 0, 0, prune}, {"export", 0, 0, export_records}, {"merge", 1, -1, merge}};

static const struct verb *find_verb(const struct cli_args *args, struct cli_error *e)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const struct verb *v = &verbs[i];
        int words = args->nrest - 1;
        if (strcmp(v->name, args->rest[0]) != 0)
            continue;
        if (words >= v->least && (v->most < 0 || words <= v->most))
            return v;
        cli_fail(e, CLI_USAGE, v->least ? "cache: %s needs a file" : "cache: %s takes no file", v->name);
        return NULL;
    }
    cli_fail(e, CLI_USAGE, "cache: '%s' is none of list, stats, prune, export and merge", args->rest[0]);
    return NULL;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    struct cli_compiler c;
    const struct verb *v = find_verb(args, e);
    if (!v)
        return -1;
    if (o->json && v->run != show)
        return cli_fail(e, CLI_USAGE, "cache: --json is for list and stats");
    if ((o->all || o->older || o->size || o->records_size) && v->run != prune)
        return cli_fail(e, CLI_USAGE, "cache: --all, --older-than, --max-size and --max-records-size are for prune");
    if (o->output && v->run != export_records)
        return cli_fail(e, CLI_USAGE, "cache: -o is for export");
    if (cli_compiler_open(&c, &o->build, e) != 0)
        return -1;
    int rc = v->run(&c, o, args, e);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_cache = {
    .name = "cache",
    .arguments = "list | stats | prune | export -o FILE | merge FILE...",
    .summary = "Shows, clears and carries what compilation keeps for the next time.",
    .details =
        "The cache holds the tuner's records (how fast each kernel is in each form) and compiled results (kernels, whole modules). "
        "Nothing in it is needed: what is removed is made again. export writes the records to a file, merge adds those of such "
        "files; of two records for one kernel the newer stays.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = -1,
    .run = run,
};
