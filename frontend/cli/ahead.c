#include "ahead.h"

#include <signal.h>
#include <sys/stat.h>

static void *load(void *arg)
{
    struct cli_ahead *a = arg;
    a->rc = cli_image_load_within(&a->image, a->path, a->limits, &a->error);
    return NULL;
}

/* Signals are for the main thread, which knows what is half written. */
void cli_ahead_begin(struct cli_ahead *a, const char *path, const struct cli_limits *limits)
{
    sigset_t all, before;
    struct stat st;
    *a = (struct cli_ahead){.path = NULL};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    a->path = path;
    a->limits = limits;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&a->thread, NULL, load, a) != 0)
        a->path = NULL;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int cli_ahead_load(struct cli_ahead *a, struct cli_image *out, const char *path, const struct cli_limits *limits,
                   struct cli_error *e)
{
    if (a->path != path)
        return cli_image_load_within(out, path, limits, e);
    pthread_join(a->thread, NULL);
    a->path = NULL;
    *out = a->image;
    if (a->rc != 0)
        *e = a->error;
    return a->rc;
}

void cli_ahead_drop(struct cli_ahead *a)
{
    if (!a->path)
        return;
    pthread_join(a->thread, NULL);
    cli_image_free(&a->image);
    a->path = NULL;
}
