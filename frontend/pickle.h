/* Inert pickle machine: turns the byte code into a graph of objects and runs nothing. A global is a pair of
 * names. */
#ifndef FE_PICKLE_H
#define FE_PICKLE_H

#include "strmap.h"
#include "weights.h"

enum fe_objkind {
    FE_O_NONE,
    FE_O_BOOL,
    FE_O_INT,
    FE_O_LONG, /* an integer beyond 64 bits */
    FE_O_FLOAT,
    FE_O_STR,
    FE_O_BYTES,
    FE_O_LIST,
    FE_O_TUPLE,
    FE_O_SET,
    FE_O_DICT,
    FE_O_GLOBAL,
    FE_O_OBJECT, /* an instance, or the result of a call that is not known */
    FE_O_STORAGE,
    FE_O_TENSOR
};

/* A storage of the file; tensors are views of it. */
struct fe_storage {
    const char *key; /* of key_len bytes, digits only */
    size_t key_len;
    const char *type_name; /* "HalfStorage" */
    enum yir_dtype dtype;  /* YIR_NDTYPE: one we cannot read, or untyped */
    unsigned itemsize;     /* 1 when untyped */
    int64_t numel;
    const uint8_t *data;           /* numel * itemsize bytes, once resolved */
    const struct fe_storage *root; /* legacy files: this is a window of root, from element `from` on */
    int64_t from;
};

struct fe_view {
    const struct fe_storage *storage;
    enum yir_dtype dtype; /* YIR_NDTYPE: cannot be read */
    int rank;
    int64_t dim[FE_MAX_RANK], stride[FE_MAX_RANK];
    int64_t offset, numel; /* elements; all that strides reach lies in the storage */
};

struct fe_obj {
    uint8_t kind; /* enum fe_objkind */
    bool reduced; /* FE_O_OBJECT: from REDUCE, so cls is what was called */
    bool on_path; /* for walkers */
    bool checked; /* for walkers: the keys of this dict are distinct */
    uint32_t at;  /* offset in the pickle of the operation that made it */
    union {
        int64_t i;
        double f;
        struct {
            const char *s; /* STR (UTF-8), BYTES, LONG (little-endian two's complement); not NUL-terminated */
            size_t n;
        } str;
        struct {
            struct fe_obj **item; /* DICT: key and value in turn */
            size_t n, cap;
        } seq;
        struct {
            const char *module, *name;      /* NUL-terminated */
            const struct fe_callable *call; /* one that REDUCE knows, or NULL */
        } global;
        struct {
            struct fe_obj *cls, *args,
                *state; /* cls: GLOBAL or OBJECT; args: TUPLE; state: NULL without BUILD */
        } object;
        struct fe_storage *storage;
        struct fe_view *tensor;
    } u;
};

/* What one file's pickles share. Set the fields of the first group, zero the rest. */
struct fe_pickle {
    struct yir_arena *a;
    struct yir_diags *d;
    uint32_t file;
    const struct yir_limits *limits;
    /* Finds the bytes of a storage that was seen for the first time; -1 after reporting. NULL: they come
     * later. */
    int (*resolve)(struct fe_pickle *p, struct fe_storage *s);
    void *user;

    uint64_t base; /* offset in the file of the pickle being read */
    uint64_t at;   /* offset in it of the operation being run, for reports */
    struct fe_strmap keys;
    struct fe_storage **storage;
    size_t nstorage, storage_cap, ntensor;
    uint64_t
        copied; /* items that calls have gone through: bounded like operations, as a call costs few bytes */
};

/* Reads one pickle from the front of the bytes, which are borrowed. *used: its length. NULL after
 * reporting. */
struct fe_obj *fe_pickle_load(struct fe_pickle *p, const uint8_t *bytes, uint64_t len, uint64_t *used);

/* Value of a string key of a DICT, else NULL; also when d is NULL or no dict. */
struct fe_obj *fe_obj_get(const struct fe_obj *d, const char *key);
bool fe_obj_is_str(const struct fe_obj *o, const char *text);
const char *fe_obj_kind_name(const struct fe_obj *o); /* "a list" */

/* New object made by the operation being run. */
struct fe_obj *fe_obj_new(struct fe_pickle *p, enum fe_objkind kind);
void fe_obj_append(struct fe_pickle *p, struct fe_obj *seq, struct fe_obj *item);

/* Reports at the operation being run. */
#define FE_PICKLE_BAD(p, id, ...) yir_diag_bin((p)->d, (p)->file, (p)->base + (p)->at, (id), __VA_ARGS__)

#endif
