#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 64 << 20 }; /* bytes a read() is asked for */

/* Reads until `size` bytes are there or the file ends; the count, or -1 with errno. */
static int64_t read_fully(int fd, uint8_t *to, size_t size)
{
    size_t have = 0;
    while (have < size) {
        size_t want = size - have < CHUNK ? size - have : CHUNK;
        ssize_t n = read(fd, to + have, want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        have += (size_t)n;
    }
    return (int64_t)have;
}

static yolort_status read_body(struct rt_block *out, int fd, const struct rt_error *e)
{
    uint8_t extra;
    int64_t n = read_fully(fd, out->data, out->size);
    if (n < 0) return rt_fail(e, YOLORT_IO, "cannot read: %s", strerror(errno));
    RT_CHECK(e, IO, MOD_FILE_SHRANK, (size_t)n == out->size,
             "the file shrank to %" PRId64 " bytes while it was read", n);
    RT_CHECK(e, IO, MOD_FILE_GREW, read_fully(fd, &extra, 1) == 0, "the file grew while it was read");
    return YOLORT_OK;
}

static yolort_status read_fd(struct rt_block *out, int fd, uint64_t limit, const struct rt_error *e)
{
    struct stat st;
    if (fstat(fd, &st)) return rt_fail(e, YOLORT_IO, "cannot stat: %s", strerror(errno));
    RT_CHECK(e, FORMAT, MOD_FILE_REGULAR, S_ISREG(st.st_mode), "not a regular file");
    RT_CHECK(e, LIMIT, MOD_FILE_LIMIT, (uint64_t)st.st_size <= limit,
             "%" PRId64 " bytes; at most %" PRIu64 " are allowed", (int64_t)st.st_size, limit);
    if (rt_block_new(out, (uint64_t)st.st_size, 0))
        return rt_fail(e, YOLORT_OOM_HOST, "no memory for %" PRId64 " bytes", (int64_t)st.st_size);
    yolort_status s = read_body(out, fd, e);
    if (s) rt_block_free(out);
    return s;
}

yolort_status rt_file_read(struct rt_block *out, const char *path, uint64_t limit, const struct rt_error *e)
{
    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return rt_fail(e, YOLORT_IO, "cannot open: %s", strerror(errno));
    yolort_status s = read_fd(out, fd, limit, e);
    close(fd);
    return s;
}
