/* A pool of mutex and condition variables only: what ThreadSanitizer understands and every cross toolchain
 * has. */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>

struct worker {
    struct rt_pool *pool;
    int index;
    pthread_t thread;
};

struct rt_pool {
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    unsigned long round; /* counts runs: a worker waits for it to change */
    int workers, left;   /* of the current round; left: threads that have not finished it */
    int quit;
    rt_pool_fn fn;
    void *ctx;
    int nthread; /* started, the caller not counted */
    struct worker worker[];
};

/* Waits for the round after `seen`; 0: the pool ends. */
static int next_round(struct rt_pool *p, unsigned long seen)
{
    while (p->round == seen && !p->quit)
        pthread_cond_wait(&p->start, &p->lock);
    return !p->quit;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct rt_pool *p = w->pool;
    unsigned long seen = 0;
    pthread_mutex_lock(&p->lock);
    while (next_round(p, seen)) {
        seen = p->round;
        if (w->index >= p->workers) continue;
        rt_pool_fn fn = p->fn;
        void *ctx = p->ctx;
        pthread_mutex_unlock(&p->lock);
        fn(ctx, w->index);
        pthread_mutex_lock(&p->lock);
        if (--p->left == 0) pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct rt_pool *rt_pool_new(int threads)
{
    int extra = threads > 1 ? threads - 1 : 0;
    struct rt_pool *p = calloc(1, sizeof *p + (size_t)extra * sizeof *p->worker);
    if (!p) return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    for (int i = 0; i < extra; i++) {
        struct worker *w = &p->worker[i];
        w->pool = p;
        w->index = i + 1;
        if (pthread_create(&w->thread, NULL, work, w)) {
            rt_pool_free(p);
            return NULL;
        }
        p->nthread++;
    }
    return p;
}

void rt_pool_free(struct rt_pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = 1;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->nthread; i++)
        pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->start);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void rt_pool_run(struct rt_pool *p, rt_pool_fn fn, void *ctx, int workers)
{
    if (workers > 1) {
        pthread_mutex_lock(&p->lock);
        p->fn = fn;
        p->ctx = ctx;
        p->workers = workers;
        p->left = workers - 1;
        p->round++;
        pthread_cond_broadcast(&p->start);
        pthread_mutex_unlock(&p->lock);
    }
    if (workers > 0) fn(ctx, 0);
    if (workers <= 1) return;
    pthread_mutex_lock(&p->lock);
    while (p->left)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
