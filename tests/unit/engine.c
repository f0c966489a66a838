/* Which kernels cuDNN may do, and engines of it as text. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/engine.h"
#include "passes/pass.h"
#include "randnet.h"
#include "runtime/yolort.h"

static void die(void *user)
{
    (void)user;
    abort();
}

Test(engine, text)
{
    struct yir_arena *a = yir_arena_new(die, NULL);
    static const char *const good[] = {"cudnn engine=0 space=0", "cudnn engine=7 space=4096 24=21", "cudnn engine=2147483647 space=68719476736 1=-1 0=5 43=-2147483648"};
    const char *end;
    struct cg_engine e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_expect(cg_engine_read(good[i], &end, &e) && !*end, "%s", good[i]);
        cr_expect_str_eq(cg_engine_text(a, &e), good[i]);
    }
    cr_expect(cg_engine_read("cudnn engine=3 space=9 1=2\ncudnn", &end, &e));
    cr_expect_str_eq(end, "\ncudnn");
    cr_expect(e.number == 3 && e.space == 9 && e.nknob == 1 && e.knob[0].type == 1 && e.knob[0].value == 2);
    yir_arena_free(a);
}

Test(engine, bad_text)
{
    static const char *const bad[] = {"", "cudnn", "cudnn engine=", "cudnn engine=-1 space=0", "cudnn engine=2147483648 space=0", "cudnn engine=1",
                                      "cudnn engine=1 space=-1", "cudnn engine=1 space=9999999999999999999", "cudnn engine=1 space=0 ",
                                      "cudnn engine=1 space=0 1", "cudnn engine=1 space=0 1=", "cudnn engine=1 space=0 1=x",
                                      "cudnn engine=1 space=0 -1=1", "cudnn engine=1 space=0 1=2147483648", "cudnn engine=1 space=0 1=1 1=2",
                                      "cudnn engine=+1 space=0", "cudnn  engine=1 space=0", "conv_mma m=1"};
    const char *end;
    struct cg_engine e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect_not(cg_engine_read(bad[i], &end, &e), "%s", bad[i]);
    char many[512] = "cudnn engine=1 space=0";
    for (int i = 0; i < YM_MAX_KNOBS; i++) snprintf(many + strlen(many), sizeof many - strlen(many), " %d=1", i);
    cr_expect(cg_engine_read(many, &end, &e) && !*end);
    strcat(many, " 99=1");
    cr_expect_not(cg_engine_read(many, &end, &e));
}

static void print_diag(void *user, const struct yir_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->rendered);
}

static struct yir_func *fused(struct yir_arena *a, struct yir_diags *d, const char *ir, enum yir_dtype precision)
{
    struct pass_opts po;
    struct yir_func *f = yir_parse(a, yir_types_new(a), d, "row", ir, strlen(ir));
    cr_assert(f, "%s", ir);
    randnet_weights(f, 7);
    pass_opts_init(&po);
    po.max_batch = 2;
    po.precision = precision;
    po.apart = true;
    f = pass_run_all(f, d, &po);
    cr_assert(f, "%s", ir);
    return f;
}

/* Kernels that are such work; the last of them. */
static int count_works(const struct yir_func *f, struct cg_engine_work *out)
{
    int n = 0;
    for (uint32_t k = 1; k <= f->nkernel; k++) {
        uint32_t first = 0, last = 0;
        struct cg_engine_work w;
        for (uint32_t i = 1; i < f->nop; i++) {
            if (f->op[i].kernel != k) continue;
            first = first ? first : i;
            last = i;
        }
        if (!last || !cg_engine_work(f, first, last, 2, &w)) continue;
        *out = w;
        n++;
    }
    return n;
}

#define HEAD "in  %x : f32[2,16,9,9] nchw\nw   $a : f32[16,16,3,3] oihw\nw   $b : f32[16]\nw   $c : f32[24,16,3,3] oihw\nw   $g : f32[16,4,3,3] oihw\n" \
             "%1 = conv2d %x, $a, $b {pad=1,1,1,1} : f32[2,16,9,9] nchw\n%2 = silu %1 : f32[2,16,9,9] nchw\n"
#define TAIL(n, c, side) "%" #n " = maxpool %" #c " {kernel=3,3 stride=1,1 pad=1,1,1,1} : f32[2,16," side "] nchw\nout y = %" #n "\n"

/* What comes first reads the input, what comes last writes an output: the middle is cuDNN's. */
Test(engine, works)
{
    struct yir_arena *a = yir_arena_new(die, NULL);
    struct yir_diags *d = yir_diags_new(a, print_diag, NULL);
    struct cg_engine_work w = {0};
    static const char *const residual =
        HEAD "%3 = conv2d %2, $a, $b {pad=1,1,1,1} : f32[2,16,9,9] nchw\n%4 = silu %3 : f32[2,16,9,9] nchw\n%5 = add %2, %4 : f32[2,16,9,9] nchw\n" TAIL(6, 5, "9,9");
    static const char *const wide =
        HEAD "%3 = conv2d %2, $c {stride=2,1 pad=1,0,1,2 dil=1,2} : f32[2,24,5,7] nchw\n%4 = relu %3 : f32[2,24,5,7] nchw\n"
        "%5 = maxpool %4 {kernel=3,3 stride=1,1 pad=1,1,1,1} : f32[2,24,5,7] nchw\nout y = %5\n";
    static const char *const groups = HEAD "%3 = conv2d %2, $g, $b {pad=1,1,1,1 groups=4} : f32[2,16,9,9] nchw\n" TAIL(4, 3, "9,9");
    static const char *const other = HEAD "%3 = conv2d %2, $a, $b {pad=1,1,1,1} : f32[2,16,9,9] nchw\n%4 = relu6 %3 : f32[2,16,9,9] nchw\n" TAIL(5, 4, "9,9");

    cr_expect_eq(count_works(fused(a, d, residual, YIR_F16), &w), 1);
    cr_expect(w.conv.dtype == YOLORT_F16 && w.conv.out_dtype == YOLORT_F32 && w.conv.activation == YM_ACT_SILU && w.conv.biased && w.conv.added);
    cr_expect(w.conv.images == 2 && w.conv.x[0] == 16 && w.conv.x[1] == 9 && w.conv.out[2] == 9 && w.conv.kernel[0] == 3 && w.conv.before[1] == 1);
    cr_expect_eq(count_works(fused(a, d, residual, YIR_BF16), &w), 1);
    cr_expect_eq(w.conv.dtype, YOLORT_BF16);
    cr_expect_eq(count_works(fused(a, d, residual, YIR_F32), &w), 0, "sums in fp32 of what is rounded to tf32 are another thing");
    cr_expect_eq(count_works(fused(a, d, wide, YIR_F16), &w), 1);
    cr_expect(w.conv.activation == YM_ACT_RELU && !w.conv.biased && !w.conv.added && w.conv.out[0] == 24 && w.conv.out[1] == 5 && w.conv.out[2] == 7);
    cr_expect(w.conv.stride[0] == 2 && w.conv.stride[1] == 1 && w.conv.dilation[1] == 2 && w.conv.before[0] == 1 && w.conv.before[1] == 0);
    cr_expect(w.conv.after[0] == 1 && w.conv.after[1] == 2);
    cr_expect_eq(count_works(fused(a, d, groups, YIR_F16), &w), 0, "groups");
    cr_expect_eq(count_works(fused(a, d, other, YIR_F16), &w), 0, "another activation");
    yir_arena_free(a);
}
