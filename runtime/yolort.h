/*
 * yolort: loads a compiled YOLO module and runs it. C11 and C++; needs no compiler, no Python, no framework.
 *
 * Objects. A module is immutable once loaded and may be shared by any number of threads. A context is one caller's
 * buffers (arena, threads); it belongs to one thread at a time, and a second thread that enters it meanwhile gets
 * YOLORT_BUSY. Functions without a context or module are pure and thread-safe.
 * Errors. Every function that can fail returns a status; outputs are written only on YOLORT_OK unless said otherwise.
 * Ownership. What a `*_new` or `load` gives is released by its `*_free`; strings and structs reached through a
 * module live as long as the module; images, tensors and arrays passed in stay the caller's.
 */
#ifndef YOLORT_H
#define YOLORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define YOLORT_API __attribute__((visibility("default")))
#else
#define YOLORT_API
#endif

typedef struct yolort_module yolort_module;
typedef struct yolort_context yolort_context;

typedef enum yolort_status {
    YOLORT_OK = 0,
    YOLORT_FORMAT = 1,       /* not a module, or a broken one */
    YOLORT_LIMIT = 2,        /* larger than a fixed limit */
    YOLORT_INTEGRITY = 3,    /* digest does not match: damaged */
    YOLORT_UNSUPPORTED = 4,
    YOLORT_INCOMPATIBLE = 5, /* other format version, other device or CPU features */
    YOLORT_NO_DEVICE = 6,
    YOLORT_OOM_HOST = 7,
    YOLORT_OOM_DEVICE = 8,
    YOLORT_IO = 9,
    YOLORT_BUSY = 10,
    YOLORT_TIMEOUT = 11,
    YOLORT_DEVICE_LOST = 12,
    YOLORT_ARG = 13          /* an argument is wrong: NULL, size, type, range */
} yolort_status;

typedef enum yolort_dtype {  /* the numbers are those stored in modules */
    YOLORT_F32 = 0, YOLORT_F16 = 1, YOLORT_BF16 = 2, YOLORT_F64 = 3, YOLORT_U8 = 4,
    YOLORT_I8 = 5, YOLORT_I32 = 6, YOLORT_I64 = 7, YOLORT_BOOL = 8
} yolort_dtype;

/* 0x00XXYYZZ of the library, and the name of a status ("INTEGRITY"). */
YOLORT_API uint32_t yolort_version(void);
YOLORT_API const char *yolort_status_name(yolort_status s);

/* --- modules ------------------------------------------------------------------------------------------------ */

/* Reads a file into private memory, checks its digest, then every offset and count, then CPU features. `error`
 * (may be NULL) gets one line of text, always terminated, when the status is not OK. Only the path given is read. */
YOLORT_API yolort_status yolort_load_file(yolort_module **out, const char *path, char *error, size_t error_size);

/* The same from memory that the caller keeps, unchanged, as long as the module lives. When bytes is no multiple of
 * 64, a private copy is made. */
YOLORT_API yolort_status yolort_load(yolort_module **out, const void *bytes, size_t size, char *error,
                                     size_t error_size);

/* For modules beyond what is refused by default. */
typedef struct yolort_load_opts {
    size_t size;              /* set by yolort_load_opts_init */
    uint64_t max_bytes;       /* of the file: 8 GiB */
    uint64_t max_table_bytes; /* of a section other than code, constants and weights: 16 MiB */
    uint32_t max_sections;    /* 65536 */
    int32_t threads;          /* that help to pack the weights of a large module: 0: one for each core, at most 8; 1 makes none */
    int32_t look;             /* 1: to look at alone, whatever is here: where no program of it runs, the first; contexts of it give ARG */
} yolort_load_opts;

YOLORT_API void yolort_load_opts_init(yolort_load_opts *o, size_t size);

/* yolort_load within other limits; opts NULL: the defaults. */
YOLORT_API yolort_status yolort_load_within(yolort_module **out, const void *bytes, size_t size,
                                            const yolort_load_opts *opts, char *error, size_t error_size);

/* NULL is allowed. All contexts of the module must be freed first; otherwise the module lives on until they are. */
YOLORT_API void yolort_module_free(yolort_module *m);

#define YOLORT_MAX_RANK 6

typedef struct yolort_io {
    const char *name;   /* "input_u8", "images", "decoded", ... */
    yolort_dtype dtype;
    int is_output;
    int rank;
    int64_t dim[YOLORT_MAX_RANK]; /* dense row-major; dim[0] is the largest batch */
    size_t bytes_per_image;
} yolort_io;

/* Inputs and outputs. One form of the picture is to be bound ("input_u8": U8 [N,H,W,3] RGB as letterboxed; "images": F32
 * [N,3,H,W] normalised as the network wants it); outputs are bound as wanted, and what is not bound is not computed. */
YOLORT_API size_t yolort_io_count(const yolort_module *m);
YOLORT_API const yolort_io *yolort_io_at(const yolort_module *m, size_t i); /* NULL out of range */
YOLORT_API int yolort_io_find(const yolort_module *m, const char *name);     /* -1 when there is none */

typedef enum yolort_letterbox_mode { YOLORT_SQUARE = 0, YOLORT_RECT = 1, YOLORT_TOPLEFT = 2 } yolort_letterbox_mode;

/* How the rows of `decoded` are laid out. Other numbers of yolort_info follow the class scores. */
typedef enum yolort_head {
    YOLORT_HEAD_NONE = 0,
    YOLORT_HEAD_FREE = 1,   /* [N, 4+nc, A]: cx, cy, w, h, class scores */
    YOLORT_HEAD_ANCHOR = 2, /* [N, A, 5+nc]: cx, cy, w, h, objectness, class scores */
    YOLORT_HEAD_X = 3,      /* as HEAD_ANCHOR, YOLOX */
    YOLORT_HEAD_BEST = 4    /* as HEAD_FREE, but x1, y1, x2, y2, and no overlaps to suppress; with an angle cx, cy, w, h */
} yolort_head;

typedef struct yolort_info {
    const char *model;      /* "yolov8n" */
    const char *task;       /* "detect" */
    const char *target;     /* "cpu:x86-64-v4" */
    const char *precision;  /* "fp32", "fp16", "fp16 model.22*=fp32": of the network, then of layers that differ */
    const char *producer;   /* "yoloc 0.1.0" */
    yolort_head head;
    yolort_letterbox_mode letterbox;
    int nc, height, width, max_batch, stride; /* stride: the largest of the levels */
    int max_det;
    float conf, iou;        /* defaults of this model */
    const char *const *names; /* nc class names */
    size_t arena_bytes, constant_bytes, code_bytes;
    int coefficients;         /* of masks, after the class scores; 0 without */
    int points, point_dims;   /* keypoints, and numbers of each: x, y and, of 3, how visible it is; 0 without */
    int angles;               /* 1: an angle in radians, by which the box is turned */
} yolort_info;

YOLORT_API const yolort_info *yolort_module_info(const yolort_module *m);

/* --- GPUs --------------------------------------------------------------------------------------------------- */

typedef struct yolort_gpu {
    char name[128];
    char target[24];      /* what to compile for: "cuda:sm_90a" */
    int ordinal;          /* `device` of yolort_context_opts */
    int major, minor;     /* compute capability */
    int multiprocessors;
    uint64_t memory_bytes;
} yolort_gpu;

/* The first `capacity` of *count GPUs; *driver: the newest CUDA version that the driver knows, 1000 * major + 10 * minor. NO_DEVICE,
 * with a text, when there is no driver. The driver is libcuda.so.1, or the file that the environment's YOLOC_LIBCUDA names. */
YOLORT_API yolort_status yolort_gpus(yolort_gpu *out, size_t capacity, size_t *count, int *driver, char *error, size_t error_size);

/* cuDNN 9, which does steps of modules that were tuned with it, where it is; each step has a kernel for where it is not. *version: 91900 for
 * 9.19.0. NO_DEVICE, with a text, when there is none. It is libcudnn.so.9, or the file that the environment's YOLOC_LIBCUDNN names. */
YOLORT_API yolort_status yolort_cudnn(int *version, char *error, size_t error_size);

/* For tuners: the engines that cuDNN proposes on a device for a convolution (struct ym_conv of module.h), best first, a line each in the form
 * that such modules name them, as many lines as fit; with the most bytes of working memory. ARG when it is no convolution. */
YOLORT_API yolort_status yolort_cudnn_engines(int device, const void *convolution, size_t bytes, int deterministic, uint64_t most_space,
                                              char *text, size_t size, char *error, size_t error_size);

/* Memory that this process has of a GPU for weights and contexts, and that the device has for all. */
typedef struct yolort_memory {
    uint64_t reserved_bytes; /* addresses; 0 where the driver gives out memory piece by piece */
    uint64_t mapped_bytes;   /* memory behind them */
    uint64_t used_bytes, peak_bytes, blocks; /* what lies in it now, what did at most, in how many pieces */
    uint64_t free_bytes, total_bytes;        /* of the device */
} yolort_memory;

/* NO_DEVICE when no context or module of this process uses the device. Trim gives memory back in which nothing lies: what freed
 * contexts leave is otherwise kept for new ones, until the last module on the device is freed. */
YOLORT_API yolort_status yolort_memory_stats(int device, yolort_memory *out);
YOLORT_API yolort_status yolort_memory_trim(int device);

/* --- contexts ----------------------------------------------------------------------------------------------- */

/* CUDA: a run is kept as an executable graph, one for each batch and set of what is bound, the newest sixteen of them; steps that
 * do not need each other then run side by side. Bits of `graph` turn parts of it off. */
enum yolort_graph {
    YOLORT_GRAPH_OFF = 1,        /* each step is launched by itself */
    YOLORT_GRAPH_CHAIN = 2,      /* no steps side by side */
    YOLORT_GRAPH_FULL_EDGES = 4  /* no step is started before the one that it waits for has ended */
};

typedef struct yolort_context_opts {
    size_t size;     /* sizeof of this struct as the caller knows it; yolort_context_opts_init sets it */
    int device;      /* ordinal of the GPU; 0 for CPU modules */
    int threads;     /* CPU: number of threads, 0: yolort_cpu_threads(); at most four for each core are started */
    int guard;       /* debug: the arena is poisoned with NaN and lies between pages that may not be touched. CUDA: between patterns, as
                        inputs and outputs do; yolort_wait gives FORMAT when these, or the weights, have changed */
    int spin_us;     /* CPU: for how long a thread looks for work before it sleeps; 0: 50 microseconds, -1: not at all */
    int graph;       /* CUDA: 0, or bits of enum yolort_graph */
    void *memory;    /* CUDA: of the device, for the arena, at least yolort_info's arena_bytes from a multiple of 256; it stays the
                        caller's, who leaves it alone while the context lives. NULL: the context has its own */
    size_t memory_bytes;
    int no_engines;  /* CUDA: 1: cuDNN is not used, although the module names engines of it */
} yolort_context_opts;

YOLORT_API void yolort_context_opts_init(yolort_context_opts *o, size_t size);

/* Allocates everything that runs will need. opts NULL: defaults. */
YOLORT_API yolort_status yolort_context_new(yolort_context **out, yolort_module *m, const yolort_context_opts *opts);
YOLORT_API void yolort_context_free(yolort_context *c); /* NULL is allowed; never while a run is in progress */

/* One for each core that the process may use, by its affinity and by the time that control groups (Linux) grant it. */
YOLORT_API int yolort_cpu_threads(void);

/* Threads that work in a run, the caller's counted; 0 for what is no context. */
YOLORT_API int yolort_threads(const yolort_context *c);

/* Memory for one input or output, for at least the batch that will be run; stays the caller's and must live until
 * the next bind of the same io or the context's end. On a CUDA module it may lie in the memory of the context's device, or
 * in the host's, which runs then copy; pinned memory is copied fastest. data NULL unbinds. ARG when io is out of range, bytes is less
 * than one image, or the address is no multiple of an element's size (in a GPU's memory: of 16 bytes). The binding of one form of the picture unbinds the other. */
YOLORT_API yolort_status yolort_bind(yolort_context *c, size_t io, void *data, size_t bytes);

/* Tensors of DLPack 0.x (dlpack.h has the struct). Bind: as yolort_bind, of a dense tensor of the io's type and shape, the first
 * dimension being the batch; on the CPU, in pinned memory, or on a CUDA module's own device. On YOLORT_OK the tensor is the
 * context's, which calls its deleter when the io is bound again or the context is freed; otherwise it stays the caller's. Work that
 * makes the tensor must be ordered before the runs by the caller.
 * Output: makes memory for `batch` images of an output, on the device of a CUDA module, binds it, and gives a tensor that is the
 * caller's: what runs write there can be read through it until its deleter is called, from any thread, also after the context
 * and the module are gone. */
struct DLManagedTensor;
YOLORT_API yolort_status yolort_bind_dlpack(yolort_context *c, size_t io, struct DLManagedTensor *t);
YOLORT_API yolort_status yolort_output_dlpack(yolort_context *c, size_t io, int batch, struct DLManagedTensor **out);

/* Host memory from which copies to the device are fastest: pinned on a CUDA module, plain on others. It lives until it is freed here
 * or with the context; free waits for the context's last run. */
YOLORT_API yolort_status yolort_host_alloc(yolort_context *c, size_t bytes, void **out);
YOLORT_API yolort_status yolort_host_free(yolort_context *c, void *p); /* NULL is allowed */

/* Runs `batch` images (1 .. max_batch) through the network. On a CPU module the work is done on return and `stream`
 * must be NULL. On a CUDA module it is put on the stream (a CUstream or cudaStream_t, NULL: the default one) of the context's
 * device, copies included; yolort_wait waits for it, and what is bound stays as it is until then. A stream that the caller captures
 * gets the launches, and the order with other runs of the context is the caller's. After DEVICE_LOST the context does nothing more;
 * free it. Allocates nothing, but for the graph of the first run with a batch and a set of what is bound. */
YOLORT_API yolort_status yolort_run(yolort_context *c, int batch, void *stream);
YOLORT_API yolort_status yolort_wait(yolort_context *c);

/* Text of what failed in the last call on this context ("" when nothing did, and for BUSY). */
YOLORT_API const char *yolort_error(const yolort_context *c);

/* The memory that holds values between steps, for tools that compare them (`yoloc verify`); *bytes gets its size. The caller
 * may read it between runs. On a CUDA module it is a copy, made by each call. NULL for what is no context. */
YOLORT_API void *yolort_arena(yolort_context *c, size_t *bytes);

/* What to profile, added up: steps of runs; parts of detections; with STEPS on a CUDA module, every step several times in a row,
 * which leaves the mean time of its kernel without what events and the gap to the next one add. */
enum { YOLORT_STEPS = 1, YOLORT_PARTS = 2, YOLORT_STEPS_ALONE = 4 };

/* Times of the last run by step, when profiling is on. */
typedef struct yolort_step {
    const char *kernel;  /* symbol */
    const char *label;   /* ops and layers: "model.2.cv1 conv2d+silu" */
    int line;            /* yaml line of the layer, 0: none */
    double flops, bytes; /* per image: work, and bytes read and written at least */
    double ms;           /* of the last profiled run; 0 when the step was skipped */
} yolort_step;
YOLORT_API size_t yolort_step_count(const yolort_module *m);
/* What the module says of a step: no times, and the symbol of its kernel in each case. */
YOLORT_API yolort_status yolort_module_step(const yolort_module *m, size_t i, yolort_step *out);
/* How cuDNN may do a step instead; ARG when the module names no engine for it. */
typedef struct yolort_engine {
    const char *text;         /* engine, working memory and knobs, as tuning records have them */
    uint32_t version, number; /* of the cuDNN that it was chosen with: 91900; of the engine in it */
    uint64_t space_bytes;     /* working memory, in the arena */
} yolort_engine;
YOLORT_API yolort_status yolort_module_engine(const yolort_module *m, size_t step, yolort_engine *out);
YOLORT_API yolort_status yolort_profile(yolort_context *c, int what);
/* Milliseconds of each of `runs` whole runs, one after another, as yolort_run does them: by the device's own clock on a CUDA module.
 * Waits for them. */
YOLORT_API yolort_status yolort_time(yolort_context *c, int batch, void *stream, int runs, double *ms);
YOLORT_API yolort_status yolort_step_at(const yolort_context *c, size_t i, yolort_step *out);
/* 1: the module names an engine of cuDNN for the step, which does it in runs of max_batch images; step_at's `kernel` then names the engine.
 * -1: it names one, but there is no cuDNN here that takes it, and the step's kernel does it. 0: it names none. */
YOLORT_API int yolort_step_engine(const yolort_context *c, size_t i);

/* --- images ------------------------------------------------------------------------------------------------- */

typedef struct yolort_image {
    const uint8_t *rgb;  /* 3 bytes a pixel, R first */
    int width, height;   /* 1 .. 65535 */
    size_t row_bytes;    /* distance of rows; 0: dense */
} yolort_image;

typedef enum yolort_pixels {
    YOLORT_RGB = 0,
    YOLORT_BGR = 1,
    YOLORT_NV12 = 2,     /* limited range, BT.601, to RGB as OpenCV does it; each U, V pair stands for 2 x 2 pixels */
    YOLORT_NV12_709 = 3  /* the same with BT.709 */
} yolort_pixels;

/* A picture in the host's memory, or, for a CUDA module, in that of the context's device. */
typedef struct yolort_picture {
    const uint8_t *data;   /* 3 bytes a pixel; NV12: luma, a byte a pixel */
    const uint8_t *chroma; /* NV12: (height + 1) / 2 rows of (width + 1) / 2 pairs; else not looked at */
    int width, height;     /* 1 .. 65535 */
    size_t row_bytes, chroma_row_bytes; /* distance of rows, between which memory can be read; 0: dense */
    yolort_pixels format;
} yolort_picture;

/* Where an image went in the network's input: x_in = x * scale_x + left, y_in = y * scale_y + top. */
typedef struct yolort_placement {
    int out_width, out_height;         /* of the letterboxed picture */
    int left, top, right, bottom;      /* padding, pixels, filled with 114 */
    int resized_width, resized_height;
    double scale_x, scale_y;           /* resized / source; topleft: the one ratio r on both axes */
} yolort_placement;

/* Geometry alone. width, height: target. RECT pads to the next multiple of `stride` only; the others ignore it.
 * scaleup 0: small images are not enlarged. */
YOLORT_API yolort_status yolort_letterbox_plan(int src_width, int src_height, int width, int height,
                                               yolort_letterbox_mode mode, int stride, int scaleup,
                                               yolort_placement *out);

/* Resizes (bilinear, 8 bit, the arithmetic of OpenCV's INTER_LINEAR) and pads into dst: out_height rows of
 * out_width * 3 bytes, dense. Allocates working memory; OOM_HOST. */
YOLORT_API yolort_status yolort_letterbox(const yolort_image *src, const yolort_placement *p, uint8_t *dst,
                                          size_t dst_bytes);

/* --- boxes -------------------------------------------------------------------------------------------------- */

typedef struct yolort_detection {
    float x1, y1, x2, y2; /* from yolort_detect: source pixels, clipped; from yolort_nms: as the rows are */
    float score;
    int32_t cls;
    int32_t row;          /* index of the row in `decoded` */
} yolort_detection;

typedef struct yolort_nms_opts {
    size_t size;           /* set by yolort_nms_opts_init */
    float conf, iou;       /* both compared with > */
    int max_det;
    int agnostic;          /* suppress across classes */
    const uint8_t *classes; /* NULL: all; else nc bytes, 0: drop detections of this class */
    int extra;             /* numbers of a row after its class scores: yolort_extra_count */
    int rotated;           /* 1: the last of these is an angle; overlaps are of turned boxes, compared with >= */
} yolort_nms_opts;

YOLORT_API void yolort_nms_opts_init(yolort_nms_opts *o, size_t size); /* 0.25, 0.45, 300, 0, NULL, 0, 0 */

/* Rows of `decoded` of one image, `rows` of them: for YOLORT_HEAD_FREE element c of row r at data[c * rows + r], else at
 * data[r * (5 + nc) + c]. Order: score descending, then row ascending; NaN scores are dropped. `work` is caller's memory of
 * yolort_nms_work_size(rows) bytes, 8-byte aligned. Writes at most min(max_det, capacity), counts in *count.
 * YOLORT_HEAD_BEST: no box is suppressed, each row and class is a detection, at most min(300, rows) of them.
 * Turned boxes: overlap is 1 minus the Hellinger distance of the boxes taken as normal distributions; a box yields to every
 * better one of its class, kept or not, among the 30000 best. */
YOLORT_API size_t yolort_nms_work_size(size_t rows);
YOLORT_API yolort_status yolort_nms(const float *data, size_t rows, int nc, yolort_head head,
                                    const yolort_nms_opts *opts, void *work, yolort_detection *out, size_t capacity,
                                    size_t *count);

/* Boxes of letterboxed pixels back to source pixels, clipped to [0, width] x [0, height]. For YOLORT_HEAD_FREE a
 * placement in the middle is worked out again from the size of the network's input alone, as Ultralytics' predictor
 * does: in a RECT input that rounding made exactly as high as the picture, its scale is then the other axis', and boxes
 * come out up to a pixel apart. */
YOLORT_API void yolort_unletterbox(yolort_detection *d, size_t n, yolort_head head, const yolort_placement *p,
                                   int src_width, int src_height);

/* --- what detections have beside boxes -------------------------------------------------------------------------- */

/* Numbers of a row of `decoded` after the class scores: coefficients + points * point_dims + angles. */
YOLORT_API size_t yolort_extra_count(const yolort_info *info);

/* Those of one row (of `rows`) of one image, in that order. */
YOLORT_API yolort_status yolort_extra(const float *data, size_t rows, const yolort_info *info, int32_t row, float *out);

/* n points, `dims` floats each that begin with x and y, back to source pixels, as yolort_unletterbox does it. */
YOLORT_API void yolort_unletterbox_points(float *point, size_t n, int dims, yolort_head head, const yolort_placement *p,
                                          int src_width, int src_height);

/* A turned box in source pixels, not clipped. From the centre its first edge, w long, points to (cos, sin) of the angle, with y
 * downwards; 0 <= angle < pi / 2. Corners in order around it, the first at +w, +h. */
typedef struct yolort_turned {
    float cx, cy, w, h, angle;
    float corner[4][2];
} yolort_turned;

/* The turned box of d->row; d's corners become those of the upright box around it, clipped to the source. ARG unless
 * info->angles is 1. */
YOLORT_API yolort_status yolort_turn(const float *data, size_t rows, const yolort_info *info, const yolort_placement *p,
                                     int src_width, int src_height, yolort_detection *d, yolort_turned *out);

/* `proto` of one image. */
typedef struct yolort_proto {
    const float *data;      /* [count, height, width], a quarter of the network's input */
    int count, height, width;
} yolort_proto;

YOLORT_API size_t yolort_mask_work_size(const yolort_proto *p); /* 0 for what is none */

/* The mask of a detection, by the count coefficients of its row: src_height rows of src_width bytes, 1 inside. d is in the same
 * pixels and cuts it: x1 <= x < x2. With the network's own input as the source it is the mask there. As Ultralytics' retina
 * masks: the letterbox is worked out from the two sizes, the picture lying in the middle. `work`: 4-byte aligned. */
YOLORT_API yolort_status yolort_mask(const yolort_proto *p, const float *coefficient, const yolort_detection *d,
                                     int src_width, int src_height, void *work, uint8_t *out, size_t out_bytes);

/* --- classes of whole pictures --------------------------------------------------------------------------------------- */

/* What classifiers take: the shorter side becomes that of the square (bilinear, antialiased, 8 bit, the arithmetic of Pillow),
 * and its middle is cut out; a target that is no square is filled by the whole picture. dst: height rows of width * 3 bytes,
 * dense. Allocates working memory; OOM_HOST. */
YOLORT_API yolort_status yolort_crop(const yolort_image *src, int width, int height, uint8_t *dst, size_t dst_bytes);

typedef struct yolort_class {
    int32_t cls;
    float prob;
} yolort_class;

/* The best of nc probabilities, at most `capacity`: descending, then by class; NaN is left out. */
YOLORT_API yolort_status yolort_top(const float *prob, int nc, yolort_class *out, size_t capacity, size_t *count);

/* --- maps ------------------------------------------------------------------------------------------------------------ */

/* A class for each source pixel: the best of nc logits [nc, out_height, out_width] at its middle, those of a class being
 * interpolated linearly between the network's pixels; NaN is never the best of several. */
YOLORT_API yolort_status yolort_labels(const float *logits, int nc, const yolort_placement *p, int src_width,
                                       int src_height, uint16_t *out, size_t out_count);

/* A number for each source pixel, from those of the network's input [out_height, out_width], bilinear. */
YOLORT_API yolort_status yolort_depths(const float *depth, const yolort_placement *p, int src_width, int src_height,
                                       float *out, size_t out_count);

/* --- all steps at once ------------------------------------------------------------------------------------------------ */

/* Image in, boxes out: letterbox (mode of the module) into the context's own input, run, NMS, source pixels. n images
 * (1 .. max_batch); out holds n * capacity entries, image i at out + i * capacity; counts[i] entries are valid.
 * opts NULL: the module's defaults; `extra` and `rotated` are always the module's, and turned boxes come as the
 * upright ones around them. RECT: each image must come out at the module's size, else ARG. UNSUPPORTED without
 * "input_u8" and "decoded". Its memory is made when first needed for so many images, and kept with the context; what
 * the caller has bound stays bound and untouched. On failure out and counts may have been written. */
YOLORT_API yolort_status yolort_detect(yolort_context *c, const yolort_image *images, int n,
                                       const yolort_nms_opts *opts, yolort_detection *out, size_t capacity,
                                       size_t *counts);

/* The same for pictures of other kinds. extra: NULL, or n * capacity * yolort_extra_count floats: for box k of picture i, from
 * (i * capacity + k) * yolort_extra_count on, what yolort_extra gives of its row. stream: as yolort_run takes it.
 * On a CUDA module that brought its service kernels along (all do whose input is "input_u8") both calls letterbox and
 * select boxes on the GPU: pictures in host memory are copied there (pinned ones fastest) before all else, what is kept is copied back after all
 * else, and the call waits once. Boxes are those of yolort_letterbox and yolort_nms; for turned boxes but for overlaps that come within
 * 1e-12 of `iou`. Elsewhere the CPU does it. */
YOLORT_API yolort_status yolort_detect_batch(yolort_context *c, const yolort_picture *pictures, int n, const yolort_nms_opts *opts,
                                             yolort_detection *out, size_t capacity, size_t *counts, float *extra, void *stream);

/* What is found with a module, by its task. */
typedef enum yolort_answer {
    YOLORT_NOTHING = 0,
    YOLORT_BOXES = 1,   /* by `decoded`; with masks, keypoints or angles */
    YOLORT_CLASSES = 2, /* by `prob` */
    YOLORT_LABELS = 3,  /* by `logits_x8` */
    YOLORT_DEPTHS = 4   /* by `depth_x4` */
} yolort_answer;

/* *io (may be NULL): the output that it is made from. NOTHING when there is none, or it has another shape. */
YOLORT_API yolort_answer yolort_answer_of(const yolort_module *m, int *io);

/* Where yolort_predict puts what it finds; of a task's fields those said to be wanted must not be NULL, those of other tasks are not
 * looked at. */
typedef struct yolort_results {
    size_t size;                /* set by yolort_results_init, as in yolort_nms_opts; the rest is 0 */
    yolort_detection *boxes;    /* BOXES: wanted, as in yolort_detect: n * capacity; turned boxes as the upright ones around them */
    size_t capacity, *counts;   /* BOXES: counts is wanted */
    float *extra;               /* BOXES: as in yolort_detect_batch */
    yolort_turned *turned;      /* BOXES with angles: n * capacity, as yolort_turn gives them */
    int protos;                 /* BOXES with coefficients: 1: prototypes are made too, and stay with the context for yolort_masks */
    float *prob;                /* CLASSES: wanted, n * nc */
    uint16_t *const *labels;    /* LABELS: wanted: of each picture height * width, as yolort_labels gives them */
    float *const *depths;       /* DEPTHS: wanted: likewise, yolort_depths */
} yolort_results;

YOLORT_API void yolort_results_init(yolort_results *r, size_t size);

/* Pictures in, answers out, for every task: as yolort_detect_batch, and classifiers take yolort_crop instead of the letterbox. placements: NULL, or
 * where each picture goes, in an input of the module's size (classifiers: not looked at). On a CUDA module with its service kernels all of it is
 * done on the GPU, to the last bit as the functions for the CPU do it. */
YOLORT_API yolort_status yolort_predict(yolort_context *c, const yolort_picture *pictures, const yolort_placement *placements, int n,
                                        const yolort_nms_opts *opts, const yolort_results *out, void *stream);

/* Masks of n boxes of picture `image` of the last yolort_predict, which had `protos`, as yolort_mask makes them: of box k from
 * out + k * src_width * src_height on. Box k has its coefficients at extra + k * yolort_extra_count. ARG when the context has been run since
 * then. On a CUDA module whose kernels made the boxes the GPU makes the masks, and only what boxes cut out is made and copied. */
YOLORT_API yolort_status yolort_masks(yolort_context *c, int image, int src_width, int src_height, const yolort_detection *boxes,
                                      const float *extra, size_t n, uint8_t *out, size_t out_bytes, void *stream);

/* Milliseconds of the last yolort_detect, yolort_detect_batch or yolort_predict, when profiling has YOLORT_PARTS: pictures to the device,
 * letterbox or crop, network, selection of boxes or making of maps, answers to the host; by events on the GPU. Pictures after the first 16
 * are copied between letterboxes. Maps are copied as they are made. */
typedef struct yolort_parts {
    double in_ms, letterbox_ms, network_ms, select_ms, out_ms;
} yolort_parts;
YOLORT_API yolort_status yolort_parts_of(const yolort_context *c, yolort_parts *out);

#ifdef __cplusplus
}
#endif
#endif
