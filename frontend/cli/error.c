#include "error.h"

#include "ir/utf8.h"

#include <stdarg.h>
#include <stdio.h>

static int exit_code_of(enum cli_number number)
{
    switch (number) {
    case CLI_USAGE: return CLI_BAD_USAGE;
    case CLI_WRITE: /* a full disk, a folder that may not be written: no fault of the input */
    case CLI_MEMORY:
    case CLI_MODULE_TARGET: return CLI_NO_RESOURCE;
    default: return CLI_BAD_INPUT;
    }
}

int cli_fail(struct cli_error *e, enum cli_number number, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    e->number = number;
    e->exit_code = exit_code_of(number);
    return -1;
}

/* A file name may hold escape sequences; a terminal must not obey them. */
static void print_line(const char *head, const char *text, const char *tail)
{
    fputs(head, stderr);
    for (size_t n, k; *text; text += n ? n : 1) {
        uint32_t c;
        n = yir_utf8(text, 4, &c);
        k = yir_shown(text, 4);
        fwrite(k ? text : "?", 1, k ? k : 1, stderr);
    }
    fputs(tail, stderr);
}

void cli_error_print(const struct cli_error *e)
{
    char tail[16] = "\n";
    if (!e->text[0])
        return;
    if (e->number != CLI_NONE)
        snprintf(tail, sizeof tail, " [E%03d]\n", e->number);
    print_line("yoloc: error: ", e->text, tail);
}

void cli_warn(const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    print_line("yoloc: warning: ", text, "\n");
}
