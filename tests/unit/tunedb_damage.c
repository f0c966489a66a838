#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tunebox.h"

TestSuite(tunedb_damage, .init = setup, .fini = teardown, .timeout = 300);

/* --- damage -------------------------------------------------------------------------------------------------------- */

/* Opens, and uses what is there. moved: damaged files that must then have been put aside. */
static void expect_usable(const char *what, unsigned moved, unsigned kept, int line)
{
    struct cachebox b = open_box(line);
    unsigned n = count_kept(&b, 40);
    cr_expect(n == kept, "line %d: %s: %u records kept, not %u", line, what, n, kept);
    store(&b, 1000);
    cr_expect(has(&b, 1000), "line %d: %s", line, what);
    cachebox_close(&b);
    b = open_box(line);
    cr_expect(has(&b, 1000), "line %d: %s", line, what);
    cachebox_close(&b);
    unsigned copies = 0;
    for (unsigned i = 1; i <= 20; i++) {
        char name[64];
        snprintf(name, sizeof name, FILE_NAME ".corrupt-%u", i);
        copies += cachebox_has(box, name);
    }
    cr_expect_eq(copies, moved, "line %d: %s: %u copies", line, what, copies);
}
#define USABLE(what, moved, kept) expect_usable(what, moved, kept, __LINE__)

Test(tunedb_damage, files_that_are_no_data_base)
{
    static const char text[] = "These are the times of my kernels, which I wrote down by hand.\n";
    fill(5);
    write_file(FILE_NAME, text, sizeof text - 1);
    USABLE("text", 1, 0);
    size_t size;
    uint8_t *kept = read_file(FILE_NAME ".corrupt-1", &size);
    cr_expect(size == sizeof text - 1 && memcmp(kept, text, size) == 0);
    free(kept);
    static uint8_t bytes[8192];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    write_file(FILE_NAME, bytes, sizeof bytes);
    USABLE("bytes", 2, 0);
    write_file(FILE_NAME, "", 0);
    USABLE("empty", 2, 0);
    for (int i = 0; i < 10; i++) { /* no more than eight copies */
        write_file(FILE_NAME, text, sizeof text - 1);
        struct cachebox b = OPEN();
        cachebox_close(&b);
    }
    USABLE("often", 8, 0);
}

/* A single byte counts as none with SQLite. */
Test(tunedb_damage, cut_off)
{
    fill(40);
    size_t size;
    uint8_t *bytes = read_file(FILE_NAME, &size);
    clear();
    for (size_t n = 2; n < size; n += n < 4096 ? 509 : 4096) {
        fill(0);
        write_file(FILE_NAME, bytes, n);
        USABLE("cut off", 1, 0);
        clear();
    }
    fill(0);
    write_file(FILE_NAME, bytes, size);
    USABLE("whole", 0, 40);
    free(bytes);
}

Test(tunedb_damage, damaged_page)
{
    fill(40);
    size_t size;
    uint8_t *bytes = read_file(FILE_NAME, &size);
    cr_assert_geq(size, 4 * 4096u);
    for (size_t page = 1; page < size / 4096; page++) {
        clear();
        fill(0);
        uint8_t *copy = malloc(size);
        memcpy(copy, bytes, size);
        memset(copy + page * 4096, 0xa5, 4096);
        write_file(FILE_NAME, copy, size);
        free(copy);
        USABLE("page", 1, 0);
    }
    free(bytes);
}

/* By what a later version may have written nothing is changed, and no record is used. */
Test(tunedb_damage, newer_is_left_alone)
{
    fill(3);
    set_number("PRAGMA user_version = 2; CREATE TABLE more(x)");
    size_t size, after;
    uint8_t *bytes = read_file(FILE_NAME, &size);
    for (int i = 0; i < 3; i++) {
        struct cachebox b;
        cachebox_open(&b, box, 0);
        cr_expect_null(b.db);
        cr_expect(strstr(cachebox_told(&b), "later version"), "%s", cachebox_told(&b));
        cachebox_close(&b);
    }
    uint8_t *now = read_file(FILE_NAME, &after);
    cr_expect(after == size && memcmp(now, bytes, size) == 0);
    cr_expect_not(cachebox_has(box, FILE_NAME ".corrupt-1"));
    free(bytes);
    free(now);
}

Test(tunedb_damage, of_another_program)
{
    static const char *const rows[] = {"PRAGMA application_id = 7", "PRAGMA application_id = 0", "PRAGMA user_version = 0",
                                       "PRAGMA user_version = -1", "PRAGMA application_id = 7; PRAGMA user_version = 9"};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        fill(3);
        set_number(rows[i]);
        USABLE(rows[i], 1, 0);
        clear();
    }
}

/* G8. Whatever else the file holds, it is not ours. */
Test(tunedb_damage, foreign_tables)
{
    static const char *const rows[] = {
        "CREATE TABLE more(x)",
        "CREATE VIEW v AS SELECT * FROM record",
        "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END",
        "CREATE INDEX i ON record(op)",
        "DROP TABLE claim",
        "DROP TABLE record; CREATE VIEW record AS SELECT 1 AS key, 2 AS op, 3 AS target, 4 AS threads, 5 AS versions, 6 AS space, "
        "7 AS config, 8 AS median, 9 AS spread, 10 AS made, 11 AS sum",
        "DROP TABLE claim; CREATE TABLE claim(key BLOB PRIMARY KEY, pid INTEGER, started INTEGER, token INTEGER, since INTEGER, "
        "boot TEXT)",
        "DROP TABLE record; CREATE TABLE record(key BLOB PRIMARY KEY, op TEXT, target TEXT, threads TEXT, versions TEXT, space TEXT, "
        "config TEXT, median REAL, spread REAL, made INTEGER, sum BLOB DEFAULT (randomblob(1000000000))) WITHOUT ROWID",
        "ALTER TABLE record ADD COLUMN more AS (hex(zeroblob(100000000)))",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
        "ANALYZE",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE record(x' WHERE name = 'record'",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = sql || ' ' WHERE name = 'record'",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET type = 'view' WHERE name = 'claim'",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE record(' || hex(zeroblob(100000)) || ')' WHERE "
        "name = 'record'",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 1 WHERE name = 'claim'",
        "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'claim'",
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        fill(3);
        cr_assert(cachebox_sql(box, rows[i]), "%s", rows[i]);
        USABLE(rows[i], 1, 0);
        clear();
    }
}

Test(tunedb_damage, huge_values)
{
    static const char *const rows[] = {
        "INSERT INTO record SELECT x'01', hex(zeroblob(2000000)), target, threads, versions, space, config, median, spread, made, sum "
        "FROM record LIMIT 1",
        "INSERT INTO record SELECT zeroblob(3000000), op, target, threads, versions, space, config, median, spread, made, sum "
        "FROM record LIMIT 1",
        "INSERT INTO claim VALUES(x'02', 1, 2, 3, 4, hex(zeroblob(2000000)))",
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        fill(3);
        cr_assert(cachebox_sql(box, rows[i]), "%s", rows[i]);
        struct cachebox b;
        cachebox_open(&b, box, 0);
        visited = 0;
        cg_tunedb_each(b.db, count_visit, NULL);
        cg_tunedb_prune(b.db, 0, 0);
        cr_expect(cachebox_told(&b), "%s", rows[i]);
        cachebox_close(&b);
        clear();
    }
}

/* Logs and indexes that are missing, or another file's. */
Test(tunedb_damage, logs)
{
    fill(0);
    pid_t child = fork(); /* killed with the log not written back */
    if (child == 0) {
        struct cachebox b;
        cachebox_open(&b, box, 0);
        for (unsigned i = 0; i < 30; i++) store(&b, i);
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    cr_assert(cachebox_has(box, FILE_NAME "-wal") && cachebox_has(box, FILE_NAME "-shm"));
    size_t size, log, index;
    uint8_t *bytes = read_file(FILE_NAME, &size), *wal = read_file(FILE_NAME "-wal", &log), *shm = read_file(FILE_NAME "-shm", &index);
    USABLE("killed", 0, 30);
    clear();
    fill(0);
    write_file(FILE_NAME, bytes, size);
    write_file(FILE_NAME "-wal", wal, log);
    USABLE("no index", 0, 30);
    clear();
    fill(0);
    write_file(FILE_NAME, bytes, size);
    write_file(FILE_NAME "-wal", wal, log);
    memset(shm, 0xff, index);
    write_file(FILE_NAME "-shm", shm, index);
    USABLE("wrong index", 0, 30);
    clear();
    fill(0);
    write_file(FILE_NAME, bytes, size);
    USABLE("no log", 0, 0);
    clear();
    for (size_t cut = 1; cut < log; cut += 1 + log / 23) { /* a record whose commit is in the log is whole */
        fill(0);
        write_file(FILE_NAME, bytes, size);
        write_file(FILE_NAME "-wal", wal, cut);
        struct cachebox b = OPEN();
        unsigned n = count_kept(&b, 40);
        for (unsigned i = 0; i < 40; i++) cr_expect_eq(has(&b, i), i < n, "a record is missing between others");
        cachebox_close(&b);
        clear();
    }
    fill(7); /* another data base's log is of no use, and does no harm */
    write_file(FILE_NAME "-wal", wal, log);
    struct cachebox b = OPEN();
    store(&b, 1000);
    cr_expect(has(&b, 1000));
    count_kept(&b, 40);
    cachebox_close(&b);
    free(bytes);
    free(wal);
    free(shm);
}

/* Found only when it is read: a file too large to be looked at whole each time. */
Test(tunedb_damage, damage_that_shows_late)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    char *op = malloc(200000);
    memset(op, 'o', 200000);
    for (unsigned i = 0; i < 12; i++) {
        struct cg_tune_record r = cachebox_record(i);
        cachebox_key(&k, i);
        memcpy(op, k.op, strlen(k.op));
        k.key.op = op;
        k.key.op_len = 200000;
        cr_assert(cg_tunedb_store(b.db, &k.key, &r));
    }
    cachebox_close(&b);
    size_t size;
    uint8_t *bytes = read_file(FILE_NAME, &size);
    cr_assert_gt(size, 2u << 20);
    for (size_t at = 4 * 4096; at < size; at += 4096) memset(bytes + at, 0x5a, 64);
    write_file(FILE_NAME, bytes, size);
    b = OPEN();
    cr_expect_not(cachebox_has(box, FILE_NAME ".corrupt-1"));
    struct cg_tune_record r;
    for (unsigned i = 0; i < 12; i++) {
        cachebox_key(&k, i);
        memcpy(op, k.op, strlen(k.op));
        k.key.op = op;
        k.key.op_len = 200000;
        cr_expect_not(cg_tunedb_lookup(b.db, &k.key, &r));
    }
    cr_expect(cachebox_has(box, FILE_NAME ".corrupt-1"));
    cr_expect_str_eq(cachebox_told(&b), "");
    store(&b, 1);
    cr_expect(has(&b, 1));
    cachebox_close(&b);
    free(bytes);
    free(op);
}

/* G7: opened, used, and never a wrong record. */
Test(tunedb_damage, mutations)
{
    fill(20);
    cr_assert(cachebox_sql(box, "INSERT INTO claim VALUES(x'0102', 5, 6, 7, 8, 'boot')"));
    size_t size;
    uint8_t *bytes = read_file(FILE_NAME, &size), *copy = malloc(size);
    unsigned moved = 0, rounds = (unsigned)test_count(TEST_SANITIZED ? 300 : 2000, 20000);
    for (unsigned i = 0; i < rounds; i++) {
        size_t n = size;
        memcpy(copy, bytes, size);
        cachebox_mutate(copy, &n, i);
        write_file(FILE_NAME, copy, n);
        unlink(in_box(FILE_NAME "-wal"));
        unlink(in_box(FILE_NAME "-shm"));
        unlink(in_box(FILE_NAME "-journal"));
        struct cachebox b;
        cachebox_open(&b, box, 0);
        cr_assert(cachebox_told(&b), "seed %u", i);
        if (b.db) {
            count_kept(&b, 20);
            visited = 0;
            if (i % 4 == 0) cg_tunedb_each(b.db, count_visit, NULL);
            if (i % 8 == 0) cg_tunedb_prune(b.db, 1e9, 2000);
            struct cachebox_key k;
            struct cg_tune_record r = cachebox_record(500);
            cachebox_key(&k, 500);
            if (cg_tunedb_store(b.db, &k.key, &r)) cr_assert(has(&b, 500), "seed %u", i);
        }
        cachebox_close(&b);
        if (cachebox_has(box, FILE_NAME ".corrupt-1")) {
            moved++;
            cr_assert_eq(unlink(in_box(FILE_NAME ".corrupt-1")), 0);
            for (const char *const *s = (const char *const[]){"-wal", "-shm", "-journal", NULL}; *s; s++) {
                char name[64];
                snprintf(name, sizeof name, FILE_NAME ".corrupt-1%s", *s);
                unlink(in_box(name));
            }
        }
    }
    cr_expect(moved > rounds / 4, "%u of %u moved aside", moved, rounds);
    free(bytes);
    free(copy);
}
