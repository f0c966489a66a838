/* The file of the tuning records: opened as if anyone had written it, moved aside when it is damaged. For tunedb*.c. */
#ifndef CG_TUNEDB_FILE_H
#define CG_TUNEDB_FILE_H

#include <sqlite3.h>

#include "cachedir.h"

enum cg_sql_state {
    CG_SQL_READY,
    CG_SQL_EMPTY,   /* nothing in it yet */
    CG_SQL_DAMAGED, /* or not ours */
    CG_SQL_NEWER,   /* of a later version of yoloc */
    CG_SQL_FAILED
};

/* Takes away what files could make SQLite do; for every connection, before its first statement. */
void cg_sql_harden(sqlite3 *sql);

/* Runs statements that give no rows, or whose rows don't matter. A result code of SQLite. */
int cg_sql_run(sqlite3 *sql, const char *text);

/* The first column of the first row; SQLITE_ROW, SQLITE_DONE or an error. */
int cg_sql_number(sqlite3 *sql, const char *text, int64_t *number);

/* What the file behind a connection is; whole: reads every page. */
enum cg_sql_state cg_sql_probe(sqlite3 *sql, bool whole);

/* Makes the tables of an empty data base. */
int cg_sql_create(sqlite3 *sql);

/* Whether a result code means that the file's bytes are wrong. */
bool cg_sql_is_damage(int code);

struct cg_sqlfile {
    sqlite3 *sql; /* NULL: not open */
    int lock;     /* shared while sql is open, so that nobody moves the file; -1: not open */
};

/* The records of a folder, ready; whole: damage is suspected. -1 after reporting, f is then closed. */
int cg_sqlfile_open(struct cg_sqlfile *f, struct cg_cachedir *c, bool whole);
void cg_sqlfile_close(struct cg_sqlfile *f);

/* Closes a data base that only memory holds, and f. */
int cg_sqlfile_open_private(struct cg_sqlfile *f);

#endif
