/* yoloc devices: what this machine can run. */
#include "commands.h"
#include "compiler.h"
#include "host.h"
#include "runtime/yolort.h"
#include "text.h"

#include <stdio.h>

struct options {
    int json;
};

static const struct cli_option rows[] = {
    {.name = "json", .value = CLI_FLAG, .at = offsetof(struct options, json), .help = "as JSON"},
};

enum { MAX_GPUS = 64 };

struct gpus {
    yolort_gpu gpu[MAX_GPUS];
    size_t n;
    int driver;
    char why[160]; /* there are none */
    int cudnn;     /* 91900; 0: none */
    char no_cudnn[160];
};

static void find_gpus(struct gpus *g)
{
    g->why[0] = 0;
    if (yolort_gpus(g->gpu, MAX_GPUS, &g->n, &g->driver, g->why, sizeof g->why)) g->n = 0;
    if (g->n > MAX_GPUS) g->n = MAX_GPUS;
    g->no_cudnn[0] = 0;
    if (yolort_cudnn(&g->cudnn, g->no_cudnn, sizeof g->no_cudnn)) g->cudnn = 0;
}

/* "9.19.0", or null without one. */
static void add_cudnn(struct cli_text *t, const struct gpus *g)
{
    if (g->cudnn)
        cli_text_addf(t, "\"%d.%d.%d\"", g->cudnn / 10000, g->cudnn / 100 % 100, g->cudnn % 100);
    else
        cli_text_addf(t, "null");
}

static void add_gpus(struct cli_text *t, const struct gpus *g)
{
    for (size_t i = 0; i < g->n; i++) {
        const yolort_gpu *p = &g->gpu[i];
        cli_text_addf(t, ",{\"target\":\"%s\",\"name\":", p->target);
        cli_text_json(t, p->name);
        cli_text_addf(t, ",\"device\":%d,\"multiprocessors\":%d,\"memory_bytes\":%llu,\"driver\":\"%d.%d\"}", p->ordinal,
                      p->multiprocessors, (unsigned long long)p->memory_bytes, g->driver / 1000, g->driver % 1000 / 10);
    }
}

/* Names come from drivers, reasons name files of the environment. */
static void print_gpus(struct cli_text *t, const struct gpus *g)
{
    for (size_t i = 0; i < g->n; i++) {
        cli_text_addf(t, "%s  device %d: ", g->gpu[i].target, g->gpu[i].ordinal);
        cli_text_plain(t, g->gpu[i].name, 0);
        cli_text_addf(t, ", %d multiprocessors, ", g->gpu[i].multiprocessors);
        cli_text_column(t, (double)g->gpu[i].memory_bytes / 1e9, 1, 0);
        cli_text_addf(t, " GB, driver for CUDA %d.%d\n", g->driver / 1000, g->driver % 1000 / 10);
    }
    if (!g->n) {
        cli_text_add(t, *g->why ? "cuda        none: " : "cuda        none");
        cli_text_plain(t, g->why, 0);
        cli_text_add(t, "\n");
    }
    cli_text_add(t, "cudnn       ");
    if (g->cudnn)
        cli_text_addf(t, "%d.%d.%d", g->cudnn / 10000, g->cudnn / 100 % 100, g->cudnn % 100);
    else {
        cli_text_add(t, "none: ");
        cli_text_plain(t, g->no_cudnn, 0);
    }
    cli_text_add(t, "\n");
}

static int print_json(const char *cpu, const struct gpus *g, struct cli_error *e)
{
    struct cli_text t = {0};
    cli_text_add(&t, "{\"version\":1,\"devices\":[{\"target\":\"cpu:native\",\"name\":");
    cli_text_json(&t, cpu);
    cli_text_addf(&t, ",\"threads\":%d}", yolort_cpu_threads());
    add_gpus(&t, g);
    cli_text_addf(&t, "],\"cudnn\":");
    add_cudnn(&t, g);
    cli_text_addf(&t, "}\n");
    int rc = cli_text_flush(&t, stdout, e);
    cli_text_free(&t);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    char cpu[128];
    struct gpus gpus;
    (void)args;
    find_gpus(&gpus);
    cli_host_cpu(cpu, sizeof cpu);
    if (o->json)
        return print_json(cpu, &gpus, e);
    struct cli_text t = {0};
    cli_text_add(&t, "cpu:native  ");
    cli_text_plain(&t, cpu, 0);
    cli_text_addf(&t, ", %d threads\n", yolort_cpu_threads());
    print_gpus(&t, &gpus);
    cli_text_add(&t, "\ntargets:\n");
    int failed = cli_text_flush(&t, stdout, e);
    cli_text_free(&t);
    if (failed)
        return -1;
    struct cli_compiler c;
    yoloc_result text = {NULL, 0};
    if (cli_compiler_open(&c, NULL, e) != 0)
        return -1;
    int rc = cli_compiler_check(&c, yoloc_list_text(c.handle, "targets", &text), e);
    cli_print_result(&text);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "Lists the devices of this machine, its cuDNN, and the targets that can be compiled for.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 0, .max_rest = 0,
    .run = run,
};
