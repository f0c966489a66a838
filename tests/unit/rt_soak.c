/* The runtime used for long and by many: threads on one module, contexts that are fought over, loading without end. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "longer.h"
#include "modbuild.h"
#include "runtime/yolort.h"

enum { N = 2 * MB_ELEMENTS, NTHREAD = 8, NPICTURE = 16 };

static yolort_module *load(const uint8_t *bytes, size_t size)
{
    yolort_module *m = NULL;
    char text[256];
    cr_assert_eq(yolort_load(&m, bytes, size, text, sizeof text), YOLORT_OK, "%s", text);
    return m;
}

static yolort_context *context_of(yolort_module *m, int threads)
{
    yolort_context *c = NULL;
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.threads = threads;
    return yolort_context_new(&c, m, &o) ? NULL : c;
}

static void fill_picture(float *to, int k)
{
    for (int i = 0; i < N; i++) to[i] = (float)(k * 1000 + i) * 0.37f;
}

/* What serial runs gave. */
static float serial[NPICTURE][N];

static int run_picture(yolort_context *c, int k, float *in, float *out)
{
    fill_picture(in, k);
    memset(out, 0xff, N * sizeof *out);
    return yolort_bind(c, MB_IMAGES, in, N * sizeof *in) || yolort_bind(c, MB_ECHO, out, N * sizeof *out) ||
           yolort_run(c, 2, NULL);
}

struct caller {
    yolort_module *m;
    yolort_context *shared; /* NULL: one of its own */
    pthread_t thread;
    int id, runs;
    long ok, busy, bad;
};

static void *call_own(void *arg)
{
    struct caller *a = arg;
    float in[N], out[N];
    yolort_context *c = context_of(a->m, 1 + a->id % 3);
    if (!c) return NULL;
    for (int i = 0; i < a->runs; i++) {
        int k = (a->id * 5 + i) % NPICTURE;
        if (run_picture(c, k, in, out) || memcmp(out, serial[k], sizeof out)) a->bad++;
        else a->ok++;
    }
    yolort_context_free(c);
    return NULL;
}

static void start(struct caller *a, int n, void *(*fn)(void *), yolort_module *m, yolort_context *c, int runs)
{
    for (int i = 0; i < n; i++) {
        a[i] = (struct caller){.m = m, .shared = c, .id = i, .runs = runs};
        cr_assert(!pthread_create(&a[i].thread, NULL, fn, &a[i]));
    }
}

Test(rt_soak, threads_on_one_module)
{
    struct modbuild b;
    struct caller a[NTHREAD];
    size_t size;
    float in[N];
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    yolort_module *m = load(bytes, size);
    yolort_context *c = context_of(m, 1);
    cr_assert(c);
    for (int k = 0; k < NPICTURE; k++) {
        cr_assert(!run_picture(c, k, in, serial[k]));
        cr_assert_arr_eq(in, serial[k], sizeof in); /* the network gives back its input */
    }
    yolort_context_free(c);
    int runs = test_count(1000, 130000);
    start(a, NTHREAD, call_own, m, NULL, runs);
    for (int i = 0; i < NTHREAD; i++) {
        pthread_join(a[i].thread, NULL);
        cr_expect(a[i].ok == runs && !a[i].bad, "thread %d: %ld runs, %ld wrong", i, a[i].ok, a[i].bad);
    }
    yolort_module_free(m);
    free(bytes);
}

static void *call_shared(void *arg)
{
    struct caller *a = arg;
    for (int i = 0; i < a->runs; i++) {
        yolort_status s = i % 3 ? yolort_run(a->shared, 1, NULL) : yolort_profile(a->shared, i % 2);
        a->ok += s == YOLORT_OK;
        a->busy += s == YOLORT_BUSY;
        a->bad += s != YOLORT_OK && s != YOLORT_BUSY;
        if (s == YOLORT_BUSY) sched_yield(); /* or one thread is let in and the others are soon done */
    }
    return NULL;
}

/* A call is let in or told BUSY; nothing else, and each that is let in finishes. */
Test(rt_soak, one_context_for_all)
{
    struct modbuild b;
    struct caller a[NTHREAD];
    size_t size;
    float in[N], out[N];
    long ok = 0;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    yolort_module *m = load(bytes, size);
    yolort_context *c = context_of(m, 2);
    cr_assert(c && !run_picture(c, 3, in, out));
    int runs = test_count(TEST_SANITIZED ? 500 : 5000, 100000);
    start(a, NTHREAD, call_shared, m, c, runs);
    for (int i = 0; i < NTHREAD; i++) {
        pthread_join(a[i].thread, NULL);
        cr_expect(!a[i].bad && a[i].ok + a[i].busy == runs, "thread %d: %ld, %ld BUSY", i, a[i].ok, a[i].busy);
        ok += a[i].ok;
    }
    printf("%ld calls let in of %ld\n", ok, (long)NTHREAD * runs);
    cr_expect_gt(ok, 0);
    memset(out, 0, sizeof out);
    cr_assert_eq(yolort_run(c, 2, NULL), YOLORT_OK);
    cr_expect_arr_eq(in, out, sizeof in);
    yolort_context_free(c);
    yolort_module_free(m);
    free(bytes);
}

/* Bytes of memory that this process has. */
static long resident(void)
{
    long pages = 0, skip;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &skip, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static void load_run_free(const uint8_t *bytes, size_t size, int k, int run)
{
    float in[N], out[N];
    yolort_module *m = load(bytes, size);
    yolort_context *c = run ? context_of(m, 1 + k % 2) : NULL;
    if (run) {
        cr_assert(c && !run_picture(c, k % NPICTURE, in, out));
        cr_assert_arr_eq(in, out, sizeof in);
    }
    if (k % 3) yolort_context_free(c);
    yolort_module_free(m);
    if (k % 3 == 0) yolort_context_free(c); /* the module then lives as long as the context */
}

/* Every 7th load is of bytes that have to be copied. */
Test(rt_soak, memory_stays_flat)
{
    struct modbuild b;
    size_t size;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size), *odd = malloc(size + 1);
    memcpy(odd + 1, bytes, size);
    int loads = test_count(TEST_SANITIZED ? 500 : 3000, 100000), runs = test_count(TEST_SANITIZED ? 200 : 1000, 10000);
    for (int k = 0; k < 200; k++) load_run_free(k % 7 ? bytes : odd + 1, size, k, 1);
    long before = resident();
    for (int k = 0; k < loads; k++) load_run_free(k % 7 ? bytes : odd + 1, size, k, k < runs);
    long grown = resident() - before;
    printf("%d loads, %d of them run: %ld bytes more\n", loads, runs, grown);
    /* Sanitizers keep freed memory. */
    if (!TEST_SANITIZED) cr_expect_lt(grown, 1 << 20, "%ld bytes more after %d loads", grown, loads);
    free(odd);
    free(bytes);
}
