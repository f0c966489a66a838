/* Whole functions by their CUDA C, compiled for the host (cuda/host.sh), and by the evaluator. */
#ifndef CUDANET_H
#define CUDANET_H

#include "codegen/codegen.h"

/* Adds what kernels of the program are not in the text yet. */
void cudanet_add(struct yir_str *text, const struct cg_program *p);
/* Compiles the text; handle of the library. Asserts. */
void *cudanet_load(struct yir_arena *a, const struct yir_str *text);

/* Memory of a function's buffers: bytes[i], at a multiple of 64 with room behind it, and the same as doubles, one for each byte; an
 * element of a value lies at byte offset / size of its type + index. Inputs hold numbers of `seed`, everything else NaN. */
struct cudanet {
    const struct yir_func *f;
    unsigned char **bytes;
    double **ref;
};
struct cudanet cudanet_new(struct yir_arena *a, const struct yir_func *f, uint64_t seed);
/* Runs all kernels of the program: on bytes, from the library, and on doubles, each rounded to its type as it is
 * stored (generic programs only). */
void cudanet_run(struct yir_arena *a, const struct cudanet *m, const struct cg_program *p, void *library, int batch);
void cudanet_evaluate(struct yir_arena *a, const struct cudanet *m, const struct cg_program *p, int batch);
/* Largest difference of an output's elements, relative to the larger of the wanted element and the mean of all; NaN counts as 1e30. */
double cudanet_difference(const struct cudanet *m, uint32_t output, int batch);

#endif
