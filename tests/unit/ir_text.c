#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "ir/ir.h"

#define ALL_STAGES (YIR_S_NOBN | YIR_S_LAYOUT | YIR_S_KERNELS | YIR_S_PLACES)

/* A network with every kind of line the text form has. */
static const char network[] =
    "model yolo-test\n"
    "image div=1 bgr=1\n"
    "in  %images : f32[1,4,8,8] nchw\n"
    "in  %input_u8 : u8[1,8,8,3] nchw\n"
    "w   $model.0.conv.weight : f32[4,4,3,3] oihw\n"
    "w   $model.0.conv.bias : f32[4]\n"
    "arena bytes=4096\n"
    "buf b0 in %images bytes=1024\n"
    "buf b1 arena bytes=1024 at=0 live=1..3\n"
    "buf b2 arena bytes=2048 at=1024 live=3..7\n"
    "buf b3 out cat bytes=2048\n"
    "buf b4 out low bytes=256\n"
    "kernel k1 family=edge {\n"
    "    %1 = cast %images {layout=nhwc} : f32[1,4,8,8] nhwc -> b1\n"
    "}\n"
    "kernel k2 family=conv_direct tile=4,2 lanes=16 {\n"
    "    %2 = conv2d %1, $model.0.conv.weight, $model.0.conv.bias {pad=1,1,1,1} : f32[1,4,8,8] nhwc "
    "inline\n"
    "    %3 = leaky %2 {slope=0.1} : f32[1,4,8,8] nhwc -> b2 ld=8\n"
    "}\n"
    "kernel k3 {\n"
    "    %4 = relu %3 : f32[1,4,8,8] nhwc -> b2+16 ld=8\n"
    "}\n"
    "%5 = concat %3, %4 : f32[1,8,8,8] nhwc view -> b2\n"
    "kernel k4 {\n"
    "    %6 = cast %5 {layout=nchw} : f32[1,8,8,8] nchw -> b3\n"
    "}\n"
    "kernel k5 {\n"
    "    %7 = dfl_box %5 {bins=2 stride=8} : f32[1,4,64] inline\n"
    "    %8 = slice %7 {axis=2 start=8 count=16} : f32[1,4,16] -> b4\n"
    "}\n"
    "out cat = %6\n"
    "layer low = %8\n";

struct text { /* one parse */
    struct yir_arena *arena;
    struct yir_types *types;
    struct yir_diags *diags;
    struct yir_func *f;
};

static struct text parse(const char *s, size_t n)
{
    struct text t = {.arena = yir_arena_new(NULL, NULL)};
    t.types = yir_types_new(t.arena);
    t.diags = yir_diags_new(t.arena, NULL, NULL);
    t.f = yir_parse(t.arena, t.types, t.diags, "t.yir", s, n);
    return t;
}

static const char *print(const struct text *t, unsigned flags)
{
    struct yir_str s = {.arena = t->arena};
    yir_print(&s, t->f, flags);
    return s.text;
}

static const char *first_error(const struct text *t)
{
    return yir_diag_count(t->diags) ? yir_diag_at(t->diags, 0)->text : "";
}

Test(ir_text, prints_what_it_parses)
{
    struct text t = parse(network, strlen(network));
    cr_assert(t.f, "%s", first_error(&t));
    cr_assert_str_eq(print(&t, 0), network);
    cr_assert_eq(yir_verify(t.f, ALL_STAGES), 0, "%s", first_error(&t));
    yir_arena_free(t.arena);
}

/* Parses, verifies and prints whatever it is given; what parses must print to a fixed point. */
static bool survives(const char *s, size_t n)
{
    struct text t = parse(s, n);
    bool parsed = t.f != NULL;
    if (parsed) {
        yir_verify(t.f, ALL_STAGES);
        const char *once = print(&t, YIR_PRINT_LOCS);
        struct text again = parse(once, strlen(once));
        cr_assert(again.f, "printed, but does not parse: %s\n%s", first_error(&again), once);
        cr_assert_str_eq(print(&again, YIR_PRINT_LOCS), once);
        yir_arena_free(again.arena);
    } else {
        cr_assert(yir_diag_errors(t.diags) > 0, "refused without a reason:\n%.*s", (int)n, s);
    }
    yir_arena_free(t.arena);
    return parsed;
}

/* A line of 0 without a name says no more than no position: the op's own place in the text. */
Test(ir_text, positions_come_back)
{
    static const char *const position[] = {"", "@0:0", "@0:5 ", "@3:5", "@0:5 model.3", "@0:0 a", "@4294967295:0"};
    for (size_t i = 0; i < YIR_COUNT(position); i++) {
        char s[128];
        int n = snprintf(s, sizeof s, "in %%x : f32[4]\n%%1 = relu %%x : f32[4] %s\nout y = %%1\n", position[i]);
        cr_expect(survives(s, (size_t)n), "%s", position[i]);
    }
}

static uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state >> 11;
}

/* One change of the text in place; returns its new length. cap > n. */
static size_t mutate(char *s, size_t n, uint64_t *rng)
{
    static const char bytes[] = "%$@{}[]=:,.+->#\n 0123456789bkldsnx\"\0\xff";
    size_t at = random_next(rng) % n, other = random_next(rng) % n, run = random_next(rng) % 24 + 1;
    if (at + run > n) run = n - at;
    switch (random_next(rng) % 5) {
    case 0: s[at] = bytes[random_next(rng) % (sizeof bytes - 1)]; return n;
    case 1: memmove(s + at, s + at + run, n - at - run); return n - run;
    case 2:
        memmove(s + at + 1, s + at, n - at);
        s[at] = bytes[random_next(rng) % (sizeof bytes - 1)];
        return n + 1;
    case 3: /* a piece of the text over another */
        if (other + run > n) other = n - run;
        memmove(s + at, s + other, run);
        return n;
    default: /* another digit keeps the text well formed more often than not */
        while (at < n && (s[at] < '0' || s[at] > '9')) at++;
        if (at < n) s[at] = (char)('0' + random_next(rng) % 10);
        return n;
    }
}

Test(ir_text, mutations_never_crash, .timeout = 240)
{
    char s[sizeof network + 64];
    uint64_t rng = UINT64_C(0x9e3779b97f4a7c15);
    int parsed = 0;
    for (int i = 0; i < 20000; i++) {
        size_t n = sizeof network - 1;
        memcpy(s, network, n);
        for (uint64_t k = random_next(&rng) % 3 + 1; k; k--) n = mutate(s, n, &rng);
        parsed += survives(s, n);
    }
    /* Both outcomes must be common, or the mutations test nothing. */
    cr_assert(parsed > 500 && parsed < 19500, "%d of 20000 parsed", parsed);
}

Test(ir_text, every_prefix_is_handled)
{
    for (size_t n = 0; n < sizeof network; n++) survives(network, n);
}

Test(ir_text, names_from_users_files_are_made_writable)
{
    struct text t = parse("", 0);
    t.f->name = "my model (1)";
    cr_assert_str_eq(print(&t, 0), "model my_model__1_\n");
    yir_arena_free(t.arena);
}

Test(ir_text, counts_are_bounded)
{
    struct text t = parse("", ((size_t)64 << 20) + 1);
    cr_assert_null(t.f);
    cr_assert_eq(yir_diag_at(t.diags, 0)->id, E_LIMIT);
    struct yir_str s = {.arena = t.arena};
    yir_str_fmt(&s, "in %%x : f32[1]\n");
    for (int i = 1; i <= 65537; i++) yir_str_fmt(&s, "%%%d = relu %%x : f32[1]\n", i);
    struct text many = parse(s.text, s.len);
    cr_assert_null(many.f);
    cr_assert_eq(yir_diag_at(many.diags, 0)->id, E_LIMIT);
    cr_assert_eq(yir_diag_at(many.diags, 0)->loc.line, 65538);
    yir_arena_free(many.arena);
    yir_arena_free(t.arena);
}

Test(ir_text, does_not_follow_the_locale)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) cr_skip_test("no German locale here");
    struct text t = parse(network, strlen(network));
    cr_assert(t.f, "%s", first_error(&t));
    cr_assert_str_eq(print(&t, 0), network);
    yir_arena_free(t.arena);
}

Test(ir_text, one_op_as_a_line)
{
    struct text t = parse(network, strlen(network));
    struct yir_str s = {.arena = t.arena};
    yir_print_op(&s, t.f, 3, 0);
    cr_assert_str_eq(s.text, "%3 = leaky %2 {slope=0.1} : f32[1,4,8,8] nhwc -> b2 ld=8");
    yir_arena_free(t.arena);
}
