#include "threads.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#define STACK ((size_t)16 << 20)

void cg_team_begin(struct cg_team *t, void *(*worker)(void *), void *arg, uint32_t most)
{
    pthread_attr_t attr;
    sigset_t all, old;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int cap = cpus < 1 ? 1 : cpus > CG_MOST_THREADS ? CG_MOST_THREADS : (int)cpus;
    t->n = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (t->n < cap && (uint32_t)t->n < most && !pthread_create(&t->thread[t->n], &attr, worker, arg)) t->n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (!t->n && most) worker(arg);
}

void cg_team_end(struct cg_team *t)
{
    while (t->n) pthread_join(t->thread[--t->n], NULL);
}

void cg_threads(void *(*worker)(void *), void *arg, uint32_t most)
{
    struct cg_team t;
    cg_team_begin(&t, worker, arg, most);
    cg_team_end(&t);
}
