/* What stands behind the handles of yolort.h. */
#ifndef RT_OBJECT_H
#define RT_OBJECT_H

#include "block.h"
#include "dev.h"
#include "tables.h"

#include <stdatomic.h>
#include <sys/types.h>

/* First word of each, so that a wrong handle is told apart. */
enum { RT_MODULE_KIND = 0x6d6f6c79, RT_CONTEXT_KIND = 0x63747879 };

/* All but `refs` is constant after load. */
struct yolort_module {
    uint32_t kind;
    _Atomic int refs;
    struct rt_block file; /* our own copy; a dead block when the bytes are the caller's */
    struct rt_block constants; /* packed weights that were made, or a dead block */
    struct rt_tables t;
    const struct rt_dev *dev;
    struct rt_code code;
    yolort_info info;
    char producer[32];
    const char **names;
    yolort_io *io;
};

/* module.c */
void rt_module_keep(yolort_module *m);
void rt_module_drop(yolort_module *m);

struct rt_binding {
    uint8_t *data; /* NULL: unbound */
    size_t bytes;
    int on_device; /* data is an address of the device's own memory */
};

/* One set of what the steps read and write: the caller's, or that of yolort_detect. */
struct rt_bindings {
    struct rt_binding io[YM_MAX_IO];
};

struct DLManagedTensor;

/* What the binding of an input or output keeps alive. */
struct rt_hold {
    struct DLManagedTensor *lent; /* ours until the binding ends */
    struct rt_shared *shared;
};

/* Host memory that yolort_host_alloc gave. */
struct rt_host {
    struct rt_host *next;
    uint8_t *data;
};

enum { RT_IDLE, RT_BUSY, RT_DOOMED };

enum { RT_ERROR_SIZE = 256 };

/* Memory of the device, or pinned memory of the host. */
struct rt_taken {
    uint8_t *data;
    size_t bytes;
};

/* Memory of yolort_detect and yolort_predict, made at its first use. */
struct rt_detector {
    struct rt_block input, output, proto, resize, nms, rgb, mask;
    struct rt_bindings bound;
    int protos;        /* pictures of the last run whose prototypes are there */
    int served_protos; /* they lie in the device's memory */
    /* Of a device that serves (service.c). */
    struct rt_bindings served;
    struct rt_taken pictures, lists, out, pinned;
    double part_ms[RT_MARKS - 1];
};

struct yolort_context {
    uint32_t kind;
    _Atomic int state; /* RT_IDLE; RT_BUSY: a call is inside; RT_DOOMED: freed by another thread meanwhile */
    pid_t owner;       /* threads do not survive a fork */
    yolort_module *m;
    int threads;
    struct rt_pool *pool;
    void *session; /* of a device with memory of its own, whose addresses `memory` holds */
    struct rt_memory memory;
    struct rt_block arena, scratch; /* arena: a copy for yolort_arena where the device has its own */
    size_t scratch_stride;
    int guard, profile, parts; /* what is profiled: steps, parts of detections */
    void **arg; /* m->t.narg pointers, those of YM_SLOT_IO as in *wired */
    const struct rt_bindings *wired;
    struct rt_bindings bound;
    struct rt_hold hold[YM_MAX_IO];
    struct rt_host *host;
    double *ms; /* by step */
    struct rt_detector detect;
    char error[RT_ERROR_SIZE];
};

/* exec.c. Enter: OK and the context is the caller's until rt_context_leave, else the status to give back. */
yolort_status rt_context_enter(yolort_context *c);
yolort_status rt_context_leave(yolort_context *c, yolort_status s);
struct rt_error rt_context_error(yolort_context *c);

/* Entered: as yolort_bind. */
yolort_status rt_bind(yolort_context *c, size_t io, void *data, size_t bytes);

/* dlpack.c: the end of what a binding holds, and of memory that the context gave. */
void rt_hold_drop(yolort_context *c, size_t io);
void rt_host_drop_all(yolort_context *c);

/* An input that is a form of the picture; of those one is bound. */
int rt_is_picture(const yolort_module *m, size_t io);

/* steps.c: launches or plays the steps that these inputs and outputs want; the caller has wired their arguments. */
yolort_status rt_steps_run(yolort_context *c, int batch, const uint64_t in[2], const uint64_t out[2], const struct rt_error *e);
double rt_now_ms(void); /* of a clock that never goes back */

/* Entered. Runs `batch` images on these bindings; on a device, the work is then on the stream. */
yolort_status rt_context_run(yolort_context *c, const struct rt_bindings *b, int batch, void *stream);
yolort_status rt_context_wait(yolort_context *c);

/* detect.c */
void rt_detector_free(struct rt_detector *d);

/* service.c: while there is a session. */
void rt_service_free(yolort_context *c);

#endif
