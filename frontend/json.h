/* JSON as text. */
#ifndef FE_JSON_H
#define FE_JSON_H

#include <jansson.h>

/* Compact, malloc'ed; NULL when memory runs out or root is NULL. (json_dumps leaves out keys when memory runs out
 * while its buffer grows, and calls that success.) */
char *fe_json_text(const json_t *root);

#endif
