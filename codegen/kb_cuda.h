/* Draws kernel programs as CUDA C. */
#ifndef KB_CUDA_H
#define KB_CUDA_H

#include "codegen.h"

/*
 * The whole translation unit of a kernel: a function named by its symbol, whose parameters are the memories in order (m0, m1,
 * ...), then the number of units of all images, `total`, as a 64-bit integer. It needs no header. Without a body of its own
 * (cg_kernel.cuda), each thread does one unit. batch: the most images; indexes are 32 bits wide where none of them can leave
 * that range then.
 */
void kb_cuda_text(struct yir_str *out, const struct cg_kernel *k, int64_t batch);

/*
 * For bodies: the nodes of a program as statements, indented by 4 * depth. They define names of a letter (b, f, i, x) and a
 * number, and read g0, g1, ... as the program says (kb_given). What conversions and accesses they need stands before the head.
 * A part: the nodes [from, end); what it uses of others must be in scope there.
 */
void kb_cuda_nodes(struct yir_str *out, const struct kb *b, int depth);
void kb_cuda_part(struct yir_str *out, const struct kb *b, uint32_t from, uint32_t end, int depth);

void kb_cuda_value(struct yir_str *out, const struct kb *b, kv v); /* its name, or number */

/* Where a body reads for the first time what another kernel has written. */
bool kb_cuda_waits(const struct kb_target *t); /* whether kb_cuda_wait draws anything */
void kb_cuda_wait(struct yir_str *out, const struct kb_target *t, int depth);

#endif
