/*
 * The runtime on a real GPU, with one module: gpu_runtime MODULE.yoloc [PART...]. 77: no GPU. Parts, in this order:
 *   load     times of loading, of the first context and of the first run
 *   equal    the outputs of every batch have the same bytes with graphs of every kind and without
 *   repeat   so have those of many runs, by contexts that come and go
 *   threads  four threads with contexts of their own get the bytes that one gets
 *   guard    no step writes outside of its context's memory, or over the weights
 *   dlpack   an output on the device as another library would see it
 *   time     runs with inputs and outputs on the device, by kind of graph; what a run costs the caller
 *   steps    each step by itself
 *   cycles   200 times load, run, free: memory stays as it is
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "noise.h"
#include "runtime/dlpack.h"
#include "runtime/yolort.h"
#include "stopwatch.h"

enum { MAX_IO = 128, THREADS = 4, RUNS = 200, CYCLES = 200, SHOWN = 8, COMINGS = 4, REPEATS = 30 };

struct net {
    yolort_module *m;
    yolort_context *c;
    void *data[MAX_IO];
    int other; /* io that is not bound: the picture in its other form; -1: none */
};

static const struct {
    const char *name;
    int mode;
} kinds[] = {
    {"graph, programmatic", 0},
    {"graph, full edges", YOLORT_GRAPH_FULL_EDGES},
    {"chain, programmatic", YOLORT_GRAPH_CHAIN},
    {"chain, full edges", YOLORT_GRAPH_CHAIN | YOLORT_GRAPH_FULL_EDGES},
    {"launches", YOLORT_GRAPH_OFF},
};
enum { NKIND = sizeof kinds / sizeof *kinds };

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "gpu_runtime: %s: %s\n", what, why);
    return 1;
}

static size_t whole(const yolort_module *m, size_t io)
{
    return yolort_io_at(m, io)->bytes_per_image * (size_t)yolort_module_info(m)->max_batch;
}

static void unwrap(struct net *n)
{
    for (size_t i = 0; i < MAX_IO; i++) free(n->data[i]);
    yolort_context_free(n->c);
    memset(n->data, 0, sizeof n->data);
    n->c = NULL;
}

enum { GUARD = 1 << 16 }; /* beside the bits of enum yolort_graph */

/* A context with host memory at all that a run can have. */
static int wrap(struct net *n, int mode, uint32_t seed)
{
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.graph = mode & ~GUARD;
    o.guard = !!(mode & GUARD);
    yolort_status s = yolort_context_new(&n->c, n->m, &o);
    if (s) return fail("context", yolort_status_name(s));
    n->other = yolort_io_find(n->m, "input_u8") < 0 ? -1 : yolort_io_find(n->m, "images");
    for (size_t i = 0; i < yolort_io_count(n->m); i++) {
        const yolort_io *io = yolort_io_at(n->m, i);
        if ((int)i == n->other) continue;
        n->data[i] = calloc(1, whole(n->m, i));
        if (!n->data[i]) return fail(io->name, "no memory");
        if (!io->is_output) fill_noise(n->data[i], whole(n->m, i), io->dtype == YOLORT_F32, seed);
        if (yolort_bind(n->c, i, n->data[i], whole(n->m, i))) return fail(io->name, yolort_error(n->c));
    }
    return 0;
}

static int run(struct net *n, int batch)
{
    yolort_status s = yolort_run(n->c, batch, NULL);
    if (!s) s = yolort_wait(n->c);
    return s ? fail("run", yolort_error(n->c)) : 0;
}

/* --- parts -------------------------------------------------------------------------------------------------- */

static int load(struct net *n, const char *path)
{
    char why[512];
    double t[4];
    t[0] = now_ms();
    yolort_status s = yolort_load_file(&n->m, path, why, sizeof why);
    if (s) {
        fail(path, why);
        return s == YOLORT_NO_DEVICE ? 77 : 1;
    }
    t[1] = now_ms();
    if (wrap(n, 0, 1)) return 1;
    t[2] = now_ms();
    if (run(n, 1)) return 1;
    t[3] = now_ms();
    printf("load: file %.1f ms, first context %.1f ms, first run %.1f ms\n", t[1] - t[0], t[2] - t[1], t[3] - t[2]);
    unwrap(n);
    t[0] = now_ms();
    if (wrap(n, 0, 1)) return 1;
    t[1] = now_ms();
    if (run(n, 1)) return 1;
    t[2] = now_ms();
    printf("load: second context %.1f ms, its first run %.1f ms\n", t[1] - t[0], t[2] - t[1]);
    unwrap(n);
    return 0;
}

static int same(const struct net *a, const struct net *b, int batch, const char *what)
{
    for (size_t i = 0; i < yolort_io_count(a->m); i++) {
        const yolort_io *io = yolort_io_at(a->m, i);
        size_t bytes = io->bytes_per_image * (size_t)batch, from = 0, end = bytes;
        if (!io->is_output || !memcmp(a->data[i], b->data[i], bytes)) continue;
        while (((char *)a->data[i])[from] == ((char *)b->data[i])[from]) from++;
        while (((char *)a->data[i])[end - 1] == ((char *)b->data[i])[end - 1]) end--;
        fprintf(stderr, "gpu_runtime: %s, batch %d: %s differs, bytes %zu to %zu of %zu\n", what, batch, io->name, from, end, bytes);
        return 1;
    }
    return 0;
}

static int equal(struct net *n)
{
    int bad = 0, most = yolort_module_info(n->m)->max_batch < 4 ? yolort_module_info(n->m)->max_batch : 4;
    struct net plain = {.m = n->m};
    if (wrap(&plain, YOLORT_GRAPH_OFF, 7)) return 1;
    for (size_t k = 0; k < NKIND && !bad; k++) {
        if (wrap(n, kinds[k].mode, 7)) return 1;
        for (int round = 0; round < 8 && !bad; round++)
            for (int batch = 1; batch <= most && !bad; batch++)
                bad = run(&plain, batch) || run(n, batch) || same(&plain, n, batch, kinds[k].name);
        unwrap(n);
    }
    unwrap(&plain);
    printf("equal: %s\n", bad ? "no" : "each kind of run, batches 1 and up");
    return bad;
}

static void forget(struct net *n)
{
    for (size_t i = 0; i < yolort_io_count(n->m); i++)
        if (yolort_io_at(n->m, i)->is_output) memset(n->data[i], 0xff, whole(n->m, i));
}

static int repeat(struct net *n)
{
    int bad = 0, most = yolort_module_info(n->m)->max_batch;
    struct net one = {.m = n->m}, all = {.m = n->m};
    if (wrap(&one, YOLORT_GRAPH_OFF, 3) || wrap(&all, YOLORT_GRAPH_OFF, 3) || run(&one, 1) || run(&all, most)) return 1;
    for (size_t k = 0; k < NKIND * COMINGS; k++) {
        int wrong = 0;
        if (wrap(n, kinds[k % NKIND].mode, 3)) return 1;
        for (int i = 0; i < REPEATS && wrong < 3; i++) {
            forget(n);
            wrong += run(n, 1) || same(&one, n, 1, kinds[k % NKIND].name);
            forget(n);
            wrong += run(n, most) || same(&all, n, most, kinds[k % NKIND].name);
        }
        bad |= wrong;
        unwrap(n);
    }
    unwrap(&one);
    unwrap(&all);
    printf("repeat: %d contexts, %d runs each %s\n", NKIND * COMINGS, 2 * REPEATS, bad ? "differ" : "have the same bytes");
    return bad;
}

struct worker {
    struct net n, expected;
    int bad;
};

static void *work(void *p)
{
    struct worker *w = p;
    for (int i = 0; i < RUNS && !w->bad; i++) w->bad = run(&w->n, 1) || same(&w->expected, &w->n, 1, "thread");
    return NULL;
}

static int threads(struct net *n)
{
    struct worker w[THREADS] = {0};
    pthread_t id[THREADS];
    int bad = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        w[i].n.m = w[i].expected.m = n->m;
        if (wrap(&w[i].expected, YOLORT_GRAPH_OFF, i) || run(&w[i].expected, 1) || wrap(&w[i].n, 0, i)) return 1;
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&id[i], NULL, work, &w[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        bad |= w[i].bad;
        unwrap(&w[i].n);
        unwrap(&w[i].expected);
    }
    printf("threads: %d x %d runs %s\n", THREADS, RUNS, bad ? "differ" : "as one by one");
    return bad;
}

static int guard(struct net *n)
{
    int bad = 0, most = yolort_module_info(n->m)->max_batch;
    struct net plain = {.m = n->m};
    if (wrap(&plain, YOLORT_GRAPH_OFF, 5)) return 1;
    for (int mode = 0; mode < 2 && !bad; mode++) {
        if (wrap(n, GUARD | mode, 5)) return 1;
        for (int batch = 1; batch <= most && !bad; batch++) bad = run(&plain, batch) || run(n, batch) || same(&plain, n, batch, "guard");
        unwrap(n);
    }
    unwrap(&plain);
    printf("guard: %s\n", bad ? "changed" : "whole");
    return bad;
}

/* The driver itself, for device memory. */
struct driver {
    int (*retain)(void **context, int device);
    int (*use)(void *context);
    int (*alloc)(uint64_t *at, size_t bytes);
    int (*release)(uint64_t at);
    int (*put)(uint64_t to, const void *from, size_t bytes);
    int (*get)(void *to, uint64_t from, size_t bytes);
    int (*room)(size_t *unused, size_t *total);
};

static int take(void *lib, const char *name, void *fn)
{
    void *p = dlsym(lib, name);
    memcpy(fn, &p, sizeof p);
    return p ? 0 : fail(name, "is not in the driver");
}

static int open_driver(struct driver *d)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (!lib) return fail("libcuda.so.1", "can't be loaded");
    if (take(lib, "cuDevicePrimaryCtxRetain", &d->retain) || take(lib, "cuCtxSetCurrent", &d->use) ||
        take(lib, "cuMemAlloc_v2", &d->alloc) || take(lib, "cuMemFree_v2", &d->release) || take(lib, "cuMemcpyHtoD_v2", &d->put) ||
        take(lib, "cuMemcpyDtoH_v2", &d->get) || take(lib, "cuMemGetInfo_v2", &d->room))
        return 1;
    return d->retain(&context, 0) || d->use(context) ? fail("context", "can't be had") : 0;
}

static int dlpack(struct net *n)
{
    struct driver d;
    struct DLManagedTensor *t;
    size_t io = 0;
    if (open_driver(&d) || wrap(n, 0, 9) || run(n, 1)) return 1;
    while (!yolort_io_at(n->m, io)->is_output) io++;
    size_t bytes = yolort_io_at(n->m, io)->bytes_per_image;
    uint8_t *got = malloc(bytes), *want = n->data[io];
    if (!got || yolort_output_dlpack(n->c, io, 1, &t) || run(n, 1)) return fail("dlpack", yolort_error(n->c));
    n->data[io] = NULL;
    unwrap(n); /* the tensor stays */
    int bad = d.get(got, (uint64_t)(uintptr_t)t->tensor.data, bytes) || memcmp(got, want, bytes);
    t->deleter(t);
    free(got);
    free(want);
    printf("dlpack: %s\n", bad ? "differs" : "the same bytes");
    return bad;
}

/* Only what detection needs is bound: the picture, and `decoded` where there is one. */
static int on_device(struct net *n, const struct driver *d, uint64_t *at)
{
    int decoded = yolort_io_find(n->m, "decoded");
    for (size_t i = 0; i < yolort_io_count(n->m); i++) {
        const yolort_io *io = yolort_io_at(n->m, i);
        if (!n->data[i]) continue;
        if (io->is_output && decoded >= 0 && (int)i != decoded) {
            yolort_bind(n->c, i, NULL, 0);
            continue;
        }
        if (d->alloc(&at[i], whole(n->m, i))) return fail(io->name, "no device memory");
        if (!io->is_output && d->put(at[i], n->data[i], whole(n->m, i))) return fail(io->name, "copy");
        if (yolort_bind(n->c, i, (void *)(uintptr_t)at[i], whole(n->m, i))) return fail(io->name, yolort_error(n->c));
    }
    return 0;
}

static int time_kind(struct net *n, int batch, const char *name)
{
    static double ms[RUNS];
    double caller = 0;
    if (yolort_time(n->c, batch, NULL, RUNS, ms) || yolort_time(n->c, batch, NULL, RUNS, ms)) return fail("time", yolort_error(n->c));
    qsort(ms, RUNS, sizeof *ms, by_value);
    for (int i = 0; i < RUNS; i++) {
        double start = now_ms();
        if (yolort_run(n->c, batch, NULL)) return fail("run", yolort_error(n->c));
        caller += now_ms() - start;
        if (yolort_wait(n->c)) return fail("wait", yolort_error(n->c));
    }
    printf("time: batch %d, %-20s median %.4f ms, least %.4f; a run takes the caller %.1f us\n", batch, name, ms[RUNS / 2], ms[0],
           caller * 1e3 / RUNS);
    return 0;
}

static int time_all(struct net *n)
{
    struct driver d;
    int bad = open_driver(&d), most = yolort_module_info(n->m)->max_batch;
    for (size_t k = 0; k < NKIND && !bad; k++) {
        uint64_t at[MAX_IO] = {0};
        if (wrap(n, kinds[k].mode, 3)) return 1;
        bad = on_device(n, &d, at) || time_kind(n, 1, kinds[k].name) || (most > 1 && time_kind(n, most, kinds[k].name));
        unwrap(n);
        for (size_t i = 0; i < MAX_IO; i++)
            if (at[i]) d.release(at[i]);
    }
    return bad;
}

static int by_time(const void *a, const void *b)
{
    const yolort_step *x = a, *y = b;
    return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : 0;
}

static int steps(struct net *n)
{
    size_t count = yolort_step_count(n->m), ran = 0;
    yolort_step *s = calloc(count + 1, sizeof *s);
    double sum = 0;
    if (!s || wrap(n, 0, 3)) return 1;
    yolort_profile(n->c, 1);
    for (int i = 0; i < 5; i++)
        if (run(n, 1)) return 1;
    for (size_t i = 0; i < count; i++) {
        yolort_step_at(n->c, i, &s[i]);
        sum += s[i].ms;
        ran += s[i].ms > 0;
    }
    qsort(s, count, sizeof *s, by_time);
    printf("steps: %zu, %.4f ms in all, median %.4f; the longest:\n", ran, sum, s[ran / 2].ms);
    for (size_t i = 0; i < count && i < SHOWN; i++) printf("  %8.4f ms  %s\n", s[i].ms, s[i].label);
    free(s);
    unwrap(n);
    return 0;
}

static size_t resident_pages(void)
{
    unsigned long all = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lu %lu", &all, &resident) != 2) resident = 0;
    if (f) fclose(f);
    return resident;
}

static int cycles(const char *path)
{
    struct driver d;
    size_t start[2] = {0, 0}, room[2], total;
    if (open_driver(&d)) return 1;
    for (int i = 0; i < CYCLES; i++) {
        struct net n = {0};
        char why[256];
        if (yolort_load_file(&n.m, path, why, sizeof why)) return fail(path, why);
        if (wrap(&n, 0, 1) || run(&n, 1)) return 1;
        unwrap(&n);
        yolort_module_free(n.m);
        d.room(&room[0], &total);
        room[1] = resident_pages();
        if (i == CYCLES / 10) memcpy(start, room, sizeof start);
    }
    long device = (long)start[0] - (long)room[0], host = ((long)room[1] - (long)start[1]) * 4096;
    printf("cycles: %d times; device memory grew by %ld bytes, the process by %ld\n", CYCLES, device, host);
    return device > 2 << 20 || host > 16 << 20 ? fail("cycles", "memory grows") : 0;
}

int main(int argc, char **argv)
{
    struct net n = {0};
    if (argc < 2) return fail("usage", "MODULE.yoloc [PART...]");
    int bad = load(&n, argv[1]);
    if (bad) return bad;
    for (int i = 2; i < argc || (argc == 2 && i == 2); i++) {
        int all = argc == 2;
        const char *part = all ? "" : argv[i];
        if (all || !strcmp(part, "equal")) bad |= equal(&n);
        if (all || !strcmp(part, "repeat")) bad |= repeat(&n);
        if (all || !strcmp(part, "threads")) bad |= threads(&n);
        if (all || !strcmp(part, "guard")) bad |= guard(&n);
        if (all || !strcmp(part, "dlpack")) bad |= dlpack(&n);
        if (all || !strcmp(part, "time")) bad |= time_all(&n);
        if (all || !strcmp(part, "steps")) bad |= steps(&n);
        if (all || !strcmp(part, "cycles")) bad |= cycles(argv[1]);
        fflush(stdout);
    }
    yolort_module_free(n.m);
    return bad;
}
