/* Each row of ir/ops.def: the type it gives, and operands and attributes that it must refuse. */
#include <criterion/criterion.h>
#include <string.h>

#include "ir/ir.h"

static const char prelude[] = "in  %x : f32[2,8,16,12] nhwc\n"
                              "in  %y : f32[2,8,16,12] nhwc\n"
                              "in  %n : f32[2,8,16,12] nchw\n"
                              "in  %h : f16[2,8,16,12] nhwc\n"
                              "in  %wide : f32[2,8,16,13] nhwc\n"
                              "in  %deep : f32[2,4,16,12] nhwc\n"
                              "in  %v : f32[2,8,192]\n"
                              "in  %s : f32[5]\n"
                              "in  %i : i32[2,8,16,12] nhwc\n"
                              "in  %u8 : u8[2,16,12,3] nchw\n"
                              "in  %u84 : u8[2,16,12,4] nchw\n"
                              "in  %a : f32[2,21,4,6] nhwc\n"
                              "in  %box : f32[2,64,4,6] nhwc\n"
                              "in  %long : f32[1,1,1048576,524288] nchw\n"
                              "in  %tall : f32[1,1,2147483647,1] nchw\n"
                              "in  %other : f32[1,8,16,12] nhwc\n"
                              "in  %one : f32[2,1,16,12] nhwc\n"
                              "in  %two : f32[2,2,16,12] nhwc\n"
                              "in  %angle : f32[2,1,4,6] nhwc\n"
                              "in  %t : f32[2,8,7,1] nhwc\n"
                              "in  %t1 : f32[2,1,7,1] nhwc\n"
                              "in  %t4 : f32[2,4,7,1] nhwc\n"
                              "in  %t24 : f32[2,24,7,1] nhwc\n"
                              "in  %t48 : f32[2,48,7,1] nhwc\n"
                              "in  %scores : f32[2,16,12,2,192]\n"
                              "in  %sums : f32[2,16,12,2,1]\n"
                              "w   $w : f32[6,8,3,3] oihw\n"
                              "w   $w1 : f32[6,8,1,1] oihw\n"
                              "w   $dw : f32[8,1,3,5] oihw\n"
                              "w   $big : f32[6,8,17,17] oihw\n"
                              "w   $b6 : f32[6]\n"
                              "w   $b8 : f32[8]\n"
                              "w   $anchors : f32[3,2]\n"
                              "w   $b1 : f32[1]\n"
                              "w   $b2 : f32[2]\n"
                              "w   $up : f32[8,3,2,2] oihw\n";

static const struct op_case {
    const char *op;
    const char *want; /* the type; or after '!' a part of the error */
} cases[] = {
    {"conv2d %x, $w", "f32[2,6,14,10] nhwc"},
    {"conv2d %x, $w1, $b6", "f32[2,6,16,12] nhwc"},
    {"conv2d %n, $w {stride=2,3 pad=1,0,2,1}", "f32[2,6,9,4] nchw"},
    {"conv2d %h, $w {dil=2,3}", "f16[2,6,12,6] nhwc"},
    {"conv2d %x, $dw {groups=8 pad=1,2,1,2}", "f32[2,8,16,12] nhwc"},
    {"conv2d %x, $w, $b8", "!bias must have 6"},
    {"conv2d %deep, $w", "!wants 8 input channels, the input has 4"},
    {"conv2d %x, $w {groups=3}", "!3 groups do not divide"},
    {"conv2d %x, $w {groups=0}", "!0 groups"},
    {"conv2d %x, $w {stride=0,1}", "!not possible"},
    {"conv2d %x, $w {pad=-1,0,0,0}", "!not possible"},
    {"conv2d %x, $w {dil=1,2147483647}", "!not possible"},
    {"conv2d %x, $big", "!does not fit into a map of 16"},
    {"conv2d %v, $w", "!float tensor of 4 dimensions"},
    {"conv2d %i, $w", "!float tensor"},
    {"conv2d %x, $b6", "!weight must have 4 dimensions"},
    {"batchnorm %x, $b8, $b8, $b8, $b8 {eps=0.001}", "f32[2,8,16,12] nhwc"},
    {"batchnorm %x, $b8, $b8, $b6, $b8", "!6 statistics for 8 channels"},
    {"batchnorm %x, $b8, $b8, $b8, $w", "!statistics"},
    {"batchnorm %x, $b8, $b8, $b8, $b8 {eps=-1}", "!eps -1"},
    {"batchnorm %s, $b8, $b8, $b8, $b8", "!no channels"},
    {"silu %x", "f32[2,8,16,12] nhwc"},
    {"silu %i", "!float type"},
    {"relu %v", "f32[2,8,192]"},
    {"relu %u8", "!float type"},
    {"relu6 %h", "f16[2,8,16,12] nhwc"},
    {"relu6 %i", "!float type"},
    {"leaky %n {slope=0.1}", "f32[2,8,16,12] nchw"},
    {"leaky %i", "!float type"},
    {"sigmoid %x", "f32[2,8,16,12] nhwc"},
    {"sigmoid %i", "!float type"},
    {"hardswish %x", "f32[2,8,16,12] nhwc"},
    {"hardswish %i", "!float type"},
    {"hardsigmoid %x", "f32[2,8,16,12] nhwc"},
    {"hardsigmoid %i", "!float type"},
    {"tanh %x", "f32[2,8,16,12] nhwc"},
    {"tanh %i", "!float type"},
    {"gelu %x", "f32[2,8,16,12] nhwc"},
    {"gelu %i", "!float type"},
    {"mish %x", "f32[2,8,16,12] nhwc"},
    {"mish %i", "!float type"},
    {"elu %x {slope=1}", "f32[2,8,16,12] nhwc"},
    {"elu %i", "!float type"},
    {"add %x, %y", "f32[2,8,16,12] nhwc"},
    {"add %x, %wide", "!differ at dimension 3: 12 and 13"},
    {"add %x, %n", "!differ in type or layout"},
    {"add %x, %h", "!differ in type or layout"},
    {"add %v, $b8", "!3 and 1 dimensions"},
    {"add %i, %i", "!differ in type"},
    {"mul %x, %y", "f32[2,8,16,12] nhwc"},
    {"mul %x, %deep", "!differ at dimension 1: 8 and 4"},
    {"concat %x", "f32[2,8,16,12] nhwc"},
    {"concat %x, %deep, %x", "f32[2,20,16,12] nhwc"},
    {"concat %x, %wide {axis=3}", "f32[2,8,16,25] nhwc"},
    {"concat %x, %wide", "!differ at dimension 3"},
    {"concat %x, %n", "!input 1 differs in type, layout"},
    {"concat %x, %y {axis=0}", "!batch"},
    {"concat %x, %y {axis=4}", "!axis 4"},
    {"concat %s", "!axis 1"},
    {"slice %x {start=2 count=3}", "f32[2,3,16,12] nhwc"},
    {"slice %v {axis=2 start=191 count=1}", "f32[2,8,1]"},
    {"slice %x {start=6 count=3}", "!not inside"},
    {"slice %x {start=2147483647 count=2147483647}", "!not inside"},
    {"slice %x {start=-1 count=1}", "!not inside"},
    {"slice %x", "!0 elements"},
    {"slice %x {axis=0 count=1}", "!axis 0"},
    {"upsample %x", "f32[2,8,32,24] nhwc"},
    {"upsample %x {factor=3}", "f32[2,8,48,36] nhwc"},
    {"upsample %x {factor=0}", "!factor 0"},
    {"upsample %v", "!4 dimensions"},
    {"upsample %long", "!too large"},
    {"upsample %tall", "!too large"},
    {"pad %x {pad=1,2,3,4 value=-inf}", "f32[2,8,20,18] nhwc"},
    {"pad %x {pad=0,-1,0,0}", "!-1 rows"},
    {"pad %v {pad=1,1,1,1}", "!4 dimensions"},
    {"s2d %x", "f32[2,32,8,6] nhwc"},
    {"s2d %n {factor=4}", "f32[2,128,4,3] nchw"},
    {"s2d %x {factor=5}", "!does not divide"},
    {"s2d %wide", "!does not divide"},
    {"cast %x {layout=nchw}", "f32[2,8,16,12] nchw"},
    {"cast %u8 {dtype=f16 layout=nhwc}", "f16[2,16,12,3] nhwc"},
    {"cast %v {dtype=f64}", "f64[2,8,192]"},
    {"cast %x", "!does not fit 4 dimensions"},
    {"cast %v {layout=nchw}", "!does not fit 3 dimensions"},
    {"flatten %x", "f32[2,8,192]"},
    {"flatten %v", "!4 dimensions"},
    {"maxpool %x {kernel=5,3 pad=2,1,2,1}", "f32[2,8,16,12] nhwc"},
    {"maxpool %n {kernel=2,2 stride=2,2}", "f32[2,8,8,6] nchw"},
    {"maxpool %x {kernel=2,2 pad=2,0,0,0}", "!reaches the window"},
    {"maxpool %x {kernel=17,1}", "!does not fit"},
    {"maxpool %x {kernel=0,1}", "!window 0"},
    {"maxpool %long {kernel=5000,1}", "!not possible"},
    {"avgpool %x {kernel=3,3 stride=2,2 pad=1,1,1,1}", "f32[2,8,8,6] nhwc"},
    {"avgpool %v {kernel=1,1}", "!4 dimensions"},
    {"dfl_box %box {bins=16 stride=8}", "f32[2,4,24]"},
    {"dfl_box %deep {stride=32}", "f32[2,4,192]"},
    {"dfl_box %box {bins=15 stride=8}", "!not 4 x 15"},
    {"dfl_box %box {bins=16 stride=0}", "!stride 0"},
    {"dfl_box %box {bins=16 stride=inf}", "!stride inf"},
    {"anchor_raw %a {na=3 stride=8}", "f32[2,3,4,6,7]"},
    {"anchor_raw %a {na=2 stride=8}", "!not 2 anchors"},
    {"anchor_raw %a {na=7 stride=8}", "!not 7 anchors of 5 + classes"},
    {"anchor_raw %a {na=0 stride=8}", "!not 0 anchors"},
    {"anchor_box %a, $anchors {na=3 stride=8}", "f32[2,72,7]"},
    {"anchor_box %a, $b6 {na=3 stride=8}", "!anchors must be [3, 2]"},
    {"anchor_box %a, $anchors {na=1 stride=8}", "!anchors must be [1, 2]"},
    {"x_box %x {stride=16}", "f32[2,192,8]"},
    {"x_box %deep {stride=16}", "!not 5 + classes"},
    {"x_box %x {stride=-1}", "!stride -1"},
    {"image %u8 {div=255 bgr=1}", "f32[2,3,16,12] nhwc"},
    {"image %u84", "!u8[n,h,w,3]"},
    {"image %x", "!u8[n,h,w,3]"},
    {"image %u8 {div=0}", "!div must be positive"},
    {"image %u8 {dtype=f16}", "f16[2,3,16,12] nhwc"},
    {"image %u8 {dtype=i8}", "!of a float type"},
    {"deconv2d %x, $up {stride=2,2}", "f32[2,3,32,24] nhwc"},
    {"deconv2d %n, $up, $b6 {stride=2,1 pad=1,0 grow=1,0 groups=2}", "f32[2,6,31,13] nchw"},
    {"deconv2d %deep, $up", "!weight must be [4, outputs"},
    {"deconv2d %x, $up, $b8", "!vector of 3"},
    {"deconv2d %x, $up {groups=3}", "!3 groups do not divide"},
    {"deconv2d %x, $up {stride=0,1}", "!not possible"},
    {"deconv2d %x, $up {stride=4097,1}", "!stride 4097"},
    {"deconv2d %x, $up {pad=-1,0}", "!padding -1"},
    {"deconv2d %x, $up {grow=1,0}", "!grow 1"},
    {"deconv2d %x, $up {pad=40,0}", "!leaves nothing"},
    {"affine %x {mul=2 add=-1}", "f32[2,8,16,12] nhwc"},
    {"affine %i", "!float type"},
    {"logit %v", "f32[2,8,192]"},
    {"logit %i", "!float type"},
    {"depth %x, $b1, $b1", "f32[2,8,16,12] nhwc"},
    {"depth %x, $b8, $b1", "!input 1 must be a vector of 1"},
    {"posenc %x, $b2", "f32[2,8,16,12] nhwc"},
    {"posenc %x, $b8", "!vector of 2"},
    {"posenc %one, $b1", "!four equal parts"},
    {"d2s %x", "f32[2,2,32,24] nhwc"},
    {"d2s %n {factor=1}", "f32[2,8,16,12] nchw"},
    {"d2s %x {factor=3}", "!factor 3 does not divide"},
    {"tokens %x", "f32[2,8,192,1] nhwc"},
    {"tokens %v", "!4 dimensions"},
    {"rows %n", "f32[2,192,8]"},
    {"rows %v", "!4 dimensions"},
    {"from_rows %v", "f32[2,192,8,1] nhwc"},
    {"from_rows %x", "!3 dimensions, found 4"},
    {"ravel %n", "f32[2,1536]"},
    {"ravel %s", "!4 dimensions"},
    {"nearest %x, %angle", "f32[2,8,4,6] nhwc"},
    {"nearest %x, %v", "!input 1 must be a map"},
    {"nearest %x, %other", "!of 2 and 1 images"},
    {"avgmap %x", "f32[2,8,1,1] nhwc"},
    {"avgmap %v", "!4 dimensions"},
    {"maxbins %x {count=3}", "f32[2,8,3,3] nhwc"},
    {"maxbins %x {count=0}", "!count 0"},
    {"bilinear %x {factor=4 corners=1}", "f32[2,8,64,48] nhwc"},
    {"bilinear %x {factor=0}", "!factor 0"},
    {"attn_scores %x, %y {heads=2 dim=3 kat=1 scale=0.5}", "f32[2,16,12,2,192]"},
    {"attn_scores %x, %t {heads=4 dim=2}", "f32[2,16,12,4,7]"},
    {"attn_scores %x, %y {areas=4}", "f32[2,16,12,1,48]"},
    {"attn_scores %x, %v", "!input 1 must be a map"},
    {"attn_scores %x, %h", "!input 1 must be a map"},
    {"attn_scores %x, %y {heads=3}", "!not 3 heads"},
    {"attn_scores %x, %y {heads=0}", "!not 0 heads"},
    {"attn_scores %x, %y {heads=2 dim=3 qat=2}", "!not 2 heads with 3 from 2"},
    {"attn_scores %x, %y {areas=5}", "!5 areas"},
    {"attn_peak %x, %t {heads=2 dim=4}", "f32[2,2,16,12] nhwc"},
    {"attn_peak %x, %t {dim=9}", "!with 9 from 0"},
    {"attn_mix %scores, %x {dim=4}", "f32[2,8,16,12] nhwc"},
    {"attn_mix %x, %y", "!5 dimensions"},
    {"attn_mix %scores, %t", "!weights of 192 keys for 7 values"},
    {"attention %x, %t, %t {heads=2 dim=3 kat=1 scale=0.5 values=2 vat=2}", "f32[2,4,16,12] nhwc"},
    {"attention %x, %y, %y {areas=4 dim=8 values=6}", "f32[2,6,16,12] nhwc"},
    {"attention %x, %y, %t", "!weights of 192 keys for 7 values"},
    {"attention %x, %y, %y {heads=2 values=3 vat=2}", "!not 2 heads with 3 from 2"},
    {"attention %x, %y, %h", "!input 2 must be a map"},
    {"attention %x, %y, %y {areas=5}", "!5 areas"},
    {"lse %scores {axis=4}", "f32[2,16,12,2,1]"},
    {"lse %x", "f32[2,1,16,12] nhwc"},
    {"lse %x {axis=4}", "!axis 4"},
    {"softmax %scores, %sums {axis=4}", "f32[2,16,12,2,192]"},
    {"softmax %scores, %sums {axis=0}", "!axis 0"},
    {"softmax %scores, %scores {axis=4}", "!not the lse of the first"},
    {"moments %x {eps=1e-05}", "f32[2,2,16,12] nhwc"},
    {"moments %x {eps=2}", "!eps 2"},
    {"layernorm %x, %two, $b8, $b8", "f32[2,8,16,12] nhwc"},
    {"layernorm %x, %y, $b8, $b8", "!must be [2,2,16,12]"},
    {"layernorm %x, %two, $b8, $b6", "!input 3 must be a vector of 8"},
    {"rnorm %x", "f32[2,1,16,12] nhwc"},
    {"rnorm %v", "!4 dimensions"},
    {"peak %n", "f32[2,1,16,12] nchw"},
    {"peak %v", "!4 dimensions"},
    {"gate %x, %two", "f32[2,8,16,12] nhwc"},
    {"gate %deep, %x", "!4 channels in 8 groups"},
    {"contrast %x, %t, $b1, $b1", "f32[2,7,16,12] nhwc"},
    {"contrast %x, %y, $b1, $b1", "!tokens of 8 channels"},
    {"rank %one", "f32[2,1,16,12] nhwc"},
    {"rank %x", "!one channel is needed, found 8"},
    {"order %one {count=5}", "f32[2,1,5,1] nhwc"},
    {"order %one {count=300}", "f32[2,1,192,1] nhwc"},
    {"order %one {count=0}", "!count 0"},
    {"gather %x, %t1", "f32[2,8,7,1] nhwc"},
    {"gather %x, %t", "!tokens of 1 channels"},
    {"deform %x, %t4, %t48, %t24 {heads=2 levels=3 level=2 points=4}", "f32[2,8,7,1] nhwc"},
    {"deform %x, %t4, %t24, %t24 {heads=2 levels=3 points=4}", "!input 2 must be tokens of 48"},
    {"deform %x, %t4, %t48, %t24 {heads=3 levels=3 points=4}", "!not possible"},
    {"deform %x, %t4, %t48, %t24 {heads=2 levels=3 level=3 points=4}", "!not possible"},
    {"detr_anchor %x {side=0.05}", "f32[2,4,16,12] nhwc"},
    {"detr_anchor %x {side=1}", "!side 1"},
    {"query_box %t4, %x {stride=8}", "f32[2,4,7]"},
    {"query_box %t, %x {stride=8}", "!input 0 must be tokens of 4"},
    {"query_box %t4, %v {stride=8}", "!input 1 must be a map"},
    {"detr_valid %x {side=0.05}", "f32[2,8,16,12] nhwc"},
    {"detr_valid %x", "!side 0"},
    {"obb_box %box, %angle {bins=16 stride=8}", "f32[2,4,24]"},
    {"obb_box %box, %one {bins=16 stride=8}", "!must be [2,1,4,6]"},
    {"points %x {dims=2 scale=2 stride=8}", "f32[2,8,192]"},
    {"points %x {dims=3 stride=8}", "!not points of 3"},
    {"points %x {dims=4 stride=8}", "!not points of 4"},
    {"either %x, %y", "f32[2,8,16,12] nhwc"},
    {"either %x, %n", "!differ in type or layout"},
};

static enum yir_code code_of(const char *op)
{
    enum yir_code c = YIR_NOP;
    cr_assert(yir_op_by_name(op, strcspn(op, " "), &c), "no op: %s", op);
    return c;
}

/* The written type is a dummy where an error is due before it is compared. */
static void check(const struct op_case *oc)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    bool refused = oc->want[0] == '!';
    struct yir_str s = {.arena = a};
    yir_str_fmt(&s, "%s%%1 = %s : %s\n", prelude, oc->op, refused ? "f32[1]" : oc->want);
    const struct yir_func *f = yir_parse(a, yir_types_new(a), d, "op.yir", s.text, s.len);
    const char *text = yir_diag_count(d) ? yir_diag_at(d, 0)->text : "";
    if (refused) {
        cr_assert_null(f, "%s was not refused", oc->op);
        cr_assert_eq(yir_diag_at(d, 0)->id, E_SHAPE, "%s: %s", oc->op, text);
        cr_assert(strstr(text, oc->want + 1), "%s: the error is: %s", oc->op, text);
    } else {
        cr_assert(f, "%s: %s", oc->op, text);
    }
    yir_arena_free(a);
}

Test(ir_ops, types_follow_from_operands)
{
    for (size_t i = 0; i < YIR_COUNT(cases); i++) check(&cases[i]);
}

Test(ir_ops, every_row_has_a_type_and_a_refusal)
{
    bool typed[YIR_NCODE] = {false}, refused[YIR_NCODE] = {false};
    for (size_t i = 0; i < YIR_COUNT(cases); i++)
        (cases[i].want[0] == '!' ? refused : typed)[code_of(cases[i].op)] = true;
    for (int c = 1; c < YIR_NCODE; c++) {
        const char *name = yir_opinfo((enum yir_code)c)->name;
        cr_expect(typed[c], "%s has no case that gives a type", name);
        cr_expect(refused[c], "%s has no case that is refused", name);
    }
}

/* Fields lie inside the words, apart, and the defaults are those of the schema. */
Test(ir_ops, schemas_are_sound)
{
    for (int c = 1; c < YIR_NCODE; c++) {
        const struct yir_opinfo *info = yir_opinfo((enum yir_code)c);
        int32_t word[16];
        bool used[16] = {false};
        cr_assert(info->lo >= 1 && info->lo <= info->hi && info->text[0]);
        cr_assert_leq(info->nwords, 16);
        memset(word, 0x5a, sizeof word);
        yir_attr_defaults((enum yir_code)c, word);
        for (int i = 0; i < info->nattr; i++)
            for (int k = 0; k < info->attr[i].n; k++) {
                int at = info->attr[i].at + k;
                cr_assert(at < info->nwords && !used[at], "%s: field %s", info->name, info->attr[i].name);
                cr_assert_eq(word[at], info->attr[i].dflt[k]);
                used[at] = true;
            }
    }
}

/* --- functions ---------------------------------------------------------------------------------------------- */

struct net {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct yir_func *f;
};

static struct net parse(const char *ops)
{
    struct net n = {.arena = yir_arena_new(NULL, NULL)};
    n.diags = yir_diags_new(n.arena, NULL, NULL);
    struct yir_str s = {.arena = n.arena};
    yir_str_fmt(&s, "%s%s", prelude, ops);
    n.f = yir_parse(n.arena, yir_types_new(n.arena), n.diags, "net.yir", s.text, s.len);
    cr_assert(n.f, "%s", yir_diag_count(n.diags) ? yir_diag_at(n.diags, 0)->rendered : "");
    return n;
}

Test(ir_ops, a_nil_operand_gives_nil_silently)
{
    struct net n = parse("");
    yir_ref src[2] = {yir_mkref(YIR_INP, 0), YIR_NONE};
    cr_assert_eq(yir_kind(yir_emit(n.f, YIR_add, src, 2, NULL)), YIR_NIL);
    cr_assert_eq(yir_diag_errors(n.diags), 0);
    cr_assert_eq(yir_emit(n.f, YIR_add, src, 1, NULL).bits, 0);
    cr_assert_eq(yir_diag_errors(n.diags), 1, "the wrong number of operands is reported");
    yir_arena_free(n.arena);
}

Test(ir_ops, uses_count_operands_and_outputs)
{
    struct net n = parse("%1 = relu %x : f32[2,8,16,12] nhwc\n"
                         "%2 = add %1, %1 : f32[2,8,16,12] nhwc\n"
                         "%3 = relu %1 : f32[2,8,16,12] nhwc\n"
                         "out y = %2\nlayer z = %1\n");
    const uint32_t *uses = yir_uses(n.f, n.arena);
    cr_assert(uses[1] == 4 && uses[2] == 1 && uses[3] == 0);
    yir_arena_free(n.arena);
}

Test(ir_ops, retyping_gives_the_network_at_another_size)
{
    struct net n = parse("%1 = conv2d %x, $w {stride=2,2 pad=1,1,1,1} : f32[2,6,8,6] nhwc\n"
                         "%2 = upsample %1 : f32[2,6,16,12] nhwc\nout y = %2\n");
    yir_type *ty = yir_alloc_n(n.arena, n.f->ninput, sizeof *ty);
    for (uint32_t i = 0; i < n.f->ninput; i++) ty[i] = n.f->input[i].type;
    struct yir_tdesc d = *yir_tdesc(n.f->types, ty[0]);
    d.dim[0] = 5;
    d.dim[2] = 64;
    ty[0] = yir_type_of(n.f->types, &d);
    struct yir_func *g = yir_retype(n.f, ty);
    cr_assert_not_null(g);
    const struct yir_tdesc *r = yir_desc(g, g->output[0].ref);
    cr_assert(r->dim[0] == 5 && r->dim[1] == 6 && r->dim[2] == 64 && r->dim[3] == 12);
    d.dim[1] = 9; /* no longer the channels that the weight wants */
    ty[0] = yir_type_of(n.f->types, &d);
    cr_assert_null(yir_retype(n.f, ty));
    cr_assert_eq(yir_diag_errors(n.diags), 1);
    yir_arena_free(n.arena);
}

Test(ir_ops, a_copy_keeps_weights_positions_and_flags)
{
    struct net n = parse("kernel k1 {\n%1 = relu %x : f32[2,8,16,12] nhwc inline @7:3 model.1\n"
                         "%2 = relu %1 : f32[2,8,16,12] nhwc @8:3\n}\nout y = %2\n");
    struct yir_func *g = yir_func_like(n.f);
    yir_ref *map = yir_alloc_n(n.arena, n.f->nop, sizeof *map);
    for (uint32_t i = 1; i < n.f->nop; i++) map[i] = yir_copy_op(g, n.f, i, map);
    yir_copy_outputs(g, n.f, map);
    cr_assert_eq(yir_find_weight(g, "anchors").bits, yir_find_weight(n.f, "anchors").bits);
    cr_assert_eq(yir_kind(yir_find_weight(g, "nobody")), YIR_NIL);
    cr_assert_str_eq(g->loc[g->op[1].loc].name, "model.1");
    cr_assert_eq(g->loc[g->op[1].loc].loc.line, 7);
    cr_assert(g->op[1].kernel == 1 && g->op[1].flags == 0 && g->op[2].flags == YIR_F_STORED);
    yir_arena_free(n.arena);
}
