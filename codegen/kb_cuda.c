#include "kb_cuda.h"

#include <math.h>
#include <string.h>

#include "kb_index.h"

struct draw {
    struct yir_str *out;
    const struct kb *b;
    const uint8_t *multiple; /* kb_index_multiples */
    bool small;        /* indexes are int */
    int depth;         /* of indentation */
};

/* Types of memory, and functions from and to float; NULL: it is float. Rounding and saturation as yir_dtype_load and
 * yir_dtype_store do. The 16-bit floats are bits here: their types would need headers of the toolkit. unpack, pack: the
 * same for the elements of 32 bits, NULL: there are no wide accesses; pack80: a better way from sm_80 on, or NULL. */
static const struct element {
    const char *type, *load, *store, *text, *unpack, *pack, *pack80;
} elements[YIR_NDTYPE] = {
    [YIR_F32] = {"float", NULL, NULL, NULL,
                 "static __device__ __forceinline__ void unpack_f32(unsigned w, float *f)\n"
                 "{\n"
                 "    f[0] = __uint_as_float(w);\n"
                 "}\n",
                 "static __device__ __forceinline__ unsigned pack_f32(const float *f)\n"
                 "{\n"
                 "    return __float_as_uint(f[0]);\n"
                 "}\n", NULL},
    [YIR_F64] = {"double", "(float)", "(double)", NULL, NULL, NULL, NULL},
    [YIR_F16] = {"unsigned short", "from_f16", "to_f16",
                 "static __device__ float from_f16(unsigned short v)\n"
                 "{\n"
                 "    float f;\n"
                 "    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(f) : \"h\"(v));\n"
                 "    return f;\n"
                 "}\n"
                 "static __device__ unsigned short to_f16(float f)\n"
                 "{\n"
                 "    unsigned short v;\n"
                 "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(v) : \"f\"(f));\n"
                 "    return v;\n"
                 "}\n",
                 "static __device__ __forceinline__ void unpack_f16(unsigned w, float *f)\n"
                 "{\n"
                 "    f[0] = from_f16((unsigned short)w);\n"
                 "    f[1] = from_f16((unsigned short)(w >> 16));\n"
                 "}\n",
                 "static __device__ __forceinline__ unsigned pack_f16(const float *f)\n"
                 "{\n"
                 "    return to_f16(f[0]) | (unsigned)to_f16(f[1]) << 16;\n"
                 "}\n",
                 "static __device__ __forceinline__ unsigned ptx_pack_f16(float low, float high)\n"
                 "{\n"
                 "    unsigned v;\n"
                 "    asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(v) : \"f\"(high), \"f\"(low));\n"
                 "    return v;\n"
                 "}\n"
                 "static __device__ __forceinline__ unsigned pack_f16(const float *f)\n"
                 "{\n"
                 "    return ptx_pack_f16(f[0], f[1]);\n"
                 "}\n"},
    [YIR_BF16] = {"unsigned short", "from_bf16", "to_bf16",
                  "static __device__ float from_bf16(unsigned short v)\n"
                  "{\n"
                  "    return __uint_as_float((unsigned)v << 16);\n"
                  "}\n"
                  "static __device__ unsigned short to_bf16(float f)\n"
                  "{\n"
                  "    const unsigned v = __float_as_uint(f);\n"
                  "    if (f != f) return (unsigned short)(v >> 16 | 0x40);\n"
                  "    return (unsigned short)((v + 0x7fff + (v >> 16 & 1)) >> 16);\n"
                  "}\n",
                  "static __device__ __forceinline__ void unpack_bf16(unsigned w, float *f)\n"
                  "{\n"
                  "    f[0] = __uint_as_float(w << 16);\n"
                  "    f[1] = __uint_as_float(w & 0xffff0000u);\n"
                  "}\n",
                  "static __device__ __forceinline__ unsigned pack_bf16(const float *f)\n"
                  "{\n"
                  "    return to_bf16(f[0]) | (unsigned)to_bf16(f[1]) << 16;\n"
                  "}\n",
                  "static __device__ __forceinline__ unsigned ptx_pack_bf16(float low, float high)\n"
                  "{\n"
                  "    unsigned v;\n"
                  "    asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(v) : \"f\"(high), \"f\"(low));\n"
                  "    return v;\n"
                  "}\n"
                  "static __device__ __forceinline__ unsigned pack_bf16(const float *f)\n"
                  "{\n"
                  "    return ptx_pack_bf16(f[0], f[1]);\n"
                  "}\n"},
    [YIR_U8] = {"unsigned char", "(float)", "to_u8",
                "static __device__ unsigned char to_u8(float f)\n"
                "{\n"
                "    return (unsigned char)fminf(fmaxf(f, 0.0f), 255.0f);\n"
                "}\n",
                "static __device__ __forceinline__ void unpack_u8(unsigned w, float *f)\n"
                "{\n"
                "    f[0] = (float)(w & 255);\n"
                "    f[1] = (float)(w >> 8 & 255);\n"
                "    f[2] = (float)(w >> 16 & 255);\n"
                "    f[3] = (float)(w >> 24);\n"
                "}\n",
                "static __device__ __forceinline__ unsigned pack_u8(const float *f)\n"
                "{\n"
                "    return to_u8(f[0]) | (unsigned)to_u8(f[1]) << 8 | (unsigned)to_u8(f[2]) << 16 | (unsigned)to_u8(f[3]) << 24;\n"
                "}\n", NULL},
    [YIR_I8] = {"signed char", "(float)", "to_i8",
                "static __device__ signed char to_i8(float f)\n"
                "{\n"
                "    return f != f ? 0 : (signed char)fminf(fmaxf(f, -128.0f), 127.0f);\n"
                "}\n", NULL, NULL, NULL},
    [YIR_I32] = {"int", "(float)", "__float2int_rz", NULL, NULL, NULL, NULL},
    [YIR_I64] = {"long long", "(float)", "to_i64",
                 "static __device__ long long to_i64(float f)\n"
                 "{\n"
                 "    return f != f ? 0 : __float2ll_rz(f);\n"
                 "}\n", NULL, NULL, NULL},
    [YIR_BOOL] = {"unsigned char", "from_bool", "to_bool",
                  "static __device__ float from_bool(unsigned char v)\n"
                  "{\n"
                  "    return v ? 1.0f : 0.0f;\n"
                  "}\n"
                  "static __device__ unsigned char to_bool(float f)\n"
                  "{\n"
                  "    return f != 0.0f;\n"
                  "}\n", NULL, NULL, NULL},
};

/* How a node with a value is written: $a, $b, $c are its operands. */
static const char *const expressions[KB_NCODE] = {
    [KB_FADD] = "$a + $b",
    [KB_FSUB] = "$a - $b",
    [KB_FMUL] = "$a * $b",
    [KB_FDIV] = "$a / $b",
    [KB_FMIN] = "$a < $b ? $a : $b",
    [KB_FMAX] = "$a > $b ? $a : $b",
    [KB_FNEG] = "-$a",
    [KB_FMA] = "fmaf($a, $b, $c)",
    [KB_SQRT] = "sqrtf($a)",
    [KB_RINT] = "rintf($a)",
    [KB_RCPE] = "ptx_rcp($a)",
    [KB_EXP2E] = "ptx_exp2($a)",
    [KB_FRAC] = "$a - floorf($a)",
    [KB_SCALE] = "ldexpf($a, (int)floorf($b))",
    [KB_POW2I] = "__int_as_float(((int)$a + 127) << 23)",
    [KB_EXP] = "expf($a)",
    [KB_LOG] = "logf($a)",
    [KB_ERF] = "erff($a)",
    [KB_TANHE] = "ptx_tanh($a)",
    [KB_LOGB] = "(float)((__float_as_int($a) >> 23) - 127)",
    [KB_SIGNIF] = "__int_as_float((__float_as_int($a) & 0x007fffff) | 0x3f800000)",
    [KB_FLT] = "$a < $b",
    [KB_IADD] = "$a + $b",
    [KB_ISUB] = "$a - $b",
    [KB_IMUL] = "$a * $b",
    [KB_IDIV] = "$a / $b",
    [KB_IREM] = "$a % $b",
    [KB_IMIN] = "$a < $b ? $a : $b",
    [KB_IMAX] = "$a > $b ? $a : $b",
    [KB_ILT] = "$a < $b",
    [KB_IEQ] = "$a == $b",
    [KB_AND] = "$a && $b",
    [KB_OR] = "$a || $b",
    [KB_NOT] = "!$a",
    [KB_SELECT] = "$a ? $b : $c",
    [KB_ITOF] = "(float)$a",
    [KB_GET] = "$a",
};

static const char *index_type(const struct draw *w)
{
    return w->small ? "int" : "long long";
}

static const char *value_type(const struct draw *w, const struct kb_node *n)
{
    return n->type == KB_F ? "float" : n->type == KB_B ? "bool" : index_type(w);
}

static void put_float(struct yir_str *s, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!isfinite(f))
        yir_str_fmt(s, "__int_as_float(0x%08x)", (unsigned)bits);
    else if (f == rintf(f) && fabsf(f) < 1e6f)
        yir_str_fmt(s, signbit(f) ? "(%.1ff)" : "%.1ff", (double)f);
    else
        yir_str_fmt(s, signbit(f) ? "(%af)" : "%af", (double)f);
}

static void put_int(struct yir_str *s, int64_t v)
{
    const char *wide = v > INT32_MAX || v <= INT32_MIN ? "ll" : "";
    yir_str_fmt(s, v < 0 ? "(%lld%s)" : "%lld%s", (long long)v, wide);
}

/* Names: f12, b12, i12 are nodes, x12 variables, g3 what the text around defines. */
static void put_value(const struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    YIR_ASSERT(id && id < w->b->nnode);
    switch (n->code) {
    case KB_IMM_F: put_float(w->out, n->imm.f); return;
    case KB_IMM_I:
        if (n->type == KB_B)
            yir_str_fmt(w->out, n->imm.i ? "true" : "false");
        else
            put_int(w->out, n->imm.i);
        return;
    case KB_UNIT: yir_str_fmt(w->out, "unit"); return;
    case KB_GIVEN: yir_str_fmt(w->out, "g%d", (int)n->imm.i); return;
    case KB_LANE:
    case KB_SPLAT: put_value(w, n->a); return;
    case KB_PICK:
        put_value(w, n->a);
        yir_str_fmt(w->out, "[%d]", (int)n->imm.i);
        return;
    case KB_VAR: yir_str_fmt(w->out, "x%u", (unsigned)id); return;
    default: yir_str_fmt(w->out, n->type == KB_F ? "f%u" : n->type == KB_B ? "b%u" : "i%u", (unsigned)id); return;
    }
}

/* One lane of it, number `l`. */
static void put_lane(const struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    put_value(w, id);
    if (n->lanes > 1 && n->code != KB_SPLAT) yir_str_fmt(w->out, "[l]");
}

static void put_expression(const struct draw *w, const struct kb_node *n)
{
    const char *p = expressions[n->code];
    YIR_ASSERT(p);
    for (; *p; p++) {
        if (*p != '$') {
            yir_str_put(w->out, p, 1);
            continue;
        }
        p++;
        put_lane(w, *p == 'a' ? n->a : *p == 'b' ? n->b : n->c);
    }
}

static void indent(const struct draw *w)
{
    yir_str_fmt(w->out, "%*s", 4 * w->depth, "");
}

/* --- memory ------------------------------------------------------------------------------------------------- */

static const struct element *element_of(const struct draw *w, const struct kb_node *n)
{
    return &elements[w->b->mem[n->mem].dtype];
}

static void put_access(const struct draw *w, const struct kb_node *n, int lane)
{
    yir_str_fmt(w->out, "m%d[", n->mem);
    put_value(w, n->a);
    if (lane) yir_str_fmt(w->out, " + %d", lane);
    yir_str_put(w->out, "]", 1);
}

static void put_load(const struct draw *w, const struct kb_node *n, int lane)
{
    const struct element *e = element_of(w, n);
    if (e->load) yir_str_fmt(w->out, "%s(", e->load);
    put_access(w, n, lane);
    if (e->load) yir_str_put(w->out, ")", 1);
}

static void put_store(const struct draw *w, const struct kb_node *n, int lane)
{
    const struct element *e = element_of(w, n);
    bool wide = w->b->node[n->b].lanes > 1 && w->b->node[n->b].code != KB_SPLAT;
    put_access(w, n, lane);
    yir_str_fmt(w->out, " = %s%s", e->store ? e->store : "", e->store ? "(" : "");
    put_value(w, n->b);
    if (wide) yir_str_fmt(w->out, "[%d]", lane);
    yir_str_fmt(w->out, "%s;\n", e->store ? ")" : "");
}

/* Bytes of the widest access that takes the lanes from `lane` on: 16, 8, 4, or 0 for one element. */
static int access_bytes(const struct draw *w, const struct kb_node *n, int lane)
{
    const struct kb_mem *m = &w->b->mem[n->mem];
    int size = (int)yir_dtype_size(m->dtype), log = 0, left = ((int)n->imm.i - lane) * size;
    if (!elements[m->dtype].unpack || n->lanes == 1 || (n->code == KB_STORE && w->b->node[n->b].code == KB_SPLAT)) return 0;
    while (1 << log < size) log++;
    int aligned = w->multiple[n->a] + log < m->align ? w->multiple[n->a] + log : m->align;
    for (int bytes = 16; bytes >= 4; bytes /= 2)
        if (bytes <= left && bytes <= 1 << aligned && lane * size % bytes == 0) return bytes;
    return 0;
}

static int access_lanes(const struct draw *w, const struct kb_node *n, int bytes)
{
    return bytes ? bytes / (int)yir_dtype_size(w->b->mem[n->mem].dtype) : 1;
}

static void put_wide_load(const struct draw *w, const struct kb_node *n, uint32_t id, int lane, int bytes)
{
    yir_str_fmt(w->out, "load%d_%s(f%u + %d, m%d + ", bytes, yir_dtype_name(w->b->mem[n->mem].dtype), (unsigned)id, lane, n->mem);
    put_value(w, n->a);
    yir_str_fmt(w->out, " + %d);\n", lane);
}

static void put_wide_store(const struct draw *w, const struct kb_node *n, int lane, int bytes)
{
    yir_str_fmt(w->out, "store%d_%s(m%d + ", bytes, yir_dtype_name(w->b->mem[n->mem].dtype), n->mem);
    put_value(w, n->a);
    yir_str_fmt(w->out, " + %d, ", lane);
    put_value(w, n->b);
    yir_str_fmt(w->out, " + %d);\n", lane);
}

/* Lanes behind the valid ones are 0. */
static void put_loads(const struct draw *w, const struct kb_node *n, uint32_t id)
{
    yir_str_fmt(w->out, "float f%u[%d];\n", (unsigned)id, n->lanes);
    for (int lane = 0, bytes; lane < n->lanes; lane += access_lanes(w, n, bytes)) {
        bytes = lane < n->imm.i ? access_bytes(w, n, lane) : 0;
        indent(w);
        if (bytes) {
            put_wide_load(w, n, id, lane, bytes);
            continue;
        }
        yir_str_fmt(w->out, "f%u[%d] = ", (unsigned)id, lane);
        if (lane < n->imm.i)
            put_load(w, n, lane);
        else
            yir_str_fmt(w->out, "0.0f");
        yir_str_fmt(w->out, ";\n");
    }
}

static void put_stores(const struct draw *w, const struct kb_node *n)
{
    for (int lane = 0, bytes; lane < n->imm.i; lane += access_lanes(w, n, bytes)) {
        bytes = access_bytes(w, n, lane);
        if (lane) indent(w);
        if (bytes)
            put_wide_store(w, n, lane, bytes);
        else
            put_store(w, n, lane);
    }
}

/* --- nodes -------------------------------------------------------------------------------------------------- */

static void put_loop(struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    yir_str_fmt(w->out, "for (%s i%u = ", index_type(w), (unsigned)id);
    put_value(w, n->a);
    yir_str_fmt(w->out, "; i%u < ", (unsigned)id);
    put_value(w, n->b);
    yir_str_fmt(w->out, "; i%u += ", (unsigned)id);
    put_int(w->out, n->imm.i);
    yir_str_fmt(w->out, ") {\n");
    w->depth++;
}

/* "to = from;", in each lane */
static void put_assign(const struct draw *w, uint32_t to, uint32_t from)
{
    int lanes = w->b->node[to].lanes;
    if (lanes > 1) yir_str_fmt(w->out, "for (int l = 0; l < %d; l++) ", lanes);
    put_lane(w, to);
    yir_str_fmt(w->out, " = ");
    put_lane(w, from);
    yir_str_fmt(w->out, ";\n");
}

static void put_unroll(const struct draw *w)
{
    yir_str_fmt(w->out, "#pragma unroll\n");
    indent(w);
}

static void put_variable(const struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    yir_str_fmt(w->out, "%s ", value_type(w, n));
    if (n->lanes > 1) {
        yir_str_fmt(w->out, "x%u[%d];\n", (unsigned)id, n->lanes);
        put_unroll(w);
    }
    put_assign(w, id, n->a);
}

static void put_set(const struct draw *w, const struct kb_node *n)
{
    if (w->b->node[n->a].lanes > 1) put_unroll(w);
    put_assign(w, n->a, n->b);
}

static void put_scalar(const struct draw *w, const struct kb_node *n)
{
    if (n->code == KB_LOAD)
        put_load(w, n, 0);
    else if (n->code == KB_FTOI) {
        yir_str_fmt(w->out, w->small ? "__float2int_rz(" : "__float2ll_rz(");
        put_value(w, n->a);
        yir_str_put(w->out, ")", 1);
    } else
        put_expression(w, n);
}

/* const float f12 = ...; or an array, lane by lane */
static void put_definition(const struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    if (n->lanes <= 1) {
        yir_str_fmt(w->out, "const %s ", value_type(w, n));
        put_value(w, id);
        yir_str_fmt(w->out, " = ");
        put_scalar(w, n);
        yir_str_fmt(w->out, ";\n");
        return;
    }
    if (n->code == KB_LOAD) {
        put_loads(w, n, id);
        return;
    }
    yir_str_fmt(w->out, "%s ", value_type(w, n));
    put_value(w, id);
    yir_str_fmt(w->out, "[%d];\n", n->lanes);
    put_unroll(w);
    yir_str_fmt(w->out, "for (int l = 0; l < %d; l++) ", n->lanes);
    put_lane(w, id);
    yir_str_fmt(w->out, " = ");
    if (n->code == KB_ITOF) {
        yir_str_fmt(w->out, "(float)(");
        put_value(w, n->a);
        yir_str_fmt(w->out, " + l)");
    } else
        put_expression(w, n);
    yir_str_fmt(w->out, ";\n");
}

/* Drawn where they are used, or not at all. */
static bool is_silent(enum kb_code code)
{
    return code == KB_IMM_F || code == KB_IMM_I || code == KB_UNIT || code == KB_AHEAD || code == KB_GIVEN || code == KB_LANE ||
           code == KB_SPLAT || code == KB_PICK;
}

static void put_node(struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    if (is_silent((enum kb_code)n->code)) return;
    if (n->code == KB_END) w->depth--;
    indent(w);
    switch (n->code) {
    case KB_END: yir_str_fmt(w->out, "}\n"); return;
    case KB_LOOP: put_loop(w, id); return;
    case KB_STORE: put_stores(w, n); return;
    case KB_SET: put_set(w, n); return;
    case KB_VAR: put_variable(w, id); return;
    default: put_definition(w, id); return;
    }
}

/* --- the function --------------------------------------------------------------------------------------------- */

static void put_access_function(struct yir_str *out, enum yir_dtype t, int bytes, bool store)
{
    static const char *const type[] = {"unsigned", "uint2", "uint4"}, *const part[] = {"x", "y", "z", "w"};
    const char *name = yir_dtype_name(t), *word = type[bytes / 8];
    int each = 4 / (int)yir_dtype_size(t);
    yir_str_fmt(out, "static __device__ __forceinline__ void %s%d_%s(%s)\n{\n", store ? "store" : "load", bytes, name,
                store ? "void *m, const float *f" : "float *f, const void *m");
    yir_str_fmt(out, store ? "    %s v;\n" : "    const %s v = *(const %s *)m;\n", word, word);
    for (int i = 0; i < bytes / 4; i++) {
        const char *dot = bytes > 4 ? "." : "", *of = bytes > 4 ? part[i] : "";
        if (store)
            yir_str_fmt(out, "    v%s%s = pack_%s(f + %d);\n", dot, of, name, i * each);
        else
            yir_str_fmt(out, "    unpack_%s(v%s%s, f + %d);\n", name, dot, of, i * each);
    }
    if (store) yir_str_fmt(out, "    *(%s *)m = v;\n", word);
    yir_str_fmt(out, "}\n");
}

static void put_word_functions(const struct draw *w, enum yir_dtype t)
{
    const struct element *e = &elements[t];
    yir_str_fmt(w->out, "%s%s", e->unpack, e->pack80 && w->b->target->sm >= 80 ? e->pack80 : e->pack);
}

/* Functions of the wide accesses that the kernel makes, each once. */
static void put_access_functions(const struct draw *w)
{
    bool done[YIR_NDTYPE][2][5] = {{{false}}}, words[YIR_NDTYPE] = {false};
    for (uint32_t i = 1; i < w->b->nnode; i++) {
        const struct kb_node *n = &w->b->node[i];
        if (n->code != KB_LOAD && n->code != KB_STORE) continue;
        enum yir_dtype t = w->b->mem[n->mem].dtype;
        for (int lane = 0, bytes; lane < n->imm.i; lane += access_lanes(w, n, bytes)) {
            bytes = access_bytes(w, n, lane);
            bool *known = &done[t][n->code == KB_STORE][bytes / 4];
            if (!bytes || *known) continue;
            *known = true;
            if (!words[t]) put_word_functions(w, t);
            words[t] = true;
            put_access_function(w->out, t, bytes, n->code == KB_STORE);
        }
    }
}

static bool has_code(const struct kb *b, enum kb_code code)
{
    for (uint32_t i = 1; i < b->nnode; i++)
        if (b->node[i].code == code) return true;
    return false;
}

/* Estimates that the GPU has. */
static void put_estimates(const struct draw *w)
{
    static const struct {
        enum kb_code code;
        const char *name, *instruction;
    } row[] = {{KB_RCPE, "rcp", "rcp.approx.ftz.f32"}, {KB_EXP2E, "exp2", "ex2.approx.ftz.f32"}, {KB_TANHE, "tanh", "tanh.approx.f32"}};
    for (size_t k = 0; k < YIR_COUNT(row); k++) {
        if (!has_code(w->b, row[k].code)) continue;
        yir_str_fmt(w->out,
                    "static __device__ __forceinline__ float ptx_%s(float x)\n{\n    float y;\n"
                    "    asm(\"%s %%0, %%1;\" : \"=f\"(y) : \"f\"(x));\n    return y;\n}\n",
                    row[k].name, row[k].instruction);
    }
}

/* Conversions of the types that the kernel has, each once. */
static void put_conversions(const struct draw *w)
{
    bool done[YIR_NDTYPE] = {false};
    for (int i = 0; i < w->b->nmem; i++) {
        enum yir_dtype t = w->b->mem[i].dtype;
        if (!done[t] && elements[t].text) yir_str_fmt(w->out, "%s", elements[t].text);
        done[t] = true;
    }
}

/* What the kernels before write is not __restrict__ where a kernel waits for them itself: what is const and __restrict__ counts as
 * constant from the start on, and the compiler reads it before that wait. What is written is, so that nothing else may be the same. */
static void put_head(const struct draw *w, const struct cg_kernel *k)
{
    const struct kb *b = w->b;
    const struct cg_launch *l = &k->launch;
    yir_str_fmt(w->out, "extern \"C\" __global__ void __launch_bounds__(%d", l->threads);
    if (l->resident) yir_str_fmt(w->out, ", %d", l->resident);
    yir_str_fmt(w->out, ") %s(\n    ", k->symbol);
    for (int i = 0; i < b->nmem; i++) {
        const struct kb_mem *m = &b->mem[i];
        YIR_ASSERT(m->kind != KB_MEM_SCRATCH); /* only fast families of CPUs ask for it */
        const char *alone = m->written || m->kind == KB_MEM_WEIGHT || !kb_cuda_waits(b->target) ? "__restrict__ " : "";
        yir_str_fmt(w->out, "%s%s *%sm%d, ", m->written ? "" : "const ", elements[m->dtype].type, alone, i);
    }
    yir_str_fmt(w->out, "long long total");
    for (int i = 0; i < k->nmap; i++) yir_str_fmt(w->out, ", const __grid_constant__ struct tensor_map t%d", i);
    yir_str_fmt(w->out, ")\n{\n");
}

static void put_unit(const struct draw *w, const struct cg_launch *l)
{
    YIR_ASSERT(l->per_block == l->threads && !l->most_blocks);
    if (w->small)
        yir_str_fmt(w->out, "    const int unit = (int)(blockIdx.x * %du + threadIdx.x);\n", l->threads);
    else
        yir_str_fmt(w->out, "    const long long unit = (long long)blockIdx.x * %d + threadIdx.x;\n", l->threads);
    yir_str_fmt(w->out, "    if (unit >= total) return;\n");
}

/* Whether 32 bits hold the address of each element and what leads to it. */
static bool small_memories(const struct kb *b)
{
    for (int i = 0; i < b->nmem; i++)
        if (b->mem[i].elems > INT32_MAX / 2) return false;
    return true;
}

static struct draw drawing(struct yir_str *out, const struct kb *b, int depth)
{
    struct draw w = {.out = out, .b = b, .depth = depth, .small = small_memories(b)};
    w.multiple = kb_index_multiples(out->arena, b);
    return w;
}

void kb_cuda_part(struct yir_str *out, const struct kb *b, uint32_t from, uint32_t end, int depth)
{
    struct draw w = drawing(out, b, depth);
    YIR_ASSERT(from && end <= b->nnode);
    for (uint32_t i = from; i < end; i++) put_node(&w, i);
}

void kb_cuda_nodes(struct yir_str *out, const struct kb *b, int depth)
{
    kb_cuda_part(out, b, 1, b->nnode, depth);
}

void kb_cuda_value(struct yir_str *out, const struct kb *b, kv v)
{
    struct draw w = {.out = out, .b = b};
    put_value(&w, v.id);
}

bool kb_cuda_waits(const struct kb_target *t)
{
    return t->sm >= 90;
}

/* Kernels that wait as soon as they have started gain nothing by an early start, and lose: yolov8n of conv_mma and generic kernels,
 * batch 1 on an H200, takes 0.318 ms with early starts and 0.295 without. Each statement on a line of its own, for tests/cuda/host.sh. The next kernel may come as soon as all blocks of this one are
 * there: it waits the same way. */
void kb_cuda_wait(struct yir_str *out, const struct kb_target *t, int depth)
{
    if (!kb_cuda_waits(t)) return;
    yir_str_fmt(out, "%*sasm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\");\n", 4 * depth, "");
    yir_str_fmt(out, "%*sasm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n", 4 * depth, "");
}

/* A launch that says so and a body that does not would race with the kernels before it. */
static bool own_body_waits(const struct cg_kernel *k)
{
    return strstr(k->cuda, "griddepcontrol.wait") || (k->cuda_head && strstr(k->cuda_head, "griddepcontrol.wait"));
}

void kb_cuda_text(struct yir_str *out, const struct cg_kernel *k, int64_t batch)
{
    const struct kb *b = k->prog;
    int64_t total;
    struct draw w = drawing(out, b, 1);
    bool fits = !__builtin_mul_overflow(k->units, batch, &total) && total <= INT32_MAX - k->launch.threads;
    if (!k->cuda) w.small = fits && kb_index_small(out->arena, b, total);
    put_estimates(&w);
    put_conversions(&w);
    put_access_functions(&w);
    if (k->cuda_head) yir_str_fmt(out, "%s", k->cuda_head);
    put_head(&w, k);
    if (k->cuda) {
        YIR_ASSERT(!k->launch.waits || own_body_waits(k));
        yir_str_fmt(out, "%s}\n", k->cuda);
        return;
    }
    put_unit(&w, &k->launch);
    kb_cuda_wait(out, b->target, 1);
    for (uint32_t i = 1; i < b->nnode; i++) put_node(&w, i);
    yir_str_fmt(out, "}\n");
}
