/* Families for GPUs on small functions: their CUDA C, run on the host, beside the generic programs in the evaluator. */
#ifndef CUDAROWS_H
#define CUDAROWS_H

#include <stdbool.h>
#include <stddef.h>

struct cudarow {
    const char *family, *target;
    bool takes; /* a kernel of the function */
    const char *ir;
};

/* NULL stands for zeros. */
struct cudarows_opts {
    const char *tf32; /* the target on which products of F32 may be rounded to tf32; NULL: none */
    double bound;     /* of rows without bf16, of the mean or the value; 0: that of the types in it */
};

/* Each row with its family's first configuration, its last, and one between: within the bound of the types in it. */
void cudarows_evaluate(const struct cudarow *rows, size_t n, const struct cudarows_opts *o);
/* NVRTC compiles each row that is taken, with the configuration that comes first, for each target. False: no NVRTC here. */
bool cudarows_compile(const struct cudarow *rows, size_t n, const char *const *targets, size_t ntargets, const struct cudarows_opts *o);

#endif
