/* How calls of a mock library are made to fail. Who includes it says what gives_back is. */
#ifndef MOCKFAIL_H
#define MOCKFAIL_H

#include <stdio.h>
#include <string.h>

static struct {
    char name[64];
    int nth, code;
    const char *at; /* the function that failed; NULL: none yet */
} failure;

/* Ways out: what was made is not given back where these fail, so "*" leaves them alone. */
static int gives_back(const char *name);

/* The nth call from now on of a function gives code; "*": of all that give nothing back. nth 0: none. */
static void set_failure(const char *name, int nth, int code)
{
    snprintf(failure.name, sizeof failure.name, "%s", name);
    failure.nth = nth;
    failure.code = code;
    failure.at = NULL;
}

static int fails(const char *name)
{
    int meant = !strcmp(failure.name, "*") ? !gives_back(name) : !strcmp(failure.name, name);
    if (failure.nth <= 0 || !meant || --failure.nth) return 0;
    failure.at = name;
    return failure.code;
}

#define ENTER(name)                                                                                          \
    do {                                                                                                     \
        int code_ = fails(name);                                                                             \
        if (code_) return code_;                                                                             \
    } while (0)

#endif
