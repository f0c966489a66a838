#include "evalnet.h"

#include <math.h>

#include "randnet.h"

static void fill_input(double *v, const struct yir_tdesc *d, uint64_t n, uint64_t state)
{
    for (uint64_t k = 0; k < n; k++) {
        double x = (double)randnet_float(&state);
        v[k] = d->dtype == YIR_U8 ? floor((x + 1) * 128) : x;
    }
}

struct evalnet evalnet_new(struct yir_arena *a, const struct yir_func *f, uint64_t seed)
{
    struct evalnet m = {f, yir_alloc_n(a, f->nbuf, sizeof(double *))};
    double *arena = yir_alloc_n(a, f->arena_size / 2, sizeof *arena); /* no element there is smaller than 2 bytes */
    for (uint64_t i = 0; i < f->arena_size / 2; i++) arena[i] = NAN;
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        m.buf[i] = b->kind == YIR_BUF_ARENA ? arena + b->offset / 2 : yir_alloc_n(a, b->bytes, sizeof(double));
        if (b->kind != YIR_BUF_IN) continue;
        const struct yir_tdesc *d = yir_tdesc(f->types, f->input[b->io].type);
        fill_input(m.buf[i], d, b->bytes / yir_dtype_size(d->dtype), i + seed);
    }
    return m;
}

static double *weight_memory(struct yir_arena *a, const struct yir_func *f, const struct kb_mem *mem)
{
    const struct yir_weight *w = &f->weight[yir_index(mem->ref)];
    void *packed = yir_alloc_n(a, (size_t)mem->elems, yir_dtype_size(mem->dtype));
    double *v = yir_alloc_n(a, (size_t)mem->elems, sizeof *v);
    cg_pack(yir_tdesc(f->types, w->type), w->data, mem->packing, mem->pack_arg, packed);
    for (int64_t k = 0; k < mem->elems; k++) v[k] = yir_dtype_load(mem->dtype, packed, (size_t)k);
    return v;
}

int evalnet_run(struct yir_arena *a, const struct evalnet *m, const struct cg_kernel *k, int batch)
{
    const struct kb *b = k->prog;
    double *mem[KB_MAX_MEM] = {NULL};
    for (int i = 0; i < b->nmem; i++) {
        yir_ref ref = b->mem[i].ref;
        if (b->mem[i].kind == KB_MEM_WEIGHT) mem[i] = weight_memory(a, m->f, &b->mem[i]);
        if (b->mem[i].kind != KB_MEM_VALUE) continue;
        const struct yir_place input = {.buf = yir_index(ref) + 1};
        const struct yir_place *at = yir_kind(ref) == YIR_INP ? &input : &m->f->place[yir_index(ref)];
        mem[i] = m->buf[at->buf - 1] + at->offset / yir_dtype_size(b->mem[i].dtype);
    }
    int bad = 0;
    kb_ref_run(a, b, mem, 0, b->units * batch, &bad);
    return bad;
}
