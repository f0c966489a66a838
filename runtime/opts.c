#include "opts.h"

#include "check.h"

#include <string.h>

int rt_opts_read(void *own, size_t own_size, const void *theirs)
{
    size_t size;
    memcpy(&size, theirs, sizeof size);
    if (!RT_HOLDS(OPTS_SIZE, size >= sizeof size && size <= 4096)) return -1;
    /* No struct with a size_t in it has another size; one that ended inside a pointer would give half of it. */
    if (!RT_HOLDS(OPTS_WHOLE, size % sizeof size == 0)) return -1;
    for (size_t i = own_size; i < size; i++)
        if (!RT_HOLDS(OPTS_NEWER, !((const unsigned char *)theirs)[i])) return -1;
    memcpy(own, theirs, size < own_size ? size : own_size);
    return 0;
}

void rt_opts_init(void *theirs, size_t size, const void *own, size_t own_size)
{
    if (!RT_HOLDS(OPTS_INIT, theirs && size >= sizeof size)) return;
    memset(theirs, 0, size);
    memcpy(theirs, own, size < own_size ? size : own_size);
    memcpy(theirs, &size, sizeof size);
}
