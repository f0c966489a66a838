/* What the parts of the mock driver share. */
#ifndef MOCKCUDA_H
#define MOCKCUDA_H

#include <stdatomic.h>
#include <stddef.h>

#include "mockfail.h"

#define API __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

/* A kernel: NULL, NULL without a library of them. size: bytes of parameter i, 0 behind the last. */
struct function {
    void (*run)(unsigned blocks, unsigned threads, void **parameter);
    size_t (*size)(unsigned i);
};

struct kernel { /* CUDA_KERNEL_NODE_PARAMS_v1 */
    struct function *function;
    unsigned grid[3], block[3], shared;
    void **parameter, **extra;
};

extern atomic_long live;  /* things that were made and not given back */
extern atomic_long works; /* of libraries */

/* Frees a thing, which is then given back; 0. */
int unmake(void *thing);

/* Runs a kernel; an error code. */
int launch(const struct kernel *k);

#endif
