/* Element types, from dtypes.def. */
#ifndef YIR_DTYPE_H
#define YIR_DTYPE_H

#include "base.h"

enum yir_dtype {
#define DTYPE(id, text, bits, acc, is_float) YIR_##id,
#include "dtypes.def"
#undef DTYPE
    YIR_NDTYPE
};

unsigned yir_dtype_size(enum yir_dtype t); /* bytes */
const char *yir_dtype_name(enum yir_dtype t);
bool yir_dtype_is_float(enum yir_dtype t);
enum yir_dtype yir_dtype_acc(enum yir_dtype t);
bool yir_dtype_by_name(const char *text, size_t len, enum yir_dtype *out);

/* Value of element i of a dense array, and its conversion on storing (round to nearest even; U8 and the other
 * ints truncate toward zero after clamping). */
double yir_dtype_load(enum yir_dtype t, const void *data, size_t i);
void yir_dtype_store(enum yir_dtype t, void *data, size_t i, double v);

/* Elements 0..n-1 of a dense array as floats: (float)yir_dtype_load of each, faster. */
void yir_dtype_load_f32(enum yir_dtype t, const void *data, size_t n, float *out);

/* Stores all n of `in`: as yir_dtype_store of each, faster. */
void yir_dtype_store_f32(enum yir_dtype t, void *data, size_t n, const float *in);

#endif
