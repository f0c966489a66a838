/* Element types of memory in LLVM IR. */
#include "llvm_draw.h"

/* v < limit ? x : y, on bits as unsigned numbers. */
static LLVMValueRef below(const struct draw *w, LLVMValueRef v, uint32_t limit, LLVMValueRef x,
                          LLVMValueRef y, int lanes)
{
    LLVMValueRef c = w->ll->BuildICmp(w->b, LLVMIntULT, v, const_i32(w, limit, lanes), "");
    return w->ll->BuildSelect(w->b, c, x, y, "");
}

LLVMTypeRef kb_element_type(const struct draw *w, enum yir_dtype t)
{
    switch (t) {
    case YIR_F32: return w->f32;
    case YIR_F64: return w->ll->DoubleTypeInContext(w->cx);
    case YIR_F16:
    case YIR_BF16: return w->i16;
    case YIR_U8:
    case YIR_I8:
    case YIR_BOOL: return w->i8;
    case YIR_I32: return w->i32;
    case YIR_I64: return w->i64;
    case YIR_NDTYPE: break;
    }
    YIR_BUG("element type %d", (int)t);
}

/* binary16 to float without an instruction for it: the fields moved into place have an exponent too small by
 * 112, which one multiplication mends, for subnormals too; the exponent of infinity and NaN is set. */
static LLVMValueRef widen_half(const struct draw *w, LLVMValueRef h, int lanes)
{
    LLVMValueRef v = w->ll->BuildZExt(w->b, h, wide(w, w->i32, lanes), "");
    LLVMValueRef sign = with(w, w->ll->BuildShl, with(w, w->ll->BuildAnd, v, 0x8000, lanes), 16, lanes);
    LLVMValueRef moved = with(w, w->ll->BuildShl, with(w, w->ll->BuildAnd, v, 0x7fff, lanes), 13, lanes);
    LLVMValueRef scaled = w->ll->BuildFMul(w->b, float_of(w, moved, lanes), const_f32(w, 0x1p112, lanes), "");
    LLVMValueRef finite = bits_of(w, scaled, lanes);
    LLVMValueRef other = with(w, w->ll->BuildOr, moved, 0x7f800000, lanes);
    LLVMValueRef size = below(w, moved, 0x7c00u << 13, finite, other, lanes);
    return float_of(w, w->ll->BuildOr(w->b, size, sign, ""), lanes);
}

/* v >> drop, to nearest, ties to even; v far below 2^32. */
static LLVMValueRef round_bits(const struct draw *w, LLVMValueRef v, uint32_t drop, int lanes)
{
    LLVMValueRef odd = with(w, w->ll->BuildAnd, with(w, w->ll->BuildLShr, v, drop, lanes), 1, lanes);
    LLVMValueRef up = w->ll->BuildAdd(w->b, v, odd, "");
    return with(w, w->ll->BuildLShr, with(w, w->ll->BuildAdd, up, (1u << (drop - 1)) - 1, lanes), drop,
                lanes);
}

/* Float to binary16: normal results by rounding the bits, subnormal ones by adding 0.5, whose last place is
 * the smallest binary16 value. */
static LLVMValueRef narrow_half(const struct draw *w, LLVMValueRef f, int lanes)
{
    LLVMValueRef v = bits_of(w, f, lanes);
    LLVMValueRef sign = with(w, w->ll->BuildAnd, with(w, w->ll->BuildLShr, v, 16, lanes), 0x8000, lanes);
    LLVMValueRef size = with(w, w->ll->BuildAnd, v, 0x7fffffff, lanes);
    LLVMValueRef normal = round_bits(w, with(w, w->ll->BuildAdd, size, 0u - (112u << 23), lanes), 13, lanes);
    LLVMValueRef shifted = w->ll->BuildFAdd(w->b, float_of(w, size, lanes), const_f32(w, 0.5, lanes), "");
    LLVMValueRef small = with(w, w->ll->BuildAdd, bits_of(w, shifted, lanes), 0u - 0x3f000000u, lanes);
    LLVMValueRef special =
        below(w, size, 0x7f800001, const_i32(w, 0x7c00, lanes), const_i32(w, 0x7e00, lanes), lanes);
    LLVMValueRef r = below(w, size, 0x38800000, small, normal, lanes);
    r = below(w, size, 0x47800000, r, special, lanes);
    return w->ll->BuildTrunc(w->b, w->ll->BuildOr(w->b, r, sign, ""), wide(w, w->i16, lanes), "");
}

static LLVMValueRef narrow_bfloat(const struct draw *w, LLVMValueRef f, int lanes)
{
    LLVMValueRef v = bits_of(w, f, lanes), size = with(w, w->ll->BuildAnd, v, 0x7fffffff, lanes);
    LLVMValueRef quiet =
        w->ll->BuildOr(w->b, with(w, w->ll->BuildLShr, v, 16, lanes), const_i32(w, 0x40, lanes), "");
    LLVMValueRef r = below(w, size, 0x7f800001, round_bits(w, v, 16, lanes), quiet, lanes);
    return w->ll->BuildTrunc(w->b, r, wide(w, w->i16, lanes), "");
}

LLVMValueRef kb_from_element(const struct draw *w, enum yir_dtype t, LLVMValueRef v, int lanes)
{
    LLVMTypeRef f = wide(w, w->f32, lanes), h = wide(w, w->ll->HalfTypeInContext(w->cx), lanes);
    switch (t) {
    case YIR_F32: return v;
    case YIR_F64: return w->ll->BuildFPTrunc(w->b, v, f, "");
    case YIR_F16:
        if (!w->native_half) return widen_half(w, v, lanes);
        return w->ll->BuildFPExt(w->b, w->ll->BuildBitCast(w->b, v, h, ""), f, "");
    case YIR_BF16:
        v = w->ll->BuildZExt(w->b, v, wide(w, w->i32, lanes), "");
        return float_of(w, with(w, w->ll->BuildShl, v, 16, lanes), lanes);
    case YIR_BOOL:
        v = w->ll->BuildICmp(w->b, LLVMIntNE, v, w->ll->ConstNull(wide(w, w->i8, lanes)), "");
        return w->ll->BuildUIToFP(w->b, v, f, "");
    case YIR_U8: return w->ll->BuildUIToFP(w->b, v, f, "");
    case YIR_I8:
    case YIR_I32:
    case YIR_I64: return w->ll->BuildSIToFP(w->b, v, f, "");
    case YIR_NDTYPE: break;
    }
    YIR_BUG("element type %d", (int)t);
}

LLVMValueRef kb_to_element(const struct draw *w, enum yir_dtype t, LLVMValueRef v, int lanes)
{
    LLVMTypeRef e = wide(w, kb_element_type(w, t), lanes), f = wide(w, w->f32, lanes);
    LLVMTypeRef h = wide(w, w->ll->HalfTypeInContext(w->cx), lanes);
    switch (t) {
    case YIR_F32: return v;
    case YIR_F64: return w->ll->BuildFPExt(w->b, v, e, "");
    case YIR_F16:
        if (!w->native_half) return narrow_half(w, v, lanes);
        return w->ll->BuildBitCast(w->b, w->ll->BuildFPTrunc(w->b, v, h, ""), e, "");
    case YIR_BF16: return narrow_bfloat(w, v, lanes);
    case YIR_BOOL:
        v = w->ll->BuildFCmp(w->b, LLVMRealUNE, v, w->ll->ConstNull(f), "");
        return w->ll->BuildZExt(w->b, v, e, "");
    case YIR_U8: return intrinsic(w, "llvm.fptoui.sat", (LLVMTypeRef[]){e, f}, 2, &v, 1);
    case YIR_I8:
    case YIR_I32:
    case YIR_I64: return intrinsic(w, "llvm.fptosi.sat", (LLVMTypeRef[]){e, f}, 2, &v, 1);
    case YIR_NDTYPE: break;
    }
    YIR_BUG("element type %d", (int)t);
}
