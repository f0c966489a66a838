/* IR text through the pipeline: a pass that breaks a sound function is a bug of ours and aborts, whatever the text. The
 * first byte chooses options, the rest is the text. */
#include "passes/pass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_func *f = yir_parse(a, yir_types_new(a), d, "fuzz.yir", (const char *)data + 1, size - 1);
    struct pass_opts o;
    pass_opts_init(&o);
    o.verify_each = true;
    o.fuse = data[0] & 1;
    o.reuse = data[0] & 2;
    o.max_batch = 1 + (data[0] >> 2 & 3);
    const char *const names = data[0] & 16 ? "simplify,cse,dce,inputs,layout,fuse,views,memplan" : NULL;
    if (f) f = names ? pass_run_named(f, d, names, &o) : pass_run_all(f, d, &o);
    if (!f) YIR_ASSERT(yir_diag_errors(d) > 0);
    yir_arena_free(a);
    return 0;
}
