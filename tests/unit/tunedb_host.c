#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tunebox.h"

TestSuite(tunedb_host, .init = setup, .fini = teardown, .timeout = 300);

/* --- the host --------------------------------------------------------------------------------------------------------- */

Test(tunedb_host, network_file_system)
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
Test(tunedb_host, after_fork)
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
Test(tunedb_host, threads)
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
Test(tunedb_host, time_of_day)
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
Test(tunedb_host, full_disk)
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
Test(tunedb_host, small_disks)
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
Test(tunedb_host, no_inodes)
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

Test(tunedb_host, file_size_limit)
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

Test(tunedb_host, few_descriptors)
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

Test(tunedb_host, memory_runs_out)
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
