/* What the files of the LLVM renderer share: the state of one function being drawn, and the smallest steps.
 */
#ifndef LLVM_DRAW_H
#define LLVM_DRAW_H

#include <string.h>

#include "kb_llvm.h"

enum { MAX_DEPTH = 64 };

struct loop {
    LLVMBasicBlockRef body, end;
    LLVMValueRef index, hi;
    int64_t step;
};

struct memory {
    LLVMValueRef base;
    LLVMValueRef own, others; /* alias scopes: of this memory, of all others */
    int arg;                  /* number in call->arg */
};

struct draw {
    const struct llvm_api *ll;
    LLVMContextRef cx;
    LLVMModuleRef m;
    LLVMBuilderRef b;
    LLVMBuilderRef vars; /* appends to the block of the variables, before everything */
    LLVMValueRef fn;
    const struct kb *prog;
    const struct cg_target *t;
    bool checked, native_half;
    LLVMTypeRef i1, i8, i16, i32, i64, f32, ptr;
    LLVMValueRef *value;                /* of each node; of a VAR: its address */
    LLVMValueRef unit, status, nothing; /* nothing: the empty metadata node */
    struct memory mem[KB_MAX_MEM];
    struct loop loop[MAX_DEPTH];
    int depth;
    unsigned scope_kind, noalias_kind, invariant_kind;
};

static inline LLVMTypeRef wide(const struct draw *w, LLVMTypeRef t, int lanes)
{
    return lanes > 1 ? w->ll->VectorType(t, (unsigned)lanes) : t;
}

static inline LLVMValueRef same(const struct draw *w, LLVMValueRef v, int lanes)
{
    LLVMValueRef all[KB_MAX_LANES];
    if (lanes == 1) return v;
    for (int i = 0; i < lanes; i++) all[i] = v;
    return w->ll->ConstVector(all, (unsigned)lanes);
}

static inline LLVMValueRef const_i32(const struct draw *w, uint32_t v, int lanes)
{
    return same(w, w->ll->ConstInt(w->i32, v, 0), lanes);
}

static inline LLVMValueRef const_f32(const struct draw *w, double v, int lanes)
{
    return same(w, w->ll->ConstReal(w->f32, v), lanes);
}

static inline LLVMValueRef intrinsic(const struct draw *w, const char *name, LLVMTypeRef *overload,
                                     size_t noverload, LLVMValueRef *arg, unsigned narg)
{
    unsigned id = w->ll->LookupIntrinsicID(name, strlen(name));
    YIR_ASSERT(id);
    LLVMValueRef fn = w->ll->GetIntrinsicDeclaration(w->m, id, overload, noverload);
    LLVMTypeRef type = w->ll->IntrinsicGetType(w->cx, id, overload, noverload);
    return w->ll->BuildCall2(w->b, type, fn, arg, narg, "");
}

static inline LLVMValueRef bits_of(const struct draw *w, LLVMValueRef v, int lanes)
{
    return w->ll->BuildBitCast(w->b, v, wide(w, w->i32, lanes), "");
}

static inline LLVMValueRef float_of(const struct draw *w, LLVMValueRef v, int lanes)
{
    return w->ll->BuildBitCast(w->b, v, wide(w, w->f32, lanes), "");
}

typedef LLVMValueRef (*build2)(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, const char *);

/* v op c, on bits. */
static inline LLVMValueRef with(const struct draw *w, build2 op, LLVMValueRef v, uint32_t c, int lanes)
{
    return op(w->b, v, const_i32(w, c, lanes), "");
}

/* Type of an element in memory. The 16-bit floats are handled as bits, which vectors of every target can
 * hold. */
LLVMTypeRef kb_element_type(const struct draw *w, enum yir_dtype t);
/* Elements to floats and back, by the rules of yir_dtype_load and yir_dtype_store. */
LLVMValueRef kb_from_element(const struct draw *w, enum yir_dtype t, LLVMValueRef v, int lanes);
LLVMValueRef kb_to_element(const struct draw *w, enum yir_dtype t, LLVMValueRef v, int lanes);

#endif
