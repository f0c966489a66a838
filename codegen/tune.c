#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measuring.h"
#include "runtime/yolort.h"

enum {
    MOST_VARIANTS = 16,
    MOST_ROUNDS = 40,
    LEAST_ROUNDS = 3, /* that give a median */
    FIRM_ROUNDS = 5   /* after which what was found is worth keeping should the process die */
};
#define KEEP_EVERY_S 2.0 /* between records of what was found so far */

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

enum state {
    DECIDED, /* by a record, by measuring, or for want of another candidate */
    OPEN,    /* to be measured */
    BUSY     /* another process measures it */
};

struct group {
    const char *text;                    /* op_text */
    const char *label;                   /* of its first kernel */
    size_t len;
    const char *space[CG_TUNE_FULL + 1]; /* text of each mode's candidates */
    struct cg_config candidate[MOST_VARIANTS];
    int ncandidate, kernels;
    enum state state;
    bool known, measured, claimed;       /* found in the records; decided by measuring; claimed by this process */
    struct cg_config chosen;
    double *ms[MOST_VARIANTS];           /* [samples]: mean over the group's kernels */
    int samples[MOST_VARIANTS], last[MOST_VARIANTS]; /* last: round, from 1, of the last sample */
    double median[MOST_VARIANTS];
    int best;                            /* candidate, by median */
};

struct variant {
    void *bytes;
    size_t size;
    yolort_module *module;
    yolort_context *context;
    double run_s; /* of its first run */
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
    void **buffer;        /* of inputs and outputs, shared by the variants */
    void **expected[2];   /* outputs of variant 0, for each form of the picture */
    int threads;
    double start, budget_s, make_s; /* make_s: what making a variant takes, at most so far */
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double left_s(const struct tuner *w)
{
    return w->start + w->budget_s - seconds();
}

static void progress(const struct tuner *w, const char *what, int done, int total, double left)
{
    double most = left_s(w);
    if (w->o->progress) w->o->progress(w->o->user, what, done, total, fmax(0, fmin(left, most)));
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

/* The number of legal configurations, from the first, that are a mode's candidates. */
static int count_candidates(enum cg_tune_mode mode, const struct cg_config *legal, size_t n)
{
    int count = 1;
    while ((size_t)count < n && count < modes[mode].variants && legal[count].family != CG_GENERIC &&
           legal[count].cycles <= legal[0].cycles * modes[mode].worth)
        count++;
    return count;
}

static struct cg_tune_key key_of(struct tuner *w, const struct group *g, enum cg_tune_mode mode)
{
    return (struct cg_tune_key){.op = g->text,
                                .op_len = g->len,
                                .target = yir_format(w->arena, "%s, %s", w->t->text, cg_cpu_name(w->arena)),
                                .threads = w->threads,
                                .versions = w->o->versions,
                                .space = g->space[mode]};
}

/* A record counts when what it names is among what is legal today. */
static bool use_record(struct tuner *w, struct group *g, const struct cg_config *legal, size_t n, const struct cg_tune_record *r)
{
    size_t i = cg_config_find(w->arena, r->config, legal, n);
    if (i >= n) return false;
    g->chosen = legal[i];
    g->known = true;
    g->state = DECIDED;
    return true;
}

/* What the thorough mode has found serves the fast one too. */
static void look_up(struct tuner *w, struct group *g, const struct cg_config *legal, size_t n)
{
    for (enum cg_tune_mode mode = CG_TUNE_FULL; mode >= w->o->mode && mode > CG_TUNE_OFF; mode--) {
        struct cg_tune_record r;
        struct cg_tune_key k = key_of(w, g, mode);
        if (cg_tunedb_lookup(w->o->db, &k, &r) && use_record(w, g, legal, (size_t)count_candidates(mode, legal, n), &r)) return;
    }
}

static const char *space_text(struct tuner *w, const struct cg_config *legal, int n)
{
    struct yir_str space = {.arena = w->arena};
    for (int i = 0; i < n; i++) yir_str_fmt(&space, "%s\n", cg_config_text(w->arena, &legal[i]));
    return space.text;
}

static struct group *add_group(struct tuner *w, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct group *g = yir_alloc(w->arena, sizeof *g);
    *g = (struct group){.text = k->op_text, .len = k->op_text_len, .chosen = legal[0]};
    for (enum cg_tune_mode m = CG_TUNE_FAST; m <= CG_TUNE_FULL; m++)
        g->space[m] = space_text(w, legal, count_candidates(m, legal, n));
    g->ncandidate = count_candidates(w->o->mode, legal, n);
    memcpy(g->candidate, legal, (size_t)g->ncandidate * sizeof *legal);
    for (int v = 0; v < g->ncandidate; v++) g->ms[v] = yir_alloc_n(w->arena, MOST_ROUNDS, sizeof *g->ms[v]);
    w->group = yir_grow(w->arena, w->group, &w->cap_group, w->ngroup + 1, sizeof *w->group);
    w->group[w->ngroup++] = g;
    g->state = g->ncandidate > 1 ? OPEN : DECIDED;
    if (g->state == OPEN) look_up(w, g, legal, n);
    return g;
}

static const struct cg_config *config_now(const struct tuner *w, const struct group *g)
{
    if (w->now < 0 || g->state != OPEN) return &g->chosen;
    return &g->candidate[w->now < g->ncandidate ? w->now : 0];
}

static bool same_config(const struct cg_config *x, const struct cg_config *y)
{
    return x->family == y->family && !memcmp(x->knob, y->knob, sizeof x->knob);
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
    for (size_t i = 0; i < n; i++)
        if (same_config(&legal[i], config_now(w, g))) return i;
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

/* The inputs that are one form of the picture each, of which the binding of one unbinds the other; a network may have no such
 * choice. */
static const char *const forms[] = {"input_u8", "images"};

static int form_count(const struct variant *v)
{
    return yolort_io_find(v->module, forms[0]) >= 0 && yolort_io_find(v->module, forms[1]) >= 0 ? 2 : 1;
}

/* Everything, the form last. */
static int bind_all(struct tuner *w, struct variant *v, int form)
{
    int last = form_count(v) == 2 ? yolort_io_find(v->module, forms[form]) : 0;
    size_t n = yolort_io_count(v->module);
    for (size_t k = 1; k <= n; k++) {
        size_t i = (k + (size_t)last) % n;
        const yolort_io *io = yolort_io_at(v->module, i);
        size_t bytes = io->bytes_per_image * (size_t)io->dim[0];
        if (!w->buffer[i]) w->buffer[i] = yir_alloc(w->arena, bytes);
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
    co.threads = w->threads;
    if (yolort_context_new(&v->context, v->module, &co)) return runtime_failed(w, "context", "no memory");
    yolort_profile(v->context, 1);
    return bind_all(w, v, 0);
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
static double difference(struct tuner *w, const struct variant *v, void **expected, bool first)
{
    double worst = 0;
    for (size_t i = 0; i < yolort_io_count(v->module); i++) {
        const yolort_io *io = yolort_io_at(v->module, i);
        size_t bytes = io->bytes_per_image * (size_t)io->dim[0], n = bytes / sizeof(float);
        if (!io->is_output || io->dtype != YOLORT_F32) continue;
        if (first) {
            expected[i] = yir_alloc(w->arena, bytes);
            memcpy(expected[i], w->buffer[i], bytes);
            continue;
        }
        const float *x = w->buffer[i], *y = expected[i];
        double most = 0, mean = 0;
        for (size_t k = 0; k < n; k++) {
            double apart = fabs((double)x[k] - (double)y[k]);
            bool same = x[k] == y[k] || (x[k] != x[k] && y[k] != y[k]); /* infinities and NaN of bad weights */
            if (!same && !(apart <= most)) most = apart;                /* NaN beside a number counts as apart */
            if (isfinite(y[k])) mean += fabs((double)y[k]) / (double)n;
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

/* A kernel for the other form of the picture does not run and takes no time. */
static int note_times(struct tuner *w, const struct variant *v, int number, int round)
{
    for (uint32_t i = 0; i < w->nkernel; i++) {
        struct group *g = w->group[w->of_kernel[i]];
        yolort_step s;
        if (number >= g->ncandidate || g->state != OPEN) continue;
        if (yolort_step_at(v->context, i, &s)) return runtime_failed(w, "times", yolort_error(v->context));
        if (!(s.ms > 0)) continue;
        if (g->last[number] != round) g->ms[number][g->samples[number]++] = 0;
        g->last[number] = round;
        g->ms[number][g->samples[number] - 1] += s.ms / g->kernels;
    }
    return 0;
}

static int most_candidates(const struct tuner *w)
{
    int most = 0;
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->state == OPEN && w->group[i]->ncandidate > most) most = w->group[i]->ncandidate;
    return most;
}

static bool is_apart(struct tuner *w, int v, int form)
{
    double apart = difference(w, &w->variant[v], w->expected[form], v == 0);
    if (apart <= 1e-3) return false;
    yir_diag(w->diags, (struct yir_loc){0}, E_TUNE,
             "tuning: candidate %d gives other results (off by %.2g of the mean); please report this", v, apart);
    return true;
}

/* Runs it on each form of the picture. */
static int try_variant(struct tuner *w, int number)
{
    struct variant *v = &w->variant[number];
    for (int form = form_count(v); form-- > 0;) {
        double ms;
        if (bind_all(w, v, form) || run_variant(w, v, &ms)) return -1;
        v->run_s = ms * 1e-3;
        if (is_apart(w, number, form)) return -1;
    }
    return 0;
}

/* Seconds for measuring n variants for some rounds and comparing the winners for as many. */
static double needed_s(const struct tuner *w, int n, int rounds)
{
    double one = w->variant[0].run_s;
    return rounds * (n + 2) * one + w->make_s;
}

/* Makes the variants while the budget lasts; part of it stays for measuring. Their number, or -1. */
static int make_variants(struct tuner *w, int wanted)
{
    double begun = seconds(), budget = left_s(w);
    for (int v = 0; v < wanted; v++) {
        double before = seconds(), spent = before - begun, more = v ? spent / v : 0;
        if (v >= 1 && spent + more + needed_s(w, v + 1, LEAST_ROUNDS) > budget) return v;
        if (v >= 2 && spent + more > 0.6 * budget) return v;
        progress(w, "candidate", v, wanted, v ? more * (wanted - v) + needed_s(w, wanted, w->mode->rounds) : budget);
        if (make_variant(w, v, &w->variant[v])) return -1;
        w->make_s = seconds() - before;
        if (v == 0) fill_inputs(w, &w->variant[0]);
        if (try_variant(w, v)) return -1;
    }
    return wanted;
}

/* --- what is found ------------------------------------------------------------------------------------------ */

static void pick_winner(struct group *g, int nvariant)
{
    int n = g->ncandidate < nvariant ? g->ncandidate : nvariant;
    g->best = 0;
    for (int v = 0; v < n; v++) g->median[v] = median(g->ms[v], g->samples[v]);
    for (int v = 1; v < n; v++)
        if (g->samples[v] && g->median[v] < g->median[g->best] && g->median[v] < MARGIN * g->median[0]) g->best = v;
}

static void pick_winners(struct tuner *w, int nvariant)
{
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->state == OPEN) pick_winner(w->group[i], nvariant);
}

static void report(const struct tuner *w, int nvariant)
{
    for (size_t i = 0; i < w->ngroup && w->o->report; i++) {
        const struct group *g = w->group[i];
        for (int v = 0; g->state == OPEN && v < g->ncandidate && v < nvariant; v++)
            w->o->report(w->o->user, g->label, cg_config_text(w->arena, &g->candidate[v]), g->candidate[v].cycles, g->median[v]);
    }
}

/* Keeping a record gives the claim up. */
static void remember(struct tuner *w, struct group *g)
{
    struct cg_tune_key k = key_of(w, g, w->o->mode);
    const double *ms = g->ms[g->best]; /* in order since the median was taken */
    int n = g->samples[g->best];
    struct cg_tune_record r = {.median_s = g->median[g->best] * 1e-3, .spread_s = n ? (ms[n * 9 / 10] - ms[n / 10]) * 1e-3 : 0};
    const char *text = cg_config_text(w->arena, &g->candidate[g->best]);
    if (strlen(text) >= sizeof r.config) return;
    memcpy(r.config, text, strlen(text) + 1);
    if (cg_tunedb_store(w->o->db, &k, &r)) g->claimed = false;
}

static void remember_all(struct tuner *w)
{
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->state == OPEN) remember(w, w->group[i]);
}

/* The variants in turn, rounds with one form of the picture and the other. Should the process be killed, what it had found by then is kept. */
static int measure(struct tuner *w, int nvariant)
{
    double begun = seconds(), kept = begun, ms;
    int rounds = w->mode->rounds;
    for (int r = 0; r < rounds; r++) {
        double now = seconds(), round = r ? (now - begun) / r : nvariant * w->variant[0].run_s, last = needed_s(w, 0, LEAST_ROUNDS);
        if (r >= LEAST_ROUNDS && round + last > left_s(w)) return 0;
        if (r >= FIRM_ROUNDS && now - kept > KEEP_EVERY_S) {
            pick_winners(w, nvariant);
            remember_all(w);
            kept = now;
        }
        progress(w, "round", r, rounds, round * (rounds - r) + last);
        for (int v = 0; v < nvariant; v++) {
            struct variant *x = &w->variant[v];
            if (bind_all(w, x, r % form_count(x)) || run_variant(w, x, &ms) || note_times(w, x, v, r + 1)) return -1;
        }
    }
    return 0;
}

static void decide(struct tuner *w, bool tuned)
{
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        if (g->state != OPEN) continue;
        if (!tuned) g->best = 0;
        g->chosen = g->candidate[g->best];
    }
}

static bool any_changed(const struct tuner *w)
{
    bool any = false;
    for (size_t i = 0; i < w->ngroup; i++) any |= w->group[i]->state == OPEN && w->group[i]->best != 0;
    return any;
}

/* The untuned network and the winners' in turn; the number of rounds, or -1. */
static int run_both(struct tuner *w, double *before, double *after)
{
    struct variant *tuned = &w->variant[MOST_VARIANTS];
    int n = 0;
    for (int r = -1; r < w->mode->rounds; r++) { /* the first round warms up */
        double b, t;
        if (r >= LEAST_ROUNDS && left_s(w) < 2 * w->variant[0].run_s) break;
        if (run_variant(w, &w->variant[0], &b) || run_variant(w, tuned, &t)) return -1;
        if (r < 0) continue;
        before[n] = b;
        after[n++] = t;
    }
    return n;
}

/* Keeps the winners when their network is faster than the untuned one, else nothing is changed. */
static int compare(struct tuner *w, struct cg_tuned *out)
{
    double before[MOST_ROUNDS], after[MOST_ROUNDS];
    decide(w, true);
    if (!any_changed(w)) return 0;
    progress(w, "comparison", 0, 1, needed_s(w, 0, w->mode->rounds));
    if (make_variant(w, -2, &w->variant[MOST_VARIANTS]) || bind_all(w, &w->variant[0], 0)) return -1;
    int n = run_both(w, before, after);
    if (n < 0) return -1;
    double untuned = median(before, n), tuned = median(after, n);
    bool better = tuned < untuned;
    if (!better) decide(w, false);
    if (!(out->before_ms > 0)) out->before_ms = untuned;
    out->after_ms = better ? tuned : untuned;
    return 0;
}

static void close_open(struct tuner *w)
{
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        g->measured |= g->state == OPEN;
        g->state = g->state == OPEN ? DECIDED : g->state;
    }
}

/* Measures what is open. What the budget does not suffice for stays open. */
static int tune_open(struct tuner *w, struct cg_tuned *out)
{
    int wanted = most_candidates(w);
    if (wanted < 2) return 0;
    int n = make_variants(w, wanted);
    if (n < 2) return n < 0 ? -1 : 0;
    if (measure(w, n)) return -1;
    pick_winners(w, n);
    report(w, n);
    if (compare(w, out)) return -1;
    remember_all(w);
    close_open(w);
    return 0;
}

/* --- other processes ---------------------------------------------------------------------------------------- */

static void claim(struct tuner *w, struct group *g, double wait_s)
{
    struct cg_tune_record r;
    struct cg_tune_key k = key_of(w, g, w->o->mode);
    enum cg_tune_claim c = cg_tunedb_claim(w->o->db, &k, wait_s, &r);
    g->state = c == CG_TUNE_BUSY ? BUSY : OPEN;
    g->claimed = c == CG_TUNE_MINE;
    if (c == CG_TUNE_FOUND) use_record(w, g, g->candidate, (size_t)g->ncandidate, &r);
}

static void claim_open(struct tuner *w)
{
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->state == OPEN) claim(w, w->group[i], 0);
}

/* What others hold is waited for, a while in all; then it is measured here too. The number of groups opened. */
static int claim_busy(struct tuner *w)
{
    double end = seconds() + CG_TUNE_WAIT_S;
    int opened = 0;
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        if (g->state != BUSY) continue;
        claim(w, g, fmax(0, end - seconds()));
        if (g->state == BUSY) g->state = OPEN;
        opened += g->state == OPEN;
    }
    return opened;
}

static void release_claims(struct tuner *w)
{
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        struct cg_tune_key k = key_of(w, g, w->o->mode);
        if (g->claimed) cg_tunedb_release(w->o->db, &k);
        g->claimed = false;
    }
}

static void tell_waiting(void *tuner)
{
    progress(tuner, "another process measures", 0, 0, HUGE_VAL);
}

/* One process measures at a time; what it has found is there when the next one's turn comes. */
static int tune_in_turn(struct tuner *w, struct cg_tuned *out)
{
    struct cg_measuring *turn;
    if (most_candidates(w) < 2) return 0;
    cg_measuring_begin(&turn, w->arena, w->o->folder, 1.5 * w->budget_s + CG_TUNE_WAIT_S, tell_waiting, w);
    w->start = seconds();
    claim_open(w);
    int rc = tune_open(w, out);
    free_variants(w);
    if (!rc && claim_busy(w) && left_s(w) > 0) rc = tune_open(w, out);
    cg_measuring_end(turn);
    return rc;
}

static void sum_up(const struct tuner *w, struct cg_tuned *out)
{
    out->groups = (int)w->ngroup;
    for (size_t i = 0; i < w->ngroup; i++) {
        const struct group *g = w->group[i];
        out->measured += g->measured;
        out->known += g->known;
        out->left += g->state != DECIDED;
        out->changed += !same_config(&g->chosen, &g->candidate[0]);
    }
}

int cg_tune(struct yir_arena *a, struct yir_diags *d, const struct yir_func *f, const struct cg_target *t,
            const struct cg_opts *base, const struct cg_tune_opts *o, struct cg_tuned *out)
{
    struct tuner *w = yir_alloc(a, sizeof *w);
    *w = (struct tuner){.arena = a, .diags = d, .f = f, .t = t, .base = base, .o = o, .mode = &modes[o->mode]};
    *out = (struct cg_tuned){.choose = choose, .choose_user = w};
    w->threads = o->threads > 0 ? o->threads : yolort_cpu_threads();
    w->budget_s = o->budget_s > 0 ? o->budget_s : w->mode->budget_s;
    w->start = seconds();
    w->buffer = yir_alloc_n(a, f->ninput + f->noutput + 1u, sizeof *w->buffer);
    for (int i = 0; i < 2; i++) w->expected[i] = yir_alloc_n(a, f->ninput + f->noutput + 1u, sizeof *w->expected[i]);
    yir_arena_defer(a, free_variants, w);
    collect(w);
    int rc = tune_in_turn(w, out);
    free_variants(w);
    release_claims(w);
    w->now = -2;
    sum_up(w, out);
    return rc;
}
