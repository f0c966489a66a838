/*
 * Compares a module for a GPU with one of the same network for this CPU, through the runtime alone: gpu CPU.yoloc CUDA.yoloc
 * [RUNS]. Each output of each batch has to be within the bound of the GPU module's precision, and an image's results must not depend on the images beside it.
 * Then RUNS runs are timed, from host memory to host memory, and the steps that take longest are named. 77: no GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "noise.h"
#include "runtime/yolort.h"
#include "stopwatch.h"

enum { MAX_IO = 128, SHOWN = 12 };

/* Of the largest element: float sums in another order, through some hundred layers; below fp32 also roundings of every value. */
static const struct {
    const char *precision;
    double bound;
} bounds[] = {{"fp32", 5e-5}, {"tf32", 1e-2}, {"fp16", 1e-2}, {"bf16", 8e-2}};

struct net {
    yolort_module *m;
    yolort_context *c;
    uint8_t *data[MAX_IO]; /* for the largest batch */
    int other;             /* io that is not bound: the picture in its other form; -1: none */
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "gpu: %s: %s\n", what, why);
    return 1;
}

static int bind_all(struct net *n)
{
    size_t batch = (size_t)yolort_module_info(n->m)->max_batch;
    for (size_t i = 0; i < yolort_io_count(n->m); i++) {
        const yolort_io *io = yolort_io_at(n->m, i);
        n->data[i] = calloc(batch, io->bytes_per_image);
        if (!n->data[i]) return fail(io->name, "no memory");
        if ((int)i == n->other) continue;
        if (yolort_bind(n->c, i, n->data[i], batch * io->bytes_per_image)) return fail(io->name, yolort_error(n->c));
    }
    return 0;
}

static int open_net(struct net *n, const char *path)
{
    char why[512];
    yolort_status s = yolort_load_file(&n->m, path, why, sizeof why);
    if (s) return fail(path, why);
    s = yolort_context_new(&n->c, n->m, NULL);
    if (s) return fail(path, yolort_status_name(s));
    n->other = yolort_io_find(n->m, "input_u8") < 0 ? -1 : yolort_io_find(n->m, "images");
    return bind_all(n);
}

static void close_net(struct net *n)
{
    for (int i = 0; i < MAX_IO; i++) free(n->data[i]);
    yolort_context_free(n->c);
    yolort_module_free(n->m);
}

/* The same noise in both. */
static int fill(struct net *a, struct net *b)
{
    for (size_t i = 0; i < yolort_io_count(a->m); i++) {
        const yolort_io *io = yolort_io_at(a->m, i);
        size_t bytes = io->bytes_per_image * (size_t)yolort_module_info(a->m)->max_batch;
        int at = yolort_io_find(b->m, io->name);
        if (io->is_output || (int)i == a->other) continue;
        if (at < 0 || yolort_io_at(b->m, (size_t)at)->bytes_per_image != io->bytes_per_image)
            return fail(io->name, "is of another network");
        fill_noise(a->data[i], bytes, io->dtype == YOLORT_F32, 1);
        memcpy(b->data[at], a->data[i], bytes);
    }
    return 0;
}

static int run(struct net *n, int batch)
{
    yolort_status s = yolort_run(n->c, batch, NULL);
    if (!s) s = yolort_wait(n->c);
    return s ? fail("run", yolort_error(n->c)) : 0;
}

static double bound_of(const struct net *n)
{
    const char *precision = yolort_module_info(n->m)->precision;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (!strncmp(precision, bounds[i].precision, 4)) return bounds[i].bound;
    return 0;
}

/* Which elements are off by more. */
static int show_wrong(const yolort_io *io, const float *want, const float *got, size_t n, double bound)
{
    size_t wrong = 0, first = 0, last = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(fabs((double)want[i] - (double)got[i]) > bound)) continue;
        if (!wrong++) first = i;
        last = i;
    }
    printf("%s: %zu of %zu elements, the first %zu (%g, wanted %g), the last %zu (%g, wanted %g)\n", io->name, wrong, n, first,
           (double)got[first], (double)want[first], last, (double)got[last], (double)want[last]);
    return fail(io->name, "differs");
}

static int compare_output(const yolort_io *io, const float *want, const float *got, size_t n, int batch, double part)
{
    double largest = 0, off = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(got[i]) != isnan(want[i])) return fail(io->name, "NaN");
        if (isnan(want[i])) continue;
        largest = fmax(largest, fabs((double)want[i]));
        off = fmax(off, fabs((double)want[i] - (double)got[i]));
    }
    printf("batch %d, %-12s largest %-10.4g off by %.3g\n", batch, io->name, largest, off);
    double bound = part * fmax(largest, 1);
    return off <= bound ? 0 : show_wrong(io, want, got, n, bound);
}

static int compare(struct net *cpu, struct net *gpu, int batch)
{
    int bad = 0;
    if (run(cpu, batch) || run(gpu, batch)) return 1;
    for (size_t i = 0; i < yolort_io_count(gpu->m); i++) {
        const yolort_io *io = yolort_io_at(gpu->m, i);
        int at = yolort_io_find(cpu->m, io->name);
        if (!io->is_output || io->dtype != YOLORT_F32) continue;
        if (at < 0 || yolort_io_at(cpu->m, (size_t)at)->bytes_per_image != io->bytes_per_image)
            return fail(io->name, "is of another network");
        bad |= compare_output(io, (const float *)(const void *)cpu->data[at], (const float *)(const void *)gpu->data[i],
                              io->bytes_per_image / sizeof(float) * (size_t)batch, batch, bound_of(gpu));
    }
    return bad;
}

/* Image 0 of the largest batch has the bytes that it has alone. */
static int alone(struct net *gpu, int batch)
{
    int bad = 0;
    for (size_t i = 0; i < yolort_io_count(gpu->m) && !bad; i++) {
        const yolort_io *io = yolort_io_at(gpu->m, i);
        if (!io->is_output) continue;
        uint8_t *together = malloc(io->bytes_per_image);
        bad = !together || run(gpu, batch);
        if (!bad) memcpy(together, gpu->data[i], io->bytes_per_image);
        if (!bad) bad = run(gpu, 1);
        if (!bad && memcmp(together, gpu->data[i], io->bytes_per_image)) bad = fail(io->name, "depends on the batch");
        free(together);
    }
    return bad;
}

static int by_time(const void *a, const void *b)
{
    const yolort_step *x = a, *y = b;
    return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : 0;
}

static int show_steps(struct net *n)
{
    size_t count = yolort_step_count(n->m);
    yolort_step *step = calloc(count + 1, sizeof *step);
    double sum = 0;
    if (!step) return fail("steps", "no memory");
    yolort_profile(n->c, 1);
    int bad = run(n, 1);
    for (size_t i = 0; i < count; i++) yolort_step_at(n->c, i, &step[i]);
    for (size_t i = 0; i < count; i++) sum += step[i].ms;
    qsort(step, count, sizeof *step, by_time);
    printf("%zu steps, %.3f ms one after the other; the longest:\n", count, sum);
    for (size_t i = 0; i < count && i < SHOWN; i++)
        printf("%9.3f ms %8.1f GFLOP/s  %s\n", step[i].ms, step[i].ms > 0 ? step[i].flops / step[i].ms / 1e6 : 0, step[i].label);
    yolort_profile(n->c, 0);
    free(step);
    return bad;
}

static int measure(struct net *n, int batch, int runs)
{
    double *ms = calloc((size_t)runs, sizeof *ms);
    if (!ms) return fail("times", "no memory");
    int bad = run(n, batch);
    for (int i = 0; i < runs && !bad; i++) {
        double start = now_ms();
        bad = run(n, batch);
        ms[i] = now_ms() - start;
    }
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    printf("batch %d: median of %d runs %.3f ms, host memory to host memory; fastest %.3f, slowest %.3f\n", batch, runs, ms[runs / 2],
           ms[0], ms[runs - 1]);
    free(ms);
    return bad;
}

int main(int argc, char **argv)
{
    struct net cpu = {0}, gpu = {0};
    char why[256];
    size_t n;
    int driver, runs = argc > 3 ? atoi(argv[3]) : 20;
    if (argc < 3 || runs < 1) return fail("usage", "gpu CPU.yoloc CUDA.yoloc [RUNS]");
    if (yolort_gpus(NULL, 0, &n, &driver, why, sizeof why) || !n) {
        printf("gpu: skipped: %s\n", why);
        return 77;
    }
    int bad = open_net(&cpu, argv[1]) || open_net(&gpu, argv[2]);
    if (!bad) {
        int batch = yolort_module_info(gpu.m)->max_batch;
        bad = fill(&cpu, &gpu) || compare(&cpu, &gpu, 1);
        if (!bad && batch > 1) bad = compare(&cpu, &gpu, batch) || alone(&gpu, batch);
        if (!bad) bad = show_steps(&gpu) || measure(&gpu, 1, runs) || (batch > 1 && measure(&gpu, batch, runs));
    }
    close_net(&cpu);
    close_net(&gpu);
    return bad;
}
