/* Groups ops into kernels and decides which concats, slices and choices are views. A kernel is one stored
 * value and the ops computed in place on the way to it; the cost rules stand here and nowhere else:
 *
 *   - A slice along any axis but the batch is a view of its operand, an `either` a view of both of its
 *     operands.
 *   - A concat is a view: its operands are written side by side. An operand that can't live there (input,
 *     weight, output, slice, in another concat already) is copied. But a concat of few operands that a
 *     convolution or a point-wise op alone reads is instead computed where it is read when an operand would
 *     be copied, or does nothing but move elements itself (upsample, flatten): the reader then chooses the
 *     source by index, which is less traffic.
 *   - A point-wise op is the epilogue of what makes its operand, when nothing else reads that. It is never
 *     computed inside a window or a head, where each element would be computed several times.
 *   - A cast to another element type is such a point-wise op when it makes elements smaller, or what it makes is read twice or by
 *     another point-wise op; else it only moves elements.
 *   - An op that only moves elements is the prologue of its only reader, but for attention, which reads each element many times; so is the picture, of a convolution. A flatten, which reads each element
 *     once, takes in point-wise ops without a main loop too.
 *   - A kernel has one main loop at most (convolution, pool, head), so no convolution is computed inside
 *     another.
 *
 * Needs the layout pass's promise that outputs are values of their own. Views get VIEW and no kernel, a
 * kernel's last op gets STORED; the ops of a kernel become neighbours, at the place of the last, so the
 * order stays topological. */
#include "walk.h"

enum {
    MAX_OPS = 32,   /* of a kernel; emitters recurse this deep at most */
    MAX_MEMS = 32,  /* operands of a kernel in memory */
    MAX_CHOICES = 8 /* operands of a concat that is computed where it is read */
};

struct size { /* of an op with all that is computed in place for it */
    int ops, mems, loops;
    bool worked; /* some of it does more than to move elements */
};

struct fuse {
    struct rebuild r;
    const struct yir_func *f; /* old */
    struct yir_arena *arena;
    bool enabled;
    uint32_t *uses, *reader; /* of each value: readers, and the last op among them */
    bool *out;               /* is an output */
    bool *view;
    bool *homed;      /* lives in a view */
    bool *private;    /* nothing but the view reads what is homed in it, at any depth */
    uint64_t *copied; /* view: bit k: operand k is copied into it */
    bool *inlined;
    struct size *size;
};

static enum yir_opclass class_of(const struct fuse *u, uint32_t op)
{
    return yir_opinfo((enum yir_code)u->f->op[op].code)->cls;
}

static void count_readers(struct fuse *u)
{
    const struct yir_func *f = u->f;
    u->uses = yir_uses(f, u->arena);
    for (uint32_t i = 1; i < f->nop; i++)
        for (int k = 0; k < f->op[i].nsrc; k++)
            if (yir_kind(yir_src(f, i, k)) == YIR_VAL) u->reader[yir_index(yir_src(f, i, k))] = i;
    for (uint32_t i = 0; i < f->noutput; i++)
        if (yir_kind(f->output[i].ref) == YIR_VAL) u->out[yir_index(f->output[i].ref)] = true;
}

/* --- views ---------------------------------------------------------------------------------------------- */

/* Whether an operand can live in the view `op`. In memory that is not always there (an output nobody asked
 * for) or that others write too (either), only what the view alone reads can. */
static bool can_home(const struct fuse *u, uint32_t op, yir_ref x)
{
    uint32_t v = yir_index(x);
    if (yir_kind(x) != YIR_VAL || u->out[v] || u->homed[v] || (u->view[v] && u->f->op[v].code == YIR_slice))
        return false;
    if (!u->out[op] && u->f->op[op].code != YIR_either) return true;
    return u->uses[v] == 1 && u->private[v];
}

static void make_view(struct fuse *u, uint32_t op)
{
    u->view[op] = true;
    for (int k = 0; k < u->f->op[op].nsrc; k++) {
        yir_ref x = yir_src(u->f, op, k);
        if (!can_home(u, op, x)) {
            u->copied[op] |= UINT64_C(1) << k;
            continue;
        }
        u->homed[yir_index(x)] = true;
        if (u->uses[yir_index(x)] > 1 || !u->private[yir_index(x)]) u->private[op] = false;
    }
}

/* The concat is cheaper computed where it is read. */
static bool read_by_choice(const struct fuse *u, uint32_t op)
{
    uint32_t r = u->reader[op];
    if (!u->enabled || u->uses[op] != 1 || u->out[op] || u->f->op[op].nsrc > MAX_CHOICES) return false;
    if (class_of(u, r) != YIR_CONTRACT && class_of(u, r) != YIR_EW) return false;
    for (int k = 0; k < u->f->op[op].nsrc; k++) {
        yir_ref x = yir_src(u->f, op, k);
        if (!can_home(u, op, x)) return true;
        if (class_of(u, yir_index(x)) == YIR_MOVE && !u->view[yir_index(x)] && u->uses[yir_index(x)] == 1)
            return true;
    }
    return false;
}

static void choose_view(struct fuse *u, uint32_t op)
{
    switch (u->f->op[op].code) {
    case YIR_slice: u->view[op] = !u->out[op] && yir_kind(yir_src(u->f, op, 0)) != YIR_WGT; break;
    case YIR_either: make_view(u, op); break;
    case YIR_concat:
        if (!read_by_choice(u, op)) make_view(u, op);
        break;
    default: break;
    }
}

/* --- kernels -------------------------------------------------------------------------------------------- */

static bool pointwise(const struct fuse *u, uint32_t op)
{
    if (u->f->op[op].code != YIR_cast) return class_of(u, op) == YIR_EW;
    const struct yir_tdesc *from = yir_desc(u->f, yir_src(u->f, op, 0)), *to = yir_tdesc(u->f->types, u->f->op[op].type);
    if (from->layout != to->layout || from->dtype == to->dtype) return false;
    return yir_dtype_size(to->dtype) < yir_dtype_size(from->dtype) || u->uses[op] != 1 || class_of(u, u->reader[op]) == YIR_EW;
}

/* The value may be computed inside its only reader, as far as their classes go. */
static bool may_inline(const struct fuse *u, uint32_t op, uint32_t reader)
{
    if (!u->enabled || u->uses[op] != 1 || u->out[op] || u->view[op] || u->view[reader]) return false;
    bool worked = u->f->op[op].code == YIR_cast && u->size[op].worked;
    switch (worked ? YIR_EW : class_of(u, op)) {
    case YIR_MOVE:
        if (u->f->op[reader].code == YIR_attention) return false;
        return class_of(u, reader) != YIR_CONTRACT ||
               yir_same(yir_src(u->f, reader, 0), yir_mkref(YIR_VAL, op));
    case YIR_EDGE: return u->f->op[op].code == YIR_image && class_of(u, reader) == YIR_CONTRACT;
    default:
        return pointwise(u, reader) ||
               (u->f->op[reader].code == YIR_flatten && class_of(u, op) == YIR_EW && !u->size[op].loops);
    }
}

static bool fits(const struct size *a, const struct size *b)
{
    return a->ops + b->ops <= MAX_OPS && a->mems + b->mems <= MAX_MEMS && a->loops + b->loops <= 1;
}

/* Takes operands in while they fit: those with a main loop first, the latest of them before others. */
static void take_operands(struct fuse *u, uint32_t op)
{
    const struct yir_op *o = &u->f->op[op];
    struct size *s = &u->size[op];
    enum yir_opclass cls = class_of(u, op);
    *s = (struct size){1, o->nsrc, cls == YIR_CONTRACT || cls == YIR_WINDOW || cls == YIR_HEAD, cls != YIR_MOVE && cls != YIR_EDGE};
    for (;;) {
        uint32_t best = 0;
        for (int k = 0; k < o->nsrc; k++) {
            yir_ref x = yir_src(u->f, op, k);
            uint32_t v = yir_index(x);
            if (yir_kind(x) != YIR_VAL || u->inlined[v] || !may_inline(u, v, op) || !fits(s, &u->size[v]))
                continue;
            if (!best || u->size[v].loops > u->size[best].loops ||
                (u->size[v].loops == u->size[best].loops && v > best))
                best = v;
        }
        if (!best) return;
        u->inlined[best] = true;
        s->ops += u->size[best].ops;
        s->mems += u->size[best].mems - 1;
        s->loops += u->size[best].loops;
        s->worked |= u->size[best].worked;
    }
}

/* --- the new function ----------------------------------------------------------------------------------- */

static uint32_t add_kernel(struct yir_func *f)
{
    f->kernel = yir_grow(f->arena, f->kernel, &f->cap_kernel, f->nkernel + 1u, sizeof *f->kernel);
    f->kernel[f->nkernel] = (struct yir_kernel){"", ""};
    return ++f->nkernel;
}

static yir_ref emit_copy(struct fuse *u, yir_ref x)
{
    struct yir_func *f = u->r.f;
    const struct yir_tdesc *d = yir_desc(f, x);
    const struct yir_a_cast a = {(int32_t)d->dtype, (int32_t)d->layout};
    yir_ref copy = yir_emit(f, YIR_cast, &x, 1, &a);
    yir_opof(f, copy)->kernel = add_kernel(f);
    yir_opof(f, copy)->flags = YIR_F_STORED;
    return copy;
}

static void emit_view(struct fuse *u, uint32_t op)
{
    const struct yir_op *o = &u->f->op[op];
    yir_ref src[64];
    u->r.f->cur_loc = o->loc;
    for (int k = 0; k < o->nsrc; k++) {
        src[k] = pass_rebuild_src(&u->r, op, k);
        if (u->copied[op] >> k & 1) src[k] = emit_copy(u, src[k]);
    }
    yir_ref x = pass_rebuild_emit(&u->r, op, (enum yir_code)o->code, src, o->nsrc, yir_attrs(u->f, op));
    yir_opof(u->r.f, x)->flags = YIR_F_VIEW;
}

/* next: the ops of a kernel as a list, in order, its last op last. */
static void emit_kernel(struct fuse *u, uint32_t first, const uint32_t *next)
{
    uint32_t kernel = add_kernel(u->r.f);
    for (uint32_t i = first; i; i = next[i]) {
        yir_ref x = pass_rebuild_copy(&u->r, i);
        yir_opof(u->r.f, x)->kernel = kernel;
        yir_opof(u->r.f, x)->flags = next[i] ? 0 : YIR_F_STORED;
    }
}

static void emit_all(struct fuse *u)
{
    uint32_t n = u->f->nop;
    uint32_t *last = yir_alloc_n(u->arena, n, sizeof *last); /* op -> the last op of its kernel */
    uint32_t *first = yir_alloc_n(u->arena, n, sizeof *first), *next = yir_alloc_n(u->arena, n, sizeof *next);
    for (uint32_t i = n - 1; i > 0; i--) {
        last[i] = u->inlined[i] ? last[u->reader[i]] : i;
        next[i] = first[last[i]];
        first[last[i]] = i;
    }
    for (uint32_t i = 1; i < n; i++) {
        if (u->inlined[i]) continue;
        if (u->view[i]) emit_view(u, i);
        else emit_kernel(u, first[i], next);
    }
}

/* Values that text gives out may be read elsewhere too, or twice. */
static int check_outputs(const struct fuse *u, struct pass *p)
{
    for (uint32_t i = 0; i < u->f->noutput; i++) {
        yir_ref x = u->f->output[i].ref;
        if (yir_kind(x) != YIR_VAL || u->uses[yir_index(x)] != 1)
            return yir_diag(p->diags, (struct yir_loc){0}, E_PASS,
                            "fuse can't run here: the output %s is no value of its own, as layout makes it",
                            u->f->output[i].name);
    }
    return 0;
}

int pass_fuse(struct pass *p)
{
    struct fuse u = {.f = p->in, .arena = p->arena, .enabled = p->opts->fuse};
    size_t n = p->in->nop;
    u.reader = yir_alloc_n(p->arena, n, sizeof *u.reader);
    u.out = yir_alloc_n(p->arena, n, sizeof *u.out);
    u.view = yir_alloc_n(p->arena, n, sizeof *u.view);
    u.homed = yir_alloc_n(p->arena, n, sizeof *u.homed);
    u.private = yir_alloc_n(p->arena, n, sizeof *u.private);
    u.copied = yir_alloc_n(p->arena, n, sizeof *u.copied);
    u.inlined = yir_alloc_n(p->arena, n, sizeof *u.inlined);
    u.size = yir_alloc_n(p->arena, n, sizeof *u.size);
    count_readers(&u);
    if (check_outputs(&u, p)) return -1;
    for (uint32_t i = 1; i < n; i++) u.private[i] = true;
    for (uint32_t i = 1; i < n; i++) choose_view(&u, i);
    for (uint32_t i = 1; i < n; i++)
        if (!u.view[i]) take_operands(&u, i);
    pass_rebuild_begin(&u.r, p);
    emit_all(&u);
    return pass_rebuild_end(&u.r, p);
}
