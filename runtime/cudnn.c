/* What cuDNN there is, and what it proposes. */
#include "cudnn_plan.h"
#include "cuda_device.h"
#include "tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CHOICES = 4 };

yolort_status yolort_cudnn(int *version, char *error, size_t error_size)
{
    const struct rt_error e = {error, error_size};
    struct cudnn_api api;
    RT_CHECK(&e, ARG, CUDNN_NULL, version, "NULL argument");
    *version = 0;
    RT_TRY(rt_cudnn_load(&api, &e));
    *version = (int)api.version;
    return YOLORT_OK;
}

/* Adds a line when it fits whole. */
static void add_line(char *text, size_t size, const struct cudnn_choice *c)
{
    char line[64 + 32 * YM_MAX_KNOBS];
    int n = snprintf(line, sizeof line, "cudnn engine=%" PRIu32 " space=%" PRIu64, c->number, c->space_bytes);
    for (uint32_t i = 0; i < c->nknob; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %" PRIu32 "=%" PRId32, c->knob[i].type, c->knob[i].value);
    n += snprintf(line + n, sizeof line - (size_t)n, "\n");
    size_t had = strlen(text);
    if ((size_t)n < size - had) memcpy(text + had, line, (size_t)n + 1);
}

/* The device's context is current. */
static yolort_status list(const struct cudnn_api *api, const struct ym_conv *c, int deterministic, uint64_t most_space, char *text, size_t size,
                          const struct rt_error *e)
{
    struct cudnn_where w = {api, NULL, NULL};
    struct cudnn_choice found[MOST_CHOICES];
    size_t n = 0;
    RT_TRY(rt_cudnn_status(api, api->create(&w.handle), "start", e));
    yolort_status s = rt_cudnn_suggest(&w, c, deterministic ? RT_CUDNN_DETERMINISTIC : 0, most_space, found, MOST_CHOICES, &n, e);
    api->destroy(w.handle);
    for (size_t i = 0; i < n; i++) add_line(text, size, &found[i]);
    return s;
}

static yolort_status list_on(int device, const struct ym_conv *c, int deterministic, uint64_t most_space, char *text, size_t size,
                             const struct rt_error *e)
{
    struct cudnn_api cudnn;
    struct cuda_api cuda;
    struct cuda_device *d;
    void *old;
    RT_TRY(rt_cudnn_load(&cudnn, e));
    RT_TRY(rt_cuda_load(&cuda, e));
    RT_TRY(rt_cuda_device_get(&d, &cuda, device, e));
    yolort_status s = rt_cuda_device_check(d, cuda.push(d->context), "context", e);
    if (!s) {
        s = list(&cudnn, c, deterministic, most_space, text, size, e);
        cuda.pop(&old);
    }
    rt_cuda_device_drop(d);
    return s;
}

yolort_status yolort_cudnn_engines(int device, const void *convolution, size_t bytes, int deterministic, uint64_t most_space, char *text,
                                   size_t size, char *error, size_t error_size)
{
    const struct rt_error e = {error, error_size};
    struct ym_conv c;
    RT_CHECK(&e, ARG, CUDNN_NULL, convolution && text && size, "NULL argument");
    text[0] = 0;
    RT_CHECK(&e, ARG, CUDNN_CONV, bytes == sizeof c, "no convolution");
    memcpy(&c, convolution, sizeof c);
    RT_CHECK(&e, ARG, CUDNN_CONV, rt_is_conv(&c, c.images), "no convolution");
    return list_on(device, &c, deterministic, most_space, text, size, &e);
}
