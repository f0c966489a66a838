/*
 * A CUDA driver without a GPU, for YOLOC_LIBCUDA: device memory is the host's, and work is done when it is asked for. Kernels are
 * run when the environment's MOCKCUDA_KERNELS names a library of them (tests/cuda/host.h), else not at all.
 * Graphs: mockgraph.c. MOCKCUDA_DEVICES: compute capabilities, "90,86"; default "90". Failures: mockcuda_fail.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hostmap.h"
#include "mockcuda.h"

atomic_long live, works;
static atomic_long launches, blocks;
enum { GRANULE = 1 << 16 };
#define TOTAL ((size_t)1 << 30)
static _Atomic uint64_t reserved; /* addresses of the first device, TOTAL of them, as given out last */
static size_t cap = TOTAL;
static atomic_size_t backed;
static int no_virtual;
static _Thread_local int depth; /* of the stack of contexts */
static int foreign_ordinal;
static const void *foreign;

enum { MOST_FUNCTIONS = 16 }; /* of a module */

struct thing {
    struct function function[MOST_FUNCTIONS];
    int nfunction;
    long works; /* of an event: what libraries had done by then */
};

struct memory_kind { /* CUmemAllocationProp */
    int type, handles, where, id;
    void *windows;
    unsigned char flags[8];
};

struct access { /* CUmemAccessDesc */
    int where, id, flags;
};

API void mockcuda_fail(const char *name, int nth, int code);
API const char *mockcuda_failed(void); /* the function that did; NULL: none yet */
API long mockcuda_live(void);     /* things that were made and not given back: memory, contexts, modules, events, pushes */
API long mockcuda_launches(void);
API long mockcuda_blocks(void);                /* of all launches */
API void mockcuda_device_memory(const void *address, int ordinal); /* is told to lie on that device */
API void mockcuda_cap(size_t bytes);           /* device memory that mapped extents may take; 1 GiB at first */
API void mockcuda_virtual(int on);             /* whether addresses can be reserved; they can at first */

void mockcuda_fail(const char *name, int nth, int code)
{
    set_failure(name, nth, code);
}

const char *mockcuda_failed(void)
{
    return failed();
}

long mockcuda_live(void)
{
    return live + depth;
}

long mockcuda_launches(void)
{
    return launches;
}

long mockcuda_blocks(void)
{
    return blocks;
}

void mockcuda_device_memory(const void *address, int ordinal)
{
    foreign = address;
    foreign_ordinal = ordinal;
}

void mockcuda_cap(size_t bytes)
{
    cap = bytes;
}

void mockcuda_virtual(int on)
{
    no_virtual = !on;
}

int gives_back(const char *name)
{
    static const char *const word[] = {"Free", "Release", "Destroy", "Unload", "Unmap", "PopCurrent"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strstr(name, word[i])) return 1;
    return 0;
}

static int make(void **out)
{
    *out = calloc(1, sizeof(struct thing));
    live += *out != NULL;
    return *out ? 0 : OUT_OF_MEMORY;
}

int unmake(void *thing)
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
API int cuCtxSynchronize(void);
API int cuModuleLoadData(void **module, const void *image);
API int cuModuleUnload(void *module);
API int cuModuleGetFunction(void **function, void *module, const char *name);
API int cuFuncSetAttribute(void *function, int attribute, int value);
API int cuMemAlloc_v2(uint64_t *address, size_t bytes);
API int cuMemFree_v2(uint64_t address);
API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
API int cuMemcpy2DAsync_v2(const struct mock_rows *rows, void *stream);
API int cuMemGetInfo_v2(size_t *unused, size_t *total);
API int cuMemGetAllocationGranularity(size_t *bytes, const struct memory_kind *kind, int option);
API int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t where, unsigned long long flags);
API int cuMemAddressFree(uint64_t at, size_t bytes);
API int cuMemCreate(uint64_t *handle, size_t bytes, const struct memory_kind *kind, unsigned long long flags);
API int cuMemRelease(uint64_t handle);
API int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags);
API int cuMemUnmap(uint64_t at, size_t bytes);
API int cuMemSetAccess(uint64_t at, size_t bytes, const struct access *access, size_t n);
API int cuMemHostAlloc(void **address, size_t bytes, unsigned flags);
API int cuMemFreeHost(void *address);
API int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream);
API int cuPointerGetAttributes(unsigned n, const int *attribute, void **value, uint64_t address);
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                       void *stream, void **parameter, void **extra);
API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
API int cuStreamSynchronize(void *stream);
API int cuEventCreate(void **event, unsigned flags);
API int cuEventRecord(void *event, void *stream);
API int cuEventSynchronize(void *event);
API int cuEventElapsedTime(float *ms, void *from, void *to);
API int cuEventDestroy_v2(void *event);
API int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags);
API int cuStreamCreate(void **stream, unsigned flags);
API int cuStreamDestroy_v2(void *stream);
API int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dim, const uint64_t *stride,
                               const uint32_t *box, const uint32_t *each, int interleave, int swizzle, int promotion, int fill);
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
    if (attribute == 102) {
        *value = !no_virtual;
        return 0;
    }
    *value = attribute == 75 ? capability(device) / 10 : attribute == 76 ? capability(device) % 10 : 7;
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    ENTER("cuDeviceTotalMem_v2");
    *bytes = TOTAL;
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

int cuCtxSynchronize(void)
{
    ENTER("cuCtxSynchronize");
    return depth < 1 ? INVALID_CONTEXT : 0;
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

static void take(void *lib, const char *name, const char *suffix, void *fn)
{
    char entry[256];
    snprintf(entry, sizeof entry, "%s%s", name, suffix);
    void *p = lib ? dlsym(lib, entry) : NULL;
    memcpy(fn, &p, sizeof p);
}

/* Without a library of kernels a function does nothing. */
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER("cuModuleGetFunction");
    const char *path = getenv("MOCKCUDA_KERNELS");
    void *lib = path ? dlopen(path, RTLD_NOW) : NULL;
    struct thing *m = module;
    struct function *f = m->nfunction < MOST_FUNCTIONS ? &m->function[m->nfunction++] : NULL;
    if (!f) return OUT_OF_MEMORY;
    *function = f;
    if (!path) return 0;
    take(lib, name, "_run", &f->run);
    take(lib, name, "_size", &f->size);
    return f->run && f->size ? 0 : NOT_FOUND;
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

int cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    ENTER("cuMemGetInfo_v2");
    *total = TOTAL;
    *unused = cap > backed ? cap - backed : 0;
    return depth < 1 ? INVALID_CONTEXT : 0;
}

int cuMemGetAllocationGranularity(size_t *bytes, const struct memory_kind *kind, int option)
{
    ENTER("cuMemGetAllocationGranularity");
    *bytes = GRANULE;
    return kind->type != 1 || kind->where != 1 || option ? INVALID_VALUE : 0;
}

int cuMemAddressReserve(uint64_t *at, size_t bytes, size_t align, uint64_t where, unsigned long long flags)
{
    ENTER("cuMemAddressReserve");
    if (!bytes || bytes % GRANULE || align || where || flags) return INVALID_VALUE;
    void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    reserved = *at = (uint64_t)(uintptr_t)p;
    live += p != MAP_FAILED;
    return p == MAP_FAILED ? OUT_OF_MEMORY : 0;
}

int cuMemAddressFree(uint64_t at, size_t bytes)
{
    ENTER("cuMemAddressFree");
    live--;
    return munmap((void *)(uintptr_t)at, bytes) ? INVALID_VALUE : 0;
}

/* A handle is its size: that is all there is to know of memory that is not mapped yet. */
int cuMemCreate(uint64_t *handle, size_t bytes, const struct memory_kind *kind, unsigned long long flags)
{
    ENTER("cuMemCreate");
    if (!bytes || bytes % GRANULE || kind->type != 1 || kind->where != 1 || flags) return INVALID_VALUE;
    if (bytes > cap || backed > cap - bytes) return OUT_OF_MEMORY;
    backed += bytes;
    live++;
    *handle = bytes;
    return 0;
}

int cuMemRelease(uint64_t handle)
{
    ENTER("cuMemRelease");
    backed -= handle;
    live--;
    return 0;
}

int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
    ENTER("cuMemMap");
    if (at % GRANULE || bytes != handle || offset || flags) return INVALID_VALUE;
    live++;
    return 0;
}

int cuMemUnmap(uint64_t at, size_t bytes)
{
    ENTER("cuMemUnmap");
    void *p = (void *)(uintptr_t)at;
    live--;
    return madvise(p, bytes, MADV_DONTNEED) || mprotect(p, bytes, PROT_NONE) ? INVALID_VALUE : 0;
}

int cuMemSetAccess(uint64_t at, size_t bytes, const struct access *access, size_t n)
{
    ENTER("cuMemSetAccess");
    void *p = (void *)(uintptr_t)at;
    if (n != 1 || access->where != 1 || access->flags != 3 || mprotect(p, bytes, PROT_READ | PROT_WRITE)) return INVALID_VALUE;
    memset(p, 0xff, bytes);
    return 0;
}

int cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    ENTER("cuMemHostAlloc");
    if (depth < 1) return INVALID_CONTEXT;
    *address = bytes ? malloc(bytes) : NULL;
    live += *address != NULL;
    return !*address ? OUT_OF_MEMORY : flags > 1 ? INVALID_VALUE : 0;
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

/* Of what is no device memory it tells nothing. */
int cuPointerGetAttributes(unsigned n, const int *attribute, void **value, uint64_t address)
{
    ENTER("cuPointerGetAttributes");
    uint64_t first = reserved;
    int pooled = address >= first && address < first + TOTAL;
    int known = pooled || (const void *)(uintptr_t)address == foreign, ordinal = pooled ? 0 : foreign_ordinal;
    for (unsigned i = 0; i < n; i++) {
        if (attribute[i] != 2 && attribute[i] != 9) return INVALID_VALUE;
        *(int *)value[i] = !known ? 0 : attribute[i] == 2 ? 2 : ordinal;
    }
    return 0;
}

int launch(const struct kernel *k)
{
    launches++;
    blocks += k->grid[0];
    if (k->grid[1] != 1 || k->grid[2] != 1 || k->block[1] != 1 || k->block[2] != 1 || k->shared > 227 << 10 || k->extra) return INVALID_VALUE;
    if (k->function->run) k->function->run(k->grid[0], k->block[0], k->parameter);
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **parameter, void **extra)
{
    ENTER("cuLaunchKernel");
    (void)stream;
    const struct kernel k = {function, {gx, gy, gz}, {bx, by, bz}, shared, parameter, extra};
    return launch(&k);
}

/* Work is done when it is asked for, so there is nothing to hold. */
int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    ENTER("cuStreamWaitValue32_v2");
    (void)stream;
    return address && value == 1 && flags == 1 ? 0 : INVALID_VALUE;
}

/* What the driver refuses, and a form that tests/cuda/host.h reads. */
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dim, const uint64_t *stride,
                           const uint32_t *box, const uint32_t *each, int interleave, int swizzle, int promotion, int fill)
{
    ENTER("cuTensorMapEncodeTiled");
    struct host_map m = {.address = address, .rank = rank, .swizzle = (uint32_t)swizzle, .size = 1u << type};
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 3 || rank > 5 || type > 2 || interleave || fill) return INVALID_VALUE;
    if (swizzle < 1 || swizzle > 3 || promotion != 3 || box[0] << type != 16u << swizzle) return INVALID_VALUE;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dim[i] || dim[i] > UINT32_MAX || !box[i] || box[i] > 256 || each[i] != 1) return INVALID_VALUE;
        if (i && (stride[i - 1] % 16 || stride[i - 1] >> 40)) return INVALID_VALUE;
        m.dim[i] = (uint32_t)dim[i];
        m.box[i] = (uint16_t)box[i];
        if (i) m.stride[i - 1] = stride[i - 1];
    }
    memcpy(map, &m, sizeof m);
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    ENTER("cuStreamCreate");
    return depth < 1 ? INVALID_CONTEXT : flags != 1 ? INVALID_VALUE : make(stream);
}

int cuStreamDestroy_v2(void *stream)
{
    ENTER("cuStreamDestroy_v2");
    return unmake(stream);
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
    if (event) ((struct thing *)event)->works = works;
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
    if (!from || !to) return INVALID_VALUE;
    *ms = ((const struct thing *)to)->works > ((const struct thing *)from)->works ? 0.25f : 0.5f; /* libraries are faster */
    return 0;
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
