/* The pass manager: order, leaving out, stopping, bisection, dumps, timing, refusals. */
#include <criterion/criterion.h>
#include <string.h>

#include "passes/pass.h"

static const char network[] = "in  %images : f32[1,3,8,8] nchw\n"
                              "w   $c.weight : f32[8,3,3,3] oihw\n"
                              "%1 = pad %images {pad=1,1,1,1} : f32[1,3,10,10] nchw\n"
                              "%2 = conv2d %1, $c.weight {stride=2,2} : f32[1,8,4,4] nchw\n"
                              "%3 = silu %2 : f32[1,8,4,4] nchw\n"
                              "%4 = silu %2 : f32[1,8,4,4] nchw\n"
                              "%5 = add %3, %4 : f32[1,8,4,4] nchw\n"
                              "%6 = relu %2 : f32[1,8,4,4] nchw\n"
                              "out y = %5\n";

struct log { /* what the callbacks saw */
    struct yir_arena *arena;
    struct yir_str passes, timed;
    const char *last; /* text of the newest dump */
    int unchanged;
    bool negative;
};

static void on_dump(void *user, const char *pass, const char *text, double ms)
{
    struct log *l = user;
    yir_str_fmt(&l->passes, "%s,", pass);
    l->last = yir_strdup(l->arena, text);
    l->unchanged += !strcmp(text, "(unchanged)\n");
    l->negative = l->negative || ms < 0;
}

static void on_timing(void *user, const char *pass, double ms)
{
    struct log *l = user;
    yir_str_fmt(&l->timed, "%s,", pass);
    l->negative = l->negative || ms < 0;
}

struct bench {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct yir_func *f;
    struct pass_opts opts;
    struct log *log;
};

static struct bench open_bench(void)
{
    struct bench b = {.arena = yir_arena_new(NULL, NULL)};
    b.diags = yir_diags_new(b.arena, NULL, NULL);
    b.f = yir_parse(b.arena, yir_types_new(b.arena), b.diags, "network.yir", network, strlen(network));
    cr_assert_not_null(b.f);
    pass_opts_init(&b.opts);
    b.opts.verify_each = true;
    b.opts.dump = on_dump;
    b.opts.timing = on_timing;
    b.opts.user = b.log = yir_alloc(b.arena, sizeof *b.log);
    b.log->arena = b.log->passes.arena = b.log->timed.arena = b.arena;
    return b;
}

static const char *text_of(const struct yir_func *f)
{
    struct yir_str s = {.arena = f->arena};
    yir_print(&s, f, 0);
    return s.text;
}

static bool has_op(const struct yir_func *f, enum yir_code c)
{
    for (uint32_t i = 1; i < f->nop; i++)
        if (f->op[i].code == c) return true;
    return false;
}

static const char *first_error(const struct bench *b)
{
    return yir_diag_count(b->diags) ? yir_diag_at(b->diags, 0)->text : "";
}

Test(passes_manager, defaults)
{
    struct pass_opts o;
    pass_opts_init(&o);
    cr_assert_eq(o.max_batch, 1);
    cr_assert(o.fuse && o.reuse);
    cr_assert_eq(o.limit, -1);
    cr_assert(!o.skip && !o.stop_after && !o.dump_after && !o.dump && !o.timing);
}

Test(passes_manager, table)
{
    for (size_t i = 0; i < pass_count(); i++) {
        cr_assert_eq(pass_by_name(pass_at(i)->name), pass_at(i));
        for (size_t k = 0; k < i; k++) cr_assert_neq(pass_at(k)->flag, pass_at(i)->flag);
    }
    cr_assert_null(pass_at(pass_count()));
    cr_assert_null(pass_by_name("fus"));
    cr_assert_null(pass_by_name(""));
}

Test(passes_manager, whole_pipeline)
{
    struct bench b = open_bench();
    b.opts.dump_after = "all";
    struct yir_func *f = pass_run_all(b.f, b.diags, &b.opts);
    cr_assert_not_null(f);
    const char *order = "inputs,foldbn,constfold,focus,simplify,cse,dce,attend,layout,either,precision,fuse,views,memplan,";
    cr_assert_str_eq(b.log->passes.text, order);
    cr_assert_str_eq(b.log->timed.text, order);
    cr_assert(!b.log->negative);
    cr_assert_eq(b.log->unchanged, 5, "foldbn, constfold, focus, attend and precision have nothing to do here");
    cr_assert_str_eq(b.log->last, text_of(f));
    cr_assert_eq(yir_verify(f, YIR_S_NOBN | YIR_S_LAYOUT | YIR_S_KERNELS | YIR_S_PLACES), 0);
    yir_arena_free(b.arena);
}

Test(passes_manager, input_is_kept)
{
    struct bench b = open_bench();
    const char *before = text_of(b.f);
    cr_assert_not_null(pass_run_all(b.f, b.diags, &b.opts));
    cr_assert_str_eq(text_of(b.f), before);
    yir_arena_free(b.arena);
}

Test(passes_manager, dump_one)
{
    struct bench b = open_bench();
    b.opts.dump_after = "dce,layout";
    cr_assert_not_null(pass_run_all(b.f, b.diags, &b.opts));
    cr_assert_str_eq(b.log->passes.text, "dce,layout,");
    yir_arena_free(b.arena);
}

Test(passes_manager, skip)
{
    struct bench b = open_bench();
    b.opts.skip = "simplify,dce";
    struct yir_func *f = pass_run_all(b.f, b.diags, &b.opts);
    cr_assert_not_null(f);
    cr_assert(has_op(f, YIR_pad));
    cr_assert(has_op(f, YIR_relu));
    cr_assert_str_eq(b.log->timed.text, "inputs,foldbn,constfold,focus,cse,attend,layout,either,precision,fuse,views,memplan,");
    yir_arena_free(b.arena);
}

Test(passes_manager, stop_after)
{
    struct bench b = open_bench();
    b.opts.stop_after = "layout";
    struct yir_func *f = pass_run_all(b.f, b.diags, &b.opts);
    cr_assert_not_null(f);
    cr_assert_eq(f->nkernel, 0);
    cr_assert_str_eq(b.log->timed.text, "inputs,foldbn,constfold,focus,simplify,cse,dce,attend,layout,");
    yir_arena_free(b.arena);
}

/* With n, the first n passes that may be left out run; those that others need always do. */
Test(passes_manager, limit)
{
    static const char *const want[] = {
        "inputs,foldbn,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,simplify,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,simplify,cse,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,simplify,cse,dce,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,simplify,cse,dce,attend,layout,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,simplify,cse,dce,attend,layout,either,fuse,views,memplan,",
        "inputs,foldbn,constfold,focus,simplify,cse,dce,attend,layout,either,precision,fuse,views,memplan,",
    };
    for (int n = 0; n < (int)YIR_COUNT(want); n++) {
        struct bench b = open_bench();
        b.opts.limit = n;
        cr_assert_not_null(pass_run_all(b.f, b.diags, &b.opts));
        cr_assert_str_eq(b.log->timed.text, want[n]);
        yir_arena_free(b.arena);
    }
}

Test(passes_manager, refusals)
{
    static const struct {
        const char *skip, *stop, *dump, *error;
    } cases[] = {
        {"dec", NULL, NULL, "no pass is called 'dec'; did you mean 'dce'?"},
        {"cse,zzzzzzzz", NULL, NULL, "no pass is called 'zzzzzzzz'"},
        {"layout", NULL, NULL, "layout can't be left out: later passes need it"},
        {NULL, "memplant", NULL, "no pass is called 'memplant'; did you mean 'memplan'?"},
        {NULL, NULL, "dce,", NULL},
        {NULL, NULL, "dce,,cse", "no pass is called ''"},
    };
    for (size_t i = 0; i < YIR_COUNT(cases); i++) {
        struct bench b = open_bench();
        b.opts.skip = cases[i].skip;
        b.opts.stop_after = cases[i].stop;
        b.opts.dump_after = cases[i].dump;
        struct yir_func *f = pass_run_all(b.f, b.diags, &b.opts);
        cr_assert_eq(f == NULL, cases[i].error != NULL, "case %zu", i);
        cr_assert_str_eq(first_error(&b), cases[i].error ? cases[i].error : "", "case %zu", i);
        yir_arena_free(b.arena);
    }
}

Test(passes_manager, named)
{
    struct bench b = open_bench();
    struct yir_func *f = pass_run_named(b.f, b.diags, "cse,dce,cse", &b.opts);
    cr_assert_not_null(f);
    cr_assert_str_eq(b.log->timed.text, "cse,dce,cse,");
    cr_assert(!has_op(f, YIR_relu));
    cr_assert_null(pass_run_named(f, b.diags, "layout,views", &b.opts));
    cr_assert_str_eq(first_error(&b), "views can't run here: it needs what fuse does");
    yir_arena_free(b.arena);
}

Test(passes_manager, deterministic)
{
    struct bench a = open_bench(), b = open_bench();
    struct yir_func *f = pass_run_all(a.f, a.diags, &a.opts), *g = pass_run_all(b.f, b.diags, &b.opts);
    cr_assert_str_eq(text_of(f), text_of(g));
    yir_arena_free(a.arena);
    yir_arena_free(b.arena);
}
