/* Option structs whose first field is their size as the caller knows it: fields are only ever appended. */
#ifndef RT_OPTS_H
#define RT_OPTS_H

#include <stddef.h>

/* Copies what the caller knows over the defaults in `own`. 0, or -1 when the size is impossible, or when a
 * newer caller sets a field that this library does not have. */
int rt_opts_read(void *own, size_t own_size, const void *theirs);

/* Writes the defaults in `own` into the caller's struct, zeroing what only the caller knows. */
void rt_opts_init(void *theirs, size_t size, const void *own, size_t own_size);

#endif
