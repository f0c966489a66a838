#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/rule.h"

static void print_diag(void *user, const yoloc_diag *d)
{
    (void)user;
    if (d->severity > 0)
        fprintf(stderr, "%s\n", d->text);
}

yoloc *test_compiler(const yoloc_opts *opts)
{
    yoloc_opts o = *opts;
    yoloc *c = NULL;
    o.diag = print_diag;
    if (yoloc_open(&c, &o) != YOLOC_OK)
        fprintf(stderr, "yoloc_open failed\n");
    return c;
}

size_t test_io_elements(const yolort_io *io)
{
    size_t n = 1;
    for (int i = 0; i < io->rank; i++)
        n *= (size_t)io->dim[i];
    return n;
}

static int compile(struct test_net *n, const char *model, const char *weights, const yoloc_opts *opts)
{
    yoloc *c = test_compiler(opts);
    if (!c)
        return -1;
    yoloc_status s = yoloc_compile(c, model, weights, &n->bytes);
    yoloc_close(c);
    if (s != YOLOC_OK)
        fprintf(stderr, "compile of %s: status %d\n", model, (int)s);
    return s == YOLOC_OK ? 0 : -1;
}

static int load(struct test_net *n, int guard)
{
    char error[256];
    if (yolort_load(&n->module, n->bytes.bytes, n->bytes.size, error, sizeof error) != YOLORT_OK) {
        fprintf(stderr, "load: %s\n", error);
        return -1;
    }
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.guard = guard;
    yolort_status s = yolort_context_new(&n->context, n->module, &o);
    if (s != YOLORT_OK)
        fprintf(stderr, "context: %s\n", yolort_status_name(s));
    return s == YOLORT_OK ? 0 : -1;
}

static int bind_one(struct test_net *n, size_t i)
{
    const yolort_io *io = yolort_io_at(n->module, i);
    size_t bytes = io->bytes_per_image * (size_t)io->dim[0];
    void *memory = calloc(1, bytes);
    if (!memory)
        return -1;
    if (io->is_output)
        n->output[i] = memory;
    else if (strcmp(io->name, "input_u8") == 0)
        n->picture = memory;
    else
        n->beside = memory;
    return yolort_bind(n->context, i, memory, bytes) == YOLORT_OK ? 0 : -1;
}

static int bind_all(struct test_net *n)
{
    size_t count = yolort_io_count(n->module);
    n->output = calloc(count, sizeof *n->output);
    if (!n->output)
        return -1;
    for (size_t i = 0; i < count; i++) {
        const yolort_io *io = yolort_io_at(n->module, i);
        if (!io->is_output && strcmp(io->name, "images") == 0)
            continue;
        if (io->is_output && io->dtype != YOLORT_F32) {
            fprintf(stderr, "output %s is not f32\n", io->name);
            return -1;
        }
        if (bind_one(n, i) < 0) {
            fprintf(stderr, "bind of %s failed\n", io->name);
            return -1;
        }
    }
    return n->picture ? 0 : -1;
}

int test_net_open(struct test_net *n, const char *model, const char *weights, const yoloc_opts *opts, int guard)
{
    memset(n, 0, sizeof *n);
    if (compile(n, model, weights, opts) < 0 || load(n, guard) < 0)
        return -1;
    return bind_all(n);
}

/* The embeddings of texts by the rule of weights: the same for every image. */
static void fill_texts(float *out, const yolort_io *io)
{
    size_t n = test_io_elements(io), one = n / (size_t)io->dim[0];
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(2 * fe_rule_uniform("txt_feats", i % one) - 1);
}

int test_net_run(struct test_net *n, uint32_t seed)
{
    const yolort_info *info = yolort_module_info(n->module);
    size_t one = (size_t)info->height * (size_t)info->width * 3;
    for (int b = 0; b < info->max_batch; b++)
        yoloc_test_picture(n->picture + one * (size_t)b, info->height, info->width, seed + (uint32_t)b);
    int text = yolort_io_find(n->module, "txt_feats");
    if (text >= 0)
        fill_texts(n->beside, yolort_io_at(n->module, (size_t)text));
    yolort_status s = yolort_run(n->context, info->max_batch, NULL);
    if (s != YOLORT_OK)
        fprintf(stderr, "run: %s: %s\n", yolort_status_name(s), yolort_error(n->context));
    return s == YOLORT_OK ? 0 : -1;
}

const float *test_net_output(const struct test_net *n, const char *name, const yolort_io **io)
{
    int i = yolort_io_find(n->module, name);
    if (i < 0 || !n->output[i])
        return NULL;
    *io = yolort_io_at(n->module, (size_t)i);
    return n->output[i];
}

void test_net_free(struct test_net *n)
{
    size_t count = n->module ? yolort_io_count(n->module) : 0;
    yolort_context_free(n->context);
    for (size_t i = 0; n->output && i < count; i++)
        free(n->output[i]);
    free(n->output);
    free(n->picture);
    free(n->beside);
    yolort_module_free(n->module);
    yoloc_free_result(&n->bytes);
    memset(n, 0, sizeof *n);
}
