/* The mock driver's graphs, and the capture of streams that makes them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mockcuda.h"

static atomic_long played, changed, programmatic;
static const void *captured;

enum { MOST_PARAMETERS = 80, MOST_NODES = 1024 };

/* What a library put on a stream that is captured: a function and its argument, copied. */
struct work {
    void (*run)(const void *argument);
    void *argument;
    size_t size;
};

struct graph;
struct node {
    unsigned index;
    struct kernel kernel;
    void *parameter[MOST_PARAMETERS]; /* copies */
    struct work work;    /* run NULL: none */
    struct graph *child; /* own; NULL: none */
};

/* Also what is made of it, which has nodes of its own. */
struct graph {
    struct node *node[MOST_NODES];
    unsigned n;
    unsigned char after[MOST_NODES][MOST_NODES / 8]; /* bit j of row i: node i waits for node j */
};

struct edge { /* CUgraphEdgeData */
    unsigned char from_port, to_port, type, reserved[5];
};

API void mockcuda_capture(const void *stream); /* is being captured; NULL: none */
API long mockcuda_played(void);                /* launches of graphs */
API long mockcuda_changed(void);               /* changes of graphs' nodes */
API long mockcuda_programmatic(void);          /* edges of that kind */
/* For a library that works on streams: runs it now, or keeps it for the graph while the stream is captured. */
API void mockcuda_work(void *stream, void (*run)(const void *argument), const void *argument, size_t size);

API int cuStreamIsCapturing(void *stream, int *status);
API int cuStreamBeginCapture_v2(void *stream, int mode);
API int cuStreamEndCapture(void *stream, void **graph);
API int cuGraphAddChildGraphNode(void **node, void *graph, void *const *before, size_t n, void *child);
API int cuGraphCreate(void **graph, unsigned flags);
API int cuGraphAddKernelNode(void **node, void *graph, void *const *before, size_t n, const struct kernel *k);
API int cuGraphAddDependencies(void *graph, void *const *from, void *const *to, size_t n);
API int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const struct edge *as, size_t n);
API int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
API int cuGraphExecKernelNodeSetParams(void *exec, void *node, const struct kernel *k);
API int cuGraphLaunch(void *exec, void *stream);
API int cuGraphExecDestroy(void *exec);
API int cuGraphDestroy(void *graph);

void mockcuda_capture(const void *stream)
{
    captured = stream;
}

long mockcuda_played(void)
{
    return played;
}

long mockcuda_changed(void)
{
    return changed;
}

long mockcuda_programmatic(void)
{
    return programmatic;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    ENTER("cuStreamIsCapturing");
    *status = stream && stream == captured;
    return 0;
}

static struct graph *new_graph(void)
{
    struct graph *g = calloc(1, sizeof *g);
    if (!g) abort();
    live++;
    return g;
}

int cuGraphCreate(void **graph, unsigned flags)
{
    ENTER("cuGraphCreate");
    *graph = flags ? NULL : new_graph();
    return flags ? INVALID_VALUE : 0;
}

static void free_parameters(struct node *n)
{
    for (unsigned i = 0; i < MOST_PARAMETERS; i++) free(n->parameter[i]);
    memset(n->parameter, 0, sizeof n->parameter);
}

/* The node's own copies of the parameters, as the driver takes them when it is told. */
static void tell(struct node *n, const struct kernel *k)
{
    free_parameters(n);
    n->kernel = *k;
    n->kernel.parameter = n->parameter;
    for (unsigned i = 0; k->function->size && k->function->size(i); i++) {
        n->parameter[i] = malloc(k->function->size(i));
        if (!n->parameter[i]) abort();
        memcpy(n->parameter[i], k->parameter[i], k->function->size(i));
    }
}

static struct node *new_node(struct graph *g)
{
    struct node *n = g->n < MOST_NODES ? calloc(1, sizeof *n) : NULL;
    if (!n) return NULL;
    n->index = g->n;
    return g->node[g->n++] = n;
}

static struct node *add_node(struct graph *g, const struct kernel *k)
{
    struct node *n = new_node(g);
    if (n) tell(n, k);
    return n;
}

static void set_work(struct node *n, const struct work *w)
{
    n->work = *w;
    n->work.argument = malloc(w->size);
    if (!n->work.argument) abort();
    memcpy(n->work.argument, w->argument, w->size);
}

static struct graph *copy_graph(const struct graph *from);
static int free_graph(struct graph *g);

static void copy_node(struct graph *g, const struct node *from)
{
    struct node *n = from->kernel.function ? add_node(g, &from->kernel) : new_node(g);
    if (!n) abort();
    if (from->work.run) set_work(n, &from->work);
    if (from->child) n->child = copy_graph(from->child);
}

static struct graph *copy_graph(const struct graph *from)
{
    struct graph *g = new_graph();
    memcpy(g->after, from->after, sizeof g->after);
    for (unsigned i = 0; i < from->n; i++) copy_node(g, from->node[i]);
    return g;
}

int cuGraphAddChildGraphNode(void **node, void *graph, void *const *before, size_t n, void *child)
{
    ENTER("cuGraphAddChildGraphNode");
    (void)before;
    struct node *own = n || !child ? NULL : new_node(graph);
    *node = own;
    if (own) own->child = copy_graph(child);
    return own ? 0 : INVALID_VALUE;
}

/* --- capture: of one stream at a time */

static struct {
    void *stream;
    struct graph *graph;
} capture;

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    ENTER("cuStreamBeginCapture_v2");
    if (!stream || mode != 2 || capture.graph) return INVALID_VALUE;
    capture.stream = stream;
    capture.graph = new_graph();
    return 0;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    struct graph *g = capture.graph;
    if (!g || stream != capture.stream) return INVALID_VALUE;
    capture.graph = NULL;
    int code = fails("cuStreamEndCapture");
    if (code) free_graph(g);
    *graph = code ? NULL : g;
    return code;
}

void mockcuda_work(void *stream, void (*run)(const void *argument), const void *argument, size_t size)
{
    const struct work w = {run, (void *)(uintptr_t)argument, size};
    if (!capture.graph || stream != capture.stream) {
        run(argument);
        works++;
        return;
    }
    struct node *n = new_node(capture.graph);
    if (!n) abort();
    if (n->index) capture.graph->after[n->index][(n->index - 1) / 8] |= (unsigned char)(1u << (n->index - 1) % 8);
    set_work(n, &w);
}

int cuGraphAddKernelNode(void **node, void *graph, void *const *before, size_t n, const struct kernel *k)
{
    ENTER("cuGraphAddKernelNode");
    (void)before;
    *node = n ? NULL : add_node(graph, k);
    return *node ? 0 : INVALID_VALUE;
}

static int add_edges(struct graph *g, void *const *from, void *const *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct node *a = from[i], *b = to[i];
        if (!a || !b || a == b || g->node[a->index] != a || g->node[b->index] != b) return INVALID_VALUE;
        if (g->after[b->index][a->index / 8] >> a->index % 8 & 1) return INVALID_VALUE;
        g->after[b->index][a->index / 8] |= (unsigned char)(1u << a->index % 8);
    }
    return 0;
}

int cuGraphAddDependencies(void *graph, void *const *from, void *const *to, size_t n)
{
    ENTER("cuGraphAddDependencies");
    return add_edges(graph, from, to, n);
}

int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const struct edge *as, size_t n)
{
    ENTER("cuGraphAddDependencies_v2");
    for (size_t i = 0; i < n; i++) {
        if (as[i].type != as[0].type) return INVALID_VALUE; /* a real one takes all for what the first is */
        if (as[i].from_port != as[i].type || as[i].type > 1 || as[i].to_port) return INVALID_VALUE;
        if (as[i].type && (((const struct node *)from[i])->child || ((const struct node *)to[i])->child)) return INVALID_VALUE;
        programmatic += as[i].type;
    }
    return add_edges(graph, from, to, n);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    ENTER("cuGraphInstantiateWithFlags");
    const struct graph *from = graph;
    if (flags) return INVALID_VALUE;
    *exec = copy_graph(from);
    return 0;
}

int cuGraphExecKernelNodeSetParams(void *exec, void *node, const struct kernel *k)
{
    ENTER("cuGraphExecKernelNodeSetParams");
    struct graph *g = exec;
    const struct node *n = node;
    if (n->index >= g->n || g->node[n->index]->kernel.function != k->function) return INVALID_VALUE;
    tell(g->node[n->index], k);
    changed++;
    return 0;
}

/* The last node of those that wait for none that is still to come. */
static unsigned next_ready(const struct graph *g, const unsigned char *done)
{
    for (unsigned i = g->n; i-- > 0;) {
        int ready = !(done[i / 8] >> i % 8 & 1);
        for (unsigned b = 0; ready && b < MOST_NODES / 8; b++) ready = !(g->after[i][b] & ~done[b]);
        if (ready) return i;
    }
    return g->n;
}

static int play(const struct graph *g);

static int play_node(const struct node *n)
{
    if (n->child) return play(n->child);
    if (!n->work.run) return launch(&n->kernel);
    n->work.run(n->work.argument);
    return 0;
}

/* In an order as far from that of the nodes as the edges allow, so that a missing one shows. */
static int play(const struct graph *g)
{
    unsigned char done[MOST_NODES / 8] = {0};
    for (unsigned k = 0; k < g->n; k++) {
        unsigned i = next_ready(g, done);
        int error = i < g->n ? play_node(g->node[i]) : INVALID_VALUE;
        if (error) return error;
        done[i / 8] |= (unsigned char)(1u << i % 8);
    }
    return 0;
}

int cuGraphLaunch(void *exec, void *stream)
{
    ENTER("cuGraphLaunch");
    (void)stream;
    played++;
    return play(exec);
}

static int free_graph(struct graph *g)
{
    for (unsigned i = 0; i < g->n; i++) {
        free_parameters(g->node[i]);
        free(g->node[i]->work.argument);
        if (g->node[i]->child) free_graph(g->node[i]->child);
        free(g->node[i]);
    }
    return unmake(g);
}

int cuGraphExecDestroy(void *exec)
{
    ENTER("cuGraphExecDestroy");
    return free_graph(exec);
}

int cuGraphDestroy(void *graph)
{
    ENTER("cuGraphDestroy");
    return free_graph(graph);
}
