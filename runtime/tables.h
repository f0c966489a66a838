/* The inside of a module file: the tables of its sections, every field checked before anything is built on
 * it. */
#ifndef RT_TABLES_H
#define RT_TABLES_H

#include "sections.h"

struct rt_tables {
    struct rt_sections file;
    const char *strings; /* any checked offset from here is a terminated string */
    size_t strings_size;
    const struct ym_meta *meta;
    const uint32_t *names; /* meta->nc of them */
    const struct ym_weight *weight;
    uint32_t nweight;
    struct rt_span weights; /* their bytes */
    /* Of one program: */
    uint32_t index;
    const struct ym_target *target;
    const struct ym_io *io;
    const struct ym_kernel *kernel;
    const struct ym_param *param;
    const struct ym_map *map;
    const struct ym_step *step;
    const struct ym_arg *arg;
    const struct ym_kernel *service; /* NULL: none */
    const struct ym_constant *constant;
    const struct ym_engine *engine;
    uint32_t nio, nkernel, nparam, nmap, nstep, narg, nconstant, nengine;
    struct rt_span code, constants; /* constants: as kernels read them */
    struct rt_span stored;          /* with nconstant: the section CONSTANTS */
};

/* t->file is open. What all programs share. */
yolort_status rt_tables_shared(struct rt_tables *t, const struct rt_error *e);

/* The record of a program, enough to know whether it can run here; then all the rest of that program. */
yolort_status rt_tables_target(struct rt_tables *t, uint32_t index, const struct rt_error *e);
yolort_status rt_tables_program(struct rt_tables *t, const struct rt_error *e);

/* engines.c: the rows of ENGINE, whose names are checked, once the steps are. */
yolort_status rt_engines_check(const struct rt_tables *t, const struct rt_error *e);
/* What its fields say is a convolution of so many images that cuDNN may be asked for: sizes follow from each other, and nothing overflows. */
int rt_is_conv(const struct ym_conv *c, uint32_t images);
/* The row of a step, or NULL. */
const struct ym_engine *rt_engine_of(const struct rt_tables *t, uint32_t step);

/* Bytes of one image; of a checked io. */
uint64_t rt_io_bytes(const struct ym_io *io);
size_t rt_dtype_size(uint32_t dtype); /* 0: there is no such type */

static inline int rt_mask_has(const uint64_t mask[2], uint32_t i)
{
    return (int)(mask[i / 64] >> (i % 64) & 1);
}

static inline void rt_mask_set(uint64_t mask[2], uint32_t i)
{
    mask[i / 64] |= 1ull << (i % 64);
}

static inline int rt_mask_meets(const uint64_t a[2], const uint64_t b[2])
{
    return (a[0] & b[0]) != 0 || (a[1] & b[1]) != 0;
}

#endif
