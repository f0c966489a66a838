/* The open data base of records and its statements. For tunedb*.c. */
#ifndef CG_TUNEDB_SQL_H
#define CG_TUNEDB_SQL_H

#include "claimant.h"
#include "tunedb_file.h"
#include "tunerow.h"

enum cg_tune_stmt {
    CG_TUNE_BEGIN,
    CG_TUNE_COMMIT,
    CG_TUNE_FIND,
    CG_TUNE_ALL,
    CG_TUNE_PUT,
    CG_TUNE_DROP,
    CG_TUNE_CLAIM_FIND,
    CG_TUNE_CLAIM_PUT,
    CG_TUNE_CLAIM_DROP,
    CG_TUNE_NSTMT
};

struct cg_tunedb {
    struct cg_cachedir *dir;
    struct cg_sqlfile file;
    sqlite3_stmt *stmt[CG_TUNE_NSTMT]; /* made when first needed */
    struct cg_claimant self;
    bool claimed, stored;
    bool full;   /* nothing more can be written */
    bool mended; /* was damaged once already */
};

/* false: no records are to be had. */
bool cg_tunedb_usable(const struct cg_tunedb *db);

/* Ready to be bound; NULL with *code set. Statements are left reset, so that none keeps a lock. */
sqlite3_stmt *cg_tunedb_stmt(struct cg_tunedb *db, enum cg_tune_stmt id, int *code);

/* Steps a statement that gives no rows, and resets it. SQLITE_OK or an error. */
int cg_tunedb_step(sqlite3_stmt *s);

/* SQLITE_ROW: the record of f stands in *r. SQLITE_DONE: there is none that is sound. Else an error. */
int cg_tunedb_find(struct cg_tunedb *db, const struct cg_tune_fields *f, struct cg_tune_record *r);

/* The columns pid, started, token, since, boot; false: there is no such process. */
bool cg_tunedb_claimant(sqlite3_stmt *s, struct cg_claimant *c);

/* Puts a row, inside a transaction. */
int cg_tunedb_put(struct cg_tunedb *db, struct cg_tune_row *row);

int cg_tunedb_begin(struct cg_tunedb *db, bool durable);

/* Commits when code is SQLITE_OK, else rolls back. code, or what the commit says. */
int cg_tunedb_end(struct cg_tunedb *db, int code);

/* After an error: whether it is worth trying once more. Otherwise it was reported. */
bool cg_tunedb_mend(struct cg_tunedb *db, int code);

#endif
