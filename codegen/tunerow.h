/* A row of the records: what it is keyed by, how it is summed, and when it is sound. For tunedb*.c. */
#ifndef CG_TUNEROW_H
#define CG_TUNEROW_H

#include <sqlite3.h>

#include "tunedb.h"

enum { CG_TUNE_FIELDS = 5, CG_TUNE_COLUMNS = 11, CG_TUNE_OP_MOST = 1 << 18, CG_TUNE_TEXT_MOST = 1 << 14 };

/* The columns in the order of the table, which binding and reading follow. */
#define CG_TUNE_ROW "key, op, target, threads, versions, space, config, median, spread, made, sum"

/* The fields of a key, as the columns op to space hold them. */
struct cg_tune_fields {
    struct {
        const char *text;
        size_t len;
    } field[CG_TUNE_FIELDS];
    char threads[16];
    struct cg_digest digest; /* of all fields with their lengths */
};

/* false: a text is missing or too long to be kept. */
bool cg_tune_fields(struct cg_tune_fields *f, const struct cg_tune_key *k);

/* A time that a kernel can take, a spread, and a printable config. */
bool cg_tune_plausible(const struct cg_tune_record *r);

/* Binds all columns, from parameter 1 on. f and r must stay until the statement has run. */
struct cg_tune_row {
    struct cg_tune_fields fields;
    struct cg_tune_record record;
    struct cg_digest sum;
};
int cg_tune_bind(sqlite3_stmt *s, struct cg_tune_row *row);

/* The row that a statement over CG_TUNE_ROW stands on; texts are the statement's. false: it is not sound. */
bool cg_tune_read(sqlite3_stmt *s, struct cg_tune_row *row);

/* Whether a row that was read is that of these fields. */
bool cg_tune_is(const struct cg_tune_row *row, const struct cg_tune_fields *f);

#endif
