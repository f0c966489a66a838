#include "fast.h"

bool guard_lanes(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[last].type);
    return t->lanes > 1 && d->rank == 4 && d->dim[1] >= t->lanes / 2 && cg_lanes_ok(f, first, last, 0);
}

size_t list_lanes(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                  size_t most)
{
    double cycles = 16;
    (void)most;
    for (uint32_t i = first; i <= last; i++) {
        if (yir_opinfo((enum yir_code)f->op[i].code)->cls != YIR_WINDOW) continue;
        const struct yir_a_pool *a = yir_attrs(f, i);
        cycles += 4.0 * a->kernel[0] * a->kernel[1];
    }
    return cg_list_one(f, first, last, t, cycles, out);
}

void emit_fast_lanes(struct kb *b, struct cg_kernel *k)
{
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[k->last].type);
    struct cg_cell at = {.k = k};
    cg_split_unit(b, d->dim[2], &at.n, &at.y);
    at.x = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->dim[3]), 1);
    cg_channels(b, 0, d->dim[1], cg_store_cell, &at);
    kb_end(b);
}
