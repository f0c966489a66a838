#include "cuda_guard.h"

#include <stdlib.h>
#include <string.h>

enum { PATTERN = 0xa5, PIECE = 1 << 20 };

yolort_status rt_cuda_guard_fill(const struct cuda_guard *g, struct cuda_device *d, const struct rt_error *e)
{
    for (uint32_t i = 0; i < g->n; i++)
        RT_TRY(rt_cuda_device_check(d, d->api.fill(g->band[i], PATTERN, CUDA_BAND, NULL), "guard", e));
    return rt_cuda_device_check(d, d->api.stream_sync(NULL), "guard", e);
}

static yolort_status fetch(struct cuda_device *d, uint8_t *to, uint64_t from, size_t bytes, const struct rt_error *e)
{
    RT_TRY(rt_cuda_device_check(d, d->api.copy_out(to, from, bytes, NULL), "guard", e));
    return rt_cuda_device_check(d, d->api.stream_sync(NULL), "guard", e);
}

static yolort_status check_bands(const struct cuda_guard *g, struct cuda_device *d, uint8_t *room, const struct rt_error *e)
{
    for (uint32_t i = 0; i < g->n; i++) {
        RT_TRY(fetch(d, room, g->band[i], CUDA_BAND, e));
        for (int k = 0; k < CUDA_BAND; k++)
            if (room[k] != PATTERN) return rt_fail(e, YOLORT_FORMAT, "a step wrote outside of its memory: band %u, byte %d", i, k);
    }
    return YOLORT_OK;
}

static yolort_status check_weights(struct cuda_device *d, uint64_t at, const struct rt_span *want, uint8_t *room, const struct rt_error *e)
{
    for (uint64_t done = 0, n; done < want->size; done += n) {
        n = want->size - done < PIECE ? want->size - done : PIECE;
        RT_TRY(fetch(d, room, at + done, (size_t)n, e));
        if (memcmp(room, want->data + done, (size_t)n)) return rt_fail(e, YOLORT_FORMAT, "a step wrote over the weights");
    }
    return YOLORT_OK;
}

yolort_status rt_cuda_guard_check(const struct cuda_guard *g, const struct cuda_program *p, const struct cuda_placed *at,
                                  const struct rt_error *e)
{
    uint8_t *room = malloc(PIECE);
    if (!room) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    yolort_status s = check_bands(g, at->device, room, e);
    if (!s) s = check_weights(at->device, at->constants, &p->t->constants, room, e);
    free(room);
    return s;
}
