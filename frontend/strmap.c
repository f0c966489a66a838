#include "strmap.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct fe_strmap_slot {
    const char *s; /* NULL: free */
    size_t len, value;
    uint64_t hash;
};

void fe_strmap_init(struct fe_strmap *m, struct yir_arena *a, size_t n)
{
    size_t nslot = 16;
    while (nslot / 2 < n)
        nslot *= 2;
    *m = (struct fe_strmap){.arena = a, .nslot = nslot};
    m->slot = yir_alloc_n(a, nslot, sizeof *m->slot);
}

/* The slot that holds the string, or the free one where it belongs. At least half of the slots are free. */
static struct fe_strmap_slot *probe(const struct fe_strmap *m, const char *s, size_t len, uint64_t hash)
{
    for (size_t i = hash & (m->nslot - 1);; i = (i + 1) & (m->nslot - 1)) {
        struct fe_strmap_slot *p = &m->slot[i];
        if (!p->s) return p;
        if (p->hash == hash && p->len == len && memcmp(p->s, s, len) == 0) return p;
    }
}

static void rehash(struct fe_strmap *m)
{
    struct fe_strmap old = *m;
    m->nslot *= 2;
    m->slot = yir_alloc_n(m->arena, m->nslot, sizeof *m->slot);
    for (size_t i = 0; i < old.nslot; i++) {
        const struct fe_strmap_slot *o = &old.slot[i];
        if (o->s) *probe(m, o->s, o->len, o->hash) = *o;
    }
}

/* Seeded by a place in memory, so that no file can be made whose names all collide. */
static uint64_t hash_of(const struct fe_strmap *m, const char *s, size_t len)
{
    return XXH3_64bits_withSeed(s, len, (uint64_t)(uintptr_t)m->arena);
}

bool fe_strmap_add(struct fe_strmap *m, const char *s, size_t len, size_t *value)
{
    uint64_t hash = hash_of(m, s, len);
    struct fe_strmap_slot *p = probe(m, s, len, hash);
    if (p->s) {
        *value = p->value;
        return false;
    }
    *p = (struct fe_strmap_slot){s, len, *value, hash};
    if (++m->n > m->nslot / 2) rehash(m);
    return true;
}

bool fe_strmap_find(const struct fe_strmap *m, const char *s, size_t len, size_t *value)
{
    const struct fe_strmap_slot *p = probe(m, s, len, hash_of(m, s, len));
    if (!p->s) return false;
    *value = p->value;
    return true;
}
