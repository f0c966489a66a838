/* A safetensors file in memory, all of whose elements are one number a tensor: for tests of what weights say. */
#ifndef TEST_TENSORFILE_H
#define TEST_TENSORFILE_H

#include "ir/diag.h"

struct tensorfile {
    struct yir_str header, data; /* {.arena = ...} to begin with */
};

void tensorfile_add(struct tensorfile *f, const char *name, const int64_t *dim, int rank, float value);

/* The bytes of the file, in the arena. */
struct yir_str tensorfile_finish(struct yir_arena *a, const struct tensorfile *f);

#endif
