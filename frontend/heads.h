/* What the lowerings of heads share, and what the weights tell about a head before it is lowered. */
#ifndef FE_HEADS_H
#define FE_HEADS_H

#include "blocks.h"
#include "describe.h"

/* Classes by the shapes in the weights, for a head at this path; 0 when they do not tell. */
int64_t fe_head_nc(struct yir_arena *a, const struct fe_weights *w, const struct fe_row *head,
                   enum fe_dialect dialect, int64_t na);

/* Stride of a level: pickled, else known from an earlier build, else by the height of its map. */
double fe_level_stride(struct fe_lower *l, int level, yir_ref x);

/* Checks the number of inputs; -1 after reporting. */
int fe_head_begin(struct fe_lower *l, const struct fe_site *s, enum fe_head kind);

void fe_output(struct fe_lower *l, const char *name, yir_ref x);

/* Prototypes of masks: child "proto", from the first level, or all of them; npr channels inside, nm outside. */
yir_ref fe_mask_proto(struct fe_lower *l, const struct fe_site *s, int64_t npr, int64_t nm, bool all_levels);

/* 1x1 convolution with bias. */
yir_ref fe_predict(struct fe_lower *l, const char *child, yir_ref x, int64_t c2);

#endif
