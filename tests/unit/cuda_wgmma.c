/* Convolutions by wgmma: the CUDA C of some configurations, run on the host, beside the evaluator; what is taken and declined; that
 * NVRTC compiles it. */
#include <criterion/criterion.h>

#include "cudarows.h"
#include "ir/base.h"

/* A convolution of `n` images: input channels ci of `wide`, of which the slice begins at `start`. */
#define CONV(type, n, wide, start, ci, co, k, h, w, attrs, oh, ow, after)                                                     \
    "in  %x : f32[" #n "," #wide "," #h "," #w "] nchw\nw   $k : " #type "[" #co "," #ci "," #k "," #k "] oihw\nw   $b : f32[" #co   \
    "]\n%1 = cast %x {dtype=" #type " layout=nchw} : " #type "[" #n "," #wide "," #h "," #w "] nchw\n"                            \
    "%2 = leaky %1 {slope=2} : " #type "[" #n "," #wide "," #h "," #w "] nchw\n"                                                \
    "%3 = slice %2 {start=" #start " count=" #ci "} : " #type "[" #n "," #ci "," #h "," #w "] nchw\n"                            \
    "%4 = conv2d %3, $k, $b" attrs " : " #type "[" #n "," #co "," #oh "," #ow "] nchw\n"                                       \
    "%5 = silu %4 : " #type "[" #n "," #co "," #oh "," #ow "] nchw\n" after
#define RESIDUAL(type, n, co, h, w) "%6 = add %5, %3 : " #type "[" #n "," #co "," #h "," #w "] nchw\nout y = %6\n"

static const struct cudarow rows[] = {
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 2, 16, 0, 16, 16, 3, 5, 7, " {pad=1,1,1,1}", 5, 7, RESIDUAL(f16, 2, 16, 5, 7))},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 1, 48, 16, 24, 40, 3, 20, 20, " {pad=1,1,1,1}", 20, 20, "out y = %5\n")},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 1, 32, 0, 32, 32, 3, 17, 33, " {pad=1,1,1,1}", 17, 33, RESIDUAL(f16, 1, 32, 17, 33))},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(bf16, 1, 80, 0, 80, 80, 3, 9, 25, " {pad=1,1,1,1}", 9, 25, RESIDUAL(bf16, 1, 80, 9, 25))},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 3, 8, 0, 8, 24, 1, 9, 9, "", 9, 9, "out y = %5\n")},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 2, 104, 8, 96, 96, 1, 13, 9, "", 13, 9, RESIDUAL(f16, 2, 96, 13, 9))},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 1, 40, 0, 40, 1072, 1, 5, 5, "", 5, 5, "out y = %5\n")}, /* columns of 128 */
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 2, 16, 0, 16, 32, 3, 18, 20, " {stride=2,2 pad=1,1,1,1}", 9, 10, "out y = %5\n")},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 1, 48, 0, 48, 64, 3, 17, 18, " {stride=2,2 pad=1,1,1,1}", 9, 9, "out y = %5\n")},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 1, 64, 16, 40, 16, 3, 12, 14, " {stride=2,2 pad=1,1,1,1}", 6, 7, "out y = %5\n")},
    {"conv_wgmma", "cuda:sm_90a", true, CONV(f16, 6, 128, 0, 128, 16, 1, 40, 40, "", 40, 40, "out y = %5\n")}, /* blocks without a tile */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f16, 1, 16, 0, 16, 20, 3, 8, 8, " {pad=1,1,1,1}", 8, 8, "out y = %5\n")},    /* outputs: no vectors */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f16, 1, 12, 0, 12, 16, 3, 8, 8, " {pad=1,1,1,1}", 8, 8, "out y = %5\n")},    /* pixels of 24 bytes */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f16, 1, 20, 4, 16, 16, 3, 8, 8, " {pad=1,1,1,1}", 8, 8, "out y = %5\n")},    /* from byte 8 on */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f16, 1, 16, 0, 16, 16, 3, 8, 7, " {stride=2,2 pad=1,1,1,1}", 4, 4, "out y = %5\n")}, /* odd width */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f16, 1, 16, 0, 16, 16, 5, 8, 8, " {pad=2,2,2,2}", 8, 8, "out y = %5\n")},    /* 5x5 */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f16, 1, 16, 0, 16, 16, 3, 8, 8, " {pad=2,1,0,1}", 8, 8, "out y = %5\n")},    /* padding of one side */
    {"conv_wgmma", "cuda:sm_90a", false, CONV(f32, 1, 16, 0, 16, 16, 3, 8, 8, " {pad=1,1,1,1}", 8, 8, "out y = %5\n")},    /* not in half precision */
    {"conv_wgmma", "cuda:sm_100", false, CONV(f16, 1, 16, 0, 16, 16, 3, 8, 8, " {pad=1,1,1,1}", 8, 8, "out y = %5\n")},    /* another GPU */
};

Test(cuda_wgmma, against_the_evaluator, .timeout = 240)
{
    cudarows_evaluate(rows, YIR_COUNT(rows), NULL);
}

Test(cuda_wgmma, nvrtc_takes_each, .timeout = 600)
{
    static const char *const targets[] = {"cuda:sm_90a"};
    if (!cudarows_compile(rows, YIR_COUNT(rows), targets, 1, NULL)) cr_skip_test("no NVRTC here");
}
