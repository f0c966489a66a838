/* The calls and persistent ids of a checkpoint's pickle that have a meaning for us: containers, storages,
 * tensors. */
#ifndef FE_REBUILD_H
#define FE_REBUILD_H

#include "pickle.h"

struct fe_callable;

/* The row of a known callable, or NULL. */
const struct fe_callable *fe_callable_find(const char *module, const char *name);

/* Result of calling fn (GLOBAL or OBJECT) with args (TUPLE): an inert object when fn is not known. NULL after
 * reporting. */
struct fe_obj *fe_rebuild_call(struct fe_pickle *p, struct fe_obj *fn, struct fe_obj *args);

/* The object behind a persistent id: a STORAGE, or the class of a legacy ('module', class, ...). NULL after
 * reporting. */
struct fe_obj *fe_rebuild_persistent(struct fe_pickle *p, const struct fe_obj *pid);

/* First byte of a storage that is resolved. */
const uint8_t *fe_storage_data(const struct fe_storage *s);

#endif
