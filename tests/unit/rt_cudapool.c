/* Memory of a GPU beside the mock driver: blocks at random, played beside a plain list of them. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "mocklib.h"
#include "runtime/cuda_device.h"

enum { MOST = 64, ROUNDS = 4000 };

struct pool {
    struct cuda_api api;
    struct cuda_device *d;
    long (*live)(void);
    void (*cap)(size_t bytes);
    struct {
        uint64_t at, bytes;
        unsigned char mark;
    } block[MOST];
};

static void open_pool(struct pool *p)
{
    memset(p, 0, sizeof *p);
    void *lib = mock_library("YOLOC_LIBCUDA", MOCKCUDA);
    mock_take(lib, "mockcuda_live", &p->live);
    mock_take(lib, "mockcuda_cap", &p->cap);
    p->cap((size_t)1 << 30);
    cr_assert_eq(rt_cuda_load(&p->api, NULL), YOLORT_OK);
    cr_assert_eq(rt_cuda_device_get(&p->d, &p->api, 0, NULL), YOLORT_OK);
}

static void close_pool(struct pool *p)
{
    rt_cuda_device_drop(p->d);
    cr_expect_eq(p->live(), 0);
}

static uint64_t noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Bytes of a size that is now and then large. */
static uint64_t some_size(uint64_t *state)
{
    uint64_t kind = noise(state) % 8;
    return kind ? noise(state) % (kind < 4 ? 3000 : 200000) : noise(state) % (4 << 20);
}

static void fill(struct pool *p, int i, uint64_t bytes, unsigned char mark)
{
    p->block[i].bytes = bytes;
    p->block[i].mark = mark;
    memset((void *)(uintptr_t)p->block[i].at, mark, bytes);
}

static void expect_whole(const struct pool *p, int i)
{
    const unsigned char *at = (const unsigned char *)(uintptr_t)p->block[i].at;
    for (uint64_t k = 0; k < p->block[i].bytes; k += 97) cr_assert_eq(at[k], p->block[i].mark, "block %d, byte %lu", i, k);
}

Test(rt_cudapool, blocks_at_random)
{
    struct pool p;
    uint64_t state = 1, used = 0;
    open_pool(&p);
    for (int round = 0; round < ROUNDS; round++) {
        int i = (int)(noise(&state) % MOST);
        if (p.block[i].at) {
            expect_whole(&p, i);
            rt_cuda_pool_free(p.d, p.block[i].at);
            used -= (p.block[i].bytes + 511) / 512 * 512 + (p.block[i].bytes ? 0 : 512);
            p.block[i].at = 0;
        } else {
            uint64_t bytes = some_size(&state);
            cr_assert_eq(rt_cuda_pool_alloc(p.d, &p.block[i].at, bytes, "block", NULL), YOLORT_OK);
            cr_assert_eq(p.block[i].at % 512, 0);
            fill(&p, i, bytes, (unsigned char)noise(&state));
            used += (bytes + 511) / 512 * 512 + (bytes ? 0 : 512);
        }
        if (round % 100 == 0) rt_cuda_pool_trim(p.d);
        cr_assert_eq(p.d->pool.used, used);
        cr_assert_geq(p.d->pool.mapped, used);
    }
    for (int i = 0; i < MOST; i++) {
        if (p.block[i].at) expect_whole(&p, i);
        rt_cuda_pool_free(p.d, p.block[i].at);
    }
    cr_expect_eq(p.d->pool.used, 0);
    cr_expect(p.d->pool.first && !p.d->pool.first->next, "one hole is left");
    rt_cuda_pool_trim(p.d);
    cr_expect_eq(p.d->pool.mapped, 0);
    close_pool(&p);
}

/* What is unused is given back before memory is said to be out. */
Test(rt_cudapool, gives_back_before_it_refuses)
{
    struct pool p;
    uint64_t a, b, c;
    char text[256];
    const struct rt_error e = {text, sizeof text};
    open_pool(&p);
    p.cap(16 << 20);
    cr_assert_eq(rt_cuda_pool_alloc(p.d, &a, 8 << 20, "a", &e), YOLORT_OK);
    cr_assert_eq(rt_cuda_pool_alloc(p.d, &b, 1 << 20, "b", &e), YOLORT_OK);
    rt_cuda_pool_free(p.d, a);
    cr_expect_eq(rt_cuda_pool_alloc(p.d, &c, 12 << 20, "c", &e), YOLORT_OK, "%s", text);
    cr_expect_eq(rt_cuda_pool_alloc(p.d, &a, 8 << 20, "a", &e), YOLORT_OOM_DEVICE);
    cr_expect(strstr(text, "a: 8388608 bytes are wanted, ") && strstr(text, " of 1073741824 are free"), "%s", text);
    cr_expect_eq(rt_cuda_pool_alloc(p.d, &a, UINT64_MAX, "a", &e), YOLORT_OOM_DEVICE);
    cr_expect_eq(rt_cuda_pool_alloc(p.d, &a, (uint64_t)1 << 40, "a", &e), YOLORT_OOM_DEVICE);
    rt_cuda_pool_free(p.d, b);
    rt_cuda_pool_free(p.d, c);
    rt_cuda_pool_free(p.d, c);
    p.cap((size_t)1 << 30);
    close_pool(&p);
}

/* A large hole between two blocks stays whole for what needs it. */
Test(rt_cudapool, split_limit)
{
    struct pool p;
    uint64_t large, behind, small, again;
    open_pool(&p);
    cr_assert_eq(rt_cuda_pool_alloc(p.d, &large, 40 << 20, "large", NULL), YOLORT_OK);
    cr_assert_eq(rt_cuda_pool_alloc(p.d, &behind, 1000, "behind", NULL), YOLORT_OK);
    rt_cuda_pool_free(p.d, large);
    cr_assert_eq(rt_cuda_pool_alloc(p.d, &small, 1000, "small", NULL), YOLORT_OK);
    cr_expect_gt(small, behind);
    cr_assert_eq(rt_cuda_pool_alloc(p.d, &again, 40 << 20, "large", NULL), YOLORT_OK);
    cr_expect_eq(again, large);
    rt_cuda_pool_free(p.d, again);
    rt_cuda_pool_free(p.d, behind);
    rt_cuda_pool_free(p.d, small);
    close_pool(&p);
}

/* One for the process; a lost one is left to those who have it. */
Test(rt_cudapool, one_a_device)
{
    struct pool p;
    struct cuda_device *again, *fresh;
    open_pool(&p);
    cr_assert_eq(rt_cuda_device_get(&again, &p.api, 0, NULL), YOLORT_OK);
    cr_expect_eq(again, p.d);
    atomic_store(&p.d->lost, 700);
    cr_assert_eq(rt_cuda_device_get(&fresh, &p.api, 0, NULL), YOLORT_OK);
    cr_expect_neq(fresh, p.d);
    rt_cuda_device_drop(again);
    rt_cuda_device_drop(fresh);
    close_pool(&p);
}
