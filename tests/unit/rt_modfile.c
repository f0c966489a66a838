/* Modules in files: what is no module's file, files that change meanwhile, and large ones. */
#include <criterion/criterion.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "modbuild.h"
#include "runtime/file.h"
#include "runtime/yolort.h"

static char text[512]; /* of the last failure */

static char folder[32], path[64];

static void enter_folder(void)
{
    const char *scratch = getenv("YOLOC_TEST_SCRATCH");
    strcpy(folder, "rt_modfileXXXXXX");
    cr_assert(!chdir(scratch ? scratch : "/tmp") && mkdtemp(folder));
}

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    FILE *f = fopen(in_folder(name), "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
}

static yolort_status load_path(const char *p)
{
    yolort_module *m = NULL;
    yolort_status s = yolort_load_file(&m, p, text, sizeof text);
    if (s) cr_expect(!strncmp(text, p, strlen(p)), "%s", text);
    yolort_module_free(m);
    return s;
}

/* Loads `path`, which only root could read, as somebody else; relative to its folder, that the way there does not matter. */
static int load_as_nobody(void)
{
    int status;
    chmod(folder, 0755);
    pid_t child = fork();
    if (!child) {
        yolort_module *m = NULL;
        if (chdir(folder) || (geteuid() == 0 && (setgid(65534) || setuid(65534)))) _exit(99);
        _exit(yolort_load_file(&m, strrchr(path, '/') + 1, NULL, 0));
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(rt_modfile, files)
{
    struct modbuild b;
    size_t size;
    enter_folder();
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    write_file("good", bytes, size);
    cr_expect_eq(load_path(path), YOLORT_OK, "%s", text);
    bytes[size / 2] ^= 1;
    write_file("bad", bytes, size);
    cr_expect_eq(load_path(path), YOLORT_INTEGRITY);
    write_file("empty", bytes, 0);
    cr_expect_eq(load_path(path), YOLORT_FORMAT);
    cr_expect_eq(load_path(in_folder("absent")), YOLORT_IO);
    cr_expect_eq(load_path(folder), YOLORT_FORMAT);
    cr_expect_eq(load_path("/dev/zero"), YOLORT_FORMAT);
    /* procfs says 0 bytes and sysfs a page, whatever there is to read: a file that grows or shrinks meanwhile. */
    cr_expect_eq(load_path("/proc/self/status"), YOLORT_IO);
    cr_expect(strstr(text, "grew"), "%s", text);
    if (!access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK)) {
        cr_expect_eq(load_path("/sys/kernel/mm/transparent_hugepage/enabled"), YOLORT_IO);
        cr_expect(strstr(text, "shrank"), "%s", text);
    }
    cr_assert_eq(mkfifo(in_folder("fifo"), 0600), 0);
    cr_expect_eq(load_path(path), YOLORT_FORMAT);
    int fd = open(in_folder("huge"), O_CREAT | O_WRONLY, 0600);
    if (fd >= 0 && !ftruncate(fd, (off_t)((8ull << 30) + 1))) cr_expect_eq(load_path(path), YOLORT_LIMIT);
    if (fd >= 0) close(fd);
    write_file("closed", bytes, size);
    chmod(path, 0);
    cr_expect_eq(load_as_nobody(), YOLORT_IO);
    static const char *const made[] = {"good", "bad", "empty", "fifo", "huge", "closed"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) unlink(in_folder(made[i]));
    rmdir(folder);
    free(bytes);
}

/* Several threads read a large file, and its digest is that of what they read. */
Test(rt_modfile, large_files)
{
    enum { LARGE = (16 << 20) + (5 << 20) + 77, DIGEST_AT = 24 };
    struct rt_block b;
    struct rt_taken_digest taken;
    uint8_t *bytes = malloc(LARGE), whole[RT_DIGEST], other[RT_DIGEST];
    enter_folder();
    cr_assert(bytes);
    uint32_t v = 1;
    for (size_t i = 0; i < LARGE; i++) bytes[i] = (uint8_t)((v = v * 1664525u + 1013904223u) >> 24);
    cr_assert_eq(rt_digest(bytes, LARGE, DIGEST_AT, NULL, whole), 0);
    for (int damaged = 0; damaged < 2; damaged++) {
        bytes[LARGE - 1 - (damaged << 20)] ^= (uint8_t)damaged;
        write_file("large", bytes, LARGE);
        cr_assert_eq(rt_file_read(&b, &taken, path, LARGE, NULL), YOLORT_OK);
        cr_expect(taken.taken && b.size == LARGE && !memcmp(b.data, bytes, LARGE));
        cr_expect_eq(!memcmp(taken.bytes, whole, sizeof whole), !damaged);
        cr_assert_eq(rt_digest(b.data, LARGE, DIGEST_AT, NULL, other), 0);
        cr_expect(!memcmp(taken.bytes, other, sizeof other));
        rt_block_free(&b);
    }
    cr_expect_eq(rt_file_read(&b, &taken, path, LARGE - 1, NULL), YOLORT_LIMIT);
    memcpy(bytes, "YOLOCMOD", 8);
    write_file("large", bytes, LARGE);
    cr_expect_neq(load_path(path), YOLORT_OK);
    unlink(path);
    rmdir(folder);
    free(bytes);
}
