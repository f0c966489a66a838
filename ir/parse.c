/* Text of a function to a function. The text is untrusted: every count is bounded, every number checked.
 *
 *   text    = { line }            a line ends at the newline; `#` starts a comment; blanks only part tokens
 *   line    = [ "model" NAME ] | [ "image" "div=" FLOAT "bgr=" INT ]
 *           | "in" "%" NAME ":" type | "w" "$" NAME ":" type
 *           | "arena" "bytes=" INT | "buf" "b" INT place_of "bytes=" INT [ "at=" INT ] [ "live=" INT ".." INT ]
 *           | "kernel" "k" INT [ "family=" NAME ] { WORD "=" NAME { "," NAME } } "{" | "}"
 *           | op | ( "out" | "layer" ) NAME "=" ref
 *   place_of = "arena" | "in" "%" NAME | "out" NAME
 *   op      = "%" INT "=" WORD ref { "," ref } [ "{" attr { attr } "}" ] ":" type [ "inline" | "view" ]
 *             [ "->" "b" INT [ "+" INT ] [ "ld=" INT | "s=" INT { "," INT } ] ] [ "@" INT ":" INT [ NAME ] ]
 *   attr    = WORD "=" value { "," value }
 *   value   = INT | FLOAT | dtype | layout          as the op's schema says
 *   ref     = "%" INT | "%" NAME | "$" NAME         value, input, weight
 *   type    = dtype "[" [ INT { "," INT } ] "]" [ layout ]     the layout stands when there are 4 dimensions
 *   layout  = "nchw" | "nhwc" | "oihw" | "row"      "row" only as a value
 *   NAME    = letters, digits, '.', '_', '-'        that of an input is not digits alone
 *
 * Values, kernels and buffers are numbered in order without gaps (values and kernels from 1) and used after they
 * are defined; `out NAME` of a buffer alone looks ahead. Inside a kernel's braces an op is stored unless it says
 * `inline`; a `view` belongs to no kernel. An op's type must be the one that its operands give. */
#include "ir.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "scan.h"

enum {
    MAX_INPUTS = 128,
    MAX_SRC = 64,
    MAX_WORDS = 16
};
#define MAX_ELEMS (INT64_C(1) << 40) /* elements of a type, strides */
#define MAX_BYTES (UINT64_C(1) << 50)

struct parser {
    struct yir_scan s;
    struct yir_func *f;
    const struct yir_limits *limits;
    bool in_kernel;
    uint32_t kernel_start, kernel_ops; /* of the open kernel: its first op; how many that are no views */
    struct yir_place *place;
    size_t cap_place;
    struct awaited { /* output named by a buffer before its own line */
        struct yir_loc loc;
        const char *name;
        uint32_t buf;
    } * awaited;
    size_t nawaited, cap_awaited;
};

#define FAIL(p, at, id, ...) YIR_SCAN_FAIL(&(p)->s, at, id, __VA_ARGS__)
#define SYNTAX(p, ...)       YIR_SCAN_SYNTAX(&(p)->s, __VA_ARGS__)

/* --- types and references ----------------------------------------------------------------------------------- */

static int take_dtype(struct parser *p, enum yir_dtype *out)
{
    struct yir_span w = yir_take(&p->s, yir_is_word_char);
    if (yir_dtype_by_name(w.s, w.n, out)) return 0;
    return FAIL(p, w.s, E_IR_SYNTAX, "expected an element type (f32, f16, u8 ...)");
}

static int take_layout(struct parser *p, bool row, enum yir_layout *out)
{
    struct yir_span w = yir_take(&p->s, yir_is_word_char);
    if (yir_layout_by_name(w.s, w.n, out)) return 0;
    if (row && yir_span_is(w, "row")) return *out = YIR_ROW, 0;
    return FAIL(p, w.s, E_IR_SYNTAX, "expected a layout (nchw, nhwc, oihw%s)", row ? ", row" : "");
}

static int take_dims(struct parser *p, struct yir_tdesc *d)
{
    int64_t elems = 1;
    while (!yir_peek(&p->s, ']')) {
        if (d->rank && yir_expect(&p->s, ',')) return -1;
        yir_skip(&p->s);
        const char *at = p->s.p;
        if (YIR_BREAKS(IR_RANK, d->rank == YIR_MAX_RANK))
            return SYNTAX(p, "a type has at most %d dimensions", YIR_MAX_RANK);
        uint64_t n;
        if (yir_take_uint(&p->s, YIR_MAX_DIM, &n)) return -1;
        if (YIR_BREAKS(IR_DIM_ZERO, !n)) return FAIL(p, at, E_IR_SYNTAX, "a dimension must be at least 1");
        if (YIR_BREAKS(IR_ELEMENTS, (int64_t)n > MAX_ELEMS / elems))
            return FAIL(p, at, E_LIMIT, "a tensor has at most 2^40 elements");
        elems *= (int64_t)n;
        d->dim[d->rank++] = (int64_t)n;
    }
    return yir_expect(&p->s, ']');
}

static int take_type(struct parser *p, yir_type *out)
{
    struct yir_tdesc d = {.layout = YIR_ROW};
    if (take_dtype(p, &d.dtype) || yir_expect(&p->s, '[') || take_dims(p, &d)) return -1;
    if (d.rank == 4 && take_layout(p, false, &d.layout)) return -1;
    *out = yir_type_of(p->f->types, &d);
    return 0;
}

static bool all_digits(struct yir_span w)
{
    for (size_t i = 0; i < w.n; i++)
        if (!yir_is_digit(w.s[i])) return false;
    return true;
}

static yir_ref find_input(const struct yir_func *f, struct yir_span w)
{
    for (uint32_t i = 0; i < f->ninput; i++)
        if (yir_span_is(w, f->input[i].name)) return yir_mkref(YIR_INP, i);
    return YIR_NONE;
}

static const char *keep(struct parser *p, struct yir_span w)
{
    return yir_strndup(p->f->arena, w.s, w.n);
}

static yir_ref find_weight(struct parser *p, struct yir_span w)
{
    struct yir_arena_mark mark = yir_arena_mark(p->f->arena);
    yir_ref r = yir_find_weight(p->f, keep(p, w));
    yir_arena_reset(p->f->arena, mark);
    return r;
}

static int take_ref(struct parser *p, yir_ref *out)
{
    yir_skip(&p->s);
    const char *at = p->s.p;
    bool weight = yir_accept(&p->s, '$');
    if (!weight && !yir_accept(&p->s, '%')) return SYNTAX(p, "expected %%value, %%input or $weight");
    struct yir_span w;
    if (yir_take_name(&p->s, &w)) return -1;
    if (weight || !all_digits(w)) {
        *out = weight ? find_weight(p, w) : find_input(p->f, w);
        if (YIR_HOLDS(IR_DEFINED, yir_kind(*out) != YIR_NIL)) return 0;
        return FAIL(p, at, E_IR_SYNTAX, "%c%.*s is not defined", weight ? '$' : '%', (int)w.n, w.s);
    }
    p->s.p = w.s;
    uint64_t i;
    if (yir_take_uint(&p->s, UINT32_MAX, &i)) return -1;
    if (YIR_BREAKS(IR_BACKWARD, !i || i >= p->f->nop))
        return FAIL(p, at, E_IR_SYNTAX, "%%%llu is not defined before here", (unsigned long long)i);
    *out = yir_mkref(YIR_VAL, (uint32_t)i);
    return 0;
}

/* --- lines before the ops ----------------------------------------------------------------------------------- */

static int parse_model(struct parser *p)
{
    struct yir_span w;
    if (yir_take_name(&p->s, &w)) return -1;
    p->f->name = keep(p, w);
    return 0;
}

static int parse_image(struct parser *p)
{
    uint64_t bgr;
    float div;
    if (yir_expect_text(&p->s, "div") || yir_expect(&p->s, '=')) return -1;
    yir_skip(&p->s);
    const char *at = p->s.p;
    if (yir_take_float(&p->s, &div)) return -1;
    if (YIR_BREAKS(IR_IMAGE_DIV, !(div > 0 && div < INFINITY)))
        return FAIL(p, at, E_IR_SYNTAX, "div must be positive");
    if (yir_take_field(&p->s, "bgr", 1, &bgr)) return -1;
    p->f->image_div = div;
    p->f->image_bgr = bgr != 0;
    return 0;
}

/* Count of things of one kind, and whether a name is free. */
static int check_new(struct parser *p, struct yir_span w, size_t have, uint64_t max, const char *raise, bool taken)
{
    if (YIR_BREAKS(IR_MANY, have >= max))
        return FAIL(p, w.s, E_LIMIT, "there are more than %llu of these%s", (unsigned long long)max, raise);
    if (YIR_BREAKS(IR_TWICE, taken)) return FAIL(p, w.s, E_IR_SYNTAX, "%.*s stands twice", (int)w.n, w.s);
    return 0;
}

static int parse_in(struct parser *p)
{
    struct yir_span w;
    yir_type ty;
    if (yir_expect(&p->s, '%') || yir_take_name(&p->s, &w)) return -1;
    if (YIR_BREAKS(IR_INPUT_DIGITS, all_digits(w)))
        return FAIL(p, w.s, E_IR_SYNTAX, "an input's name must not be a number");
    if (check_new(p, w, p->f->ninput, MAX_INPUTS, "", yir_kind(find_input(p->f, w)) != YIR_NIL)) return -1;
    if (yir_expect(&p->s, ':') || take_type(p, &ty)) return -1;
    yir_add_input(p->f, keep(p, w), ty);
    return 0;
}

static int parse_weight(struct parser *p)
{
    struct yir_span w;
    yir_type ty;
    if (yir_expect(&p->s, '$') || yir_take_name(&p->s, &w)) return -1;
    bool taken = yir_kind(find_weight(p, w)) != YIR_NIL;
    if (check_new(p, w, p->f->nweight, p->limits->max_ir_weights, YIR_RAISE(max_ir_weights), taken)) return -1;
    if (yir_expect(&p->s, ':') || take_type(p, &ty)) return -1;
    yir_add_weight(p->f, keep(p, w), ty, NULL);
    return 0;
}

static int parse_arena(struct parser *p)
{
    return yir_take_field(&p->s, "bytes", MAX_BYTES, &p->f->arena_size);
}

/* Which memory: the arena, an input, or an output (whose line comes later). */
static int take_place_of(struct parser *p, struct yir_buf *b)
{
    struct yir_span w;
    if (yir_accept_text(&p->s, "arena")) return b->kind = YIR_BUF_ARENA, 0;
    b->kind = yir_accept_text(&p->s, "in") ? YIR_BUF_IN : YIR_BUF_OUT;
    if (b->kind == YIR_BUF_OUT && !yir_accept_text(&p->s, "out")) return SYNTAX(p, "expected arena, in or out");
    if ((b->kind == YIR_BUF_IN && yir_expect(&p->s, '%')) || yir_take_name(&p->s, &w)) return -1;
    if (b->kind == YIR_BUF_IN) {
        yir_ref r = find_input(p->f, w);
        if (YIR_BREAKS(IR_BUF_INPUT, yir_kind(r) == YIR_NIL))
            return FAIL(p, w.s, E_IR_SYNTAX, "%%%.*s is not defined", (int)w.n, w.s);
        b->io = yir_index(r);
        return 0;
    }
    p->awaited = yir_grow(p->f->arena, p->awaited, &p->cap_awaited, p->nawaited + 1, sizeof *p->awaited);
    p->awaited[p->nawaited++] = (struct awaited){yir_scan_loc(&p->s, w.s), keep(p, w), p->f->nbuf};
    return 0;
}

static int parse_buf(struct parser *p)
{
    struct yir_func *f = p->f;
    struct yir_buf b = {0};
    uint64_t i, first = 0, last = 0;
    yir_skip(&p->s);
    const char *at = p->s.p;
    if (yir_take_index(&p->s, 'b', UINT32_MAX, &i)) return -1;
    if (YIR_BREAKS(IR_BUF_ORDER, i != f->nbuf))
        return FAIL(p, at, E_IR_SYNTAX, "buffers are numbered in order: expected b%u", f->nbuf);
    if (YIR_BREAKS(IR_BUFS, i == p->limits->max_ir_buffers))
        return FAIL(p, at, E_LIMIT, "there are more than %llu buffers%s", (unsigned long long)i, YIR_RAISE(max_ir_buffers));
    if (take_place_of(p, &b) || yir_take_field(&p->s, "bytes", MAX_BYTES, &b.bytes)) return -1;
    if (yir_accept_text(&p->s, "at") && (yir_expect(&p->s, '=') || yir_take_uint(&p->s, MAX_BYTES, &b.offset)))
        return -1;
    if (yir_accept_text(&p->s, "live") &&
        (yir_expect(&p->s, '=') || yir_take_uint(&p->s, p->limits->max_ir_ops, &first) || yir_expect_text(&p->s, "..") ||
         yir_take_uint(&p->s, p->limits->max_ir_ops, &last)))
        return -1;
    b.first = (uint32_t)first;
    b.last = (uint32_t)last;
    f->buf = yir_grow(f->arena, f->buf, &f->cap_buf, f->nbuf + 1u, sizeof *f->buf);
    f->buf[f->nbuf++] = b;
    return 0;
}

/* --- kernels ------------------------------------------------------------------------------------------------ */

static bool is_knob_char(char c)
{
    return yir_is_name_char(c) || c == ',';
}

static int take_knobs(struct parser *p, struct yir_kernel *k)
{
    struct yir_str s = {.arena = p->f->arena};
    while (!yir_peek(&p->s, '{')) {
        struct yir_span w = yir_take(&p->s, yir_is_word_char);
        if (!w.n || yir_expect(&p->s, '=')) return w.n ? -1 : SYNTAX(p, "expected a knob or '{'");
        struct yir_span v = yir_take(&p->s, is_knob_char);
        if (YIR_BREAKS(IR_KNOB, !v.n) || YIR_BREAKS(IR_KNOBS_LENGTH, s.len > p->limits->max_name))
            return SYNTAX(p, "a knob needs a short value");
        if (yir_span_is(w, "family") && !s.len && !k->family[0]) {
            k->family = keep(p, v);
            continue;
        }
        yir_str_fmt(&s, "%s%.*s=%.*s", s.len ? " " : "", (int)w.n, w.s, (int)v.n, v.s);
    }
    if (s.len) k->knobs = s.text;
    return yir_expect(&p->s, '{');
}

static int parse_kernel(struct parser *p)
{
    struct yir_func *f = p->f;
    struct yir_kernel k = {"", ""};
    uint64_t i;
    yir_skip(&p->s);
    const char *at = p->s.p;
    if (YIR_BREAKS(IR_KERNEL_NESTED, p->in_kernel)) return SYNTAX(p, "kernels do not nest");
    if (yir_take_index(&p->s, 'k', UINT32_MAX, &i)) return -1;
    if (YIR_BREAKS(IR_KERNEL_ORDER, i != f->nkernel + UINT64_C(1)))
        return FAIL(p, at, E_IR_SYNTAX, "kernels are numbered in order: expected k%u", f->nkernel + 1);
    if (YIR_BREAKS(IR_KERNELS, i > p->limits->max_ir_ops))
        return FAIL(p, at, E_LIMIT, "there are more than %llu kernels%s", (unsigned long long)i - 1, YIR_RAISE(max_ir_ops));
    if (take_knobs(p, &k)) return -1;
    f->kernel = yir_grow(f->arena, f->kernel, &f->cap_kernel, f->nkernel + 1u, sizeof *f->kernel);
    f->kernel[f->nkernel++] = k;
    p->in_kernel = true;
    p->kernel_start = f->nop;
    p->kernel_ops = 0;
    return 0;
}

static int parse_brace(struct parser *p)
{
    if (YIR_BREAKS(IR_KERNEL_OPEN, !p->in_kernel)) return SYNTAX(p, "no kernel is open here");
    if (YIR_BREAKS(IR_KERNEL_VIEWS, p->kernel_start != p->f->nop && !p->kernel_ops))
        return SYNTAX(p, "the kernel holds nothing but views");
    p->in_kernel = false;
    return yir_expect(&p->s, '}');
}

/* --- ops ---------------------------------------------------------------------------------------------------- */

static int unknown_op(struct parser *p, struct yir_span w)
{
    const char *names[YIR_NCODE];
    for (int c = 1; c < YIR_NCODE; c++) names[c - 1] = yir_opinfo((enum yir_code)c)->name;
    const char *near = yir_nearest(keep(p, w), names, YIR_NCODE - 1);
    return FAIL(p, w.s, E_IR_OP, "no op is named '%.*s'%s%s%s", (int)w.n, w.s, near ? "; did you mean '" : "",
                near ? near : "", near ? "'?" : "");
}

static int unknown_attr(struct parser *p, const struct yir_opinfo *info, struct yir_span w)
{
    const char *names[MAX_WORDS];
    for (int i = 0; i < info->nattr; i++) names[i] = info->attr[i].name;
    const char *near = yir_nearest(keep(p, w), names, (size_t)info->nattr);
    return FAIL(p, w.s, E_IR_OP, "%s has no attribute '%.*s'%s%s%s", info->name, (int)w.n, w.s,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int take_value(struct parser *p, char kind, int32_t *word)
{
    enum yir_dtype dtype;
    enum yir_layout layout;
    float v;
    switch (kind) {
    case 'f':
        if (yir_take_float(&p->s, &v)) return -1;
        memcpy(word, &v, sizeof v);
        return 0;
    case 'd':
        if (take_dtype(p, &dtype)) return -1;
        *word = (int32_t)dtype;
        return 0;
    case 'l':
        if (take_layout(p, true, &layout)) return -1;
        *word = (int32_t)layout;
        return 0;
    default: return yir_take_int32(&p->s, word);
    }
}

static int take_attr(struct parser *p, const struct yir_opinfo *info, unsigned *seen, int32_t *word)
{
    struct yir_span w = yir_take(&p->s, yir_is_word_char);
    if (!w.n) return SYNTAX(p, "expected an attribute or '}'");
    int i = 0;
    while (i < info->nattr && !yir_span_is(w, info->attr[i].name)) i++;
    if (i == info->nattr) return unknown_attr(p, info, w);
    if (YIR_BREAKS(IR_ATTR_TWICE, *seen & 1u << i))
        return FAIL(p, w.s, E_IR_OP, "the attribute %s stands twice", info->attr[i].name);
    *seen |= 1u << i;
    if (yir_expect(&p->s, '=')) return -1;
    for (int k = 0; k < info->attr[i].n; k++)
        if ((k && yir_expect(&p->s, ',')) || take_value(p, info->attr[i].kind, word + info->attr[i].at + k))
            return -1;
    return 0;
}

static int take_attrs(struct parser *p, const struct yir_opinfo *info, int32_t *word)
{
    unsigned seen = 0;
    if (!yir_accept(&p->s, '{')) return 0;
    do {
        if (take_attr(p, info, &seen, word)) return -1;
    } while (!yir_accept(&p->s, '}'));
    return 0;
}

struct op_line { /* what an op's line says */
    const char *at, *type_at;
    enum yir_code code;
    yir_ref src[MAX_SRC];
    int nsrc;
    int32_t word[MAX_WORDS];
    yir_type type;
    bool is_view, is_inline;
    struct yir_place place;
    bool has_loc;
    struct yir_loc loc;
    const char *loc_name;
};

static int take_operands(struct parser *p, struct op_line *l, const struct yir_opinfo *info)
{
    do {
        if (YIR_BREAKS(IR_OPERANDS_ROOM, l->nsrc == MAX_SRC))
            return SYNTAX(p, "%s has at most %d operands", info->name, info->hi);
        if (take_ref(p, &l->src[l->nsrc++])) return -1;
    } while (yir_accept(&p->s, ','));
    if (YIR_HOLDS(IR_OPERANDS, l->nsrc >= info->lo && l->nsrc <= info->hi)) return 0;
    return FAIL(p, l->at, E_IR_OP, "%s with %d operands; %d to %d are possible", info->name, l->nsrc, info->lo,
                info->hi);
}

static int take_strides(struct parser *p, const struct yir_tdesc *d, int64_t *stride)
{
    uint64_t v;
    if (yir_accept_text(&p->s, "ld")) {
        yir_skip(&p->s);
        const char *at = p->s.p;
        if (yir_expect(&p->s, '=') || yir_take_uint(&p->s, MAX_ELEMS, &v)) return -1;
        if (YIR_HOLDS(IR_LD, d->layout == YIR_NHWC && yir_pixel_strides(d, (int64_t)v, stride))) return 0;
        return FAIL(p, at, E_IR_SYNTAX, "ld is the pixel stride of an nhwc value");
    }
    if (!yir_accept_text(&p->s, "s")) return yir_dense_strides(d, stride), 0;
    if (yir_expect(&p->s, '=')) return -1;
    for (int i = 0; i < d->rank; i++) {
        if ((i && yir_expect(&p->s, ',')) || yir_take_uint(&p->s, MAX_ELEMS, &v)) return -1;
        stride[i] = (int64_t)v;
    }
    return 0;
}

static int take_place(struct parser *p, struct op_line *l)
{
    uint64_t i;
    yir_skip(&p->s);
    const char *at = p->s.p;
    if (yir_take_index(&p->s, 'b', UINT32_MAX, &i)) return -1;
    if (YIR_BREAKS(IR_PLACE_BUF, i >= p->f->nbuf))
        return FAIL(p, at, E_IR_SYNTAX, "b%llu is not defined", (unsigned long long)i);
    l->place.buf = (uint32_t)i + 1;
    if (yir_accept(&p->s, '+') && yir_take_uint(&p->s, MAX_BYTES, &l->place.offset)) return -1;
    return take_strides(p, yir_tdesc(p->f->types, l->type), l->place.stride);
}

static int take_loc(struct parser *p, struct op_line *l)
{
    uint64_t line, col;
    struct yir_span w;
    if (yir_take_uint(&p->s, UINT32_MAX, &line) || yir_expect(&p->s, ':') ||
        yir_take_uint(&p->s, UINT32_MAX, &col))
        return -1;
    l->has_loc = line > 0; /* line 0: known by its name at most */
    l->loc = (struct yir_loc){0, (uint32_t)line, (uint32_t)col};
    if (yir_at_eol(&p->s)) return 0;
    if (yir_take_name(&p->s, &w)) return -1;
    l->loc_name = keep(p, w);
    l->has_loc = true;
    return 0;
}

static int take_op_line(struct parser *p, struct op_line *l)
{
    uint64_t i;
    yir_skip(&p->s);
    l->at = p->s.p;
    if (yir_take_index(&p->s, '%', UINT32_MAX, &i)) return -1;
    if (YIR_BREAKS(IR_VALUE_ORDER, i != p->f->nop))
        return FAIL(p, l->at, E_IR_SYNTAX, "values are numbered in order: expected %%%u", p->f->nop);
    if (YIR_BREAKS(IR_OPS, i > p->limits->max_ir_ops))
        return FAIL(p, l->at, E_LIMIT, "there are more than %llu ops%s", (unsigned long long)i - 1, YIR_RAISE(max_ir_ops));
    if (yir_expect(&p->s, '=')) return -1;
    struct yir_span w = yir_take(&p->s, yir_is_word_char);
    if (!yir_op_by_name(w.s, w.n, &l->code)) return unknown_op(p, w);
    const struct yir_opinfo *info = yir_opinfo(l->code);
    YIR_ASSERT(info->nwords <= MAX_WORDS && info->nattr <= MAX_WORDS);
    yir_attr_defaults(l->code, l->word);
    if (take_operands(p, l, info) || take_attrs(p, info, l->word) || yir_expect(&p->s, ':')) return -1;
    yir_skip(&p->s);
    l->type_at = p->s.p;
    if (take_type(p, &l->type)) return -1;
    l->is_view = yir_accept_text(&p->s, "view");
    yir_skip(&p->s);
    const char *at = p->s.p;
    l->is_inline = !l->is_view && yir_accept_text(&p->s, "inline");
    if (YIR_BREAKS(IR_INLINE, l->is_inline && !p->in_kernel))
        return FAIL(p, at, E_IR_SYNTAX, "only an op of a kernel can be inline");
    if (yir_accept_text(&p->s, "->") && take_place(p, l)) return -1;
    return yir_accept(&p->s, '@') ? take_loc(p, l) : 0;
}

static int type_differs(struct parser *p, const struct op_line *l, yir_type inferred)
{
    struct yir_str s = {.arena = p->f->arena};
    yir_print_type(&s, yir_tdesc(p->f->types, inferred));
    return FAIL(p, l->type_at, E_IR_TYPE, "%s gives %s here", yir_opinfo(l->code)->name, s.text);
}

/* Ops without `@` come from this text, so that later diagnostics point into it. */
static int parse_op(struct parser *p)
{
    struct yir_func *f = p->f;
    struct op_line l = {.loc_name = ""};
    if (take_op_line(p, &l)) return -1;
    yir_set_loc(f, yir_scan_loc(&p->s, l.at), "");
    yir_ref r = yir_emit(f, l.code, l.src, l.nsrc, l.word);
    if (yir_kind(r) == YIR_NIL) return -1;
    struct yir_op *o = yir_opof(f, r);
    if (YIR_BREAKS(IR_TYPE, o->type.id != l.type.id)) return type_differs(p, &l, o->type);
    if (l.has_loc) o->loc = yir_set_loc(f, l.loc, l.loc_name);
    if (l.is_view) o->flags = YIR_F_VIEW;
    if (p->in_kernel && !l.is_view) o->kernel = f->nkernel;
    p->kernel_ops += p->in_kernel && !l.is_view;
    if (o->kernel && !l.is_inline) o->flags = YIR_F_STORED;
    p->place = yir_grow(f->arena, p->place, &p->cap_place, f->nop, sizeof *p->place);
    p->place[yir_index(r)] = l.place;
    return 0;
}

static bool output_named(const struct yir_func *f, const char *name, uint32_t *out)
{
    for (uint32_t i = 0; i < f->noutput; i++)
        if (!strcmp(f->output[i].name, name)) return *out = i, true;
    return false;
}

static int parse_output(struct parser *p, bool layer)
{
    struct yir_span w;
    yir_ref r;
    uint32_t i;
    if (YIR_BREAKS(IR_OUTPUT_INSIDE, p->in_kernel)) return SYNTAX(p, "the kernel is not closed");
    if (yir_take_name(&p->s, &w)) return -1;
    const char *name = keep(p, w);
    if (check_new(p, w, p->f->noutput, p->limits->max_ir_outputs, YIR_RAISE(max_ir_outputs),
                  output_named(p->f, name, &i)))
        return -1;
    if (yir_expect(&p->s, '=') || take_ref(p, &r)) return -1;
    yir_add_output(p->f, name, r, layer);
    return 0;
}

/* --- lines -------------------------------------------------------------------------------------------------- */

static int parse_line(struct parser *p)
{
    if (yir_at_eol(&p->s)) return 0;
    if (*p->s.p == '%') return parse_op(p);
    if (*p->s.p == '}') return parse_brace(p);
    struct yir_span w = yir_take(&p->s, yir_is_word_char);
    if (yir_span_is(w, "w")) return parse_weight(p);
    if (yir_span_is(w, "in")) return parse_in(p);
    if (yir_span_is(w, "kernel")) return parse_kernel(p);
    if (yir_span_is(w, "out")) return parse_output(p, false);
    if (yir_span_is(w, "layer")) return parse_output(p, true);
    if (yir_span_is(w, "buf")) return parse_buf(p);
    if (yir_span_is(w, "arena")) return parse_arena(p);
    if (yir_span_is(w, "model")) return parse_model(p);
    if (yir_span_is(w, "image")) return parse_image(p);
    return FAIL(p, w.s, E_IR_SYNTAX, "expected model, image, in, w, arena, buf, kernel, %%value, out or layer");
}

static int parse_lines(struct parser *p)
{
    while (p->s.p < p->s.end) {
        p->s.line = p->s.p;
        p->s.lineno++;
        if (parse_line(p)) return -1;
        if (YIR_BREAKS(IR_LINE_END, !yir_at_eol(&p->s))) return SYNTAX(p, "expected the end of the line");
        const char *nl = memchr(p->s.p, '\n', (size_t)(p->s.end - p->s.p));
        p->s.p = nl ? nl + 1 : p->s.end;
    }
    if (YIR_BREAKS(IR_KERNEL_END, p->in_kernel)) return SYNTAX(p, "the kernel is not closed");
    return 0;
}

static int resolve_outputs(struct parser *p)
{
    for (size_t i = 0; i < p->nawaited; i++) {
        const struct awaited *w = &p->awaited[i];
        if (YIR_HOLDS(IR_BUF_OUTPUT, output_named(p->f, w->name, &p->f->buf[w->buf].io))) continue;
        return yir_diag(p->f->diags, w->loc, E_IR_SYNTAX, "no output is named %s", w->name);
    }
    return 0;
}

struct yir_func *yir_parse(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const char *file,
                           const char *text, size_t len)
{
    struct parser p = {.s = {.diags = d, .p = text, .end = text + len, .line = text}, .limits = yir_limits_of(d)};
    p.s.file = yir_diag_file(d, file, text, len);
    p.f = yir_func_new(a, t, d, "");
    if (YIR_BREAKS(IR_SIZE, len > p.limits->max_ir)) {
        yir_diag(d, (struct yir_loc){.file = p.s.file}, E_LIMIT, "the text is longer than %llu bytes%s",
                 (unsigned long long)p.limits->max_ir, YIR_RAISE(max_ir));
        return NULL;
    }
    if (parse_lines(&p) || resolve_outputs(&p)) return NULL;
    if (p.f->nbuf) p.f->place = yir_grow(a, p.place, &p.cap_place, p.f->nop, sizeof *p.place);
    return p.f;
}
