/* Contexts: binding, running on one and several threads, what is refused, and the debug aids. */
#include <criterion/criterion.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "modbuild.h"
#include "runtime/yolort.h"

struct net {
    struct modbuild b;
    uint8_t *bytes;
    yolort_module *m;
    yolort_context *c;
};

static void open_net(struct net *n, int threads, int guard)
{
    size_t size;
    char text[256];
    yolort_context_opts o;
    n->bytes = modbuild_finish(&n->b, &size);
    cr_assert_eq(yolort_load(&n->m, n->bytes, size, text, sizeof text), YOLORT_OK, "%s", text);
    yolort_context_opts_init(&o, sizeof o);
    o.threads = threads;
    o.guard = guard;
    cr_assert_eq(yolort_context_new(&n->c, n->m, &o), YOLORT_OK);
}

static void close_net(struct net *n)
{
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    free(n->bytes);
}

static struct net *tiny(int threads, int guard)
{
    static struct net n;
    modbuild_init(&n.b);
    open_net(&n, threads, guard);
    return &n;
}

static void expect_error(struct net *n, yolort_status s, const char *part)
{
    cr_expect_eq(s, YOLORT_ARG, "%s: %s", part, yolort_status_name(s));
    cr_expect(strstr(yolort_error(n->c), part), "\"%s\" is not in \"%s\"", part, yolort_error(n->c));
}

enum { N = 2 * MB_ELEMENTS };
static uint8_t u8[N];
static float f32[N], echo[N], decoded[2 * MB_ROW * MB_ROWS];

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        u8[i] = (uint8_t)(i * 7);
        f32[i] = (float)i * 0.25f;
        echo[i] = -1;
    }
    memset(decoded, 0xff, sizeof decoded);
}

Test(rt_context, runs)
{
    for (int threads = 1; threads <= 5; threads += 2) {
        struct net *n = tiny(threads, threads == 3);
        for (int batch = 1; batch <= 2; batch++) {
            fill();
            cr_assert_eq(yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
            cr_assert_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
            cr_assert_eq(yolort_run(n->c, batch, NULL), YOLORT_OK, "%s", yolort_error(n->c));
            cr_assert_eq(yolort_wait(n->c), YOLORT_OK);
            for (int i = 0; i < N; i++)
                cr_assert_eq(echo[i], i < batch * MB_ELEMENTS ? (float)u8[i] : -1, "batch %d: %d", batch, i);
            cr_assert(isnan(decoded[0]), "not bound, not computed");
        }
        close_net(n);
    }
}

/* The binding of an input unbinds the other one; outputs stay. */
Test(rt_context, binds)
{
    struct net *n = tiny(2, 0);
    fill();
    cr_assert_eq(yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_IMAGES, f32, sizeof f32), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_DECODED, decoded, sizeof decoded), YOLORT_OK);
    cr_assert_eq(yolort_run(n->c, 2, NULL), YOLORT_OK);
    cr_expect_arr_eq(echo, f32, sizeof f32);
    cr_expect_arr_eq(decoded, n->b.constant, sizeof decoded);
    fill();
    cr_assert_eq(yolort_bind(n->c, MB_ECHO, NULL, 0), YOLORT_OK);
    cr_assert_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(echo[0], -1);
    cr_expect_arr_eq(decoded, n->b.constant, sizeof decoded / 2);
    cr_expect(isnan(decoded[MB_ROW * MB_ROWS]));
    close_net(n);
}

Test(rt_context, inputs_beside_the_picture)
{
    static struct net n;
    modbuild_init(&n.b);
    n.b.io[MB_IMAGES].flags = YM_IO_BESIDE;
    open_net(&n, 1, 0);
    fill();
    cr_assert_eq(yolort_bind(n.c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_assert_eq(yolort_bind(n.c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    expect_error(&n, yolort_run(n.c, 1, NULL), "images is not bound");
    cr_assert_eq(yolort_bind(n.c, MB_IMAGES, f32, sizeof f32), YOLORT_OK);
    cr_assert_eq(yolort_run(n.c, 1, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_assert_eq(yolort_bind(n.c, MB_INPUT_U8, NULL, 0), YOLORT_OK);
    expect_error(&n, yolort_run(n.c, 1, NULL), "no input is bound");
    close_net(&n);
}

Test(rt_context, refuses_bindings)
{
    struct net *n = tiny(1, 0);
    expect_error(n, yolort_bind(n->c, 4, u8, sizeof u8), "bind: io 4 of 4");
    expect_error(n, yolort_bind(n->c, MB_ECHO, echo, MB_ELEMENTS * 4 - 1), "bind: echo: 767 bytes, an image has 768");
    expect_error(n, yolort_bind(n->c, MB_ECHO, (char *)echo + 2, sizeof echo - 2), "bind: echo: address");
    cr_expect_eq(yolort_bind(NULL, 0, u8, sizeof u8), YOLORT_ARG);
    close_net(n);
}

Test(rt_context, refuses_runs)
{
    struct net *n = tiny(1, 0);
    int stream;
    expect_error(n, yolort_run(n->c, 1, NULL), "no input is bound");
    yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8);
    expect_error(n, yolort_run(n->c, 1, NULL), "no output is bound");
    yolort_bind(n->c, MB_ECHO, echo, sizeof echo - 1);
    expect_error(n, yolort_run(n->c, 0, NULL), "batch 0 of at most 2");
    expect_error(n, yolort_run(n->c, -1, NULL), "batch -1");
    expect_error(n, yolort_run(n->c, 3, NULL), "batch 3 of at most 2");
    expect_error(n, yolort_run(n->c, 1, &stream), "stream");
    expect_error(n, yolort_run(n->c, 2, NULL), "run: echo: 1535 bytes, 2 images have 1536");
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_str_eq(yolort_error(n->c), "");
    yolort_bind(n->c, MB_INPUT_U8, (uint8_t *)echo + 767, N);
    expect_error(n, yolort_run(n->c, 1, NULL), "run: echo and input_u8 overlap");
    yolort_bind(n->c, MB_INPUT_U8, (uint8_t *)echo + 768, N);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    yolort_bind(n->c, MB_INPUT_U8, u8, N);
    yolort_bind(n->c, MB_DECODED, echo + 191, sizeof decoded);
    expect_error(n, yolort_run(n->c, 1, NULL), "run: echo and decoded overlap");
    cr_expect_eq(yolort_run(NULL, 1, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_wait(NULL), YOLORT_ARG);
    cr_expect_str_eq(yolort_error(NULL), "");
    close_net(n);
}

Test(rt_context, options)
{
    struct {
        yolort_context_opts o;
        uint64_t later;
    } wide;
    struct net *n = tiny(1, 0);
    yolort_context *c = NULL;
    yolort_context_opts_init(&wide.o, sizeof wide);
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_OK);
    yolort_context_free(c);
    c = NULL;
    wide.later = 1;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_ARG);
    wide.later = 0, wide.o.threads = -1;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_ARG);
    wide.o.threads = 1025;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_ARG);
    wide.o.threads = 1024;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_OK);
    cr_expect(yolort_threads(c) >= 4 && yolort_threads(c) <= 4 * yolort_cpu_threads());
    yolort_context_free(c);
    cr_expect_eq(yolort_context_new(&c, n->m, NULL), YOLORT_OK);
    cr_expect_eq(yolort_threads(c), yolort_cpu_threads());
    yolort_context_free(c);
    c = NULL;
    cr_expect_eq(yolort_threads(NULL), 0);
    cr_expect_eq(yolort_threads((yolort_context *)(void *)n->m), 0);
    wide.o.threads = 2;
    for (int spin = -1; spin <= 1000000; spin = spin < 1 ? spin + 1 : spin * 10) {
        wide.o.spin_us = spin;
        cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_OK);
        yolort_context_free(c);
    }
    c = NULL;
    wide.o.spin_us = -2;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_ARG);
    wide.o.spin_us = 1000001;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_ARG);
    wide.o.spin_us = 0;
    wide.o.threads = 1, wide.o.device = 1;
    cr_expect_eq(yolort_context_new(&c, n->m, &wide.o), YOLORT_ARG);
    cr_expect_eq(yolort_context_new(NULL, n->m, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_context_new(&c, NULL, NULL), YOLORT_ARG);
    cr_expect_null(c);
    yolort_context_free(NULL);
    /* A handle of the other kind. */
    cr_expect_eq(yolort_context_new(&c, (yolort_module *)(void *)n->c, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_run((yolort_context *)(void *)n->m, 1, NULL), YOLORT_ARG);
    close_net(n);
}

/* The module lives as long as a context needs it. */
Test(rt_context, outlives_module)
{
    struct net *n = tiny(2, 0);
    fill();
    yolort_module_free(n->m);
    n->m = NULL;
    yolort_bind(n->c, MB_IMAGES, f32, sizeof f32);
    yolort_bind(n->c, MB_ECHO, echo, sizeof echo);
    cr_assert_eq(yolort_run(n->c, 2, NULL), YOLORT_OK);
    cr_expect_arr_eq(echo, f32, sizeof f32);
    close_net(n);
}

/* --- several threads -------------------------------------------------------------------------------------------- */

/* Any split of the units gives the same bytes, and each thread writes its own scratch. */
Test(rt_context, splits)
{
    enum { UNITS = 5000 };
    static int32_t out[2 * UNITS];
    for (int threads = 1; threads <= 4; threads *= 2) {
        for (uint32_t grain = 1; grain <= 100000; grain = grain * 40 + 3) {
            static struct net n;
            modbuild_init(&n.b);
            n.b.io[MB_ECHO].dtype = YOLORT_I32;
            n.b.io[MB_ECHO].dim[1] = UNITS;
            const struct ym_param p = {.first = UNITS * 4, .each = UNITS * 4, .dtype = YOLORT_I32, .written = 1};
            n.b.step[2] = (struct ym_step){.first_arg = 5, .narg = 1, .want = {1 << MB_ECHO}, .grain = grain};
            n.b.step[2].kernel = modbuild_kernel(&n.b, MB_TALLY, UNITS, &p, 1);
            n.b.kernel[n.b.step[2].kernel].scratch = 64;
            open_net(&n, threads, 1);
            memset(out, 0xff, sizeof out);
            yolort_bind(n.c, MB_IMAGES, f32, sizeof f32);
            yolort_bind(n.c, MB_ECHO, out, sizeof out);
            for (int k = 0; k < 3; k++) cr_assert_eq(yolort_run(n.c, 2, NULL), YOLORT_OK);
            for (int i = 0; i < 2 * UNITS; i++) cr_assert_eq(out[i], 4 * i, "%d threads, grain %u", threads, grain);
            close_net(&n);
        }
    }
}

struct caller {
    yolort_module *m;
    pthread_t thread;
    int id, bad;
};

static void *call_often(void *arg)
{
    struct caller *a = arg;
    yolort_context *c;
    yolort_context_opts o;
    float in[N], out[N];
    yolort_context_opts_init(&o, sizeof o);
    o.threads = 1 + a->id % 2;
    if (yolort_context_new(&c, a->m, &o)) return NULL;
    for (int i = 0; i < N; i++) in[i] = (float)(a->id * 1000 + i);
    yolort_bind(c, MB_IMAGES, in, sizeof in);
    yolort_bind(c, MB_ECHO, out, sizeof out);
    for (int k = 0; k < 100; k++) a->bad += yolort_run(c, 1 + k % 2, NULL) != YOLORT_OK || out[7] != in[7];
    a->bad += memcmp(in, out, sizeof in) != 0;
    yolort_context_free(c);
    a->id = -1;
    return NULL;
}

Test(rt_context, module_is_shared)
{
    struct net *n = tiny(1, 0);
    struct caller a[4];
    for (int i = 0; i < 4; i++) {
        a[i] = (struct caller){.m = n->m, .id = i};
        cr_assert(!pthread_create(&a[i].thread, NULL, call_often, &a[i]));
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(a[i].thread, NULL);
        cr_expect(a[i].id == -1 && !a[i].bad);
    }
    close_net(n);
}

/* A module whose one step runs until the first word of its input is set. */
static struct net *spinning(void)
{
    static struct net n;
    modbuild_init(&n.b);
    n.b.code[1] = MB_SPIN;
    n.b.step[1].want[0] = 1 << MB_DECODED;
    n.b.step[0] = n.b.step[1];
    n.b.io[MB_INPUT_U8] = n.b.io[MB_IMAGES]; /* the only input: images */
    n.b.io[MB_INPUT_U8].name = modbuild_string(&n.b, "second");
    open_net(&n, 1, 0);
    return &n;
}

struct run {
    yolort_context *c;
    yolort_status s;
};

static void *run_once(void *arg)
{
    struct run *r = arg;
    r->s = yolort_run(r->c, 1, NULL);
    return NULL;
}

/* Starts a run that spins, and returns when it is inside the kernel. */
static void start_spin(struct net *n, _Atomic int32_t *word, struct run *r, pthread_t *t)
{
    cr_assert_eq(yolort_bind(n->c, MB_IMAGES, word, MB_ELEMENTS * 4), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_DECODED, decoded, sizeof decoded), YOLORT_OK);
    r->c = n->c;
    cr_assert(!pthread_create(t, NULL, run_once, r));
    while (!atomic_load(&word[1])) usleep(100);
}

Test(rt_context, busy)
{
    static _Atomic int32_t word[MB_ELEMENTS];
    struct net *n = spinning();
    struct run r;
    pthread_t t;
    start_spin(n, word, &r, &t);
    alarm(10); /* a run that is let in would spin as well */
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_BUSY);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_BUSY);
    cr_expect_eq(yolort_profile(n->c, 1), YOLORT_BUSY);
    cr_expect_eq(yolort_wait(n->c), YOLORT_BUSY);
    size_t counts;
    cr_expect_eq(yolort_detect(n->c, NULL, 1, NULL, NULL, 0, &counts), YOLORT_BUSY);
    alarm(0);
    atomic_store(&word[0], 1);
    pthread_join(t, NULL);
    cr_expect_eq(r.s, YOLORT_OK);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    close_net(n);
}

/* Misuse that must not become a use after free: the run itself releases the context. */
Test(rt_context, freed_while_running)
{
    static _Atomic int32_t word[MB_ELEMENTS];
    struct net *n = spinning();
    struct run r;
    pthread_t t;
    start_spin(n, word, &r, &t);
    yolort_context_free(n->c);
    n->c = NULL;
    atomic_store(&word[0], 1);
    pthread_join(t, NULL);
    cr_expect_eq(r.s, YOLORT_OK);
    close_net(n);
}

Test(rt_context, after_fork)
{
    struct net *n = tiny(2, 0);
    yolort_bind(n->c, MB_IMAGES, f32, sizeof f32);
    yolort_bind(n->c, MB_ECHO, echo, sizeof echo);
    int status;
    pid_t child = fork();
    if (!child) alarm(10); /* without its threads a run would wait forever */
    if (!child) _exit(yolort_run(n->c, 1, NULL) == YOLORT_ARG && strstr(yolort_error(n->c), "fork") ? 0 : 1);
    cr_assert(waitpid(child, &status, 0) == child);
    cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    close_net(n);
}

/* --- debug aids --------------------------------------------------------------------------------------------------- */

/* A kernel that finds itself out of bounds: the step and the argument are named; the context stays usable. */
Test(rt_context, kernel_refuses)
{
    for (int threads = 1; threads <= 4; threads += 3) {
        static struct net n;
        modbuild_init(&n.b);
        n.b.code[1] = MB_FAIL;
        n.b.kernel[1].name = modbuild_string(&n.b, "conv2d_silu_3f9a12c4");
        n.b.step[1].label = modbuild_string(&n.b, "model.2.cv1 conv2d+silu");
        open_net(&n, threads, 0);
        yolort_bind(n.c, MB_IMAGES, f32, sizeof f32);
        yolort_bind(n.c, MB_ECHO, echo, sizeof echo);
        cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_FORMAT);
        cr_expect_str_eq(yolort_error(n.c), "step 1 (model.2.cv1 conv2d+silu, conv2d_silu_3f9a12c4): "
                                            "an access would have left argument 1");
        yolort_bind(n.c, MB_INPUT_U8, u8, sizeof u8);
        cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK);
        cr_expect_str_eq(yolort_error(n.c), "");
        close_net(&n);
    }
}

/* The arena, as left by the last run or poisoned: step 2 alone copies it out. */
static float arena_seen(int guard)
{
    static struct net n;
    modbuild_init(&n.b);
    n.b.kernel[0].units = n.b.kernel[1].units = 1;
    open_net(&n, 1, guard);
    yolort_bind(n.c, MB_IMAGES, f32, sizeof f32);
    yolort_bind(n.c, MB_ECHO, echo, sizeof echo);
    cr_assert_eq(yolort_run(n.c, 1, NULL), YOLORT_OK);
    float seen = echo[100];
    close_net(&n);
    return seen;
}

Test(rt_context, guard_poisons)
{
    cr_expect(isnan(arena_seen(1)));
    cr_expect_eq(arena_seen(0), 0);
}

/* Writes one byte at `at` of the arena, which has `size` bytes. */
static void write_stray(uint64_t size, int64_t at)
{
    static struct net n;
    modbuild_init(&n.b);
    n.b.target[0].arena_size = size;
    const struct ym_param p[] = {{1, 0, YOLORT_U8, 1, 0, {0}}, {8, 0, YOLORT_I64, 0, 0, {0}}, {48, 48, YOLORT_F32, 1, 0, {0}}};
    n.b.step[3].kernel = modbuild_kernel(&n.b, MB_STRAY, 1, p, 3);
    n.b.step[3].first_arg = n.b.narg;
    n.b.step[3].narg = 3;
    n.b.arg[n.b.narg++] = (struct ym_arg){YM_SLOT_ARENA, 0, 0};
    n.b.arg[n.b.narg++] = (struct ym_arg){YM_SLOT_CONSTANT, 0, 0};
    n.b.arg[n.b.narg++] = (struct ym_arg){YM_SLOT_IO, MB_DECODED, 0};
    memcpy(n.b.constant, &at, sizeof at);
    open_net(&n, 1, 1);
    yolort_bind(n.c, MB_IMAGES, f32, sizeof f32);
    yolort_bind(n.c, MB_DECODED, decoded, sizeof decoded);
    cr_assert_eq(yolort_run(n.c, 1, NULL), YOLORT_OK);
    close_net(&n);
}

Test(rt_context, guard_lets_in)
{
    write_stray(1536, 0);
    write_stray(1536, 1535);
    write_stray(40000, 39999);
}

/* A sanitizer would report and end the process in its own way. */
static int dies(uint64_t size, int64_t at)
{
    int status;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        write_stray(size, at);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

Test(rt_context, guard_keeps_out)
{
    cr_expect(dies(1536, 1536));
    cr_expect(dies(40000, 40000));
    cr_expect(dies(4096, -1));
    cr_expect(!dies(1536, 1535));
}

Test(rt_context, profile)
{
    struct net *n = tiny(2, 0);
    yolort_step s;
    yolort_bind(n->c, MB_IMAGES, f32, sizeof f32);
    yolort_bind(n->c, MB_ECHO, echo, sizeof echo);
    cr_assert_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_assert_eq(yolort_step_at(n->c, 1, &s), YOLORT_OK);
    cr_expect_eq(s.ms, 0);
    cr_expect_str_eq(s.kernel, "kernel");
    cr_expect_str_eq(s.label, "model.0 step");
    cr_expect(s.line == 2 && s.flops == 384 && s.bytes == 1536);
    cr_assert_eq(yolort_profile(n->c, 1), YOLORT_OK);
    cr_assert_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    const int ran[] = {0, 1, 1, 0};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(yolort_step_at(n->c, i, &s), YOLORT_OK);
        cr_expect(ran[i] ? s.ms > 0 && s.ms < 1000 : s.ms == 0, "step %zu: %g ms", i, s.ms);
    }
    cr_expect_eq(yolort_step_at(n->c, 4, &s), YOLORT_ARG);
    cr_expect_eq(yolort_step_at(n->c, 0, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_step_at(NULL, 0, &s), YOLORT_ARG);
    cr_expect_eq(yolort_profile(NULL, 1), YOLORT_ARG);
    close_net(n);
}

/* A module for another machine: it loads to look at, and to nothing else. */
Test(rt_context, looked_at)
{
    struct modbuild b;
    yolort_module *m = NULL;
    yolort_context *c = NULL;
    yolort_load_opts o;
    yolort_step s;
    yolort_engine g;
    size_t size;
    modbuild_init(&b);
    b.target[0].arch = modbuild_string(&b, "pdp11");
    uint8_t *bytes = modbuild_finish(&b, &size);
    yolort_load_opts_init(&o, sizeof o);
    cr_expect_eq(yolort_load_within(&m, bytes, size, &o, NULL, 0), YOLORT_INCOMPATIBLE);
    o.look = 1;
    cr_assert_eq(yolort_load_within(&m, bytes, size, &o, NULL, 0), YOLORT_OK);
    cr_expect_eq(yolort_module_info(m)->max_batch, b.target[0].max_batch);
    cr_expect_eq(yolort_step_count(m), b.nstep);
    cr_assert_eq(yolort_module_step(m, 1, &s), YOLORT_OK);
    cr_expect_str_eq(s.kernel, "kernel");
    cr_expect(s.line == 2 && s.flops == 384 && s.bytes == 1536 && s.ms == 0);
    cr_expect_eq(yolort_module_step(m, b.nstep, &s), YOLORT_ARG);
    cr_expect_eq(yolort_module_engine(m, 1, &g), YOLORT_ARG);
    cr_expect_eq(yolort_context_new(&c, m, NULL), YOLORT_ARG);
    yolort_module_free(m);
    free(bytes);
    modbuild_init(&b);
    b.target[0].features = UINT32_MAX;
    bytes = modbuild_finish(&b, &size);
    cr_expect_eq(yolort_load_within(&m, bytes, size, &o, NULL, 0), YOLORT_FORMAT, "what is damaged is not to be looked at either");
    free(bytes);
}

Test(rt_context, times_of_runs)
{
    struct net *n = tiny(1, 0);
    double ms[3] = {-1, -1, -1};
    cr_expect_eq(yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_expect_eq(yolort_time(n->c, 2, NULL, 2, ms), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect(ms[0] >= 0 && ms[1] >= 0 && ms[2] < 0);
    expect_error(n, yolort_time(n->c, 2, NULL, 0, ms), "time: 0 runs");
    expect_error(n, yolort_time(n->c, 2, NULL, 10001, ms), "time: 10001 runs");
    expect_error(n, yolort_time(n->c, 2, NULL, 1, NULL), "no room");
    expect_error(n, yolort_time(n->c, 3, NULL, 1, ms), "batch 3");
    expect_error(n, yolort_time(n->c, 1, ms, 1, ms), "stream");
    cr_expect_eq(yolort_time(NULL, 1, NULL, 1, ms), YOLORT_ARG);
    close_net(n);
}

Test(rt_context, status_names)
{
    cr_expect_str_eq(yolort_status_name(YOLORT_OK), "OK");
    cr_expect_str_eq(yolort_status_name(YOLORT_ARG), "ARG");
    cr_expect_str_eq(yolort_status_name((yolort_status)14), "unknown");
    cr_expect_str_eq(yolort_status_name((yolort_status)-1), "unknown");
    for (int s = 0; s <= YOLORT_ARG; s++) cr_expect_neq(yolort_status_name((yolort_status)s)[0], 'u');
    unsigned a, b, c;
    cr_assert_eq(sscanf(YOLOC_VERSION_TEXT, "%u.%u.%u", &a, &b, &c), 3);
    cr_expect_eq(yolort_version(), a << 16 | b << 8 | c);
}
