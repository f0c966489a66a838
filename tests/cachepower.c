/* The caches on a disk that fails.
 *   cachepower loss N     every write, sync, rename and removal of a run is noted, then N folders are made as a disk could hold
 *                         them when power went at some point in between: what was synced is there, of the rest any part, in
 *                         units of 512 bytes. Each must open, and hold what was said to be kept before
 *   cachepower errors N   in N runs one call of the system, or all from it on, fail: at most one warning, and what was said to be
 *                         kept is there */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cachebox.h"
#include "longer.h"

#define NEED(cond, ...) ((cond) ? (void)0 : (fprintf(stderr, "cachepower: line %d: %s: ", __LINE__, #cond), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1)))
#define SHOWN __attribute__((visibility("default"))) /* so that SQLite calls these, and not the C library's */

enum { SECTOR = 512, SLOTS = 10, MOST_FILES = 256, NAME = 256 };

/* --- what happened ---------------------------------------------------------------------------------------------------- */

enum kind { WRITE, CUT, SYNC, RENAME, REMOVE, KEPT };

static struct event {
    enum kind kind;
    char path[NAME], to[NAME];
    uint64_t at, size;
    uint8_t *bytes;
    unsigned slot, number; /* KEPT: slots from SLOTS on are artifacts */
} *events;
static size_t nevent, room;
static char noted[192]; /* only below this folder; "": nothing */

static struct event *note(enum kind kind, const char *path)
{
    size_t n = strlen(noted);
    if (!n || strncmp(path, noted, n) || strlen(path) >= NAME || strstr(path, "-shm")) return NULL;
    if (nevent == room) {
        room = room ? 2 * room : 1024;
        events = realloc(events, room * sizeof *events);
        if (!events) abort();
    }
    struct event *e = &events[nevent++];
    *e = (struct event){.kind = kind};
    strcpy(e->path, path + n);
    return e;
}

static const char *path_of(int fd, const char *name)
{
    static char path[NAME + NAME];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = *noted ? readlink(link, path, NAME - 1) : -1;
    if (n < 0) return "";
    path[n] = 0;
    if (name) snprintf(path + n, NAME, "/%s", name);
    return path;
}

static void note_write(int fd, const void *bytes, ssize_t n, int64_t at)
{
    struct event *e = n > 0 && at >= 0 ? note(WRITE, path_of(fd, NULL)) : NULL;
    if (!e) return;
    e->at = (uint64_t)at;
    e->size = (uint64_t)n;
    e->bytes = malloc((size_t)n);
    if (!e->bytes) abort();
    memcpy(e->bytes, bytes, (size_t)n);
}

/* --- calls that fail: the fail_at-th of those below, and with fail_on all later ones ---------------------------------------- */

static long calls, fail_at;
static bool fail_on;
static int fail_errno;

static bool fails(void)
{
    if (!fail_at || (++calls != fail_at && !(fail_on && calls > fail_at))) return false;
    errno = fail_errno;
    return true;
}

/* The calls by which our code and SQLite reach and change files. */
SHOWN int openat(int folder, const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, unsigned) : 0;
    va_end(ap);
    return fails() ? -1 : (int)syscall(SYS_openat, folder, name, flags, mode);
}

SHOWN int open64(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, unsigned) : 0;
    va_end(ap);
    return openat(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

SHOWN int mkdirat(int folder, const char *name, mode_t mode)
{
    return fails() ? -1 : (int)syscall(SYS_mkdirat, folder, name, mode);
}

SHOWN ssize_t read(int fd, void *bytes, size_t n)
{
    return fails() ? -1 : syscall(SYS_read, fd, bytes, n);
}

SHOWN ssize_t pread64(int fd, void *bytes, size_t n, off64_t at)
{
    return fails() ? -1 : syscall(SYS_pread64, fd, bytes, n, at);
}

SHOWN int futimens(int fd, const struct timespec times[2])
{
    return fails() ? -1 : (int)syscall(SYS_utimensat, fd, NULL, times, 0);
}

SHOWN ssize_t write(int fd, const void *bytes, size_t n)
{
    int64_t at = *noted ? lseek(fd, 0, SEEK_CUR) : -1;
    if (fails()) return -1;
    ssize_t k = syscall(SYS_write, fd, bytes, n);
    note_write(fd, bytes, k, at);
    return k;
}

SHOWN ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    if (fails()) return -1;
    ssize_t k = syscall(SYS_pwrite64, fd, bytes, n, at);
    note_write(fd, bytes, k, at);
    return k;
}

SHOWN ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    return pwrite(fd, bytes, n, at);
}

SHOWN int ftruncate(int fd, off_t size)
{
    if (fails()) return -1;
    struct event *e = note(CUT, path_of(fd, NULL));
    if (e) e->size = (uint64_t)size;
    return (int)syscall(SYS_ftruncate, fd, size);
}

SHOWN int ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

SHOWN int fsync(int fd)
{
    if (fails()) return -1;
    (void)note(SYNC, path_of(fd, NULL));
    return (int)syscall(SYS_fsync, fd);
}

SHOWN int fdatasync(int fd)
{
    return fsync(fd);
}

SHOWN int unlink(const char *path)
{
    if (fails()) return -1;
    if (*noted) (void)note(REMOVE, path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

SHOWN int unlinkat(int folder, const char *name, int flags)
{
    if (fails()) return -1;
    (void)note(REMOVE, path_of(folder, name));
    return (int)syscall(SYS_unlinkat, folder, name, flags);
}

SHOWN int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    if (fails()) return -1;
    struct event *e = note(RENAME, path_of(from_folder, from));
    const char *path = path_of(to_folder, to);
    if (e) strcpy(e->to, path + strlen(noted));
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}

/* --- a run ------------------------------------------------------------------------------------------------------------- */

static struct cg_artifact_key artifact_key(unsigned s, char text[16])
{
    snprintf(text, 16, "slot %u", s);
    return (struct cg_artifact_key){"kernel", text, strlen(text)};
}

static void kept(unsigned slot, unsigned number)
{
    struct event *e = note(KEPT, noted);
    e->slot = slot;
    e->number = number;
}

static void session(unsigned first, unsigned n)
{
    struct cachebox b;
    cachebox_open(&b, noted, 40000);
    NEED(b.db && b.art, "%s", cachebox_told(&b));
    for (unsigned number = first; number < first + n; number++) {
        struct cachebox_key k;
        struct cg_tune_record r = cachebox_record(number), other;
        unsigned s = number % SLOTS;
        char text[16], payload[3000];
        cachebox_key(&k, s);
        r.when = number;
        (void)cg_tunedb_claim(b.db, &k.key, 0, &other);
        if (cg_tunedb_store(b.db, &k.key, &r)) kept(s, number);
        struct cg_artifact_key a = artifact_key(s, text);
        memset(payload, (int)number, sizeof payload);
        if (cg_artifact_put(b.art, &a, payload, 100 + number * 37 % 2900)) kept(SLOTS + s, number);
    }
    if (first % 2) cg_tunedb_prune(b.db, -1, -1);
    cachebox_close(&b);
}

/* --- a disk ------------------------------------------------------------------------------------------------------------ */

static uint32_t state;

static uint32_t next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* A file by its content; names come and go. */
struct file {
    char name[NAME]; /* "": has none */
    uint8_t *bytes;
    size_t size;
};

struct disk {
    struct file file[MOST_FILES];
    size_t n;
};

static struct file *find(struct disk *d, const char *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->file[i].name, name) == 0) return &d->file[i];
    return NULL;
}

static struct file *find_or_make(struct disk *d, const char *name)
{
    struct file *f = find(d, name);
    if (f) return f;
    NEED(d->n < MOST_FILES, "too many files");
    f = &d->file[d->n++];
    *f = (struct file){.bytes = NULL};
    strcpy(f->name, name);
    return f;
}

static void resize(struct file *f, size_t size)
{
    f->bytes = realloc(f->bytes, size + 1);
    NEED(f->bytes, "no memory");
    if (size > f->size) memset(f->bytes + f->size, 0, size - f->size);
    f->size = size;
}

/* part: of a write, in sectors; all when below 0. */
static void apply(struct disk *d, const struct event *e, long part)
{
    struct file *f = e->kind == WRITE || e->kind == CUT ? find_or_make(d, e->path) : find(d, e->path), *over;
    size_t n = (size_t)e->size;
    switch (e->kind) {
    case WRITE:
        if (part >= 0 && (size_t)part * SECTOR < n) n = (size_t)part * SECTOR;
        if (e->at + n > f->size) resize(f, (size_t)e->at + n);
        memcpy(f->bytes + e->at, e->bytes, n);
        break;
    case CUT:
        resize(f, n);
        break;
    case RENAME:
        over = find(d, e->to);
        if (over && f) over->name[0] = 0;
        if (f) strcpy(f->name, e->to);
        break;
    case REMOVE:
        if (f) f->name[0] = 0;
        break;
    default:
        break;
    }
}

/* Whether event i is on the disk for sure when power goes before event end: its file, or for a name its folder, was synced later.
 * A file is known by the name that it had at the event. */
static bool is_synced(size_t i, size_t end)
{
    const struct event *e = &events[i];
    char wanted[NAME];
    strcpy(wanted, e->kind == RENAME ? e->to : e->path);
    bool name = e->kind == RENAME || e->kind == REMOVE;
    if (name) *strrchr(wanted, '/') = 0;
    for (size_t k = i + 1; k < end; k++) {
        const struct event *s = &events[k];
        if (s->kind == SYNC && strcmp(s->path, wanted) == 0) return true;
        if (!name && s->kind == RENAME && strcmp(s->path, wanted) == 0) strcpy(wanted, s->to);
        if (!name && s->kind == REMOVE && strcmp(s->path, wanted) == 0) return true; /* no longer matters */
    }
    return false;
}

/* Names change in their order, as journals of file systems see to; from a random one on they did not yet. */
static void lose_power(struct disk *d, size_t end)
{
    size_t names = next() % (end + 1);
    *d = (struct disk){.n = 0};
    for (size_t i = 0; i < end; i++) {
        const struct event *e = &events[i];
        if (e->kind == SYNC || e->kind == KEPT) continue;
        bool name = e->kind == RENAME || e->kind == REMOVE, synced = is_synced(i, end);
        unsigned luck = next() % 4;
        if (synced || (name && i < names)) apply(d, e, -1);
        else if (!name && luck) apply(d, e, luck == 1 ? (long)(next() % (e->size / SECTOR + 1)) : -1);
    }
}

static void make_folders(char *path, size_t from)
{
    for (char *at = path + from + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

static void write_disk(struct disk *d, const char *folder)
{
    (void)mkdir(folder, 0700);
    for (size_t i = 0; i < d->n; i++) {
        const struct file *f = &d->file[i];
        char path[2 * NAME];
        if (*f->name) {
            snprintf(path, sizeof path, "%s%s", folder, f->name);
            make_folders(path, strlen(folder));
            int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
            NEED(fd >= 0 && write(fd, f->bytes, f->size) == (ssize_t)f->size && close(fd) == 0, "%s: %s", path, strerror(errno));
        }
        free(f->bytes);
    }
}

/* --- what must be there -------------------------------------------------------------------------------------------------- */

static void check(const char *folder, size_t end, unsigned seed)
{
    unsigned wanted[2 * SLOTS] = {0};
    struct cachebox b;
    for (size_t i = 0; i < end; i++)
        if (events[i].kind == KEPT) wanted[events[i].slot] = events[i].number;
    cachebox_open(&b, folder, 40000);
    NEED(b.db && b.art && !*cachebox_told(&b), "seed %u, event %zu: %s", seed, end, cachebox_told(&b));
    for (unsigned s = 0; s < SLOTS; s++) {
        struct cachebox_key k;
        struct cg_tune_record r = {.when = 0}, whole;
        cachebox_key(&k, s);
        bool found = cg_tunedb_lookup(b.db, &k.key, &r);
        whole = cachebox_record((unsigned)r.when);
        NEED(!found || (strcmp(r.config, whole.config) == 0 && r.when % SLOTS == s), "seed %u, event %zu: record %u", seed, end, s);
        NEED(!wanted[s] || (found && r.when >= wanted[s]), "seed %u, event %zu: record %u is lost", seed, end, s);
        char text[16];
        size_t n = 0;
        struct cg_artifact_key a = artifact_key(s, text);
        const uint8_t *bytes = cg_artifact_get(b.art, b.arena, &a, &n);
        for (size_t i = 0; i < n; i++) NEED(bytes[i] == bytes[0], "seed %u, event %zu: artifact %u", seed, end, s);
        NEED(!wanted[SLOTS + s] || (bytes && bytes[0] >= wanted[SLOTS + s]), "seed %u, event %zu: artifact %u is lost", seed, end, s);
    }
    NEED(cachebox_count(folder, "tuning.sqlite.corrupt") == 0, "seed %u, event %zu: taken for damaged", seed, end);
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(77);
    cachebox_key(&k, 77);
    NEED(cg_tunedb_store(b.db, &k.key, &r), "seed %u, event %zu: nothing is kept", seed, end);
    cachebox_close(&b);
}

static int loss(unsigned rounds)
{
    static struct disk disk;
    char folder[192];
    size_t syncs = 0, writes = 0;
    cachebox_path(folder, true);
    strcpy(noted, folder);
    session(1, 12);
    session(14, 30);
    session(51, 25);
    *noted = 0;
    cachebox_remove(folder);
    for (size_t i = 0; i < nevent; i++) syncs += events[i].kind == SYNC, writes += events[i].kind == WRITE;
    NEED(syncs > 100 && writes > 300, "%zu syncs, %zu writes: something is not noted", syncs, writes);
    for (unsigned i = 0; i < rounds; i++) {
        size_t end = (size_t)((uint64_t)i * nevent / rounds) + 1;
        state = i * 2654435761u + 1;
        cachebox_path(folder, true);
        lose_power(&disk, end);
        write_disk(&disk, folder);
        check(folder, end, i);
        cachebox_remove(folder);
    }
    printf("%u losses of power among %zu events (%zu writes, %zu syncs): nothing lost that was kept\n", rounds, nevent, writes, syncs);
    return 0;
}

/* --- errors ------------------------------------------------------------------------------------------------------------------ */

static bool put_both(struct cachebox *b, unsigned s, unsigned number, unsigned kept_number[2 * SLOTS])
{
    struct cachebox_key k;
    struct cg_tune_record r = cachebox_record(number);
    char text[16], payload[2000];
    struct cg_artifact_key a = artifact_key(s, text);
    cachebox_key(&k, s);
    r.when = number;
    bool record = cg_tunedb_store(b->db, &k.key, &r);
    if (record) kept_number[s] = number;
    memset(payload, (int)number, sizeof payload);
    bool artifact = cg_artifact_put(b->art, &a, payload, sizeof payload);
    if (artifact) kept_number[SLOTS + s] = number;
    return record && artifact;
}

/* The run of which one call fails: opening, using and closing what is there already. */
static bool run(const char *folder, unsigned first, unsigned kept_number[2 * SLOTS])
{
    struct cachebox b;
    bool all = true;
    cachebox_open(&b, folder, 0);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct cachebox_key k;
        struct cg_tune_record r;
        char text[16];
        size_t n;
        struct cg_artifact_key a = artifact_key(i, text);
        cachebox_key(&k, i);
        (void)cg_tunedb_claim(b.db, &k.key, 0, &r);
        (void)cg_artifact_get(b.art, b.arena, &a, &n);
        all &= put_both(&b, i, first + i, kept_number);
    }
    cg_artifacts_prune(b.art, -1, -1);
    cg_tunedb_prune(b.db, -1, -1);
    NEED(cachebox_told(&b), "call %ld, errno %d: more than one warning", fail_at, fail_errno);
    cachebox_close(&b);
    return all;
}

static int errors(unsigned rounds)
{
    static const int numbers[] = {EIO, ENOSPC, EMFILE, EACCES, EINTR, EROFS};
    unsigned whole = 0;
    long last = 1;
    for (unsigned i = 0; i < rounds; i++) {
        char folder[192];
        unsigned kept_number[2 * SLOTS] = {0};
        cachebox_path(folder, true);
        if (i % 3) NEED(run(folder, 1, kept_number), "not kept");
        calls = 0;
        fail_at = 1 + (long)((uint64_t)i * (uint64_t)last / rounds);
        fail_errno = numbers[i % YIR_COUNT(numbers)];
        fail_on = i / YIR_COUNT(numbers) % 2 && fail_errno != EINTR; /* which is tried again for ever */
        if (i == 0) fail_at = 1 << 30; /* to count */
        whole += run(folder, 100, kept_number);
        if (i == 0) last = calls + calls / 8;
        long failed = fail_at;
        fail_at = 0;
        struct cachebox b;
        cachebox_open(&b, folder, 0);
        NEED(b.db && b.art && !*cachebox_told(&b), "call %ld, errno %d: %s", failed, fail_errno, cachebox_told(&b));
        for (unsigned s = 0; s < SLOTS; s++) {
            struct cachebox_key k;
            struct cg_tune_record r = {.when = 0};
            char text[16];
            size_t n = 0;
            struct cg_artifact_key a = artifact_key(s, text);
            cachebox_key(&k, s);
            (void)cg_tunedb_lookup(b.db, &k.key, &r);
            const uint8_t *bytes = cg_artifact_get(b.art, b.arena, &a, &n);
            NEED(r.when >= kept_number[s], "call %ld, errno %d: record %u", failed, fail_errno, s);
            NEED((bytes ? bytes[0] : 0) >= kept_number[SLOTS + s], "call %ld, errno %d: artifact %u", failed, fail_errno, s);
        }
        NEED(put_both(&b, 1, 200, kept_number), "call %ld: nothing is kept", failed);
        cachebox_close(&b);
        cachebox_remove(folder);
    }
    printf("%u runs in each of which a call failed, of %ld: %u were not hurt at all, nothing kept was lost\n", rounds, last, whole);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
    if (TEST_SANITIZED) return 77; /* sanitizers have calls of their own in these places */
    unsetenv("YOLOC_CACHE");
    unsetenv("YOLOC_CACHE_LIMIT");
    if (rounds && !strcmp(argv[1], "loss")) return loss(rounds);
    if (rounds && !strcmp(argv[1], "errors")) return errors(rounds);
    fprintf(stderr, "usage: cachepower loss|errors N\n");
    return 2;
}
