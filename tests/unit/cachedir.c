#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cachebox.h"

static char box[192], above[192];

static void setup(void)
{
    cachebox_path(box, true);
    snprintf(above, sizeof above, "%.*s", (int)(strrchr(box, '/') - box), box);
    unsetenv("YOLOC_CACHE");
    unsetenv("YOLOC_CACHE_DIR");
    unsetenv("YOLOC_CACHE_LIMIT");
}

static void teardown(void)
{
    cachebox_remove(box);
}

TestSuite(cachedir, .init = setup, .fini = teardown);

/* What the environment leads to, for one opening. */
struct opened {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct cg_cachedir *dir;
};

static struct opened open_with(const struct cg_cachedir_opts *o)
{
    struct opened r = {.arena = yir_arena_new(NULL, NULL)};
    r.diags = yir_diags_new(r.arena, NULL, NULL);
    r.dir = cg_cachedir_open(r.arena, r.diags, o);
    return r;
}

static void expect_path(const char *wanted, int line)
{
    struct opened r = open_with(NULL);
    struct stat st;
    cr_assert(r.dir, "line %d: %s", line, yir_diag_count(r.diags) ? yir_diag_at(r.diags, 0)->text : "silent");
    cr_expect_str_eq(cg_cachedir_path(r.dir), wanted, "line %d", line);
    cr_expect(fstat(cg_cachedir_fd(r.dir), &st) == 0 && (st.st_mode & 07777) == 0700, "line %d", line);
    yir_arena_free(r.arena);
}

/* One diagnostic, and no handle. */
static void expect_refused(const char *path, const char *words, int line)
{
    struct opened r = open_with(&(struct cg_cachedir_opts){.path = path});
    cr_expect_null(r.dir, "line %d", line);
    cr_assert_eq(yir_diag_count(r.diags), 1u, "line %d: %zu", line, yir_diag_count(r.diags));
    const struct yir_diag *d = yir_diag_at(r.diags, 0);
    cr_expect_eq(d->id, W_CACHE, "line %d", line);
    cr_expect(strstr(d->text, words), "line %d: %s", line, d->text);
    cr_expect_null(cg_tunedb_open(r.arena, r.dir));
    cr_expect_null(cg_artifacts_open(r.arena, r.dir, 0));
    yir_arena_free(r.arena);
}
#define REFUSED(path, words) expect_refused(path, words, __LINE__)

static const char *in(const char *folder, const char *name)
{
    static char path[4][256];
    static unsigned n;
    n = (n + 1) % 4;
    snprintf(path[n], sizeof path[n], "%s/%s", folder, name);
    return path[n];
}

Test(cachedir, places)
{
    umask(0);
    setenv("HOME", above, 1);
    unsetenv("XDG_CACHE_HOME");
    expect_path(in(above, ".cache/yoloc"), __LINE__);
    setenv("XDG_CACHE_HOME", "relative", 1);
    expect_path(in(above, ".cache/yoloc"), __LINE__);
    setenv("XDG_CACHE_HOME", in(above, "xdg"), 1);
    expect_path(in(above, "xdg/yoloc"), __LINE__);
    setenv("YOLOC_CACHE_DIR", in(above, "own///"), 1);
    expect_path(in(above, "own"), __LINE__);
    cr_expect_eq(cachebox_count(above, ""), 3u);
}

Test(cachedir, off)
{
    setenv("YOLOC_CACHE", "off", 1);
    struct opened r = open_with(&(struct cg_cachedir_opts){.path = box});
    cr_expect_null(r.dir);
    cr_expect_eq(yir_diag_count(r.diags), 0u);
    cr_expect_not(cachebox_has(above, NULL));
    yir_arena_free(r.arena);
    r = open_with(&(struct cg_cachedir_opts){.path = box, .required = true}); /* a command about the cache itself */
    cr_expect_not_null(r.dir);
    yir_arena_free(r.arena);
}

Test(cachedir, neither_on_nor_off)
{
    setenv("YOLOC_CACHE", "banana", 1);
    REFUSED(box, "YOLOC_CACHE is neither on nor off");
    for (int i = 0; i < 2; i++) {
        setenv("YOLOC_CACHE", i ? "on" : "", 1);
        struct opened r = open_with(&(struct cg_cachedir_opts){.path = box});
        cr_expect_not_null(r.dir);
        yir_arena_free(r.arena);
    }
}

Test(cachedir, what_is_required_is_an_error)
{
    struct opened r = open_with(&(struct cg_cachedir_opts){.path = "/dev/null", .required = true});
    cr_expect_null(r.dir);
    cr_assert_eq(yir_diag_count(r.diags), 1u);
    cr_expect_eq(yir_diag_at(r.diags, 0)->id, E_CACHE);
    cr_expect_eq(yir_diag_class(r.diags), YIR_CLASS_RESOURCE);
    yir_arena_free(r.arena);
}

Test(cachedir, places_that_are_none)
{
    static char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    close(open(in(above, "file"), O_CREAT | O_WRONLY, 0600));
    REFUSED(in(above, "file"), "link, or no folder");
    REFUSED(in(above, "file/below"), "link, or no folder");
    REFUSED(in(above, "a/b/c"), "o such file");
    REFUSED("/dev/null", "link, or no folder");
    REFUSED("/proc/self/yoloc", "o such file");
    REFUSED(longer, "too long");
    setenv("HOME", in(above, "none"), 1);
    unsetenv("XDG_CACHE_HOME");
    REFUSED(NULL, "none/.cache/yoloc");
    setenv("HOME", "", 1);
    REFUSED(NULL, "neither XDG_CACHE_HOME nor HOME");
    setenv("HOME", "relative", 1);
    REFUSED(NULL, "neither XDG_CACHE_HOME nor HOME");
    unsetenv("HOME");
    REFUSED(NULL, "neither XDG_CACHE_HOME nor HOME");
}

Test(cachedir, no_descriptors)
{
    struct rlimit before;
    struct opened r = {.arena = yir_arena_new(NULL, NULL)};
    r.diags = yir_diags_new(r.arena, NULL, NULL);
    getrlimit(RLIMIT_NOFILE, &before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max});
    r.dir = cg_cachedir_open(r.arena, r.diags, &(struct cg_cachedir_opts){.path = box});
    setrlimit(RLIMIT_NOFILE, &before);
    cr_expect_null(r.dir);
    cr_assert_eq(yir_diag_count(r.diags), 1u);
    cr_expect(strstr(yir_diag_at(r.diags, 0)->text, "oo many open files"));
    yir_arena_free(r.arena);
}

Test(cachedir, read_only)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) cr_skip_test("no mounts here");
    cr_assert_eq(mkdir(box, 0700), 0);
    if (mount("none", box, "tmpfs", MS_RDONLY, "mode=700") != 0) cr_skip_test("no tmpfs here");
    REFUSED(box, "ead-only");
    REFUSED(in(box, "below"), "ead-only");
    umount(box);
}

Test(cachedir, folders_open_to_others)
{
    cr_assert_eq(mkdir(box, 0700), 0);
    for (unsigned mode = 0; mode < 0100; mode++) {
        cr_assert_eq(chmod(box, 0700 | mode), 0);
        if (mode & 022) {
            REFUSED(box, "written by others");
            continue;
        }
        struct opened r = open_with(&(struct cg_cachedir_opts){.path = box});
        cr_expect_not_null(r.dir, "mode %o", mode);
        yir_arena_free(r.arena);
    }
}

Test(cachedir, folder_of_another_user)
{
    cr_assert_eq(mkdir(box, 0700), 0);
    if (chown(box, 12345, getgid()) != 0) cr_skip_test("only root can give folders away");
    REFUSED(box, "another user");
    cr_assert_eq(chmod(box, 0755), 0);
    REFUSED(box, "another user");
}

/* As somebody could prepare it in a folder that all may write to. */
Test(cachedir, links)
{
    cr_assert_eq(mkdir(in(above, "real"), 0700), 0);
    cr_assert_eq(symlink("real", box), 0);
    REFUSED(box, "link, or no folder");
    REFUSED(in(above, "yoloc/"), "link, or no folder");
    unlink(box);
    cr_assert_eq(symlink("nothing", box), 0);
    REFUSED(box, "link, or no folder");
    cr_expect_not(cachebox_has(above, "nothing"));
}

/* Above the folder a link is the user's own affair; names are those behind it. */
Test(cachedir, links_above)
{
    cr_assert_eq(mkdir(in(above, "real"), 0700), 0);
    cr_assert_eq(symlink("real", in(above, "link")), 0);
    struct opened r = open_with(&(struct cg_cachedir_opts){.path = in(above, "link/yoloc")});
    cr_assert_not_null(r.dir);
    cr_expect_str_eq(cg_cachedir_path(r.dir), in(above, "real/yoloc"));
    struct cg_tunedb *db = cg_tunedb_open(r.arena, r.dir);
    cr_expect_not_null(db, "%s", yir_diag_count(r.diags) ? yir_diag_at(r.diags, 0)->text : "");
    yir_arena_free(r.arena);
}

static void make_file(int folder, const char *name, mode_t mode)
{
    int fd = openat(folder, name, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(fd, 0);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void expect_distrust(int folder, const char *name, const char *words)
{
    const char *why = cg_cachedir_distrust(folder, name);
    if (!words) cr_expect_null(why, "%s: %s", name, why);
    else cr_expect(why && strstr(why, words), "%s: %s, wanted %s", name, why ? why : "trusted", words);
}

Test(cachedir, files_that_are_none)
{
    int folder = open(above, O_RDONLY | O_DIRECTORY);
    make_file(folder, "good", 0600);
    make_file(folder, "readable", 0644);
    make_file(folder, "group", 0620);
    make_file(folder, "all", 0602);
    make_file(folder, "first", 0600);
    cr_assert_eq(linkat(folder, "first", folder, "second", 0), 0);
    cr_assert_eq(symlinkat("good", folder, "link"), 0);
    cr_assert_eq(symlinkat("none", folder, "broken"), 0);
    cr_assert_eq(mkdirat(folder, "folder", 0700), 0);
    cr_assert_eq(mkfifoat(folder, "fifo", 0600), 0);
    expect_distrust(folder, "absent", NULL);
    expect_distrust(folder, "good", NULL);
    expect_distrust(folder, "readable", NULL);
    expect_distrust(folder, "group", "written by others");
    expect_distrust(folder, "all", "written by others");
    expect_distrust(folder, "second", "second name");
    expect_distrust(folder, "link", "is a link");
    expect_distrust(folder, "broken", "is a link");
    expect_distrust(folder, "folder", "not a regular");
    expect_distrust(folder, "fifo", "not a regular");
    close(folder);
}

Test(cachedir, file_of_another_user)
{
    int folder = open(above, O_RDONLY | O_DIRECTORY);
    make_file(folder, "theirs", 0600);
    if (fchownat(folder, "theirs", 12345, getgid(), 0) != 0) cr_skip_test("only root can give files away");
    expect_distrust(folder, "theirs", "another user");
    close(folder);
}

/* Each file that a cache opens by its name, in place of the good one. */
Test(cachedir, planted_files)
{
    static const char *const names[] = {"tuning.sqlite", "tuning.sqlite-wal", "tuning.sqlite-shm", "tuning.sqlite-journal",
                                        "tuning.lock", "objects"};
    for (size_t i = 0; i < YIR_COUNT(names); i++) {
        struct cachebox b;
        cr_assert_eq(mkdir(box, 0700), 0);
        cr_assert_eq(symlink("/etc/hostname", in(box, names[i])), 0);
        cachebox_open(&b, box, 0);
        const char *told = cachebox_told(&b);
        cr_expect(told && *told, "%s: %s", names[i], told ? "silent" : "more than one warning");
        cr_expect(strcmp(names[i], "objects") == 0 ? !b.art : !b.db, "%s", names[i]);
        cachebox_close(&b);
        cr_assert_eq(unlink(in(box, names[i])), 0);
        char command[256];
        snprintf(command, sizeof command, "rm -rf '%s'", box);
        cr_assert_eq(system(command), 0);
    }
}

Test(cachedir, one_warning)
{
    struct opened r = open_with(&(struct cg_cachedir_opts){.path = box});
    cr_assert_not_null(r.dir);
    cg_cachedir_report(r.dir, "the %s", "first");
    cg_cachedir_report(r.dir, "the second");
    cr_assert_eq(yir_diag_count(r.diags), 1u);
    cr_expect(strstr(yir_diag_at(r.diags, 0)->text, "the first"));
    yir_arena_free(r.arena);
}

Test(cachedir, network_file_systems)
{
    static const struct {
        unsigned long type;
        bool shared;
    } rows[] = {{0x6969, false}, {0x65735546, false}, {0xff534d42, false}, {0x01021997, false}, {0xef53, true}, {0x01021994, true}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct opened r = open_with(&(struct cg_cachedir_opts){.path = box, .filesystem = rows[i].type});
        cr_assert_not_null(r.dir);
        cr_expect_eq(cg_cachedir_shared(r.dir), rows[i].shared, "%lx", rows[i].type);
        yir_arena_free(r.arena);
    }
}

/* No two lists of fields give one key. */
Test(cachedir, keys)
{
    static const char *const lists[][4] = {{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a", "b", ""}, {"a:1:b\n", ""}, {"1:a\nx:1:b"}, {"a\nx:1:b"}};
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_str key[YIR_COUNT(lists)];
    for (size_t i = 0; i < YIR_COUNT(lists); i++) {
        key[i] = (struct yir_str){.arena = a};
        for (int k = 0; k < 4 && lists[i][k]; k++) cg_key_text(&key[i], "x", lists[i][k]);
        for (size_t j = 0; j < i; j++)
            cr_expect(key[i].len != key[j].len || memcmp(key[i].text, key[j].text, key[i].len), "%zu %zu", i, j);
    }
    cr_expect_str_eq(key[0].text, "x:1:a\nx:1:b\n");
    yir_arena_free(a);
}

Test(cachedir, digests)
{
    char hex[33];
    struct cg_digest d = cg_digest("", 0); /* XXH3-128's own test value of no input */
    cg_digest_hex(&d, hex);
    cr_expect_str_eq(hex, "99aa06d3014798d86001c324468d497f");
}
