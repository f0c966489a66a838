/*
 * Kernel builder: records a kernel as a short program of scalar, vector, memory and loop primitives (kbops.def). Emitters
 * write it once; renderers draw it as LLVM IR (kb_llvm.c) and CUDA C (kb_cuda.c), and interpret it in double (kb_ref.c).
 *
 * A kernel's program is the body for one work unit. Units are independent of each other and any split of them gives the
 * same bytes. Values are numbered nodes; a node made inside a loop may be used only inside it (variables carry results out).
 * Equal pure nodes become one and integer arithmetic on constants is folded as it is recorded, so programs are canonical:
 * same calls, same program, same text. One emitting call a statement: C leaves the order of arguments open.
 */
#ifndef KB_H
#define KB_H

#include "ir/ir.h"

typedef struct {
    uint32_t id; /* index in kb.node; 0: none */
} kv;

enum kb_code {
    KB_NONE,
#define KBOP(name, in, pure) KB_##name,
#include "kbops.def"
#undef KBOP
    KB_NCODE
};

enum kb_type { KB_VOID, KB_F, KB_I, KB_B };

struct kb_node {
    uint8_t code;    /* enum kb_code */
    uint8_t type;    /* enum kb_type of its value */
    uint8_t lanes;   /* 1 or kb.lanes; for STORE: of the value */
    uint8_t mem;     /* LOAD, STORE: index in kb.mem */
    uint8_t marked;  /* I values: varies with the lane (a LANE, or that plus a uniform value) */
    uint32_t scope;  /* LOOP node it was made in (a LOOP: itself), 0: the body */
    uint32_t a, b, c; /* LOOP: c is 1 while it is open */
    union {
        double f;
        int64_t i;
    } imm;           /* LOAD, STORE: lanes valid. LOOP: step */
};

enum kb_memkind {
    KB_MEM_VALUE,   /* placed value `ref` of the function (input, output or arena) */
    KB_MEM_WEIGHT,  /* weight `ref`, packed by `packing` */
    KB_MEM_SCRATCH  /* per-thread working memory of `elems` elements; at most one a kernel */
};

/* Named pure functions from a dense weight to the order a kernel reads it in (packing.c). */
enum kb_packing {
    KB_PACK_NONE,   /* as it is */
    KB_PACK_OBLOCK, /* [co,ci,kh,kw] -> [ceil(co/arg)][kh][kw][ci][arg], missing channels 0; rank 1: [co] padded to arg */
    KB_PACK_OBLOCK_BACK,   /* the same with the input channels in reverse order */
    KB_PACK_OBLOCK_PLANES, /* [co,ci,kh,kw] -> [ceil(co/arg)][kh][ci][kw][arg] */
    KB_PACK_WINO2,  /* [co,ci,3,3] -> [ceil(co/arg)][4*4][ci][arg]: G w G^T of F(2x2,3x3), missing channels 0 */
    KB_PACK_WINO4,  /* the same of F(4x4,3x3): [ceil(co/arg)][6*6][ci][arg] */
    KB_PACK_DW,     /* [c,1,kh,kw] -> [kh][kw][c rounded up to arg], missing channels 0 */
    KB_PACK_MMA,    /* [co,ci/arg,kh,kw] -> [arg groups][steps of 32 bytes][16 channels][lane][16 bytes]: mma_text.h */
    KB_PACK_MMA_SPREAD, /* the same of a transposed convolution's [ci,co,2,2], the corner before the output channel */
    KB_PACK_DECONV, /* [ci,co,kh,kw] -> [kh][kw][ceil(co/arg)][ci][arg], missing channels 0 */
    KB_PACK_STEM,   /* [co,ci,kh,kw] -> [step][co/8][lane][2 words]: stem_text.h */
    KB_PACK_WGMMA   /* [co,ci,k,k] by steps of 16 channels of a tap, in the order that wgmma.h says */
};

struct kb_mem {
    enum kb_memkind kind;
    enum yir_dtype dtype;
    yir_ref ref;
    enum kb_packing packing;
    int32_t pack_arg;
    int32_t align; /* GPUs: log2 of what the address of element 0 is a multiple of, at most 4 */
    int64_t elems; /* extent in elements at the largest batch, from the value's element 0; for bounds checks */
    bool written;
};

#define KB_MAX_MEM 64
#define KB_MAX_LANES 16

/* What emitters may ask of a target. */
struct kb_target {
    const char *name;
    int lanes;        /* float lanes of a vector register; 1: none */
    int vregs;        /* vector registers */
    bool has_fma;
    bool native_math; /* draws EXP, LOG, ERF; otherwise the builder decomposes them */
    bool rcp14, scalef; /* has RCPE and SCALE on full vectors (AVX-512) */
    bool element_units; /* a unit of the generic way is one element: thousands of threads want to be busy */
    int sm;           /* GPUs: 75, 80, ... 120; 0: a CPU */
    bool sm_a;        /* GPUs: what only this one has may be used (sm_90a) */
    int sms;          /* GPUs: multiprocessors to plan for */
    int batch;        /* images to plan for; 0: one */
    bool tf32;        /* GPUs: tensor cores may round the operands of float products */
    bool mem_splat;   /* multiply-add takes a scalar from memory as a broadcast operand (AVX-512) */
};

struct kb {
    struct yir_arena *arena;
    const struct yir_func *f;
    const struct kb_target *target;
    int lanes;          /* of the vectors being recorded: 1, or target lanes (for GPUs: any number) */
    int valid;          /* lanes that exist where marked indexes point (tail of the channels); = lanes otherwise */
    struct kb_node *node;
    uint32_t nnode;
    size_t cap_node;
    struct kb_mem mem[KB_MAX_MEM];
    int nmem;
    uint32_t scope;     /* innermost open LOOP */
    uint32_t *outer;    /* [depth]: the scopes around it */
    uint32_t depth;
    size_t cap_outer;
    bool rough;         /* on a GPU, and all that the kernel stores is in half precision: errors of 1e-4 do not show */
    uint32_t kernel;    /* 1 + index of the kernel being emitted: its unstored ops are computed in place */
    struct kb_bound {   /* ops whose value is already there (accumulators of a fast main loop) */
        uint32_t op;
        kv value;
    } bound[8];
    int nbound;
    uint32_t *hash;     /* of pure nodes; open addressing */
    uint32_t nhash;
    int64_t units;      /* work units of one image */
};

struct kb *kb_new(struct yir_arena *a, const struct yir_func *f, const struct kb_target *t, uint32_t kernel);

/* --- recording (kb.c; kb_math.c: functions) ------------------------------------------------------------------ */

kv kb_immf(struct kb *b, double v);
kv kb_immi(struct kb *b, int64_t v);
kv kb_unit(struct kb *b);
/* Value number `number` of those that the text around the program defines (own-body kernels, codegen.h): `g<number>`, a float,
 * float[lanes] or an integer, which is a multiple of `multiple`. */
kv kb_given(struct kb *b, enum kb_type type, int lanes, int number);
kv kb_given_index(struct kb *b, int number, uint32_t multiple);
/* The index x + lane: only sums with unmarked values, kb_itof, and loads and stores where it has stride 1 or 0,
 * take it. */
kv kb_lane(struct kb *b, kv x);

kv kb_unmarked(struct kb *b, kv x); /* the x that kb_lane was given */

/* A float operation of kbops.def, of n operands, as wide as the widest of them. */
kv kb_float(struct kb *b, enum kb_code code, const kv *x, int n);
kv kb_fadd(struct kb *b, kv x, kv y);
kv kb_fsub(struct kb *b, kv x, kv y);
kv kb_fmul(struct kb *b, kv x, kv y);
kv kb_fdiv(struct kb *b, kv x, kv y);
kv kb_fmin(struct kb *b, kv x, kv y);
kv kb_fmax(struct kb *b, kv x, kv y);
kv kb_logistic(struct kb *b, kv x, kv y); /* y / (1 + e^-x): sigmoid for y = 1, silu for y = x; relative error under 1e-6; rough: absolute, 1e-3 of y */
kv kb_ratio(struct kb *b, kv x, kv y); /* x/y for y in [1, 2^126): within 2 units in the last place */
kv kb_fneg(struct kb *b, kv x);
kv kb_fma(struct kb *b, kv x, kv y, kv z);
kv kb_sqrt(struct kb *b, kv x);
kv kb_rint(struct kb *b, kv x);
kv kb_exp(struct kb *b, kv x);
kv kb_log(struct kb *b, kv x);
kv kb_erf(struct kb *b, kv x);
kv kb_sin(struct kb *b, kv x); /* of angles up to some thousands */
kv kb_cos(struct kb *b, kv x);
kv kb_flt(struct kb *b, kv x, kv y);
kv kb_select(struct kb *b, kv cond, kv x, kv y);
kv kb_wide(struct kb *b, kv x); /* x in each of b->lanes lanes */
kv kb_pick(struct kb *b, kv x, int lane); /* one lane of it */
kv kb_ziplo(struct kb *b, kv x, kv y); /* vectors of b->lanes lanes, interleaved */
kv kb_ziphi(struct kb *b, kv x, kv y);
kv kb_and(struct kb *b, kv x, kv y);
kv kb_or(struct kb *b, kv x, kv y);
kv kb_not(struct kb *b, kv x);

kv kb_iadd(struct kb *b, kv x, kv y);
kv kb_isub(struct kb *b, kv x, kv y);
kv kb_imul(struct kb *b, kv x, kv y);
kv kb_idiv(struct kb *b, kv x, kv y);
kv kb_irem(struct kb *b, kv x, kv y);
kv kb_imin(struct kb *b, kv x, kv y);
kv kb_imax(struct kb *b, kv x, kv y);
kv kb_ilt(struct kb *b, kv x, kv y);
kv kb_ieq(struct kb *b, kv x, kv y);
kv kb_itof(struct kb *b, kv x); /* marked: a vector of consecutive numbers */
kv kb_ftoi(struct kb *b, kv x);
kv kb_addi(struct kb *b, kv x, int64_t y);
kv kb_muli(struct kb *b, kv x, int64_t y);

/* Memory of the kernel; the same (kind, ref, packing) gives the same number. */
int kb_mem_value(struct kb *b, yir_ref r);
int kb_mem_weight(struct kb *b, yir_ref r, enum kb_packing p, int32_t arg);
int kb_mem_scratch(struct kb *b, int64_t elems); /* the largest asked for counts */

/* Element at an index. Marked index: b->lanes consecutive elements, of which b->valid are touched (others read as 0). */
kv kb_load(struct kb *b, int mem, kv index);
void kb_store(struct kb *b, int mem, kv index, kv value);

/* Hint: the cache line of the element will be read soon. The index may lie outside. */
void kb_ahead(struct kb *b, int mem, kv index);

kv kb_var(struct kb *b, kv init);
kv kb_get(struct kb *b, kv var);
void kb_set(struct kb *b, kv var, kv value);
kv kb_loop(struct kb *b, kv lo, kv hi, int64_t step);
void kb_end(struct kb *b);

/* --- tensors (site.c) --------------------------------------------------------------------------------------- */

struct site { /* an op of a function, being computed */
    const struct yir_func *f;
    uint32_t op;
};

/* Operand k of the op at a logical index: from memory, or computed in place when its op belongs to this kernel and is not
 * stored (or is bound). Weights are read in dense order. */
kv kb_arg(struct kb *b, const struct site *s, int k, const kv *ix);
/* The same, but `other` where cond is false; the index is clamped into the operand's shape before it is used. */
kv kb_arg_if(struct kb *b, const struct site *s, int k, kv cond, const kv *ix, kv other);
/* Value of an op at an index, computed in place. */
kv kb_value(struct kb *b, uint32_t op, const kv *ix);
/* Address in elements of a placed value. */
kv kb_address(struct kb *b, yir_ref r, const kv *ix);
/* Stores an op's element where the op lives. */
void kb_store_op(struct kb *b, uint32_t op, const kv *ix, kv value);

/* Strides of a network input's buffer: row-major as the dimensions stand. */
void kb_input_strides(const struct yir_tdesc *d, int64_t stride[YIR_MAX_RANK]);

/* Elements of a packed weight (packing.c). */
int64_t cg_packed_elems(const struct yir_tdesc *d, enum kb_packing p, int32_t arg);

const struct yir_tdesc *kb_desc(const struct site *s, int k); /* type of operand k; k = -1: of the result */

/* --- programs ----------------------------------------------------------------------------------------------- */

/* Canonical text, one node a line (kbprint.c): what a kernel's symbol is hashed from, and what `inspect` shows. */
void kb_print(struct yir_str *out, const struct kb *b);
/* Checks structure: operands exist, types and lanes fit, scopes are respected. Asserts (it is our own code). */
void kb_check(const struct kb *b);

#endif
