/* Emitters: how one element of each op's result is computed. One function an op row, named emit_<op>. */
#ifndef CG_SITE_H
#define CG_SITE_H

#include "kb.h"

/* The element of op s->op at logical index ix (one kv a dimension). Where kb.lanes > 1, ix[1] of a rank-4 result may carry
 * the lane mark, but only for ops with YIR_T_LANES. */
typedef kv (*kb_emit_fn)(struct kb *b, const struct site *s, const kv *ix);

#define OP(name, lo, hi, cls, shape, attrs, traits, text) kv emit_##name(struct kb *b, const struct site *s, const kv *ix);
#include "ir/ops.def"
#undef OP

/* Any reference at an index: bound, computed in place, or loaded. */
kv kb_ref_at(struct kb *b, yir_ref r, const kv *ix);

/* An op of this kernel at an index: bound, or computed in place although it is stored. */
kv kb_op_at(struct kb *b, uint32_t op, const kv *ix);

/* 0 <= x < size. */
kv kb_inside(struct kb *b, kv x, int64_t size);

/* Pieces that several emitters share. The last step of a loop over a variable, and the loop's end: what the variable holds then. */
kv kb_end_fma(struct kb *b, kv sum, kv x, kv y); /* sum + x*y */
kv kb_end_add(struct kb *b, kv sum, kv x);
kv kb_end_max(struct kb *b, kv top, kv x); /* the new value second lets NaN through */
kv kb_sigmoid(struct kb *b, kv x);
kv kb_pixel(struct kb *b, kv pixel, const struct yir_a_image *a); /* what a byte of a picture stands for */
/* From the distances left, top, right, bottom of a box: from its cell's middle to its own, turned by the angle; along x and y. */
void kb_turned(struct kb *b, const kv side[4], kv angle, kv d[2]);

/* Sums of deformable attention for `count` channels of a head (vectors of them where marked). */
void kb_deform_sums(struct kb *b, const struct site *s, kv n, kv head, kv query, const kv *channel, int count, kv *sum);

static inline const void *kb_attr(const struct site *s)
{
    return yir_attrs(s->f, s->op);
}

#endif
