/*
 * A cuDNN without a GPU, for YOLOC_LIBCUDNN beside the mock driver (YOLOC_LIBCUDA): convolutions with point-wise operations behind them
 * are computed on the host, from the descriptors alone. Numbers are those of cudnn_graph.h. MOCKCUDNN_VERSION: 91900 unless it says
 * otherwise. Engines, with knob 24 from 0 to 3:
 *   7 has nothing special, 8 gives other sums each time, 9 transforms, 10 wants 256 MiB, 11 is proposed and then refused
 *   12 wants 4096 bytes, which it fills with rubbish
 */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mockfail.h"

#define API __attribute__((visibility("default")))

enum { BAD = 2000, NOT_FINALIZED = 2004, NOT_SUPPORTED = 3000, HOST_MEMORY = 4003 };
enum { HANDLE = 0, DATA_TYPE = 1, BOOLEAN = 2, INT64 = 3, FLOAT = 4, DOUBLE = 5, POINTER = 6, DESCRIPTOR = 15 };
enum { ENGINE = 2, CONFIG = 3, HEURISTIC = 4, PLAN = 5, KNOB = 7, CONVOLUTION = 10, POINTWISE = 13, GRAPH = 15, PACK = 16, TENSOR = 17 };
enum { MOST_ATTRIBUTES = 16, MOST_ELEMENTS = 32, KNOB_NAME = 24, MOST_KNOB = 3 };

struct attribute {
    int name, type;
    int64_t n;
    unsigned char bytes[MOST_ELEMENTS * 8];
};

struct descriptor {
    int type, final, n;
    struct attribute attribute[MOST_ATTRIBUTES];
};

static atomic_long live, runs;

/* As those of mockcuda.c. */
API void mockcudnn_fail(const char *name, int nth, int code);
API const char *mockcudnn_failed(void);
API long mockcudnn_live(void);
API long mockcudnn_runs(void); /* convolutions that were computed */

API size_t cudnnGetVersion(void);
API const char *cudnnGetErrorString(int error);
API int cudnnCreate(void **handle);
API int cudnnDestroy(void *handle);
API int cudnnSetStream(void *handle, void *stream);
API int cudnnBackendCreateDescriptor(int type, void **descriptor);
API int cudnnBackendDestroyDescriptor(void *descriptor);
API int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *elements);
API int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t most, int64_t *count, void *elements);
API int cudnnBackendFinalize(void *descriptor);
API int cudnnBackendExecute(void *handle, void *plan, void *pack);

void mockcudnn_fail(const char *name, int nth, int code)
{
    set_failure(name, nth, code);
}

const char *mockcudnn_failed(void)
{
    return failed();
}

long mockcudnn_live(void)
{
    return live;
}

long mockcudnn_runs(void)
{
    return runs;
}

int gives_back(const char *name)
{
    return strstr(name, "Destroy") != NULL;
}

size_t cudnnGetVersion(void)
{
    const char *given = getenv("MOCKCUDNN_VERSION");
    return given ? (size_t)atol(given) : 91900;
}

const char *cudnnGetErrorString(int error)
{
    return error ? "CUDNN_STATUS_OF_THE_MOCK" : "CUDNN_STATUS_SUCCESS";
}

struct handle {
    void *stream;
};

int cudnnCreate(void **handle)
{
    ENTER("cudnnCreate");
    *handle = calloc(1, sizeof(struct handle));
    live += *handle != NULL;
    return *handle ? 0 : HOST_MEMORY;
}

int cudnnDestroy(void *handle)
{
    ENTER("cudnnDestroy");
    free(handle);
    live--;
    return 0;
}

int cudnnSetStream(void *handle, void *stream)
{
    ENTER("cudnnSetStream");
    ((struct handle *)handle)->stream = stream;
    return 0;
}

/* --- descriptors -------------------------------------------------------------------------------------------- */

int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
    ENTER("cudnnBackendCreateDescriptor");
    struct descriptor *d = calloc(1, sizeof *d);
    if (!d) return HOST_MEMORY;
    d->type = type;
    live++;
    *descriptor = d;
    return 0;
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    ENTER("cudnnBackendDestroyDescriptor");
    free(descriptor);
    live--;
    return 0;
}

static size_t size_of(int type)
{
    return type == BOOLEAN ? 1 : type == HANDLE || type == INT64 || type == DOUBLE || type == POINTER || type == DESCRIPTOR ? 8 : 4;
}

static struct attribute *find(const struct descriptor *d, int name)
{
    for (int i = 0; i < d->n; i++)
        if (d->attribute[i].name == name) return (struct attribute *)(uintptr_t)&d->attribute[i];
    return NULL;
}

static int put(struct descriptor *d, int name, int type, int64_t n, const void *elements)
{
    struct attribute *a = find(d, name);
    if (!a && d->n == MOST_ATTRIBUTES) return BAD;
    if (!a) a = &d->attribute[d->n++];
    *a = (struct attribute){.name = name, .type = type, .n = n};
    memcpy(a->bytes, elements, (size_t)n * size_of(type));
    return 0;
}

/* The descriptors that one names have to be final. */
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count, const void *elements)
{
    ENTER("cudnnBackendSetAttribute");
    struct descriptor *d = descriptor;
    if (!d || d->final || count < 1 || count > MOST_ELEMENTS || !elements) return BAD;
    for (int64_t i = 0; type == DESCRIPTOR && i < count; i++) {
        const struct descriptor *other = ((void *const *)elements)[i];
        if (!other || !other->final) return NOT_FINALIZED;
    }
    return put(d, name, type, count, elements);
}

static void *other(const struct descriptor *d, int name, int i)
{
    const struct attribute *a = find(d, name);
    void *p = NULL;
    if (a && i < a->n) memcpy(&p, a->bytes + 8 * i, sizeof p);
    return p;
}

static int64_t number(const struct descriptor *d, int name, int i)
{
    const struct attribute *a = find(d, name);
    int64_t wide = 0;
    int narrow = 0;
    if (!a || i >= a->n) return 0;
    if (size_of(a->type) == 8) memcpy(&wide, a->bytes + 8 * i, sizeof wide);
    if (size_of(a->type) == 4) memcpy(&narrow, a->bytes + 4 * i, sizeof narrow);
    if (size_of(a->type) == 1) narrow = a->bytes[i];
    return wide + narrow;
}

static int has(const struct descriptor *d, const int *names)
{
    for (; *names >= 0; names++)
        if (!find(d, *names)) return 0;
    return 1;
}

static int is_engine(int64_t n)
{
    return n >= 7 && n <= 12;
}

static int config_knob(const struct descriptor *config)
{
    const struct descriptor *k = other(config, 302, 0);
    return k ? (int)number(k, 601, 0) : 0;
}

static int64_t config_engine(const struct descriptor *config)
{
    const struct descriptor *engine = other(config, 300, 0);
    return engine ? number(engine, 1301, 0) : -1;
}

static int check_plan(const struct descriptor *d)
{
    const struct descriptor *c = other(d, 401, 0);
    if (!c || !find(d, 400)) return BAD;
    int64_t engine = config_engine(c);
    if (config_knob(c) < 0 || config_knob(c) > MOST_KNOB || engine == 11) return NOT_SUPPORTED;
    return is_engine(engine) ? 0 : BAD;
}

static int check(const struct descriptor *d)
{
    static const int tensor[] = {900, 901, 902, 903, 906, 907, -1}, conv[] = {700, 701, 702, 703, 704, 705, -1}, point[] = {750, 751, 753, -1};
    static const int graph[] = {800, 801, -1}, heuristic[] = {200, 201, -1}, engine[] = {1300, 1301, -1}, config[] = {300, -1};
    static const int knob[] = {600, 601, -1}, pack[] = {1000, 1001, 1003, -1};
    static const struct {
        int type;
        const int *names;
    } needs[] = {{TENSOR, tensor}, {CONVOLUTION, conv}, {POINTWISE, point}, {GRAPH, graph}, {HEURISTIC, heuristic}, {ENGINE, engine},
                 {CONFIG, config}, {KNOB, knob}, {PACK, pack}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (needs[i].type == d->type && !has(d, needs[i].names)) return BAD;
    if (d->type == KNOB && number(d, 600, 0) != KNOB_NAME) return NOT_SUPPORTED;
    if (d->type == ENGINE && !is_engine(number(d, 1301, 0))) return BAD;
    return d->type == PLAN ? check_plan(d) : 0;
}

int cudnnBackendFinalize(void *descriptor)
{
    ENTER("cudnnBackendFinalize");
    struct descriptor *d = descriptor;
    int error = d->final ? BAD : check(d);
    d->final = !error;
    return error;
}

/* --- what is proposed --------------------------------------------------------------------------------------- */

/* A proposal as a configuration has it: attributes of our own, below 0. */
static void propose(struct descriptor *to, int64_t engine, int64_t knob)
{
    put(to, -1, INT64, 1, &engine);
    put(to, -2, INT64, 1, &knob);
    to->final = 1;
}

static int64_t results(const struct descriptor *d, int64_t most, void *const *to)
{
    static const int64_t a[][2] = {{9, 0}, {10, 0}, {7, 1}, {8, 0}}, b[][2] = {{7, 1}, {12, 2}, {11, 0}, {7, 3}};
    int mode = (int)number(d, 200, 0);
    int64_t n = 0;
    for (; (mode == 1 || mode == 3) && n < 4 && n < most; n++) propose(to[n], mode == 3 ? a[n][0] : b[n][0], mode == 3 ? a[n][1] : b[n][1]);
    return n;
}

static int64_t notes(int64_t engine, int *to)
{
    to[0] = 0;
    to[1] = engine == 8 ? 4 : 5;
    return engine == 8 || engine == 9 ? 2 : 1;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t most, int64_t *count, void *elements)
{
    ENTER("cudnnBackendGetAttribute");
    const struct descriptor *d = descriptor;
    if (!d || !d->final || most < 1) return NOT_FINALIZED;
    int64_t engine = number(d, -1, 0), knob = number(d, -2, 0), space;
    *count = 1;
    if (name == 202 && type == DESCRIPTOR) {
        *count = results(d, most, elements);
    } else if (name == 300 || name == 302) {
        struct descriptor *to = ((void **)elements)[0];
        int knob_name = KNOB_NAME;
        if (name == 300) {
            put(to, 1301, INT64, 1, &engine);
        } else {
            put(to, 600, 9, 1, &knob_name);
            put(to, 601, INT64, 1, &knob);
        }
        to->final = 1;
    } else if (name == 1303) {
        *count = notes(number(d, 1301, 0), elements);
    } else if (name == 402 || name == 303) {
        int64_t of = config_engine(name == 303 ? d : other(d, 401, 0));
        space = of == 10 ? 256 << 20 : of == 12 ? 4096 : 0;
        memcpy(elements, &space, sizeof space);
    } else {
        const struct attribute *a = find(d, name);
        if (!a || a->type != type || most < a->n) return BAD;
        memcpy(elements, a->bytes, (size_t)a->n * size_of(type));
        *count = a->n;
    }
    return 0;
}

/* --- the work ----------------------------------------------------------------------------------------------- */

static float half_value(unsigned v)
{
    int exponent = (int)(v >> 10 & 31), fraction = (int)(v & 1023);
    float f = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexpf((float)(1024 + fraction), exponent - 25) : ldexpf((float)fraction, -24);
    return v & 0x8000 ? -f : f;
}

/* To the nearest, even in the middle. */
static unsigned half_bits(float f)
{
    unsigned sign = signbit(f) ? 0x8000 : 0;
    float size = fabsf(f);
    int exponent;
    if (isnan(f)) return 0x7e00;
    if (size >= 65520) return sign | 0x7c00;
    frexpf(size, &exponent);
    if (exponent < -13) exponent = -13;
    float unit = ldexpf(1, exponent - 11);
    long units = lrintf(size / unit); /* the 10 bits of the fraction, and the one before them */
    if (units < 1024) return sign | (unsigned)units;
    return sign | (unsigned)(((exponent + 13) << 10) + units);
}

static float load(int type, const void *from, int64_t i)
{
    uint32_t bits;
    uint16_t half;
    float f;
    if (type == 0) return ((const float *)from)[i];
    memcpy(&half, (const char *)from + 2 * i, sizeof half);
    if (type == 2) return half_value(half);
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void store(int type, void *to, int64_t i, float f)
{
    uint32_t bits;
    uint16_t half = (uint16_t)half_bits(f);
    if (type == 0) {
        ((float *)to)[i] = f;
        return;
    }
    memcpy(&bits, &f, sizeof bits);
    if (type == 9) half = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy((char *)to + 2 * i, &half, sizeof half);
}

struct map {
    void *at;
    int type;
    int64_t dim[4], stride[4];
};

enum { MOST_POINTS = 4 };
struct job { /* all that a run needs: descriptors may be gone by the time of a graph's launch */
    struct map x, w, y;
    int64_t before[2], step[2], apart[2];
    int npoint;
    struct {
        int mode;
        struct map with; /* at NULL: none */
    } point[MOST_POINTS];
    void *space;
    size_t space_bytes;
};

static float add_products(const struct job *j, const int64_t at[4])
{
    float sum = 0;
    for (int64_t r = 0; r < j->w.dim[2]; r++)
        for (int64_t s = 0; s < j->w.dim[3]; s++) {
            int64_t row = at[2] * j->step[0] - j->before[0] + r * j->apart[0], column = at[3] * j->step[1] - j->before[1] + s * j->apart[1];
            if (row < 0 || row >= j->x.dim[2] || column < 0 || column >= j->x.dim[3]) continue;
            for (int64_t c = 0; c < j->x.dim[1]; c++)
                sum += load(j->x.type, j->x.at, at[0] * j->x.stride[0] + c * j->x.stride[1] + row * j->x.stride[2] + column * j->x.stride[3]) *
                       load(j->w.type, j->w.at, at[1] * j->w.stride[0] + c * j->w.stride[1] + r * j->w.stride[2] + s * j->w.stride[3]);
        }
    return sum;
}

static int64_t place(const struct map *m, const int64_t at[4])
{
    int64_t i = 0;
    for (int k = 0; k < 4; k++) i += m->dim[k] == 1 ? 0 : at[k] * m->stride[k];
    return i;
}

static float apply(int mode, float v, const struct map *with, const int64_t at[4])
{
    if (mode == 0) return v + load(with->type, with->at, place(with, at));
    if (mode == 100) return v > 0 ? v : 0;
    return (mode == 106 ? v : 1) / (1 + expf(-v));
}

static void compute(const void *argument)
{
    const struct job *j = argument;
    int64_t at[4];
    if (j->space) memset(j->space, 0xee, j->space_bytes);
    for (at[0] = 0; at[0] < j->y.dim[0]; at[0]++)
        for (at[1] = 0; at[1] < j->y.dim[1]; at[1]++)
            for (at[2] = 0; at[2] < j->y.dim[2]; at[2]++)
                for (at[3] = 0; at[3] < j->y.dim[3]; at[3]++) {
                    float v = add_products(j, at);
                    for (int i = 0; i < j->npoint; i++) v = apply(j->point[i].mode, v, &j->point[i].with, at);
                    store(j->y.type, j->y.at, place(&j->y, at), v);
                }
    runs++;
}

/* 0: the pack has no memory for it, or such that is not aligned. */
static int read_map(const struct descriptor *t, const struct descriptor *pack, struct map *m)
{
    m->type = (int)number(t, 901, 0);
    for (int k = 0; k < 4; k++) {
        m->dim[k] = number(t, 902, k);
        m->stride[k] = number(t, 903, k);
    }
    const struct attribute *ids = find(pack, 1000);
    for (int i = 0; i < ids->n; i++)
        if (number(pack, 1000, i) == number(t, 906, 0)) m->at = other(pack, 1001, i);
    return m->at && (uintptr_t)m->at % (uintptr_t)number(t, 900, 0) == 0;
}

static int read_conv(const struct descriptor *op, const struct descriptor *pack, struct job *j)
{
    const struct descriptor *c = other(op, 702, 0);
    for (int i = 0; i < 2; i++) {
        j->apart[i] = number(c, 102, i);
        j->step[i] = number(c, 103, i);
        j->before[i] = number(c, 105, i);
    }
    return number(c, 101, 0) == 1 && read_map(other(op, 704, 0), pack, &j->x) && read_map(other(op, 703, 0), pack, &j->w);
}

static int read_points(const struct descriptor *graph, const struct descriptor *pack, struct job *j)
{
    const struct descriptor *last = other(other(graph, 801, 0), 705, 0);
    for (int i = 1; i < find(graph, 801)->n; i++) {
        const struct descriptor *op = other(graph, 801, i), *with = other(op, 752, 0);
        if (other(op, 751, 0) != last || i > MOST_POINTS) return 0;
        j->point[j->npoint].mode = (int)number(other(op, 750, 0), 0, 0);
        if (with && !read_map(with, pack, &j->point[j->npoint].with)) return 0;
        j->npoint++;
        last = other(op, 753, 0);
    }
    return !number(last, 907, 0) && read_map(last, pack, &j->y);
}

static void enqueue(void *stream, const struct job *j)
{
    void (*work)(void *, void (*)(const void *), const void *, size_t);
    void *driver = dlopen(getenv("YOLOC_LIBCUDA"), RTLD_NOW), *p = driver ? dlsym(driver, "mockcuda_work") : NULL;
    if (!p) abort();
    memcpy(&work, &p, sizeof work);
    work(stream, compute, j, sizeof *j);
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    ENTER("cudnnBackendExecute");
    const struct descriptor *p = plan, *config = other(p, 401, 0), *graph = other(other(config, 300, 0), 1300, 0);
    struct job j = {.space = other(pack, 1003, 0), .space_bytes = config_engine(config) == 12 ? 4096 : 0};
    if (!p->final || !((const struct descriptor *)pack)->final || (j.space_bytes && !j.space)) return NOT_FINALIZED;
    if (!read_conv(other(graph, 801, 0), pack, &j) || !read_points(graph, pack, &j)) return BAD;
    enqueue(((struct handle *)handle)->stream, &j);
    return 0;
}
