#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/claimant.h"

#include "tunebox.h"

TestSuite(tunedb, .init = setup, .fini = teardown, .timeout = 300);

/* --- records ------------------------------------------------------------------------------------------------------- */

Test(tunedb, stored_is_found)
{
    struct cachebox b = OPEN();
    cr_expect_not(has(&b, 1));
    store(&b, 1);
    store(&b, 2);
    cr_expect(has(&b, 1) && has(&b, 2) && !has(&b, 3));
    cachebox_close(&b);
    cr_expect_not(cachebox_has(box, FILE_NAME "-wal"));
    b = OPEN();
    cr_expect(has(&b, 1) && has(&b, 2) && !has(&b, 3));
    struct cg_tune_stats s = cg_tunedb_stats(b.db);
    cr_expect(s.records == 2 && s.damaged == 0 && s.claims == 0 && s.bytes >= 3 * 4096);
    cr_expect_str_eq(cachebox_told(&b), "");
    cachebox_close(&b);
}

/* Whatever the umask allows. */
Test(tunedb, closed_to_others)
{
    static const char *const files[] = {FILE_NAME, FILE_NAME "-wal", FILE_NAME "-shm"};
    mode_t before = umask(0);
    struct cachebox b = OPEN();
    store(&b, 1);
    umask(before);
    for (size_t i = 0; i < YIR_COUNT(files); i++) {
        char path[320];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", box, files[i]);
        cr_expect(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "%s", files[i]);
    }
    cr_expect(cg_tunedb_keeps(b.db) && !cg_tunedb_keeps(NULL));
    cachebox_close(&b);
}

Test(tunedb, stored_again_replaces)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(1), got;
    cachebox_key(&k, 1);
    cr_assert(cg_tunedb_store(b.db, &k.key, &r));
    strcpy(r.config, "winograd tile=4");
    r.when = 0;
    cr_assert(cg_tunedb_store(b.db, &k.key, &r));
    cr_assert(cg_tunedb_lookup(b.db, &k.key, &got));
    cr_expect_str_eq(got.config, "winograd tile=4");
    cr_expect(got.when >= time(NULL) - 100 && got.when <= time(NULL));
    cr_expect_eq(cg_tunedb_stats(b.db).records, 1u);
    cachebox_close(&b);
}

Test(tunedb, nothing_without_a_data_base)
{
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(1);
    struct cg_tune_merge m;
    size_t size;
    cachebox_key(&k, 1);
    cr_expect_not(cg_tunedb_lookup(NULL, &k.key, &r));
    cr_expect_not(cg_tunedb_store(NULL, &k.key, &r));
    cr_expect_eq(cg_tunedb_claim(NULL, &k.key, 5, &r), CG_TUNE_MINE);
    cg_tunedb_release(NULL, &k.key);
    cr_expect_eq(cg_tunedb_prune(NULL, 0, 0), 0u);
    cr_expect_eq(cg_tunedb_stats(NULL).records, 0u);
    cr_expect_null(cg_tunedb_export(NULL, NULL, &size));
    cr_expect_not_null(cg_tunedb_merge(NULL, "", 0, &m));
    cr_expect_null(cg_tunedb_open(NULL, NULL));
}

/* Each field, changed, makes another key; the list is that of struct cg_tune_key. */
Test(tunedb, key_fields)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(0), got;
    cachebox_key(&k, 0);
    cr_assert(cg_tunedb_store(b.db, &k.key, &r));
    struct cg_tune_key other[12];
    for (size_t i = 0; i < YIR_COUNT(other); i++) other[i] = k.key;
    char op[96];
    strcpy(op, k.op);
    op[strlen(op) - 1] ^= 1;
    other[0].op = op;
    other[1].op_len--;
    other[2].target = "a cpu, avx2 fma, 16 lanes";
    other[3].target = "";
    other[4].threads++;
    other[5].threads = -2;
    other[6].versions = "yoloc 0.1 llvm 20";
    other[7].versions = k.key.space;
    other[8].space = "tile=4,8 unroll=1,2,4";
    other[9].space = "";
    other[10].versions = k.key.target; /* the same bytes in other fields */
    other[10].target = k.key.versions;
    char joined[200];
    snprintf(joined, sizeof joined, "%s%s", k.key.op, k.key.target); /* or divided elsewhere */
    other[11].op = joined;
    other[11].op_len = strlen(joined);
    other[11].target = "";
    for (size_t i = 0; i < YIR_COUNT(other); i++) {
        cr_expect_not(cg_tunedb_lookup(b.db, &other[i], &got), "%zu", i);
        r.when = (int64_t)i + 1;
        cr_assert(cg_tunedb_store(b.db, &other[i], &r));
    }
    for (size_t i = 0; i < YIR_COUNT(other); i++) cr_expect(cg_tunedb_lookup(b.db, &other[i], &got) && got.when == (int64_t)i + 1, "%zu", i);
    cr_expect_eq(cg_tunedb_stats(b.db).records, 1 + YIR_COUNT(other));
    cachebox_close(&b);
}

Test(tunedb, long_texts)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(0), got;
    cachebox_key(&k, 0);
    enum { MOST = 1 << 18 };
    char *op = malloc(MOST + 1);
    memset(op, 'x', MOST + 1);
    op[7] = 0; /* any bytes */
    k.key.op = op;
    k.key.op_len = MOST;
    cr_expect(cg_tunedb_store(b.db, &k.key, &r));
    cr_expect(cg_tunedb_lookup(b.db, &k.key, &got));
    op[9] = 'y';
    cr_expect_not(cg_tunedb_lookup(b.db, &k.key, &got));
    k.key.op_len++;
    cr_expect_not(cg_tunedb_store(b.db, &k.key, &r));
    cr_expect_not(cg_tunedb_lookup(b.db, &k.key, &got));
    free(op);
    cachebox_close(&b);
}

static const struct {
    double median, spread;
    const char *config;
} absurd[] = {{0, 0, "a"},       {-1, 0, "a"},       {1e30, 0, "a"},      {601, 0, "a"},   {1e-10, 0, "a"},
              {1e-3, -1e-9, "a"}, {1e-3, 1e30, "a"}, {INFINITY, 0, "a"},  {1e-3, INFINITY, "a"},
              {1e-3, 0, ""},     {1e-3, 0, "a\nb"},  {1e-3, 0, "\x7f"},   {1e-3, 0, "\xc3\xa4"}};

Test(tunedb, absurd_records_are_not_stored)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    for (size_t i = 0; i < YIR_COUNT(absurd); i++) {
        r = (struct cg_tune_record){.median_s = absurd[i].median, .spread_s = absurd[i].spread};
        strcpy(r.config, absurd[i].config);
        cr_expect_not(cg_tunedb_store(b.db, &k.key, &r), "%zu", i);
    }
    r = cachebox_record(0);
    r.median_s = NAN;
    cr_expect_not(cg_tunedb_store(b.db, &k.key, &r));
    r = cachebox_record(0);
    r.spread_s = NAN;
    cr_expect_not(cg_tunedb_store(b.db, &k.key, &r));
    r = cachebox_record(0);
    memset(r.config, 'x', sizeof r.config); /* without an end */
    cr_expect_not(cg_tunedb_store(b.db, &k.key, &r));
    cr_expect_eq(cg_tunedb_stats(b.db).records, 0u);
    cachebox_close(&b);
}

/* Rows that the library would not write are not seen by anyone, and pruning removes them. */
static void expect_unsound(const char *what)
{
    struct cachebox b = OPEN();
    struct cg_tune_merge m;
    size_t size = 0;
    cr_expect_not(has(&b, 0), "%s", what);
    cr_expect(has(&b, 1), "%s", what);
    visited = 0;
    cg_tunedb_each(b.db, count_visit, NULL);
    cr_expect_eq(visited, 1u, "%s", what);
    struct cg_tune_stats s = cg_tunedb_stats(b.db);
    cr_expect(s.records == 1 && s.damaged == 1, "%s: %u %u", what, (unsigned)s.records, (unsigned)s.damaged);
    uint8_t *image = read_file(FILE_NAME, &size);
    cr_expect_eq(cg_tunedb_prune(b.db, -1, -1), 1u, "%s", what);
    s = cg_tunedb_stats(b.db);
    cr_expect(s.records == 1 && s.damaged == 0, "%s", what);
    cr_expect_null(cg_tunedb_merge(b.db, image, size, &m));
    cr_expect(m.taken == 0 && m.older == 1 && m.damaged == 1, "%s", what);
    cr_expect_str_eq(cachebox_told(&b), "");
    free(image);
    cachebox_close(&b);
}

Test(tunedb, rows_that_are_unsound)
{
    static const char *const changes[] = {
        "config = 'other'", "median = median * 2", "spread = 0.5", "made = made + 1", "op = op || ' '", "threads = '3'",
        "sum = x'00'", "sum = NULL", "sum = 'text of 16 bytes'", "key = x'00'", "median = NULL", "median = 'fast'", "config = NULL",
        "config = zeroblob(300)", "config = hex(zeroblob(200))", "made = 'now'", "made = 1.5", "op = NULL", "target = x'61'",
        "space = 1.5", "key = key || x'00'"};
    struct cachebox_key k, other;
    fill(2);
    cachebox_key(&k, 0);
    cachebox_key(&other, 5);
    char text[200], key[96];
    for (size_t i = 0; i < YIR_COUNT(changes); i++) {
        struct cg_tune_record r = cachebox_record(0);
        cachebox_row(box, &k.key, &k.key, &r, true);
        snprintf(key, sizeof key, "made = %lld", (long long)r.when);
        snprintf(text, sizeof text, "UPDATE record SET %s WHERE %s", changes[i], key);
        cr_assert(cachebox_sql(box, text), "%s", text);
        expect_unsound(changes[i]);
    }
    for (size_t i = 0; i < YIR_COUNT(absurd); i++) {
        struct cg_tune_record r = {.median_s = absurd[i].median, .spread_s = absurd[i].spread};
        strcpy(r.config, absurd[i].config);
        cachebox_row(box, &k.key, &k.key, &r, true);
        snprintf(text, sizeof text, "absurd %zu", i);
        expect_unsound(text);
    }
    struct cg_tune_record r = cachebox_record(0);
    cachebox_row(box, &k.key, &k.key, &r, false);
    expect_unsound("wrong sum");
    cachebox_row(box, &other.key, &k.key, &r, true);
    expect_unsound("fields of another key");
    cachebox_row(box, &k.key, &k.key, &r, true); /* and as it should be: the format has not changed */
    struct cachebox b = OPEN();
    cr_expect(has(&b, 0));
    cachebox_close(&b);
}

/* --- claims -------------------------------------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Test(tunedb, claims)
{
    struct cachebox a = OPEN(), b = OPEN();
    struct cachebox_key k, k2;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    cachebox_key(&k2, 1);
    cr_expect_eq(cg_tunedb_claim(a.db, &k.key, 0, &r), CG_TUNE_MINE);
    cr_expect_eq(cg_tunedb_claim(a.db, &k.key, 0, &r), CG_TUNE_MINE); /* as before */
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_BUSY);
    cr_expect_eq(cg_tunedb_claim(b.db, &k2.key, 0, &r), CG_TUNE_MINE);
    cr_expect_eq(cg_tunedb_stats(a.db).claims, 2u);
    store(&a, 0);
    cr_expect_eq(cg_tunedb_stats(a.db).claims, 1u);
    struct cg_tune_record wanted = cachebox_record(0);
    cr_expect(cg_tunedb_claim(b.db, &k.key, 0, &r) == CG_TUNE_FOUND && same_record(&r, &wanted));
    cg_tunedb_release(a.db, &k2.key); /* b's, so it stays */
    cr_expect_eq(cg_tunedb_claim(a.db, &k2.key, 0, &r), CG_TUNE_BUSY);
    cg_tunedb_release(b.db, &k2.key);
    cr_expect_eq(cg_tunedb_claim(a.db, &k2.key, 0, &r), CG_TUNE_MINE);
    cachebox_close(&a); /* gives up what it holds */
    cr_expect_eq(cg_tunedb_claim(b.db, &k2.key, 0, &r), CG_TUNE_MINE);
    cr_expect_str_eq(cachebox_told(&b), "");
    cachebox_close(&b);
}

/* Claims k for a process and asks for it. */
static enum cg_tune_claim ask(int64_t pid, int64_t started, int64_t since_ms, const char *boot)
{
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    cachebox_claim(box, &k.key, pid, started, since_ms, boot);
    struct cachebox b = OPEN();
    enum cg_tune_claim c = cg_tunedb_claim(b.db, &k.key, 0, &r);
    cachebox_close(&b);
    return c;
}

Test(tunedb, claims_of_the_dead)
{
    fill(0);
    struct cg_claimant self = cg_claimant_self();
    char other_boot[96], other_space[128];
    strcpy(other_boot, self.boot);
    other_boot[0] = self.boot[0] == '0' ? '1' : '0';
    snprintf(other_space, sizeof other_space, "%.80s1", self.boot);
    cr_assert_gt(self.started, 0);
    cr_expect_eq(ask(self.pid, self.started, -1, self.boot), CG_TUNE_BUSY);
    cr_expect_eq(ask(self.pid, self.started, -1, other_boot), CG_TUNE_MINE);
    cr_expect_eq(ask(self.pid, self.started, -1, other_space), CG_TUNE_BUSY);
    cr_expect_eq(ask(self.pid, self.started, -1, ""), CG_TUNE_MINE);
    cr_expect_eq(ask(self.pid, self.started + 1, -1, self.boot), CG_TUNE_MINE);
    cr_expect_eq(ask(self.pid, self.started, self.since_ms - 599 * 1000, self.boot), self.since_ms > 599 * 1000 ? CG_TUNE_BUSY : CG_TUNE_MINE);
    cr_expect_eq(ask(self.pid, self.started, self.since_ms - 601 * 1000, self.boot), CG_TUNE_MINE);
    cr_expect_eq(ask(self.pid, self.started, self.since_ms + 600 * 1000, self.boot), CG_TUNE_MINE);
    cr_expect_eq(ask(self.pid, self.started, INT64_MAX, self.boot), CG_TUNE_MINE);
    cr_expect_eq(ask(-1, 0, -1, self.boot), CG_TUNE_MINE);
    cr_expect_eq(ask(INT64_MAX, 0, -1, self.boot), CG_TUNE_MINE);
    pid_t child = fork(); /* ended, but not waited for: it still has its number and start */
    if (child == 0) {
        cg_claimant_self();
        struct cachebox_key k;
        cachebox_key(&k, 0);
        struct cg_claimant c = cg_claimant_self();
        cachebox_claim(box, &k.key, c.pid, c.started, -1, c.boot);
        _exit(0);
    }
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_MINE);
    cachebox_close(&b);
    waitpid(child, NULL, 0);
}

/* Pruning clears dead claims away and leaves living ones. */
Test(tunedb, prune_claims)
{
    fill(0);
    struct cg_claimant self = cg_claimant_self();
    struct cachebox_key k, k2;
    cachebox_key(&k, 0);
    cachebox_key(&k2, 1);
    cachebox_claim(box, &k.key, self.pid, self.started, -1, self.boot);
    cachebox_claim(box, &k2.key, self.pid, self.started + 1, -1, self.boot);
    struct cachebox b = OPEN();
    cr_expect_eq(cg_tunedb_stats(b.db).claims, 1u, "the dead are not counted");
    cr_expect_eq(cg_tunedb_prune(b.db, -1, -1), 0u);
    cr_expect_eq(cg_tunedb_stats(b.db).claims, 1u);
    cachebox_close(&b);
}

/* Starts a child that opens the folder, runs body and stops itself. */
static pid_t stopped_child(void (*body)(struct cachebox *b))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct cachebox b;
        cachebox_open(&b, box, 0);
        body(&b);
        raise(SIGSTOP);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_assert(WIFSTOPPED(status));
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void claim_first(struct cachebox *b)
{
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    if (cg_tunedb_claim(b->db, &k.key, 0, &r) != CG_TUNE_MINE) abort();
}

/* G4: whoever waits for a stopped process waits for two seconds, then works alone; its record is kept. */
Test(tunedb, holder_is_stopped)
{
    fill(0);
    pid_t child = stopped_child(claim_first);
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    double start = seconds();
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_BUSY);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, CG_TUNE_WAIT_S, &r), CG_TUNE_BUSY);
    double waited = seconds() - start;
    cr_expect(waited >= 1.9 && waited < 6, "%g s", waited);
    store(&b, 0);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_FOUND);
    end_child(child);
    cachebox_close(&b);
}

/* And is told at once when the holder is killed, or stores. */
Test(tunedb, holder_is_killed)
{
    fill(0);
    pid_t child = stopped_child(claim_first);
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 0);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_BUSY);
    end_child(child);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_MINE);
    cachebox_close(&b);
}

static void stop_in_transaction(struct cachebox *b)
{
    sqlite3 *sql;
    (void)b;
    if (sqlite3_open(in_box(FILE_NAME), &sql) || sqlite3_exec(sql, "BEGIN IMMEDIATE; DELETE FROM claim", 0, 0, 0)) abort();
}

/* Stopped while it writes: the others read, wait once, and then not again. */
Test(tunedb, writer_is_stopped)
{
    fill(2);
    pid_t child = stopped_child(stop_in_transaction);
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(7);
    cr_expect(has(&b, 0));
    double start = seconds();
    cachebox_key(&k, 7);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_MINE);
    for (int i = 0; i < 5; i++) cr_expect_not(cg_tunedb_store(b.db, &k.key, &r));
    double waited = seconds() - start;
    cr_expect(waited >= 1.5 && waited < 8, "%g s", waited);
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    cr_expect(has(&b, 1));
    end_child(child);
    r = cachebox_record(7);
    cr_expect(cg_tunedb_store(b.db, &k.key, &r));
    cachebox_close(&b);
    b = OPEN();
    cr_expect(has(&b, 7));
    cachebox_close(&b);
}

/* Stopped while it moves a damaged file: no one waits for ever. */
static void no_body(struct cachebox *b)
{
    cg_tunedb_stats(b->db);
}

Test(tunedb, mover_is_stopped)
{
    fill(1);
    struct cachebox b;
    pid_t child = stopped_child(no_body); /* has it open, so nothing may be moved */
    size_t size;
    uint8_t *bytes = read_file(FILE_NAME, &size);
    write_file(FILE_NAME, "no data base", 12);
    cachebox_open(&b, box, 0);
    cr_expect_null(b.db);
    cr_expect(strstr(cachebox_told(&b), "in use by another process"), "%s", cachebox_told(&b));
    cr_expect_not(cachebox_has(box, FILE_NAME ".corrupt-1"));
    cachebox_close(&b);
    end_child(child);
    write_file(FILE_NAME, bytes, size);
    free(bytes);
    b = OPEN();
    cachebox_close(&b);
    child = fork();
    if (child == 0) {
        int fd = open(in_box("tuning.lock"), O_RDWR);
        if (fd < 0 || !cg_cachedir_lock(fd, 2 /* LOCK_EX */, 0)) abort();
        raise(SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    cachebox_open(&b, box, 0);
    cr_expect_null(b.db);
    cr_expect(strstr(cachebox_told(&b), "keeps it locked"), "%s", cachebox_told(&b));
    cachebox_close(&b);
    end_child(child);
    b = OPEN();
    cr_expect(has(&b, 0));
    cachebox_close(&b);
}

/* --- all records ----------------------------------------------------------------------------------------------------- */

Test(tunedb, prune_by_age_and_size)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    for (unsigned i = 0; i < 30; i++) {
        struct cg_tune_record r = cachebox_record(i);
        r.when = time(NULL) - 1000 * (30 - (int64_t)i) + 500;
        cachebox_key(&k, i);
        cr_assert(cg_tunedb_store(b.db, &k.key, &r));
    }
    struct cg_tune_record r;
    cr_expect_eq(cg_tunedb_prune(b.db, -1, -1), 0u);
    cr_expect_eq(cg_tunedb_prune(b.db, 20000, -1), 10u);
    for (unsigned i = 0; i < 30; i++) {
        cachebox_key(&k, i);
        cr_expect_eq(cg_tunedb_lookup(b.db, &k.key, &r), i >= 10, "%u", i);
    }
    cr_expect_eq(cg_tunedb_prune(b.db, -1, 10 * 230), 10u); /* some 220 bytes each */
    for (unsigned i = 0; i < 30; i++) {
        cachebox_key(&k, i);
        cr_expect_eq(cg_tunedb_lookup(b.db, &k.key, &r), i >= 20, "%u", i);
    }
    cr_expect_eq(cg_tunedb_prune(b.db, -1, 0), 10u);
    cr_expect_eq(cg_tunedb_stats(b.db).records, 0u);
    cachebox_close(&b);
}

Test(tunedb, files_shrink)
{
    fill(400);
    struct stat before, after;
    cr_assert_eq(stat(in_box(FILE_NAME), &before), 0);
    struct cachebox b = OPEN();
    cr_expect_eq(cg_tunedb_prune(b.db, 0, -1), 400u);
    cachebox_close(&b);
    cr_assert_eq(stat(in_box(FILE_NAME), &after), 0);
    cr_expect(after.st_size < before.st_size / 4, "%lld of %lld", (long long)after.st_size, (long long)before.st_size);
}

static bool stop_at_third(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    (void)k;
    (void)r;
    return ++*(unsigned *)user < 3;
}

Test(tunedb, each_stops)
{
    fill(10);
    struct cachebox b = OPEN();
    unsigned n = 0;
    cg_tunedb_each(b.db, stop_at_third, &n);
    cr_expect_eq(n, 3u);
    store(&b, 11); /* no lock is left */
    cachebox_close(&b);
}

Test(tunedb, export_and_merge)
{
    struct cg_tune_merge m;
    size_t size, again;
    fill(20);
    struct cachebox b = OPEN();
    void *bytes = cg_tunedb_export(b.db, b.arena, &size);
    cr_assert_not_null(bytes);
    void *twice = cg_tunedb_export(b.db, b.arena, &again);
    cr_expect(twice && again == size && memcmp(bytes, twice, size) == 0);
    uint8_t *image = malloc(size);
    memcpy(image, bytes, size);
    cachebox_close(&b);
    clear();
    fill(5);
    b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record newer = cachebox_record(3), r;
    strcpy(newer.config, "newer");
    newer.when += 10;
    cachebox_key(&k, 3);
    cr_assert(cg_tunedb_store(b.db, &k.key, &newer));
    newer = cachebox_record(4);
    newer.when -= 10;
    strcpy(newer.config, "older");
    cachebox_key(&k, 4);
    cr_assert(cg_tunedb_store(b.db, &k.key, &newer));
    cr_expect_null(cg_tunedb_merge(b.db, image, size, &m));
    cr_expect(m.taken == 16 && m.older == 4 && m.damaged == 0, "%u %u %u", (unsigned)m.taken, (unsigned)m.older, (unsigned)m.damaged);
    cr_expect(cg_tunedb_lookup(b.db, &k.key, &r) && strcmp(r.config, "older") != 0);
    cachebox_key(&k, 3);
    cr_expect(cg_tunedb_lookup(b.db, &k.key, &r) && strcmp(r.config, "newer") == 0);
    cr_expect_null(cg_tunedb_merge(b.db, image, size, &m));
    cr_expect(m.taken == 0 && m.older == 20);
    cr_expect_eq(cg_tunedb_stats(b.db).records, 20u);
    free(image);
    cachebox_close(&b);
}

/* A clock that was wrong on another machine must not win for ever. */
Test(tunedb, merge_from_the_future)
{
    fill(0);
    struct cachebox_key k;
    cachebox_key(&k, 0);
    struct cg_tune_record r = cachebox_record(0);
    r.when = INT64_MAX;
    cachebox_row(box, &k.key, &k.key, &r, true);
    size_t size;
    struct cg_tune_merge m;
    uint8_t *image = read_file(FILE_NAME, &size);
    clear();
    struct cachebox b = OPEN();
    cr_expect_null(cg_tunedb_merge(b.db, image, size, &m));
    cr_expect(cg_tunedb_lookup(b.db, &k.key, &r) && r.when <= time(NULL));
    free(image);
    cachebox_close(&b);
}

/* Files from anywhere: refused, or only sound records of them taken, all or none. */
Test(tunedb, merge_of_mutations)
{
    size_t size;
    fill(20);
    uint8_t *bytes = read_file(FILE_NAME, &size), *copy = malloc(size);
    clear();
    struct cachebox b = OPEN();
    struct cg_tune_merge m;
    unsigned refused = 0, rounds = (unsigned)test_count(TEST_SANITIZED ? 300 : 1000, 20000);
    cr_expect_not_null(cg_tunedb_merge(b.db, "", 0, &m));
    cr_expect_not_null(cg_tunedb_merge(b.db, "SQLite format 3", 16, &m));
    for (unsigned i = 0; i < rounds; i++) {
        size_t n = size;
        memcpy(copy, bytes, size);
        cachebox_mutate(copy, &n, i + 77777);
        uint64_t before = cg_tunedb_stats(b.db).records;
        const char *why = cg_tunedb_merge(b.db, copy, n, &m);
        struct cg_tune_stats s = cg_tunedb_stats(b.db);
        cr_assert(s.damaged == 0 && s.records <= 20 && s.records >= before && (!why || s.records == before), "seed %u", i);
        refused += why != NULL;
        if (i % 50 == 0) cg_tunedb_prune(b.db, 0, -1);
    }
    cr_expect(refused > rounds / 4 && refused < rounds, "%u of %u refused", refused, rounds);
    cr_expect_str_eq(cachebox_told(&b), "");
    free(bytes);
    free(copy);
    cachebox_close(&b);
}

Test(tunedb, merge_newer)
{
    fill(3);
    set_number("PRAGMA user_version = 2");
    size_t size;
    struct cg_tune_merge m;
    uint8_t *image = read_file(FILE_NAME, &size);
    clear();
    struct cachebox b = OPEN();
    const char *why = cg_tunedb_merge(b.db, image, size, &m);
    cr_expect(why && strstr(why, "later version"));
    free(image);
    cachebox_close(&b);
}
