/*
 * Convolutions by wgmma and tensor copies (sm_90a): geometry of a kernel, from its knobs (wgmma_plan.c), and its text
 * (wgmma_text.c). fast_wgmma.c has the family.
 *
 * A tile is 64 * m output pixels of one image times n output channels; a consumer warpgroup does one at a time. Its input, with
 * a border, is copied to shared memory in chunks of kc channels, rows of kc elements swizzled, one row a pixel; a chunk's taps
 * are the same rows from another one on. A step is one tap of 16 channels: one wgmma for each 64 pixels. Weights lie in the
 * order of the steps, n rows of 16 elements each (KB_PACK_WGMMA), and stay in shared memory or pass through a ring.
 *
 * What a concat would join is copied from each part's own memory. Of a part that an upsample would enlarge the small map is copied; its
 * pixels are repeated on the way from shared memory to registers, from where those products take them.
 */
#ifndef CG_WGMMA_H
#define CG_WGMMA_H

#include "fast_conv.h"

enum { WG_PRODUCER_REGISTERS = 24 }; /* of a thread that fetches, where registers are handed out anew */
enum { WG_DEPTH = 16, WG_ROWS = 64, WG_MOST_TAPS = 9, WG_MOST_STEPS = WG_MOST_TAPS * 4 }; /* of one wgmma; of a chunk */

/* How the input comes to shared memory. */
enum wg_feed {
    WG_POINT,  /* 1x1: 64 * m pixels in a row */
    WG_HALO,   /* 3x3, stride 1: 8 x 8m pixels and their border */
    WG_LINES,  /* 3x3, stride 1: whole rows of a narrow map, and their border */
    WG_PAIRS,  /* 3x3, stride 2, dense pixels: two neighbours in a row are one pixel of twice the channels */
    WG_PARITY, /* 3x3, stride 2: even and odd columns apart */
    WG_PARTS   /* 1x1: 8 x 8m pixels, of several sources or enlarged ones */
};

/* --- order of the steps (also that of packed weights) ------------------------------------------------------- */

/* The channels of all chunks in a row: ci of them, or for stride 2 twice `half`, the even columns' first. Those from ci on (of
 * each half) are zero. */
struct wg_order {
    int64_t ci, half; /* half: 0 for stride 1 */
    int taps, kc;
};
struct wg_step {
    int64_t chunk, channel;
    int tap, within; /* within: 16-channel group of the chunk */
};
/* Packing argument: n, kc and the feed; and back with the weight's sizes. */
int32_t wg_pack_arg(int n, int kc, enum wg_feed feed);
struct wg_order wg_order_of(const struct yir_tdesc *weight, int32_t arg);
int wg_pack_rows(int32_t arg); /* n */
int64_t wg_chunks(const struct wg_order *o);
/* Steps of a chunk, in order; their number. out has room for taps * kc / 16. */
int wg_chunk_steps(const struct wg_order *o, int64_t chunk, struct wg_step *out);
int64_t wg_steps(const struct wg_order *o); /* of all chunks */

/* Packed weights: [ceil(co/n)][step][n][16], 16-byte halves of rows swapped as a swizzle of 32 bytes has it; missing ones 0. */
int64_t wg_packed_elems(const struct yir_tdesc *weight, int32_t arg);
void wg_pack(const struct yir_tdesc *weight, const void *data, int32_t arg, void *out);

/* --- plans -------------------------------------------------------------------------------------------------- */

enum { WG_MOST_SOURCES = CG_MAX_MAPS }; /* each has a map of its own */

enum { WG_N, WG_KC, WG_M, WG_W, WG_STAGES, WG_RING, WG_GROUP, WG_RESIDENT }; /* knobs, named as the fields of wg_plan */

struct wg_plan {
    struct conv c;
    struct cg_sources in;
    enum wg_feed feed;
    struct wg_order order;
    int n, kc, m, w;       /* w: consumer warpgroups of a block */
    int stages;            /* of the input, for each consumer warpgroup */
    int ring, group;       /* stages of the weights (0: they stay), and steps of one */
    int resident;          /* blocks of a multiprocessor */
    int lines;             /* WG_LINES: rows of a tile */
    int64_t ld, ntiles, tiles, tiles_x; /* elements between pixels; n-tiles, tiles of an image, tiles in a row of them */
    int pitch;             /* bytes of a row in shared memory */
    int box_rows, stage_bytes, stride_rows, block_rows; /* rows copied; between groups of 8 rows, and between blocks of 64 */
    int weight_bytes, shared;
    int64_t chunks, steps, images; /* images: to plan for */
    int registers;         /* of a consumer's thread after setmaxnreg; 0: launched with enough */
};

/* Whether the family takes the convolution; fills c and in. */
bool wg_takes(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c, struct cg_sources *in);
/* Fills the plan from knobs; false: they are not legal. */
bool wg_plan(const struct conv *c, const struct cg_sources *in, const int32_t *knob, struct wg_plan *p);
/* Predicted cycles of all images. */
double wg_cycles(const struct wg_plan *p);
/* Of an image: w tiles of n channels each. */
int64_t wg_units(const struct wg_plan *p);

const struct cg_source *wg_source(const struct wg_plan *p, int64_t chunk); /* that its channels are of */
bool wg_repeats(const struct wg_plan *p); /* some source is enlarged */

/* Rows of a chunk's box before the one where a tap begins. */
int wg_tap_row(const struct wg_plan *p, int tap);

#endif
