/* Command lines by table: the rows of a command give parsing, --help and every usage error. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLI_MAX_OPTIONS 64
#define CLI_MAX_OPTION_BYTES 512 /* of a command's options struct */

enum cli_value {
    CLI_FLAG,   /* int: 1 when given */
    CLI_INT,    /* int */
    CLI_REAL,   /* double */
    CLI_TEXT,   /* const char * into argv */
    CLI_SIZE,   /* struct cli_size: N, or H,W */
    CLI_TEXTS   /* struct cli_texts: the option may be repeated */
};

struct cli_size {
    int height, width;
};

#define CLI_MAX_TEXTS 16

struct cli_texts {
    int n;
    const char *at[CLI_MAX_TEXTS]; /* into argv */
};

struct cli_option {
    const char *name;       /* without dashes */
    char letter;            /* short form, 0: none */
    uint8_t value;          /* enum cli_value */
    uint8_t group;          /* options of one group other than 0 exclude each other */
    uint16_t at;            /* offset in the options struct */
    double low, high;       /* allowed range of numbers, inclusive */
    const char *metavar;    /* how help calls the value; NULL for flags */
    const char *fallback;   /* value when not given, as it would be written; NULL: zero */
    const char *help;
};

struct cli_args {
    const char *const *rest;    /* what is neither option nor value, in order */
    int nrest;
    uint64_t given;             /* bit i: option row i was given */
};

struct cli_command {
    const char *name;
    const char *arguments;      /* "MODULE SOURCE..." */
    const char *summary;        /* one line, for the list of commands */
    const char *details;        /* more for --help, or NULL */
    const struct cli_option *options;
    size_t noption, options_size;
    int min_rest, max_rest;     /* max_rest below 0: any number */
    /* The exit code, or -1 after filling *e. */
    int (*run)(const void *options, const struct cli_args *args, struct cli_error *e);
};

/* Whether an option was given, by name; asks only for names of the table. */
int cli_given(const struct cli_command *c, const struct cli_args *args, const char *name);

/* Parses argv (after the command's name). `options` has options_size bytes and is filled with fallbacks and
 * values; `rest` has room for argc entries. Returns 0, 1 when --help was given, or -1. */
int cli_args_parse(const struct cli_command *c, int argc, const char *const *argv, void *options,
                   const char **rest, struct cli_args *out, struct cli_error *e);

/* Usage, options, defaults; or the options alone. */
void cli_args_help(const struct cli_command *c, FILE *to);
void cli_args_help_options(const struct cli_command *c, FILE *to);

#endif
