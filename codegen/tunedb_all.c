/* All records at once: listing, pruning, and files to carry them elsewhere. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "tunedb.h"
#include "tunedb_sql.h"

/* --- visiting --------------------------------------------------------------------------------------------------------- */

/* visit gets every row: sound NULL when it isn't. SQLITE_DONE, also when visit stopped, or an error. */
static int visit_rows(sqlite3_stmt *s, int (*visit)(void *user, sqlite3_stmt *s, struct cg_tune_row *sound), void *user)
{
    struct cg_tune_row row;
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        int rc = visit(user, s, cg_tune_read(s, &row) ? &row : NULL);
        if (rc != SQLITE_OK) {
            code = rc;
            break;
        }
    }
    sqlite3_reset(s);
    return code;
}

static int visit_all(struct cg_tunedb *db, int (*visit)(void *user, sqlite3_stmt *s, struct cg_tune_row *sound), void *user)
{
    int code;
    sqlite3_stmt *s = cg_tunedb_stmt(db, CG_TUNE_ALL, &code);
    return s ? visit_rows(s, visit, user) : code;
}

struct each {
    bool (*visit)(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r);
    void *user;
};

static int each_row(void *user, sqlite3_stmt *s, struct cg_tune_row *row)
{
    const struct each *e = user;
    (void)s;
    if (!row) return SQLITE_OK;
    enum { OP, TARGET, THREADS, VERSIONS, SPACE };
    const struct cg_tune_fields *f = &row->fields;
    const struct cg_tune_key k = {.op = f->field[OP].text, .op_len = f->field[OP].len, .target = f->field[TARGET].text,
                                  .threads = atoi(f->field[THREADS].text), .versions = f->field[VERSIONS].text,
                                  .space = f->field[SPACE].text};
    return e->visit(e->user, &k, &row->record) ? SQLITE_OK : SQLITE_DONE;
}

void cg_tunedb_each(struct cg_tunedb *db, bool (*visit)(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r),
                    void *user)
{
    struct each e = {visit, user};
    if (!cg_tunedb_usable(db)) return;
    int code = visit_all(db, each_row, &e);
    if (code != SQLITE_DONE) (void)cg_tunedb_mend(db, code);
}

static int count_row(void *user, sqlite3_stmt *s, struct cg_tune_row *row)
{
    struct cg_tune_stats *n = user;
    (void)s;
    *(row ? &n->records : &n->damaged) += 1;
    return SQLITE_OK;
}

static uint64_t count_claims(struct cg_tunedb *db)
{
    sqlite3_stmt *s;
    struct cg_claimant c;
    uint64_t n = 0;
    if (sqlite3_prepare_v2(db->file.sql, "SELECT pid, started, token, since, boot FROM claim", -1, &s, NULL) != SQLITE_OK) return 0;
    while (sqlite3_step(s) == SQLITE_ROW) n += cg_tunedb_claimant(s, &c) && cg_claimant_alive(&c, &db->self);
    sqlite3_finalize(s);
    return n;
}

struct cg_tune_stats cg_tunedb_stats(struct cg_tunedb *db)
{
    struct cg_tune_stats n = {0};
    int64_t pages = 0, page_size = 0;
    if (!cg_tunedb_usable(db)) return n;
    int code = visit_all(db, count_row, &n);
    if (code != SQLITE_DONE && !cg_tunedb_mend(db, code)) return n;
    cg_sql_number(db->file.sql, "PRAGMA page_count", &pages);
    cg_sql_number(db->file.sql, "PRAGMA page_size", &page_size);
    n.claims = count_claims(db);
    n.bytes = (uint64_t)(pages * page_size);
    return n;
}

/* --- pruning ------------------------------------------------------------------------------------------------------------ */

/* The row is the one that the statement stands on, which may be removed while it does. */
static int drop_damaged(void *user, sqlite3_stmt *s, struct cg_tune_row *row)
{
    struct cg_tunedb *db = user;
    int code;
    if (row) return SQLITE_OK;
    sqlite3_value *key = sqlite3_value_dup(sqlite3_column_value(s, 0));
    sqlite3_stmt *drop = key ? cg_tunedb_stmt(db, CG_TUNE_DROP, &code) : NULL;
    code = drop ? sqlite3_bind_value(drop, 1, key) : SQLITE_NOMEM;
    if (code == SQLITE_OK) code = cg_tunedb_step(drop);
    sqlite3_value_free(key);
    return code;
}

static int run_with(struct cg_tunedb *db, const char *text, int64_t number)
{
    sqlite3_stmt *s;
    int code = sqlite3_prepare_v2(db->file.sql, text, -1, &s, NULL);
    if (code != SQLITE_OK) return code;
    sqlite3_bind_int64(s, 1, number);
    code = sqlite3_step(s);
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* The oldest records go: those before the first that no longer fits, newest first. */
static int drop_beyond(struct cg_tunedb *db, int64_t max_bytes)
{
    sqlite3_stmt *s;
    int64_t total = 0;
    int code = sqlite3_prepare_v2(db->file.sql,
                                  "SELECT made, length(op) + length(target) + length(versions) + length(space) + "
                                  "length(config) + 80, key FROM record ORDER BY made DESC, key DESC",
                                  -1, &s, NULL);
    if (code != SQLITE_OK) return code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        total += sqlite3_column_int64(s, 1);
        if (total > max_bytes) break;
    }
    sqlite3_stmt *drop = NULL;
    if (code == SQLITE_ROW)
        code = sqlite3_prepare_v2(db->file.sql, "DELETE FROM record WHERE made < ?1 OR (made = ?1 AND key <= ?2)", -1, &drop, NULL);
    else if (code == SQLITE_DONE)
        code = SQLITE_OK;
    if (drop) {
        sqlite3_bind_value(drop, 1, sqlite3_column_value(s, 0));
        sqlite3_bind_value(drop, 2, sqlite3_column_value(s, 2));
        sqlite3_reset(s);
        code = cg_tunedb_step(drop);
    }
    sqlite3_finalize(drop);
    sqlite3_finalize(s);
    return code;
}

static int drop_dead_claims(struct cg_tunedb *db)
{
    sqlite3_stmt *s, *drop = NULL;
    struct cg_claimant c;
    int code = sqlite3_prepare_v2(db->file.sql, "SELECT pid, started, token, since, boot, key FROM claim", -1, &s, NULL);
    if (code != SQLITE_OK) return code;
    code = sqlite3_prepare_v2(db->file.sql, "DELETE FROM claim WHERE key = ?1", -1, &drop, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        code = SQLITE_OK;
        if (cg_tunedb_claimant(s, &c) && cg_claimant_alive(&c, &db->self)) continue;
        sqlite3_bind_value(drop, 1, sqlite3_column_value(s, 5));
        code = cg_tunedb_step(drop);
    }
    sqlite3_finalize(drop);
    sqlite3_finalize(s);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static int prune(struct cg_tunedb *db, double max_age_s, int64_t max_bytes)
{
    int code = cg_tunedb_begin(db, true);
    if (code != SQLITE_OK) return code;
    code = visit_all(db, drop_damaged, db);
    if (code == SQLITE_DONE) code = SQLITE_OK;
    if (code == SQLITE_OK && max_age_s >= 0) {
        double cut = (double)time(NULL) - max_age_s;
        code = run_with(db, "DELETE FROM record WHERE made < ?1", cut > 0 ? (int64_t)cut : 0);
    }
    if (code == SQLITE_OK && max_bytes >= 0) code = drop_beyond(db, max_bytes);
    if (code == SQLITE_OK) code = drop_dead_claims(db);
    return cg_tunedb_end(db, code);
}

uint64_t cg_tunedb_prune(struct cg_tunedb *db, double max_age_s, int64_t max_bytes)
{
    int64_t before = 0, after = 0;
    if (!cg_tunedb_usable(db)) return 0;
    int code = cg_sql_number(db->file.sql, "SELECT count(*) FROM record", &before) == SQLITE_ROW
                   ? prune(db, max_age_s, max_bytes)
                   : sqlite3_extended_errcode(db->file.sql);
    if (code != SQLITE_OK && !cg_tunedb_mend(db, code)) return 0;
    cg_sql_number(db->file.sql, "SELECT count(*) FROM record", &after);
    if (after < before) { /* pages are given back when nobody else reads them just now */
        sqlite3_limit(db->file.sql, SQLITE_LIMIT_ATTACHED, 1);
        cg_sql_run(db->file.sql, "VACUUM");
        sqlite3_limit(db->file.sql, SQLITE_LIMIT_ATTACHED, 0);
    }
    return before > after ? (uint64_t)(before - after) : 0;
}

/* --- files to carry elsewhere ---------------------------------------------------------------------------------------------- */

static int copy_row(void *user, sqlite3_stmt *s, struct cg_tune_row *row)
{
    struct cg_tunedb *to = user;
    (void)s;
    return row ? cg_tunedb_put(to, row) : SQLITE_OK;
}

/* The arena's memory comes first: SQLite's own must not be held when that runs out. */
static void *serialize(sqlite3 *sql, struct yir_arena *a, size_t *size)
{
    int64_t pages = 0, page_size = 0;
    sqlite3_int64 n = 0;
    cg_sql_number(sql, "PRAGMA page_count", &pages);
    cg_sql_number(sql, "PRAGMA page_size", &page_size);
    *size = (size_t)(pages * page_size);
    void *out = yir_alloc(a, *size);
    unsigned char *bytes = sqlite3_serialize(sql, "main", &n, 0);
    bool whole = bytes && (size_t)n == *size;
    if (whole) memcpy(out, bytes, *size);
    sqlite3_free(bytes);
    return whole ? out : NULL;
}

static void close_private(void *p)
{
    struct cg_tunedb *db = p;
    cg_sqlfile_close(&db->file);
}

void *cg_tunedb_export(struct cg_tunedb *db, struct yir_arena *a, size_t *size)
{
    if (!cg_tunedb_usable(db)) return NULL;
    struct cg_tunedb *to = yir_alloc(a, sizeof *to);
    *to = (struct cg_tunedb){.dir = db->dir, .file.lock = -1};
    yir_arena_defer(a, close_private, to);
    if (cg_sqlfile_open_private(&to->file) != 0) return NULL;
    int code = cg_tunedb_begin(to, false);
    if (code == SQLITE_OK) code = visit_all(db, copy_row, to);
    code = cg_tunedb_end(to, code == SQLITE_DONE ? SQLITE_OK : code);
    void *out = code == SQLITE_OK ? serialize(to->file.sql, a, size) : NULL;
    memset(to->stmt, 0, sizeof to->stmt);
    cg_sqlfile_close(&to->file);
    return out;
}

struct merge {
    struct cg_tunedb *db;
    struct cg_tune_merge *count;
    int64_t now;
};

static int merge_row(void *user, sqlite3_stmt *s, struct cg_tune_row *row)
{
    struct merge *m = user;
    struct cg_tune_record here;
    (void)s;
    if (!row || row->fields.field[0].len > CG_TUNE_OP_MOST) {
        m->count->damaged++;
        return SQLITE_OK;
    }
    if (row->record.when > m->now) row->record.when = m->now; /* a clock that was wrong would win for ever */
    int code = cg_tunedb_find(m->db, &row->fields, &here);
    if (code == SQLITE_ROW && here.when >= row->record.when) {
        m->count->older++;
        return SQLITE_OK;
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE) return code;
    code = cg_tunedb_put(m->db, row);
    m->count->taken += code == SQLITE_OK;
    return code;
}

/* A copy of a file's bytes as a data base that nothing is written to. In memory there is no log, so a header that asks for one
 * (bytes 18 and 19: the versions of the format that writing and reading need) is told otherwise. */
static int open_image(sqlite3 **sql, const void *bytes, size_t size)
{
    enum { LEAST = 100, VERSIONS = 18 };
    *sql = NULL;
    if (size < LEAST) return SQLITE_NOTADB;
    unsigned char *copy = sqlite3_malloc64(size);
    if (!copy) return SQLITE_NOMEM;
    memcpy(copy, bytes, size);
    if (copy[VERSIONS] == 2) copy[VERSIONS] = 1;
    if (copy[VERSIONS + 1] == 2) copy[VERSIONS + 1] = 1;
    int code = sqlite3_open_v2(":memory:", sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) {
        sqlite3_free(copy);
        return code;
    }
    code = sqlite3_deserialize(*sql, "main", copy, (sqlite3_int64)size, (sqlite3_int64)size,
                               SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
    cg_sql_harden(*sql);
    return code;
}

static const char *merge_from(struct merge *m, sqlite3 *sql)
{
    sqlite3_stmt *s = NULL;
    enum cg_sql_state state = cg_sql_probe(sql, true);
    if (state == CG_SQL_NEWER) return "a later version of yoloc wrote it";
    if (state != CG_SQL_READY) return "it holds no tuning records, or is damaged";
    if (sqlite3_prepare_v2(sql, "SELECT " CG_TUNE_ROW " FROM record ORDER BY key", -1, &s, NULL) != SQLITE_OK)
        return "it can't be read";
    int code = cg_tunedb_begin(m->db, true);
    if (code == SQLITE_OK) code = visit_rows(s, merge_row, m);
    code = cg_tunedb_end(m->db, code == SQLITE_DONE ? SQLITE_OK : code);
    bool here = code != SQLITE_OK && sqlite3_errcode(sql) != code;
    sqlite3_finalize(s);
    if (code == SQLITE_OK) return NULL;
    *m->count = (struct cg_tune_merge){0};
    if (here) (void)cg_tunedb_mend(m->db, code);
    return sqlite3_errstr(code);
}

const char *cg_tunedb_merge(struct cg_tunedb *db, const void *bytes, size_t size, struct cg_tune_merge *m)
{
    struct merge all = {.db = db, .count = m, .now = time(NULL)};
    sqlite3 *sql;
    *m = (struct cg_tune_merge){0};
    if (!cg_tunedb_usable(db) || db->full) return "there are no records to merge it with";
    int code = open_image(&sql, bytes, size);
    const char *why = code == SQLITE_OK ? merge_from(&all, sql) : sqlite3_errstr(code);
    sqlite3_close(sql);
    return why;
}
