/* Tensors that libraries hand to each other in memory: the structs of DLPack 0.x, by its specification. */
#ifndef RT_DLPACK_H
#define RT_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };                     /* device types */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 }; /* codes of element types */

struct dl_device {
    int32_t type, id;
};

struct dl_type {
    uint8_t code, bits;
    uint16_t lanes;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t rank;
    struct dl_type type;
    int64_t *shape, *strides; /* in elements; strides NULL: dense */
    uint64_t byte_offset;
};

struct DLManagedTensor {
    struct dl_tensor tensor;
    void *user;
    void (*deleter)(struct DLManagedTensor *self); /* NULL: nothing is to be done */
};

#endif
