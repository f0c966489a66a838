#include "measuring.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 50 }; /* long, as those who wait take time from the one that measures */
#define LOCK_NAME "measuring.lock"

struct cg_measuring {
    int fd; /* -1: no turn */
};

static void close_lock(void *p)
{
    struct cg_measuring *m = p;
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}

void cg_measuring_end(struct cg_measuring *m)
{
    if (m) close_lock(m);
}

/* For others to look at; a hint only, as the number may be that of another name space of processes. */
static void write_name(int fd)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) (void)ftruncate(fd, 0);
}

/* Whether the process that the file names is stopped, by a signal or a debugger: /proc/PID/stat is "pid (name) state ...". */
static bool holder_stopped(int fd)
{
    char text[512] = "", path[48];
    if (pread(fd, text, 31, 0) <= 0) return false;
    long pid = strtol(text, NULL, 10);
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int stat = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (stat < 0) return false;
    ssize_t n = read(stat, text, sizeof text - 1);
    close(stat);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

bool cg_measuring_begin(struct cg_measuring **out, struct yir_arena *a, struct cg_cachedir *c, double most_s,
                        bool (*wait)(void *user), void *user)
{
    struct cg_measuring *m = yir_alloc(a, sizeof *m);
    *m = (struct cg_measuring){.fd = -1};
    *out = m;
    yir_arena_defer(a, close_lock, m);
    if (!cg_cachedir_usable(c) || !cg_cachedir_shared(c) || cg_cachedir_distrust(cg_cachedir_fd(c), LOCK_NAME)) return false;
    m->fd = openat(cg_cachedir_fd(c), LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (m->fd < 0) return false;
    int stopped_ms = 0;
    const struct timespec step = {.tv_nsec = STEP_MS * 1000000};
    for (double waited_s = 0; !cg_cachedir_lock(m->fd, LOCK_EX, 0); waited_s += STEP_MS * 1e-3) {
        stopped_ms = holder_stopped(m->fd) ? stopped_ms + STEP_MS : 0;
        if (waited_s >= most_s || stopped_ms >= CG_MEASURING_STOPPED_MS || (wait && !wait(user))) {
            close_lock(m);
            return false;
        }
        nanosleep(&step, NULL);
    }
    write_name(m->fd);
    return true;
}
