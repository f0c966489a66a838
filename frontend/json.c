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
    for (size_t i = 0, k; i < n; i += k ? k : 1) {
        uint32_t c;
        k = yir_utf8(bytes + i, n - i, &c);
        if (!k) yir_str_put(s, "\\ufffd", 6);
        else if (!yir_is_shown(c)) yir_str_fmt(s, "\\u%04x", c);
        else if (c == '"' || c == '\\') yir_str_fmt(s, "\\%c", (char)c);
        else yir_str_put(s, bytes + i, k);
    }
    yir_str_put(s, "\"", 1);
}
