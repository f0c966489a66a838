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
yir_ref fe_batchnorm_here(struct fe_lower *l, yir_ref x);
yir_ref fe_batchnorm(struct fe_lower *l, const char *child, yir_ref x);
/* act, or what the pickled child "act" is. */
yir_ref fe_activate(struct fe_lower *l, yir_ref x, struct fe_act act);

yir_ref fe_add(struct fe_lower *l, yir_ref a, yir_ref b);
yir_ref fe_concat(struct fe_lower *l, const yir_ref *x, int n, int axis);
yir_ref fe_slice(struct fe_lower *l, yir_ref x, int64_t start, int64_t count); /* channels */
yir_ref fe_slice_axis(struct fe_lower *l, yir_ref x, int axis, int64_t start, int64_t count);
yir_ref fe_maxpool(struct fe_lower *l, yir_ref x, int64_t k, int64_t s, int64_t p);

yir_ref fe_mul(struct fe_lower *l, yir_ref a, yir_ref b);
yir_ref fe_unary(struct fe_lower *l, enum yir_code c, yir_ref x); /* an op of one operand without attributes */
yir_ref fe_affine(struct fe_lower *l, yir_ref x, double mul, double add);

/* Transposed convolution alone: "weight", and "bias". */
struct fe_deconv {
    int64_t c2, k[2], s[2], p[2], grow[2], g; /* g as in fe_conv */
};
yir_ref fe_deconv2d(struct fe_lower *l, yir_ref x, const struct fe_deconv *c, bool bias);
/* Depthwise, activation none unless set afterwards. */
struct fe_conv fe_depthwise_of(struct fe_lower *l, int64_t c, int64_t k, int64_t s);
/* Without activation. */
struct fe_conv fe_bare_of(struct fe_lower *l, int64_t c2, int64_t k, int64_t s);
/* The tensors of an unused convolution of that kind: "conv.weight" and "bn.*"; of a bare one "weight" and "bias". */
void fe_declare_conv(struct fe_lower *l, const char *child, int64_t c1, int64_t c2, int64_t k);
void fe_declare_predict(struct fe_lower *l, const char *child, int64_t c1, int64_t c2, int64_t k);

/* A matrix (and bias) that may be applied to several values, as a 1x1 convolution. */
struct fe_linear {
    yir_ref w, b;
};
struct fe_linear fe_linear_of(struct fe_lower *l, int64_t c1, int64_t c2, bool bias); /* of the current module */
yir_ref fe_apply(struct fe_lower *l, yir_ref x, const struct fe_linear *m);
yir_ref fe_linear(struct fe_lower *l, const char *child, yir_ref x, int64_t c2, bool bias);

yir_ref fe_layernorm(struct fe_lower *l, const char *child, yir_ref x);
yir_ref fe_softmax(struct fe_lower *l, yir_ref x, int axis);
/* Softmax attention of `heads` heads with packed "in_proj_weight", "in_proj_bias" and "out_proj". */
yir_ref fe_multihead(struct fe_lower *l, const char *child, yir_ref q, yir_ref k, yir_ref v, int64_t heads);

/* --- CSP modules (modules_csp.c) ---------------------------------------------------------------------------- */

struct fe_inner { /* the chain inside a module of the CSP kind */
    int64_t k[2];
    double e;
    bool shortcut;
    int64_t g;
    int64_t n;    /* blocks inside a block */
    bool large;   /* CIB: the middle convolution is 7x7 beside 3x3 */
    int64_t area; /* ABlock */
    double ratio;
};

/* A block of the chain, in the current module: channels to channels c. */
typedef yir_ref (*fe_block_fn)(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b);

int64_t fe_hidden(int64_t c2, double e); /* never 0 */
yir_ref fe_bottleneck(struct fe_lower *l, yir_ref x, int64_t c2, const struct fe_inner *b);
/* n blocks "m.0", "m.1" ... one after the other. */
yir_ref fe_chain(struct fe_lower *l, yir_ref x, int64_t n, int64_t c, fe_block_fn block, const struct fe_inner *b);
yir_ref fe_c3(struct fe_lower *l, yir_ref x, int64_t c2, int64_t n, double e, fe_block_fn block,
              const struct fe_inner *b);
yir_ref fe_c3k(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b); /* a block: C3 of b->n 3x3 ones */
/* "cv1" and its two halves; the first has the middle channel of an odd number. */
void fe_split_cv1(struct fe_lower *l, yir_ref x, int64_t h, yir_ref half[2]);
/* Halves of "cv1", the second goes through the chain, every block's result into the concat, "cv2". */
yir_ref fe_c2f(struct fe_lower *l, const struct fe_site *s, double e, fe_block_fn block, const struct fe_inner *b);
struct fe_inner fe_inner_of_row(const struct fe_site *s, int64_t k0, int64_t k1, double e);

/* --- attention (modules_attn.c) ----------------------------------------------------------------------------- */

yir_ref fe_psa_block(struct fe_lower *l, yir_ref x, int64_t c, const struct fe_inner *b); /* a block */

/* A depthwise 3x3 and a 1x1, both with bias, normalisation and activation (modules_fork.c). */
yir_ref fe_ds_conv(struct fe_lower *l, const char *child, yir_ref x, int64_t c2);

yir_ref fe_ghost_bottleneck(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s);
/* A 1 x k and a k x 1 convolution. */
yir_ref fe_cross_conv(struct fe_lower *l, yir_ref x, int64_t c2, int64_t k, int64_t s, int64_t g, double e,
                      bool shortcut);
/* "cv1", pools of it side by side with it, "cv2". */
yir_ref fe_spp(struct fe_lower *l, yir_ref x, int64_t c2, const int64_t *k, size_t nk, const char *names[2]);

/* "m.0", "m.1": the name lives in the arena of the build. */
const char *fe_indexed(struct fe_lower *l, const char *name, int64_t i);

#endif
