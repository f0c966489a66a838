/* `yoloc verify`: each kernel of a network against the evaluator, on the inputs that the compiled code had. */
#include "driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/yolort.h"

struct verify_arg {
    const void *module;
    size_t size;
    yoloc_verify_opts o;
    yoloc_result *out;
};

struct network { /* compiled, and run once */
    struct build b;
    yolort_module *module;
    yolort_context *context;
    unsigned char *arena;
    void **io;        /* inputs, then outputs */
    void *bytes;      /* of the module */
};

struct verify {
    struct call *k;
    const yoloc_verify_opts *o;
    double bound, layer_bound;
    struct network net;
    struct network full;          /* the same kernels in fp32, when the network is not */
    bool lower;                   /* it is not */
    bool *picked;                 /* of each op: its elements stand in an order that their size decides, which rounding may change */
    const struct cg_program *ref; /* the same kernels, recorded for the evaluator */
    struct cg_meta meta;
    struct yir_str text;
    uint64_t random;
    double worst, worst_layer;
    int bad, bad_layer; /* 1 + number of the first kernel that differs from the evaluator; whose value is far from that in fp32 */
    const char *why, *why_layer;
};

static uint64_t next_random(struct verify *v)
{
    v->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = v->random;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* --- running the compiled network --------------------------------------------------------------------------- */

static int runtime_failed(struct verify *v, const char *what, const char *why)
{
    return yir_diag(v->k->diags, (struct yir_loc){0}, E_RUN, "%s: %s", what, why);
}

/* The test picture, or for a network that takes none numbers in [0, 1). */
static void fill_input(struct verify *v, const yolort_io *io, void *to)
{
    if (io->dtype == YOLORT_U8) {
        yoloc_test_picture(to, v->meta.height, v->meta.width, v->o->seed);
        return;
    }
    size_t n = io->bytes_per_image / yir_dtype_size((enum yir_dtype)io->dtype);
    for (size_t i = 0; i < n; i++) yir_dtype_store((enum yir_dtype)io->dtype, to, i, (double)(next_random(v) >> 40) / 16777216.0);
}

static int bind_all(struct verify *v, struct network *n)
{
    n->io = yir_alloc_n(v->k->arena, yolort_io_count(n->module), sizeof *n->io);
    int picture = yolort_io_find(n->module, "input_u8");
    v->random = v->o->seed; /* the same numbers each time */
    for (size_t i = 0; i < yolort_io_count(n->module); i++) {
        const yolort_io *io = yolort_io_at(n->module, i);
        if (picture >= 0 && !strcmp(io->name, "images")) continue; /* the other form of the picture */
        n->io[i] = yir_alloc(v->k->arena, io->bytes_per_image);
        if (yolort_bind(n->context, i, n->io[i], io->bytes_per_image)) return runtime_failed(v, "bind", yolort_error(n->context));
        if (!io->is_output) fill_input(v, io, n->io[i]);
    }
    return 0;
}

static void free_module(void *m)
{
    yolort_module_free(m);
}

static void free_context(void *c)
{
    yolort_context_free(c);
}

static int run_network(struct verify *v, struct network *n)
{
    size_t size;
    char why[256];
    yolort_context_opts co;
    if (call_module(v->k, &n->b, 1, &v->meta, &n->bytes, &size)) return -1;
    yir_arena_defer(v->k->arena, free, n->bytes);
    if (yolort_load(&n->module, n->bytes, size, why, sizeof why)) return runtime_failed(v, "load", why);
    yir_arena_defer(v->k->arena, free_module, n->module);
    yolort_context_opts_init(&co, sizeof co);
    yolort_status s = yolort_context_new(&n->context, n->module, &co);
    if (s) return runtime_failed(v, "context", yolort_status_name(s));
    yir_arena_defer(v->k->arena, free_context, n->context);
    if (bind_all(v, n)) return -1;
    if (yolort_run(n->context, 1, NULL) || yolort_wait(n->context)) return runtime_failed(v, "run", yolort_error(n->context));
    n->arena = yolort_arena(n->context, &size);
    return 0;
}

/* Element 0 of a placed value, network input or output in the run's memory; NULL for an input that was not bound. */
static const unsigned char *memory_of(const struct network *n, yir_ref r)
{
    const struct yir_func *f = n->b.fused;
    if (yir_kind(r) == YIR_INP) return n->io[yir_index(r)];
    const struct yir_place *p = &f->place[yir_index(r)];
    const struct yir_buf *buf = &f->buf[p->buf - 1];
    if (buf->kind == YIR_BUF_ARENA) return n->arena + buf->offset + p->offset;
    const unsigned char *io = n->io[buf->kind == YIR_BUF_OUT ? f->ninput + buf->io : buf->io];
    return io ? io + p->offset : NULL;
}

/* --- beside the network in fp32 ----------------------------------------------------------------------------- */

static void find_picked(struct verify *v)
{
    const struct yir_func *f = v->net.b.fused;
    v->picked = yir_alloc_n(v->k->arena, f->nop, sizeof *v->picked);
    for (uint32_t i = 1; i < f->nop; i++) {
        v->picked[i] = f->op[i].code == YIR_rank;
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref x = yir_src(f, i, k);
            v->picked[i] |= yir_kind(x) == YIR_VAL && v->picked[yir_index(x)];
        }
    }
}

static int run_full(struct verify *v)
{
    struct pass_opts po = call_pass_opts(v->k, &v->net.b.precision, 1, false);
    const struct cg_opts co = {.no_fast = v->k->o->no_fast != 0, .checked = v->k->o->checked != 0, .max_batch = 1};
    struct build *b = &v->full.b;
    *b = v->net.b;
    b->target.kb.tf32 = false;
    find_picked(v);
    b->fused = pass_widened(v->net.b.fused);
    if (b->fused) b->fused = pass_run_named(b->fused, v->k->diags, "views,memplan", &po);
    return b->fused && !call_code(v->k, b, &co) ? run_network(v, &v->full) : -1;
}

struct drift {
    double diff, sum; /* of |difference| and |value in fp32| */
    int64_t n;
    const char *broken; /* "infinite", "NaN", or NULL */
};

static void add_drift(struct drift *d, double value, double full)
{
    if (!isfinite(full)) return;
    if (!isfinite(value)) {
        d->broken = isnan(value) ? "NaN" : "infinite";
        return;
    }
    d->diff += fabs(value - full);
    d->sum += fabs(full);
    d->n++;
}

static struct drift drift_of(const struct verify *v, uint32_t op)
{
    const yir_ref r = yir_mkref(YIR_VAL, op);
    const struct yir_func *f[2] = {v->net.b.fused, v->full.b.fused};
    const unsigned char *at[2] = {memory_of(&v->net, r), memory_of(&v->full, r)};
    const struct yir_tdesc *d[2] = {yir_desc(f[0], r), yir_desc(f[1], r)};
    struct drift out = {0};
    int64_t ix[YIR_MAX_RANK] = {0};
    if (!at[0] || !at[1]) return out;
    for (int64_t left = yir_numel(d[0]); left > 0; left--) {
        double value[2];
        for (int k = 0; k < 2; k++) {
            int64_t where = 0;
            for (int i = 0; i < d[k]->rank; i++) where += ix[i] * f[k]->place[op].stride[i];
            value[k] = yir_dtype_load(d[k]->dtype, at[k], (size_t)where);
        }
        add_drift(&out, value[0], value[1]);
        for (int i = d[0]->rank - 1; i >= 0 && ++ix[i] == d[0]->dim[i]; i--) ix[i] = 0;
    }
    return out;
}

/* How far the value of kernel i is from that in fp32, relative to the mean; what is picked is only looked at for NaN and infinities. */
static double check_layer(struct verify *v, uint32_t i)
{
    const uint32_t op = v->net.b.program->kernel[i].last;
    const struct drift d = drift_of(v, op);
    double relative = d.n && !v->picked[op] ? d.diff / (d.sum > 1e-6 * (double)d.n ? d.sum : 1e-6 * (double)d.n) : 0;
    if (d.broken) relative = (double)INFINITY;
    if (relative > v->worst_layer) v->worst_layer = relative;
    if (relative <= v->layer_bound || v->bad_layer) return relative;
    v->bad_layer = 1 + (int)i;
    v->why_layer = d.broken ? yir_format(v->text.arena, "some elements are %s, but are not in fp32", d.broken)
                            : yir_format(v->text.arena, "it is %.1e of the mean away from fp32, more than %.1e", relative, v->layer_bound);
    return relative;
}

/* --- comparing ---------------------------------------------------------------------------------------------- */

/* What an element holds that no unit wrote: no arithmetic makes this NaN. */
static double poison(void)
{
    const uint64_t bits = UINT64_C(0x7ff8b0150badf00d);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static bool is_poison(double v)
{
    const double p = poison();
    return !memcmp(&v, &p, sizeof v);
}

/* Memories of a kernel in double; what it writes is poisoned, so that elements no unit wrote are known. -1: not run. */
static int load_memories(struct verify *v, const struct kb *b, double **mem)
{
    const struct yir_func *f = v->net.b.fused;
    for (int m = 0; m < b->nmem; m++) {
        const struct kb_mem *k = &b->mem[m];
        if (k->kind == KB_MEM_SCRATCH) continue;
        mem[m] = yir_alloc_n(v->k->arena, (size_t)k->elems, sizeof(double));
        const void *from = k->kind == KB_MEM_WEIGHT ? f->weight[yir_index(k->ref)].data : memory_of(&v->net, k->ref);
        if (!from) return -1;
        for (int64_t i = 0; i < k->elems; i++) mem[m][i] = k->written ? poison() : yir_dtype_load(k->dtype, from, (size_t)i);
    }
    return 0;
}

struct difference {
    double worst, sum; /* largest |difference|; sum of |value| */
    int64_t n, nan;    /* elements compared; those of them that both say are NaN */
};

/* Code ends the range of exp at e^88, and types end: from there on numbers are only very large. */
static double large_of(enum yir_dtype t)
{
    return t == YIR_F16 ? 65000 : 1e35;
}

static bool both_beyond(double large, double value, double got)
{
    return fabs(got) > large && (isinf(value) || fabs(value) > large) && (value < 0) == (got < 0);
}

/* What two roundings to the type may be apart that were of nearly the same number: a step of it. */
static double step_of(enum yir_dtype t, double v)
{
    return t == YIR_F16 ? fmax(ldexp(fabs(v), -10), 0x1p-24) : t == YIR_BF16 ? ldexp(fabs(v), -7) : 0;
}

static void compare_memory(const struct verify *v, const struct kb_mem *m, const double *got, struct difference *d)
{
    const unsigned char *have = memory_of(&v->net, m->ref);
    const double large = large_of(m->dtype);
    for (int64_t i = 0; i < m->elems; i++) {
        if (is_poison(got[i])) continue;
        double value = yir_dtype_load(m->dtype, have, (size_t)i);
        d->n++;
        d->nan += isnan(value) && isnan(got[i]);
        if (isnan(value) && isnan(got[i])) continue;
        d->sum += fmin(fabs(got[i]), large);
        if (both_beyond(large, value, got[i])) continue;
        double diff = fabs(value - got[i]) - step_of(m->dtype, got[i]);
        if (!(diff <= d->worst)) d->worst = isnan(diff) ? (double)INFINITY : diff;
    }
}

/* Runs units of the evaluator's program, chosen at random, until enough elements are covered. */
static int run_units(struct verify *v, const struct cg_kernel *k, double **mem)
{
    const struct yir_func *f = v->net.b.fused;
    double elems = (double)yir_numel(yir_tdesc(f->types, f->op[k->last].type));
    int64_t units = k->prog->units, want = units;
    int bad = 0;
    if (v->o->samples > 0) {
        want = (int64_t)ceil((double)v->o->samples * (double)units / elems);
        if (want > units) want = units;
    }
    for (int64_t i = 0; i < want; i++) {
        int64_t u = want == units ? i : (int64_t)(next_random(v) % (uint64_t)units);
        if (kb_ref_run(v->k->arena, k->prog, mem, u, u + 1, &bad))
            return yir_diag(v->k->diags, (struct yir_loc){0}, E_VERIFY, "%s: the evaluator left memory %d", k->label, bad - 1);
    }
    return 0;
}

/* What is wrong with a kernel, or NULL. */
static const char *fault_of(const struct verify *v, const struct difference *d, double relative)
{
    if (!d->n) return "no element of it was compared";
    if (!(relative <= v->bound)) return "it differs from the evaluator";
    return d->nan ? "it makes NaN" : NULL;
}

static int verify_kernel(struct verify *v, uint32_t i)
{
    const struct cg_kernel *k = &v->ref->kernel[i], *fast = &v->net.b.program->kernel[i];
    struct yir_arena_mark mark = yir_arena_mark(v->k->arena);
    double *mem[KB_MAX_MEM] = {NULL};
    struct difference d = {0};
    if (load_memories(v, k->prog, mem)) {
        yir_arena_reset(v->k->arena, mark);
        return 0;
    }
    if (run_units(v, k, mem)) return -1;
    for (int m = 0; m < k->prog->nmem; m++)
        if (k->prog->mem[m].written && k->prog->mem[m].kind == KB_MEM_VALUE) compare_memory(v, &k->prog->mem[m], mem[m], &d);
    yir_arena_reset(v->k->arena, mark);
    double scale = d.n ? d.sum / (double)d.n : 0, relative = d.worst / (scale > 1e-6 ? scale : 1e-6);
    const char *fault = fault_of(v, &d, relative);
    if (relative > v->worst) v->worst = relative;
    if (fault && !v->bad) {
        v->bad = 1 + (int)i;
        v->why = fault;
    }
    double layer = v->lower ? check_layer(v, i) : 0;
    yir_str_fmt(&v->text, "%s %.2e of %.3g  %-12s %s (", fault || layer > v->layer_bound ? "FAIL" : "ok  ", relative, scale, fast->family,
                fast->label);
    if (fast->line) yir_str_fmt(&v->text, "line %d, ", fast->line);
    yir_str_fmt(&v->text, "%lld elements", (long long)d.n);
    if (v->lower && !v->picked[v->net.b.program->kernel[i].last]) yir_str_fmt(&v->text, ", %.2e from fp32", layer);
    yir_str_fmt(&v->text, ")\n");
    return 0;
}

static int compare_kernels(struct verify *v)
{
    struct cg_target ref;
    const struct cg_opts co = {.no_fast = true, .max_batch = 1};
    if (call_target(v->k, "ref", &ref)) return -1;
    v->ref = cg_kernels(v->k->arena, v->net.b.fused, &ref, &co);
    for (uint32_t i = 0; i < v->ref->nkernel; i++) {
        call_progress(v->k, "verify", (int)i, (int)v->ref->nkernel);
        if (verify_kernel(v, i)) return -1;
    }
    return 0;
}

/* A module for a GPU is looked at there, others as this machine's own code, unless a target was asked for. */
static const char *target_of(const struct verify *v, const struct cg_modview *view)
{
    struct ym_target t;
    size_t size;
    const void *p = cg_module_section(view, YM_TARGET, 0, &size);
    if (v->k->c->target_given || !p || size != sizeof t) return v->k->o->target;
    memcpy(&t, p, sizeof t);
    return t.kind == YM_CUDA ? cg_module_string(view, t.name) : v->k->o->target;
}

static int verify_network(struct verify *v, const struct verify_arg *a)
{
    struct cg_modview view;
    struct build *b = &v->net.b;
    if (cg_module_open(v->k->arena, v->k->diags, v->k->o->module_name, a->module, a->size, &view)) return -1;
    b->front = cg_module_front(v->k->arena, v->k->types, v->k->diags, &view, true);
    b->no_reuse = true;
    v->meta = view.meta;
    if (!b->front || call_precision(v->k, b->front, v->meta.precision, &b->precision)) return -1;
    v->meta.precision = b->precision.text;
    v->lower = call_precision_lower(&b->precision);
    v->bound = v->o->bound > 0 ? v->o->bound : b->precision.kernel_bound;
    v->layer_bound = v->o->layer_bound > 0 ? v->o->layer_bound : b->precision.layer_bound;
    b->front = call_resize(v->k, b->front, &v->meta, v->o->height, v->o->width, 1);
    if (!b->front || call_compile(v->k, b, target_of(v, &view), 1) || run_network(v, &v->net)) return -1;
    if ((v->lower && run_full(v)) || compare_kernels(v)) return -1;
    yir_str_fmt(&v->text, "%u kernels, worst difference %.2e of the mean, bound %.1e\n", v->ref->nkernel, v->worst, v->bound);
    if (v->lower)
        yir_str_fmt(&v->text, "%s: worst layer %.2e of the mean from fp32, bound %.1e\n", b->precision.text, v->worst_layer, v->layer_bound);
    return 0;
}

static void free_arena(void *a)
{
    yir_arena_free(a);
}

/* The first of what is wrong; of one kernel the code before the numbers. */
static int report(struct verify *v)
{
    if (!v->bad && !v->bad_layer) return 0;
    bool layer = v->bad_layer && (!v->bad || v->bad_layer < v->bad);
    const struct cg_kernel *f = &v->net.b.program->kernel[(layer ? v->bad_layer : v->bad) - 1];
    const char *line = f->line ? yir_format(v->k->arena, "line %d of the description", f->line) : "no line of a description";
    if (layer)
        return yir_diag(v->k->diags, (struct yir_loc){0}, E_VERIFY, "%s first goes wrong at %s (%s): %s", v->net.b.precision.text, f->label,
                        line, v->why_layer);
    return yir_diag(v->k->diags, (struct yir_loc){0}, E_VERIFY, "first divergence at %s (%s, family %s): %s", f->label, line, f->family,
                    v->why);
}

static int verify_body(struct call *k, void *p)
{
    struct verify_arg *a = p;
    struct verify *v = yir_alloc(k->arena, sizeof *v);
    *v = (struct verify){.k = k, .o = &a->o, .text = {.arena = call_arena(k)}, .random = a->o.seed};
    yir_arena_defer(k->arena, free_arena, v->text.arena); /* its own, since the call's is marked and reset meanwhile */
    int result = verify_network(v, a);
    if (v->text.len && call_result(k, v->text.text, v->text.len, a->out)) result = -1;
    return result ? result : report(v);
}

yoloc_status yoloc_verify(yoloc *c, const void *module, size_t size, const yoloc_verify_opts *o, yoloc_result *text)
{
    if (!module || !text || (o && (o->size < sizeof(size_t) || o->size > sizeof *o))) return YOLOC_USAGE;
    struct verify_arg a = {.module = module, .size = size, .out = text};
    if (o) memcpy(&a.o, o, o->size);
    if (!(a.o.bound >= 0 && a.o.layer_bound >= 0) || a.o.samples < -1) return YOLOC_USAGE;
    if (!a.o.height) a.o.height = 160;
    if (!a.o.width) a.o.width = 160;
    if (!a.o.samples) a.o.samples = 2048;
    return call_run(c, verify_body, &a);
}
