/* --limit: what inputs may have, by the names of yoloc.h's table. */
#ifndef CLI_LIMITS_H
#define CLI_LIMITS_H

#include "args.h"

/* Row for an options struct S with a member `limit` of struct cli_texts. */
#define CLI_ROW_LIMIT(S, member) \
    {.name = "limit", .value = CLI_TEXTS, .at = offsetof(struct S, member), .metavar = "NAME=N", \
     .help = "another limit of what inputs may have, for a file that is refused by one; may be repeated; " \
             "`yoloc --list-limits` names them"}

struct cli_limits { /* those that the command itself goes by */
    uint64_t picture_bytes, pixels, side, scans, jpeg_bytes, chunks, chunk_bytes;
    uint64_t module_bytes, module_sections, module_table_bytes;
    char text[1024];    /* all that was given, for yoloc_opts.limits */
};

/* given NULL: the defaults, which cannot fail. */
int cli_limits_read(struct cli_limits *l, const struct cli_texts *given, struct cli_error *e);

/* Ends an error text with the way out. */
#define CLI_RAISE(name) " (raise it with --limit " name "=N)"

#endif
