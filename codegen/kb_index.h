/* What is known of a program's index values before it runs. */
#ifndef KB_INDEX_H
#define KB_INDEX_H

#include "kb.h"

/* Every index that the program forms fits into 32 bits, signed, when it runs units [0, total). False when that is not known
 * (an index kept in a variable). */
bool kb_index_small(struct yir_arena *a, const struct kb *b, int64_t total);

/* Of each index node log2 of a number that it is a multiple of. */
uint8_t *kb_index_multiples(struct yir_arena *a, const struct kb *b);

#endif
