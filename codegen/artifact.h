/* Results that take long to make: whole modules and compiled kernels, by the bytes of all that decides them. One file an
 * entry, objects/ab/<digest of the key> in the folder of the caches: written beside its place and renamed, checked
 * whole when read. What was used least recently goes when the entries outgrow the limit. */
#ifndef CG_ARTIFACT_H
#define CG_ARTIFACT_H

#include "cachedir.h"

struct cg_artifacts;

#define CG_ARTIFACT_LIMIT (2ull << 30) /* bytes of all entries, unless YOLOC_CACHE_LIMIT or the caller says another */

/* limit 0: YOLOC_CACHE_LIMIT (bytes; K, M and G are powers of 1024), else the default. NULL: run without; the folder's
 * one diagnostic says why, unless c is NULL. */
struct cg_artifacts *cg_artifacts_open(struct yir_arena *a, struct cg_cachedir *c, uint64_t limit);

/* kind: "module", "kernel"; at most 15 letters, part of the key. key: fields by cg_key_put, at most 64 MiB. */
struct cg_artifact_key {
    const char *kind;
    const void *bytes;
    size_t len;
};

/* The payload in memory of a, aligned as malloc's, or NULL. A damaged entry is removed; so is the entry of a key with
 * the same digest not returned. size 0 payloads give a pointer too. */
const void *cg_artifact_get(struct cg_artifacts *c, struct yir_arena *a, const struct cg_artifact_key *k, size_t *size);

/* The same in malloc's memory, which the caller frees. */
void *cg_artifact_take(struct cg_artifacts *c, const struct cg_artifact_key *k, size_t *size);

/* false: not kept, for want of room without removing entries of the last minute, or since writing failed. */
bool cg_artifact_put(struct cg_artifacts *c, const struct cg_artifact_key *k, const void *payload, size_t size);

struct cg_artifact_info {
    const char *kind;       /* "?": damaged */
    const char *name;       /* of the file: the digest in hexadecimal */
    uint64_t bytes;         /* of the file */
    int64_t used;           /* seconds since 1970 */
};

/* In the order of names; visit returns false to stop. Only the head of each file is looked at. */
void cg_artifacts_each(struct cg_artifacts *c, bool (*visit)(void *user, const struct cg_artifact_info *i), void *user);

/* Removes damaged entries, for which each is read whole, then those not used for max_age_s (below 0: none for that), and those used least recently until the others take
 * at most max_bytes (below 0: the limit). Unlike a put it spares no recent entry. The number removed. */
uint64_t cg_artifacts_prune(struct cg_artifacts *c, double max_age_s, int64_t max_bytes);

uint64_t cg_artifacts_limit(const struct cg_artifacts *c);

#endif
