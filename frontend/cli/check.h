/* Names for the validations of pictures, so that a test can be shown to need each of them. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

enum cli_check {
#define CHECK(id, row, test) CLI_CHECK_##id,
#include "checks.def"
#undef CHECK
    CLI_NCHECK
};

/* CLI_HOLDS(ID, good): whether data keep a rule. In builds with YOLOC_MUTATION the rule that the environment's
 * YOLOC_CHECK_OFF names always holds; tests/checks.sh then expects the test of its row to fail. */
#ifdef YOLOC_MUTATION
int cli_check_off(const char *id); /* check.c */
#define CLI_CHECK_OFF(id) cli_check_off(id)
#else
#define CLI_CHECK_OFF(id) 0
#endif
#define CLI_HOLDS(id, good) ((void)CLI_CHECK_##id, (good) || CLI_CHECK_OFF(#id))

#endif
