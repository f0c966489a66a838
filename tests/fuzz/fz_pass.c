/* IR text through the pipeline: a pass that breaks a sound function is a bug of ours and aborts, whatever the text. The
 * last byte chooses the options. */
#include "case.h"
#include "passes/pass.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    const char *text = (const char *)data;
    unsigned choice = data[size - 1];
    fuzz_case_input(&text, &size);
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_func *f = yir_parse(a, yir_types_new(a), d, "fuzz.yir", text, size);
    struct pass_opts o;
    pass_opts_init(&o);
    o.verify_each = true;
    o.fuse = !(choice & 1);
    o.reuse = !(choice & 2);
    o.max_batch = 1 + (choice >> 2 & 3);
    o.whole_attention = choice & 32;
    const char *names = choice & 16 ? "simplify,cse,dce,inputs,layout,fuse,views,memplan" : NULL;
    if (f) f = names ? pass_run_named(f, d, names, &o) : pass_run_all(f, d, &o);
    if (!f) YIR_ASSERT(yir_diag_errors(d) > 0);
    yir_arena_free(a);
    return 0;
}
