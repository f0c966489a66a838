/* Names for the validations of this folder's reader; ir/check.h says what they are for. */
#ifndef CG_CHECK_H
#define CG_CHECK_H

#include "ir/check.h"

enum cg_check {
#define CHECK(id, row, test) CG_CHECK_##id,
#include "codegen/checks.def"
#undef CHECK
    CG_NCHECK
};

#define CG_HOLDS(id, good) ((void)CG_CHECK_##id, (good) || YIR_CHECK_OFF(#id))
#define CG_BREAKS(id, bad) ((void)CG_CHECK_##id, (bad) && !YIR_CHECK_OFF(#id))

#endif
