/* Modules that a command compiled by itself, kept in the user's cache folder for the next time. The folder is
 * used only when it is the user's own and closed to others, as modules are executed; without it everything
 * works, slower. */
#ifndef CLI_CACHE_H
#define CLI_CACHE_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

#define CLI_CACHE_LIMIT (1ll << 30) /* bytes of all entries; the oldest used go first */

struct cli_cache {
    char *folder; /* NULL: none */
};

/* $YOLOC_CACHE_DIR, $XDG_CACHE_HOME/yoloc or ~/.cache/yoloc, made with mode 0700. One warning when it cannot be used; none
 * when YOLOC_CACHE=off asks for that. */
void cli_cache_open(struct cli_cache *c);
void cli_cache_close(struct cli_cache *c);

/* The key of a module compiled from these bytes at a size: also the build of this command takes part. */
void cli_cache_key(char key[64], const void *module, size_t size, int height, int width);

/* The file of an entry, malloc'd, or NULL when there is none that may be trusted. */
char *cli_cache_find(const struct cli_cache *c, const char *key);
void cli_cache_put(const struct cli_cache *c, const char *key, const void *bytes, size_t size);

#endif
