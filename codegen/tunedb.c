#include "tunedb.h"

#include <string.h>
#include <time.h>

#include "check.h"
#include "ir/crashpoint.h"
#include "tunedb_sql.h"

enum { AUTO_PRUNE = 64 << 20, AUTO_LEFT = 32 << 20, IMPATIENT_MS = 20, POLL_MS = 20 };

static const char *const texts[CG_TUNE_NSTMT] = {
    [CG_TUNE_BEGIN] = "BEGIN IMMEDIATE",
    [CG_TUNE_COMMIT] = "COMMIT",
    [CG_TUNE_FIND] = "SELECT " CG_TUNE_ROW " FROM record WHERE key = ?1",
    [CG_TUNE_ALL] = "SELECT " CG_TUNE_ROW " FROM record ORDER BY key",
    [CG_TUNE_PUT] = "INSERT OR REPLACE INTO record(" CG_TUNE_ROW ") VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [CG_TUNE_DROP] = "DELETE FROM record WHERE key = ?1",
    [CG_TUNE_CLAIM_FIND] = "SELECT pid, started, token, since, boot FROM claim WHERE key = ?1",
    [CG_TUNE_CLAIM_PUT] = "INSERT OR REPLACE INTO claim(key, pid, started, token, since, boot) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [CG_TUNE_CLAIM_DROP] = "DELETE FROM claim WHERE key = ?1 AND token = ?2",
};

/* --- the handle ----------------------------------------------------------------------------------------------------- */

bool cg_tunedb_usable(const struct cg_tunedb *db)
{
    return db && db->file.sql && cg_cachedir_usable(db->dir);
}

bool cg_tunedb_keeps(const struct cg_tunedb *db)
{
    return cg_tunedb_usable(db) && !db->full && cg_cachedir_shared(db->dir);
}

static void shut(struct cg_tunedb *db)
{
    memset(db->stmt, 0, sizeof db->stmt);
    cg_sqlfile_close(&db->file);
}

static void drop_claims(struct cg_tunedb *db)
{
    sqlite3_stmt *s;
    sqlite3_busy_timeout(db->file.sql, IMPATIENT_MS);
    if (sqlite3_prepare_v2(db->file.sql, "DELETE FROM claim WHERE token = ?1", -1, &s, NULL) != SQLITE_OK) return;
    sqlite3_bind_int64(s, 1, db->self.token);
    sqlite3_step(s);
    sqlite3_finalize(s);
}

/* A child of the process that opened it leaves the file alone: closing a data base writes to it. */
static void close_db(void *p)
{
    struct cg_tunedb *db = p;
    int64_t pages = 0, page_size = 0;
    if (!cg_tunedb_usable(db)) return;
    if (db->claimed) drop_claims(db);
    if (db->stored && cg_sql_number(db->file.sql, "PRAGMA page_count", &pages) == SQLITE_ROW &&
        cg_sql_number(db->file.sql, "PRAGMA page_size", &page_size) == SQLITE_ROW && pages * page_size > AUTO_PRUNE)
        cg_tunedb_prune(db, -1, AUTO_LEFT);
    shut(db);
}

static int open_file(struct cg_tunedb *db, bool whole)
{
    if (cg_cachedir_shared(db->dir)) return cg_sqlfile_open(&db->file, db->dir, whole);
    cg_cachedir_report(db->dir, "it is on a network or user-space file system, so what is measured now is not kept");
    return cg_sqlfile_open_private(&db->file);
}

struct cg_tunedb *cg_tunedb_open(struct yir_arena *a, struct cg_cachedir *c)
{
    if (!cg_cachedir_usable(c)) return NULL;
    struct cg_tunedb *db = yir_alloc(a, sizeof *db);
    *db = (struct cg_tunedb){.dir = c, .file.lock = -1, .self = cg_claimant_self()};
    yir_arena_defer(a, close_db, db);
    return open_file(db, false) == 0 ? db : NULL;
}

bool cg_tunedb_mend(struct cg_tunedb *db, int code)
{
    int primary = code & 0xff;
    bool damage = cg_sql_is_damage(code) || primary == SQLITE_TOOBIG;
    if (damage && !db->mended && cg_cachedir_shared(db->dir)) {
        db->mended = true;
        shut(db);
        return open_file(db, true) == 0;
    }
    cg_cachedir_report(db->dir, "tuning.sqlite: %s", sqlite3_errstr(code));
    if (primary == SQLITE_BUSY) sqlite3_busy_timeout(db->file.sql, IMPATIENT_MS); /* the next ones don't wait as long */
    else if (primary == SQLITE_FULL) db->full = true;
    else shut(db);
    return false;
}

/* --- statements ------------------------------------------------------------------------------------------------------ */

sqlite3_stmt *cg_tunedb_stmt(struct cg_tunedb *db, enum cg_tune_stmt id, int *code)
{
    *code = SQLITE_OK;
    if (!db->stmt[id]) *code = sqlite3_prepare_v3(db->file.sql, texts[id], -1, SQLITE_PREPARE_PERSISTENT, &db->stmt[id], NULL);
    return db->stmt[id];
}

int cg_tunedb_step(sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int run(struct cg_tunedb *db, enum cg_tune_stmt id)
{
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, id, &code);
    return s ? cg_tunedb_step(s) : code;
}

/* A claim need not outlive a loss of power, as its process does not. */
int cg_tunedb_begin(struct cg_tunedb *db, bool durable)
{
    int code = cg_sql_run(db->file.sql, durable ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
    return code == SQLITE_OK ? run(db, CG_TUNE_BEGIN) : code;
}

int cg_tunedb_end(struct cg_tunedb *db, int code)
{
    if (code == SQLITE_OK) code = run(db, CG_TUNE_COMMIT);
    if (!sqlite3_get_autocommit(db->file.sql)) cg_sql_run(db->file.sql, "ROLLBACK");
    return code;
}

static int bind_digest(sqlite3_stmt *s, const struct cg_digest *d)
{
    return sqlite3_bind_blob(s, 1, d->byte, sizeof d->byte, SQLITE_STATIC);
}

int cg_tunedb_find(struct cg_tunedb *db, const struct cg_tune_fields *f, struct cg_tune_record *r)
{
    struct cg_tune_row row;
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, CG_TUNE_FIND, &code);
    if (!s) return code;
    bind_digest(s, &f->digest);
    code = sqlite3_step(s);
    bool found = code == SQLITE_ROW && cg_tune_read(s, &row) && cg_tune_is(&row, f);
    if (found) *r = row.record;
    sqlite3_reset(s);
    if (code == SQLITE_ROW && !found) return SQLITE_DONE;
    return code;
}

int cg_tunedb_put(struct cg_tunedb *db, struct cg_tune_row *row)
{
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, CG_TUNE_PUT, &code);
    if (s) code = cg_tune_bind(s, row);
    return code == SQLITE_OK ? cg_tunedb_step(s) : code;
}

/* --- lookup and store -------------------------------------------------------------------------------------------------- */

bool cg_tunedb_lookup(struct cg_tunedb *db, const struct cg_tune_key *k, struct cg_tune_record *r)
{
    struct cg_tune_fields f;
    if (!cg_tunedb_usable(db) || !cg_tune_fields(&f, k)) return false;
    int code;
    do code = cg_tunedb_find(db, &f, r);
    while (code != SQLITE_ROW && code != SQLITE_DONE && cg_tunedb_mend(db, code));
    return code == SQLITE_ROW;
}

static int drop_claim(struct cg_tunedb *db, const struct cg_digest *key)
{
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, CG_TUNE_CLAIM_DROP, &code);
    if (!s) return code;
    bind_digest(s, key);
    sqlite3_bind_int64(s, 2, db->self.token);
    return cg_tunedb_step(s);
}

static int store(struct cg_tunedb *db, struct cg_tune_row *row)
{
    int code = cg_tunedb_begin(db, true);
    if (code != SQLITE_OK) return code;
    code = cg_tunedb_put(db, row);
    YIR_CRASH_POINT("tunedb.record-put");
    if (code == SQLITE_OK && db->claimed) code = drop_claim(db, &row->fields.digest);
    YIR_CRASH_POINT("tunedb.claim-dropped");
    code = cg_tunedb_end(db, code);
    YIR_CRASH_POINT("tunedb.record-kept");
    return code;
}

bool cg_tunedb_store(struct cg_tunedb *db, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    struct cg_tune_row row = {.record = *r};
    if (!cg_tunedb_usable(db) || db->full || !cg_tune_fields(&row.fields, k) || !cg_tune_plausible(r)) return false;
    if (!row.record.when) row.record.when = time(NULL);
    int code;
    do code = store(db, &row);
    while (code != SQLITE_OK && cg_tunedb_mend(db, code));
    db->stored |= code == SQLITE_OK;
    return code == SQLITE_OK;
}

/* --- claims ------------------------------------------------------------------------------------------------------------- */

static int put_claim(struct cg_tunedb *db, const struct cg_digest *key)
{
    struct cg_claimant c = cg_claimant_self();
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, CG_TUNE_CLAIM_PUT, &code);
    if (!s) return code;
    const int64_t number[] = {c.pid, c.started, db->self.token, c.since_ms};
    bind_digest(s, key);
    for (int i = 0; i < (int)YIR_COUNT(number); i++) sqlite3_bind_int64(s, 2 + i, number[i]);
    sqlite3_bind_text(s, 6, c.boot, -1, SQLITE_STATIC);
    return cg_tunedb_step(s);
}

bool cg_tunedb_claimant(sqlite3_stmt *s, struct cg_claimant *c)
{
    const char *boot = (const char *)sqlite3_column_text(s, 4);
    if (!boot || strlen(boot) >= sizeof c->boot) return false;
    *c = (struct cg_claimant){.pid = sqlite3_column_int64(s, 0), .started = sqlite3_column_int64(s, 1),
                              .token = sqlite3_column_int64(s, 2), .since_ms = sqlite3_column_int64(s, 3)};
    memcpy(c->boot, boot, strlen(boot) + 1);
    return true;
}

/* SQLITE_ROW: another one that lives holds the key. SQLITE_DONE: nobody else. Else an error. */
static int find_holder(struct cg_tunedb *db, const struct cg_digest *key)
{
    struct cg_claimant c;
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, CG_TUNE_CLAIM_FIND, &code);
    if (!s) return code;
    bind_digest(s, key);
    code = sqlite3_step(s);
    bool known = code == SQLITE_ROW && cg_tunedb_claimant(s, &c);
    sqlite3_reset(s);
    if (code != SQLITE_ROW) return code;
    return known && c.token != db->self.token && cg_claimant_alive(&c, &db->self) ? SQLITE_ROW : SQLITE_DONE;
}

/* SQLITE_OK and the state of the key, or an error. */
static int see(struct cg_tunedb *db, const struct cg_tune_fields *f, struct cg_tune_record *r, enum cg_tune_claim *state)
{
    int code = cg_tunedb_find(db, f, r);
    *state = CG_TUNE_FOUND;
    if (code == SQLITE_ROW) return SQLITE_OK;
    if (code != SQLITE_DONE) return code;
    code = find_holder(db, &f->digest);
    *state = code == SQLITE_ROW ? CG_TUNE_BUSY : CG_TUNE_MINE;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Looks without a lock first, since those who wait look often; what is free is then taken under one. */
static int take(struct cg_tunedb *db, const struct cg_tune_fields *f, struct cg_tune_record *r, enum cg_tune_claim *state)
{
    int code = see(db, f, r, state);
    if (code != SQLITE_OK || *state != CG_TUNE_MINE) return code;
    code = cg_tunedb_begin(db, false);
    if (code != SQLITE_OK) return code;
    code = see(db, f, r, state);
    if (code == SQLITE_OK && *state == CG_TUNE_MINE) code = put_claim(db, &f->digest);
    YIR_CRASH_POINT("tunedb.claim-put");
    code = cg_tunedb_end(db, code);
    YIR_CRASH_POINT("tunedb.claim-taken");
    return code;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum cg_tune_claim cg_tunedb_claim(struct cg_tunedb *db, const struct cg_tune_key *k, double wait_s, struct cg_tune_record *r)
{
    struct cg_tune_fields f;
    enum cg_tune_claim state = CG_TUNE_MINE;
    if (!cg_tunedb_usable(db) || !cg_tune_fields(&f, k)) return CG_TUNE_MINE;
    for (double end = seconds() + wait_s;;) {
        int code = take(db, &f, r, &state);
        if (code != SQLITE_OK && !cg_tunedb_mend(db, code)) return CG_TUNE_MINE;
        if (code != SQLITE_OK) continue;
        db->claimed |= state == CG_TUNE_MINE;
        if (state != CG_TUNE_BUSY || seconds() >= end) return state;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
    }
}

void cg_tunedb_release(struct cg_tunedb *db, const struct cg_tune_key *k)
{
    struct cg_tune_fields f;
    if (!cg_tunedb_usable(db) || db->full || !cg_tune_fields(&f, k)) return;
    int code;
    do {
        code = cg_tunedb_begin(db, false);
        if (code == SQLITE_OK) code = cg_tunedb_end(db, drop_claim(db, &f.digest));
    } while (code != SQLITE_OK && cg_tunedb_mend(db, code));
}
