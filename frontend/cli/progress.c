#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INTERVAL 0.1
#define COLUMNS 79

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The first picture comes late on purpose: work that is over by then needs no progress line. */
void cli_progress_begin(struct cli_progress *p)
{
    *p = (struct cli_progress){.on = isatty(STDERR_FILENO), .next = cli_seconds() + 3 * INTERVAL};
}

void cli_progress_step(struct cli_progress *p, const char *what, size_t done, size_t total,
                       const char *detail)
{
    char line[COLUMNS + 1];
    double now = p->on ? cli_seconds() : 0;
    if (!p->on || now < p->next)
        return;
    p->next = now + INTERVAL;
    p->shown = 1;
    if (total)
        snprintf(line, sizeof line, "%s %zu/%zu %s", what, done, total, detail);
    else
        snprintf(line, sizeof line, "%s %s", what, detail);
    for (char *c = line; *c; c++)
        *c = (unsigned char)*c < 32 || *c == 127 ? '?' : *c;
    fprintf(stderr, "\r\033[K%s", line);
    fflush(stderr);
}

void cli_progress_clear(struct cli_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}
