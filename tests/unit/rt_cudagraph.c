/* Runs of CUDA modules as graphs: which are kept, what changes them, how steps are ordered, and runs without. */
#include <criterion/criterion.h>

#include "cudabox.h"

/* One graph for each batch and set of what is bound; other memory changes the steps that touch it, and no others. */
Test(rt_cudagraph, graphs_are_kept)
{
    struct mock k = mock();
    struct net *n = opened();
    long played = k.played(), changed = k.changed(), live;
    bind(n);
    for (int batch = 1; batch <= 2; batch++) cr_expect_eq(yolort_run(n->c, batch, NULL), YOLORT_OK);
    live = k.live();
    for (int i = 0; i < 5; i++) cr_expect_eq(yolort_run(n->c, 1 + i % 2, NULL), YOLORT_OK);
    cr_expect_eq(k.played() - played, 7);
    cr_expect_eq(k.changed() - changed, 0);
    cr_expect_eq(k.live(), live, "no graph is made twice");
    k.device_memory(echo, 0);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    for (int i = 0; i < 3; i++) cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(k.changed() - changed, 1, "the step that writes it");
    cr_expect_eq(k.live(), live);
    cr_expect_eq(yolort_bind(n->c, MB_ECHO, NULL, 0), YOLORT_OK);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(k.live(), live + 2, "a graph without that step, and what was made of it");
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* Those used last are kept; here two inputs, three sets of outputs and two batches. */
Test(rt_cudagraph, graphs_are_few)
{
    struct mock k = mock();
    struct net *n = opened();
    static float images[N];
    long most = 0, before = k.live();
    for (int i = 0; i < 60; i++) {
        bind(n);
        if (i % 2) yolort_bind(n->c, MB_IMAGES, images, sizeof images);
        if (i % 3 == 1) yolort_bind(n->c, MB_ECHO, NULL, 0);
        if (i % 3 == 2) yolort_bind(n->c, MB_DECODED, NULL, 0);
        cr_expect_eq(yolort_run(n->c, 1 + i / 6 % 2, NULL), YOLORT_OK, "%s", yolort_error(n->c));
        if (k.live() - before > most) most = k.live() - before;
    }
    cr_expect_eq(most, 2 * 12);
    closed(n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cudagraph, graph_options)
{
    struct mock k = mock();
    struct net n;
    describe(&n, "sm_90a");
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    static const int mode[] = {0, YOLORT_GRAPH_OFF, YOLORT_GRAPH_CHAIN, YOLORT_GRAPH_FULL_EDGES, 7};
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        long played = k.played();
        cr_assert_eq(open_with(&n, mode[i]), YOLORT_OK);
        bind(&n);
        cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK);
        cr_expect_eq(k.played() - played, !(mode[i] & YOLORT_GRAPH_OFF), "%d", mode[i]);
        yolort_context_free(n.c);
    }
    cr_expect_eq(open_with(&n, 8), YOLORT_ARG);
    cr_expect_eq(open_with(&n, -1), YOLORT_ARG);
    yolort_module_free(n.m);
    free(n.bytes);
    cr_expect_eq(k.live(), 0);
}

/* Only before a kernel that waits by itself; here one step comes after another, step 2 after step 0. */
Test(rt_cudagraph, programmatic_edges)
{
    struct mock k = mock();
    static const struct {
        uint32_t first, then;
        int mode, edges;
    } row[] = {{1, 1, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, 1}, {1, 1, YOLORT_GRAPH_FULL_EDGES, 0}, {1, 1, YOLORT_GRAPH_CHAIN, 1}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        long before = k.programmatic();
        describe(&n, "sm_90a");
        free(n.bytes);
        n.b.kernel[0].waits = row[i].first;
        n.b.kernel[2].waits = row[i].then;
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
        cr_assert_eq(open_with(&n, row[i].mode), YOLORT_OK);
        bind(&n);
        cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK, "%s", yolort_error(n.c));
        cr_expect_eq(k.programmatic() - before, row[i].edges, "row %zu", i);
        closed(&n);
    }
    cr_expect_eq(k.live(), 0);
}

/* What the caller captures gets the launches themselves, and says nothing of when they are done. */
Test(rt_cudagraph, captured_stream)
{
    struct mock k = mock();
    struct net *n = opened();
    long played = k.played(), launched = k.launches();
    int stream;
    bind(n);
    k.capture(&stream);
    k.fail("cuEventRecord", 1, 1);
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.played(), played);
    cr_expect_eq(k.launches() - launched, 6);
    k.fail("", 0, 0);
    k.capture(NULL);
    cr_expect_eq(yolort_run(n->c, 1, &stream), YOLORT_OK, "%s", yolort_error(n->c));
    cr_expect_eq(k.played(), played + 1);
    k.fail("cuStreamIsCapturing", 1, 906);
    cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_ARG, "the default stream beside a capture");
    closed(n);
    cr_expect_eq(k.live(), 0);
}

/* A driver that can't: the steps are launched, in this run and in all that follow. */
Test(rt_cudagraph, no_graphs_here)
{
    struct mock k = mock();
    struct net *n = opened();
    long launched = k.launches(), live = k.live();
    bind(n);
    k.fail("cuGraphInstantiateWithFlags", 1, 801);
    for (int i = 0; i < 3; i++) cr_expect_eq(yolort_run(n->c, 1, NULL), YOLORT_OK);
    cr_expect_str_eq(yolort_error(n->c), "");
    cr_expect_eq(k.launches() - launched, 9);
    cr_expect_eq(k.live(), live);
    closed(n);
}
