/* Names for the validations of this folder. In builds with YOLOC_MUTATION the one that the environment's YOLOC_CHECK_OFF
 * names always holds; tests/checks.sh then expects the test of its row to fail. */
#ifndef SIGN_CHECK_H
#define SIGN_CHECK_H

#include <stdlib.h>
#include <string.h>

enum sign_check {
#define CHECK(id, row, test) SIGN_CHECK_##id,
#include "checks.def"
#undef CHECK
    SIGN_NCHECK
};

#ifdef YOLOC_MUTATION
static inline int sign_check_off(const char *id)
{
    const char *off = getenv("YOLOC_CHECK_OFF");
    return off && !strcmp(off, id);
}
#define SIGN_HOLDS(id, cond) ((void)SIGN_CHECK_##id, (cond) || sign_check_off(#id))
#else
#define SIGN_HOLDS(id, cond) ((void)SIGN_CHECK_##id, (cond))
#endif

#endif
