/* The stored cases of single ops, tests/ops/cases.json: a text of IR, its weights, inputs and what comes out. */
#ifndef TEST_OPCASE_H
#define TEST_OPCASE_H

#include <jansson.h>

#include "ir/ir.h"

/* The whole file, json_decref'd by the caller. Ends the program when it can't be read. */
json_t *opcase_load(void);

/* "op (note)", in the arena. */
const char *opcase_name(struct yir_arena *a, const json_t *c);

/* The function of a case with its weights; NULL after reporting. */
struct yir_func *opcase_parse(struct yir_arena *a, struct yir_types *types, struct yir_diags *d, const json_t *c);

/* For yir_diags_new: prints each report on stderr. */
void opcase_print(void *user, const struct yir_diag *d);

#endif
