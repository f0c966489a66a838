/*
 * The threads are the C library's, the sharing out is our own: libpthreadpool waits for every worker at every kernel and
 * spins meanwhile. yolov8n on two threads of a two-core machine that compilers and two busy loops shared took 0.35 to
 * 0.5 s of CPU a run with it and 0.1 s with this pool, of one thread's 0.1 s; alone on the machine both took 37.8 ms (an
 * empty kernel: 0.75 and 0.47 us).
 *
 * A run is cut into blocks, and each worker has a share of them: the same one in every run, so that what a worker wrote
 * in one kernel lies in its own cache in the next. From its share a worker takes half of what is left, again and
 * again; when it is empty, it takes half from the end of the largest other one. So the caller is done as soon as all
 * blocks are, whether or not others came to help.
 */
#include "pool.h"

#include "block.h"
#include "cpucount.h"
#include "gate.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    APART = 2 * RT_LINE, /* CPUs fetch lines in pairs */
    MAX_BLOCKS = 65535,  /* of a share */
};

/* What is left of a worker's share: round << 32 | begin << 16 | end, blocks from the start of the share. A claim is one
 * exchange of the whole, so that a thread that slept through rounds takes nothing of a later one by mistake (it would
 * have to sleep through 2^32 of them between two instructions). */
struct worker {
    alignas(APART) _Atomic uint64_t share;
    struct rt_pool *pool;
    int index;
    pthread_t thread;
};

/* The fields of a run may be written while a late thread reads them; it uses them only after it has claimed blocks of
 * the round that it read before, and until those are done no next run begins. */
struct rt_pool {
    _Atomic(rt_pool_fn) fn;
    _Atomic(void *) ctx;
    _Atomic int64_t total, block; /* units; units of a block */
    _Atomic uint32_t blocks, shares;
    alignas(APART) struct rt_gate round; /* changes when a run begins */
    _Atomic int quit;
    alignas(APART) struct rt_gate left; /* blocks not done */
    int threads;                        /* the caller's counted */
    int64_t spin_ns;
    pid_t owner;
    struct worker worker[];
};

struct run {
    rt_pool_fn fn;
    void *ctx;
    int64_t total, block;
    uint32_t blocks, shares, round;
};

static struct run current_run(struct rt_pool *p, uint32_t round)
{
    return (struct run){
        .fn = atomic_load_explicit(&p->fn, memory_order_relaxed),
        .ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed),
        .total = atomic_load_explicit(&p->total, memory_order_relaxed),
        .block = atomic_load_explicit(&p->block, memory_order_relaxed),
        .blocks = atomic_load_explicit(&p->blocks, memory_order_relaxed),
        .shares = atomic_load_explicit(&p->shares, memory_order_relaxed),
        .round = round,
    };
}

static uint32_t share_start(const struct run *r, uint32_t w)
{
    return (uint32_t)((uint64_t)r->blocks * w / r->shares);
}

static uint64_t pack(uint32_t round, uint32_t begin, uint32_t end)
{
    return (uint64_t)round << 32 | begin << 16 | end;
}

/* Blocks left in a share, 0 when it belongs to another round. */
static uint32_t left_of(uint64_t share, uint32_t round)
{
    return share >> 32 == round ? (uint32_t)(share & 0xffff) - (uint32_t)(share >> 16 & 0xffff) : 0;
}

/* Takes half of what is left (rounded up): the front of the own share, the end of another. The number of blocks, from
 * *first of the share on. */
static uint32_t claim(struct worker *of, const struct run *r, int own, uint32_t *first)
{
    uint64_t old = atomic_load_explicit(&of->share, memory_order_relaxed), new;
    uint32_t n;
    do {
        uint32_t left = left_of(old, r->round), begin = (uint32_t)(old >> 16 & 0xffff), end = begin + left;
        if (!left) return 0;
        n = (left + 1) / 2;
        *first = own ? begin : end - n;
        new = own ? pack(r->round, begin + n, end) : pack(r->round, begin, end - n);
    } while (!atomic_compare_exchange_weak_explicit(&of->share, &old, new, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return n;
}

/* NULL: all are empty. */
static struct worker *largest_share(struct rt_pool *p, const struct run *r)
{
    struct worker *best = NULL;
    uint32_t most = 0;
    for (uint32_t w = 0; w < r->shares; w++) {
        uint32_t left = left_of(atomic_load_explicit(&p->worker[w].share, memory_order_relaxed), r->round);
        if (left <= most) continue;
        most = left;
        best = &p->worker[w];
    }
    return best;
}

static void do_blocks(const struct run *r, int index, uint32_t first, uint32_t n)
{
    int64_t begin = (int64_t)first * r->block, end = begin + (int64_t)n * r->block;
    r->fn(r->ctx, index, begin, end < r->total ? end : r->total);
}

/* Until nothing is left to claim; the number of blocks done. */
static uint32_t take_part(struct rt_pool *p, const struct run *r, int index)
{
    uint32_t done = 0, first, n;
    for (struct worker *of = &p->worker[index]; of; of = largest_share(p, r)) {
        while ((n = claim(of, r, of->index == index, &first)) > 0) {
            do_blocks(r, index, share_start(r, (uint32_t)of->index) + first, n);
            done += n;
        }
    }
    return done;
}

/* Blocks still left after these. */
static uint32_t report(struct rt_pool *p, uint32_t done)
{
    return atomic_fetch_sub(&p->left.value, done) - done;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct rt_pool *p = w->pool;
    uint32_t round = 0;
    for (;;) {
        round = rt_gate_await(&p->round, round, p->spin_ns);
        if (atomic_load_explicit(&p->quit, memory_order_relaxed)) return NULL;
        struct run r = current_run(p, round);
        uint32_t done = take_part(p, &r, w->index);
        if (done && !report(p, done)) rt_gate_wake(&p->left, 1);
    }
}

static void next_round(struct rt_pool *p, int helpers)
{
    atomic_fetch_add(&p->round.value, 1);
    rt_gate_wake(&p->round, helpers);
}

/* Signals are for the program's own threads. */
static int start(struct worker *w)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? -1 : 0;
}

struct rt_pool *rt_pool_new(int threads, int spin_us)
{
    int want = threads > 1 ? threads : 1;
    struct rt_pool *p = aligned_alloc(APART, sizeof *p + (size_t)want * sizeof *p->worker);
    if (!p) return NULL;
    *p = (struct rt_pool){.owner = getpid(), .threads = 1};
    /* Who waits awake keeps the others from running when there are more threads than cores. */
    p->spin_ns = want > rt_cpu_count() ? 0 : (int64_t)spin_us * 1000;
    for (int i = 0; i < want; i++)
        p->worker[i] = (struct worker){.pool = p, .index = i};
    while (p->threads < want && !start(&p->worker[p->threads]))
        p->threads++;
    if (p->threads == want) return p;
    rt_pool_free(p);
    return NULL;
}

void rt_pool_free(struct rt_pool *p)
{
    if (!p) return;
    if (p->owner == getpid()) {
        atomic_store(&p->quit, 1);
        next_round(p, p->threads);
        for (int i = 1; i < p->threads; i++)
            pthread_join(p->worker[i].thread, NULL);
    }
    free(p);
}

static int64_t divide_up(int64_t n, int64_t by)
{
    return n / by + (n % by != 0);
}

/* Blocks are of the grain's size, or of the least multiple of it with which shares have at most MAX_BLOCKS. */
static void begin_run(struct rt_pool *p, rt_pool_fn fn, void *ctx, int64_t total, int64_t grain)
{
    struct run r = {.fn = fn, .ctx = ctx, .total = total, .round = atomic_load(&p->round.value) + 1};
    int64_t grains = divide_up(total, grain);
    r.block = grain * divide_up(grains, (int64_t)p->threads * MAX_BLOCKS);
    r.blocks = (uint32_t)divide_up(total, r.block);
    r.shares = r.blocks < (uint32_t)p->threads ? r.blocks : (uint32_t)p->threads;
    for (uint32_t w = 0; w < r.shares; w++) {
        uint32_t size = share_start(&r, w + 1) - share_start(&r, w);
        atomic_store_explicit(&p->worker[w].share, pack(r.round, 0, size), memory_order_relaxed);
    }
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->total, total, memory_order_relaxed);
    atomic_store_explicit(&p->block, r.block, memory_order_relaxed);
    atomic_store_explicit(&p->blocks, r.blocks, memory_order_relaxed);
    atomic_store_explicit(&p->shares, r.shares, memory_order_relaxed);
    atomic_store_explicit(&p->left.value, r.blocks, memory_order_relaxed);
    next_round(p, (int)r.shares - 1);
}

void rt_pool_run(struct rt_pool *p, rt_pool_fn fn, void *ctx, int64_t total, int64_t grain)
{
    if (total <= 0) return;
    if (p->threads == 1 || total <= grain) {
        fn(ctx, 0, 0, total);
        return;
    }
    begin_run(p, fn, ctx, total, grain);
    struct run r = current_run(p, atomic_load_explicit(&p->round.value, memory_order_relaxed));
    uint32_t left = report(p, take_part(p, &r, 0));
    while (left)
        left = rt_gate_await(&p->left, left, p->spin_ns);
}
