/* CUDA C of a convolution with few input channels (the first of a network): rows of the input are put into shared memory in the
 * type that tensor cores multiply, each window row a run of elements there, and are multiplied from there by mma.sync. */
#ifndef CG_STEM_TEXT_H
#define CG_STEM_TEXT_H

#include "kb.h"

struct stem {
    enum yir_dtype dtype;       /* F16, BF16; F32: rounded to tf32 */
    int sm;
    int64_t kernel[2], stride[2], dil[2], pad[2]; /* vertical, horizontal; pad: top, left; horizontal dil: 1 */
    int64_t ci, ih, iw, co, oh, ow;
    int64_t rows, width, segments; /* of the result: rows and columns of a unit; units side by side */
    int threads;
    bool planes;                /* the input lies in planes: neighbours are columns */
    int mem_w;
};

/* Words of 32 bits that a row of the window takes; groups of 8 words that a window takes. Elements of a word are neighbours in
 * (column, channel). */
int64_t stem_window(enum yir_dtype t, int64_t kw, int64_t ci);
int64_t stem_steps(enum yir_dtype t, int64_t kh, int64_t kw, int64_t ci);
/* Output channel in column 0 to 7 of a block of sums. */
int64_t stem_channel(int64_t co, int64_t block, int64_t column);

int64_t stem_shared(const struct stem *s); /* bytes */
int64_t stem_units(const struct stem *s);
int64_t stem_lines(const struct stem *s);   /* of the input, that a unit reads */
int64_t stem_columns(const struct stem *s);

void stem_put_head(struct yir_str *out, const struct stem *s);
/* element: body of a function that returns the input at image g0, channel g1, row g2, column g3. finish: what is done with the sums
 * g8[lanes] of image g4, row g5, column g6 and channels from g7 on. */
void stem_put_body(struct yir_str *out, const struct stem *s, const char *wait, const char *element, int lanes, const char *finish);

#endif
