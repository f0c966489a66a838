/* CUDA modules beside the mock driver (tests/cuda/mockcuda.c): loading, running, what fails and what is then left behind. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mocklib.h"
#include "modbuild.h"
#include "runtime/object.h"

struct mock {
    void (*fail)(const char *name, int nth, int code);
    long (*live)(void);
    long (*launches)(void);
    void (*device_memory)(const void *address, int ordinal);
    const char *(*failed)(void);
    void (*cap)(size_t bytes);
    void (*virtual_memory)(int on);
    void (*capture)(const void *stream);
    long (*blocks)(void);
    long (*played)(void);
    long (*changed)(void);
    long (*programmatic)(void);
};

static struct mock mock(void)
{
    struct mock m;
    void *lib = mock_library("YOLOC_LIBCUDA", MOCKCUDA);
    mock_take(lib, "mockcuda_fail", &m.fail);
    mock_take(lib, "mockcuda_live", &m.live);
    mock_take(lib, "mockcuda_launches", &m.launches);
    mock_take(lib, "mockcuda_blocks", &m.blocks);
    mock_take(lib, "mockcuda_device_memory", &m.device_memory);
    mock_take(lib, "mockcuda_failed", &m.failed);
    mock_take(lib, "mockcuda_cap", &m.cap);
    mock_take(lib, "mockcuda_virtual", &m.virtual_memory);
    m.cap((size_t)1 << 30);
    m.virtual_memory(1);
    mock_take(lib, "mockcuda_capture", &m.capture);
    mock_take(lib, "mockcuda_played", &m.played);
    mock_take(lib, "mockcuda_changed", &m.changed);
    mock_take(lib, "mockcuda_programmatic", &m.programmatic);
    m.capture(NULL);
    unsetenv("MOCKCUDA_DEVICES"); /* a serial runner has one process for all tests */
    m.fail("", 0, 0);
    m.device_memory(NULL, 0);
    return m;
}

struct net {
    struct modbuild b;
    uint8_t *bytes;
    size_t size;
    yolort_module *m;
    yolort_context *c;
    char why[256];
};

static void describe(struct net *n, const char *arch)
{
    modbuild_init(&n->b);
    n->b.target[0].kind = YM_CUDA;
    n->b.target[0].arch = modbuild_string(&n->b, arch);
    n->b.target[0].features = 0;
    for (uint32_t i = 0; i < n->b.nkernel; i++) n->b.kernel[i].threads = n->b.kernel[i].per_block = 128;
    n->bytes = modbuild_finish(&n->b, &n->size);
}

static yolort_status load(struct net *n)
{
    n->m = NULL;
    n->why[0] = 0;
    return yolort_load(&n->m, n->bytes, n->size, n->why, sizeof n->why);
}

static struct net *opened(void)
{
    static struct net n;
    describe(&n, "sm_90a");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    cr_assert_eq(yolort_context_new(&n.c, n.m, NULL), YOLORT_OK);
    return &n;
}

static void closed(struct net *n)
{
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    free(n->bytes);
}

enum { N = 2 * MB_ELEMENTS };
static uint8_t u8[N];
static _Alignas(16) float echo[N];
static float decoded[2 * MB_ROW * MB_ROWS];

static void bind(struct net *n)
{
    cr_assert_eq(yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_DECODED, decoded, sizeof decoded), YOLORT_OK);
}

Test(rt_cuda, runs_and_gives_back)
{
    struct mock k = mock();
    struct net *n = opened();
    long before = k.launches();
    int stream;
    bind(n);
    cr_expect_eq(yolort_wait(n->c), YOLORT_OK, "before the first run");
    cr_expect_eq(yolort_run(n->c, 2, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(yolort_wait(n->c), YOLORT_OK);
    cr_expect_eq(k.launches() - before, 6, "three steps of each run");
    size_t bytes;
    cr_expect(yolort_arena(n->c, &bytes));
    cr_expect_eq(bytes, n->b.target[0].arena_size);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* One graph for each batch and set of what is bound; other memory changes the steps that touch it, and no others. */
Test(rt_cuda, graphs_are_kept)
{
    struct mock k = mock();
    struct net *n = opened();
    long played = k.played(), changed = k.changed(), live;
    bind(n);
    for (int batch = 1; batch <= 2; batch++) cr_expect_eq(yolort_run(n->c, batch, NULL), YOLORT_OK);
    live = k.live();
    for (int i = 0; i < 5; i++) cr_expect_eq(yolort_run(n->c, 1 + i % 2, NULL), YOLORT_OK);
    cr_expect_eq(k.played() - played, 7);
    cr_expect_eq(k.changed() - changed, 0);
    cr_expect_eq(k.live(), live, "no graph is made twice");
    k.device_memory(echo, 0);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    for (int i = 0; i < 3; i++) cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(k.changed() - changed, 1, "the step that writes it");
    cr_expect_eq(k.live(), live);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, NULL, 0), YOLORT_OK);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(k.live(), live + 2, "a graph without that step, and what was made of it");
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* Those used last are kept; here two inputs, three sets of outputs and two batches. */
Test(rt_cuda, graphs_are_few)
{
    struct mock k = mock();
    struct net *n = opened();
    static float images[N];
    long most = 0, before = k.live();
    for (int i = 0; i < 60; i++) {
        bind(n);
        if (i % 2) yolort_bind(n->c, MB_IMAGES, images, sizeof images);
        if (i % 3 == 1) yolort_bind(n->c, MB_ECHO, NULL, 0);
        if (i % 3 == 2) yolort_bind(n->c, MB_DECODED, NULL, 0);
        cr_expect_eq(yolort_run(n->c, 1 + i / 6 % 2, NULL), YOLORT_OK, "%s", yolort_error(n->c));
        if (k.live() - before > most) most = k.live() - before;
    }
    cr_expect_eq(most, 2 * 12);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

static yolort_status open_with(struct net *n, int graph)
{
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.graph = graph;
    return yolort_context_new(&n->c, n->m, &o);
}

Test(rt_cuda, graph_options)
{
    struct mock k = mock();
    struct net n;
    describe(&n, "sm_90a");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    static const int mode[] = {0, YOLORT_GRAPH_OFF, YOLORT_GRAPH_CHAIN, YOLORT_GRAPH_FULL_EDGES, 7};
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        long played = k.played();
        cr_assert_eq(open_with(&n, mode[i]), YOLORT_OK);
        bind(&n);
        cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK);
        cr_expect_eq(k.played() - played, !(mode[i] & YOLORT_GRAPH_OFF), "%d", mode[i]);
        yolort_context_free(n.c);
    }
    cr_expect_eq(open_with(&n, 8), YOLORT_ARG);
    cr_expect_eq(open_with(&n, -1), YOLORT_ARG);
    yolort_module_free(n.m);
    free(n.bytes);
    cr_expect_eq(k.live(), 0);
}

/* Only before a kernel that waits by itself; here one step comes after another, step 2 after step 0. */
Test(rt_cuda, programmatic_edges)
{
    struct mock k = mock();
    static const struct {
        uint32_t first, then;
        int mode, edges;
    } row[] = {{1, 1, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 1}, {1, 1, YOLORT_GRAPH_FULL_EDGES, 0}, {1, 1, YOLORT_GRAPH_CHAIN, 1}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        long before = k.programmatic();
        describe(&n, "sm_90a");
        free(n.bytes);
        n.b.kernel[0].waits = row[i].first;
        n.b.kernel[2].waits = row[i].then;
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
        cr_assert_eq(open_with(&n, row[i].mode), YOLORT_OK);
        bind(&n);
        cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK, "%s", yolort_error(n.c));
        cr_expect_eq(k.programmatic() - before, row[i].edges, "row %zu", i);
        closed(&n);
    }
    cr_expect_eq(k.live(), 0);
}

/* What the caller captures gets the launches themselves, and says nothing of when they are done. */
Test(rt_cuda, captured_stream)
{
    struct mock k = mock();
    struct net *n = opened();
    long played = k.played(), launched = k.launches();
    int stream;
    bind(n);
    k.capture(&stream);
    k.fail("cuEventRecord", 1, 1);
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.played(), played);
    cr_expect_eq(k.launches() - launched, 6);
    k.fail("", 0, 0);
    k.capture(NULL);
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.played(), played + 1);
    k.fail("cuStreamIsCapturing", 1, 906);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_ARG, "the default stream beside a capture");
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* A driver that can't: the steps are launched, in this run and in all that follow. */
Test(rt_cuda, no_graphs_here)
{
    struct mock k = mock();
    struct net *n = opened();
    long launched = k.launches(), live = k.live();
    bind(n);
    k.fail("cuGraphInstantiateWithFlags", 1, 801);
    for (int i = 0; i < 3; i++) cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_str_eq(yolort_error(n->c), "");
    cr_expect_eq(k.launches() - launched, 9);
    cr_expect_eq(k.live(), live);
    closed(n);
}

/* By events; without a graph. The mock's clock says half a millisecond from any event to another. */
Test(rt_cuda, profile)
{
    struct mock k = mock();
    struct net *n = opened();
    long played = k.played();
    double ms[4] = {0};
    yolort_step step;
    bind(n);
    cr_expect_eq(yolort_bind(n->c, MB_DECODED, NULL, 0), YOLORT_OK);
    cr_expect_eq(yolort_profile(n->c, 1), YOLORT_OK);
    for (int i = 0; i < 2; i++) cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.played(), played);
    static const double expected[4] = {0.5, 0, 0.5, 0};
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(yolort_step_at(n->c, i, &step), YOLORT_OK);
        cr_expect_eq(step.ms, expected[i], "step %zu: %g", i, step.ms);
    }
    cr_expect_eq(yolort_profile(n->c, 0), YOLORT_OK);
    cr_expect_eq(yolort_time(n->c, 1, NULL, 3, ms), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.played() - played, 3);
    cr_expect(ms[0] == 0.5 && ms[2] == 0.5 && ms[3] == 0);
    cr_expect_eq(yolort_profile(n->c, 1), YOLORT_OK);
    k.fail("cuStreamWaitValue32_v2", 1, 801);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_str_eq(yolort_error(n->c), "");
    k.fail("cuLaunchKernel", 2, 1);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_ARG);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* Sixteen launches of each step, of which the clock says half a millisecond; a failure in between opens the gate too. */
Test(rt_cuda, profile_of_steps_alone)
{
    struct mock k = mock();
    struct net *n = opened();
    yolort_step step;
    bind(n);
    cr_expect_eq(yolort_bind(n->c, MB_DECODED, NULL, 0), YOLORT_OK);
    cr_expect_eq(yolort_profile(n->c, YOLORT_STEPS_ALONE), YOLORT_OK);
    long played = k.played();
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(k.played(), played + 1, "alone says how steps are profiled, not that they are");
    cr_expect_eq(yolort_profile(n->c, YOLORT_STEPS | YOLORT_STEPS_ALONE), YOLORT_OK);
    long launched = k.launches();
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.launches() - launched, 2 * 16);
    cr_expect_eq(yolort_step_at(n->c, 0, &step), YOLORT_OK);
    cr_expect_eq(step.ms, 0.5 / 16);
    k.fail("cuLaunchKernel", 5, 1);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* Memory of contexts that are gone is used again, is given back when that is asked for, and is all back with the last module. */
static void expect_memory(int reserved)
{
    struct mock k = mock();
    k.virtual_memory(reserved);
    yolort_memory m[4];
    cr_expect_eq(yolort_memory_stats(0, &m[0]), YOLORT_NO_DEVICE);
    cr_expect_eq(yolort_memory_trim(0), YOLORT_NO_DEVICE);
    struct net *n = opened();
    yolort_context *other;
    cr_expect_eq(yolort_memory_stats(0, NULL), YOLORT_ARG);
    cr_assert_eq(yolort_memory_stats(0, &m[0]), YOLORT_OK);
    cr_expect_eq(m[0].reserved_bytes, reserved ? m[0].total_bytes : 0);
    cr_expect_eq(m[0].blocks, 3, "weights, arena, inputs and outputs");
    cr_expect(m[0].used_bytes && m[0].used_bytes <= m[0].mapped_bytes && m[0].peak_bytes == m[0].used_bytes);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(yolort_context_new(&other, n->m, NULL), YOLORT_OK);
        cr_assert_eq(yolort_memory_stats(0, &m[1]), YOLORT_OK);
        cr_expect_eq(m[1].blocks, 5);
        cr_expect_eq(m[1].peak_bytes, m[1].used_bytes);
        if (i) cr_expect_eq(m[1].mapped_bytes, m[2].mapped_bytes, "nothing new is taken");
        yolort_context_free(other);
        cr_assert_eq(yolort_memory_stats(0, &m[2]), YOLORT_OK);
        cr_expect_eq(m[2].used_bytes, m[0].used_bytes);
        if (!reserved) m[2].mapped_bytes = m[1].mapped_bytes;
    }
    yolort_context_free(n->c);
    cr_expect_eq(yolort_memory_trim(0), YOLORT_OK);
    cr_assert_eq(yolort_memory_stats(0, &m[3]), YOLORT_OK);
    cr_expect(m[3].blocks == 1 && m[3].mapped_bytes < m[0].mapped_bytes + (1 << 16));
    cr_expect_geq(m[3].free_bytes, m[0].free_bytes);
    n->c = NULL;
    closed(n);
    cr_expect_eq(k.live(), 0);
    k.virtual_memory(1);
}

Test(rt_cuda, memory_of_contexts)
{
    expect_memory(1);
    expect_memory(0);
}

struct worker {
    yolort_module *m;
    int device, bad;
};

static void *work(void *p)
{
    struct worker *w = p;
    uint8_t in[N] = {0};
    float out[N];
    for (int i = 0; i < 50 && !w->bad; i++) {
        yolort_context *c;
        yolort_context_opts o;
        yolort_context_opts_init(&o, sizeof o);
        o.device = w->device;
        w->bad = yolort_context_new(&c, w->m, &o);
        if (w->bad) return NULL;
        w->bad = yolort_bind(c, MB_INPUT_U8, in, sizeof in) || yolort_bind(c, MB_ECHO, out, sizeof out);
        for (int k = 0; k < 4 && !w->bad; k++) w->bad = yolort_run(c, 1 + k % 2, NULL) || yolort_wait(c);
        yolort_context_free(c);
    }
    return NULL;
}

/* One module, contexts of several threads on two devices. */
Test(rt_cuda, threads_and_devices)
{
    enum { THREADS = 6 };
    struct mock k = mock();
    struct net n;
    setenv("MOCKCUDA_DEVICES", "90,90", 1);
    describe(&n, "sm_90a");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    struct worker w[THREADS];
    pthread_t id[THREADS];
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){n.m, i % 2, 0};
        cr_assert_eq(pthread_create(&id[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        cr_expect_eq(w[i].bad, 0, "thread %d", i);
    }
    yolort_module_free(n.m);
    free(n.bytes);
    cr_expect_eq(k.live(), 0);
}

/* Patterns around the context's memory, and the weights, are looked at by each wait. */
Test(rt_cuda, guard_bands)
{
    struct mock k = mock();
    struct net *n = opened();
    yolort_context_opts o;
    yolort_context *c;
    yolort_context_opts_init(&o, sizeof o);
    o.guard = 1;
    for (int i = 0; i < 6; i++) {
        cr_assert_eq(yolort_context_new(&c, n->m, &o), YOLORT_OK);
        size_t arena = n->b.target[0].arena_size, io = yolort_io_at(n->m, 0)->bytes_per_image * 2;
        uint8_t *at[] = {NULL, c->memory.arena - 1, c->memory.arena + arena, c->memory.io[0] - 4096, c->memory.io[3] - 1, c->memory.constants};
        cr_expect_eq(yolort_bind(c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
        cr_expect_eq(yolort_bind(c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
        cr_expect_eq(yolort_run(c, 2, NULL), YOLORT_OK, "%s", yolort_error(c));
        memset(c->memory.io[0], 1, io); /* its own */
        if (at[i]) *at[i] ^= 1;
        cr_expect_eq(yolort_wait(c), at[i] ? YOLORT_FORMAT : YOLORT_OK, "%d: %s", i, yolort_error(c));
        cr_expect(!at[i] || strstr(yolort_error(c), "wrote"), "%s", yolort_error(c));
        yolort_context_free(c);
    }
    closed(n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cuda, memory_of_the_caller)
{
    struct mock k = mock();
    struct net *n = opened();
    yolort_context_opts o;
    yolort_context *c;
    yolort_memory before, with;
    size_t bytes = yolort_module_info(n->m)->arena_bytes;
    uint8_t *mine = aligned_alloc(256, 4096);
    cr_assert(bytes && bytes <= 2048);
    yolort_context_opts_init(&o, sizeof o);
    o.memory = mine;
    o.memory_bytes = bytes;
    cr_expect_eq(yolort_context_new(&c, n->m, &o), YOLORT_ARG, "the host's");
    k.device_memory(mine, 1);
    cr_expect_eq(yolort_context_new(&c, n->m, &o), YOLORT_ARG, "of another device");
    k.device_memory(mine, 0);
    o.memory_bytes = bytes - 1;
    cr_expect_eq(yolort_context_new(&c, n->m, &o), YOLORT_ARG, "too small");
    o.memory_bytes = bytes;
    yolort_memory_stats(0, &before);
    cr_assert_eq(yolort_context_new(&c, n->m, &o), YOLORT_OK);
    yolort_memory_stats(0, &with);
    cr_expect_eq(with.blocks, before.blocks + 1, "inputs and outputs");
    cr_expect_eq(c->memory.arena, mine);
    yolort_context_free(c);
    k.device_memory(mine + 8, 0);
    o.memory = mine + 8;
    cr_expect_eq(yolort_context_new(&c, n->m, &o), YOLORT_ARG, "not aligned");
    closed(n);
    free(mine);
    cr_expect_eq(k.live(), 0);
}

/* The text says what was wanted and what is there. */
Test(rt_cuda, no_memory_left)
{
    struct mock k = mock();
    struct net n;
    describe(&n, "sm_90a");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    k.cap(0);
    cr_expect_eq(open_with(&n, 0), YOLORT_OOM_DEVICE);
    k.cap((size_t)1 << 30);
    cr_expect_eq(open_with(&n, 0), YOLORT_OK);
    closed(&n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cuda, one_module_many_contexts)
{
    struct mock k = mock();
    struct net *n = opened();
    yolort_context *other;
    cr_assert_eq(yolort_context_new(&other, n->m, NULL), YOLORT_OK);
    yolort_context_free(other);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cuda, picks_the_device)
{
    struct mock k = mock();
    struct net n;
    yolort_context_opts o;
    setenv("MOCKCUDA_DEVICES", "75,89", 1);
    describe(&n, "sm_86");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    yolort_context_opts_init(&o, sizeof o);
    cr_expect_eq(yolort_context_new(&n.c, n.m, &o), YOLORT_INCOMPATIBLE);
    o.device = 1;
    cr_expect_eq(yolort_context_new(&n.c, n.m, &o), YOLORT_OK);
    yolort_context_free(n.c);
    o.device = 2;
    cr_expect_eq(yolort_context_new(&n.c, n.m, &o), YOLORT_NO_DEVICE);
    o.device = -1;
    cr_expect_eq(yolort_context_new(&n.c, n.m, &o), YOLORT_ARG);
    yolort_module_free(n.m);
    free(n.bytes);
    cr_expect_eq(k.live(), 0);
}

static void expect_refused(const char *arch, yolort_status s, const char *part)
{
    struct net n;
    describe(&n, arch);
    cr_expect_eq(load(&n), s, "%s", arch);
    cr_expect(strstr(n.why, part), "\"%s\" is not in \"%s\"", part, n.why);
    free(n.bytes);
}

Test(rt_cuda, other_devices)
{
    struct mock k = mock();
    setenv("MOCKCUDA_DEVICES", "89", 1);
    expect_refused("sm_90a", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("sm_90", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("sm_75", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("sm_", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("x86_64", YOLORT_INCOMPATIBLE, "8.9");
    setenv("MOCKCUDA_DEVICES", "", 1);
    expect_refused("sm_90a", YOLORT_NO_DEVICE, "there is none");
    setenv("YOLOC_LIBCUDA", "/nowhere/libcuda.so", 1);
    expect_refused("sm_90a", YOLORT_NO_DEVICE, "no CUDA driver");
    setenv("YOLOC_LIBCUDA", "libm.so.6", 1);
    expect_refused("sm_90a", YOLORT_NO_DEVICE, "too old");
    setenv("YOLOC_LIBCUDA", MOCKCUDA, 1);
    static const int absent[] = {34, 100, 802};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        k.fail("cuInit", 1, absent[i]);
        expect_refused("sm_90a", YOLORT_NO_DEVICE, "start");
    }
    k.fail("cuInit", 1, 804);
    expect_refused("sm_90a", YOLORT_INCOMPATIBLE, "start");
}

/* The code's own tables, when they point outside it. */
Test(rt_cuda, bad_code)
{
    struct mock k = mock();
    static const struct {
        size_t at, size;
        uint64_t value;
    } row[] = {{18, 2, 62}, {4, 1, 1}, {40, 8, UINT64_MAX}, {32, 8, UINT64_MAX}, {60, 2, 0xffff}, {56, 2, 0xffff}, {58, 2, 40}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        describe(&n, "sm_90a");
        uint8_t *p = n.bytes;
        while (memcmp(p, "\177ELF", 4)) p++;
        memcpy(p + row[i].at, &row[i].value, row[i].size);
        modbuild_sign(n.bytes, n.size);
        cr_expect_eq(load(&n), YOLORT_FORMAT, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    cr_expect_eq(k.live(), 0);
}

/* What no GPU launches, under a digest that is right. */
Test(rt_cuda, bad_launches)
{
    struct mock k = mock();
    static const struct {
        uint32_t threads, per_block, shared, waits;
        uint8_t align;
        yolort_status status;
    } row[] = {{128, 128, 0, 0, 0, YOLORT_OK},         {1024, 1, 227 << 10, 1, 4, YOLORT_OK},
               {0, 128, 0, 0, 0, YOLORT_FORMAT},       {100, 128, 0, 0, 0, YOLORT_FORMAT},
               {1056, 128, 0, 0, 0, YOLORT_FORMAT},    {128, 0, 0, 0, 0, YOLORT_FORMAT},
               {128, 1, 1 + (227 << 10), 0, 0, YOLORT_FORMAT}, {128, 1, 0, 0, 5, YOLORT_FORMAT},
               {128, 1, 0, 2, 0, YOLORT_FORMAT}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        describe(&n, "sm_90a");
        free(n.bytes);
        n.b.kernel[2].threads = row[i].threads;
        n.b.kernel[2].per_block = row[i].per_block;
        n.b.kernel[2].shared = row[i].shared;
        n.b.kernel[2].waits = row[i].waits;
        n.b.param[4].align = row[i].align;
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_expect_eq(load(&n), row[i].status, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    cr_expect_eq(k.live(), 0);
}

/* Blocks of kernel 2, of MB_ELEMENTS units an image, on the mock's 7 multiprocessors. */
Test(rt_cuda, blocks_of_a_launch)
{
    struct mock k = mock();
    static const struct {
        uint32_t per_block, most, least;
        int images;
        long blocks;
    } row[] = {{1, 0, 0, 1, MB_ELEMENTS},     {1, 0, 0, 2, 2 * MB_ELEMENTS}, {5, 0, 0, 1, 39},  {1, 1, 0, 2, 7},
               {1, 2, 7, 2, 14},              {1, 1, 20, 2, 20},             {128, 1, 20, 1, 2}, {1, 1, UINT32_MAX, 1, MB_ELEMENTS},
               {1, UINT32_MAX, 9, 1, MB_ELEMENTS}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        describe(&n, "sm_90a");
        free(n.bytes);
        n.b.kernel[0].per_block = n.b.kernel[1].per_block = 1 << 20; /* one block each */
        n.b.kernel[2].per_block = row[i].per_block;
        n.b.kernel[2].most_blocks = row[i].most;
        n.b.kernel[2].least_blocks = row[i].least;
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
        cr_assert_eq(yolort_context_new(&n.c, n.m, NULL), YOLORT_OK);
        bind(&n);
        long before = k.blocks();
        cr_expect_eq(yolort_run(n.c, row[i].images, NULL), YOLORT_OK, "%s", yolort_error(n.c));
        cr_expect_eq(yolort_wait(n.c), YOLORT_OK);
        cr_expect_eq(k.blocks() - before - 2, row[i].blocks, "row %zu: %ld", i, k.blocks() - before - 2);
        closed(&n);
    }
    cr_expect_eq(k.live(), 0);
}

static void add_map(struct net *n)
{
    describe(n, "sm_90a");
    free(n->bytes);
    n->b.param[4].align = 4;
    n->b.kernel[2].nmap = n->b.nmap = 1;
    n->b.map[0] = (struct ym_map){
        .rank = 3, .swizzle = 1, .dim = {8, MB_ELEMENTS / 8, 2}, .box = {8, 4, 1}, .stride = {32, MB_ELEMENTS * 4}};
}

Test(rt_cuda, maps)
{
    struct mock k = mock();
    struct net n;
    add_map(&n);
    n.bytes = modbuild_finish(&n.b, &n.size);
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    cr_assert_eq(yolort_context_new(&n.c, n.m, NULL), YOLORT_OK);
    bind(&n);
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_eq(yolort_wait(n.c), YOLORT_OK);
    closed(&n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cuda, bad_maps)
{
    static const struct {
        size_t at, size;
        uint32_t value;
    } row[] = {
#define OF(table, row, field) offsetof(struct modbuild, table) + (row) * sizeof ((struct modbuild *)0)->table[0] + field, 4
#define MAP(field)            OF(map, 0, offsetof(struct ym_map, field))
        {OF(kernel, 2, offsetof(struct ym_kernel, nmap)), 0},
        {OF(kernel, 2, offsetof(struct ym_kernel, nmap)), 2},
        {OF(kernel, 2, offsetof(struct ym_kernel, first_map)), 1},
        {OF(kernel, 1, offsetof(struct ym_kernel, nmap)), 1},
        {offsetof(struct modbuild, nmap), 4, 2},
        {offsetof(struct modbuild, param) + 4 * sizeof(struct ym_param) + offsetof(struct ym_param, align), 1, 3},
        {MAP(param), 1},
        {MAP(param), 2},
        {MAP(rank), 2},
        {MAP(rank), 4},
        {MAP(rank), 6},
        {MAP(swizzle), 0},
        {MAP(swizzle), 2},
        {MAP(swizzle), 4},
        {MAP(pad), 1},
        {MAP(dim[0]), 9},
        {MAP(dim[1]), 0},
        {MAP(dim[1]), MB_ELEMENTS / 8 + 1},
        {MAP(dim[1]), UINT32_MAX},
        {MAP(dim[2]), 3},
        {MAP(dim[3]), 1},
        {MAP(box[0]), 4},
        {MAP(box[1]), 0},
        {MAP(box[1]), 257},
        {MAP(box[2]), 2},
        {MAP(box[4]), 1},
        {MAP(stride[0]), 0},
        {MAP(stride[0]), 40},
        {MAP(stride[0]), 48},
        {MAP(stride[1]), MB_ELEMENTS * 4 - 16},
        {MAP(stride[2]), 16},
#undef MAP
#undef OF
    };
    struct mock k = mock();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        add_map(&n);
        memcpy((unsigned char *)&n.b + row[i].at, &row[i].value, row[i].size);
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_expect_eq(load(&n), YOLORT_FORMAT, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    cr_expect_eq(k.live(), 0);
}

/* Each call of the driver fails once, on every way from the file to the results; nothing is left behind, and a status tells. */
static yolort_status whole(struct net *n, const struct mock *k, int graph, const char **failed)
{
    yolort_status s = load(n);
    n->c = NULL;
    if (!s) s = open_with(n, graph);
    if (!s) s = yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8);
    if (!s) s = yolort_bind(n->c, MB_ECHO, echo, sizeof echo);
    if (!s) s = yolort_run(n->c, 1, NULL);
    if (!s) s = yolort_run(n->c, 2, NULL);
    if (!s) s = yolort_profile(n->c, 1);
    if (!s) s = yolort_run(n->c, 1, NULL);
    if (!s) s = yolort_wait(n->c);
    *failed = k->failed();
    k->fail("", 0, 0); /* what can't be given back stays */
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    return s;
}

/* Of the search for a program that some device runs: the next one is tried. */
static int is_asking(const char *call)
{
    return !strncmp(call, "cuDevice", 8) || !strcmp(call, "cuInit");
}

/* Runs without graphs give the same. */
static int is_harmless(const char *call, yolort_status s)
{
    if (!strcmp(call, "cuMemAddressReserve")) return s == YOLORT_OOM_DEVICE || s == YOLORT_UNSUPPORTED; /* pieces of the driver's own */
    if (!strcmp(call, "cuMemCreate") || !strcmp(call, "cuMemMap") || !strcmp(call, "cuMemSetAccess")) return s == YOLORT_OOM_DEVICE; /* tried again when what is unused is given back */
    return s == YOLORT_UNSUPPORTED && (!strncmp(call, "cuGraph", 7) || !strcmp(call, "cuStreamWaitValue32_v2"));
}

static const struct {
    int code;
    yolort_status status;
} kind[] = {
    {1, YOLORT_ARG},           {2, YOLORT_OOM_DEVICE},    {3, YOLORT_NO_DEVICE},    {100, YOLORT_NO_DEVICE},
    {101, YOLORT_NO_DEVICE},   {200, YOLORT_FORMAT},      {201, YOLORT_ARG},        {209, YOLORT_INCOMPATIBLE},
    {218, YOLORT_INCOMPATIBLE}, {300, YOLORT_UNSUPPORTED}, {400, YOLORT_ARG},        {700, YOLORT_DEVICE_LOST},
    {701, YOLORT_OOM_DEVICE},  {702, YOLORT_DEVICE_LOST}, {716, YOLORT_DEVICE_LOST}, {719, YOLORT_DEVICE_LOST},
    {720, YOLORT_UNSUPPORTED}, {801, YOLORT_UNSUPPORTED}, {802, YOLORT_NO_DEVICE},  {999, YOLORT_DEVICE_LOST},
    {4711, YOLORT_UNSUPPORTED},
};
static void fail_each(const struct mock *k, struct net *n, int graph, int code, yolort_status expected)
{
    for (int nth = 1;; nth++) {
        const char *at;
        k->fail("*", nth, code);
        yolort_status s = whole(n, k, graph, &at);
        if (!at) break; /* no run has so many calls */
        cr_assert_lt(nth, 1000);
        int fits = s == expected || (s == YOLORT_INCOMPATIBLE && is_asking(at)) || (s == YOLORT_OK && is_harmless(at, expected));
        cr_expect(fits, "%s, call %d, error %d: %s", at, nth, code, yolort_status_name(s));
        cr_expect_eq(k->live(), 0, "%s, call %d, error %d: %ld left", at, nth, code, k->live());
    }
}

Test(rt_cuda, each_call_fails)
{
    struct mock k = mock();
    struct net n;
    const char *at;
    describe(&n, "sm_90a");
    cr_assert_eq(whole(&n, &k, 0, &at), YOLORT_OK);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        fail_each(&k, &n, 0, kind[i].code, kind[i].status);
        fail_each(&k, &n, YOLORT_GRAPH_OFF, kind[i].code, kind[i].status);
    }
    free(n.bytes);
}

/* After a fatal error the context gives DEVICE_LOST and calls the driver for no more work; freed, it leaves the way to new ones. */
Test(rt_cuda, lost)
{
    struct mock k = mock();
    struct net *n = opened();
    bind(n);
    k.fail("cuGraphLaunch", 1, 700);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_DEVICE_LOST);
    cr_expect(strstr(yolort_error(n->c), "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", yolort_error(n->c));
    long before = k.launches();
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_DEVICE_LOST);
    cr_expect_eq(yolort_wait(n->c), YOLORT_DEVICE_LOST);
    cr_expect_not(yolort_arena(n->c, NULL));
    cr_expect_eq(k.launches(), before);
    yolort_context_free(n->c);
    n->c = NULL;
    cr_expect_eq(k.live(), 0, "the driver's context is given back");
    yolort_context *again;
    cr_expect_eq(yolort_context_new(&again, n->m, NULL), YOLORT_OK);
    cr_expect_eq(yolort_bind(again, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_expect_eq(yolort_bind(again, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_expect_eq(yolort_run(again, 1, NULL), YOLORT_OK);
    yolort_context_free(again);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* An error of work that was under way is told by whoever waits for it first, and stays. */
Test(rt_cuda, lost_while_waiting)
{
    struct mock k = mock();
    struct net *n = opened();
    bind(n);
    cr_assert_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    k.fail("cuEventSynchronize", 1, 719);
    cr_expect_eq(yolort_wait(n->c), YOLORT_DEVICE_LOST);
    cr_expect_eq(yolort_wait(n->c), YOLORT_DEVICE_LOST);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_DEVICE_LOST);
    cr_expect(strstr(yolort_error(n->c), "719"), "%s", yolort_error(n->c));
    closed(n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cuda, memory_of_another_device)
{
    struct mock k = mock();
    struct net *n = opened();
    k.device_memory(echo, 1);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_ARG);
    cr_expect(strstr(yolort_error(n->c), "another device"), "%s", yolort_error(n->c));
    k.device_memory(echo, 0);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_expect_eq(yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    k.fail("cuMemcpyDtoHAsync_v2", 1, 1); /* nothing is copied out */
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    closed(n);
}

/* Kernels read and write 16 bytes at once. */
Test(rt_cuda, odd_device_memory)
{
    struct mock k = mock();
    struct net *n = opened();
    k.device_memory(echo + 1, 0);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo + 1, sizeof echo - sizeof *echo), YOLORT_ARG);
    cr_expect(strstr(yolort_error(n->c), "no multiple of 16"), "%s", yolort_error(n->c));
    closed(n);
}

Test(rt_cuda, lists_gpus)
{
    mock();
    yolort_gpu gpu[2];
    size_t n = 9;
    int driver;
    char why[256];
    setenv("MOCKCUDA_DEVICES", "90,120,75", 1);
    cr_assert_eq(yolort_gpus(gpu, 2, &n, &driver, why, sizeof why), YOLORT_OK);
    cr_expect_eq(n, 3);
    cr_expect_eq(driver, 13000);
    cr_expect_str_eq(gpu[0].target, "cuda:sm_90a");
    cr_expect_str_eq(gpu[1].target, "cuda:sm_120");
    cr_expect_eq(gpu[1].major, 12);
    cr_expect_eq(gpu[1].multiprocessors, 7);
    cr_expect_eq(yolort_gpus(NULL, 2, &n, &driver, why, sizeof why), YOLORT_ARG);
    cr_expect_eq(yolort_gpus(gpu, 2, NULL, &driver, why, sizeof why), YOLORT_ARG);
    cr_expect_eq(yolort_gpus(gpu, 2, &n, NULL, NULL, 0), YOLORT_ARG);
    setenv("YOLOC_LIBCUDA", "/nowhere/libcuda.so", 1);
    cr_expect_eq(yolort_gpus(gpu, 2, &n, &driver, why, sizeof why), YOLORT_NO_DEVICE);
    cr_expect(strstr(why, "no CUDA driver"), "%s", why);
}
