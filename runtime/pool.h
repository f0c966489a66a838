/* Threads of one context, which share out the units of a kernel. */
#ifndef RT_POOL_H
#define RT_POOL_H

#include <stdint.h>

struct rt_pool;

/* Units begin .. end-1, by one of the threads: worker 0 is the caller of rt_pool_run. */
typedef void (*rt_pool_fn)(void *ctx, int worker, int64_t begin, int64_t end);

/* `threads` workers, the caller's thread being one of them: 1 makes no thread. An idle one looks for work for spin_us
 * microseconds, then it sleeps; at once when there are more threads than cores. NULL: no memory or no threads. */
struct rt_pool *rt_pool_new(int threads, int spin_us);

/* NULL is allowed. In a child of fork, which has no such threads, the memory alone is freed. */
void rt_pool_free(struct rt_pool *p);

/* Calls fn for ranges that cover 0 .. total-1, each unit once, cut at multiples of grain (>= 1), and returns when all
 * calls have. A worker is in one call at a time. Waits for no thread that has not begun: one that the system keeps from
 * running costs nothing but its help. One caller at a time. */
void rt_pool_run(struct rt_pool *p, rt_pool_fn fn, void *ctx, int64_t total, int64_t grain);

#endif
