/* One model at the input sizes that its pictures need: the module as given, and others compiled from the IR
 * and the weights inside it, from the cache where it has them. */
#ifndef CLI_SHAPES_H
#define CLI_SHAPES_H

#include "cache.h"
#include "engine.h"

#define CLI_MAX_OPEN_SHAPES 6

struct cli_shapes {
    const char *path;
    const struct cli_limits *limits;
    yolort_context_opts context;
    size_t capacity;
    struct cli_beside beside;
    struct cli_engine engines[CLI_MAX_OPEN_SHAPES]; /* [0]: the module as given, never closed */
    uint64_t used[CLI_MAX_OPEN_SHAPES], clock;
    struct cli_cache cache; /* no folder: another size was not wanted yet, or the module's signature was required */
    int cache_opened;
    struct cli_modfile file; /* of the module as given */
};

/* Takes the module and the file that it borrows over, also on failure; limits and tensors stay the caller's. A module whose
 * signature was required gets its other sizes from these bytes alone: the cache's keys are no proof of origin. */
int cli_shapes_open(struct cli_shapes *s, yolort_module *m, struct cli_modfile *file, const char *path,
                    const struct cli_limits *limits, const yolort_context_opts *context, size_t capacity,
                    const struct cli_beside *beside, struct cli_error *e);
void cli_shapes_close(struct cli_shapes *s);

/* *out stays valid until the next call. */
int cli_shapes_get(struct cli_shapes *s, int height, int width, struct cli_engine **out, struct cli_error *e);

#endif
