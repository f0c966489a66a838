/* The memory plan of random networks, played through: each element that a kernel stores is marked in the
 * memory it is placed in, and every kernel must find the marks of what it reads, before and after it stores
 * its own. Also: places lie inside their buffers, live buffers do not overlap, the same network gives the
 * same text. */
#include <criterion/criterion.h>
#include <string.h>

#include "passes/pass.h"
#include "randnet.h"

enum { NETWORKS = 400 };

struct memory {
    const struct yir_func *f;
    uint64_t **buf; /* marks, one for each float of each buffer; those of the arena point into it */
};

/* The element `at` of a value is the element of what was stored: through views to the op, or input, behind
 * them. */
static uint64_t mark_of(const struct yir_func *f, yir_ref r, const int64_t *index)
{
    int64_t at[YIR_MAX_RANK];
    memcpy(at, index, sizeof at);
    while (yir_kind(r) == YIR_VAL && yir_opof(f, r)->flags & YIR_F_VIEW) {
        uint32_t op = yir_index(r);
        int k = 0;
        if (f->op[op].code == YIR_slice) {
            const struct yir_a_slice *a = yir_attrs(f, op);
            at[a->axis] += a->start;
        } else if (f->op[op].code == YIR_concat) {
            int axis = ((const struct yir_a_axis *)yir_attrs(f, op))->axis;
            for (; at[axis] >= yir_desc(f, yir_src(f, op, k))->dim[axis]; k++)
                at[axis] -= yir_desc(f, yir_src(f, op, k))->dim[axis];
        } else { /* either: both have run here, so the later one counts */
            k = yir_src(f, op, 0).bits < yir_src(f, op, 1).bits;
        }
        r = yir_src(f, op, k);
    }
    uint64_t h = r.bits;
    for (int k = 0; k < YIR_MAX_RANK; k++) h = h * 1009 + (uint64_t)at[k] + 1;
    return h;
}

static struct yir_place place_of(const struct yir_func *f, yir_ref r)
{
    if (yir_kind(r) == YIR_VAL) return f->place[yir_index(r)];
    struct yir_place p = {.buf = yir_index(r) + 1};
    yir_dense_strides(yir_desc(f, r), p.stride);
    return p;
}

/* Calls visit for each element with its mark and its cell in memory. */
static void each(const struct memory *m, yir_ref r, void (*visit)(uint64_t *cell, uint64_t mark, yir_ref r))
{
    const struct yir_tdesc *d = yir_desc(m->f, r);
    struct yir_place p = place_of(m->f, r);
    cr_assert_neq(p.buf, 0);
    const struct yir_buf *b = &m->f->buf[p.buf - 1];
    for (int64_t i = 0; i < yir_numel(d); i++) {
        int64_t at[YIR_MAX_RANK] = {0}, left = i, cell = (int64_t)p.offset / 4;
        for (int k = d->rank - 1; k >= 0; k--) {
            at[k] = left % d->dim[k];
            left /= d->dim[k];
            cell += at[k] * p.stride[k];
        }
        cr_assert_lt(cell, (int64_t)b->bytes / 4);
        visit(&m->buf[p.buf - 1][cell], mark_of(m->f, r, at), r);
    }
}

static void store(uint64_t *cell, uint64_t mark, yir_ref r)
{
    (void)r;
    *cell = mark;
}

static void expect(uint64_t *cell, uint64_t mark, yir_ref r)
{
    cr_assert_eq(*cell, mark, "something lies over %%%u", yir_index(r));
}

static void read_operands(const struct memory *m, uint32_t first, uint32_t last)
{
    const struct yir_func *f = m->f;
    for (uint32_t i = first; i <= last; i++)
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            bool memory = yir_kind(r) == YIR_INP || (yir_kind(r) == YIR_VAL && yir_opof(f, r)->flags);
            if (f->op[i].kernel && memory && yir_desc(f, r)->dtype == YIR_F32) each(m, r, expect);
        }
}

/* The last op of the kernel that begins with op i. */
static uint32_t kernel_end(const struct yir_func *f, uint32_t i)
{
    while (i + 1 < f->nop && f->op[i].kernel && f->op[i + 1].kernel == f->op[i].kernel) i++;
    return i;
}

static void play_inputs(const struct memory *m)
{
    const struct yir_func *f = m->f;
    for (uint32_t i = 0; i < f->ninput; i++)
        if (yir_tdesc(f->types, f->input[i].type)->dtype == YIR_F32) each(m, yir_mkref(YIR_INP, i), store);
}

static void play_kernel(const struct memory *m, uint32_t first, uint32_t last)
{
    read_operands(m, first, last);
    if (m->f->op[last].flags & YIR_F_STORED) each(m, yir_mkref(YIR_VAL, last), store);
    read_operands(m, first, last);
}

static void expect_outputs(const struct memory *m)
{
    const struct yir_func *f = m->f;
    for (uint32_t i = 0; i < f->noutput; i++) {
        cr_assert_eq(f->buf[f->place[yir_index(f->output[i].ref)].buf - 1].io, i);
        each(m, f->output[i].ref, expect);
    }
}

static void play(const struct memory *m)
{
    play_inputs(m);
    for (uint32_t i = 1, last; i < m->f->nop; i = last + 1) {
        last = kernel_end(m->f, i);
        play_kernel(m, i, last);
    }
    expect_outputs(m);
}

/* Of two values in one place, of which a run has one, the second is stored second here: mark_of. */
static bool is_its_turn(const struct yir_func *f, const bool *done, uint32_t op)
{
    for (uint32_t i = 1; i < f->nop; i++) {
        if (f->op[i].code != YIR_either) continue;
        yir_ref a = yir_src(f, i, 0), b = yir_src(f, i, 1);
        uint32_t later = a.bits < b.bits ? yir_index(b) : yir_index(a), other = a.bits < b.bits ? yir_index(a) : yir_index(b);
        if (later == op && !done[other]) return false;
    }
    return true;
}

/* Whether all that ops first .. last read from outside is there. */
static bool is_ready(const struct yir_func *f, const bool *done, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref r = yir_src(f, i, k);
            if (yir_kind(r) == YIR_VAL && yir_index(r) < first && !done[yir_index(r)]) return false;
        }
    return true;
}

/* Of the kernels and views that could be next, always the last one. */
static void play_last_first(const struct memory *m, struct yir_arena *a)
{
    const struct yir_func *f = m->f;
    bool *done = yir_alloc_n(a, f->nop, sizeof *done);
    play_inputs(m);
    for (;;) {
        uint32_t next = 0;
        for (uint32_t i = 1, last; i < f->nop; i = last + 1) {
            last = kernel_end(f, i);
            if (!done[last] && is_ready(f, done, i, last) && is_its_turn(f, done, last)) next = i;
        }
        if (!next) break;
        play_kernel(m, next, kernel_end(f, next));
        memset(done + next, true, kernel_end(f, next) - next + 1);
    }
    expect_outputs(m);
}

static struct memory memory_of(const struct yir_func *f, struct yir_arena *a)
{
    struct memory m = {f, yir_alloc_n(a, f->nbuf, sizeof(uint64_t *))};
    uint64_t *arena = yir_alloc_n(a, f->arena_size / 4, sizeof *arena);
    for (uint32_t i = 0; i < f->nbuf; i++) {
        const struct yir_buf *b = &f->buf[i];
        cr_assert(b->kind != YIR_BUF_ARENA || b->offset + b->bytes <= f->arena_size);
        m.buf[i] =
            b->kind == YIR_BUF_ARENA ? arena + b->offset / 4 : yir_alloc_n(a, b->bytes / 4, sizeof(uint64_t));
    }
    return m;
}

static bool overlap(const struct yir_buf *a, const struct yir_buf *b)
{
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static void check_apart(const struct yir_func *f, bool reuse)
{
    for (uint32_t i = 0; i < f->nbuf; i++)
        for (uint32_t k = 0; k < i; k++) {
            const struct yir_buf *a = &f->buf[i], *b = &f->buf[k];
            if (a->kind != YIR_BUF_ARENA || b->kind != YIR_BUF_ARENA || !overlap(a, b)) continue;
            cr_assert(reuse && (a->last < b->first || b->last < a->first), "b%u and b%u", i, k);
        }
}

static const char *text_of(const struct yir_func *f)
{
    struct yir_str s = {.arena = f->arena};
    yir_print(&s, f, 0);
    return s.text;
}

/* The most that is live at once: no plan needs less. */
static uint64_t least_size(const struct yir_func *f)
{
    uint64_t most = 0;
    for (uint32_t i = 1; i < f->nop; i++) {
        uint64_t live = 0;
        for (uint32_t k = 0; k < f->nbuf; k++)
            if (f->buf[k].kind == YIR_BUF_ARENA && f->buf[k].first <= i && i <= f->buf[k].last)
                live += (f->buf[k].bytes + YIR_BUF_ALIGN - 1) / YIR_BUF_ALIGN * YIR_BUF_ALIGN;
        if (live > most) most = live;
    }
    return most;
}

struct sizes {
    uint64_t planned, least;
};

static struct sizes check(uint64_t seed, const struct pass_opts *o)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_func *f = pass_run_all(randnet(a, d, seed), d, o),
                    *g = pass_run_all(randnet(a, d, seed), d, o);
    cr_assert(f && g, "network %llu", (unsigned long long)seed);
    cr_assert_str_eq(text_of(f), text_of(g));
    check_apart(f, o->reuse);
    struct memory m = memory_of(f, a);
    play(&m);
    struct sizes size = {f->arena_size, least_size(f)};
    cr_assert_geq(size.planned, size.least);
    yir_arena_free(a);
    return size;
}

static struct pass_opts options(int batch)
{
    struct pass_opts o;
    pass_opts_init(&o);
    o.verify_each = true;
    o.max_batch = batch;
    return o;
}

Test(passes_memory, all)
{
    struct pass_opts o = options(1);
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) check(seed, &o);
}

Test(passes_memory, without_fusion)
{
    struct pass_opts o = options(3);
    o.fuse = false;
    for (uint64_t seed = 1; seed <= NETWORKS / 4; seed++) check(seed, &o);
}

Test(passes_memory, some_left_out)
{
    struct pass_opts o = options(2);
    o.skip = "simplify,cse,dce";
    for (uint64_t seed = 1; seed <= NETWORKS / 4; seed++) check(seed, &o);
}

Test(passes_memory, close_to_the_least)
{
    struct pass_opts o = options(1);
    struct sizes sum = {0};
    int exact = 0;
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        struct sizes size = check(seed, &o);
        sum.planned += size.planned;
        sum.least += size.least;
        exact += size.planned == size.least;
    }
    cr_assert_leq(sum.planned, sum.least + sum.least / 100, "%llu bytes, %llu needed",
                  (unsigned long long)sum.planned, (unsigned long long)sum.least);
    cr_assert_geq(exact, NETWORKS * 95 / 100, "%d networks have the smallest plan possible", exact);
}

Test(passes_memory, without_reuse)
{
    struct pass_opts o = options(2);
    o.reuse = false;
    for (uint64_t seed = 1; seed <= NETWORKS / 4; seed++) check(seed, &o);
}

static void check_orders(uint64_t seed, const struct pass_opts *o)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_func *f = pass_run_all(randnet(a, d, seed), d, o);
    cr_assert(f, "network %llu", (unsigned long long)seed);
    struct memory m = memory_of(f, a);
    play_last_first(&m, a);
    yir_arena_free(a);
}

Test(passes_memory, side_by_side)
{
    struct pass_opts o = options(1);
    o.apart = true;
    for (uint64_t seed = 1; seed <= NETWORKS; seed++) {
        check(seed, &o);
        check_orders(seed, &o);
    }
}

/* Longer than a kernel may be, and more operands than one may read: split, and copied. */
Test(passes_memory, limits)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct yir_func *f = yir_func_new(a, yir_types_new(a), d, "limits");
    struct yir_tdesc t = {.dtype = YIR_F32, .layout = YIR_ROW, .rank = 2, .dim = {1, 4}};
    yir_ref x = yir_add_input(f, "x", yir_type_of(f->types, &t)), y = x, part[64];
    for (int i = 0; i < 100; i++) y = yir_emit(f, i % 2 ? YIR_silu : YIR_relu, &y, 1, NULL);
    for (int i = 0; i < 64; i++) part[i] = i % 2 ? x : y;
    yir_ref wide = yir_emit(f, YIR_concat, part, 64, NULL);
    yir_add_output(f, "y", yir_emit(f, YIR_tanh, &wide, 1, NULL), false);
    struct pass_opts o = options(1);
    f = pass_run_all(f, d, &o);
    cr_assert_not_null(f);
    uint32_t ops[256] = {0};
    for (uint32_t i = 1; i < f->nop; i++) cr_assert_leq(++ops[f->op[i].kernel], f->op[i].kernel ? 32 : 1);
    cr_assert_eq(f->nkernel, 4 + 63 + 1,
                 "%u kernels: four of the chain, copies of each operand but the first", f->nkernel);
    struct memory m = memory_of(f, a);
    play(&m);
    yir_arena_free(a);
}
