/* Threads: each unit once, cut where the grain allows, by any number of threads, run after run. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/gate.h"
#include "runtime/pool.h"

enum { MAX = 4, UNITS = 1000, SPIN_US = 50 };

struct count {
    int64_t total, grain;
    int threads;
    _Atomic int wrong;        /* ranges that no fn should be called with */
    int times[UNITS];         /* no atomics: the pool has to order these with the caller */
    _Atomic int inside[MAX];  /* calls that a worker is in */
};

static void add(void *ctx, int worker, int64_t begin, int64_t end)
{
    struct count *c = ctx;
    int known = worker >= 0 && worker < c->threads;
    if (!known || begin < 0 || begin >= end || end > c->total || begin % c->grain || (end % c->grain && end != c->total) ||
        atomic_fetch_add(&c->inside[worker], 1)) {
        c->wrong++;
        return;
    }
    for (int64_t u = begin; u < end; u++) c->times[u]++;
    c->inside[worker]--;
}

Test(rt_pool, each_unit_once)
{
    enum { ROUNDS = 20 };
    static const int64_t totals[] = {0, 1, 2, 3, 7, 25, 64, 999, UNITS}, grains[] = {1, 2, 3, 10, 998, 1001, 1ll << 40};
    for (int threads = 1; threads <= MAX; threads++) {
        struct rt_pool *p = rt_pool_new(threads, SPIN_US);
        cr_assert(p);
        for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
            for (size_t k = 0; k < sizeof grains / sizeof *grains; k++) {
                struct count c = {.total = totals[i], .grain = grains[k], .threads = threads};
                for (int r = 0; r < ROUNDS; r++) rt_pool_run(p, add, &c, c.total, c.grain);
                cr_assert_eq(c.wrong, 0, "%d threads, %d units, grain %d", threads, (int)c.total, (int)c.grain);
                for (int u = 0; u < UNITS; u++) cr_assert_eq(c.times[u], u < c.total ? ROUNDS : 0);
            }
        }
        rt_pool_free(p);
    }
    rt_pool_free(NULL);
}

static void sum(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)worker;
    atomic_fetch_add((_Atomic int64_t *)ctx, end - begin);
}

/* More blocks than a share has bits for, and as many units as a module may have. */
Test(rt_pool, many_units)
{
    static const int64_t totals[] = {70000, 3 * 65535 + 1, 1ll << 32, (1ll << 62) + 12345};
    for (int threads = 2; threads <= 3; threads++) {
        struct rt_pool *p = rt_pool_new(threads, SPIN_US);
        cr_assert(p);
        for (size_t i = 0; i < sizeof totals / sizeof *totals; i++) {
            for (int64_t grain = 1; grain <= 7; grain += 6) {
                _Atomic int64_t n = 0;
                rt_pool_run(p, sum, &n, totals[i], grain);
                cr_assert_eq(n, totals[i], "%lld units of %lld", (long long)n, (long long)totals[i]);
            }
        }
        rt_pool_free(p);
    }
}

/* What the workers of one run wrote, all workers of the next one see. */
static int shared[MAX * 16];

static void spread(void *ctx, int worker, int64_t begin, int64_t end)
{
    const int *round = ctx;
    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        if (*round % 2) shared[u] = *round;
        else
            for (size_t k = 0; k < sizeof shared / sizeof *shared; k++) cr_assert_eq(shared[k], *round - 1);
    }
}

Test(rt_pool, rounds_are_ordered)
{
    struct rt_pool *p = rt_pool_new(MAX, SPIN_US);
    cr_assert(p);
    for (int round = 1; round <= 400; round++) rt_pool_run(p, spread, &round, sizeof shared / sizeof *shared, 1);
    rt_pool_free(p);
}

static void note_thread(void *ctx, int worker, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    ((pthread_t *)ctx)[worker] = pthread_self();
}

Test(rt_pool, one_thread_is_the_callers)
{
    pthread_t t[1];
    struct rt_pool *p = rt_pool_new(1, SPIN_US);
    cr_assert(p);
    rt_pool_run(p, note_thread, t, 10, 1);
    cr_expect(pthread_equal(t[0], pthread_self()));
    rt_pool_free(p);
}

/* Both threads wait for each other inside a run: so two are at work, though the other one slept. */
static void meet(void *ctx, int worker, int64_t begin, int64_t end)
{
    _Atomic int *met = ctx;
    (void)worker, (void)begin, (void)end;
    atomic_fetch_add(met, 1);
    for (int ms = 0; ms < 20000 && *met < 2; ms++) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

Test(rt_pool, sleepers_come_to_help)
{
    struct rt_pool *p = rt_pool_new(2, SPIN_US);
    cr_assert(p);
    for (int i = 0; i < 3; i++) {
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        _Atomic int met = 0;
        rt_pool_run(p, meet, &met, 2, 1);
        cr_assert_eq(met, 2);
    }
    rt_pool_free(p);
}

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

Test(rt_pool, idle_threads_sleep)
{
    struct rt_pool *p = rt_pool_new(MAX, SPIN_US);
    cr_assert(p);
    _Atomic int64_t n = 0;
    rt_pool_run(p, sum, &n, UNITS, 1);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    double before = processor_seconds();
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    cr_expect_lt(processor_seconds() - before, 0.01);
    rt_pool_free(p);
}

Test(rt_pool, create_and_free)
{
    for (int i = 0; i < 50; i++) {
        struct rt_pool *p = rt_pool_new(4, SPIN_US);
        cr_assert(p);
        rt_pool_free(p);
    }
}

Test(rt_pool, free_after_fork)
{
    struct rt_pool *p = rt_pool_new(2, SPIN_US);
    cr_assert(p);
    int status;
    pid_t child = fork();
    if (!child) {
        alarm(10); /* it would wait for a thread that is not there */
        rt_pool_free(p);
        _exit(0);
    }
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
    rt_pool_free(p);
}

/* --- the gate ----------------------------------------------------------------------------------------------------- */

struct hand {
    struct rt_gate there, back;
    int64_t spin_ns;
    int plain;
};

static void *answer(void *arg)
{
    struct hand *h = arg;
    for (uint32_t v = 0; v < 2000;) {
        v = rt_gate_await(&h->there, v, h->spin_ns);
        h->plain++;
        atomic_store(&h->back.value, v);
        rt_gate_wake(&h->back, 1);
    }
    return NULL;
}

/* No change is missed and none seen too early, asleep or awake. */
Test(rt_gate, to_and_fro)
{
    static const int64_t spins[] = {0, 100, 50000};
    for (size_t i = 0; i < sizeof spins / sizeof *spins; i++) {
        struct hand h = {.spin_ns = spins[i]};
        pthread_t t;
        cr_assert(!pthread_create(&t, NULL, answer, &h));
        for (uint32_t v = 1; v <= 2000; v++) {
            atomic_store(&h.there.value, v);
            rt_gate_wake(&h.there, 1);
            cr_assert_eq(rt_gate_await(&h.back, v - 1, h.spin_ns), v);
            cr_assert_eq(h.plain, (int)v);
        }
        pthread_join(t, NULL);
        cr_expect(!h.there.sleepers && !h.back.sleepers);
    }
}
