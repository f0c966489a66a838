/* Detections drawn onto a picture. */
#ifndef CLI_DRAW_H
#define CLI_DRAW_H

#include "image.h"
#include "runtime/yolort.h"

/* Boxes first, then labels, the best detection on top. Boxes are in pixels of `im`; parts outside are cut. A
 * class without a name is labelled with its number. */
void cli_draw_detections(struct cli_image *im, const yolort_detection *d, size_t n, const char *const *names,
                         int nc);

/* The fixed colour of a class. */
void cli_class_colour(int cls, uint8_t rgb[3]);

#endif
