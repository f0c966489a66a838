/* The caches under many processes, some of which are killed:
 *   cachestorm kills N      processes that store are killed N times; what was stored before is there, whole
 *   cachestorm crash        a process ends at each crash point in turn
 *   cachestorm cold N       N processes tune the same things at once, and measure nearly nothing twice
 *   cachestorm damaged N    eight processes open a damaged data base at once, N times: one of them moves it aside
 *   cachestorm soak S       eight processes fill the artifacts for S seconds; their size stays within the limit */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cachebox.h"
#include "crashpoint.h"
#include "longer.h"

enum { PROCESSES = 8, SLOTS = 48 };

#define NEED(cond, ...)                                                                     \
    do {                                                                                    \
        if (!(cond)) {                                                                      \
            fprintf(stderr, "cachestorm: line %d: %s: ", __LINE__, #cond);                  \
            fprintf(stderr, __VA_ARGS__);                                                   \
            fputc('\n', stderr);                                                            \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void pause_us(unsigned us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void *shared(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NEED(p != MAP_FAILED, "no memory");
    return p;
}

/* --- things that say themselves what they are ----------------------------------------------------------------------- */

/* Record `number` of slot s of process p. */
static struct cg_tune_record record_of(unsigned p, unsigned s, unsigned number)
{
    struct cg_tune_record r = {.median_s = 1e-6 * (number % 1000 + 1), .when = number};
    snprintf(r.config, sizeof r.config, "process=%u slot=%u number=%u", p, s, number);
    return r;
}

/* The number of a record that is there; 0: none. Anything but what was stored whole ends the program. */
static unsigned number_of(struct cachebox *b, unsigned p, unsigned s)
{
    struct cachebox_key k;
    struct cg_tune_record r;
    cachebox_key(&k, p * SLOTS + s);
    if (!cg_tunedb_lookup(b->db, &k.key, &r)) return 0;
    struct cg_tune_record wanted = record_of(p, s, (unsigned)r.when);
    NEED(!strcmp(r.config, wanted.config) && r.median_s == wanted.median_s, "record %u/%u is %s", p, s, r.config);
    return (unsigned)r.when;
}

enum { PAYLOAD_MOST = 30000 };

static size_t payload_of(unsigned p, unsigned s, unsigned number, uint8_t *bytes)
{
    size_t n = 12 + (number * 7919u + s * 104729u) % (PAYLOAD_MOST - 12);
    memcpy(bytes, (const unsigned[]){p, s, number}, 12);
    for (size_t i = 12; i < n; i++) bytes[i] = (uint8_t)(i * number + s + (i >> 8));
    return n;
}

static struct cg_artifact_key artifact_key(unsigned p, unsigned s, char text[32])
{
    snprintf(text, 32, "process %u slot %u", p, s);
    return (struct cg_artifact_key){s % 2 ? "kernel" : "module", text, strlen(text)};
}

static bool put_artifact(struct cachebox *b, unsigned p, unsigned s, unsigned number)
{
    uint8_t bytes[PAYLOAD_MOST];
    char text[32];
    struct cg_artifact_key k = artifact_key(p, s, text);
    size_t n = payload_of(p, s, number, bytes);
    return cg_artifact_put(b->art, &k, bytes, n);
}

static unsigned artifact_number(struct cachebox *b, unsigned p, unsigned s)
{
    uint8_t wanted[PAYLOAD_MOST];
    char text[32];
    unsigned id[3];
    size_t n = 0;
    struct cg_artifact_key k = artifact_key(p, s, text);
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    const uint8_t *bytes = cg_artifact_get(b->art, a, &k, &n);
    if (!bytes) return yir_arena_free(a), 0u;
    NEED(n >= 12, "artifact %u/%u has %zu bytes", p, s, n);
    memcpy(id, bytes, 12);
    size_t m = payload_of(id[0], id[1], id[2], wanted);
    NEED(id[0] == p && id[1] == s && n == m && memcmp(bytes, wanted, n) == 0, "artifact %u/%u is another", p, s);
    yir_arena_free(a);
    return id[2];
}

/* --- kills ------------------------------------------------------------------------------------------------------------ */

/* What a process has been told was kept, by slot. Written by it alone. */
struct kept {
    volatile unsigned record[SLOTS], artifact[SLOTS], next;
};

static void work(const char *path, unsigned p, struct kept *kept)
{
    struct cachebox b;
    cachebox_open(&b, path, 0);
    while (b.db) {
        unsigned number = ++kept->next, s = number % SLOTS;
        struct cachebox_key k;
        struct cg_tune_record r = record_of(p, s, number), other;
        cachebox_key(&k, p * SLOTS + s);
        (void)cg_tunedb_claim(b.db, &k.key, 0, &other);
        if (cg_tunedb_store(b.db, &k.key, &r)) kept->record[s] = number;
        if (put_artifact(&b, p, s, number)) kept->artifact[s] = number;
        number_of(&b, number % PROCESSES, s);
        if (number % 31 == 0) cachebox_close(&b), cachebox_open(&b, path, 0);
    }
    fprintf(stderr, "cachestorm: a process ran without: %s\n", cachebox_told(&b) ? cachebox_told(&b) : "several reasons");
    exit(1);
}

static pid_t start(const char *path, unsigned p, struct kept *kept)
{
    pid_t child = fork();
    NEED(child >= 0, "no fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it would go on for ever */
        work(path, p, kept);
        _exit(1);
    }
    return child;
}

static void check_kept(const char *path, struct kept *kept)
{
    struct cachebox b;
    cachebox_open(&b, path, 0);
    NEED(b.db && b.art, "%s", cachebox_told(&b));
    for (unsigned p = 0; p < PROCESSES; p++) {
        for (unsigned s = 0; s < SLOTS; s++) {
            unsigned record = kept[p].record[s], artifact = kept[p].artifact[s];
            NEED(number_of(&b, p, s) >= record, "record %u/%u: %u was kept", p, s, record);
            NEED(artifact_number(&b, p, s) >= artifact, "artifact %u/%u: %u was kept", p, s, artifact);
        }
    }
    NEED(!*cachebox_told(&b), "%s", cachebox_told(&b));
    cachebox_close(&b);
    NEED(cachebox_count(path, "tuning.sqlite.corrupt") == 0, "a data base was taken for damaged");
}

static int kills(unsigned n)
{
    char path[192];
    struct kept *kept = shared(PROCESSES * sizeof *kept);
    pid_t child[PROCESSES];
    uint32_t state = n;
    cachebox_path(path, true);
    for (unsigned p = 0; p < PROCESSES; p++) child[p] = start(path, p, &kept[p]);
    for (unsigned i = 0; i < n; i++) {
        unsigned p = next(&state) % PROCESSES;
        int status;
        pause_us(next(&state) % 12000);
        kill(child[p], SIGKILL);
        NEED(waitpid(child[p], &status, 0) == child[p] && WIFSIGNALED(status), "a process ended by itself");
        child[p] = start(path, p, &kept[p]);
        if (i % 100 == 99) check_kept(path, kept);
    }
    unsigned stored = 0;
    for (unsigned p = 0; p < PROCESSES; p++) {
        kill(child[p], SIGKILL);
        waitpid(child[p], NULL, 0);
        stored += kept[p].next;
    }
    check_kept(path, kept);
    struct cachebox b; /* nobody lives, so nothing is claimed for long */
    cachebox_open(&b, path, 0);
    for (unsigned i = 0; i < PROCESSES * SLOTS; i++) {
        struct cachebox_key k;
        struct cg_tune_record r;
        cachebox_key(&k, i);
        NEED(cg_tunedb_claim(b.db, &k.key, 0, &r) != CG_TUNE_BUSY, "key %u is claimed by the dead", i);
    }
    struct cg_tune_stats st = cg_tunedb_stats(b.db);
    NEED(st.damaged == 0, "%" PRIu64 " damaged records", st.damaged);
    cachebox_close(&b);
    cachebox_remove(path);
    printf("%u kills, about %u records stored and as many artifacts: none lost, none damaged\n", n, stored);
    return stored > n / 4 ? 0 : 1;
}

/* --- crash points ------------------------------------------------------------------------------------------------------- */

struct crash {
    const char *path;
    struct kept *kept;
    unsigned how;
};

/* Several ways into the code that changes files. */
static int crash_body(void *user)
{
    const struct crash *c = user;
    struct cachebox b;
    cachebox_open(&b, c->path, c->how == 1 ? 90000 : 0); /* 1: the artifacts have to make room */
    for (unsigned i = 0; i < 6; i++) {
        unsigned number = ++c->kept->next, s = number % 4;
        struct cachebox_key k;
        struct cg_tune_record r = record_of(0, s, number), other;
        cachebox_key(&k, s);
        (void)cg_tunedb_claim(b.db, &k.key, 0, &other);
        if (cg_tunedb_store(b.db, &k.key, &r)) c->kept->record[s] = number;
        if (put_artifact(&b, 0, s, number)) c->kept->artifact[s] = number;
    }
    cachebox_close(&b);
    return 0;
}

static void age_all(const char *path)
{
    char command[320];
    snprintf(command, sizeof command, "find '%s/objects' -type f -name '[0-9a-f]*' -exec touch -d '2 hours ago' {} +", path);
    NEED(system(command) == 0, "touch");
}

/* The folder before the crash: empty, full of artifacts, with a damaged data base. */
static void prepare(const struct crash *c)
{
    char name[256];
    if (c->how == 0) return;
    crash_run(crash_body, (void *)(uintptr_t)c, 0, NULL);
    age_all(c->path);
    if (c->how == 1) return;
    snprintf(name, sizeof name, "%s/tuning.sqlite", c->path);
    FILE *f = fopen(name, "r+b");
    NEED(f && fseek(f, 4096, SEEK_SET) == 0 && fwrite("damage damage damage", 1, 20, f) == 20 && fclose(f) == 0, "damage");
    for (unsigned s = 0; s < SLOTS; s++) c->kept->record[s] = 0;
}

static void check_crash(const struct crash *c, const char *label)
{
    struct cachebox b;
    cachebox_open(&b, c->path, 0);
    NEED(b.db && b.art && !*cachebox_told(&b), "after %s: %s", label, cachebox_told(&b) ? cachebox_told(&b) : "several");
    for (unsigned s = 0; s < 4; s++) {
        NEED(number_of(&b, 0, s) >= c->kept->record[s], "after %s: record %u is lost", label, s);
        unsigned n = artifact_number(&b, 0, s);
        NEED(c->how == 1 || n >= c->kept->artifact[s], "after %s: artifact %u is lost", label, s);
    }
    struct cachebox_key k;
    struct cg_tune_record r = record_of(0, 7, 1), other;
    cachebox_key(&k, 7);
    NEED(cg_tunedb_claim(b.db, &k.key, 0, &other) == CG_TUNE_MINE, "after %s: no claim", label);
    NEED(cg_tunedb_store(b.db, &k.key, &r) && number_of(&b, 0, 7) == 1, "after %s: nothing is kept", label);
    NEED(cg_tunedb_stats(b.db).damaged == 0, "after %s: damaged records", label);
    NEED(c->how == 2 || cachebox_count(c->path, "tuning.sqlite.corrupt") == 0, "after %s: taken for damaged", label);
    cachebox_close(&b);
}

static int crash(void)
{
    struct crash_seen all = {0};
    unsigned runs = 0;
    for (unsigned how = 0; how < 3; how++) {
        int code = CRASH_CODE;
        for (long at = 1; code == CRASH_CODE; at++) {
            char path[192];
            struct crash_seen seen;
            struct crash c = {.path = path, .kept = shared(sizeof *c.kept), .how = how};
            cachebox_path(path, true);
            prepare(&c);
            code = crash_run(crash_body, &c, at, &seen);
            NEED(code == CRASH_CODE || code == 0, "exit code %d", code);
            check_crash(&c, seen.last);
            cachebox_remove(path);
            munmap(c.kept, sizeof *c.kept);
            runs++;
            for (int i = 0; i < seen.nlabel; i++) {
                int k = 0;
                while (k < all.nlabel && strcmp(all.label[k], seen.label[i])) k++;
                if (k == all.nlabel) strcpy(all.label[all.nlabel++], seen.label[i]);
            }
        }
    }
    static const char *const wanted[] = {"tunedb.tables-made", "tunedb.log-moved", "tunedb.moved", "tunedb.mode-set", "tunedb.created",
                                         "tunedb.record-put", "tunedb.claim-dropped", "tunedb.record-kept", "tunedb.claim-put",
                                         "tunedb.claim-taken", "artifact.written", "artifact.synced", "artifact.counted",
                                         "artifact.renamed"};
    for (size_t i = 0; i < YIR_COUNT(wanted); i++) {
        int k = 0;
        while (k < all.nlabel && strcmp(all.label[k], wanted[i])) k++;
        NEED(k < all.nlabel, "crash point %s was not reached", wanted[i]);
    }
    NEED(all.nlabel == YIR_COUNT(wanted), "%d labels, %zu are known here", all.nlabel, YIR_COUNT(wanted));
    printf("%u ends at %d crash points, none of them did harm\n", runs, all.nlabel);
    return 0;
}

/* --- cold start --------------------------------------------------------------------------------------------------------- */

enum { OPS = 60, MEASURE_US = 20000 };

/* As the tuner goes about it: what is free first, what another one measures later. */
static void tune(const char *path, unsigned first, unsigned *measured)
{
    struct cachebox b;
    bool done[OPS] = {false};
    cachebox_open(&b, path, 0);
    NEED(b.db, "%s", cachebox_told(&b));
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < OPS; i++) {
            unsigned op = (first + i) % OPS;
            struct cachebox_key k;
            struct cg_tune_record r;
            cachebox_key(&k, op);
            if (done[op]) continue;
            enum cg_tune_claim claim = cg_tunedb_claim(b.db, &k.key, round ? CG_TUNE_WAIT_S : 0, &r);
            done[op] = claim != CG_TUNE_BUSY || round;
            if (!done[op] || claim == CG_TUNE_FOUND) continue;
            pause_us(MEASURE_US);
            __atomic_add_fetch(&measured[op], 1, __ATOMIC_RELAXED);
            r = cachebox_record(op);
            NEED(cg_tunedb_store(b.db, &k.key, &r), "not kept: %s", cachebox_told(&b) ? cachebox_told(&b) : "");
        }
    }
    NEED(!*cachebox_told(&b), "%s", cachebox_told(&b));
    cachebox_close(&b);
}

/* Seconds that n processes take. */
static double tune_cold(unsigned n, unsigned *total)
{
    char path[192];
    unsigned *measured = shared(OPS * sizeof *measured);
    pid_t child[64];
    double begin = seconds();
    cachebox_path(path, true);
    for (unsigned p = 0; p < n; p++) {
        child[p] = fork();
        NEED(child[p] >= 0, "no fork");
        if (child[p] == 0) {
            tune(path, 0, measured);
            _exit(0);
        }
    }
    for (unsigned p = 0; p < n; p++) {
        int status;
        waitpid(child[p], &status, 0);
        NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a process failed");
    }
    double took = seconds() - begin;
    struct cachebox b;
    cachebox_open(&b, path, 0);
    struct cg_tune_stats s = cg_tunedb_stats(b.db);
    NEED(s.records == OPS && s.claims == 0 && s.damaged == 0, "%" PRIu64 " records, %" PRIu64 " claims", s.records, s.claims);
    cachebox_close(&b);
    cachebox_remove(path);
    *total = 0;
    for (unsigned i = 0; i < OPS; i++) *total += measured[i];
    munmap(measured, OPS * sizeof *measured);
    return took;
}

static int cold(unsigned n)
{
    unsigned alone, all;
    double one = tune_cold(1, &alone), many = tune_cold(n, &all);
    printf("%u things to measure: 1 process measured %u in %.2f s, %u processes %u in %.2f s\n", OPS, alone, one, n, all, many);
    NEED(alone == OPS, "measured twice alone");
    NEED(all <= OPS * 105 / 100, "%u measurements", all);
    NEED(many <= 1.15 * one, "%.2f s", many);
    return 0;
}

/* --- one damaged file, many openers -------------------------------------------------------------------------------------- */

static int damaged(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++) {
        char path[192], name[256];
        pid_t child[PROCESSES];
        cachebox_path(path, true);
        NEED(mkdir(path, 0700) == 0, "mkdir");
        snprintf(name, sizeof name, "%s/tuning.sqlite", path);
        FILE *f = fopen(name, "wb");
        NEED(f && fwrite("SQLite format 3\0damaged", 1, 24, f) == 24 && fclose(f) == 0, "no file");
        for (unsigned p = 0; p < PROCESSES; p++) {
            child[p] = fork();
            if (child[p] == 0) {
                struct cachebox b;
                cachebox_open(&b, path, 0);
                struct cachebox_key k;
                struct cg_tune_record r = cachebox_record(p);
                cachebox_key(&k, p);
                _exit(b.db && cg_tunedb_store(b.db, &k.key, &r) && !*cachebox_told(&b) ? (cachebox_close(&b), 0) : 1);
            }
        }
        unsigned good = 0;
        for (unsigned p = 0; p < PROCESSES; p++) {
            int status;
            waitpid(child[p], &status, 0);
            good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        NEED(good == PROCESSES, "round %u: %u of %u processes got a data base", i, good, PROCESSES);
        NEED(cachebox_count(path, "tuning.sqlite.corrupt") == 1, "round %u: %u copies", i, cachebox_count(path, "tuning.sqlite.corrupt"));
        struct cachebox b;
        cachebox_open(&b, path, 0);
        NEED(cg_tunedb_stats(b.db).records == PROCESSES, "round %u: records are lost", i);
        cachebox_close(&b);
        cachebox_remove(path);
    }
    printf("%u damaged data bases, each moved aside once\n", rounds);
    return 0;
}

/* --- soak ----------------------------------------------------------------------------------------------------------------- */

enum { SOAK_LIMIT = 1 << 20 };

static uint64_t entries_bytes;

static int add_size(const char *path, const struct stat *st, int type, struct FTW *w)
{
    if (type == FTW_F && strlen(path + w->base) == 32) entries_bytes += (uint64_t)st->st_size;
    return 0;
}

/* Entries come and go under this lock; without it what is counted was never there at one time. -1: none yet. */
static int lock_entries(const char *objects)
{
    char name[300];
    snprintf(name, sizeof name, "%s/total", objects);
    int fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd >= 0) flock(fd, LOCK_EX);
    return fd;
}

static void soak_process(const char *path, unsigned p, double end)
{
    struct cachebox b;
    uint32_t state = p + 1;
    unsigned kept = 0, found = 0;
    cachebox_open(&b, path, SOAK_LIMIT);
    NEED(b.art, "no artifacts");
    for (unsigned number = 1; seconds() < end; number++) {
        kept += put_artifact(&b, next(&state) % PROCESSES, next(&state) % SLOTS, number);
        found += artifact_number(&b, next(&state) % PROCESSES, next(&state) % SLOTS) > 0;
    }
    NEED(!*cachebox_told(&b), "%s", cachebox_told(&b));
    cachebox_close(&b);
    _exit(kept && found ? 0 : 3);
}

static int soak(unsigned length)
{
    char path[192];
    pid_t child[PROCESSES];
    double end = seconds() + length;
    uint64_t most = 0;
    cachebox_path(path, true);
    struct cachebox b;
    cachebox_open(&b, path, SOAK_LIMIT);
    cachebox_close(&b);
    for (unsigned p = 0; p < PROCESSES; p++)
        if ((child[p] = fork()) == 0) soak_process(path, p, end);
    while (seconds() < end) {
        char objects[256];
        snprintf(objects, sizeof objects, "%s/objects", path);
        entries_bytes = 0;
        int lock = lock_entries(objects);
        nftw(objects, add_size, 16, FTW_PHYS);
        if (lock >= 0) close(lock);
        if (entries_bytes > most) most = entries_bytes;
        pause_us(100000);
        age_all(path);
    }
    for (unsigned p = 0; p < PROCESSES; p++) {
        int status;
        waitpid(child[p], &status, 0);
        NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %u failed", p);
    }
    cachebox_remove(path);
    printf("at most %" PRIu64 " bytes under a limit of %d\n", most, SOAK_LIMIT);
    NEED(most > SOAK_LIMIT / 2 && most <= SOAK_LIMIT + PAYLOAD_MOST + 128, "%" PRIu64 " bytes", most);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    unsetenv("YOLOC_CACHE");
    unsetenv("YOLOC_CACHE_LIMIT");
    if (argc == 3 && !strcmp(argv[1], "kills")) return kills(TEST_SANITIZED ? n / 8 : n);
    if (argc == 2 && !strcmp(argv[1], "crash")) return crash();
    if (argc == 3 && !strcmp(argv[1], "cold")) return cold(n);
    if (argc == 3 && !strcmp(argv[1], "damaged")) return damaged(n);
    if (argc == 3 && !strcmp(argv[1], "soak")) return soak(n);
    fprintf(stderr, "usage: cachestorm kills N | crash | cold N | damaged N | soak SECONDS\n");
    return 2;
}
