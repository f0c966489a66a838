#include "mockfail.h"

#include <stdio.h>
#include <string.h>

static struct {
    char name[64];
    int nth, code;
    const char *at;
} failure;

void set_failure(const char *name, int nth, int code)
{
    snprintf(failure.name, sizeof failure.name, "%s", name);
    failure.nth = nth;
    failure.code = code;
    failure.at = NULL;
}

const char *failed(void)
{
    return failure.at;
}

int fails(const char *name)
{
    int meant = !strcmp(failure.name, "*") ? !gives_back(name) : !strcmp(failure.name, name);
    if (failure.nth <= 0 || !meant || --failure.nth) return 0;
    failure.at = name;
    return failure.code;
}
