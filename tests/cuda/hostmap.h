/* What the mock driver makes of a map for tensor copies, 128 bytes like the driver's form. */
#ifndef HOST_MAP_H
#define HOST_MAP_H

#include <stdint.h>

struct host_map {
    void *address;
    uint64_t stride[4]; /* bytes, of dimension 1 on */
    uint32_t dim[5];
    uint32_t rank, swizzle, size; /* size: bytes of an element */
    uint16_t box[5], pad[23];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct host_map) == 128, "a map's size");
#endif

#endif
