#include "nearest.h"

#include <string.h>

#define MAX_WORD 32

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance; words longer than MAX_WORD are not near anything. */
static size_t distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b), d[MAX_WORD + 1][MAX_WORD + 1];
    if (na > MAX_WORD || nb > MAX_WORD)
        return MAX_WORD;
    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[na][nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    size_t len = strlen(word), best = least(3, len / 3 + 1) + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t edits = distance(word, names[i]);
        if (edits < best) {
            best = edits;
            found = names[i];
        }
    }
    for (size_t i = 0; i < n && !found && len >= 2; i++) {
        if (strncmp(word, names[i], len) == 0)
            found = names[i];
    }
    return found;
}
