#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };
#define STACK ((size_t)16 << 20)

void cg_threads(void *(*worker)(void *), void *arg, uint32_t most)
{
    pthread_t thread[MAX_THREADS];
    pthread_attr_t attr;
    sigset_t all, old;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0, cap = cpus < 1 ? 1 : cpus > MAX_THREADS ? MAX_THREADS : (int)cpus;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (n < cap && (uint32_t)n < most && !pthread_create(&thread[n], &attr, worker, arg)) n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (!n) worker(arg);
    while (n) pthread_join(thread[--n], NULL);
}
