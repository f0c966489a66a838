/* Which kernels come before which, in whatever order they are run that their values allow. */
#ifndef PASS_PRECEDE_H
#define PASS_PRECEDE_H

#include "pass.h"

/* Two arena buffers may share memory without any kernel having to wait for one that it would not wait for anyway, when all
 * that touches the one precedes all that writes the other. Rows are bits by kernel, for each buffer of the function. */
struct pass_precede {
    size_t words;      /* of a row */
    uint64_t *touch;   /* kernels that read or write it */
    uint64_t *behind;  /* kernels that precede each one that writes it */
};

/* NULL when there are too many kernels to look at. The function has places and kernels. */
struct pass_precede *pass_precede(const struct yir_func *f, struct yir_arena *a);

/* Buffer i is done with when buffer k is first written, or the other way round. */
bool pass_precedes(const struct pass_precede *p, uint32_t i, uint32_t k);

#endif
