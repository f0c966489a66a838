/* What the convolution families share: the convolution's numbers, and how its input is read. */
#ifndef CG_FAST_CONV_H
#define CG_FAST_CONV_H

#include "fast_sums.h"

struct conv {
    const struct yir_func *f;
    const struct kb_target *t;
    uint32_t first, last, op; /* ops of the kernel; its convolution */
    yir_ref x, w, bias;       /* bias NIL: none */
    struct cg_window win;
    int64_t groups, ci, co, ih, iw, oh, ow;
    int lanes;
};

/* The kernel's only convolution, when its numbers are floats, its weights constants that can be packed, and the rest of the kernel
 * works on vectors of channels. */
bool cg_conv_of(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c);

/* Elements that the stored ops of the kernel need per element of the convolution, in vector operations: activation and so on. */
double cg_epilogue_cycles(const struct conv *c);

/* Batch number and first row of a unit of `rows` rows; the last unit starts early rather than run over the edge. */
void cg_conv_unit(struct kb *b, const struct conv *c, int64_t rows, kv *n, kv *row0);

/* Output channels in blocks of `vectors` vectors, shared out to `parts` units; channels of each, whole blocks. Fewer parts than
 * asked for when there are not blocks enough. */
struct conv_parts {
    int vectors;
    int64_t parts, part;
};
struct conv_parts cg_conv_parts(const struct conv *c, int vectors, int64_t parts);

/* Batch number, and what of the image's units this is: its run (of `runs`) and its part. */
void cg_conv_units(struct kb *b, const struct conv_parts *p, int64_t runs, kv *n, kv *run, kv *part);

/* Body for a block of channels from `channel` on: `vectors` vectors, the last of them `last` lanes wide. */
typedef void (*cg_conv_block)(struct kb *b, const void *ctx, int vectors, int last, kv channel);

/* All blocks of the part, in vectors; what is left after whole blocks belongs to the last part. */
void cg_conv_channels(struct kb *b, const struct conv *c, const struct conv_parts *p, kv part, cg_conv_block body, const void *ctx);

/* The input lies in memory with adjacent channels, so that a window can read it where it is. */
bool cg_conv_in_place(const struct conv *c);

/* Where the input's channels lie in memory: in one place, or in several that a concat joins, each perhaps enlarged by repeating its pixels. */
enum { CG_MOST_SOURCES = 8 };
struct cg_sources {
    int n;
    int64_t channels; /* of all */
    struct cg_source {
        yir_ref ref;
        int64_t first, channels;
        int shift; /* the input is 2^shift times as high and wide */
        bool wide; /* floats that are rounded to the input's type as they are read */
    } at[CG_MOST_SOURCES];
};

/* false: x is made otherwise, or channels of one place do not begin with a whole vector of 16 bytes. */
bool cg_conv_sources(const struct yir_func *f, uint32_t kernel, yir_ref x, struct cg_sources *out);

#endif
