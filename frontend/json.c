#include "json.h"

#include <stdlib.h>

char *fe_json_text(const json_t *root)
{
    size_t n = root ? json_dumpb(root, NULL, 0, JSON_COMPACT) : 0;
    char *text = n ? malloc(n + 1) : NULL;
    if (text && json_dumpb(root, text, n, JSON_COMPACT) == n) {
        text[n] = 0;
        return text;
    }
    free(text);
    return NULL;
}
