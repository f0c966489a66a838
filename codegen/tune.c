#include "tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "measuring.h"
#include "tune_group.h"

enum {
    AHEAD = 5,        /* variants whose kernels are compiled side by side */
    LEAST_ROUNDS = 3, /* that give a median */
    FIRM_ROUNDS = 5   /* after which what was found is worth keeping should the process die */
};
#define ASKING 0.4 /* of the budget: for what cuDNN proposes */
#define KEEP_EVERY_S 2.0 /* between records of what was found so far */
#define SINGLE_APART 1e-3 /* between outputs of variants, by the mean size of an element */
#define HALF_APART 0.5

/* What the modes do. worth: candidates predicted slower than this many times the best are not tried. */
static const struct mode {
    int variants, rounds;
    double worth, budget_s;
} modes[] = {
    [CG_TUNE_OFF] = {1, 0, 1, 0},
    [CG_TUNE_FAST] = {5, 9, 1.35, 20},
    [CG_TUNE_FULL] = {TUNE_CONFIGS, 25, 2.0, 300},
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
    struct cg_choices choices;
    uint32_t nkernel;
    int now;              /* variant being made; -1: groups are being collected, -2: the winners */
    struct cg_trials *trials;
    const char *device;   /* that measures, as text */
    bool listed;          /* cuDNN was asked for its engines */
    bool lost[CG_MOST_TRIALS]; /* variants that failed, on devices where that is no fault of ours alone */
    double run_s;         /* of the first run of variant 0 */
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

/* -1 after reporting. */
static int check_stop(const struct tuner *w)
{
    if (!w->o->stop || !w->o->stop(w->o->user)) return 0;
    return yir_diag(w->diags, (struct yir_loc){0}, E_INTERRUPTED, "tuning was interrupted");
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
                                .target = yir_format(w->arena, "%s, %s", w->t->text, w->device),
                                .threads = w->threads,
                                .versions = w->o->versions,
                                .space = g->space[mode]};
}

/* The engine that a record names behind its configuration; false: it is none, or none for this group. */
static bool read_engine(struct tuner *w, const struct group *g, const char *text, const struct cg_engine **out)
{
    struct cg_engine *e = yir_alloc(w->arena, sizeof *e);
    const char *end;
    *out = e;
    if (!g->fits || !cg_engine_read(text, &end, e) || *end || e->space > w->o->cudnn.most_space) return false;
    e->version = (uint32_t)w->o->cudnn.version;
    return true;
}

/* A record counts when what it names is among what is legal today; an engine is left to cuDNN to judge. */
static bool use_record(struct tuner *w, struct group *g, const struct cg_config *legal, size_t n, const struct cg_tune_record *r)
{
    const char *engine = strstr(r->config, TUNE_AND_ENGINE);
    const struct cg_engine *by = NULL;
    const char *config = yir_format(w->arena, "%.*s", engine ? (int)(engine - r->config) : CG_TUNE_CONFIG, r->config);
    size_t i = cg_config_find(w->arena, config, legal, n);
    if (i >= n || (engine && !read_engine(w, g, engine + strlen(TUNE_AND_ENGINE), &by))) return false;
    g->chosen = legal[i];
    g->chosen_engine = by;
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

/* In the full mode cuDNN's engines are candidates too, whichever there will be. */
static const char *space_text(struct tuner *w, const struct group *g, enum cg_tune_mode mode, const struct cg_config *legal, int n)
{
    struct yir_str space = {.arena = w->arena};
    const struct cg_tune_cudnn *c = &w->o->cudnn;
    for (int i = 0; i < n; i++) yir_str_fmt(&space, "%s\n", cg_config_text(w->arena, &legal[i]));
    if (g->fits && mode == CG_TUNE_FULL)
        yir_str_fmt(&space, "cudnn %d, %llu bytes%s\n", c->version, (unsigned long long)c->most_space, c->deterministic ? ", deterministic" : "");
    return space.text;
}

static bool may_list(const struct tuner *w, const struct group *g)
{
    return g->fits && w->o->mode == CG_TUNE_FULL && !w->listed;
}

/* Variants of a group; one engine at least is expected until cuDNN was asked. */
static int count_variants(const struct tuner *w, const struct group *g)
{
    return g->ncandidate + (may_list(w, g) ? 1 : g->nengine);
}

static void read_work(struct tuner *w, struct group *g, const struct cg_kernel *k)
{
    struct cg_engine_work work;
    g->fits = w->o->cudnn.version && cg_engine_work(w->f, k->first, k->last, w->base->max_batch, &work);
    if (g->fits) g->conv = work.conv;
}

static struct group *add_group(struct tuner *w, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct group *g = yir_alloc(w->arena, sizeof *g);
    *g = (struct group){.text = k->op_text, .len = k->op_text_len, .chosen = legal[0]};
    read_work(w, g, k);
    for (enum cg_tune_mode m = CG_TUNE_FAST; m <= CG_TUNE_FULL; m++)
        g->space[m] = space_text(w, g, m, legal, count_candidates(m, legal, n));
    g->ncandidate = count_candidates(w->o->mode, legal, n);
    memcpy(g->candidate, legal, (size_t)g->ncandidate * sizeof *legal);
    for (int v = 0; v < TUNE_VARIANTS; v++) g->ms[v] = yir_alloc_n(w->arena, TUNE_ROUNDS, sizeof *g->ms[v]);
    w->group = yir_grow(w->arena, w->group, &w->cap_group, w->ngroup + 1, sizeof *w->group);
    w->group[w->ngroup++] = g;
    g->state = count_variants(w, g) > 1 ? OPEN : DECIDED;
    if (g->state == OPEN) look_up(w, g, legal, n);
    return g;
}

static const struct cg_config *config_now(const struct tuner *w, const struct group *g)
{
    if (w->now < 0 || g->state != OPEN) return &g->chosen;
    return &g->candidate[w->now < g->ncandidate ? w->now : 0];
}

static const struct cg_engine *engine_now(const struct tuner *w, const struct group *g)
{
    if (w->now < 0 || g->state != OPEN) return g->chosen_engine;
    int i = w->now - g->ncandidate;
    return i >= 0 && i < g->nengine ? &g->engine[i] : NULL;
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

/* Kernels of one group may differ in where they find their memory. */
static const struct cg_engine *choose_engine(void *user, const struct cg_kernel *k)
{
    struct tuner *w = user;
    struct cg_engine_work work;
    uint32_t number;
    const struct group *g = find_group(w, k->op_text, k->op_text_len, &number);
    const struct cg_engine *e = g ? engine_now(w, g) : NULL;
    return e && cg_engine_work(w->f, k->first, k->last, w->base->max_batch, &work) && !memcmp(&work.conv, &g->conv, sizeof g->conv) ? e : NULL;
}

/* Options for the variant that is made now. */
static struct cg_opts opts_now(struct tuner *w)
{
    struct cg_opts o = *w->base;
    o.choose = choose;
    o.engine = choose_engine;
    o.choose_user = w;
    o.choices = &w->choices;
    return o;
}

static void collect(struct tuner *w)
{
    const struct cg_opts o = opts_now(w);
    w->now = -1;
    w->choices = (struct cg_choices){w->arena, yir_alloc_n(w->arena, w->f->nkernel + 1u, sizeof *w->choices.kernel)};
    w->of_kernel = yir_alloc_n(w->arena, w->f->nkernel + 1u, sizeof *w->of_kernel);
    struct cg_program *p = cg_kernels(w->arena, w->f, w->t, &o);
    for (uint32_t i = p->nkernel; i-- > 0;) w->group[w->of_kernel[i]]->label = p->kernel[i].label;
}

/* --- variants ----------------------------------------------------------------------------------------------- */

/* 1: a challenger's kernel that hangs or faults on a GPU is no candidate any more; -1 after reporting anything else. */
static int trial_failed(struct tuner *w, int v, const struct cg_trial *got)
{
    if (w->t->backend != CG_CUDA || v == 0 || v == TUNE_VARIANTS)
        return yir_diag(w->diags, (struct yir_loc){0}, E_TUNE, "tuning: %s", got->error);
    yir_diag(w->diags, (struct yir_loc){0}, W_TUNE, "tuning: candidate %d is left out: %s", v, got->error);
    w->lost[v] = true;
    return 1;
}

static int make_variant(struct tuner *w, int number, int trial)
{
    const struct cg_opts o = opts_now(w);
    struct cg_trial got = {0};
    void *bytes;
    size_t size;
    w->now = number;
    if (w->o->make(w->o->user, &o, &bytes, &size)) return -1;
    return cg_trials_load(w->trials, trial, bytes, size, &got) ? trial_failed(w, trial, &got) : 0;
}

/* A GPU's time is that of its kernels: what goes on between them is the same for all, and copies from the host would drown it. */
static double time_of(const struct tuner *w, const struct cg_trial *got)
{
    double sum = 0;
    for (uint32_t i = 0; i < got->nstep; i++) sum += fabs(got->step_ms[i]);
    return w->t->backend == CG_CUDA && sum > 0 ? sum : got->ms;
}

/* 0; 1: this variant is lost; -1 after reporting. */
static int run_variant(struct tuner *w, int v, int form, bool compare, struct cg_trial *got)
{
    *got = (struct cg_trial){0};
    return cg_trials_run(w->trials, v, form, compare, got) ? trial_failed(w, v, got) : 0;
}

/* --- measuring ---------------------------------------------------------------------------------------------- */

/* A kernel for the other form of the picture does not run and takes no time. */
static void note_times(struct tuner *w, const struct cg_trial *got, int number, int round)
{
    for (uint32_t i = 0; i < w->nkernel && i < got->nstep; i++) {
        struct group *g = w->group[w->of_kernel[i]];
        double ms = got->step_ms[i];
        if (number >= count_variants(w, g) || g->state != OPEN || !(ms > 0)) continue;
        if (g->last[number] != round) g->ms[number][g->samples[number]++] = 0;
        g->last[number] = round;
        g->ms[number][g->samples[number] - 1] += ms / g->kernels;
    }
}

static int most_candidates(const struct tuner *w)
{
    int most = 0;
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->state == OPEN && count_variants(w, w->group[i]) > most) most = count_variants(w, w->group[i]);
    return most;
}

/* Sums in another order differ by rounding; in half precision that of every layer on the way. */
static double most_apart(const struct tuner *w)
{
    for (uint32_t i = 1; i < w->f->nop; i++) {
        enum yir_dtype t = yir_tdesc(w->f->types, w->f->op[i].type)->dtype;
        if (t == YIR_F16 || t == YIR_BF16) return HALF_APART;
    }
    return SINGLE_APART;
}

static bool has_engine(const struct tuner *w, int v)
{
    for (size_t i = 0; i < w->ngroup; i++)
        if (v >= w->group[i]->ncandidate && v < w->group[i]->ncandidate + w->group[i]->nengine) return true;
    return false;
}

/* 1: a variant with engines of cuDNN is left out. */
static int is_apart(struct tuner *w, int v, double apart)
{
    if (apart <= most_apart(w)) return 0;
    if (has_engine(w, v)) {
        yir_diag(w->diags, (struct yir_loc){0}, W_TUNE, "tuning: candidate %d is left out: cuDNN gives other results (off by %.2g of the mean)", v, apart);
        w->lost[v] = true;
        return 1;
    }
    yir_diag(w->diags, (struct yir_loc){0}, E_TUNE,
             "tuning: candidate %d gives other results (off by %.2g of the mean); please report this", v, apart);
    return -1;
}

/* Runs it on each form of the picture. As run_variant. */
static int try_variant(struct tuner *w, int v)
{
    struct cg_trial got;
    for (int form = cg_trials_forms(w->trials); form-- > 0;) {
        int rc = run_variant(w, v, form, true, &got);
        if (rc) return rc;
        if (v == 0) w->run_s = got.ms * 1e-3;
        rc = is_apart(w, v, got.apart);
        if (rc) return rc;
    }
    return 0;
}

/* Seconds for measuring n variants for some rounds and comparing the winners for as many. */
static double needed_s(const struct tuner *w, int n, int rounds)
{
    return rounds * (n + 2) * w->run_s + w->make_s;
}

static struct cg_program *program_of(struct tuner *w, int variant)
{
    const struct cg_opts o = opts_now(w);
    w->now = variant;
    return cg_kernels(w->arena, w->f, w->t, &o);
}

/* Kernels of some variants as those of one program. */
static struct cg_program *all_kernels(struct tuner *w, int from, int end)
{
    struct cg_program *all = program_of(w, from);
    size_t cap = 0;
    struct cg_kernel *kernel = yir_grow(w->arena, NULL, &cap, (size_t)all->nkernel * (size_t)(end - from), sizeof *kernel);
    memcpy(kernel, all->kernel, all->nkernel * sizeof *kernel);
    for (int v = from + 1; v < end; v++) {
        const struct cg_program *p = program_of(w, v);
        for (uint32_t i = 0; i < p->nkernel; i++) {
            kernel[all->nkernel] = p->kernel[i];
            all->nkernel++;
        }
    }
    all->kernel = kernel;
    for (uint32_t i = 0; i < all->nkernel; i++) kernel[i].same_as = cg_same_kernel(all, i);
    return all;
}

/* --- cuDNN -------------------------------------------------------------------------------------------------- */

/* Once, when the device is in use. Where cuDNN dies, the others are not asked about. */
static void list_engines(struct tuner *w)
{
    const struct cg_tune_cudnn *c = &w->o->cudnn;
    bool asks = !w->listed && w->o->mode == CG_TUNE_FULL && c->version;
    for (size_t i = 0; i < w->ngroup && asks; i++) {
        struct group *g = w->group[i];
        struct cg_trial got = {0};
        if (g->state != OPEN || !g->fits) continue;
        progress(w, "cuDNN's engines", (int)i, (int)w->ngroup, left_s(w));
        asks = !cg_trials_engines(w->trials, &g->conv, c->deterministic, c->most_space, &got) && left_s(w) > (1 - ASKING) * w->budget_s;
        if (asks) tune_read_engines(g, got.error, w->o->cudnn.version);
    }
    w->listed = true;
}

/* Makes the variants while the budget lasts; part of it stays for measuring. Their number, or -1. Those with cuDNN's engines have no kernels
 * of their own. */
static int make_variants(struct tuner *w, int wanted)
{
    double begun = seconds(), budget = left_s(w), ahead_s = 0, each_s = 0;
    const int configs = wanted;
    for (int v = 0; v < wanted; v++) {
        const bool ahead = w->o->ahead && v < configs && v % AHEAD == 0;
        double before = seconds(), spent = before - begun, more = v ? each_s + (ahead ? ahead_s : 0) : 0;
        if (check_stop(w)) return -1;
        if (v >= 1 && spent + more + needed_s(w, v + 1, LEAST_ROUNDS) > budget) return v;
        if (v >= 2 && spent + more > 0.6 * budget) return v;
        if (ahead) {
            progress(w, "kernels", v, wanted, budget - spent);
            if (w->o->ahead(w->o->user, all_kernels(w, v, v + AHEAD < configs ? v + AHEAD : configs))) return -1;
            ahead_s = seconds() - before;
            before = seconds();
        }
        progress(w, "candidate", v, wanted, v ? more * (wanted - v) + needed_s(w, wanted, w->mode->rounds) : budget);
        int rc = make_variant(w, v, v);
        w->make_s = seconds() - before;
        if (!rc) rc = try_variant(w, v);
        if (rc < 0) return -1;
        each_s = fmax(each_s, seconds() - before);
        if (v == 0) list_engines(w);
        if (v == 0) wanted = most_candidates(w);
    }
    return wanted;
}

/* --- what is found ------------------------------------------------------------------------------------------ */

static void pick_winners(struct tuner *w, int nvariant)
{
    for (size_t i = 0; i < w->ngroup; i++)
        if (w->group[i]->state == OPEN) tune_pick(w->group[i], nvariant);
}

static void report(struct tuner *w, int nvariant)
{
    for (size_t i = 0; i < w->ngroup && w->o->report; i++) {
        const struct group *g = w->group[i];
        for (int v = 0; g->state == OPEN && v < g->ncandidate + g->nengine && v < nvariant; v++) {
            const struct cg_engine *by = tune_engine_of(g, v);
            const char *text = by ? cg_engine_text(w->arena, by) : cg_config_text(w->arena, &g->candidate[v]);
            if (g->samples[v]) w->o->report(w->o->user, g->label, text, by ? 0 : g->candidate[v].cycles, g->median[v]);
        }
    }
}

/* Keeping a record gives the claim up. */
static void remember(struct tuner *w, struct group *g)
{
    struct cg_tune_key k = key_of(w, g, w->o->mode);
    const double *ms = g->ms[g->best]; /* in order since the median was taken */
    int n = g->samples[g->best];
    struct cg_tune_record r = {.median_s = g->median[g->best] * 1e-3, .spread_s = n ? (ms[n * 9 / 10] - ms[n / 10]) * 1e-3 : 0};
    const char *text = tune_variant_text(w->arena, g, g->best_config, tune_engine_of(g, g->best));
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
    double begun = seconds(), kept = begun;
    int rounds = w->mode->rounds;
    for (int r = 0; r < rounds; r++) {
        double now = seconds(), round = r ? (now - begun) / r : nvariant * w->run_s, last = needed_s(w, 0, LEAST_ROUNDS);
        if (check_stop(w)) return -1;
        if (r >= LEAST_ROUNDS && round + last > left_s(w)) return 0;
        if (r >= FIRM_ROUNDS && now - kept > KEEP_EVERY_S) {
            pick_winners(w, nvariant);
            remember_all(w);
            kept = now;
        }
        progress(w, "round", r, rounds, round * (rounds - r) + last);
        for (int v = 0; v < nvariant; v++) {
            struct cg_trial got;
            int rc = w->lost[v] ? 1 : run_variant(w, v, r % cg_trials_forms(w->trials), false, &got);
            if (rc < 0) return -1;
            if (!rc) note_times(w, &got, v, r + 1);
        }
    }
    return 0;
}

static void decide(struct tuner *w, bool tuned)
{
    for (size_t i = 0; i < w->ngroup; i++) {
        struct group *g = w->group[i];
        if (g->state != OPEN) continue;
        if (!tuned) g->best = g->best_config = 0;
        g->chosen = g->candidate[g->best_config];
        g->chosen_engine = tune_engine_of(g, g->best);
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
    struct cg_trial b, t;
    int n = 0;
    for (int r = -1; r < w->mode->rounds; r++) { /* the first round warms up */
        if (check_stop(w)) return -1;
        if (r >= LEAST_ROUNDS && left_s(w) < 2 * w->run_s) break;
        if (run_variant(w, 0, 0, false, &b)) return -1;
        double untuned = time_of(w, &b);
        if (run_variant(w, TUNE_VARIANTS, 0, false, &t)) return -1;
        if (r < 0) continue;
        before[n] = untuned;
        after[n++] = time_of(w, &t);
    }
    return n;
}

/* Keeps the winners when their network is faster than the untuned one, else nothing is changed. */
static int compare(struct tuner *w, struct cg_tuned *out)
{
    double before[TUNE_ROUNDS], after[TUNE_ROUNDS];
    decide(w, true);
    if (!any_changed(w)) return 0;
    progress(w, "comparison", 0, 1, needed_s(w, 0, w->mode->rounds));
    if (make_variant(w, -2, TUNE_VARIANTS)) return -1;
    int n = run_both(w, before, after);
    if (n < 0) return -1;
    double untuned = tune_median(before, n), tuned = tune_median(after, n);
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

static bool tell_waiting(void *tuner)
{
    const struct tuner *w = tuner;
    progress(w, "another process measures", 0, 0, HUGE_VAL);
    return !w->o->stop || !w->o->stop(w->o->user);
}

/* One process measures at a time; what it has found is there when the next one's turn comes. */
static int tune_in_turn(struct tuner *w, struct cg_tuned *out)
{
    struct cg_measuring *turn;
    if (most_candidates(w) < 2) return 0;
    cg_measuring_begin(&turn, w->arena, w->o->folder, 1.5 * w->budget_s + CG_TUNE_WAIT_S, tell_waiting, w);
    w->start = seconds();
    claim_open(w);
    int rc = check_stop(w);
    if (!rc) rc = tune_open(w, out);
    cg_trials_free(w->trials);
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
        out->changed += !same_config(&g->chosen, &g->candidate[0]) || g->chosen_engine;
    }
}

int cg_tune(struct yir_arena *a, struct yir_diags *d, const struct yir_func *f, const struct cg_target *t,
            const struct cg_opts *base, const struct cg_tune_opts *o, struct cg_tuned *out)
{
    struct tuner *w = yir_alloc(a, sizeof *w);
    *w = (struct tuner){.arena = a, .diags = d, .f = f, .t = t, .base = base, .o = o, .mode = &modes[o->mode]};
    *out = (struct cg_tuned){.choose = choose, .engine = choose_engine, .choose_user = w, .choices = &w->choices};
    w->threads = o->threads;
    w->budget_s = o->budget_s > 0 ? o->budget_s : w->mode->budget_s;
    w->start = seconds();
    w->trials = o->trials;
    w->device = cg_trials_device(w->trials);
    collect(w);
    int rc = tune_in_turn(w, out);
    cg_trials_free(w->trials);
    release_claims(w);
    w->now = -2;
    sum_up(w, out);
    return rc;
}
