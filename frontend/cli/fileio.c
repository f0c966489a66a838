#include "fileio.h"

#include "check.h"
#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Grows by doubling; the size that stat reports is only a first guess, as pipes and growing files have none.
 */
static int read_all(int fd, size_t guess, size_t limit, uint8_t **bytes, size_t *size, const char *path,
                    struct cli_error *e)
{
    size_t cap = guess + 1, n = 0;
    uint8_t *p = malloc(cap);
    while (p) {
        ssize_t got = read(fd, p + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            free(p);
            return cli_fail(e, CLI_OPEN, "%s: %s", path, strerror(errno));
        }
        n += (size_t)got;
        if (got == 0) {
            *bytes = p;
            *size = n;
            return 0;
        }
        if (n > limit) {
            free(p);
            return cli_fail(e, CLI_LIMIT, "%s: larger than %zu bytes", path, limit);
        }
        if (n < cap)
            continue;
        uint8_t *more = realloc(p, cap * 2);
        if (!more)
            free(p);
        p = more;
        cap *= 2;
    }
    return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
}

/* A FIFO that nobody writes to is then an empty file; reading from one that somebody does write to waits. */
static int open_waitless(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

/* fd -1: errno says why. Closes it. */
static int read_open(int fd, const char *path, size_t limit, uint8_t **bytes, size_t *size, struct cli_error *e)
{
    if (fd < 0)
        return cli_fail(e, CLI_OPEN, "%s: %s", path, strerror(errno));
    struct stat st;
    int rc;
    if (fstat(fd, &st) != 0)
        rc = cli_fail(e, CLI_OPEN, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        rc = cli_fail(e, CLI_OPEN, "%s: is a folder", path);
    else if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !isatty(fd)))
        rc = cli_fail(e, CLI_OPEN, "%s: is a device", path);
    else if (st.st_size > 0 && (uint64_t)st.st_size > limit)
        rc = cli_fail(e, CLI_LIMIT, "%s: larger than %zu bytes", path, limit);
    else
        rc = read_all(fd, st.st_size > 0 ? (size_t)st.st_size : 4095, limit, bytes, size, path, e);
    close(fd);
    return rc;
}

int cli_file_read(const char *path, size_t limit, uint8_t **bytes, size_t *size, struct cli_error *e)
{
    return read_open(open_waitless(path), path, limit, bytes, size, e);
}

int cli_stdin_read(size_t limit, uint8_t **bytes, size_t *size, struct cli_error *e)
{
    return read_open(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), "stdin", limit, bytes, size, e);
}

#define READ_ALIGN 64u /* of sections in a module */
#define LARGE_FROM ((size_t)4 << 20)
#define LARGE_PAGE ((size_t)2 << 20)

/* The file may change while it is read: what is then in memory is what gets checked and used. */
/* For what is large: large pages, as for the runtime's own copy of a module (runtime/block.c). */
static uint8_t *alloc_aligned(size_t size)
{
    size_t align = size >= LARGE_FROM ? LARGE_PAGE : READ_ALIGN;
    uint8_t *p = aligned_alloc(align, (size / align + 1) * align);
    if (p && align == LARGE_PAGE)
        madvise(p, size / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
    return p;
}

int64_t cli_fd_read(int fd, void *to, size_t size)
{
    size_t n = 0;
    while (n < size) {
        ssize_t got = read(fd, (char *)to + n, size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (int64_t)n;
}

static int read_exactly(int fd, const struct stat *st, uint8_t **bytes, size_t *size, const char *path,
                        struct cli_error *e)
{
    size_t want = (size_t)st->st_size;
    uint8_t *p = alloc_aligned(want);
    if (!p)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
    int64_t n = cli_fd_read(fd, p, want);
    if (n != (int64_t)want) {
        const char *why = n < 0 ? strerror(errno) : "the file became shorter while it was read";
        free(p);
        return cli_fail(e, CLI_OPEN, "%s: %s", path, why);
    }
    *bytes = p;
    *size = want;
    return 0;
}

int cli_file_read_regular(const char *path, uint64_t limit, const char *raise, uint8_t **bytes, size_t *size,
                          struct cli_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return cli_fail(e, CLI_OPEN, "%s: %s", path, strerror(errno));
    struct stat st;
    int rc;
    if (fstat(fd, &st) != 0)
        rc = cli_fail(e, CLI_OPEN, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = cli_fail(e, CLI_OPEN, "%s: %s", path, S_ISDIR(st.st_mode) ? "is a folder" : "not a regular file");
    else if ((uint64_t)st.st_size > limit)
        rc = cli_fail(e, CLI_LIMIT, "%s: larger than %llu bytes (raise it with --limit %s=N)", path,
                      (unsigned long long)limit, raise);
    else
        rc = read_exactly(fd, &st, bytes, size, path, e);
    close(fd);
    return rc;
}

static int write_failed(struct cli_error *e, const char *path, int reason)
{
    return cli_fail(e, CLI_WRITE, "%s: %s", path, reason ? strerror(reason) : "write error");
}

static void release(struct cli_output *o)
{
    free(o->temporary);
    free(o->path);
    *o = (struct cli_output){0};
}

int cli_output_open(struct cli_output *o, const char *path, struct cli_error *e)
{
    struct stat st;
    *o = (struct cli_output){0};
    /* The rename would put a file in the place of a device. */
    int exists = stat(path, &st) == 0;
    if (!CLI_HOLDS(OUTPUT_REGULAR, !exists || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return cli_fail(e, CLI_WRITE, "%s: not a regular file", path);
    size_t n = strlen(path);
    o->path = strdup(path);
    o->temporary = malloc(n + sizeof ".XXXXXX");
    if (!o->path || !o->temporary) {
        release(o);
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
    }
    memcpy(o->temporary, path, n);
    memcpy(o->temporary + n, ".XXXXXX", sizeof ".XXXXXX");
    cli_interrupt_hold();
    int fd = mkostemp(o->temporary, O_CLOEXEC);
    if (fd < 0) {
        int reason = errno;
        o->temporary[0] = 0;
        cli_output_discard(o);
        return write_failed(e, path, reason);
    }
    o->stream = fdopen(fd, "wb");
    if (o->stream)
        return 0;
    close(fd);
    cli_output_discard(o);
    return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
}

void cli_output_discard(struct cli_output *o)
{
    if (o->stream)
        fclose(o->stream);
    if (o->temporary[0])
        unlink(o->temporary);
    release(o);
    cli_interrupt_release();
}

/* Not every file system can refuse to replace; a hard link does so on those that have links. */
static int rename_fresh(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    return link(from, to) == 0 ? unlink(from) : -1;
}

/* mkstemp makes files 0600; an output gets what a plain open would give it, unless it asks for less. */
static int publish(struct cli_output *o)
{
    int fd = fileno(o->stream);
    mode_t mask = umask(0);
    umask(mask);
    if (fflush(o->stream) != 0 || ferror(o->stream) || fchmod(fd, (o->mode ? o->mode : 0666) & ~mask) != 0)
        return -1;
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        return -1;
    int rc = fclose(o->stream);
    o->stream = NULL;
    if (rc != 0)
        return -1;
    return o->fresh ? rename_fresh(o->temporary, o->path) : rename(o->temporary, o->path);
}

int cli_output_commit(struct cli_output *o, struct cli_error *e)
{
    errno = 0;
    int rc = publish(o);
    if (rc == 0)
        o->temporary[0] = 0;
    else
        rc = write_failed(e, o->path, errno);
    cli_output_discard(o);
    return rc;
}

/* Why a write failed is known only here: the stream remembers no more than that one did. */
static int put_all(struct cli_output *o, const char *path, const void *bytes, size_t size, struct cli_error *e)
{
    if (size && fwrite(bytes, 1, size, o->stream) != size) {
        int reason = errno;
        cli_output_discard(o);
        return write_failed(e, path, reason);
    }
    return cli_output_commit(o, e);
}

int cli_file_write(const char *path, const void *bytes, size_t size, struct cli_error *e)
{
    struct cli_output o;
    if (cli_output_open(&o, path, e) != 0)
        return -1;
    return put_all(&o, path, bytes, size, e);
}

int cli_file_create(const char *path, const void *bytes, size_t size, mode_t mode, struct cli_error *e)
{
    struct cli_output o;
    if (cli_output_open(&o, path, e) != 0)
        return -1;
    o.mode = mode;
    o.fresh = 1;
    return put_all(&o, path, bytes, size, e);
}

void cli_file_remove(const char *path)
{
    unlink(path);
}

static int make_one(const char *path, struct cli_error *e)
{
    struct stat st;
    if (mkdir(path, 0777) == 0)
        return 0;
    int reason = errno;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return cli_fail(e, CLI_WRITE, "%s: %s", path, reason == EEXIST ? "is not a folder" : strerror(reason));
}

int cli_folder_make(const char *path, struct cli_error *e)
{
    char *part = strdup(path);
    if (!part)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
    int rc = 0;
    for (char *slash = part; rc == 0 && (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        rc = make_one(part, e);
        *slash = '/';
    }
    free(part);
    return rc == 0 ? make_one(path, e) : rc;
}

int cli_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cli_output_spares(const char *output, const char *input, struct cli_error *e)
{
    if (!input || !cli_same_file(output, input))
        return 0;
    return cli_fail(e, CLI_USAGE, "%s would be overwritten, but is read; give another name to the output", output);
}

static int check_folder(const char *path, struct cli_error *e)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
    if (!folder)
        return cli_fail(e, CLI_MEMORY, "%s: out of memory", path);
    int rc = access(folder, W_OK) == 0 ? 0 : write_failed(e, path, errno);
    free(folder);
    return rc;
}

int cli_output_check(const char *path, struct cli_error *e)
{
    struct stat st;
    int rc = 0, exists = stat(path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode))
        rc = cli_fail(e, CLI_WRITE, "%s: %s", path, S_ISDIR(st.st_mode) ? "is a folder" : "not a regular file");
    else if (!exists && errno != ENOENT)
        rc = write_failed(e, path, errno);
    else if (!exists)
        rc = check_folder(path, e);
    return rc;
}

char *cli_path_join(const char *folder, const char *stem, const char *suffix)
{
    char *out = NULL;
    if (asprintf(&out, "%s/%s%s", folder, stem, suffix) < 0)
        return NULL;
    return out;
}
