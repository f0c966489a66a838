/* What the CUDA driver finds on this machine. */
#include "cuda_api.h"

#include <stdio.h>
#include <string.h>

enum { MULTIPROCESSORS = 16 }; /* of cuDeviceGetAttribute */

static yolort_status describe(const struct cuda_api *api, int ordinal, yolort_gpu *out, const struct rt_error *e)
{
    int device, capability;
    size_t bytes = 0;
    RT_TRY(rt_cuda_status(api, api->device_get(&device, ordinal), "device", e));
    RT_TRY(rt_cuda_capability(api, device, &capability, e));
    *out = (yolort_gpu){.ordinal = ordinal, .major = capability / 10, .minor = capability % 10};
    RT_TRY(rt_cuda_status(api, api->device_name(out->name, sizeof out->name - 1, device), "device", e));
    RT_TRY(rt_cuda_status(api, api->device_memory(&bytes, device), "device", e));
    RT_TRY(rt_cuda_status(api, api->device_attribute(&out->multiprocessors, MULTIPROCESSORS, device), "device", e));
    out->memory_bytes = bytes;
    snprintf(out->target, sizeof out->target, "cuda:sm_%d%s", capability, capability == 90 ? "a" : "");
    return YOLORT_OK;
}

yolort_status yolort_gpus(yolort_gpu *out, size_t capacity, size_t *count, int *driver, char *error, size_t error_size)
{
    struct rt_error e = {error, error_size};
    struct cuda_api api;
    int n = 0;
    RT_CHECK(&e, ARG, GPUS_NULL, count && driver && (out || !capacity), "NULL argument");
    *count = 0;
    *driver = 0;
    RT_TRY(rt_cuda_load(&api, &e));
    RT_TRY(rt_cuda_status(&api, api.version(driver), "driver", &e));
    RT_TRY(rt_cuda_status(&api, api.device_count(&n), "devices", &e));
    for (int i = 0; i < n && (size_t)i < capacity; i++) RT_TRY(describe(&api, i, &out[i], &e));
    *count = n > 0 ? (size_t)n : 0;
    return YOLORT_OK;
}
