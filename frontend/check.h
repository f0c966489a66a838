/* Names for the validations of this folder's readers; ir/check.h says what they are for. */
#ifndef FE_CHECK_H
#define FE_CHECK_H

#include "ir/check.h"

enum fe_check {
#define CHECK(id, row, test) FE_CHECK_##id,
#include "frontend/checks.def"
#undef CHECK
    FE_NCHECK
};

#define FE_HOLDS(id, good) ((void)FE_CHECK_##id, (good) || YIR_CHECK_OFF(#id))
#define FE_BREAKS(id, bad) ((void)FE_CHECK_##id, (bad) && !YIR_CHECK_OFF(#id))

#endif
