/* Kernels around the network that a CUDA program brings along (service.cu), for programs that take pictures of bytes. */
#ifndef CG_SERVICE_H
#define CG_SERVICE_H

#include "ir/ir.h"

/* CUDA C, terminated; the functions that runtime/service.h names. */
const char *cg_service_text(size_t *size);

bool cg_takes_pictures(const struct yir_func *f);

#endif
