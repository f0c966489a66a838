/* Detections as text. A format is a row of functions: begin and end once, image for each picture in order. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "runtime/yolort.h"
#include "text.h"

struct cli_record {
    const char *path;
    int width, height;              /* of the source, upright */
    const yolort_detection *d;      /* source pixels */
    size_t n;
    const char *const *names;
    int nc;
    double ms;                      /* of letterbox, network and selection; below 0: not measured */
};

struct cli_count {
    size_t images, detections;
};

struct cli_format {
    const char *name;
    void (*begin)(struct cli_text *t);
    void (*image)(struct cli_text *t, const struct cli_record *r, const struct cli_count *before);
    void (*end)(struct cli_text *t);
};

/* For people. */
extern const struct cli_format cli_format_table;
/* {"version":1,"images":[{"path","width","height",
 *  "detections":[{"class","name","score","box":[x1,y1,x2,y2]}]}]} */
extern const struct cli_format cli_format_json;
/* YOLO's label text: a line "class cx cy w h score" a detection, box relative to the picture. */
extern const struct cli_format cli_format_txt;
/* COCO results: [{"image_id","file_name","category_id","bbox":[x,y,w,h],"score"}]. category_id is the class
 * number; image_id is the number that the file name is made of, else the file name without its ending. */
extern const struct cli_format cli_format_coco;

/* The name of a class, or NULL when there is none. */
const char *cli_class_name(const struct cli_record *r, int cls);

#endif
