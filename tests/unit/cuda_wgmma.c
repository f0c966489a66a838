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

/* 1x1 of `small` channels of a map that is enlarged and `large` of another one, in this order, or as `parts` joins %3 and %4. */
#define PARTS(type, n, small, h, w, large, hh, ww, parts, ci, co)                                                              \
    "in  %x : f32[" #n "," #small "," #h "," #w "] nchw\nin  %z : f32[" #n "," #large "," #hh "," #ww "] nchw\nw   $k : " #type     \
    "[" #co "," #ci ",1,1] oihw\nw   $b : f32[" #co "]\n"                                                                      \
    "%1 = cast %x {dtype=" #type " layout=nchw} : " #type "[" #n "," #small "," #h "," #w "] nchw\n"                             \
    "%2 = leaky %1 {slope=2} : " #type "[" #n "," #small "," #h "," #w "] nchw\n"                                              \
    "%3 = upsample %2 {factor=2} : " #type "[" #n "," #small "," #hh "," #ww "] nchw\n"                                        \
    "%4 = cast %z {dtype=" #type " layout=nchw} : " #type "[" #n "," #large "," #hh "," #ww "] nchw\n"                           \
    "%5 = leaky %4 {slope=2} : " #type "[" #n "," #large "," #hh "," #ww "] nchw\n"                                            \
    "%6 = concat " parts " : " #type "[" #n "," #ci "," #hh "," #ww "] nchw\n"                                                 \
    "%7 = conv2d %6, $k, $b : " #type "[" #n "," #co "," #hh "," #ww "] nchw\n"                                                \
    "%8 = silu %7 : " #type "[" #n "," #co "," #hh "," #ww "] nchw\nout y = %8\n"

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
    {"conv_wgmma", "cuda:sm_90a", true, PARTS(f16, 2, 64, 6, 5, 128, 12, 10, "%3, %5", 192, 64)},
    {"conv_wgmma", "cuda:sm_90a", true, PARTS(bf16, 1, 32, 9, 13, 64, 18, 26, "%5, %3", 96, 96)},
    {"conv_wgmma", "cuda:sm_90a", true, PARTS(f16, 3, 16, 4, 4, 48, 8, 8, "%5, %3, %5", 112, 24)},
    {"conv_wgmma", "cuda:sm_90a", true, /* enlarged alone */
     "in  %x : f32[2,48,11,3] nchw\nw   $k : f16[32,48,1,1] oihw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,48,11,3] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,48,11,3] nchw\n%3 = upsample %2 {factor=2} : f16[2,48,22,6] nchw\n"
     "%4 = conv2d %3, $k : f16[2,32,22,6] nchw\n%5 = relu %4 : f16[2,32,22,6] nchw\nout y = %5\n"},
    {"conv_wgmma", "cuda:sm_90a", false, PARTS(f16, 1, 24, 4, 4, 16, 8, 8, "%3, %5", 40, 32)}, /* chunks of two maps */
    {"conv_wgmma", "cuda:sm_90a", false, /* enlarged, 3x3 */
     "in  %x : f32[1,16,4,4] nchw\nw   $k : f16[16,16,3,3] oihw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,4,4] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,4,4] nchw\n%3 = upsample %2 {factor=2} : f16[1,16,8,8] nchw\n"
     "%4 = conv2d %3, $k {pad=1,1,1,1} : f16[1,16,8,8] nchw\n%5 = relu %4 : f16[1,16,8,8] nchw\nout y = %5\n"},
    {"conv_wgmma", "cuda:sm_90a", false, /* enlarged four times */
     "in  %x : f32[1,16,4,4] nchw\nw   $k : f16[16,16,1,1] oihw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,4,4] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,4,4] nchw\n%3 = upsample %2 {factor=4} : f16[1,16,16,16] nchw\n"
     "%4 = conv2d %3, $k : f16[1,16,16,16] nchw\n%5 = relu %4 : f16[1,16,16,16] nchw\nout y = %5\n"},
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
