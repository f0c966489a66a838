#include "leftover.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* tuning.sqlite.corrupt-N, and what SQLite kept beside it. */
static bool is_copy(const char *name)
{
    static const char start[] = "tuning.sqlite.corrupt-";
    return strncmp(name, start, sizeof start - 1) == 0;
}

static bool is_module(const char *name)
{
    size_t key = strspn(name, "0123456789abcdef");
    return key == 32 && strcmp(name + key, ".yoloc") == 0;
}

static bool goes(int folder, const char *name, double before, bool all)
{
    struct stat st;
    if (!is_copy(name) && !is_module(name)) return false;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) return false;
    return all || is_copy(name) || (double)st.st_mtim.tv_sec < before;
}

uint64_t cg_leftovers_prune(struct cg_cachedir *c, double max_age_s, bool all)
{
    uint64_t removed = 0;
    if (!cg_cachedir_usable(c)) return 0;
    double before = max_age_s < 0 ? -1 : (double)time(NULL) - max_age_s;
    int fd = openat(cg_cachedir_fd(c), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0) close(fd);
        return 0;
    }
    for (const struct dirent *d; (d = readdir(dir));)
        if (goes(fd, d->d_name, before, all)) removed += unlinkat(fd, d->d_name, 0) == 0;
    closedir(dir);
    return removed;
}
