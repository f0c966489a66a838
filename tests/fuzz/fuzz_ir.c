/* IR text: what is read is printed, and what is printed is read as the same text. */
#include <string.h>

#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static char *printed(struct yir_arena *a, struct yir_diags *d, const char *text, size_t size)
{
    struct yir_func *f = yir_parse(a, yir_types_new(a), d, "fuzz.yir", text, size);
    struct yir_str s = {.arena = a};
    if (!f)
        return NULL;
    yir_print(&s, f, YIR_PRINT_LOCS);
    return s.text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    char *once = printed(a, d, (const char *)bytes, size);
    char *twice = once ? printed(a, d, once, strlen(once)) : NULL;
    YIR_ASSERT(!once || (twice && strcmp(once, twice) == 0));
    yir_arena_free(a);
    return 0;
}
