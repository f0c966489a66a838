/* Convolutions by mma.sync: the CUDA C of some configurations, run on the host, beside the evaluator; what is taken and declined; that
 * NVRTC compiles it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/kb_cuda.h"
#include "cudanet.h"
#include "longer.h"
#include "passes/pass.h"
#include "randnet.h"

static const struct row {
    const char *target;
    bool takes; /* a kernel of the function */
    const char *ir;
} rows[] = {
    {"cuda:sm_80", true, /* 3x3 with a residual; two images, a map of odd sides */
     "in  %x : f32[2,16,9,11] nchw\nw   $k : f16[16,16,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,16,9,11] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,16,9,11] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[2,16,9,11] nchw\n%4 = silu %3 : f16[2,16,9,11] nchw\n"
     "%5 = add %4, %2 : f16[2,16,9,11] nchw\nout y = %5\n"},
    {"cuda:sm_80", true, /* stride 2; the channels fill half of the last block */
     "in  %x : f32[1,16,17,33] nchw\nw   $k : f16[24,16,3,3] oihw\nw   $b : f32[24]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,17,33] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,17,33] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=2,2 pad=1,1,1,1} : f16[1,24,9,17] nchw\n"
     "%4 = silu %3 : f16[1,24,9,17] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* 1x1; channels of five blocks */
     "in  %x : f32[3,48,20,20] nchw\nw   $k : f16[80,48,1,1] oihw\nw   $b : f32[80]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[3,48,20,20] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[3,48,20,20] nchw\n%3 = conv2d %2, $k, $b : f16[3,80,20,20] nchw\n"
     "%4 = silu %3 : f16[3,80,20,20] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* outputs that are no whole vectors; padding of one side */
     "in  %x : f32[2,24,7,9] nchw\nw   $k : f16[21,24,3,3] oihw\nw   $b : f32[21]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,7,9] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,24,7,9] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=2,1,0,1} : f16[2,21,7,9] nchw\n%4 = relu %3 : f16[2,21,7,9] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* fewer outputs than a vector */
     "in  %x : f32[1,32,5,7] nchw\nw   $k : f16[5,32,1,1] oihw\nw   $b : f32[5]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,32,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,32,5,7] nchw\n%3 = conv2d %2, $k, $b : f16[1,5,5,7] nchw\n"
     "%4 = sigmoid %3 : f16[1,5,5,7] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* pixels of 24 bytes, in pieces of 8; 5x5 */
     "in  %x : f32[1,12,5,7] nchw\nw   $k : f16[20,12,5,5] oihw\nw   $b : f32[20]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,12,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,12,5,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=2,2,2,2} : f16[1,20,5,7] nchw\n%4 = silu %3 : f16[1,20,5,7] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* pixels of 12 bytes, in pieces of 4 */
     "in  %x : f32[2,6,5,7] nchw\nw   $k : f16[16,6,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,6,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,6,5,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[2,16,5,7] nchw\n%4 = silu %3 : f16[2,16,5,7] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* pixels of 6 bytes; stride 2 along one side */
     "in  %x : f32[1,3,10,12] nchw\nw   $k : f16[16,3,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,3,10,12] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,3,10,12] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=1,2 pad=1,1,1,1} : f16[1,16,10,6] nchw\n"
     "%4 = silu %3 : f16[1,16,10,6] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* 7x7, dilated rows */
     "in  %x : f32[1,8,14,9] nchw\nw   $k : f16[16,8,7,7] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,8,14,9] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,8,14,9] nchw\n"
     "%3 = conv2d %2, $k {pad=3,3,3,3 dil=2,1} : f16[1,16,8,9] nchw\n%4 = silu %3 : f16[1,16,8,9] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* groups of 16 channels */
     "in  %x : f32[1,32,6,6] nchw\nw   $k : f16[48,16,3,3] oihw\nw   $b : f32[48]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,32,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,32,6,6] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1 groups=2} : f16[1,48,6,6] nchw\n"
     "%4 = silu %3 : f16[1,48,6,6] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* many channels */
     "in  %x : f32[1,192,5,5] nchw\nw   $k : f16[136,192,3,3] oihw\nw   $b : f32[136]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,192,5,5] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,192,5,5] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[1,136,5,5] nchw\n%4 = silu %3 : f16[1,136,5,5] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* bf16 */
     "in  %x : f32[1,40,6,7] nchw\nw   $k : bf16[16,40,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,40,6,7] nchw\n"
     "%2 = leaky %1 {slope=2} : bf16[1,40,6,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : bf16[1,16,6,7] nchw\n%4 = silu %3 : bf16[1,16,6,7] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* tf32; chunks of 4 channels, the last of them short */
     "in  %x : f32[1,22,6,7] nchw\nw   $k : f32[16,22,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = leaky %x {slope=2} : f32[1,22,6,7] nchw\n%2 = maxpool %1 {kernel=1,1} : f32[1,22,6,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f32[1,16,6,7] nchw\n%4 = silu %3 : f32[1,16,6,7] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* tf32, pieces of 4 bytes */
     "in  %x : f32[1,17,6,7] nchw\nw   $k : f32[24,17,1,1] oihw\nw   $b : f32[24]\n"
     "%1 = leaky %x {slope=2} : f32[1,17,6,7] nchw\n%2 = maxpool %1 {kernel=1,1} : f32[1,17,6,7] nchw\n"
     "%3 = conv2d %2, $k, $b : f32[1,24,6,7] nchw\n%4 = silu %3 : f32[1,24,6,7] nchw\nout y = %4\n"},
    {"cuda:sm_75", true, /* no cp.async, and products of half the depth */
     "in  %x : f32[1,32,9,9] nchw\nw   $k : f16[32,32,3,3] oihw\nw   $b : f32[32]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,32,9,9] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,32,9,9] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[1,32,9,9] nchw\n%4 = silu %3 : f16[1,32,9,9] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_75", true, /* the same with odd pixels */
     "in  %x : f32[1,6,5,7] nchw\nw   $k : f16[16,6,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,6,5,7] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,6,5,7] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : f16[1,16,5,7] nchw\n%4 = silu %3 : f16[1,16,5,7] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* a result of another type */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f16[64,16,1,1] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,6,6] nchw\n%3 = conv2d %2, $k, $b : f16[1,64,6,6] nchw\n"
     "%4 = leaky %3 : f16[1,64,6,6] nchw\n%5 = cast %4 {dtype=f32 layout=nchw} : f32[1,64,6,6] nchw\n"
     "%6 = relu %5 : f32[1,64,6,6] nchw\nout y = %6\n"},
    {"cuda:sm_80", true, /* from part of wider pixels to part of wider pixels */
     "in  %x : f32[2,48,6,6] nchw\nw   $k : f16[24,16,3,3] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,48,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,48,6,6] nchw\n"
     "%3 = slice %2 {start=24 count=16} : f16[2,16,6,6] nchw\n"
     "%4 = conv2d %3, $k {pad=1,1,1,1} : f16[2,24,6,6] nchw\n%5 = relu %4 : f16[2,24,6,6] nchw\n"
     "%6 = leaky %3 {slope=3} : f16[2,16,6,6] nchw\n%7 = concat %6, %5 : f16[2,40,6,6] nchw\n"
     "%8 = maxpool %7 {kernel=3,3 pad=1,1,1,1} : f16[2,40,6,6] nchw\nout y = %8\n"},
    {"cuda:sm_80", true, /* from a slice that begins at no multiple of 16 bytes */
     "in  %x : f32[1,40,6,6] nchw\nw   $k : f16[24,16,3,3] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,40,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,40,6,6] nchw\n"
     "%3 = slice %2 {start=18 count=16} : f16[1,16,6,6] nchw\n"
     "%4 = conv2d %3, $k {pad=1,1,1,1} : f16[1,24,6,6] nchw\n%5 = relu %4 : f16[1,24,6,6] nchw\n"
     "out y = %5\n"},
    {"cuda:sm_80", true, /* one of two maps enlarged */
     "in  %x : f32[2,24,4,5] nchw\nin  %z : f32[2,16,8,10] nchw\nw   $k : f16[32,40,1,1] oihw\n"
     "w   $b : f32[32]\n%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,4,5] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[2,24,4,5] nchw\n"
     "%3 = cast %z {dtype=f16 layout=nchw} : f16[2,16,8,10] nchw\n"
     "%4 = leaky %3 {slope=2} : f16[2,16,8,10] nchw\n%5 = upsample %2 {factor=2} : f16[2,24,8,10] nchw\n"
     "%6 = concat %5, %4 : f16[2,40,8,10] nchw\n%7 = conv2d %6, $k, $b : f16[2,32,8,10] nchw\n"
     "%8 = silu %7 : f16[2,32,8,10] nchw\nout y = %8\n"},
    {"cuda:sm_80", true, /* an enlarged map, 3x3; three maps, one of which is in another concat */
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
    {"cuda:sm_80", false, /* 4 channels a group */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f16[16,4,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : f16[1,16,6,6] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1 groups=4} : f16[1,16,6,6] nchw\n"
     "%4 = silu %3 : f16[1,16,6,6] nchw\nout y = %4\n"},
    {"cuda:sm_75", false, /* bf16 that the GPU has not */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : bf16[16,16,3,3] oihw\nw   $b : f32[16]\n"
     "%1 = cast %x {dtype=bf16 layout=nchw} : bf16[1,16,6,6] nchw\n"
     "%2 = leaky %1 {slope=2} : bf16[1,16,6,6] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : bf16[1,16,6,6] nchw\n%4 = silu %3 : bf16[1,16,6,6] nchw\n"
     "out y = %4\n"},
    {"cuda:sm_80", true, /* a map of floats, rounded as it is copied; the last chunk is half full */
     "in  %x : f32[2,20,6,7] nchw\nw   $k : f16[24,20,3,3] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[2,20,6,7] nchw\n"
     "%2 = cast %1 {dtype=f16 layout=nchw} : f16[2,20,6,7] nchw\n%3 = conv2d %2, $k {pad=1,1,1,1} : f16[2,24,6,7] nchw\n"
     "%4 = silu %3 : f16[2,24,6,7] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* the same with odd pixels, to bf16 */
     "in  %x : f32[1,11,6,7] nchw\nw   $k : bf16[16,11,1,1] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,11,6,7] nchw\n"
     "%2 = cast %1 {dtype=bf16 layout=nchw} : bf16[1,11,6,7] nchw\n%3 = conv2d %2, $k : bf16[1,16,6,7] nchw\n"
     "%4 = relu %3 : bf16[1,16,6,7] nchw\nout y = %4\n"},
    {"cuda:sm_80", true, /* a transposed convolution: four corners of each pixel */
     "in  %x : f32[2,24,5,6] nchw\nw   $k : f16[24,40,2,2] oihw\nw   $b : f32[40]\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[2,24,5,6] nchw\n%2 = leaky %1 {slope=2} : f16[2,24,5,6] nchw\n"
     "%3 = deconv2d %2, $k, $b {stride=2,2} : f16[2,40,10,12] nchw\n%4 = silu %3 : f16[2,40,10,12] nchw\nout y = %4\n"},
    {"cuda:sm_80", false, /* one whose windows overlap */
     "in  %x : f32[1,16,5,6] nchw\nw   $k : f16[16,16,4,4] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,5,6] nchw\n%2 = leaky %1 {slope=2} : f16[1,16,5,6] nchw\n"
     "%3 = deconv2d %2, $k {stride=2,2 pad=1,1} : f16[1,16,10,12] nchw\n%4 = relu %3 : f16[1,16,10,12] nchw\nout y = %4\n"},
    {"cuda:sm_80", false, /* an input that is computed in place */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f16[16,16,1,1] oihw\n"
     "%1 = cast %x {dtype=f16 layout=nchw} : f16[1,16,6,6] nchw\n"
     "%2 = conv2d %1, $k : f16[1,16,6,6] nchw\n%3 = relu %2 : f16[1,16,6,6] nchw\nout y = %3\n"},
    {"cuda:sm_90a", false, /* F32, and tf32 is not asked for */
     "in  %x : f32[1,16,6,6] nchw\nw   $k : f32[16,16,1,1] oihw\n%1 = maxpool %x {kernel=3,3 pad=1,1,1,1} : f32[1,16,6,6] nchw\n"
     "%2 = conv2d %1, $k : f32[1,16,6,6] nchw\n%3 = relu %2 : f32[1,16,6,6] nchw\nout y = %3\n"},
};

static void print_diag(void *user, const struct yir_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->rendered);
}

/* Rounded to the types that they have. */
static void set_weights(struct yir_func *f)
{
    randnet_weights(f, 7);
    for (uint32_t i = 0; i < f->nweight; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->weight[i].type);
        const float *from = f->weight[i].data;
        void *to = yir_alloc_n(f->arena, (size_t)yir_numel(d), yir_dtype_size(d->dtype));
        for (int64_t k = 0; k < yir_numel(d); k++) yir_dtype_store(d->dtype, to, (size_t)k, (double)from[k]);
        f->weight[i].data = to;
    }
}

struct net {
    struct yir_arena *arena;
    const struct yir_func *f;
    struct cg_target target;
    int batch;
};

static struct net prepare(const struct row *r)
{
    struct net n = {.arena = yir_arena_new(NULL, NULL)};
    struct yir_diags *d = yir_diags_new(n.arena, print_diag, NULL);
    struct pass_opts po;
    struct yir_func *f = yir_parse(n.arena, yir_types_new(n.arena), d, "row", r->ir, strlen(r->ir));
    cr_assert(f, "%s", r->ir);
    n.batch = (int)yir_tdesc(f->types, f->input[0].type)->dim[0];
    set_weights(f);
    pass_opts_init(&po);
    po.verify_each = true;
    po.max_batch = n.batch;
    n.f = pass_run_all(f, d, &po);
    cr_assert(n.f, "%s", r->ir);
    cr_assert_eq(cg_target_find(n.arena, d, r->target, &n.target), 0);
    n.target.kb.tf32 = !strcmp(r->target, "cuda:sm_80");
    return n;
}

/* The picks of a family's configurations: its first, its last, and some between. */
enum { PICKS = 3 };

struct picking {
    int pick;
    bool taken;
};

static size_t pick(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct picking *p = user;
    size_t first = n, count = 0;
    (void)k;
    for (size_t i = 0; i < n; i++)
        if (legal[i].family != CG_GENERIC && !strcmp(cg_fast_at((size_t)legal[i].family)->name, "conv_mma")) {
            if (!count++) first = i;
        }
    if (!count) return n - 1;
    p->taken = true;
    return first + (count - 1) * (size_t)p->pick / (PICKS - 1);
}

static const struct cg_program *program(const struct net *n, struct picking *p)
{
    const struct cg_opts co = {.max_batch = n->batch, .no_fast = !p, .choose = p ? pick : NULL, .choose_user = p};
    return cg_kernels(n->arena, n->f, &n->target, &co);
}

static const char *configs(const struct net *n, const struct cg_program *p)
{
    struct yir_str s = {.arena = n->arena};
    for (uint32_t i = 0; i < p->nkernel; i++) yir_str_fmt(&s, "%s; ", cg_config_text(n->arena, &p->kernel[i].config));
    return s.text;
}

static void check(const struct row *r, const struct net *n, const struct cg_program *p, void *library)
{
    struct cudanet m = cudanet_new(n->arena, n->f, 3);
    cudanet_evaluate(n->arena, &m, program(n, NULL), n->batch);
    cudanet_run(n->arena, &m, p, library, n->batch);
    for (uint32_t i = 0; i < n->f->noutput; i++) {
        double off = cudanet_difference(&m, i, n->batch);
        cr_expect(off <= (strstr(r->ir, "bf16") ? 1.6e-2 : 2e-3), "%s of %s differs by %.2e: %s", n->f->output[i].name, r->ir, off,
                  configs(n, p));
    }
}

Test(cuda_mma, against_the_evaluator, .timeout = 240)
{
    struct net net[YIR_COUNT(rows)];
    const struct cg_program *p[YIR_COUNT(rows)][PICKS];
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_str text = {.arena = a};
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        net[i] = prepare(&rows[i]);
        for (int k = 0; k < PICKS; k++) {
            struct picking picking = {.pick = k};
            p[i][k] = program(&net[i], &picking);
            cr_expect_eq(picking.taken, rows[i].takes, "%s: %s", rows[i].target, rows[i].ir);
            cudanet_add(&text, p[i][k]);
        }
    }
    void *library = cudanet_load(a, &text);
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        for (int k = 0; k < PICKS; k++) check(&rows[i], &net[i], p[i][k], library);
        yir_arena_free(net[i].arena);
    }
    yir_arena_free(a);
}

/* --- through NVRTC ------------------------------------------------------------------------------------------ */

/* The first configurations that the target is offered. */
static void compile(const struct row *r, const char *target)
{
    const struct row other = {target, r->takes, r->ir};
    struct net n = prepare(&other);
    struct picking picking = {0};
    struct cg_code code;
    const struct cg_program *p = program(&n, &picking);
    cr_expect_eq(cg_nvrtc_compile(n.arena, yir_diags_new(n.arena, print_diag, NULL), p, &n.target, &code), 0, "%s: %s", target, r->ir);
    yir_arena_free(n.arena);
}

Test(cuda_mma, nvrtc_takes_each, .timeout = 600)
{
    static const char *const targets[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_75", "cuda:sm_86", "cuda:sm_89", "cuda:sm_100", "cuda:sm_120"};
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    size_t n = (size_t)test_count(2, YIR_COUNT(targets)), step = (size_t)test_count(4, 1);
    if (!cg_nvrtc_version(a, yir_diags_new(a, NULL, NULL))) cr_skip_test("no NVRTC here");
    for (size_t t = 0; t < n; t++)
        for (size_t i = t % step; i < YIR_COUNT(rows); i += step)
            if (rows[i].takes) compile(&rows[i], targets[t]);
    yir_arena_free(a);
}
