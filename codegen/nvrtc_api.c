#include "nvrtc_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Newest first; then where the toolkit's own installer puts it without telling the dynamic linker. */
static const char *const sonames[] = {
    "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12",
};

static const struct nvrtc_fn {
    const char *name;
    size_t at; /* of the pointer in struct nvrtc_api */
} fns[] = {
#define NVRTC(name, args) {"nvrtc" #name, offsetof(struct nvrtc_api, name)},
#include "nvrtc.def"
#undef NVRTC
    {"nvrtcGetErrorString", offsetof(struct nvrtc_api, error_string)},
};

enum { OLDEST = 12, HOW = RTLD_NOW | RTLD_LOCAL };

static void *open_library(struct yir_diags *d)
{
    const char *given = getenv("YOLOC_LIBNVRTC");
    if (given && *given) {
        void *lib = dlopen(given, HOW);
        if (!lib) yir_diag(d, (struct yir_loc){0}, E_NVRTC, "cannot load YOLOC_LIBNVRTC: %s", dlerror());
        return lib;
    }
    for (size_t i = 0; i < YIR_COUNT(sonames); i++) {
        void *lib = dlopen(sonames[i], HOW);
        if (lib) return lib;
    }
    yir_diag(d, (struct yir_loc){0}, E_NVRTC, "no NVRTC found (%s and others were tried); set YOLOC_LIBNVRTC to the path of one",
             sonames[0]);
    return NULL;
}

int nvrtc_load(struct yir_diags *d, struct nvrtc_api *out)
{
    void *lib = open_library(d);
    if (!lib) return -1;
    for (size_t i = 0; i < YIR_COUNT(fns); i++) {
        void *p = dlsym(lib, fns[i].name);
        if (!p) return yir_diag(d, (struct yir_loc){0}, E_NVRTC, "NVRTC lacks %s", fns[i].name);
        memcpy((char *)out + fns[i].at, &p, sizeof p); /* ISO C has no conversion between object and function pointers */
    }
    if (out->Version(&out->version[0], &out->version[1]))
        return yir_diag(d, (struct yir_loc){0}, E_NVRTC, "NVRTC does not tell its version");
    if (out->version[0] < OLDEST)
        return yir_diag(d, (struct yir_loc){0}, E_NVRTC, "NVRTC %d.%d is too old; %d or newer is needed", out->version[0],
                        out->version[1], OLDEST);
    return 0;
}
