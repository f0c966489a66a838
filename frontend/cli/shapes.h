/* One model at the input sizes that its pictures need: the module as given, and others compiled from the IR
 * and the weights inside it, from the cache where it has them. */
#ifndef CLI_SHAPES_H
#define CLI_SHAPES_H

#include "cache.h"
#include "engine.h"

#define CLI_MAX_OPEN_SHAPES 6

struct cli_shapes {
    const char *path;
    yolort_context_opts context;
    size_t capacity;
    struct cli_engine engines[CLI_MAX_OPEN_SHAPES]; /* [0]: the module as given, never closed */
    uint64_t used[CLI_MAX_OPEN_SHAPES], clock;
    struct cli_cache cache; /* opened with bytes */
    uint8_t *bytes;         /* of the module file, once another size was wanted */
    size_t size;
};

/* Takes the module over, also on failure. */
int cli_shapes_open(struct cli_shapes *s, yolort_module *m, const char *path,
                    const yolort_context_opts *context, size_t capacity, struct cli_error *e);
void cli_shapes_close(struct cli_shapes *s);

/* *out stays valid until the next call. */
int cli_shapes_get(struct cli_shapes *s, int height, int width, struct cli_engine **out, struct cli_error *e);

#endif
