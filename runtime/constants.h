/* Packed weights that the loader makes from the canonical ones. */
#ifndef RT_CONSTANTS_H
#define RT_CONSTANTS_H

#include "block.h"
#include "tables.h"

/* The rows of CONSTANT of t->index; the canonical weights are checked. Afterwards t->constants.size is right, and its data is there
 * unless t->nconstant, when rt_constants_make gives it. */
yolort_status rt_constants_check(struct rt_tables *t, const struct rt_error *e);

/* Nothing where t->nconstant is 0; else all of the rows in *out, which the caller frees, also after a failure. */
yolort_status rt_constants_make(struct rt_block *out, struct rt_tables *t, const struct rt_error *e);

#endif
