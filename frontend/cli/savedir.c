#include "savedir.h"

#include "fileio.h"

#include <stdlib.h>
#include <string.h>

static int lies_in(const char *source, const char *folder)
{
    const char *slash = strrchr(source, '/');
    if (!slash)
        return cli_same_file(".", folder);
    char *part = strndup(source, slash == source ? 1 : (size_t)(slash - source));
    int yes = !part || cli_same_file(part, folder); /* no memory: look closely */
    free(part);
    return yes;
}

int cli_savedir_open(struct cli_savedir *d, const char *path, const struct cli_sources *sources,
                     struct cli_error *e)
{
    *d = (struct cli_savedir){path, sources, 0};
    if (cli_folder_make(path, e) != 0)
        return -1;
    for (size_t i = 0; i < sources->n && !d->beside_sources; i++)
        d->beside_sources = lies_in(sources->at[i].path, path);
    return 0;
}

/* The path of an output, malloc'd, or NULL. */
static char *output_path(const struct cli_savedir *d, const char *stem, const char *suffix,
                         struct cli_error *e)
{
    char *path = cli_path_join(d->path, stem, suffix);
    if (!path) {
        cli_fail(e, CLI_MEMORY, "out of memory");
        return NULL;
    }
    for (size_t i = 0; d->beside_sources && i < d->sources->n; i++) {
        if (!cli_same_file(path, d->sources->at[i].path))
            continue;
        cli_fail(e, CLI_USAGE, "%s is a source and is not overwritten; give another folder", path);
        free(path);
        return NULL;
    }
    return path;
}

int cli_savedir_png(const struct cli_savedir *d, const char *stem, const struct cli_image *im,
                    struct cli_error *e)
{
    char *path = output_path(d, stem, ".png", e);
    int rc = path ? cli_image_save_png(im, path, e) : -1;
    free(path);
    return rc;
}

int cli_savedir_text(const struct cli_savedir *d, const char *stem, const void *text, size_t n,
                     struct cli_error *e)
{
    char *path = output_path(d, stem, ".txt", e);
    int rc = path ? cli_file_write(path, text, n, e) : -1;
    free(path);
    return rc;
}
