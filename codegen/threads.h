#ifndef CG_THREADS_H
#define CG_THREADS_H

#include <pthread.h>
#include <stdint.h>

enum { CG_MOST_THREADS = 64 };

struct cg_team {
    pthread_t thread[CG_MOST_THREADS];
    int n;
};

/* Runs worker(arg) on as many threads as there are CPUs, at most `most`, and waits for them. Their stacks are large, since
 * compilers recurse along chains of instructions; on the calling thread only when no other can be had. */
void cg_threads(void *(*worker)(void *), void *arg, uint32_t most);

/* The same in two steps, for what the caller does meanwhile. */
void cg_team_begin(struct cg_team *t, void *(*worker)(void *), void *arg, uint32_t most);
void cg_team_end(struct cg_team *t);

#endif
