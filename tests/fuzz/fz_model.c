/* A model description: read, and built with shapes alone. */
#include "case.h"
#include "frontend/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    fuzz_case_input(&text, &size);
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    const struct fe_value *root = fe_yaml_parse(a, d, "fuzz.yaml", text, size);
    const struct fe_model_opts o = {.path = "yolov8n.yaml", .batch = 1, .height = 64, .width = 64};
    const struct fe_model *m = root ? fe_model_build(a, yir_types_new(a), d, root, &o) : NULL;
    YIR_ASSERT(m ? yir_verify(m->func, 0) == 0 : yir_diag_errors(d) > 0);
    yir_arena_free(a);
    return 0;
}
