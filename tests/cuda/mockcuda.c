/*
 * A CUDA driver without a GPU, for YOLOC_LIBCUDA: device memory is the host's, and work is done when it is asked for. Kernels are
 * run when the environment's MOCKCUDA_KERNELS names a library of them (tests/cuda/host.h), else not at all.
 * MOCKCUDA_DEVICES: compute capabilities, "90,86"; default "90". Failures: mockcuda_fail.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

static struct {
    char name[64];
    int nth, code;
} failure;
static long live, launches;
static int depth; /* of the stack of contexts */
static int foreign_ordinal;
static const void *foreign;

struct thing {
    int kind;
};

/* The nth call from now on of a function gives code. nth 0: none. */
API void mockcuda_fail(const char *name, int nth, int code);
API long mockcuda_live(void);     /* things that were made and not given back: memory, contexts, modules, events, pushes */
API long mockcuda_launches(void);
API void mockcuda_device_memory(const void *address, int ordinal); /* is told to lie on that device */

void mockcuda_fail(const char *name, int nth, int code)
{
    snprintf(failure.name, sizeof failure.name, "%s", name);
    failure.nth = nth;
    failure.code = code;
}

long mockcuda_live(void)
{
    return live + depth;
}

long mockcuda_launches(void)
{
    return launches;
}

void mockcuda_device_memory(const void *address, int ordinal)
{
    foreign = address;
    foreign_ordinal = ordinal;
}

static int fails(const char *name)
{
    if (failure.nth <= 0 || strcmp(failure.name, name) || --failure.nth) return 0;
    return failure.code;
}

#define ENTER(name)                                                                                          \
    do {                                                                                                     \
        int code_ = fails(name);                                                                             \
        if (code_) return code_;                                                                             \
    } while (0)

static int make(void **out)
{
    *out = calloc(1, sizeof(struct thing));
    live += *out != NULL;
    return *out ? 0 : OUT_OF_MEMORY;
}

static int unmake(void *thing)
{
    free(thing);
    live--;
    return 0;
}

/* Capability of a device, or 0 behind the last. */
static int capability(int device)
{
    const char *list = getenv("MOCKCUDA_DEVICES");
    if (!list) list = "90";
    for (; *list && device; device--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return atoi(list);
}

struct mock_side { /* of CUDA_MEMCPY2D */
    size_t x, y;
    int kind;
    const void *host;
    uint64_t device;
    void *array;
    size_t pitch;
};

struct mock_rows {
    struct mock_side from, to;
    size_t row_bytes, rows;
};

API int cuInit(unsigned flags);
API int cuDriverGetVersion(int *version);
API int cuDeviceGetCount(int *count);
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGetName(char *name, int size, int device);
API int cuDeviceGetAttribute(int *value, int attribute, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDevicePrimaryCtxRetain(void **context, int device);
API int cuDevicePrimaryCtxRelease_v2(int device);
API int cuCtxPushCurrent_v2(void *context);
API int cuCtxPopCurrent_v2(void **context);
API int cuModuleLoadData(void **module, const void *image);
API int cuModuleUnload(void *module);
API int cuModuleGetFunction(void **function, void *module, const char *name);
API int cuFuncSetAttribute(void *function, int attribute, int value);
API int cuMemAlloc_v2(uint64_t *address, size_t bytes);
API int cuMemFree_v2(uint64_t address);
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
API int cuMemcpy2DAsync_v2(const struct mock_rows *rows, void *stream);
API int cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
API int cuMemFreeHost(void *address);
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream);
API int cuPointerGetAttribute(void *value, int attribute, uint64_t address);
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       void *stream, void **parameter, void **extra);
API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
API int cuStreamSynchronize(void *stream);
API int cuEventCreate(void **event, unsigned flags);
API int cuEventRecord(void *event, void *stream);
API int cuEventSynchronize(void *event);
API int cuEventElapsedTime(float *ms, void *from, void *to);
API int cuEventDestroy_v2(void *event);
API int cuGetErrorName(int error, const char **name);

int cuInit(unsigned flags)
{
    ENTER("cuInit");
    return flags ? INVALID_VALUE : 0;
}

int cuDriverGetVersion(int *version)
{
    ENTER("cuDriverGetVersion");
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    ENTER("cuDeviceGetCount");
    for (*count = 0; capability(*count); ++*count)
        ;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    ENTER("cuDeviceGet");
    *device = ordinal;
    return ordinal >= 0 && capability(ordinal) ? 0 : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int size, int device)
{
    ENTER("cuDeviceGetName");
    snprintf(name, (size_t)size, "mock \"%d\"", device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    ENTER("cuDeviceGetAttribute");
    *value = attribute == 75 ? capability(device) / 10 : attribute == 76 ? capability(device) % 10 : 7;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    ENTER("cuDeviceTotalMem_v2");
    *bytes = (size_t)1 << 30;
    return device < 0 ? INVALID_DEVICE : 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    static struct thing contexts[16];
    ENTER("cuDevicePrimaryCtxRetain");
    *context = &contexts[device & 15];
    live++;
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER("cuDevicePrimaryCtxRelease_v2");
    live--;
    return device < 0 ? INVALID_DEVICE : 0;
}

int cuCtxPushCurrent_v2(void *context)
{
    ENTER("cuCtxPushCurrent_v2");
    depth++;
    return context ? 0 : INVALID_CONTEXT;
}

int cuCtxPopCurrent_v2(void **context)
{
    ENTER("cuCtxPopCurrent_v2");
    depth--;
    *context = NULL;
    return depth < 0 ? INVALID_CONTEXT : 0;
}

int cuModuleLoadData(void **module, const void *image)
{
    ENTER("cuModuleLoadData");
    if (depth < 1) return INVALID_CONTEXT;
    return image ? make(module) : INVALID_VALUE;
}

int cuModuleUnload(void *module)
{
    ENTER("cuModuleUnload");
    return unmake(module);
}

/* Without a library of kernels, a function is its module, and does nothing. */
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER("cuModuleGetFunction");
    const char *path = getenv("MOCKCUDA_KERNELS");
    void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
    char entry[256];
    *function = module;
    if (!path) return 0;
    snprintf(entry, sizeof entry, "%s_run", name);
    *function = lib ? dlsym(lib, entry) : NULL;
    return *function ? 0 : NOT_FOUND;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    ENTER("cuFuncSetAttribute");
    return function && attribute == 8 && value > 0 ? 0 : INVALID_VALUE;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    ENTER("cuMemAlloc_v2");
    if (depth < 1) return INVALID_CONTEXT;
    void *p = bytes ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (!p) return bytes ? OUT_OF_MEMORY : INVALID_VALUE;
    memset(p, 0xff, bytes);
    *address = (uint64_t)(uintptr_t)p;
    live++;
    return 0;
}

int cuMemFree_v2(uint64_t address)
{
    ENTER("cuMemFree_v2");
    return unmake((void *)(uintptr_t)address);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    ENTER("cuMemcpyHtoDAsync_v2");
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    ENTER("cuMemcpyDtoHAsync_v2");
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

/* From the host to the device. */
int cuMemcpy2DAsync_v2(const struct mock_rows *r, void *stream)
{
    ENTER("cuMemcpy2DAsync_v2");
    (void)stream;
    if (r->from.kind != 1 || r->to.kind != 2 || r->from.pitch < r->row_bytes || r->to.pitch < r->row_bytes) return INVALID_VALUE;
    for (size_t y = 0; y < r->rows; y++)
        memcpy((char *)(uintptr_t)r->to.device + y * r->to.pitch, (const char *)r->from.host + y * r->from.pitch, r->row_bytes);
    return 0;
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    ENTER("cuMemHostAlloc");
    if (depth < 1) return INVALID_CONTEXT;
    *address = bytes ? malloc(bytes) : NULL;
    live += *address != NULL;
    return !*address ? OUT_OF_MEMORY : flags ? INVALID_VALUE : 0;
}

int cuMemFreeHost(void *address)
{
    ENTER("cuMemFreeHost");
    return unmake(address);
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream)
{
    ENTER("cuMemsetD8Async");
    (void)stream;
    memset((void *)(uintptr_t)to, value, bytes);
    return 0;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    ENTER("cuPointerGetAttribute");
    if ((const void *)(uintptr_t)address != foreign) return INVALID_VALUE;
    if (attribute == 2) *(unsigned *)value = 2;
    if (attribute == 9) *(int *)value = foreign_ordinal;
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameter, void **extra)
{
    ENTER("cuLaunchKernel");
    void (*run)(unsigned blocks, unsigned threads, void **parameter);
    launches++;
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared > 227 << 10 || extra) return INVALID_VALUE;
    (void)stream;
    if (!getenv("MOCKCUDA_KERNELS")) return 0;
    memcpy(&run, &function, sizeof run);
    run(gx, bx, parameter);
    return 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    ENTER("cuStreamWaitEvent");
    (void)stream, (void)flags;
    return event ? 0 : INVALID_VALUE;
}

int cuStreamSynchronize(void *stream)
{
    ENTER("cuStreamSynchronize");
    (void)stream;
    return 0;
}

int cuEventCreate(void **event, unsigned flags)
{
    ENTER("cuEventCreate");
    (void)flags;
    return make(event);
}

int cuEventRecord(void *event, void *stream)
{
    ENTER("cuEventRecord");
    (void)stream;
    return event ? 0 : INVALID_VALUE;
}

int cuEventSynchronize(void *event)
{
    ENTER("cuEventSynchronize");
    return event ? 0 : INVALID_VALUE;
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    ENTER("cuEventElapsedTime");
    *ms = 0.5f;
    return from && to ? 0 : INVALID_VALUE;
}

int cuEventDestroy_v2(void *event)
{
    ENTER("cuEventDestroy_v2");
    return unmake(event);
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OF_THE_MOCK";
    return 0;
}
