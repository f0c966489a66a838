/* Attention as a whole: the CUDA C of some configurations, run on the host, beside the evaluator; what is taken and declined; that NVRTC
 * compiles it. */
#include <criterion/criterion.h>

#include "cudarows.h"
#include "ir/base.h"
#include "longer.h"

#define SM80 "cuda:sm_80"
#define SM75 "cuda:sm_75"
#define SM90 "cuda:sm_90a"

static const struct cudarow rows[] = {
    {"attn_mma", SM80, true, /* queries, keys and values of one map, values of twice the channels; two images, queries that fill no tile */
     "in  %x : f32[2,128,3,7] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,128,3,7] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[2,128,3,7] nchw\n"
     "%3 = attention %2, %2, %2 {heads=1 dim=32 kat=32 scale=0.17677669 values=64 vat=64} : f16[2,64,3,7] nchw\nout y = %3\n"},
    {"attn_mma", SM80, true, /* heads; several tiles of keys, the last of them short; a residual */
     "in  %x : f32[1,96,9,11] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,96,9,11] nchw\n"
     "%2 = leaky %1 {slope=9} : f16[1,96,9,11] nchw\n"
     "%3 = attention %2, %2, %2 {heads=2 dim=16 kat=16 scale=0.25 values=16 vat=32} : f16[1,32,9,11] nchw\n"
     "%4 = slice %2 {start=64 count=32} : f16[1,32,9,11] nchw\n%5 = add %3, %4 : f16[1,32,9,11] nchw\n"
     "%6 = silu %5 : f16[1,32,9,11] nchw\nout y = %6\n"},
    {"attn_mma", SM90, true, /* areas; part of wider pixels into part of wider pixels */
     "in  %x : f32[2,112,8,9] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,112,8,9] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[2,112,8,9] nchw\n%3 = slice %2 {start=8 count=96} : f16[2,96,8,9] nchw\n"
     "%4 = attention %3, %3, %3 {heads=2 dim=16 kat=16 areas=4 scale=0.25 values=16 vat=32} : f16[2,32,8,9] nchw\n"
     "%5 = relu %1 : f16[2,112,8,9] nchw\n%6 = concat %5, %4 : f16[2,144,8,9] nchw\n"
     "%7 = maxpool %6 {kernel=3,3 pad=1,1,1,1} : f16[2,144,8,9] nchw\nout y = %7\n"},
    {"attn_mma", SM80, true, /* queries that are other positions than the keys; channels that fill no product */
     "in  %x : f32[1,48,6,7] nchw\nin  %z : f32[1,80,9,11] nchw\n%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,48,6,7] nchw\n"
     "%2 = leaky %1 {slope=4} : bf16[1,48,6,7] nchw\n%3 = cast %z {dtype=bf16 layout=nchw} : bf16[1,80,9,11] nchw\n"
     "%4 = leaky %3 {slope=4} : bf16[1,80,9,11] nchw\n"
     "%5 = attention %2, %4, %4 {heads=2 dim=24 scale=0.3 values=8 vat=24} : bf16[1,16,6,7] nchw\nout y = %5\n"},
    {"attn_mma", SM80, true, /* fewer keys than a tile, one query in the last tile; slices at 8 bytes */
     "in  %x : f32[1,28,1,17] nchw\nin  %z : f32[1,40,1,3] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,28,1,17] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,28,1,17] nchw\n%3 = cast %z {dtype=f16 layout=nchw} : f16[1,40,1,3] nchw\n"
     "%4 = leaky %3 {slope=4} : f16[1,40,1,3] nchw\n"
     "%5 = attention %2, %4, %4 {dim=16 qat=4 kat=2 values=24 vat=16} : f16[1,24,1,17] nchw\nout y = %5\n"},
    {"attn_mma", SM75, true, /* no cp.async, and products of half the depth */
     "in  %x : f32[1,96,7,9] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,96,7,9] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,96,7,9] nchw\n"
     "%3 = attention %2, %2, %2 {heads=1 dim=32 kat=32 scale=0.2 values=32 vat=64} : f16[1,32,7,9] nchw\nout y = %3\n"},
    {"attn_mma", SM75, true, /* the same from slices at 4 bytes */
     "in  %x : f32[1,90,5,7] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,90,5,7] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,90,5,7] nchw\n"
     "%3 = attention %2, %2, %2 {dim=16 qat=2 kat=24 scale=0.2 values=40 vat=48} : f16[1,40,5,7] nchw\nout y = %3\n"},
    {"attn_mma", SM80, true, /* tf32 */
     "in  %x : f32[2,60,6,7] nchw\n%1 = leaky %x {slope=2} : f32[2,60,6,7] nchw\n"
     "%2 = attention %1, %1, %1 {heads=1 dim=20 kat=20 scale=0.1 values=16 vat=40} : f32[2,16,6,7] nchw\n%3 = leaky %2 {slope=2} : f32[2,16,6,7] nchw\n"
     "out y = %3\n"},
    {"attn_mma", SM80, true, /* wide heads; scores so large that one key has all the weight */
     "in  %x : f32[1,384,3,4] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,384,3,4] nchw\n"
     "%2 = leaky %1 {slope=30} : f16[1,384,3,4] nchw\n"
     "%3 = attention %2, %2, %2 {dim=128 kat=128 scale=0.5 values=128 vat=256} : f16[1,128,3,4] nchw\nout y = %3\n"},
    {"attn_vec", SM90, true, /* heads, areas, a residual; one tile of keys or several */
     "in  %x : f32[2,60,6,8] nchw\n%1 = leaky %x {slope=2} : f32[2,60,6,8] nchw\n"
     "%2 = attention %1, %1, %1 {heads=2 dim=11 qat=1 kat=12 areas=2 scale=0.3 values=6 vat=23} : f32[2,12,6,8] nchw\n"
     "%3 = slice %1 {start=7 count=12} : f32[2,12,6,8] nchw\n%4 = add %2, %3 : f32[2,12,6,8] nchw\nout y = %4\n"},
    {"attn_vec", SM80, true, /* other keys, an odd number of values */
     "in  %x : f32[1,16,5,7] nchw\nin  %z : f32[1,25,7,9] nchw\n%1 = leaky %x {slope=2} : f32[1,16,5,7] nchw\n"
     "%2 = leaky %z {slope=2} : f32[1,25,7,9] nchw\n"
     "%3 = attention %1, %2, %2 {dim=16 scale=0.5 values=9 vat=16} : f32[1,9,5,7] nchw\n%4 = silu %3 : f32[1,9,5,7] nchw\nout y = %4\n"},
    {"attn_vec", SM75, true, /* bf16; values in whole vectors; a scale below 0 */
     "in  %x : f32[1,64,5,8] nchw\n%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,64,5,8] nchw\n"
     "%2 = leaky %1 {slope=2} : bf16[1,64,5,8] nchw\n"
     "%3 = attention %2, %2, %2 {dim=16 kat=16 scale=-0.3 values=32 vat=32} : bf16[1,32,5,8] nchw\nout y = %3\n"},
    {"attn_vec", SM80, true, /* fewer keys than groups; operands of another type, which are made before */
     "in  %x : f32[1,20,1,5] nchw\nw   $k : f16[20,20,1,1] oihw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,20,1,5] nchw\n"
     "%2 = conv2d %1, $k : f16[1,20,1,5] nchw\n%3 = relu %2 : f16[1,20,1,5] nchw\n%4 = cast %2 {dtype=f32 layout=nchw} : f32[1,20,1,5] nchw\n"
     "%5 = cast %3 {dtype=f32 layout=nchw} : f32[1,20,1,5] nchw\n%6 = attention %4, %5, %4 {dim=8 values=4 vat=12} : f32[1,4,1,5] nchw\n"
     "out y = %6\n"},
    {"attn_vec", SM80, true, /* values in parts, for the registers' sake */
     "in  %x : f32[1,600,2,3] nchw\n%1 = leaky %x {slope=2} : f32[1,600,2,3] nchw\n"
     "%2 = attention %1, %1, %1 {heads=2 dim=100 kat=100 scale=0.1 values=90 vat=200} : f32[1,180,2,3] nchw\nout y = %2\n"},
    {"attn_vec", SM80, false, /* channels that registers do not hold */
     "in  %x : f32[1,300,2,3] nchw\n%1 = leaky %x {slope=2} : f32[1,300,2,3] nchw\n"
     "%2 = attention %1, %1, %1 {dim=141 values=100 vat=200} : f32[1,100,2,3] nchw\nout y = %2\n"},
    {"attn_mma", SM80, false, /* channels that are no 16 bytes */
     "in  %x : f32[1,60,4,5] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,60,4,5] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,60,4,5] nchw\n"
     "%3 = attention %2, %2, %2 {dim=20 kat=20 values=16 vat=40} : f16[1,16,4,5] nchw\nout y = %3\n"},
    {"attn_mma", SM80, false, /* an odd first channel */
     "in  %x : f32[1,64,4,5] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,64,4,5] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,64,4,5] nchw\n"
     "%3 = attention %2, %2, %2 {dim=16 kat=17 values=16 vat=40} : f16[1,16,4,5] nchw\nout y = %3\n"},
    {"attn_mma", SM75, false, /* bf16 that the GPU has not */
     "in  %x : f32[1,64,4,5] nchw\n%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,64,4,5] nchw\n"
     "%2 = leaky %1 {slope=4} : bf16[1,64,4,5] nchw\n"
     "%3 = attention %2, %2, %2 {dim=16 kat=16 values=16 vat=32} : bf16[1,16,4,5] nchw\nout y = %3\n"},
    {"attn_mma", SM90, false, /* F32, and tf32 is not asked for */
     "in  %x : f32[1,64,4,5] nchw\n%1 = leaky %x {slope=4} : f32[1,64,4,5] nchw\n"
     "%2 = attention %1, %1, %1 {dim=16 kat=16 values=16 vat=32} : f32[1,16,4,5] nchw\n%3 = relu %2 : f32[1,16,4,5] nchw\nout y = %3\n"},
    {"attn_mma", SM80, false, /* heads wider than registers hold */
     "in  %x : f32[1,408,4,5] nchw\n%1 = cast %x {dtype=f16 layout=nchw} : f16[1,408,4,5] nchw\n"
     "%2 = leaky %1 {slope=4} : f16[1,408,4,5] nchw\n"
     "%3 = attention %2, %2, %2 {dim=136 kat=136 values=136 vat=272} : f16[1,136,4,5] nchw\nout y = %3\n"},
};

static const struct cudarows_opts opts = {.tf32 = SM80, .bound = 2e-3};

Test(cuda_attn, against_the_evaluator, .timeout = 240)
{
    cudarows_evaluate(rows, YIR_COUNT(rows), &opts);
}

Test(cuda_attn, nvrtc_takes_each, .timeout = 600)
{
    static const char *const targets[] = {SM80, SM90, SM75, "cuda:sm_86", "cuda:sm_89", "cuda:sm_100", "cuda:sm_120"};
    if (!cudarows_compile(rows, YIR_COUNT(rows), targets, (size_t)test_count(2, YIR_COUNT(targets)), &opts)) cr_skip_test("no NVRTC here");
}
