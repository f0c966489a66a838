#include "frontend/cli/cache.h"
#include "frontend/cli/fileio.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char above[64], folder[96];

static void setup(void)
{
    strcpy(above, "/tmp/cli_cache.XXXXXX");
    cr_assert_not_null(mkdtemp(above));
    snprintf(folder, sizeof folder, "%s/yoloc", above);
    setenv("XDG_CACHE_HOME", above, 1);
    cr_assert_not_null(freopen("/dev/null", "w", stderr)); /* warnings are wanted here */
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", above);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli_cache, .init = setup, .fini = teardown);

static void key_of(char key[64], const char *module, int height, int width)
{
    cli_cache_key(key, module, strlen(module), height, width);
}

Test(cli_cache, what_is_put_is_found)
{
    struct cli_cache c;
    struct cli_error e;
    struct stat st;
    char key[64], other[64];
    uint8_t *bytes;
    size_t n;
    cli_cache_open(&c);
    cr_assert_not_null(c.folder);
    cr_assert_eq(stat(folder, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0700);
    key_of(key, "module", 64, 96);
    key_of(other, "module", 96, 64);
    cr_expect_str_neq(key, other);
    key_of(other, "modulf", 64, 96);
    cr_expect_str_neq(key, other);
    cr_expect_null(cli_cache_find(&c, key));
    cli_cache_put(&c, key, "compiled", 8);
    char *path = cli_cache_find(&c, key);
    cr_assert_not_null(path);
    cr_assert_eq(cli_file_read(path, 100, &bytes, &n, &e), 0, "%s", e.text);
    cr_expect(n == 8 && memcmp(bytes, "compiled", 8) == 0);
    cr_expect_null(cli_cache_find(&c, other));
    free(bytes);
    free(path);
    cli_cache_close(&c);
}

/* What is found is executed: a folder that others can write is not ours to trust. */
Test(cli_cache, folders_of_others_are_refused)
{
    struct cli_cache c;
    cr_assert_eq(mkdir(folder, 0700), 0);
    chmod(folder, 0770);
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    chmod(folder, 0701);
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    rmdir(folder);
    cr_assert_eq(symlink("/tmp", folder), 0);
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    unlink(folder);
    fclose(fopen(folder, "w"));
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    cli_cache_put(&c, "key", "x", 1);
    cr_expect_null(cli_cache_find(&c, "key"));
}

Test(cli_cache, entries_of_others_are_refused)
{
    struct cli_cache c;
    char path[160];
    cli_cache_open(&c);
    cr_assert_not_null(c.folder);
    snprintf(path, sizeof path, "%s/key.yoloc", folder);
    cr_assert_eq(symlink("/etc/hostname", path), 0);
    cr_expect_null(cli_cache_find(&c, "key"));
    unlink(path);
    cli_cache_put(&c, "key", "x", 1);
    chmod(path, 0666);
    cr_expect_null(cli_cache_find(&c, "key"));
    cli_cache_close(&c);
}

Test(cli_cache, no_folder_at_all)
{
    struct cli_cache c;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    setenv("XDG_CACHE_HOME", "relative", 1);
    cli_cache_open(&c);
    cr_expect_null(c.folder);
}

Test(cli_cache, environment)
{
    struct cli_cache c;
    char own[128];
    snprintf(own, sizeof own, "%s/own", above);
    setenv("YOLOC_CACHE_DIR", own, 1);
    cli_cache_open(&c);
    cr_assert_not_null(c.folder);
    cr_expect_str_eq(c.folder, own);
    cli_cache_close(&c);
    setenv("YOLOC_CACHE", "off", 1);
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    cr_expect_neq(access(folder, F_OK), 0);
    setenv("YOLOC_CACHE", "banana", 1);
    cli_cache_open(&c);
    cr_expect_null(c.folder);
    setenv("YOLOC_CACHE", "on", 1);
    cli_cache_open(&c);
    cr_expect_not_null(c.folder);
    cli_cache_close(&c);
    unsetenv("YOLOC_CACHE");
    unsetenv("YOLOC_CACHE_DIR");
}

/* A umask that lets others write must not make entries that are then refused. */
Test(cli_cache, entries_are_closed_to_others)
{
    struct cli_cache c;
    struct stat st;
    char key[64];
    umask(0);
    cli_cache_open(&c);
    key_of(key, "module", 64, 96);
    cli_cache_put(&c, key, "compiled", 8);
    char *path = cli_cache_find(&c, key);
    cr_assert_not_null(path);
    cr_assert_eq(stat(path, &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0600);
    free(path);
    cli_cache_close(&c);
}

static void make_file(const char *name, time_t age)
{
    char path[160];
    struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fclose(f);
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int is_there(const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

Test(cli_cache, leftovers_of_killed_writers_go)
{
    struct cli_cache c;
    char key[64];
    cli_cache_open(&c);
    make_file("00ff.yoloc.a1B2c3", 7200);
    make_file("00ff.yoloc.d4E5f6", 60); /* may still be written */
    make_file("00ff.yoloc", 7200);
    key_of(key, "module", 64, 96);
    cli_cache_put(&c, key, "compiled", 8);
    cr_expect_not(is_there("00ff.yoloc.a1B2c3"));
    cr_expect(is_there("00ff.yoloc.d4E5f6"));
    cr_expect(is_there("00ff.yoloc"));
    cli_cache_close(&c);
}
