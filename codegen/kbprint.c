/* Canonical text of kernel programs, and the check of their structure. */
#include "kb.h"

static const char *const code_name[KB_NCODE] = {
    [KB_NONE] = "none",
#define KBOP(name, in, pure) [KB_##name] = #name,
#include "kbops.def"
#undef KBOP
};
static const uint8_t code_in[KB_NCODE] = {
#define KBOP(name, in, pure) [KB_##name] = in,
#include "kbops.def"
#undef KBOP
};
static const char *const packing_name[] = {"dense", "oblock", "oblock-back", "oblock-planes", "wino2", "wino4",
                                            "dw",    "mma",    "mma-spread", "deconv",      "stem",          "wgmma"};

static void print_mem(struct yir_str *out, const struct kb *b, int i)
{
    static const char *const kind[] = {"value", "weight", "scratch"};
    const struct kb_mem *m = &b->mem[i];
    yir_str_fmt(out, "mem %d %s %s[%lld]", i, kind[m->kind], yir_dtype_name(m->dtype), (long long)m->elems);
    if (m->kind == KB_MEM_WEIGHT) yir_str_fmt(out, " %s=%d", packing_name[m->packing], m->pack_arg);
    if (m->align) yir_str_fmt(out, " align=%d", 1 << m->align);
    yir_str_fmt(out, "%s\n", m->written ? " written" : "");
}

static void print_node(struct yir_str *out, const struct kb *b, uint32_t id, int indent)
{
    const struct kb_node *n = &b->node[id];
    yir_str_fmt(out, "%*s", 2 * indent, "");
    if (n->type != KB_VOID) yir_str_fmt(out, "v%u = ", id);
    yir_str_fmt(out, "%s", code_name[n->code]);
    if (n->lanes > 1) yir_str_fmt(out, ".%u", n->lanes);
    if (n->code == KB_LOAD || n->code == KB_STORE || n->code == KB_AHEAD) yir_str_fmt(out, " m%u", n->mem);
    const uint32_t operand[] = {n->a, n->b, n->c};
    for (int k = 0; k < code_in[n->code]; k++) yir_str_fmt(out, " v%u", operand[k]);
    if (n->code == KB_IMM_F) yir_str_fmt(out, " %.17g", n->imm.f);
    if (n->code == KB_PICK) yir_str_fmt(out, " %lld", (long long)n->imm.i);
    if (n->code == KB_GIVEN) yir_str_fmt(out, " %lld multiple %u", (long long)n->imm.i, n->c);
    if (n->code == KB_IMM_I) yir_str_fmt(out, " %lld", (long long)n->imm.i);
    if (n->code == KB_LOOP) yir_str_fmt(out, " step %lld", (long long)n->imm.i);
    if (n->lanes > 1 && n->imm.i && n->imm.i != n->lanes && (n->code == KB_LOAD || n->code == KB_STORE))
        yir_str_fmt(out, " valid %lld", (long long)n->imm.i);
    yir_str_put(out, "\n", 1);
}

void kb_print(struct yir_str *out, const struct kb *b)
{
    int indent = 0;
    yir_str_fmt(out, "units %lld\n", (long long)b->units);
    for (int i = 0; i < b->nmem; i++) print_mem(out, b, i);
    for (uint32_t id = 1; id < b->nnode; id++) {
        if (b->node[id].code == KB_END) indent--;
        print_node(out, b, id, indent);
        if (b->node[id].code == KB_LOOP) indent++;
    }
}

/* A LOOP's own index has the loop as its scope but its bounds are read outside it. */
static void check_operands(const struct kb *b, uint32_t id, const uint32_t *open, int depth)
{
    const struct kb_node *n = &b->node[id];
    const uint32_t operand[] = {n->a, n->b, n->c};
    for (int k = 0; k < code_in[n->code]; k++) {
        YIR_ASSERT(operand[k] && operand[k] < id);
        const struct kb_node *o = &b->node[operand[k]];
        bool seen = !o->scope;
        for (int i = 0; i < depth; i++) seen |= open[i] == o->scope;
        YIR_ASSERT(seen);
        YIR_ASSERT(o->type != KB_VOID);
        YIR_ASSERT(o->lanes == 1 || o->lanes == n->lanes || n->code == KB_SET || n->code == KB_PICK);
    }
}

void kb_check(const struct kb *b)
{
    uint32_t open[64];
    int depth = 0;
    for (uint32_t id = 1; id < b->nnode; id++) {
        const struct kb_node *n = &b->node[id];
        YIR_ASSERT(n->code > KB_NONE && n->code < KB_NCODE);
        check_operands(b, id, open, depth);
        if (n->code == KB_LOAD || n->code == KB_STORE || n->code == KB_AHEAD) YIR_ASSERT(n->mem < b->nmem);
        if (n->code == KB_LOOP) {
            YIR_ASSERT(depth < (int)YIR_COUNT(open) && n->imm.i > 0);
            open[depth++] = id;
        }
        if (n->code == KB_END) {
            YIR_ASSERT(depth > 0);
            depth--;
        }
    }
    YIR_ASSERT(!depth && b->units > 0);
}
