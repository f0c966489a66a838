#include "limits.h"

#include "frontend/yoloc.h"

#include <string.h>

static const struct {
    const char *name;
    size_t at;
} rows[] = {
#define ROW(name, field) {name, offsetof(struct cli_limits, field)}
    ROW("picture-bytes", picture_bytes),
    ROW("picture-pixels", pixels),
    ROW("picture-side", side),
    ROW("jpeg-scans", scans),
    ROW("jpeg-bytes", jpeg_bytes),
    ROW("png-chunks", chunks),
    ROW("png-chunk-bytes", chunk_bytes),
    ROW("module-bytes", module_bytes),
    ROW("module-sections", module_sections),
    ROW("module-table-bytes", module_table_bytes),
#undef ROW
};

/* Comma-joined, as yoloc.h takes them. */
static int join(struct cli_limits *l, const struct cli_texts *given, struct cli_error *e)
{
    size_t n = 0;
    for (int i = 0; i < given->n; i++) {
        size_t len = strlen(given->at[i]);
        if (n + len + 2 > sizeof l->text)
            return cli_fail(e, CLI_USAGE, "--limit: more than %zu letters in all", sizeof l->text - 2);
        if (n)
            l->text[n++] = ',';
        memcpy(l->text + n, given->at[i], len + 1);
        n += len;
    }
    return 0;
}

int cli_limits_read(struct cli_limits *l, const struct cli_texts *given, struct cli_error *e)
{
    char why[256];
    l->text[0] = 0;
    if (given && join(l, given, e) != 0)
        return -1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t v = 0;
        if (yoloc_limit(l->text, rows[i].name, &v, why, sizeof why) != YOLOC_OK)
            return cli_fail(e, CLI_USAGE, "--limit: %s", why);
        memcpy((char *)l + rows[i].at, &v, sizeof v);
    }
    return 0;
}
