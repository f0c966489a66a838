#include "cudnn_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 90000, NEWEST = 99999 }; /* the interface of version 9 */

/* Then where the toolkit's own installer puts it without telling the dynamic linker. */
static const char *const sonames[] = {"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", "/usr/local/cuda/lib/libcudnn.so.9"};

static const struct cudnn_fn {
    const char *symbol;
    size_t at; /* of the pointer in struct cudnn_api */
} fns[] = {
#define CUDNN(name, symbol, args) {symbol, offsetof(struct cudnn_api, name)},
#include "cudnn.def"
#undef CUDNN
    {"cudnnGetErrorString", offsetof(struct cudnn_api, error_string)},
};

static void *open_library(const struct rt_error *e)
{
    const char *given = getenv("YOLOC_LIBCUDNN");
    if (given && *given) {
        void *lib = dlopen(given, RTLD_NOW | RTLD_LOCAL);
        if (!lib) rt_fail(e, YOLORT_NO_DEVICE, "no cuDNN (%s can't be loaded)", given);
        return lib;
    }
    for (size_t i = 0; i < sizeof sonames / sizeof *sonames; i++) {
        void *lib = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL);
        if (lib) return lib;
    }
    rt_fail(e, YOLORT_NO_DEVICE, "no cuDNN (%s can't be loaded)", sonames[0]);
    return NULL;
}

yolort_status rt_cudnn_load(struct cudnn_api *out, const struct rt_error *e)
{
    size_t (*version)(void);
    void *lib = open_library(e);
    if (!lib) return YOLORT_NO_DEVICE;
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        void *p = dlsym(lib, fns[i].symbol);
        if (!p) return rt_fail(e, YOLORT_NO_DEVICE, "this cuDNN lacks %s", fns[i].symbol);
        memcpy((char *)out + fns[i].at, &p, sizeof p); /* ISO C has no conversion between object and function pointers */
    }
    void *p = dlsym(lib, "cudnnGetVersion");
    memcpy(&version, &p, sizeof p);
    out->version = p ? version() : 0;
    if (out->version < OLDEST || out->version > NEWEST)
        return rt_fail(e, YOLORT_NO_DEVICE, "cuDNN has version number %zu, 9 is needed", out->version);
    return YOLORT_OK;
}

/* By hundreds of the number; what is wrong with the device shows at the driver's next call. */
static yolort_status kind_of(int error)
{
    enum { HOST_MEMORY = 4003, DEVICE_MEMORY = 4004 };
    if (error == HOST_MEMORY) return YOLORT_OOM_HOST;
    return error == DEVICE_MEMORY ? YOLORT_OOM_DEVICE : YOLORT_UNSUPPORTED;
}

yolort_status rt_cudnn_status(const struct cudnn_api *api, int error, const char *what, const struct rt_error *e)
{
    if (!error) return YOLORT_OK;
    const char *name = api->error_string(error);
    return rt_fail(e, kind_of(error), "%s: cuDNN says %s (%d)", what, name ? name : "an unknown error", error);
}
