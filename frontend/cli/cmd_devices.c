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

static int print_json(const char *cpu, struct cli_error *e)
{
    struct cli_text t = {0};
    cli_text_add(&t, "{\"version\":1,\"devices\":[{\"target\":\"cpu:native\",\"name\":");
    cli_text_json(&t, cpu);
    cli_text_addf(&t, ",\"threads\":%d}]}\n", yolort_cpu_threads());
    int rc = cli_text_flush(&t, stdout, e);
    cli_text_free(&t);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    char cpu[128];
    (void)args;
    cli_host_cpu(cpu, sizeof cpu);
    if (o->json)
        return print_json(cpu, e);
    printf("cpu:native  %s, %d threads\n\ntargets:\n", cpu, yolort_cpu_threads());
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
    .summary = "Lists the devices of this machine and the targets that can be compiled for.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 0, .max_rest = 0,
    .run = run,
};
