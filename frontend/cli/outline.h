/* The outline of a mask, as YOLO's label text has it. */
#ifndef CLI_OUTLINE_H
#define CLI_OUTLINE_H

#include "rle.h"

/* Calls `corner` for each corner of the outline of the region (pixels that share edges) that has the largest outline, clockwise, in
 * corners of pixels: 0 .. width, 0 .. height. Holes are not told. 0; 1 for a mask without pixels; -1 without memory. */
int cli_outline(const struct cli_rle *r, void (*corner)(void *with, int x, int y), void *with);

#endif
