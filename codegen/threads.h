#ifndef CG_THREADS_H
#define CG_THREADS_H

#include <stdint.h>

/* Runs worker(arg) on as many threads as there are CPUs, at most `most`, and waits for them. Their stacks are large, since
 * compilers recurse along chains of instructions; on the calling thread only when no other can be had. */
void cg_threads(void *(*worker)(void *), void *arg, uint32_t most);

#endif
