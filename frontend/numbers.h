/* Weights that are no usable numbers: NaN, infinities, and variances that leave nothing to divide by. */
#ifndef FE_NUMBERS_H
#define FE_NUMBERS_H

#include "ir/ir.h"
#include "weights.h"

/* The weights of a function that have data, and the variances of its batch normalisations. One warning W_NONFINITE with
 * counts and the first ten tensors for each kind of fault; strict: the error E_NONFINITE instead, and -1. */
int fe_numbers_of_func(struct yir_diags *d, struct yir_loc loc, const struct yir_func *f, bool strict);

/* The same of all tensors of a file. Variances are those named .running_var; their eps is the pickled module's, else that
 * of the detection families. */
int fe_numbers_of_file(struct yir_arena *a, struct yir_diags *d, const struct fe_weights *w, bool strict);

#endif
