/* The pictures that a command line names. */
#ifndef CLI_SOURCES_H
#define CLI_SOURCES_H

#include "error.h"

#include <stddef.h>

#define CLI_MAX_SOURCES 10000000

struct cli_source {
    char *path;
    char *stem; /* file name without folder and ending, for outputs; "-2", "-3" ... added where two are the
                   same */
};

struct cli_sources {
    struct cli_source *at;
    size_t n, cap;
};

/* Each argument is a file, taken as it is, or a folder: its *.jpg, *.jpeg and *.png in any case, by name. A
 * path that is missing and a folder without pictures are errors. */
int cli_sources_expand(struct cli_sources *out, const char *const *args, size_t n, struct cli_error *e);
void cli_sources_free(struct cli_sources *s);

#endif
