/* The maximum over a window in two steps: of the window's rows into scratch, then of its columns. Outside the map stands its edge,
 * which is in the window anyway wherever that reaches over. */
#include "fast.h"

enum { MOST_WINDOW = 16 };

struct pool {
    uint32_t op;
    yir_ref x;
    const struct yir_a_pool *a;
    int64_t channels, ih, iw, oh, ow;
};

static struct pool pool_of(const struct yir_func *f, uint32_t op)
{
    struct pool p = {.op = op, .x = yir_src(f, op, 0), .a = yir_attrs(f, op)};
    const struct yir_tdesc *in = yir_desc(f, p.x), *out = yir_tdesc(f->types, f->op[op].type);
    p.channels = in->dim[1];
    p.ih = in->dim[2];
    p.iw = in->dim[3];
    p.oh = out->dim[2];
    p.ow = out->dim[3];
    return p;
}

/* No window lies outside the map altogether. */
static bool meets_map(const struct pool *p)
{
    const struct yir_a_pool *a = p->a;
    return a->pad[0] < a->kernel[0] && a->pad[1] < a->kernel[1] && (p->oh - 1) * a->stride[0] - a->pad[0] < p->ih &&
           (p->ow - 1) * a->stride[1] - a->pad[1] < p->iw;
}

bool guard_pool_max(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t)
{
    uint32_t op = cg_only_op(f, first, last, YIR_maxpool);
    if (t->lanes == 1 || !op || !cg_lanes_ok(f, first, last, op)) return false;
    struct pool p = pool_of(f, op);
    return yir_kind(p.x) == YIR_VAL && cg_in_memory(f, f->op[op].kernel, p.x) && cg_adjacent(f, p.x) &&
           p.channels >= t->lanes / 2 && p.a->kernel[0] <= MOST_WINDOW && p.a->kernel[1] <= MOST_WINDOW && meets_map(&p);
}

size_t list_pool_max(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                     size_t most)
{
    const struct yir_a_pool *a = yir_attrs(f, cg_only_op(f, first, last, YIR_maxpool));
    (void)most;
    return cg_list_one(f, first, last, t, 4 + a->kernel[0] + a->kernel[1], out);
}

/* Largest of the elements c behind each of the addresses. */
struct largest {
    int mem, n;
    kv at[MOST_WINDOW];
};

static kv largest_at(struct kb *b, const struct largest *l, kv c)
{
    kv first = kb_iadd(b, l->at[0], c);
    kv top = kb_load(b, l->mem, first);
    for (int i = 1; i < l->n; i++) {
        kv at = kb_iadd(b, l->at[i], c);
        kv v = kb_load(b, l->mem, at);
        top = kb_fmax(b, top, v);
    }
    return top;
}

struct step {
    struct largest from;
    int scratch;
    kv to;                /* in the scratch */
    struct cg_kernel *k;
    uint32_t op;
    kv n, y, x;
};

static void store_rows(struct kb *b, void *ctx, kv c)
{
    const struct step *s = ctx;
    kv top = largest_at(b, &s->from, c);
    kv to = kb_iadd(b, s->to, c);
    kb_store(b, s->scratch, to, top);
}

static void store_result(struct kb *b, void *ctx, kv c)
{
    const struct step *s = ctx;
    kv top = largest_at(b, &s->from, c);
    cg_bind(b, s->op, top);
    cg_store_all(b, s->k->first, s->k->last, (kv[]){s->n, c, s->y, s->x});
    b->nbound--;
}

/* Index i of a window at output position `out`, held within [0, size). */
static kv held(struct kb *b, const struct yir_a_pool *a, int axis, kv out, int i, int64_t size)
{
    kv start = kb_muli(b, out, a->stride[axis]);
    kv at = kb_addi(b, start, i - a->pad[axis]);
    kv low = kb_imax(b, at, kb_immi(b, 0));
    return kb_imin(b, low, kb_immi(b, size - 1));
}

/* A unit is a row of the result. */
void emit_fast_pool_max(struct kb *b, struct cg_kernel *k)
{
    struct pool p = pool_of(b->f, cg_only_op(b->f, k->first, k->last, YIR_maxpool));
    struct step s = {.k = k, .op = p.op};
    kv zero = kb_immi(b, 0), row[MOST_WINDOW];
    cg_split_unit(b, p.oh, &s.n, &s.y);
    s.scratch = kb_mem_scratch(b, p.iw * p.channels);
    s.from = (struct largest){.mem = kb_mem_value(b, p.x), .n = p.a->kernel[0]};
    for (int i = 0; i < p.a->kernel[0]; i++) {
        kv y = held(b, p.a, 0, s.y, i, p.ih);
        row[i] = kb_address(b, p.x, (kv[]){s.n, zero, y, zero});
    }
    kv column = kb_loop(b, kb_immi(b, 0), kb_immi(b, p.iw), 1);
    kv shift = kb_muli(b, column, b->f->place[yir_index(p.x)].stride[3]);
    for (int i = 0; i < p.a->kernel[0]; i++) s.from.at[i] = kb_iadd(b, row[i], shift);
    s.to = kb_muli(b, column, p.channels);
    cg_channels(b, 0, p.channels, store_rows, &s);
    kb_end(b);

    s.from.mem = s.scratch;
    s.from.n = p.a->kernel[1];
    s.x = kb_loop(b, kb_immi(b, 0), kb_immi(b, p.ow), 1);
    for (int i = 0; i < p.a->kernel[1]; i++) {
        kv x = held(b, p.a, 1, s.x, i, p.iw);
        s.from.at[i] = kb_muli(b, x, p.channels);
    }
    cg_channels(b, 0, p.channels, store_result, &s);
    kb_end(b);
}
