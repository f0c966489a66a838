#include "bulk.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* Bytes: from where on other threads help; what each reads at once. */
enum { LARGE = 16 << 20, PART = 2 << 20, MOST_HELPERS = 7 };

struct reading {
    int fd;
    char *to;
    size_t size;
    uint64_t at;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t one_more;
    size_t begun;         /* parts, in their order */
    unsigned char *there; /* by part: 1: all of it */
    size_t end;           /* where the file ended or an error came, else size */
    int error;            /* errno; 0: the file ended */
};

/* The count up to the file's end, or -1. */
static int64_t read_fully(int fd, char *to, size_t n, uint64_t at)
{
    size_t have = 0;
    while (have < n) {
        ssize_t k = pread(fd, to + have, n - have, (off_t)(at + have));
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        if (k == 0) break;
        have += (size_t)k;
    }
    return (int64_t)have;
}

static size_t part_size(const struct reading *r, size_t part)
{
    size_t left = r->size - part * PART;
    return left < PART ? left : PART;
}

/* The lock is held, and is not while it reads. 0: no part is left to be read. */
static int read_part(struct reading *r)
{
    size_t part = r->begun, from = part * PART;
    if (from >= r->end) return 0;
    r->begun++;
    pthread_mutex_unlock(&r->lock);
    int64_t n = read_fully(r->fd, r->to + from, part_size(r, part), r->at + from);
    int error = n < 0 ? errno : 0;
    size_t end = from + (n < 0 ? 0 : (size_t)n);
    pthread_mutex_lock(&r->lock);
    r->there[part] = n == (int64_t)part_size(r, part);
    if (!r->there[part] && end < r->end) {
        r->end = end;
        r->error = error;
    }
    pthread_cond_signal(&r->one_more); /* one thread alone waits */
    return 1;
}

static void *help(void *reading)
{
    struct reading *r = reading;
    pthread_mutex_lock(&r->lock);
    while (read_part(r)) continue;
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

/* Bytes of the part that are there: reads itself what nobody has begun. */
static size_t wait_for(struct reading *r, size_t part)
{
    size_t from = part * PART;
    pthread_mutex_lock(&r->lock);
    while (!r->there[part] && r->end > from && r->end - from >= part_size(r, part))
        if (!read_part(r)) pthread_cond_wait(&r->one_more, &r->lock);
    size_t n = r->there[part] ? part_size(r, part) : r->end > from ? r->end - from : 0;
    pthread_mutex_unlock(&r->lock);
    return n;
}

static int start(pthread_t helper[MOST_HELPERS], struct reading *r)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    sigset_t all, old;
    int n = 0;
    sigfillset(&all); /* signals are for the caller's threads */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    while (n < MOST_HELPERS && n + 1 < cpus && !pthread_create(&helper[n], NULL, help, r)) n++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return n;
}

static int64_t read_alone(int fd, void *to, size_t n, uint64_t at, void (*see)(void *user, const void *bytes, size_t n), void *user)
{
    int64_t have = read_fully(fd, to, n, at);
    if (see && have > 0) see(user, to, (size_t)have);
    return have;
}

int64_t yir_bulk_read(int fd, void *to, size_t n, uint64_t at, void (*see)(void *user, const void *bytes, size_t n), void *user)
{
    if (n < LARGE) return read_alone(fd, to, n, at, see, user);
    pthread_t helper[MOST_HELPERS];
    struct reading r = {.fd = fd, .to = to, .size = n, .at = at, .end = n, .lock = PTHREAD_MUTEX_INITIALIZER, .one_more = PTHREAD_COND_INITIALIZER};
    r.there = calloc(n / PART + 1, 1);
    if (!r.there) return YIR_BULK_NO_MEMORY;
    int helpers = start(helper, &r);
    for (size_t part = 0; part * PART < n; part++) {
        size_t have = wait_for(&r, part);
        if (see && have) see(user, r.to + part * PART, have);
        if (have < part_size(&r, part)) break;
    }
    while (helpers) pthread_join(helper[--helpers], NULL);
    pthread_cond_destroy(&r.one_more);
    pthread_mutex_destroy(&r.lock);
    free(r.there);
    errno = r.error;
    return r.error ? -1 : (int64_t)r.end;
}
