/* Weight files, read without trusting them: .pt (zip + pickle, or the legacy form), .safetensors, and rule
 * weights. */
#ifndef FE_WEIGHTS_H
#define FE_WEIGHTS_H

#include "ir/diag.h"
#include "ir/dtype.h"
#include "ir/limits.h"
#include "value.h"

#define FE_MAX_RANK 8

/* A tensor of a file. The data lies in the file's private mapping or buffer, which lives as long as the
 * arena. */
struct fe_tensor {
    const char *name; /* state_dict name; prefixes "module." and "_orig_mod." are cut; layers begin with "model.N." */
    enum yir_dtype dtype;
    int rank;
    int64_t dim[FE_MAX_RANK];
    int64_t stride[FE_MAX_RANK]; /* in elements, >= 0 */
    int64_t numel;
    const void *data; /* element 0; may be unaligned; every element reached through stride is in bounds */
    bool buffer;      /* a buffer rather than a parameter (pickles only) */
};

/* A pickled module. Attributes are the literal ones of its state (stride, eps, kernel_size, inplace, f, i,
 * type ...). */
struct fe_node {
    const char *name;             /* component of the path: "0", "conv", "cv1" */
    const char *class_name;       /* "Conv2d" */
    const char *class_path;       /* "torch.nn.modules.conv.Conv2d", as pickled */
    const struct fe_value *attrs; /* FE_DICT; without _modules, _parameters, _buffers, hooks */
    struct fe_node **child;       /* in _modules order */
    size_t nchild;
    const struct fe_tensor **tensor; /* own parameters and persistent buffers */
    size_t ntensor;
};

enum fe_weights_kind { FE_WEIGHTS_PT, FE_WEIGHTS_SAFETENSORS, FE_WEIGHTS_RULE };

struct fe_weights {
    enum fe_weights_kind kind;
    const char *path;
    uint32_t file;                  /* of the diagnostics; 0 for rule weights */
    const struct fe_tensor *tensor; /* state_dict order */
    size_t ntensor;
    const struct fe_node *root;   /* the model object (its children are "model", ...); NULL: flat file */
    const struct fe_value *yaml;  /* model description inside the file (FE_DICT), or NULL */
    const struct fe_value *names; /* class names (list, or dict int -> str), or NULL */
    const struct fe_value *top;   /* FE_DICT: the literal top-level entries (epoch, date, version, train_args
                                     ...);   safetensors: __metadata__ */
    const char *stored_in;        /* "ema", "model", "state_dict", "root" (.pt) or "" */
    uint64_t digest[2];           /* XXH3-128 over names, types, shapes and bytes of all tensors, in order */
    uint64_t file_size;
};

/* Reads a file; the kind follows from its first bytes, not its name. NULL after reporting. limits NULL:
 * those of d. The result lives in the arena (mappings are released with it). Nothing in the file is
 * executed. */
const struct fe_weights *fe_weights_open(struct yir_arena *a, struct yir_diags *d, const char *path,
                                         const struct yir_limits *limits);

/* The same over bytes in memory, borrowed for the life of the arena (tests, fuzzers). */
const struct fe_weights *fe_weights_read(struct yir_arena *a, struct yir_diags *d, const char *name,
                                         const void *bytes, size_t len,
                                         const struct yir_limits *limits);

/* By exact name, or NULL. Constant time. Only for results of the two functions above. */
const struct fe_tensor *fe_weights_find(const struct fe_weights *w, const char *name);

/* Pickled module at a dotted path below the root ("model.22.cv2.0"), or NULL (also for flat files). */
const struct fe_node *fe_weights_node(const struct fe_weights *w, const char *path);
const struct fe_value *fe_node_attr(const struct fe_node *n, const char *key); /* NULL-safe */

/* Dense row-major copies, numel elements. */
void fe_tensor_f32(const struct fe_tensor *t, float *out);
void fe_tensor_f64(const struct fe_tensor *t, double *out);

/* The same as fe_tensor_f32, of the tensor itself where that is dense and F32 already: for what lives no longer than it does. */
const float *fe_tensor_floats(struct yir_arena *a, const struct fe_tensor *t);

/* Machine-readable listing:
 * {"version":1,"file","kind","stored_in","nc","names":[...],"tensors":[{"name","dtype","shape"}]}. -1: no
 * memory. */
int fe_weights_json(struct yir_str *out, const struct fe_weights *w);

/* Number of NaN or infinite elements of a float tensor. */
int64_t fe_tensor_nonfinite(const struct fe_tensor *t);
/* Of those that are `most` or less. */
int64_t fe_tensor_below(const struct fe_tensor *t, double most);

/* Rule weights: the values of a named tensor (shared notes, "rule weights", sections 1 and 2). false when the
 * rule keeps the reference's constant there (anchors, dfl ...), which the caller knows; *out is then
 * untouched. */
bool fe_rule_fill(const char *name, const int64_t *dim, int rank, float *out);

/* Writes a safetensors file of dense tensors (name, dtype, dims, data), whole or not at all. -1 after
 * reporting. */
struct fe_out_tensor {
    const char *name;
    enum yir_dtype dtype;
    int rank;
    int64_t dim[FE_MAX_RANK];
    const void *data;
};
int fe_safetensors_write(struct yir_arena *a, struct yir_diags *d, const char *path, const struct fe_out_tensor *t,
                         size_t n);

#endif
