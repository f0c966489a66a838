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

struct verify {
    struct call *k;
    const yoloc_verify_opts *o;
    struct build b;
    const struct cg_program *ref; /* the same kernels, recorded for the evaluator */
    struct cg_meta meta;
    yolort_module *module;
    yolort_context *context;
    unsigned char *arena;
    void **io;        /* inputs, then outputs */
    void *bytes;      /* of the module */
    struct yir_str text;
    uint64_t random;
    double worst;
    int bad;          /* 1 + number of the first kernel that differs */
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

static int bind_all(struct verify *v)
{
    v->io = yir_alloc_n(v->k->arena, yolort_io_count(v->module), sizeof *v->io);
    int picture = yolort_io_find(v->module, "input_u8");
    for (size_t i = 0; i < yolort_io_count(v->module); i++) {
        const yolort_io *io = yolort_io_at(v->module, i);
        if (picture >= 0 && !strcmp(io->name, "images")) continue; /* the other form of the picture */
        v->io[i] = yir_alloc(v->k->arena, io->bytes_per_image);
        if (yolort_bind(v->context, i, v->io[i], io->bytes_per_image)) return runtime_failed(v, "bind", yolort_error(v->context));
        if (!io->is_output) fill_input(v, io, v->io[i]);
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

static int run_network(struct verify *v)
{
    size_t size;
    char why[256];
    yolort_context_opts co;
    if (call_module(v->k, &v->b, 1, &v->meta, &v->bytes, &size)) return -1;
    yir_arena_defer(v->k->arena, free, v->bytes);
    if (yolort_load(&v->module, v->bytes, size, why, sizeof why)) return runtime_failed(v, "load", why);
    yir_arena_defer(v->k->arena, free_module, v->module);
    yolort_context_opts_init(&co, sizeof co);
    if (yolort_context_new(&v->context, v->module, &co)) return runtime_failed(v, "context", "no memory");
    yir_arena_defer(v->k->arena, free_context, v->context);
    if (bind_all(v)) return -1;
    if (yolort_run(v->context, 1, NULL) || yolort_wait(v->context)) return runtime_failed(v, "run", yolort_error(v->context));
    v->arena = yolort_arena(v->context, &size);
    return 0;
}

/* --- comparing ---------------------------------------------------------------------------------------------- */

/* Element 0 of a placed value, network input or output in the run's memory; NULL for an input that was not bound. */
static const unsigned char *memory_of(const struct verify *v, yir_ref r)
{
    const struct yir_func *f = v->b.fused;
    if (yir_kind(r) == YIR_INP) return v->io[yir_index(r)];
    const struct yir_place *p = &f->place[yir_index(r)];
    const struct yir_buf *buf = &f->buf[p->buf - 1];
    if (buf->kind == YIR_BUF_ARENA) return v->arena + buf->offset + p->offset;
    const unsigned char *io = v->io[buf->kind == YIR_BUF_OUT ? f->ninput + buf->io : buf->io];
    return io ? io + p->offset : NULL;
}

/* Memories of a kernel in double; what it writes is poisoned, so that elements no unit wrote are known. -1: not run. */
static int load_memories(struct verify *v, const struct kb *b, double **mem)
{
    const struct yir_func *f = v->b.fused;
    for (int m = 0; m < b->nmem; m++) {
        const struct kb_mem *k = &b->mem[m];
        if (k->kind == KB_MEM_SCRATCH) continue;
        mem[m] = yir_alloc_n(v->k->arena, (size_t)k->elems, sizeof(double));
        const void *from = k->kind == KB_MEM_WEIGHT ? f->weight[yir_index(k->ref)].data : memory_of(v, k->ref);
        if (!from) return -1;
        for (int64_t i = 0; i < k->elems; i++)
            mem[m][i] = k->written ? (double)NAN : yir_dtype_load(k->dtype, from, (size_t)i);
    }
    return 0;
}

struct difference {
    double worst, sum; /* largest |difference|; sum of |value| */
    int64_t n;
};

/* Code ends the range of exp at e^88: from there on both are only very large. */
static bool both_beyond(double value, double got)
{
    const double large = 1e35;
    return fabs(got) > large && (isinf(value) || fabs(value) > large) && (value < 0) == (got < 0);
}

static void compare_memory(const struct verify *v, const struct kb_mem *m, const double *got, struct difference *d)
{
    const unsigned char *have = memory_of(v, m->ref);
    for (int64_t i = 0; i < m->elems; i++) {
        if (isnan(got[i])) continue;
        double value = yir_dtype_load(m->dtype, have, (size_t)i), diff = fabs(value - got[i]);
        if (both_beyond(value, got[i])) continue;
        if (!(diff <= d->worst)) d->worst = isnan(diff) ? (double)INFINITY : diff;
        d->sum += fabs(got[i]);
        d->n++;
    }
}

/* Runs units of the evaluator's program, chosen at random, until enough elements are covered. */
static int run_units(struct verify *v, const struct cg_kernel *k, double **mem)
{
    const struct yir_func *f = v->b.fused;
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

static int verify_kernel(struct verify *v, uint32_t i)
{
    const struct cg_kernel *k = &v->ref->kernel[i], *fast = &v->b.program->kernel[i];
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
    bool ok = relative <= v->o->bound;
    if (relative > v->worst) v->worst = relative;
    if (!ok && !v->bad) v->bad = 1 + (int)i;
    yir_str_fmt(&v->text, "%s %.2e of %.3g  %-12s %s (line %d, %lld elements)\n", ok ? "ok  " : "FAIL", relative, scale, fast->family,
                fast->label, fast->line, (long long)d.n);
    return 0;
}

static int compare_kernels(struct verify *v)
{
    struct cg_target ref;
    const struct cg_opts co = {.no_fast = true, .max_batch = 1};
    if (call_target(v->k, "ref", &ref)) return -1;
    v->ref = cg_kernels(v->k->arena, v->b.fused, &ref, &co);
    for (uint32_t i = 0; i < v->ref->nkernel; i++) {
        call_progress(v->k, "verify", (int)i, (int)v->ref->nkernel);
        if (verify_kernel(v, i)) return -1;
    }
    return 0;
}

static int verify_network(struct verify *v, const struct verify_arg *a)
{
    struct cg_modview view;
    if (cg_module_open(v->k->arena, v->k->diags, v->k->o->module_name, a->module, a->size, &view)) return -1;
    v->b.front = cg_module_front(v->k->arena, v->k->types, v->k->diags, &view, true);
    v->b.no_reuse = true;
    v->meta = view.meta;
    if (!v->b.front || call_precision(v->k, v->b.front, v->meta.precision, &v->b.precision)) return -1;
    v->meta.precision = v->b.precision.text;
    v->b.front = call_resize(v->k, v->b.front, &v->meta, v->o->height, v->o->width, 1);
    if (!v->b.front || call_compile(v->k, &v->b, 1) || run_network(v) || compare_kernels(v)) return -1;
    yir_str_fmt(&v->text, "%u kernels, worst difference %.2e of the mean, bound %.1e\n", v->ref->nkernel, v->worst, v->o->bound);
    return 0;
}

static void free_arena(void *a)
{
    yir_arena_free(a);
}

static int verify_body(struct call *k, void *p)
{
    struct verify_arg *a = p;
    struct verify *v = yir_alloc(k->arena, sizeof *v);
    *v = (struct verify){.k = k, .o = &a->o, .text = {.arena = call_arena(k)}, .random = a->o.seed};
    yir_arena_defer(k->arena, free_arena, v->text.arena); /* its own, since the call's is marked and reset meanwhile */
    int result = verify_network(v, a);
    if (v->text.len && call_result(k, v->text.text, v->text.len, a->out)) result = -1;
    if (!result && v->bad) {
        const struct cg_kernel *f = &v->b.program->kernel[v->bad - 1];
        result = yir_diag(k->diags, (struct yir_loc){0}, E_VERIFY, "first divergence at %s (line %d of the description, family %s)",
                          f->label, f->line, f->family);
    }
    return result;
}

yoloc_status yoloc_verify(yoloc *c, const void *module, size_t size, const yoloc_verify_opts *o, yoloc_result *text)
{
    if (!module || !text || (o && (o->size < sizeof(size_t) || o->size > sizeof *o))) return YOLOC_USAGE;
    struct verify_arg a = {.module = module, .size = size, .out = text};
    if (o) memcpy(&a.o, o, o->size);
    if (!a.o.height) a.o.height = 160;
    if (!a.o.width) a.o.width = 160;
    if (!a.o.samples) a.o.samples = 2048;
    if (!(a.o.bound > 0)) a.o.bound = 1e-3;
    return call_run(c, verify_body, &a);
}
