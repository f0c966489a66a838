/* CUDA C of attention on tensor cores, by mma.sync: 16 queries a warp, keys passing by in tiles that cp.async fetches ahead. Scores
 * stay in registers: a query's largest score so far, the sum of its weights and its weighted sums of values are corrected as
 * larger scores come. */
#ifndef CG_ATTN_TEXT_H
#define CG_ATTN_TEXT_H

#include "kb.h"

/* Where channel c of head h at position p of image n lies: m<mem>[n * image + p * step + h * head + first + c]. */
struct attn_source {
    int mem;
    int64_t image, step, head, first;
    int align; /* bytes that the first channel's address is a multiple of: 16, 8 or 4 */
};

struct attn {
    enum yir_dtype dtype;           /* F16, BF16; F32: rounded to tf32 */
    int sm;
    struct attn_source q, k, v;
    int64_t heads, areas, dim, values; /* channels of a head's keys, and of its values: multiples of 16 bytes */
    int64_t queries, keys, width;   /* of an area; width of the map of queries */
    double scale;                   /* above 0, below 1e6 */
    int warps, split, stages;       /* split: groups of warps that take different keys of each tile */
    int64_t tile;                   /* keys that a warp takes at once, a multiple of 16 */
};

/* What a configuration takes. */
int attn_threads(const struct attn *t);
int64_t attn_shared(const struct attn *t); /* bytes */
int64_t attn_units(const struct attn *t);  /* blocks of an image */
int64_t attn_tiles(const struct attn *t);  /* that a block goes through */
/* Channels with what fills up a product's depth. */
int64_t attn_whole(const struct attn *t, int64_t channels);

extern const char attn_power_text[]; /* ptx_power, powers of two */

void attn_put_head(struct yir_str *out, const struct attn *t);
/* The body, around two pieces of text: what waits for the memory that is read, and what finishes 8 channels from g3 on (given are
 * g0 the image, g1 row and g2 column, all int, and the values g4[8]). */
void attn_put_body(struct yir_str *out, const struct attn *t, const char *wait, const char *finish);

#endif
