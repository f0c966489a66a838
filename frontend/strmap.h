/* Map from byte strings to indexes, in an arena: names of tensors, storages, dict keys. */
#ifndef FE_STRMAP_H
#define FE_STRMAP_H

#include "ir/arena.h"

struct fe_strmap {
    struct yir_arena *arena;
    struct fe_strmap_slot *slot;
    size_t nslot, n;
};

/* Room for about n strings; it grows beyond that. */
void fe_strmap_init(struct fe_strmap *m, struct yir_arena *a, size_t n);

/* Adds a string, which is borrowed for the life of the map. When it is there already, its value stays and
 * *value is set to it: false. */
bool fe_strmap_add(struct fe_strmap *m, const char *s, size_t len, size_t *value);

/* false when it is not there. */
bool fe_strmap_find(const struct fe_strmap *m, const char *s, size_t len, size_t *value);

#endif
