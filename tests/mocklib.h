/* Libraries that stand in for those of a GPU, for Criterion tests. */
#ifndef TEST_MOCKLIB_H
#define TEST_MOCKLIB_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The library that the runtime loads, too, since the environment names it. */
static inline void *mock_library(const char *variable, const char *path)
{
    setenv(variable, path, 1);
    void *lib = dlopen(path, RTLD_NOW);
    cr_assert(lib, "%s", dlerror());
    return lib;
}

static inline void mock_take(void *lib, const char *name, void *fn)
{
    void *p = dlsym(lib, name);
    cr_assert(p, "%s", name);
    memcpy(fn, &p, sizeof p);
}

#endif
