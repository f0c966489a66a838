/* What the tests of CUDA modules beside the mock driver (tests/cuda/mockcuda.c) share: its controls, and a module to run. */
#ifndef TEST_CUDABOX_H
#define TEST_CUDABOX_H

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "mocklib.h"
#include "modbuild.h"
#include "runtime/yolort.h"

struct mock {
    void (*fail)(const char *name, int nth, int code);
    long (*live)(void);
    long (*launches)(void);
    void (*device_memory)(const void *address, int ordinal);
    const char *(*failed)(void);
    void (*cap)(size_t bytes);
    void (*virtual_memory)(int on);
    void (*capture)(const void *stream);
    long (*blocks)(void);
    long (*played)(void);
    long (*changed)(void);
    long (*programmatic)(void);
};

static inline struct mock mock(void)
{
    struct mock m;
    void *lib = mock_library("YOLOC_LIBCUDA", MOCKCUDA);
    mock_take(lib, "mockcuda_fail", &m.fail);
    mock_take(lib, "mockcuda_live", &m.live);
    mock_take(lib, "mockcuda_launches", &m.launches);
    mock_take(lib, "mockcuda_blocks", &m.blocks);
    mock_take(lib, "mockcuda_device_memory", &m.device_memory);
    mock_take(lib, "mockcuda_failed", &m.failed);
    mock_take(lib, "mockcuda_cap", &m.cap);
    mock_take(lib, "mockcuda_virtual", &m.virtual_memory);
    m.cap((size_t)1 << 30);
    m.virtual_memory(1);
    mock_take(lib, "mockcuda_capture", &m.capture);
    mock_take(lib, "mockcuda_played", &m.played);
    mock_take(lib, "mockcuda_changed", &m.changed);
    mock_take(lib, "mockcuda_programmatic", &m.programmatic);
    m.capture(NULL);
    unsetenv("MOCKCUDA_DEVICES"); /* a serial runner has one process for all tests */
    m.fail("", 0, 0);
    m.device_memory(NULL, 0);
    return m;
}

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
