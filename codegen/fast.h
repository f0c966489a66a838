/* Pieces that the fast families share. */
#ifndef CG_FAST_H
#define CG_FAST_H

#include "codegen.h"
#include "site.h"

#define FAST(name, backend, knobs, text)                                                                                   \
    bool guard_##name(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t);         \
    size_t list_##name(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t,         \
                       struct cg_config *out, size_t most);                                                        \
    void emit_fast_##name(struct kb *b, struct cg_kernel *k);
#include "fast.def"
#undef FAST

/* Steps of a main loop that weights are fetched ahead of their use: what the second-level cache and beyond take to answer. */
enum { CG_AHEAD = 16 };

/* The only configuration of a family without knobs: `per_vector` cycles for each vector of the stored ops' elements. */
size_t cg_list_one(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, double per_vector,
                   struct cg_config *out);

/* Cycles of one thread, made worse by how unevenly the units share out to two and to four. */
double cg_shared_cycles(double cycles, int64_t units);

/* Keeps the `keep` best predicted of n configurations, in order; the number left. */
size_t cg_best_configs(struct cg_config *c, size_t n, size_t keep);

/* The kernel's op of a code when it has exactly one, else 0. */
uint32_t cg_only_op(const struct yir_func *f, uint32_t first, uint32_t last, enum yir_code code);

/* Stored ops of the kernel are rank-4 NHWC float with adjacent channels and equal sizes, and all that they need on the way
 * down to `stop` (an op whose value will be bound; 0: none) keeps channels apart and reads adjacent channels. */
bool cg_lanes_ok(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t stop);

/* The same, and every op on that way is point-wise and in memory one run of pixels: a row may then be any part of it. */
bool cg_pointwise(const struct yir_func *f, uint32_t first, uint32_t last, uint32_t stop);

/* F32, F16 or BF16: what families for GPUs compute with. Those for CPUs are only asked about kernels without half precision. */
bool cg_is_float(enum yir_dtype t);

/* A placed rank-4 NHWC float map with adjacent channels, or a weight of one number a channel. */
bool cg_adjacent(const struct yir_func *f, yir_ref r);

/* Rows of the placed map follow one another without gaps, so that its pixels are one run. */
bool cg_one_run(const struct yir_func *f, yir_ref r);

/* The value lies in memory where this kernel reads it (not computed in place). */
bool cg_in_memory(const struct yir_func *f, uint32_t kernel, yir_ref r);

/* The value is in memory as one run of pixels, or point-wise in vectors from such; that of a head (fast_head.c). */
bool cg_flat_source(const struct yir_func *f, uint32_t kernel, yir_ref x, int depth);

/* Positions of the map are one run of pixels with adjacent channels, in memory where the kernel reads it. */
bool cg_readable(const struct yir_func *f, uint32_t kernel, yir_ref x);

/* A placed float value as rows of adjacent elements at equal distances: a map's channels, or attention scores' keys. */
struct cg_rows {
    yir_ref x;
    int64_t count, length, step; /* of an image; elements; elements from one row to the next */
};
bool cg_rows_of(const struct yir_func *f, yir_ref r, struct cg_rows *rows);

/* Turns the square of lanes x lanes elements v[row]. */
void cg_turn(struct kb *b, kv *v);

/* Unit number to its first position, a vector of them a unit; the last block begins early rather than run over the end. */
kv cg_begin_block(struct kb *b, int64_t positions, kv *n);

/* Body for the channels [lo, hi) in vectors: once inside a loop over whole vectors, once for the rest. c is marked. */
typedef void (*cg_channel_body)(struct kb *b, void *ctx, kv c);
void cg_channels(struct kb *b, int64_t lo, int64_t hi, cg_channel_body body, void *ctx);

/* Computes and stores each stored op of the kernel at an index; ops bound before stay bound. */
void cg_store_all(struct kb *b, uint32_t first, uint32_t last, const kv *ix);

/* A body for channels (cg_channel_body; ctx: struct cg_cell) that does that at one pixel. */
struct cg_cell {
    struct cg_kernel *k;
    kv n, y, x;
};
void cg_store_cell(struct kb *b, void *ctx, kv c);

/* Opens a part that runs only where cond (one lane) holds; kb_end closes it. */
void cg_if(struct kb *b, kv cond);

void cg_bind(struct kb *b, uint32_t op, kv value);

/* Batch number and unit within the image. */
void cg_split_unit(struct kb *b, int64_t units, kv *n, kv *u);

/* Rows of the input map as a window op needs them, for output rows [row0, row0 + rows), in scratch, dense and zero
 * around the map; in the order of channels that copies whole rows, or as CG_CHANNELS where `align` is not 1. */
struct cg_window {
    int64_t kernel[2], stride[2], dil[2], pad[2]; /* vertical, horizontal; pad: top, left */
};
enum cg_order {
    CG_CHANNELS, /* [line][column][channels, rounded up to `align`] */
    CG_REVERSED, /* the same with the last channel first: a picture whose bytes are in the other order */
    CG_PLANES    /* [line][channel][column]: a map that lies in planes */
};
struct cg_packed {
    int mem;
    enum cg_order order;
    int64_t lines, columns, channels; /* channels: with padding */
};
/* Scratch elements that packing `rows` rows takes. */
int64_t cg_packed_size(const struct cg_window *w, int64_t rows, int64_t out_width, int64_t channels);
struct cg_packed cg_pack_rows(struct kb *b, yir_ref x, const struct cg_window *w, kv n, kv row0, int64_t rows, int64_t out_width,
                              int64_t align);

/* Rows a unit takes: units enough to share out, pixels enough for weights to be read once for many, scratch within cache. */
int64_t cg_rows_per_unit(int64_t height, int64_t width, int64_t scratch_row_elems);

/* Pixels held in registers at once: at most `most`, few left-overs in a row of `width`. */
int64_t cg_pixels(int64_t width, int64_t most);

#endif
