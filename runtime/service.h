/*
 * How the service kernels of CUDA programs (codegen/service.cu, service_tasks.cu) are called, and arithmetic that they share with
 * the functions for CPUs. The runtime reads this, and so does NVRTC, which has no headers, in front of the kernels. Pointers are
 * device addresses. A change of anything here is a new YM_SERVICE_VERSION.
 */
#ifndef YM_SERVICE_H
#define YM_SERVICE_H

#ifndef __CUDACC__
#include <math.h>
#endif

/* X(number in the module's code, name of the function, threads of a block). Each has one struct of this file as its parameter. */
#define YM_SERVICES(X)                                                          \
    X(YM_LETTERBOX, yoloc_letterbox, YM_LETTERBOX_THREADS)                      \
    X(YM_CANDIDATES, yoloc_candidates, 256)                                     \
    X(YM_EXPAND, yoloc_expand, 256)                                             \
    X(YM_ORDER, yoloc_order, 256)                                               \
    X(YM_COMPARE, yoloc_compare, 256)                                           \
    X(YM_OVERLAP, yoloc_overlap, 256)                                           \
    X(YM_KEEP, yoloc_keep, 512)                                                 \
    X(YM_MASK_VALUES, yoloc_mask_values, 256)                                   \
    X(YM_MASKS, yoloc_masks, 256)                                               \
    X(YM_LABELS, yoloc_labels, 256)                                             \
    X(YM_DEPTHS, yoloc_depths, 256)                                             \
    X(YM_AXES, yoloc_axes, YM_CROP_THREADS)                                     \
    X(YM_CROP, yoloc_crop, YM_CROP_THREADS)

enum ym_service {
#define X(number, name, threads) number,
    YM_SERVICES(X)
#undef X
    YM_NSERVICE
};

#ifdef __CUDACC__
#define YM_FN static __device__ inline
#else
#define YM_FN static inline
#endif

/* --- pictures ----------------------------------------------------------------------------------------------- */

enum {
    YM_LETTERBOX_THREADS = 128,
    YM_PICTURES = 16, /* of one call */
    YM_QUAD = 4       /* pixels of a thread */
};
enum ym_pixels { YM_RGB, YM_BGR, YM_NV12, YM_NV12_709 };
enum ym_resize { YM_AS_IT_IS, YM_HALF, YM_BILINEAR };

struct ym_picture {
    const unsigned char *pixels, *chroma; /* chroma: of NV12 */
    long long row_bytes, chroma_row_bytes;
    unsigned char *out;                   /* rows of out_width * 3 bytes, dense */
    double scale_x, scale_y;              /* 1.0 / ((double)resized / source) */
    int width, height;                    /* of the source */
    int left, top, resized_width, resized_height;
    int format, resize;                   /* enum ym_pixels, enum ym_resize */
};

/* Blocks: count * blocks. */
struct ym_letterbox {
    int count, blocks;                    /* pictures; blocks of each: its quads, rows of them, by the threads of a block */
    int out_width, out_height;
    struct ym_picture picture[YM_PICTURES];
};

/* A pixel of limited range as RGB, in the arithmetic of OpenCV, whose numbers are those for BT.601. */
YM_FN void ym_rgb_of_yuv(int format, int y, int u, int v, unsigned char *rgb)
{
    int hd = format == YM_NV12_709, luma = (y > 16 ? y - 16 : 0) * (hd ? 1220945 : 1220542) + (1 << 19);
    u -= 128;
    v -= 128;
    int c[3];
    c[0] = (luma + (hd ? 1879825 : 1673527) * v) >> 20;
    c[1] = (luma - (hd ? 558796 : 852492) * v - (hd ? 223607 : 409993) * u) >> 20;
    c[2] = (luma + (hd ? 2215014 : 2116026) * u) >> 20;
    for (int i = 0; i < 3; i++) rgb[i] = (unsigned char)(c[i] < 0 ? 0 : c[i] > 255 ? 255 : c[i]);
}

/* --- boxes -------------------------------------------------------------------------------------------------- */

enum {
    YM_ROWS = 32,            /* rows, or candidates, that a block of YM_CANDIDATES, YM_ORDER and YM_COMPARE does */
    YM_OVERLAP_ROWS = 128,   /* candidates by YM_OVERLAP_COLUMNS that a block of YM_OVERLAP compares */
    YM_OVERLAP_COLUMNS = 64,
    YM_MOST_COMPARED = 2048, /* candidates that it compares with each other; YM_KEEP does it for what is behind them */
    YM_MOST_ROTATED = 30000, /* candidates that are compared with each other; nms.c */
    YM_MOST_BEST = 300       /* rows that a head without suppression gives out at most; nms.c */
};
enum ym_keep { YM_KEEP_APART, YM_KEEP_UNMARKED, YM_KEEP_ALL };

/* Candidates of each image. A key is the complement of the score's bits (in an order that integers keep) above
 * row * nc + class: each is there once, and ascending keys are descending scores, then ascending rows. */
struct ym_list {
    unsigned long long *key, *sorted; /* `room` for each image */
    int *count;                       /* by image */
    int room;
};

/* Alike in yolort_detection but for `pad`; in pixels of the network's input. */
struct ym_box {
    float x1, y1, x2, y2, score;
    int cls, row, pad;
};

/* Before the boxes of an image. */
struct ym_found {
    int count, pad[3];
};

/*
 * In order: YM_CANDIDATES fills list[0] (counts are 0 before), YM_ORDER sorts it; heads without suppression: YM_EXPAND fills
 * list[1] with the classes of the first `limit` of them, YM_ORDER sorts that; turned boxes: YM_COMPARE marks what yields; other heads:
 * YM_OVERLAP fills the mask. YM_KEEP writes at most `limit` boxes.
 */
struct ym_boxes {
    const float *decoded;             /* as yolort_nms takes them */
    long long decoded_floats;         /* of an image */
    const unsigned char *allowed;     /* by class; NULL: all */
    struct ym_list list[2];
    float *corner;                    /* by image and rank: x1, y1, x2, y2; room of list[0] */
    double *normal;                   /* by image and rank: turned boxes as normal distributions, 5 numbers; NULL: none */
    unsigned char *worse;             /* by image and rank; marks of YM_COMPARE */
    unsigned *mask;                   /* by image, for the first `compared` ranks i: bit j of compared / 32 words: j yields to i and is behind it */
    unsigned char *out;               /* by image: struct ym_found, `limit` struct ym_box, `limit` * numbers floats */
    long long out_bytes;              /* of an image */
    int images, rows, nc, head;       /* head: enum yolort_head */
    int extra, rotated, agnostic;
    int numbers;                      /* of a kept row that are given out: those but its class scores, or 0 */
    int limit;                        /* boxes of an image, >= 1 */
    int compared;                     /* list[0].room in whole words, but at most YM_MOST_COMPARED */
    int list_at;                      /* that YM_ORDER sorts and YM_KEEP reads */
    int keep;                         /* enum ym_keep */
    float conf, iou;
};

/* --- crops for classifiers ---------------------------------------------------------------------------------------------- */

enum { YM_CROP_THREADS = 128, YM_WEIGHT_BITS = 22 /* of a weight after the point */ };

/* Output samples first .. of an axis, made from n source samples: sample i is the sum of weight[i * most + k] times source sample
 * from[i] + k, for k below count[i]. The filter is a triangle as wide as two source samples, or two output samples where those are
 * farther apart. */
struct ym_axis {
    int *from, *count, *weight;
    double scale, reach;                  /* source samples to an output sample; half the filter's width */
    long long first;
    int n, most;
};

YM_FN void ym_fill_sample(const struct ym_axis *a, int i)
{
    double center = ((double)(a->first + i) + 0.5) * a->scale, sum = 0;
    int from = (int)(center - a->reach + 0.5), to = (int)(center + a->reach + 0.5), *weight = a->weight + (long long)i * a->most;
    from = from < 0 ? 0 : from;
    to = to > a->n ? a->n : to;
    for (int j = from; j < to; j++)
        sum += fmax(0.0, 1 - fabs((j - center + 0.5) / a->reach));
    for (int j = from; j < to; j++) {
        double w = fmax(0.0, 1 - fabs((j - center + 0.5) / a->reach)) / sum;
        weight[j - from] = (int)(0.5 + w * (1 << YM_WEIGHT_BITS));
    }
    a->from[i] = from;
    a->count[i] = to - from;
}

YM_FN unsigned char ym_weighted(int sum)
{
    int v = (sum + (1 << (YM_WEIGHT_BITS - 1))) >> YM_WEIGHT_BITS;
    return (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
}

struct ym_cropped {
    struct ym_picture from;               /* of it pixels, chroma, their rows, sides, format, out */
    struct ym_axis columns, rows;
};

/* YM_AXES fills the axes' tables: count * axis_blocks blocks, each sample of both axes a thread. Then YM_CROP makes the pixels, a thread
 * each: count * blocks. */
struct ym_crop {
    int count, axis_blocks, blocks;
    int out_width, out_height;
    struct ym_cropped picture[YM_PICTURES];
};

/* --- masks ---------------------------------------------------------------------------------------------------------------- */

/* The sample for pixel i of `out`, by centres of pixels, lies between `a` and `b` of `in`, `t` of the way. */
struct ym_sample {
    int a, b;
    float t;
};

YM_FN struct ym_sample ym_sample_at(int i, int in, int out)
{
    float at = ((float)in / (float)out) * ((float)i + 0.5f) - 0.5f;
    struct ym_sample s;
    at = at > 0 ? at : 0;
    s.a = (int)at;
    s.a = s.a < in ? s.a : in - 1;
    s.b = s.a + 1 < in ? s.a + 1 : s.a;
    s.t = at - (float)s.a;
    return s;
}

YM_FN float ym_mix(float a, float b, float t)
{
    return a + (b - a) * t;
}

/* Prototypes are enlarged `factor` times; in that lies the picture, along x and y. */
struct ym_mask_plan {
    int factor, width, height;            /* of the prototypes as they are */
    int x_from, x_size, y_from, y_size;
    int src_width, src_height;
};

/* Of a box: the pixels of the source that it cuts out, and the values of prototypes that these need. */
struct ym_masked {
    int x, y, width, height;              /* words of 32 pixels make a row of bits */
    int from_x, from_y, across, down;
    long long value, word;                /* where its values and bits begin */
    int value_block, word_block;          /* blocks of the boxes before */
};

/*
 * YM_MASK_VALUES sums up prototypes by a box's coefficients, in their order, a thread for each value; YM_MASKS makes words of the mask's
 * bits, a thread each. A block belongs to one box.
 */
struct ym_masks {
    const float *proto, *coefficient;     /* [count, height, width]; count for each box */
    const struct ym_masked *box;
    float *value;
    unsigned *bits;
    struct ym_mask_plan plan;
    int boxes, count;
};

/* --- maps ----------------------------------------------------------------------------------------------------------------- */

/* Where the middle of source pixel i lies among `size` pixels from `first` on, never outside them. */
YM_FN double ym_place(int i, int source, int first, int size)
{
    double at = (i + 0.5) * size / source - 0.5;
    at = at < 0 ? 0 : at > size - 1 ? size - 1 : at;
    return first + at;
}

/* Between rows a and b, t of the way; u: place of the column, of which `last` is the last. */
YM_FN float ym_depth(const float *a, const float *b, float t, double u, int last)
{
    int x0 = (int)u, x1 = x0 < last ? x0 + 1 : x0;
    float s = (float)(u - x0);
    return (a[x0] * (1 - s) + a[x1] * s) * (1 - t) + (b[x0] * (1 - s) + b[x1] * s) * t;
}

/* Of classes whose logits lie `step` apart, the best at such a place; NaN is never the best of several. */
YM_FN unsigned short ym_best_class(const float *a, const float *b, float t, double u, int last, int nc, long long step)
{
    int best = 0;
    float most = ym_depth(a, b, t, u, last);
    for (int k = 1; k < nc; k++) {
        float v = ym_depth(a + k * step, b + k * step, t, u, last);
        if (!(v > most || most != most)) continue;
        best = k;
        most = v;
    }
    return (unsigned short)best;
}

/* A thread for each pixel of the source. */
struct ym_source_map {
    const float *value;                   /* [classes, height, width], at the size of the network's input */
    void *out;                            /* by pixel: unsigned short, or float */
    int classes, width, height;
    int left, top, resized_width, resized_height;
    int src_width, src_height;
};

#endif
