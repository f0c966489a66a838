#include "sources.h"

#include "fileio.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Takes `path` over, also on failure. */
static int append(struct cli_sources *s, char *path, struct cli_error *e)
{
    if (s->n == CLI_MAX_SOURCES) {
        free(path);
        return cli_fail(e, CLI_LIMIT, "more than %d pictures", CLI_MAX_SOURCES);
    }
    if (path && s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        struct cli_source *at = realloc(s->at, cap * sizeof *at);
        if (at) {
            s->at = at;
            s->cap = cap;
        }
    }
    if (!path || s->n == s->cap) {
        free(path);
        return cli_fail(e, CLI_MEMORY, "out of memory");
    }
    s->at[s->n++] = (struct cli_source){path, NULL};
    return 0;
}

static int is_picture(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t len = strlen(endings[i]);
        if (n > len && strcasecmp(name + n - len, endings[i]) == 0)
            return 1;
    }
    return 0;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct cli_source *)a)->path, ((const struct cli_source *)b)->path);
}

/* What cannot be looked at counts: the failure is told when it is read. A link to nothing is left out. */
static int is_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno != ENOENT;
    return !S_ISDIR(st.st_mode);
}

static int expand_folder(struct cli_sources *s, const char *folder, struct cli_error *e)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return cli_fail(e, CLI_OPEN, "%s: %s", folder, strerror(errno));
    size_t first = s->n, n = strlen(folder);
    int rc = 0;
    const char *between = n && folder[n - 1] == '/' ? "" : "/";
    errno = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir)); errno = 0) {
        char *path = NULL;
        if (entry->d_name[0] == '.' || !is_picture(entry->d_name))
            continue;
        if (asprintf(&path, "%s%s%s", folder, between, entry->d_name) < 0)
            path = NULL;
        if (path && !is_file(path))
            free(path);
        else
            rc = append(s, path, e);
    }
    if (rc == 0 && errno != 0)
        rc = cli_fail(e, CLI_OPEN, "%s: %s", folder, strerror(errno));
    closedir(dir);
    if (rc == 0 && s->n == first)
        rc = cli_fail(e, CLI_OPEN, "%s: the folder holds no *.jpg, *.jpeg or *.png", folder);
    if (rc == 0)
        qsort(s->at + first, s->n - first, sizeof *s->at, by_path);
    return rc;
}

static int by_stem(const void *a, const void *b)
{
    const struct cli_source *x = *(struct cli_source *const *)a, *y = *(struct cli_source *const *)b;
    int order = strcmp(x->stem, y->stem);
    return order ? order : (x > y) - (x < y);
}

static int stem_is_taken(struct cli_source *const *sorted, size_t n, const char *stem)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(sorted[mid]->stem, stem);
        if (order == 0)
            return 1;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

/* Numbers the second and later of equal stems. The new names are put in place only at the end, so that the
 * search sees the sorted originals. Two new names never meet, as one stem gets each number once. */
static int number_stems(struct cli_source **sorted, char **renamed, size_t n)
{
    for (size_t i = 1, k = 2; i < n; i++) {
        if (strcmp(sorted[i]->stem, sorted[i - 1]->stem) != 0) {
            k = 2;
            continue;
        }
        do {
            free(renamed[i]);
            if (asprintf(&renamed[i], "%s-%zu", sorted[i]->stem, k++) < 0) {
                renamed[i] = NULL;
                return -1;
            }
        } while (stem_is_taken(sorted, n, renamed[i]));
    }
    for (size_t i = 0; i < n; i++) {
        if (!renamed[i])
            continue;
        free(sorted[i]->stem);
        sorted[i]->stem = renamed[i];
        renamed[i] = NULL;
    }
    return 0;
}

static int make_stems(struct cli_sources *s, struct cli_error *e)
{
    struct cli_source **sorted = calloc(s->n, sizeof *sorted);
    char **renamed = calloc(s->n, sizeof *renamed);
    int ok = sorted && renamed;
    for (size_t i = 0; ok && i < s->n; i++) {
        const char *file = file_of(s->at[i].path), *dot = strrchr(file, '.');
        s->at[i].stem = strndup(file, dot && dot != file ? (size_t)(dot - file) : strlen(file));
        sorted[i] = &s->at[i];
        ok = s->at[i].stem != NULL;
    }
    if (ok) {
        qsort(sorted, s->n, sizeof *sorted, by_stem);
        ok = number_stems(sorted, renamed, s->n) == 0;
    }
    for (size_t i = 0; renamed && i < s->n; i++)
        free(renamed[i]);
    free(renamed);
    free(sorted);
    return ok ? 0 : cli_fail(e, CLI_MEMORY, "out of memory");
}

int cli_sources_expand(struct cli_sources *out, const char *const *args, size_t n, struct cli_error *e)
{
    *out = (struct cli_sources){0};
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct stat st;
        if (stat(args[i], &st) != 0)
            rc = cli_fail(e, CLI_OPEN, "%s: %s", args[i], strerror(errno));
        else if (S_ISDIR(st.st_mode))
            rc = expand_folder(out, args[i], e);
        else
            rc = append(out, strdup(args[i]), e);
    }
    if (rc == 0 && out->n)
        rc = make_stems(out, e);
    if (rc != 0)
        cli_sources_free(out);
    return rc;
}

void cli_sources_free(struct cli_sources *s)
{
    for (size_t i = 0; i < s->n; i++) {
        free(s->at[i].path);
        free(s->at[i].stem);
    }
    free(s->at);
    *s = (struct cli_sources){0};
}
