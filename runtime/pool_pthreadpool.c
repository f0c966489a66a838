#include "pool.h"

#include "cpufeature.h"

#include <pthreadpool.h>
#include <stdlib.h>

struct rt_pool {
    pthreadpool_t threads; /* NULL: one thread, the caller's */
    uint32_t flags;
};

struct task {
    rt_pool_fn fn;
    void *ctx;
};

struct rt_pool *rt_pool_new(int threads)
{
    struct rt_pool *p = calloc(1, sizeof *p);
    if (!p || threads <= 1) return p;
    p->threads = pthreadpool_create((size_t)threads);
    /* Idle workers spin for the next round, which with more threads than cores keeps the busy ones from
     * running. */
    if (threads > rt_cpu_count()) p->flags = PTHREADPOOL_FLAG_YIELD_WORKERS;
    if (p->threads) return p;
    free(p);
    return NULL;
}

void rt_pool_free(struct rt_pool *p)
{
    if (!p) return;
    if (p->threads) pthreadpool_destroy(p->threads);
    free(p);
}

static void run_one(void *ctx, size_t worker)
{
    const struct task *t = ctx;
    t->fn(t->ctx, (int)worker);
}

void rt_pool_run(struct rt_pool *p, rt_pool_fn fn, void *ctx, int workers)
{
    struct task t = {fn, ctx};
    if (p->threads && workers > 1) {
        pthreadpool_parallelize_1d(p->threads, run_one, &t, (size_t)workers, p->flags);
        return;
    }
    for (int w = 0; w < workers; w++)
        fn(ctx, w);
}
