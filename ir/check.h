/* Names for the validations of the readers, so that a test can be shown to need each of them. */
#ifndef YIR_CHECK_H
#define YIR_CHECK_H

#include <stdbool.h>

enum yir_check {
#define CHECK(id, row, test) YIR_CHECK_##id,
#include "ir/checks.def"
#undef CHECK
    YIR_NCHECK
};

/*
 * YIR_HOLDS(ID, good): whether data from outside keep a rule; YIR_BREAKS(ID, bad): whether they do not. In
 * builds with YOLOC_MUTATION the rule that the environment's YOLOC_CHECK_OFF names always holds;
 * tests/checks.sh then expects the test of its row to fail. Folders above have such a pair with ids of their own.
 */
#ifdef YOLOC_MUTATION
bool yir_check_off(const char *id); /* check.c */
#define YIR_CHECK_OFF(id) yir_check_off(id)
#else
#define YIR_CHECK_OFF(id) false
#endif

#define YIR_HOLDS(id, good) ((void)YIR_CHECK_##id, (good) || YIR_CHECK_OFF(#id))
#define YIR_BREAKS(id, bad) ((void)YIR_CHECK_##id, (bad) && !YIR_CHECK_OFF(#id))

#endif
