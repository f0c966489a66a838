#include "check.h"

#ifdef YOLOC_MUTATION
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

bool yir_check_off(const char *id)
{
    static _Atomic(const char *) off; /* read once; two threads that both read it find the same */
    const char *name = atomic_load_explicit(&off, memory_order_relaxed);
    if (!name) {
        name = getenv("YOLOC_CHECK_OFF");
        if (!name) name = "";
        atomic_store_explicit(&off, name, memory_order_relaxed);
    }
    return strcmp(name, id) == 0;
}
#endif
