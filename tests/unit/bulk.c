#include "ir/bulk.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file without a name of n bytes that differ from place to place. */
static int make_file(size_t n)
{
    char path[160];
    const char *base = getenv("YOLOC_TEST_SCRATCH");
    snprintf(path, sizeof path, "%.100s/bulkXXXXXX", base ? base : ".");
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    unlink(path);
    unsigned char *bytes = malloc(n + 1);
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    cr_assert_eq(write(fd, bytes, n), (ssize_t)n);
    free(bytes);
    return fd;
}

struct seen {
    const char *next;
    size_t n;
};

static void see(void *user, const void *bytes, size_t n)
{
    struct seen *s = user;
    cr_assert_eq((const void *)s->next, bytes, "%zu bytes after %zu", n, s->n);
    s->next += n;
    s->n += n;
}

static void compare(const unsigned char *bytes, size_t n, size_t from)
{
    for (size_t i = 0; i < n; i++) cr_assert_eq(bytes[i], (unsigned char)((from + i) * 2654435761u >> 13), "byte %zu", i);
}

enum { PART = 2 << 20, LARGE = 16 << 20 };

Test(bulk, sizes)
{
    static const size_t sizes[] = {0, 1, PART - 1, PART, PART + 1, LARGE - 1, LARGE, LARGE + PART + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i], from = 77;
        int fd = make_file(from + n);
        unsigned char *to = malloc(n + 1);
        struct seen s = {(const char *)to, 0};
        to[n] = 0xa5;
        cr_assert_eq(yir_bulk_read(fd, to, n, from, see, &s), (int64_t)n);
        cr_assert_eq(s.n, n);
        cr_assert_eq(to[n], 0xa5);
        compare(to, n, from);
        memset(to, 0, n);
        cr_assert_eq(yir_bulk_read(fd, to, n, from, NULL, NULL), (int64_t)n);
        compare(to, n, from);
        free(to);
        close(fd);
    }
}

/* What is there is seen, and nothing behind the file's end. */
Test(bulk, file_ends_early)
{
    static const size_t there[] = {0, 5, PART, LARGE - 1, LARGE + 3};
    const size_t wanted = LARGE + 3 * (size_t)PART;
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        int fd = make_file(there[i]);
        unsigned char *to = malloc(wanted);
        struct seen s = {(const char *)to, 0};
        cr_assert_eq(yir_bulk_read(fd, to, wanted, 0, see, &s), (int64_t)there[i]);
        cr_assert_eq(s.n, there[i]);
        compare(to, there[i], 0);
        free(to);
        close(fd);
    }
}

Test(bulk, error_is_told)
{
    const size_t sizes[] = {10, LARGE + 10};
    for (size_t i = 0; i < 2; i++) {
        int fd = open("/dev/null", O_WRONLY);
        void *to = malloc(sizes[i]);
        errno = 0;
        cr_assert_eq(yir_bulk_read(fd, to, sizes[i], 0, NULL, NULL), -1);
        cr_assert_eq(errno, EBADF);
        free(to);
        close(fd);
    }
}
