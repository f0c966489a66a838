/* yoloc run: tensors in, all outputs of the network out. */
#include "commands.h"
#include "compiler.h"
#include "engine.h"
#include "fileio.h"
#include "interrupt.h"

#include <stdlib.h>
#include <string.h>

struct options {
    const char *in, *out;
    struct cli_device device;
    struct cli_trust trust;
    struct cli_texts limit;
};
#define AT(field) offsetof(struct options, field)

static const struct cli_option rows[] = {
    {.name = "in", .letter = 'i', .value = CLI_TEXT, .at = AT(in), .metavar = "FILE",
     .help = "safetensors with input_u8 (U8 [H,W,3] or [B,H,W,3], RGB as letterboxed) or images "
             "(F32 [B,3,H,W], normalised); other tensors are ignored"},
    {.name = "out", .letter = 'o', .value = CLI_TEXT, .at = AT(out), .metavar = "FILE",
     .help = "safetensors to write, one tensor an output"},
    CLI_ROWS_DEVICE(options),
    CLI_ROWS_TRUST(options),
    CLI_ROW_LIMIT(options, limit),
};

struct job {
    const char *path;
    struct cli_limits limits;
    struct cli_modfile file;
    yolort_module *module;
    yolort_context *context;
    int batch;
    yoloc_tensor *outputs; /* data malloc'd */
    size_t noutput;
    struct cli_error *e;
};

/* "2x3x64x64" */
static void shape_text(char *out, size_t size, const int64_t *dim, int rank)
{
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, i ? "x%lld" : "%lld", (long long)dim[i]);
}

/* The batch of `t` when it fits `io` but for that; 0 when it does not. A single picture may lack the batch
 * axis. */
static int64_t batch_of(const yoloc_tensor *t, const yolort_io *io)
{
    int lacks = io->dtype == YOLORT_U8 && t->rank == io->rank - 1;
    if (t->dtype != (int)io->dtype || (t->rank != io->rank && !lacks))
        return 0;
    for (int i = 1; i < io->rank; i++) {
        if (t->dim[i - lacks] != io->dim[i])
            return 0;
    }
    return lacks ? 1 : t->dim[0];
}

static const char *type_name(int dtype)
{
    static const char *const names[] = {"F32", "F16", "BF16", "F64", "U8", "I8", "I32", "I64", "BOOL"};
    return dtype >= 0 && (size_t)dtype < sizeof names / sizeof *names ? names[dtype] : "of another type";
}

static int bind_input(struct job *j, const yoloc_tensor *t, size_t at)
{
    const yolort_io *io = yolort_io_at(j->module, at);
    int64_t batch = batch_of(t, io);
    char got[128], wanted[128];
    shape_text(got, sizeof got, t->dim, t->rank);
    shape_text(wanted, sizeof wanted, io->dim + 1, io->rank - 1);
    if (batch < 1)
        return cli_fail(j->e, CLI_TENSOR_IN, "%s: the tensor is %s (%s), the module wants Bx%s (%s)", t->name, got,
                        type_name(t->dtype), wanted, type_name((int)io->dtype));
    if (batch > io->dim[0])
        return cli_fail(j->e, CLI_TENSOR_IN,
                        "%s: %lld images, but the module was compiled for at most %lld (--batch)", t->name,
                        (long long)batch, (long long)io->dim[0]);
    j->batch = (int)batch;
    union { /* an input is only read */
        const void *in;
        void *out;
    } data = {t->data};
    return cli_runtime_check(yolort_bind(j->context, at, data.out, t->bytes), j->path,
                             yolort_error(j->context), j->e);
}

enum { FORMS = 2 };
static const char *const names[FORMS] = {"input_u8", "images"}; /* of the picture */

/* Inputs that the network has beside the picture, for as many images. */
static int bind_beside(struct job *j, const yoloc_tensors *in, const char *file)
{
    int batch = j->batch;
    for (size_t i = 0; i < yolort_io_count(j->module); i++) {
        const yolort_io *io = yolort_io_at(j->module, i);
        if (io->is_output || strcmp(io->name, names[0]) == 0 || strcmp(io->name, names[1]) == 0)
            continue;
        const yoloc_tensor *t = cli_tensor_named(in, io->name);
        if (!t)
            return cli_fail(j->e, CLI_TENSOR_IN, "%s: holds no %s, which the network wants beside the picture", file,
                            io->name);
        if (bind_input(j, t, i) != 0)
            return -1;
        if (j->batch != batch)
            return cli_fail(j->e, CLI_TENSOR_IN, "%s: for %d images, the picture is %d", io->name, j->batch, batch);
    }
    return 0;
}

static int choose_input(struct job *j, const yoloc_tensors *in, const char *file)
{
    for (size_t i = 0; i < FORMS; i++) {
        const yoloc_tensor *t = cli_tensor_named(in, names[i]);
        int at = yolort_io_find(j->module, names[i]);
        if (t && at >= 0)
            return bind_input(j, t, (size_t)at);
    }
    return cli_fail(j->e, CLI_TENSOR_IN, "%s: holds neither input_u8 nor images", file);
}

static int bind_output(struct job *j, size_t at)
{
    const yolort_io *io = yolort_io_at(j->module, at);
    yoloc_tensor *t = &j->outputs[j->noutput];
    size_t bytes = io->bytes_per_image * (size_t)j->batch;
    void *data = malloc(bytes ? bytes : 1);
    if (!data)
        return cli_fail(j->e, CLI_MEMORY, "%s: out of memory", io->name);
    *t = (yoloc_tensor){
        .name = io->name, .dtype = (int)io->dtype, .rank = io->rank, .data = data, .bytes = bytes};
    for (int i = 0; i < io->rank; i++)
        t->dim[i] = i ? io->dim[i] : j->batch;
    j->noutput++;
    return cli_runtime_check(yolort_bind(j->context, at, data, bytes), j->path, yolort_error(j->context),
                             j->e);
}

static int compute(struct job *j, const yoloc_tensors *in, const char *file)
{
    size_t n = yolort_io_count(j->module);
    j->outputs = calloc(n ? n : 1, sizeof *j->outputs);
    if (!j->outputs)
        return cli_fail(j->e, CLI_MEMORY, "%s: out of memory", j->path);
    if (choose_input(j, in, file) != 0 || bind_beside(j, in, file) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (yolort_io_at(j->module, i)->is_output && bind_output(j, i) != 0)
            return -1;
    }
    yolort_status s = yolort_run(j->context, j->batch, NULL);
    if (s == YOLORT_OK)
        s = yolort_wait(j->context);
    return cli_runtime_check(s, j->path, yolort_error(j->context), j->e);
}

static void release(struct job *j)
{
    union {
        const void *in;
        void *out;
    } data;
    for (size_t i = 0; i < j->noutput; i++) {
        data.in = j->outputs[i].data;
        free(data.out);
    }
    free(j->outputs);
    yolort_context_free(j->context);
    yolort_module_free(j->module);
    cli_modfile_free(&j->file);
}

static int open_module(struct job *j, const struct options *o)
{
    yolort_context_opts opts;
    cli_device_opts(&opts, &o->device);
    if (cli_modfile_read(&j->file, j->path, &o->trust, &j->limits, j->e) != 0 ||
        cli_modfile_load(&j->module, &j->file, j->path, &j->limits, j->e) != 0)
        return -1;
    int rc = cli_runtime_check(yolort_context_new(&j->context, j->module, &opts), j->path, NULL, j->e);
    if (rc == 0)
        cli_device_told(&o->device, j->context);
    return rc;
}

static int convert(struct job *j, const struct options *o, struct cli_compiler *c)
{
    yoloc_tensors *in = NULL;
    if (cli_compiler_check(c, yoloc_tensors_read(c->handle, o->in, &in), j->e) != 0)
        return -1;
    int rc = compute(j, in, o->in);
    yoloc_tensors_free(in);
    if (rc != 0)
        return rc;
    cli_interrupt_hold();
    yoloc_status s = yoloc_tensors_write(c->handle, o->out, j->outputs, j->noutput);
    cli_interrupt_release();
    return cli_compiler_check(c, s, j->e);
}

static int run(const void *options, const struct cli_args *args, struct cli_error *e)
{
    const struct options *o = options;
    struct job j = {.path = args->rest[0], .e = e};
    struct cli_compiler c;
    if (!o->in || !o->out)
        return cli_fail(e, CLI_USAGE, "run: --in and --out are needed");
    if (cli_output_spares(o->out, j.path, e) != 0 || cli_output_spares(o->out, o->in, e) != 0)
        return -1;
    if (cli_limits_read(&j.limits, &o->limit, e) != 0)
        return -1;
    if (cli_compiler_open(&c, &(struct cli_build){.pass_limit = -1, .limits = &j.limits}, e) != 0)
        return -1;
    int rc = open_module(&j, o);
    if (rc == 0)
        rc = convert(&j, o, &c);
    release(&j);
    cli_compiler_close(&c);
    return rc;
}

const struct cli_command cli_command_run = {
    .name = "run",
    .arguments = "MODULE --in X.safetensors --out Y.safetensors",
    .summary = "Runs a module on raw tensors and writes all its outputs.",
    .options = rows, .noption = sizeof rows / sizeof *rows, .options_size = sizeof(struct options),
    .min_rest = 1, .max_rest = 1,
    .run = run,
};
