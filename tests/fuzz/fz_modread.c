/* Module files as the compiler reads them again: description, IR text and weights. */
#include <string.h>

#include "codegen/modread.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cg_modview v;
    size_t n;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    int status = cg_module_open(a, d, "fuzz", data, size, &v);
    YIR_ASSERT(status == 0 || yir_diag_errors(d) > 0);
    if (status == 0) {
        volatile size_t sum = strlen(cg_module_string(&v, (uint32_t)size / 2));
        (void)sum;
        for (int i = 0; i < v.meta.nc; i++) sum += strlen(v.meta.names[i]);
        for (uint32_t kind = 0; kind < 16; kind++) {
            const unsigned char *s = cg_module_section(&v, kind, 0, &n);
            for (size_t i = 0; s && i < n; i++) sum += s[i];
        }
        const struct yir_func *f = cg_module_front(a, yir_types_new(a), d, &v, true);
        YIR_ASSERT(f || yir_diag_errors(d) > 0);
    }
    yir_arena_free(a);
    return 0;
}
