/* Writes checkpoints as torch.save lays them out, for tests: byte code operation by operation, then the
 * container. What is written is only as valid as the calls make it. */
#ifndef TEST_PTWRITE_H
#define TEST_PTWRITE_H

#include "ir/arena.h"

struct ptwrite_record {
    const char *name; /* below the prefix */
    const void *bytes;
    size_t len;
};

struct ptwrite {
    struct yir_arena *a;
    struct yir_str code; /* the pickle so far */
    struct ptwrite_record *record;
    size_t nrecord, cap;
    unsigned nstorage;
    bool legacy; /* persistent ids of six fields */
    /* Of the archive; change them before ptwrite_zip. */
    const char *prefix;    /* "archive" */
    const char *version;   /* "3\n"; NULL: none */
    const char *byteorder; /* "little"; NULL: none */
    unsigned align;        /* 64: payloads start at its multiples; 0: no padding */
    bool zip64;            /* write the zip64 end record and its locator */
    bool plain;            /* CRC and sizes in the local headers, no data descriptors */
};

/* Starts a pickle of protocol 2. */
void ptwrite_init(struct ptwrite *w, struct yir_arena *a);

/* Single operations. */
void ptwrite_op(struct ptwrite *w, unsigned char op);
void ptwrite_ops(struct ptwrite *w, const char *ops); /* one each */
void ptwrite_raw(struct ptwrite *w, const void *bytes, size_t n);
void ptwrite_uint(struct ptwrite *w, uint64_t v, unsigned bytes);
void ptwrite_str(struct ptwrite *w, const char *s);
void ptwrite_int(struct ptwrite *w, int64_t v); /* the shortest form; LONG1 beyond 32 bits */
void ptwrite_float(struct ptwrite *w, double v);
void ptwrite_global(struct ptwrite *w, const char *module, const char *name);
void ptwrite_put(struct ptwrite *w, unsigned memo);
void ptwrite_get(struct ptwrite *w, unsigned memo);
void ptwrite_ints(struct ptwrite *w, const int64_t *v, int n); /* a tuple */

/* Key of a dict whose MARK is open: the value follows. */
#define ptwrite_key ptwrite_str

/* Adds a storage to the file and pushes it. type: "FloatStorage" ... */
void ptwrite_storage(struct ptwrite *w, const char *type, const void *bytes, size_t len, int64_t numel);

/* Pushes a dense tensor over a storage of its own. */
void ptwrite_tensor(struct ptwrite *w, const char *type, size_t itemsize, const void *data,
                    const int64_t *dim, int rank);

/* Tensor over the storage on top of the stack. */
void ptwrite_view(struct ptwrite *w, int64_t offset, const int64_t *dim, const int64_t *stride, int rank);

/* Pushes float tensor [n] with values 0, 1, ... + first. */
void ptwrite_floats(struct ptwrite *w, double first, int64_t n);

/* A module: open, then entries of _parameters, _buffers (keys and values), then children, then attributes, in
 * this order. */
void ptwrite_module(struct ptwrite *w, const char *module,
                    const char *name); /* ... entries of _parameters follow */
void ptwrite_module_buffers(struct ptwrite *w);
void ptwrite_module_children(struct ptwrite *w);
void ptwrite_module_attrs(struct ptwrite *w);
void ptwrite_module_end(struct ptwrite *w);

/* torch.nn.modules.conv.Conv2d without bias: weight [2,1,1,1] of first and first + 1, kernel_size (1, 3),
 * groups 1. */
void ptwrite_conv(struct ptwrite *w, double first);

/* ultralytics.nn.tasks.DetectionModel with model = Sequential { 0: Conv { conv, bn, act }, 1: Identity, 2:
 * None }. The conv is that above; bn has weight, bias, running_mean, num_batches_tracked 7, a buffer
 * "scratch" that is not stored, eps 1e-3; Conv has f = -1 and an object "loss". The model has yaml {nc: 3},
 * names {0: cat}, tensors stride (8, 9) and big (4097 elements). */
void ptwrite_model(struct ptwrite *w, double first);

/* A checkpoint dict: epoch -1, ema None, model as above with 1, version "8.4", fitness (a numpy scalar
 * between 1 and 1.1), opt (a namespace with imgsz 96). */
void ptwrite_checkpoint(struct ptwrite *w);

/* The file: STOP, then the archive or the legacy layout around what was written. Bytes live in the arena and
 * may be changed by the caller. */
uint8_t *ptwrite_zip(struct ptwrite *w, size_t *len);
uint8_t *ptwrite_legacy(struct ptwrite *w, size_t *len);

/* An archive of these records alone, named without a prefix. */
uint8_t *ptwrite_archive(struct ptwrite *w, const struct ptwrite_record *r, size_t n, size_t *len);

/* CRC-32, bit by bit. */
uint32_t ptwrite_crc(const void *bytes, size_t n);

#endif
