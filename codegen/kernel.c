/* From the kernels that fusion made to programs: choice of family, the generic way, names and costs. */
#include "fast.h"

#include <string.h>

static const struct cg_fast fast_table[] = {
#define FAST(name, backend, knobs, text) {#name, backend, knobs, text, guard_##name, list_##name, emit_fast_##name},
#include "fast.def"
#undef FAST
};

size_t cg_fast_count(void)
{
    return YIR_COUNT(fast_table);
}

const struct cg_fast *cg_fast_at(size_t i)
{
    return i < YIR_COUNT(fast_table) ? &fast_table[i] : NULL;
}

/* --- the generic way: loops over the elements of the stored ops --------------------------------------------- */

/* Dimensions but the batch, outermost in memory first. */
static int loop_order(const struct yir_tdesc *d, int order[YIR_MAX_RANK])
{
    static const int nhwc[] = {2, 3, 1};
    for (int i = 1; i < d->rank; i++) order[i - 1] = d->layout == YIR_NHWC ? nhwc[i - 1] : i;
    return d->rank - 1;
}

/* A unit is one element; neighbours in memory are neighbouring units. */
static void emit_elements(struct kb *b, struct cg_kernel *k, const int *order, int n)
{
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[k->last].type);
    kv ix[YIR_MAX_RANK], u;
    int64_t units = 1;
    for (int i = 0; i < n; i++) units *= d->dim[order[i]];
    cg_split_unit(b, units, &ix[0], &u);
    for (int i = n - 1; i > 0; i--) {
        kv dim = kb_immi(b, d->dim[order[i]]);
        ix[order[i]] = kb_irem(b, u, dim);
        u = kb_idiv(b, u, dim);
    }
    if (n) ix[order[0]] = u;
    cg_store_all(b, k->first, k->last, ix);
}

/* A unit is one index of the outermost dimension; where that has few, a chunk of the next one as well. */
static void emit_generic(struct kb *b, struct cg_kernel *k)
{
    enum { FEW = 8, CHUNK = 512 };
    const struct yir_tdesc *d = yir_tdesc(b->f->types, b->f->op[k->last].type);
    int order[YIR_MAX_RANK] = {0}, n = loop_order(d, order);
    kv ix[YIR_MAX_RANK], u;
    if (n == 0 || b->target->element_units) {
        emit_elements(b, k, order, n);
        return;
    }
    int64_t outer = d->dim[order[0]], next = n > 1 ? d->dim[order[1]] : 1;
    int64_t chunks = outer < FEW ? (next + CHUNK - 1) / CHUNK : 1;
    int64_t chunk = (next + chunks - 1) / chunks;
    cg_split_unit(b, outer * chunks, &ix[0], &u);
    ix[order[0]] = kb_idiv(b, u, kb_immi(b, chunks));
    int loops = 0;
    if (n > 1) {
        kv part = kb_irem(b, u, kb_immi(b, chunks));
        kv lo = kb_muli(b, part, chunk);
        kv end = kb_addi(b, lo, chunk);
        kv hi = kb_imin(b, end, kb_immi(b, next));
        ix[order[1]] = kb_loop(b, lo, hi, 1);
        loops++;
    }
    for (int i = 2; i < n; i++, loops++) ix[order[i]] = kb_loop(b, kb_immi(b, 0), kb_immi(b, d->dim[order[i]]), 1);
    cg_store_all(b, k->first, k->last, ix);
    while (loops--) kb_end(b);
}

/* --- names and costs ---------------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *s, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* "conv2d+silu": the ops in order, without those that only move an index. */
static void put_ops(struct yir_str *s, const struct yir_func *f, const struct cg_kernel *k, char join)
{
    bool first = true;
    for (uint32_t i = k->first; i <= k->last; i++) {
        const struct yir_opinfo *info = yir_opinfo((enum yir_code)f->op[i].code);
        if (i < k->last && (info->traits & YIR_T_FREE)) continue;
        if (!first) yir_str_put(s, &join, 1);
        yir_str_fmt(s, "%s", info->name);
        first = false;
    }
}

/* What a GPU's kernel is beside its program. */
static void put_launch(struct yir_str *s, const struct cg_kernel *k)
{
    const struct cg_launch *l = &k->launch;
    if (!l->threads) return;
    yir_str_fmt(s, "launch %d %d %d %d %d %d %d\n", l->threads, l->per_block, l->shared, l->most_blocks, l->least_blocks, l->resident,
                l->waits);
    if (k->cuda_head) yir_str_fmt(s, "%s", k->cuda_head);
    if (k->cuda) yir_str_fmt(s, "%s", k->cuda);
}

static void set_names(struct yir_arena *a, const struct yir_func *f, struct cg_kernel *k)
{
    struct yir_str text = {.arena = a}, name = {.arena = a}, label = {.arena = a};
    kb_print(&text, k->prog);
    put_launch(&text, k);
    k->text = text.text;
    k->text_len = text.len;
    put_ops(&name, f, k, '_');
    yir_str_fmt(&name, "_%08x", (unsigned)hash_text(text.text, text.len));
    k->symbol = name.text;
    const struct yir_place_of *at = &f->loc[f->op[k->last].loc];
    uint32_t root = cg_only_op(f, k->first, k->last, YIR_conv2d);
    if (root) at = &f->loc[f->op[root].loc];
    if (*at->name) yir_str_fmt(&label, "%s ", at->name);
    put_ops(&label, f, k, '+');
    k->label = label.text;
    k->line = (int32_t)at->loc.line;
}

static double numel_of(const struct yir_tdesc *d)
{
    return (double)yir_numel(d) / (double)d->dim[0];
}

static double op_flops(const struct yir_func *f, uint32_t op)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    double n = numel_of(d);
    switch (yir_opinfo((enum yir_code)f->op[op].code)->cls) {
    case YIR_CONTRACT: {
        const struct yir_tdesc *w = yir_desc(f, yir_src(f, op, 1));
        return 2 * n * (double)(yir_numel(w) / w->dim[0]);
    }
    case YIR_WINDOW: {
        const struct yir_a_pool *a = yir_attrs(f, op);
        return n * a->kernel[0] * a->kernel[1];
    }
    case YIR_EW: return n;
    case YIR_HEAD: return numel_of(yir_desc(f, yir_src(f, op, 0)));
    case YIR_MOVE:
    case YIR_EDGE: return 0;
    }
    return 0;
}

static void set_costs(const struct yir_func *f, struct cg_kernel *k)
{
    for (uint32_t i = k->first; i <= k->last; i++) k->flops += op_flops(f, i);
    for (int m = 0; m < k->prog->nmem; m++) {
        const struct kb_mem *mem = &k->prog->mem[m];
        if (mem->kind == KB_MEM_SCRATCH) {
            k->scratch_bytes = mem->elems * (int64_t)yir_dtype_size(mem->dtype);
            continue;
        }
        const struct yir_tdesc *d = yir_desc(f, mem->ref);
        k->bytes += (mem->kind == KB_MEM_WEIGHT ? (double)mem->elems : numel_of(d)) * yir_dtype_size(d->dtype);
    }
    /* A thread's turn is worth about 200,000 operations. */
    double each = (k->flops + k->bytes) / (double)k->units;
    k->grain = each > 0 && each < 2e5 ? (int32_t)(2e5 / each) : 1;
    if (k->grain < 1) k->grain = 1;
    if (k->grain > k->units) k->grain = (int32_t)k->units;
}

uint32_t cg_same_kernel(const struct cg_program *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (p->kernel[i].text_len == p->kernel[n].text_len && !strcmp(p->kernel[i].symbol, p->kernel[n].symbol) &&
            !memcmp(p->kernel[i].text, p->kernel[n].text, p->kernel[n].text_len))
            return i;
    return n;
}

static void find_ops(const struct yir_func *f, uint32_t kernel, struct cg_kernel *k)
{
    for (uint32_t i = 1; i < f->nop; i++) {
        if (f->op[i].kernel != kernel) continue;
        if (!k->first) k->first = i;
        k->last = i;
    }
    YIR_ASSERT(k->first && (f->op[k->last].flags & YIR_F_STORED));
}

/* What the kernel computes, as the generic way would: equal texts, equal work, whatever family makes it. */
static void set_op_text(struct yir_arena *a, const struct yir_func *f, const struct cg_target *t, const struct cg_kernel *k, struct cg_choice *c)
{
    struct cg_kernel generic = *k;
    struct kb *b = kb_new(a, f, &t->kb, f->op[k->last].kernel);
    struct yir_str text = {.arena = a};
    emit_generic(b, &generic);
    kb_print(&text, b);
    c->op_text = text.text;
    c->op_text_len = text.len;
}

static void list_choice(struct yir_arena *a, const struct yir_func *f, const struct cg_target *t, bool no_fast, const struct cg_kernel *k,
                        struct cg_choice *c)
{
    struct cg_config legal[CG_MAX_CONFIGS];
    c->n = cg_configs(f, k->first, k->last, t, no_fast, legal);
    struct cg_config *kept = yir_alloc_n(a, c->n, sizeof *kept);
    memcpy(kept, legal, c->n * sizeof *kept);
    set_op_text(a, f, t, k, c);
    c->legal = kept;
}

static struct cg_config choose(struct kb *b, struct cg_kernel *k, const struct cg_target *t, const struct cg_opts *o)
{
    struct cg_choice once = {0}, *c = o->choices ? &o->choices->kernel[b->f->op[k->last].kernel - 1] : &once;
    if (!c->legal) list_choice(o->choices ? o->choices->arena : b->arena, b->f, t, o->no_fast, k, c);
    k->op_text = c->op_text;
    k->op_text_len = c->op_text_len;
    size_t chosen = o->choose(o->choose_user, k, c->legal, c->n);
    YIR_ASSERT(chosen < c->n);
    return c->legal[chosen];
}

static struct cg_config predicted_best(struct kb *b, const struct cg_kernel *k, const struct cg_target *t, const struct cg_opts *o)
{
    struct cg_config legal[CG_MAX_CONFIGS];
    (void)cg_configs(b->f, k->first, k->last, t, o->no_fast, legal);
    return legal[0];
}

static void record(struct kb *b, struct cg_kernel *k, const struct cg_target *t, const struct cg_opts *o)
{
    k->config = o->choose ? choose(b, k, t, o) : predicted_best(b, k, t, o);
    if (o->engine) k->engine = o->engine(o->choose_user, k);
    if (k->config.family == CG_GENERIC) {
        k->family = "generic";
        emit_generic(b, k);
        return;
    }
    k->family = fast_table[k->config.family].name;
    fast_table[k->config.family].emit(b, k);
}

struct cg_program *cg_kernels(struct yir_arena *a, const struct yir_func *f, const struct cg_target *t,
                              const struct cg_opts *o)
{
    struct cg_program *p = yir_alloc(a, sizeof *p);
    struct cg_target *planned = yir_alloc(a, sizeof *planned);
    *planned = *t;
    planned->kb.batch = o->max_batch;
    t = planned;
    *p = (struct cg_program){.f = f, .nkernel = f->nkernel, .opts = *o};
    p->kernel = yir_alloc_n(a, f->nkernel + 1u, sizeof *p->kernel);
    for (uint32_t i = 0; i < f->nkernel; i++) {
        struct cg_kernel *k = &p->kernel[i];
        find_ops(f, i + 1, k);
        struct kb *b = kb_new(a, f, &t->kb, i + 1);
        k->prog = b;
        if (t->backend == CG_CUDA)
            k->launch = (struct cg_launch){.threads = CG_BLOCK, .per_block = CG_BLOCK};
        record(b, k, t, o);
        kb_check(b);
        k->units = b->units;
        set_names(a, f, k);
        set_costs(f, k);
        k->same_as = cg_same_kernel(p, i);
    }
    return p;
}
