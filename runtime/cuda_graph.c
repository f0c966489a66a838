#include "cuda_graph.h"

#include "order.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_GRAPHS = 16,       /* kept of a context */
    PROGRAMMATIC = 1,       /* CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC */
};

struct edge_step {
    uint32_t step, node;
};

struct cuda_graph {
    struct cuda_graph *next;
    int batch;
    uint64_t in[2], out[2];
    void *graph, *exec;
    void **node;
    uint8_t *whole;         /* by node: no kernel but a graph, whose edges are full ones */
    uint32_t nedge;
    struct edge_step *edge; /* steps with an argument among what is bound */
    void **arg;             /* all arguments, as the graph has them */
};

static yolort_status check(const struct cuda_graphs *g, int error, const struct rt_error *e)
{
    return rt_cuda_check(g->api, g->lost, error, "graph", e);
}

static void drop(const struct cuda_graphs *g, struct cuda_graph *x)
{
    if (!x) return;
    if (x->exec) g->api->graph_exec_destroy(x->exec);
    if (x->graph) g->api->graph_destroy(x->graph);
    free(x->node);
    free(x->whole);
    free(x->edge);
    free(x->arg);
    free(x);
}

static struct rt_launch launch_of(const struct cuda_graphs *g, const struct rt_play *p, uint32_t step)
{
    const struct ym_step *s = &g->t->step[step];
    const struct ym_kernel *k = &g->t->kernel[s->kernel];
    return (struct rt_launch){
        .step = step,
        .kernel = s->kernel,
        .narg = s->narg,
        .arg = p->arg + s->first_arg,
        .total = k->units * p->batch,
        .name = g->t->strings + k->name,
    };
}

static int is_edge(const struct rt_tables *t, const struct ym_step *s)
{
    for (uint32_t i = 0; i < s->narg; i++)
        if (t->arg[s->first_arg + i].slot == YM_SLOT_IO) return 1;
    return 0;
}

static yolort_status add_kernel(const struct cuda_graphs *g, const struct rt_launch *l, struct cuda_graph *x, uint32_t node, const struct rt_error *e)
{
    struct cuda_call call;
    RT_TRY(g->describe(g->user, l, &call, e));
    RT_TRY(check(g, g->api->graph_kernel(&x->node[node], x->graph, NULL, 0, &call.kernel), e));
    if (is_edge(g->t, &g->t->step[l->step])) x->edge[x->nedge++] = (struct edge_step){l->step, node};
    return YOLORT_OK;
}

/* The graph gets a copy of what cuDNN would put on a stream; its memory is the same in every run. */
static yolort_status add_engine(const struct cuda_graphs *g, struct cuda_engine *by, const struct rt_launch *l, struct cuda_graph *x,
                                uint32_t node, const struct rt_error *e)
{
    void *child;
    RT_TRY(rt_cuda_engine_graph(g->engines, by, l, &child, g->lost, e));
    if (!child) return add_kernel(g, l, x, node, e);
    int error = g->api->graph_child(&x->node[node], x->graph, NULL, 0, child);
    g->api->graph_destroy(child);
    x->whole[node] = 1;
    return check(g, error, e);
}

static yolort_status add_nodes(const struct cuda_graphs *g, const struct rt_play *p, const struct rt_order *o, struct cuda_graph *x,
                               const struct rt_error *e)
{
    for (uint32_t i = 0; i < o->n; i++) {
        const struct rt_launch l = launch_of(g, p, o->step[i]);
        struct cuda_engine *by = rt_cuda_engine_of(g->engines, &l);
        RT_TRY(by ? add_engine(g, by, &l, x, i, e) : add_kernel(g, &l, x, i, e));
    }
    return YOLORT_OK;
}

/* Edges of one type. */
struct links {
    void **from, **to;
    struct cuda_edge *as;
    size_t n;
};

/* A kernel that waits by itself for the end of those before may be started before that end. What lies further back is over then as
 * well: those before have waited for it, in whichever way. */
static int is_programmatic(const struct cuda_graphs *g, const struct rt_order *o, const struct cuda_graph *x, uint32_t node)
{
    if (!g->api->graph_link_as || g->mode & YOLORT_GRAPH_FULL_EDGES || x->whole[node]) return 0;
    if (!g->t->kernel[g->t->step[o->step[node]].kernel].waits) return 0;
    for (uint32_t k = o->first[node]; k < o->first[node + 1]; k++)
        if (x->whole[o->before[k]]) return 0;
    return 1;
}

static void collect(const struct cuda_graphs *g, const struct rt_order *o, const struct cuda_graph *x, int programmatic, struct links *l)
{
    l->n = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        if (is_programmatic(g, o, x, i) != programmatic) continue;
        for (uint32_t k = o->first[i]; k < o->first[i + 1]; k++, l->n++) {
            l->from[l->n] = x->node[o->before[k]];
            l->to[l->n] = x->node[i];
            l->as[l->n] = (struct cuda_edge){.from_port = PROGRAMMATIC, .type = PROGRAMMATIC};
        }
    }
}

/* A call for each type: driver 580.159 (CUDA 13.0) takes the type of the first edge of a call for all of them, whatever the others'
 * are. */
static int link_all(const struct cuda_graphs *g, const struct rt_order *o, const struct cuda_graph *x, struct links *l)
{
    collect(g, o, x, 0, l);
    int error = l->n ? g->api->graph_link(x->graph, l->from, l->to, l->n) : 0;
    if (error) return error;
    collect(g, o, x, 1, l);
    return l->n ? g->api->graph_link_as(x->graph, l->from, l->to, l->as, l->n) : 0;
}

static yolort_status add_links(const struct cuda_graphs *g, const struct rt_order *o, const struct cuda_graph *x, const struct rt_error *e)
{
    size_t most = (size_t)o->first[o->n] + 1;
    struct links l = {calloc(most, sizeof *l.from), calloc(most, sizeof *l.to), calloc(most, sizeof *l.as), 0};
    yolort_status s = l.from && l.to && l.as ? check(g, link_all(g, o, x, &l), e) : YOLORT_OOM_HOST;
    free(l.from);
    free(l.to);
    free(l.as);
    return s;
}

static yolort_status fill(const struct cuda_graphs *g, const struct rt_play *p, const struct rt_order *o, struct cuda_graph *x,
                          const struct rt_error *e)
{
    x->node = calloc((size_t)o->n + 1, sizeof *x->node);
    x->whole = calloc((size_t)o->n + 1, sizeof *x->whole);
    x->edge = calloc((size_t)o->n + 1, sizeof *x->edge);
    x->arg = calloc((size_t)g->t->narg + 1, sizeof *x->arg);
    if (!x->node || !x->whole || !x->edge || !x->arg) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    memcpy(x->arg, p->arg, g->t->narg * sizeof *x->arg);
    RT_TRY(check(g, g->api->graph_create(&x->graph, 0), e));
    RT_TRY(add_nodes(g, p, o, x, e));
    RT_TRY(add_links(g, o, x, e));
    return check(g, g->api->graph_ready(&x->exec, x->graph, 0), e);
}

static yolort_status build(const struct cuda_graphs *g, const struct rt_play *p, struct cuda_graph **out, const struct rt_error *e)
{
    struct rt_order o;
    struct cuda_graph *x = calloc(1, sizeof *x);
    if (!x) return rt_fail(e, YOLORT_OOM_HOST, "no memory");
    *x = (struct cuda_graph){.batch = p->batch, .in = {p->in[0], p->in[1]}, .out = {p->out[0], p->out[1]}};
    yolort_status s = rt_order_new(&o, g->t, p->in, p->out, p->batch);
    if (!s && g->mode & YOLORT_GRAPH_CHAIN) rt_order_chain(&o);
    if (!s) s = fill(g, p, &o, x, e);
    rt_order_free(&o);
    if (s)
        drop(g, x);
    else
        *out = x;
    return s;
}

/* Takes it out of the list. */
static struct cuda_graph *find(struct cuda_graphs *g, const struct rt_play *p)
{
    for (struct cuda_graph **at = &g->first, *x; (x = *at); at = &x->next) {
        if (x->batch != p->batch || memcmp(x->in, p->in, sizeof x->in) || memcmp(x->out, p->out, sizeof x->out)) continue;
        *at = x->next;
        return x;
    }
    return NULL;
}

/* Puts it first; the one used longest ago goes when there are too many. */
static void keep(struct cuda_graphs *g, struct cuda_graph *x)
{
    int n = 1;
    x->next = g->first;
    g->first = x;
    for (; x->next && n < MOST_GRAPHS; x = x->next) n++;
    drop(g, x->next);
    x->next = NULL;
}

static yolort_status change_step(const struct cuda_graphs *g, const struct rt_play *p, struct cuda_graph *x, const struct edge_step *at,
                                 const struct rt_error *e)
{
    const struct ym_step *s = &g->t->step[at->step];
    const struct rt_launch l = launch_of(g, p, at->step);
    struct cuda_call call;
    void **had = x->arg + s->first_arg;
    if (!memcmp(had, p->arg + s->first_arg, s->narg * sizeof *had)) return YOLORT_OK;
    RT_TRY(g->describe(g->user, &l, &call, e));
    int error = g->api->graph_change(x->exec, x->node[at->node], &call.kernel);
    if (!error) memcpy(had, p->arg + s->first_arg, s->narg * sizeof *had);
    return check(g, error, e);
}

/* What the graph has of other memory than this run's. */
static yolort_status change(const struct cuda_graphs *g, const struct rt_play *p, struct cuda_graph *x, const struct rt_error *e)
{
    for (uint32_t i = 0; i < x->nedge; i++) RT_TRY(change_step(g, p, x, &x->edge[i], e));
    return YOLORT_OK;
}

yolort_status rt_cuda_graph_play(struct cuda_graphs *g, const struct rt_play *p, void *stream, int *played, const struct rt_error *e)
{
    *played = 0;
    if (g->off || g->mode & YOLORT_GRAPH_OFF || !g->api->graph_ready) return YOLORT_OK;
    struct cuda_graph *x = find(g, p);
    yolort_status s = x ? change(g, p, x, e) : build(g, p, &x, e);
    if (s == YOLORT_UNSUPPORTED || s == YOLORT_LIMIT) {
        drop(g, x);
        g->off = 1;
        if (e && e->size) e->text[0] = 0;
        return YOLORT_OK;
    }
    if (x) keep(g, x);
    RT_TRY(s);
    *played = 1;
    return check(g, g->api->graph_launch(x->exec, stream), e);
}

void rt_cuda_graphs_free(struct cuda_graphs *g)
{
    for (struct cuda_graph *x = g->first, *next; x; x = next) {
        next = x->next;
        drop(g, x);
    }
    g->first = NULL;
}
