/* Half precision inside the network: F32 values become F16 or BF16 as the options say, layer by layer. What is stored changes
 * and nothing else: every kernel computes in float, so a value that is used in its own kernel is not rounded.
 *
 *   - A convolution, transposed ones too, reads a half-precision map and weights; its bias stays F32, as it is added to a float.
 *   - Attention as a whole reads half-precision maps, where convolutions follow; its scores and sums are float.
 *   - What lies behind the last convolution on each way to an output stays F32, and so do the outputs; heads (decoding,
 *     softmax, parts of attention, sums over a map) are F32 wherever they stand.
 *   - A point-wise op with an F32 operand is F32: positions and what heads made are not rounded again.
 *   - An op that only moves elements is F32 when all it moves is.
 *
 * Casts stand where these meet. One cast serves all readers of a value when all want the same other type and the value is
 * made by a kernel, which then ends with the cast (fuse); else each reader has its own, which becomes its prologue. Weights
 * are rounded here, to nearest even. A convolution with weights beyond the range of the type stays F32, with a warning. */
#include "walk.h"

#include <math.h>

enum { HALVES = 2 }; /* F16, BF16 */

struct precision {
    struct rebuild r;
    struct pass *p;
    bool *late;           /* nothing but late ops read it; no convolution */
    enum yir_dtype *type; /* of each op in the new function */
    struct wants {        /* readers of each op that want it F32, and in half precision */
        uint32_t full, half;
        bool early;       /* one of them is not late */
    } *wants;
    yir_ref *shared;            /* the cast that serves all readers of an op */
    yir_ref *weight[HALVES];    /* rounded weights, NIL before the first reader */
};

/* --- layers by name ----------------------------------------------------------------------------------------- */

bool pass_layer_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    for (;;) {
        if (!*pattern && (!*name || *name == '.')) return true;
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*name && *pattern == *name) {
            pattern++;
            name++;
        } else if (star && *from) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
}

static enum yir_dtype asked_for(const struct pass_opts *o, const char *layer)
{
    for (size_t i = o->nlayer; i > 0; i--)
        if (pass_layer_matches(o->layer[i - 1].pattern, layer)) return o->layer[i - 1].dtype;
    return o->precision;
}

/* --- types of the new function ------------------------------------------------------------------------------ */

/* Transposed convolutions are as good as others. */
static enum yir_opclass class_of(const struct precision *c, uint32_t op)
{
    enum yir_code code = (enum yir_code)c->r.old->op[op].code;
    return code == YIR_deconv2d ? YIR_CONTRACT : yir_opinfo(code)->cls;
}

static void find_late(struct precision *c)
{
    const struct yir_func *f = c->r.old;
    for (uint32_t i = 1; i < f->nop; i++) c->late[i] = class_of(c, i) != YIR_CONTRACT;
    for (uint32_t i = f->nop - 1; i > 0; i--)
        for (int k = 0; !c->late[i] && k < f->op[i].nsrc; k++) {
            yir_ref x = yir_src(f, i, k);
            if (yir_kind(x) == YIR_VAL) c->late[yir_index(x)] = false;
        }
}

/* The weights, if the op has some, are in the range of the type. */
static bool in_range(const struct precision *c, uint32_t op, enum yir_dtype type)
{
    const struct yir_func *f = c->r.old;
    yir_ref x = yir_src(f, op, 1);
    if (yir_kind(x) != YIR_WGT || !f->weight[yir_index(x)].data) return true;
    const struct yir_tdesc *d = yir_desc(f, x);
    double top = 0;
    uint16_t half;
    const void *data = f->weight[yir_index(x)].data;
    for (size_t i = 0, n = (size_t)yir_numel(d); i < n; i++) {
        double v = fabs(d->dtype == YIR_F32 ? (double)((const float *)data)[i] : yir_dtype_load(d->dtype, data, i));
        if (v > top && v < (double)INFINITY) top = v;
    }
    yir_dtype_store(type, &half, 0, top);
    if (isfinite(yir_dtype_load(type, &half, 0))) return true;
    yir_diag(c->p->diags, f->loc[f->op[op].loc].loc, W_PRECISION, "%s stays in fp32: a weight of size %g is too large for %s",
             f->loc[f->op[op].loc].name, top, yir_dtype_name(type));
    return false;
}

/* How many of the op's computed operands are F32 in the new function, and how many there are. */
static int full_operands(const struct precision *c, uint32_t op, int *n)
{
    int full = 0;
    *n = 0;
    for (int k = 0; k < c->r.old->op[op].nsrc; k++) {
        yir_ref x = yir_src(c->r.old, op, k);
        if (yir_kind(x) != YIR_VAL || c->r.old->op[yir_index(x)].code == YIR_image) continue;
        full += c->type[yir_index(x)] == YIR_F32;
        ++*n;
    }
    return full;
}

static enum yir_dtype type_of(const struct precision *c, uint32_t op)
{
    const struct yir_func *f = c->r.old;
    enum yir_dtype old = yir_tdesc(f->types, f->op[op].type)->dtype;
    enum yir_dtype type = asked_for(c->p->opts, f->loc[f->op[op].loc].name);
    int n, full = full_operands(c, op, &n);
    if (old != YIR_F32 || type == YIR_F32) return old;
    if (c->late[op]) return YIR_F32;
    switch (class_of(c, op)) {
    case YIR_EW: return full ? YIR_F32 : type;
    case YIR_MOVE: return n && full == n ? YIR_F32 : type;
    case YIR_CONTRACT: return in_range(c, op, type) ? type : YIR_F32;
    case YIR_HEAD: return f->op[op].code == YIR_attention ? type : YIR_F32;
    case YIR_WINDOW:
    case YIR_EDGE: break;
    }
    return type;
}

static void find_types(struct precision *c)
{
    const struct yir_func *f = c->r.old;
    for (uint32_t i = 1; i < f->nop; i++) c->type[i] = type_of(c, i);
    for (uint32_t i = 0; i < f->noutput; i++) {
        yir_ref x = f->output[i].ref;
        if (yir_kind(x) == YIR_VAL) c->type[yir_index(x)] = yir_desc(f, x)->dtype;
    }
}

/* Type in which op `op` of the new function takes an operand that was F32. */
static enum yir_dtype operand_type(const struct precision *c, uint32_t op)
{
    enum yir_dtype t = c->type[op];
    return t == YIR_F16 || t == YIR_BF16 ? t : YIR_F32;
}

static void find_wants(struct precision *c)
{
    const struct yir_func *f = c->r.old;
    for (uint32_t i = 1; i < f->nop; i++)
        for (int k = 0; k < f->op[i].nsrc; k++) {
            yir_ref x = yir_src(f, i, k);
            if (yir_kind(x) != YIR_VAL) continue;
            struct wants *w = &c->wants[yir_index(x)];
            if (operand_type(c, i) == YIR_F32) w->full++;
            else w->half++;
            w->early |= !c->late[i];
        }
}

/* A picture is made in the type that all its readers want. */
static void find_pictures(struct precision *c)
{
    const struct yir_func *f = c->r.old;
    for (uint32_t i = 1; i < f->nop; i++)
        if (f->op[i].code == YIR_image && c->wants[i].full) c->type[i] = YIR_F32;
}

/* --- the new function --------------------------------------------------------------------------------------- */

static yir_ref rounded_weight(struct precision *c, yir_ref x, enum yir_dtype type)
{
    struct yir_func *f = c->r.f;
    yir_ref *made = &c->weight[type == YIR_BF16][yir_index(x)];
    if (yir_kind(*made) != YIR_NIL) return *made;
    const struct yir_weight w = f->weight[yir_index(x)];
    struct yir_tdesc d = *yir_tdesc(f->types, w.type);
    size_t n = (size_t)yir_numel(&d);
    void *data = w.data ? yir_alloc_n(f->arena, n, yir_dtype_size(type)) : NULL;
    if (data && d.dtype == YIR_F32) yir_dtype_store_f32(type, data, n, w.data);
    for (size_t i = 0; data && d.dtype != YIR_F32 && i < n; i++) yir_dtype_store(type, data, i, yir_dtype_load(d.dtype, w.data, i));
    d.dtype = type;
    const char *name = pass_weight_name(f, w.name, type == YIR_F16 ? "-f16" : "-bf16");
    return *made = yir_add_weight(f, name, yir_type_of(f->types, &d), data);
}

/* All readers want another type than the op has, the same one, and its kernel can store that instead. */
static bool may_share(const struct precision *c, uint32_t op)
{
    const struct wants *w = &c->wants[op];
    enum yir_opclass cls = class_of(c, op);
    if (cls == YIR_MOVE || cls == YIR_EDGE) return false;
    return c->type[op] == YIR_F32 ? !w->full : !w->half && !w->early;
}

static yir_ref cast_to(struct precision *c, yir_ref old, yir_ref x, enum yir_dtype type)
{
    struct yir_func *f = c->r.f;
    const struct yir_a_cast a = {(int32_t)type, (int32_t)yir_desc(f, x)->layout};
    bool share = yir_kind(old) == YIR_VAL && may_share(c, yir_index(old));
    if (!share) return yir_emit(f, YIR_cast, &x, 1, &a);
    yir_ref *made = &c->shared[yir_index(old)];
    if (yir_kind(*made) == YIR_VAL && yir_desc(f, *made)->dtype == type) return *made;
    uint32_t reader = f->cur_loc;
    f->cur_loc = yir_opof(f, x)->loc; /* it will be the end of that op's kernel */
    *made = yir_emit(f, YIR_cast, &x, 1, &a);
    f->cur_loc = reader;
    return *made;
}

/* Vectors among the weights (bias, statistics) stay as they are. */
static bool rounds_weight(const struct precision *c, uint32_t op, int k, enum yir_dtype type)
{
    const struct yir_func *f = c->r.old;
    if (type == YIR_F32 || yir_desc(f, yir_src(f, op, k))->rank < 2) return false;
    return f->op[op].code != YIR_conv2d || k == 1;
}

static yir_ref operand(struct precision *c, uint32_t op, int k)
{
    yir_ref old = yir_src(c->r.old, op, k), x = yir_map(c->r.map, old);
    enum yir_dtype type = operand_type(c, op);
    if (yir_kind(x) == YIR_NIL || yir_desc(c->r.old, old)->dtype != YIR_F32) return x;
    if (yir_kind(x) == YIR_WGT) return rounds_weight(c, op, k, type) ? rounded_weight(c, x, type) : x;
    return yir_desc(c->r.f, x)->dtype == type ? x : cast_to(c, old, x, type);
}

/* One cast does both changes, and none where the operand is that already. */
static void emit_cast(struct precision *c, uint32_t op)
{
    struct yir_a_cast a = *(const struct yir_a_cast *)yir_attrs(c->r.old, op);
    yir_ref old = yir_src(c->r.old, op, 0);
    bool half = operand_type(c, op) != YIR_F32, share = yir_kind(old) == YIR_VAL && may_share(c, yir_index(old));
    yir_ref x = share ? operand(c, op, 0) : yir_map(c->r.map, old);
    a.dtype = (int32_t)c->type[op];
    const struct yir_tdesc *d = yir_desc(c->r.f, x);
    if (half && (int32_t)d->dtype == a.dtype && (int32_t)d->layout == a.layout) c->r.map[op] = x;
    else pass_rebuild_emit(&c->r, op, YIR_cast, &x, 1, &a);
}

static void emit_image(struct precision *c, uint32_t op)
{
    struct yir_a_image a = *(const struct yir_a_image *)yir_attrs(c->r.old, op);
    yir_ref x = pass_rebuild_src(&c->r, op, 0);
    a.dtype = (int32_t)c->type[op];
    pass_rebuild_emit(&c->r, op, YIR_image, &x, 1, &a);
}

static void emit_op(struct precision *c, uint32_t op)
{
    const struct yir_op *o = &c->r.old->op[op];
    yir_ref src[64];
    c->r.f->cur_loc = o->loc;
    if (o->code == YIR_cast) {
        emit_cast(c, op);
        return;
    }
    if (o->code == YIR_image) {
        emit_image(c, op);
        return;
    }
    for (int k = 0; k < o->nsrc; k++) src[k] = operand(c, op, k);
    pass_rebuild_emit(&c->r, op, (enum yir_code)o->code, src, o->nsrc, yir_attrs(c->r.old, op));
}

int pass_precision(struct pass *p)
{
    const struct yir_func *f = p->in;
    struct precision c = {.p = p};
    if (p->opts->precision == YIR_F32 && !p->opts->nlayer) return 0;
    c.late = yir_alloc_n(p->arena, f->nop, sizeof *c.late);
    c.type = yir_alloc_n(p->arena, f->nop, sizeof *c.type);
    c.wants = yir_alloc_n(p->arena, f->nop, sizeof *c.wants);
    c.shared = yir_alloc_n(p->arena, f->nop, sizeof *c.shared);
    for (int i = 0; i < HALVES; i++) c.weight[i] = yir_alloc_n(p->arena, f->nweight, sizeof *c.weight[i]);
    pass_rebuild_begin(&c.r, p);
    find_late(&c);
    find_types(&c);
    find_wants(&c);
    find_pictures(&c);
    for (uint32_t i = 1; i < f->nop; i++) {
        emit_op(&c, i);
        if (c.r.failed) return -1;
    }
    return pass_rebuild_end(&c.r, p);
}
