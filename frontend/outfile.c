#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ir/crashpoint.h"

/* Gives the file up and reports why, in this order: memory may run out in the report, which then does not return.
 * err 0: why stands alone. */
static int fail(struct fe_outfile *o, struct yir_diags *d, const char *why, int err)
{
    struct yir_loc loc = o->loc;
    fe_outfile_abort(o);
    if (err == ENOMEM) return yir_diag(d, loc, E_MEMORY, "%s: %s", why, strerror(err));
    if (err) return yir_diag(d, loc, E_WRITE, "%s: %s", why, strerror(err));
    return yir_diag(d, loc, E_WRITE, "%s", why);
}

void fe_outfile_abort(struct fe_outfile *o)
{
    if (o->fd >= 0) {
        close(o->fd);
        if (!o->unnamed) unlink(o->temp);
    }
    free(o->path);
    free(o->temp);
    *o = (struct fe_outfile){.fd = -1};
}

/* Folder part of path with its slash ("" when there is none), malloc'ed. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strndup(path, slash ? (size_t)(slash + 1 - path) : 0);
}

/* A fresh name next to path; try makes each differ. NULL: no memory. */
static char *temp_name(const char *path, unsigned try)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash + 1 - path) : 0;
    struct timespec t;
    char *name;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int n = asprintf(&name, "%.*s.yoloc-%ld-%lx-%u.tmp", folder, path, (long)getpid(),
                     (unsigned long)t.tv_nsec, try);
    return n < 0 ? NULL : name;
}

/* An unnamed file where the file system has them, and where it can be given its name later. */
static int open_unnamed(const char *path)
{
    if (access("/proc/self/fd", X_OK) != 0) return -1;
    char *folder = folder_of(path);
    if (!folder) return -1;
    int fd = open(*folder ? folder : ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    free(folder);
    return fd;
}

static int open_named(struct fe_outfile *o)
{
    for (unsigned try = 0; try < 100; try++) {
        free(o->temp);
        o->temp = temp_name(o->path, try);
        if (!o->temp) return -1;
        int fd = open(o->temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

int fe_outfile_open(struct fe_outfile *o, struct yir_diags *d, const char *path)
{
    struct stat st;
    *o = (struct fe_outfile){.fd = -1, .loc.file = yir_diag_file(d, path, NULL, 0)};
    if (!*path) return fail(o, d, "the name of the output file is empty", 0);
    bool exists = stat(path, &st) == 0;
    if (!exists && errno != ENOENT) return fail(o, d, "cannot be written", errno);
    if (exists && S_ISDIR(st.st_mode)) return fail(o, d, "is a directory", 0);
    if (exists && !S_ISREG(st.st_mode)) return fail(o, d, "is not a regular file", 0);
    /* A link stays: the file that it names is replaced. */
    o->path = exists ? realpath(path, NULL) : strdup(path);
    if (!o->path) return fail(o, d, "cannot be written", errno);
    if (!exists && path[strlen(path) - 1] == '/') return fail(o, d, "is no name of a file", 0);
    o->fd = open_unnamed(o->path);
    o->unnamed = o->fd >= 0;
    if (o->fd < 0) o->fd = open_named(o);
    if (o->fd < 0) return fail(o, d, "cannot be written", errno);
    YIR_CRASH_POINT("file.made");
    return 0;
}

/* In parts, so that the disk is at work while the next one is copied; fsync then has less to wait for. */
int fe_outfile_write(struct fe_outfile *o, struct yir_diags *d, const void *bytes, size_t n)
{
    enum { PART = 8 << 20 };
    const char *p = bytes;
    YIR_ASSERT(o->fd >= 0);
    while (n > 0) {
        ssize_t k = write(o->fd, p, n < PART ? n : PART);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fail(o, d, "cannot be written", errno);
        (void)sync_file_range(o->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
        p += k;
        n -= (size_t)k;
        YIR_CRASH_POINT("file.written");
    }
    return 0;
}

/* Gives an unnamed file a name that rename can take it from. */
static int give_name(struct fe_outfile *o)
{
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", o->fd);
    for (unsigned try = 0; try < 100; try++) {
        free(o->temp);
        o->temp = temp_name(o->path, try);
        if (!o->temp) return -1;
        if (linkat(AT_FDCWD, self, AT_FDCWD, o->temp, AT_SYMLINK_FOLLOW) == 0) {
            o->unnamed = false;
            return 0;
        }
        if (errno != EEXIST) return -1;
    }
    return -1;
}

/* The rename is durable only once the folder is. Some file systems cannot sync a folder; the file stands
 * anyway. */
static void sync_folder(const char *path)
{
    char *folder = folder_of(path);
    if (!folder) return;
    int fd = open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
    YIR_CRASH_POINT("file.folder-synced");
}

static int settle(struct fe_outfile *o)
{
    if (fsync(o->fd) != 0) return -1;
    YIR_CRASH_POINT("file.synced");
    if (o->unnamed && give_name(o) != 0) return -1;
    YIR_CRASH_POINT("file.named");
    if (rename(o->temp, o->path) != 0) return -1;
    YIR_CRASH_POINT("file.renamed");
    return 0;
}

int fe_outfile_commit(struct fe_outfile *o, struct yir_diags *d)
{
    if (o->fd < 0) return -1;
    if (settle(o) != 0) return fail(o, d, "cannot be written", errno);
    close(o->fd);
    o->fd = -1;
    sync_folder(o->path);
    fe_outfile_abort(o);
    return 0;
}

int fe_outfile_put(struct yir_diags *d, const char *path, const void *bytes, size_t n)
{
    struct fe_outfile o;
    if (fe_outfile_open(&o, d, path) != 0) return -1;
    if (fe_outfile_write(&o, d, bytes, n) != 0) return -1;
    return fe_outfile_commit(&o, d);
}
