/*
 * A CUDA driver without a GPU, for YOLOC_LIBCUDA: device memory is the host's, and work is done when it is asked for. Kernels are
 * run when the environment's MOCKCUDA_KERNELS names a library of them (tests/cuda/host.h), else not at all.
 * MOCKCUDA_DEVICES: compute capabilities, "90,86"; default "90". Failures: mockcuda_fail.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hostmap.h"
#include "mockfail.h"

#define API __attribute__((visibility("default")))

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_FOUND = 500 };

static atomic_long works; /* of libraries */
static atomic_long live, launches, blocks, played, changed, programmatic;
enum { GRANULE = 1 << 16 };
#define TOTAL ((size_t)1 << 30)
static _Atomic uint64_t reserved; /* addresses of the first device, TOTAL of them, as given out last */
static size_t cap = TOTAL;
static atomic_size_t backed;
static int no_virtual;
static _Thread_local int depth; /* of the stack of contexts */
static int foreign_ordinal;
static const void *foreign;
static const void *captured;

/* A kernel: NULL, NULL without a library of them. size: bytes of parameter i, 0 behind the last. */
struct function {
    void (*run)(unsigned blocks, unsigned threads, void **parameter);
    size_t (*size)(unsigned i);
};

enum { MOST_FUNCTIONS = 16 }; /* of a module */

struct thing {
    struct function function[MOST_FUNCTIONS];
    int nfunction;
    long works; /* of an event: what libraries had done by then */
};

enum { MOST_PARAMETERS = 80, MOST_NODES = 1024 };

struct kernel { /* CUDA_KERNEL_NODE_PARAMS_v1 */
    struct function *function;
    unsigned grid[3], block[3], shared;
    void **parameter, **extra;
};

/* What a library put on a stream that is captured: a function and its argument, copied. */
struct work {
    void (*run)(const void *argument);
    void *argument;
    size_t size;
};

struct graph;
struct node {
    unsigned index;
    struct kernel kernel;
    void *parameter[MOST_PARAMETERS]; /* copies */
    struct work work;    /* run NULL: none */
    struct graph *child; /* own; NULL: none */
};

/* Also what is made of it, which has nodes of its own. */
struct graph {
    struct node *node[MOST_NODES];
    unsigned n;
    unsigned char after[MOST_NODES][MOST_NODES / 8]; /* bit j of row i: node i waits for node j */
};

struct memory_kind { /* CUmemAllocationProp */
    int type, handles, where, id;
    void *windows;
    unsigned char flags[8];
};

struct access { /* CUmemAccessDesc */
    int where, id, flags;
};

struct edge { /* CUgraphEdgeData */
    unsigned char from_port, to_port, type, reserved[5];
};

API void mockcuda_fail(const char *name, int nth, int code);
API const char *mockcuda_failed(void); /* the function that did; NULL: none yet */
API long mockcuda_live(void);     /* things that were made and not given back: memory, contexts, modules, events, pushes */
API long mockcuda_launches(void);
API long mockcuda_blocks(void);                /* of all launches */
API void mockcuda_device_memory(const void *address, int ordinal); /* is told to lie on that device */
API void mockcuda_capture(const void *stream); /* is being captured; NULL: none */
API long mockcuda_played(void);                /* launches of graphs */
API long mockcuda_changed(void);               /* changes of graphs' nodes */
API void mockcuda_cap(size_t bytes);           /* device memory that mapped extents may take; 1 GiB at first */
API void mockcuda_virtual(int on);             /* whether addresses can be reserved; they can at first */
API long mockcuda_programmatic(void);          /* edges of that kind */
/* For a library that works on streams: runs it now, or keeps it for the graph while the stream is captured. */
API void mockcuda_work(void *stream, void (*run)(const void *argument), const void *argument, size_t size);

void mockcuda_fail(const char *name, int nth, int code)
{
    set_failure(name, nth, code);
}

const char *mockcuda_failed(void)
{
    return failure.at;
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

void mockcuda_capture(const void *stream)
{
    captured = stream;
}

long mockcuda_played(void)
{
    return played;
}

long mockcuda_changed(void)
{
    return changed;
}

long mockcuda_programmatic(void)
{
    return programmatic;
}

static int gives_back(const char *name)
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
API int cuStreamIsCapturing(void *stream, int *status);
API int cuStreamCreate(void **stream, unsigned flags);
API int cuStreamDestroy_v2(void *stream);
API int cuStreamBeginCapture_v2(void *stream, int mode);
API int cuStreamEndCapture(void *stream, void **graph);
API int cuGraphAddChildGraphNode(void **node, void *graph, void *const *before, size_t n, void *child);
API int cuGraphCreate(void **graph, unsigned flags);
API int cuGraphAddKernelNode(void **node, void *graph, void *const *before, size_t n, const struct kernel *k);
API int cuGraphAddDependencies(void *graph, void *const *from, void *const *to, size_t n);
API int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const struct edge *as, size_t n);
API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
API int cuGraphExecKernelNodeSetParams(void *exec, void *node, const struct kernel *k);
API int cuGraphLaunch(void *exec, void *stream);
API int cuGraphExecDestroy(void *exec);
API int cuGraphDestroy(void *graph);
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

static int launch(const struct kernel *k)
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

int cuStreamIsCapturing(void *stream, int *status)
{
    ENTER("cuStreamIsCapturing");
    *status = stream && stream == captured;
    return 0;
}

static struct graph *new_graph(void)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g) abort();
    live++;
    return g;
}

int cuGraphCreate(void **graph, unsigned flags)
{
    ENTER("cuGraphCreate");
    *graph = flags ? NULL : new_graph();
    return flags ? INVALID_VALUE : 0;
}

static void free_parameters(struct node *n)
{
    for (unsigned i = 0; i < MOST_PARAMETERS; i++) free(n->parameter[i]);
    memset(n->parameter, 0, sizeof n->parameter);
}

/* The node's own copies of the parameters, as the driver takes them when it is told. */
static void tell(struct node *n, const struct kernel *k)
{
    free_parameters(n);
    n->kernel = *k;
    n->kernel.parameter = n->parameter;
    for (unsigned i = 0; k->function->size && k->function->size(i); i++) {
        n->parameter[i] = malloc(k->function->size(i));
        if (!n->parameter[i]) abort();
        memcpy(n->parameter[i], k->parameter[i], k->function->size(i));
    }
}

static struct node *new_node(struct graph *g)
{
    struct node *n = g->n < MOST_NODES ? calloc(1, sizeof *n) : NULL;
    if (!n) return NULL;
    n->index = g->n;
    return g->node[g->n++] = n;
}

static struct node *add_node(struct graph *g, const struct kernel *k)
{
    struct node *n = new_node(g);
    if (n) tell(n, k);
    return n;
}

static void set_work(struct node *n, const struct work *w)
{
    n->work = *w;
    n->work.argument = malloc(w->size);
    if (!n->work.argument) abort();
    memcpy(n->work.argument, w->argument, w->size);
}

static struct graph *copy_graph(const struct graph *from);
static int free_graph(struct graph *g);

static void copy_node(struct graph *g, const struct node *from)
{
    struct node *n = from->kernel.function ? add_node(g, &from->kernel) : new_node(g);
    if (!n) abort();
    if (from->work.run) set_work(n, &from->work);
    if (from->child) n->child = copy_graph(from->child);
}

static struct graph *copy_graph(const struct graph *from)
{
    struct graph *g = new_graph();
    memcpy(g->after, from->after, sizeof g->after);
    for (unsigned i = 0; i < from->n; i++) copy_node(g, from->node[i]);
    return g;
}

int cuGraphAddChildGraphNode(void **node, void *graph, void *const *before, size_t n, void *child)
{
    ENTER("cuGraphAddChildGraphNode");
    (void)before;
    struct node *own = n || !child ? NULL : new_node(graph);
    *node = own;
    if (own) own->child = copy_graph(child);
    return own ? 0 : INVALID_VALUE;
}

/* --- streams of the caller's own, and their capture: one at a time */

static struct {
    void *stream;
    struct graph *graph;
} capture;

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

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    ENTER("cuStreamBeginCapture_v2");
    if (!stream || mode != 2 || capture.graph) return INVALID_VALUE;
    capture.stream = stream;
    capture.graph = new_graph();
    return 0;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    struct graph *g = capture.graph;
    if (!g || stream != capture.stream) return INVALID_VALUE;
    capture.graph = NULL;
    int code = fails("cuStreamEndCapture");
    if (code) free_graph(g);
    *graph = code ? NULL : g;
    return code;
}

void mockcuda_work(void *stream, void (*run)(const void *argument), const void *argument, size_t size)
{
    const struct work w = {run, (void *)(uintptr_t)argument, size};
    if (!capture.graph || stream != capture.stream) {
        run(argument);
        works++;
        return;
    }
    struct node *n = new_node(capture.graph);
    if (!n) abort();
    if (n->index) capture.graph->after[n->index][(n->index - 1) / 8] |= (unsigned char)(1u << (n->index - 1) % 8);
    set_work(n, &w);
}

int cuGraphAddKernelNode(void **node, void *graph, void *const *before, size_t n, const struct kernel *k)
{
    ENTER("cuGraphAddKernelNode");
    (void)before;
    *node = n ? NULL : add_node(graph, k);
    return *node ? 0 : INVALID_VALUE;
}

static int add_edges(struct graph *g, void *const *from, void *const *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct node *a = from[i], *b = to[i];
        if (!a || !b || a == b || g->node[a->index] != a || g->node[b->index] != b) return INVALID_VALUE;
        if (g->after[b->index][a->index / 8] >> a->index % 8 & 1) return INVALID_VALUE;
        g->after[b->index][a->index / 8] |= (unsigned char)(1u << a->index % 8);
    }
    return 0;
}

int cuGraphAddDependencies(void *graph, void *const *from, void *const *to, size_t n)
{
    ENTER("cuGraphAddDependencies");
    return add_edges(graph, from, to, n);
}

int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const struct edge *as, size_t n)
{
    ENTER("cuGraphAddDependencies_v2");
    for (size_t i = 0; i < n; i++) {
        if (as[i].type != as[0].type) return INVALID_VALUE; /* a real one takes all for what the first is */
        if (as[i].from_port != as[i].type || as[i].type > 1 || as[i].to_port) return INVALID_VALUE;
        if (as[i].type && (((const struct node *)from[i])->child || ((const struct node *)to[i])->child)) return INVALID_VALUE;
        programmatic += as[i].type;
    }
    return add_edges(graph, from, to, n);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    ENTER("cuGraphInstantiateWithFlags");
    const struct graph *from = graph;
    if (flags) return INVALID_VALUE;
    *exec = copy_graph(from);
    return 0;
}

int cuGraphExecKernelNodeSetParams(void *exec, void *node, const struct kernel *k)
{
    ENTER("cuGraphExecKernelNodeSetParams");
    struct graph *g = exec;
    const struct node *n = node;
    if (n->index >= g->n || g->node[n->index]->kernel.function != k->function) return INVALID_VALUE;
    tell(g->node[n->index], k);
    changed++;
    return 0;
}

/* The last node of those that wait for none that is still to come. */
static unsigned next_ready(const struct graph *g, const unsigned char *done)
{
    for (unsigned i = g->n; i-- > 0;) {
        int ready = !(done[i / 8] >> i % 8 & 1);
        for (unsigned b = 0; ready && b < MOST_NODES / 8; b++) ready = !(g->after[i][b] & ~done[b]);
        if (ready) return i;
    }
    return g->n;
}

static int play(const struct graph *g);

static int play_node(const struct node *n)
{
    if (n->child) return play(n->child);
    if (!n->work.run) return launch(&n->kernel);
    n->work.run(n->work.argument);
    return 0;
}

/* In an order as far from that of the nodes as the edges allow, so that a missing one shows. */
static int play(const struct graph *g)
{
    unsigned char done[MOST_NODES / 8] = {0};
    for (unsigned k = 0; k < g->n; k++) {
        unsigned i = next_ready(g, done);
        int error = i < g->n ? play_node(g->node[i]) : INVALID_VALUE;
        if (error) return error;
        done[i / 8] |= (unsigned char)(1u << i % 8);
    }
    return 0;
}

int cuGraphLaunch(void *exec, void *stream)
{
    ENTER("cuGraphLaunch");
    (void)stream;
    played++;
    return play(exec);
}

static int free_graph(struct graph *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        free_parameters(g->node[i]);
        free(g->node[i]->work.argument);
        if (g->node[i]->child) free_graph(g->node[i]->child);
        free(g->node[i]);
    }
    return unmake(g);
}

int cuGraphExecDestroy(void *exec)
{
    ENTER("cuGraphExecDestroy");
    return free_graph(exec);
}

int cuGraphDestroy(void *graph)
{
    ENTER("cuGraphDestroy");
    return free_graph(graph);
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
