#include "llvm_draw.h"

#include <stddef.h>
#include <stdio.h>

#include "runtime/module.h"

static LLVMTypeRef node_type(const struct draw *w, const struct kb_node *n)
{
    LLVMTypeRef t = n->type == KB_F ? w->f32 : n->type == KB_B ? w->i1 : w->i64;
    return wide(w, t, n->lanes);
}

static LLVMValueRef const_i64(const struct draw *w, int64_t v)
{
    return w->ll->ConstInt(w->i64, (unsigned long long)v, 1);
}

static LLVMValueRef operand(const struct draw *w, uint32_t node)
{
    YIR_ASSERT(node && node < w->prog->nnode && w->value[node]);
    return w->value[node];
}

static LLVMValueRef call_same(const struct draw *w, const char *name, LLVMValueRef *arg, unsigned narg)
{
    LLVMTypeRef type = w->ll->TypeOf(arg[0]);
    return intrinsic(w, name, &type, 1, arg, narg);
}

/* --- constants, floats, truth values
 * ------------------------------------------------------------------------ */

#define DRAW(name) static LLVMValueRef draw_##name(struct draw *w, const struct kb_node *n)
#define A          operand(w, n->a)
#define B          operand(w, n->b)
#define C          operand(w, n->c)

DRAW(IMM_F)
{
    return const_f32(w, n->imm.f, n->lanes);
}

DRAW(IMM_I)
{
    return n->type == KB_B ? w->ll->ConstInt(w->i1, n->imm.i != 0, 0) : const_i64(w, n->imm.i);
}

DRAW(UNIT)
{
    (void)n;
    return w->unit;
}

/* The mark is in the loads and stores that use it. */
DRAW(LANE)
{
    return A;
}

#define DRAW1(name, call)                                                                                    \
    DRAW(name)                                                                                               \
    {                                                                                                        \
        return w->ll->call(w->b, A, "");                                                                     \
    }
#define DRAW2(name, call)                                                                                    \
    DRAW(name)                                                                                               \
    {                                                                                                        \
        LLVMValueRef a = A, b = B;                                                                           \
        return w->ll->call(w->b, a, b, "");                                                                  \
    }
#define COMPARE(name, call, how)                                                                             \
    DRAW(name)                                                                                               \
    {                                                                                                        \
        LLVMValueRef a = A, b = B;                                                                           \
        return w->ll->call(w->b, how, a, b, "");                                                             \
    }
/* FMIN and FMAX as compare and select are exactly what minps and maxps do, NaN and signed zeros included. */
#define CHOOSE(name, call, how)                                                                              \
    DRAW(name)                                                                                               \
    {                                                                                                        \
        LLVMValueRef a = A, b = B;                                                                           \
        LLVMValueRef c = w->ll->call(w->b, how, a, b, "");                                                   \
        return w->ll->BuildSelect(w->b, c, a, b, "");                                                        \
    }

DRAW2(FADD, BuildFAdd)
DRAW2(FSUB, BuildFSub)
DRAW2(FMUL, BuildFMul)
DRAW2(FDIV, BuildFDiv)
DRAW1(FNEG, BuildFNeg)
CHOOSE(FMIN, BuildFCmp, LLVMRealOLT)
CHOOSE(FMAX, BuildFCmp, LLVMRealOGT)
COMPARE(FLT, BuildFCmp, LLVMRealOLT)
DRAW2(AND, BuildAnd)
DRAW2(OR, BuildOr)
DRAW1(NOT, BuildNot)

DRAW(FMA)
{
    LLVMValueRef v[3] = {A, B, C};
    if (w->t->kb.has_fma) return call_same(w, "llvm.fma", v, 3);
    LLVMValueRef product = w->ll->BuildFMul(w->b, v[0], v[1], "");
    return w->ll->BuildFAdd(w->b, product, v[2], "");
}

DRAW(SQRT)
{
    return call_same(w, "llvm.sqrt", (LLVMValueRef[]){A}, 1);
}

DRAW(RINT)
{
    return call_same(w, "llvm.rint", (LLVMValueRef[]){A}, 1);
}

DRAW(SELECT)
{
    LLVMValueRef a = A, b = B, c = C;
    return w->ll->BuildSelect(w->b, a, b, c, "");
}

static LLVMValueRef splat(const struct draw *w, LLVMValueRef v, int lanes)
{
    LLVMTypeRef type = wide(w, w->ll->TypeOf(v), lanes);
    LLVMValueRef one = w->ll->BuildInsertElement(w->b, w->ll->GetPoison(type), v, const_i32(w, 0, 1), "");
    return w->ll->BuildShuffleVector(w->b, one, w->ll->GetPoison(type), const_i32(w, 0, lanes), "");
}

DRAW(SPLAT)
{
    return splat(w, A, n->lanes);
}

/* Elements first, first + lanes, first + 1, ... of the vectors a and b one after the other. */
static LLVMValueRef zip(struct draw *w, const struct kb_node *n, uint32_t first)
{
    LLVMValueRef a = A, b = B, from[KB_MAX_LANES];
    for (uint32_t i = 0; i < n->lanes; i++) from[i] = const_i32(w, first + i / 2 + (i % 2 ? n->lanes : 0u), 1);
    return w->ll->BuildShuffleVector(w->b, a, b, w->ll->ConstVector(from, n->lanes), "");
}

DRAW(ZIPLO)
{
    return zip(w, n, 0);
}

DRAW(ZIPHI)
{
    return zip(w, n, n->lanes / 2u);
}

/* --- the bits of floats
 * ------------------------------------------------------------------------------------- */

/* Adding 1.5*2^23 leaves the integer in the low bits of the sum, so no conversion is needed (nor one of NaN,
 * which has no defined result). The exponent field takes the low 8 bits of a + 127; the rest is shifted out.
 */
DRAW(POW2I)
{
    LLVMValueRef sum = w->ll->BuildFAdd(w->b, A, const_f32(w, 12582912.0 + 127.0, n->lanes), "");
    return float_of(w, with(w, w->ll->BuildShl, bits_of(w, sum, n->lanes), 23, n->lanes), n->lanes);
}

/* On the registers of AVX-512 only: the builder asks for these where the target says it has them. */
DRAW(RCPE)
{
    LLVMTypeRef type = wide(w, w->f32, n->lanes);
    LLVMValueRef arg[] = {A, w->ll->ConstNull(type), w->ll->ConstInt(w->i16, 0xffff, 0)};
    YIR_ASSERT(n->lanes == 16);
    return intrinsic(w, "llvm.x86.avx512.rcp14.ps.512", NULL, 0, arg, 3);
}

/* Of the immediate: round down, no scaling; 4 is the current rounding mode. */
DRAW(FRAC)
{
    LLVMTypeRef type = wide(w, w->f32, n->lanes);
    LLVMValueRef arg[] = {A, const_i32(w, 1, 1), w->ll->ConstNull(type), w->ll->ConstInt(w->i16, 0xffff, 0), const_i32(w, 4, 1)};
    YIR_ASSERT(n->lanes == 16);
    return intrinsic(w, "llvm.x86.avx512.mask.reduce.ps.512", NULL, 0, arg, 5);
}

DRAW(SCALE)
{
    LLVMTypeRef type = wide(w, w->f32, n->lanes);
    LLVMValueRef arg[] = {A, B, w->ll->ConstNull(type), w->ll->ConstInt(w->i16, 0xffff, 0), const_i32(w, 4, 1)};
    YIR_ASSERT(n->lanes == 16);
    return intrinsic(w, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0, arg, 5);
}

DRAW(LOGB)
{
    LLVMValueRef e = with(w, w->ll->BuildLShr, bits_of(w, A, n->lanes), 23, n->lanes);
    LLVMValueRef biased = w->ll->BuildSIToFP(w->b, e, wide(w, w->f32, n->lanes), "");
    return w->ll->BuildFAdd(w->b, biased, const_f32(w, -127.0, n->lanes), "");
}

DRAW(SIGNIF)
{
    LLVMValueRef m = with(w, w->ll->BuildAnd, bits_of(w, A, n->lanes), 0x007fffff, n->lanes);
    return float_of(w, with(w, w->ll->BuildOr, m, 0x3f800000, n->lanes), n->lanes);
}

/* --- indexes
 * ------------------------------------------------------------------------------------------------ */

/* Indexes stay far below 2^63, so their arithmetic never wraps; LLVM uses that to fold constants into
 * addresses. */
DRAW2(IADD, BuildNSWAdd)
DRAW2(ISUB, BuildNSWSub)
DRAW2(IMUL, BuildNSWMul)
DRAW2(IDIV, BuildUDiv)
DRAW2(IREM, BuildURem)
CHOOSE(IMIN, BuildICmp, LLVMIntSLT)
CHOOSE(IMAX, BuildICmp, LLVMIntSGT)
COMPARE(ILT, BuildICmp, LLVMIntSLT)
COMPARE(IEQ, BuildICmp, LLVMIntEQ)

DRAW(ITOF)
{
    LLVMValueRef first = w->ll->BuildSIToFP(w->b, A, w->f32, ""), lane[KB_MAX_LANES];
    if (n->lanes == 1) return first;
    for (int i = 0; i < n->lanes; i++) lane[i] = const_f32(w, i, 1);
    return w->ll->BuildFAdd(w->b, splat(w, first, n->lanes), w->ll->ConstVector(lane, n->lanes), "");
}

/* Saturating: a value that does not fit gives a wrong element, never an undefined address. */
DRAW(FTOI)
{
    LLVMValueRef a = A;
    (void)n;
    return intrinsic(w, "llvm.fptosi.sat", (LLVMTypeRef[]){w->i64, w->f32}, 2, &a, 1);
}

/* --- loads and stores
 * --------------------------------------------------------------------------------------- */

static LLVMValueRef alias_info(const struct draw *w, const struct kb_node *n, LLVMValueRef access)
{
    const struct memory *m = &w->mem[n->mem];
    w->ll->SetMetadata(access, w->scope_kind, m->own);
    if (m->others) w->ll->SetMetadata(access, w->noalias_kind, m->others);
    return access;
}

/* In checked code the status keeps the first memory that an access would have left. */
static void flag(const struct draw *w, const struct kb_node *n, LLVMValueRef bad)
{
    LLVMValueRef old = w->ll->BuildLoad2(w->b, w->i32, w->status, "");
    LLVMValueRef clean = w->ll->BuildICmp(w->b, LLVMIntEQ, old, const_i32(w, 0, 1), "");
    LLVMValueRef first = w->ll->BuildAnd(w->b, bad, clean, "");
    LLVMValueRef code = const_i32(w, 1u + (uint32_t)w->mem[n->mem].arg, 1);
    w->ll->BuildStore(w->b, w->ll->BuildSelect(w->b, first, code, old, ""), w->status);
}

/* Address of a load or store. In checked code an index outside becomes 0; NULL when the memory is too small
 * for any index. */
static LLVMValueRef address(const struct draw *w, const struct kb_node *n, LLVMTypeRef element)
{
    LLVMValueRef index = A;
    if (w->checked) {
        int64_t last = w->prog->mem[n->mem].elems - n->imm.i;
        if (last < 0) {
            flag(w, n, w->ll->ConstInt(w->i1, 1, 0));
            return NULL;
        }
        LLVMValueRef bad = w->ll->BuildICmp(w->b, LLVMIntUGT, index, const_i64(w, last), "");
        flag(w, n, bad);
        index = w->ll->BuildSelect(w->b, bad, const_i64(w, 0), index, "");
    }
    return w->ll->BuildInBoundsGEP2(w->b, element, w->mem[n->mem].base, &index, 1, "");
}

static LLVMValueRef lane_mask(const struct draw *w, const struct kb_node *n)
{
    LLVMValueRef on[KB_MAX_LANES];
    for (int i = 0; i < n->lanes; i++) on[i] = w->ll->ConstInt(w->i1, i < n->imm.i, 0);
    return w->ll->ConstVector(on, n->lanes);
}

DRAW(LOAD)
{
    const struct kb_mem *m = &w->prog->mem[n->mem];
    LLVMTypeRef element = kb_element_type(w, m->dtype), type = wide(w, element, n->lanes);
    LLVMValueRef p = address(w, n, element), v;
    unsigned align = yir_dtype_size(m->dtype);
    if (!p) return w->ll->ConstNull(node_type(w, n));
    if (n->imm.i < n->lanes) {
        LLVMValueRef arg[] = {p, const_i32(w, align, 1), lane_mask(w, n), w->ll->ConstNull(type)};
        v = intrinsic(w, "llvm.masked.load", (LLVMTypeRef[]){type, w->ptr}, 2, arg, 4);
    } else {
        v = w->ll->BuildLoad2(w->b, type, p, "");
        w->ll->SetAlignment(v, align);
        if (!m->written) w->ll->SetMetadata(v, w->invariant_kind, w->nothing);
    }
    return kb_from_element(w, m->dtype, alias_info(w, n, v), n->lanes);
}

DRAW(STORE)
{
    const struct kb_mem *m = &w->prog->mem[n->mem];
    LLVMTypeRef element = kb_element_type(w, m->dtype), type = wide(w, element, n->lanes);
    LLVMValueRef p = address(w, n, element), s;
    unsigned align = yir_dtype_size(m->dtype);
    if (!p) return NULL;
    LLVMValueRef v = kb_to_element(w, m->dtype, B, n->lanes);
    if (n->imm.i < n->lanes) {
        LLVMValueRef arg[] = {v, p, const_i32(w, align, 1), lane_mask(w, n)};
        s = intrinsic(w, "llvm.masked.store", (LLVMTypeRef[]){type, w->ptr}, 2, arg, 4);
    } else {
        s = w->ll->BuildStore(w->b, v, p);
        w->ll->SetAlignment(s, align);
    }
    alias_info(w, n, s);
    return NULL;
}

/* Plain pointer arithmetic: the address may lie outside the memory, which a prefetch never faults on. */
DRAW(AHEAD)
{
    LLVMTypeRef element = kb_element_type(w, w->prog->mem[n->mem].dtype);
    LLVMValueRef index = A, p = w->ll->BuildGEP2(w->b, element, w->mem[n->mem].base, &index, 1, "");
    LLVMValueRef arg[] = {p, const_i32(w, 0, 1), const_i32(w, 3, 1), const_i32(w, 1, 1)};
    intrinsic(w, "llvm.prefetch", &w->ptr, 1, arg, 4);
    return NULL;
}

/* --- variables and loops
 * ------------------------------------------------------------------------------------ */

DRAW(VAR)
{
    LLVMValueRef p = w->ll->BuildAlloca(w->vars, node_type(w, n), "");
    w->ll->BuildStore(w->b, A, p);
    return p;
}

DRAW(GET)
{
    return w->ll->BuildLoad2(w->b, node_type(w, n), A, "");
}

DRAW(SET)
{
    LLVMValueRef p = A, v = B;
    w->ll->BuildStore(w->b, v, p);
    return NULL;
}

static LLVMBasicBlockRef block(const struct draw *w, const char *name)
{
    return w->ll->AppendBasicBlockInContext(w->cx, w->fn, name);
}

/* Loops are drawn with the test at their end, and one before them: no pass has to rotate them. */
static LLVMValueRef open_loop(struct draw *w, LLVMValueRef lo, LLVMValueRef hi, int64_t step)
{
    YIR_ASSERT(w->depth < MAX_DEPTH);
    struct loop *l = &w->loop[w->depth++];
    LLVMBasicBlockRef before = w->ll->GetInsertBlock(w->b);
    *l = (struct loop){.body = block(w, "loop"), .end = block(w, "end"), .hi = hi, .step = step};
    LLVMValueRef any = w->ll->BuildICmp(w->b, LLVMIntSLT, lo, hi, "");
    w->ll->BuildCondBr(w->b, any, l->body, l->end);
    w->ll->PositionBuilderAtEnd(w->b, l->body);
    l->index = w->ll->BuildPhi(w->b, w->i64, "");
    w->ll->AddIncoming(l->index, &lo, &before, 1);
    return l->index;
}

static void close_loop(struct draw *w)
{
    YIR_ASSERT(w->depth);
    struct loop *l = &w->loop[--w->depth];
    LLVMBasicBlockRef last = w->ll->GetInsertBlock(w->b);
    LLVMValueRef next = w->ll->BuildNSWAdd(w->b, l->index, const_i64(w, l->step), "");
    w->ll->AddIncoming(l->index, &next, &last, 1);
    LLVMValueRef more = w->ll->BuildICmp(w->b, LLVMIntSLT, next, l->hi, "");
    w->ll->BuildCondBr(w->b, more, l->body, l->end);
    w->ll->PositionBuilderAtEnd(w->b, l->end);
}

DRAW(LOOP)
{
    LLVMValueRef lo = A, hi = B;
    return open_loop(w, lo, hi, n->imm.i);
}

DRAW(END)
{
    (void)n;
    close_loop(w);
    return NULL;
}

/* What has no row is decomposed by the builder for targets without native_math. */
static LLVMValueRef (*const draws[KB_NCODE])(struct draw *w, const struct kb_node *n) = {
    [KB_IMM_F] = draw_IMM_F,   [KB_IMM_I] = draw_IMM_I, [KB_UNIT] = draw_UNIT,     [KB_LANE] = draw_LANE,
    [KB_FADD] = draw_FADD,     [KB_FSUB] = draw_FSUB,   [KB_FMUL] = draw_FMUL,     [KB_FDIV] = draw_FDIV,
    [KB_FMIN] = draw_FMIN,     [KB_FMAX] = draw_FMAX,   [KB_FNEG] = draw_FNEG,     [KB_FMA] = draw_FMA,
    [KB_SQRT] = draw_SQRT,     [KB_RINT] = draw_RINT,   [KB_POW2I] = draw_POW2I,
    [KB_RCPE] = draw_RCPE,     [KB_FRAC] = draw_FRAC,   [KB_SCALE] = draw_SCALE,   [KB_LOGB] = draw_LOGB,
    [KB_SIGNIF] = draw_SIGNIF, [KB_FLT] = draw_FLT,     [KB_IADD] = draw_IADD,     [KB_ISUB] = draw_ISUB,
    [KB_IMUL] = draw_IMUL,     [KB_IDIV] = draw_IDIV,   [KB_IREM] = draw_IREM,     [KB_IMIN] = draw_IMIN,
    [KB_IMAX] = draw_IMAX,     [KB_ILT] = draw_ILT,     [KB_IEQ] = draw_IEQ,       [KB_AND] = draw_AND,
    [KB_OR] = draw_OR,         [KB_NOT] = draw_NOT,     [KB_SELECT] = draw_SELECT, [KB_SPLAT] = draw_SPLAT,
    [KB_ZIPLO] = draw_ZIPLO,   [KB_ZIPHI] = draw_ZIPHI,
    [KB_ITOF] = draw_ITOF,     [KB_FTOI] = draw_FTOI,   [KB_LOAD] = draw_LOAD,     [KB_STORE] = draw_STORE,
    [KB_VAR] = draw_VAR,       [KB_GET] = draw_GET,     [KB_SET] = draw_SET,       [KB_LOOP] = draw_LOOP,
    [KB_END] = draw_END,       [KB_AHEAD] = draw_AHEAD,
};

/* --- the function
 * ------------------------------------------------------------------------------------------- */

static LLVMMetadataRef text_node(const struct draw *w, const char *s)
{
    return w->ll->MDStringInContext2(w->cx, s, strlen(s));
}

/* A kernel writes no memory that it reads by another name (the memory plan sees to it): each is a scope of
 * its own. */
static void alias_scopes(struct draw *w)
{
    LLVMMetadataRef name = text_node(w, "kernel"), scope[KB_MAX_MEM], list[KB_MAX_MEM];
    LLVMMetadataRef domain = w->ll->MDNodeInContext2(w->cx, &name, 1);
    for (int i = 0; i < w->prog->nmem; i++) {
        char id[16];
        snprintf(id, sizeof id, "mem%d", i);
        LLVMMetadataRef part[] = {text_node(w, id), domain};
        scope[i] = w->ll->MDNodeInContext2(w->cx, part, 2);
        w->mem[i].own = w->ll->MetadataAsValue(w->cx, w->ll->MDNodeInContext2(w->cx, &scope[i], 1));
    }
    for (int i = 0; i < w->prog->nmem; i++) {
        size_t n = 0;
        for (int k = 0; k < w->prog->nmem; k++)
            if (k != i) list[n++] = scope[k];
        if (n) w->mem[i].others = w->ll->MetadataAsValue(w->cx, w->ll->MDNodeInContext2(w->cx, list, n));
    }
}

static LLVMValueRef invariant_load(const struct draw *w, LLVMTypeRef type, LLVMValueRef from, size_t bytes,
                                   const char *name)
{
    LLVMValueRef at = const_i64(w, (int64_t)bytes);
    LLVMValueRef v =
        w->ll->BuildLoad2(w->b, type, w->ll->BuildInBoundsGEP2(w->b, w->i8, from, &at, 1, ""), name);
    w->ll->SetMetadata(v, w->invariant_kind, w->nothing);
    return v;
}

/* Memories that are not scratch are numbered in order; scratch comes after them. */
static void load_arguments(struct draw *w, LLVMValueRef call)
{
    LLVMValueRef args = invariant_load(w, w->ptr, call, offsetof(struct ym_cpu_call, arg), "args");
    int narg = 0;
    for (int i = 0; i < w->prog->nmem; i++) {
        struct memory *m = &w->mem[i];
        if (w->prog->mem[i].kind == KB_MEM_SCRATCH) continue;
        char name[16];
        snprintf(name, sizeof name, "mem%d", i);
        m->arg = narg++;
        m->base = invariant_load(w, w->ptr, args, (size_t)m->arg * sizeof(void *), name);
    }
    for (int i = 0; i < w->prog->nmem; i++) {
        if (w->prog->mem[i].kind != KB_MEM_SCRATCH) continue;
        w->mem[i].arg = narg;
        w->mem[i].base = invariant_load(w, w->ptr, call, offsetof(struct ym_cpu_call, scratch), "scratch");
    }
}

static void string_attribute(const struct draw *w, const char *key, const char *text)
{
    LLVMAttributeRef a =
        w->ll->CreateStringAttribute(w->cx, key, (unsigned)strlen(key), text, (unsigned)strlen(text));
    w->ll->AddAttributeAtIndex(w->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void enum_attribute(const struct draw *w, LLVMAttributeIndex at, const char *name, uint64_t value)
{
    unsigned kind = w->ll->GetEnumAttributeKindForName(name, strlen(name));
    YIR_ASSERT(kind);
    w->ll->AddAttributeAtIndex(w->fn, at, w->ll->CreateEnumAttribute(w->cx, kind, value));
}

/* Without the width attributes, AVX-512 targets split vectors into halves; without no-builtins, loops may
 * become calls of memset and its like, which a flat blob does not have. */
static void attributes(const struct draw *w)
{
    char width[16];
    snprintf(width, sizeof width, "%d", w->t->prefer_width);
    string_attribute(w, "target-cpu", w->t->cpu);
    string_attribute(w, "target-features", w->t->features);
    string_attribute(w, "min-legal-vector-width", width);
    string_attribute(w, "prefer-vector-width", width);
    string_attribute(w, "no-builtins", "true");
    enum_attribute(w, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind", 0);
    enum_attribute(w, 1, "noalias", 0);
    enum_attribute(w, 1, "readonly", 0);
    enum_attribute(w, 1, "noundef", 0);
    enum_attribute(w, 1, "dereferenceable", sizeof(struct ym_cpu_call));
}

static void set_types(struct draw *w)
{
    w->i1 = w->ll->IntTypeInContext(w->cx, 1);
    w->i8 = w->ll->IntTypeInContext(w->cx, 8);
    w->i16 = w->ll->IntTypeInContext(w->cx, 16);
    w->i32 = w->ll->IntTypeInContext(w->cx, 32);
    w->i64 = w->ll->IntTypeInContext(w->cx, 64);
    w->f32 = w->ll->FloatTypeInContext(w->cx);
    w->ptr = w->ll->PointerTypeInContext(w->cx, 0);
    w->scope_kind = w->ll->GetMDKindIDInContext(w->cx, "alias.scope", 11);
    w->noalias_kind = w->ll->GetMDKindIDInContext(w->cx, "noalias", 7);
    w->invariant_kind = w->ll->GetMDKindIDInContext(w->cx, "invariant.load", 14);
    w->nothing = w->ll->MetadataAsValue(w->cx, w->ll->MDNodeInContext2(w->cx, NULL, 0));
}

static void draw_body(struct draw *w)
{
    for (uint32_t i = 1; i < w->prog->nnode; i++) {
        const struct kb_node *n = &w->prog->node[i];
        YIR_ASSERT(n->code < KB_NCODE && draws[n->code]);
        w->value[i] = draws[n->code](w, n);
    }
    YIR_ASSERT(w->depth == 1); /* the loop over the units is left */
}

static void draw_function(struct draw *w)
{
    LLVMBasicBlockRef vars = block(w, "vars"), entry = block(w, "entry");
    LLVMValueRef call = w->ll->GetParam(w->fn, 0);
    w->ll->PositionBuilderAtEnd(w->vars, vars);
    w->ll->PositionBuilderAtEnd(w->b, entry);
    load_arguments(w, call);
    LLVMValueRef begin = invariant_load(w, w->i64, call, offsetof(struct ym_cpu_call, begin), "begin");
    LLVMValueRef end = invariant_load(w, w->i64, call, offsetof(struct ym_cpu_call, end), "end");
    if (w->checked) {
        w->status = w->ll->BuildAlloca(w->vars, w->i32, "status");
        w->ll->BuildStore(w->b, const_i32(w, 0, 1), w->status);
    }
    w->unit = open_loop(w, begin, end, 1);
    draw_body(w);
    close_loop(w);
    LLVMValueRef status = w->checked ? w->ll->BuildLoad2(w->b, w->i32, w->status, "") : const_i32(w, 0, 1);
    w->ll->BuildRet(w->b, status);
    w->ll->BuildBr(w->vars, entry);
}

void kb_llvm_function(const struct llvm_api *ll, LLVMModuleRef m, LLVMContextRef cx, const struct kb *prog,
                      const struct cg_target *t, const char *symbol, bool checked, LLVMValueRef *value)
{
    struct draw w = {.ll = ll, .cx = cx, .m = m, .prog = prog, .t = t, .checked = checked, .value = value};
    set_types(&w);
    w.native_half = strcmp(t->arch, "x86_64") || strstr(t->features, "+f16c");
    w.fn = ll->AddFunction(m, symbol, ll->FunctionType(w.i32, &w.ptr, 1, 0));
    w.b = ll->CreateBuilderInContext(cx);
    w.vars = ll->CreateBuilderInContext(cx);
    attributes(&w);
    ll->SetAlignment(w.fn, YM_ALIGN);
    ll->SetValueName2(ll->GetParam(w.fn, 0), "call", 4);
    alias_scopes(&w);
    draw_function(&w);
    ll->DisposeBuilder(w.b);
    ll->DisposeBuilder(w.vars);
}
