#include "readcheck.h"

#include <stdlib.h>
#include <string.h>

static struct readcheck start(void)
{
    struct readcheck r = {.a = yir_arena_new(NULL, NULL)};
    YIR_ASSERT(r.a);
    r.d = yir_diags_new(r.a, NULL, NULL);
    return r;
}

struct readcheck readcheck_bytes(const void *bytes, size_t len, const struct yir_limits *limits)
{
    struct readcheck r = start();
    void *copy = malloc(len ? len : 1);
    YIR_ASSERT(copy);
    if (len) memcpy(copy, bytes, len);
    yir_arena_defer(r.a, free, copy);
    r.w = fe_weights_read(r.a, r.d, "test.pt", copy, len, limits);
    return r;
}

struct readcheck readcheck_file(const char *path)
{
    struct readcheck r = start();
    r.w = fe_weights_open(r.a, r.d, path, NULL);
    return r;
}

enum yir_diag_id readcheck_id(const struct readcheck *r)
{
    return yir_diag_count(r->d) ? yir_diag_at(r->d, 0)->id : YIR_DIAG_NONE;
}

const char *readcheck_text(const struct readcheck *r)
{
    return yir_diag_count(r->d) ? yir_diag_at(r->d, 0)->text : "";
}

void readcheck_end(struct readcheck *r)
{
    yir_arena_free(r->a);
    *r = (struct readcheck){0};
}
