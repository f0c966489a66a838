/* Threads of one context. pool_pthreadpool.c or pool_plain.c, chosen by YOLOC_POOL when the library is built.
 */
#ifndef RT_POOL_H
#define RT_POOL_H

struct rt_pool;
typedef void (*rt_pool_fn)(void *ctx, int worker);

/* `threads` workers, the caller's thread being one of them: 1 makes no thread. NULL: no memory or no threads.
 */
struct rt_pool *rt_pool_new(int threads);
void rt_pool_free(struct rt_pool *p); /* NULL is allowed */

/* Calls fn(ctx, w) once for each w of 0 .. workers-1 (workers <= threads) and returns when all have returned.
 * Two of the calls may run on one thread, one after the other. One caller at a time. */
void rt_pool_run(struct rt_pool *p, rt_pool_fn fn, void *ctx, int workers);

#endif
