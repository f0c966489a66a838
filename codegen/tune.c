#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/yolort.h"

enum { MOST_VARIANTS = 16, MOST_ROUNDS = 40 };

/* What the modes do. worth: candidates predicted slower than this many times the best are not tried. */
static const struct mode {
    int variants, rounds;
    double worth, budget_s;
} modes[] = {
    [CG_TUNE_OFF] = {1, 0, 1, 0},
    [CG_TUNE_FAST] = {5, 9, 1.35, 20},
    [CG_TUNE_FULL] = {MOST_VARIANTS, 25, 2.0, 300},
};

#define MARGIN 0.97 /* of the predicted configuration's time, that a challenger must stay under */

struct group {
    const char *text;                     /* op_text */
    const char *label;                    /* of its first kernel */
    size_t len;
    struct cg_config candidate[MOST_VARIANTS];
    int ncandidate, kernels;
    bool open;                            /* to be measured: there is no record */
    int chosen;
    double *ms[MOST_VARIANTS];            /* [rounds]: mean over the group's kernels */
    double median[MOST_VARIANTS];
};

struct variant {
    void *bytes;
    size_t size;
    yolort_module *module;
    yolort_context *context;
};

struct tuner {
    struct yir_arena *arena;
    struct yir_diags *diags;
    const struct yir_func *f;
    const struct cg_target *t;
    const struct cg_opts *base;
    const struct cg_tune_opts *o;
    const struct mode *mode;
    struct group **group; /* [ngroup] */
    size_t ngroup, cap_group;
    uint32_t *of_kernel;  /* group of each kernel */
    uint32_t nkernel;
    int now;              /* variant being made; -1: groups are being collected, -2: the winners */
    struct variant variant[MOST_VARIANTS + 1];
    void **buffer;        /* of inputs and outputs, shared by the variants; outputs of variant 0 are kept in `expected` */
    void **expected;
    double start;
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool over_budget(const struct tuner *w)
{
    double budget = w->o->budget_s > 0 ? w->o->budget_s : w->mode->budget_s;
    return seconds() - w->start > budget;
}

static void progress(const struct tuner *w, const char *what, int done, int total, double left)
{
    if (w->o->progress) w->o->progress(w->o->user, what, done, total, left);
}

/* --- groups and records ------------------------------------------------------------------------------------- */

static struct group *find_group(struct tuner *w, const char *text, size_t len, uint32_t *number)
{
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->len == len && !memcmp(w->group[i]->text, text, len)) {
            *number = (uint32_t)i;
            return w->group[i];
        }
    return NULL;
}

static struct cg_tune_key key_of(struct tuner *w, const struct group *g)
{
    struct yir_str space = {.arena = w->arena};
    for (int i = 0; i < g->ncandidate; i++) yir_str_fmt(&space, "%s\n", cg_config_text(w->arena, &g->candidate[i]));
    return (struct cg_tune_key){.op = g->text,
                                .op_len = g->len,
                                .target = yir_format(w->arena, "%s, %s", w->t->text, cg_cpu_name(w->arena)),
                                .threads = w->o->threads,
                                .versions = w->o->versions,
                                .space = space.text};
}

/* A record counts when what it names is legal today. */
static void look_up(struct tuner *w, struct group *g)
{
    struct cg_tune_record r;
    struct cg_tune_key k = key_of(w, g);
    g->open = g->ncandidate > 1;
    if (!g->open || !cg_tunedb_lookup(w->o->db, &k, &r)) return;
    size_t i = cg_config_find(w->arena, r.config, g->candidate, (size_t)g->ncandidate);
    if (i >= (size_t)g->ncandidate) return;
    g->chosen = (int)i;
    g->open = false;
}

static struct group *add_group(struct tuner *w, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct group *g = yir_alloc(w->arena, sizeof *g);
    *g = (struct group){.text = k->op_text, .len = k->op_text_len};
    for (size_t i = 0; i < n && g->ncandidate < w->mode->variants; i++) {
        bool generic = legal[i].family == CG_GENERIC;
        if (i && (generic || legal[i].cycles > legal[0].cycles * w->mode->worth)) break;
        g->candidate[g->ncandidate++] = legal[i];
    }
    for (int v = 0; v < g->ncandidate; v++) g->ms[v] = yir_alloc_n(w->arena, MOST_ROUNDS, sizeof *g->ms[v]);
    w->group = yir_grow(w->arena, w->group, &w->cap_group, w->ngroup + 1, sizeof *w->group);
    w->group[w->ngroup++] = g;
    look_up(w, g);
    return g;
}

static int candidate_of(const struct tuner *w, const struct group *g)
{
    if (w->now < 0 || !g->open) return g->chosen;
    return w->now < g->ncandidate ? w->now : 0;
}

static size_t choose(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct tuner *w = user;
    uint32_t number = 0;
    struct group *g = find_group(w, k->op_text, k->op_text_len, &number);
    if (!g && w->now != -1) return 0;
    if (!g) {
        number = (uint32_t)w->ngroup;
        g = add_group(w, k, legal, n);
    }
    if (w->now == -1) {
        w->of_kernel[w->nkernel++] = number;
        g->kernels++;
    }
    const struct cg_config *c = &g->candidate[candidate_of(w, g)];
    for (size_t i = 0; i < n; i++)
        if (legal[i].family == c->family && !memcmp(legal[i].knob, c->knob, sizeof c->knob)) return i;
    return 0;
}

static void collect(struct tuner *w)
{
    struct cg_opts o = *w->base;
    o.choose = choose;
    o.choose_user = w;
    w->now = -1;
    w->of_kernel = yir_alloc_n(w->arena, w->f->nkernel + 1u, sizeof *w->of_kernel);
    struct cg_program *p = cg_kernels(w->arena, w->f, w->t, &o);
    for (uint32_t i = p->nkernel; i-- > 0;) w->group[w->of_kernel[i]]->label = p->kernel[i].label;
}

/* --- variants ----------------------------------------------------------------------------------------------- */

static int runtime_failed(struct tuner *w, const char *what, const char *why)
{
    return yir_diag(w->diags, (struct yir_loc){0}, E_TUNE, "tuning: %s: %s", what, why);
}

static int bind_all(struct tuner *w, struct variant *v)
{
    for (size_t i = 0; i < yolort_io_count(v->module); i++) {
        const yolort_io *io = yolort_io_at(v->module, i);
        size_t bytes = io->bytes_per_image * (size_t)io->dim[0];
        if (!w->buffer[i]) w->buffer[i] = yir_alloc(w->arena, bytes);
        if (!io->is_output && strcmp(io->name, "input_u8") && yolort_io_find(v->module, "input_u8") >= 0) continue;
        if (yolort_bind(v->context, i, w->buffer[i], bytes)) return runtime_failed(w, "bind", yolort_error(v->context));
    }
    return 0;
}

static int make_variant(struct tuner *w, int number, struct variant *v)
{
    struct cg_opts o = *w->base;
    char error[256] = "";
    o.choose = choose;
    o.choose_user = w;
    w->now = number;
    if (w->o->make(w->o->user, &o, &v->bytes, &v->size)) return -1;
    if (yolort_load(&v->module, v->bytes, v->size, error, sizeof error)) return runtime_failed(w, "load", error);
    yolort_context_opts co;
    yolort_context_opts_init(&co, sizeof co);
    co.threads = w->o->threads;
    if (yolort_context_new(&v->context, v->module, &co)) return runtime_failed(w, "context", "no memory");
    yolort_profile(v->context, 1);
    return bind_all(w, v);
}

static void free_variant(struct variant *v)
{
    yolort_context_free(v->context);
    yolort_module_free(v->module);
    free(v->bytes);
    *v = (struct variant){0};
}

/* Also called when memory has run out half-way. */
static void free_variants(void *tuner)
{
    struct tuner *w = tuner;
    for (size_t i = 0; i < YIR_COUNT(w->variant); i++) free_variant(&w->variant[i]);
}

static int run_variant(struct tuner *w, struct variant *v, double *ms)
{
    double before = seconds();
    yolort_status s = yolort_run(v->context, (int)yolort_io_at(v->module, 0)->dim[0], NULL);
    if (s == YOLORT_OK) s = yolort_wait(v->context);
    *ms = (seconds() - before) * 1e3;
    return s == YOLORT_OK ? 0 : runtime_failed(w, "run", yolort_error(v->context));
}

/* Pixels of noise: zeros and repeated values run faster on some machines. */
static void fill_inputs(struct tuner *w, const struct variant *v)
{
    uint32_t seed = 12345;
    for (size_t i = 0; i < yolort_io_count(v->module); i++) {
        const yolort_io *io = yolort_io_at(v->module, i);
        size_t n = io->bytes_per_image * (size_t)io->dim[0];
        if (io->is_output) continue;
        for (size_t k = 0; k < n / (io->dtype == YOLORT_F32 ? 4 : 1); k++) {
            seed = seed * 1664525u + 1013904223u;
            if (io->dtype == YOLORT_F32)
                ((float *)w->buffer[i])[k] = (float)(seed >> 8) * 0x1p-24f;
            else
                ((uint8_t *)w->buffer[i])[k] = (uint8_t)(seed >> 24);
        }
    }
}

/* The largest difference of the outputs from those of variant 0, relative to the mean size of an output's elements. */
static double difference(struct tuner *w, const struct variant *v, bool first)
{
    double worst = 0;
    for (size_t i = 0; i < yolort_io_count(v->module); i++) {
        const yolort_io *io = yolort_io_at(v->module, i);
        size_t bytes = io->bytes_per_image * (size_t)io->dim[0], n = bytes / sizeof(float);
        if (!io->is_output || io->dtype != YOLORT_F32) continue;
        if (first) {
            w->expected[i] = yir_alloc(w->arena, bytes);
            memcpy(w->expected[i], w->buffer[i], bytes);
            continue;
        }
        const float *x = w->buffer[i], *y = w->expected[i];
        double most = 0, mean = 0;
        for (size_t k = 0; k < n; k++) {
            double apart = fabs((double)x[k] - (double)y[k]);
            if (!(apart <= most)) most = apart; /* NaN counts as apart */
            mean += fabs((double)y[k]) / (double)n;
        }
        if (!(most <= worst * mean)) worst = most / (mean > 0 ? mean : 1);
    }
    return worst;
}

/* --- measuring ---------------------------------------------------------------------------------------------- */

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n ? v[n / 2] : 0;
}

static int note_times(struct tuner *w, const struct variant *v, int number, int round)
{
    for (uint32_t i = 0; i < w->nkernel; i++) {
        struct group *g = w->group[w->of_kernel[i]];
        yolort_step s;
        if (number >= g->ncandidate || !g->open) continue;
        if (yolort_step_at(v->context, i, &s)) return runtime_failed(w, "times", yolort_error(v->context));
        g->ms[number][round] += s.ms / g->kernels;
    }
    return 0;
}

static int most_candidates(const struct tuner *w)
{
    int most = 0;
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->open && w->group[i]->ncandidate > most) most = w->group[i]->ncandidate;
    return most;
}

/* Makes the variants while the budget lasts; half of it stays for measuring. Their number, or -1. */
static int make_variants(struct tuner *w, int wanted)
{
    double budget = w->o->budget_s > 0 ? w->o->budget_s : w->mode->budget_s;
    for (int v = 0; v < wanted; v++) {
        double spent = seconds() - w->start;
        if (v >= 2 && spent + spent / v > 0.6 * budget) return v;
        progress(w, "candidates", v, wanted, v ? spent / v * (wanted - v) + 0.4 * budget : budget);
        if (make_variant(w, v, &w->variant[v])) return -1;
        double ms;
        if (v == 0) fill_inputs(w, &w->variant[0]);
        if (run_variant(w, &w->variant[v], &ms)) return -1;
        double apart = difference(w, &w->variant[v], v == 0);
        if (!(apart <= 1e-3))
            return yir_diag(w->diags, (struct yir_loc){0}, E_TUNE,
                            "tuning: candidate %d gives other results (off by %.2g of the mean); please report this", v, apart);
    }
    return wanted;
}

/* The variants in turn; the number of rounds, or -1. */
static int measure(struct tuner *w, int nvariant)
{
    double begun = seconds(), ms;
    int rounds = w->mode->rounds;
    for (int r = 0; r < rounds; r++) {
        if (r >= 3 && over_budget(w)) return r;
        progress(w, "rounds", r, rounds, r ? (seconds() - begun) / r * (rounds - r) : 0);
        for (int v = 0; v < nvariant; v++)
            if (run_variant(w, &w->variant[v], &ms) || note_times(w, &w->variant[v], v, r)) return -1;
    }
    return rounds;
}

static void report(const struct tuner *w, const struct group *g, int n)
{
    for (int v = 0; v < n && w->o->report; v++)
        w->o->report(w->o->user, g->label, cg_config_text(w->arena, &g->candidate[v]), g->candidate[v].cycles, g->median[v]);
}

static void pick_winners(struct tuner *w, int nvariant, int rounds)
{
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        if (!g->open) continue;
        int n = g->ncandidate < nvariant ? g->ncandidate : nvariant;
        for (int v = 0; v < n; v++) g->median[v] = median(g->ms[v], rounds);
        report(w, g, n);
        for (int v = 1; v < n; v++)
            if (g->median[v] < g->median[g->chosen] && g->median[v] < MARGIN * g->median[0]) g->chosen = v;
    }
}

/* Puts the network of the winners against the untuned one. */
static int compare(struct tuner *w, struct cg_tuned *out)
{
    struct variant *tuned = &w->variant[MOST_VARIANTS];
    double before[MOST_ROUNDS], after[MOST_ROUNDS];
    int n = w->mode->rounds;
    if (make_variant(w, -2, tuned)) return -1;
    for (int r = -1; r < n; r++) { /* the first round warms up */
        double b, t;
        if (run_variant(w, &w->variant[0], &b) || run_variant(w, tuned, &t)) return -1;
        if (r < 0) continue;
        before[r] = b;
        after[r] = t;
    }
    out->before_ms = median(before, n);
    out->after_ms = median(after, n);
    if (out->after_ms < out->before_ms) return 0;
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->open) w->group[i]->chosen = 0;
    return 0;
}

static void remember(struct tuner *w, int rounds)
{
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        if (!g->open) continue;
        struct cg_tune_key k = key_of(w, g);
        const double *ms = g->ms[g->chosen];
        struct cg_tune_record r = {.median_s = g->median[g->chosen] * 1e-3,
                                   .spread_s = rounds ? (ms[rounds * 9 / 10] - ms[rounds / 10]) * 1e-3 : 0};
        const char *text = cg_config_text(w->arena, &g->candidate[g->chosen]);
        if (strlen(text) >= sizeof r.config) continue;
        memcpy(r.config, text, strlen(text) + 1);
        cg_tunedb_store(w->o->db, &k, &r);
    }
}

static int tune_open(struct tuner *w, struct cg_tuned *out)
{
    int wanted = most_candidates(w);
    if (wanted < 2) return 0;
    int n = make_variants(w, wanted);
    if (n < 0) return -1;
    int rounds = measure(w, n);
    if (rounds < 0) return -1;
    pick_winners(w, n, rounds);
    if (compare(w, out)) return -1;
    remember(w, rounds);
    return 0;
}

static void sum_up(const struct tuner *w, struct cg_tuned *out)
{
    out->groups = (int)w->ngroup;
    for (size_t i = 0; i < w->ngroup; i++) {
        const struct group *g = w->group[i];
        out->measured += g->open;
        out->known += !g->open && g->ncandidate > 1;
        out->changed += g->chosen != 0;
    }
}

int cg_tune(struct yir_arena *a, struct yir_diags *d, const struct yir_func *f, const struct cg_target *t,
            const struct cg_opts *base, const struct cg_tune_opts *o, struct cg_tuned *out)
{
    struct tuner *w = yir_alloc(a, sizeof *w);
    *w = (struct tuner){.arena = a, .diags = d, .f = f, .t = t, .base = base, .o = o, .mode = &modes[o->mode], .start = seconds()};
    *out = (struct cg_tuned){.choose = choose, .choose_user = w};
    w->buffer = yir_alloc_n(a, f->ninput + f->noutput + 1u, sizeof *w->buffer);
    w->expected = yir_alloc_n(a, f->ninput + f->noutput + 1u, sizeof *w->expected);
    yir_arena_defer(a, free_variants, w);
    collect(w);
    int rc = tune_open(w, out);
    free_variants(w);
    w->now = -2;
    sum_up(w, out);
    return rc;
}
