/* CUDA modules beside the mock driver: runs, their profile, their memory, threads and devices. Graphs: rt_cudagraph; refused files:
 * rt_cudaload; failing calls: rt_cudafail. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cudabox.h"
#include "runtime/object.h"

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
