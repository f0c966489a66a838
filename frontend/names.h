/* Class names of a model. */
#ifndef FE_NAMES_H
#define FE_NAMES_H

#include "model.h"

/* nc names: of the weights, else of the yaml, else COCO's for 80 classes, else numbers. Warns when a list of
 * names and nc differ in number. */
const char *const *fe_names(struct yir_arena *a, struct yir_diags *d, const struct fe_weights *w,
                            const struct fe_value *root, int64_t nc);

#endif
