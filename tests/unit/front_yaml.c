/* The yaml reader: scalars as PyYAML types them, positions, refusals, and that size alone does no harm. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/model.h"
#include "longer.h"

struct reading {
    struct yir_arena *arena;
    struct yir_diags *diags;
    const struct fe_value *root;
};

static struct reading read_text(const char *text, size_t len)
{
    struct reading r;
    r.arena = yir_arena_new(NULL, NULL);
    r.diags = yir_diags_new(r.arena, NULL, NULL);
    r.root = fe_yaml_parse(r.arena, r.diags, "t.yaml", text, len);
    return r;
}

static void expect_error(const char *text, enum yir_diag_id id, unsigned line, unsigned col)
{
    struct reading r = read_text(text, strlen(text));
    cr_assert_null(r.root, "%s", text);
    cr_assert_eq(yir_diag_errors(r.diags), 1, "%s", text);
    const struct yir_diag *d = yir_diag_at(r.diags, 0);
    cr_expect_eq(d->id, id, "%s: %s", text, d->rendered);
    cr_expect(d->loc.line == line && d->loc.col == col, "%s: %s", text, d->rendered);
    yir_arena_free(r.arena);
}

/* What PyYAML 6 makes of plain scalars. */
Test(front_yaml, ints)
{
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {{"0", 0},
                {"-0", 0},
                {"12", 12},
                {"-7", -7},
                {"+3", 3},
                {"010", 8},
                {"1_0", 10},
                {"0x10", 16},
                {"-0x1f", -31},
                {"0b101", 5},
                {"0_7", 7},
                {"1:30", 90},
                {"-1:30:00", -5400},
                {"9223372036854775807", INT64_MAX}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct reading r = read_text(rows[i].text, strlen(rows[i].text));
        cr_assert_not_null(r.root);
        cr_expect_eq(r.root->kind, FE_INT, "%s", rows[i].text);
        cr_expect_eq(r.root->i, rows[i].value, "%s", rows[i].text);
        yir_arena_free(r.arena);
    }
}

Test(front_yaml, floats)
{
    static const struct {
        const char *text;
        double value;
    } rows[] = {{"0.33", 0.33},   {"1.", 1},          {".5", 0.5},         {"-2.5", -2.5},
                {"1.0e-3", 1e-3}, {"1.5E+2", 150},    {"08.5", 8.5},       {"1_0.5", 10.5},
                {"1:30.5", 90.5}, {".inf", INFINITY}, {"-.INF", -INFINITY}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct reading r = read_text(rows[i].text, strlen(rows[i].text));
        cr_assert_not_null(r.root);
        cr_expect_eq(r.root->kind, FE_FLOAT, "%s", rows[i].text);
        cr_expect_eq(r.root->f, rows[i].value, "%s", rows[i].text);
        yir_arena_free(r.arena);
    }
}

Test(front_yaml, words)
{
    static const struct {
        const char *text;
        enum fe_kind kind;
    } rows[] = {{"~", FE_NONE},      {"null", FE_NONE}, {"NULL", FE_NONE},       {"yes", FE_BOOL},
                {"Off", FE_BOOL},    {"TRUE", FE_BOOL}, {"None", FE_STR},        {"nUll", FE_STR},
                {"1e-3", FE_STR},    {"1.0e3", FE_STR}, {"08", FE_STR},          {"-.5", FE_STR},
                {"0o10", FE_STR},    {"y", FE_STR},     {"1,5", FE_STR},         {"_1", FE_STR},
                {"0x", FE_STR},      {"1:60", FE_STR},  {"nn.Upsample", FE_STR}, {"'12'", FE_STR},
                {"\"yes\"", FE_STR}, {".", FE_STR},     {"-", FE_LIST}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct reading r = read_text(rows[i].text, strlen(rows[i].text));
        cr_assert_not_null(r.root, "%s", rows[i].text);
        cr_expect_eq(r.root->kind, rows[i].kind, "%s is of kind %d", rows[i].text, r.root->kind);
        yir_arena_free(r.arena);
    }
}

Test(front_yaml, structure_and_positions)
{
    static const char text[] = "nc: 3 # classes\nname: \"\xc3\xa4\xc3\xb6\", # two letters\n";
    static const char rows[] =
        "a:\n  - [-1, 1, Conv, [64, 'x']]\n  - {1: one, two: 2}\n\xc3\xa4: [\xc3\xb6, p]\n";
    struct reading r = read_text(rows, strlen(rows));
    cr_assert_not_null(r.root);
    const struct fe_value *a = fe_get(r.root, "a"), *row = a->item[0], *dict = a->item[1];
    cr_expect(row->kind == FE_LIST && row->n == 4 && row->loc.line == 2 && row->loc.col == 5);
    cr_expect(row->item[2]->kind == FE_STR && row->item[2]->loc.col == 13 && !row->item[2]->quoted);
    cr_expect(row->item[3]->item[1]->quoted);
    cr_expect(dict->kind == FE_DICT && dict->key[0]->kind == FE_INT && strcmp(dict->item[0]->s, "one") == 0);
    const struct fe_value *list = fe_get(r.root, "\xc3\xa4");
    cr_expect(list->item[1]->loc.line == 4 && list->item[1]->loc.col == 10, "column %u counts bytes",
              list->item[1]->loc.col);
    yir_arena_free(r.arena);
    r = read_text(text, strlen(text)); /* something after a quoted text */
    cr_expect_null(r.root);
    yir_arena_free(r.arena);
}

Test(front_yaml, refuses_features)
{
    expect_error("a: !!python/object:os.system x\n", E_YAML_FEATURE, 1, 4);
    expect_error("a: 1\n---\nb: 2\n", E_YAML_FEATURE, 2, 1);
    expect_error("%TAG ! tag:x,2000:\n---\na: 1\n", E_YAML_FEATURE, 1, 1);
}

/* As text in yaml's flow form, what aliases repeat written out. */
static void expect_value(const char *text, const char *expected)
{
    struct reading r = read_text(text, strlen(text));
    cr_assert_not_null(r.root, "%s: %s", text, yir_diag_errors(r.diags) ? yir_diag_at(r.diags, 0)->text : "");
    struct yir_str s = {.arena = r.arena};
    fe_print(&s, r.root);
    cr_expect_str_eq(s.text, expected, "%s", text);
    yir_arena_free(r.arena);
}

/* What PyYAML 6 makes of them: of several mappings the first that has a key gives it; the dict's own keys win. */
Test(front_yaml, aliases)
{
    expect_value("a: &x 1\nb: [*x, *x]\n", "{a: 1, b: [1, 1]}");
    expect_value("a: &x\nb: *x\n", "{a: null, b: null}");
    expect_value("a: &x [1, &z {p: q}]\nb: *x\nc: *z\n", "{a: [1, {p: q}], b: [1, {p: q}], c: {p: q}}");
    expect_value("a: &k nc\n*k : 3\n", "{a: nc, nc: 3}");
    expect_value("&k nc: 3\na: *k\n", "{nc: 3, a: nc}");
    expect_value("- &a Conv\n- &b [*a]\n- *b\n", "[Conv, [Conv], [Conv]]");
}

Test(front_yaml, merge_keys)
{
    expect_value("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n", "{a: {p: 1, q: 2}, b: {p: 1, q: 3}}");
    expect_value("a: &x {p: 1, q: 2}\nb: {c: 9, q: 3, <<: *x}\n", "{a: {p: 1, q: 2}, b: {p: 1, q: 3, c: 9}}");
    expect_value("- &x {p: 1, q: 2}\n- &y {p: 5, z: 6}\n- {<<: [*x, *y]}\n- {<<: *x, <<: *y}\n",
                 "[{p: 1, q: 2}, {p: 5, z: 6}, {p: 1, q: 2, z: 6}, {p: 1, q: 2, z: 6}]");
    expect_value("a: &x {<<: {p: 1}, 1: 2}\nb:\n  <<: *x\n  '1': 3\n", "{a: {p: 1, 1: 2}, b: {p: 1, 1: 2, \"1\": 3}}");
    expect_value("b: {<<: []}\nc: {<<: {}}\n", "{b: {}, c: {}}");
    expect_value("b: {'<<': {a: 1}}\n", "{b: {\"<<\": {a: 1}}}");
}

Test(front_yaml, refuses_aliases)
{
    expect_error("a: [*x]\n", E_YAML_ALIAS, 1, 5);
    expect_error("a: *x\nb: &x 1\n", E_YAML_ALIAS, 1, 4);
    expect_error("a: &x 1\nb: &x 2\n", E_YAML_ALIAS, 2, 4);
    expect_error("a: &x [1, *x]\n", E_YAML_ALIAS, 1, 11);
    expect_error("a: &x {b: {<<: *x}}\n", E_YAML_ALIAS, 1, 16);
    expect_error("b: 1\n<<: 5\n", E_YAML_KEY, 2, 5);
    expect_error("b: {<<: [{}, 1]}\n", E_YAML_KEY, 1, 14);
    expect_error("b: {<<: ~}\n", E_YAML_KEY, 1, 9);
    expect_error("a: &x [1]\n*x : 3\n", E_YAML_KEY, 1, 4);
    expect_error("b: {p: 1, <<: {q: 1}, p: 2}\n", E_YAML_KEY, 1, 23);
}

/* Other encodings and what looks like blanks. A byte order mark in front of UTF-8 is nothing. */
Test(front_yaml, encodings)
{
    static const struct {
        const char *text;
        size_t len;
        bool good;
    } rows[] = {{"\xef\xbb\xbfnc: 2\n", 9, true},
                {"\xff\xfen\0c\0:\0 \0"
                 "2\0",
                 12, false},
                {"\xfe\xff\0n\0c\0:\0 \0"
                 "2",
                 12, false},
                {"a:\n\t- 1\n", 8, false},
                {"nc: \xff\n", 6, false},
                {"nc: \xed\xa0\x80\n", 8, false},
                {"nc: 2\0\n", 7, false},
                {"nc: \x01\n", 6, false}};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct reading r = read_text(rows[i].text, rows[i].len);
        cr_expect_eq(r.root != NULL, rows[i].good, "row %zu", i);
        cr_expect_eq(yir_diag_errors(r.diags) > 0, !rows[i].good, "row %zu", i);
        yir_arena_free(r.arena);
    }
}

Test(front_yaml, refuses_keys)
{
    expect_error("nc: 1\nb: 2\nnc: 3\n", E_YAML_KEY, 3, 1);
    expect_error("1.5: a\n", E_YAML_KEY, 1, 1);
    expect_error("on: a\n", E_YAML_KEY, 1, 1);
    expect_error("[a]: b\n", E_YAML_KEY, 1, 1);
    struct reading r = read_text("1: a\n'1': b\n", 12);
    cr_expect_not_null(r.root, "an integer and a text are two keys");
    yir_arena_free(r.arena);
}

Test(front_yaml, refuses_other_files)
{
    expect_error("<!DOCTYPE html><html>", E_KIND, 0, 0);
    expect_error("", E_KIND, 0, 0);
    expect_error("# nothing\n", E_KIND, 0, 0);
    expect_error("a: [1, 2\n", E_YAML_SYNTAX, 2, 1);
    expect_error("a: 99999999999999999999\n", E_LITERAL, 1, 4);
    expect_error("a: \"x\\0y\"\n", E_YAML_SYNTAX, 1, 4);
    struct reading r = read_text("a\0b", 3);
    cr_expect_null(r.root);
    yir_arena_free(r.arena);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Answered with an error of this number (YIR_DIAG_NONE: read), and within so many milliseconds of this process's time: the
 * least of three and, since a busy machine disturbs caches too, of some more where that is not enough. */
static void expect_soon(const char *text, size_t len, enum yir_diag_id id, double ms, const char *what)
{
    double least = 1e9, most = ms * (TEST_SANITIZED ? 20e-3 : 1e-3);
    for (int i = 0; i < 3 || (i < 20 && least > most); i++) {
        double start = cpu_seconds();
        struct reading r = read_text(text, len);
        double took = cpu_seconds() - start;
        least = took < least ? took : least;
        cr_expect_eq(r.root != NULL, id == YIR_DIAG_NONE, "%s", what);
        if (!r.root) cr_expect_eq(yir_diag_at(r.diags, 0)->id, id, "%s: %s", what, yir_diag_at(r.diags, 0)->text);
        yir_arena_free(r.arena);
    }
    cr_expect_lt(least, most, "%s: %.1f ms", what, least * 1e3);
}

/* n times a piece of text. */
static void expect_limit(const char *head, const char *piece, size_t n, enum yir_diag_id id)
{
    size_t len = strlen(head), step = strlen(piece);
    char *text = malloc(len + n * step + 1), what[24];
    cr_assert_not_null(text);
    memcpy(text, head, len + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(text + len + i * step, piece, step + 1);
    snprintf(what, sizeof what, "%.20s...", text);
    expect_soon(text, len + n * step, id, 50, what);
    free(text);
}

Test(front_yaml, size_does_no_harm)
{
    expect_limit("", "[", 250000, E_LIMIT);
    expect_limit("", "{", 250000, E_YAML_KEY);
    expect_limit("", "- ", 250000, E_LIMIT);
    expect_limit("", "? ", 250000, E_YAML_KEY);
    expect_limit("", "a: ", 300000, E_YAML_SYNTAX);
    expect_limit("[", "[],", 300000, E_LIMIT);
    expect_limit("a: ", "x", (1 << 20) + 1, E_LIMIT);
    expect_limit("a: ", "x", (1 << 20) - 3, YIR_DIAG_NONE);
    expect_limit("a: \"", "x\\n", (1 << 20) / 3 - 3, E_YAML_SYNTAX);
    expect_limit("a: |\n", " x\n", (1 << 20) / 3 - 3, YIR_DIAG_NONE);
    expect_limit("", "&a ", 300000, E_YAML_SYNTAX);
    expect_limit("", "---\n", 250000, E_YAML_FEATURE);
    expect_limit("", "'", 999999, E_YAML_SYNTAX);
    expect_limit("", "\n", 1000000, E_KIND);
    expect_limit("", "#", 1000000, E_KIND);
}

/* n lines, each a list of what the line before names, `wide` times. */
static void put_tower(struct yir_str *s, const char *first, int n, int wide)
{
    yir_str_fmt(s, "a0: &a0 %s\n", first);
    for (int i = 1; i <= n; i++) {
        yir_str_fmt(s, "a%d: &a%d [", i, i);
        for (int k = 0; k < wide; k++)
            yir_str_fmt(s, "%s*a%d", k ? ", " : "", i - 1);
        yir_str_fmt(s, "]\n");
    }
}

/* Values, text and nesting count unfolded, at the alias that is one too many. */
Test(front_yaml, aliases_do_no_harm)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_str s = {.arena = a};
    put_tower(&s, "[lol]", 9, 10);
    expect_soon(s.text, s.len, E_LIMIT, 50, "a billion");
    s.len = 0;
    put_tower(&s, "[x]", 3, 31); /* 3 * 31^3 and some: below 100,000 */
    expect_soon(s.text, s.len, YIR_DIAG_NONE, 50, "as many as may be");
    s.len = 0;
    put_tower(&s, "x", 30, 1);
    expect_soon(s.text, s.len, YIR_DIAG_NONE, 50, "deep");
    s.len = 0;
    put_tower(&s, "x", 32, 1);
    expect_soon(s.text, s.len, E_LIMIT, 50, "too deep");
    s.len = 0;
    yir_str_fmt(&s, "a: &a ");
    for (int i = 0; i < 500000; i++)
        yir_str_put(&s, "x", 1);
    yir_str_fmt(&s, "\nb: [*a]\n");
    expect_soon(s.text, s.len, YIR_DIAG_NONE, 50, "long text twice");
    yir_str_fmt(&s, "c: [*a]\n");
    expect_soon(s.text, s.len, E_LIMIT, 50, "long text three times");
    s.len = 0;
    yir_str_fmt(&s, "a: &a {p: 1}\nb: {<<: [");
    for (int i = 0; i < 200000; i++)
        yir_str_put(&s, "*a,", 3);
    yir_str_fmt(&s, "]}\n");
    expect_soon(s.text, s.len, E_LIMIT, 50, "many merges");
    yir_arena_free(a);
}

Test(front_yaml, too_many_keys)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_str s = {.arena = a};
    for (int i = 0; i < 1000000; i++)
        yir_str_fmt(&s, "k%d: 1\n", i);
    expect_soon(s.text, s.len, E_LIMIT, 50, "a million keys");
    s.len = 0; /* up to the limit of values is read, at some 400 ns each */
    yir_str_put(&s, "{", 1);
    while (s.len < (1 << 20) - 8)
        yir_str_fmt(&s, "%zx,", s.len);
    expect_soon(s.text, s.len, E_LIMIT, 200, "keys of a mebibyte");
    yir_arena_free(a);
}

Test(front_yaml, many_keys)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_str s = {.arena = a};
    for (int i = 0; i < 20000; i++)
        yir_str_fmt(&s, "k%d: 1\n", i);
    struct reading r = read_text(s.text, s.len);
    cr_expect(r.root && r.root->n == 20000);
    yir_arena_free(r.arena);
    yir_str_fmt(&s, "k77: 2\n");
    r = read_text(s.text, s.len);
    cr_expect_null(r.root, "a key stands twice");
    yir_arena_free(r.arena);
    yir_arena_free(a);
}
