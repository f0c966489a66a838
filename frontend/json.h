/* JSON as text. */
#ifndef FE_JSON_H
#define FE_JSON_H

#include <jansson.h>

#include "ir/arena.h"

/* Compact, malloc'ed; NULL when memory runs out or root is NULL. (json_dumps leaves out keys when memory runs out
 * while its buffer grows, and calls that success.) */
char *fe_json_text(const json_t *root);

/* Appends bytes as a string in quotes; those that are not UTF-8 become U+FFFD. */
void fe_json_quote(struct yir_str *s, const char *bytes, size_t n);

#endif
