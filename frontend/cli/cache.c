#include "cache.h"

#include "fileio.h"
#include "frontend/yoloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SUFFIX ".yoloc"

/* NULL, or why the folder may not be trusted. A link is refused as someone else may own its end. */
static const char *distrust(const char *folder)
{
    struct stat st;
    if (lstat(folder, &st) != 0)
        return strerror(errno);
    if (!S_ISDIR(st.st_mode))
        return "not a folder";
    if (st.st_uid != geteuid())
        return "belongs to another user";
    return st.st_mode & 077 ? "open to other users" : NULL;
}

static char *folder_above(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *out = NULL;
    if (xdg && xdg[0] == '/')
        return strdup(xdg);
    if (!home || home[0] != '/' || asprintf(&out, "%s/.cache", home) < 0)
        return NULL;
    return out;
}

/* The folder of the compiler's own caches; errno: why it could not be made, or 0. */
static char *make_folder(void)
{
    const char *own = getenv("YOLOC_CACHE_DIR");
    char *above = own && *own ? NULL : folder_above();
    char *folder = own && *own ? strdup(own) : above ? cli_path_join(above, "yoloc", "") : NULL;
    int why = above && mkdir(above, 0700) != 0 && errno != EEXIST ? errno : 0;
    if (folder && mkdir(folder, 0700) != 0 && !why)
        why = errno;
    free(above);
    errno = why;
    return folder;
}

void cli_cache_open(struct cli_cache *c)
{
    const char *state = getenv("YOLOC_CACHE");
    c->folder = NULL;
    if (state && strcmp(state, "off") == 0)
        return;
    if (state && *state && strcmp(state, "on") != 0) {
        cli_warn("the cache folder is not used: YOLOC_CACHE is neither on nor off");
        return;
    }
    c->folder = make_folder();
    int made = errno;
    if (!c->folder) {
        cli_warn("no cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path");
        return;
    }
    const char *why = access(c->folder, F_OK) != 0 && errno == ENOENT && made ? strerror(made) : distrust(c->folder);
    if (!why && access(c->folder, R_OK | W_OK | X_OK) != 0)
        why = strerror(errno);
    if (!why)
        return;
    cli_warn("the cache folder %s is not used: %s", c->folder, why);
    cli_cache_close(c);
}

void cli_cache_close(struct cli_cache *c)
{
    free(c->folder);
    c->folder = NULL;
}

void cli_cache_key(char key[64], const void *module, size_t size, int height, int width)
{
    struct {
        uint64_t module[2], size, seconds, nanoseconds;
        int64_t height, width, version;
    } all = {.height = height, .width = width, .version = yoloc_version()};
    struct stat self;
    XXH128_hash_t h = XXH3_128bits(module, size);
    all.module[0] = h.high64;
    all.module[1] = h.low64;
    if (stat("/proc/self/exe", &self) == 0) { /* builds of one version may still differ */
        all.size = (uint64_t)self.st_size;
        all.seconds = (uint64_t)self.st_mtim.tv_sec;
        all.nanoseconds = (uint64_t)self.st_mtim.tv_nsec;
    }
    h = XXH3_128bits(&all, sizeof all);
    snprintf(key, 64, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

/* The folder is ours and closed, so nobody else can change an entry between this look and its use. */
char *cli_cache_find(const struct cli_cache *c, const char *key)
{
    struct stat st;
    char *path = c->folder ? cli_path_join(c->folder, key, SUFFIX) : NULL;
    if (!path)
        return NULL;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022) {
        free(path);
        return NULL;
    }
    static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    utimensat(AT_FDCWD, path, now, AT_SYMLINK_NOFOLLOW);
    return path;
}

/* --- size --- */

struct entry {
    char *path;
    struct timespec used;
    long long size;
};

static int older(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

static struct entry *list_entries(const struct cli_cache *c, size_t *n)
{
    enum { MOST = 65536 };
    DIR *dir = opendir(c->folder);
    struct entry *all = NULL;
    *n = 0;
    for (struct dirent *d; dir && *n < MOST && (d = readdir(dir));) {
        struct stat st;
        size_t len = strlen(d->d_name), tail = strlen(SUFFIX);
        if (len <= tail || strcmp(d->d_name + len - tail, SUFFIX) != 0)
            continue;
        struct entry *more = realloc(all, (*n + 1) * sizeof *all);
        if (!more)
            break;
        all = more;
        all[*n].path = cli_path_join(c->folder, d->d_name, "");
        if (!all[*n].path)
            break;
        if (lstat(all[*n].path, &st) != 0 || !S_ISREG(st.st_mode)) {
            free(all[*n].path);
            continue;
        }
        all[*n].used = st.st_mtim;
        all[(*n)++].size = st.st_size;
    }
    if (dir)
        closedir(dir);
    return all;
}

/* What killed writers left: temporary names are an entry's with a dot and more behind. */
static void sweep(const struct cli_cache *c)
{
    enum { STALE = 3600 }; /* seconds; no write takes as long */
    DIR *dir = opendir(c->folder);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        if (strstr(d->d_name, SUFFIX ".") && fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode) && st.st_mtim.tv_sec < time(NULL) - STALE)
            unlinkat(dirfd(dir), d->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* A reader that has an entry open keeps its bytes, so removing is always safe. */
static void shrink(const struct cli_cache *c)
{
    size_t n;
    long long total = 0;
    struct entry *all = list_entries(c, &n);
    for (size_t i = 0; i < n; i++)
        total += all[i].size;
    if (n)
        qsort(all, n, sizeof *all, older);
    for (size_t i = 0; i < n; i++) {
        if (total > CLI_CACHE_LIMIT && unlink(all[i].path) == 0)
            total -= all[i].size;
        free(all[i].path);
    }
    free(all);
}

/* Closed to others whatever the umask is, as an entry that they could write to is not trusted. */
static int write_entry(const char *path, const void *bytes, size_t size, struct cli_error *e)
{
    struct cli_output o;
    if (cli_output_open(&o, path, e) != 0)
        return -1;
    o.mode = 0600;
    fwrite(bytes, 1, size, o.stream);
    return cli_output_commit(&o, e);
}

void cli_cache_put(const struct cli_cache *c, const char *key, const void *bytes, size_t size)
{
    struct cli_error e;
    char *path = c->folder ? cli_path_join(c->folder, key, SUFFIX) : NULL;
    if (path && (long long)size <= CLI_CACHE_LIMIT / 2) {
        if (write_entry(path, bytes, size, &e) != 0)
            cli_warn("the cache was not written: %s", e.text);
        sweep(c);
        shrink(c);
    }
    free(path);
}
