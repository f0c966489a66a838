#include "cachebox.h"

#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/claimant.h"

#define NEED(cond) ((cond) ? (void)0 : (fprintf(stderr, "cachebox: %s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))

void cachebox_path(char path[192], bool fast)
{
    const char *base = getenv("YOLOC_TEST_SCRATCH");
    char folder[160];
    if (!base) base = "/tmp";
    if (fast && access("/dev/shm", W_OK) == 0) base = "/dev/shm";
    snprintf(folder, sizeof folder, "%.120s/cacheXXXXXX", base);
    NEED(mkdtemp(folder));
    snprintf(path, 192, "%s/yoloc", folder);
}

void cachebox_remove(const char *path)
{
    char folder[192], command[256];
    snprintf(folder, sizeof folder, "%s", path);
    char *last = strrchr(folder, '/'), *name;
    NEED(last && !strcmp(last, "/yoloc"));
    *last = 0;
    name = strrchr(folder, '/');
    NEED(name && strlen(name) == strlen("/cacheXXXXXX") && !strncmp(name, "/cache", 6));
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    NEED(system(command) == 0);
}

static void open_with(struct cachebox *b, const char *path, uint64_t limit, unsigned long filesystem)
{
    *b = (struct cachebox){0};
    snprintf(b->path, sizeof b->path, "%s", path);
    b->arena = yir_arena_new(NULL, NULL);
    NEED(b->arena);
    b->diags = yir_diags_new(b->arena, NULL, NULL);
    b->dir = cg_cachedir_open(b->arena, b->diags, &(struct cg_cachedir_opts){.path = b->path, .filesystem = filesystem});
    b->db = cg_tunedb_open(b->arena, b->dir);
    b->art = cg_artifacts_open(b->arena, b->dir, limit);
}

void cachebox_open(struct cachebox *b, const char *path, uint64_t limit)
{
    open_with(b, path, limit, 0);
}

void cachebox_open_on(struct cachebox *b, const char *path, unsigned long filesystem)
{
    open_with(b, path, 0, filesystem);
}

void cachebox_close(struct cachebox *b)
{
    yir_arena_free(b->arena);
    *b = (struct cachebox){0};
}

const char *cachebox_told(const struct cachebox *b)
{
    size_t n = yir_diag_count(b->diags);
    return n > 1 ? NULL : n ? yir_diag_at(b->diags, 0)->text : "";
}

unsigned cachebox_count(const char *path, const char *prefix)
{
    unsigned n = 0;
    DIR *dir = opendir(path);
    for (const struct dirent *d; dir && (d = readdir(dir));)
        n += strcmp(d->d_name, ".") && strcmp(d->d_name, "..") && strncmp(d->d_name, prefix, strlen(prefix)) == 0;
    if (dir) closedir(dir);
    return n;
}

bool cachebox_has(const char *path, const char *file)
{
    char name[320];
    if (!file) return cachebox_count(path, "") > 0;
    snprintf(name, sizeof name, "%s/%s", path, file);
    return access(name, F_OK) == 0;
}

void cachebox_key(struct cachebox_key *k, unsigned n)
{
    snprintf(k->op, sizeof k->op, "%%%u = conv2d %%images, $w {stride=2,2} : f32[1,%u,320,320] nhwc", n, 16 + n % 5);
    k->key = (struct cg_tune_key){.op = k->op, .op_len = strlen(k->op), .target = "a cpu, avx2 fma, 8 lanes", .threads = 2,
                                  .versions = "yoloc 0.1 llvm 19", .space = "tile=4,8 unroll=1,2"};
}

struct cg_tune_record cachebox_record(unsigned n)
{
    struct cg_tune_record r = {.median_s = 1e-3 * (n % 97 + 1), .spread_s = 1e-5 * (n % 7), .when = 1600000000 + n};
    snprintf(r.config, sizeof r.config, "direct tile=%u,%u", n % 9 + 1, n % 13 + 1);
    return r;
}

/* --- the data base ------------------------------------------------------------------------------------------------ */

static sqlite3 *open_sql(const char *path)
{
    char name[320];
    sqlite3 *sql;
    snprintf(name, sizeof name, "%s/tuning.sqlite", path);
    NEED(sqlite3_open(name, &sql) == SQLITE_OK);
    sqlite3_busy_timeout(sql, 5000);
    return sql;
}

bool cachebox_sql(const char *path, const char *text)
{
    sqlite3 *sql = open_sql(path);
    int rc = sqlite3_exec(sql, text, NULL, NULL, NULL);
    sqlite3_close(sql);
    return rc == SQLITE_OK;
}

static void add_number(XXH3_state_t *h, uint64_t v)
{
    NEED(*(const uint8_t *)&(const uint16_t){1} == 1);
    XXH3_128bits_update(h, &v, sizeof v);
}

static void add_text(XXH3_state_t *h, const void *text, size_t n)
{
    add_number(h, n);
    XXH3_128bits_update(h, text, n);
}

static void add_fields(XXH3_state_t *h, const struct cg_tune_key *k)
{
    char threads[16];
    snprintf(threads, sizeof threads, "%d", k->threads);
    add_text(h, k->op, k->op_len);
    add_text(h, k->target, strlen(k->target));
    add_text(h, threads, strlen(threads));
    add_text(h, k->versions, strlen(k->versions));
    add_text(h, k->space, strlen(k->space));
}

static XXH128_canonical_t end(const XXH3_state_t *h)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits_digest(h));
    return c;
}

static XXH128_canonical_t key_digest(const struct cg_tune_key *k)
{
    XXH3_state_t h;
    XXH3_128bits_reset(&h);
    add_fields(&h, k);
    return end(&h);
}

static XXH128_canonical_t row_sum(const struct cg_tune_key *k, XXH128_canonical_t key, const struct cg_tune_record *r)
{
    XXH3_state_t h;
    uint64_t bits[2];
    XXH3_128bits_reset(&h);
    add_text(&h, key.digest, 16);
    add_fields(&h, k);
    add_text(&h, r->config, strlen(r->config));
    memcpy(bits, (const double[]){r->median_s, r->spread_s}, sizeof bits);
    add_number(&h, bits[0]);
    add_number(&h, bits[1]);
    add_number(&h, (uint64_t)r->when);
    return end(&h);
}

static void finish(sqlite3 *sql, sqlite3_stmt *s)
{
    NEED(sqlite3_step(s) == SQLITE_DONE);
    sqlite3_finalize(s);
    sqlite3_close(sql);
}

void cachebox_row(const char *path, const struct cg_tune_key *k, const struct cg_tune_key *key_of, const struct cg_tune_record *r,
                  bool right_sum)
{
    sqlite3 *sql = open_sql(path);
    sqlite3_stmt *s;
    XXH128_canonical_t key = key_digest(key_of), sum = row_sum(k, key, r);
    char threads[16];
    int at = 0;
    snprintf(threads, sizeof threads, "%d", k->threads);
    if (!right_sum) sum.digest[3] ^= 4;
    NEED(sqlite3_prepare_v2(sql, "INSERT OR REPLACE INTO record VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", -1, &s, NULL) == SQLITE_OK);
    sqlite3_bind_blob(s, ++at, key.digest, 16, SQLITE_STATIC);
    sqlite3_bind_text(s, ++at, k->op, (int)k->op_len, SQLITE_STATIC);
    for (const char *const *t = (const char *const[]){k->target, threads, k->versions, k->space, r->config, NULL}; *t; t++)
        sqlite3_bind_text(s, ++at, *t, -1, SQLITE_STATIC);
    sqlite3_bind_double(s, ++at, r->median_s);
    sqlite3_bind_double(s, ++at, r->spread_s);
    sqlite3_bind_int64(s, ++at, r->when);
    sqlite3_bind_blob(s, ++at, sum.digest, 16, SQLITE_STATIC);
    finish(sql, s);
}

void cachebox_claim(const char *path, const struct cg_tune_key *k, int64_t pid, int64_t started, int64_t since_ms, const char *boot)
{
    sqlite3 *sql = open_sql(path);
    sqlite3_stmt *s;
    XXH128_canonical_t key = key_digest(k);
    const int64_t number[] = {pid, started, 12345, since_ms < 0 ? cg_claimant_self().since_ms : since_ms};
    NEED(sqlite3_prepare_v2(sql, "INSERT OR REPLACE INTO claim VALUES(?, ?, ?, ?, ?, ?)", -1, &s, NULL) == SQLITE_OK);
    sqlite3_bind_blob(s, 1, key.digest, 16, SQLITE_STATIC);
    for (int i = 0; i < 4; i++) sqlite3_bind_int64(s, 2 + i, number[i]);
    sqlite3_bind_text(s, 6, boot, -1, SQLITE_STATIC);
    finish(sql, s);
}

/* --- damage --------------------------------------------------------------------------------------------------------- */

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

void cachebox_mutate(uint8_t *bytes, size_t *size, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 1;
    unsigned kind = next(&state) % 8, n = 1 + next(&state) % 20;
    if (!*size) return;
    if (kind == 0) *size = next(&state) % *size;
    for (unsigned i = 0; kind >= 1 && kind <= 4 && i < n; i++) {
        size_t at = kind == 1 ? next(&state) % 100 : next(&state) % *size; /* 100: the header */
        if (at >= *size) continue;
        bytes[at] = (uint8_t)(kind == 2 ? bytes[at] ^ 1u << next(&state) % 8 : next(&state));
    }
    if (kind >= 5) {
        size_t page = 4096, at = next(&state) % (*size / page + 1) * page, from = next(&state) % (*size / page + 1) * page;
        for (size_t i = 0; i < page && at + i < *size; i++)
            bytes[at + i] = kind == 5 ? 0 : kind == 6 ? (uint8_t)next(&state) : from + i < *size ? bytes[from + i] : 0;
    }
}
