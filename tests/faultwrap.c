#include "faultwrap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fault armed;
static long seen;
static const char *last = "";

/* --- what is held --- */

enum { SLOTS = 1 << 20 };
static void *slot[SLOTS]; /* open addressing; GONE where one was taken out */
static char gone;
static long live;

static size_t slot_of(const void *p)
{
    return (size_t)((uintptr_t)p * 0x9e3779b97f4a7c15u >> 20) % SLOTS;
}

static void *keep(void *p)
{
    if (!p)
        return NULL;
    pthread_mutex_lock(&lock);
    size_t i = slot_of(p);
    while (slot[i] && slot[i] != &gone)
        i = (i + 1) % SLOTS;
    slot[i] = p;
    live++;
    pthread_mutex_unlock(&lock);
    return p;
}

/* What another library made is not in the table. */
static void drop(const void *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    size_t i = slot_of(p);
    while (slot[i] && slot[i] != p)
        i = (i + 1) % SLOTS;
    if (slot[i]) {
        slot[i] = slot[(i + 1) % SLOTS] ? &gone : NULL;
        live--;
    }
    pthread_mutex_unlock(&lock);
}

/* --- which call fails --- */

void fault_arm(const struct fault *f)
{
    pthread_mutex_lock(&lock);
    armed = *f;
    seen = 0;
    last = "";
    pthread_mutex_unlock(&lock);
}

long fault_disarm(void)
{
    pthread_mutex_lock(&lock);
    long n = seen;
    armed = (struct fault){0};
    pthread_mutex_unlock(&lock);
    return n;
}

const char *fault_last(void)
{
    return last;
}

long fault_live(void)
{
    return live;
}

int fault_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static int turn(enum fault_class of, const char *name)
{
    pthread_mutex_lock(&lock);
    int now = 0;
    if (armed.of == of) {
        seen++;
        now = armed.at > 0 && (seen == armed.at || (armed.onwards && seen > armed.at));
        if (now)
            last = name;
    }
    pthread_mutex_unlock(&lock);
    return now;
}

static int fails(enum fault_class of, const char *name)
{
    int now = turn(of, name) && !armed.cut;
    if (now)
        errno = armed.error;
    return now;
}

/* The calls as the linker names them. */
#define WRAPPED(result, name, ...) \
    result __real_##name(__VA_ARGS__); \
    result __wrap_##name(__VA_ARGS__); \
    result __wrap_##name(__VA_ARGS__)
#define FAILS(of, name) fails(FAULT_##of, #name)

/* --- memory --- */

WRAPPED(void *, malloc, size_t n)
{
    return FAILS(MEMORY, malloc) ? NULL : keep(__real_malloc(n));
}

void *fault_library_malloc(size_t n)
{
    return FAILS(LIBRARY, malloc) ? NULL : keep(__real_malloc(n));
}

WRAPPED(void *, calloc, size_t n, size_t size)
{
    return FAILS(MEMORY, calloc) ? NULL : keep(__real_calloc(n, size));
}

WRAPPED(void *, realloc, void *p, size_t n)
{
    if (FAILS(MEMORY, realloc))
        return NULL;
    drop(p);
    void *q = __real_realloc(p, n);
    keep(q ? q : p);
    return q;
}

WRAPPED(void *, aligned_alloc, size_t align, size_t n)
{
    return FAILS(MEMORY, aligned_alloc) ? NULL : keep(__real_aligned_alloc(align, n));
}

WRAPPED(void, free, void *p)
{
    drop(p);
    __real_free(p);
}

WRAPPED(char *, strdup, const char *s)
{
    return FAILS(MEMORY, strdup) ? NULL : keep(__real_strdup(s));
}

WRAPPED(char *, strndup, const char *s, size_t n)
{
    return FAILS(MEMORY, strndup) ? NULL : keep(__real_strndup(s, n));
}

int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **out, const char *format, ...)
{
    if (FAILS(MEMORY, asprintf))
        return -1;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(out, format, ap);
    va_end(ap);
    if (n >= 0)
        keep(*out);
    return n;
}

WRAPPED(char *, realpath, const char *path, char *out)
{
    return FAILS(MEMORY, realpath) ? NULL : out ? __real_realpath(path, out) : keep(__real_realpath(path, out));
}

WRAPPED(void *, mmap, void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (FAILS(MEMORY, mmap))
        return MAP_FAILED;
    void *p = __real_mmap(at, n, protection, flags, fd, offset);
    if (p != MAP_FAILED)
        keep(p);
    return p;
}

WRAPPED(int, munmap, void *p, size_t n)
{
    drop(p);
    return __real_munmap(p, n);
}

WRAPPED(int, mprotect, void *p, size_t n, int protection)
{
    return FAILS(MEMORY, mprotect) ? -1 : __real_mprotect(p, n, protection);
}

WRAPPED(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*body)(void *), void *arg)
{
    return FAILS(MEMORY, pthread_create) ? EAGAIN : __real_pthread_create(t, a, body, arg);
}

/* --- files --- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (FAILS(IO, open))
        return -1;
    va_list ap;
    va_start(ap, flags);
    int makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    mode_t mode = makes ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return __real_open(path, flags, mode);
}

static size_t cut(size_t n, int now)
{
    return now && armed.cut && n > 1 ? n / 2 : n;
}

WRAPPED(ssize_t, read, int fd, void *p, size_t n)
{
    int now = turn(FAULT_IO, "read");
    if (now && !armed.cut) {
        errno = armed.error;
        return -1;
    }
    return __real_read(fd, p, cut(n, now));
}

WRAPPED(ssize_t, pread, int fd, void *p, size_t n, off_t at)
{
    int now = turn(FAULT_IO, "pread");
    if (now && !armed.cut) {
        errno = armed.error;
        return -1;
    }
    return __real_pread(fd, p, cut(n, now), at);
}

WRAPPED(ssize_t, write, int fd, const void *p, size_t n)
{
    int now = turn(FAULT_IO, "write");
    if (now && !armed.cut) {
        errno = armed.error;
        return -1;
    }
    return __real_write(fd, p, cut(n, now));
}

WRAPPED(int, fsync, int fd)
{
    return FAILS(IO, fsync) ? -1 : __real_fsync(fd);
}

WRAPPED(int, rename, const char *from, const char *to)
{
    return FAILS(IO, rename) ? -1 : __real_rename(from, to);
}

WRAPPED(int, linkat, int a, const char *from, int b, const char *to, int flags)
{
    return FAILS(IO, linkat) ? -1 : __real_linkat(a, from, b, to, flags);
}

WRAPPED(int, fstat, int fd, struct stat *st)
{
    return FAILS(IO, fstat) ? -1 : __real_fstat(fd, st);
}

WRAPPED(int, stat, const char *path, struct stat *st)
{
    return FAILS(IO, stat) ? -1 : __real_stat(path, st);
}

WRAPPED(int, lstat, const char *path, struct stat *st)
{
    return FAILS(IO, lstat) ? -1 : __real_lstat(path, st);
}

WRAPPED(int, access, const char *path, int mode)
{
    return FAILS(IO, access) ? -1 : __real_access(path, mode);
}

WRAPPED(int, mkdir, const char *path, mode_t mode)
{
    return FAILS(IO, mkdir) ? -1 : __real_mkdir(path, mode);
}

WRAPPED(DIR *, opendir, const char *path)
{
    return FAILS(IO, opendir) ? NULL : __real_opendir(path);
}

WRAPPED(int, fchmod, int fd, mode_t mode)
{
    return FAILS(IO, fchmod) ? -1 : __real_fchmod(fd, mode);
}

WRAPPED(int, mkostemp, char *name, int flags)
{
    return FAILS(IO, mkostemp) ? -1 : __real_mkostemp(name, flags);
}

WRAPPED(FILE *, fopen, const char *path, const char *mode)
{
    return FAILS(IO, fopen) ? NULL : __real_fopen(path, mode);
}

WRAPPED(FILE *, fdopen, int fd, const char *mode)
{
    return FAILS(IO, fdopen) ? NULL : __real_fdopen(fd, mode);
}

WRAPPED(int, fflush, FILE *f)
{
    return FAILS(IO, fflush) ? EOF : __real_fflush(f);
}

/* The descriptor is gone in both cases, as POSIX has it. */
WRAPPED(int, fclose, FILE *f)
{
    int now = FAILS(IO, fclose), error = errno, rc = __real_fclose(f);
    if (now)
        errno = error;
    return now ? EOF : rc;
}
