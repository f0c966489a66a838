/* Tuning of a whole, tiny network: what is measured once is not measured again, and nothing but a right record counts. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cachebox.h"
#include "codegen/measuring.h"
#include "frontend/yoloc.h"
#include "runtime/yolort.h"

enum { OFF, FAST, FULL };
enum { PARTS, WHOLE, NOTHING }; /* of the cache: all but whole modules; all; none */

static char box[192], other[192];
static yoloc_result made[64]; /* all modules of a test */
static size_t nmade;

static void setup(void)
{
    cachebox_path(box, true);
    cachebox_path(other, true);
    unsetenv("YOLOC_CACHE");
}

static void teardown(void)
{
    cachebox_remove(box);
    cachebox_remove(other);
    while (nmade) yoloc_free_result(&made[--nmade]);
}

TestSuite(tune, .init = setup, .fini = teardown, .timeout = 300);

struct made {
    yoloc_result module;
    yoloc_tuning tuning; /* size 0: none */
};

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *model = "tests/tiny.yaml";
static int side = 32;

/* A cache that could not be used explains what fails. */
static void tell(void *user, const yoloc_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->text);
}

static struct made make(const char *folder, int tune, int parts, int threads, double budget)
{
    static const int cache[] = {[PARTS] = 2, [WHOLE] = 1, [NOTHING] = 0};
    struct made m = {.tuning.size = sizeof m.tuning};
    yoloc_opts o;
    yoloc *c;
    yoloc_opts_init(&o, sizeof o);
    o.height = o.width = side;
    o.scale = side == 32 ? NULL : "n";
    o.tune = tune;
    o.tune_threads = threads;
    o.tune_budget = budget;
    o.cache = cache[parts];
    o.cache_dir = folder;
    o.diag = tell;
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    yoloc_status s = yoloc_compile(c, model, "rule", &m.module);
    if (s == YOLOC_RESOURCE) cr_skip("nothing here compiles for this CPU");
    cr_assert_eq(s, YOLOC_OK);
    if (yoloc_last_tuning(c, &m.tuning) != YOLOC_OK) m.tuning.size = 0;
    yoloc_close(c);
    cr_assert_lt(nmade, YIR_COUNT(made));
    made[nmade++] = m.module;
    return m;
}

static bool same_bytes(const struct made *x, const struct made *y)
{
    return x->module.size == y->module.size && !memcmp(x->module.bytes, y->module.bytes, x->module.size);
}

/* A budget that never ends it, however slow the machine. */
#define TUNE(mode) make(box, mode, PARTS, 1, 200)

static uint64_t claims(const char *folder)
{
    struct cachebox b;
    cachebox_open(&b, folder, 0);
    uint64_t n = cg_tunedb_stats(b.db).claims;
    cachebox_close(&b);
    return n;
}

Test(tune, what_is_measured_once_is_not_measured_again)
{
    struct made first = TUNE(FULL), again = TUNE(FULL), fast = TUNE(FAST);
    cr_expect_gt(first.tuning.measured, 2);
    cr_expect_eq(first.tuning.known, 0);
    cr_expect_eq(first.tuning.left, 0);
    cr_expect_eq(again.tuning.measured, 0);
    cr_expect_eq(again.tuning.known, first.tuning.measured);
    cr_expect_eq(again.tuning.changed, first.tuning.changed);
    cr_expect(same_bytes(&first, &again));
    cr_expect_eq(fast.tuning.measured, 0, "the fast mode measures what the full one knows");
    cr_expect_eq(claims(box), 0);
    struct made elsewhere = make(box, FULL, PARTS, 2, 200);
    cr_expect_eq(elsewhere.tuning.known, 0, "records of another number of threads are used");
}

Test(tune, second_compile_is_the_first_byte_for_byte)
{
    struct made first = make(box, FAST, WHOLE, 1, 200), again = make(box, FAST, WHOLE, 1, 200);
    cr_expect_eq(first.tuning.size, sizeof first.tuning);
    cr_expect_eq(again.tuning.size, 0, "a stored module is tuned");
    cr_expect(same_bytes(&first, &again));
}

Test(tune, off_never_looks_at_records)
{
    struct made before = make(box, OFF, NOTHING, 0, 0);
    TUNE(FULL);
    struct made after = make(box, OFF, PARTS, 0, 0);
    cr_expect(same_bytes(&before, &after));
    cr_expect_eq(after.tuning.size, 0);
}

/* --- records from elsewhere --------------------------------------------------------------------------------- */

struct copying {
    struct cachebox to;
    void (*change)(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n);
    unsigned n;
};

static bool copy_record(void *user, const struct cg_tune_key *key, const struct cg_tune_record *record)
{
    struct copying *c = user;
    struct cg_tune_key k = *key;
    struct cg_tune_record r = *record;
    c->change(&k, &r, c->n++);
    cr_assert(cg_tunedb_store(c->to.db, &k, &r));
    return true;
}

/* The records of box in the folder `other`, each changed. */
static unsigned copy_records(void (*change)(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n))
{
    struct copying c = {.change = change};
    struct cachebox from;
    cachebox_remove(other);
    cachebox_open(&from, box, 0);
    cachebox_open(&c.to, other, 0);
    cr_assert(from.db && c.to.db);
    cg_tunedb_each(from.db, copy_record, &c);
    cachebox_close(&c.to);
    cachebox_close(&from);
    return c.n;
}

static void same(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    (void)k, (void)r, (void)n;
}

static void other_op(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    (void)r, (void)n;
    k->op_len--;
}

static void other_target(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    (void)r, (void)n;
    k->target = "cpu:x86-64-v9, another CPU";
}

static void other_threads(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    (void)r, (void)n;
    k->threads++;
}

static void other_versions(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    (void)r, (void)n;
    k->versions = "yoloc 0.0.1, LLVM 1.2.3, checked 0";
}

static void other_space(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    (void)r, (void)n;
    k->space = "conv_direct pixels=1 vectors=1 rows=1 parts=1\n";
}

static void illegal(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    static const char *const texts[] = {"conv_direct pixels=99 vectors=9 rows=7 parts=1", "generic", "x", "conv_direct",
                                        "conv_direct pixels=16 vectors=1 rows=4 parts=1 ", "lanes\n", "%s%n"};
    (void)k;
    memset(r->config, 'x', sizeof r->config);
    strcpy(r->config, texts[n % YIR_COUNT(texts)]);
}

Test(tune, records_of_others_do_not_count)
{
    static void (*const changes[])(struct cg_tune_key *, struct cg_tune_record *, unsigned) = {
        other_op, other_target, other_threads, other_versions, other_space, illegal};
    struct made first = TUNE(FAST), copied;
    cr_assert_eq(copy_records(same), (unsigned)first.tuning.measured);
    copied = make(other, FAST, PARTS, 1, 200);
    cr_expect_eq(copied.tuning.known, first.tuning.measured, "copied records are as good as the first ones");
    for (size_t i = 0; i < YIR_COUNT(changes); i++) {
        copy_records(changes[i]);
        copied = make(other, FAST, PARTS, 1, 200);
        cr_expect_eq(copied.tuning.known, 0, "change %zu", i);
        cr_expect_eq(copied.tuning.measured, first.tuning.measured, "change %zu", i);
        copied = make(other, FAST, PARTS, 1, 200);
        cr_expect_eq(copied.tuning.known, first.tuning.measured, "a bad record of change %zu was not replaced", i);
    }
}

/* --- results ------------------------------------------------------------------------------------------------ */

static unsigned candidate;

/* The n-th line of the key's space, or the last one. */
static void choose_candidate(struct cg_tune_key *k, struct cg_tune_record *r, unsigned n)
{
    const char *line = k->space;
    (void)n;
    for (unsigned i = 0; i < candidate && strchr(line, '\n')[1]; i++) line = strchr(line, '\n') + 1;
    size_t len = strcspn(line, "\n");
    cr_assert_lt(len, sizeof r->config);
    memcpy(r->config, line, len);
    r->config[len] = 0;
}

static float *run_module(const struct made *m, const char *input, size_t *n)
{
    yolort_module *module;
    yolort_context *c;
    cr_assert_eq(yolort_load(&module, m->module.bytes, m->module.size, NULL, 0), YOLORT_OK);
    cr_assert_eq(yolort_context_new(&c, module, NULL), YOLORT_OK);
    int in = yolort_io_find(module, input), out = yolort_io_find(module, "decoded");
    cr_assert(in >= 0 && out >= 0);
    size_t bytes = yolort_io_at(module, (size_t)in)->bytes_per_image, out_bytes = yolort_io_at(module, (size_t)out)->bytes_per_image;
    uint8_t *x = calloc(1, bytes);
    float *y = malloc(out_bytes);
    bool u8 = yolort_io_at(module, (size_t)in)->dtype == YOLORT_U8;
    for (size_t i = 0; i < (u8 ? bytes : bytes / 4); i++)
        if (u8) x[i] = (uint8_t)(i * 37);
        else ((float *)x)[i] = (float)(i * 37 % 256) / 255.0f;
    cr_assert_eq(yolort_bind(c, (size_t)in, x, bytes), YOLORT_OK);
    cr_assert_eq(yolort_bind(c, (size_t)out, y, out_bytes), YOLORT_OK);
    cr_assert_eq(yolort_run(c, 1, NULL), YOLORT_OK);
    cr_assert_eq(yolort_wait(c), YOLORT_OK);
    yolort_context_free(c);
    yolort_module_free(module);
    free(x);
    *n = out_bytes / 4;
    return y;
}

static void compare(const struct made *x, const struct made *y, const char *input)
{
    size_t n, m;
    float *a = run_module(x, input, &n), *b = run_module(y, input, &m);
    double mean = 0, most = 0;
    cr_assert_eq(n, m);
    for (size_t i = 0; i < n; i++) {
        mean += fabs((double)a[i]) / (double)n;
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    cr_expect(mean > 0 && most <= 1e-3 * mean, "candidates %u, %s: off by %g of the mean", candidate, input, most / mean);
    free(a);
    free(b);
}

Test(tune, whatever_is_chosen_gives_the_same)
{
    struct made untuned = make(box, OFF, NOTHING, 0, 0), first = TUNE(FULL);
    compare(&untuned, &first, "input_u8");
    for (candidate = 0; candidate < 16; candidate++) {
        cr_assert_eq(copy_records(choose_candidate), (unsigned)first.tuning.measured, "a record was not kept");
        struct made m = make(other, FULL, PARTS, 1, 200);
        cr_assert_eq(m.tuning.known, first.tuning.measured, "candidate %u: %d known, %d measured, of %d", candidate, m.tuning.known,
                     m.tuning.measured, first.tuning.measured);
        if (candidate) cr_expect_gt(m.tuning.changed, 0);
        compare(&untuned, &m, "input_u8");
        compare(&untuned, &m, "images");
    }
}

/* --- time and other processes ------------------------------------------------------------------------------- */

Test(tune, too_short_a_time_changes_nothing)
{
    struct made untuned = make(box, OFF, NOTHING, 0, 0), m = make(box, FULL, WHOLE, 1, 1e-6);
    cr_expect_eq(m.tuning.measured, 0);
    cr_expect_gt(m.tuning.left, 2);
    cr_expect(same_bytes(&untuned, &m));
    cr_expect_eq(claims(box), 0);
    m = make(box, FULL, WHOLE, 1, 200);
    cr_expect_eq(m.tuning.left, 0, "a module that is tuned in part was kept as a tuned one");
    cr_expect_gt(m.tuning.measured, 2);
}

/* The clock of a busy machine may jump while it is looked at: one of three tries is enough. */
Test(tune, the_budget_holds)
{
    double over = HUGE_VAL;
    model = "models/yolov8.yaml";
    side = 64;
    make(box, OFF, PARTS, 0, 0);
    for (int try = 0; try < 3 && over > 0.2; try++) {
        double begun = seconds();
        make(box, OFF, PARTS, 0, 0);
        double untuned = seconds() - begun, budget = 2 + 4 * untuned;
        begun = seconds();
        struct made m = make(box, FULL, PARTS, 0, budget);
        double took = seconds() - begun - untuned;
        over = took / budget - 1;
        cr_log_info("budget %.1f s, took %.1f s", budget, took);
        if (!m.tuning.measured) over = HUGE_VAL;
    }
    cr_expect_leq(over, 0.2);
}

Test(tune, eight_cold_processes_measure_once)
{
    enum { PROCESSES = 8 };
    int pipes[2], all = 0, groups = 0;
    cr_assert_eq(pipe(pipes), 0);
    for (int i = 0; i < PROCESSES; i++) {
        if (fork() != 0) continue;
        struct made m = TUNE(FAST);
        int told[] = {m.tuning.measured, m.tuning.measured + m.tuning.known + m.tuning.left};
        _exit(write(pipes[1], told, sizeof told) == sizeof told ? 0 : 1);
    }
    close(pipes[1]);
    for (int i = 0, told[2]; i < PROCESSES; i++) {
        cr_assert_eq(read(pipes[0], told, sizeof told), (ssize_t)sizeof told);
        all += told[0];
        groups = told[1];
    }
    for (int i = 0; i < PROCESSES; i++) wait(NULL);
    cr_expect_gt(groups, 2);
    cr_expect_eq(all, groups, "%d measurements of %d kernels", all, groups);
    cr_expect_eq(claims(box), 0);
}

/* A child that has the turn, and stays as it is until it is killed. */
static pid_t holder(bool stopped)
{
    int ready[2];
    char c;
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct cachebox b;
        struct cg_measuring *m;
        cachebox_open(&b, box, 0);
        bool mine = cg_measuring_begin(&m, b.arena, b.dir, 5, NULL, NULL);
        if (write(ready[1], mine ? "1" : "0", 1) != 1) _exit(1);
        if (stopped) raise(SIGSTOP);
        for (;;) pause();
    }
    cr_assert_eq(read(ready[0], &c, 1), 1);
    cr_assert_eq(c, '1');
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

Test(tune, turns_at_measuring)
{
    struct cachebox b;
    struct cg_measuring *m;
    cachebox_open(&b, box, 0);
    pid_t child = holder(false);
    cr_expect_not(cg_measuring_begin(&m, b.arena, b.dir, 0.2, NULL, NULL), "two processes have the turn");
    end(child);
    cr_expect(cg_measuring_begin(&m, b.arena, b.dir, 0.2, NULL, NULL), "the turn of a dead process goes on");
    cg_measuring_end(m);
    child = holder(true);
    double begun = seconds();
    cr_expect_not(cg_measuring_begin(&m, b.arena, b.dir, 60, NULL, NULL));
    double waited = seconds() - begun;
    cr_expect(waited > 1 && waited < 30, "a stopped process was waited for %g s", waited);
    end(child);
    cr_expect_not(cg_measuring_begin(&m, b.arena, NULL, 0, NULL, NULL), "a turn without a folder");
    cachebox_close(&b);
}

static bool claim_record(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    struct cachebox *to = user;
    struct cg_tune_record found;
    (void)r;
    return cg_tunedb_claim(to->db, k, 0, &found) == CG_TUNE_MINE;
}

/* All kernels of box, claimed in the folder `other`. */
static pid_t claimer(void)
{
    int ready[2];
    char c;
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct cachebox from, to;
        cachebox_open(&from, box, 0);
        cachebox_open(&to, other, 0);
        cg_tunedb_each(from.db, claim_record, &to);
        if (write(ready[1], "1", 1) != 1) _exit(1);
        raise(SIGSTOP);
        for (;;) pause();
    }
    cr_assert_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

Test(tune, what_a_stopped_process_claims_is_measured)
{
    struct made first = TUNE(FAST);
    pid_t child = claimer();
    cr_expect_eq(claims(other), (uint64_t)first.tuning.measured);
    double begun = seconds();
    struct made second = make(other, FAST, PARTS, 1, 200);
    cr_expect_geq(seconds() - begun, 0.9 * CG_TUNE_WAIT_S, "it was not waited for");
    cr_expect_eq(second.tuning.measured, first.tuning.measured);
    end(child);
    child = claimer();
    end(child); /* dead: nothing to wait for */
    second = make(other, FAST, PARTS, 1, 200);
    cr_expect_eq(second.tuning.known, first.tuning.measured);
}
