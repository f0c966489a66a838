/* Walking an old function into a new one, and the questions about a function that several passes ask. */
#ifndef PASS_WALK_H
#define PASS_WALK_H

#include "pass.h"

struct rebuild {
    const struct yir_func *old;
    struct yir_func *f; /* grows */
    yir_ref *map;       /* [old->nop]: old value -> reference in f */
    bool failed;        /* an op could not be emitted; it is reported */
};

/* Starts with the inputs, weights and places of origin of p->in, and no ops. */
void pass_rebuild_begin(struct rebuild *r, struct pass *p);
/* Operand k of an old op, in the new function. */
yir_ref pass_rebuild_src(const struct rebuild *r, uint32_t op, int k);
/* Emits at the origin of the old op `op`, without kernel and flags, and maps op to it. */
yir_ref pass_rebuild_emit(struct rebuild *r, uint32_t op, enum yir_code c, const yir_ref *src, int nsrc,
                          const void *attr);
/* The same op again, of mapped operands. */
yir_ref pass_rebuild_copy(struct rebuild *r, uint32_t op);
/* Copies the outputs and hands the new function over when it differs from the old: what the pass returns. */
int pass_rebuild_end(struct rebuild *r, struct pass *p);
/* The same with outputs already made. */
int pass_rebuild_done(struct rebuild *r, struct pass *p);

bool pass_is(const struct yir_func *f, yir_ref r, enum yir_code c); /* r is the value of an op c */

/* Values that an output needs, nop entries. */
bool *pass_live(const struct yir_func *f, struct yir_arena *a);

/* base with the suffix; when that is taken, the number of weights so far after it, or the next one free. */
const char *pass_weight_name(const struct yir_func *f, const char *base, const char *suffix);

#endif
