/* Devices as tables of functions; a program (struct ym_target) names its device by `kind`. */
#ifndef RT_DEV_H
#define RT_DEV_H

#include "module.h"
#include "pool.h"
#include "status.h"

struct rt_code {
    uint8_t *base; /* NULL: nothing loaded */
    size_t size;
};

/* One step of a run. */
struct rt_launch {
    const struct rt_code *code;
    uint64_t entry; /* offset in the code */
    void *const *arg;
    int64_t total, grain; /* units of all images; units to hand out at once, at least */
    struct rt_pool *pool;
    uint8_t *scratch; /* thread t's own begins at scratch + t * scratch_stride */
    size_t scratch_stride;
};

struct rt_dev {
    const char *name;
    uint32_t kind;
    /* INCOMPATIBLE with what is missing when code for this arch and these comma-joined features cannot run
     * here. */
    yolort_status (*fits)(const char *arch, const char *features, const struct rt_error *e);
    yolort_status (*load)(struct rt_code *out, const void *code, size_t size, const struct rt_error *e);
    void (*unload)(struct rt_code *c);
    /* What the first failing call of the kernel returned, or 0. */
    int32_t (*launch)(const struct rt_launch *l);
};

extern const struct rt_dev rt_dev_cpu; /* dev_cpu.c */

/* dev.c: NULL when this build has no such device. */
const struct rt_dev *rt_dev_find(uint32_t kind);

#endif
