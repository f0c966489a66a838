/* Targets: spelling, what native becomes, and that the loader knows what they need. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "codegen/codegen.h"
#include "runtime/cpufeature.h"

static struct yir_arena *a;
static struct yir_diags *d;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    d = yir_diags_new(a, NULL, NULL);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(target, .init = setup, .fini = teardown);

static void expect_error(const char *text, const char *says)
{
    struct cg_target t;
    size_t n = yir_diag_count(d);
    cr_assert_eq(cg_target_find(a, d, text, &t), -1, "%s", text);
    cr_assert_gt(yir_diag_count(d), n);
    const struct yir_diag *first = yir_diag_at(d, n);
    cr_expect_eq(first->id, E_TARGET);
    for (size_t i = n; i < yir_diag_count(d); i++)
        if (strstr(yir_diag_at(d, i)->rendered, says)) return;
    cr_expect(0, "%s: '%s' is not in: %s", text, says, first->rendered);
}

Test(target, unknown)
{
    expect_error("cpu:x86-64-v5", "cpu:x86-64-v");
    expect_error("cpu:natve", "did you mean 'cpu:native'?");
    expect_error("reff", "unknown target 'reff'");
    expect_error("gpu", "targets are");
    expect_error("", "targets are");
    expect_error("cpu:", "unknown target 'cpu:'");
    expect_error("cuda:sm_91", "unknown target 'cuda:sm_91'");
}

Test(target, ref)
{
    struct cg_target t;
    cr_assert_eq(cg_target_find(a, d, "ref", &t), 0);
    cr_expect_eq(t.backend, CG_REF);
    cr_expect(t.kb.native_math);
    cr_expect_str_eq(t.text, "ref");
}

/* Calls fn for each name of a comma-joined list. */
static void each(const char *list, void (*fn)(const char *name, void *user), void *user)
{
    while (*list) {
        char name[32];
        size_t n = strcspn(list, ",");
        cr_assert_lt(n, sizeof name);
        memcpy(name, list, n);
        name[n] = 0;
        fn(name, user);
        list += n + (list[n] == ',');
    }
}

static void check_name(const char *name, void *user)
{
    const struct cg_target *t = user;
    cr_expect(strcmp(t->arch, rt_cpu_arch()) || rt_cpu_knows(name), "%s: the loader does not know %s", t->text, name);
    char option[40];
    snprintf(option, sizeof option, "+%s", name);
    const char *at = strstr(t->features, option);
    cr_expect(at && (at[strlen(option)] == ',' || !at[strlen(option)]), "%s: %s", t->text, t->features);
}

static void count_missing(const char *name, void *user)
{
    *(int *)user += !rt_cpu_has(name);
}

Test(target, cpu_levels)
{
    static const struct {
        const char *text;
        int lanes, vregs;
        bool fma, splat;
    } row[] = {{"cpu:x86-64-v2", 4, 16, false, false},
               {"cpu:x86-64-v3", 8, 16, true, false},
               {"cpu:x86-64-v4", 16, 32, true, true},
               {"cpu:aarch64", 4, 32, true, false}};
    for (size_t i = 0; i < YIR_COUNT(row); i++) {
        struct cg_target t;
        if (cg_target_find(a, d, row[i].text, &t)) cr_skip_test("no code generation for CPUs in this build");
        cr_expect_eq(t.backend, CG_CPU);
        cr_expect_str_eq(t.text, row[i].text);
        cr_expect_eq(t.kb.lanes, row[i].lanes);
        cr_expect_eq(t.kb.vregs, row[i].vregs);
        cr_expect_eq(t.kb.has_fma, row[i].fma);
        cr_expect_eq(t.kb.mem_splat, row[i].splat);
        cr_expect_not(t.kb.native_math);
        cr_expect_eq(t.prefer_width, 32 * row[i].lanes);
        each(t.needs, check_name, &t);
    }
}

/* Native is the best level whose features the loader would accept here. */
Test(target, native)
{
    static const char *const order[] = {"cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:x86-64-v2", "cpu:aarch64"};
    struct cg_target native, t;
    if (cg_target_find(a, d, "cpu:native", &native)) cr_skip_test("no native code generation here");
    for (size_t i = 0; i < YIR_COUNT(order); i++) {
        int missing = 0;
        cr_assert_eq(cg_target_find(a, d, order[i], &t), 0);
        each(t.needs, count_missing, &missing);
        if (strcmp(t.arch, rt_cpu_arch()) || missing) continue;
        cr_expect_str_eq(native.text, order[i]);
        return;
    }
    cr_expect(0, "%s was found, but the loader accepts no level", native.text);
}

Test(target, gpus)
{
    struct cg_target t;
    cr_assert_eq(cg_target_find(a, d, "cuda:sm_90a", &t), 0);
    cr_expect_eq(t.backend, CG_CUDA);
    cr_expect_eq(t.kb.lanes, 8);
    cr_expect_eq(t.kb.sm, 90);
    cr_expect(t.kb.sm_a);
    cr_expect_eq(t.kb.sms, 132);
    cr_expect(t.kb.element_units);
    cr_expect_str_eq(t.arch, "sm_90a");
    cr_expect_str_eq(t.text, "cuda:sm_90a");
    cr_expect_str_eq(t.needs, "");
    expect_error("cuda:", "unknown target 'cuda:'");
    expect_error("cuda:sm_90a,ref", "unknown target");
}

Test(target, list)
{
    struct yir_str s = {.arena = a};
    cg_targets_list(&s);
    cr_assert_not_null(s.text);
    cr_expect_null(strstr(s.text, "ref "), "nothing can be made for it");
    cr_expect_eq(s.text[s.len - 1], '\n');
    struct cg_target t;
    if (cg_target_find(a, d, "cpu:native", &t)) return;
    cr_expect_not_null(strstr(s.text, t.text));
    cr_expect_not_null(strstr(s.text, "runs here"));
}
