/* One failure of the command: a number of `yoloc --explain`, and one line of text. Functions that can fail
 * return 0, or -1 after filling the struct; only main prints it. */
#ifndef CLI_ERROR_H
#define CLI_ERROR_H

/* The numbers are the stable ones of the diagnostics table; the command may not include that table. */
enum cli_number {
    CLI_NONE = 0,       /* the library has reported it already */
    CLI_USAGE = 1,
    CLI_OPEN = 2,
    CLI_WRITE = 3,
    CLI_MEMORY = 4,
    CLI_LIMIT = 5,
    CLI_KIND = 7,
    CLI_IMAGE = 8,
    CLI_MODULE_FILE = 501,
    CLI_MODULE_TARGET = 503,
    CLI_RUN = 504,
    CLI_TENSOR_IN = 506,
    CLI_SIGNATURE = 507
};

enum cli_exit { CLI_DONE = 0, CLI_BAD_INPUT = 1, CLI_BAD_USAGE = 2, CLI_NO_RESOURCE = 3 };

struct cli_error {
    int number;     /* enum cli_number */
    int exit_code;  /* what the command ends with */
    char text[1024];
};

#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* Always -1, so that `return cli_fail(...)` reads well. The exit code follows from the number. */
int cli_fail(struct cli_error *e, enum cli_number number, const char *format, ...) CLI_PRINTF(3, 4);

/* "yoloc: error: text [E008]" on stderr, nothing when the text is empty; control characters are shown as '?'.
 */
void cli_error_print(const struct cli_error *e);
void cli_warn(const char *format, ...) CLI_PRINTF(1, 2);

#endif
