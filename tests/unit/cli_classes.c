#include "frontend/cli/classes.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const names[] = {"person", "traffic light", "7", "cat"};

static uint8_t wanted[4];
static struct cli_error error;

static int parse(const char *list)
{
    memset(wanted, 9, sizeof wanted);
    return cli_classes_parse(list, names, 4, wanted, &error);
}

Test(cli_classes, names_and_numbers)
{
    cr_assert_eq(parse("cat"), 0);
    cr_expect_arr_eq(wanted, ((uint8_t[4]){0, 0, 0, 1}), 4);
    cr_assert_eq(parse("traffic light,0"), 0);
    cr_expect_arr_eq(wanted, ((uint8_t[4]){1, 1, 0, 0}), 4);
    cr_assert_eq(parse("7,3"), 0, "a name wins over a number");
    cr_expect_arr_eq(wanted, ((uint8_t[4]){0, 0, 1, 1}), 4);
}

Test(cli_classes, what_is_unknown_is_named)
{
    static const struct {
        const char *list, *says;
    } cases[] = {{"persn", "did you mean person?"},
                 {"cat,dragon", "no class 'dragon'"},
                 {"4", "no class '4'"},
                 {"-1", "no class '-1'"},
                 {"", "no class ''"},
                 {"cat,", "no class ''"},
                 {"1x", "no class '1x'"},
                 {"99999999999999999999", "no class"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_eq(parse(cases[i].list), -1, "%s", cases[i].list);
        cr_expect_eq(error.exit_code, CLI_BAD_USAGE);
        cr_expect(strstr(error.text, cases[i].says) != NULL, "%s", error.text);
    }
}
