#include "json.h"

#include <stdlib.h>

#include "ir/utf8.h"

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

void fe_json_quote(struct yir_str *s, const char *bytes, size_t n)
{
    yir_str_put(s, "\"", 1);
    for (size_t i = 0; i < n;) {
        char c[6];
        size_t len;
        i += yir_json(bytes + i, n - i, c, &len);
        yir_str_put(s, c, len);
    }
    yir_str_put(s, "\"", 1);
}
