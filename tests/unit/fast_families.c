/* Each fast family on a function it takes and on one it declines, and what every configuration gives beside the generic way, in
 * the evaluator: the tuner may choose any of them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "evalnet.h"
#include "passes/pass.h"
#include "randnet.h"

static const struct cg_target scalar = {.kb = {.name = "1", .lanes = 1, .vregs = 16}};
static const struct cg_target targets[] = {
    {.kb = {.name = "4", .lanes = 4, .vregs = 32}},
    {.kb = {.name = "8", .lanes = 8, .vregs = 16, .has_fma = true}},
    {.kb = {.name = "16", .lanes = 16, .vregs = 32, .has_fma = true, .mem_splat = true}},
};

enum { L4 = 1, L8 = 2, L16 = 4, ALL = 7 };

#define HEADS "in  %x : f32[2,90,4,6] nchw\n%1 = leaky %x {slope=2} : f32[2,90,4,6] nchw\n"

/* All of an attention: channels of a head's parts are no whole vectors; nor are keys. */
#define ATTENTION                                                                                                                  \
    HEADS "%2 = attn_scores %1, %1 {heads=2 dim=11 qat=1 kat=13 scale=0.3} : f32[2,4,6,2,24]\n%3 = lse %2 {axis=4} : f32[2,4,6,2,1]\n" \
          "%4 = softmax %2, %3 {axis=4} : f32[2,4,6,2,24]\n%5 = attn_mix %4, %1 {dim=19 at=25} : f32[2,38,4,6] nchw\n"                 \
          "%6 = silu %5 : f32[2,38,4,6] nchw\nout y = %6\n"

/* Queries that meet the keys of their area alone. */
#define AREAS                                                                                                                       \
    "in  %x : f32[1,90,8,10] nchw\n%1 = leaky %x {slope=2} : f32[1,90,8,10] nchw\n"                                                \
    "%2 = attn_scores %1, %1 {heads=3 dim=10 kat=10 areas=4 scale=0.3} : f32[1,8,10,3,20]\n%3 = lse %2 {axis=4} : f32[1,8,10,3,1]\n" \
    "%4 = softmax %2, %3 {axis=4} : f32[1,8,10,3,20]\n%5 = attn_mix %4, %1 {dim=10 at=20 areas=4} : f32[1,30,8,10] nchw\nout y = %5\n"

#define FEW_KEYS                                                                                                           \
    "in  %x : f32[1,24,4,6] nchw\nin  %t : f32[1,24,3,3] nchw\n%1 = relu %x : f32[1,24,4,6] nchw\n%2 = relu %t : f32[1,24,3,3] nchw\n" \
    "%3 = attn_scores %1, %2 {heads=4 dim=6 scale=0.5} : f32[1,4,6,4,9]\n%4 = lse %3 {axis=4} : f32[1,4,6,4,1]\n"           \
    "%5 = softmax %3, %4 {axis=4} : f32[1,4,6,4,9]\n%6 = attn_mix %5, %2 {dim=3 at=2} : f32[1,12,4,6] nchw\nout y = %6\n"

/* Nothing along the innermost dimension. */
#define OTHER_AXIS                                                                                                        \
    "in  %x : f32[1,8,4,6] nchw\n%1 = relu %x : f32[1,8,4,6] nchw\n%2 = lse %1 {axis=2} : f32[1,8,1,6] nchw\n"             \
    "%3 = softmax %1, %2 {axis=2} : f32[1,8,4,6] nchw\nout y = %3\n"

/* The family offers itself for a kernel of the function for the targets named, and for none of the rest. */
static const struct row {
    const char *family;
    int takes; /* L4 | L8 | L16 */
    const char *ir;
} rows[] = {
    {"conv_direct", ALL, /* a map in planes: whole rows are copied */
     "in  %x : f32[2,3,9,11] nchw\nw   $k : f32[20,3,3,3] oihw\nw   $b : f32[20]\n"
     "%1 = conv2d %x, $k, $b {stride=2,2 pad=1,1,1,1} : f32[2,20,5,6] nchw\n%2 = silu %1 : f32[2,20,5,6] nchw\nout y = %2\nout z = %1\n"},
    {"conv_direct", ALL, /* the same with rows apart, which planes decline */
     "in  %x : f32[1,3,9,11] nchw\nw   $k : f32[7,3,2,4] oihw\n"
     "%1 = conv2d %x, $k {pad=3,2,0,1 dil=3,1} : f32[1,7,9,11] nchw\n%2 = relu %1 : f32[1,7,9,11] nchw\nout y = %2\n"},
    {"conv_direct", ALL, /* and pixels as one run, which planes decline too */
     "in  %x : f32[1,3,8,4] nchw\nw   $k : f32[5,3,1,1] oihw\n"
     "%1 = conv2d %x, $k : f32[1,5,8,4] nchw\n%2 = relu %1 : f32[1,5,8,4] nchw\nout y = %2\n"},
    {"conv_direct", ALL, /* a picture, its channels as they are */
     "in  %x : u8[2,10,37,3] nchw\nw   $k : f32[16,3,6,6] oihw\n%1 = image %x : f32[2,3,10,37] nhwc\n"
     "%2 = cast %1 {layout=nchw} : f32[2,3,10,37] nchw\n"
     "%3 = conv2d %2, $k {stride=2,2 pad=2,2,2,2} : f32[2,16,5,18] nchw\n%4 = relu %3 : f32[2,16,5,18] nchw\nout y = %4\n"},
    {"conv_direct", ALL, /* and reversed, so that the weights are */
     "in  %x : u8[2,7,6,3] nchw\nw   $k : f32[33,3,3,3] oihw\n%1 = image %x {div=57 bgr=1} : f32[2,3,7,6] nhwc\n"
     "%2 = cast %1 {layout=nchw} : f32[2,3,7,6] nchw\n"
     "%3 = conv2d %2, $k {pad=1,1,1,1} : f32[2,33,7,6] nchw\n%4 = relu %3 : f32[2,33,7,6] nchw\nout y = %4\n"},
    {"conv_direct", ALL, /* whole rows of a map in memory */
     "in  %x : f32[1,5,8,7] nchw\nw   $k : f32[9,5,3,3] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,5,8,7] nchw\n"
     "%2 = conv2d %1, $k {stride=2,2 pad=1,1,1,1} : f32[1,9,4,4] nchw\n%3 = relu %2 : f32[1,9,4,4] nchw\nout y = %3\n"},
    {"conv_direct", 0, /* groups */
     "in  %x : f32[1,6,8,7] nchw\nw   $k : f32[8,3,3,3] oihw\n"
     "%1 = conv2d %x, $k {pad=1,1,1,1 groups=2} : f32[1,8,8,7] nchw\n%2 = relu %1 : f32[1,8,8,7] nchw\nout y = %2\n"},
    {"conv_dw", ALL, /* read where it lies */
     "in  %x : f32[2,21,7,19] nchw\nw   $k : f32[21,1,3,5] oihw\nw   $b : f32[21]\n%1 = relu %x : f32[2,21,7,19] nchw\n"
     "%2 = conv2d %1, $k, $b {pad=1,2,1,2 groups=21} : f32[2,21,7,19] nchw\n%3 = silu %2 : f32[2,21,7,19] nchw\nout y = %3\n"},
    {"conv_dw", ALL, /* with a stride, and padding on one side alone; part of the channels */
     "in  %x : f32[1,40,9,31] nchw\nw   $k : f32[16,1,4,3] oihw\n%1 = leaky %x {slope=2} : f32[1,40,9,31] nchw\n"
     "%2 = slice %1 {start=9 count=16} : f32[1,16,9,31] nchw\n"
     "%3 = conv2d %2, $k {stride=3,2 pad=3,1,0,0 groups=16} : f32[1,16,3,15] nchw\n%4 = relu %3 : f32[1,16,3,15] nchw\nout y = %4\n"},
    {"conv_dw", ALL, /* packed: half of the columns are at the rim */
     "in  %x : f32[2,8,4,4] nchw\nw   $k : f32[8,1,3,3] oihw\n%1 = relu %x : f32[2,8,4,4] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1 groups=8} : f32[2,8,4,4] nchw\n%3 = relu %2 : f32[2,8,4,4] nchw\nout y = %3\n"},
    {"conv_dw", ALL, /* packed: dilated */
     "in  %x : f32[1,16,9,9] nchw\nw   $k : f32[16,1,3,3] oihw\n%1 = relu %x : f32[1,16,9,9] nchw\n"
     "%2 = conv2d %1, $k {pad=2,2,2,2 dil=2,2 groups=16} : f32[1,16,9,9] nchw\n%3 = relu %2 : f32[1,16,9,9] nchw\nout y = %3\n"},
    {"conv_dw", ALL, /* packed: through the prologue */
     "in  %x : f32[1,16,9,9] nchw\nw   $k : f32[16,1,3,3] oihw\n"
     "%1 = conv2d %x, $k {pad=1,1,1,1 groups=16} : f32[1,16,9,9] nchw\n%2 = relu %1 : f32[1,16,9,9] nchw\nout y = %2\n"},
    {"conv_dw", 0, /* two channels a group */
     "in  %x : f32[1,16,9,9] nchw\nw   $k : f32[16,2,3,3] oihw\n%1 = relu %x : f32[1,16,9,9] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1 groups=8} : f32[1,16,9,9] nchw\n%3 = relu %2 : f32[1,16,9,9] nchw\nout y = %3\n"},
    {"lanes", ALL,
     "in  %x : f32[1,16,3,3] nchw\n%1 = avgpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,16,3,3] nchw\n"
     "%2 = upsample %1 : f32[1,16,6,6] nchw\n%3 = relu %2 : f32[1,16,6,6] nchw\nout y = %3\n"},
    {"lanes", 0, /* a choice of channels by index */
     "in  %x : f32[1,16,4,4] nchw\n%1 = s2d %x : f32[1,64,2,2] nchw\nout y = %1\n"},
    {"pool_max", ALL, /* with an op after it; channels are no whole vectors */
     "in  %x : f32[2,21,7,9] nchw\n%1 = relu %x : f32[2,21,7,9] nchw\n"
     "%2 = maxpool %1 {kernel=5,5 pad=2,2,2,2} : f32[2,21,7,9] nchw\n%3 = sigmoid %2 : f32[2,21,7,9] nchw\nout y = %3\n"},
    {"pool_max", ALL, /* window larger than the map; strides; part of the channels */
     "in  %x : f32[1,32,4,6] nchw\n%1 = leaky %x {slope=2} : f32[1,32,4,6] nchw\n"
     "%2 = slice %1 {start=9 count=16} : f32[1,16,4,6] nchw\n"
     "%3 = maxpool %2 {kernel=7,3 stride=3,2 pad=6,1,2,0} : f32[1,16,2,3] nchw\nout y = %3\n"},
    {"pool_max", L4, /* few channels */
     "in  %x : f32[1,3,4,6] nchw\n%1 = leaky %x {slope=2} : f32[1,3,4,6] nchw\n"
     "%2 = maxpool %1 {kernel=3,3 pad=1,1,1,1} : f32[1,3,4,6] nchw\nout y = %2\n"},
    {"pool_max", 0, /* a window of many rows */
     "in  %x : f32[1,16,20,6] nchw\n%1 = leaky %x {slope=2} : f32[1,16,20,6] nchw\n"
     "%2 = maxpool %1 {kernel=17,1} : f32[1,16,4,6] nchw\nout y = %2\n"},
    {"conv_wino", L8 | L16, /* tiles reach over the edge; without fma it declines */
     "in  %x : f32[2,17,9,7] nchw\nw   $k : f32[19,17,3,3] oihw\nw   $b : f32[19]\n"
     "%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[2,17,9,7] nchw\n"
     "%2 = conv2d %1, $k, $b {pad=1,1,1,1} : f32[2,19,9,7] nchw\n%3 = silu %2 : f32[2,19,9,7] nchw\nout y = %3\n"},
    {"conv_wino", L8, /* nine channels are fewer than sixteen lanes; padding of one side; a residual */
     "in  %x : f32[1,9,6,8] nchw\nw   $k : f32[9,9,3,3] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,9,6,8] nchw\n"
     "%2 = conv2d %1, $k {pad=2,1,0,1} : f32[1,9,6,8] nchw\n%3 = add %2, %1 : f32[1,9,6,8] nchw\nout y = %3\n"},
    {"conv_wino", 0, /* stride */
     "in  %x : f32[1,17,9,9] nchw\nw   $k : f32[16,17,3,3] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,17,9,9] nchw\n"
     "%2 = conv2d %1, $k {stride=2,2 pad=1,1,1,1} : f32[1,16,5,5] nchw\n%3 = relu %2 : f32[1,16,5,5] nchw\nout y = %3\n"},
    {"conv_dw", ALL, /* channels are no whole vectors */
     "in  %x : f32[2,21,7,9] nchw\nw   $k : f32[21,1,3,3] oihw\nw   $b : f32[21]\n%1 = relu %x : f32[2,21,7,9] nchw\n"
     "%2 = conv2d %1, $k, $b {stride=2,2 pad=1,1,1,1 groups=21} : f32[2,21,4,5] nchw\n%3 = silu %2 : f32[2,21,4,5] nchw\nout y = %3\n"},
    {"conv_dw", ALL, /* fewer channels than lanes, rows and columns apart */
     "in  %x : f32[1,3,9,8] nchw\nw   $k : f32[3,1,5,3] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,3,9,8] nchw\n"
     "%2 = conv2d %1, $k {pad=4,2,4,2 dil=2,2 groups=3} : f32[1,3,9,8] nchw\n%3 = relu %2 : f32[1,3,9,8] nchw\nout y = %3\n"},
    {"conv_dw", 0, /* two outputs a channel */
     "in  %x : f32[1,6,8,7] nchw\nw   $k : f32[12,1,3,3] oihw\n%1 = relu %x : f32[1,6,8,7] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1 groups=6} : f32[1,12,8,7] nchw\n%3 = relu %2 : f32[1,12,8,7] nchw\nout y = %3\n"},
    {"lanes", ALL, /* whole vectors and a rest; upsampling and a sum, from memory and to memory */
     "in  %x : f32[2,21,4,5] nchw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[2,21,4,5] nchw\n"
     "%2 = relu %1 : f32[2,21,4,5] nchw\n%3 = upsample %1 {factor=2} : f32[2,21,8,10] nchw\n%4 = upsample %2 {factor=2} : f32[2,21,8,10] nchw\n"
     "%5 = mul %3, %4 : f32[2,21,8,10] nchw\n%6 = maxpool %5 {kernel=3,3 pad=1,1,1,1} : f32[2,21,8,10] nchw\nout y = %6\n"},
    {"lanes", L4 | L8, /* five channels are less than half of sixteen lanes */
     "in  %x : f32[1,5,8,7] nchw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,5,8,7] nchw\n"
     "%2 = maxpool %1 {kernel=5,5 pad=2,2,2,2} : f32[1,5,8,7] nchw\n%3 = silu %2 : f32[1,5,8,7] nchw\n"
     "%4 = maxpool %3 {kernel=3,3 pad=1,1,1,1} : f32[1,5,8,7] nchw\nout y = %4\n"},
    {"conv_group", ALL, /* a group's channels are part of a vector; stride, bias, an op after it */
     "in  %x : f32[2,12,7,9] nchw\nw   $k : f32[18,4,3,3] oihw\nw   $b : f32[18]\n%1 = relu %x : f32[2,12,7,9] nchw\n"
     "%2 = conv2d %1, $k, $b {stride=2,2 pad=1,1,1,1 groups=3} : f32[2,18,4,5] nchw\n%3 = silu %2 : f32[2,18,4,5] nchw\nout y = %3\n"},
    {"conv_group", ALL, /* several blocks a group; a map computed in place */
     "in  %x : f32[1,6,5,7] nchw\nw   $k : f32[148,3,2,3] oihw\n"
     "%1 = conv2d %x, $k {pad=1,1,0,1 groups=2} : f32[1,148,5,7] nchw\n%2 = relu %1 : f32[1,148,5,7] nchw\nout y = %2\n"},
    {"conv_group", ALL, /* columns apart */
     "in  %x : f32[1,9,9,8] nchw\nw   $k : f32[20,9,3,3] oihw\n%1 = relu %x : f32[1,9,9,8] nchw\n"
     "%2 = conv2d %1, $k {pad=4,2,4,2 dil=4,2} : f32[1,20,9,8] nchw\n%3 = relu %2 : f32[1,20,9,8] nchw\nout y = %3\n"},
    {"conv_group", 0, /* one channel in and out */
     "in  %x : f32[1,6,8,7] nchw\nw   $k : f32[6,1,3,3] oihw\n%1 = relu %x : f32[1,6,8,7] nchw\n"
     "%2 = conv2d %1, $k {pad=1,1,1,1 groups=6} : f32[1,6,8,7] nchw\n%3 = relu %2 : f32[1,6,8,7] nchw\nout y = %3\n"},
    {"row_gate", ALL, /* groups of no whole vectors; an op after it */
     "in  %x : f32[2,42,3,5] nchw\nin  %s : f32[2,2,3,5] nchw\n%1 = leaky %x {slope=2} : f32[2,42,3,5] nchw\n%2 = relu %s : f32[2,2,3,5] nchw\n"
     "%3 = gate %1, %2 : f32[2,42,3,5] nchw\n%4 = sigmoid %3 : f32[2,42,3,5] nchw\nout y = %4\n"},
    {"row_gate", 0, /* a map in planes */
     "in  %x : f32[1,6,3,5] nchw\nin  %s : f32[1,2,3,5] nchw\n%1 = relu %s : f32[1,2,3,5] nchw\n%2 = gate %x, %1 : f32[1,6,3,5] nchw\n"
     "%3 = s2d %2 {factor=1} : f32[1,6,3,5] nchw\nout y = %3\n"},
    {"deconv", ALL, /* channels are no whole vectors; an op after it */
     "in  %x : f32[2,7,5,6] nchw\nw   $k : f32[7,21,2,3] oihw\nw   $b : f32[21]\n%1 = relu %x : f32[2,7,5,6] nchw\n"
     "%2 = deconv2d %1, $k, $b {stride=2,3} : f32[2,21,10,18] nchw\n%3 = silu %2 : f32[2,21,10,18] nchw\nout y = %3\n"},
    {"deconv", ALL, /* no bias; fewer channels than lanes; one column */
     "in  %x : f32[1,16,3,1] nchw\nw   $k : f32[16,3,2,2] oihw\n%1 = relu %x : f32[1,16,3,1] nchw\n"
     "%2 = deconv2d %1, $k {stride=2,2} : f32[1,3,6,2] nchw\nout y = %2\nout z = %1\n"},
    {"deconv", ALL, /* more blocks than one */
     "in  %x : f32[1,5,2,30] nchw\nw   $k : f32[5,150,2,2] oihw\n%1 = relu %x : f32[1,5,2,30] nchw\n"
     "%2 = deconv2d %1, $k {stride=2,2} : f32[1,150,4,60] nchw\nout y = %2\n"},
    {"deconv", 0, /* windows overlap */
     "in  %x : f32[1,16,3,4] nchw\nw   $k : f32[16,8,4,4] oihw\n%1 = relu %x : f32[1,16,3,4] nchw\n"
     "%2 = deconv2d %1, $k {stride=2,2 pad=1,1} : f32[1,8,6,8] nchw\nout y = %2\n"},
    {"deconv", 0, /* groups */
     "in  %x : f32[1,16,3,4] nchw\nw   $k : f32[16,1,2,2] oihw\n%1 = relu %x : f32[1,16,3,4] nchw\n"
     "%2 = deconv2d %1, $k {stride=2,2 groups=16} : f32[1,16,6,8] nchw\nout y = %2\n"},
    {"attn_dot", ALL, ATTENTION},
    {"attn_dot", ALL, AREAS},
    {"attn_dot", L4 | L8, FEW_KEYS},
    {"attn_dot", 0, OTHER_AXIS},
    {"attn_mix", ALL, ATTENTION},
    {"attn_mix", ALL, AREAS},
    {"attn_mix", ALL, FEW_KEYS},
    {"attn_mix", 0, /* weighted values that are no row of their own */
     "in  %x : f32[1,8,3,4] nchw\nin  %w : f32[1,3,4,2,12]\n%1 = relu %x : f32[1,8,3,4] nchw\n"
     "%2 = attn_mix %w, %1 {dim=4} : f32[1,8,3,4] nchw\nout y = %2\n"},
    {"row_sums", ALL, ATTENTION},
    {"row_sums", ALL, AREAS},
    {"row_soft", ALL, ATTENTION},
    {"row_soft", ALL, FEW_KEYS},
    {"row_soft", 0, OTHER_AXIS},
    {"row_sums", 0, OTHER_AXIS},
    {"row_sums", ALL, /* over part of the channels */
     "in  %x : f32[2,37,4,7] nchw\n%1 = relu %x : f32[2,37,4,7] nchw\n%2 = slice %1 {start=5 count=12} : f32[2,12,4,7] nchw\n"
     "%3 = lse %2 {axis=1} : f32[2,1,4,7] nchw\n%4 = softmax %2, %3 {axis=1} : f32[2,12,4,7] nchw\nout y = %4\nout z = %1\n"},
    {"row_sums", ALL,
     "in  %x : f32[2,37,4,7] nchw\nw   $g : f32[37]\nw   $b : f32[37]\n%1 = relu %x : f32[2,37,4,7] nchw\n"
     "%2 = moments %1 {eps=1e-05} : f32[2,2,4,7] nchw\n%3 = layernorm %1, %2, $g, $b : f32[2,37,4,7] nchw\nout y = %3\n"},
    {"row_sums", ALL,
     "in  %x : f32[2,37,4,7] nchw\n%1 = leaky %x {slope=2} : f32[2,37,4,7] nchw\n%2 = rnorm %1 : f32[2,1,4,7] nchw\n"
     "%3 = peak %1 : f32[2,1,4,7] nchw\nout y = %2\nout z = %3\n"},
    {"row_sums", L4 | L8, /* fewer rows than sixteen lanes */
     "in  %x : f32[1,37,3,3] nchw\n%1 = relu %x : f32[1,37,3,3] nchw\n%2 = peak %1 : f32[1,1,3,3] nchw\nout y = %2\n"},
    {"attn_peak", ALL, /* heads; the last block of keys and of queries starts early */
     "in  %x : f32[2,40,5,7] nchw\nin  %t : f32[2,48,5,1] nchw\n%1 = relu %x : f32[2,40,5,7] nchw\n%2 = leaky %t {slope=2} : f32[2,48,5,1] nchw\n"
     "%3 = attn_peak %1, %2 {heads=2 dim=17 qat=3 kat=7 scale=0.5} : f32[2,2,5,7] nchw\nout y = %3\n"},
    {"attn_peak", L4, /* few queries */
     "in  %x : f32[1,8,1,7] nchw\nin  %t : f32[1,8,20,1] nchw\n%1 = relu %x : f32[1,8,1,7] nchw\n%2 = relu %t : f32[1,8,20,1] nchw\n"
     "%3 = attn_peak %1, %2 {dim=8} : f32[1,1,1,7] nchw\nout y = %3\n"},
    {"attn_dot", ALL, /* contrast, with an op after it */
     "in  %x : f32[2,20,5,7] nchw\nin  %t : f32[2,20,37,1] nchw\nw   $a : f32[1]\nw   $b : f32[1]\n%1 = relu %x : f32[2,20,5,7] nchw\n"
     "%2 = leaky %t {slope=2} : f32[2,20,37,1] nchw\n%3 = contrast %1, %2, $a, $b : f32[2,37,5,7] nchw\n"
     "%4 = sigmoid %3 : f32[2,37,5,7] nchw\nout y = %4\n"},
    {"head_rows", ALL, /* the last channels of a row stay as they are */
     "in  %x : f32[2,111,3,4] nchw\nw   $a : f32[3,2]\n%1 = relu %x : f32[2,111,3,4] nchw\n"
     "%2 = anchor_box %1, $a {na=3 stride=16 plain=19} : f32[2,36,37]\nout y = %2\n"},
    {"head_flat", ALL, /* a map given out in planes */
     "in  %x : f32[2,19,6,7] nchw\n%1 = relu %x : f32[2,19,6,7] nchw\n%2 = maxpool %1 {kernel=3,3 pad=1,1,1,1} : f32[2,19,6,7] nchw\nout y = %2\n"},
    {"head_obb", ALL, /* 63 positions: the last block begins early */
     "in  %x : f32[2,64,7,9] nchw\nin  %t : f32[2,1,7,9] nchw\n%1 = relu %x : f32[2,64,7,9] nchw\n%2 = leaky %t {slope=2} : f32[2,1,7,9] nchw\n"
     "%3 = obb_box %1, %2 {bins=16 stride=8} : f32[2,4,63]\nout y = %3\n"},
    {"head_obb", 0, /* angles between other channels */
     "in  %x : f32[1,68,5,5] nchw\n%1 = relu %x : f32[1,68,5,5] nchw\n%2 = slice %1 {count=64} : f32[1,64,5,5] nchw\n"
     "%3 = slice %1 {start=65 count=1} : f32[1,1,5,5] nchw\n%4 = obb_box %2, %3 {bins=16 stride=8} : f32[1,4,25]\nout y = %4\n"},
    {"head_points", ALL, /* three numbers a point; channels are no whole vectors */
     "in  %x : f32[2,51,7,9] nchw\n%1 = relu %x : f32[2,51,7,9] nchw\n"
     "%2 = points %1 {dims=3 scale=2 shift=0.25 stride=8} : f32[2,51,63]\nout y = %2\n"},
    {"head_points", L4 | L8, /* nine positions; two numbers a point */
     "in  %x : f32[1,8,3,3] nchw\n%1 = leaky %x {slope=2} : f32[1,8,3,3] nchw\n"
     "%2 = points %1 {dims=2 scale=2 stride=16} : f32[1,8,9]\nout y = %2\n"},
    {"query_rank", ALL, /* many ties; more blocks than one */
     "in  %x : f32[2,1,9,17] nchw\n%1 = relu %x : f32[2,1,9,17] nchw\n%2 = rank %1 : f32[2,1,9,17] nchw\n"
     "%3 = order %2 {count=37} : f32[2,1,37,1] nchw\nout y = %3\nout z = %2\n"},
    {"query_rank", L4, /* seven elements */
     "in  %x : f32[1,1,1,7] nchw\n%1 = relu %x : f32[1,1,1,7] nchw\n%2 = rank %1 : f32[1,1,1,7] nchw\nout y = %2\n"},
    {"query_deform", ALL, /* two heads; samples outside the map */
     "in  %v : f32[2,96,5,7] nchw\nin  %b : f32[2,4,6,1] nchw\nin  %o : f32[2,24,6,1] nchw\nin  %w : f32[2,12,6,1] nchw\n"
     "%1 = relu %v : f32[2,96,5,7] nchw\n%2 = deform %1, %b, %o, %w {heads=2 levels=2 level=1 points=3} : f32[2,96,6,1] nchw\n"
     "%3 = relu %2 : f32[2,96,6,1] nchw\nout y = %3\n"},
    {"query_deform", L4 | L8, /* a head's channels are half a vector */
     "in  %v : f32[1,16,5,7] nchw\nin  %b : f32[1,4,6,1] nchw\nin  %o : f32[1,8,6,1] nchw\nin  %w : f32[1,4,6,1] nchw\n"
     "%1 = relu %v : f32[1,16,5,7] nchw\n%2 = deform %1, %b, %o, %w {heads=2 levels=1 points=2} : f32[1,16,6,1] nchw\nout y = %2\n"},
    {"head_dfl", ALL, /* 63 positions: the last block begins early */
     "in  %x : f32[2,64,7,9] nchw\n%1 = relu %x : f32[2,64,7,9] nchw\n"
     "%2 = dfl_box %1 {bins=16 stride=8} : f32[2,4,63]\nout y = %2\n"},
    {"head_dfl", ALL, /* bins are no whole vectors */
     "in  %x : f32[1,44,1,19] nchw\n%1 = relu %x : f32[1,44,1,19] nchw\n"
     "%2 = dfl_box %1 {bins=11 stride=16} : f32[1,4,19]\nout y = %2\n"},
    {"head_dfl", L4 | L8, /* fewer positions than sixteen lanes; distances as they are */
     "in  %x : f32[2,4,3,3] nchw\n%1 = relu %x : f32[2,4,3,3] nchw\n"
     "%2 = dfl_box %1 {stride=8} : f32[2,4,9]\nout y = %2\n"},
    {"head_dfl", ALL, /* corners */
     "in  %x : f32[1,32,3,11] nchw\n%1 = relu %x : f32[1,32,3,11] nchw\n"
     "%2 = dfl_box %1 {bins=8 stride=16 corners=1} : f32[1,4,33]\nout y = %2\n"},
    {"head_flat", ALL, /* point-wise ops first; channels are no whole vectors */
     "in  %x : f32[2,21,5,7] nchw\n%1 = relu %x : f32[2,21,5,7] nchw\n%2 = maxpool %1 {kernel=3,3 pad=1,1,1,1} : f32[2,21,5,7] nchw\n"
     "%3 = sigmoid %2 : f32[2,21,5,7] nchw\n%4 = flatten %3 : f32[2,21,35]\n%5 = flatten %2 : f32[2,21,35]\n"
     "out y = %4\nout z = %5\n"},
    {"head_flat", L4, /* five positions */
     "in  %x : f32[1,8,1,5] nchw\n%1 = maxpool %x {kernel=1,3 pad=0,1,0,1} : f32[1,8,1,5] nchw\n"
     "%2 = flatten %1 : f32[1,8,5]\nout y = %2\n"},
    {"head_rows", ALL,
     "in  %x : f32[2,63,3,4] nchw\nw   $a : f32[3,2]\n%1 = relu %x : f32[2,63,3,4] nchw\n"
     "%2 = anchor_box %1, $a {na=3 stride=16} : f32[2,36,21]\nout y = %2\n"},
    {"head_rows", ALL,
     "in  %x : f32[2,21,3,4] nchw\nw   $a : f32[3,2]\n%1 = relu %x : f32[2,21,3,4] nchw\n"
     "%2 = anchor_box %1, $a {na=3 stride=16} : f32[2,36,7]\nout y = %2\n"},
    {"head_rows", ALL,
     "in  %x : f32[2,21,3,4] nchw\n%1 = relu %x : f32[2,21,3,4] nchw\n"
     "%2 = x_box %1 {stride=32} : f32[2,12,21]\nout y = %2\n"},
    {"head_rows", ALL,
     "in  %x : f32[2,42,3,4] nchw\n%1 = relu %x : f32[2,42,3,4] nchw\n"
     "%2 = anchor_raw %1 {na=2 stride=16} : f32[2,2,3,4,21]\nout y = %2\n"},
    {"head_rows", 0, /* computed in place from what has no channels side by side */
     "in  %x : f32[2,42,3,4] nchw\n%1 = anchor_raw %x {na=2 stride=16} : f32[2,2,3,4,21]\nout y = %1\n"},
};

static void print_diag(void *user, const struct yir_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->rendered);
}

static struct yir_func *fused(struct yir_arena *a, struct yir_diags *d, const char *ir, int *batch)
{
    struct pass_opts po;
    struct yir_func *f = yir_parse(a, yir_types_new(a), d, "row", ir, strlen(ir));
    cr_assert(f, "%s", ir);
    *batch = (int)yir_tdesc(f->types, f->input[0].type)->dim[0];
    randnet_weights(f, 7);
    pass_opts_init(&po);
    po.verify_each = true;
    po.max_batch = *batch;
    f = pass_run_all(f, d, &po);
    cr_assert(f, "%s", ir);
    return f;
}

/* The n-th legal configuration of each kernel, or the last that is not the generic one. */
struct picking {
    size_t n;
    bool more;    /* some kernel has further ones */
    uint64_t families; /* a bit for each row of fast.def that is legal for some kernel */
};

static size_t pick(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct picking *p = user;
    (void)k;
    cr_assert_eq(legal[n - 1].family, CG_GENERIC);
    for (size_t i = 0; i + 1 < n; i++) p->families |= 1ull << legal[i].family;
    p->more |= p->n + 2 < n;
    return p->n + 1 < n ? p->n : n > 1 ? n - 2 : 0;
}

static struct evalnet evaluate(struct yir_arena *a, const struct yir_func *f, const struct cg_target *t, int batch,
                               struct picking *picking)
{
    struct evalnet m = evalnet_new(a, f, 3);
    const struct cg_opts co = {.no_fast = !picking, .max_batch = batch, .choose = picking ? pick : NULL, .choose_user = picking};
    const struct cg_program *p = cg_kernels(a, f, t, &co);
    for (uint32_t i = 0; i < p->nkernel; i++) {
        int bad = evalnet_run(a, &m, &p->kernel[i], batch);
        cr_assert_eq(bad, 0, "%s, %s lanes, %s: left memory %d", p->kernel[i].label, t->kb.name,
                     cg_config_text(a, &p->kernel[i].config), bad - 1);
    }
    return m;
}

static void compare(const struct row *r, const struct cg_target *t, size_t config, const struct evalnet *want,
                    const struct evalnet *got)
{
    const struct yir_func *f = want->f;
    for (uint32_t i = 0; i < f->noutput; i++) {
        int64_t n = yir_numel(yir_desc(f, f->output[i].ref));
        const double *w = want->buf[f->ninput + i], *g = got->buf[f->ninput + i];
        for (int64_t k = 0; k < n; k++)
            cr_assert(fabs(w[k] - g[k]) <= 1e-6 * (1 + fabs(w[k])), "%s, %s lanes, configuration %zu: element %lld of %s is %.17g, not %.17g\n%s",
                      r->family, t->kb.name, config, (long long)k, f->output[i].name, g[k], w[k], r->ir);
    }
}

static uint64_t family_bit(const char *name)
{
    for (size_t i = 0; i < cg_fast_count(); i++)
        if (!strcmp(cg_fast_at(i)->name, name)) return 1ull << i;
    cr_assert_fail("no family %s", name);
    return 0;
}

/* Every configuration; whether the family was among them. */
static bool check_target(const struct row *r, const struct yir_func *f, const struct cg_target *t, int batch,
                         const struct evalnet *want)
{
    struct picking p = {.more = true};
    for (p.n = 0; p.more; p.n++) {
        struct yir_arena *a = yir_arena_new(NULL, NULL);
        p.more = false;
        struct evalnet got = evaluate(a, f, t, batch, &p);
        compare(r, t, p.n, want, &got);
        yir_arena_free(a);
    }
    return p.families & family_bit(r->family);
}

static void check(const struct row *r)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, print_diag, NULL);
    int batch;
    const struct yir_func *f = fused(a, d, r->ir, &batch);
    struct evalnet want = evaluate(a, f, &scalar, batch, NULL);
    for (size_t i = 0; i < YIR_COUNT(targets); i++) {
        bool takes = check_target(r, f, &targets[i], batch, &want);
        cr_expect_eq(takes, r->takes >> i & 1, "%s lanes: %s %s a kernel of\n%s", targets[i].kb.name, r->family,
                     takes ? "takes" : "declines", r->ir);
    }
    yir_arena_free(a);
}

Test(fast_families, take_and_decline)
{
    for (size_t i = 0; i < YIR_COUNT(rows); i++) check(&rows[i]);
}

static bool has_row(const char *family, bool takes)
{
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        if (!strcmp(rows[i].family, family) && (takes ? rows[i].takes != 0 : rows[i].takes != ALL)) return true;
    return false;
}

Test(fast_families, every_family_has_rows)
{
    for (size_t i = 0; i < cg_fast_count(); i++) {
        const char *name = cg_fast_at(i)->name;
        if (cg_fast_at(i)->backend == CG_CUDA) continue; /* their programs are not all that they do: cuda_*.c */
        cr_expect(has_row(name, true) && has_row(name, false), "%s", name);
    }
}

/* --- configurations as text --------------------------------------------------------------------------------- */

static void check_texts(const struct cg_config *legal, size_t n)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        const char *text = cg_config_text(a, &legal[i]);
        cr_expect_lt(strlen(text), 256u, "longer than records have room for");
        cr_expect_eq(cg_config_find(a, text, legal, n), i, "%s", text);
        cr_expect(i == 0 || legal[i].cycles >= legal[i - 1].cycles, "%s is predicted faster than one before it", text);
        cr_expect_eq(cg_config_find(a, yir_format(a, "%s ", text), legal, n), n);
        cr_expect_neq(cg_config_find(a, yir_strndup(a, text, strlen(text) - 1), legal, n), i);
    }
    yir_arena_free(a);
}

static size_t check_kernel(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    static const char *const hostile[] = {"", " ", "conv_direct", "conv_direct pixels=1", "conv_direct pixels=-1 vectors=1 rows=1",
                                          "conv_direct pixels=99999999999999999999", "generic generic", "GENERIC", "%s%n%s",
                                          "conv_wino tile=4 unit=1 pixels=1 vectors=1 parts=1 x", "no_family a=1"};
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    size_t *most = user;
    (void)k;
    check_texts(legal, n);
    for (size_t i = 0; i < YIR_COUNT(hostile); i++) cr_expect_eq(cg_config_find(a, hostile[i], legal, n), n, "%s", hostile[i]);
    *most = n > *most ? n : *most;
    yir_arena_free(a);
    return 0;
}

/* cg_configs itself asserts that a family whose guard holds lists at least one. */
Test(fast_families, configurations_as_text)
{
    size_t most = 0;
    for (size_t i = 0; i < YIR_COUNT(rows) * YIR_COUNT(targets); i++) {
        struct yir_arena *a = yir_arena_new(NULL, NULL);
        int batch;
        const struct yir_func *f = fused(a, yir_diags_new(a, print_diag, NULL), rows[i / YIR_COUNT(targets)].ir, &batch);
        const struct cg_opts co = {.max_batch = batch, .choose = check_kernel, .choose_user = &most};
        cg_kernels(a, f, &targets[i % YIR_COUNT(targets)], &co);
        yir_arena_free(a);
    }
    cr_expect_gt(most, 10u);
}
