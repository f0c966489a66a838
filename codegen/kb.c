#include "kb.h"

#include <string.h>

static const struct kb_opinfo {
    uint8_t in, pure;
} kb_ops[KB_NCODE] = {
    [KB_NONE] = {0, 0},
#define KBOP(name, in, pure) [KB_##name] = {in, pure},
#include "kbops.def"
#undef KBOP
};

static bool stores_halves(const struct yir_func *f, uint32_t kernel)
{
    bool some = false;
    for (uint32_t i = 1; i < f->nop; i++) {
        enum yir_dtype t = yir_tdesc(f->types, f->op[i].type)->dtype;
        if (f->op[i].kernel != kernel || !(f->op[i].flags & YIR_F_STORED)) continue;
        if (t != YIR_F16 && t != YIR_BF16) return false;
        some = true;
    }
    return some;
}

struct kb *kb_new(struct yir_arena *a, const struct yir_func *f, const struct kb_target *t, uint32_t kernel)
{
    struct kb *b = yir_alloc(a, sizeof *b);
    b->arena = a;
    b->f = f;
    b->target = t;
    b->lanes = b->valid = 1;
    b->kernel = kernel;
    b->rough = t->sm >= 75 && stores_halves(f, kernel);
    b->node = yir_grow(a, NULL, &b->cap_node, 256, sizeof *b->node);
    b->nnode = 1;
    b->nhash = 256;
    b->hash = yir_alloc_n(a, b->nhash, sizeof *b->hash);
    return b;
}

/* --- nodes -------------------------------------------------------------------------------------------------- */

static const struct kb_node *at(const struct kb *b, kv v)
{
    YIR_ASSERT(v.id && v.id < b->nnode);
    return &b->node[v.id];
}

/* A node may be used while its scope is open; LOOP nodes keep c = 1 until their END. */
static bool in_scope(const struct kb *b, const struct kb_node *n)
{
    return !n->scope || b->node[n->scope].c;
}

static size_t hash_node(const struct kb_node *n)
{
    uint64_t h = n->code;
    const uint64_t part[] = {n->type, n->lanes, n->a, n->b, n->c, (uint64_t)n->imm.i};
    for (size_t i = 0; i < YIR_COUNT(part); i++) h = (h ^ part[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h >> 24);
}

static bool equal_nodes(const struct kb_node *x, const struct kb_node *y)
{
    return x->code == y->code && x->type == y->type && x->lanes == y->lanes && x->a == y->a && x->b == y->b &&
           x->c == y->c && x->imm.i == y->imm.i;
}

static uint32_t *hash_slot(struct kb *b, const struct kb_node *n)
{
    size_t i = hash_node(n) & (b->nhash - 1);
    while (b->hash[i] && !equal_nodes(&b->node[b->hash[i]], n)) i = (i + 1) & (b->nhash - 1);
    return &b->hash[i];
}

static void rehash(struct kb *b)
{
    uint32_t *old = b->hash, n = b->nhash;
    b->nhash *= 2;
    b->hash = yir_alloc_n(b->arena, b->nhash, sizeof *b->hash);
    for (uint32_t i = 0; i < n; i++)
        if (old[i]) *hash_slot(b, &b->node[old[i]]) = old[i];
}

static kv append(struct kb *b, struct kb_node n)
{
    n.scope = b->scope;
    b->node = yir_grow(b->arena, b->node, &b->cap_node, b->nnode + 1u, sizeof *b->node);
    b->node[b->nnode] = n;
    return (kv){b->nnode++};
}

static kv record(struct kb *b, struct kb_node n)
{
    uint32_t operand[3] = {n.a, n.b, n.c};
    for (int k = 0; k < kb_ops[n.code].in; k++) YIR_ASSERT(in_scope(b, at(b, (kv){operand[k]})));
    if (!kb_ops[n.code].pure) return append(b, n);
    uint32_t *slot = hash_slot(b, &n);
    if (*slot && in_scope(b, &b->node[*slot])) return (kv){*slot};
    kv v = append(b, n);
    *slot = v.id;
    if (b->nnode * 2 > b->nhash) rehash(b);
    return v;
}

kv kb_immf(struct kb *b, double v)
{
    return record(b, (struct kb_node){.code = KB_IMM_F, .type = KB_F, .lanes = 1, .imm.f = v});
}

kv kb_immi(struct kb *b, int64_t v)
{
    return record(b, (struct kb_node){.code = KB_IMM_I, .type = KB_I, .lanes = 1, .imm.i = v});
}

static kv immb(struct kb *b, bool v)
{
    return record(b, (struct kb_node){.code = KB_IMM_I, .type = KB_B, .lanes = 1, .imm.i = v});
}

static bool const_int(const struct kb *b, kv v, int64_t *out)
{
    const struct kb_node *n = at(b, v);
    *out = n->imm.i;
    return n->code == KB_IMM_I;
}

kv kb_unit(struct kb *b)
{
    return record(b, (struct kb_node){.code = KB_UNIT, .type = KB_I, .lanes = 1});
}

kv kb_given(struct kb *b, enum kb_type type, int lanes, int number)
{
    YIR_ASSERT(type == KB_I ? lanes == 1 : type == KB_F);
    return record(b, (struct kb_node){.code = KB_GIVEN, .type = (uint8_t)type, .lanes = (uint8_t)lanes, .c = 1, .imm.i = number});
}

kv kb_given_index(struct kb *b, int number, uint32_t multiple)
{
    return record(b, (struct kb_node){.code = KB_GIVEN, .type = KB_I, .lanes = 1, .c = multiple, .imm.i = number});
}

kv kb_lane(struct kb *b, kv x)
{
    YIR_ASSERT(at(b, x)->type == KB_I && !at(b, x)->marked);
    if (b->lanes == 1) return x;
    return record(b, (struct kb_node){.code = KB_LANE, .type = KB_I, .lanes = 1, .marked = 1, .a = x.id});
}

kv kb_unmarked(struct kb *b, kv x)
{
    YIR_ASSERT(at(b, x)->code == KB_LANE);
    return (kv){at(b, x)->a};
}

/* The value with `lanes` lanes. */
static kv widen(struct kb *b, kv v, int lanes)
{
    const struct kb_node *n = at(b, v);
    YIR_ASSERT(n->type == KB_F || n->type == KB_B);
    if (n->lanes == lanes) return v;
    YIR_ASSERT(n->lanes == 1);
    return record(b, (struct kb_node){.code = KB_SPLAT, .type = n->type, .lanes = (uint8_t)lanes, .a = v.id});
}

kv kb_wide(struct kb *b, kv x)
{
    return widen(b, x, b->lanes);
}

/* An operation on F or B operands of one width, which becomes the widest of theirs. */
static kv wide_op(struct kb *b, enum kb_code code, enum kb_type result, enum kb_type operand, const kv *v, int n)
{
    int lanes = 1;
    kv w[3] = {{0}, {0}, {0}};
    for (int k = 0; k < n; k++) {
        YIR_ASSERT(at(b, v[k])->type == operand);
        if (at(b, v[k])->lanes > lanes) lanes = at(b, v[k])->lanes;
    }
    for (int k = 0; k < n; k++) w[k] = widen(b, v[k], lanes);
    return record(b, (struct kb_node){.code = (uint8_t)code,
                                      .type = (uint8_t)result,
                                      .lanes = (uint8_t)lanes,
                                      .a = w[0].id,
                                      .b = w[1].id,
                                      .c = w[2].id});
}

/* --- floats ------------------------------------------------------------------------------------------------- */

kv kb_float(struct kb *b, enum kb_code code, const kv *x, int n)
{
    return wide_op(b, code, KB_F, KB_F, x, n);
}

#define FLOAT1(fn, code)                                          \
    kv fn(struct kb *b, kv x)                                     \
    {                                                             \
        return wide_op(b, code, KB_F, KB_F, (kv[]){x}, 1);        \
    }
#define FLOAT2(fn, code, type)                                    \
    kv fn(struct kb *b, kv x, kv y)                               \
    {                                                             \
        return wide_op(b, code, type, KB_F, (kv[]){x, y}, 2);     \
    }

FLOAT1(kb_fneg, KB_FNEG)
FLOAT1(kb_sqrt, KB_SQRT)
FLOAT1(kb_rint, KB_RINT)
FLOAT2(kb_fadd, KB_FADD, KB_F)
FLOAT2(kb_fsub, KB_FSUB, KB_F)
FLOAT2(kb_fmul, KB_FMUL, KB_F)
FLOAT2(kb_fdiv, KB_FDIV, KB_F)
FLOAT2(kb_fmin, KB_FMIN, KB_F)
FLOAT2(kb_fmax, KB_FMAX, KB_F)
FLOAT2(kb_flt, KB_FLT, KB_B)

kv kb_fma(struct kb *b, kv x, kv y, kv z)
{
    return wide_op(b, KB_FMA, KB_F, KB_F, (kv[]){x, y, z}, 3);
}

kv kb_pick(struct kb *b, kv x, int lane)
{
    const struct kb_node *n = at(b, x);
    YIR_ASSERT(lane >= 0 && lane < KB_MAX_LANES);
    if (n->code == KB_SPLAT) return (kv){n->a};
    if (n->lanes == 1) return x;
    YIR_ASSERT(lane < n->lanes);
    return record(b, (struct kb_node){.code = KB_PICK, .type = n->type, .lanes = 1, .a = x.id, .imm.i = lane});
}

static kv zip(struct kb *b, enum kb_code code, kv x, kv y)
{
    YIR_ASSERT(b->lanes > 1);
    kv wx = kb_wide(b, x), wy = kb_wide(b, y);
    return wide_op(b, code, KB_F, KB_F, (kv[]){wx, wy}, 2);
}

kv kb_ziplo(struct kb *b, kv x, kv y)
{
    return zip(b, KB_ZIPLO, x, y);
}

kv kb_ziphi(struct kb *b, kv x, kv y)
{
    return zip(b, KB_ZIPHI, x, y);
}

/* --- truth values ------------------------------------------------------------------------------------------- */

kv kb_select(struct kb *b, kv cond, kv x, kv y)
{
    int64_t k;
    YIR_ASSERT(at(b, cond)->type == KB_B && at(b, x)->type == at(b, y)->type);
    if (const_int(b, cond, &k)) return k ? x : y;
    if (x.id == y.id) return x;
    struct kb_node n = {.code = KB_SELECT, .type = at(b, x)->type, .lanes = 1};
    if (n.type == KB_I) {
        YIR_ASSERT(at(b, cond)->lanes == 1 && !at(b, x)->marked && !at(b, y)->marked);
    } else {
        const int lanes[] = {at(b, cond)->lanes, at(b, x)->lanes, at(b, y)->lanes};
        for (int i = 0; i < 3; i++)
            if (lanes[i] > n.lanes) n.lanes = (uint8_t)lanes[i];
        x = widen(b, x, n.lanes);
        y = widen(b, y, n.lanes);
    }
    n.a = cond.id; /* one lane may choose whole vectors */
    n.b = x.id;
    n.c = y.id;
    return record(b, n);
}

kv kb_and(struct kb *b, kv x, kv y)
{
    int64_t k;
    if (const_int(b, x, &k)) return k ? y : x;
    if (const_int(b, y, &k)) return k ? x : y;
    return x.id == y.id ? x : wide_op(b, KB_AND, KB_B, KB_B, (kv[]){x, y}, 2);
}

kv kb_or(struct kb *b, kv x, kv y)
{
    int64_t k;
    if (const_int(b, x, &k)) return k ? x : y;
    if (const_int(b, y, &k)) return k ? y : x;
    return x.id == y.id ? x : wide_op(b, KB_OR, KB_B, KB_B, (kv[]){x, y}, 2);
}

kv kb_not(struct kb *b, kv x)
{
    int64_t k;
    if (const_int(b, x, &k)) return immb(b, !k);
    return wide_op(b, KB_NOT, KB_B, KB_B, (kv[]){x}, 1);
}

/* --- indexes ------------------------------------------------------------------------------------------------ */

static bool fold_int(enum kb_code c, int64_t x, int64_t y, int64_t *out)
{
    switch (c) {
    case KB_IADD: *out = x + y; return true;
    case KB_ISUB: *out = x - y; return true;
    case KB_IMUL: *out = x * y; return true;
    case KB_IDIV: YIR_ASSERT(x >= 0 && y > 0); *out = x / y; return true;
    case KB_IREM: YIR_ASSERT(x >= 0 && y > 0); *out = x % y; return true;
    case KB_IMIN: *out = x < y ? x : y; return true;
    case KB_IMAX: *out = x > y ? x : y; return true;
    default: return false;
    }
}

static kv int_op(struct kb *b, enum kb_code c, kv x, kv y)
{
    int64_t cx = 0, cy = 0, r;
    YIR_ASSERT(at(b, x)->type == KB_I && at(b, y)->type == KB_I);
    bool kx = const_int(b, x, &cx), ky = const_int(b, y, &cy);
    if (kx && ky && fold_int(c, cx, cy, &r)) return kb_immi(b, r);
    bool additive = c == KB_IADD || c == KB_ISUB;
    YIR_ASSERT(!at(b, y)->marked || (c == KB_IADD && !at(b, x)->marked));
    YIR_ASSERT(!at(b, x)->marked || additive);
    return record(b, (struct kb_node){.code = (uint8_t)c,
                                      .type = KB_I,
                                      .lanes = 1,
                                      .marked = at(b, x)->marked | at(b, y)->marked,
                                      .a = x.id,
                                      .b = y.id});
}

kv kb_iadd(struct kb *b, kv x, kv y)
{
    int64_t cx, cy;
    if (const_int(b, x, &cx) && !const_int(b, y, &cy)) return kb_iadd(b, y, x); /* constants to the right */
    if (!const_int(b, y, &cy)) return int_op(b, KB_IADD, x, y);
    if (!cy) return x;
    const struct kb_node *n = at(b, x);
    if (n->code == KB_IADD && const_int(b, (kv){n->b}, &cx)) {
        kv base = {n->a};
        return kb_iadd(b, base, kb_immi(b, cx + cy));
    }
    return int_op(b, KB_IADD, x, y);
}

kv kb_isub(struct kb *b, kv x, kv y)
{
    int64_t c;
    if (const_int(b, y, &c)) return kb_iadd(b, x, kb_immi(b, -c));
    return int_op(b, KB_ISUB, x, y);
}

kv kb_imul(struct kb *b, kv x, kv y)
{
    int64_t c;
    if (const_int(b, x, &c) && !const_int(b, y, &c)) return kb_imul(b, y, x);
    if (const_int(b, y, &c)) {
        if (c == 1) return x;
        if (c == 0) return y;
    }
    return int_op(b, KB_IMUL, x, y);
}

kv kb_idiv(struct kb *b, kv x, kv y)
{
    int64_t c;
    if (const_int(b, y, &c) && c == 1) return x;
    return int_op(b, KB_IDIV, x, y);
}

kv kb_irem(struct kb *b, kv x, kv y)
{
    int64_t c;
    if (const_int(b, y, &c) && c == 1) return kb_immi(b, 0);
    return int_op(b, KB_IREM, x, y);
}

kv kb_imin(struct kb *b, kv x, kv y)
{
    return int_op(b, KB_IMIN, x, y);
}

kv kb_imax(struct kb *b, kv x, kv y)
{
    return int_op(b, KB_IMAX, x, y);
}

static kv int_test(struct kb *b, enum kb_code c, kv x, kv y)
{
    int64_t cx, cy;
    YIR_ASSERT(at(b, x)->type == KB_I && at(b, y)->type == KB_I && !at(b, x)->marked && !at(b, y)->marked);
    if (const_int(b, x, &cx) && const_int(b, y, &cy)) return immb(b, c == KB_ILT ? cx < cy : cx == cy);
    return record(b, (struct kb_node){.code = (uint8_t)c, .type = KB_B, .lanes = 1, .a = x.id, .b = y.id});
}

kv kb_ilt(struct kb *b, kv x, kv y)
{
    return int_test(b, KB_ILT, x, y);
}

kv kb_ieq(struct kb *b, kv x, kv y)
{
    return int_test(b, KB_IEQ, x, y);
}

kv kb_itof(struct kb *b, kv x)
{
    YIR_ASSERT(at(b, x)->type == KB_I);
    uint8_t lanes = (uint8_t)(at(b, x)->marked ? b->lanes : 1);
    return record(b, (struct kb_node){.code = KB_ITOF, .type = KB_F, .lanes = lanes, .a = x.id});
}

kv kb_ftoi(struct kb *b, kv x)
{
    YIR_ASSERT(at(b, x)->type == KB_F && at(b, x)->lanes == 1);
    return record(b, (struct kb_node){.code = KB_FTOI, .type = KB_I, .lanes = 1, .a = x.id});
}

kv kb_addi(struct kb *b, kv x, int64_t y)
{
    return kb_iadd(b, x, kb_immi(b, y));
}

kv kb_muli(struct kb *b, kv x, int64_t y)
{
    return kb_imul(b, x, kb_immi(b, y));
}

/* --- memory ------------------------------------------------------------------------------------------------- */

static int add_mem(struct kb *b, struct kb_mem m)
{
    for (int i = 0; i < b->nmem; i++) {
        struct kb_mem *o = &b->mem[i];
        if (o->kind != m.kind || !yir_same(o->ref, m.ref) || o->packing != m.packing || o->pack_arg != m.pack_arg)
            continue;
        if (o->elems < m.elems) o->elems = m.elems;
        return i;
    }
    YIR_ASSERT(b->nmem < KB_MAX_MEM);
    b->mem[b->nmem] = m;
    return b->nmem++;
}

/* One past the last element that a placed value reaches, for the largest batch its type has. */
static int64_t extent(const struct yir_tdesc *d, const int64_t *stride)
{
    int64_t last = 0;
    for (int i = 0; i < d->rank; i++) last += (d->dim[i] - 1) * stride[i];
    return last + 1;
}

/* log2 of the largest power of two up to 16 that divides the offset. */
static int32_t alignment(uint64_t offset)
{
    int32_t n = 0;
    while (n < 4 && !(offset >> n & 1)) n++;
    return n;
}

/* Of element 0 on a GPU: buffers, inputs and outputs begin at multiples of 16. Elsewhere nothing is asked. */
static int32_t align_of(const struct kb *b, yir_ref r)
{
    if (!b->target->sm) return 0;
    if (yir_kind(r) != YIR_VAL) return alignment(0);
    const struct yir_place *p = &b->f->place[yir_index(r)];
    const struct yir_buf *buf = p->buf ? &b->f->buf[p->buf - 1] : NULL;
    return alignment(p->offset + (buf && buf->kind == YIR_BUF_ARENA ? buf->offset : 0));
}

int kb_mem_value(struct kb *b, yir_ref r)
{
    const struct yir_tdesc *d = yir_desc(b->f, r);
    int64_t dense[YIR_MAX_RANK];
    const int64_t *stride = dense;
    if (yir_kind(r) == YIR_VAL)
        stride = b->f->place[yir_index(r)].stride;
    else
        kb_input_strides(d, dense);
    return add_mem(b, (struct kb_mem){.kind = KB_MEM_VALUE, .dtype = d->dtype, .ref = r, .align = align_of(b, r), .elems = extent(d, stride)});
}

int kb_mem_weight(struct kb *b, yir_ref r, enum kb_packing p, int32_t arg)
{
    const struct yir_tdesc *d = yir_desc(b->f, r);
    return add_mem(b, (struct kb_mem){.kind = KB_MEM_WEIGHT,
                                      .dtype = d->dtype,
                                      .ref = r,
                                      .packing = p,
                                      .pack_arg = arg,
                                      .align = align_of(b, r),
                                      .elems = cg_packed_elems(d, p, arg)});
}

int kb_mem_scratch(struct kb *b, int64_t elems)
{
    return add_mem(b, (struct kb_mem){.kind = KB_MEM_SCRATCH, .dtype = YIR_F32, .elems = elems, .written = true});
}

kv kb_load(struct kb *b, int mem, kv index)
{
    bool wide = at(b, index)->marked;
    YIR_ASSERT(mem >= 0 && mem < b->nmem && at(b, index)->type == KB_I);
    return record(b, (struct kb_node){.code = KB_LOAD,
                                      .type = KB_F,
                                      .lanes = (uint8_t)(wide ? b->lanes : 1),
                                      .mem = (uint8_t)mem,
                                      .a = index.id,
                                      .imm.i = wide ? b->valid : 1});
}

void kb_store(struct kb *b, int mem, kv index, kv value)
{
    bool wide = at(b, index)->marked;
    YIR_ASSERT(mem >= 0 && mem < b->nmem && at(b, index)->type == KB_I && at(b, value)->type == KB_F);
    kv v = widen(b, value, wide ? b->lanes : 1);
    b->mem[mem].written = true;
    record(b, (struct kb_node){.code = KB_STORE,
                               .lanes = at(b, v)->lanes,
                               .mem = (uint8_t)mem,
                               .a = index.id,
                               .b = v.id,
                               .imm.i = wide ? b->valid : 1});
}

void kb_ahead(struct kb *b, int mem, kv index)
{
    YIR_ASSERT(mem >= 0 && mem < b->nmem && at(b, index)->type == KB_I && !at(b, index)->marked);
    record(b, (struct kb_node){.code = KB_AHEAD, .mem = (uint8_t)mem, .a = index.id});
}

/* --- variables and loops ------------------------------------------------------------------------------------ */

kv kb_var(struct kb *b, kv init)
{
    const struct kb_node *n = at(b, init);
    YIR_ASSERT(n->type == KB_F || n->type == KB_I);
    return record(b, (struct kb_node){.code = KB_VAR, .type = n->type, .lanes = n->lanes, .a = init.id});
}

kv kb_get(struct kb *b, kv var)
{
    const struct kb_node *n = at(b, var);
    YIR_ASSERT(n->code == KB_VAR);
    return record(b, (struct kb_node){.code = KB_GET, .type = n->type, .lanes = n->lanes, .a = var.id});
}

void kb_set(struct kb *b, kv var, kv value)
{
    const struct kb_node *n = at(b, var);
    YIR_ASSERT(n->code == KB_VAR && n->type == at(b, value)->type);
    if (n->type == KB_F) value = widen(b, value, n->lanes);
    record(b, (struct kb_node){.code = KB_SET, .a = var.id, .b = value.id});
}

kv kb_loop(struct kb *b, kv lo, kv hi, int64_t step)
{
    YIR_ASSERT(step > 0 && at(b, lo)->type == KB_I && at(b, hi)->type == KB_I);
    kv v = record(b, (struct kb_node){.code = KB_LOOP, .type = KB_I, .lanes = 1, .a = lo.id, .b = hi.id, .imm.i = step});
    b->node[v.id].c = 1;
    b->node[v.id].scope = v.id; /* its index lives inside it */
    b->node[v.id].mem = 0;
    b->outer = yir_grow(b->arena, b->outer, &b->cap_outer, b->depth + 1u, sizeof *b->outer);
    b->outer[b->depth++] = b->scope;
    b->scope = v.id;
    return v;
}

void kb_end(struct kb *b)
{
    YIR_ASSERT(b->scope && b->depth);
    record(b, (struct kb_node){.code = KB_END});
    b->node[b->scope].c = 0;
    b->scope = b->outer[--b->depth];
}
