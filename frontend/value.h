/* Literal trees: what a yaml file or a pickled attribute holds. Never code. */
#ifndef FE_VALUE_H
#define FE_VALUE_H

#include "ir/diag.h"

enum fe_kind {
    FE_NONE, /* null, ~, Python None */
    FE_BOOL,
    FE_INT,
    FE_FLOAT,
    FE_STR,
    FE_LIST,  /* lists and tuples */
    FE_DICT,  /* keys are FE_STR or FE_INT values, order kept, keys distinct */
    FE_OPAQUE /* an object of a pickle that is no literal; s names its class */
};

struct fe_value {
    enum fe_kind kind;
    bool quoted;            /* FE_STR from yaml: written in quotes */
    bool repeated;          /* from yaml: an alias stands for it elsewhere */
    struct yir_loc loc;     /* where it stands; all 0 for pickles */
    int64_t i;              /* FE_BOOL (0, 1), FE_INT */
    double f;               /* FE_FLOAT; FE_INT and FE_BOOL too */
    const char *s;          /* FE_STR, FE_OPAQUE: NUL-terminated, no NUL inside */
    struct fe_value **item; /* FE_LIST: n values; FE_DICT: n values */
    struct fe_value **key;  /* FE_DICT: n keys */
    size_t n;
};

/* Value under a string key of a dict, or NULL (also when d is NULL or no dict). */
const struct fe_value *fe_get(const struct fe_value *d, const char *key);

/* true and *out set when v is a number with an integral value. */
bool fe_as_int(const struct fe_value *v, int64_t *out);
bool fe_as_float(const struct fe_value *v, double *out);

/* "a list of 2", "the string 'abc'", "the integer 5", "nothing" for NULL: for error texts. */
const char *fe_describe(struct yir_arena *a, const struct fe_value *v);

/* Prints as yaml flow text on one line (for `yoloc weights` and cache keys). */
void fe_print(struct yir_str *out, const struct fe_value *v);

/* Python literal text (numbers, strings, lists, tuples, dicts, None, True, False) as ast.literal_eval reads
 * it, e.g. "1e-3" or "[1, 2]"; NULL when the text is none. Depth and size are bounded. */
struct fe_value *fe_literal(struct yir_arena *a, const char *text, struct yir_loc loc);

#endif
