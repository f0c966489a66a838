#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cachebox.h"
#include "codegen/claimant.h"
#include "datafile.h"
#include "longer.h"

#define FILE_NAME "tuning.sqlite"

static char box[192];

static void setup(void)
{
    cachebox_path(box, true);
    unsetenv("YOLOC_CACHE");
}

static void teardown(void)
{
    cachebox_remove(box);
}

TestSuite(tunedb, .init = setup, .fini = teardown, .timeout = 300);

static struct cachebox open_box(int line)
{
    struct cachebox b;
    cachebox_open(&b, box, 0);
    cr_assert(b.db, "line %d: %s", line, yir_diag_count(b.diags) ? yir_diag_at(b.diags, 0)->text : "silent");
    return b;
}
#define OPEN() open_box(__LINE__)

static void store(struct cachebox *b, unsigned n)
{
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(n);
    cachebox_key(&k, n);
    cr_assert(cg_tunedb_store(b->db, &k.key, &r), "record %u", n);
}

static bool same_record(const struct cg_tune_record *a, const struct cg_tune_record *b)
{
    return !strcmp(a->config, b->config) && a->median_s == b->median_s && a->spread_s == b->spread_s && a->when == b->when;
}

/* Whether record n is there; what is there must be what was stored. */
static bool has(struct cachebox *b, unsigned n)
{
    struct cachebox_key k;
    struct cg_tune_record r, wanted = cachebox_record(n);
    cachebox_key(&k, n);
    if (!cg_tunedb_lookup(b->db, &k.key, &r)) return false;
    cr_assert(same_record(&r, &wanted), "record %u", n);
    return true;
}

static unsigned count_kept(struct cachebox *b, unsigned most)
{
    unsigned n = 0;
    for (unsigned i = 0; i < most; i++) n += has(b, i);
    return n;
}

/* A data base with records 0 to n - 1, closed. */
static void fill(unsigned n)
{
    struct cachebox b = OPEN();
    for (unsigned i = 0; i < n; i++) store(&b, i);
    cachebox_close(&b);
}

static char *in_box(const char *name)
{
    static char path[2][320];
    static unsigned n;
    n ^= 1;
    snprintf(path[n], sizeof path[n], "%s/%s", box, name);
    return path[n];
}

static uint8_t *read_file(const char *name, size_t *size)
{
    uint8_t *bytes = (uint8_t *)test_file_read(in_box(name), size);
    cr_assert_not_null(bytes, "%s", name);
    return bytes;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(in_box(name), "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

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

static unsigned visited;

static bool count_visit(void *user, const struct cg_tune_key *k, const struct cg_tune_record *r)
{
    (void)user;
    cr_expect(k->op_len > 0 && k->threads == 2 && r->median_s > 0);
    visited++;
    return true;
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

static void clear(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", box);
    cr_assert_eq(system(command), 0);
}

Test(tunedb, files_that_are_no_data_base)
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
Test(tunedb, cut_off)
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

Test(tunedb, damaged_page)
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

static void set_number(const char *pragma)
{
    cr_assert(cachebox_sql(box, pragma));
}

/* By what a later version may have written nothing is changed, and no record is used. */
Test(tunedb, newer_is_left_alone)
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

Test(tunedb, of_another_program)
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
Test(tunedb, foreign_tables)
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

Test(tunedb, huge_values)
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
Test(tunedb, logs)
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
Test(tunedb, damage_that_shows_late)
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
Test(tunedb, mutations)
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

/* --- the host --------------------------------------------------------------------------------------------------------- */

Test(tunedb, network_file_system)
{
    struct cachebox b;
    cachebox_open_on(&b, box, 0x6969);
    cr_assert_not_null(b.db);
    cr_expect(cachebox_told(&b) && strstr(cachebox_told(&b), "network"));
    store(&b, 1);
    cr_expect(has(&b, 1));
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, 2);
    cr_expect_eq(cg_tunedb_claim(b.db, &k.key, 0, &r), CG_TUNE_MINE);
    cr_expect_eq(cachebox_count(box, "tuning"), 0u);
    cachebox_close(&b);
    cachebox_open_on(&b, box, 0x6969);
    cr_expect_not(has(&b, 1));
    cachebox_close(&b);
}

/* A child sees no data base, and what it does at its end harms its parent's nothing. */
Test(tunedb, after_fork)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r;
    int status;
    cachebox_key(&k, 9);
    store(&b, 1);
    pid_t child = fork();
    if (child == 0) {
        bool wrong = has(&b, 1) || cg_tunedb_claim(b.db, &k.key, 0, &r) != CG_TUNE_MINE || cg_tunedb_store(b.db, &k.key, &r);
        cachebox_close(&b);
        cachebox_open(&b, box, 0); /* one of its own */
        wrong |= !b.db || !has(&b, 1);
        store(&b, 2);
        cachebox_close(&b);
        _exit(wrong);
    }
    store(&b, 3);
    waitpid(child, &status, 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    store(&b, 4);
    cr_expect(has(&b, 1) && has(&b, 2) && has(&b, 3) && has(&b, 4));
    cachebox_close(&b);
    b = OPEN();
    cr_expect_eq(count_kept(&b, 5), 4u);
    cr_expect_eq(cg_tunedb_stats(b.db).claims, 0u);
    cachebox_close(&b);
}

static void *thread_body(void *p)
{
    unsigned first = *(unsigned *)p;
    struct cachebox b;
    cachebox_open(&b, box, 0);
    for (unsigned i = first; b.db && i < first + 25; i++) {
        struct cachebox_key k;
        struct cg_tune_record r = cachebox_record(i), got;
        cachebox_key(&k, i);
        if (cg_tunedb_claim(b.db, &k.key, 2, &got) == CG_TUNE_MINE) cg_tunedb_store(b.db, &k.key, &r);
    }
    cachebox_close(&b);
    return NULL;
}

/* Each thread with a handle of its own. */
Test(tunedb, threads)
{
    pthread_t t[4];
    unsigned first[4] = {0, 25, 50, 10};
    for (int i = 0; i < 4; i++) cr_assert_eq(pthread_create(&t[i], NULL, thread_body, &first[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    struct cachebox b = OPEN();
    cr_expect_eq(count_kept(&b, 75), 75u);
    cr_expect_eq(cg_tunedb_stats(b.db).claims, 0u);
    cachebox_close(&b);
}

/* The time of day goes back: records stay usable, claims too. */
Test(tunedb, time_of_day)
{
    struct cachebox b = OPEN();
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(1), got;
    r.when = time(NULL) + 1000000;
    cachebox_key(&k, 1);
    cr_expect(cg_tunedb_store(b.db, &k.key, &r));
    cr_expect(cg_tunedb_lookup(b.db, &k.key, &got) && got.when == r.when);
    cr_expect_eq(cg_tunedb_prune(b.db, 1000, -1), 0u);
    r.when = -5;
    cr_expect(cg_tunedb_store(b.db, &k.key, &r));
    cr_expect_eq(cg_tunedb_prune(b.db, 1e18, -1), 1u); /* before 1970: no clock says that */
    cachebox_close(&b);
}

/* G5. What was stored stays, what does not fit is not, one warning. */
Test(tunedb, full_disk)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) cr_skip_test("no mounts here");
    cr_assert_eq(mkdir(box, 0700), 0);
    if (mount("none", box, "tmpfs", 0, "size=128k,mode=700") != 0) cr_skip_test("no tmpfs here");
    unsigned kept = 0;
    struct cachebox b = OPEN();
    for (unsigned i = 0; i < 400; i++) {
        struct cachebox_key k;
        struct cg_tune_record r = cachebox_record(i);
        cachebox_key(&k, i);
        if (cg_tunedb_store(b.db, &k.key, &r)) cr_assert_eq(kept++, i, "kept after one was not");
    }
    cr_assert(kept > 0 && kept < 400, "%u", kept);
    cr_expect(cachebox_told(&b) && strstr(cachebox_told(&b), "full"), "%s", cachebox_told(&b));
    cr_expect(has(&b, 0));
    cachebox_close(&b);
    cachebox_open(&b, box, 0);
    if (b.db) cr_expect_eq(count_kept(&b, 400), kept);
    cachebox_close(&b);
    cr_assert_eq(mount("none", box, "tmpfs", MS_REMOUNT, "size=1m"), 0);
    b = OPEN();
    cr_expect_eq(count_kept(&b, 400), kept);
    store(&b, 399);
    cachebox_close(&b);
    cr_expect_not(cachebox_has(box, FILE_NAME ".corrupt-1"));
    umount(box);
}

/* From the first byte on. */
Test(tunedb, small_disks)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) cr_skip_test("no mounts here");
    cr_assert_eq(mkdir(box, 0700), 0);
    for (unsigned kb = 4; kb <= 96; kb += 4) {
        char options[64];
        snprintf(options, sizeof options, "size=%uk,mode=700", kb);
        if (mount("none", box, "tmpfs", 0, options) != 0) cr_skip_test("no tmpfs here");
        for (int again = 0; again < 2; again++) {
            struct cachebox b;
            cachebox_open(&b, box, 0);
            struct cachebox_key k;
            struct cg_tune_record r = cachebox_record(1);
            cachebox_key(&k, 1);
            bool kept = cg_tunedb_store(b.db, &k.key, &r);
            cr_expect(cachebox_told(&b), "%u KiB: more than one warning", kb);
            if (kept) cr_expect(has(&b, 1), "%u KiB", kb);
            cachebox_close(&b);
        }
        umount(box);
    }
}

/* No more inodes: the log can't be made. */
Test(tunedb, no_inodes)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) cr_skip_test("no mounts here");
    cr_assert_eq(mkdir(box, 0700), 0);
    for (unsigned n = 1; n <= 6; n++) {
        char options[64];
        snprintf(options, sizeof options, "size=1m,nr_inodes=%u,mode=700", n);
        if (mount("none", box, "tmpfs", 0, options) != 0) cr_skip_test("no tmpfs here");
        struct cachebox b;
        cachebox_open(&b, box, 0);
        cr_expect(cachebox_told(&b), "%u inodes: more than one warning", n);
        cr_expect(b.db || *cachebox_told(&b), "%u inodes", n);
        cachebox_close(&b);
        umount(box);
    }
}

Test(tunedb, file_size_limit)
{
    const struct rlimit small = {32 << 10, 32 << 10};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    struct cachebox b;
    unsigned kept = 0;
    cachebox_open(&b, box, 0);
    for (unsigned i = 0; i < 100; i++) {
        struct cachebox_key k;
        struct cg_tune_record r = cachebox_record(i);
        cachebox_key(&k, i);
        kept += cg_tunedb_store(b.db, &k.key, &r);
    }
    cr_expect(kept < 100);
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    cachebox_close(&b);
}

Test(tunedb, few_descriptors)
{
    fill(2);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    int used = open("/dev/null", O_RDONLY);
    close(used);
    for (int n = used; n < used + 8; n++) {
        struct cachebox b;
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)n, before.rlim_max});
        cachebox_open(&b, box, 0);
        cr_expect(cachebox_told(&b), "%d descriptors: more than one warning", n);
        cr_expect(b.db || *cachebox_told(&b), "%d descriptors", n);
        if (b.db) has(&b, 1);
        cachebox_close(&b);
    }
    setrlimit(RLIMIT_NOFILE, &before);
    struct cachebox b = OPEN();
    cr_expect_eq(count_kept(&b, 2), 2u);
    cachebox_close(&b);
}

/* --- SQLite's memory runs out ------------------------------------------------------------------------------------------ */

static sqlite3_mem_methods real_memory;
static long allocations, failing_at; /* 0: none fails; below 0: all from the opposite on */

static bool fails(void)
{
    allocations++;
    return failing_at > 0 ? allocations == failing_at : failing_at < 0 && allocations >= -failing_at;
}

static void *failing_malloc(int n)
{
    return fails() ? NULL : real_memory.xMalloc(n);
}

static void *failing_realloc(void *p, int n)
{
    return fails() ? NULL : real_memory.xRealloc(p, n);
}

/* One warning at most; what was kept is there afterwards. */
static void use_all(const uint8_t *image, size_t size, bool kept[20])
{
    struct cachebox b;
    struct cg_tune_merge m;
    size_t n;
    cachebox_open(&b, box, 0);
    for (unsigned i = 0; i < 20; i++) {
        struct cachebox_key k;
        struct cg_tune_record r = cachebox_record(i), other;
        cachebox_key(&k, i);
        (void)cg_tunedb_claim(b.db, &k.key, 0, &other);
        kept[i] |= cg_tunedb_store(b.db, &k.key, &r);
        (void)cg_tunedb_lookup(b.db, &k.key, &other);
    }
    (void)cg_tunedb_stats(b.db);
    (void)cg_tunedb_export(b.db, b.arena, &n);
    (void)cg_tunedb_merge(b.db, image, size, &m);
    (void)cg_tunedb_prune(b.db, 1e12, 1 << 20);
    cr_assert(cachebox_told(&b), "allocation %ld: more than one warning", failing_at);
    cachebox_close(&b);
}

Test(tunedb, memory_runs_out)
{
    sqlite3_mem_methods memory;
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory), SQLITE_OK);
    memory = real_memory;
    memory.xMalloc = failing_malloc;
    memory.xRealloc = failing_realloc;
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &memory), SQLITE_OK);
    fill(3);
    size_t size;
    uint8_t *image = read_file(FILE_NAME, &size);
    bool kept[20] = {false};
    clear();
    allocations = 0;
    use_all(image, size, kept);
    long all = allocations, step = all / test_count(60, 2000) + 1;
    cr_assert_gt(all, 500);
    for (long at = 1; at <= all; at += step) {
        for (int sign = 1; sign >= -1; sign -= 2) {
            if (at % 3 == 0) clear();
            memset(kept, 0, sizeof kept);
            allocations = 0;
            failing_at = sign * at;
            use_all(image, size, kept);
            failing_at = 0;
            struct cachebox b = OPEN();
            for (unsigned i = 0; i < 20; i++) cr_expect(!kept[i] || has(&b, i), "allocation %ld: record %u", sign * at, i);
            cr_expect_eq(cg_tunedb_stats(b.db).damaged, 0u);
            cachebox_close(&b);
            cr_expect_eq(cachebox_count(box, FILE_NAME ".corrupt"), 0u, "allocation %ld: taken for damaged", sign * at);
        }
    }
    free(image);
}
