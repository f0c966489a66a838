#include "frontend/cli/fileio.h"
#include "frontend/cli/sources.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[4][160];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static void make(const char *name)
{
    struct cli_error e;
    cr_assert_eq(cli_file_write(in_folder(name), "x", 1, &e), 0, "%s", e.text);
}

static void setup(void)
{
    static const char *const files[] = {"b.JPG", "a.png", "c.jpeg", "notes.txt", ".hidden.jpg", "noending",
                                        "sub/a.jpg", "sub/a-2.jpg", "sub/a.png"};
    strcpy(folder, "/tmp/cli_sources.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    mkdir(in_folder("sub"), 0700);
    mkdir(in_folder("empty"), 0700);
    mkdir(in_folder("folder.jpg"), 0700);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        make(files[i]);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli_sources, .init = setup, .fini = teardown);

static void expect(const struct cli_sources *s, size_t i, const char *name, const char *stem)
{
    cr_assert_lt(i, s->n);
    cr_expect_str_eq(s->at[i].path, in_folder(name));
    cr_expect_str_eq(s->at[i].stem, stem);
}

Test(cli_sources, a_folder_gives_its_pictures_by_name)
{
    struct cli_sources s;
    struct cli_error e;
    const char *args[] = {folder};
    cr_assert_eq(cli_sources_expand(&s, args, 1, &e), 0, "%s", e.text);
    cr_assert_eq(s.n, 3);
    expect(&s, 0, "a.png", "a");
    expect(&s, 1, "b.JPG", "b");
    expect(&s, 2, "c.jpeg", "c");
    cli_sources_free(&s);
}

Test(cli_sources, files_keep_their_order_whatever_their_name)
{
    struct cli_sources s;
    struct cli_error e;
    const char *args[] = {in_folder("notes.txt"), in_folder("a.png"), in_folder("noending")};
    cr_assert_eq(cli_sources_expand(&s, args, 3, &e), 0, "%s", e.text);
    expect(&s, 0, "notes.txt", "notes");
    expect(&s, 2, "noending", "noending");
    cli_sources_free(&s);
}

/* Outputs are named by stems: none may overwrite another. */
Test(cli_sources, equal_stems_are_numbered)
{
    struct cli_sources s;
    struct cli_error e;
    const char *args[] = {in_folder("a.png"), in_folder("sub/")};
    cr_assert_eq(cli_sources_expand(&s, args, 2, &e), 0, "%s", e.text);
    cr_assert_eq(s.n, 4);
    expect(&s, 0, "a.png", "a");
    expect(&s, 1, "sub/a-2.jpg", "a-2");
    expect(&s, 2, "sub/a.jpg", "a-3");
    expect(&s, 3, "sub/a.png", "a-4");
    cli_sources_free(&s);
}

Test(cli_sources, what_is_missing_is_named)
{
    struct cli_sources s;
    struct cli_error e;
    const char *missing[] = {in_folder("a.png"), in_folder("nowhere.jpg")}, *empty[] = {in_folder("empty")};
    cr_expect_eq(cli_sources_expand(&s, missing, 2, &e), -1);
    cr_expect(strstr(e.text, "nowhere.jpg: No such file") != NULL, "%s", e.text);
    cr_expect_eq(e.exit_code, CLI_BAD_INPUT);
    cr_expect_eq(cli_sources_expand(&s, empty, 1, &e), -1);
    cr_expect(strstr(e.text, "empty: the folder holds no") != NULL, "%s", e.text);
}

/* None of these may make the command wait, or fill its memory. */
Test(cli_sources, no_waiting_for_what_is_no_file)
{
    static const struct {
        const char *path, *text;
    } rows[] = {{"/dev/zero", "is a device"}, {"/dev/null", "is a device"}, {"/tmp", "is a folder"}};
    struct cli_error e;
    uint8_t *bytes;
    size_t n;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(cli_file_read(rows[i].path, 1 << 20, &bytes, &n, &e), -1);
        cr_expect(strstr(e.text, rows[i].text) != NULL, "%s", e.text);
    }
    cr_assert_eq(mkfifo(in_folder("pipe.png"), 0600), 0);
    cr_assert_eq(cli_file_read(in_folder("pipe.png"), 1 << 20, &bytes, &n, &e), 0, "%s", e.text);
    cr_expect_eq(n, 0);
    free(bytes);
}

/* A pipe stands for devices: as root, a file would take the place of the machine's own. */
Test(cli_sources, an_output_replaces_no_device)
{
    struct cli_error e;
    struct stat st;
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("fifo"));
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(cli_file_write(path, "x", 1, &e), -1);
    cr_expect_eq(e.exit_code, CLI_NO_RESOURCE);
    cr_expect(strstr(e.text, "not a regular file") != NULL, "%s", e.text);
    cr_expect(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

Test(cli_sources, where_an_output_may_be_written)
{
    struct cli_error e;
    cr_expect_eq(cli_output_check(in_folder("a.png"), &e), 0);
    cr_expect_eq(cli_output_check(in_folder("new"), &e), 0);
    cr_expect_eq(cli_output_check(in_folder("sub"), &e), -1);
    cr_expect(strstr(e.text, "is a folder") != NULL, "%s", e.text);
    cr_expect_eq(cli_output_check("/dev/null", &e), -1);
    cr_expect(strstr(e.text, "not a regular file") != NULL, "%s", e.text);
    cr_expect_eq(cli_output_check(in_folder("absent/new"), &e), -1);
    cr_expect_eq(e.exit_code, CLI_NO_RESOURCE);
    cr_expect_eq(cli_output_check(in_folder("a.png/new"), &e), -1);
    cr_expect_eq(cli_output_spares(in_folder("sub/../a.png"), in_folder("a.png"), &e), -1);
    cr_expect_eq(e.exit_code, CLI_BAD_USAGE);
    cr_expect_eq(cli_output_spares(in_folder("new"), in_folder("a.png"), &e), 0);
    cr_expect_eq(cli_output_spares(in_folder("a.png"), NULL, &e), 0);
}
