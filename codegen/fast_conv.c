#include "fast_conv.h"

static bool float_map(const struct yir_func *f, yir_ref r)
{
    const struct yir_tdesc *d = yir_desc(f, r);
    return d->rank == 4 && cg_is_float(d->dtype);
}

static void fill(struct conv *c)
{
    const struct yir_func *f = c->f;
    const struct yir_a_conv *a = yir_attrs(f, c->op);
    c->x = yir_src(f, c->op, 0);
    c->w = yir_src(f, c->op, 1);
    c->bias = f->op[c->op].nsrc == 3 ? yir_src(f, c->op, 2) : YIR_NONE;
    const struct yir_tdesc *w = yir_desc(f, c->w), *in = yir_desc(f, c->x), *out = yir_tdesc(f->types, f->op[c->op].type);
    c->win = (struct cg_window){
        {w->dim[2], w->dim[3]}, {a->stride[0], a->stride[1]}, {a->dil[0], a->dil[1]}, {a->pad[0], a->pad[1]}};
    c->groups = a->groups;
    c->ci = in->dim[1];
    c->ih = in->dim[2];
    c->iw = in->dim[3];
    c->co = out->dim[1];
    c->oh = out->dim[2];
    c->ow = out->dim[3];
}

bool cg_conv_of(const struct yir_func *f, uint32_t first, uint32_t last, const struct kb_target *t, struct conv *c)
{
    uint32_t op = cg_only_op(f, first, last, YIR_conv2d);
    if (t->lanes == 1 || !op || !float_map(f, yir_src(f, op, 0))) return false;
    for (int k = 1; k < f->op[op].nsrc; k++)
        if (yir_kind(yir_src(f, op, k)) != YIR_WGT || !cg_is_float(yir_desc(f, yir_src(f, op, k))->dtype)) return false;
    if (!cg_lanes_ok(f, first, last, op)) return false;
    *c = (struct conv){.f = f, .t = t, .first = first, .last = last, .op = op, .lanes = t->lanes};
    fill(c);
    return true;
}

double cg_epilogue_cycles(const struct conv *c)
{
    double cycles = 0;
    for (uint32_t i = c->op + 1; i <= c->last; i++) {
        enum yir_code code = (enum yir_code)c->f->op[i].code;
        cycles += code == YIR_silu || code == YIR_sigmoid ? 12 : code == YIR_gelu ? 24 : 1.5;
    }
    return cycles + 2;
}

void cg_conv_unit(struct kb *b, const struct conv *c, int64_t rows, kv *n, kv *row0)
{
    kv u;
    cg_split_unit(b, (c->oh + rows - 1) / rows, n, &u);
    kv row = kb_muli(b, u, rows);
    *row0 = kb_imin(b, row, kb_immi(b, c->oh - rows));
}

bool cg_conv_in_place(const struct conv *c)
{
    const struct yir_tdesc *in = yir_desc(c->f, c->x);
    return cg_in_memory(c->f, c->f->op[c->last].kernel, c->x) && in->layout == YIR_NHWC && yir_kind(c->x) == YIR_VAL &&
           c->f->place[yir_index(c->x)].stride[1] == 1;
}

/* --- sources ------------------------------------------------------------------------------------------------ */

struct finding {
    const struct yir_func *f;
    uint32_t kernel;
    enum yir_dtype dtype;
    struct cg_sources *out;
};

static int log2_of(int64_t n)
{
    int log = 0;
    while (log < 30 && (int64_t)1 << log < n) log++;
    return (int64_t)1 << log == n ? log : -1;
}

static bool add_source(struct finding *s, yir_ref r, int shift, bool wide)
{
    struct cg_sources *o = s->out;
    int64_t vector = 16 / (int64_t)yir_dtype_size(s->dtype);
    if (yir_kind(r) != YIR_VAL || o->n == CG_MOST_SOURCES || !cg_adjacent(s->f, r) || o->channels % vector) return false;
    o->at[o->n] = (struct cg_source){.ref = r, .first = o->channels, .channels = yir_desc(s->f, r)->dim[1], .shift = shift, .wide = wide};
    o->channels += o->at[o->n++].channels;
    return true;
}

/* The source of a cast from floats to the input's type, or NIL. */
static yir_ref cast_source(const struct finding *s, yir_ref r)
{
    if (yir_kind(r) != YIR_VAL || yir_opof(s->f, r)->code != YIR_cast) return YIR_NONE;
    yir_ref x = yir_src(s->f, yir_index(r), 0);
    const struct yir_tdesc *d = yir_desc(s->f, x);
    bool fit = d->dtype == YIR_F32 && s->dtype != YIR_F32 && d->layout == YIR_NHWC && yir_kind(x) == YIR_VAL;
    return fit && cg_in_memory(s->f, s->kernel, x) ? x : YIR_NONE;
}

static bool find_sources(struct finding *s, yir_ref r, int shift, int depth)
{
    enum { DEEPEST = 4 };
    const struct yir_tdesc *d = yir_desc(s->f, r);
    if (d->dtype != s->dtype || d->rank != 4 || d->layout != YIR_NHWC || depth > DEEPEST) return false;
    if (cg_in_memory(s->f, s->kernel, r)) return add_source(s, r, shift, false);
    yir_ref whole = cast_source(s, r);
    if (yir_kind(whole) != YIR_NIL) return add_source(s, whole, shift, true);
    const struct yir_op *o = yir_opof(s->f, r);
    const void *attr = yir_attrs(s->f, yir_index(r));
    if (o->code == YIR_upsample) {
        int log = log2_of(((const struct yir_a_factor *)attr)->factor);
        return log >= 0 && find_sources(s, yir_src(s->f, yir_index(r), 0), shift + log, depth + 1);
    }
    if (o->code != YIR_concat || ((const struct yir_a_axis *)attr)->axis != 1) return false;
    for (int k = 0; k < o->nsrc; k++)
        if (!find_sources(s, yir_src(s->f, yir_index(r), k), shift, depth + 1)) return false;
    return true;
}

bool cg_conv_sources(const struct yir_func *f, uint32_t kernel, yir_ref x, struct cg_sources *out)
{
    struct finding s = {.f = f, .kernel = kernel, .dtype = yir_desc(f, x)->dtype, .out = out};
    *out = (struct cg_sources){0};
    return find_sources(&s, x, 0, 0);
}

/* --- channels in parts -------------------------------------------------------------------------------------- */

struct conv_parts cg_conv_parts(const struct conv *c, int vectors, int64_t parts)
{
    int64_t block = (int64_t)vectors * c->lanes, blocks = (c->co + block - 1) / block;
    struct conv_parts p = {.vectors = vectors, .part = (blocks + parts - 1) / parts * block};
    p.parts = (c->co + p.part - 1) / p.part;
    return p;
}

void cg_conv_units(struct kb *b, const struct conv_parts *p, int64_t runs, kv *n, kv *run, kv *part)
{
    kv u, parts = kb_immi(b, p->parts);
    cg_split_unit(b, runs * p->parts, n, &u);
    *run = kb_idiv(b, u, parts);
    *part = kb_irem(b, u, parts);
}

void cg_conv_channels(struct kb *b, const struct conv *c, const struct conv_parts *p, kv part, cg_conv_block body, const void *ctx)
{
    int64_t block = (int64_t)p->vectors * c->lanes, whole = c->co / block * block, rest = c->co % block;
    b->lanes = b->valid = c->lanes;
    if (whole) {
        kv lo = kb_muli(b, part, p->part), end = kb_addi(b, lo, p->part), hi = kb_imin(b, end, kb_immi(b, whole));
        kv ch = kb_loop(b, lo, hi, block);
        body(b, ctx, p->vectors, c->lanes, ch);
        kb_end(b);
    }
    if (rest) {
        int vectors = (int)((rest + c->lanes - 1) / c->lanes), last = (int)(rest - (int64_t)(vectors - 1) * c->lanes);
        cg_if(b, kb_ieq(b, part, kb_immi(b, p->parts - 1)));
        body(b, ctx, vectors, last, kb_immi(b, whole));
        kb_end(b);
    }
    b->lanes = b->valid = 1;
}
