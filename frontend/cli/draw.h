/* Detections drawn onto a picture. */
#ifndef CLI_DRAW_H
#define CLI_DRAW_H

#include "image.h"
#include "output.h"

/* Boxes first, then labels, the best detection on top. Boxes are in pixels of `im`; parts outside are cut. A
 * class without a name is labelled with its number. */
void cli_draw_detections(struct cli_image *im, const yolort_detection *d, size_t n, const char *const *names,
                         int nc);

/* All that a record has: masks under the boxes, turned boxes as they lie, keypoints (joined as a body's when there are 17 of
 * them), or the classes of the whole picture in its corner. */
void cli_draw_record(struct cli_image *im, const struct cli_record *r);

/* The fixed colour of a class. */
void cli_class_colour(int cls, uint8_t rgb[3]);

#endif
