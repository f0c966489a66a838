/* From a fused, placed function to kernels, and from kernels to code of a target. */
#ifndef CG_H
#define CG_H

#include "kb.h"

/* --- targets (target.c) ------------------------------------------------------------------------------------- */

enum cg_backend { CG_REF, CG_CPU, CG_CUDA };

struct cg_target {
    struct kb_target kb;
    enum cg_backend backend;
    const char *text;      /* "cpu:x86-64-v4": what the module says */
    const char *triple;    /* LLVM */
    const char *cpu;       /* LLVM's -mcpu, "x86-64-v3"; never a name that `features` does not spell out */
    const char *features;  /* LLVM's "+avx2,+fma" */
    const char *needs;     /* comma-joined features the loader checks (runtime/cpu_features.def) */
    const char *arch;      /* "x86_64", "sm_90a" */
    int prefer_width;      /* bits of vectors: 512, 256, 128 */
};

/* "cpu:native", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64", "cuda:sm_86", "ref". cpu:native becomes the best level that this machine
 * has (so modules are portable among equals). -1 after reporting E_TARGET. */
int cg_target_find(struct yir_arena *a, struct yir_diags *d, const char *text, struct cg_target *out);
/* The CPU of this machine, for tuning records: brand, family, model and stepping. */
const char *cg_cpu_name(struct yir_arena *a);
/* The GPUs of this machine as the system lists them, without asking the driver, which takes longer than a cached compile; "" where it does not. */
const char *cg_gpu_names(struct yir_arena *a);
/* Text of what this build can make and what this machine has, for `yoloc devices`; one line each. */
void cg_targets_list(struct yir_str *out);

/* --- kernels (kernel.c) ------------------------------------------------------------------------------------- */

struct cg_kernel;
struct cg_engine;
struct cg_object_store;

enum { CG_BLOCK = 128 }; /* threads of a block where a kernel does not say, each with a unit of its own */

/* One legal way to make a kernel. */
#define CG_KNOBS   8
#define CG_GENERIC (-1)
struct cg_config {
    int family;             /* row of fast.def, or CG_GENERIC */
    int32_t knob[CG_KNOBS]; /* as the row names them; 0 where it has fewer */
    double cycles;          /* predicted for one image on one thread: good for ranking, no promise */
};

/* What there is to choose from for each kernel of one function, one target and one size: the same in every program of theirs. */
struct cg_choices {
    struct yir_arena *arena;
    struct cg_choice {
        const struct cg_config *legal; /* NULL: not listed yet */
        size_t n;
        const char *op_text;
        size_t op_text_len;
    } * kernel; /* [nkernel] */
};

struct cg_opts {
    bool no_fast;    /* generic path only */
    bool checked;    /* bounds checks in generated code */
    int max_batch;
    /* Picks one of the n legal configurations of k (best predicted first; k->op_text is set, its program not yet).
     * NULL: the first. */
    size_t (*choose)(void *user, const struct cg_kernel *k, const struct cg_config *legal, size_t n);
    void *choose_user;
    struct cg_choices *choices; /* with choose: filled by the first program, read by the others; NULL: listed each time */
    /* With choose: an engine of cuDNN that may do the kernel's work, which it fits (engine.h); NULL: none. */
    const struct cg_engine *(*engine)(void *user, const struct cg_kernel *k);
    const struct cg_object_store *objects; /* NULL: none */
};


/* How tensor copies of a kernel for GPUs see one of its memories; struct ym_map says what each field is. */
#define CG_MAX_MAPS 4
struct cg_map {
    int mem;         /* of the program */
    int32_t rank, swizzle;
    uint32_t dim[5], box[5];
    uint64_t stride[5]; /* from 1 on */
};

/* A kernel: a program, how to call it, and what it costs. */
struct cg_kernel {
    const struct kb *prog;
    const char *family;   /* row of fast.def, or "generic" */
    struct cg_config config;
    const struct cg_engine *engine; /* of cuDNN, in its place where that is; NULL: none */
    const char *op_text;  /* canonical text of what it computes and where, whatever the family: its generic program */
    size_t op_text_len;
    const char *symbol;   /* "conv2d_silu_3f9a12c4": from the ops and the program's text */
    const char *label;    /* "model.2.cv1 conv2d+silu" */
    uint32_t first, last; /* ops of the function, last included */
    int64_t units;        /* per image */
    struct cg_launch {    /* on GPUs; struct ym_kernel says what each is */
        int32_t threads, per_block, shared, most_blocks, least_blocks;
        int32_t waits;    /* 1: gains by an early start, having much to do before kb_cuda_wait, which own bodies then draw */
        int32_t resident; /* blocks that should fit on a multiprocessor at once (a hint to the compiler); 0: unsaid */
    } launch;
    struct cg_map map[CG_MAX_MAPS]; /* on GPUs: t0, t1 ... of the body */
    int nmap;
    const char *cuda;      /* own-body kernels: text of the function's body; NULL: drawn from the program */
    const char *cuda_head; /* text before the function; NULL: none */
    int32_t grain;        /* units worth a thread's turn */
    int64_t scratch_bytes;
    int32_t line;
    double flops, bytes;  /* per image */
    const char *text;     /* of the program, canonical, and of the launch and the own body */
    size_t text_len;
    uint32_t same_as;     /* index of an earlier kernel with the same program, or its own */
};

struct cg_program {
    const struct yir_func *f;
    struct cg_kernel *kernel;
    uint32_t nkernel;
    struct cg_opts opts;
};

/* Chooses a family for each kernel of f and records its program. Never fails but for memory. */
struct cg_program *cg_kernels(struct yir_arena *a, const struct yir_func *f, const struct cg_target *t,
                              const struct cg_opts *o);

/* The first kernel of p with the same program as kernel n. */
uint32_t cg_same_kernel(const struct cg_program *p, uint32_t n);

/* --- fast families (fast.def, fast_*.c) --------------------------------------------------------------------- */

struct cg_fast {
    const char *name;
    enum cg_backend backend; /* CG_CPU (the evaluator's as well) or CG_CUDA */
    const char *knobs, *text; /* knobs: names, separated by spaces */
    /* Pure predicate on types, attributes and target; op range as in cg_kernel. */
    bool (*guard)(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t);
    /* Where the guard holds: the legal configurations (knobs and cycles; family is set by the caller), 1 to `most`. */
    size_t (*list)(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct cg_config *out,
                   size_t most);
    /* Records the program of k->config into b (units, memories). */
    void (*emit)(struct kb *b, struct cg_kernel *k);
};
size_t cg_fast_count(void);
const struct cg_fast *cg_fast_at(size_t i);

/* Legal configurations of a kernel's ops, best predicted first, the generic one last. At most CG_MAX_CONFIGS. */
#define CG_MAX_CONFIGS 96
size_t cg_configs(const struct yir_func *f, uint32_t first, uint32_t last, const struct cg_target *t, bool no_fast,
                  struct cg_config *out);
/* "conv_direct pixels=10 rows=2", and back among legal ones: index, or n when it is none of them. */
const char *cg_config_text(struct yir_arena *a, const struct cg_config *c);
size_t cg_config_find(struct yir_arena *a, const char *text, const struct cg_config *legal, size_t n);

/* --- evaluator (kb_ref.c) ----------------------------------------------------------------------------------- */

/* Interprets units [begin, end) of a program in double. mem[i] holds elems doubles for memory i of the program (any
 * dtype); scratch is allocated inside. -1 when an access left its memory (reported in *bad as 1 + memory number). */
int kb_ref_run(struct yir_arena *a, const struct kb *b, double *const *mem, int64_t begin, int64_t end, int *bad);

/* --- weights as kernels read them (packing.c) --------------------------------------------------------------- */

/* out: packed elements in the weight's dtype, zeroed before. */
void cg_pack(const struct yir_tdesc *d, const void *data, enum kb_packing p, int32_t arg, void *out);

/* --- native code (llvm_compile.c, flat.c; only with YOLOC_LLVM) ---------------------------------------------- */

/* One relocatable ELF object: the code of one kernel. */
struct cg_object {
    const void *data;
    size_t size;
    const char *symbol;
    uint64_t entry; /* of the symbol in the blob, set by cg_flatten */
};

struct cg_code {
    const void *blob; /* position-independent; to be mapped at a page boundary */
    size_t size;
    uint64_t *entry;  /* for each kernel of the program */
    uint64_t service; /* of the cubin of service kernels (service.h); 0: none */
    const char *compiler; /* "LLVM 19.1.7" */
    const struct cg_object *object; /* one for each distinct kernel */
    size_t nobject;
};

/* Compiles all kernels of a program (equal ones once), on as many threads as there are CPUs; the bytes do not depend on
 * their number. 0, or -1 after reporting (E_LLVM, E_LINK). LLVM is loaded here and nowhere else. llvm_text (may be NULL)
 * gets the IR text before optimisation. */
struct cg_object_store { /* compiled kernels of earlier compilations; a key holds all that decides an object's bytes */
    const void *(*get)(void *user, struct yir_arena *a, const void *key, size_t len, size_t *size); /* NULL: not there */
    void (*put)(void *user, const void *key, size_t len, const void *object, size_t size);
    void *user;
};
const char *cg_llvm_version(struct yir_arena *a, struct yir_diags *d, const struct cg_target *t); /* NULL after reporting */
int cg_llvm_compile(struct yir_arena *a, struct yir_diags *d, const struct cg_program *p, const struct cg_target *t,
                    struct cg_code *out, struct yir_str *llvm_text);

/* --- CUDA code (nvrtc_compile.c) ------------------------------------------------------------------------------- */

/* All kernels of a program as cubins, equal ones once, one after the other in out->blob; on as many threads as there are CPUs.
 * 0, or -1 after reporting E_NVRTC. NVRTC is loaded here and nowhere else; no GPU is needed. */
int cg_nvrtc_compile(struct yir_arena *a, struct yir_diags *d, const struct cg_program *p, const struct cg_target *t,
                     struct cg_code *out);
const char *cg_nvrtc_version(struct yir_arena *a, struct yir_diags *d); /* NULL after reporting */
/* The CUDA C of all kernels, for people: each after a comment that names what it computes. */
void cg_cuda_text(struct yir_str *out, const struct cg_program *p);

/* Lays ELF relocatable objects flat, one after the other: read-only allocatable sections in one blob, PC-relative
 * references resolved, anything else E_LINK. Before each section of code there is room for a struct ym_seal (modwrite.c fills
 * it). The objects are LLVM's own, but are parsed with bounds checks all the same. */
int cg_flatten(struct yir_arena *a, struct yir_diags *d, struct cg_object *object, size_t nobject, void **blob,
               size_t *blob_size);

#endif
