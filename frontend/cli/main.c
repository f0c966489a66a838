#include "commands.h"
#include "host.h"
#include "interrupt.h"
#include "nearest.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_command *const commands[] = {
#define COMMAND(name) &cli_command_##name,
#include "commands.def"
#undef COMMAND
};
enum { NCOMMAND = sizeof commands / sizeof *commands };

static void print_help(FILE *to)
{
    fputs("usage: yoloc COMMAND [options] ...\n\n"
          "Compiles YOLO networks to modules and runs them.\n\ncommands:\n", to);
    for (size_t i = 0; i < NCOMMAND; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\noptions without a command:\n", to);
    cli_args_help_options(&cli_command_list, to);
    fputs("\n`yoloc COMMAND --help` lists the options of a command.\n"
          "Exit codes: 0 done, 1 bad input, 2 usage, 3 memory, disk or device, 130 and 143 interrupted.\n",
          to);
}

/* Output that nobody received is a failure too (full disk behind a redirection), though the files that the command makes
 * stand: they are whole before anything is printed about them. */
static int finish(int code, struct cli_error *e)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (code >= 0)
            cli_fail(e, CLI_WRITE, "standard output could not be written; files that were asked for are complete");
        code = -1;
    }
    if (code >= 0)
        return code;
    cli_error_print(e);
    return e->exit_code;
}

static int show_help(const struct cli_command *c)
{
    if (c == &cli_command_list)
        print_help(stdout);
    else
        cli_args_help(c, stdout);
    return CLI_DONE;
}

static int run_command(const struct cli_command *c, int argc, const char *const *argv, struct cli_error *e)
{
    union {
        max_align_t align;
        char bytes[CLI_MAX_OPTION_BYTES];
    } options;
    struct cli_args args;
    const char **rest = calloc((size_t)argc + 1, sizeof *rest);
    if (!rest)
        return cli_fail(e, CLI_MEMORY, "out of memory");
    int rc = cli_args_parse(c, argc, argv, options.bytes, rest, &args, e);
    if (rc == 0)
        rc = c->run(options.bytes, &args, e);
    else if (rc > 0)
        rc = show_help(c);
    free(rest);
    return rc;
}

static const struct cli_command *find_command(const char *name, struct cli_error *e)
{
    const char *names[NCOMMAND];
    for (size_t i = 0; i < NCOMMAND; i++) {
        names[i] = commands[i]->name;
        if (strcmp(name, names[i]) == 0)
            return commands[i];
    }
    const char *near = cli_nearest(name, names, NCOMMAND);
    cli_fail(e, CLI_USAGE, "unknown command '%s'%s%s%s", name, near ? "; did you mean " : "",
             near ? near : "", near ? "?" : "; `yoloc --help` lists the commands");
    return NULL;
}

int main(int argc, char **argv)
{
    struct cli_error e = {0};
    const char *const *args = (const char *const *)argv;
    cli_host_streams();
    cli_interrupt_install();
    if (argc < 2) {
        print_help(stderr);
        return CLI_BAD_USAGE;
    }
    if (argv[1][0] == '-')
        return finish(run_command(&cli_command_list, argc - 1, args + 1, &e), &e);
    const struct cli_command *c = find_command(argv[1], &e);
    return finish(c ? run_command(c, argc - 2, args + 2, &e) : -1, &e);
}
