/* Pieces that lowerings of modules share. All work in the current module, or in the child that is named. A
 * NIL operand gives NIL: what is wrong was reported. */
#ifndef FE_BLOCKS_H
#define FE_BLOCKS_H

#include "modules.h"

enum { FE_DEPTHWISE = -1, FE_AUTO = -1 }; /* no argument of a row is negative */

struct fe_conv {
    int64_t c2, k[2], s[2];
    int64_t p[2]; /* FE_AUTO: half the dilated kernel */
    int64_t d, g; /* g FE_DEPTHWISE: gcd(c1, c2) */
    struct fe_act act;
};

/* Square kernel, automatic padding, default activation. */
struct fe_conv fe_conv_of(struct fe_lower *l, int64_t c2, int64_t k, int64_t s);
extern const struct fe_act fe_act_none;

/* Convolution alone: "weight", and "bias" (required, or only when the file has it). */
yir_ref fe_conv2d(struct fe_lower *l, yir_ref x, const struct fe_conv *c, bool bias);
/* "conv", "bn", "act"; without "bn" when the weights are fused. */
yir_ref fe_conv_here(struct fe_lower *l, yir_ref x, const struct fe_conv *c);
yir_ref fe_conv(struct fe_lower *l, const char *child, yir_ref x, struct fe_conv c);
yir_ref fe_batchnorm(struct fe_lower *l, const char *child, yir_ref x);
/* act, or what the pickled child "act" is. */
yir_ref fe_activate(struct fe_lower *l, yir_ref x, struct fe_act act);

yir_ref fe_add(struct fe_lower *l, yir_ref a, yir_ref b);
yir_ref fe_concat(struct fe_lower *l, const yir_ref *x, int n, int axis);
yir_ref fe_slice(struct fe_lower *l, yir_ref x, int64_t start, int64_t count); /* channels */
yir_ref fe_maxpool(struct fe_lower *l, yir_ref x, int64_t k, int64_t s, int64_t p);

yir_ref fe_ghost_bottleneck(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s);
/* A 1 x k and a k x 1 convolution. */
yir_ref fe_cross_conv(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s, int64_t g, double e,
                      bool shortcut);
/* "cv1", pools of it side by side with it, "cv2". */
yir_ref fe_spp(struct fe_lower *l, yir_ref x, int64_t c2, const int64_t *k, size_t nk, const char *names[2]);

/* "m.0", "m.1": the name lives in the arena of the build. */
const char *fe_indexed(struct fe_lower *l, const char *name, int64_t i);

#endif
