/* Engines of cuDNN that do a kernel's work in its place: which kernels are such work, and engines as text. */
#ifndef CG_ENGINE_H
#define CG_ENGINE_H

#include "codegen.h"
#include "runtime/module.h"

struct cg_engine {
    uint32_t version, number, nknob; /* version: of the cuDNN that proposed it */
    uint64_t space;                  /* bytes of working memory */
    struct ym_knob knob[YM_MAX_KNOBS];
};

/* A kernel that is one convolution, with a bias, an activation and a residual or without, between maps in the arena. */
struct cg_engine_work {
    struct ym_conv conv;
    yir_ref x, weights, bias, added, out; /* bias and added NIL: none */
};
bool cg_engine_work(const struct yir_func *f, uint32_t first, uint32_t last, int images, struct cg_engine_work *out);

/* "cudnn engine=7 space=0 24=21": what struct ym_engine has beside the work; and back, from a text that may come from anywhere. *end: behind
 * what was read. */
const char *cg_engine_text(struct yir_arena *a, const struct cg_engine *e);
bool cg_engine_read(const char *text, const char **end, struct cg_engine *out);

#endif
