/* The peak of multiply-adds, as one runner of the bench: bench_peak THREADS
 *
 * "run N" answers with N figures in GFLOP/s: what that many threads reach together on chains of vector multiply-adds that
 * need no memory. Each figure is taken over some milliseconds, from the first thread's start to the last one's end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
/* Enough chains to cover the latency of two units (4 cycles each), and few enough for 16 registers. */
enum { CHAINS = 12, STEPS = 2000000, MOST_THREADS = 1024, MOST_FIGURES = 10000 };

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));

struct crew {
    pthread_barrier_t start;
    int n, stop;
    struct worker {
        struct crew *crew;
        pthread_t thread;
        double from, to; /* seconds */
        float sum;
    } worker[MOST_THREADS];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* x = x * a + b goes to b / (1 - a), a number of ordinary size. */
static float chains(float a, float b)
{
    vec x[CHAINS], va = a - (vec){0}, vb = b - (vec){0}, sum = {0};
    for (int c = 0; c < CHAINS; c++)
        x[c] = (float)c - (vec){0};
    for (int i = 0; i < STEPS; i++) {
#pragma GCC unroll 12
        for (int c = 0; c < CHAINS; c++)
            x[c] = x[c] * va + vb;
    }
    for (int c = 0; c < CHAINS; c++)
        sum += x[c];
    return sum[0] + sum[LANES - 1];
}

static void measure(struct worker *w)
{
    volatile float a = 0.5f, b = 1.0f; /* not to be computed by the compiler */
    w->from = now();
    w->sum = chains(a, b);
    w->to = now();
}

static void *work(void *arg)
{
    struct worker *w = arg;
    for (;;) {
        pthread_barrier_wait(&w->crew->start);
        if (w->crew->stop)
            return NULL;
        measure(w);
        pthread_barrier_wait(&w->crew->start);
    }
}

static double figure(struct crew *c)
{
    pthread_barrier_wait(&c->start);
    measure(&c->worker[0]);
    pthread_barrier_wait(&c->start);
    double from = c->worker[0].from, to = c->worker[0].to;
    for (int i = 1; i < c->n; i++) {
        from = c->worker[i].from < from ? c->worker[i].from : from;
        to = c->worker[i].to > to ? c->worker[i].to : to;
    }
    return 2.0 * LANES * CHAINS * STEPS * c->n / (to - from) * 1e-9;
}

static int serve(struct crew *c)
{
    char line[256];
    printf("{\"lanes\":%d}\n", LANES);
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin)) {
        long n = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, NULL, 10) : 0;
        if (n < 1 || n > MOST_FIGURES)
            return 1;
        for (long i = 0; i < n; i++)
            printf(i ? ",%.3f" : "{\"gflops\":[%.3f", figure(c));
        puts("]}");
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct crew c;
    c.n = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (c.n < 1 || c.n > MOST_THREADS) {
        fputs("usage: bench_peak THREADS\n", stderr);
        return 2;
    }
    if (pthread_barrier_init(&c.start, NULL, (unsigned)c.n) != 0)
        return 1;
    int made = 1;
    for (; made < c.n; made++) {
        c.worker[made].crew = &c;
        if (pthread_create(&c.worker[made].thread, NULL, work, &c.worker[made]) != 0)
            return 1;
    }
    int rc = serve(&c);
    c.stop = 1;
    pthread_barrier_wait(&c.start);
    for (int i = 1; i < made; i++)
        pthread_join(c.worker[i].thread, NULL);
    return rc;
}
