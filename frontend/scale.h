/* Which member of a family is meant: from options, file names, and by trying which one the weights fit. */
#ifndef FE_SCALE_H
#define FE_SCALE_H

#include "describe.h"

/* The scale that is asked for, by option, file name or a key of the description itself: *index, or -1 when
 * none is named. -1 after reporting E_SCALE. */
int fe_scale_named(struct yir_diags *d, const struct fe_desc *desc, const struct fe_model_opts *o,
                   int *index);

/* Name of the model: the file's, with the scale in it ("yolov8n" of yolov8.yaml and n). */
const char *fe_model_name(struct yir_arena *a, const struct fe_desc *desc, const struct fe_model_opts *o,
                          const char *scale);

/* Repeats of a row at a depth: rounded half to even. */
int64_t fe_scale_repeats(double n, double depth);

#endif
