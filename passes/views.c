/* Buffers, and a place in one for every stored value and view. A value that lives in a view (concat, either)
 * takes its place from that, which stands later; a slice takes it from its operand, which stands earlier;
 * every other value has a buffer of its own, that of the caller when it is an output. Buffers 0 .. ninput-1
 * are the inputs, then come the outputs. A buffer holds the images of the largest batch one after the other,
 * so that batch b uses the first b. Changes no op. */
#include "walk.h"

#include <string.h>

struct views {
    struct yir_func *f; /* new: shares all but buffers and places with the old */
    struct pass *p;
    uint32_t *home; /* the view that a value lives in, or 0 */
    uint32_t *part; /* and which operand of it the value is */
};

static bool is_view(const struct yir_func *f, uint32_t op)
{
    return f->op[op].flags & YIR_F_VIEW;
}

static bool is_slice_view(const struct yir_func *f, uint32_t op)
{
    return is_view(f, op) && f->op[op].code == YIR_slice;
}

static int report(struct views *v, uint32_t op, const char *what)
{
    struct yir_str s = {.arena = v->f->arena};
    yir_print_op(&s, v->f, op, 0);
    return yir_diag(v->p->diags, v->f->loc[v->f->op[op].loc].loc, E_PASS, "views: %s: %s", what, s.text);
}

/* fuse makes only views that can be; functions read from text may hold others. */
static int find_homes(struct views *v)
{
    struct yir_func *f = v->f;
    for (uint32_t i = 1; i < f->nop; i++) {
        if (!is_view(f, i) || is_slice_view(f, i)) continue;
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref x = yir_src(f, i, k);
            uint32_t op = yir_index(x);
            if (yir_kind(x) != YIR_VAL || v->home[op] || is_slice_view(f, op))
                return report(v, i, "an operand of the view can't live in it");
            v->home[op] = i;
            v->part[op] = (uint32_t)k;
        }
    }
    return 0;
}

static uint32_t add_buf(struct views *v, enum yir_bufkind kind, uint32_t io, const struct yir_tdesc *d)
{
    struct yir_func *f = v->f;
    struct yir_buf b = {.kind = kind, .io = io};
    int64_t images = d->rank ? d->dim[0] : 1;
    uint64_t image =
        (uint64_t)(yir_numel(d) / images) * yir_dtype_size(d->dtype); /* types hold up to 2^40 elements */
    if (images < v->p->opts->max_batch) images = v->p->opts->max_batch;
    if (!yir_mul_u64(image, (uint64_t)images, &b.bytes)) b.bytes = UINT64_MAX;
    f->buf = yir_grow(f->arena, f->buf, &f->cap_buf, f->nbuf + 1u, sizeof *f->buf);
    f->buf[f->nbuf] = b;
    return ++f->nbuf;
}

/* Where the slice [start, ...) along axis of a place begins. */
static void move_place(struct yir_place *p, const struct yir_tdesc *d, int axis, int64_t start)
{
    p->offset += (uint64_t)start * (uint64_t)p->stride[axis] * yir_dtype_size(d->dtype);
}

static void place_at_home(struct views *v, uint32_t op)
{
    struct yir_func *f = v->f;
    uint32_t home = v->home[op];
    f->place[op] = f->place[home];
    if (f->op[home].code != YIR_concat) return;
    int axis = ((const struct yir_a_axis *)yir_attrs(f, home))->axis;
    int64_t start = 0;
    for (uint32_t k = 0; k < v->part[op]; k++) start += yir_desc(f, yir_src(f, home, (int)k))->dim[axis];
    move_place(&f->place[op], yir_tdesc(f->types, f->op[op].type), axis, start);
}

static void place_alone(struct views *v, uint32_t op)
{
    struct yir_func *f = v->f;
    const struct yir_tdesc *d = yir_tdesc(f->types, f->op[op].type);
    if (!f->place[op].buf) f->place[op].buf = add_buf(v, YIR_BUF_ARENA, 0, d);
    yir_dense_strides(d, f->place[op].stride);
}

static void place_slice(struct views *v, uint32_t op)
{
    struct yir_func *f = v->f;
    yir_ref x = yir_src(f, op, 0);
    const struct yir_a_slice *a = yir_attrs(f, op);
    struct yir_place p = {.buf = yir_kind(x) == YIR_INP ? yir_index(x) + 1 : 0};
    if (yir_kind(x) == YIR_VAL) p = f->place[yir_index(x)];
    else yir_dense_strides(yir_desc(f, x), p.stride);
    move_place(&p, yir_desc(f, x), a->axis, a->start);
    f->place[op] = p;
}

static void add_inputs(struct views *v)
{
    for (uint32_t i = 0; i < v->f->ninput; i++)
        add_buf(v, YIR_BUF_IN, i, yir_tdesc(v->f->types, v->f->input[i].type));
}

static int add_outputs(struct views *v)
{
    struct yir_func *f = v->f;
    for (uint32_t i = 0; i < f->noutput; i++) {
        yir_ref x = f->output[i].ref;
        uint32_t op = yir_index(x);
        if (yir_kind(x) != YIR_VAL || v->home[op] || f->place[op].buf || is_slice_view(f, op))
            return yir_diag(v->p->diags, (struct yir_loc){0}, E_PASS,
                            "views: the output %s is no value of its own", f->output[i].name);
        f->place[op].buf = add_buf(v, YIR_BUF_OUT, i, yir_desc(f, x));
    }
    return 0;
}

static int place_all(struct views *v)
{
    struct yir_func *f = v->f;
    f->place = yir_alloc_n(f->arena, f->nop, sizeof *f->place);
    add_inputs(v);
    if (add_outputs(v)) return -1;
    for (uint32_t i = 1; i < f->nop; i++)
        if (f->op[i].flags && !v->home[i] && !is_slice_view(f, i)) place_alone(v, i);
    for (uint32_t i = f->nop - 1; i > 0; i--)
        if (v->home[i]) place_at_home(v, i);
    for (uint32_t i = 1; i < f->nop; i++) {
        if (is_slice_view(f, i)) place_slice(v, i);
        if (f->op[i].flags && !f->place[i].buf) return report(v, i, "a slice of a weight is no view");
    }
    for (uint32_t i = 0; i < f->nbuf; i++)
        if (f->buf[i].bytes > yir_limits_of(v->p->diags)->max_activations)
            return yir_diag(v->p->diags, (struct yir_loc){0}, E_LIMIT,
                            "the values of a batch of %d take more than %llu bytes%s", v->p->opts->max_batch,
                            (unsigned long long)yir_limits_of(v->p->diags)->max_activations,
                            YIR_RAISE(max_activations));
    return 0;
}

int pass_views(struct pass *p)
{
    struct views v = {.p = p, .f = yir_alloc(p->arena, sizeof *v.f)};
    v.home = yir_alloc_n(p->arena, p->in->nop, sizeof *v.home);
    v.part = yir_alloc_n(p->arena, p->in->nop, sizeof *v.part);
    *v.f = *p->in;
    v.f->buf = NULL;
    v.f->nbuf = 0;
    v.f->cap_buf = 0;
    v.f->arena_size = 0;
    if (find_homes(&v) || place_all(&v)) return -1;
    if (!v.f->nbuf) v.f->place = NULL; /* a function without anything */
    p->out = v.f;
    return 1;
}
