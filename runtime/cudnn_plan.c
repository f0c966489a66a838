#include "cudnn_plan.h"

#include <stdlib.h>
#include <string.h>

/* cudnn_graph.h: kinds of descriptors, names and types of their attributes, values of these. */
enum {
    POINTWISE = 0, CONVOLUTION = 1, ENGINE = 2, ENGINE_CONFIG = 3, ENGINE_HEURISTIC = 4, EXECUTION_PLAN = 5, KNOB_CHOICE = 7,
    OPERATION_CONVOLUTION = 10, OPERATION_POINTWISE = 13, OPERATION_GRAPH = 15, VARIANT_PACK = 16, TENSOR = 17,
};
enum {
    POINTWISE_MODE = 0, POINTWISE_PRECISION = 1, POINTWISE_SWISH_BETA = 8,
    CONVOLUTION_PRECISION = 100, CONVOLUTION_MODE = 101, CONVOLUTION_DILATION = 102, CONVOLUTION_STRIDE = 103, CONVOLUTION_AFTER = 104,
    CONVOLUTION_BEFORE = 105, CONVOLUTION_RANK = 106,
    HEURISTIC_MODE = 200, HEURISTIC_GRAPH = 201, HEURISTIC_RESULTS = 202, HEURISTIC_DEVICE = 204,
    CONFIG_ENGINE = 300, CONFIG_KNOBS = 302, CONFIG_SPACE = 303,
    PLAN_HANDLE = 400, PLAN_CONFIG = 401, PLAN_SPACE = 402, PLAN_DEVICE = 407,
    KNOB_TYPE = 600, KNOB_VALUE = 601,
    CONV_ALPHA = 700, CONV_BETA = 701, CONV_OF = 702, CONV_W = 703, CONV_X = 704, CONV_Y = 705,
    POINT_OF = 750, POINT_X = 751, POINT_B = 752, POINT_Y = 753,
    GRAPH_HANDLE = 800, GRAPH_OPERATIONS = 801,
    TENSOR_ALIGN = 900, TENSOR_TYPE = 901, TENSOR_DIMS = 902, TENSOR_STRIDES = 903, TENSOR_ID = 906, TENSOR_VIRTUAL = 907,
    PACK_IDS = 1000, PACK_POINTERS = 1001, PACK_SPACE = 1003,
    ENGINE_GRAPH = 1300, ENGINE_NUMBER = 1301, ENGINE_NOTES = 1303, ENGINE_DEVICE = 1307,
};
enum {
    IS_HANDLE = 0, IS_DATA_TYPE = 1, IS_BOOLEAN = 2, IS_INT64 = 3, IS_FLOAT = 4, IS_DOUBLE = 5, IS_POINTER = 6, IS_CONVOLUTION_MODE = 7,
    IS_HEURISTIC = 8, IS_KNOB = 9, IS_NOTE = 11, IS_POINTWISE_MODE = 14, IS_DESCRIPTOR = 15,
};
enum { FLOAT = 0, HALF = 2, BFLOAT16 = 9 };
enum { CROSS_CORRELATION = 1 };
enum { ADD = 0, RELU = 100, SIGMOID = 102, SWISH = 106 };
enum { MODE_B = 1, FALLBACK = 2, MODE_A = 3 };
enum { NOTE_DOWN_CONVERT = 1, NOTE_REDUCED_SUMS = 2, NOTE_FFT = 3, NOTE_NONDETERMINISTIC = 4, NOTE_WINOGRAD = 5, NOTE_STRICT_NAN = 9, MOST_NOTES = 32 };

enum { ID_X = 1, ID_WEIGHTS, ID_BIAS, ID_ADDED, ID_OUT, ID_BETWEEN };
enum { ALIGN = 16, RANK = 4, SPATIAL = 2, MOST_OPERATIONS = 4, HOST_MEMORY = 4003 };

/* --- descriptors -------------------------------------------------------------------------------------------- */

static int note(struct cudnn_bag *b, int error, const char *call)
{
    if (!error || b->error) return b->error;
    b->error = error;
    b->call = call;
    return error;
}

static void *make(struct cudnn_bag *b, int type)
{
    void *d = NULL;
    if (b->error) return NULL;
    if (b->n == b->room) {
        size_t room = b->room ? 2 * b->room : 32;
        void **more = realloc(b->made, room * sizeof *more);
        if (!more) {
            note(b, HOST_MEMORY, "memory");
            return NULL;
        }
        b->made = more;
        b->room = room;
    }
    if (note(b, b->api->make(type, &d), "descriptor")) return NULL;
    return b->made[b->n++] = d;
}

static void set(struct cudnn_bag *b, void *d, int name, int type, int64_t n, const void *values)
{
    if (!b->error) note(b, b->api->set(d, name, type, n, values), "attribute");
}

static void set_int(struct cudnn_bag *b, void *d, int name, int type, int value)
{
    set(b, d, name, type, 1, &value);
}

static void set_one(struct cudnn_bag *b, void *d, int name, void *other)
{
    set(b, d, name, IS_DESCRIPTOR, 1, &other);
}

static void finish(struct cudnn_bag *b, void *d, const char *what)
{
    if (!b->error) note(b, b->api->finalize(d), what);
}

/* Number of elements that were there; at most `most` are given. */
static int64_t get(struct cudnn_bag *b, void *d, int name, int type, int64_t most, void *values)
{
    int64_t n = 0;
    if (!b->error) note(b, b->api->get(d, name, type, most, &n, values), "attribute");
    return b->error || n < 0 ? 0 : n;
}

static void empty(struct cudnn_bag *b)
{
    while (b->n) b->api->unmake(b->made[--b->n]);
    free(b->made);
    b->made = NULL;
    b->room = 0;
}

static yolort_status status_of(const struct cudnn_bag *b, const struct rt_error *e)
{
    return rt_cudnn_status(b->api, b->error, b->call ? b->call : "", e);
}

/* --- the graph ---------------------------------------------------------------------------------------------- */

static int data_type(uint32_t dtype)
{
    return dtype == YOLORT_F16 ? HALF : dtype == YOLORT_BF16 ? BFLOAT16 : FLOAT;
}

static void *tensor(struct cudnn_bag *b, int64_t id, int type, const int64_t dim[RANK], const int64_t stride[RANK])
{
    void *d = make(b, TENSOR);
    int64_t align = ALIGN;
    char is_virtual = id >= ID_BETWEEN;
    set_int(b, d, TENSOR_TYPE, IS_DATA_TYPE, type);
    set(b, d, TENSOR_DIMS, IS_INT64, RANK, dim);
    set(b, d, TENSOR_STRIDES, IS_INT64, RANK, stride);
    set(b, d, TENSOR_ID, IS_INT64, 1, &id);
    set(b, d, TENSOR_ALIGN, IS_INT64, 1, &align);
    set(b, d, TENSOR_VIRTUAL, IS_BOOLEAN, 1, &is_virtual);
    finish(b, d, "tensor");
    return d;
}

/* size: channels, height, width; stride: image, row, pixel. */
static void *map(struct cudnn_bag *b, int64_t id, int type, uint32_t images, const uint32_t size[3], const uint64_t stride[3])
{
    const int64_t dim[RANK] = {images, size[0], size[1], size[2]};
    const int64_t steps[RANK] = {(int64_t)stride[0], 1, (int64_t)stride[1], (int64_t)stride[2]};
    return tensor(b, id, type, dim, steps);
}

static void *between(struct cudnn_bag *b, const struct ym_conv *c, int64_t id)
{
    const uint64_t channels = c->out[0], stride[3] = {channels * c->out[1] * c->out[2], channels * c->out[2], channels};
    return map(b, id, FLOAT, c->images, c->out, stride);
}

static void *filter(struct cudnn_bag *b, const struct ym_conv *c)
{
    const int64_t ci = c->x[0], kh = c->kernel[0], kw = c->kernel[1];
    const int64_t dim[RANK] = {c->out[0], ci, kh, kw}, stride[RANK] = {ci * kh * kw, 1, ci * kw, ci};
    return tensor(b, ID_WEIGHTS, data_type(c->dtype), dim, stride);
}

static void *bias(struct cudnn_bag *b, const struct ym_conv *c)
{
    const int64_t co = c->out[0], dim[RANK] = {1, co, 1, 1}, stride[RANK] = {co, 1, co, co};
    return tensor(b, ID_BIAS, FLOAT, dim, stride);
}

static void set_pair(struct cudnn_bag *b, void *d, int name, const uint32_t value[2])
{
    const int64_t wide[SPATIAL] = {value[0], value[1]};
    set(b, d, name, IS_INT64, SPATIAL, wide);
}

static void *convolution(struct cudnn_bag *b, const struct ym_conv *c, void *to)
{
    void *d = make(b, CONVOLUTION), *op;
    const int64_t rank = SPATIAL;
    const float one = 1, zero = 0;
    set_int(b, d, CONVOLUTION_PRECISION, IS_DATA_TYPE, FLOAT);
    set_int(b, d, CONVOLUTION_MODE, IS_CONVOLUTION_MODE, CROSS_CORRELATION);
    set(b, d, CONVOLUTION_RANK, IS_INT64, 1, &rank);
    set_pair(b, d, CONVOLUTION_BEFORE, c->before);
    set_pair(b, d, CONVOLUTION_AFTER, c->after);
    set_pair(b, d, CONVOLUTION_STRIDE, c->stride);
    set_pair(b, d, CONVOLUTION_DILATION, c->dilation);
    finish(b, d, "convolution");
    void *x = map(b, ID_X, data_type(c->dtype), c->images, c->x, c->x_stride), *w = filter(b, c);
    op = make(b, OPERATION_CONVOLUTION);
    set_one(b, op, CONV_OF, d);
    set_one(b, op, CONV_X, x);
    set_one(b, op, CONV_W, w);
    set_one(b, op, CONV_Y, to);
    set(b, op, CONV_ALPHA, IS_FLOAT, 1, &one);
    set(b, op, CONV_BETA, IS_FLOAT, 1, &zero);
    finish(b, op, "convolution");
    return op;
}

/* with NULL: of x alone. */
static void *pointwise(struct cudnn_bag *b, int mode, void *x, void *with, void *to)
{
    void *d = make(b, POINTWISE), *op;
    const double one = 1;
    set_int(b, d, POINTWISE_MODE, IS_POINTWISE_MODE, mode);
    set_int(b, d, POINTWISE_PRECISION, IS_DATA_TYPE, FLOAT);
    if (mode == SWISH) set(b, d, POINTWISE_SWISH_BETA, IS_DOUBLE, 1, &one);
    finish(b, d, "point-wise operation");
    op = make(b, OPERATION_POINTWISE);
    set_one(b, op, POINT_OF, d);
    set_one(b, op, POINT_X, x);
    if (with) set_one(b, op, POINT_B, with);
    set_one(b, op, POINT_Y, to);
    finish(b, op, "point-wise operation");
    return op;
}

struct chain {
    void *op[MOST_OPERATIONS], *at; /* at: what the last one gives */
    int n, left;                    /* left: operations still to come */
};

/* Where an operation's results go: the last one's to memory. */
static void *target(struct cudnn_bag *b, const struct ym_conv *c, struct chain *k)
{
    k->at = --k->left ? between(b, c, ID_BETWEEN + k->n) : map(b, ID_OUT, data_type(c->out_dtype), c->images, c->out, c->out_stride);
    return k->at;
}

static void append(struct cudnn_bag *b, const struct ym_conv *c, struct chain *k, int mode, void *with)
{
    void *from = k->at, *to = target(b, c, k);
    k->op[k->n++] = pointwise(b, mode, from, with, to);
}

static void *graph(struct cudnn_bag *b, const struct cudnn_where *w, const struct ym_conv *c)
{
    static const int mode[YM_NACT] = {[YM_ACT_RELU] = RELU, [YM_ACT_SIGMOID] = SIGMOID, [YM_ACT_SILU] = SWISH};
    struct chain k = {.left = 1 + c->biased + (c->activation != YM_ACT_NONE) + c->added};
    void *to = target(b, c, &k);
    k.op[k.n++] = convolution(b, c, to);
    if (c->biased) append(b, c, &k, ADD, bias(b, c));
    if (c->activation) append(b, c, &k, mode[c->activation], NULL);
    if (c->added) append(b, c, &k, ADD, map(b, ID_ADDED, data_type(c->dtype), c->images, c->out, c->added_stride));
    void *d = make(b, OPERATION_GRAPH);
    set(b, d, GRAPH_OPERATIONS, IS_DESCRIPTOR, k.n, k.op);
    if (w->handle) set(b, d, GRAPH_HANDLE, IS_HANDLE, 1, &w->handle);
    finish(b, d, "graph");
    return d;
}

/* --- plans -------------------------------------------------------------------------------------------------- */

static void *knob(struct cudnn_bag *b, const struct ym_knob *k)
{
    void *d = make(b, KNOB_CHOICE);
    int64_t value = k->value;
    set_int(b, d, KNOB_TYPE, IS_KNOB, (int)k->type);
    set(b, d, KNOB_VALUE, IS_INT64, 1, &value);
    finish(b, d, "knob");
    return d;
}

static void *config(struct cudnn_bag *b, const struct cudnn_where *w, void *of, const struct cudnn_choice *by)
{
    void *engine = make(b, ENGINE), *d, *knobs[YM_MAX_KNOBS];
    int64_t number = by->number;
    set_one(b, engine, ENGINE_GRAPH, of);
    set(b, engine, ENGINE_NUMBER, IS_INT64, 1, &number);
    if (w->device) set_one(b, engine, ENGINE_DEVICE, w->device);
    finish(b, engine, "engine");
    for (uint32_t i = 0; i < by->nknob; i++) knobs[i] = knob(b, &by->knob[i]);
    d = make(b, ENGINE_CONFIG);
    set_one(b, d, CONFIG_ENGINE, engine);
    if (by->nknob) set(b, d, CONFIG_KNOBS, IS_DESCRIPTOR, by->nknob, knobs);
    finish(b, d, "engine");
    return d;
}

static void *plan_of(struct cudnn_bag *b, const struct cudnn_where *w, void *config_, uint64_t *space_bytes)
{
    void *d = make(b, EXECUTION_PLAN);
    int64_t bytes = 0;
    if (w->handle) set(b, d, PLAN_HANDLE, IS_HANDLE, 1, &w->handle);
    if (w->device) set_one(b, d, PLAN_DEVICE, w->device);
    set_one(b, d, PLAN_CONFIG, config_);
    finish(b, d, "plan");
    get(b, d, PLAN_SPACE, IS_INT64, 1, &bytes);
    *space_bytes = bytes > 0 ? (uint64_t)bytes : 0;
    return d;
}

yolort_status rt_cudnn_plan(struct cudnn_plan *out, const struct cudnn_where *w, const struct ym_conv *c, const struct cudnn_choice *by,
                            const struct rt_error *e)
{
    *out = (struct cudnn_plan){.bag.api = w->api};
    struct cudnn_bag *b = &out->bag;
    void *of = graph(b, w, c);
    out->plan = plan_of(b, w, config(b, w, of, by), &out->space_bytes);
    yolort_status s = status_of(b, e);
    if (s) rt_cudnn_plan_free(out);
    return s;
}

void rt_cudnn_plan_free(struct cudnn_plan *p)
{
    empty(&p->bag);
    p->plan = NULL;
}

yolort_status rt_cudnn_run(const struct cudnn_plan *p, void *handle, const struct cudnn_memory *m, const struct rt_error *e)
{
    const struct {
        int64_t id;
        const void *at;
    } all[] = {{ID_X, m->x}, {ID_WEIGHTS, m->weights}, {ID_OUT, m->out}, {ID_BIAS, m->bias}, {ID_ADDED, m->added}};
    enum { N = sizeof all / sizeof *all };
    struct cudnn_bag b = {.api = p->bag.api};
    int64_t id[N], n = 0;
    const void *at[N];
    for (int i = 0; i < N; i++)
        if (all[i].at) {
            id[n] = all[i].id;
            at[n++] = all[i].at;
        }
    void *d = make(&b, VARIANT_PACK);
    set(&b, d, PACK_IDS, IS_INT64, n, id);
    set(&b, d, PACK_POINTERS, IS_POINTER, n, at);
    set(&b, d, PACK_SPACE, IS_POINTER, 1, &m->space);
    finish(&b, d, "memory");
    if (!b.error) note(&b, b.api->execute(handle, p->plan, d), "run");
    yolort_status s = status_of(&b, e);
    empty(&b);
    return s;
}

/* --- what cuDNN proposes ------------------------------------------------------------------------------------ */

/* Sums in less than F32, transforms, and inputs rounded once more are not what our kernels compute. */
static int is_wanted(const int *notes, int64_t n, int flags)
{
    for (int64_t i = 0; i < n; i++) {
        if (notes[i] == NOTE_NONDETERMINISTIC && flags & RT_CUDNN_DETERMINISTIC) return 0;
        if (notes[i] >= NOTE_DOWN_CONVERT && notes[i] != NOTE_NONDETERMINISTIC && notes[i] < NOTE_STRICT_NAN) return 0;
    }
    return 1;
}

static int read_knobs(struct cudnn_bag *b, void *from, struct cudnn_choice *out)
{
    void *knobs[YM_MAX_KNOBS + 1];
    for (int i = 0; i <= YM_MAX_KNOBS; i++) knobs[i] = make(b, KNOB_CHOICE);
    int64_t n = get(b, from, CONFIG_KNOBS, IS_DESCRIPTOR, YM_MAX_KNOBS + 1, knobs);
    if (b->error || n > YM_MAX_KNOBS) return 0;
    for (int64_t i = 0; i < n; i++) {
        int type = 0;
        int64_t value = 0;
        get(b, knobs[i], KNOB_TYPE, IS_KNOB, 1, &type);
        get(b, knobs[i], KNOB_VALUE, IS_INT64, 1, &value);
        if (type < 0 || value < INT32_MIN || value > INT32_MAX) return 0;
        out->knob[out->nknob++] = (struct ym_knob){(uint32_t)type, (int32_t)value};
    }
    return !b->error;
}

/* 0: it is none for us. */
static int read_config(const struct cudnn_api *api, void *from, int flags, struct cudnn_choice *out)
{
    struct cudnn_bag b = {.api = api};
    int notes[MOST_NOTES];
    int64_t number = -1;
    *out = (struct cudnn_choice){0};
    void *engine = make(&b, ENGINE);
    get(&b, from, CONFIG_ENGINE, IS_DESCRIPTOR, 1, &engine);
    get(&b, engine, ENGINE_NUMBER, IS_INT64, 1, &number);
    int64_t n = get(&b, engine, ENGINE_NOTES, IS_NOTE, MOST_NOTES, notes);
    int fit = !b.error && number >= 0 && number <= INT32_MAX && n <= MOST_NOTES && is_wanted(notes, n, flags) && read_knobs(&b, from, out);
    out->number = (uint32_t)number;
    empty(&b);
    return fit;
}

static int is_there(const struct cudnn_choice *all, size_t n, const struct cudnn_choice *one)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].number == one->number && all[i].nknob == one->nknob && !memcmp(all[i].knob, one->knob, sizeof one->knob)) return 1;
    return 0;
}

/* Whether it is one when made from what a module would say of it. No plan is: that may compile a kernel, which takes a second. */
static int try_choice(const struct cudnn_where *w, void *of, uint64_t most_space, struct cudnn_choice *one)
{
    struct cudnn_bag b = {.api = w->api};
    int64_t bytes = -1;
    void *d = config(&b, w, of, one);
    get(&b, d, CONFIG_SPACE, IS_INT64, 1, &bytes);
    int fit = !b.error && bytes >= 0 && (uint64_t)bytes <= most_space;
    one->space_bytes = fit ? (uint64_t)bytes : 0;
    empty(&b);
    return fit;
}

struct search {
    const struct cudnn_where *w;
    int flags;
    uint64_t most_space;
    struct cudnn_choice *out;
    size_t most, n;
};

static void ask(struct search *s, struct cudnn_bag *b, void *of, int mode)
{
    enum { MOST_CONFIGS = 16 };
    void *d = make(b, ENGINE_HEURISTIC), *found[MOST_CONFIGS];
    set_one(b, d, HEURISTIC_GRAPH, of);
    set_int(b, d, HEURISTIC_MODE, IS_HEURISTIC, mode);
    if (s->w->device) set_one(b, d, HEURISTIC_DEVICE, s->w->device);
    finish(b, d, "heuristics");
    for (int i = 0; i < MOST_CONFIGS; i++) found[i] = make(b, ENGINE_CONFIG);
    int64_t n = get(b, d, HEURISTIC_RESULTS, IS_DESCRIPTOR, MOST_CONFIGS, found);
    for (int64_t i = 0; !b->error && i < n && i < MOST_CONFIGS && s->n < s->most; i++) {
        struct cudnn_choice one;
        if (!read_config(b->api, found[i], s->flags, &one) || is_there(s->out, s->n, &one)) continue;
        if (try_choice(s->w, of, s->most_space, &one)) s->out[s->n++] = one;
    }
}

/* A way of proposing that this cuDNN does not have for the graph proposes nothing. */
yolort_status rt_cudnn_suggest(const struct cudnn_where *w, const struct ym_conv *c, int flags, uint64_t most_space, struct cudnn_choice *out,
                               size_t most, size_t *n, const struct rt_error *e)
{
    static const int modes[] = {MODE_A, MODE_B, FALLBACK};
    struct search s = {w, flags, most_space, out, most, 0};
    struct cudnn_bag b = {.api = w->api};
    void *of = graph(&b, w, c);
    yolort_status r = status_of(&b, e);
    for (size_t i = 0; !r && i < sizeof modes / sizeof *modes && s.n < most; i++) {
        ask(&s, &b, of, modes[i]);
        b.error = 0;
    }
    empty(&b);
    *n = s.n;
    return r;
}
