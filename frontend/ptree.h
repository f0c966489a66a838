/* The object graph of a checkpoint -> tree of modules, tensors under their state_dict names, attributes. */
#ifndef FE_PTREE_H
#define FE_PTREE_H

#include "pickle.h"

/* Fills everything of w that comes from the checkpoint's top object: tensors, tree, yaml, names, top,
 * stored_in; w->file_size must be set. Storages must be resolved. -1 after reporting. */
int fe_ptree_read(struct fe_pickle *p, struct fe_obj *top, struct fe_weights *w);

/* Name without the leading "module." and "_orig_mod." that training wrappers add. */
const char *fe_bare_name(const char *name);

#endif
