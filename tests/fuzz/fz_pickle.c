/* A pickle without a container, and the tree of modules made of it; every storage has the bytes that it declares. */
#include <stdlib.h>

#include "frontend/ptree.h"
#include "fz_weights.h"
#include "mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return mutate_pickle(data, size, most, seed);
}

static int resolve(struct fe_pickle *p, struct fe_storage *s)
{
    uint64_t bytes;
    if (!yir_mul_u64((uint64_t)s->numel, s->itemsize, &bytes) || bytes > 1 << 12)
        return FE_PICKLE_BAD(p, E_TENSOR, "a storage of %lld elements", (long long)s->numel);
    s->data = calloc(1, (size_t)bytes + !bytes); /* a block of its own: reading past it shows */
    YIR_ASSERT(s->data);
    yir_arena_defer(p->a, free, (void *)s->data);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t used;
    struct fe_weights w = {.path = "fuzz", .file_size = size};
    struct yir_limits l = fuzz_limits();
    struct fe_pickle p = {.a = yir_arena_new(NULL, NULL), .limits = &l, .resolve = resolve};
    p.d = yir_diags_new(p.a, NULL, NULL);
    w.file = p.file = yir_diag_file(p.d, "fuzz", NULL, 0);
    struct fe_obj *top = fe_pickle_load(&p, data, size, &used);
    YIR_ASSERT(top ? used <= size : yir_diag_errors(p.d) > 0);
    if (top && fe_ptree_read(&p, top, &w) == 0) fuzz_read_tensors(p.a, &w);
    yir_arena_free(p.a);
    return 0;
}
