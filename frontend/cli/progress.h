/* One line on stderr that shows how far long work is; nothing when stderr is no terminal. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stddef.h>

struct cli_progress {
    int on, shown;
    double next; /* no earlier than this, in seconds of the monotonic clock */
};

void cli_progress_begin(struct cli_progress *p);

/* "what 3/10 detail"; total 0 leaves the numbers away. Redrawn at most ten times a second. */
void cli_progress_step(struct cli_progress *p, const char *what, size_t done, size_t total,
                       const char *detail);

/* Clears the line; to be called before other output to a terminal, and at the end. */
void cli_progress_clear(struct cli_progress *p);

/* Seconds of the monotonic clock. */
double cli_seconds(void);

#endif
