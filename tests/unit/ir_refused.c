/* IR text that breaks one rule each, and the limits of its counts. */
#include <criterion/criterion.h>
#include <string.h>

#include "ir/ir.h"
#include "ir/limits.h"

static struct yir_arena *a;
static struct yir_diags *d;
static struct yir_limits limits;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    yir_limits_init(&limits);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(ir_refused, .init = setup, .fini = teardown);

static bool parse(const char *text)
{
    d = yir_diags_new(a, NULL, NULL);
    yir_diags_set_limits(d, &limits);
    return yir_parse(a, yir_types_new(a), d, "t.yir", text, strlen(text)) != NULL;
}

static void expect(const char *text, enum yir_diag_id id, const char *part)
{
    cr_assert_not(parse(text), "accepted, not: %s\n%s", part, text);
    const struct yir_diag *g = yir_diag_at(d, 0);
    cr_assert(g->id == id && strstr(g->text, part), "%s, not: %s\n%s", g->text, part, text);
}

/* Lines after an input %x and a weight $w. */
static const struct row {
    const char *lines;
    enum yir_diag_id id;
    const char *part;
} rows[] = {
    {"in y : f32[1]", E_IR_SYNTAX, "expected '%'"},
    {"in %y f32[1]", E_IR_SYNTAX, "expected ':'"},
    {"in %y : f32(1]", E_IR_SYNTAX, "expected '['"},
    {"in %y : f32[1", E_IR_SYNTAX, "expected ','"},
    {"in % : f32[1]", E_IR_SYNTAX, "expected a name"},
    {"in %7 : f32[1]", E_IR_SYNTAX, "must not be a number"},
    {"in %x : f32[1]", E_IR_SYNTAX, "stands twice"},
    {"w $w : f32[1]", E_IR_SYNTAX, "stands twice"},
    {"in %y : f33[1]", E_IR_SYNTAX, "element type"},
    {"in %y : f32[1,1,1,1] nhcw", E_IR_SYNTAX, "a layout"},
    {"in %y : f32[1,1,1,1]", E_IR_SYNTAX, "a layout"},
    {"in %y : f32[0]", E_IR_SYNTAX, "at least 1"},
    {"in %y : f32[1,1,1,1,1,1,1,1,1]", E_IR_SYNTAX, "dimensions"},
    {"in %y : f32[-1]", E_IR_SYNTAX, "a number"},
    {"in %y : f32[99999999999999999999]", E_IR_SYNTAX, "larger than"},
    {"in %y : f32[1048576,1048576,2]", E_LIMIT, "2^40"},
    {"image div=0 bgr=1", E_IR_SYNTAX, "div must be positive"},
    {"image div=inf bgr=1", E_IR_SYNTAX, "div must be positive"},
    {"image div=x bgr=1", E_IR_SYNTAX, "a number"},
    {"image div=. bgr=1", E_IR_SYNTAX, "a number"},
    {"image div=1e399 bgr=1", E_IR_SYNTAX, "range"},
    {"image div=1e401 bgr=1", E_IR_SYNTAX, "larger than 400"},
    {"image div=10e400 bgr=1", E_IR_SYNTAX, "range"},
    {"image div=0.00001e-400 bgr=1", E_IR_SYNTAX, "too many digits"},
    {"image div=1 bgr=2", E_IR_SYNTAX, "larger than 1"},
    {"image scale=1 bgr=1", E_IR_SYNTAX, "expected 'div'"},
    {"buf c0 arena bytes=4", E_IR_SYNTAX, "'b' and a number"},
    {"buf b arena bytes=4", E_IR_SYNTAX, "a number after 'b'"},
    {"buf b1 arena bytes=4", E_IR_SYNTAX, "expected b0"},
    {"buf b0 stack bytes=4", E_IR_SYNTAX, "arena, in or out"},
    {"buf b0 in %y bytes=4", E_IR_SYNTAX, "%y is not defined"},
    {"buf b0 out y bytes=4", E_IR_SYNTAX, "no output is named y"},
    {"kernel k1 {\nkernel k2 {\n}\n}", E_IR_SYNTAX, "do not nest"},
    {"kernel k2 {\n}", E_IR_SYNTAX, "expected k1"},
    {"kernel k1 tile= {\n}", E_IR_SYNTAX, "short value"},
    {"kernel k1 tile {\n}", E_IR_SYNTAX, "expected '='"},
    {"kernel k1 {", E_IR_SYNTAX, "not closed"},
    {"kernel k1 {\n%1 = slice %x {count=1} : f32[2,1] view\n}", E_IR_SYNTAX, "nothing but views"},
    {"kernel k1 {\nout y = %x\n}", E_IR_SYNTAX, "not closed"},
    {"}", E_IR_SYNTAX, "no kernel is open"},
    {"%2 = relu %x : f32[2,3]", E_IR_SYNTAX, "expected %1"},
    {"%1 = relu %1 : f32[2,3]", E_IR_SYNTAX, "not defined before"},
    {"%1 = relu %0 : f32[2,3]", E_IR_SYNTAX, "not defined before"},
    {"%1 = relu %9 : f32[2,3]", E_IR_SYNTAX, "not defined before"},
    {"%1 = relu %y : f32[2,3]", E_IR_SYNTAX, "%y is not defined"},
    {"%1 = relu $y : f32[2,3]", E_IR_SYNTAX, "$y is not defined"},
    {"%1 = relu x : f32[2,3]", E_IR_SYNTAX, "%value"},
    {"%1 = rule %x : f32[2,3]", E_IR_OP, "did you mean 'relu'"},
    {"%1 = relu %x, %x : f32[2,3]", E_IR_OP, "2 operands"},
    {"%1 = add %x : f32[2,3]", E_IR_OP, "1 operands"},
    {"%1 = leaky %x {slope=1 slope=1} : f32[2,3]", E_IR_OP, "stands twice"},
    {"%1 = leaky %x {slop=1} : f32[2,3]", E_IR_OP, "no attribute"},
    {"%1 = leaky %x {} : f32[2,3]", E_IR_SYNTAX, "an attribute"},
    {"%1 = relu %x : f32[3,2]", E_IR_TYPE, "f32[2,3]"},
    {"%1 = relu %x : f32[2,3] inline", E_IR_SYNTAX, "inline"},
    {"%1 = relu %x : f32[2,3] -> b0", E_IR_SYNTAX, "b0 is not defined"},
    {"buf b0 arena bytes=64\n%1 = relu %x : f32[2,3] -> b0 ld=4", E_IR_SYNTAX, "nhwc"},
    {"%1 = relu %x : f32[2,3] @1", E_IR_SYNTAX, "expected ':'"},
    {"%1 = relu %x : f32[2,3] x", E_IR_SYNTAX, "end of the line"},
    {"out x = %x\nout x = %x", E_IR_SYNTAX, "stands twice"},
    {"outt x = %x", E_IR_SYNTAX, "expected model"},
};

Test(ir_refused, rules)
{
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        expect(yir_format(a, "in %%x : f32[2,3]\nw $w : f32[1]\n%s\n", rows[i].lines), rows[i].id, rows[i].part);
}

Test(ir_refused, operands)
{
    struct yir_str s = {.arena = a};
    yir_str_fmt(&s, "in %%x : f32[2,3]\n%%1 = concat %%x");
    for (int i = 0; i < 80; i++) yir_str_fmt(&s, ", %%x");
    yir_str_fmt(&s, " : f32[2,243]\n");
    expect(s.text, E_IR_SYNTAX, "operands");
}

/* `many` lines made from a format with the number from `first` on: accepted at the limit, refused above it. */
static void at_limit(uint64_t *limit, const char *head, const char *format, int first, const char *part)
{
    *limit = 5;
    for (int n = 5; n <= 6; n++) {
        struct yir_str s = {.arena = a};
        yir_str_fmt(&s, "%s", head);
        for (int i = 0; i < n; i++) {
            const char *at = strchr(format, '#');
            yir_str_fmt(&s, "%.*s%d%s\n", (int)(at - format), format, i + first, at + 1);
        }
        if (n == 5) cr_assert(parse(s.text), "%s", yir_diag_at(d, 0)->text);
        else expect(s.text, E_LIMIT, part);
    }
    yir_limits_init(&limits);
}

Test(ir_refused, limits)
{
    static const char x[] = "in %x : f32[2,3]\n";
    at_limit(&limits.max_ir_ops, x, "%# = relu %x : f32[2,3]", 1, "--limit ir-ops=N");
    at_limit(&limits.max_ir_ops, x, "kernel k# {\n}", 1, "--limit ir-ops=N");
    at_limit(&limits.max_ir_weights, x, "w $w# : f32[1]", 0, "--limit ir-weights=N");
    at_limit(&limits.max_ir_buffers, x, "buf b# arena bytes=4", 0, "--limit ir-buffers=N");
    at_limit(&limits.max_ir_outputs, x, "out y# = %x", 0, "--limit ir-outputs=N");
    limits.max_ir = sizeof x - 1;
    cr_assert(parse(x));
    limits.max_ir--;
    expect(x, E_LIMIT, "--limit ir-bytes=N");
    yir_limits_init(&limits);
    limits.max_name = 8;
    cr_assert(parse("in %abcdefgh : f32[1]\n"));
    expect("in %abcdefghi : f32[1]\n", E_LIMIT, "--limit name-bytes=N");
    cr_assert(parse("kernel k1 a=1 b=2 c=3 {\n}\n"));
    expect("kernel k1 a=1 b=2 c=3 d=4 {\n}\n", E_IR_SYNTAX, "short value");
    struct yir_str s = {.arena = a};
    for (int i = 0; i < 129; i++) yir_str_fmt(&s, "in %%x%d : f32[1]\n", i);
    expect(s.text, E_LIMIT, "more than 128");
}
