/* A picture that is read and decoded by another thread while its caller does something else. */
#ifndef CLI_AHEAD_H
#define CLI_AHEAD_H

#include "error.h"
#include "image.h"

#include <pthread.h>

struct cli_ahead {
    const char *path;       /* NULL: nothing was begun, or it was taken */
    const struct cli_limits *limits;
    struct cli_image image;
    struct cli_error error;
    int rc;
    pthread_t thread;
};

/* Does nothing when there is no thread to be had, or the path is no regular file (a pipe may make its reader wait). `path` and `limits` must live, and stay as they are, until the picture
 * is taken or dropped. */
void cli_ahead_begin(struct cli_ahead *a, const char *path, const struct cli_limits *limits);

/* As cli_image_load_within: gives what was begun for this very `path`, else loads it now. */
int cli_ahead_load(struct cli_ahead *a, struct cli_image *out, const char *path, const struct cli_limits *limits,
                   struct cli_error *e);

void cli_ahead_drop(struct cli_ahead *a);

#endif
