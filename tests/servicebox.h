/* What the tests of the service kernels share: the mock driver beside kernels on the host, noise, and pictures of it. */
#ifndef TEST_SERVICEBOX_H
#define TEST_SERVICEBOX_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/yolort.h"

static struct {
    void (*fail)(const char *name, int nth, int code);
    long (*live)(void);
    long (*launches)(void);
    void (*device_memory)(const void *address, int ordinal);
    void (*virtual_memory)(int on);
} mock;

/* Of tests/cuda/service_net.cu. */
static struct {
    const float **given, **second; /* what the two kernels put out */
    uint8_t **seen;
    long long *bytes;
} net;

static inline void take(const char *path, const char *name, void *to)
{
    void *lib = dlopen(path, RTLD_NOW), *p = lib ? dlsym(lib, name) : NULL;
    cr_assert(p, "%s: %s", path, name);
    memcpy(to, &p, sizeof p);
}

static inline void start(void)
{
    setenv("YOLOC_LIBCUDA", MOCKCUDA, 1);
    setenv("MOCKCUDA_KERNELS", SERVICE_KERNELS, 1);
    unsetenv("MOCKCUDA_DEVICES");
    take(MOCKCUDA, "mockcuda_fail", &mock.fail);
    take(MOCKCUDA, "mockcuda_live", &mock.live);
    take(MOCKCUDA, "mockcuda_launches", &mock.launches);
    take(MOCKCUDA, "mockcuda_device_memory", &mock.device_memory);
    take(MOCKCUDA, "mockcuda_virtual", &mock.virtual_memory);
    take(SERVICE_KERNELS, "service_net_given", &net.given);
    take(SERVICE_KERNELS, "service_net_second", &net.second);
    take(SERVICE_KERNELS, "service_net_seen", &net.seen);
    take(SERVICE_KERNELS, "service_net_bytes", &net.bytes);
    mock.fail("", 0, 0);
    mock.device_memory(NULL, 0);
    mock.virtual_memory(1);
    *net.bytes = 0;
}

static inline void stop(void)
{
    cr_expect_eq(mock.live(), 0);
    unsetenv("MOCKCUDA_KERNELS");
}

static uint32_t seed = 1;

static inline uint32_t noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static inline float uniform(void)
{
    return (float)noise() / (float)(1 << 24);
}

/* Noise in rows that are not dense. */
static inline yolort_picture new_picture(int width, int height, yolort_pixels format)
{
    int nv12 = format >= YOLORT_NV12;
    yolort_picture p = {.width = width, .height = height, .format = format};
    p.row_bytes = (size_t)width * (nv12 ? 1 : 3) * (1 + noise() % 3) + noise() % 3 * 5;
    p.chroma_row_bytes = nv12 ? (size_t)(width + 1) / 2 * 2 + noise() % 2 * 6 : 0;
    size_t luma = p.row_bytes * (size_t)height, size = luma + p.chroma_row_bytes * (size_t)(height + 1) / 2 + 1;
    uint8_t *data = malloc(size);
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)noise();
    p.data = data;
    p.chroma = nv12 ? data + luma : NULL;
    return p;
}

static inline void free_picture(const yolort_picture *p)
{
    free((void *)(uintptr_t)p->data);
}

static inline int clip(long v)
{
    return v < 0 ? 0 : v > 255 ? 255 : (int)v;
}

/* The numbers of OpenCV, and those of BT.709 to 20 bits. */
static inline void rgb_of(const yolort_picture *p, int x, int y, uint8_t *to)
{
    static const double k709[] = {1.16438356164, 1.79274107143, 0.21324861427, 0.53290932855, 2.11240178571};
    const uint8_t *at = p->data + (size_t)y * p->row_bytes + (p->chroma ? 1 : 3) * x;
    if (!p->chroma) {
        for (int c = 0; c < 3; c++) to[c] = at[p->format == YOLORT_BGR ? 2 - c : c];
        return;
    }
    const uint8_t *uv = p->chroma + (size_t)(y / 2) * p->chroma_row_bytes + x / 2 * 2;
    long k[] = {1220542, 1673527, 409993, 852492, 2116026}, u = uv[0] - 128, v = uv[1] - 128;
    for (int i = 0; p->format == YOLORT_NV12_709 && i < 5; i++) k[i] = lround(k709[i] * (1 << 20));
    long luma = (at[0] > 16 ? at[0] - 16 : 0) * k[0] + (1 << 19);
    to[0] = (uint8_t)clip((luma + k[1] * v) >> 20);
    to[1] = (uint8_t)clip((luma - k[3] * v - k[2] * u) >> 20);
    to[2] = (uint8_t)clip((luma + k[4] * u) >> 20);
}

#endif
