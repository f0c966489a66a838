/* Devices as tables of functions; a program (struct ym_target) names its device by `kind`. */
#ifndef RT_DEV_H
#define RT_DEV_H

#include "pool.h"
#include "tables.h"

/* What a device holds of a loaded program. */
struct rt_code {
    uint8_t *base; /* NULL: nothing loaded */
    size_t size;
    void *own;     /* the device's; NULL: none */
};

/* Where steps find their memory: device addresses where the device has memory of its own. */
struct rt_memory {
    uint8_t *arena, *constants;
    uint8_t *io[YM_MAX_IO]; /* for what the caller has bound in host memory; NULL: the binding itself */
};

/* One step of a run. */
struct rt_launch {
    const struct rt_code *code;
    void *session; /* of devices with memory of their own */
    uint32_t step, kernel, narg;
    uint64_t entry; /* offset in the code */
    void *const *arg;
    int64_t total, grain; /* units of all images; units to hand out at once, at least */
    struct rt_pool *pool;
    uint8_t *scratch; /* thread t's own begins at scratch + t * scratch_stride */
    size_t scratch_stride;
    const char *name; /* of the kernel */
};

/* The steps of a run, those that `wanted` in and out choose, in one go. */
struct rt_play {
    int batch;
    uint64_t in[2], out[2]; /* what is bound */
    void *const *arg;       /* of all steps */
};

enum { RT_MARKS = 6 }; /* of yolort_detect; the steps of a run have those after them */

/* Memory that several own: bindings, and tensors that were handed out. rt_shared_drop gives one share back, from any thread. */
struct rt_shared {
    _Atomic int refs;
    void *data;
    int on_device, ordinal;
    void (*drop)(struct rt_shared *s);
};
void rt_shared_drop(struct rt_shared *s); /* dlpack.c; NULL is allowed */

/* What a device with memory of its own does for a context. Between begin and end (which is called whatever happened) work is
 * put on the caller's stream; wait returns when the last run's is done. After YOLORT_DEVICE_LOST every call gives that. */
struct rt_own_memory {
    yolort_status (*open)(void **session, const struct rt_code *code, const yolort_context_opts *o, const struct rt_tables *t,
                          struct rt_memory *out, const struct rt_error *e);
    void (*close)(void *session);
    /* *where: 1 when p is an address of this device's memory, -1 of another's, 0 of the host's. */
    yolort_status (*locate)(void *session, const void *p, int *where, const struct rt_error *e);
    yolort_status (*share)(void *session, size_t bytes, struct rt_shared **out, const struct rt_error *e); /* the device's memory */
    yolort_status (*begin)(void *session, void *stream, const struct rt_error *e);
    yolort_status (*poison)(void *session, const struct rt_error *e); /* fills the arena with NaN */
    /* *played 0: it can't here, launch the steps. */
    yolort_status (*play)(void *session, const struct rt_play *p, int *played, const struct rt_error *e);
    yolort_status (*put)(void *session, uint8_t *to, const void *from, size_t bytes, const struct rt_error *e);
    yolort_status (*get)(void *session, void *to, const uint8_t *from, size_t bytes, const struct rt_error *e);
    yolort_status (*settle)(void *session, const struct rt_error *e); /* waits for what was put on the stream */
    /* Times: a mark of what was put on the stream so far; from mark i to mark i + 1, both reached. */
    yolort_status (*mark)(void *session, int i, const struct rt_error *e);
    yolort_status (*between)(void *session, int i, double *ms, const struct rt_error *e);
    /* on 1: the stream does nothing from here on until 0. Where the device can't, nothing happens. */
    yolort_status (*hold)(void *session, int on, const struct rt_error *e);
    int (*engine)(void *session, uint32_t step); /* whether a library does the step, in runs of all the images */
    yolort_status (*end)(void *session, const struct rt_error *e);
    yolort_status (*wait)(void *session, const struct rt_error *e);
};

/* What such a device does for yolort_detect and yolort_predict, with the kernels of service.h. serve, put_rows, clear and mark: between begin and end. */
struct rt_service {
    int (*has)(void *session); /* whether the program brought them along */
    yolort_status (*serve)(void *session, int kernel, int64_t blocks, const void *call, const struct rt_error *e);
    yolort_status (*put_rows)(void *session, uint8_t *to, const void *from, size_t row_bytes, size_t pitch, size_t rows,
                              const struct rt_error *e); /* to dense rows */
    yolort_status (*clear)(void *session, uint8_t *at, size_t bytes, const struct rt_error *e); /* zeros */
    yolort_status (*take)(void *session, int pinned, size_t bytes, uint8_t **out, const struct rt_error *e); /* pinned: the host's */
    yolort_status (*drop)(void *session, int pinned, uint8_t *p, const struct rt_error *e); /* NULL is allowed; when it fails, it is still there */
};

struct rt_dev {
    const char *name;
    uint32_t kind; /* enum ym_device */
    /* INCOMPATIBLE, or NO_DEVICE, with what is missing when code for this arch and these comma-joined features cannot run
     * here. */
    yolort_status (*fits)(const char *arch, const char *features, const struct rt_error *e);
    yolort_status (*load)(struct rt_code *out, const struct rt_tables *t, const struct rt_error *e);
    void (*unload)(struct rt_code *c);
    /* *stray: what the first failing call of the kernel returned, or 0. */
    yolort_status (*launch)(const struct rt_launch *l, int32_t *stray, const struct rt_error *e);
    const struct rt_service *service; /* NULL: none; else `own` is there */
    const struct rt_own_memory *own; /* NULL: works in the host's memory, and runs are done when they return */
};

extern const struct rt_dev rt_dev_cpu;  /* dev_cpu.c */
extern const struct rt_dev rt_dev_cuda; /* dev_cuda.c */

/* dev.c: NULL when this build has no such device. */
const struct rt_dev *rt_dev_find(uint32_t kind);

#endif
