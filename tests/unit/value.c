#include "frontend/value.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <string.h>

static struct yir_arena *a;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(value, .init = setup, .fini = teardown);

static const struct yir_loc loc = {.file = 0};

static const char *printed(const struct fe_value *v)
{
    struct yir_str s = {.arena = a};
    fe_print(&s, v);
    return s.text;
}

Test(value, literals_print_as_yaml)
{
    static const struct {
        const char *text, *yaml;
    } rows[] = {
        {"1", "1"},
        {" -7", "-7"},
        {"+3", "3"},
        {"0x1F", "31"},
        {"0o17", "15"},
        {"0b101", "5"},
        {"000", "0"},
        {"1_000", "1000"},
        {"9223372036854775807", "9223372036854775807"},
        {"1e-3", "0.001"},
        {"1E5", "100000.0"},
        {"-1e-05", "-1.0e-05"},
        {"1e300", "1.0e+300"},
        {"1e999", ".inf"},
        {".5", "0.5"},
        {"5.", "5.0"},
        {"0.1", "0.1"},
        {"None", "null"},
        {"True", "true"},
        {"False", "false"},
        {"'abc'", "abc"},
        {"\"it's\"", "\"it's\""},
        {"u'x y'", "x y"},
        {"r'xy'", "xy"},
        {"'a\\n\\x41\\u00e9'", "\"a\\nA\xc3\xa9\""},
        {"'\\ud83d\\ude8c'", "\"\xf0\x9f\x9a\x8c\""},
        {"'true'", "\"true\""},
        {"'3'", "\"3\""},
        {"''", "\"\""},
        {"'nearest'", "nearest"},
        {"[1, 2, [3]]", "[1, 2, [3]]"},
        {"[1,2,]", "[1, 2]"},
        {"[]", "[]"},
        {"()", "[]"},
        {"(1)", "1"},
        {"(1,)", "[1]"},
        {"1, 2", "[1, 2]"},
        {"1,", "[1]"},
        {"{}", "{}"},
        {"{'a': 1, 2: [True]}", "{a: 1, 2: [true]}"},
        {"{1: 'x', 1: 'y'}", "{1: \"y\"}"},
        {"[1,\n 2]", "[1, 2]"},
        {"'\\x1b[m\\x9b'", "\"\\x1b[m\\x9b\""},
        {"'\xc2\x9b\xe2\x80\xae\xc3\xa9'", "\"\\x9b\\u202e\xc3\xa9\""},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        const struct fe_value *v = fe_literal(a, rows[i].text, loc);
        cr_assert(v, "%s", rows[i].text);
        cr_assert_str_eq(printed(v), rows[i].yaml, "%s gives %s", rows[i].text, printed(v));
    }
}

Test(value, what_is_no_literal)
{
    static const char *const texts[] = {"",          " ",
                                        "abc",       "nc",
                                        "1 2",       "[1",
                                        "1]",        "[1 2]",
                                        "[,]",       ",",
                                        "--1",       "-True",
                                        "007",       "1__0",
                                        "1_",        "0x",
                                        "0b2",       "1e",
                                        "1.2.3",     "inf",
                                        "nan",       "9223372036854775808",
                                        "'abc",      "'a\\q'",
                                        "'\\x00'",   "'\\ud800'", "'\\ud83d\\u0041'", "'\\ude8c\\ud83d'",
                                        "b'x'",      "'a' 'b'",
                                        "{1}",       "{1:}",
                                        "{None: 1}", "{[1]: 2}",
                                        "1+2",       "1j",
                                        "f(1)",      "__import__('os')",
                                        "nn.ReLU()", "1\n2",
                                        "True1",     "#x",
                                        "[1] # c",   "1_a",
                                        "0xg",       "'\\xzz'",
                                        "'\\x4'",    "'a\nb'",
                                        "r'a\\b'",   "{1 2}",
                                        "{1, 2}",    "-",
                                        "+'a'",      "-[1]",
                                        "1.5x",      "'\\U00110000'",
                                        "0x1.8p3"};
    for (size_t i = 0; i < YIR_COUNT(texts); i++)
        cr_assert_null(fe_literal(a, texts[i], loc), "%s", texts[i]);
}

Test(value, literals_are_bounded)
{
    static char deep[200], longest[70000];
    memset(deep, '[', 31);
    memset(deep + 31, ']', 31);
    cr_assert_null(fe_literal(a, "'abc\0'", loc), "a text ends at its zero");
    cr_assert(fe_literal(a, deep, loc));
    memset(deep, '[', 40);
    memset(deep + 40, ']', 40);
    cr_assert_null(fe_literal(a, deep, loc));
    memset(longest, ' ', sizeof longest - 2);
    longest[sizeof longest - 2] = '1';
    cr_assert_null(fe_literal(a, longest, loc));
    memset(longest, '0', sizeof longest);
    for (size_t n = 100; n < 200; n++) { /* a number has at most 126 digits */
        longest[n] = 0;
        cr_assert_eq(fe_literal(a, longest, loc) != NULL, n <= 126, "%zu", n);
        longest[n] = '0';
    }
}

Test(value, reading)
{
    const struct fe_value *d = fe_literal(a, "{'i': 3, 'f': 2.0, 'g': 2.5, 's': 'x', 'b': True, 7: 1}", loc);
    int64_t i = 0;
    double f = 0;
    cr_assert(fe_as_int(fe_get(d, "i"), &i) && i == 3);
    cr_assert(fe_as_int(fe_get(d, "f"), &i) && i == 2);
    cr_assert_not(fe_as_int(fe_get(d, "g"), &i));
    cr_assert_not(fe_as_int(fe_get(d, "s"), &i));
    cr_assert_not(fe_as_int(fe_get(d, "b"), &i));
    cr_assert(fe_as_float(fe_get(d, "g"), &f) && f == 2.5);
    cr_assert(fe_as_float(fe_get(d, "i"), &f) && f == 3.0);
    cr_assert_not(fe_as_float(fe_get(d, "missing"), &f));
    cr_assert_null(fe_get(d, "7"));
    cr_assert_null(fe_get(NULL, "i"));
    cr_assert_null(fe_get(fe_get(d, "i"), "i"));
}

Test(value, describing)
{
    cr_assert_str_eq(fe_describe(a, fe_literal(a, "'abc'", loc)), "the string 'abc'");
    cr_assert_str_eq(fe_describe(a, fe_literal(a, "5", loc)), "the integer 5");
    cr_assert_str_eq(fe_describe(a, fe_literal(a, "2.5", loc)), "the number 2.5");
    cr_assert_str_eq(fe_describe(a, fe_literal(a, "None", loc)), "null");
    cr_assert_str_eq(fe_describe(a, fe_literal(a, "[1, 2]", loc)), "a list of 2");
    cr_assert_str_eq(fe_describe(a, fe_literal(a, "{}", loc)), "a mapping");
    cr_assert_str_eq(fe_describe(a, NULL), "nothing");
}

/* A program around the library may use decimal commas. */
Test(value, locale_does_not_matter)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8"))
        cr_skip("no locale with a decimal comma");
    cr_assert_str_eq(printed(fe_literal(a, "1.5", loc)), "1.5");
}
