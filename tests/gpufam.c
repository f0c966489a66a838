/*
 * Families for GPUs on a real one: gpufam [-o FOLDER] [-c COUNT] [-b 1|2] [FAMILY...]. Each row of the table is compiled with its
 * family's first configurations (COUNT, 1) and as generic kernels; results have to agree, and the times of the kernels are
 * printed; with -b 2 for the larger batch too. Every family of fast.def for GPUs has a row. FOLDER keeps compiled kernels: filled on
 * a machine without a GPU, it saves the compilation on the one with it. 77: no GPU, or no NVRTC.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/modwrite.h"
#include "passes/pass.h"
#include "randnet.h"
#include "runtime/yolort.h"

enum { RUNS = 15, NO_MORE = 78, SKIPPED = 77 };

/* @D: the type; @N: images; dimensions as they stand. */
static const struct row {
    const char *family, *what, *types; /* types: f f16, s f32, b bf16 */
    int batch[2];
    const char *ir;
} rows[] = {
    {"vec_pool", "sppf 5x5 h20 128", "fs", {1, 16},
     "in  %x : f32[@N,128,20,20] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,128,20,20] nchw\n"
     "%2 = leaky %1 {slope=2} : @D[@N,128,20,20] nchw\n%3 = maxpool %2 {kernel=5,5 pad=2,2,2,2} : @D[@N,128,20,20] nchw\n"
     "%4 = maxpool %3 {kernel=5,5 pad=2,2,2,2} : @D[@N,128,20,20] nchw\n"
     "%5 = maxpool %4 {kernel=5,5 pad=2,2,2,2} : @D[@N,128,20,20] nchw\n%6 = concat %2, %3, %4, %5 : @D[@N,512,20,20] nchw\n"
     "%7 = maxpool %6 {kernel=2,2 stride=2,2} : @D[@N,512,10,10] nchw\nout y = %7\n"},
    {"vec", "odd", "fb", {3, 3},
     "in  %x : f32[@N,37,33,17] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,37,33,17] nchw\n"
     "%2 = leaky %1 {slope=2} : @D[@N,37,33,17] nchw\n%3 = maxpool %2 {kernel=3,3 pad=1,1,1,1} : @D[@N,37,33,17] nchw\n"
     "%4 = silu %3 : @D[@N,37,33,17] nchw\n%5 = upsample %4 {factor=2} : @D[@N,37,66,34] nchw\n"
     "%6 = avgpool %5 {kernel=3,3 stride=2,2} : @D[@N,37,32,16] nchw\nout y = %6\n"},
    {"vec_dw", "3x3 h80 64", "fs", {1, 16},
     "in  %x : f32[@N,64,80,80] nchw\nw   $k : @D[64,1,3,3] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,64,80,80] nchw\n%2 = leaky %1 {slope=2} : @D[@N,64,80,80] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1 groups=64} : @D[@N,64,80,80] nchw\n%4 = silu %3 : @D[@N,64,80,80] nchw\nout y = %4\n"},
    {"vec_dw", "3x3 h20 128, slices", "f", {1, 16},
     "in  %x : f32[@N,256,20,20] nchw\nw   $k : @D[128,1,3,3] oihw\nw   $b : f32[128]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,256,20,20] nchw\n%2 = leaky %1 {slope=2} : @D[@N,256,20,20] nchw\n"
     "%3 = slice %2 {start=64 count=64} : @D[@N,64,20,20] nchw\n%4 = slice %2 {start=192 count=64} : @D[@N,64,20,20] nchw\n"
     "%5 = concat %3, %4 : @D[@N,128,20,20] nchw\n%6 = conv2d %5, $k, $b {pad=1,1,1,1 groups=128} : @D[@N,128,20,20] nchw\n"
     "%7 = silu %6 : @D[@N,128,20,20] nchw\nout y = %7\n"},
    {"vec_dw", "7x7 h20 256", "f", {1, 16},
     "in  %x : f32[@N,256,20,20] nchw\nw   $k : @D[256,1,7,7] oihw\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,256,20,20] nchw\n%2 = leaky %1 {slope=2} : @D[@N,256,20,20] nchw\n"
     "%3 = conv2d %2, $k {pad=3,3,3,3 groups=256} : @D[@N,256,20,20] nchw\n%4 = relu %3 : @D[@N,256,20,20] nchw\nout y = %4\n"},
    {"vec_dw", "odd, stride 2", "b", {2, 2},
     "in  %x : f32[@N,21,19,33] nchw\nw   $k : @D[21,1,5,3] oihw\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,21,19,33] nchw\n%2 = leaky %1 {slope=2} : @D[@N,21,19,33] nchw\n"
     "%3 = conv2d %2, $k {stride=2,2 pad=2,1,2,1 groups=21} : @D[@N,21,10,17] nchw\n%4 = relu %3 : @D[@N,21,10,17] nchw\nout y = %4\n"},
    {"vec_dfl", "h80", "s", {1, 16},
     "in  %x : f32[@N,64,80,80] nchw\n%1 = leaky %x {slope=4} : f32[@N,64,80,80] nchw\n"
     "%2 = maxpool %1 {kernel=3,3 pad=1,1,1,1} : f32[@N,64,80,80] nchw\n%3 = dfl_box %2 {stride=8 bins=16} : f32[@N,4,6400]\nout y = %3\n"},
    {"vec_flat", "scores h80", "s", {1, 16},
     "in  %x : f32[@N,80,80,80] nchw\n%1 = leaky %x {slope=4} : f32[@N,80,80,80] nchw\n"
     "%2 = maxpool %1 {kernel=3,3 pad=1,1,1,1} : f32[@N,80,80,80] nchw\n%3 = sigmoid %2 : f32[@N,80,80,80] nchw\n"
     "%4 = flatten %3 : f32[@N,80,6400]\nout y = %4\n"},
    {"warp_lse", "800 rows of 400", "s", {1, 16},
     "in  %x : f32[@N,20,40,400] nchw\n%1 = leaky %x {slope=4} : f32[@N,20,40,400] nchw\n%2 = lse %1 {axis=3} : f32[@N,20,40,1] nchw\n"
     "out y = %2\n"},
    {"conv_stem", "3-16 k3 s2 h640, picture", "fb", {1, 16},
     "in  %x : u8[@N,640,640,3] nchw\nw   $k : @D[16,3,3,3] oihw\nw   $b : f32[16]\n%1 = image %x : f32[@N,3,640,640] nhwc\n"
     "%2 = cast %1 {dtype=@D layout=nchw} : @D[@N,3,640,640] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=2,2 pad=1,1,1,1} : @D[@N,16,320,320] nchw\n%4 = silu %3 : @D[@N,16,320,320] nchw\nout y = %4\n"},
    {"conv_stem", "3-48 k3 s2 h640, planes", "f", {1, 16},
     "in  %x : f32[@N,3,640,640] nchw\nw   $k : @D[48,3,3,3] oihw\nw   $b : f32[48]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,3,640,640] nchw\n"
     "%2 = conv2d %1, $k, $b {stride=2,2 pad=1,1,1,1} : @D[@N,48,320,320] nchw\n%3 = silu %2 : @D[@N,48,320,320] nchw\nout y = %3\n"},
    {"conv_stem", "3-16 k6 s2 odd, picture", "f", {2, 2},
     "in  %x : u8[@N,333,701,3] nchw\nw   $k : @D[16,3,6,6] oihw\nw   $b : f32[16]\n%1 = image %x {bgr=1} : f32[@N,3,333,701] nhwc\n"
     "%2 = cast %1 {dtype=@D layout=nchw} : @D[@N,3,333,701] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=2,2 pad=2,2,2,2} : @D[@N,16,166,350] nchw\n%4 = silu %3 : @D[@N,16,166,350] nchw\nout y = %4\n"},
    {"conv_mma", "64-64 k3 h40", "f", {1, 16},
     "in  %x : f32[@N,64,40,40] nchw\nw   $k : @D[64,64,3,3] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,64,40,40] nchw\n%2 = leaky %1 {slope=2} : @D[@N,64,40,40] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : @D[@N,64,40,40] nchw\n%4 = silu %3 : @D[@N,64,40,40] nchw\nout y = %4\n"},
    {"conv_wgmma", "64-64 k3 h40", "f", {1, 16},
     "in  %x : f32[@N,64,40,40] nchw\nw   $k : @D[64,64,3,3] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,64,40,40] nchw\n%2 = leaky %1 {slope=2} : @D[@N,64,40,40] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : @D[@N,64,40,40] nchw\n%4 = silu %3 : @D[@N,64,40,40] nchw\nout y = %4\n"},
    {"conv_wgmma", "192-192 k3 h20, residual", "fb", {1, 16}, /* rows of a narrow map, weights that pass by */
     "in  %x : f32[@N,192,20,20] nchw\nw   $k : @D[192,192,3,3] oihw\nw   $b : f32[192]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,192,20,20] nchw\n%2 = leaky %1 {slope=2} : @D[@N,192,20,20] nchw\n"
     "%3 = conv2d %2, $k, $b {pad=1,1,1,1} : @D[@N,192,20,20] nchw\n%4 = silu %3 : @D[@N,192,20,20] nchw\n"
     "%5 = add %4, %2 : @D[@N,192,20,20] nchw\nout y = %5\n"},
    {"conv_wgmma", "48-96 k3 s2, odd rows", "f", {2, 16}, /* neighbours in pairs */
     "in  %x : f32[@N,48,77,66] nchw\nw   $k : @D[96,48,3,3] oihw\nw   $b : f32[96]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,48,77,66] nchw\n%2 = leaky %1 {slope=2} : @D[@N,48,77,66] nchw\n"
     "%3 = conv2d %2, $k, $b {stride=2,2 pad=1,1,1,1} : @D[@N,96,39,33] nchw\n%4 = silu %3 : @D[@N,96,39,33] nchw\nout y = %4\n"},
    {"conv_wgmma", "40-64 k3 s2, part of wider pixels", "f", {1, 3}, /* even and odd columns apart */
     "in  %x : f32[@N,56,34,38] nchw\nw   $k : @D[64,40,3,3] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,56,34,38] nchw\n%2 = leaky %1 {slope=2} : @D[@N,56,34,38] nchw\n"
     "%3 = slice %2 {start=16 count=40} : @D[@N,40,34,38] nchw\n"
     "%4 = conv2d %3, $k, $b {stride=2,2 pad=1,1,1,1} : @D[@N,64,17,19] nchw\n%5 = silu %4 : @D[@N,64,17,19] nchw\nout y = %5\n"},
    {"conv_wgmma", "104-1072 k1, odd", "b", {1, 3}, /* channels that no width of a tile divides */
     "in  %x : f32[@N,104,13,9] nchw\nw   $k : @D[1072,104,1,1] oihw\nw   $b : f32[1072]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,104,13,9] nchw\n%2 = leaky %1 {slope=2} : @D[@N,104,13,9] nchw\n"
     "%3 = conv2d %2, $k, $b : @D[@N,1072,13,9] nchw\n%4 = silu %3 : @D[@N,1072,13,9] nchw\nout y = %4\n"},
    {"conv_wgmma", "128 enlarged + 64 - 64 k1 h80", "fb", {1, 16},
     "in  %x : f32[@N,128,40,40] nchw\nin  %z : f32[@N,64,80,80] nchw\nw   $k : @D[64,192,1,1] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,128,40,40] nchw\n%2 = leaky %1 {slope=2} : @D[@N,128,40,40] nchw\n"
     "%3 = cast %z {dtype=@D layout=nchw} : @D[@N,64,80,80] nchw\n%4 = leaky %3 {slope=2} : @D[@N,64,80,80] nchw\n"
     "%5 = upsample %2 {factor=2} : @D[@N,128,80,80] nchw\n%6 = concat %5, %4 : @D[@N,192,80,80] nchw\n"
     "%7 = conv2d %6, $k, $b : @D[@N,64,80,80] nchw\n%8 = silu %7 : @D[@N,64,80,80] nchw\nout y = %8\n"},
    {"conv_wgmma", "48 + 96 enlarged - 192 k1, odd", "f", {3, 16}, /* chunks that end with a map */
     "in  %x : f32[@N,96,13,21] nchw\nin  %z : f32[@N,48,26,42] nchw\nw   $k : @D[192,144,1,1] oihw\nw   $b : f32[192]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,96,13,21] nchw\n%2 = leaky %1 {slope=2} : @D[@N,96,13,21] nchw\n"
     "%3 = cast %z {dtype=@D layout=nchw} : @D[@N,48,26,42] nchw\n%4 = leaky %3 {slope=2} : @D[@N,48,26,42] nchw\n"
     "%5 = upsample %2 {factor=2} : @D[@N,96,26,42] nchw\n%6 = concat %4, %5 : @D[@N,144,26,42] nchw\n"
     "%7 = conv2d %6, $k, $b : @D[@N,192,26,42] nchw\n%8 = silu %7 : @D[@N,192,26,42] nchw\nout y = %8\n"},
    {"warp_sums", "moments of 256, 8400", "sf", {1, 3},
     "in  %x : f32[@N,256,8400,1] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,256,8400,1] nchw\n"
     "%2 = leaky %1 {slope=2} : @D[@N,256,8400,1] nchw\n%3 = cast %2 {dtype=f32 layout=nchw} : f32[@N,256,8400,1] nchw\n"
     "%4 = moments %3 {eps=1e-05} : f32[@N,2,8400,1] nchw\n%5 = maxpool %4 {kernel=1,1} : f32[@N,2,8400,1] nchw\nout y = %5\n"},
    {"warp_sums", "peak of 80, 8400", "s", {1, 3},
     "in  %x : f32[@N,80,8400,1] nchw\n%1 = leaky %x {slope=2} : f32[@N,80,8400,1] nchw\n%2 = peak %1 : f32[@N,1,8400,1] nchw\n"
     "%3 = maxpool %2 {kernel=1,1} : f32[@N,1,8400,1] nchw\nout y = %3\n"},
    {"attn_mma", "2 heads 32-64 h20", "fb", {1, 16},
     "in  %x : f32[@N,256,20,20] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,256,20,20] nchw\n"
     "%2 = leaky %1 {slope=3} : @D[@N,256,20,20] nchw\n"
     "%3 = attention %2, %2, %2 {heads=2 dim=32 kat=32 scale=0.17677669 values=64 vat=64} : @D[@N,128,20,20] nchw\n"
     "%4 = leaky %3 {slope=2} : @D[@N,128,20,20] nchw\nout y = %4\n"},
    {"attn_mma", "2 heads 32-32 h40, 4 areas", "f", {1, 16},
     "in  %x : f32[@N,192,40,40] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,192,40,40] nchw\n"
     "%2 = leaky %1 {slope=3} : @D[@N,192,40,40] nchw\n"
     "%3 = attention %2, %2, %2 {heads=2 dim=32 kat=32 areas=4 scale=0.17677669 values=32 vat=64} : @D[@N,64,40,40] nchw\n"
     "%4 = leaky %3 {slope=2} : @D[@N,64,40,40] nchw\nout y = %4\n"},
    {"attn_mma", "8 heads 32-32, 300 queries", "f", {1, 16},
     "in  %x : f32[@N,512,300,1] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,512,300,1] nchw\n"
     "%2 = leaky %1 {slope=3} : @D[@N,512,300,1] nchw\n%3 = slice %2 {start=256 count=256} : @D[@N,256,300,1] nchw\n"
     "%4 = attention %2, %2, %3 {heads=8 dim=32 kat=32 scale=0.17677669 values=32} : @D[@N,256,300,1] nchw\n"
     "%5 = add %4, %3 : @D[@N,256,300,1] nchw\nout y = %5\n"},
    {"attn_mma", "3 heads 24-8, odd, slices at 8 bytes", "fb", {3, 3},
     "in  %x : f32[@N,180,33,17] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,180,33,17] nchw\n"
     "%2 = leaky %1 {slope=3} : @D[@N,180,33,17] nchw\n"
     "%3 = attention %2, %2, %2 {heads=3 dim=24 qat=4 kat=28 scale=0.25 values=8 vat=52} : @D[@N,24,33,17] nchw\n"
     "%4 = leaky %3 {slope=2} : @D[@N,24,33,17] nchw\nout y = %4\n"},
    {"attn_mma", "128-128 h12", "f", {1, 4},
     "in  %x : f32[@N,384,12,12] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,384,12,12] nchw\n"
     "%2 = leaky %1 {slope=2} : @D[@N,384,12,12] nchw\n"
     "%3 = attention %2, %2, %2 {dim=128 kat=128 scale=0.08838835 values=128 vat=256} : @D[@N,128,12,12] nchw\n"
     "%4 = leaky %3 {slope=2} : @D[@N,128,12,12] nchw\nout y = %4\n"},
    {"attn_vec", "2 heads 32-64 h20", "sf", {1, 16},
     "in  %x : f32[@N,256,20,20] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,256,20,20] nchw\n"
     "%2 = leaky %1 {slope=2} : @D[@N,256,20,20] nchw\n"
     "%3 = attention %2, %2, %2 {heads=2 dim=32 kat=32 scale=0.17677669 values=64 vat=64} : @D[@N,128,20,20] nchw\n"
     "%4 = leaky %3 {slope=2} : @D[@N,128,20,20] nchw\nout y = %4\n"},
    {"attn_vec", "3 heads 11-9, 3 areas, odd", "sb", {3, 3},
     "in  %x : f32[@N,99,33,17] nchw\n%1 = cast %x {dtype=@D layout=nchw} : @D[@N,99,33,17] nchw\n"
     "%2 = leaky %1 {slope=2} : @D[@N,99,33,17] nchw\n"
     "%3 = attention %2, %2, %2 {heads=3 dim=11 qat=1 kat=12 areas=3 scale=0.3 values=9 vat=24} : @D[@N,27,33,17] nchw\n"
     "%4 = leaky %3 {slope=2} : @D[@N,27,33,17] nchw\nout y = %4\n"},
    {"deconv_mma", "64-64 k2 s2 h40", "f", {1, 16},
     "in  %x : f32[@N,64,40,40] nchw\nw   $k : @D[64,64,2,2] oihw\nw   $b : f32[64]\n"
     "%1 = cast %x {dtype=@D layout=nchw} : @D[@N,64,40,40] nchw\n%2 = leaky %1 {slope=2} : @D[@N,64,40,40] nchw\n"
     "%3 = deconv2d %2, $k, $b {stride=2,2} : @D[@N,64,80,80] nchw\n%4 = silu %3 : @D[@N,64,80,80] nchw\nout y = %4\n"},
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "gpufam: %s: %s\n", what, why);
    return 1;
}

static void print_diag(void *user, const struct yir_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->rendered);
}

/* --- compiled kernels in a folder --------------------------------------------------------------------------- */

/* Whatever NVRTC they were made by: its version is the key's first line, with the target that all rows have. */
static void object_path(const char *folder, const void *key, size_t len, char path[512])
{
    const char *end = memchr(key, '\n', len);
    size_t skip = end ? (size_t)(end - (const char *)key) : 0;
    snprintf(path, 512, "%s/%016llx", folder, (unsigned long long)XXH3_64bits((const char *)key + skip, len - skip));
}

static const void *get_object(void *user, struct yir_arena *a, const void *key, size_t len, size_t *size)
{
    char path[512];
    object_path(user, key, len, path);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    void *data = n > 0 ? yir_alloc(a, (size_t)n) : NULL;
    if (data && fread(data, 1, (size_t)n, f) != (size_t)n) data = NULL;
    fclose(f);
    *size = (size_t)n;
    return data;
}

static void put_object(void *user, const void *key, size_t len, const void *object, size_t size)
{
    char path[512];
    object_path(user, key, len, path);
    FILE *f = fopen(path, "wb");
    if (f && fwrite(object, 1, size, f) != size) fail(path, "is not written");
    if (f) fclose(f);
}

/* --- from a row to a module --------------------------------------------------------------------------------- */

struct net {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct yir_func *front;
    const struct yir_func *f;
    struct cg_target target;
    const char *family; /* NULL: generic */
    size_t pick;        /* of its configurations */
    const char *config; /* NULL: the family does not take it, or has no more */
    int batch;
};

static const char *fill_in(struct yir_arena *a, const char *ir, const char *type, int batch)
{
    struct yir_str s = {.arena = a};
    for (; *ir; ir++) {
        if (*ir != '@') {
            yir_str_put(&s, ir, 1);
            continue;
        }
        ir++;
        if (*ir == 'D')
            yir_str_fmt(&s, "%s", type);
        else
            yir_str_fmt(&s, "%d", batch);
    }
    return s.text;
}

static int prepare(struct net *n, const struct row *r, const char *type, int batch)
{
    struct pass_opts po;
    *n = (struct net){.arena = yir_arena_new(NULL, NULL), .batch = batch};
    n->diags = yir_diags_new(n->arena, print_diag, NULL);
    const char *ir = fill_in(n->arena, r->ir, type, batch);
    n->front = yir_parse(n->arena, yir_types_new(n->arena), n->diags, r->what, ir, strlen(ir));
    if (!n->front) return fail(r->what, "does not parse");
    randnet_typed_weights(n->front, 7);
    pass_opts_init(&po);
    po.max_batch = batch;
    n->f = pass_run_all(n->front, n->diags, &po);
    return !n->f || cg_target_find(n->arena, n->diags, "cuda:sm_90a", &n->target);
}

static size_t choose(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n)
{
    struct net *net = user;
    size_t count = 0;
    (void)k;
    for (size_t i = 0; net->family && i < n; i++) {
        if (legal[i].family == CG_GENERIC || strcmp(cg_fast_at((size_t)legal[i].family)->name, net->family)) continue;
        if (count++ < net->pick) continue;
        net->config = cg_config_text(net->arena, &legal[i]);
        return i;
    }
    return n - 1;
}

static int make_module(struct net *n, char *folder, void **bytes, size_t *size)
{
    const struct cg_object_store store = {get_object, put_object, folder};
    const struct cg_opts o = {.max_batch = n->batch, .choose = choose, .choose_user = n, .objects = folder ? &store : NULL};
    struct cg_code code;
    const struct cg_program *p = cg_kernels(n->arena, n->f, &n->target, &o);
    if (n->family && !n->config) return NO_MORE;
    if (cg_nvrtc_compile(n->arena, n->diags, p, &n->target, &code)) return 1;
    struct cg_module mod = {.meta = {.model = "row", .task = "op", .precision = "f32", .height = 1, .width = 1, .max_batch = n->batch,
                                     .stride = 1, .conf = 0.25f, .iou = 0.5f, .max_det = 1, .weights_from = "", .options = ""},
                            .front = n->front, .variant = &(struct cg_variant){&n->target, p, &code}, .nvariant = 1, .strip = true};
    return cg_module_write(n->arena, n->diags, &mod, bytes, size);
}

/* --- on the GPU --------------------------------------------------------------------------------------------- */

struct result {
    double *value; /* of the only output */
    size_t n;
    double ms[64]; /* least of each step */
    char label[64][96];
    size_t steps;
};

static int measure(yolort_module *m, yolort_context *c, int batch, struct result *r)
{
    r->steps = yolort_step_count(m);
    if (r->steps > YIR_COUNT(r->ms) || yolort_profile(c, 1)) return fail("profile", yolort_error(c));
    for (int run = 0; run < RUNS; run++) {
        if (yolort_run(c, batch, NULL) || yolort_wait(c)) return fail("run", yolort_error(c));
        for (size_t i = 0; i < r->steps; i++) {
            yolort_step s;
            yolort_step_at(c, i, &s);
            if (!run || s.ms < r->ms[i]) r->ms[i] = s.ms;
            snprintf(r->label[i], sizeof r->label[i], "%s", s.kernel);
        }
    }
    return 0;
}

/* Noise for input i, NULL: no memory. The caller's. */
static unsigned char *noise_for(const yolort_io *io, int batch, uint64_t *state)
{
    size_t bytes = io->bytes_per_image * (size_t)batch, size = yir_dtype_size((enum yir_dtype)io->dtype);
    unsigned char *x = malloc(bytes);
    for (size_t i = 0; x && i < bytes / size; i++) {
        double v = (double)randnet_float(state);
        yir_dtype_store((enum yir_dtype)io->dtype, x, i, io->dtype == YOLORT_U8 ? floor((v + 1) * 128) : v);
    }
    return x;
}

static int read_output(const yolort_io *out, const unsigned char *y, size_t bytes, struct result *r)
{
    r->n = bytes / yir_dtype_size((enum yir_dtype)out->dtype);
    r->value = malloc(r->n * sizeof *r->value);
    for (size_t i = 0; r->value && i < r->n; i++) r->value[i] = yir_dtype_load((enum yir_dtype)out->dtype, y, i);
    return r->value ? 0 : fail("run", "no memory");
}

/* Inputs, then the only output. */
static int run_bound(yolort_module *m, yolort_context *c, int batch, struct result *r)
{
    enum { MOST = 4 };
    unsigned char *data[MOST] = {NULL};
    size_t n = yolort_io_count(m);
    uint64_t state = 5;
    int bad = n > MOST ? fail("run", "too many inputs") : 0;
    for (size_t i = 0; i < n && !bad; i++) {
        const yolort_io *io = yolort_io_at(m, i);
        size_t bytes = io->bytes_per_image * (size_t)batch;
        data[i] = io->is_output ? malloc(bytes) : noise_for(io, batch, &state);
        if (data[i] && io->is_output) memset(data[i], 0xff, bytes);
        if (!data[i] || yolort_bind(c, i, data[i], bytes)) bad = fail("bind", yolort_error(c));
    }
    if (!bad && (yolort_run(c, batch, NULL) || yolort_wait(c))) bad = fail("run", yolort_error(c));
    if (!bad) bad = read_output(yolort_io_at(m, n - 1), data[n - 1], yolort_io_at(m, n - 1)->bytes_per_image * (size_t)batch, r);
    if (!bad) bad = measure(m, c, batch, r);
    for (size_t i = 0; i < MOST; i++) free(data[i]);
    return bad;
}

static int run_module(const void *bytes, size_t size, int batch, struct result *r)
{
    char why[256];
    yolort_module *m = NULL;
    yolort_context *c = NULL;
    yolort_status s = yolort_load(&m, bytes, size, why, sizeof why);
    if (s) return s == YOLORT_NO_DEVICE ? SKIPPED : fail("load", why);
    int bad = yolort_context_new(&c, m, NULL) ? fail("context", "none") : run_bound(m, c, batch, r);
    yolort_context_free(c);
    yolort_module_free(m);
    return bad;
}

static int compare(const struct result *want, const struct result *got, const char *type)
{
    double sum = 0, worst = 0;
    for (size_t i = 0; i < want->n; i++) sum += fabs(want->value[i]);
    double mean = sum / (double)want->n;
    for (size_t i = 0; i < want->n; i++) {
        double off = fabs(got->value[i] - want->value[i]) / fmax(mean, fabs(want->value[i]));
        if (!(off <= worst)) worst = isnan(off) ? 1e30 : off;
    }
    bool good = worst <= (!strcmp(type, "bf16") ? 1.6e-2 : !strcmp(type, "f16") ? 3e-3 : 1e-5);
    printf("%s off by %.2e", good ? "good," : "WRONG,", worst);
    return !good;
}

static void show_times(const struct result *generic, const struct result *fast)
{
    for (size_t i = 0; i < fast->steps && i < generic->steps; i++)
        if (strcmp(fast->label[i], generic->label[i]))
            printf("; %.*s %.2f us, generic %.2f", (int)strcspn(fast->label[i], "_"), fast->label[i], fast->ms[i] * 1e3, generic->ms[i] * 1e3);
    printf("\n");
}

/* One way; family NULL: generic. */
static int try_one(const struct row *r, const char *type, int batch, char *folder, const char *family, size_t pick, struct result *out)
{
    struct net n;
    void *bytes = NULL;
    size_t size = 0;
    int bad = prepare(&n, r, type, batch);
    n.family = family;
    n.pick = pick;
    if (!bad) bad = make_module(&n, folder, &bytes, &size);
    if (!bad && family) printf("%-26s %-4s n %-2d %-40s ", r->what, type, batch, n.config);
    if (!bad) bad = run_module(bytes, size, batch, out);
    if (bad == NO_MORE && !pick) bad = fail(r->what, "the family does not take it");
    free(bytes);
    yir_arena_free(n.arena);
    return bad;
}

static int try_row(const struct row *r, const char *type, int batch, char *folder, size_t count)
{
    struct result generic = {0};
    int all = try_one(r, type, batch, folder, NULL, 0, &generic);
    if (all && all != SKIPPED) return all;
    for (size_t i = 0; i < count; i++) {
        struct result fast = {0};
        int bad = try_one(r, type, batch, folder, r->family, i, &fast);
        if (bad == NO_MORE) break;
        if (bad == SKIPPED)
            printf("compiled\n");
        else if (!bad) {
            bad = compare(&generic, &fast, type);
            show_times(&generic, &fast);
        }
        if (bad) all = bad;
        free(fast.value);
        fflush(stdout);
    }
    free(generic.value);
    return all;
}

static bool wanted(const char *family, int n, char **list)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i], family)) return true;
    return !n;
}

/* A family without a row would not be seen here. */
static int check_table(void)
{
    int bad = 0;
    for (size_t i = 0; i < cg_fast_count(); i++) {
        const struct cg_fast *fast = cg_fast_at(i);
        size_t k = 0;
        while (k < YIR_COUNT(rows) && strcmp(rows[k].family, fast->name)) k++;
        if (fast->backend == CG_CUDA && k == YIR_COUNT(rows)) bad = fail(fast->name, "has no row here");
    }
    return bad;
}

static bool is_known(const char *family)
{
    for (size_t i = 0; i < cg_fast_count(); i++)
        if (!strcmp(cg_fast_at(i)->name, family)) return true;
    return false;
}

static bool no_gpu(void)
{
    size_t n;
    int driver;
    char why[256];
    if (!yolort_gpus(NULL, 0, &n, &driver, why, sizeof why) && n) return false;
    printf("gpufam: skipped: %s\n", why);
    return true;
}

int main(int argc, char **argv)
{
    char *folder = NULL;
    size_t count = 1;
    int batches = 1;
    int first = 1, bad = check_table();
    bool none = false;
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    for (; argc > first + 1 && argv[first][0] == '-'; first += 2) {
        if (argv[first][1] == 'o') folder = argv[first + 1];
        if (argv[first][1] == 'b') batches = atoi(argv[first + 1]) > 1 ? 2 : 1;
        if (argv[first][1] == 'c') count = (size_t)atoi(argv[first + 1]);
    }
    if (!cg_nvrtc_version(a, yir_diags_new(a, NULL, NULL))) return printf("gpufam: skipped: no NVRTC\n"), SKIPPED;
    yir_arena_free(a);
    if (!folder && no_gpu()) return bad ? 1 : SKIPPED;
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        const struct row *r = &rows[i];
        if (!wanted(r->family, argc - first, argv + first) || !is_known(r->family)) continue;
        for (const char *t = r->types; *t; t++)
            for (int k = 0; k < batches && (!k || r->batch[1] != r->batch[0]); k++) {
                int got = try_row(r, *t == 'f' ? "f16" : *t == 's' ? "f32" : "bf16", r->batch[k], folder, count);
                none |= got == SKIPPED;
                bad |= got && got != SKIPPED;
            }
    }
    return bad ? 1 : none ? SKIPPED : 0;
}
