#include "classes.h"

#include "nearest.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int find_class(const char *word, const char *const *names, int nc)
{
    char *end;
    for (int i = 0; i < nc; i++) {
        if (strcmp(word, names[i]) == 0)
            return i;
    }
    if (!isdigit((unsigned char)word[0]))
        return -1;
    long v = strtol(word, &end, 10);
    return *end == 0 && v < nc ? (int)v : -1;
}

static int unknown_class(const char *word, const char *const *names, int nc, struct cli_error *e)
{
    const char *near = cli_nearest(word, names, (size_t)nc);
    if (near)
        return cli_fail(e, CLI_USAGE, "--classes: the module has no class '%s'; did you mean %s?", word,
                        near);
    return cli_fail(e, CLI_USAGE, "--classes: the module has no class '%s'; it has %d, numbered from 0", word,
                    nc);
}

int cli_classes_parse(const char *list, const char *const *names, int nc, uint8_t *wanted,
                      struct cli_error *e)
{
    char word[256];
    memset(wanted, 0, (size_t)nc);
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        size_t kept = n < sizeof word ? n : sizeof word - 1;
        memcpy(word, p, kept);
        word[kept] = 0;
        int i = find_class(word, names, nc);
        if (i < 0)
            return unknown_class(word, names, nc, e);
        wanted[i] = 1;
        p += n;
        if (!*p)
            return 0;
    }
}
