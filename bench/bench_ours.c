/* A module as one runner of the bench: bench_ours MODULE THREADS INPUT[,INPUT...] FILE[,FILE...] OUTPUT[,OUTPUT...]
 *
 * Each INPUT ("images" or "input_u8", "txt_feats") is bound to the bytes of its FILE, the named outputs are bound, and no other. The words on
 * stdin are those that every runner understands (bench/worker.py): "run N" answers with the times of N runs, "dump FILE"
 * writes the outputs' bytes one after the other. Each answer is one line of JSON; the first, unasked, tells what was loaded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/yolort.h"

enum { MOST_INPUTS = 4, MOST_OUTPUTS = 64, MOST_RUNS = 100000 };

struct runner {
    yolort_module *module;
    yolort_context *context;
    void *input[MOST_INPUTS];
    int ninput;
    void *output[MOST_OUTPUTS];
    size_t bytes[MOST_OUTPUTS];
    int noutput;
    double load_ms; /* module from file, and the context's memory and threads */
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_ours: %s: %s\n", what, why);
    return -1;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int load(struct runner *r, const char *path, int threads)
{
    char error[256];
    yolort_context_opts opts;
    yolort_context_opts_init(&opts, sizeof opts);
    opts.threads = threads;
    double start = now_ms();
    if (yolort_load_file(&r->module, path, error, sizeof error) != YOLORT_OK)
        return fail(path, error);
    yolort_status s = yolort_context_new(&r->context, r->module, &opts);
    r->load_ms = now_ms() - start;
    return s == YOLORT_OK ? 0 : fail(path, yolort_status_name(s));
}

static int bind(struct runner *r, int at, void *data, size_t bytes, const char *name)
{
    if (yolort_bind(r->context, (size_t)at, data, bytes) == YOLORT_OK)
        return 0;
    return fail(name, yolort_error(r->context));
}

static int bind_input(struct runner *r, const char *name, const char *path)
{
    int at = yolort_io_find(r->module, name);
    if (at < 0)
        return fail(name, "the module has no such input");
    size_t bytes = yolort_io_at(r->module, (size_t)at)->bytes_per_image;
    void *input = r->input[r->ninput++] = malloc(bytes);
    FILE *f = fopen(path, "rb");
    int whole = f && input && fread(input, 1, bytes, f) == bytes && fgetc(f) == EOF;
    if (f)
        fclose(f);
    return whole ? bind(r, at, input, bytes, name) : fail(path, "not the bytes of one input");
}

/* The n-th word of a comma-joined list. */
static int word_of(const char *list, int n, char *out, size_t room)
{
    while (n-- > 0 && list)
        list = (list = strchr(list, ',')) ? list + 1 : NULL;
    size_t length = list ? strcspn(list, ",") : 0;
    if (length == 0 || length >= room)
        return -1;
    memcpy(out, list, length);
    out[length] = 0;
    return 0;
}

static int bind_inputs(struct runner *r, const char *names, const char *paths)
{
    char name[128], path[4096];
    for (int i = 0; i < MOST_INPUTS && word_of(names, i, name, sizeof name) == 0; i++) {
        if (word_of(paths, i, path, sizeof path) != 0)
            return fail(name, "no file is given for this input");
        if (bind_input(r, name, path) != 0)
            return -1;
    }
    return r->ninput > 0 ? 0 : fail(names, "no name of an input");
}

static int bind_output(struct runner *r, const char *name)
{
    int at = yolort_io_find(r->module, name), i = r->noutput;
    if (at < 0 || i == MOST_OUTPUTS)
        return fail(name, "the module has no such output");
    r->bytes[i] = yolort_io_at(r->module, (size_t)at)->bytes_per_image;
    r->output[i] = malloc(r->bytes[i]);
    r->noutput++;
    return r->output[i] ? bind(r, at, r->output[i], r->bytes[i], name) : fail(name, "out of memory");
}

static int run(struct runner *r, long n)
{
    double *ms = malloc((size_t)n * sizeof *ms);
    if (!ms)
        return fail("run", "out of memory");
    for (long i = 0; i < n; i++) {
        double start = now_ms();
        if (yolort_run(r->context, 1, NULL) != YOLORT_OK || yolort_wait(r->context) != YOLORT_OK) {
            free(ms);
            return fail("run", yolort_error(r->context));
        }
        ms[i] = now_ms() - start;
    }
    for (long i = 0; i < n; i++)
        printf(i ? ",%.6f" : "{\"ms\":[%.6f", ms[i]);
    puts("]}");
    free(ms);
    return 0;
}

static int dump(const struct runner *r, const char *path)
{
    FILE *f = fopen(path, "wb");
    int bad = !f;
    for (int i = 0; i < r->noutput && !bad; i++)
        bad = fwrite(r->output[i], 1, r->bytes[i], f) != r->bytes[i];
    if (f && fclose(f) != 0)
        bad = 1;
    return bad ? fail(path, "can't write") : puts("{}") < 0;
}

static int serve(struct runner *r)
{
    char line[4096];
    const yolort_info *info = yolort_module_info(r->module);
    printf("{\"version\":\"%s\",\"target\":\"%s\",\"load_ms\":%.6f}\n", info->producer, info->target, r->load_ms);
    while (fflush(stdout) == 0 && fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        long n = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, NULL, 10) : 0;
        int rc = n > 0 && n <= MOST_RUNS            ? run(r, n)
                 : strncmp(line, "dump ", 5) == 0 ? dump(r, line + 5)
                                                    : fail(line, "not understood");
        if (rc != 0)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct runner r = {0};
    if (argc != 6) {
        fputs("usage: bench_ours MODULE THREADS INPUT[,INPUT...] FILE[,FILE...] OUTPUT[,OUTPUT...]\n", stderr);
        return 2;
    }
    int rc = load(&r, argv[1], (int)strtol(argv[2], NULL, 10));
    if (rc == 0)
        rc = bind_inputs(&r, argv[3], argv[4]);
    for (char *name = strtok(argv[5], ","); rc == 0 && name; name = strtok(NULL, ","))
        rc = bind_output(&r, name);
    if (rc == 0)
        rc = serve(&r);
    yolort_context_free(r.context);
    yolort_module_free(r.module);
    for (int i = 0; i < r.noutput; i++)
        free(r.output[i]);
    for (int i = 0; i < r.ninput; i++)
        free(r.input[i]);
    return rc != 0;
}
