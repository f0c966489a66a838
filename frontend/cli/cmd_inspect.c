/* yoloc inspect: what a module holds. */
#include "commands.h"
#include "compiler.h"
#include "engine.h"
#include "modfile.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

struct options {
    int kernels, memory, ir, program, code, json;
    struct cli_trust trust;
    struct cli_texts limit;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "kernels", .letter = 'k', .value = CLI_FLAG, .group = 1, .at = AT(kernels),
     .help = "steps: kernel, layers, yaml line, work and bytes"},
    {.name = "memory", .letter = 'm', .value = CLI_FLAG, .group = 1, .at = AT(memory), .help = "memory plan"},
    {.name = "ir", .value = CLI_FLAG, .group = 1, .at = AT(ir),
     .help = "the IR inside, as `yoloc opt` reads it"},
    {.name = "program", .value = CLI_FLAG, .group = 1, .at = AT(program), .help = "kernel programs"},
    {.name = "code", .value = CLI_FLAG, .group = 1, .at = AT(code), .help = "LLVM IR of the kernels"},
    {.name = "json", .value = CLI_FLAG, .group = 1, .at = AT(json),
     .help = "metadata, inputs, outputs and steps as JSON"},
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, limit),
};

struct subject {
    const char *path;
    struct cli_limits limits;
    struct cli_modfile file;
};

/* --- json --- */

static const char *const dtype_names[] = {"f32", "f16", "bf16", "f64", "u8", "i8", "i32", "i64", "bool"};
static const char *const letterbox_names[] = {"square", "rect", "topleft"};
static const char *const head_names[] = {"none", "free", "anchor", "x", "best"};
#define NAME(table, i) ((size_t)(i) < sizeof table / sizeof *table ? table[i] : "?")

static void add_info(struct cli_text *t, const yolort_info *i)
{
    cli_text_add(t, "{\"version\":1");
    cli_text_member(t, "model", i->model);
    cli_text_member(t, "task", i->task);
    cli_text_member(t, "target", i->target);
    cli_text_member(t, "precision", i->precision);
    cli_text_member(t, "producer", i->producer);
    cli_text_member(t, "head", NAME(head_names, i->head));
    cli_text_member(t, "letterbox", NAME(letterbox_names, i->letterbox));
    cli_text_addf(t, ",\"nc\":%d,\"height\":%d,\"width\":%d,\"batch\":%d,\"stride\":%d,\"max_det\":%d", i->nc,
                  i->height, i->width, i->max_batch, i->stride, i->max_det);
    cli_text_member_number(t, "conf", (double)i->conf, 6);
    cli_text_member_number(t, "iou", (double)i->iou, 6);
    cli_text_addf(t, ",\"arena_bytes\":%zu,\"constant_bytes\":%zu,\"code_bytes\":%zu,\"names\":[",
                  i->arena_bytes, i->constant_bytes, i->code_bytes);
    for (int k = 0; k < i->nc; k++) {
        cli_text_add(t, k ? "," : "");
        cli_text_json(t, i->names[k]);
    }
}

static void add_io(struct cli_text *t, const yolort_io *io)
{
    cli_text_add(t, "\n {\"name\":");
    cli_text_json(t, io->name);
    cli_text_member(t, "dtype", NAME(dtype_names, io->dtype));
    cli_text_addf(t, ",\"output\":%s,\"shape\":[", io->is_output ? "true" : "false");
    for (int k = 0; k < io->rank; k++)
        cli_text_addf(t, k ? ",%lld" : "%lld", (long long)io->dim[k]);
    cli_text_add(t, "]}");
}

/* line 0: it came from no row of a description. */
static void add_step(struct cli_text *t, const yolort_module *m, size_t i)
{
    yolort_step s;
    yolort_engine g;
    if (yolort_module_step(m, i, &s) != YOLORT_OK)
        return;
    cli_text_add(t, i ? ",\n {\"kernel\":" : "\n {\"kernel\":");
    cli_text_json(t, s.kernel);
    cli_text_member(t, "label", s.label);
    cli_text_addf(t, ",\"line\":%d", s.line);
    cli_text_member_number(t, "flops", s.flops, 0);
    cli_text_member_number(t, "bytes", s.bytes, 0);
    if (yolort_module_engine(m, i, &g) == YOLORT_OK) {
        cli_text_addf(t, ",\"engine\":{\"cudnn\":%u,\"number\":%u,\"space_bytes\":%llu", g.version, g.number,
                      (unsigned long long)g.space_bytes);
        cli_text_member(t, "text", g.text);
        cli_text_add(t, "}");
    }
    cli_text_add(t, "}");
}

static int print_json(const struct subject *s, struct cli_error *e)
{
    yolort_module *m;
    struct cli_text t = {0};
    if (cli_modfile_look(&m, &s->file, s->path, &s->limits, e) != 0)
        return -1;
    add_info(&t, yolort_module_info(m));
    cli_text_add(&t, "],\"io\":[");
    for (size_t i = 0; i < yolort_io_count(m); i++) {
        cli_text_add(&t, i ? "," : "");
        add_io(&t, yolort_io_at(m, i));
    }
    cli_text_add(&t, "],\"steps\":[");
    for (size_t i = 0; i < yolort_step_count(m); i++)
        add_step(&t, m, i);
    cli_text_add(&t, "]}\n");
    int rc = cli_text_flush(&t, stdout, e);
    cli_text_free(&t);
    yolort_module_free(m);
    return rc;
}

/* --- text --- */

static int print_text(const struct subject *s, const char *what, struct cli_error *e)
{
    struct cli_compiler c;
    yoloc_result text = {NULL, 0};
    if (cli_compiler_open(&c, &(struct cli_build){.pass_limit = -1, .module = s->path, .limits = &s->limits}, e) != 0)
        return -1;
    int rc = cli_compiler_check(&c, yoloc_inspect_text(c.handle, s->file.bytes, s->file.size, what, &text), e);
    cli_print_result(&text);
    cli_compiler_close(&c);
    return rc;
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    const struct {
        int on;
        const char *what;
    } choices[] = {{o->kernels, "kernels"}, {o->memory, "memory"}, {o->ir, "ir"}, {o->program, "program"},
                   {o->code, "code"}};
    const char *what = "summary";
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        what = choices[i].on ? choices[i].what : what;
    struct subject s = {.path = args->rest[0]};
    if (cli_limits_read(&s.limits, &o->limit, e) != 0 ||
        cli_modfile_read(&s.file, s.path, &o->trust, &s.limits, e) != 0)
        return -1;
    int rc = o->json ? print_json(&s, e) : print_text(&s, what, e);
    cli_modfile_free(&s.file);
    return rc;
}

const struct cli_command cli_command_inspect = {
    .name = "inspect",
    .arguments = "MODULE",
    .summary = "Shows what a module holds: metadata, kernels, memory plan, IR.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
