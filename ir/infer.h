/* One op being typed: what shape rules (ops.c, shapes_*.c) share. */
#ifndef YIR_INFER_H
#define YIR_INFER_H

#include "check.h"
#include "ir.h"

struct infer {
    struct yir_func *f;
    enum yir_code code;
    const struct yir_tdesc *in[64];
    int n;
    const void *attr;
    bool report;
    struct yir_tdesc out; /* starts as a copy of operand 0 */
};

/* Reports why the operands do not fit; -1. */
#define BAD(i, ...) \
    ((i)->report ? yir_diag((i)->f->diags, (i)->f->loc[(i)->f->cur_loc].loc, E_SHAPE, __VA_ARGS__) : -1)

static inline long long ll(int64_t v) /* for messages */
{
    return (long long)v;
}

const char *yir_infer_name(const struct infer *i);

/* 0, or -1 after reporting: operand 0 is a float map; so is operand k. */
int yir_need_map(const struct infer *i);
int yir_need_map_at(const struct infer *i, int k);
int yir_need_stride(const struct infer *i, float stride);

/* The result's shape, in the layout that its rank has by default. */
void yir_set_shape(struct infer *i, int rank, const int64_t *dim);

#define OP(name, lo, hi, cls, shape, attrs, traits, text) int yir_shape_##shape(struct infer *i);
#include "ops.def"
#undef OP

#endif
