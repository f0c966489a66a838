/* Variants measured in a process of their own: the same results, and what becomes of a process that dies or hangs. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/trial.h"
#include "frontend/yoloc.h"

static struct yir_arena *arena;

static void setup(void)
{
    arena = yir_arena_new(NULL, NULL);
    setenv("YOLOC_CACHE", "0", 1);
}

static void teardown(void)
{
    yir_arena_free(arena);
}

TestSuite(trial, .init = setup, .fini = teardown, .timeout = 120);

static void compile(bool fast, void **bytes, size_t *size)
{
    yoloc_opts o;
    yoloc_result module;
    yoloc *c;
    yoloc_opts_init(&o, sizeof o);
    o.height = o.width = 32;
    o.no_fast = !fast;
    cr_assert_eq(yoloc_open(&c, &o), YOLOC_OK);
    yoloc_status s = yoloc_compile(c, "tests/tiny.yaml", "rule", &module);
    yoloc_close(c);
    if (s == YOLOC_RESOURCE) cr_skip("nothing here compiles for this CPU");
    cr_assert_eq(s, YOLOC_OK);
    *bytes = malloc(module.size);
    *size = module.size;
    memcpy(*bytes, module.bytes, module.size);
    yoloc_free_result(&module);
}

/* Variant 0: generic kernels, 1: fast ones. */
static struct cg_trials *both(bool apart, double patience_s)
{
    struct cg_trials *t = cg_trials_new(arena, 1, apart, patience_s);
    for (int v = 0; v < 2; v++) {
        struct cg_trial out = {0};
        void *bytes;
        size_t size;
        compile(v == 1, &bytes, &size);
        cr_assert_eq(cg_trials_load(t, v, bytes, size, &out), 0, "%s", out.error);
    }
    return t;
}

static struct cg_trial run(struct cg_trials *t, int v, bool compare)
{
    struct cg_trial out = {0};
    cr_assert_eq(cg_trials_run(t, v, 0, compare, &out), 0, "%s", out.error);
    cr_assert_gt(out.nstep, 0u);
    cr_assert_gt(out.ms, 0);
    return out;
}

/* How many children there are, and the newest, which is the first to be used. */
static int children(pid_t *newest)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *f = fopen(path, "r");
    if (!f) cr_skip("this system does not list children");
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    int count = 0;
    for (char *p = text, *end; (*newest = (pid_t)strtol(p, &end, 10)) != 0 || end != p; p = end) {
        count++;
        if (!strpbrk(end, "0123456789")) break;
    }
    return count;
}

Test(trial, the_same_in_a_process_of_its_own)
{
    struct cg_trials *here = both(false, 0), *there = both(true, 20);
    cr_assert_eq(cg_trials_forms(here), cg_trials_forms(there));
    cr_assert_eq(run(here, 0, true).apart, 0);
    cr_assert_eq(run(there, 0, true).apart, 0);
    cr_assert_eq(run(here, 1, true).apart, run(there, 1, true).apart);
    cr_assert_eq(run(here, 1, false).nstep, run(there, 1, false).nstep);
}

Test(trial, times_of_steps_come_across)
{
    struct cg_trials *t = both(true, 20);
    struct cg_trial got = run(t, 0, false);
    double sum = 0;
    for (uint32_t i = 0; i < got.nstep; i++) sum += got.step_ms[i];
    cr_assert_gt(sum, 0);
    cr_assert_leq(sum, got.ms);
}

Test(trial, a_lost_process_costs_its_variant_only)
{
    struct cg_trials *t = both(true, 20);
    struct cg_trial out = {0};
    run(t, 0, true);
    double apart = run(t, 1, true).apart;
    pid_t used;
    cr_assert_gt(children(&used), 1);
    kill(used, SIGKILL);
    usleep(100000);
    cr_assert_eq(cg_trials_run(t, 0, 0, false, &out), -1);
    cr_assert(strstr(out.error, "signal 9"), "%s", out.error);
    cr_assert_eq(cg_trials_run(t, 0, 0, false, &out), -1, "a variant at fault is not run again");
    cr_assert_geq(apart, 0);
    run(t, 1, false);
}

Test(trial, what_hangs_is_ended)
{
    struct cg_trials *t = both(true, 1);
    struct cg_trial out = {0};
    pid_t used;
    run(t, 0, true);
    cr_assert_gt(children(&used), 1);
    kill(used, SIGSTOP);
    cr_assert_eq(cg_trials_run(t, 1, 0, false, &out), -1);
    cr_assert(strstr(out.error, "did not answer"), "%s", out.error);
    run(t, 0, false);
}

Test(trial, no_module_is_no_variant)
{
    struct cg_trials *t = both(true, 20);
    struct cg_trial out = {0};
    void *bytes = calloc(1, 4096);
    cr_assert_eq(cg_trials_load(t, 2, bytes, 4096, &out), -1);
    cr_assert(strstr(out.error, "load"), "%s", out.error);
    run(t, 0, false);
    pid_t used;
    int before = children(&used);
    cg_trials_free(t);
    cr_assert_eq(children(&used), before - 1, "its process is gone with the variants");
    yir_arena_free(arena);
    arena = yir_arena_new(NULL, NULL);
    cr_assert_eq(children(&used), 0, "and the others with the arena");
}
