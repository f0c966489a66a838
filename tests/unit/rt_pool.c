/* Threads: each worker index runs once, of any number, run after run. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/pool.h"

enum { MAX = 4 };

struct count {
    _Atomic int calls[MAX];
    int plain[MAX]; /* no atomics: the pool itself has to order these with the caller */
};

static void add(void *ctx, int worker)
{
    struct count *c = ctx;
    atomic_fetch_add(&c->calls[worker], 1);
    c->plain[worker]++;
}

Test(rt_pool, each_index_once)
{
    enum { ROUNDS = 100 };
    for (int threads = 1; threads <= MAX; threads++) {
        struct rt_pool *p = rt_pool_new(threads);
        cr_assert(p);
        for (int workers = 0; workers <= threads; workers++) {
            struct count c = {0};
            for (int r = 0; r < ROUNDS; r++) rt_pool_run(p, add, &c, workers);
            for (int w = 0; w < MAX; w++) {
                int want = w < workers ? ROUNDS : 0;
                cr_assert_eq(c.calls[w], want, "%d threads, %d workers: index %d", threads, workers, w);
                cr_assert_eq(c.plain[w], want);
            }
        }
        rt_pool_free(p);
    }
    rt_pool_free(NULL);
}

/* What the workers of one round wrote, all workers of the next one see. */
static int shared[MAX];

static void spread(void *ctx, int worker)
{
    const int *round = ctx;
    if (*round % 2) {
        shared[worker] = *round;
        return;
    }
    for (int w = 0; w < MAX; w++) cr_assert_eq(shared[w], *round - 1);
}

Test(rt_pool, rounds_are_ordered)
{
    struct rt_pool *p = rt_pool_new(MAX);
    cr_assert(p);
    for (int round = 1; round <= 200; round++) rt_pool_run(p, spread, &round, MAX);
    rt_pool_free(p);
}

static void note_thread(void *ctx, int worker)
{
    pthread_t *t = ctx;
    t[worker] = pthread_self();
}

Test(rt_pool, one_thread_is_the_callers)
{
    pthread_t t[1];
    struct rt_pool *p = rt_pool_new(1);
    cr_assert(p);
    rt_pool_run(p, note_thread, t, 1);
    cr_expect(pthread_equal(t[0], pthread_self()));
    rt_pool_free(p);
}

Test(rt_pool, create_and_free)
{
    for (int i = 0; i < 50; i++) {
        struct rt_pool *p = rt_pool_new(4);
        cr_assert(p);
        rt_pool_free(p);
    }
}
