/* Draws kernel programs as CUDA C. */
#ifndef KB_CUDA_H
#define KB_CUDA_H

#include "codegen.h"

/* The whole translation unit of a kernel: a function named by its symbol, one thread a unit in blocks of YM_CUDA_BLOCK. Its
 * parameters are the memories in order, then the number of units of all images as a 64-bit integer. It needs no header.
 * batch: the most images; indexes are 32 bits wide where none of them can leave that range then. */
void kb_cuda_text(struct yir_str *out, const struct cg_kernel *k, int64_t batch);

#endif
