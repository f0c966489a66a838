#include "kb_cuda.h"

#include <math.h>
#include <string.h>

#include "kb_range.h"
#include "runtime/module.h"

struct draw {
    struct yir_str *out;
    const struct kb *b;
    bool small; /* indexes are int */
    int depth;  /* of indentation */
};

/* Types of memory, and functions from and to float; NULL: it is float. Rounding and saturation as yir_dtype_load and
 * yir_dtype_store do. The 16-bit floats are bits here: their types would need headers of the toolkit. */
static const struct element {
    const char *type, *load, *store, *text;
} elements[YIR_NDTYPE] = {
    [YIR_F32] = {"float", NULL, NULL, NULL},
    [YIR_F64] = {"double", "(float)", "(double)", NULL},
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
                  "}\n"},
    [YIR_U8] = {"unsigned char", "(float)", "to_u8",
                "static __device__ unsigned char to_u8(float f)\n"
                "{\n"
                "    return (unsigned char)fminf(fmaxf(f, 0.0f), 255.0f);\n"
                "}\n"},
    [YIR_I8] = {"signed char", "(float)", "to_i8",
                "static __device__ signed char to_i8(float f)\n"
                "{\n"
                "    return f != f ? 0 : (signed char)fminf(fmaxf(f, -128.0f), 127.0f);\n"
                "}\n"},
    [YIR_I32] = {"int", "(float)", "__float2int_rz", NULL},
    [YIR_I64] = {"long long", "(float)", "to_i64",
                 "static __device__ long long to_i64(float f)\n"
                 "{\n"
                 "    return f != f ? 0 : __float2ll_rz(f);\n"
                 "}\n"},
    [YIR_BOOL] = {"unsigned char", "from_bool", "to_bool",
                  "static __device__ float from_bool(unsigned char v)\n"
                  "{\n"
                  "    return v ? 1.0f : 0.0f;\n"
                  "}\n"
                  "static __device__ unsigned char to_bool(float f)\n"
                  "{\n"
                  "    return f != 0.0f;\n"
                  "}\n"},
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
    [KB_RCPE] = "1.0f / $a",
    [KB_FRAC] = "$a - floorf($a)",
    [KB_SCALE] = "ldexpf($a, (int)floorf($b))",
    [KB_POW2I] = "__int_as_float(((int)$a + 127) << 23)",
    [KB_EXP] = "expf($a)",
    [KB_LOG] = "logf($a)",
    [KB_ERF] = "erff($a)",
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

static void put_value(const struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    YIR_ASSERT(id && id < w->b->nnode);
    if (n->code == KB_IMM_F)
        put_float(w->out, n->imm.f);
    else if (n->code == KB_IMM_I && n->type == KB_B)
        yir_str_fmt(w->out, n->imm.i ? "true" : "false");
    else if (n->code == KB_IMM_I)
        put_int(w->out, n->imm.i);
    else if (n->code == KB_UNIT)
        yir_str_fmt(w->out, "unit");
    else
        yir_str_fmt(w->out, n->code == KB_VAR ? "x%u" : n->type == KB_F ? "f%u" : n->type == KB_B ? "b%u" : "i%u", (unsigned)id);
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
        put_value(w, *p == 'a' ? n->a : *p == 'b' ? n->b : n->c);
    }
}

static void indent(const struct draw *w)
{
    yir_str_fmt(w->out, "%*s", 4 * w->depth, "");
}

static void put_access(const struct draw *w, const struct kb_node *n)
{
    yir_str_fmt(w->out, "m%d[", n->mem);
    put_value(w, n->a);
    yir_str_put(w->out, "]", 1);
}

static void put_load(const struct draw *w, const struct kb_node *n)
{
    const struct element *e = &elements[w->b->mem[n->mem].dtype];
    if (e->load) yir_str_fmt(w->out, "%s(", e->load);
    put_access(w, n);
    if (e->load) yir_str_put(w->out, ")", 1);
}

static void put_store(const struct draw *w, const struct kb_node *n)
{
    const struct element *e = &elements[w->b->mem[n->mem].dtype];
    put_access(w, n);
    yir_str_fmt(w->out, " = %s%s", e->store ? e->store : "", e->store ? "(" : "");
    put_value(w, n->b);
    yir_str_fmt(w->out, "%s;\n", e->store ? ")" : "");
}

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

static void put_assign(const struct draw *w, uint32_t to, uint32_t from)
{
    put_value(w, to);
    yir_str_fmt(w->out, " = ");
    put_value(w, from);
    yir_str_fmt(w->out, ";\n");
}

/* const float f12 = ...; */
static void put_definition(const struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    yir_str_fmt(w->out, "const %s ", value_type(w, n));
    put_value(w, id);
    yir_str_fmt(w->out, " = ");
    if (n->code == KB_LOAD)
        put_load(w, n);
    else if (n->code == KB_FTOI) {
        yir_str_fmt(w->out, w->small ? "__float2int_rz(" : "__float2ll_rz(");
        put_value(w, n->a);
        yir_str_put(w->out, ")", 1);
    } else
        put_expression(w, n);
    yir_str_fmt(w->out, ";\n");
}

static void put_node(struct draw *w, uint32_t id)
{
    const struct kb_node *n = &w->b->node[id];
    YIR_ASSERT(n->lanes <= 1);
    if (n->code == KB_IMM_F || n->code == KB_IMM_I || n->code == KB_UNIT || n->code == KB_AHEAD) return;
    if (n->code == KB_END) w->depth--;
    indent(w);
    switch (n->code) {
    case KB_END: yir_str_fmt(w->out, "}\n"); return;
    case KB_LOOP: put_loop(w, id); return;
    case KB_STORE: put_store(w, n); return;
    case KB_SET: put_assign(w, n->a, n->b); return;
    case KB_VAR:
        yir_str_fmt(w->out, "%s ", value_type(w, n));
        put_assign(w, id, n->a);
        return;
    default: put_definition(w, id); return;
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

static void put_head(const struct draw *w, const char *symbol)
{
    const struct kb *b = w->b;
    yir_str_fmt(w->out, "extern \"C\" __global__ void __launch_bounds__(%d) %s(\n    ", YM_CUDA_BLOCK, symbol);
    for (int i = 0; i < b->nmem; i++) {
        YIR_ASSERT(b->mem[i].kind != KB_MEM_SCRATCH); /* only fast families of CPUs ask for it */
        yir_str_fmt(w->out, "%s%s *__restrict__ m%d, ", b->mem[i].written ? "" : "const ", elements[b->mem[i].dtype].type, i);
    }
    yir_str_fmt(w->out, "long long total)\n{\n");
    if (w->small)
        yir_str_fmt(w->out, "    const int unit = (int)(blockIdx.x * %du + threadIdx.x);\n", YM_CUDA_BLOCK);
    else
        yir_str_fmt(w->out, "    const long long unit = (long long)blockIdx.x * %d + threadIdx.x;\n", YM_CUDA_BLOCK);
    yir_str_fmt(w->out, "    if (unit >= total) return;\n");
}

void kb_cuda_text(struct yir_str *out, const struct cg_kernel *k, int64_t batch)
{
    const struct kb *b = k->prog;
    int64_t total;
    struct draw w = {.out = out, .b = b, .depth = 1};
    bool fits = !__builtin_mul_overflow(k->units, batch, &total) && total <= INT32_MAX - YM_CUDA_BLOCK;
    w.small = fits && kb_range_small(out->arena, b, total);
    put_conversions(&w);
    put_head(&w, k->symbol);
    for (uint32_t i = 1; i < b->nnode; i++) put_node(&w, i);
    yir_str_fmt(out, "}\n");
}
