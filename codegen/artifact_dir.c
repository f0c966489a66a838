#include "artifact_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "claimant.h"
#include "check.h"
#include "ir/crashpoint.h"

#define FOLDER "objects"
#define TOTAL "total"

enum {
    SPARED_S = 60,      /* a put removes nothing that was used in the last minute */
    STALE_S = 3600,     /* no file is being written for an hour */
    MOST_BUSY = 3,      /* then nothing more is put */
    IMPATIENT_MS = 50,  /* of the second and later ones */
    MOST_FILES = 1 << 22
};

struct entry {
    struct cg_entry_name name;
    uint64_t bytes;
    struct timespec used;
};

struct cg_artifacts {
    struct cg_cachedir *dir;
    int folder;         /* -1: not open */
    uint64_t limit, boot;
    bool broken;
    int busy;           /* puts in a row that did not get the lock */
    void **found;       /* slot of the arena: the entries found last */
    size_t nfound;
};

/* --- the handle ------------------------------------------------------------------------------------------------------ */

bool cg_artifacts_usable(const struct cg_artifacts *c)
{
    return c && cg_cachedir_usable(c->dir);
}

bool cg_artifacts_broken(const struct cg_artifacts *c)
{
    return c->broken;
}

void cg_artifacts_break(struct cg_artifacts *c, const struct cg_entry_name *n, int error)
{
    if (error == EBUSY && ++c->busy < MOST_BUSY) return;
    if (error == EISDIR) { /* the others can be kept all the same */
        cg_cachedir_report(c->dir, FOLDER "/%s/%s: a folder stands there", n->folder, n->file);
        return;
    }
    c->broken = true;
    cg_cachedir_report(c->dir, FOLDER ": %s", strerror(error));
}

uint64_t cg_artifacts_limit(const struct cg_artifacts *c)
{
    return c ? c->limit : 0;
}

static void close_artifacts(void *p)
{
    struct cg_artifacts *c = p;
    if (c->folder >= 0) close(c->folder);
    c->folder = -1;
}

/* "512M"; false: it is no size. */
static bool parse_size(const char *text, uint64_t *size)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9') return false;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    uint64_t factor = unit ? 1ull << 10 * (unit - units + 1) : 1;
    return !errno && (unit ? !end[1] : !*end) && yir_mul_u64(n, factor, size) && *size > 0;
}

static int open_folder(int above, const char *name, bool make)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(above, name, flags);
    if (fd < 0 && errno == ENOENT && make && (mkdirat(above, name, 0700) == 0 || errno == EEXIST)) fd = openat(above, name, flags);
    if (fd >= 0 && cg_cachedir_distrust_folder(fd)) {
        close(fd);
        errno = EACCES;
        return -1;
    }
    return fd;
}

int cg_artifacts_folder(struct cg_artifacts *c, const char *name, bool make)
{
    return open_folder(c->folder, name, make);
}

struct cg_artifacts *cg_artifacts_open(struct yir_arena *a, struct cg_cachedir *c, uint64_t limit)
{
    const char *text = secure_getenv("YOLOC_CACHE_LIMIT");
    char id[40];
    if (!cg_cachedir_usable(c)) return NULL;
    struct cg_artifacts *r = yir_alloc(a, sizeof *r);
    *r = (struct cg_artifacts){.dir = c, .folder = -1, .limit = limit ? limit : CG_ARTIFACT_LIMIT, .found = yir_arena_slot(a)};
    yir_arena_defer(a, close_artifacts, r);
    if (!limit && text && *text && !parse_size(text, &r->limit)) {
        cg_cachedir_report(c, "YOLOC_CACHE_LIMIT is no size: %.40s", text);
        return NULL;
    }
    cg_boot_id(id);
    r->boot = XXH3_64bits(id, strlen(id));
    r->folder = open_folder(cg_cachedir_fd(c), FOLDER, true);
    if (r->folder >= 0) return r;
    cg_cachedir_report(c, FOLDER ": %s", strerror(errno));
    return NULL;
}

/* --- what is there ----------------------------------------------------------------------------------------------------- */

static bool is_entry(const char *name)
{
    return strlen(name) == 32 && strspn(name, "0123456789abcdef") == 32;
}

static bool is_stale(const char *name, const struct stat *st)
{
    return strncmp(name, CG_ARTIFACT_TEMPORARY, strlen(CG_ARTIFACT_TEMPORARY)) == 0 && st->st_mtim.tv_sec < time(NULL) - STALE_S;
}

static bool add_entry(struct cg_artifacts *c, size_t *room, const char *folder, const char *file, const struct stat *st)
{
    if (c->nfound == *room) {
        size_t more = *room ? *room * 2 : 256;
        void *p = more <= MOST_FILES ? realloc(*c->found, more * sizeof(struct entry)) : NULL;
        if (!p) return false;
        *c->found = p;
        *room = more;
    }
    struct entry *e = (struct entry *)*c->found + c->nfound++;
    *e = (struct entry){.bytes = (uint64_t)st->st_size, .used = st->st_mtim};
    memcpy(e->name.folder, folder, sizeof e->name.folder);
    memcpy(e->name.file, file, sizeof e->name.file);
    return true;
}

static bool scan_folder(struct cg_artifacts *c, size_t *room, const char *name)
{
    bool good = true;
    int fd = cg_artifacts_folder(c, name, false);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) close(fd);
        return fd < 0 && errno == ENOENT;
    }
    for (const struct dirent *d; good && (d = readdir(dir));) {
        struct stat st;
        if (fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (is_stale(d->d_name, &st)) (void)unlinkat(fd, d->d_name, 0);
        if (is_entry(d->d_name)) good = add_entry(c, room, name, d->d_name, &st);
    }
    closedir(dir);
    return good;
}

/* Fills c->found. false: some could not be looked at. */
static bool scan(struct cg_artifacts *c)
{
    char name[3];
    size_t room = 0;
    free(*c->found);
    *c->found = NULL;
    c->nfound = 0;
    for (unsigned i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "%02x", i);
        if (!scan_folder(c, &room, name)) return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name.file, ((const struct entry *)b)->name.file);
}

static int by_use(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return by_name(a, b);
}

void cg_artifacts_each(struct cg_artifacts *c, bool (*visit)(void *user, const struct cg_artifact_info *i), void *user)
{
    if (!cg_artifacts_usable(c)) return;
    (void)scan(c);
    const struct entry *e = *c->found;
    if (c->nfound) qsort(*c->found, c->nfound, sizeof *e, by_name);
    for (size_t i = 0; i < c->nfound; i++) {
        char kind[16];
        int folder = cg_artifacts_folder(c, e[i].name.folder, false);
        if (folder < 0) continue;
        bool good = cg_artifact_kind(folder, e[i].name.file, kind);
        close(folder);
        const struct cg_artifact_info info = {good ? kind : "?", e[i].name.file, e[i].bytes, e[i].used.tv_sec};
        if (!visit(user, &info)) return;
    }
}

/* --- what goes --------------------------------------------------------------------------------------------------------- */

static uint64_t sum_found(const struct cg_artifacts *c)
{
    const struct entry *e = *c->found;
    uint64_t sum = 0;
    for (size_t i = 0; i < c->nfound; i++) sum += e[i].bytes;
    return sum;
}

/* A process that has the file open keeps its bytes. An empty folder goes too. */
static bool remove_named(int folder, const char *name)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT) return true;
    return errno == EISDIR && unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

static bool remove_entry(struct cg_artifacts *c, const struct entry *e)
{
    int folder = cg_artifacts_folder(c, e->name.folder, false);
    if (folder < 0) return false;
    bool gone = remove_named(folder, e->name.file);
    if (!gone && errno == ENOTEMPTY) cg_cachedir_report(c->dir, FOLDER "/%s/%s: a folder stands there", e->name.folder, e->name.file);
    close(folder);
    return gone;
}

/* Each entry is read whole. */
static void drop_damaged(struct cg_artifacts *c, uint64_t *removed)
{
    struct entry *e = *c->found;
    size_t kept = 0;
    for (size_t i = 0; i < c->nfound; i++) {
        int folder = cg_artifacts_folder(c, e[i].name.folder, false);
        bool sound = folder < 0 || cg_artifact_sound(folder, e[i].name.file);
        if (folder >= 0) close(folder);
        if (!sound && remove_entry(c, &e[i])) ++*removed;
        else e[kept++] = e[i];
    }
    c->nfound = kept;
}

struct rule {
    uint64_t most;    /* bytes that may stay */
    int64_t before;   /* what was used earlier goes in any case */
    int64_t spared;   /* what was used later stays in any case, unless the clock is behind it */
};

/* Of what scan found, oldest first. What stays, in bytes; *removed counts. */
static uint64_t evict(struct cg_artifacts *c, const struct rule *rule, uint64_t *removed)
{
    const struct entry *e = *c->found;
    uint64_t left = sum_found(c);
    time_t now = time(NULL);
    if (c->nfound) qsort(*c->found, c->nfound, sizeof *e, by_use);
    for (size_t i = 0; i < c->nfound; i++) {
        bool spared = e[i].used.tv_sec > rule->spared && e[i].used.tv_sec <= now + SPARED_S;
        if (spared || (left <= rule->most && e[i].used.tv_sec >= rule->before)) continue;
        if (!remove_entry(c, &e[i])) continue;
        left -= e[i].bytes;
        ++*removed;
    }
    return left;
}

/* --- the total: kept in a file under its lock, so that a put need not look at all entries ------------------------------------ */

/* Numbers of this machine and boot: after a crash of the machine the sum is made anew. */
struct total {
    uint64_t boot, bytes, check;
};

static uint64_t check_of(const struct total *t)
{
    return XXH3_64bits(t, offsetof(struct total, check));
}

static int lock_total(struct cg_artifacts *c)
{
    int fd = openat(c->folder, TOTAL, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0) return -1;
    const char *why = cg_cachedir_distrust(c->folder, TOTAL);
    if (!why && cg_cachedir_lock(fd, LOCK_EX, c->busy ? IMPATIENT_MS : CG_CACHEDIR_WAIT_MS)) {
        c->busy = 0;
        return fd;
    }
    close(fd);
    errno = why ? EACCES : EBUSY;
    return -1;
}

static bool read_total(const struct cg_artifacts *c, int fd, uint64_t *bytes)
{
    struct total t;
    if (pread(fd, &t, sizeof t, 0) != sizeof t || t.check != check_of(&t) || t.boot != c->boot) return false;
    *bytes = t.bytes;
    return true;
}

static bool write_total(const struct cg_artifacts *c, int fd, uint64_t bytes)
{
    struct total t = {.boot = c->boot, .bytes = bytes};
    t.check = check_of(&t);
    return pwrite(fd, &t, sizeof t, 0) == sizeof t;
}

/* Bytes that are there after making room for `bytes` more. When all must be looked at anyway, an eighth of the limit is made
 * free. */
static int make_room(struct cg_artifacts *c, int fd, uint64_t bytes, uint64_t *total, bool *full)
{
    uint64_t removed = 0;
    if (read_total(c, fd, total) && *total <= c->limit - bytes) return 0;
    if (!scan(c)) return errno ? errno : EIO;
    *total = sum_found(c);
    if (*total <= c->limit - bytes) return 0;
    uint64_t slack = c->limit / 8, most = c->limit - bytes;
    const struct rule rule = {.most = most > slack ? most - slack : 0, .before = INT64_MIN, .spared = time(NULL) - SPARED_S};
    *total = evict(c, &rule, &removed);
    *full = *total > most;
    return *full ? ENOSPC : 0;
}

/* The total counts the entry before it is there: a kill in between leaves it too high, which the next look at all entries
 * mends, and never too low. */
static int place(struct cg_artifacts *c, int fd, int folder, const char *temporary, const struct cg_entry_name *n, uint64_t bytes,
                 bool *full)
{
    struct stat old;
    uint64_t total = 0;
    int error = make_room(c, fd, bytes, &total, full);
    if (*full) (void)write_total(c, fd, total);
    if (error) return error;
    uint64_t replaced = fstatat(folder, n->file, &old, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)old.st_size : 0;
    if (!write_total(c, fd, total + bytes)) return errno ? errno : EIO;
    YIR_CRASH_POINT("artifact.counted");
    if (renameat(folder, temporary, folder, n->file) != 0 &&
        (errno != EISDIR || !remove_named(folder, n->file) || renameat(folder, temporary, folder, n->file) != 0))
        return errno == ENOTEMPTY ? EISDIR : errno;
    YIR_CRASH_POINT("artifact.renamed");
    if (replaced && replaced <= total) (void)write_total(c, fd, total + bytes - replaced);
    return 0;
}

int cg_artifacts_settle(struct cg_artifacts *c, int folder, const char *temporary, const struct cg_entry_name *n, uint64_t bytes,
                        bool *full)
{
    int fd = lock_total(c);
    if (fd < 0) return errno;
    int error = place(c, fd, folder, temporary, n, bytes, full);
    close(fd);
    if (!error) (void)fsync(folder); /* some file systems can't; the entry is there anyway */
    return error;
}

uint64_t cg_artifacts_prune(struct cg_artifacts *c, double max_age_s, int64_t max_bytes)
{
    uint64_t removed = 0;
    if (!cg_artifacts_usable(c)) return 0;
    int fd = lock_total(c);
    if (fd < 0 && errno != ENOSPC && errno != EDQUOT) { /* without room for the total there is none to be kept right */
        cg_cachedir_report(c->dir, FOLDER ": %s", strerror(errno));
        return 0;
    }
    double cut = (double)time(NULL) - max_age_s;
    const struct rule rule = {.most = max_bytes < 0 ? c->limit : (uint64_t)max_bytes,
                              .before = max_age_s < 0 ? INT64_MIN : cut > 0 ? (int64_t)cut : 0,
                              .spared = INT64_MAX};
    (void)scan(c);
    drop_damaged(c, &removed);
    uint64_t left = evict(c, &rule, &removed);
    if (fd >= 0) {
        (void)write_total(c, fd, left);
        close(fd);
    }
    return removed;
}
