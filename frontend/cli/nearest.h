#ifndef CLI_NEAREST_H
#define CLI_NEAREST_H

#include <stddef.h>

/* What the user may have meant: the name with the fewest edits (letters added, lost, changed, swapped), NULL
 * when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);

#endif
