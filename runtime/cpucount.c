#include "cpucount.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_GROUPS = 4096, MAX_PATH = 1024 }; /* bytes read of /proc/self/cgroup; of a path */

static int affinity_count(void)
{
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t has bits */
    return n > 1 ? (int)n : 1;
}

/* At most size-1 bytes and a NUL; "" when there is nothing to read. */
static void read_text(char *to, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t n = fd < 0 ? 0 : read(fd, to, size - 1);
    if (fd >= 0) close(fd);
    to[n > 0 ? n : 0] = 0;
}

int rt_cpu_quota(const char *text)
{
    int64_t quota, period;
    if (sscanf(text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2 || quota <= 0 || period <= 0) return 0;
    int64_t n = quota / period + (quota % period != 0);
    return n < INT_MAX ? (int)n : 0;
}

/* The two files of version 1 read as one line of cpu.max; quota -1: no limit. */
static int group_quota(const char *group, int version)
{
    char path[MAX_PATH + 64], text[64], period[32];
    snprintf(path, sizeof path, "%s/%s", group, version == 2 ? "cpu.max" : "cpu.cfs_quota_us");
    read_text(text, sizeof text / 2, path);
    if (version == 2) return rt_cpu_quota(text);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group);
    read_text(period, sizeof period, path);
    text[strcspn(text, "\n")] = 0;
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, " %s", period);
    return rt_cpu_quota(text);
}

/* The least of the group and those above it, up to the root of the mount; 0: no limit. */
static int least_quota(const char *mount, const char *group, int version)
{
    char path[MAX_PATH];
    int least = 0, n = snprintf(path, sizeof path, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof path) return 0;
    for (;;) {
        int quota = group_quota(path, version);
        if (quota && (!least || quota < least)) least = quota;
        char *slash = strrchr(path, '/');
        if (!slash || slash < path + strlen(mount)) return least;
        *slash = 0;
    }
}

static int has_name(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (!strncmp(at, name, n) && (at[n] == ',' || !at[n])) return 1;
    return 0;
}

/* A line of /proc/self/cgroup: number:controllers:group, without controllers in version 2. */
static int line_quota(char *line)
{
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return 0;
    *group++ = 0;
    if (!*++controllers) return least_quota("/sys/fs/cgroup", group, 2);
    return has_name(controllers, "cpu") ? least_quota("/sys/fs/cgroup/cpu", group, 1) : 0;
}

int rt_cpu_count(void)
{
    char groups[MAX_GROUPS], *save = NULL;
    int n = affinity_count();
    read_text(groups, sizeof groups, "/proc/self/cgroup");
    for (char *line = strtok_r(groups, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int quota = line_quota(line);
        if (quota && quota < n) n = quota;
    }
    return n;
}
