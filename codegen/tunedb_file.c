#include "tunedb_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "ir/crashpoint.h"

#define FILE_NAME "tuning.sqlite"
#define LOCK_NAME "tuning.lock"

enum {
    APPLICATION = 0x594c5452, /* "YLTR", in the header of the file */
    VERSION = 1,
    MOST_COPIES = 8,          /* damaged files that are kept */
    SMALL = 1 << 20,          /* a file that is read whole at every opening; that takes some 2 ms */
};

/* In the order of their names, as SQLite keeps them. */
static const struct {
    const char *name, *text;
} tables[] = {
    {"claim", "CREATE TABLE claim(key BLOB PRIMARY KEY, pid INTEGER, started INTEGER, token INTEGER, since INTEGER, "
              "boot TEXT) WITHOUT ROWID"},
    {"record", "CREATE TABLE record(key BLOB PRIMARY KEY, op TEXT, target TEXT, threads TEXT, versions TEXT, space TEXT, "
               "config TEXT, median REAL, spread REAL, made INTEGER, sum BLOB) WITHOUT ROWID"},
};

/* Files that SQLite keeps beside the data base, and that go before it when it is moved. */
static const char *const beside[] = {"-wal", "-shm", "-journal"};

/* --- one connection --------------------------------------------------------------------------------------------- */

void cg_sql_harden(sqlite3 *sql)
{
    static const struct {
        int id, most;
    } limits[] = {{SQLITE_LIMIT_LENGTH, 1 << 20},       {SQLITE_LIMIT_SQL_LENGTH, 4096},
                  {SQLITE_LIMIT_COLUMN, 32},            {SQLITE_LIMIT_EXPR_DEPTH, 16},
                  {SQLITE_LIMIT_COMPOUND_SELECT, 2},    {SQLITE_LIMIT_VDBE_OP, 5000},
                  {SQLITE_LIMIT_FUNCTION_ARG, 8},       {SQLITE_LIMIT_ATTACHED, 0},
                  {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64}, {SQLITE_LIMIT_VARIABLE_NUMBER, 16},
                  {SQLITE_LIMIT_TRIGGER_DEPTH, 1},      {SQLITE_LIMIT_WORKER_THREADS, 0}};
    static const struct {
        int id, on;
    } settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
                    {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
                    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0}};
    for (size_t i = 0; i < YIR_COUNT(limits); i++) sqlite3_limit(sql, limits[i].id, limits[i].most);
    for (size_t i = 0; i < YIR_COUNT(settings); i++) sqlite3_db_config(sql, settings[i].id, settings[i].on, NULL);
    sqlite3_extended_result_codes(sql, 1);
    sqlite3_busy_timeout(sql, CG_CACHEDIR_WAIT_MS);
    cg_sql_run(sql, "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY");
}

int cg_sql_run(sqlite3 *sql, const char *text)
{
    return sqlite3_exec(sql, text, NULL, NULL, NULL);
}

int cg_sql_number(sqlite3 *sql, const char *text, int64_t *number)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(sql, text, -1, &s, NULL);
    if (rc != SQLITE_OK) return rc;
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) *number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc;
}

bool cg_sql_is_damage(int code)
{
    int primary = code & 0xff;
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_FORMAT || primary == SQLITE_MISMATCH;
}

/* A schema that can't be read at all, such as a text that is too long, is as wrong as one that can. */
static enum cg_sql_state state_of(int code)
{
    int primary = code & 0xff;
    bool strange = primary == SQLITE_ERROR || primary == SQLITE_TOOBIG || primary == SQLITE_SCHEMA;
    return strange || cg_sql_is_damage(code) ? CG_SQL_DAMAGED : CG_SQL_FAILED;
}

static bool text_is(sqlite3_stmt *s, int column, const char *wanted)
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text && strcmp(text, wanted) == 0;
}

/* SQLITE_ROW: just our tables. SQLITE_DONE: none at all. SQLITE_MISMATCH: others. */
static int compare_schema(sqlite3 *sql)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(sql, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name", -1, &s, NULL);
    size_t n = 0;
    bool same = true;
    if (rc != SQLITE_OK) return rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && n <= YIR_COUNT(tables)) {
        const char *name = n < YIR_COUNT(tables) ? tables[n].name : "", *text = n < YIR_COUNT(tables) ? tables[n].text : "";
        same &= text_is(s, 0, "table") && text_is(s, 1, name) && text_is(s, 2, name) && text_is(s, 3, text);
        n++;
    }
    sqlite3_finalize(s);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) return rc;
    if (n == 0) return SQLITE_DONE;
    return CG_HOLDS(TUNE_SCHEMA, same && n == YIR_COUNT(tables)) ? SQLITE_ROW : SQLITE_MISMATCH;
}

/* SQLITE_OK, or SQLITE_CORRUPT when a page is not as it must be. */
static int check_pages(sqlite3 *sql)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(sql, "PRAGMA integrity_check(1)", -1, &s, NULL);
    if (rc != SQLITE_OK) return rc;
    rc = sqlite3_step(s);
    bool good = rc == SQLITE_ROW && text_is(s, 0, "ok");
    sqlite3_finalize(s);
    if (rc != SQLITE_ROW) return rc;
    return CG_HOLDS(TUNE_PAGES, good) ? SQLITE_OK : SQLITE_CORRUPT;
}

enum cg_sql_state cg_sql_probe(sqlite3 *sql, bool whole)
{
    int64_t application = 0, version = 0, pages = 0, page_size = 0;
    int rc = cg_sql_number(sql, "PRAGMA application_id", &application);
    if (rc == SQLITE_ROW) rc = cg_sql_number(sql, "PRAGMA user_version", &version);
    if (rc != SQLITE_ROW) return state_of(rc);
    if (CG_BREAKS(TUNE_NEWER, application == APPLICATION && version > VERSION)) return CG_SQL_NEWER;
    rc = compare_schema(sql);
    if (rc == SQLITE_DONE) return application || version ? CG_SQL_DAMAGED : CG_SQL_EMPTY;
    if (rc != SQLITE_ROW) return state_of(rc);
    if (CG_BREAKS(TUNE_APPLICATION, application != APPLICATION || version != VERSION)) return CG_SQL_DAMAGED;
    rc = cg_sql_number(sql, "PRAGMA page_count", &pages);
    if (rc == SQLITE_ROW) rc = cg_sql_number(sql, "PRAGMA page_size", &page_size);
    if (rc != SQLITE_ROW) return state_of(rc);
    if (whole || pages * page_size <= SMALL) rc = check_pages(sql);
    else rc = SQLITE_OK;
    return rc == SQLITE_OK ? CG_SQL_READY : state_of(rc);
}

int cg_sql_create(sqlite3 *sql)
{
    char text[128];
    int rc = cg_sql_run(sql, "BEGIN IMMEDIATE");
    for (size_t i = 0; i < YIR_COUNT(tables) && rc == SQLITE_OK; i++) rc = cg_sql_run(sql, tables[i].text);
    snprintf(text, sizeof text, "PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", APPLICATION, VERSION);
    YIR_CRASH_POINT("tunedb.tables-made");
    if (rc == SQLITE_OK) rc = cg_sql_run(sql, text);
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(sql)) cg_sql_run(sql, "ROLLBACK");
    return rc;
}

int cg_sqlfile_open_private(struct cg_sqlfile *f)
{
    *f = (struct cg_sqlfile){.lock = -1};
    int rc = sqlite3_open_v2(":memory:", &f->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK) {
        cg_sql_harden(f->sql);
        rc = cg_sql_create(f->sql);
    }
    if (rc == SQLITE_OK) return 0;
    cg_sqlfile_close(f);
    return -1;
}

/* --- the file ------------------------------------------------------------------------------------------------- */

void cg_sqlfile_close(struct cg_sqlfile *f)
{
    for (sqlite3_stmt *s; f->sql && (s = sqlite3_next_stmt(f->sql, NULL));) sqlite3_finalize(s);
    sqlite3_close(f->sql);
    if (f->lock >= 0) close(f->lock);
    *f = (struct cg_sqlfile){.lock = -1};
}

static int give_up(struct cg_sqlfile *f, struct cg_cachedir *c, const char *why)
{
    cg_sqlfile_close(f);
    cg_cachedir_report(c, "%s: %s", FILE_NAME, why);
    return -1;
}

static const char *distrust_files(int folder)
{
    char name[64];
    const char *why = cg_cachedir_distrust(folder, FILE_NAME);
    for (size_t i = 0; i < YIR_COUNT(beside) && !why; i++) {
        snprintf(name, sizeof name, "%s%s", FILE_NAME, beside[i]);
        why = cg_cachedir_distrust(folder, name);
    }
    return why ? why : cg_cachedir_distrust(folder, LOCK_NAME);
}

/* Left by a process that was killed, or in use. */
static bool has_log(int folder)
{
    struct stat st;
    return fstatat(folder, FILE_NAME "-wal", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0;
}

/* Whether the file that SQLite opened by its name is the one in the folder. */
static bool same_file(const char *path, int folder)
{
    struct stat named, inside;
    return stat(path, &named) == 0 && fstatat(folder, FILE_NAME, &inside, AT_SYMLINK_NOFOLLOW) == 0 &&
           named.st_dev == inside.st_dev && named.st_ino == inside.st_ino;
}

/* Opens and looks. The file is not changed: not even a log is written back before the content is known. */
static enum cg_sql_state look(struct cg_sqlfile *f, const struct cg_cachedir *c, bool whole, int *code)
{
    char path[PATH_MAX + 32];
    int folder = cg_cachedir_fd(c), flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX;
    /* SQLite would make it readable by all. No descriptor of a file that is there already may be closed: that drops its locks. */
    int made = openat(folder, FILE_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (made >= 0) close(made);
    whole |= has_log(folder);
    snprintf(path, sizeof path, "%s/%s", cg_cachedir_path(c), FILE_NAME);
    *code = sqlite3_open_v2(path, &f->sql, flags, NULL);
    if (*code != SQLITE_OK) return CG_SQL_FAILED;
    cg_sql_harden(f->sql);
    sqlite3_db_config(f->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    enum cg_sql_state state = cg_sql_probe(f->sql, whole);
    *code = sqlite3_extended_errcode(f->sql);
    if (!same_file(path, folder)) return CG_SQL_FAILED;
    return state;
}

/* With WAL, readers don't wait and a killed writer leaves nothing half done. Only a first opener changes the mode. */
static int set_mode(sqlite3 *sql)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(sql, "PRAGMA journal_mode = WAL", -1, &s, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    bool wal = rc == SQLITE_ROW && text_is(s, 0, "wal");
    if (rc == SQLITE_OK || rc == SQLITE_ROW || rc == SQLITE_DONE) sqlite3_finalize(s);
    sqlite3_db_config(sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return wal ? cg_sql_run(sql, "PRAGMA journal_size_limit = 1048576") : rc == SQLITE_ROW ? SQLITE_CANTOPEN : rc;
}

static void close_sql(struct cg_sqlfile *f)
{
    sqlite3_close(f->sql);
    f->sql = NULL;
}

/* The log and its index first: beside a fresh data base they would be taken for its own. */
static int move_aside(int folder)
{
    char to[64], from[64], full[64];
    struct stat st;
    int n = 1;
    do snprintf(to, sizeof to, "%s.corrupt-%d", FILE_NAME, n);
    while (fstatat(folder, to, &st, AT_SYMLINK_NOFOLLOW) == 0 && ++n <= MOST_COPIES);
    for (size_t i = 0; i < YIR_COUNT(beside); i++) {
        snprintf(from, sizeof from, "%s%s", FILE_NAME, beside[i]);
        snprintf(full, sizeof full, "%s%s", to, beside[i]);
        int rc = n > MOST_COPIES ? unlinkat(folder, from, 0) : renameat(folder, from, folder, full);
        if (rc != 0 && errno != ENOENT) return -1;
    }
    YIR_CRASH_POINT("tunedb.log-moved");
    return n > MOST_COPIES ? unlinkat(folder, FILE_NAME, 0) : renameat(folder, FILE_NAME, folder, to);
}

/* Under the exclusive lock: what was empty or damaged when others might still use it is looked at again. */
static const char *settle(struct cg_sqlfile *f, struct cg_cachedir *c, int *code)
{
    enum cg_sql_state state = look(f, c, true, code);
    if (state == CG_SQL_DAMAGED) {
        close_sql(f);
        if (move_aside(cg_cachedir_fd(c)) != 0) return strerror(errno);
        YIR_CRASH_POINT("tunedb.moved");
        state = look(f, c, false, code);
    }
    if (state == CG_SQL_READY) return NULL;
    if (state != CG_SQL_EMPTY) return sqlite3_errstr(*code);
    *code = set_mode(f->sql);
    YIR_CRASH_POINT("tunedb.mode-set");
    if (*code == SQLITE_OK) *code = cg_sql_create(f->sql);
    YIR_CRASH_POINT("tunedb.created");
    return *code == SQLITE_OK ? NULL : sqlite3_errstr(*code);
}

static const char *repair(struct cg_sqlfile *f, struct cg_cachedir *c)
{
    int code = SQLITE_OK;
    close_sql(f);
    if (!cg_cachedir_lock(f->lock, LOCK_EX, CG_CACHEDIR_WAIT_MS)) return "it is damaged, and in use by another process";
    const char *why = settle(f, c, &code);
    if (!why && !cg_cachedir_lock(f->lock, LOCK_SH, CG_CACHEDIR_WAIT_MS)) why = "another process keeps it locked";
    return why;
}

int cg_sqlfile_open(struct cg_sqlfile *f, struct cg_cachedir *c, bool whole)
{
    int folder = cg_cachedir_fd(c), code = SQLITE_OK;
    *f = (struct cg_sqlfile){.lock = -1};
    const char *why = distrust_files(folder);
    if (why) return give_up(f, c, why);
    f->lock = openat(folder, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->lock < 0) return give_up(f, c, strerror(errno));
    if (!cg_cachedir_lock(f->lock, LOCK_SH, CG_CACHEDIR_WAIT_MS)) return give_up(f, c, "another process keeps it locked");
    enum cg_sql_state state = look(f, c, whole, &code);
    if (state == CG_SQL_NEWER) return give_up(f, c, "a later version of yoloc wrote it");
    if (state == CG_SQL_FAILED) return give_up(f, c, sqlite3_errstr(code));
    if (state != CG_SQL_READY) why = repair(f, c);
    if (why) return give_up(f, c, why);
    code = set_mode(f->sql);
    return code == SQLITE_OK ? 0 : give_up(f, c, sqlite3_errstr(code));
}
