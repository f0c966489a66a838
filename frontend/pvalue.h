/* Literal parts of a pickle's object graph as values. */
#ifndef FE_PVALUE_H
#define FE_PVALUE_H

#include "pickle.h"
#include "value.h"

enum { FE_VALUES_TEXT = 256 };

struct fe_values {
    struct fe_pickle *p;
    /* Visited so far, of at most limits->max_nodes; a shared object counts each time, and a string once more for
     * each FE_VALUES_TEXT of its bytes. */
    uint64_t nodes;
};

/* Tuples and sets become lists, namespaces dicts, numpy scalars numbers. A tensor of at most 4096 elements
 * becomes the list of its elements in row-major order when `tensors` is set. All other objects become
 * FE_OPAQUE. Dict entries whose key is neither string nor integer are left out. NULL after reporting (too
 * many nodes, too deep, a key twice). */
struct fe_value *fe_obj_value(struct fe_values *v, struct fe_obj *o, bool tensors);

/* One more node; -1 after reporting. */
int fe_values_count(struct fe_values *v, uint64_t n);

/* That no string or integer key of a dict stands twice; -1 after reporting. */
int fe_values_check_keys(struct fe_values *v, struct fe_obj *dict);

/* "module.name" of an object's class or of a global; "" for others. */
const char *fe_obj_class(struct yir_arena *a, const struct fe_obj *o);

/* State of an object as set by BUILD (the first half of a pair with slots), or NULL when it is no dict. */
struct fe_obj *fe_obj_state(const struct fe_obj *o);

#endif
