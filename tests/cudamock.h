/* The controls of the mock driver (tests/cuda/mockcuda.c), as it begins in each test. */
#ifndef TEST_CUDAMOCK_H
#define TEST_CUDAMOCK_H

#include <stdlib.h>

#include "mocklib.h"

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

#endif
