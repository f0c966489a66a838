/* What pruning removes beside records and results. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cachebox.h"
#include "codegen/leftover.h"

#define KEY "0123456789abcdef0123456789abcdef"
static char box[192];

static void setup(void)
{
    cachebox_path(box, true);
}

static void teardown(void)
{
    cachebox_remove(box);
}

TestSuite(leftover, .init = setup, .fini = teardown);

static void make(const char *name, long age)
{
    char path[320];
    const struct timespec t[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    snprintf(path, sizeof path, "%s/%s", box, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    cr_assert(fd >= 0 && close(fd) == 0 && utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW) == 0);
}

static void make_folder(const char *name)
{
    char path[320];
    snprintf(path, sizeof path, "%s/%s", box, name);
    cr_assert_eq(mkdir(path, 0700), 0);
}

Test(leftover, what_goes)
{
    struct cachebox b;
    cachebox_open(&b, box, 0);
    make(KEY ".yoloc", 5000);
    make("1" KEY ".yoloc", 5000);
    make("users.yoloc", 5000);
    make("tuning.sqlite.corrupt-1", 0);
    make("tuning.sqlite.corrupt-1-wal", 0);
    make_folder("tuning.sqlite.corrupt-2");
    cr_expect_eq(cg_leftovers_prune(b.dir, -1, false), 2u);
    cr_expect_eq(cg_leftovers_prune(b.dir, 6000, false), 0u);
    cr_expect(cachebox_has(box, KEY ".yoloc"));
    cr_expect_eq(cg_leftovers_prune(b.dir, 4000, false), 1u);
    make(KEY ".yoloc", 0);
    cr_expect_eq(cg_leftovers_prune(b.dir, 4000, false), 0u);
    cr_expect_eq(cg_leftovers_prune(b.dir, -1, true), 1u);
    cr_expect(cachebox_has(box, "1" KEY ".yoloc") && cachebox_has(box, "users.yoloc") && cachebox_has(box, "tuning.sqlite"));
    cr_expect_eq(cg_leftovers_prune(NULL, -1, true), 0u);
    cachebox_close(&b);
}
