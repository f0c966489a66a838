/* The evaluator: interprets kernel programs in double. Slow and plain; what the other renderers are checked against. */
#include "codegen.h"

#include <math.h>

struct eval {
    const struct kb *b;
    double *const *mem;
    double **own;     /* mem, with the scratch filled in */
    size_t *slot;     /* first register of each node */
    double *reg;      /* F and B lanes (B: 0 or 1), and I values in ireg */
    int64_t *ireg;
    uint32_t *end_of; /* LOOP -> its END */
    uint32_t *loop_of; /* END -> its LOOP */
    int64_t unit;
    int bad;
};

static double eval1(enum kb_code c, double a)
{
    switch (c) {
    case KB_FNEG: return -a;
    case KB_SQRT: return sqrt(a);
    case KB_RINT: return nearbyint(a);
    case KB_RCPE: return 1 / a;
    case KB_TANHE: return tanh(a);
    case KB_FRAC: return a - floor(a);
    case KB_POW2I: return isfinite(a) ? ldexp(1.0, (int)a) : a;
    case KB_EXP: return exp(a);
    case KB_EXP2E: return exp2(a);
    case KB_LOG: return log(a);
    case KB_ERF: return erf(a);
    case KB_LOGB: return logb(a);
    case KB_SIGNIF: return a / ldexp(1.0, (int)logb(a));
    case KB_NOT: return a == 0;
    default: YIR_BUG("no such operation of one value: %d", (int)c);
    }
}

static double eval2(enum kb_code c, double a, double b)
{
    switch (c) {
    case KB_FADD: return a + b;
    case KB_FSUB: return a - b;
    case KB_FMUL: return a * b;
    case KB_FDIV: return a / b;
    case KB_SCALE: return isfinite(b) ? ldexp(a, (int)floor(b)) : a * b;
    case KB_FMIN: return a < b ? a : b;
    case KB_FMAX: return a > b ? a : b;
    case KB_FLT: return a < b;
    case KB_AND: return a != 0 && b != 0;
    case KB_OR: return a != 0 || b != 0;
    default: YIR_BUG("no such operation of two values: %d", (int)c);
    }
}

static int64_t eval_int(enum kb_code c, int64_t a, int64_t b)
{
    switch (c) {
    case KB_IADD: return a + b;
    case KB_ISUB: return a - b;
    case KB_IMUL: return a * b;
    case KB_IDIV: YIR_ASSERT(a >= 0 && b > 0); return a / b;
    case KB_IREM: YIR_ASSERT(a >= 0 && b > 0); return a % b;
    case KB_IMIN: return a < b ? a : b;
    case KB_IMAX: return a > b ? a : b;
    default: YIR_BUG("no such operation of two indexes: %d", (int)c);
    }
}

/* First element of an access, or -1 when it would leave the memory (noted once). */
static int64_t checked(struct eval *e, const struct kb_node *n)
{
    int64_t i = e->ireg[n->a];
    if (i >= 0 && i <= e->b->mem[n->mem].elems - n->imm.i) return i;
    if (!e->bad) e->bad = 1 + n->mem;
    return -1;
}

static void run_load(struct eval *e, uint32_t id)
{
    const struct kb_node *n = &e->b->node[id];
    int64_t i = checked(e, n);
    double *r = e->reg + e->slot[id];
    for (int l = 0; l < n->lanes; l++) r[l] = i >= 0 && l < n->imm.i ? e->own[n->mem][i + l] : 0;
}

static void run_store(struct eval *e, uint32_t id)
{
    const struct kb_node *n = &e->b->node[id];
    int64_t i = checked(e, n);
    const double *v = e->reg + e->slot[n->b];
    for (int l = 0; i >= 0 && l < n->imm.i; l++) e->own[n->mem][i + l] = v[l];
}

static void run_select(struct eval *e, uint32_t id)
{
    const struct kb_node *n = &e->b->node[id];
    const double *cond = e->reg + e->slot[n->a];
    bool wide_cond = e->b->node[n->a].lanes > 1;
    if (n->type == KB_I) {
        e->ireg[id] = cond[0] != 0 ? e->ireg[n->b] : e->ireg[n->c];
        return;
    }
    for (int l = 0; l < n->lanes; l++)
        e->reg[e->slot[id] + l] = e->reg[e->slot[cond[wide_cond ? l : 0] != 0 ? n->b : n->c] + l];
}

static void copy_value(struct eval *e, uint32_t to, uint32_t from, int lanes)
{
    e->ireg[to] = e->ireg[from];
    for (int l = 0; l < lanes; l++) e->reg[e->slot[to] + l] = e->reg[e->slot[from] + l];
}

static void run_lanes(struct eval *e, uint32_t id)
{
    const struct kb_node *n = &e->b->node[id];
    double *r = e->reg + e->slot[id];
    const double *a = e->reg + e->slot[n->a], *b = e->reg + e->slot[n->b], *c = e->reg + e->slot[n->c];
    for (int l = 0; l < n->lanes; l++) {
        if (n->code == KB_FMA)
            r[l] = a[l] * b[l] + c[l];
        else if (n->code == KB_SPLAT)
            r[l] = a[0];
        else
            r[l] = n->b ? eval2((enum kb_code)n->code, a[l], b[l]) : eval1((enum kb_code)n->code, a[l]);
    }
}

static void run_zip(struct eval *e, uint32_t id, int first)
{
    const struct kb_node *n = &e->b->node[id];
    for (int l = 0; l < n->lanes; l++)
        e->reg[e->slot[id] + (size_t)l] = e->reg[e->slot[l % 2 ? n->b : n->a] + (size_t)(first + l / 2)];
}

/* Runs node id; the number of the node to go on with. */
static uint32_t step(struct eval *e, uint32_t id)
{
    const struct kb_node *n = &e->b->node[id];
    switch (n->code) {
    case KB_IMM_F: e->reg[e->slot[id]] = n->imm.f; break;
    case KB_IMM_I: e->ireg[id] = n->imm.i; e->reg[e->slot[id]] = (double)n->imm.i; break;
    case KB_UNIT: e->ireg[id] = e->unit; break;
    case KB_LANE: e->ireg[id] = e->ireg[n->a]; break;
    case KB_IADD:
    case KB_ISUB:
    case KB_IMUL:
    case KB_IDIV:
    case KB_IREM:
    case KB_IMIN:
    case KB_IMAX: e->ireg[id] = eval_int((enum kb_code)n->code, e->ireg[n->a], e->ireg[n->b]); break;
    case KB_ILT: e->reg[e->slot[id]] = e->ireg[n->a] < e->ireg[n->b]; break;
    case KB_IEQ: e->reg[e->slot[id]] = e->ireg[n->a] == e->ireg[n->b]; break;
    case KB_ITOF:
        for (int l = 0; l < n->lanes; l++) e->reg[e->slot[id] + (size_t)l] = (double)(e->ireg[n->a] + l);
        break;
    case KB_PICK: e->reg[e->slot[id]] = e->reg[e->slot[n->a] + (size_t)n->imm.i]; break;
    case KB_ZIPLO: run_zip(e, id, 0); break;
    case KB_ZIPHI: run_zip(e, id, n->lanes / 2); break;
    case KB_FTOI: e->ireg[id] = (int64_t)e->reg[e->slot[n->a]]; break;
    case KB_SELECT: run_select(e, id); break;
    case KB_LOAD: run_load(e, id); break;
    case KB_AHEAD: break;
    case KB_STORE: run_store(e, id); break;
    case KB_VAR: copy_value(e, id, n->a, n->lanes); break;
    case KB_GET: copy_value(e, id, n->a, n->lanes); break;
    case KB_SET: copy_value(e, n->a, n->b, e->b->node[n->a].lanes); break;
    case KB_LOOP:
        e->ireg[id] = e->ireg[n->a];
        return e->ireg[id] < e->ireg[n->b] ? id + 1 : e->end_of[id] + 1;
    case KB_END: {
        uint32_t loop = e->loop_of[id];
        e->ireg[loop] += e->b->node[loop].imm.i;
        return e->ireg[loop] < e->ireg[e->b->node[loop].b] ? loop + 1 : id + 1;
    }
    default: run_lanes(e, id); break;
    }
    return id + 1;
}

static void prepare(struct eval *e, struct yir_arena *a)
{
    const struct kb *b = e->b;
    size_t n = 0;
    uint32_t open[64];
    int depth = 0;
    e->slot = yir_alloc_n(a, b->nnode, sizeof *e->slot);
    e->ireg = yir_alloc_n(a, b->nnode, sizeof *e->ireg);
    e->end_of = yir_alloc_n(a, b->nnode, sizeof *e->end_of);
    e->loop_of = yir_alloc_n(a, b->nnode, sizeof *e->loop_of);
    for (uint32_t id = 0; id < b->nnode; id++) {
        e->slot[id] = n;
        n += b->node[id].lanes ? b->node[id].lanes : 1;
        if (b->node[id].code == KB_LOOP) open[depth++] = id;
        if (b->node[id].code == KB_END) {
            e->loop_of[id] = open[--depth];
            e->end_of[open[depth]] = id;
        }
    }
    e->reg = yir_alloc_n(a, n, sizeof *e->reg);
    e->own = yir_alloc_n(a, (size_t)b->nmem + 1, sizeof *e->own);
    for (int i = 0; i < b->nmem; i++)
        e->own[i] = b->mem[i].kind == KB_MEM_SCRATCH ? yir_alloc_n(a, (size_t)b->mem[i].elems, sizeof(double)) : e->mem[i];
}

int kb_ref_run(struct yir_arena *a, const struct kb *b, double *const *mem, int64_t begin, int64_t end, int *bad)
{
    struct yir_arena_mark m = yir_arena_mark(a);
    struct eval e = {.b = b, .mem = mem};
    prepare(&e, a);
    for (e.unit = begin; e.unit < end && !e.bad; e.unit++)
        for (uint32_t id = 1; id < b->nnode;) id = step(&e, id);
    yir_arena_reset(a, m);
    if (bad) *bad = e.bad;
    return e.bad ? -1 : 0;
}
