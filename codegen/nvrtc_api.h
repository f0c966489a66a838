/* NVRTC, loaded at run time: nothing links against it, and a machine without it can do all but compile for GPUs. */
#ifndef NVRTC_API_H
#define NVRTC_API_H

#include "ir/diag.h"

typedef struct nvrtc_program_s *nvrtc_program;

struct nvrtc_api {
#define NVRTC(name, args) int(*name) args;
#include "nvrtc.def"
#undef NVRTC
    const char *(*error_string)(int error);
    int version[2]; /* major, minor */
};

/* The library named by YOLOC_LIBNVRTC, else the usual names. -1 after reporting E_NVRTC. It stays loaded until the process
 * ends. */
int nvrtc_load(struct yir_diags *d, struct nvrtc_api *out);

#endif
