/* What the tests of CUDA modules beside the mock driver (tests/cuda/mockcuda.c) share: its controls (cudamock.h), and a module to run. */
#ifndef TEST_CUDABOX_H
#define TEST_CUDABOX_H

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "cudamock.h"
#include "modbuild.h"
#include "runtime/yolort.h"

struct net {
    struct modbuild b;
    uint8_t *bytes;
    size_t size;
    yolort_module *m;
    yolort_context *c;
    char why[256];
};

static inline void describe(struct net *n, const char *arch)
{
    modbuild_init(&n->b);
    modbuild_cuda(&n->b, arch);
    n->bytes = modbuild_finish(&n->b, &n->size);
}

static inline yolort_status load(struct net *n)
{
    n->m = NULL;
    n->why[0] = 0;
    return yolort_load(&n->m, n->bytes, n->size, n->why, sizeof n->why);
}

static inline struct net *opened(void)
{
    static struct net n;
    describe(&n, "sm_90a");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    cr_assert_eq(yolort_context_new(&n.c, n.m, NULL), YOLORT_OK);
    return &n;
}

static inline void closed(struct net *n)
{
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    free(n->bytes);
}

enum { N = 2 * MB_ELEMENTS };
static uint8_t u8[N];
static _Alignas(16) float echo[N];
static float decoded[2 * MB_ROW * MB_ROWS];

static inline void bind(struct net *n)
{
    cr_assert_eq(yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_assert_eq(yolort_bind(n->c, MB_DECODED, decoded, sizeof decoded), YOLORT_OK);
}

static inline yolort_status open_with(struct net *n, int graph)
{
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.graph = graph;
    return yolort_context_new(&n->c, n->m, &o);
}

#endif
