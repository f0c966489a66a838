#include "frontend/outfile.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "readcheck.h"

static char folder[128];

static void setup(void)
{
    const char *base = getenv("YOLOC_TEST_SCRATCH");
    snprintf(folder, sizeof folder, "%.100s/wXXXXXX", base ? base : ".");
    cr_assert(mkdtemp(folder));
}

static size_t files_left(void)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static void teardown(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(outfile, .init = setup, .fini = teardown);

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static struct yir_diags *fresh(struct yir_arena **a)
{
    *a = yir_arena_new(NULL, NULL);
    return yir_diags_new(*a, NULL, NULL);
}

Test(outfile, safetensors_are_read_back)
{
    static const float x[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t y[] = {7};
    const struct fe_out_tensor t[] = {
        {"x", YIR_F32, 2, {2, 3}, x}, {"y \"\xc3\xa9", YIR_U8, 0, {0}, y}, {"none", YIR_F16, 1, {0}, x}};
    struct yir_arena *a;
    struct yir_diags *d = fresh(&a);
    for (int again = 0; again < 2; again++)
        cr_assert_eq(fe_safetensors_write(a, d, in_folder("o.safetensors"), t, 3), 0);
    struct readcheck r = readcheck_file(in_folder("o.safetensors"));
    cr_assert(r.w && r.w->ntensor == 3, "%s", readcheck_text(&r));
    float v[6];
    fe_tensor_f32(fe_weights_find(r.w, "x"), v);
    cr_assert_arr_eq(v, x, sizeof x);
    cr_assert_eq(*(const uint8_t *)fe_weights_find(r.w, "y \"\xc3\xa9")->data, 7);
    cr_assert_eq((uintptr_t)r.w->tensor[0].data % 4, 0u);
    readcheck_end(&r);
    cr_assert_eq(files_left(), 1u);
    const struct fe_out_tensor bad = {"\xff", YIR_U8, 0, {0}, y};
    cr_assert_neq(fe_safetensors_write(a, d, in_folder("bad"), &bad, 1), 0);
    cr_assert_eq(files_left(), 1u);
    yir_arena_free(a);
}

Test(outfile, refuses_what_is_no_file)
{
    struct yir_arena *a;
    struct yir_diags *d = fresh(&a);
    cr_assert_eq(mkdir(in_folder("dir"), 0777), 0);
    cr_assert_eq(mkfifo(in_folder("pipe"), 0666), 0);
    static const char *const names[] = {"dir", "pipe", "missing/file", "new/", "dir/"};
    for (size_t i = 0; i < YIR_COUNT(names); i++) {
        cr_assert_neq(fe_outfile_put(d, in_folder(names[i]), "x", 1), 0, "%s", names[i]);
        cr_assert_eq(yir_diag_at(d, i)->id, E_WRITE);
    }
    cr_assert_neq(fe_outfile_put(d, "", "x", 1), 0);
    cr_assert_eq(files_left(), 2u);
    /* A device of our own: with the check broken, the machine's would be replaced. */
    if (mknod(in_folder("null"), S_IFCHR | 0666, makedev(1, 3)) == 0)
        cr_assert_neq(fe_outfile_put(d, in_folder("null"), "x", 1), 0);
    yir_arena_free(a);
}

Test(outfile, appears_at_commit_and_not_before)
{
    struct yir_arena *a;
    struct yir_diags *d = fresh(&a);
    struct fe_outfile o;
    char text[8] = "";
    cr_assert_eq(fe_outfile_put(d, in_folder("f"), "old", 3), 0);
    cr_assert_eq(fe_outfile_open(&o, d, in_folder("f")), 0);
    cr_assert_eq(fe_outfile_write(&o, d, "new", 3), 0);
    fe_outfile_abort(&o);
    fe_outfile_abort(&o);
    cr_assert_neq(fe_outfile_commit(&o, d), 0);
    cr_assert_eq(files_left(), 1u);
    int fd = open(in_folder("f"), O_RDONLY);
    cr_assert(read(fd, text, 7) == 3 && strcmp(text, "old") == 0);
    close(fd);
    cr_assert_eq(fe_outfile_open(&o, d, in_folder("f")), 0);
    cr_assert_eq(fe_outfile_write(&o, d, "newer", 5), 0);
    cr_assert_eq(fe_outfile_commit(&o, d), 0);
    fd = open(in_folder("f"), O_RDONLY);
    cr_assert(read(fd, text, 7) == 5 && strcmp(text, "newer") == 0);
    close(fd);
    cr_assert_eq(files_left(), 1u);
    yir_arena_free(a);
}

Test(outfile, writes_through_a_link)
{
    struct yir_arena *a;
    struct yir_diags *d = fresh(&a);
    struct stat st;
    char target[256];
    snprintf(target, sizeof target, "%s", in_folder("target"));
    cr_assert_eq(fe_outfile_put(d, target, "old", 3), 0);
    cr_assert_eq(symlink("target", in_folder("link")), 0);
    cr_assert_eq(fe_outfile_put(d, in_folder("link"), "longer", 6), 0);
    cr_assert(lstat(in_folder("link"), &st) == 0 && S_ISLNK(st.st_mode));
    cr_assert(stat(target, &st) == 0 && st.st_size == 6);
    yir_arena_free(a);
}

Test(outfile, full_disk)
{
    struct yir_arena *a;
    struct yir_diags *d = fresh(&a);
    struct fe_outfile o;
    cr_assert_eq(fe_outfile_open(&o, d, in_folder("f")), 0);
    /* A descriptor that cannot be written stands for a disk that is full. */
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) cr_skip("no /dev/full");
    cr_assert_eq(dup2(fd, o.fd), o.fd);
    close(fd);
    cr_assert_neq(fe_outfile_write(&o, d, "x", 1), 0);
    cr_assert_eq(yir_diag_at(d, 0)->id, E_WRITE);
    cr_assert_eq(o.fd, -1);
    cr_assert_eq(files_left(), 0u);
    yir_arena_free(a);
}
