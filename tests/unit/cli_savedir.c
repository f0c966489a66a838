#include "frontend/cli/fileio.h"
#include "frontend/cli/savedir.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64], source[96];

static void setup(void)
{
    struct cli_error e;
    strcpy(folder, "/tmp/cli_savedir.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/a.txt", folder);
    cr_assert_eq(cli_file_write(source, "mine", 4, &e), 0);
}

static void teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(cli_savedir, .init = setup, .fini = teardown);

Test(cli_savedir, a_source_is_never_overwritten)
{
    struct cli_sources s;
    struct cli_savedir d;
    struct cli_error e;
    const char *args[] = {source};
    char *link;
    cr_assert_eq(cli_sources_expand(&s, args, 1, &e), 0);
    cr_assert_eq(cli_savedir_open(&d, folder, &s, &e), 0, "%s", e.text);
    cr_expect_eq(cli_savedir_text(&d, "a", "lost", 4, &e), -1);
    cr_expect(strstr(e.text, "is not overwritten") != NULL, "%s", e.text);
    cr_expect_eq(cli_savedir_text(&d, "b", "new", 3, &e), 0, "%s", e.text);
    link = cli_path_join(folder, "link", "");
    cr_assert_eq(symlink(folder, link), 0);
    cr_assert_eq(cli_savedir_open(&d, link, &s, &e), 0);
    cr_expect_eq(cli_savedir_text(&d, "a", "lost", 4, &e), -1, "by another name");
    free(link);
    cli_sources_free(&s);
}

Test(cli_savedir, folders_above_are_made)
{
    struct cli_sources s = {0};
    struct cli_savedir d;
    struct cli_error e;
    char *deep = cli_path_join(folder, "x/y/z", "/"), *through = cli_path_join(source, "x", "");
    cr_expect_eq(cli_savedir_open(&d, deep, &s, &e), 0, "%s", e.text);
    cr_expect_eq(cli_savedir_text(&d, "b", "", 0, &e), 0, "%s", e.text);
    cr_expect_eq(cli_savedir_open(&d, through, &s, &e), -1);
    cr_expect_eq(e.number, CLI_WRITE);
    cr_expect_eq(cli_savedir_open(&d, source, &s, &e), -1);
    cr_expect(strstr(e.text, "is not a folder") != NULL, "%s", e.text);
    free(deep);
    free(through);
}
