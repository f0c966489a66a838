/*
 * yoloc: compiles YOLO model descriptions and weights to modules that yolort runs. C11 and C++.
 *
 * Threads: a yoloc handle belongs to one thread at a time; different handles are independent.
 * Errors: every function answers with a status; what went wrong was told to the handle's diag callback, one call a
 * diagnostic. Outputs are set only on YOLOC_OK. Strings passed in are not kept.
 * Ownership: results (bytes, text) are released with yoloc_free_result; the handle with yoloc_close.
 */
#ifndef YOLOC_H
#define YOLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define YOLOC_API __attribute__((visibility("default")))
#else
#define YOLOC_API
#endif

typedef struct yoloc yoloc;

typedef enum yoloc_status {
    YOLOC_OK = 0,
    YOLOC_INPUT = 1,    /* bad input: yaml, weights, IR, module */
    YOLOC_USAGE = 2,    /* options that do not go together */
    YOLOC_RESOURCE = 3  /* memory, disk, device, missing LLVM */
} yoloc_status;

typedef struct yoloc_diag {
    int severity;       /* 0 note, 1 warning, 2 error */
    unsigned number;    /* 21 of [E021] */
    const char *text;   /* rendered: file:line:col: error: ... with source line and caret; ends without newline */
} yoloc_diag;

typedef struct yoloc_opts {
    size_t size;             /* yoloc_opts_init sets it */
    const char *target;      /* "cpu:native" (NULL too), "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:aarch64" */
    const char *scale;       /* letter, or NULL */
    int nc;                  /* 0: from yaml and weights */
    int height, width;       /* 0: the checkpoint's, else the family's default */
    int batch;               /* largest batch; 0: 1, or the module's own when recompiling */
    int layers;              /* extra outputs layer.I for every yaml row but the head's */
    int no_fast;             /* generic code only */
    int checked;             /* generated code checks its bounds */
    int no_fuse, no_reuse;   /* debugging: a kernel for each op; a buffer of its own for each value */
    int strip;               /* leave the canonical weights out of the module (it can then not be re-targeted) */
    int allow_bad_crc;
    int verify_each;         /* verifier after each pass */
    int pass_limit;          /* -1: all */
    const char *skip_passes, *dump_after; /* comma-joined names; "all" */
    int time_passes;
    const char *keep_dir;    /* writes kernels (program, LLVM IR, object) here, or NULL */
    void (*diag)(void *user, const yoloc_diag *d);          /* may be NULL */
    void (*dump)(void *user, const char *what, const char *text); /* dumps, timings, candidates; may be NULL */
    void (*progress)(void *user, const char *what, int done, int total); /* may be NULL */
    void *user;
    const char *limits;      /* "yaml-depth=64,tensors=200000": other limits of what inputs may have; NULL: the defaults */
    int strict;              /* NaN or infinities in weights, and variances not above -eps, are errors instead of warnings */
    int tune;                /* 0: predicted kernels; 1: measure the likely ones here; 2: measure more of them */
    double tune_budget;      /* seconds; 0: the mode's own */
    int tune_threads;        /* that the network will run on; 0: one for each core */
    int tune_report;         /* dump what each candidate took */
    int cache;               /* 1: keep and reuse tuning records, kernels and whole modules in the user's cache folder; 2: the
                                same, but the module itself is made anew */
    const char *cache_dir;   /* another folder; NULL: YOLOC_CACHE_DIR, else the user's */
    const char *head;        /* which of two sets of branches gives the boxes: "one2many" (NULL too; overlaps are suppressed
                                afterwards) or "one2one" (the best are taken as they are) */
    const char *module_name; /* what messages call a module that is given as bytes: its file; NULL: "module" */
    const char *precision;   /* "fp32", "tf32" (GPUs), "fp16", "bf16"; NULL: fp32, or the module's own when recompiling */
    const char *precision_file; /* lines `layer precision` for other precisions of some layers, or NULL */
    uint64_t cache_limit;    /* bytes of compiled results, beyond which those used least recently go; 0: YOLOC_CACHE_LIMIT, else 2 GiB */
    int (*stop)(void *user); /* asked every now and then while kernels are tuned: not 0 ends the call, whose claims on kernels are given
                                back (E006); may be NULL */
    int no_cudnn;            /* tuning for GPUs: engines of cuDNN do not compete */
    int deterministic;       /* nor those of them that may give other bits each time; our own kernels never do */
    uint64_t cudnn_workspace; /* bytes of memory that they may work in; 0: 64 MiB */
} yoloc_opts;

YOLOC_API uint32_t yoloc_version(void);
YOLOC_API void yoloc_opts_init(yoloc_opts *o, size_t size);
YOLOC_API yoloc_status yoloc_open(yoloc **out, const yoloc_opts *o);
YOLOC_API void yoloc_close(yoloc *c); /* NULL is allowed */

/* What a limit is under a text as yoloc_opts.limits has it (NULL: the defaults). USAGE when there is no such limit, or the
 * text is wrong; `error` (may be NULL) then gets one line. */
YOLOC_API yoloc_status yoloc_limit(const char *limits, const char *name, uint64_t *value, char *error, size_t error_size);

typedef struct yoloc_result {
    void *bytes;  /* a module or text (then NUL-terminated, size without it) */
    size_t size;
} yoloc_result;
YOLOC_API void yoloc_free_result(yoloc_result *r); /* NULL and zeroed results are allowed */

/* model: a .yaml file, or a .pt that holds its description. weights: a file, "rule", or NULL (a .pt's own). */
YOLOC_API yoloc_status yoloc_compile(yoloc *c, const char *model, const char *weights, yoloc_result *module);

/* A module's IR and canonical weights compiled again with this handle's target and size (0: the module's own). */
YOLOC_API yoloc_status yoloc_recompile(yoloc *c, const void *module, size_t size, yoloc_result *out);

typedef struct yoloc_tuning {
    size_t size;                /* sizeof of this struct as the caller knows it */
    int kernels;                /* that differ */
    int known, measured;        /* found in the records; decided by measuring */
    int left;                   /* for which the budget did not suffice: they are as predicted */
    int changed;                /* in another form than the predicted one */
    double before_ms, after_ms; /* a run untuned and tuned; 0: no form changed now */
    int kept;                   /* what was measured is there the next time */
} yoloc_tuning;
/* What tuning found in the handle's last compile. USAGE when that did not tune, or came whole from the cache. */
YOLOC_API yoloc_status yoloc_last_tuning(const yoloc *c, yoloc_tuning *t);

/* Texts for `yoloc weights`: listing of a weights file (json: machine form); the `name shape` lines a model wants, or with params its
 * parameter counts. */
YOLOC_API yoloc_status yoloc_weights_text(yoloc *c, const char *weights, int json, yoloc_result *text);
YOLOC_API yoloc_status yoloc_wanted_text(yoloc *c, const char *model, int params, yoloc_result *text);

/* IR text of a model (front-end form, with positions), and IR text through named passes (comma-joined, "" none, "all" the
 * pipeline). */
YOLOC_API yoloc_status yoloc_ir_text(yoloc *c, const char *model, const char *weights, yoloc_result *text);
YOLOC_API yoloc_status yoloc_opt_text(yoloc *c, const char *file, const char *text, size_t len, const char *passes, int locs,
                                      yoloc_result *out);

/* Writes the weights that the model's IR names after these passes, as a safetensors file, whole or not at all. Weights are needed. */
YOLOC_API yoloc_status yoloc_ir_weights(yoloc *c, const char *model, const char *weights, const char *passes, const char *path);

/* What a module holds: "summary", "kernels", "memory", "ir", "program" (kernel programs), "code" (LLVM IR text). */
YOLOC_API yoloc_status yoloc_inspect_text(yoloc *c, const void *module, size_t size, const char *what, yoloc_result *text);

typedef struct yoloc_verify_opts {
    size_t size;
    int height, width;     /* 160 x 160 when 0 */
    uint32_t seed;         /* of the test picture */
    int samples;           /* elements compared for each kernel; 0: 2048, -1: all */
    double bound;          /* of a kernel's largest difference, relative to the tensor's abs mean; 0: the precision's, 1e-3 for fp32 */
    double layer_bound;    /* below fp32: of the mean difference from the network in fp32, likewise; 0: the precision's */
} yoloc_verify_opts;
/* Compiles the module's IR at a small size, runs it, and compares each kernel with the evaluator on the same inputs; a network below
 * fp32 is also compared with itself in fp32, value by value. INPUT and E505 naming the first kernel that differs, makes NaN, or is too
 * far from fp32; text: one line a kernel. */
YOLOC_API yoloc_status yoloc_verify(yoloc *c, const void *module, size_t size, const yoloc_verify_opts *o,
                                    yoloc_result *text);

/* Lists, as text: "ops", "modules", "passes", "families", "targets", "limits". explain: NULL when the number is unknown; static. */
YOLOC_API yoloc_status yoloc_list_text(yoloc *c, const char *what, yoloc_result *text);
YOLOC_API const char *yoloc_explain(unsigned number);

/* --- the caches of compilation, in the folder that the options say (cache does not matter here) ----------------- */

/* "list": each record of the tuner, each compiled result; "stats": their numbers and sizes. json: for programs. RESOURCE and
 * E009 when the folder can't be used. */
YOLOC_API yoloc_status yoloc_cache_text(yoloc *c, const char *what, int json, yoloc_result *text);

typedef struct yoloc_prune_opts {
    size_t size;
    double max_age;             /* seconds: what was made (records) or used (results) longer ago goes; below 0: no matter */
    int64_t max_bytes;          /* of compiled results; below 0: the limit of the cache */
    int64_t max_record_bytes;   /* of the texts of records; below 0: any */
} yoloc_prune_opts;
/* What is damaged or left over goes too. text: what went, one line. */
YOLOC_API yoloc_status yoloc_cache_prune(yoloc *c, const yoloc_prune_opts *o, yoloc_result *text);

/* The records of the tuner as a file to carry to another machine of the same kind, and such a file added to them: of two
 * records for one kernel the newer stays. text: what was taken, one line. */
YOLOC_API yoloc_status yoloc_cache_export(yoloc *c, yoloc_result *records);
YOLOC_API yoloc_status yoloc_cache_merge(yoloc *c, const char *path, yoloc_result *text);

/* --- tensor files (safetensors) ------------------------------------------------------------------------------ */

typedef struct yoloc_tensor {
    const char *name;
    int dtype;             /* yolort_dtype */
    int rank;
    int64_t dim[8];
    const void *data;      /* dense, row-major; what is read is aligned for its type */
    size_t bytes;
} yoloc_tensor;
typedef struct yoloc_tensors yoloc_tensors;
YOLOC_API yoloc_status yoloc_tensors_read(yoloc *c, const char *path, yoloc_tensors **out);
YOLOC_API size_t yoloc_tensors_count(const yoloc_tensors *t);
YOLOC_API const yoloc_tensor *yoloc_tensors_at(const yoloc_tensors *t, size_t i);
YOLOC_API void yoloc_tensors_free(yoloc_tensors *t);
/* Whole or not at all. */
YOLOC_API yoloc_status yoloc_tensors_write(yoloc *c, const char *path, const yoloc_tensor *t, size_t n);

/* Writes a file whole or not at all (temporary file in the same folder, fsync, rename). */
YOLOC_API yoloc_status yoloc_write_file(yoloc *c, const char *path, const void *bytes, size_t size);

/* The test picture of a seed (rule weights, section 3): h * w * 3 bytes. */
YOLOC_API void yoloc_test_picture(uint8_t *rgb, int h, int w, uint32_t seed);

#ifdef __cplusplus
}
#endif
#endif
