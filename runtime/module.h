/*
 * Layout of a module file (little-endian), shared by the writer (codegen/modwrite.c) and the loader (runtime/module.c).
 *
 *   struct ym_header | struct ym_section[nsection] | sections in the order of that table
 *
 * Each section begins at the first multiple of 64 after the part before it; the bytes between, and those that may
 * pad the last one to a multiple of 64, are zero. A (kind, index) occurs once; every program has all of TARGET, IO,
 * KERNEL, PARAM, STEP, ARG and CODE, CONSTANTS when an argument or an engine's weights lie there, and CONSTANT when those are not there as
 * they are read.
 *
 * The digest is XXH3-128 (canonical big-endian form) of the whole file with the digest field zeroed. Offsets in
 * sections are from the start of that section; strings are offsets into the STRINGS section, NUL-terminated; offset 0
 * is the empty string. Nothing here is a pointer, and no file may name another file.
 */
#ifndef YM_MODULE_H
#define YM_MODULE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define YM_MAGIC "YOLOCMOD"
#define YM_FORMAT 4u
#define YM_BYTE_ORDER 0x01020304u
#define YM_ALIGN 64u
#define YM_MAX_RANK 6
#define YM_ANY 0xffffffffu

/* Limits the loader enforces (reliability notes, section 3). */
#define YM_MAX_FILE (8ull << 30)
#define YM_MAX_SECTIONS 65536u
#define YM_MAX_TARGETS 64u
#define YM_MAX_MANIFEST (16ull << 20) /* each section but CODE, CONSTANTS, WEIGHTS */
#define YM_MAX_BATCH 65536
#define YM_MAX_IO 128                 /* bits of the step masks below */
#define YM_MAX_ARGS 64
#define YM_WARP 32
#define YM_MAX_THREADS 1024
#define YM_MAX_SHARED (227 << 10)      /* of one block, on the GPUs that have most */
#define YM_MAX_MAPS 4                 /* of a kernel */
#define YM_MAP_RANK 5
#define YM_MOST_ALIGN 4               /* 16 bytes: what one access of a GPU's thread reads or writes at most */
#define YM_MAX_KNOBS 24               /* of an engine */
#define YM_MAX_SIDE 65535
#define YM_MAX_WINDOW 64              /* of an engine's convolution: kernel, stride, dilation, padding */
#define YM_MAX_GROWTH 64u             /* a weight of half precision for one channel, packed for blocks of 32 */

struct ym_header {
    char magic[8];
    uint32_t format;      /* YM_FORMAT */
    uint32_t byte_order;  /* YM_BYTE_ORDER as a number */
    uint64_t file_size;
    uint8_t digest[16];
    uint32_t features;    /* bits a reader must know to read the file: none defined */
    uint32_t producer;    /* version of yoloc, 0x00XXYYZZ */
    uint32_t nsection;
    uint32_t ntarget;     /* programs in the file */
};
_Static_assert(sizeof(struct ym_header) == 56, "header grew");

enum ym_section_kind {
    YM_STRINGS = 1,
    YM_META = 2,      /* struct ym_meta */
    YM_NAMES = 3,     /* uint32_t[nc]: strings of the class names */
    YM_IR = 4,        /* front-end IR text, un-fused, as `yoloc opt` reads it */
    YM_WEIGHT = 5,    /* struct ym_weight[]: canonical weights, by the names of the IR */
    YM_WEIGHTS = 6,   /* their bytes */
    YM_TARGET = 16,   /* struct ym_target; this and the following once for each program, `index` tells which */
    YM_IO = 17,       /* struct ym_io[] */
    YM_KERNEL = 18,   /* struct ym_kernel[] */
    YM_STEP = 19,     /* struct ym_step[] */
    YM_ARG = 20,      /* struct ym_arg[] */
    YM_CODE = 21,     /* cpu: one flat position-independent blob, cuda: a cubin for each function; a struct ym_seal before each */
    YM_CONSTANTS = 22, /* packed weights, as the kernels read them; with CONSTANT: what its rows take from here */
    YM_PARAM = 23,    /* struct ym_param[], those of kernel 0 first */
    YM_SERVICE = 24,  /* struct ym_kernel: where in CODE the cubin of the functions in service.h lies, with YM_SERVICE_VERSION as its
                       * units; of cuda programs alone, and not of all */
    YM_CONSTANT = 25, /* struct ym_constant[]: packed weights that the loader makes */
    YM_MAP = 26,      /* struct ym_map[], those of kernel 0 first; absent when there are none */
    YM_ENGINE = 27    /* struct ym_engine[]; of cuda programs alone, absent when there are none */
};

/* Of service.h: how its functions are called. */
#define YM_SERVICE_VERSION 3

struct ym_section {
    uint32_t kind;
    uint32_t index; /* program number for kinds from YM_TARGET on, else 0 */
    uint64_t offset, size;
};

struct ym_meta {
    uint32_t model, task, head; /* strings, string, enum yolort_head */
    uint32_t letterbox;         /* enum yolort_letterbox_mode */
    int32_t nc, height, width, max_batch, stride, max_det;
    float conf, iou;
    uint32_t weights_from;      /* string: where the weights came from, without folders */
    uint32_t options;           /* string: compile options in canonical order, for re-targeting */
    /* What a row of `decoded` ends with, after the scores: mask coefficients; keypoints of 2 or 3 numbers each (0: no
     * keypoints); 1 angle. */
    int32_t coefficients, points, point_dims, angles;
    uint64_t weights_digest[2];
};

enum ym_device { YM_CPU = 1, YM_CUDA = 2 };

struct ym_target {
    uint32_t kind;           /* enum ym_device */
    uint32_t name;           /* "cpu:x86-64-v4" */
    uint32_t arch;           /* "x86_64", "aarch64", "sm_90a" */
    uint32_t features;       /* comma-joined names of ym_cpu_feature rows that the code needs */
    uint32_t precision;      /* "fp32", "fp16", "fp16 model.22*=fp32": of the whole network, then of layers that differ */
    uint32_t compiler;       /* "LLVM 19.1.7" */
    uint64_t arena_size;     /* bytes at the largest batch */
    uint64_t scratch_size;   /* bytes for each thread */
    int32_t max_batch, height, width;
    uint32_t checked;        /* 1: kernels check their own bounds and return non-zero */
};

/* LAYER: an extra output of compile --layers. BESIDE: an input that every run needs, whichever form of the picture is bound;
 * the others are forms of the picture, of which one is bound. */
enum { YM_IO_OUTPUT = 1, YM_IO_LAYER = 2, YM_IO_BESIDE = 4 };

struct ym_io {
    uint32_t name;
    uint8_t dtype, rank, flags, pad;
    int64_t dim[YM_MAX_RANK]; /* dim[0]: max_batch */
};

/*
 * A function in CODE and what a call of it may touch. Its work is units * batch independent units, any split of which
 * among threads gives the same bytes.
 */
struct ym_kernel {
    uint32_t name, family;   /* symbol, "conv_direct" ... */
    uint32_t first_param, nparam; /* rows of PARAM: those after the kernel's before */
    uint64_t offset;         /* entry in CODE, a multiple of 64 */
    int64_t units;           /* per image, >= 1 */
    uint64_t scratch;        /* bytes of scratch it uses, <= scratch_size */
    uint32_t threads;        /* of a block, whole warps, <= YM_MAX_THREADS; this and the following are 0 on CPUs */
    uint32_t per_block;      /* units that a block does, >= 1 */
    uint32_t shared;         /* bytes of dynamic shared memory, <= YM_MAX_SHARED */
    uint32_t first_map, nmap; /* rows of MAP: those after the kernel's before; 0 on CPUs */
    uint32_t most_blocks;    /* for each multiprocessor; blocks then loop over what is theirs; 0: as many as it takes */
    uint32_t waits;          /* 1: it may be started before the kernel that it comes after has ended, and waits for that itself */
    uint32_t least_blocks;   /* the loop needs so many, whatever most_blocks says; 0: 1 */
};

/* With n images the code touches no bytes of the argument but the first `first + (n - 1) * each`. */
struct ym_param {
    uint64_t first, each;
    uint8_t dtype, written;  /* element type (addresses are multiples of its size); 1: the code may write there */
    uint8_t align;           /* log2 of what the address is a multiple of, where that is more than the size; <= YM_MOST_ALIGN */
    uint8_t pad[5];
};

/* How a GPU's tensor copies see an argument: an array of `rank` dimensions, innermost first, the last one the images, from which
 * they take boxes; outside it there are zeros. Elements are of the parameter's type, adjacent along dimension 0. */
struct ym_map {
    uint32_t param;          /* of the kernel: not written, addresses multiples of 16 */
    uint32_t rank;           /* 3 to YM_MAP_RANK */
    uint32_t swizzle;        /* 1, 2, 3: a row of the box is 32, 64, 128 bytes, and its 16-byte parts change places so */
    uint32_t pad;
    uint32_t dim[YM_MAP_RANK]; /* the last one: max_batch; 0 beyond rank */
    uint32_t box[YM_MAP_RANK]; /* 1 to 256 */
    uint64_t stride[YM_MAP_RANK - 1]; /* bytes from one element of dimension 1 and so on to the next, multiples of 16 */
};

/*
 * Lies in CODE right before a function: the tables can't claim of the code what it wasn't made for, unless CODE itself
 * was changed. contract: XXH3-128 (canonical) of ym_contract's bytes.
 */
#define YM_SEAL_MAGIC "YMENTRY"
struct ym_seal {
    char magic[8];
    uint64_t offset;         /* of the function in CODE */
    uint8_t contract[16];
};

enum { YM_CONTRACT_BYTES = sizeof(struct ym_kernel) + YM_MAX_ARGS * sizeof(struct ym_param) + YM_MAX_MAPS * sizeof(struct ym_map) };

/* The row of a function without what is no matter of its code, its nparam <= YM_MAX_ARGS parameters and nmap <= YM_MAX_MAPS
 * maps; how many bytes these are. */
static inline size_t ym_contract(const struct ym_kernel *k, const struct ym_param *p, const struct ym_map *m,
                                 uint8_t to[YM_CONTRACT_BYTES])
{
    struct ym_kernel row = *k;
    size_t params = k->nparam * sizeof *p, maps = k->nmap * sizeof *m;
    row.name = row.family = row.first_param = row.first_map = 0;
    memcpy(to, &row, sizeof row);
    if (params) memcpy(to + sizeof row, p, params);
    if (maps) memcpy(to + sizeof row + params, m, maps);
    return sizeof row + params + maps;
}

/* Bit i of a mask is entry i of YM_IO. A step runs when (need is empty or holds the bound input) and want holds a
 * bound output. A step with an argument in YM_SLOT_IO has that bit alone in need (an input) or want (an output), so
 * that it never runs on an unbound one; with each input, some step writes each output. It has as many arguments as
 * its kernel has parameters; each lies in its slot with all that its parameter touches. */
struct ym_step {
    uint64_t need[2];        /* inputs without which it does not run */
    uint64_t want[2];        /* outputs that (transitively) read its results */
    uint32_t kernel, first_arg, narg;
    uint32_t label;          /* string */
    int32_t line;            /* yaml line */
    uint32_t grain;          /* units worth handing to a thread at once, >= 1 */
    double flops, bytes;     /* per image */
};

enum ym_activation { YM_ACT_NONE, YM_ACT_RELU, YM_ACT_SIGMOID, YM_ACT_SILU };
enum { YM_NACT = YM_ACT_SILU + 1 };

/* out = activation(convolution(x, weights) + bias) + residual, of maps with adjacent channels, groups 1, zeros around the map, sums in F32
 * and rounded once. [0] vertical, [1] horizontal. */
struct ym_conv {
    uint8_t dtype, out_dtype;   /* F16 or BF16, of x, the weights and the residual; out: that, or F32 */
    uint8_t activation;         /* enum ym_activation */
    uint8_t biased, added, pad[3]; /* 1: there is a bias, F32; a residual */
    uint32_t images;            /* always that many: max_batch */
    uint32_t x[3], out[3];      /* channels, height, width; at most YM_MAX_SIDE */
    uint32_t kernel[2], stride[2], dilation[2], before[2], after[2]; /* padding; at most YM_MAX_WINDOW each */
    uint32_t pad2;
    uint64_t x_stride[3], out_stride[3], added_stride[3]; /* elements from one image, row, pixel to the next; 0: no residual */
};

/* How cuDNN may do a step in place of the step's kernel, which computes the same: where there is a cuDNN that takes this, and a run has
 * all the images. Rows are in the order of their steps, of which each has one at most; what a row names lies in the arena, and nothing
 * that it reads is what it writes. */
struct ym_engine {
    uint32_t step, name;        /* name: string, for profiles */
    uint32_t version;           /* of the cuDNN that it was chosen with: 91900; another may take it too */
    uint32_t number, nknob;     /* engine, by its number in cuDNN, and how its knobs stand */
    uint32_t x, out, added;     /* arguments of the step; added YM_ANY: none */
    uint64_t weights, bias;     /* in what arguments in YM_SLOT_CONSTANT count from, multiples of 64: [co][kh][kw][ci], [co]; bias 0: none */
    uint64_t space, space_bytes; /* working memory, in the arena from a multiple of 256; it is written */
    struct ym_conv conv;
    struct ym_knob {
        uint32_t type;
        int32_t value;
    } knob[YM_MAX_KNOBS];       /* 0 beyond nknob; each type once */
};

/* Forms of a weight that kernels read. [co, ...] is rounded up to a multiple of the argument; missing channels are 0. */
enum ym_packing {
    YM_PACK_NONE,          /* as it is; argument 0 */
    YM_PACK_OBLOCK,        /* [co,ci,kh,kw] -> [ceil(co/arg)][kh][kw][ci][arg]; rank 1: [co] */
    YM_PACK_OBLOCK_BACK,   /* the same with the input channels in reverse order */
    YM_PACK_OBLOCK_PLANES, /* [co,ci,kh,kw] -> [ceil(co/arg)][kh][ci][kw][arg] */
    YM_PACK_WINO2,         /* [co,ci,3,3] -> [ceil(co/arg)][4*4][ci][arg]: G w G^T of F(2x2,3x3) */
    YM_PACK_WINO4,         /* the same of F(4x4,3x3): [ceil(co/arg)][6*6][ci][arg] */
    YM_PACK_DW             /* [c,1,kh,kw] -> [kh][kw][c] */
};
enum { YM_NPACK = YM_PACK_DW + 1 };

/*
 * A packed weight, which lies at `offset` of what arguments in YM_SLOT_CONSTANT count from: each at the first multiple of 64
 * after the one before it, zeros between. weight YM_ANY: `size` bytes of CONSTANTS, at `from`, and type, packing, argument and
 * scaled are 0. Else that row of WEIGHT, F32 or F16 as F32 (another type as it is), packed; scaled: multiplied before by
 * a factor for each output channel, doubles of CONSTANTS at `from`, and rounded to float. `from` is a multiple of 64, 0
 * when nothing lies there. All of them together take at most YM_MAX_GROWTH times the bytes of the file.
 */
struct ym_constant {
    uint64_t offset, size;
    uint64_t from;
    uint32_t weight;
    int32_t arg;
    uint8_t dtype, packing, scaled, pad[5]; /* dtype: of the packed form */
};

enum ym_slot { YM_SLOT_ARENA = 0, YM_SLOT_CONSTANT = 1, YM_SLOT_IO = 2 };

struct ym_arg {
    uint32_t slot;
    uint32_t io;             /* YM_SLOT_IO: index into YM_IO; else 0 */
    uint64_t offset;         /* bytes from the slot's start */
};

struct ym_weight {
    uint32_t name;
    uint8_t dtype, rank, pad[2];
    int64_t dim[YM_MAX_RANK];
    uint64_t offset, size;   /* in YM_WEIGHTS; offset is a multiple of 64 */
};

/* What a CPU kernel is called with: units [begin, end) of n images' units * n; unit u belongs to image u / units.
 * arg[i] points at the step's i-th argument; scratch (64-byte aligned, of the kernel's size) is this thread's own. */
struct ym_cpu_call {
    void *const *arg;
    void *scratch;
    int64_t begin, end;
};

/* A CUDA kernel is a function of the kernel's name, alone in the cubin at its offset. Its parameters are the addresses of the
 * step's arguments, then the number of units of all images, 64 bits wide, then the driver's form of its maps, 128 bytes each. It runs in a row of blocks, as many as it takes for
 * each to do per_block units: block b those from b * per_block on. Its scratch is 0. */

/* 0, or in checked code 1 + the number of the argument that an access would have left. */
typedef int32_t (*ym_cpu_fn)(const struct ym_cpu_call *call);

#endif
