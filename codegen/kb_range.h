#ifndef KB_RANGE_H
#define KB_RANGE_H

#include "kb.h"

/* Every index that the program forms fits into 32 bits, signed, when it runs units [0, total). False when that is not known
 * (an index kept in a variable). */
bool kb_range_small(struct yir_arena *a, const struct kb *b, int64_t total);

#endif
