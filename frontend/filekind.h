/* What a file given as weights is, by its bytes. */
#ifndef FE_FILEKIND_H
#define FE_FILEKIND_H

#include "ir/base.h"

enum fe_filekind { FE_FILE_PT_ZIP, FE_FILE_PT_LEGACY, FE_FILE_SAFETENSORS, FE_FILE_OTHER };

/* *what: for FE_FILE_OTHER, the end of a sentence "the file ...". */
enum fe_filekind fe_filekind_of(const uint8_t *bytes, size_t len, const char **what);

#endif
