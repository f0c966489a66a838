/* What the families for GPUs share. */
#ifndef CG_FAST_VEC_H
#define CG_FAST_VEC_H

#include "fast_conv.h"

/* Cycles of a kernel of so many threads for an image, each of so many instructions; with the batch that the target is planned for. */
double cg_gpu_cycles(const struct kb_target *t, double threads, double instructions);

/* Nothing but the last op is stored. */
bool cg_only_last(const struct yir_func *f, uint32_t first, uint32_t last);

/* Body for the channels of group `group` in vectors of `lanes`: once for whole vectors, once for the rest. */
void cg_group_channels(struct kb *b, int64_t channels, int lanes, kv group, cg_channel_body body, void *ctx);

#endif
