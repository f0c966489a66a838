#include "artifact.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "artifact_dir.h"
#include "check.h"
#include "ir/crashpoint.h"
#include "ir/bulk.h"
#include "ir/large.h"

/* Head of a file: magic 8, version 4, zero 4, kind 16, length of the key 8, length of the payload 8, digest 16; then key and
 * payload. Numbers are little-endian. The digest covers all of it, itself taken as zeros. */
enum { AT_VERSION = 8, AT_KIND = 16, AT_KEY = 32, AT_PAYLOAD = 40, AT_DIGEST = 48, HEAD = 64, VERSION = 1, KIND = 16 };
static const char magic[8] = {'Y', 'O', 'L', 'O', 'C', 'A', 'R', 'T'};
#define KEY_MOST ((size_t)64 << 20)

/* --- the form of an entry ------------------------------------------------------------------------------------------- */

static void put_number(uint8_t *at, uint64_t v, int n)
{
    for (int i = 0; i < n; i++) at[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_number(const uint8_t *at, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)at[i] << 8 * i;
    return v;
}

static void make_head(uint8_t head[HEAD], const struct cg_artifact_key *k, size_t size)
{
    memset(head, 0, HEAD);
    memcpy(head, magic, sizeof magic);
    put_number(head + AT_VERSION, VERSION, 4);
    memcpy(head + AT_KIND, k->kind, strlen(k->kind));
    put_number(head + AT_KEY, k->len, 8);
    put_number(head + AT_PAYLOAD, size, 8);
}

static void end_digest(const XXH3_state_t *h, uint8_t out[16])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(h));
    memcpy(out, c.digest, sizeof c.digest);
}

static void name_entry(struct cg_entry_name *n, const struct cg_artifact_key *k)
{
    XXH3_state_t h;
    uint8_t kind[KIND] = {0};
    struct cg_digest d;
    memcpy(kind, k->kind, strlen(k->kind));
    XXH3_128bits_reset(&h);
    XXH3_128bits_update(&h, kind, sizeof kind);
    XXH3_128bits_update(&h, k->bytes, k->len);
    end_digest(&h, d.byte);
    cg_digest_hex(&d, n->file);
    memcpy(n->folder, n->file, 2);
    n->folder[2] = 0;
}

static bool key_fits(const struct cg_artifact_key *k)
{
    YIR_ASSERT(k->kind && k->kind[0] && strlen(k->kind) < KIND);
    return k->len <= KEY_MOST;
}

/* --- reading ------------------------------------------------------------------------------------------------------- */

enum found { MISS, DAMAGED, OTHER, HIT };

/* HIT: all n bytes. DAMAGED: the file is shorter. MISS: it could not be read, which says nothing about it. */
static enum found read_whole(int fd, void *to, size_t n)
{
    for (char *p = to; n > 0;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return k < 0 ? MISS : DAMAGED;
        p += k;
        n -= (size_t)k;
    }
    return HIT;
}

struct reading {
    int fd;
    uint64_t file, payload; /* sizes */
    const struct cg_artifact_key *key;
    uint8_t digest[16]; /* that the file names */
    XXH3_state_t hash;
    void *bytes; /* malloc'ed */
};

static enum found read_head(struct reading *r)
{
    uint8_t head[HEAD], wanted[HEAD];
    uint64_t rest;
    enum found f = read_whole(r->fd, head, HEAD);
    if (f != HIT) return f;
    uint64_t key = get_number(head + AT_KEY, 8);
    r->payload = get_number(head + AT_PAYLOAD, 8);
    memcpy(r->digest, head + AT_DIGEST, sizeof r->digest);
    memset(head + AT_DIGEST, 0, sizeof r->digest);
    if (CG_BREAKS(ARTIFACT_HEAD, memcmp(head, magic, sizeof magic) != 0 || get_number(head + AT_VERSION, 8) != VERSION))
        return DAMAGED;
    bool exact = yir_add_u64(key, r->payload, &rest) && rest == r->file - HEAD;
    if (CG_BREAKS(ARTIFACT_LENGTH, !exact) || r->payload > SIZE_MAX - 1) return DAMAGED;
    XXH3_128bits_reset(&r->hash);
    XXH3_128bits_update(&r->hash, head, HEAD);
    make_head(wanted, r->key, (size_t)r->payload);
    return CG_HOLDS(ARTIFACT_KEY, memcmp(head, wanted, HEAD) == 0) ? HIT : OTHER;
}

static enum found read_key(struct reading *r)
{
    char part[4096];
    const char *key = r->key->bytes;
    bool same = true;
    for (size_t at = 0, n; at < r->key->len; at += n) {
        n = r->key->len - at < sizeof part ? r->key->len - at : sizeof part;
        enum found f = read_whole(r->fd, part, n);
        if (f != HIT) return f;
        same &= memcmp(part, key + at, n) == 0;
        XXH3_128bits_update(&r->hash, part, n);
    }
    return CG_HOLDS(ARTIFACT_KEY, same) ? HIT : OTHER;
}

static void add_to_digest(void *hash, const void *bytes, size_t n)
{
    XXH3_128bits_update(hash, bytes, n);
}

/* The file is as large as it said, so memory for the payload is bounded by it. */
static enum found read_payload(struct reading *r)
{
    uint8_t digest[16];
    if (r->payload > SIZE_MAX / 2 || !(r->bytes = yir_large_alloc((size_t)r->payload + 1))) return MISS;
    int64_t n = yir_bulk_read(r->fd, r->bytes, (size_t)r->payload, HEAD + r->key->len, add_to_digest, &r->hash);
    if (n != (int64_t)r->payload) return n < 0 ? MISS : DAMAGED;
    end_digest(&r->hash, digest);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return HIT;
#else
    return CG_HOLDS(ARTIFACT_DIGEST, memcmp(digest, r->digest, sizeof digest) == 0) ? HIT : DAMAGED;
#endif
}

static enum found read_entry(struct reading *r)
{
    struct stat st;
    if (fstat(r->fd, &st) != 0) return MISS;
    /* Without a name: it was replaced just now, and is as good as before. */
    bool ours = S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink <= 1 && !(st.st_mode & 022);
    if (CG_BREAKS(ARTIFACT_FILE, !ours)) return OTHER;
    r->file = (uint64_t)st.st_size;
    enum found f = r->file < HEAD ? DAMAGED : read_head(r);
    if (f == HIT) f = read_key(r);
    return f == HIT ? read_payload(r) : f;
}

/* No arena is used while the files are open. */
static enum found find(struct cg_artifacts *c, const struct cg_entry_name *n, struct reading *r)
{
    int folder = cg_artifacts_folder(c, n->folder, false);
    if (folder < 0) return MISS;
    r->fd = openat(folder, n->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    enum found f = r->fd >= 0 ? read_entry(r) : MISS;
    if (f == HIT) (void)futimens(r->fd, NULL);
    if (f == DAMAGED) (void)unlinkat(folder, n->file, 0);
    if (f != HIT) {
        free(r->bytes);
        r->bytes = NULL;
    }
    if (r->fd >= 0) close(r->fd);
    close(folder);
    return f;
}

void *cg_artifact_take(struct cg_artifacts *c, const struct cg_artifact_key *k, size_t *size)
{
    struct cg_entry_name name;
    struct reading r = {.fd = -1, .key = k};
    if (!cg_artifacts_usable(c) || !key_fits(k)) return NULL;
    name_entry(&name, k);
    if (find(c, &name, &r) != HIT) return NULL;
    *size = (size_t)r.payload;
    return r.bytes;
}

const void *cg_artifact_get(struct cg_artifacts *c, struct yir_arena *a, const struct cg_artifact_key *k, size_t *size)
{
    if (!cg_artifacts_usable(c)) return NULL;
    void **slot = yir_arena_slot(a);
    return *slot = cg_artifact_take(c, k, size);
}

bool cg_artifact_kind(int folder, const char *file, char kind[16])
{
    uint8_t head[HEAD];
    int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    bool good = fd >= 0 && read_whole(fd, head, HEAD) == HIT && memcmp(head, magic, sizeof magic) == 0 && !head[AT_KIND + KIND - 1];
    for (int i = 0; good && head[AT_KIND + i]; i++) good = head[AT_KIND + i] > 0x20 && head[AT_KIND + i] < 0x7f;
    if (good) memcpy(kind, head + AT_KIND, KIND);
    if (fd >= 0) close(fd);
    return good && kind[0];
}

/* What stands behind a head whose digest is zeroed. */
static enum found check_rest(int fd, const uint8_t head[HEAD], uint64_t rest, const uint8_t digest[16])
{
    char part[64 << 10];
    uint8_t got[16];
    XXH3_state_t hash;
    XXH3_128bits_reset(&hash);
    XXH3_128bits_update(&hash, head, HEAD);
    for (uint64_t n; rest > 0; rest -= n) {
        n = rest < sizeof part ? rest : sizeof part;
        enum found f = read_whole(fd, part, (size_t)n);
        if (f != HIT) return f;
        XXH3_128bits_update(&hash, part, (size_t)n);
    }
    end_digest(&hash, got);
    return memcmp(got, digest, sizeof got) == 0 ? HIT : DAMAGED;
}

static enum found check_whole(int fd)
{
    uint8_t head[HEAD], digest[16];
    struct stat st;
    uint64_t size;
    if (fstat(fd, &st) != 0) return MISS;
    if (!S_ISREG(st.st_mode)) return DAMAGED;
    enum found f = read_whole(fd, head, HEAD);
    if (f != HIT) return f;
    memcpy(digest, head + AT_DIGEST, sizeof digest);
    memset(head + AT_DIGEST, 0, sizeof digest);
    bool fits = memcmp(head, magic, sizeof magic) == 0 && get_number(head + AT_VERSION, 8) == VERSION &&
                yir_add_u64(get_number(head + AT_KEY, 8), get_number(head + AT_PAYLOAD, 8), &size) && size == (uint64_t)st.st_size - HEAD;
    return fits ? check_rest(fd, head, size, digest) : DAMAGED;
}

bool cg_artifact_sound(int folder, const char *file)
{
    int fd = openat(folder, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return errno != ELOOP;
    enum found f = check_whole(fd);
    close(fd);
    return f != DAMAGED;
}

/* --- writing ------------------------------------------------------------------------------------------------------- */

static bool write_whole(int fd, const void *from, size_t n)
{
    for (const char *p = from; n > 0;) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool write_entry(int fd, const struct cg_artifact_key *k, const void *payload, size_t size)
{
    uint8_t head[HEAD];
    XXH3_state_t h;
    make_head(head, k, size);
    XXH3_128bits_reset(&h);
    XXH3_128bits_update(&h, head, HEAD);
    XXH3_128bits_update(&h, k->bytes, k->len);
    XXH3_128bits_update(&h, payload, size);
    end_digest(&h, head + AT_DIGEST);
    if (!write_whole(fd, head, HEAD) || !write_whole(fd, k->bytes, k->len) || !write_whole(fd, payload, size)) return false;
    YIR_CRASH_POINT("artifact.written");
    if (fsync(fd) != 0) return false;
    YIR_CRASH_POINT("artifact.synced");
    return true;
}

static int open_temporary(int folder, char name[64])
{
    struct timespec t;
    for (unsigned try = 0; try < 100; try++) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        snprintf(name, 64, CG_ARTIFACT_TEMPORARY "%ld-%lx-%u", (long)getpid(), (unsigned long)t.tv_nsec, try);
        int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* 0, or an errno; ENOSPC also when the cache's own limit leaves no room, which is no error: *full is then true. */
static int put_into(struct cg_artifacts *c, int folder, const struct cg_entry_name *n, const struct cg_artifact_key *k,
                    const void *payload, size_t size, bool *full)
{
    char temporary[64];
    int fd = open_temporary(folder, temporary), error = 0;
    if (fd < 0) return errno;
    if (!write_entry(fd, k, payload, size)) error = errno;
    if (close(fd) != 0 && !error) error = errno;
    if (!error) error = cg_artifacts_settle(c, folder, temporary, n, HEAD + k->len + size, full);
    if (error) (void)unlinkat(folder, temporary, 0);
    return error;
}

bool cg_artifact_put(struct cg_artifacts *c, const struct cg_artifact_key *k, const void *payload, size_t size)
{
    struct cg_entry_name name;
    uint64_t total;
    bool full = false;
    if (!cg_artifacts_usable(c) || cg_artifacts_broken(c) || !key_fits(k)) return false;
    if (!yir_add_u64(HEAD + k->len, size, &total) || total > cg_artifacts_limit(c)) return false;
    name_entry(&name, k);
    int folder = cg_artifacts_folder(c, name.folder, true), error = errno;
    if (folder >= 0) {
        error = put_into(c, folder, &name, k, payload, size, &full);
        close(folder);
    }
    if (error && !full) cg_artifacts_break(c, &name, error);
    return !error;
}
