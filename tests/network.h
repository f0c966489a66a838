/* A network compiled in this process, loaded, and run on the test picture: for whole-network tests. */
#ifndef TEST_NETWORK_H
#define TEST_NETWORK_H

#include <stddef.h>
#include <stdint.h>

#include "frontend/yoloc.h"
#include "runtime/yolort.h"

struct test_net {
    yoloc_result bytes;   /* the module, which the loaded one borrows */
    yolort_module *module;
    yolort_context *context;
    float **output;       /* one for each io, NULL for inputs; filled by test_net_run */
    uint8_t *picture;
    float *beside;        /* the input beside the picture, if any */
};

/* Compiles with `opts` (its diag callback is set to print on stderr), loads, makes a context with one thread for each
 * core and, when `guard`, an arena between guard pages; binds input_u8 and every output. 0, or -1 after a line on
 * stderr; test_net_free in both cases. */
int test_net_open(struct test_net *n, const char *model, const char *weights, const yoloc_opts *opts, int guard);

/* Runs on the picture of the rule for image b of the batch: seed + b. */
int test_net_run(struct test_net *n, uint32_t seed);

/* Output of that name, its description in *io; NULL when there is none. */
const float *test_net_output(const struct test_net *n, const char *name, const yolort_io **io);

void test_net_free(struct test_net *n);

/* Sets up a handle whose diagnostics go to stderr; NULL on failure. */
yoloc *test_compiler(const yoloc_opts *opts);

size_t test_io_elements(const yolort_io *io);

#endif
