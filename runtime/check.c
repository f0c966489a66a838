#include "check.h"

#ifdef YOLOC_MUTATION
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define CHECK(id, row, test) #id,
#include "checks.def"
#undef CHECK
};

enum { UNREAD = -2, NONE = -1 };

static int named(const char *wanted)
{
    for (size_t i = 0; wanted && i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], wanted)) return (int)i;
    return NONE;
}

int rt_check_off(enum rt_check id)
{
    static _Atomic int off = UNREAD; /* read once; two threads that both read it find the same */
    int k = atomic_load_explicit(&off, memory_order_relaxed);
    if (k == UNREAD) {
        k = named(getenv("YOLOC_CHECK_OFF"));
        atomic_store_explicit(&off, k, memory_order_relaxed);
    }
    return k == (int)id;
}
#endif
