/* Containers of PyTorch checkpoints: the zip archive since 1.6, and the plain sequence of pickles before
 * it. */
#ifndef FE_PT_H
#define FE_PT_H

#include "weights.h"

/* Both fill what the file gives; w->file and w->file_size are set. -1 after reporting. */
int fe_pt_read_zip(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                   const struct yir_limits *limits, struct fe_weights *w);
int fe_pt_read_legacy(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                      const struct yir_limits *limits, struct fe_weights *w);

#endif
