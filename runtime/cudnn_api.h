/* cuDNN 9, loaded at run time: nothing links against it, and a machine without it runs the modules that name its engines with
 * their own kernels. Types and numbers are those of cudnn_graph.h of cuDNN 9, whose interface keeps them. */
#ifndef RT_CUDNN_API_H
#define RT_CUDNN_API_H

#include "status.h"

struct cudnn_api {
#define CUDNN(name, symbol, args) int(*name) args;
#include "cudnn.def"
#undef CUDNN
    const char *(*error_string)(int error);
    size_t version; /* 10000 * major + 100 * minor + patch */
};

/* Loads libcudnn.so.9, or the file that YOLOC_LIBCUDNN names. NO_DEVICE when there is none or it is too old; it stays loaded until
 * the process ends. No CUDA context is needed, and none is made. */
yolort_status rt_cudnn_load(struct cudnn_api *out, const struct rt_error *e);

/* The status for an error number of cuDNN, with a text "what: cuDNN says ..."; 0 is OK. */
yolort_status rt_cudnn_status(const struct cudnn_api *api, int error, const char *what, const struct rt_error *e);

#endif
