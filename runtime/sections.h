/* The outside of a module file: header, digest, and where each section lies. */
#ifndef RT_SECTIONS_H
#define RT_SECTIONS_H

#include "module.h"
#include "status.h"
#include "yolort.h"

struct rt_span {
    const uint8_t *data; /* NULL: there is no such section; else 64-byte aligned when the file is */
    size_t size;
};

struct rt_sections {
    const struct ym_header *header;
    const struct ym_section *row;
    const yolort_load_opts *limits; /* only while it is opened, as is */
    const uint8_t *digest;          /* of these bytes, when it was taken while they were read; else NULL */
};

/* s->limits is set; bytes: 64-byte aligned. Nothing but the header is looked at before the digest has been found right. */
yolort_status rt_sections_open(struct rt_sections *s, const uint8_t *bytes, uint64_t size,
                               const struct rt_error *e);
struct rt_span rt_section(const struct rt_sections *s, uint32_t kind, uint32_t index);

/* Whether CODE says of the function at k->offset, which is 64-byte aligned and has room before it, what its row and its
 * parameters say. */
int rt_is_sealed(const uint8_t *code, const struct ym_kernel *k, const struct ym_param *p, const struct ym_map *m);

/* "STEP", for error texts. */
const char *rt_section_name(uint32_t kind);

#endif
