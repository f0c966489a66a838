/* Records of the tuner: what was fastest for an op on a target, measured once. SQLite, tuning.sqlite in the folder of
 * the caches; many processes write it at once, any of them may be killed, and what was stored is kept.
 * A record is a hint from outside: the caller checks its config against today's legal space. */
#ifndef CG_TUNEDB_H
#define CG_TUNEDB_H

#include "cachedir.h"

struct cg_tunedb;

enum { CG_TUNE_CONFIG = 256 };

/* Every field decides whether a record fits. No text may be NULL. */
struct cg_tune_key {
    const char *op;       /* canonical text of the fused op: ops, shapes, types, layouts */
    size_t op_len;
    const char *target;   /* CPU name, features and vector width; or SM and number of SMs */
    int threads;
    const char *versions; /* code generator, LLVM; NVRTC, driver, cuDNN */
    const char *space;    /* text of the knob space */
};

struct cg_tune_record {
    char config[CG_TUNE_CONFIG]; /* family and knobs as text */
    double median_s, spread_s;
    int64_t when;                /* seconds since 1970; 0 in a record to store: now */
};

/* NULL: run without; the folder's one diagnostic says why, unless c is NULL. On a file system whose locks can't be
 * relied on the records are private to this handle. */
struct cg_tunedb *cg_tunedb_open(struct yir_arena *a, struct cg_cachedir *c);

/* Whether a record that is stored now will be there for other processes. */
bool cg_tunedb_keeps(const struct cg_tunedb *db);

/* false: no record, or one that is damaged, belongs to other fields, or has a time that none can have. */
bool cg_tunedb_lookup(struct cg_tunedb *db, const struct cg_tune_key *k, struct cg_tune_record *r);

/* Keeps a record, over one that is there, and gives the claim up. false: not kept. */
bool cg_tunedb_store(struct cg_tunedb *db, const struct cg_tune_key *k, const struct cg_tune_record *r);

enum cg_tune_claim {
    CG_TUNE_MINE,  /* measure, then store or release; also when there is no data base */
    CG_TUNE_FOUND, /* *r holds the record */
    CG_TUNE_BUSY   /* another process still measures it: come back later, or measure and store nonetheless */
};

#define CG_TUNE_WAIT_S 2.0 /* after this long a holder counts as stuck */

/* Makes sure that not two processes measure the same. wait_s: how long to wait for another holder's record; 0 to take
 * another key first. The claim of a process that has died is taken over. */
enum cg_tune_claim cg_tunedb_claim(struct cg_tunedb *db, const struct cg_tune_key *k, double wait_s,
                                   struct cg_tune_record *r);

/* Gives a claim of this process up without a record. */
void cg_tunedb_release(struct cg_tunedb *db, const struct cg_tune_key *k);

/* Sound records in the order of their keys; visit returns false to stop. Its arguments are lent for the call, in which
 * db may not be used. */
void cg_tunedb_each(struct cg_tunedb *db,
                    bool (*visit)(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r),
                    void *user);

struct cg_tune_stats {
    uint64_t records, damaged, claims, bytes; /* claims: of processes that live; bytes: of the file */
};
struct cg_tune_stats cg_tunedb_stats(struct cg_tunedb *db);

/* Removes records older than max_age_s (below 0: none for that), then the oldest until the others' texts take at most
 * max_bytes (below 0: any). Damaged ones go too. The number removed. */
uint64_t cg_tunedb_prune(struct cg_tunedb *db, double max_age_s, int64_t max_bytes);

/* The sound records as a data base file of their own, in a; NULL: no records can be had. */
void *cg_tunedb_export(struct cg_tunedb *db, struct yir_arena *a, size_t *size);

struct cg_tune_merge {
    uint64_t taken, older, damaged; /* older: what was here was as new */
};

/* Adds the records of such a file, which may come from anywhere. Of two for one key the newer is kept. NULL, or what is
 * wrong with the file; text is static. */
const char *cg_tunedb_merge(struct cg_tunedb *db, const void *bytes, size_t size, struct cg_tune_merge *m);

#endif
