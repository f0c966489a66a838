/*
 * How the service kernels of CUDA programs (codegen/service.cu) are called. The runtime reads this, and so does NVRTC, in front of
 * the kernels: hence no includes. Pointers are device addresses. A change of anything here is a new
 * YM_SERVICE_VERSION.
 */
#ifndef YM_SERVICE_H
#define YM_SERVICE_H

/* X(number in the module's code, name of the function, threads of a block). Each has one struct of this file as its parameter. */
#define YM_SERVICES(X)                                                                                       \
    X(YM_LETTERBOX, yoloc_letterbox, YM_LETTERBOX_THREADS)                                                                  \
    X(YM_CANDIDATES, yoloc_candidates, 256)                                                                  \
    X(YM_EXPAND, yoloc_expand, 256)                                                                          \
    X(YM_ORDER, yoloc_order, 256)                                                                            \
    X(YM_COMPARE, yoloc_compare, 256)                                                                        \
    X(YM_OVERLAP, yoloc_overlap, 256)                                                                        \
    X(YM_KEEP, yoloc_keep, 512)

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

#endif
