/* CUDA C of convolutions as products of matrices on tensor cores, by mma.sync: pixels x output channels, summed over taps and input
 * channels. Fed by cp.async, several tiles ahead. */
#ifndef CG_MMA_TEXT_H
#define CG_MMA_TEXT_H

#include "fast_conv.h"

/* Where channels [first, next source's first) of the input lie: memory m<mem>, strides in elements. */
struct mma_source {
    int mem;
    int64_t first;
    int64_t image, down, across; /* from one image, row, column to the next */
    int shift;                   /* the map is 2^shift times as high and wide as what lies there */
    int align;                   /* bytes that every pixel's first element is a multiple of: 16, 8, 4 or 2 */
};

struct mma {
    enum yir_dtype dtype;           /* F16, BF16; F32: rounded to tf32 */
    int sm;
    int64_t taps[2], stride[2], dil[2], pad[2]; /* vertical, horizontal; pad: top, left */
    int64_t ci, ih, iw;             /* channels of a group; input map */
    int64_t groups, co, oh, ow;     /* output channels of all groups; pixels that a tile is made of */
    int64_t spread;                 /* not 0: the channels are so many of each of 2x2 pixels; the output is twice as high and wide */
    bool wide;                      /* the only source is of floats, which are rounded to the type */
    int nsource, mem_w;
    struct mma_source source[CG_MOST_SOURCES];
    int64_t tile_m, tile_n, tile_k; /* pixels, channels, and elements summed at once */
    int stages, warps_m, warps_n, split; /* split: groups of warps that sum different parts of each tile_k */
};

/* What a configuration takes. */
int mma_threads(const struct mma *m);
int64_t mma_shared(const struct mma *m);   /* bytes */
int64_t mma_units(const struct mma *m);    /* tiles of an image */
int64_t mma_chunk(const struct mma *m);    /* elements of 16 bytes */
int64_t mma_steps(const struct mma *m);    /* of 32 bytes, of all taps */
int64_t mma_steps_of(enum yir_dtype t, int64_t taps, int64_t ci);

/* Bytes of shared memory that a multiprocessor has, that one block may have, and threads. */
void mma_limits(int sm, int64_t *all, int64_t *block, int *threads);

/* Whether the target has products of the type: F32 is rounded to tf32. */
bool mma_has_type(const struct kb_target *t, enum yir_dtype d);

/* ptx_fragment: 16 rows of 32 bytes. */
void mma_put_fragment(struct yir_str *out);
/* ptx_copy16, _copy8 or _copy4, which run on, and ptx_commit and ptx_wait. */
void mma_put_copy(struct yir_str *out, int bytes);
void mma_put_order(struct yir_str *out);
/* ptx_pair_f16 or _bf16: two floats to a word. */
void mma_put_pair(struct yir_str *out, enum yir_dtype t, int sm);
/* ptx_mma_f16, _bf16 or _tf32 (for F32, with ptx_tf32, which rounds): 16 x 8 sums of 32 bytes each. */
void mma_put_product(struct yir_str *out, enum yir_dtype t, int sm);
/* Functions that the body uses. */
void mma_put_head(struct yir_str *out, const struct mma *m);
/* The body, around two pieces of text: what waits for the memory that is read, and what finishes 8 channels from g3 on (given are
 * g0 the image, g1 row and g2 column, all int, and the sums g4[8]). */
void mma_put_body(struct yir_str *out, const struct mma *m, const char *wait, const char *finish);

#endif
