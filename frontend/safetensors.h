/* Reading .safetensors; writing is in weights.h. */
#ifndef FE_SAFETENSORS_H
#define FE_SAFETENSORS_H

#include "weights.h"

/* Fills what the file gives; w->file and w->file_size are set. -1 after reporting. */
int fe_safetensors_read(struct yir_arena *a, struct yir_diags *d, const uint8_t *bytes, size_t len,
                        const struct yir_limits *limits, struct fe_weights *w);

#endif
