/* Convolutions by mma.sync: the CUDA C of some configurations, run on the host, beside the evaluator; what is taken and declined; that
 * NVRTC compiles it. */
#include <criterion/criterion.h>
#include "codegen/codegen.h"
#include "cudarows.h"
#include "longer.h"

static const struct cudarow rows[] = {
    {"conv_mma", "cuda:sm_80", true, /* 3x3 with a residual; two images, a map of odd sides */
     "in  %x : f32[2,16,9,11] nchw\nw   $k : f16[16,16,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,16,9,11] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,16,9,11] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[2,16,9,11] nchw\n%4 = silu %3 : f16[2,16,9,11] nchw\n"
     "%5 = add %4, %2 : f16[2,16,9,11] nchw\nout y = %5\n"},
    {"conv_mma", "cuda:sm_80", true, /* stride 2; the channels fill half of the last block */
     "in  %x : f32[1,16,17,33] nchw\nw   $k : f16[24,16,3,3] oihw\nw   $b : f32[24]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,17,33] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,17,33] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=2,2 pad=1,1,1,1} : f16[1,24,9,17] nchw\n"
     "%4 = silu %3 : f16[1,24,9,17] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* 1x1; channels of five blocks */
     "in  %x : f32[3,48,20,20] nchw\nw   $k : f16[80,48,1,1] oihw\nw   $b : f32[80]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[3,48,20,20] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[3,48,20,20] nchw\n%3 = conv2d %2, $k, $b : f16[3,80,20,20] nchw\n"
     "%4 = silu %3 : f16[3,80,20,20] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* outputs that are no whole vectors; padding of one side */
     "in  %x : f32[2,24,7,9] nchw\nw   $k : f16[21,24,3,3] oihw\nw   $b : f32[21]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,7,9] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,24,7,9] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=2,1,0,1} : f16[2,21,7,9] nchw\n%4 = relu %3 : f16[2,21,7,9] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* fewer outputs than a vector */
     "in  %x : f32[1,32,5,7] nchw\nw   $k : f16[5,32,1,1] oihw\nw   $b : f32[5]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,32,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,32,5,7] nchw\n%3 = conv2d %2, $k, $b : f16[1,5,5,7] nchw\n"
     "%4 = sigmoid %3 : f16[1,5,5,7] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* pixels of 24 bytes, in pieces of 8; 5x5 */
     "in  %x : f32[1,12,5,7] nchw\nw   $k : f16[20,12,5,5] oihw\nw   $b : f32[20]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,12,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,12,5,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=2,2,2,2} : f16[1,20,5,7] nchw\n%4 = silu %3 : f16[1,20,5,7] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* pixels of 12 bytes, in pieces of 4 */
     "in  %x : f32[2,6,5,7] nchw\nw   $k : f16[16,6,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,6,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,6,5,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[2,16,5,7] nchw\n%4 = silu %3 : f16[2,16,5,7] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* pixels of 6 bytes; stride 2 along one side */
     "in  %x : f32[1,3,10,12] nchw\nw   $k : f16[16,3,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,3,10,12] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,3,10,12] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=1,2 pad=1,1,1,1} : f16[1,16,10,6] nchw\n"
     "%4 = silu %3 : f16[1,16,10,6] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* 7x7, dilated rows */
     "in  %x : f32[1,8,14,9] nchw\nw   $k : f16[16,8,7,7] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,8,14,9] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,8,14,9] nchw\n"
     "%3 = conv2d %2, $k {pad=3,3,3,3 dil=2,1} : f16[1,16,8,9] nchw\n%4 = silu %3 : f16[1,16,8,9] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* groups of 16 channels */
     "in  %x : f32[1,32,6,6] nchw\nw   $k : f16[48,16,3,3] oihw\nw   $b : f32[48]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,32,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,32,6,6] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1 groups=2} : f16[1,48,6,6] nchw\n"
     "%4 = silu %3 : f16[1,48,6,6] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* many channels */
     "in  %x : f32[1,192,5,5] nchw\nw   $k : f16[136,192,3,3] oihw\nw   $b : f32[136]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,192,5,5] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,192,5,5] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[1,136,5,5] nchw\n%4 = silu %3 : f16[1,136,5,5] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* bf16 */
     "in  %x : f32[1,40,6,7] nchw\nw   $k : bf16[16,40,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,40,6,7] nchw\n"
     "%2 = leaky %1 {slope=2} : bf16[1,40,6,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : bf16[1,16,6,7] nchw\n%4 = silu %3 : bf16[1,16,6,7] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* tf32; chunks of 4 channels, the last of them short */
     "in  %x : f32[1,22,6,7] nchw\nw   $k : f32[16,22,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = leaky %x {slope=2} : f32[1,22,6,7] nchw\n%2 = maxpool %1 {kernel=1,1} : f32[1,22,6,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f32[1,16,6,7] nchw\n%4 = silu %3 : f32[1,16,6,7] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* tf32, pieces of 4 bytes */
     "in  %x : f32[1,17,6,7] nchw\nw   $k : f32[24,17,1,1] oihw\nw   $b : f32[24]\n"
     "%1 = leaky %x {slope=2} : f32[1,17,6,7] nchw\n%2 = maxpool %1 {kernel=1,1} : f32[1,17,6,7] nchw\n"
     "%3 = conv2d %2, $k, $b : f32[1,24,6,7] nchw\n%4 = silu %3 : f32[1,24,6,7] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_75", true, /* no cp.async, and products of half the depth */
     "in  %x : f32[1,32,9,9] nchw\nw   $k : f16[32,32,3,3] oihw\nw   $b : f32[32]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,32,9,9] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,32,9,9] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[1,32,9,9] nchw\n%4 = silu %3 : f16[1,32,9,9] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_75", true, /* the same with odd pixels */
     "in  %x : f32[1,6,5,7] nchw\nw   $k : f16[16,6,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,6,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,6,5,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[1,16,5,7] nchw\n%4 = silu %3 : f16[1,16,5,7] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* a result of another type */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f16[64,16,1,1] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,6,6] nchw\n%3 = conv2d %2, $k, $b : f16[1,64,6,6] nchw\n"
     "%4 = leaky %3 : f16[1,64,6,6] nchw\n%5 = cast %4 {dtype=f32 layout=nchw} : f32[1,64,6,6] nchw\n"
     "%6 = relu %5 : f32[1,64,6,6] nchw\nout y = %6\n"},
    {"conv_mma", "cuda:sm_80", true, /* from part of wider pixels to part of wider pixels */
     "in  %x : f32[2,48,6,6] nchw\nw   $k : f16[24,16,3,3] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,48,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,48,6,6] nchw\n"
     "%3 = slice %2 {start=24 count=16} : f16[2,16,6,6] nchw\n"
     "%4 = conv2d %3, $k {pad=1,1,1,1} : f16[2,24,6,6] nchw\n%5 = relu %4 : f16[2,24,6,6] nchw\n"
     "%6 = leaky %3 {slope=3} : f16[2,16,6,6] nchw\n%7 = concat %6, %5 : f16[2,40,6,6] nchw\n"
     "%8 = maxpool %7 {kernel=3,3 pad=1,1,1,1} : f16[2,40,6,6] nchw\nout y = %8\n"},
    {"conv_mma", "cuda:sm_80", true, /* from a slice that begins at no multiple of 16 bytes */
     "in  %x : f32[1,40,6,6] nchw\nw   $k : f16[24,16,3,3] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,40,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,40,6,6] nchw\n"
     "%3 = slice %2 {start=18 count=16} : f16[1,16,6,6] nchw\n"
     "%4 = conv2d %3, $k {pad=1,1,1,1} : f16[1,24,6,6] nchw\n%5 = relu %4 : f16[1,24,6,6] nchw\n"
     "out y = %5\n"},
    {"conv_mma", "cuda:sm_80", true, /* one of two maps enlarged */
     "in  %x : f32[2,24,4,5] nchw\nin  %z : f32[2,16,8,10] nchw\nw   $k : f16[32,40,1,1] oihw\n"
     "w   $b : f32[32]\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,4,5] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,24,4,5] nchw\n"
     "%3 = cast %z {dtype=f16 layout=nchw} : f16[2,16,8,10] nchw\n"
     "%4 = leaky %3 {slope=2} : f16[2,16,8,10] nchw\n%5 = upsample %2 {factor=2} : f16[2,24,8,10] nchw\n"
     "%6 = concat %5, %4 : f16[2,40,8,10] nchw\n%7 = conv2d %6, $k, $b : f16[2,32,8,10] nchw\n"
     "%8 = silu %7 : f16[2,32,8,10] nchw\nout y = %8\n"},
    {"conv_mma", "cuda:sm_80", true, /* an enlarged map, 3x3; three maps, one of which is in another concat */
     "in  %x : f32[1,16,4,4] nchw\nw   $k : f16[16,16,3,3] oihw\nw   $l : f16[24,48,3,3] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,4,4] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,4,4] nchw\n%3 = upsample %2 {factor=4} : f16[1,16,16,16] nchw\n"
     "%4 = conv2d %3, $k {pad=1,1,1,1} : f16[1,16,16,16] nchw\n"
     "%5 = leaky %4 {slope=2} : f16[1,16,16,16] nchw\n"
     "%6 = upsample %2 {factor=4} : f16[1,16,16,16] nchw\n"
     "%7 = leaky %5 {slope=3} : f16[1,16,16,16] nchw\n%8 = concat %6, %5, %7 : f16[1,48,16,16] nchw\n"
     "%9 = conv2d %8, $l {stride=2,2 pad=1,1,1,1} : f16[1,24,8,8] nchw\n"
     "%10 = relu %9 : f16[1,24,8,8] nchw\n%11 = concat %5, %7 : f16[1,32,16,16] nchw\n"
     "%12 = maxpool %11 {kernel=2,2 stride=2,2} : f16[1,32,8,8] nchw\nout y = %10\nout z = %12\n"},
    {"conv_mma", "cuda:sm_80", false, /* 4 channels a group */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f16[16,4,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,6,6] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1 groups=4} : f16[1,16,6,6] nchw\n"
     "%4 = silu %3 : f16[1,16,6,6] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_75", false, /* bf16 that the GPU has not */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : bf16[16,16,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,16,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : bf16[1,16,6,6] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : bf16[1,16,6,6] nchw\n%4 = silu %3 : bf16[1,16,6,6] nchw\n"
     "out y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* a map of floats, rounded as it is copied; the last chunk is half full */
     "in  %x : f32[2,20,6,7] nchw\nw   $k : f16[24,20,3,3] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[2,20,6,7] nchw\n"
     "%2 = cast %1 {dtype=f16 layout=nchw} : f16[2,20,6,7] nchw\n%3 = conv2d %2, $k {pad=1,1,1,1} : f16[2,24,6,7] nchw\n"
     "%4 = silu %3 : f16[2,24,6,7] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* the same with odd pixels, to bf16 */
     "in  %x : f32[1,11,6,7] nchw\nw   $k : bf16[16,11,1,1] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,11,6,7] nchw\n"
     "%2 = cast %1 {dtype=bf16 layout=nchw} : bf16[1,11,6,7] nchw\n%3 = conv2d %2, $k : bf16[1,16,6,7] nchw\n"
     "%4 = relu %3 : bf16[1,16,6,7] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", true, /* a transposed convolution: four corners of each pixel */
     "in  %x : f32[2,24,5,6] nchw\nw   $k : f16[24,40,2,2] oihw\nw   $b : f32[40]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,5,6] nchw\n%2 = leaky %1 {slope=2} : f16[2,24,5,6] nchw\n"
     "%3 = deconv2d %2, $k, $b {stride=2,2} : f16[2,40,10,12] nchw\n%4 = silu %3 : f16[2,40,10,12] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", false, /* one whose windows overlap */
     "in  %x : f32[1,16,5,6] nchw\nw   $k : f16[16,16,4,4] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,5,6] nchw\n%2 = leaky %1 {slope=2} : f16[1,16,5,6] nchw\n"
     "%3 = deconv2d %2, $k {stride=2,2 pad=1,1} : f16[1,16,10,12] nchw\n%4 = relu %3 : f16[1,16,10,12] nchw\nout y = %4\n"},
    {"conv_mma", "cuda:sm_80", false, /* an input that is computed in place */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f16[16,16,1,1] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,6,6] nchw\n"
     "%2 = conv2d %1, $k : f16[1,16,6,6] nchw\n%3 = relu %2 : f16[1,16,6,6] nchw\nout y = %3\n"},
    {"conv_mma", "cuda:sm_90a", false, /* F32, and tf32 is not asked for */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f32[16,16,1,1] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,16,6,6] nchw\n"
     "%2 = conv2d %1, $k : f32[1,16,6,6] nchw\n%3 = relu %2 : f32[1,16,6,6] nchw\nout y = %3\n"},
};

static const struct cudarows_opts opts = {.tf32 = "cuda:sm_80", .bound = 2e-3};

Test(cuda_mma, against_the_evaluator, .timeout = 240)
{
    cudarows_evaluate(rows, YIR_COUNT(rows), &opts);
}

/* --- through NVRTC ------------------------------------------------------------------------------------------ */

Test(cuda_mma, nvrtc_takes_each, .timeout = 600)
{
    static const char *const targets[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_75", "cuda:sm_86", "cuda:sm_89", "cuda:sm_100", "cuda:sm_120"};
    size_t n = (size_t)test_count(2, YIR_COUNT(targets)), step = (size_t)test_count(4, 1);
    for (size_t t = 0; t < n; t++) {
        struct cudarow some[YIR_COUNT(rows)];
        size_t count = 0;
        for (size_t i = t % step; i < YIR_COUNT(rows); i += step) some[count++] = rows[i];
        if (!cudarows_compile(some, count, &targets[t], 1, &opts)) cr_skip_test("no NVRTC here");
    }
}
