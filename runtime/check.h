/* Names for the validations of this folder, so that a test can be shown to need each of them. */
#ifndef RT_CHECK_H
#define RT_CHECK_H

enum rt_check {
#define CHECK(id, row, test) RT_CHECK_##id,
#include "checks.def"
#undef CHECK
};

/*
 * RT_HOLDS(ID, cond): whether data or arguments from outside keep a rule. In builds with YOLOC_MUTATION the
 * rule that the environment's YOLOC_CHECK_OFF names always holds; tests/checks.sh then expects the test of
 * its row to fail.
 */
#ifdef YOLOC_MUTATION
int rt_check_off(enum rt_check id); /* check.c */
#define RT_HOLDS(id, cond) ((cond) || rt_check_off(RT_CHECK_##id))
#else
#define RT_HOLDS(id, cond) ((void)RT_CHECK_##id, (cond))
#endif

#endif
