/* Masks as run lengths, in COCO's order: column by column, beginning with the zeros. */
#ifndef CLI_RLE_H
#define CLI_RLE_H

#include "text.h"

#include <stdint.h>

struct cli_rle {
    uint32_t *count; /* malloc'd */
    size_t n;
    int width, height;
};

/* mask: height rows of width bytes, 0 or not. 0, or -1 without memory. */
int cli_rle_new(struct cli_rle *r, const uint8_t *mask, int width, int height);
void cli_rle_free(struct cli_rle *r);

/* [n,n,...]; and the string of COCO's tools, in quotes. */
void cli_rle_counts(struct cli_text *t, const struct cli_rle *r);
void cli_rle_packed(struct cli_text *t, const struct cli_rle *r);

#endif
