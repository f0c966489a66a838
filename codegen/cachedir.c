#include "cachedir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "check.h"

struct cg_cachedir {
    struct yir_diags *diags;
    const char *path;
    int fd; /* -1: not open */
    pid_t process;
    bool shared, required, told;
};

/* --- the path ------------------------------------------------------------------------------------------------- */

static const char *environment(const char *name)
{
    const char *v = secure_getenv(name);
    return v && *v ? v : NULL;
}

/* NULL: nothing names a folder. Slashes at the end would make open() follow a link there. */
static char *choose_path(struct yir_arena *a, const char *given)
{
    const char *own = given ? given : environment("YOLOC_CACHE_DIR");
    const char *xdg = environment("XDG_CACHE_HOME"), *home = environment("HOME");
    char *path = own                        ? yir_strdup(a, own)
                 : xdg && xdg[0] == '/'     ? yir_format(a, "%s/yoloc", xdg)
                 : home && home[0] == '/'   ? yir_format(a, "%s/.cache/yoloc", home)
                                            : NULL;
    size_t n = path ? strlen(path) : 0;
    while (n > 1 && path[n - 1] == '/') path[--n] = 0;
    return n ? path : NULL;
}

/* The folder and the one above it, which is all that may be missing. 0, or why it could not be made. */
static int make_folder(struct yir_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (mkdir(path, 0700) == 0) return 0;
    if (errno != ENOENT || !slash || slash == path) return errno;
    char *above = yir_strndup(a, path, (size_t)(slash - path));
    if (mkdir(above, 0700) != 0) return errno == EEXIST ? ENOENT : errno;
    return mkdir(path, 0700) == 0 ? 0 : errno;
}

/* --- trust ---------------------------------------------------------------------------------------------------- */

/* File systems on which a lock or a mapping of one machine may mean nothing to another: linux/magic.h and the file
 * systems' own sources. */
static const unsigned long unshared[] = {
    0x6969,     /* NFS */
    0x65735546, /* FUSE, virtiofs */
    0x517b,     /* SMB */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB2 */
    0x01021997, /* 9P */
    0x5346414f, /* AFS */
    0x00c36400, /* Ceph */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS */
};

static bool is_shared(int fd, unsigned long type)
{
    struct statfs fs;
    if (!type) type = fstatfs(fd, &fs) == 0 ? (unsigned long)fs.f_type & 0xffffffffu : 0;
    for (size_t i = 0; i < YIR_COUNT(unshared); i++)
        if (type == unshared[i]) return false;
    return true;
}

const char *cg_cachedir_distrust_folder(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return strerror(errno);
    if (CG_BREAKS(CACHE_FOLDER_OWNER, st.st_uid != geteuid())) return "it belongs to another user";
    if (CG_BREAKS(CACHE_FOLDER_MODE, st.st_mode & 022)) return "it may be written by others";
    return faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) != 0 ? strerror(errno) : NULL;
}

const char *cg_cachedir_distrust(int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? NULL : strerror(errno);
    if (CG_BREAKS(CACHE_FILE_LINK, S_ISLNK(st.st_mode))) return "it is a link";
    if (CG_BREAKS(CACHE_FILE_REGULAR, !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))) return "it is not a regular file";
    if (CG_BREAKS(CACHE_FILE_OWNER, st.st_uid != geteuid())) return "it belongs to another user";
    if (CG_BREAKS(CACHE_FILE_NAMES, st.st_nlink > 1)) return "it has a second name";
    if (CG_BREAKS(CACHE_FILE_MODE, S_ISREG(st.st_mode) && st.st_mode & 022)) return "it may be written by others";
    return NULL;
}

/* --- the handle ----------------------------------------------------------------------------------------------- */

void cg_cachedir_report(struct cg_cachedir *c, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    if (c->told) return;
    c->told = true;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    yir_diag(c->diags, (struct yir_loc){0}, c->required ? E_CACHE : W_CACHE, "the cache folder %.200s%sis not used: %s",
             c->path ? c->path : "", c->path ? " " : "", text);
}

static void close_folder(void *p)
{
    struct cg_cachedir *c = p;
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
}

/* SQLite opens by name, so the name must lead to the folder that was looked at. */
static const char *real_path(struct cg_cachedir *c, struct yir_arena *a, const char *path)
{
    char real[PATH_MAX];
    struct stat named, open;
    if (!realpath(path, real) || stat(real, &named) != 0 || fstat(c->fd, &open) != 0) return strerror(errno);
    if (named.st_dev != open.st_dev || named.st_ino != open.st_ino) return "it was replaced just now";
    c->path = yir_strdup(a, real);
    return NULL;
}

static const char *open_folder(struct cg_cachedir *c, struct yir_arena *a, const char *path)
{
    int made = make_folder(a, path);
    c->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c->fd < 0 && errno == ENOENT && made) return strerror(made);
    if (c->fd < 0) return errno == ELOOP || errno == ENOTDIR ? "it is a link, or no folder" : strerror(errno);
    const char *why = cg_cachedir_distrust_folder(c->fd);
    return why ? why : real_path(c, a, path);
}

struct cg_cachedir *cg_cachedir_open(struct yir_arena *a, struct yir_diags *d, const struct cg_cachedir_opts *o)
{
    static const struct cg_cachedir_opts none = {0};
    const char *state = environment("YOLOC_CACHE"), *why = NULL;
    if (!o) o = &none;
    if (!o->required && state && strcmp(state, "off") == 0) return NULL;
    struct cg_cachedir *c = yir_alloc(a, sizeof *c);
    *c = (struct cg_cachedir){.diags = d, .fd = -1, .process = getpid(), .required = o->required};
    yir_arena_defer(a, close_folder, c);
    c->path = choose_path(a, o->path);
    if (!o->required && state && strcmp(state, "on") != 0) why = "YOLOC_CACHE is neither on nor off";
    else why = c->path ? open_folder(c, a, c->path) : "neither XDG_CACHE_HOME nor HOME is an absolute path";
    if (why) {
        cg_cachedir_report(c, "%s", why);
        return NULL;
    }
    c->shared = is_shared(c->fd, o->filesystem);
    return c;
}

const char *cg_cachedir_path(const struct cg_cachedir *c)
{
    return c->path;
}

int cg_cachedir_fd(const struct cg_cachedir *c)
{
    return c->fd;
}

bool cg_cachedir_shared(const struct cg_cachedir *c)
{
    return c->shared;
}

bool cg_cachedir_usable(const struct cg_cachedir *c)
{
    return c && c->process == getpid();
}

/* flock() has no time limit of its own. The steps are small and equal, so that who has waited long has as good a chance as
 * who comes just now. */
bool cg_cachedir_lock(int fd, int how, int most_ms)
{
    const struct timespec step = {.tv_nsec = 1000000};
    for (int waited = 0; flock(fd, how | LOCK_NB) != 0; waited++) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || waited >= most_ms) return false;
        nanosleep(&step, NULL);
    }
    return true;
}

/* --- keys ----------------------------------------------------------------------------------------------------- */

void cg_key_put(struct yir_str *key, const char *name, const void *bytes, size_t n)
{
    YIR_ASSERT(!strpbrk(name, ":\n"));
    yir_str_fmt(key, "%s:%zu:", name, n);
    yir_str_put(key, bytes, n);
    yir_str_put(key, "\n", 1);
}

void cg_key_text(struct yir_str *key, const char *name, const char *text)
{
    cg_key_put(key, name, text, strlen(text));
}

struct cg_digest cg_digest(const void *bytes, size_t n)
{
    XXH128_canonical_t c;
    struct cg_digest d;
    XXH128_canonicalFromHash(&c, XXH3_128bits(bytes, n));
    memcpy(d.byte, c.digest, sizeof d.byte);
    return d;
}

void cg_digest_hex(const struct cg_digest *d, char hex[33])
{
    for (size_t i = 0; i < sizeof d->byte; i++) snprintf(hex + 2 * i, 3, "%02x", d->byte[i]);
}
