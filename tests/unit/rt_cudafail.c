/* CUDA modules beside a driver whose calls fail: what is then left behind, and what a lost device does. */
#include <criterion/criterion.h>

#include <string.h>

#include "cudabox.h"

/* Each call of the driver fails once, on every way from the file to the results; nothing is left behind, and a status tells. */
static yolort_status whole(struct net *n, const struct mock *k, int graph, const char **failed)
{
    yolort_status s = load(n);
    n->c = NULL;
    if (!s) s = open_with(n, graph);
    if (!s) s = yolort_bind(n->c, MB_INPUT_U8, u8, sizeof u8);
    if (!s) s = yolort_bind(n->c, MB_ECHO, echo, sizeof echo);
    if (!s) s = yolort_run(n->c, 1, NULL);
    if (!s) s = yolort_run(n->c, 2, NULL);
    if (!s) s = yolort_profile(n->c, 1);
    if (!s) s = yolort_run(n->c, 1, NULL);
    if (!s) s = yolort_wait(n->c);
    *failed = k->failed();
    k->fail("", 0, 0); /* what can't be given back stays */
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    return s;
}

/* Of the search for a program that some device runs: the next one is tried. */
static int is_asking(const char *call)
{
    return !strncmp(call, "cuDevice", 8) || !strcmp(call, "cuInit");
}

/* Runs without graphs give the same. */
static int is_harmless(const char *call, yolort_status s)
{
    if (!strcmp(call, "cuMemAddressReserve")) return s == YOLORT_OOM_DEVICE || s == YOLORT_UNSUPPORTED; /* pieces of the driver's own */
    if (!strcmp(call, "cuMemCreate") || !strcmp(call, "cuMemMap") || !strcmp(call, "cuMemSetAccess")) return s == YOLORT_OOM_DEVICE; /* tried again when what is unused is given back */
    return s == YOLORT_UNSUPPORTED && (!strncmp(call, "cuGraph", 7) || !strcmp(call, "cuStreamWaitValue32_v2"));
}

static const struct {
    int code;
    yolort_status status;
} kind[] = {
    {1, YOLORT_ARG},           {2, YOLORT_OOM_DEVICE},    {3, YOLORT_NO_DEVICE},    {100, YOLORT_NO_DEVICE},
    {101, YOLORT_NO_DEVICE},   {200, YOLORT_FORMAT},      {201, YOLORT_ARG},        {209, YOLORT_INCOMPATIBLE},
    {218, YOLORT_INCOMPATIBLE}, {300, YOLORT_UNSUPPORTED}, {400, YOLORT_ARG},        {700, YOLORT_DEVICE_LOST},
    {701, YOLORT_OOM_DEVICE},  {702, YOLORT_DEVICE_LOST}, {716, YOLORT_DEVICE_LOST}, {719, YOLORT_DEVICE_LOST},
    {720, YOLORT_UNSUPPORTED}, {801, YOLORT_UNSUPPORTED}, {802, YOLORT_NO_DEVICE},  {999, YOLORT_DEVICE_LOST},
    {4711, YOLORT_UNSUPPORTED},
};
static void fail_each(const struct mock *k, struct net *n, int graph, int code, yolort_status expected)
{
    for (int nth = 1;; nth++) {
        const char *at;
        k->fail("*", nth, code);
        yolort_status s = whole(n, k, graph, &at);
        if (!at) break; /* no run has so many calls */
        cr_assert_lt(nth, 1000);
        int fits = s == expected || (s == YOLORT_INCOMPATIBLE && is_asking(at)) || (s == YOLORT_OK && is_harmless(at, expected));
        cr_expect(fits, "%s, call %d, error %d: %s", at, nth, code, yolort_status_name(s));
        cr_expect_eq(k->live(), 0, "%s, call %d, error %d: %ld left", at, nth, code, k->live());
    }
}

Test(rt_cudafail, each_call_fails)
{
    struct mock k = mock();
    struct net n;
    const char *at;
    describe(&n, "sm_90a");
    cr_assert_eq(whole(&n, &k, 0, &at), YOLORT_OK);
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        fail_each(&k, &n, 0, kind[i].code, kind[i].status);
        fail_each(&k, &n, YOLORT_GRAPH_OFF, kind[i].code, kind[i].status);
    }
    free(n.bytes);
}

/* After a fatal error the context gives DEVICE_LOST and calls the driver for no more work; freed, it leaves the way to new ones. */
Test(rt_cudafail, lost)
{
    struct mock k = mock();
    struct net *n = opened();
    bind(n);
    k.fail("cuGraphLaunch", 1, 700);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_DEVICE_LOST);
    cr_expect(strstr(yolort_error(n->c), "CUDA_ERROR_ILLEGAL_ADDRESS"), "%s", yolort_error(n->c));
    long before = k.launches();
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_DEVICE_LOST);
    cr_expect_eq(yolort_wait(n->c), YOLORT_DEVICE_LOST);
    cr_expect_not(yolort_arena(n->c, NULL));
    cr_expect_eq(k.launches(), before);
    yolort_context_free(n->c);
    n->c = NULL;
    cr_expect_eq(k.live(), 0, "the driver's context is given back");
    yolort_context *again;
    cr_expect_eq(yolort_context_new(&again, n->m, NULL), YOLORT_OK);
    cr_expect_eq(yolort_bind(again, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK);
    cr_expect_eq(yolort_bind(again, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_expect_eq(yolort_run(again, 1, NULL), YOLORT_OK);
    yolort_context_free(again);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* An error of work that was under way is told by whoever waits for it first, and stays. */
Test(rt_cudafail, lost_while_waiting)
{
    struct mock k = mock();
    struct net *n = opened();
    bind(n);
    cr_assert_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    k.fail("cuEventSynchronize", 1, 719);
    cr_expect_eq(yolort_wait(n->c), YOLORT_DEVICE_LOST);
    cr_expect_eq(yolort_wait(n->c), YOLORT_DEVICE_LOST);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_DEVICE_LOST);
    cr_expect(strstr(yolort_error(n->c), "719"), "%s", yolort_error(n->c));
    closed(n);
    cr_expect_eq(k.live(), 0);
}
