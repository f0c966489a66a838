#include "trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "runtime/yolort.h"
#include "trial_child.h"

struct variant {
    void *bytes; /* kept while the module lives */
    size_t size;
    yolort_module *module;
    yolort_context *context;
};

struct cg_trials {
    struct yir_arena *arena;
    int threads, forms;
    struct variant variant[CG_MOST_TRIALS];
    void **buffer;        /* of inputs and outputs, shared by the variants */
    void **expected[2];   /* outputs of variant 0, for each form of the picture; NULL: not run yet */
    double *step_ms;
    struct trial_child *child; /* does all that; NULL: no child */
};

/* The inputs that are one form of the picture each, of which the binding of one unbinds the other; a network may have no such
 * choice. */
static const char *const forms[] = {"input_u8", "images"};

static int fail(struct cg_trial *out, const char *what, const char *why)
{
    snprintf(out->error, sizeof out->error, "%s: %s", what, why);
    return -1;
}

static void free_variant(struct variant *v)
{
    yolort_context_free(v->context);
    yolort_module_free(v->module);
    free(v->bytes);
    *v = (struct variant){0};
}

void cg_trials_free(struct cg_trials *t)
{
    if (t->child) trial_child_drop(t->child);
    for (size_t i = 0; i < CG_MOST_TRIALS; i++) free_variant(&t->variant[i]);
}

/* Also called when memory has run out half-way. */
static void free_all(void *trials)
{
    struct cg_trials *t = trials;
    cg_trials_free(t);
    if (t->child) trial_child_end(t->child);
}

struct cg_trials *cg_trials_new(struct yir_arena *a, int threads, bool apart, double patience_s)
{
    struct cg_trials *t = yir_alloc(a, sizeof *t);
    *t = (struct cg_trials){.arena = a, .threads = threads, .forms = 1};
    if (apart) t->child = trial_child_new(a, threads, patience_s);
    yir_arena_defer(a, free_all, t);
    return t;
}

const char *cg_trials_device(const struct cg_trials *t)
{
    return t->child ? trial_child_gpu(t->child) : cg_cpu_name(t->arena);
}

int cg_trials_engines(struct cg_trials *t, const struct ym_conv *c, bool deterministic, uint64_t most_space, struct cg_trial *out)
{
    char why[CG_TRIAL_ERROR];
    if (t->child) return trial_child_engines(t->child, c, deterministic, most_space, out);
    return yolort_cudnn_engines(0, c, sizeof *c, deterministic, most_space, out->error, sizeof out->error, why, sizeof why) ? -1 : 0;
}

int cg_trials_forms(const struct cg_trials *t)
{
    return t->child ? trial_child_forms(t->child) : t->forms;
}

/* --- buffers ------------------------------------------------------------------------------------------------ */

static size_t io_bytes(const yolort_io *io)
{
    return io->bytes_per_image * (size_t)io->dim[0];
}

/* Pixels of noise: zeros and repeated values run faster on some machines. */
static void fill(const yolort_io *io, void *to, uint32_t *seed)
{
    size_t n = io_bytes(io) / (io->dtype == YOLORT_F32 ? sizeof(float) : 1);
    for (size_t k = 0; k < n; k++) {
        *seed = *seed * 1664525u + 1013904223u;
        if (io->dtype == YOLORT_F32)
            ((float *)to)[k] = (float)(*seed >> 8) * 0x1p-24f;
        else
            ((uint8_t *)to)[k] = (uint8_t)(*seed >> 24);
    }
}

static void make_buffers(struct cg_trials *t, const yolort_module *m)
{
    size_t n = yolort_io_count(m);
    uint32_t seed = 12345;
    t->buffer = yir_alloc_n(t->arena, n + 1, sizeof *t->buffer);
    t->step_ms = yir_alloc_n(t->arena, yolort_step_count(m) + 1, sizeof *t->step_ms);
    for (size_t i = 0; i < n; i++) {
        const yolort_io *io = yolort_io_at(m, i);
        t->buffer[i] = yir_alloc(t->arena, io_bytes(io));
        if (!io->is_output) fill(io, t->buffer[i], &seed);
    }
    t->forms = yolort_io_find(m, forms[0]) >= 0 && yolort_io_find(m, forms[1]) >= 0 ? 2 : 1;
}

/* Everything, the form last. */
static int bind_all(const struct cg_trials *t, const struct variant *v, int form, struct cg_trial *out)
{
    int last = t->forms == 2 ? yolort_io_find(v->module, forms[form]) : 0;
    size_t n = yolort_io_count(v->module);
    for (size_t k = 1; k <= n; k++) {
        size_t i = (k + (size_t)last) % n;
        if (yolort_bind(v->context, i, t->buffer[i], io_bytes(yolort_io_at(v->module, i))))
            return fail(out, "bind", yolort_error(v->context));
    }
    return 0;
}

/* --- runs --------------------------------------------------------------------------------------------------- */

int cg_trials_load(struct cg_trials *t, int number, void *bytes, size_t size, struct cg_trial *out)
{
    struct variant *v = &t->variant[number];
    yolort_context_opts co;
    char error[200] = "";
    if (t->child) return trial_child_load(t->child, number, bytes, size, out);
    free_variant(v);
    v->bytes = bytes;
    v->size = size;
    if (yolort_load(&v->module, bytes, size, error, sizeof error)) return fail(out, "load", error);
    if (!t->buffer) make_buffers(t, v->module);
    yolort_context_opts_init(&co, sizeof co);
    co.threads = t->threads;
    if (yolort_context_new(&v->context, v->module, &co)) return fail(out, "context", "can't be made");
    yolort_profile(v->context, YOLORT_STEPS | YOLORT_STEPS_ALONE);
    return 0;
}

/* The largest difference of an output from what is expected, relative to the mean size of its elements. */
static double output_apart(const float *x, const float *y, size_t n)
{
    double most = 0, mean = 0;
    for (size_t k = 0; k < n; k++) {
        double apart = fabs((double)x[k] - (double)y[k]);
        bool same = x[k] == y[k] || (x[k] != x[k] && y[k] != y[k]); /* infinities and NaN of bad weights */
        if (!same && !(apart <= most)) most = apart;                /* NaN beside a number counts as apart */
        if (isfinite(y[k])) mean += fabs((double)y[k]) / (double)n;
    }
    return most == 0 ? 0 : most / (mean > 0 ? mean : 1);
}

static double compare_outputs(struct cg_trials *t, const yolort_module *m, int form, bool first)
{
    double worst = 0;
    if (first) t->expected[form] = yir_alloc_n(t->arena, yolort_io_count(m), sizeof *t->expected[form]);
    for (size_t i = 0; i < yolort_io_count(m); i++) {
        const yolort_io *io = yolort_io_at(m, i);
        if (!io->is_output || io->dtype != YOLORT_F32) continue;
        if (first) {
            t->expected[form][i] = yir_alloc(t->arena, io_bytes(io));
            memcpy(t->expected[form][i], t->buffer[i], io_bytes(io));
            continue;
        }
        double apart = output_apart(t->buffer[i], t->expected[form][i], io_bytes(io) / sizeof(float));
        if (!(apart <= worst)) worst = apart;
    }
    return worst;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int take_steps(const struct cg_trials *t, const struct variant *v, struct cg_trial *out)
{
    out->nstep = (uint32_t)yolort_step_count(v->module);
    out->step_ms = t->step_ms;
    for (uint32_t i = 0; i < out->nstep; i++) {
        yolort_step s;
        if (yolort_step_at(v->context, i, &s)) return fail(out, "times", yolort_error(v->context));
        t->step_ms[i] = yolort_step_engine(v->context, i) < 0 ? -s.ms : s.ms;
    }
    return 0;
}

int cg_trials_run(struct cg_trials *t, int number, int form, bool compare, struct cg_trial *out)
{
    const struct variant *v = &t->variant[number];
    if (t->child) return trial_child_run(t->child, number, form, compare, out);
    if (bind_all(t, v, form, out)) return -1;
    double before = now_ms();
    yolort_status s = yolort_run(v->context, (int)yolort_io_at(v->module, 0)->dim[0], NULL);
    if (s == YOLORT_OK) s = yolort_wait(v->context);
    out->ms = now_ms() - before;
    if (s != YOLORT_OK) return fail(out, "run", yolort_error(v->context));
    out->apart = compare ? compare_outputs(t, v->module, form, number == 0) : 0;
    return take_steps(t, v, out);
}
