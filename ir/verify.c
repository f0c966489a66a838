/* Rules that every function keeps, and those of the stages it has reached. Each check reports all that it finds; a later
 * one runs only when the earlier ones found nothing, so that it may rely on them. Memory made here stays in the
 * function's arena (a reset would take the diagnostics along). */
#include "ir.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPORTS = 20 };

struct check {
    struct yir_func *f; /* not changed; yir_infer interns types */
    int bad;
};

static struct yir_loc loc_of(const struct yir_func *f, uint32_t op)
{
    uint32_t l = op < f->nop ? f->op[op].loc : 0;
    return f->loc[l < f->nloc ? l : 0].loc;
}

/* A broken rule, at an op (0: the function). */
#define BROKEN(c, op, ...)                                                                                     \
    ((c)->bad++, (void)yir_diag((c)->f->diags, loc_of((c)->f, op), E_IR_VERIFY, __VA_ARGS__))

/* --- structure and types ------------------------------------------------------------------------------------ */

static bool valid_ref(const struct yir_func *f, yir_ref r, uint32_t before)
{
    uint32_t i = yir_index(r);
    switch (yir_kind(r)) {
    case YIR_VAL: return i && i < before;
    case YIR_WGT: return i < f->nweight;
    case YIR_INP: return i < f->ninput;
    default: return false;
    }
}

static bool check_operands(struct check *c, uint32_t op)
{
    const struct yir_op *o = &c->f->op[op];
    const struct yir_opinfo *info = yir_opinfo((enum yir_code)o->code);
    if (o->nsrc < info->lo || o->nsrc > info->hi || o->src > c->f->nref || o->nsrc > c->f->nref - o->src) {
        BROKEN(c, op, "%%%u: %s has %u operands", op, info->name, o->nsrc);
        return false;
    }
    if (o->attr > c->f->nword || (uint32_t)info->nwords > c->f->nword - o->attr) {
        BROKEN(c, op, "%%%u: its attributes lie outside the function", op);
        return false;
    }
    for (int k = 0; k < o->nsrc; k++) {
        if (valid_ref(c->f, yir_src(c->f, op, k), op)) continue;
        BROKEN(c, op, "%%%u: operand %d is nothing that stands before it", op, k);
        return false;
    }
    return true;
}

static bool check_attrs(struct check *c, uint32_t op)
{
    const struct yir_opinfo *info = yir_opinfo((enum yir_code)c->f->op[op].code);
    for (int i = 0; i < info->nattr; i++)
        for (int k = 0; k < info->attr[i].n; k++) {
            float v;
            memcpy(&v, &c->f->word[c->f->op[op].attr + info->attr[i].at + (uint32_t)k], sizeof v);
            if (info->attr[i].kind != 'f' || !isnan(v)) continue;
            BROKEN(c, op, "%%%u: the attribute %s is not a number", op, info->attr[i].name);
            return false;
        }
    return true;
}

static void check_type(struct check *c, uint32_t op)
{
    const struct yir_op *o = &c->f->op[op];
    yir_type ty =
        yir_infer(c->f, (enum yir_code)o->code, &c->f->ref[o->src], o->nsrc, yir_attrs(c->f, op), false);
    if (ty.id && ty.id == o->type.id) return;
    if (!ty.id) {
        BROKEN(c, op, "%%%u: the operands of %s do not fit together", op,
               yir_opinfo((enum yir_code)o->code)->name);
        return;
    }
    struct yir_str s = {.arena = c->f->arena};
    yir_print_type(&s, yir_tdesc(c->f->types, ty));
    BROKEN(c, op, "%%%u: its type is not %s, which its operands give", op, s.text);
}

/* Stored or inline inside a kernel; a view or nothing outside. */
static void check_flags(struct check *c, uint32_t op)
{
    const struct yir_op *o = &c->f->op[op];
    bool stored = o->flags & YIR_F_STORED, view = o->flags & YIR_F_VIEW;
    if (o->flags & ~(unsigned)(YIR_F_STORED | YIR_F_VIEW) || (stored && view) || o->kernel > c->f->nkernel)
        BROKEN(c, op, "%%%u: flags %u and kernel %u are not possible", op, o->flags, o->kernel);
    else if (view && o->kernel)
        BROKEN(c, op, "%%%u: a view, but in kernel k%u", op, o->kernel);
    else if (view && !(yir_opinfo((enum yir_code)o->code)->traits & YIR_T_VIEW))
        BROKEN(c, op, "%%%u: %s can't be a view", op, yir_opinfo((enum yir_code)o->code)->name);
    else if (stored && !o->kernel)
        BROKEN(c, op, "%%%u: stored, but in no kernel", op);
}

static void check_op(struct check *c, uint32_t op)
{
    const struct yir_op *o = &c->f->op[op];
    if (o->code <= YIR_NOP || o->code >= YIR_NCODE || o->loc >= c->f->nloc) {
        BROKEN(c, op, "%%%u: code %u or place %u does not exist", op, o->code, o->loc);
        return;
    }
    if (!check_operands(c, op) || !check_attrs(c, op)) return;
    /* The type of an op that was found broken says nothing about its readers. */
    if (!c->bad) check_type(c, op);
    check_flags(c, op);
}

static void check_name(struct check *c, const char *what, const char *name, bool taken)
{
    size_t n = 0, digits = 0;
    for (; name[n] && yir_is_name_char(name[n]); n++) digits += name[n] >= '0' && name[n] <= '9';
    if (!n || name[n] || (n == digits && what[0] == 'i'))
        BROKEN(c, 0, "%s '%s': the name can't be written", what, name);
    else if (taken)
        BROKEN(c, 0, "%s '%s' stands twice", what, name);
}

static void check_names(struct check *c)
{
    const struct yir_func *f = c->f;
    for (uint32_t i = 0; i < f->nweight; i++)
        check_name(c, "weight", f->weight[i].name, yir_index(yir_find_weight(f, f->weight[i].name)) != i);
    for (uint32_t i = 0; i < f->ninput; i++) {
        bool taken = false;
        for (uint32_t k = 0; k < i; k++) taken = taken || !strcmp(f->input[k].name, f->input[i].name);
        check_name(c, "input", f->input[i].name, taken);
    }
    for (uint32_t i = 0; i < f->noutput; i++) {
        bool taken = false;
        for (uint32_t k = 0; k < i; k++) taken = taken || !strcmp(f->output[k].name, f->output[i].name);
        check_name(c, "output", f->output[i].name, taken);
    }
}

static void check_structure(struct check *c)
{
    const struct yir_func *f = c->f;
    check_names(c);
    for (uint32_t i = 1; i < f->nop && c->bad < MAX_REPORTS; i++) check_op(c, i);
    for (uint32_t i = 0; i < f->noutput; i++)
        if (!valid_ref(f, f->output[i].ref, f->nop)) BROKEN(c, 0, "output %s is nothing", f->output[i].name);
    if ((f->place != NULL) != (f->nbuf > 0))
        BROKEN(c, 0, "values have places without buffers, or the other way round");
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        uint32_t n = b->kind == YIR_BUF_IN ? f->ninput : f->noutput;
        if (b->kind > YIR_BUF_OUT || (b->kind != YIR_BUF_ARENA && b->io >= n))
            BROKEN(c, 0, "b%u is of no input or output", i);
    }
    for (uint32_t i = 1; f->place && i < f->nop; i++)
        if (f->place[i].buf > f->nbuf) BROKEN(c, i, "%%%u: its buffer does not exist", i);
}

/* --- layout ------------------------------------------------------------------------------------------------- */

static bool is_nchw(const struct yir_tdesc *d)
{
    return d->rank == 4 && d->layout == YIR_NCHW;
}

/* Only casts and the picture read NCHW, and only from outside; only casts make it, and only for outputs. */
static void check_layout(struct check *c)
{
    const struct yir_func *f = c->f;
    for (uint32_t i = 1; i < f->nop; i++) {
        enum yir_code code = (enum yir_code)f->op[i].code;
        if (code != YIR_cast && is_nchw(yir_tdesc(f->types, f->op[i].type)))
            BROKEN(c, i, "%%%u: %s makes nchw inside the network", i, yir_opinfo(code)->name);
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            bool edge = yir_kind(r) != YIR_VAL && (code == YIR_cast || code == YIR_image);
            if (!edge && is_nchw(yir_desc(f, r)))
                BROKEN(c, i, "%%%u: %s reads nchw inside the network", i, yir_opinfo(code)->name);
        }
    }
}

static void check_nobn(struct check *c)
{
    for (uint32_t i = 1; i < c->f->nop; i++)
        if (c->f->op[i].code == YIR_batchnorm) BROKEN(c, i, "%%%u: batchnorm is left", i);
}

/* --- kernels ------------------------------------------------------------------------------------------------ */

/* Whose kernels write the memory that a value is read from: 0 for inputs and weights, which none does. For a view the
 * last of those behind it. */
static uint32_t *writers(const struct yir_func *f)
{
    uint32_t *w = yir_alloc_n(f->arena, f->nop, sizeof *w);
    for (uint32_t i = 1; i < f->nop; i++) {
        w[i] = f->op[i].kernel;
        for (int k = 0; f->op[i].flags & YIR_F_VIEW && k < f->op[i].nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            if (yir_kind(r) == YIR_VAL && w[yir_index(r)] > w[i]) w[i] = w[yir_index(r)];
        }
    }
    return w;
}

/* Kernels stand in order, each in one piece but for views. */
static void check_order(struct check *c)
{
    const struct yir_func *f = c->f;
    uint32_t now = 0;
    for (uint32_t i = 1; i < f->nop; i++) {
        const struct yir_op *o = &f->op[i];
        if (!o->kernel && !(o->flags & YIR_F_VIEW)) BROKEN(c, i, "%%%u: neither in a kernel nor a view", i);
        if (!o->kernel || o->kernel == now) continue;
        if (o->kernel != now + 1) BROKEN(c, i, "%%%u: kernel k%u stands after k%u", i, o->kernel, now);
        now = o->kernel;
    }
    if (now != f->nkernel) BROKEN(c, 0, "kernel k%u has no ops", f->nkernel);
}

static void check_reads(struct check *c, uint32_t op, const uint32_t *writer, bool *outside, bool *read)
{
    const struct yir_func *f = c->f;
    const struct yir_op *o = &f->op[op];
    for (int k = 0; k < o->nsrc; k++) {
        yir_ref r = yir_src(f, op, k);
        if (yir_kind(r) != YIR_VAL) continue;
        uint32_t i = yir_index(r);
        read[i] = true;
        bool in_memory = f->op[i].flags & (YIR_F_STORED | YIR_F_VIEW);
        if (o->kernel && in_memory && writer[i] == o->kernel)
            BROKEN(c, op, "%%%u: reads %%%u, which its own kernel writes", op, i);
        if (!o->kernel || f->op[i].kernel != o->kernel) outside[i] = true;
    }
}

/* Stored values are those read outside their kernel. One that nobody reads may be stored too, or nothing of its kernel
 * would be. */
static void check_stored(struct check *c)
{
    const struct yir_func *f = c->f;
    bool *outside = yir_alloc_n(f->arena, f->nop, sizeof *outside);
    bool *read = yir_alloc_n(f->arena, f->nop, sizeof *read);
    bool *stores = yir_alloc_n(f->arena, (size_t)f->nkernel + 1, sizeof *stores);
    const uint32_t *writer = writers(f);
    for (uint32_t i = 1; i < f->nop; i++) check_reads(c, i, writer, outside, read);
    for (uint32_t i = 0; i < f->noutput; i++)
        if (yir_kind(f->output[i].ref) == YIR_VAL) outside[yir_index(f->output[i].ref)] = true;
    for (uint32_t i = 1; i < f->nop; i++) {
        const struct yir_op *o = &f->op[i];
        bool stored = o->flags & YIR_F_STORED;
        stores[o->kernel] = stores[o->kernel] || stored;
        if (o->flags & YIR_F_VIEW) continue;
        if (outside[i] && !stored) BROKEN(c, i, "%%%u: read outside kernel k%u, but not stored", i, o->kernel);
        if (stored && !outside[i] && read[i])
            BROKEN(c, i, "%%%u: stored, but read in kernel k%u alone", i, o->kernel);
    }
    for (uint32_t k = 1; k <= f->nkernel; k++)
        if (!stores[k]) BROKEN(c, 0, "kernel k%u stores nothing", k);
}

static uint32_t root_of(uint32_t *up, uint32_t i)
{
    while (up[i] != i) i = up[i] = up[up[i]];
    return i;
}

static void check_connected(struct check *c)
{
    const struct yir_func *f = c->f;
    uint32_t *up = yir_alloc_n(f->arena, f->nop, sizeof *up);
    uint32_t *first = yir_alloc_n(f->arena, (size_t)f->nkernel + 1, sizeof *first);
    for (uint32_t i = 1; i < f->nop; i++) {
        up[i] = i;
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            if (f->op[i].kernel && yir_kind(r) == YIR_VAL && yir_opof(f, r)->kernel == f->op[i].kernel)
                up[root_of(up, yir_index(r))] = i;
        }
    }
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t k = f->op[i].kernel;
        if (!k) continue;
        if (!first[k]) first[k] = i;
        if (root_of(up, i) != root_of(up, first[k]))
            BROKEN(c, i, "%%%u: not connected with the rest of kernel k%u", i, k);
    }
}

static void check_kernels(struct check *c)
{
    check_order(c);
    if (c->bad) return;
    check_stored(c);
    check_connected(c);
}

/* --- places ------------------------------------------------------------------------------------------------- */

/* Bytes from the buffer's start to the end of the value's last element; false on overflow. */
static bool extent(const struct yir_tdesc *d, const struct yir_place *p, uint64_t *out)
{
    uint64_t size = yir_dtype_size(d->dtype), elems = 1, step;
    for (int i = 0; i < d->rank; i++) {
        if (p->stride[i] < 0 || !yir_mul_u64((uint64_t)p->stride[i], (uint64_t)d->dim[i] - 1, &step) ||
            !yir_add_u64(elems, step, &elems))
            return false;
    }
    return yir_mul_u64(elems, size, &elems) && yir_add_u64(elems, p->offset, out);
}

/* Different indexes, different addresses: each stride steps over all that the smaller ones reach. */
static bool distinct(const struct yir_tdesc *d, const int64_t *stride)
{
    int64_t reach = 0;
    bool done[YIR_MAX_RANK] = {false};
    for (int n = 0; n < d->rank; n++) {
        int least = -1;
        for (int i = 0; i < d->rank; i++)
            if (!done[i] && (least < 0 || stride[i] < stride[least])) least = i;
        done[least] = true;
        if (d->dim[least] == 1) continue;
        if (stride[least] <= reach) return false;
        reach += stride[least] * (d->dim[least] - 1); /* within the buffer, as extent() found */
    }
    return true;
}

static void check_place(struct check *c, uint32_t op)
{
    const struct yir_func *f = c->f;
    const struct yir_place *p = &f->place[op];
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    bool in_memory = f->op[op].flags & (YIR_F_STORED | YIR_F_VIEW);
    uint64_t end;
    if (in_memory != (p->buf != 0))
        BROKEN(c, op, "%%%u: %s", op, in_memory ? "in memory, but without a place" : "inline, but has a place");
    else if (!in_memory)
        return;
    else if (!extent(d, p, &end) || end > f->buf[p->buf - 1].bytes)
        BROKEN(c, op, "%%%u: reaches out of its buffer b%u", op, p->buf - 1);
    else if (p->offset % yir_dtype_size(d->dtype))
        BROKEN(c, op, "%%%u: its place is not aligned to its elements", op);
    else if (!distinct(d, p->stride))
        BROKEN(c, op, "%%%u: its strides let elements coincide", op);
    else if (f->op[op].flags & YIR_F_STORED && f->buf[p->buf - 1].kind == YIR_BUF_IN)
        BROKEN(c, op, "%%%u: stored in an input", op);
}

/* Place of an operand of a view; inputs are dense from the start of their buffer. */
static struct yir_place place_of(const struct yir_func *f, yir_ref r)
{
    struct yir_place p = {0};
    if (yir_kind(r) == YIR_VAL) return f->place[yir_index(r)];
    yir_dense_strides(yir_desc(f, r), p.stride);
    for (uint32_t i = 0; i < f->nbuf; i++)
        if (yir_kind(r) == YIR_INP && f->buf[i].kind == YIR_BUF_IN && f->buf[i].io == yir_index(r))
            p.buf = i + 1;
    return p;
}

/* b lies `shift` elements along axis into a. */
static bool lies_at(const struct yir_tdesc *d, const struct yir_place *a, const struct yir_place *b, int axis,
                    int64_t shift)
{
    uint64_t bytes = (uint64_t)shift * yir_dtype_size(d->dtype) * (uint64_t)a->stride[axis];
    return a->buf && a->buf == b->buf && a->offset + bytes == b->offset &&
           !memcmp(a->stride, b->stride, (size_t)d->rank * sizeof a->stride[0]);
}

/* A view's place follows from its operands': a part of theirs (slice), or they are parts of it (concat, either). */
static void check_view(struct check *c, uint32_t op)
{
    const struct yir_func *f = c->f;
    const struct yir_op *o = &f->op[op];
    const struct yir_tdesc *d = yir_tdesc(f->types, o->type);
    int axis = o->code == YIR_concat ? ((const struct yir_a_axis *)yir_attrs(f, op))->axis : 0;
    int64_t shift = 0;
    for (int k = 0; k < o->nsrc; k++) {
        struct yir_place src = place_of(f, yir_src(f, op, k));
        const struct yir_a_slice *s = yir_attrs(f, op);
        bool fits = o->code == YIR_slice ? lies_at(d, &src, &f->place[op], s->axis, s->start)
                                         : lies_at(d, &f->place[op], &src, axis, shift);
        if (!fits) BROKEN(c, op, "%%%u: the places of the view and of operand %d do not match", op, k);
        if (o->code == YIR_concat) shift += yir_desc(f, yir_src(f, op, k))->dim[axis];
    }
}

static void check_outputs(struct check *c)
{
    const struct yir_func *f = c->f;
    for (uint32_t i = 0; i < f->noutput; i++) {
        yir_ref r = f->output[i].ref;
        struct yir_place p = yir_kind(r) == YIR_VAL ? f->place[yir_index(r)] : (struct yir_place){0};
        int64_t dense[YIR_MAX_RANK];
        const struct yir_tdesc *d = yir_desc(f, r);
        yir_dense_strides(d, dense);
        if (!p.buf || f->buf[p.buf - 1].kind != YIR_BUF_OUT || f->buf[p.buf - 1].io != i)
            BROKEN(c, yir_kind(r) == YIR_VAL ? yir_index(r) : 0, "output %s does not live in its own buffer",
                   f->output[i].name);
        else if (p.offset || memcmp(p.stride, dense, (size_t)d->rank * sizeof dense[0]))
            BROKEN(c, yir_index(r), "output %s is not dense from the start of its buffer", f->output[i].name);
    }
}

struct life {             /* of an arena buffer */
    uint64_t begin, end;  /* bytes in the arena */
    uint32_t first, last; /* ops whose kernels touch it */
    uint32_t low, high;   /* the same, widened to whole kernels: these run as one */
    uint32_t buf;
};

static void touch(struct life *l, uint32_t op, uint32_t low, uint32_t high)
{
    bool new = !l->last;
    if (new || op < l->first) l->first = op;
    if (new || low < l->low) l->low = low;
    if (op > l->last) l->last = op;
    if (high > l->high) l->high = high;
}

/* First and last op of each op's kernel; a view is by itself. */
static void kernel_spans(const struct yir_func *f, uint32_t *low, uint32_t *high)
{
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t k = f->op[i].kernel;
        if (k && !low[k]) low[k] = i;
        if (k) high[k] = i;
    }
}

static struct life *lives(const struct yir_func *f)
{
    struct life *life = yir_alloc_n(f->arena, f->nbuf, sizeof *life);
    uint32_t *low = yir_alloc_n(f->arena, (size_t)f->nkernel + 1, sizeof *low);
    uint32_t *high = yir_alloc_n(f->arena, (size_t)f->nkernel + 1, sizeof *high);
    kernel_spans(f, low, high);
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t k = f->op[i].kernel;
        if (!k) continue;
        if (f->place[i].buf) touch(&life[f->place[i].buf - 1], i, low[k], high[k]);
        for (int s = 0; s < f->op[i].nsrc; s++) {
            yir_ref r = yir_src(f, i, s);
            uint32_t buf = yir_kind(r) == YIR_VAL ? f->place[yir_index(r)].buf : 0;
            if (buf) touch(&life[buf - 1], i, low[k], high[k]);
        }
    }
    return life;
}

static int by_begin(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->buf < y->buf ? -1 : x->buf > y->buf;
}

static void check_arena(struct check *c)
{
    const struct yir_func *f = c->f;
    struct life *life = lives(f);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        if (b->kind != YIR_BUF_ARENA || !life[i].last) continue;
        struct life l = life[i];
        l.buf = i;
        l.begin = b->offset;
        if (!yir_add_u64(b->offset, b->bytes, &l.end) || l.end > f->arena_size || b->offset % YIR_BUF_ALIGN)
            BROKEN(c, l.first, "b%u does not lie in the arena, or is not aligned to %d", i, YIR_BUF_ALIGN);
        else if (b->first > l.first || b->last < l.last)
            BROKEN(c, l.first, "b%u is used from op %u to %u, beyond its life", i, l.first, l.last);
        else
            life[n++] = l;
    }
    qsort(life, n, sizeof *life, by_begin);
    for (uint32_t i = 0; i < n && c->bad < MAX_REPORTS; i++)
        for (uint32_t k = i + 1; k < n && life[k].begin < life[i].end; k++)
            if (life[i].low <= life[k].high && life[k].low <= life[i].high)
                BROKEN(c, life[i].first, "b%u and b%u overlap while both are live", life[i].buf, life[k].buf);
}

/* Values of one buffer are parts of one another by views: no two that have nothing to do with each other share it. */
static void check_homes(struct check *c)
{
    const struct yir_func *f = c->f;
    uint32_t *up = yir_alloc_n(f->arena, f->nop, sizeof *up);
    uint32_t *first = yir_alloc_n(f->arena, f->nbuf, sizeof *first);
    for (uint32_t i = 1; i < f->nop; i++) {
        up[i] = i;
        for (int k = 0; f->op[i].flags & YIR_F_VIEW && k < f->op[i].nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            if (yir_kind(r) == YIR_VAL) up[root_of(up, yir_index(r))] = i;
        }
    }
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t b = f->place[i].buf;
        if (!b || f->buf[b - 1].kind == YIR_BUF_IN) continue;
        if (!first[b - 1]) first[b - 1] = i;
        if (root_of(up, i) != root_of(up, first[b - 1]))
            BROKEN(c, i, "%%%u and %%%u share b%u, but are no parts of one value", first[b - 1], i, b - 1);
    }
}

static void check_places(struct check *c)
{
    const struct yir_func *f = c->f;
    if (!f->place) {
        if (f->nop > 1) BROKEN(c, 0, "no value has a place");
        return;
    }
    for (uint32_t i = 1; i < f->nop; i++) check_place(c, i);
    if (c->bad) return;
    for (uint32_t i = 1; i < f->nop; i++)
        if (f->op[i].flags & YIR_F_VIEW) check_view(c, i);
    check_outputs(c);
    check_homes(c);
    check_arena(c);
}

int yir_verify(const struct yir_func *f, unsigned stages)
{
    struct check c = {(struct yir_func *)f, 0};
    check_structure(&c);
    if (!c.bad && stages & YIR_S_NOBN) check_nobn(&c);
    if (!c.bad && stages & YIR_S_LAYOUT) check_layout(&c);
    if (!c.bad && stages & YIR_S_KERNELS) check_kernels(&c);
    if (!c.bad && stages & YIR_S_PLACES) check_places(&c);
    return c.bad ? -1 : 0;
}
