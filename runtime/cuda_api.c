#include "cuda_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const struct cuda_fn {
    const char *symbol;
    size_t at; /* of the pointer in struct cuda_api */
    int needed;
} fns[] = {
#define CUDA(name, symbol, args) {symbol, offsetof(struct cuda_api, name), 1},
#define CUDA_MAYBE(name, symbol, args) {symbol, offsetof(struct cuda_api, name), 0},
#include "cuda.def"
#undef CUDA_MAYBE
#undef CUDA
};

/* Numbers are those of the driver's interface, which never change. */
static const struct failure {
    int error;
    yolort_status status;
    int fatal;
} failures[] = {
    {1, YOLORT_ARG, 0},            /* INVALID_VALUE */
    {2, YOLORT_OOM_DEVICE, 0},     /* OUT_OF_MEMORY */
    {3, YOLORT_NO_DEVICE, 0},      /* NOT_INITIALIZED */
    {4, YOLORT_DEVICE_LOST, 1},    /* DEINITIALIZED */
    {34, YOLORT_NO_DEVICE, 0},     /* STUB_LIBRARY */
    {46, YOLORT_NO_DEVICE, 0},     /* DEVICE_UNAVAILABLE */
    {100, YOLORT_NO_DEVICE, 0},    /* NO_DEVICE */
    {101, YOLORT_NO_DEVICE, 0},    /* INVALID_DEVICE */
    {200, YOLORT_FORMAT, 0},       /* INVALID_IMAGE */
    {201, YOLORT_ARG, 0},          /* INVALID_CONTEXT */
    {209, YOLORT_INCOMPATIBLE, 0}, /* NO_BINARY_FOR_GPU */
    {214, YOLORT_DEVICE_LOST, 1},  /* ECC_UNCORRECTABLE */
    {218, YOLORT_INCOMPATIBLE, 0}, /* INVALID_PTX */
    {220, YOLORT_DEVICE_LOST, 1},  /* NVLINK_UNCORRECTABLE */
    {222, YOLORT_INCOMPATIBLE, 0}, /* UNSUPPORTED_PTX_VERSION */
    {226, YOLORT_DEVICE_LOST, 1},  /* CONTAINED */
    {304, YOLORT_OOM_HOST, 0},     /* OPERATING_SYSTEM */
    {400, YOLORT_ARG, 0},          /* INVALID_HANDLE */
    {500, YOLORT_FORMAT, 0},       /* NOT_FOUND: the cubin has not the function */
    {700, YOLORT_DEVICE_LOST, 1},  /* ILLEGAL_ADDRESS */
    {701, YOLORT_OOM_DEVICE, 0},   /* LAUNCH_OUT_OF_RESOURCES */
    {702, YOLORT_DEVICE_LOST, 1},  /* LAUNCH_TIMEOUT */
    {709, YOLORT_DEVICE_LOST, 1},  /* CONTEXT_IS_DESTROYED */
    {714, YOLORT_DEVICE_LOST, 1},  /* HARDWARE_STACK_ERROR */
    {715, YOLORT_DEVICE_LOST, 1},  /* ILLEGAL_INSTRUCTION */
    {716, YOLORT_DEVICE_LOST, 1},  /* MISALIGNED_ADDRESS */
    {717, YOLORT_DEVICE_LOST, 1},  /* INVALID_ADDRESS_SPACE */
    {718, YOLORT_DEVICE_LOST, 1},  /* INVALID_PC */
    {719, YOLORT_DEVICE_LOST, 1},  /* LAUNCH_FAILED */
    {802, YOLORT_NO_DEVICE, 0},    /* SYSTEM_NOT_READY */
    {803, YOLORT_INCOMPATIBLE, 0}, /* SYSTEM_DRIVER_MISMATCH */
    {804, YOLORT_INCOMPATIBLE, 0}, /* COMPAT_NOT_SUPPORTED_ON_DEVICE */
    {900, YOLORT_ARG, 0},          /* STREAM_CAPTURE_UNSUPPORTED, and what else is wrong beside a stream that the caller captures */
    {901, YOLORT_ARG, 0},
    {902, YOLORT_ARG, 0},
    {903, YOLORT_ARG, 0},
    {904, YOLORT_ARG, 0},
    {905, YOLORT_ARG, 0},
    {906, YOLORT_ARG, 0},
    {907, YOLORT_ARG, 0},
    {908, YOLORT_ARG, 0},
    {999, YOLORT_DEVICE_LOST, 1},  /* UNKNOWN */
};

static const struct failure *find(int error)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (failures[i].error == error) return &failures[i];
    return NULL;
}

int rt_cuda_is_fatal(int error)
{
    const struct failure *f = find(error);
    return f && f->fatal;
}

yolort_status rt_cuda_status(const struct cuda_api *api, int error, const char *what, const struct rt_error *e)
{
    const struct failure *f = find(error);
    const char *name = NULL;
    if (!error) return YOLORT_OK;
    if (api->error_name(error, &name)) name = NULL;
    return rt_fail(e, f ? f->status : YOLORT_UNSUPPORTED, "%s: the CUDA driver says %s (%d)", what, name ? name : "an unknown error",
                   error);
}

yolort_status rt_cuda_check(const struct cuda_api *api, atomic_int *lost, int error, const char *what, const struct rt_error *e)
{
    if (error && lost && rt_cuda_is_fatal(error)) atomic_store(lost, error);
    return rt_cuda_status(api, error, what, e);
}

static void *open_library(const struct rt_error *e)
{
    const char *given = getenv("YOLOC_LIBCUDA");
    const char *name = given && *given ? given : "libcuda.so.1";
    void *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!lib) rt_fail(e, YOLORT_NO_DEVICE, "no CUDA driver (%s can't be loaded)", name);
    return lib;
}

yolort_status rt_cuda_load(struct cuda_api *out, const struct rt_error *e)
{
    void *lib = open_library(e);
    if (!lib) return YOLORT_NO_DEVICE;
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        void *p = dlsym(lib, fns[i].symbol);
        if (!p && fns[i].needed) return rt_fail(e, YOLORT_NO_DEVICE, "the CUDA driver is too old: it lacks %s", fns[i].symbol);
        memcpy((char *)out + fns[i].at, &p, sizeof p); /* ISO C has no conversion between object and function pointers */
    }
    return rt_cuda_status(out, out->init(0), "start", e);
}

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* of cuDeviceGetAttribute */

yolort_status rt_cuda_capability(const struct cuda_api *api, int device, int *out, const struct rt_error *e)
{
    int major = 0, minor = 0;
    RT_TRY(rt_cuda_status(api, api->device_attribute(&major, CAPABILITY_MAJOR, device), "device", e));
    RT_TRY(rt_cuda_status(api, api->device_attribute(&minor, CAPABILITY_MINOR, device), "device", e));
    *out = 10 * major + minor;
    return YOLORT_OK;
}

int rt_cuda_arch_fits(const char *arch, int capability)
{
    char *end;
    if (strncmp(arch, "sm_", 3) || arch[3] < '0' || arch[3] > '9') return 0;
    long made_for = strtol(arch + 3, &end, 10);
    if (!strcmp(end, "a")) return made_for == capability;
    return !*end && made_for / 10 == capability / 10 && made_for <= capability;
}
