#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cachebox.h"
#include "datafile.h"

static char box[192];

static void setup(void)
{
    cachebox_path(box, true);
    unsetenv("YOLOC_CACHE");
    unsetenv("YOLOC_CACHE_LIMIT");
}

static void teardown(void)
{
    cachebox_remove(box);
}

TestSuite(artifact, .init = setup, .fini = teardown, .timeout = 120);

static struct cachebox open_box(uint64_t limit, int line)
{
    struct cachebox b;
    cachebox_open(&b, box, limit);
    cr_assert(b.art, "line %d: %s", line, yir_diag_count(b.diags) ? yir_diag_at(b.diags, 0)->text : "silent");
    return b;
}
#define OPEN(limit) open_box(limit, __LINE__)

static struct cg_artifact_key key_of(const char *kind, const char *text)
{
    return (struct cg_artifact_key){kind, text, strlen(text)};
}

static bool put(struct cachebox *b, const char *key, const char *payload)
{
    struct cg_artifact_key k = key_of("kernel", key);
    return cg_artifact_put(b->art, &k, payload, strlen(payload));
}

/* The payload as text, or NULL. */
static const char *get(struct cachebox *b, const char *key)
{
    struct cg_artifact_key k = key_of("kernel", key);
    size_t size;
    const char *p = cg_artifact_get(b->art, b->arena, &k, &size);
    return p ? yir_strndup(b->arena, p, size) : NULL;
}

static void expect_text(const char *got, const char *wanted, int line)
{
    cr_expect(got && strcmp(got, wanted) == 0, "line %d: %s, not %s", line, got ? got : "nothing", wanted);
}
#define SAME(got, wanted) expect_text(got, wanted, __LINE__)

static bool first_name(void *user, const struct cg_artifact_info *i)
{
    strcpy(user, i->name);
    return false;
}

/* The file of the only entry. */
static char *only_file(struct cachebox *b)
{
    static char path[2][320];
    static unsigned n;
    char name[64] = "";
    cg_artifacts_each(b->art, first_name, name);
    cr_assert_eq(strlen(name), 32u);
    n ^= 1;
    snprintf(path[n], sizeof path[n], "%s/objects/%.2s/%s", box, name, name);
    return path[n];
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static void set_age(const char *path, long seconds)
{
    const struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    cr_assert_eq(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW), 0);
}

struct sum {
    uint64_t n, bytes, strange;
};

static bool add_up(void *user, const struct cg_artifact_info *i)
{
    struct sum *s = user;
    s->n++;
    s->bytes += i->bytes;
    s->strange += strcmp(i->kind, "?") == 0;
    return true;
}

static struct sum sum_of(struct cachebox *b)
{
    struct sum s = {0};
    cg_artifacts_each(b->art, add_up, &s);
    return s;
}

Test(artifact, what_is_put_is_found)
{
    struct cachebox b = OPEN(0);
    cr_expect_null(get(&b, "a"));
    cr_expect(put(&b, "a", "first") && put(&b, "b", "") && put(&b, "", "no key"));
    SAME(get(&b, "a"), "first");
    SAME(get(&b, "b"), "");
    SAME(get(&b, ""), "no key");
    cr_expect_null(get(&b, "aa"));
    struct cg_artifact_key k = key_of("module", "a");
    size_t size;
    cr_expect_null(cg_artifact_get(b.art, b.arena, &k, &size));
    cr_expect(put(&b, "a", "second"));
    cachebox_close(&b);
    b = OPEN(0);
    SAME(get(&b, "a"), "second");
    struct sum s = sum_of(&b);
    cr_expect(s.n == 3 && s.strange == 0 && s.bytes == 3 * 64 + 2 + 12);
    cr_expect_str_eq(cachebox_told(&b), "");
    cachebox_close(&b);
}

Test(artifact, nothing_without_a_folder)
{
    struct cachebox b = {.arena = yir_arena_new(NULL, NULL)};
    cr_expect_null(get(&b, "a"));
    cr_expect_not(put(&b, "a", "b"));
    cr_expect_eq(sum_of(&b).n, 0u);
    cr_expect_eq(cg_artifacts_prune(NULL, 0, 0), 0u);
    cr_expect_eq(cg_artifacts_limit(NULL), 0u);
    yir_arena_free(b.arena);
}

/* As long as keys and modules get. */
Test(artifact, large)
{
    enum { KEY = 300001, SIZE = 20000003 };
    char *key = malloc(KEY);
    uint8_t *payload = malloc(SIZE);
    for (int i = 0; i < KEY; i++) key[i] = (char)(i * 31 + (i >> 9));
    for (int i = 0; i < SIZE; i++) payload[i] = (uint8_t)(i * 7 + (i >> 11));
    struct cachebox b = OPEN(0);
    const struct cg_artifact_key k = {"module", key, KEY};
    size_t size;
    cr_assert(cg_artifact_put(b.art, &k, payload, SIZE));
    const uint8_t *got = cg_artifact_get(b.art, b.arena, &k, &size);
    cr_assert(got && size == SIZE && memcmp(got, payload, SIZE) == 0);
    for (int i = 0; i < KEY; i += 4001) { /* any byte of the key decides */
        key[i] ^= 1;
        cr_expect_null(cg_artifact_get(b.art, b.arena, &k, &size));
        key[i] ^= 1;
    }
    free(key);
    free(payload);
    cachebox_close(&b);
}

/* Every bit, every length: a miss, and the entry is gone. */
Test(artifact, damaged_entries)
{
    struct cachebox b = OPEN(0);
    cr_assert(put(&b, "the key", "the payload"));
    const char *file = only_file(&b);
    size_t size;
    uint8_t *bytes = (uint8_t *)test_file_read(file, &size), more[200] = {0};
    cr_assert_eq(size, 64u + 7 + 11);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        write_file(file, bytes, size);
        cr_expect_null(get(&b, "the key"), "bit %zu", bit);
        bool other = (bit / 8 >= 16 && bit / 8 < 32) || (bit / 8 >= 64 && bit / 8 < 64 + 7); /* a good entry of another key, perhaps */
        cr_expect(other || access(file, F_OK) != 0, "bit %zu: still there", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    memcpy(more, bytes, size);
    for (size_t n = 0; n < sizeof more; n++) {
        if (n == size) continue;
        write_file(file, more, n);
        cr_expect_null(get(&b, "the key"), "%zu bytes", n);
        cr_expect_neq(access(file, F_OK), 0, "%zu bytes", n);
    }
    /* Lengths that add up to the file's, or overflow to it. */
    static const uint64_t lengths[][2] = {{0, 18}, {18, 0}, {7, ~0ull}, {~0ull, 19}, {1ull << 63, (1ull << 63) + 18}, {7, 12}, {8, 11}};
    for (size_t i = 0; i < YIR_COUNT(lengths); i++) {
        memcpy(more, bytes, size);
        memcpy(more + 32, lengths[i], 16);
        write_file(file, more, size);
        cr_expect_null(get(&b, "the key"), "%zu", i);
    }
    write_file(file, bytes, size);
    SAME(get(&b, "the key"), "the payload");
    free(bytes);
    cr_expect_str_eq(cachebox_told(&b), "");
    cachebox_close(&b);
}

/* A good entry at the place of another key, as after a wrong copy. */
Test(artifact, entry_of_another_key)
{
    static const char *const others[] = {"other", "kez", "longer than it", "", "ke"};
    char text[8] = "key", file[320];
    for (size_t i = 0; i < YIR_COUNT(others); i++) {
        struct cachebox b = OPEN(0);
        cr_assert(put(&b, text, "of key"));
        strcpy(file, only_file(&b));
        cr_assert_eq(cg_artifacts_prune(b.art, -1, 0), 1u);
        cr_assert(put(&b, others[i], "of the other"));
        cr_assert_eq(rename(only_file(&b), file), 0);
        cr_expect_null(get(&b, text), "%s", others[i]);
        cr_expect(put(&b, text, "of key"));
        SAME(get(&b, text), "of key");
        cg_artifacts_prune(b.art, -1, 0);
        cachebox_close(&b);
    }
    struct cachebox b = OPEN(0);
    struct cg_artifact_key k = key_of("module", text);
    cr_assert(put(&b, text, "of key"));
    strcpy(file, only_file(&b));
    cg_artifacts_prune(b.art, -1, 0);
    cr_assert(cg_artifact_put(b.art, &k, "of key", 6));
    cr_assert_eq(rename(only_file(&b), file), 0);
    cr_expect_null(get(&b, text), "of another kind");
    cachebox_close(&b);
}

Test(artifact, entries_that_are_no_files)
{
    struct cachebox b = OPEN(0);
    char file[320], away[320];
    cr_assert(put(&b, "key", "payload"));
    strcpy(file, only_file(&b));
    snprintf(away, sizeof away, "%s/away", box);
    cr_assert_eq(link(file, away), 0);
    cr_expect_null(get(&b, "key"), "a second name");
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(symlink(away, file), 0);
    cr_expect_null(get(&b, "key"), "a link");
    cr_expect(put(&b, "key", "payload")); /* takes the place of what is there */
    SAME(get(&b, "key"), "payload");
    cr_assert_eq(chmod(file, 0620), 0);
    cr_expect_null(get(&b, "key"), "open to a group");
    cr_assert_eq(chmod(file, 0600), 0);
    SAME(get(&b, "key"), "payload");
    if (chown(file, 12345, getgid()) == 0) cr_expect_null(get(&b, "key"), "another user's");
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(mkfifo(file, 0600), 0);
    cr_expect_null(get(&b, "key"), "a FIFO");
    cr_expect(put(&b, "key", "payload"));
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(mkdir(file, 0700), 0);
    cr_expect_null(get(&b, "key"), "a folder");
    cr_expect(put(&b, "key", "payload"), "an empty folder is in the way");
    SAME(get(&b, "key"), "payload");
    cr_expect_str_eq(cachebox_told(&b), "");
    char below[400], name[80];
    snprintf(below, sizeof below, "%s/below", file);
    snprintf(name, sizeof name, "objects/%.60s: a folder", strstr(file, "objects/") + strlen("objects/"));
    cr_assert(unlink(file) == 0 && mkdir(file, 0700) == 0 && mkdir(below, 0700) == 0);
    cr_expect_not(put(&b, "key", "payload"));
    cr_expect(cachebox_told(&b) && strstr(cachebox_told(&b), name), "%s", cachebox_told(&b));
    cr_expect(put(&b, "another", "payload"), "others are kept");
    cr_assert_eq(rmdir(below), 0);
    cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 1u, "an empty folder goes");
    SAME(get(&b, "another"), "payload");
    cachebox_close(&b);
}

Test(artifact, folders_of_others)
{
    char folder[256];
    struct cachebox b = OPEN(0);
    cr_assert(put(&b, "key", "payload"));
    cachebox_close(&b);
    snprintf(folder, sizeof folder, "%s/objects", box);
    cr_assert_eq(chmod(folder, 0777), 0);
    cachebox_open(&b, box, 0);
    cr_expect_null(b.art);
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    cachebox_close(&b);
    cr_assert_eq(chmod(folder, 0700), 0);
    b = OPEN(0);
    strcpy(folder, only_file(&b));
    *strrchr(folder, '/') = 0;
    cr_assert_eq(chmod(folder, 0770), 0);
    cr_expect_null(get(&b, "key"));
    cr_expect_not(put(&b, "key", "payload"));
    cachebox_close(&b);
}

/* G9: of what a key is made from, any change makes another. */
Test(artifact, every_field_of_a_key)
{
    static const char *const names[] = {"ir", "weights", "flags", "versions", "tuning"};
    struct cachebox b = OPEN(0);
    for (int changed = -1; changed < (int)YIR_COUNT(names); changed++) {
        struct yir_str key = {.arena = b.arena};
        size_t size;
        for (int i = 0; i < (int)YIR_COUNT(names); i++) cg_key_text(&key, names[i], i == changed ? "value 2" : "value 1");
        const struct cg_artifact_key k = {"module", key.text, key.len};
        if (changed >= 0) cr_expect_null(cg_artifact_get(b.art, b.arena, &k, &size), "%s", names[changed]);
        else cr_assert(cg_artifact_put(b.art, &k, "module", 6));
    }
    cachebox_close(&b);
}

/* --- size ------------------------------------------------------------------------------------------------------------- */

static char *numbered(unsigned i)
{
    static char key[4][16];
    snprintf(key[i % 4], sizeof key[i % 4], "key %u", i);
    return key[i % 4];
}

static char filler[1001];

/* Puts entry i, and makes it look as old as i says. */
static void put_aged(struct cachebox *b, unsigned i, long age)
{
    struct cg_artifact_key k = key_of("kernel", numbered(i));
    memset(filler, 'x', 1000);
    cr_assert(cg_artifact_put(b->art, &k, filler, 1000), "%u", i);
    char find[320];
    snprintf(find, sizeof find, "find '%s/objects' -type f -mmin -1 -name '[0-9a-f]*' -exec touch -d @%ld {} +",
             box, (long)time(NULL) - age);
    cr_assert_eq(system(find), 0);
}

Test(artifact, least_recently_used_go)
{
    struct cachebox b = OPEN(10000);
    for (unsigned i = 0; i < 9; i++) put_aged(&b, i, 10000 - 100 * (long)i);
    cr_expect_eq(sum_of(&b).n, 9u);
    cr_expect_not_null(get(&b, numbered(0))); /* used now, so it is spared */
    cr_assert(put(&b, "new", filler));
    struct sum s = sum_of(&b);
    cr_expect(s.bytes <= 10000 && s.n >= 8, "%u in %u bytes", (unsigned)s.n, (unsigned)s.bytes);
    cr_expect_not_null(get(&b, numbered(0)));
    cr_expect_null(get(&b, numbered(1)));
    cr_expect_not_null(get(&b, numbered(8)));
    cr_expect_not_null(get(&b, "new"));
    cachebox_close(&b);
}

/* What was used in the last minute is not removed for something new: then that is not kept, without a warning. */
Test(artifact, recent_entries_stay)
{
    struct cachebox b = OPEN(10000);
    memset(filler, 'x', 1000);
    unsigned kept = 0;
    for (unsigned i = 0; i < 30; i++) kept += put(&b, numbered(i), filler);
    cr_expect_eq(kept, 9u);
    for (unsigned i = 0; i < 9; i++) cr_expect_not_null(get(&b, numbered(i)));
    cr_expect(sum_of(&b).bytes <= 10000);
    cr_expect_str_eq(cachebox_told(&b), "");
    struct cg_artifact_key k = key_of("kernel", "large"); /* what can never fit */
    char *large = calloc(1, 10001);
    cr_expect_not(cg_artifact_put(b.art, &k, large, 10001));
    free(large);
    char command[256];
    snprintf(command, sizeof command, "find '%s/objects' -type f -exec touch -d '2 hours' {} +", box);
    cr_assert_eq(system(command), 0); /* the clock went back: they don't stay for ever */
    cr_expect(put(&b, "after", filler));
    cachebox_close(&b);
}

/* The sum of sizes is kept beside; a wrong one does no lasting harm. */
Test(artifact, total_is_damaged)
{
    struct cachebox b = OPEN(10000);
    char path[256];
    snprintf(path, sizeof path, "%s/objects/total", box);
    for (unsigned i = 0; i < 40; i++) {
        put_aged(&b, i, 5000);
        if (i % 4 == 1) unlink(path);
        if (i % 4 == 2) write_file(path, "what?", 5);
        if (i % 4 == 3) write_file(path, filler, 1000);
        cr_expect(sum_of(&b).bytes <= 10000, "%u", i);
    }
    unlink(path);
    cr_assert_eq(symlink("/etc/hostname", path), 0);
    cr_expect_not(put(&b, "key", "payload"));
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    cachebox_close(&b);
}

Test(artifact, removed_by_hand)
{
    struct cachebox b = OPEN(10000);
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'/objects/??", box);
    memset(filler, 'x', 1000);
    for (unsigned i = 0; i < 50; i++) {
        cr_assert(put(&b, numbered(i), filler), "%u", i);
        cr_expect_not_null(get(&b, numbered(i)));
        if (i % 8 == 7) cr_assert_eq(system(command), 0);
    }
    cachebox_close(&b);
}

Test(artifact, pruning)
{
    struct cachebox b = OPEN(0);
    for (unsigned i = 0; i < 6; i++) put_aged(&b, i, 6000 - 1000 * (long)i - 500);
    cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 0u);
    cr_expect_eq(cg_artifacts_prune(b.art, 4000, -1), 2u);
    cr_expect(!get(&b, numbered(1)) && get(&b, numbered(2)));
    cr_expect_eq(cg_artifacts_prune(b.art, -1, 2500), 2u);
    cr_expect_not_null(get(&b, numbered(2))); /* was used just before */
    cr_expect_eq(cg_artifacts_prune(b.art, -1, 0), 2u);
    cr_expect_eq(sum_of(&b).n, 0u);
    cachebox_close(&b);
}

static void damage(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    cr_assert(f && fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) == 0 && fputc('#', f) == '#' && fclose(f) == 0);
}

/* Each is read whole. */
Test(artifact, pruning_removes_what_is_damaged)
{
    struct cachebox b = OPEN(0);
    static const long at[] = {3, 60, 64, -1}; /* magic, digest, key, payload */
    char whole[320];
    for (size_t i = 0; i < YIR_COUNT(at); i++) {
        cr_assert(put(&b, "key", "payload"));
        damage(only_file(&b), at[i]);
        cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 1u, "%ld", at[i]);
        cr_expect_eq(sum_of(&b).n, 0u);
    }
    cr_assert(put(&b, "key", "payload"));
    strcpy(whole, only_file(&b));
    cr_assert_eq(truncate(whole, 70), 0);
    cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 1u, "cut");
    cr_assert(put(&b, "key", "payload"));
    cr_assert_eq(truncate(whole, 20), 0);
    cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 1u, "no head");
    cr_assert(put(&b, "key", "payload"));
    cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 0u);
    SAME(get(&b, "key"), "payload");
    cachebox_close(&b);
}

/* What killed writers leave. */
Test(artifact, leftovers)
{
    struct cachebox b = OPEN(0);
    char stale[400], fresh[400];
    cr_assert(put(&b, "key", "payload"));
    char *slash = strrchr(strcpy(stale, only_file(&b)), '/');
    strcpy(slash, "/.tmp-1-2-3");
    strcpy(fresh, stale);
    strcat(fresh, "4");
    write_file(stale, "half", 4);
    write_file(fresh, "half", 4);
    set_age(stale, 7200);
    set_age(fresh, 60);
    cr_expect_eq(sum_of(&b).n, 1u);
    cr_expect_eq(cg_artifacts_prune(b.art, -1, -1), 0u);
    cr_expect(access(stale, F_OK) != 0 && access(fresh, F_OK) == 0);
    cachebox_close(&b);
}

/* A process that reads an entry has it to the end. */
Test(artifact, removed_while_read)
{
    struct cachebox b = OPEN(0);
    cr_assert(put(&b, "key", "payload"));
    int fd = open(only_file(&b), O_RDONLY);
    char bytes[200];
    cr_expect_eq(cg_artifacts_prune(b.art, -1, 0), 1u);
    cr_expect_eq(read(fd, bytes, sizeof bytes), 64 + 3 + 7);
    close(fd);
    cachebox_close(&b);
}

Test(artifact, limits)
{
    static const struct {
        const char *text;
        uint64_t limit; /* 0: refused */
    } rows[] = {{"1000", 1000}, {"4K", 4096}, {"512M", 512ull << 20}, {"3G", 3ull << 30}, {"", CG_ARTIFACT_LIMIT}, {"0", 0}, {"-1", 0},
                {"1T", 0}, {"1KB", 0}, {"x", 0}, {"99999999999999999999", 0}, {"99999999999G", 0}, {" 5", 0}, {"5 ", 0}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct cachebox b;
        setenv("YOLOC_CACHE_LIMIT", rows[i].text, 1);
        cachebox_open(&b, box, 0);
        cr_expect_eq(cg_artifacts_limit(b.art), rows[i].limit, "%s", rows[i].text);
        cr_expect_eq(b.art != NULL, rows[i].limit != 0, "%s", rows[i].text);
        cr_expect(cachebox_told(&b) && !*cachebox_told(&b) == (rows[i].limit != 0), "%s", rows[i].text);
        cachebox_close(&b);
        cachebox_open(&b, box, 77);
        cr_expect_eq(cg_artifacts_limit(b.art), 77u);
        cachebox_close(&b);
    }
}

/* --- the host ----------------------------------------------------------------------------------------------------------- */

Test(artifact, full_disk)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) cr_skip_test("no mounts here");
    cr_assert_eq(mkdir(box, 0700), 0);
    if (mount("none", box, "tmpfs", 0, "size=512k,mode=700") != 0) cr_skip_test("no tmpfs here");
    struct cachebox b = OPEN(0);
    char *payload = calloc(1, 50001);
    memset(payload, 'p', 50000);
    unsigned kept = 0;
    for (unsigned i = 0; i < 20; i++) kept += put(&b, numbered(i), payload);
    cr_expect(kept > 0 && kept < 20);
    cr_expect(cachebox_told(&b) && strstr(cachebox_told(&b), "space"), "%s", cachebox_told(&b));
    for (unsigned i = 0; i < kept; i++) SAME(get(&b, numbered(i)), payload);
    cr_expect_eq(sum_of(&b).n, kept);
    char command[256];
    snprintf(command, sizeof command, "test -z \"$(find '%s' -name '.tmp*')\"", box);
    cr_expect_eq(system(command), 0, "half an entry is left");
    snprintf(command, sizeof command, "%s/objects/total", box);
    cr_assert_eq(unlink(command), 0);
    snprintf(command, sizeof command, "head -c 1M /dev/zero >'%s/filler' 2>/dev/null", box);
    (void)!system(command);
    cr_expect_eq(cg_artifacts_prune(b.art, -1, 0), kept, "a full disk is no reason to keep anything");
    cachebox_close(&b);
    free(payload);
    umount(box);
}

Test(artifact, file_size_limit)
{
    signal(SIGXFSZ, SIG_IGN);
    struct cachebox b = OPEN(0);
    char *payload = calloc(1, 50001);
    memset(payload, 'p', 50000);
    cr_expect(put(&b, "before", payload));
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, 20000}), 0);
    cr_expect_not(put(&b, "key", payload));
    cr_expect_not(put(&b, "key 2", payload));
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    SAME(get(&b, "before"), payload);
    cr_expect_eq(sum_of(&b).n, 1u);
    free(payload);
    cachebox_close(&b);
}

Test(artifact, few_descriptors)
{
    struct cachebox b = OPEN(0);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    cr_assert(put(&b, "key", "payload"));
    int used = open("/dev/null", O_RDONLY);
    close(used);
    for (int n = used; n < used + 2; n++) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)n, before.rlim_max});
        cr_expect_null(get(&b, "key"));
        cr_expect_not(put(&b, "other", "payload"));
        cr_expect_eq(sum_of(&b).n, n == used ? 0u : 1u);
    }
    setrlimit(RLIMIT_NOFILE, &before);
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    SAME(get(&b, "key"), "payload");
    cachebox_close(&b);
}

Test(artifact, after_fork)
{
    struct cachebox b = OPEN(0);
    int status;
    cr_assert(put(&b, "key", "payload"));
    pid_t child = fork();
    if (child == 0) {
        bool wrong = get(&b, "key") || put(&b, "key 2", "payload") || sum_of(&b).n;
        cachebox_close(&b);
        _exit(wrong);
    }
    waitpid(child, &status, 0);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    SAME(get(&b, "key"), "payload");
    cachebox_close(&b);
}

/* Writes go on where a process stopped with the lock; what can't be kept is not waited for for ever. */
Test(artifact, lock_is_held)
{
    struct cachebox b = OPEN(0);
    char path[256];
    int status;
    cr_assert(put(&b, "key", "payload"));
    snprintf(path, sizeof path, "%s/objects/total", box);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_RDWR);
        if (fd < 0 || !cg_cachedir_lock(fd, 2 /* LOCK_EX */, 0)) abort();
        raise(SIGSTOP);
        _exit(0);
    }
    waitpid(child, &status, WUNTRACED);
    SAME(get(&b, "key"), "payload");
    time_t start = time(NULL);
    for (unsigned i = 0; i < 5; i++) cr_expect_not(put(&b, numbered(i), "payload"));
    cr_expect(time(NULL) - start < 8);
    cr_expect(cachebox_told(&b) && *cachebox_told(&b));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    cachebox_close(&b);
    b = OPEN(0);
    cr_expect(put(&b, "key 2", "payload"));
    cachebox_close(&b);
}
