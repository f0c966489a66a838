/* IR text: what parses is verified, printed, and must parse again to the same text. */
#include "case.h"
#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *print(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const char *text,
                         size_t len)
{
    struct yir_func *f = yir_parse(a, t, d, "fuzz.yir", text, len);
    if (!f) return NULL;
    yir_verify(f, YIR_S_NOBN | YIR_S_LAYOUT | YIR_S_KERNELS | YIR_S_PLACES);
    struct yir_str s = {.arena = a};
    yir_print(&s, f, YIR_PRINT_LOCS);
    return s.text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    fuzz_case_input(&text, &size);
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_types *t = yir_types_new(a);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    const char *once = print(a, t, d, text, size);
    const char *twice = once ? print(a, t, d, once, strlen(once)) : NULL;
    if (once) YIR_ASSERT(twice && !strcmp(once, twice));
    if (!once) YIR_ASSERT(yir_diag_errors(d) > 0);
    yir_arena_free(a);
    return 0;
}
