/* Options without a command: what the compiler knows. */
#include "commands.h"
#include "compiler.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of the rows. */
static const char *const lists[] = {"ops", "modules", "passes", "families", "targets", "limits"};

struct options {
    const char *explain;
    int version;
    int lists[sizeof lists / sizeof *lists];
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "version", .letter = 'V', .value = CLI_FLAG, .group = 1, .at = AT(version),
     .help = "the version"},
    {.name = "explain", .value = CLI_TEXT, .group = 1, .at = AT(explain), .metavar = "E106",
     .help = "what a diagnostic's number means"},
    {.name = "list-ops", .value = CLI_FLAG, .group = 1, .at = AT(lists[0]), .help = "operations of the IR"},
    {.name = "list-modules", .value = CLI_FLAG, .group = 1, .at = AT(lists[1]),
     .help = "modules that a yaml row may name"},
    {.name = "list-passes", .value = CLI_FLAG, .group = 1, .at = AT(lists[2]),
     .help = "passes, in their order"},
    {.name = "list-families", .value = CLI_FLAG, .group = 1, .at = AT(lists[3]),
     .help = "fast kernel families"},
    {.name = "list-targets", .value = CLI_FLAG, .group = 1, .at = AT(lists[4]),
     .help = "what can be compiled for"},
    {.name = "list-limits", .value = CLI_FLAG, .group = 1, .at = AT(lists[5]),
     .help = "limits of what inputs may have, for --limit NAME=N"},
};

static int list(const char *what, struct cli_error *e)
{
    struct cli_compiler c;
    yoloc_result text = {NULL, 0};
    int rc = cli_compiler_open(&c, NULL, e);
    if (rc != 0)
        return rc;
    rc = cli_compiler_check(&c, yoloc_list_text(c.handle, what, &text), e);
    cli_print_result(&text);
    cli_compiler_close(&c);
    return rc;
}

/* "E106", "W150", "106" */
static int explain(const char *code, struct cli_error *e)
{
    const char *digits = code + (isalpha((unsigned char)code[0]) ? 1 : 0);
    char *end;
    unsigned long number = strtoul(digits, &end, 10);
    const char *text = isdigit((unsigned char)digits[0]) && !*end && number <= 9999
                           ? yoloc_explain((unsigned)number) : NULL;
    if (!text)
        return cli_fail(e, CLI_USAGE, "no diagnostic has the number '%s'", code);
    puts(text);
    return 0;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    (void)args;
    if (o->explain)
        return explain(o->explain, e);
    if (o->version) {
        uint32_t v = yoloc_version();
        printf("yoloc %u.%u.%u\n", v >> 16 & 255, v >> 8 & 255, v & 255);
        return 0;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (o->lists[i])
            return list(lists[i], e);
    }
    return cli_fail(e, CLI_USAGE, "no command given; `yoloc --help` lists them");
}

const struct cli_command cli_command_list = {
    .name = "command line", .arguments = "COMMAND", .summary = "What the compiler knows.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 0, .max_rest = 0,
    .run = run,
};
