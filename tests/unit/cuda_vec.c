/* Families for GPUs that work on vectors of channels. */
#include <criterion/criterion.h>

#include "cudarows.h"
#include "ir/base.h"
#include "longer.h"

#define SM80 "cuda:sm_80"
#define SM90 "cuda:sm_90a"

static const struct cudarow rows[] = {
    {"vec", SM80, true, /* a residual; images of odd sides */
     "in  %x : f32[3,16,5,7] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[3,16,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[3,16,5,7] nchw\n%3 = maxpool %2 {kernel=3,3 pad=1,1,1,1} : f16[3,16,5,7] nchw\n"
     "%4 = add %3, %2 : f16[3,16,5,7] nchw\n%5 = silu %4 : f16[3,16,5,7] nchw\nout y = %5\n"},
    {"vec", SM90, true, /* channels that are no whole vectors, single precision */
     "in  %x : f32[2,21,9,5] nchw\n%1 = relu %x : f32[2,21,9,5] nchw\n"
     "%2 = maxpool %1 {kernel=5,5 pad=2,2,2,2} : f32[2,21,9,5] nchw\n%3 = sigmoid %2 : f32[2,21,9,5] nchw\nout y = %3\n"},
    {"vec", SM80, true, /* pools one after the other, side by side with their input */
     "in  %x : f32[2,24,6,7] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,6,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,24,6,7] nchw\n%3 = maxpool %2 {kernel=5,5 pad=2,2,2,2} : f16[2,24,6,7] nchw\n"
     "%4 = maxpool %3 {kernel=5,5 pad=2,2,2,2} : f16[2,24,6,7] nchw\n"
     "%5 = maxpool %4 {kernel=5,5 pad=2,2,2,2} : f16[2,24,6,7] nchw\n%6 = concat %2, %3, %4, %5 : f16[2,96,6,7] nchw\n"
     "%7 = avgpool %6 {kernel=2,2 stride=2,2} : f16[2,96,3,3] nchw\nout y = %7\n"},
    {"vec", SM80, true, /* strides; a slice that begins at no vector */
     "in  %x : f32[1,32,7,9] nchw\n%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,32,7,9] nchw\n"
     "%2 = leaky %1 {slope=2} : bf16[1,32,7,9] nchw\n%3 = slice %2 {start=9 count=16} : bf16[1,16,7,9] nchw\n"
     "%4 = maxpool %3 {kernel=3,2 stride=2,2 pad=1,0,1,1} : bf16[1,16,4,5] nchw\n"
     "%5 = upsample %4 {factor=2} : bf16[1,16,8,10] nchw\n%6 = relu %5 : bf16[1,16,8,10] nchw\nout y = %6\n"},
    {"vec", SM80, false, /* a choice of channels by index */
     "in  %x : f32[1,16,4,4] nchw\n%1 = s2d %x : f32[1,64,2,2] nchw\nout y = %1\n"},
    {"vec_pool", SM80, true, /* pools one after the other, side by side with their input */
     "in  %x : f32[2,24,6,7] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,6,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,24,6,7] nchw\n%3 = maxpool %2 {kernel=5,5 pad=2,2,2,2} : f16[2,24,6,7] nchw\n"
     "%4 = maxpool %3 {kernel=5,5 pad=2,2,2,2} : f16[2,24,6,7] nchw\n"
     "%5 = maxpool %4 {kernel=5,5 pad=2,2,2,2} : f16[2,24,6,7] nchw\n%6 = concat %2, %3, %4, %5 : f16[2,96,6,7] nchw\n"
     "%7 = avgpool %6 {kernel=2,2 stride=2,2} : f16[2,96,3,3] nchw\nout y = %7\n"},
    {"vec_pool", SM90, true, /* uneven windows, a stride at the end; channels that are no whole vectors; the input is gone */
     "in  %x : f32[1,21,9,11] nchw\n%1 = leaky %x {slope=2} : f32[1,21,9,11] nchw\n"
     "%2 = avgpool %1 {kernel=3,3 pad=1,1,1,1} : f32[1,21,9,11] nchw\n"
     "%3 = maxpool %2 {kernel=3,4 pad=2,1,0,2} : f32[1,21,9,11] nchw\n"
     "%4 = maxpool %3 {kernel=3,3 stride=2,2 pad=1,1,1,1} : f32[1,21,5,6] nchw\n%5 = silu %4 : f32[1,21,5,6] nchw\n"
     "%6 = maxpool %2 {kernel=2,2 stride=2,2 pad=1,1,0,0} : f32[1,21,5,6] nchw\n%7 = add %5, %6 : f32[1,21,5,6] nchw\nout y = %7\n"},
    {"vec_dw", SM80, true, /* 3x3 */
     "in  %x : f32[2,24,9,11] nchw\nw   $k : f16[24,1,3,3] oihw\nw   $b : f32[24]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,9,11] nchw\n%2 = leaky %1 {slope=2} : f16[2,24,9,11] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1 groups=24} : f16[2,24,9,11] nchw\n%4 = silu %3 : f16[2,24,9,11] nchw\n"
     "%5 = add %4, %2 : f16[2,24,9,11] nchw\nout y = %5\n"},
    {"vec_dw", SM90, true, /* stride, odd channels, single precision */
     "in  %x : f32[1,21,7,19] nchw\nw   $k : f32[21,1,3,5] oihw\nw   $b : f32[21]\n%1 = relu %x : f32[1,21,7,19] nchw\n"
     "%2 = conv2d %1, $k, $b {stride=2,2 pad=1,2,1,2 groups=21} : f32[1,21,4,10] nchw\n"
     "%3 = silu %2 : f32[1,21,4,10] nchw\nout y = %3\n"},
    {"vec_dw", SM80, true, /* 7x7, a map that is smaller */
     "in  %x : f32[1,16,5,3] nchw\nw   $k : f16[16,1,7,7] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,5,3] nchw\n%2 = leaky %1 {slope=2} : f16[1,16,5,3] nchw\n"
     "%3 = conv2d %2, $k {pad=3,3,3,3 groups=16} : f16[1,16,5,3] nchw\n%4 = relu %3 : f16[1,16,5,3] nchw\nout y = %4\n"},
    {"vec_dw", SM80, true, /* dilated; part of wider pixels */
     "in  %x : f32[2,40,9,9] nchw\nw   $k : f16[16,1,3,3] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,40,9,9] nchw\n%2 = leaky %1 {slope=2} : f16[2,40,9,9] nchw\n"
     "%3 = slice %2 {start=20 count=16} : f16[2,16,9,9] nchw\n"
     "%4 = conv2d %3, $k {pad=2,2,2,2 dil=2,2 groups=16} : f16[2,16,9,9] nchw\n%5 = relu %4 : f16[2,16,9,9] nchw\nout y = %5\n"},
    {"vec_dw", SM80, true, /* slices at equal distances, side by side */
     "in  %x : f32[2,72,5,6] nchw\nw   $k : f16[32,1,3,3] oihw\nw   $b : f32[32]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,72,5,6] nchw\n%2 = leaky %1 {slope=2} : f16[2,72,5,6] nchw\n"
     "%3 = slice %2 {start=14 count=16} : f16[2,16,5,6] nchw\n%4 = slice %2 {start=50 count=16} : f16[2,16,5,6] nchw\n"
     "%5 = concat %3, %4 : f16[2,32,5,6] nchw\n%6 = conv2d %5, $k, $b {pad=1,1,1,1 groups=32} : f16[2,32,5,6] nchw\n"
     "%7 = slice %2 {start=8 count=32} : f16[2,32,5,6] nchw\n%8 = add %6, %7 : f16[2,32,5,6] nchw\nout y = %8\n"},
    {"vec_dw", SM90, true, /* three, of two channels each */
     "in  %x : f32[1,21,5,6] nchw\nw   $k : f32[6,1,3,3] oihw\n%1 = leaky %x {slope=2} : f32[1,21,5,6] nchw\n"
     "%2 = slice %1 {start=1 count=2} : f32[1,2,5,6] nchw\n%3 = slice %1 {start=8 count=2} : f32[1,2,5,6] nchw\n"
     "%4 = slice %1 {start=15 count=2} : f32[1,2,5,6] nchw\n%5 = concat %2, %3, %4 : f32[1,6,5,6] nchw\n"
     "%6 = conv2d %5, $k {pad=1,1,1,1 groups=6} : f32[1,6,5,6] nchw\n%7 = silu %6 : f32[1,6,5,6] nchw\nout y = %7\n"},
    {"vec_dw", SM90, false, /* at distances that differ */
     "in  %x : f32[1,21,5,6] nchw\nw   $k : f32[6,1,3,3] oihw\n%1 = leaky %x {slope=2} : f32[1,21,5,6] nchw\n"
     "%2 = slice %1 {start=1 count=2} : f32[1,2,5,6] nchw\n%3 = slice %1 {start=8 count=2} : f32[1,2,5,6] nchw\n"
     "%4 = slice %1 {start=16 count=2} : f32[1,2,5,6] nchw\n%5 = concat %2, %3, %4 : f32[1,6,5,6] nchw\n"
     "%6 = conv2d %5, $k {pad=1,1,1,1 groups=6} : f32[1,6,5,6] nchw\n%7 = silu %6 : f32[1,6,5,6] nchw\nout y = %7\n"},
    {"vec_dw", SM80, false, /* two channels a group */
     "in  %x : f32[1,16,9,9] nchw\nw   $k : f32[16,2,3,3] oihw\n%1 = relu %x : f32[1,16,9,9] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1 groups=8} : f32[1,16,9,9] nchw\n%3 = relu %2 : f32[1,16,9,9] nchw\nout y = %3\n"},
    {"vec_dfl", SM80, true,
     "in  %x : f32[2,64,5,7] nchw\n%1 = leaky %x {slope=2} : f32[2,64,5,7] nchw\n%2 = dfl_box %1 {stride=8 bins=16} : f32[2,4,35]\n"
     "out y = %2\n"},
    {"vec_dfl", SM80, true, /* half precision in; corners; bins that are no whole vectors */
     "in  %x : f32[1,20,4,4] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,20,4,4] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,20,4,4] nchw\n%3 = maxpool %2 {kernel=3,3 pad=1,1,1,1} : f16[1,20,4,4] nchw\n"
     "%4 = cast %3 {dtype=f32 layout=nchw} : f32[1,20,4,4] nchw\n%5 = dfl_box %4 {stride=16 bins=5 corners=1} : f32[1,4,16]\n"
     "out y = %5\n"},
    {"vec_dfl", SM80, true, /* the distances themselves */
     "in  %x : f32[1,4,3,4] nchw\n%1 = leaky %x {slope=2} : f32[1,4,3,4] nchw\n%2 = dfl_box %1 {stride=8 bins=1} : f32[1,4,12]\n"
     "out y = %2\n"},
    {"vec_flat", SM80, true, /* scores */
     "in  %x : f32[2,80,3,5] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,80,3,5] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,80,3,5] nchw\n%3 = maxpool %2 {kernel=3,3 pad=1,1,1,1} : f16[2,80,3,5] nchw\n"
     "%4 = cast %3 {dtype=f32 layout=nchw} : f32[2,80,3,5] nchw\n%5 = sigmoid %4 : f32[2,80,3,5] nchw\n"
     "%6 = flatten %5 : f32[2,80,15]\nout y = %6\n"},
    {"vec_flat", SM90, true, /* odd channels */
     "in  %x : f32[1,21,4,6] nchw\n%1 = leaky %x {slope=2} : f32[1,21,4,6] nchw\n%2 = maxpool %1 {kernel=3,3 pad=1,1,1,1} : f32[1,21,4,6] nchw\n"
     "%3 = sigmoid %2 : f32[1,21,4,6] nchw\n%4 = flatten %3 : f32[1,21,24]\nout y = %4\n"},
    {"vec_flat", SM80, true, /* back to planes */
     "in  %x : f32[2,21,9,5] nchw\n%1 = relu %x : f32[2,21,9,5] nchw\n"
     "%2 = maxpool %1 {kernel=5,5 pad=2,2,2,2} : f32[2,21,9,5] nchw\n%3 = sigmoid %2 : f32[2,21,9,5] nchw\nout y = %3\n"},
    {"warp_lse", SM90, true, /* rows that are no multiple of a warp, of two images */
     "in  %x : f32[2,3,100,2] nchw\n%1 = leaky %x {slope=4} : f32[2,3,100,2] nchw\n%2 = lse %1 {axis=2} : f32[2,3,1,2] nchw\n"
     "%3 = relu %2 : f32[2,3,1,2] nchw\nout y = %2\nout z = %3\n"},
    {"warp_lse", SM80, false, /* short rows */
     "in  %x : f32[2,3,20,2] nchw\n%1 = lse %x {axis=2} : f32[2,3,1,2] nchw\nout y = %1\n"},
    {"warp_sums", SM90, true, /* moments of half-precision channels, two images */
     "in  %x : f32[2,50,3,5] nchw\nw   $g : f32[50]\nw   $b : f32[50]\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,50,3,5] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,50,3,5] nchw\n%3 = cast %2 {dtype=f32 layout=nchw} : f32[2,50,3,5] nchw\n"
     "%4 = moments %3 {eps=1e-05} : f32[2,2,3,5] nchw\n%5 = relu %4 : f32[2,2,3,5] nchw\nout y = %4\nout z = %5\n"},
    {"warp_sums", SM80, true, /* lengths and peaks */
     "in  %x : f32[1,33,4,5] nchw\n%1 = leaky %x {slope=2} : f32[1,33,4,5] nchw\n%2 = rnorm %1 : f32[1,1,4,5] nchw\n"
     "%3 = peak %1 : f32[1,1,4,5] nchw\nout y = %2\nout z = %3\n"},
    {"warp_sums", SM80, false, /* few channels */
     "in  %x : f32[1,31,4,5] nchw\n%1 = peak %x : f32[1,1,4,5] nchw\nout y = %1\n"},
    {"conv_stem", SM80, true, /* a picture, stride 2 */
     "in  %x : u8[2,20,38,3] nchw\nw   $k : f16[16,3,3,3] oihw\nw   $b : f32[16]\n%1 = image %x : f32[2,3,20,38] nhwc\n"
     "%2 = cast %1 {dtype=f16 layout=nchw} : f16[2,3,20,38] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=2,2 pad=1,1,1,1} : f16[2,16,10,19] nchw\n%4 = silu %3 : f16[2,16,10,19] nchw\nout y = %4\n"},
    {"conv_stem", SM80, true, /* its channels reversed, a window of even sides, odd sides of the map */
     "in  %x : u8[1,15,21,3] nchw\nw   $k : f16[48,3,6,6] oihw\n%1 = image %x {div=57 bgr=1} : f32[1,3,15,21] nhwc\n"
     "%2 = cast %1 {dtype=f16 layout=nchw} : f16[1,3,15,21] nchw\n"
     "%3 = conv2d %2, $k {stride=2,2 pad=2,2,2,2} : f16[1,48,7,10] nchw\n%4 = relu %3 : f16[1,48,7,10] nchw\nout y = %4\n"},
    {"conv_stem", SM90, true, /* floats in planes, several units in a row, dilated rows */
     "in  %x : f32[2,3,9,700] nchw\nw   $k : bf16[24,3,3,3] oihw\nw   $b : f32[24]\n"
     "%1 = cast %x {dtype=bf16 layout=nchw} : bf16[2,3,9,700] nchw\n"
     "%2 = conv2d %1, $k, $b {stride=1,2 pad=2,1,2,1 dil=2,1} : bf16[2,24,9,350] nchw\n%3 = silu %2 : bf16[2,24,9,350] nchw\n"
     "out y = %3\n"},
    {"conv_stem", SM80, true, /* one channel of four, stride 1; another stored */
     "in  %x : f32[1,4,7,9] nchw\nw   $k : f16[8,4,3,3] oihw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,4,7,9] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1} : f16[1,8,7,9] nchw\n%3 = relu %2 : f16[1,8,7,9] nchw\nout y = %3\nout z = %2\n"},
    {"conv_stem", SM80, false, /* windows that begin within words */
     "in  %x : f32[1,3,7,9] nchw\nw   $k : f16[8,3,3,3] oihw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,3,7,9] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1} : f16[1,8,7,9] nchw\n%3 = relu %2 : f16[1,8,7,9] nchw\nout y = %3\n"},
    {"conv_stem", SM80, false, /* single precision, and tf32 is not asked for */
     "in  %x : f32[1,3,8,8] nchw\nw   $k : f32[8,3,3,3] oihw\n%1 = conv2d %x, $k {stride=2,2 pad=1,1,1,1} : f32[1,8,4,4] nchw\n"
     "%2 = relu %1 : f32[1,8,4,4] nchw\nout y = %2\n"},
};

Test(cuda_vec, against_the_evaluator, .timeout = 240)
{
    cudarows_evaluate(rows, YIR_COUNT(rows), NULL);
}

Test(cuda_vec, nvrtc_takes_each, .timeout = 600)
{
    static const char *const targets[] = {SM90, SM80, "cuda:sm_75", "cuda:sm_86", "cuda:sm_89", "cuda:sm_100", "cuda:sm_120"};
    if (!cudarows_compile(rows, YIR_COUNT(rows), targets, (size_t)test_count(1, YIR_COUNT(targets)), NULL)) cr_skip_test("no NVRTC here");
}
