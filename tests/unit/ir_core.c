#include <criterion/criterion.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include "ir/ir.h"

static struct yir_arena *arena;

static void setup(void)
{
    arena = yir_arena_new(NULL, NULL);
}

static void teardown(void)
{
    yir_arena_free(arena);
}

TestSuite(ir_core, .init = setup, .fini = teardown);

/* --- arena -------------------------------------------------------------------------------------------------- */

Test(ir_core, arena_memory_is_aligned_zeroed_and_apart)
{
    unsigned char *last = NULL;
    for (size_t size = 0; size < 300; size++) {
        unsigned char *p = yir_alloc(arena, size);
        cr_assert_eq((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++) cr_assert_eq(p[i], 0);
        memset(p, 0xee, size);
        cr_assert_neq(p, last);
        last = p;
    }
    unsigned char *big = yir_alloc(arena, (size_t)20 << 20);
    cr_assert_eq(big[((size_t)20 << 20) - 1], 0);
}

Test(ir_core, growing_keeps_contents)
{
    size_t cap = 0;
    int *v = NULL;
    for (int i = 0; i < 1000; i++) {
        v = yir_grow(arena, v, &cap, (size_t)i + 1, sizeof *v);
        cr_assert_geq(cap, (size_t)i + 1);
        v[i] = i;
    }
    for (int i = 0; i < 1000; i++) cr_assert_eq(v[i], i);
    for (size_t i = 1000; i < cap; i++) cr_assert_eq(v[i], 0);
}

Test(ir_core, reset_gives_memory_back)
{
    yir_alloc(arena, 100);
    struct yir_arena_mark m = yir_arena_mark(arena);
    size_t before = yir_arena_used(arena);
    unsigned char *first = yir_alloc(arena, 64);
    memset(first, 1, 64);
    yir_alloc(arena, (size_t)3 << 20);
    yir_arena_reset(arena, m);
    cr_assert_eq(yir_arena_used(arena), before);
    unsigned char *again = yir_alloc(arena, 64);
    cr_assert_eq(again, first);
    cr_assert_eq(again[63], 0, "memory used before must come zeroed");
}

static char released[8];

static void release(void *p)
{
    strncat(released, p, 1);
}

Test(ir_core, deferred_releases_run_newest_first)
{
    static char a[] = "a", b[] = "b", c[] = "c";
    struct yir_arena *own = yir_arena_new(NULL, NULL);
    yir_arena_defer(own, release, a);
    yir_arena_defer(own, release, b);
    yir_arena_defer(own, release, c);
    yir_arena_free(own);
    cr_assert_str_eq(released, "cba");
}

static jmp_buf out_of_memory;

static void on_oom(void *user)
{
    *(int *)user += 1;
    longjmp(out_of_memory, 1);
}

Test(ir_core, running_out_of_memory_calls_the_handler)
{
    static int calls;
    static struct yir_arena *own;
    own = yir_arena_new(on_oom, &calls);
    if (!setjmp(out_of_memory)) yir_alloc(own, SIZE_MAX);
    if (!setjmp(out_of_memory)) yir_alloc_n(own, SIZE_MAX / 4, 8);
    size_t cap = 0;
    if (!setjmp(out_of_memory)) yir_grow(own, NULL, &cap, SIZE_MAX / 2 + 2, 1);
    cr_assert_eq(calls, 3);
    yir_arena_free(own);
}

Test(ir_core, text_grows)
{
    struct yir_str s = {.arena = arena};
    for (int i = 0; i < 500; i++) yir_str_fmt(&s, "%d,", i % 10);
    cr_assert_eq(s.len, 1000);
    cr_assert_eq(strlen(s.text), 1000);
    yir_str_put(&s, "a\0b", 3);
    cr_assert_eq(s.len, 1003);
    cr_assert_str_eq(yir_format(arena, "%s-%03d", "x", 7), "x-007");
    cr_assert_str_eq(yir_strndup(arena, "abcdef", 3), "abc");
}

/* --- types -------------------------------------------------------------------------------------------------- */

static struct yir_tdesc desc(int64_t a, int64_t b, int64_t c, int64_t d, enum yir_layout l)
{
    return (struct yir_tdesc){.dtype = YIR_F32, .layout = l, .rank = 4, .dim = {a, b, c, d}};
}

Test(ir_core, equal_types_have_equal_ids)
{
    struct yir_types *t = yir_types_new(arena);
    yir_type seen[1000];
    for (int i = 0; i < 1000; i++) {
        struct yir_tdesc d = desc(1, i + 1, 8, 8, i % 2 ? YIR_NHWC : YIR_NCHW);
        seen[i] = yir_type_of(t, &d);
        cr_assert_neq(seen[i].id, 0);
        if (i) cr_assert_neq(seen[i].id, seen[i - 1].id);
    }
    for (int i = 0; i < 1000; i++) {
        struct yir_tdesc d = desc(1, i + 1, 8, 8, i % 2 ? YIR_NHWC : YIR_NCHW);
        d.dim[4] = d.dim[5] = 99; /* beyond the rank: no part of the type */
        cr_assert_eq(yir_type_of(t, &d).id, seen[i].id);
        d.dtype = YIR_F16;
        cr_assert_neq(yir_type_of(t, &d).id, seen[i].id);
    }
    cr_assert_eq(yir_numel(yir_tdesc(t, seen[2])), 3 * 64);
}

Test(ir_core, strides_follow_the_layout)
{
    int64_t s[YIR_MAX_RANK];
    struct yir_tdesc d = desc(2, 3, 5, 7, YIR_NCHW);
    yir_dense_strides(&d, s);
    cr_assert(s[0] == 105 && s[1] == 35 && s[2] == 7 && s[3] == 1);
    d.layout = YIR_NHWC;
    yir_dense_strides(&d, s);
    cr_assert(s[0] == 105 && s[1] == 1 && s[2] == 21 && s[3] == 3);
    cr_assert(yir_pixel_strides(&d, 16, s));
    cr_assert(s[0] == 16 * 35 && s[1] == 1 && s[2] == 16 * 7 && s[3] == 16);
    cr_assert_not(yir_pixel_strides(&d, INT64_MAX / 8, s));
    cr_assert_not(yir_pixel_strides(&d, -1, s));
}

/* --- diagnostics -------------------------------------------------------------------------------------------- */

static const char yaml[] = "nc: 80\n\tkopf: \xc3\xa4\xc3\xa4 x\n";

Test(ir_core, a_diagnostic_shows_the_line_and_a_caret)
{
    struct yir_diags *d = yir_diags_new(arena, NULL, NULL);
    uint32_t file = yir_diag_file(d, "a.yaml", yaml, strlen(yaml));
    cr_assert_eq(yir_diag(d, (struct yir_loc){file, 1, 5}, E_NC, "%d classes", 80), -1);
    cr_assert_str_eq(yir_diag_at(d, 0)->text, "80 classes");
    cr_assert_str_eq(yir_diag_at(d, 0)->rendered, "a.yaml:1:5: error: 80 classes [E114]\n"
                                                  "    1 | nc: 80\n"
                                                  "      |     ^");
    /* The tab is one blank, two bytes of UTF-8 are one column. */
    yir_diag(d, (struct yir_loc){file, 2, 13}, W_YAML, "here");
    cr_assert_str_eq(yir_diag_at(d, 1)->rendered, "a.yaml:2:13: warning: here [W152]\n"
                                                  "    2 |  kopf: \xc3\xa4\xc3\xa4 x\n"
                                                  "      |           ^");
    yir_diag_note(d, (struct yir_loc){file, 1, 1}, "first");
    cr_assert_str_eq(yir_diag_at(d, 2)->rendered, "a.yaml:1:1: note: first\n"
                                                  "    1 | nc: 80\n"
                                                  "      | ^");
    cr_assert_eq(yir_diag_errors(d), 1);
    cr_assert_eq(yir_diag_class(d), YIR_CLASS_INPUT);
}

Test(ir_core, text_for_a_line)
{
    static const char plain[] = "a b \xc3\xa9~";
    cr_assert_eq(yir_printable(arena, plain), plain);
    cr_assert_str_eq(yir_printable(arena, "\n"), "\\x0a");
    cr_assert_str_eq(yir_printable(arena, "a\x1b[31m\x7f\xc3\xa9"), "a\\x1b[31m\\x7f\xc3\xa9");
    cr_assert_str_eq(yir_printable(arena, ""), "");
    cr_assert_str_eq(yir_printable(arena, "\xc2\x9b\x9b\xe2\x80\xae\xe2\x80\x90\xed\xa0\x80\xe2"),
                     "\\xc2\\x9b\\x9b\\xe2\\x80\\xae\xe2\x80\x90\\xed\\xa0\\x80\\xe2");
}

/* The line of the file under an error, and the caret below it. */
Test(ir_core, source_lines_are_harmless)
{
    static const char text[] = "a\x1b[1m\xc2\x9b\xff\xe2\x80\xae\xc3\xa9: x";
    struct yir_diags *d = yir_diags_new(arena, NULL, NULL);
    uint32_t file = yir_diag_file(d, "m.yaml", text, strlen(text));
    yir_diag(d, (struct yir_loc){file, 1, 16}, E_YAML_KEY, "bad");
    cr_assert_str_eq(yir_diag_at(d, 0)->rendered, "m.yaml:1:16: error: bad [E103]\n"
                                                  "    1 | a [1m   \xc3\xa9: x\n"
                                                  "      |            ^");
}

Test(ir_core, a_diagnostic_without_a_place)
{
    struct yir_diags *d = yir_diags_new(arena, NULL, NULL);
    uint32_t file = yir_diag_file(d, "w.pt", NULL, 0);
    yir_diag(d, (struct yir_loc){0, 0, 0}, E_USAGE, "no such option");
    yir_diag_bin(d, file, 1234, E_ZIP, "not an archive");
    yir_diag(d, (struct yir_loc){file, 0, 0}, E_OPEN, "bad\nname\x1b[31m");
    yir_diag(d, (struct yir_loc){file, 3, 9}, E_OPEN, "far");
    yir_diag(d, (struct yir_loc){77, 3, 9}, E_OPEN, "nowhere");
    cr_assert_str_eq(yir_diag_at(d, 0)->rendered, "error: no such option [E001]");
    cr_assert_str_eq(yir_diag_at(d, 1)->rendered, "w.pt: at byte 1234: error: not an archive [E201]");
    cr_assert_str_eq(yir_diag_at(d, 2)->rendered, "w.pt: error: bad\\x0aname\\x1b[31m [E002]");
    cr_assert_str_eq(yir_diag_at(d, 3)->rendered, "w.pt:3:9: error: far [E002]");
    cr_assert_str_eq(yir_diag_at(d, 4)->rendered, "error: nowhere [E002]");
    cr_assert_eq(yir_diag_class(d), YIR_CLASS_USAGE, "the first error decides");
}

static void count_sink(void *user, const struct yir_diag *d)
{
    cr_assert_not_null(d->rendered);
    *(int *)user += 1;
}

Test(ir_core, only_the_first_errors_are_kept)
{
    int seen = 0;
    struct yir_diags *d = yir_diags_new(arena, count_sink, &seen);
    for (int i = 0; i < 50; i++) yir_diag(d, (struct yir_loc){0, 0, 0}, E_ROW, "row %d", i);
    yir_diag_note(d, (struct yir_loc){0, 0, 0}, "note of an error that was dropped");
    cr_assert_eq(yir_diag_errors(d), 50);
    cr_assert_eq(yir_diag_count(d), 20);
    cr_assert_eq(seen, 20);
    cr_assert_null(yir_diag_at(d, 20));
}

Test(ir_core, every_diagnostic_is_explained_and_numbers_are_unique)
{
    for (int i = 1; i < YIR_DIAG_COUNT; i++) {
        unsigned number = yir_diag_number((enum yir_diag_id)i);
        cr_assert_eq(yir_diag_by_number(number), (enum yir_diag_id)i, "number %u stands twice", number);
        cr_assert_gt(strlen(yir_diag_explain(number)), 20);
    }
    cr_assert_null(yir_diag_explain(999));
}

Test(ir_core, nearest_name)
{
    const char *const names[] = {"Conv", "Concat", "SPPF", "nn.Upsample"};
    cr_assert_str_eq(yir_nearest("Cnov", names, 4), "Conv");
    cr_assert_str_eq(yir_nearest("concat", names, 4), "Concat");
    cr_assert_str_eq(yir_nearest("nn.Upsmple", names, 4), "nn.Upsample");
    cr_assert_str_eq(yir_nearest("SPPF", names, 4), "SPPF");
    cr_assert_null(yir_nearest("Transformer", names, 4));
    cr_assert_null(yir_nearest("x", names, 0));
}
