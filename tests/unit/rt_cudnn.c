/* Steps that cuDNN does, beside a driver and a cuDNN that compute on the host (tests/cuda/mockcuda.c, mockcudnn.c). Kernels do nothing
 * there, so that what is computed is cuDNN's. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudamock.h"
#include "modbuild.h"
#include "runtime/object.h"
#include "runtime/order.h"

static struct {
    void (*fail)(const char *name, int nth, int code);
    const char *(*failed)(void);
    long (*live)(void);
    long (*runs)(void);
} dnn;

static struct mock mocks(void)
{
    struct mock m = mock();
    void *lib = mock_library("YOLOC_LIBCUDNN", MOCKCUDNN);
    mock_take(lib, "mockcudnn_fail", &dnn.fail);
    mock_take(lib, "mockcudnn_failed", &dnn.failed);
    mock_take(lib, "mockcudnn_live", &dnn.live);
    mock_take(lib, "mockcudnn_runs", &dnn.runs);
    dnn.fail("", 0, 0);
    unsetenv("MOCKCUDNN_VERSION");
    return m;
}

/* Two steps behind those of modbuild_init: maps of 3 channels in pixels of 8 by a 3x3 convolution to 4 channels, these by the same weights'
 * first 1x1 part with stride 2 and what is added. */
enum { IMAGES = 2, CI = 3, H = 5, W = 6, CO = 4, PIXEL = 8, H2 = 3, W2 = 3, FIRST = 4, SECOND = 5 };
enum { X = 2048, MID = 4096, ADDED = 6144, OUT = 8192, SPACE = 16384, ARENA = 32768, WEIGHTS = 128, BIAS = 384 };

static _Alignas(256) unsigned char arena[ARENA];

struct net {
    struct modbuild b;
    uint8_t *bytes;
    size_t size;
    yolort_module *m;
    yolort_context *c;
    char why[256];
};

static uint16_t half(float f) /* of small whole numbers and their quarters */
{
    int e;
    if (f == 0) return 0;
    float m = frexpf(fabsf(f), &e);
    return (uint16_t)((f < 0 ? 0x8000u : 0u) | (unsigned)(e + 14) << 10 | ((unsigned)(m * 2048) & 1023u));
}

static float value(uint16_t h)
{
    float f = ldexpf((float)(1024 + (h & 1023)), (h >> 10 & 31) - 25);
    return h & 0x7fff ? h & 0x8000 ? -f : f : 0;
}

static uint16_t halves(size_t at)
{
    uint16_t h;
    memcpy(&h, arena + at, sizeof h);
    return h;
}

static struct ym_param param(uint32_t c, uint32_t h, uint32_t w, uint32_t pixel, uint32_t dtype, int written)
{
    uint64_t size = dtype == YOLORT_F32 ? 4 : 2, image = (uint64_t)h * w * pixel;
    return (struct ym_param){.first = (image - pixel + c) * size, .each = image * size, .dtype = (uint8_t)dtype, .written = (uint8_t)written, .align = 4};
}

static void add_step(struct modbuild *b, const struct ym_param *p, const uint64_t *at, uint32_t n)
{
    uint32_t k = modbuild_kernel(b, MB_COPY, 10, p, n);
    b->kernel[k].threads = b->kernel[k].per_block = 128;
    b->step[b->nstep++] = (struct ym_step){.kernel = k, .first_arg = b->narg, .narg = n, .want = {1u << MB_ECHO}, .label = 0, .grain = 1};
    for (uint32_t i = 0; i < n; i++) b->arg[b->narg++] = (struct ym_arg){.slot = YM_SLOT_ARENA, .offset = at[i]};
}

static void strides(uint64_t to[3], uint32_t h, uint32_t w, uint32_t pixel)
{
    to[0] = (uint64_t)h * w * pixel;
    to[1] = (uint64_t)w * pixel;
    to[2] = pixel;
}

static struct ym_conv first_conv(void)
{
    struct ym_conv c = {.dtype = YOLORT_F16, .out_dtype = YOLORT_F16, .activation = YM_ACT_RELU, .biased = 1, .images = IMAGES, .x = {CI, H, W},
                        .out = {CO, H, W}, .kernel = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}};
    strides(c.x_stride, H, W, PIXEL);
    strides(c.out_stride, H, W, CO);
    return c;
}

static struct ym_conv second_conv(void)
{
    struct ym_conv c = {.dtype = YOLORT_F16, .out_dtype = YOLORT_F32, .added = 1, .images = IMAGES, .x = {CO, H, W}, .out = {CO, H2, W2},
                        .kernel = {1, 1}, .stride = {2, 2}, .dilation = {1, 1}};
    strides(c.x_stride, H, W, CO);
    strides(c.out_stride, H2, W2, CO);
    strides(c.added_stride, H2, W2, CO);
    return c;
}

static void describe(struct net *n)
{
    memset(n, 0, sizeof *n);
    struct modbuild *b = &n->b;
    modbuild_init(b);
    modbuild_cuda(b, "sm_90a");
    b->target[0].arena_size = ARENA;
    const struct ym_param one[] = {param(CI, H, W, PIXEL, YOLORT_F16, 0), param(CO, H, W, CO, YOLORT_F16, 1)};
    const struct ym_param two[] = {param(CO, H, W, CO, YOLORT_F16, 0), param(CO, H2, W2, CO, YOLORT_F16, 0), param(CO, H2, W2, CO, YOLORT_F32, 1)};
    add_step(b, one, (const uint64_t[]){X, MID}, 2);
    add_step(b, two, (const uint64_t[]){MID, ADDED, OUT}, 3);
    uint32_t name = modbuild_string(b, "cudnn engine=7"), other = modbuild_string(b, "cudnn engine=12");
    b->engine[0] = (struct ym_engine){.step = FIRST, .name = name, .version = 91900, .number = 7, .nknob = 1, .x = 0, .out = 1, .added = YM_ANY,
                                      .weights = WEIGHTS, .bias = BIAS, .conv = first_conv(), .knob = {{24, 2}}};
    b->engine[1] = (struct ym_engine){.step = SECOND, .name = other, .version = 91900, .number = 12, .x = 0, .out = 2, .added = 1,
                                      .weights = WEIGHTS, .space = SPACE, .space_bytes = 4096, .conv = second_conv()};
    b->nengine = 2;
    uint16_t weights[CO * 9 * CI];
    for (int i = 0; i < CO * 9 * CI; i++) weights[i] = half((float)(i % 7 - 3) / 4);
    memcpy((char *)b->constant + WEIGHTS, weights, sizeof weights);
    for (int i = 0; i < CO; i++) b->constant[BIAS / 4 + i] = (float)i - 1.5f;
    b->nconstant = BIAS / 4 + CO;
    n->bytes = modbuild_finish(b, &n->size);
}

static void again(struct net *n)
{
    free(n->bytes);
    n->bytes = modbuild_finish(&n->b, &n->size);
}

static yolort_status load(struct net *n)
{
    n->m = NULL;
    n->why[0] = 0;
    return yolort_load(&n->m, n->bytes, n->size, n->why, sizeof n->why);
}

enum { N = 2 * MB_ELEMENTS };
static uint8_t u8[N];
static float echo[N];

static yolort_status start(struct net *n, const struct mock *k, int graph, int no_engines)
{
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.graph = graph;
    o.no_engines = no_engines;
    o.memory = arena;
    o.memory_bytes = sizeof arena;
    k->device_memory(arena, 0);
    n->c = NULL;
    yolort_status s = yolort_context_new(&n->c, n->m, &o);
    if (!s) s = yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8);
    if (!s) s = yolort_bind(n->c, MB_ECHO, echo, sizeof echo);
    return s;
}

static void begin(struct net *n, const struct mock *k, int graph, int no_engines)
{
    cr_assert_eq(load(n), YOLORT_OK, "%s", n->why);
    cr_assert_eq(start(n, k, graph, no_engines), YOLORT_OK);
}

static void end(struct net *n)
{
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    n->c = NULL;
    n->m = NULL;
}

static void fill(void)
{
    memset(arena, 0, sizeof arena);
    for (int i = 0; i < IMAGES * H * W * PIXEL; i++) {
        uint16_t h = half((float)(i * 5 % 9 - 4) / 2);
        memcpy(arena + X + 2 * i, &h, sizeof h);
    }
    for (int i = 0; i < IMAGES * H2 * W2 * CO; i++) {
        uint16_t h = half((float)(i % 5));
        memcpy(arena + ADDED + 2 * i, &h, sizeof h);
    }
}

static float weight(const struct net *n, int i)
{
    uint16_t h;
    memcpy(&h, (const char *)n->b.constant + WEIGHTS + 2 * i, sizeof h);
    return value(h);
}

static float activate(uint8_t how, float v)
{
    if (how == YM_ACT_RELU) return v > 0 ? v : 0;
    if (how == YM_ACT_NONE) return v;
    return (how == YM_ACT_SILU ? v : 1) / (1 + expf(-v));
}

static float first_at(const struct net *n, int image, int y, int x, int c)
{
    float sum = 0;
    for (int t = 0; t < 9; t++)
        for (int i = 0; i < CI; i++) {
            int row = y + t / 3 - 1, column = x + t % 3 - 1;
            if (row < 0 || row >= H || column < 0 || column >= W) continue;
            sum += value(halves(X + 2 * (size_t)(((image * H + row) * W + column) * PIXEL + i))) * weight(n, (c * 9 + t) * CI + i);
        }
    return activate(n->b.engine[0].conv.activation, sum + (n->b.engine[0].conv.biased ? (float)c - 1.5f : 0));
}

/* The largest difference of the first step's results from what they should be, and of the second's from what follows of these. */
static float apart(const struct net *n)
{
    float most = 0;
    for (int i = 0; i < IMAGES * H * W * CO; i++) {
        float got = value(halves(MID + 2 * (size_t)i)), want = first_at(n, i / (H * W * CO), i / (W * CO) % H, i / CO % W, i % CO);
        most = fmaxf(most, fabsf(got - want));
    }
    for (int i = 0; i < IMAGES * H2 * W2 * CO; i++) {
        float got, want = value(halves(ADDED + 2 * (size_t)i));
        int image = i / (H2 * W2 * CO), y = i / (W2 * CO) % H2 * 2, x = i / CO % W2 * 2;
        for (int k = 0; k < CO; k++) want += value(halves(MID + 2 * (size_t)(((image * H + y) * W + x) * CO + k))) * weight(n, i % CO * CO + k);
        memcpy(&got, arena + OUT + 4 * i, sizeof got);
        most = fmaxf(most, fabsf(got - want));
    }
    return most;
}

Test(rt_cudnn, version)
{
    int version = 9;
    char why[128];
    mocks();
    cr_expect_eq(yolort_cudnn(&version, why, sizeof why), YOLORT_OK, "%s", why);
    cr_expect_eq(version, 91900);
    cr_expect_eq(yolort_cudnn(NULL, why, sizeof why), YOLORT_ARG);
    setenv("MOCKCUDNN_VERSION", "8907", 1);
    cr_expect_eq(yolort_cudnn(&version, why, sizeof why), YOLORT_NO_DEVICE);
    cr_expect(strstr(why, "8907") && version == 0, "%s", why);
    setenv("YOLOC_LIBCUDNN", MOCKCUDA, 1);
    cr_expect_eq(yolort_cudnn(&version, why, sizeof why), YOLORT_NO_DEVICE);
    cr_expect(strstr(why, "lacks cudnn"), "%s", why);
    setenv("YOLOC_LIBCUDNN", "/nowhere/libcudnn.so", 1);
    cr_expect_eq(yolort_cudnn(&version, why, sizeof why), YOLORT_NO_DEVICE);
    cr_expect(strstr(why, "no cuDNN (/nowhere"), "%s", why);
}

/* As a graph, step by step, and into a stream that the caller captures; one run after another gives the same. */
Test(rt_cudnn, computes)
{
    struct mock k = mocks();
    static const struct {
        uint8_t activation, biased;
        float apart;
    } row[] = {{YM_ACT_RELU, 1, 0}, {YM_ACT_NONE, 0, 0}, {YM_ACT_SILU, 1, 0.01f}, {YM_ACT_SIGMOID, 0, 0.001f}};
    static const int mode[] = {0, YOLORT_GRAPH_OFF, YOLORT_GRAPH_CHAIN};
    struct net n;
    int stream;
    describe(&n);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        n.b.engine[0].conv.activation = row[i].activation;
        n.b.engine[0].conv.biased = row[i].biased;
        n.b.engine[0].bias = row[i].biased ? BIAS : 0;
        again(&n);
        for (size_t g = 0; g < sizeof mode / sizeof *mode; g++) {
            begin(&n, &k, mode[g], 0);
            long before = dnn.runs();
            for (int r = 0; r < 3; r++) {
                fill();
                if (r == 2) k.capture(&stream);
                cr_assert_eq(yolort_run(n.c, IMAGES, r == 2 ? &stream : NULL), YOLORT_OK, "%s", yolort_error(n.c));
                k.capture(NULL);
                cr_expect_leq(apart(&n), row[i].apart, "row %zu, mode %d, run %d: %g", i, mode[g], r, (double)apart(&n));
            }
            cr_expect_eq(dnn.runs() - before, 6);
            end(&n);
            cr_expect(k.live() == 0 && dnn.live() == 0, "%ld, %ld", k.live(), dnn.live());
        }
    }
    free(n.bytes);
}

/* Bound by both, of what the module says and what there is. */
static void expect_engines(const struct net *n, int first, int second)
{
    yolort_step s;
    cr_expect_eq(yolort_step_engine(n->c, FIRST), first);
    cr_expect_eq(yolort_step_engine(n->c, SECOND), second);
    cr_expect_eq(yolort_step_engine(n->c, 0), 0);
    cr_expect_eq(yolort_step_engine(n->c, 99), 0);
    cr_assert_eq(yolort_step_at(n->c, FIRST, &s), YOLORT_OK);
    cr_expect_str_eq(s.kernel, first > 0 ? "cudnn engine=7" : "kernel");
}

static long runs_of(struct net *n, int batch)
{
    long before = dnn.runs();
    cr_expect_eq(yolort_run(n->c, batch, NULL), YOLORT_OK, "%s", yolort_error(n->c));
    return dnn.runs() - before;
}

/* Without a driver. */
Test(rt_cudnn, looked_at)
{
    struct net n;
    yolort_load_opts o;
    yolort_engine g;
    yolort_step s;
    describe(&n);
    setenv("YOLOC_LIBCUDA", "/nowhere/libcuda.so", 1);
    cr_expect_eq(load(&n), YOLORT_NO_DEVICE);
    yolort_load_opts_init(&o, sizeof o);
    o.look = 1;
    cr_assert_eq(yolort_load_within(&n.m, n.bytes, n.size, &o, n.why, sizeof n.why), YOLORT_OK, "%s", n.why);
    cr_assert_eq(yolort_module_engine(n.m, SECOND, &g), YOLORT_OK);
    cr_expect_str_eq(g.text, "cudnn engine=12");
    cr_expect(g.version == 91900 && g.number == 12 && g.space_bytes == 4096);
    cr_assert_eq(yolort_module_step(n.m, SECOND, &s), YOLORT_OK);
    cr_expect_str_eq(s.kernel, "kernel");
    cr_expect_eq(yolort_module_engine(n.m, 0, &g), YOLORT_ARG);
    cr_expect_eq(yolort_module_engine(n.m, 99, &g), YOLORT_ARG);
    cr_expect_eq(yolort_module_engine(n.m, SECOND, NULL), YOLORT_ARG);
    yolort_module_free(n.m);
    free(n.bytes);
}

Test(rt_cudnn, kernels_where_it_is_not)
{
    struct mock k = mocks();
    struct net n;
    describe(&n);
    begin(&n, &k, 0, 0);
    expect_engines(&n, 1, 1);
    long launched = k.launches();
    cr_expect_eq(runs_of(&n, 1), 0, "fewer images than it was made for");
    cr_expect_eq(k.launches() - launched, 4);
    cr_expect_eq(runs_of(&n, 2), 2);
    cr_expect_eq(k.launches() - launched, 6);
    end(&n);
    begin(&n, &k, 0, 1);
    expect_engines(&n, -1, -1);
    cr_expect_eq(runs_of(&n, 2), 0);
    end(&n);
    setenv("YOLOC_LIBCUDNN", "/nowhere/libcudnn.so", 1);
    begin(&n, &k, 0, 0);
    expect_engines(&n, -1, -1);
    cr_expect_eq(runs_of(&n, 2), 0);
    end(&n);
    setenv("YOLOC_LIBCUDNN", MOCKCUDNN, 1);
    n.b.engine[0].number = 11;
    again(&n);
    begin(&n, &k, 0, 0);
    expect_engines(&n, -1, 1);
    cr_expect_eq(runs_of(&n, 2), 1);
    end(&n);
    n.b.engine[1].space_bytes = 4095;
    again(&n);
    begin(&n, &k, 0, 0);
    expect_engines(&n, -1, -1);
    end(&n);
    cr_expect(k.live() == 0 && dnn.live() == 0);
    free(n.bytes);
}

/* Each runs once before it is needed, so that nothing is loaded while streams are held. */
Test(rt_cudnn, warmed_up)
{
    struct mock k = mocks();
    struct net n;
    describe(&n);
    long before = dnn.runs();
    begin(&n, &k, 0, 0);
    cr_expect_eq(dnn.runs() - before, 2);
    dnn.fail("cudnnBackendExecute", 1, 5000);
    end(&n);
    begin(&n, &k, 0, 0);
    expect_engines(&n, -1, 1);
    end(&n);
    cr_expect(k.live() == 0 && dnn.live() == 0);
    free(n.bytes);
}

Test(rt_cudnn, options)
{
    struct mock k = mocks();
    struct net n;
    describe(&n);
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    cr_expect_eq(start(&n, &k, 0, 2), YOLORT_ARG);
    end(&n);
    free(n.bytes);
}

/* A kernel that waits by itself may start early behind a kernel, not behind what cuDNN does; nor may that. */
Test(rt_cudnn, full_edges)
{
    struct mock k = mocks();
    struct net n;
    describe(&n);
    n.b.kernel[4].waits = n.b.kernel[5].waits = 1;
    again(&n);
    for (int none = 0; none < 2; none++) {
        long before = k.programmatic();
        begin(&n, &k, 0, none);
        runs_of(&n, 2);
        cr_expect_eq(k.programmatic() - before, none);
        end(&n);
    }
    free(n.bytes);
}

/* Two that work in the same memory do not run side by side. */
Test(rt_cudnn, working_memory)
{
    struct mock k = mocks();
    struct net n;
    struct rt_order o;
    const uint64_t in[2] = {1u << MB_INPUT_U8}, out[2] = {1u << MB_ECHO};
    describe(&n);
    n.b.arg[n.b.step[SECOND].first_arg].offset = X; /* reads no longer what the first writes */
    for (int shared = 0; shared < 2; shared++) {
        n.b.engine[0].space = SPACE;
        n.b.engine[0].space_bytes = shared ? 256 : 0;
        again(&n);
        begin(&n, &k, 0, 0);
        cr_assert_eq(rt_order_new(&o, &n.m->t, in, out, 2), YOLORT_OK);
        cr_expect_eq((int)(o.first[o.n] - o.first[o.n - 1]), shared);
        rt_order_free(&o);
        end(&n);
    }
    free(n.bytes);
}

/* Whatever cuDNN fails at, the kernels are there; whatever the driver fails at, a status tells; nothing is left behind. failed: the call. */
static yolort_status whole(struct net *n, const struct mock *k, int graph, const char **failed)
{
    yolort_status s = load(n);
    n->c = NULL;
    if (!s) s = start(n, k, graph, 0);
    for (int r = 0; r < 2 && !s; r++) s = yolort_run(n->c, 2, NULL);
    if (!s) s = yolort_wait(n->c);
    *failed = dnn.failed() ? dnn.failed() : k->failed();
    k->fail("", 0, 0);
    dnn.fail("", 0, 0);
    end(n);
    return s;
}

Test(rt_cudnn, each_call_fails)
{
    struct mock k = mocks();
    static const int code[] = {1002, 2000, 3000, 4001, 4003, 4004, 5000, 4711};
    struct net n;
    const char *at;
    describe(&n);
    for (size_t i = 0; i < sizeof code / sizeof *code; i++)
        for (int nth = 1, graph = i % 2 ? YOLORT_GRAPH_OFF : 0;; nth++) {
            dnn.fail("*", nth, code[i]);
            yolort_status s = whole(&n, &k, graph, &at);
            if (!at) break;
            cr_assert_lt(nth, 1000);
            cr_expect_eq(s, YOLORT_OK, "%s, call %d, %d", at, nth, code[i]);
            cr_expect(k.live() == 0 && dnn.live() == 0, "%s, call %d, %d: %ld, %ld", at, nth, code[i], k.live(), dnn.live());
        }
    free(n.bytes);
}

/* Of the driver, for what only cuDNN's steps need. */
Test(rt_cudnn, each_call_of_the_driver_fails)
{
    struct mock k = mocks();
    static const struct {
        const char *name;
        int nth;
    } call[] = {{"cuStreamCreate", 1}, {"cuStreamSynchronize", 2}, {"cuStreamBeginCapture_v2", 1}, {"cuStreamEndCapture", 1}, {"cuGraphAddChildGraphNode", 1}};
    static const struct {
        int code;
        yolort_status status;
    } row[] = {{2, YOLORT_OOM_DEVICE}, {700, YOLORT_DEVICE_LOST}, {801, YOLORT_OK}};
    struct net n;
    const char *at;
    describe(&n);
    for (size_t i = 0; i < sizeof call / sizeof *call; i++)
        for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
            k.fail(call[i].name, call[i].nth, row[r].code);
            yolort_status s = whole(&n, &k, 0, &at);
            cr_assert(at, "%s is not called", call[i].name);
            cr_expect_eq(s, row[r].status, "%s, %d: %s", call[i].name, row[r].code, yolort_status_name(s));
            cr_expect(k.live() == 0 && dnn.live() == 0, "%s, %d: %ld, %ld", call[i].name, row[r].code, k.live(), dnn.live());
        }
    free(n.bytes);
}

/* cuDNN failed because the device was lost. */
Test(rt_cudnn, lost)
{
    struct mock k = mocks();
    struct net n;
    describe(&n);
    begin(&n, &k, YOLORT_GRAPH_OFF, 0);
    dnn.fail("cudnnBackendExecute", 1, 5001);
    k.fail("cuEventRecord", 1, 700);
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_DEVICE_LOST);
    end(&n);
    cr_expect(k.live() == 0 && dnn.live() == 0);
    free(n.bytes);
}

Test(rt_cudnn, suggests)
{
    struct mock k = mocks();
    struct ym_conv c = first_conv();
    char text[256], why[128];
    cr_assert_eq(yolort_cudnn_engines(0, &c, sizeof c, 0, 64 << 20, text, sizeof text, why, sizeof why), YOLORT_OK, "%s", why);
    cr_expect_str_eq(text, "cudnn engine=7 space=0 24=1\ncudnn engine=8 space=0 24=0\ncudnn engine=12 space=4096 24=2\ncudnn engine=11 space=0 24=0\n");
    cr_assert_eq(yolort_cudnn_engines(0, &c, sizeof c, 1, 0, text, 40, why, sizeof why), YOLORT_OK, "%s", why);
    cr_expect_str_eq(text, "cudnn engine=7 space=0 24=1\n", "no more than fits");
    cr_expect_eq(yolort_cudnn_engines(0, &c, sizeof c - 1, 0, 0, text, sizeof text, why, sizeof why), YOLORT_ARG);
    cr_expect_eq(yolort_cudnn_engines(0, NULL, sizeof c, 0, 0, text, sizeof text, why, sizeof why), YOLORT_ARG);
    cr_expect_eq(yolort_cudnn_engines(0, &c, sizeof c, 0, 0, NULL, sizeof text, why, sizeof why), YOLORT_ARG);
    cr_expect_eq(yolort_cudnn_engines(3, &c, sizeof c, 0, 0, text, sizeof text, why, sizeof why), YOLORT_NO_DEVICE);
    c.out[2]++;
    cr_expect_eq(yolort_cudnn_engines(0, &c, sizeof c, 0, 0, text, sizeof text, why, sizeof why), YOLORT_ARG);
    c.out[2]--;
    for (int nth = 1; nth < 1000; nth++) {
        dnn.fail("*", nth, 3000);
        yolort_cudnn_engines(0, &c, sizeof c, 0, 64 << 20, text, sizeof text, why, sizeof why);
        if (!dnn.failed()) break;
        dnn.fail("", 0, 0);
        cr_expect(k.live() == 0 && dnn.live() == 0, "call %d", nth);
    }
    setenv("YOLOC_LIBCUDNN", "/nowhere/libcudnn.so", 1);
    cr_expect_eq(yolort_cudnn_engines(0, &c, sizeof c, 0, 0, text, sizeof text, why, sizeof why), YOLORT_NO_DEVICE);
}

/* Under a digest that is right. */
Test(rt_cudnn, bad_rows)
{
    static const struct {
        size_t at, size;
        uint64_t value;
    } row[] = {
#define OF(i, field, value) {offsetof(struct modbuild, engine) + (i) * sizeof(struct ym_engine) + offsetof(struct ym_engine, field), \
                             sizeof ((struct ym_engine *)0)->field, value}
        OF(0, step, 6),
        OF(0, step, SECOND),
        OF(1, step, FIRST),
        OF(0, name, 100000),
        OF(0, name, 0),
        OF(0, number, 1u << 31),
        OF(0, nknob, 0),
        OF(0, nknob, YM_MAX_KNOBS + 1),
        OF(0, knob[0].type, 1u << 31),
        OF(0, knob[1].value, 1),
        OF(0, conv.dtype, YOLORT_F32),
        OF(0, conv.dtype, YOLORT_U8),
        OF(0, conv.out_dtype, YOLORT_BF16),
        OF(0, conv.activation, YM_NACT),
        OF(0, conv.biased, 2),
        OF(0, conv.added, 2),
        OF(0, conv.pad[1], 1),
        OF(0, conv.pad2, 1),
        OF(0, conv.images, 1),
        OF(0, conv.images, 3),
        OF(0, conv.x[0], 0),
        OF(0, conv.x[1], 6),
        OF(0, conv.x[2], YM_MAX_SIDE + 1),
        OF(0, conv.out[0], 0),
        OF(0, conv.out[1], 4),
        OF(0, conv.kernel[0], 0),
        OF(0, conv.kernel[1], 5),
        OF(0, conv.stride[0], 0),
        OF(0, conv.dilation[0], 0),
        OF(0, conv.before[0], YM_MAX_WINDOW + 1),
        OF(0, conv.x_stride[0], 1),
        OF(0, conv.x_stride[1], 8),
        OF(0, conv.x_stride[2], 2),
        OF(0, conv.x_stride[0], 1ull << 40),
        OF(0, conv.added_stride[0], 1),
        OF(1, conv.added_stride[2], 1),
        OF(0, x, 1),
        OF(0, x, 2),
        OF(0, out, 0),
        OF(0, out, 2),
        OF(0, added, 0),
        OF(1, added, YM_ANY),
        OF(1, added, 2),
        OF(1, x, 2),
        OF(0, conv.x_stride[0], 241),
        OF(0, conv.x_stride[1], 49),
        OF(0, conv.out_stride[0], 119),
        OF(0, conv.out_stride[2], 5),
        OF(0, weights, 64 + 1),
        OF(0, weights, BIAS),
        OF(0, weights, 1ull << 63),
        OF(0, bias, 448),
        OF(0, bias, BIAS + 4),
        OF(1, bias, BIAS),
        OF(1, space, SPACE + 128),
        OF(1, space, ARENA),
        OF(1, space_bytes, ARENA),
        OF(1, space_bytes, UINT64_MAX),
#undef OF
    };
    struct mock k = mocks();
    struct net n;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        describe(&n);
        memcpy((unsigned char *)&n.b + row[i].at, &row[i].value, row[i].size);
        again(&n);
        cr_expect_eq(load(&n), YOLORT_FORMAT, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    describe(&n);
    struct ym_engine second = n.b.engine[1];
    n.b.engine[1] = n.b.engine[0];
    again(&n);
    cr_expect_eq(load(&n), YOLORT_FORMAT, "a step twice: %s", n.why);
    yolort_module_free(n.m);
    n.b.engine[1] = second;
    n.b.engine[0].nknob = 2;
    n.b.engine[0].knob[1].type = n.b.engine[0].knob[0].type;
    again(&n);
    cr_expect_eq(load(&n), YOLORT_FORMAT, "a knob twice: %s", n.why);
    yolort_module_free(n.m);
    n.b.engine[0].nknob = 1;
    n.b.engine[0].knob[1].type = 0;
    n.b.arg[n.b.step[FIRST].first_arg] = (struct ym_arg){.slot = YM_SLOT_CONSTANT};
    n.b.param[n.b.kernel[4].first_param].first = 16;
    n.b.param[n.b.kernel[4].first_param].each = 0;
    again(&n);
    cr_expect_eq(load(&n), YOLORT_FORMAT, "reads constants as a map: %s", n.why);
    yolort_module_free(n.m);
    free(n.bytes);
    cr_expect_eq(k.live(), 0);
}

/* A program for CPUs has no such rows. */
Test(rt_cudnn, rows_of_a_cpu)
{
    struct net n;
    memset(&n, 0, sizeof n);
    modbuild_init(&n.b);
    n.b.nengine = 1;
    n.b.engine[0] = (struct ym_engine){.name = 1};
    n.bytes = modbuild_finish(&n.b, &n.size);
    cr_expect_eq(load(&n), YOLORT_FORMAT);
    cr_expect(strstr(n.why, "another device"), "%s", n.why);
    yolort_module_free(n.m);
    free(n.bytes);
}
