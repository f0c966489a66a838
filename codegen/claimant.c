#include "claimant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { LONGEST_MS = 600 * 1000 }; /* no kernel is measured for ten minutes */

/* At most size - 1 bytes, NUL-terminated; false when there is no such file. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return false;
    ssize_t n;
    do n = read(fd, text, size - 1);
    while (n < 0 && errno == EINTR);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void cg_boot_id(char id[40])
{
    if (!read_text("/proc/sys/kernel/random/boot_id", id, 40)) id[0] = 0;
    id[strcspn(id, "\n")] = 0;
}

/* proc(5): the name in parentheses may hold anything, so fields are counted from its end. */
static bool read_process(int64_t pid, char *state, int64_t *started)
{
    enum { STATE = 3, STARTED = 22 };
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (!read_text(path, text, sizeof text)) return false;
    const char *at = strrchr(text, ')');
    if (!at || at[1] != ' ') return false;
    at += 2;
    *state = *at;
    for (int field = STATE; field < STARTED; field++) {
        at = strchr(at, ' ');
        if (!at++) return false;
    }
    *started = strtoll(at, NULL, 10);
    return true;
}

struct cg_claimant cg_claimant_self(void)
{
    struct cg_claimant c = {.pid = getpid(), .since_ms = now_ms()};
    char id[40], state;
    struct stat ns;
    cg_boot_id(id);
    if (stat("/proc/self/ns/pid", &ns) != 0) ns.st_ino = 0;
    snprintf(c.boot, sizeof c.boot, "%s:%ju", id, (uintmax_t)ns.st_ino);
    if (!read_process(c.pid, &state, &c.started)) c.started = 0;
    if (getrandom(&c.token, sizeof c.token, GRND_NONBLOCK) != sizeof c.token)
        c.token = c.since_ms ^ (int64_t)(uintptr_t)&c ^ c.pid << 40;
    return c;
}

static bool same_boot(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");
    return n == strcspn(b, ":") && memcmp(a, b, n) == 0;
}

bool cg_claimant_alive(const struct cg_claimant *c, const struct cg_claimant *self)
{
    char state;
    int64_t started, now = now_ms();
    if (CG_BREAKS(CLAIM_BOOT, !same_boot(c->boot, self->boot))) return false;
    if (CG_BREAKS(CLAIM_AGE, c->since_ms < now - LONGEST_MS || c->since_ms > now)) return false;
    if (strcmp(c->boot, self->boot) != 0) return true; /* another name space: its numbers say nothing here */
    if (!self->started) return kill((pid_t)c->pid, 0) == 0 || errno == EPERM;
    if (!read_process(c->pid, &state, &started)) return false;
    if (CG_BREAKS(CLAIM_ENDED, state == 'Z' || state == 'X')) return false;
    return CG_HOLDS(CLAIM_STARTED, started == c->started);
}
