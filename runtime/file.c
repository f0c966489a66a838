#include "file.h"

#include "cpucount.h"
#include "module.h"
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes: from where on several threads read; what each reads at once, a page of rt_block_new's; what a call is asked for. Threads, of
 * which one takes the digest. */
enum { LARGE = 16 << 20, PART = 2 << 20, CHUNK = 64 << 20, MOST_PARTS = YM_MAX_FILE / PART, MOST_THREADS = 4 };

/* Reads until `size` bytes from `at` on are there or the file ends; the count, or -1 with errno. */
static int64_t read_fully(int fd, uint8_t *to, size_t size, size_t at)
{
    size_t have = 0;
    while (have < size) {
        size_t want = size - have < CHUNK ? size - have : CHUNK;
        ssize_t n = pread(fd, to + have, want, (off_t)(at + have));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        have += (size_t)n;
    }
    return (int64_t)have;
}

/* --- a large file ------------------------------------------------------------------------------------------------ */

struct reading {
    int fd;
    const struct rt_block *to;
    struct rt_taken_digest *digest;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t one_more;
    size_t begun;                /* parts, in their order */
    uint8_t there[MOST_PARTS];   /* by part */
    int failed, error;           /* 1: a part could not be read, with its errno; 0: the file ended in it */
    int64_t shrunk;              /* then: where the file ended */
};

static size_t part_size(const struct reading *r, size_t part)
{
    size_t at = part * PART;
    return r->to->size - at < PART ? r->to->size - at : PART;
}

/* The lock is held, and is not while it reads. 0: all parts are begun, or one failed. */
static int read_part(struct reading *r)
{
    size_t part = r->begun, at = part * PART;
    if (r->failed || at >= r->to->size) return 0;
    r->begun++;
    pthread_mutex_unlock(&r->lock);
    int64_t n = read_fully(r->fd, r->to->data + at, part_size(r, part), at);
    int error = n < 0 ? errno : 0;
    pthread_mutex_lock(&r->lock);
    r->there[part] = n == (int64_t)part_size(r, part);
    if (!r->there[part] && !r->failed) {
        r->failed = 1;
        r->error = error;
        r->shrunk = (int64_t)at + n;
    }
    pthread_cond_broadcast(&r->one_more);
    return 1;
}

/* More of the beginning of the file: reads itself what nobody has begun. */
static size_t wait_for_more(void *user, size_t have)
{
    struct reading *r = user;
    size_t part = have / PART;
    pthread_mutex_lock(&r->lock);
    while (!r->there[part] && !r->failed)
        if (!read_part(r)) pthread_cond_wait(&r->one_more, &r->lock);
    size_t all = r->failed ? 0 : part * PART + part_size(r, part);
    pthread_mutex_unlock(&r->lock);
    return all;
}

/* Unit 0 is the digest. */
static void read_units(void *ctx, int worker, int64_t begin, int64_t end)
{
    struct reading *r = ctx;
    const struct rt_coming coming = {wait_for_more, r};
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        if (unit == 0) {
            r->digest->taken = !rt_digest(r->to->data, r->to->size, offsetof(struct ym_header, digest), &coming, r->digest->bytes);
            continue;
        }
        pthread_mutex_lock(&r->lock);
        while (read_part(r)) continue;
        pthread_mutex_unlock(&r->lock);
    }
}

/* As read_fully. */
static int64_t read_large(const struct rt_block *to, struct rt_taken_digest *digest, int fd)
{
    struct reading r = {.fd = fd, .to = to, .digest = digest, .lock = PTHREAD_MUTEX_INITIALIZER, .one_more = PTHREAD_COND_INITIALIZER};
    int cores = rt_cpu_count(), threads = cores < MOST_THREADS ? cores : MOST_THREADS;
    struct rt_pool *pool = threads > 1 ? rt_pool_new(threads, 0) : NULL;
    if (pool) rt_pool_run(pool, read_units, &r, threads, 1);
    else read_units(&r, 0, 0, 1);
    rt_pool_free(pool);
    pthread_cond_destroy(&r.one_more);
    pthread_mutex_destroy(&r.lock);
    errno = r.error;
    return !r.failed ? (int64_t)to->size : r.error ? -1 : r.shrunk;
}

/* --- files ------------------------------------------------------------------------------------------------------- */

static yolort_status read_body(struct rt_block *out, struct rt_taken_digest *digest, int fd, const struct rt_error *e)
{
    uint8_t extra;
    int large = out->size >= LARGE && out->size / PART < MOST_PARTS;
    int64_t n = large ? read_large(out, digest, fd) : read_fully(fd, out->data, out->size, 0);
    if (n < 0) return rt_fail(e, YOLORT_IO, "cannot read: %s", strerror(errno));
    RT_CHECK(e, IO, MOD_FILE_SHRANK, (size_t)n == out->size,
             "the file shrank to %" PRId64 " bytes while it was read", n);
    RT_CHECK(e, IO, MOD_FILE_GREW, read_fully(fd, &extra, 1, out->size) == 0, "the file grew while it was read");
    return YOLORT_OK;
}

static yolort_status read_fd(struct rt_block *out, struct rt_taken_digest *digest, int fd, uint64_t limit, const struct rt_error *e)
{
    struct stat st;
    if (fstat(fd, &st)) return rt_fail(e, YOLORT_IO, "cannot stat: %s", strerror(errno));
    RT_CHECK(e, FORMAT, MOD_FILE_REGULAR, S_ISREG(st.st_mode), "not a regular file");
    RT_CHECK(e, LIMIT, MOD_FILE_LIMIT, (uint64_t)st.st_size <= limit,
             "%" PRId64 " bytes; at most %" PRIu64 " are allowed", (int64_t)st.st_size, limit);
    if (rt_block_new(out, (uint64_t)st.st_size, 0))
        return rt_fail(e, YOLORT_OOM_HOST, "no memory for %" PRId64 " bytes", (int64_t)st.st_size);
    yolort_status s = read_body(out, digest, fd, e);
    if (s) rt_block_free(out);
    return s;
}

yolort_status rt_file_read(struct rt_block *out, struct rt_taken_digest *digest, const char *path, uint64_t limit,
                           const struct rt_error *e)
{
    memset(out, 0, sizeof *out);
    memset(digest, 0, sizeof *digest);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return rt_fail(e, YOLORT_IO, "cannot open: %s", strerror(errno));
    yolort_status s = read_fd(out, digest, fd, limit, e);
    close(fd);
    return s;
}
