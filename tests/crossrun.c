/*
 * Runs a module, on this machine or under an emulator: uses only yolort.h, so that it builds where the compiler does not.
 *   crossrun MODULE OUT              writes every output, one after the other
 *   crossrun MODULE OUT REFERENCE    and compares with what such a call wrote elsewhere
 * Exit code: 0, 1 (differs, or failed), or 10 + the status of a load that was refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/yolort.h"

#define BOUND 1e-3 /* of an output's mean absolute value, as for all results; vector widths change the order of sums */
enum { THREADS = 2 };

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "crossrun: %s: %s\n", what, why);
    return 1;
}

/* Noise, the same everywhere. */
static void fill(uint8_t *to, size_t n)
{
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        to[i] = (uint8_t)(state >> 24);
    }
}

static int compare(const yolort_io *io, const float *data, FILE *reference)
{
    size_t n = io->bytes_per_image / sizeof *data;
    float *want = malloc(io->bytes_per_image);
    if (!want || fread(want, sizeof *want, n, reference) != n) return fail(io->name, "the reference ends too early");
    double mean = 0, worst = 0;
    for (size_t i = 0; i < n; i++) mean += fabs((double)want[i]) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)data[i] - (double)want[i]);
        if (!(d <= worst)) worst = d; /* NaN too */
    }
    free(want);
    printf("%s: %zu values, mean %g, worst difference %g of it\n", io->name, n, mean, worst / mean);
    if (worst <= BOUND * mean && mean > 0) return 0;
    return fail(io->name, "differs");
}

/* Memory for an input or output, filled when it is an input. */
static void *bind(yolort_context *c, const yolort_io *io, size_t i)
{
    void *data = calloc(1, io->bytes_per_image);
    if (data && !io->is_output) fill(data, io->bytes_per_image);
    if (data && yolort_bind(c, i, data, io->bytes_per_image) == YOLORT_OK) return data;
    fail(io->name, yolort_error(c));
    exit(1);
}

static int finish(const yolort_io *io, const void *data, FILE *out, FILE *reference)
{
    if (fwrite(data, 1, io->bytes_per_image, out) != io->bytes_per_image) return fail(io->name, "cannot be written");
    return reference ? compare(io, data, reference) : 0;
}

static int run(yolort_context *c, yolort_module *m, FILE *out, FILE *reference)
{
    int picture = yolort_io_find(m, "input_u8"), bad = 0;
    size_t n = yolort_io_count(m);
    void **data = calloc(n, sizeof *data);
    if (!data || picture < 0) return fail("module", "takes no pictures");
    for (size_t i = 0; i < n; i++)
        if (yolort_io_at(m, i)->is_output || i == (size_t)picture) data[i] = bind(c, yolort_io_at(m, i), i);
    if (yolort_run(c, 1, NULL)) return fail("run", yolort_error(c));
    for (size_t i = 0; i < n && !bad; i++)
        if (yolort_io_at(m, i)->is_output) bad = finish(yolort_io_at(m, i), data[i], out, reference);
    for (size_t i = 0; i < n; i++) free(data[i]);
    free(data);
    return bad;
}

int main(int argc, char **argv)
{
    char error[256];
    yolort_module *m = NULL;
    yolort_context *c = NULL;
    yolort_context_opts o;
    if (argc < 3 || argc > 4) return fail("usage", "crossrun MODULE OUT [REFERENCE]");
    yolort_status s = yolort_load_file(&m, argv[1], error, sizeof error);
    if (s) {
        fail("load", error);
        return 10 + (int)s;
    }
    FILE *out = fopen(argv[2], "wb"), *reference = argc > 3 ? fopen(argv[3], "rb") : NULL;
    if (!out || (argc > 3 && !reference)) return fail(argv[2], "cannot be opened");
    yolort_context_opts_init(&o, sizeof o);
    o.threads = THREADS;
    if (yolort_context_new(&c, m, &o)) return fail(argv[1], "no context");
    int bad = run(c, m, out, reference);
    if (reference) fclose(reference);
    if (fclose(out)) bad = fail(argv[2], "cannot be written");
    yolort_context_free(c);
    yolort_module_free(m);
    return bad;
}
