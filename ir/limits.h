/* What inputs may have at most. The table limits.def is the only place of these numbers; a reader asks the diagnostics it
 * reports to, since every reader has those. */
#ifndef YIR_LIMITS_H
#define YIR_LIMITS_H

#include "diag.h"

struct yir_limits {
#define LIMIT(field, name, normal, most, help) uint64_t field;
#include "limits.def"
#undef LIMIT
    bool allow_bad_crc; /* no limit, but of a piece with them: a .pt may hold wrong checksums */
};

enum yir_limit_id {
#define LIMIT(field, name, normal, most, help) YIR_LIMIT_##field,
#include "limits.def"
#undef LIMIT
    YIR_NLIMIT
};

void yir_limits_init(struct yir_limits *l); /* the defaults */

/* "yaml-depth=64,tensors=200000" over what *l holds; K, M and G after a number are powers of 1024. NULL, or what is wrong
 * with the text, written to error. */
const char *yir_limits_parse(struct yir_limits *l, const char *text, char *error, size_t error_size);

/* By name; false when there is none. */
bool yir_limits_get(const struct yir_limits *l, const char *name, uint64_t *value);

/* A row a line: name, default, largest value, help. */
void yir_limits_list(struct yir_str *out);

/* The limits that whoever reads and reports to d goes by: what yir_diags_set_limits gave, else the defaults. */
const struct yir_limits *yir_limits_of(const struct yir_diags *d);

/* " (raise it with --limit yaml-depth=N)": the end of an E_LIMIT text, through %s. */
#define YIR_RAISE(field) yir_limit_raise(YIR_LIMIT_##field)
const char *yir_limit_raise(enum yir_limit_id id);

#endif
