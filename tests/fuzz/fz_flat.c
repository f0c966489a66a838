/* Relocatable ELF objects laid flat. The first byte is the number of equal objects, less one; the entry is named "k". */
#include "codegen/codegen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    size_t n = 1 + data[0] % 3, blob_size = 0;
    void *blob = NULL;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct cg_object o[3];
    for (size_t i = 0; i < n; i++) o[i] = (struct cg_object){.data = data + 1, .size = size - 1, .symbol = "k"};
    int status = cg_flatten(a, d, o, n, &blob, &blob_size);
    YIR_ASSERT(status == 0 || yir_diag_errors(d) > 0);
    for (size_t i = 0; status == 0 && i < n; i++) YIR_ASSERT(o[i].entry < blob_size);
    volatile unsigned sum = 0;
    (void)sum;
    for (size_t i = 0; status == 0 && i < blob_size; i++) sum += ((const unsigned char *)blob)[i];
    yir_arena_free(a);
    return 0;
}
