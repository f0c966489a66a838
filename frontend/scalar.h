/* YAML 1.1 plain scalars, as PyYAML's safe loader types them. */
#ifndef FE_SCALAR_H
#define FE_SCALAR_H

#include "value.h"

/* Types an unquoted scalar: sets kind, and i, f or s of *v. text is NUL-terminated and lives as long as v.
 * false: an integer that 64 bits do not hold. */
bool fe_scalar_plain(const char *text, struct fe_value *v);

#endif
