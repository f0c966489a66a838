/* Detections as text. A format is a row of functions: begin and end once, image for each picture in order. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "rle.h"
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
    /* Of each detection, NULL where the task has none: */
    const float *points;            /* npoint * point_dims */
    int npoint, point_dims;
    const yolort_turned *turned;
    const struct cli_rle *masks;
    /* Of the whole picture: */
    const yolort_class *top;        /* NULL: no classes of the picture */
    size_t ntop;
    const uint16_t *labels;         /* a class for each pixel, or NULL */
    const float *depths;            /* a number for each pixel, or NULL */
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
 *  "detections":[{"class","name","score","box":[x1,y1,x2,y2]}]}]}; by the task detections have
 *   "keypoints":[[x,y] or [x,y,visible]...],
 *   "obb":{"cx","cy","w","h","angle","corners":[[x,y]...]} in radians, and "box" is the upright box around it,
 *   "mask":{"size":[height,width],"counts":[...]} in COCO's order (rle.h);
 *  images of classifiers have no detections but "probs":[{"class","name","prob"}], the best five;
 *  those of class maps "labels":{"size":[height,width],"runs":[class,count,...]} row by row, and of depth maps
 *  "depth":{"least","mean","most"}. */
extern const struct cli_format cli_format_json;
/* YOLO's label text: a line "class cx cy w h score" a detection, relative to the picture; keypoints come before the score, the
 * four corners of turned boxes and the outline of masks (outline.h) stand for the box. Classifiers: "prob name". */
extern const struct cli_format cli_format_txt;
/* COCO results: [{"image_id","file_name","category_id","bbox":[x,y,w,h],"score"}]; by the task they have "segmentation"
 * {"size","counts"}, "keypoints", "rbox" [cx,cy,w,h,angle] and "poly". category_id is the class number; image_id is the
 * number that the file name is made of, else the file name without its ending. */
extern const struct cli_format cli_format_coco;

/* The name of a class, or NULL when there is none. */
const char *cli_class_name(const struct cli_record *r, int cls);

#endif
