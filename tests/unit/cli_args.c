#include "frontend/cli/args.h"
#include "frontend/cli/nearest.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct options {
    int json, txt, batch;
    double conf;
    const char *save;
    struct cli_size size;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "json", .value = CLI_FLAG, .group = 1, .at = AT(json), .help = "as JSON"},
    {.name = "txt", .value = CLI_FLAG, .group = 1, .at = AT(txt), .help = "as text"},
    {.name = "batch", .letter = 'b', .value = CLI_INT, .at = AT(batch), .low = 1, .high = 64, .metavar = "N",
     .fallback = "4", .help = "images at once"},
    {.name = "conf", .value = CLI_REAL, .at = AT(conf), .low = 0, .high = 1, .metavar = "X",
     .help = "least score"},
    {.name = "save", .letter = 'o', .value = CLI_TEXT, .at = AT(save), .metavar = "DIR", .help = "folder"},
    {.name = "imgsz", .value = CLI_SIZE, .at = AT(size), .low = 1, .high = 8192, .metavar = "N|H,W",
     .help = "size"},
};

static const struct cli_command command = {
    .name = "look",
    .arguments = "MODULE SOURCE...",
    .summary = "Looks.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 3,
};

static struct options got;
static const char *rest[16];
static struct cli_args args;
static struct cli_error error;

/* `line` is split at spaces. */
static int parse(const char *line)
{
    static char words[256];
    const char *argv[16];
    int argc = 0;
    error = (struct cli_error){.number = 0};
    snprintf(words, sizeof words, "%s", line);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    return cli_args_parse(&command, argc, argv, &got, rest, &args, &error);
}

Test(cli_args, values_and_fallbacks)
{
    cr_assert_eq(parse("m.yoloc a.jpg --conf 0.3 --json --imgsz=320,640 -o out b.jpg"), 0, "%s", error.text);
    cr_expect_eq(args.nrest, 3);
    cr_expect_str_eq(rest[2], "b.jpg");
    cr_expect_eq(got.json, 1);
    cr_expect_eq(got.txt, 0);
    cr_expect_eq(got.batch, 4);
    cr_expect_float_eq(got.conf, 0.3, 1e-12);
    cr_expect_str_eq(got.save, "out");
    cr_expect(got.size.height == 320 && got.size.width == 640);
    cr_expect(cli_given(&command, &args, "conf") && !cli_given(&command, &args, "batch"));
}

Test(cli_args, short_forms)
{
    cr_assert_eq(parse("-b8 --imgsz 96 -- -x --json"), 0, "%s", error.text);
    cr_expect_eq(got.batch, 8);
    cr_expect_eq(got.size.width, 96);
    cr_expect_eq(args.nrest, 2);
    cr_expect_str_eq(rest[1], "--json");
    cr_expect_eq(parse("- "), 0);
    cr_expect_str_eq(rest[0], "-");
    cr_expect_eq(parse("m --help"), 1);
    cr_expect_eq(parse("-h"), 1);
}

Test(cli_args, errors_name_the_option)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"m --cnof 1", "did you mean --conf?"},
        {"m --sav=x", "did you mean --save?"},
        {"m --zzzzzz", "unknown option --zzzzzz"},
        {"m -q", "unknown option -q"},
        {"m --conf", "--conf lacks its value X"},
        {"m --conf --json", "--conf lacks its value X"},
        {"m --conf 1.5", "a number from 0 to 1, not '1.5'"},
        {"m --conf nan", "a number from 0 to 1"},
        {"m --conf 0.5x", "not '0.5x'"},
        {"m --conf=", "not ''"},
        {"m --batch 0", "a whole number from 1 to 64"},
        {"m --batch 99999999999999999999", "a whole number"},
        {"m --batch 2.5", "a whole number"},
        {"m --imgsz 640x480", "a size N or H,W"},
        {"m --imgsz 640,", "a size N or H,W"},
        {"m --imgsz 1,2,3", "a size N or H,W"},
        {"m --imgsz 9000", "from 1 to 8192"},
        {"m --json=1", "--json takes no value"},
        {"m --json --json", "--json is given twice"},
        {"m --conf 0.1 --conf 0.2", "--conf is given twice"},
        {"m --json --txt", "--json and --txt exclude each other"},
        {"m --save=", "a value that is not empty"},
        {"", "arguments are missing"},
        {"a b c d", "'d' is one argument too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(parse(cases[i].line), -1, "%s", cases[i].line);
        cr_expect_eq(error.exit_code, CLI_BAD_USAGE);
        cr_expect(strstr(error.text, cases[i].says) != NULL, "%s: %s", cases[i].line, error.text);
    }
}

Test(cli_args, help_shows_every_row)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    cli_args_help(&command, to);
    fclose(to);
    cr_expect(strstr(text, "usage: yoloc look [options] MODULE SOURCE...") != NULL);
    cr_expect(strstr(text, "  -b, --batch N") != NULL && strstr(text, "images at once (default 4)") != NULL);
    for (size_t i = 0; i < command.noption; i++)
        cr_expect(strstr(text, rows[i].help) != NULL);
    free(text);
}

Test(cli_args, nearest)
{
    static const char *const names[] = {"compile", "detect", "bench"};
    cr_expect_str_eq(cli_nearest("detcet", names, 3), "detect");
    cr_expect_str_eq(cli_nearest("comp", names, 3), "compile");
    cr_expect_null(cli_nearest("xyzzy", names, 3));
    cr_expect_null(cli_nearest("", names, 3));
}
