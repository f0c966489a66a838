/* YAML text to a literal tree, which must print and have distinct keys. */
#include "case.h"
#include "frontend/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The keys of each dict are distinct: a key finds its own item. */
static void check_keys(const struct fe_value *v)
{
    for (size_t i = 0; i < v->n; i++) {
        YIR_ASSERT(v->kind != FE_DICT || v->key[i]->kind != FE_STR || fe_get(v, v->key[i]->s) == v->item[i]);
        check_keys(v->item[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    fuzz_case_input(&text, &size);
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    const struct fe_value *root = fe_yaml_parse(a, d, "fuzz.yaml", text, size);
    struct yir_str s = {.arena = a};
    if (root) check_keys(root);
    if (root) fe_print(&s, root);
    YIR_ASSERT(root ? s.len > 0 : yir_diag_errors(d) > 0);
    yir_arena_free(a);
    return 0;
}
