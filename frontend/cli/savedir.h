/* A folder that gets one file a picture, named by the picture's stem. */
#ifndef CLI_SAVEDIR_H
#define CLI_SAVEDIR_H

#include "image.h"
#include "sources.h"

struct cli_savedir {
    const char *path;
    const struct cli_sources *sources;
    int beside_sources; /* a source lies in this very folder, so each output must be compared with them */
};

/* Makes the folder. */
int cli_savedir_open(struct cli_savedir *d, const char *path, const struct cli_sources *sources,
                     struct cli_error *e);

/* Refuse to write over a source. */
int cli_savedir_png(const struct cli_savedir *d, const char *stem, const struct cli_image *im,
                    struct cli_error *e);
int cli_savedir_text(const struct cli_savedir *d, const char *stem, const void *text, size_t n,
                     struct cli_error *e);

#endif
