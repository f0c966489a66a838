#include "engine.h"

#include <stdlib.h>
#include <string.h>

#include "fast.h"

/* --- which kernels ------------------------------------------------------------------------------------------ */

struct walk {
    const struct yir_func *f;
    uint32_t op, kernel, seen; /* the op that is looked at; of the kernel; ops that were */
    struct cg_engine_work *w;
};

static enum yir_code code_of(const struct walk *k)
{
    return (enum yir_code)k->f->op[k->op].code;
}

/* To an operand that this kernel computes. */
static bool step_down(struct walk *k, int operand)
{
    yir_ref r = yir_src(k->f, k->op, operand);
    if (yir_kind(r) != YIR_VAL || cg_in_memory(k->f, k->kernel, r)) return false;
    k->op = yir_index(r);
    k->seen++;
    return true;
}

/* What is not stored is not rounded. */
static bool skip_cast(struct walk *k)
{
    return code_of(k) != YIR_cast || step_down(k, 0);
}

/* An operand that lies in memory, perhaps in another type than it is added in; NIL: it does not. *casts: ops on the way. */
static yir_ref stored_operand(const struct walk *k, int operand, uint32_t *casts)
{
    yir_ref r = yir_src(k->f, k->op, operand);
    *casts = 0;
    if (yir_kind(r) == YIR_VAL && !cg_in_memory(k->f, k->kernel, r) && yir_opof(k->f, r)->code == YIR_cast) {
        r = yir_src(k->f, yir_index(r), 0);
        *casts = 1;
    }
    return yir_kind(r) == YIR_VAL && cg_in_memory(k->f, k->kernel, r) ? r : YIR_NONE;
}

/* One of both lies in memory. */
static bool take_added(struct walk *k)
{
    if (code_of(k) != YIR_add) return true;
    for (int i = 0; i < 2; i++) {
        uint32_t casts;
        k->w->added = stored_operand(k, 1 - i, &casts);
        if (yir_kind(k->w->added) == YIR_NIL || !step_down(k, i)) continue;
        k->seen += casts;
        return skip_cast(k);
    }
    return false;
}

static bool take_activation(struct walk *k)
{
    enum yir_code c = code_of(k);
    k->w->conv.activation = c == YIR_silu ? YM_ACT_SILU : c == YIR_relu ? YM_ACT_RELU : c == YIR_sigmoid ? YM_ACT_SIGMOID : YM_ACT_NONE;
    return !k->w->conv.activation || (step_down(k, 0) && skip_cast(k));
}

static uint32_t count_ops(const struct yir_func *f, uint32_t first, uint32_t last)
{
    uint32_t n = 0;
    for (uint32_t i = first; i <= last; i++) n += f->op[i].kernel == f->op[last].kernel;
    return n;
}

/* --- maps --------------------------------------------------------------------------------------------------- */

enum { ALIGN = 16 };

static uint64_t address(const struct yir_func *f, yir_ref r)
{
    const struct yir_place *p = &f->place[yir_index(r)];
    return f->buf[p->buf - 1].offset + p->offset;
}

/* A placed map in the arena that begins at a multiple of 16 bytes, as its pixels do where channels are read by eights. */
static bool read_map(const struct yir_func *f, yir_ref r, enum yir_dtype dtype, uint32_t size[3], uint64_t stride[3])
{
    const struct yir_tdesc *d = yir_desc(f, r);
    if (yir_kind(r) != YIR_VAL || d->rank != 4 || d->dtype != dtype || d->layout != YIR_NHWC || !cg_adjacent(f, r)) return false;
    const struct yir_place *p = &f->place[yir_index(r)];
    if (!p->buf || f->buf[p->buf - 1].kind != YIR_BUF_ARENA || address(f, r) % ALIGN) return false;
    if (d->dim[1] % 8 == 0 && p->stride[3] * (int64_t)yir_dtype_size(dtype) % ALIGN) return false;
    for (int i = 0; i < 3; i++) {
        if (d->dim[1 + i] > YM_MAX_SIDE || p->stride[i ? 1 + i : 0] < 0) return false;
        size[i] = (uint32_t)d->dim[1 + i];
        stride[i] = (uint64_t)p->stride[i ? 1 + i : 0];
    }
    return true;
}

/* What is added must not be where the results go. */
static bool is_apart(const struct yir_func *f, yir_ref a, yir_ref b, uint64_t bytes)
{
    uint64_t x = address(f, a), y = address(f, b);
    if (f->place[yir_index(a)].buf == f->place[yir_index(b)].buf) return x != y;
    return x >= y + bytes || y >= x + bytes;
}

static bool read_maps(const struct yir_func *f, struct cg_engine_work *w)
{
    struct ym_conv *c = &w->conv;
    enum yir_dtype in = yir_desc(f, w->x)->dtype, out = yir_desc(f, w->out)->dtype;
    uint32_t size[3];
    if ((in != YIR_F16 && in != YIR_BF16) || (out != in && out != YIR_F32)) return false;
    c->dtype = (uint8_t)in; /* modules have the IR's numbers */
    c->out_dtype = (uint8_t)out;
    if (!read_map(f, w->x, in, c->x, c->x_stride) || !read_map(f, w->out, out, c->out, c->out_stride)) return false;
    c->added = yir_kind(w->added) != YIR_NIL;
    if (!c->added) return true;
    return read_map(f, w->added, in, size, c->added_stride) && !memcmp(size, c->out, sizeof size) &&
           is_apart(f, w->added, w->out, c->out_stride[0] * c->images * sizeof(float));
}

static bool read_weights(const struct yir_func *f, uint32_t op, struct cg_engine_work *w)
{
    w->weights = yir_src(f, op, 1);
    w->bias = f->op[op].nsrc == 3 ? yir_src(f, op, 2) : YIR_NONE;
    w->conv.biased = yir_kind(w->bias) != YIR_NIL;
    if (yir_kind(w->weights) != YIR_WGT || yir_desc(f, w->weights)->dtype != yir_desc(f, w->x)->dtype) return false;
    return !w->conv.biased || (yir_kind(w->bias) == YIR_WGT && yir_desc(f, w->bias)->dtype == YIR_F32);
}

/* Sizes of kernel, stride and so on. */
static bool read_window(const struct yir_func *f, uint32_t op, struct ym_conv *c)
{
    const struct yir_a_conv *a = yir_attrs(f, op);
    const struct yir_tdesc *w = yir_desc(f, yir_src(f, op, 1));
    for (int i = 0; i < 2; i++) {
        int64_t all[] = {w->dim[2 + i], a->stride[i], a->dil[i], a->pad[i], a->pad[2 + i]};
        for (size_t k = 0; k < YIR_COUNT(all); k++)
            if (all[k] < 0 || all[k] > YM_MAX_WINDOW) return false;
        c->kernel[i] = (uint32_t)all[0];
        c->stride[i] = (uint32_t)all[1];
        c->dilation[i] = (uint32_t)all[2];
        c->before[i] = (uint32_t)all[3];
        c->after[i] = (uint32_t)all[4];
    }
    return a->groups == 1;
}

bool cg_engine_work(const struct yir_func *f, uint32_t first, uint32_t last, int images, struct cg_engine_work *out)
{
    struct walk k = {.f = f, .op = last, .kernel = f->op[last].kernel, .seen = 1, .w = out};
    *out = (struct cg_engine_work){.conv.images = (uint32_t)images, .out = yir_mkref(YIR_VAL, last)};
    if (!skip_cast(&k) || !take_added(&k) || !take_activation(&k)) return false;
    if (code_of(&k) != YIR_conv2d || k.seen != count_ops(f, first, last)) return false;
    out->x = yir_src(f, k.op, 0);
    if (!cg_in_memory(f, k.kernel, out->x) || yir_kind(out->x) != YIR_VAL) return false;
    return read_weights(f, k.op, out) && read_window(f, k.op, &out->conv) && read_maps(f, out);
}

/* --- text --------------------------------------------------------------------------------------------------- */

const char *cg_engine_text(struct yir_arena *a, const struct cg_engine *e)
{
    struct yir_str s = {.arena = a};
    yir_str_fmt(&s, "cudnn engine=%u space=%llu", e->number, (unsigned long long)e->space);
    for (uint32_t i = 0; i < e->nknob; i++) yir_str_fmt(&s, " %u=%d", e->knob[i].type, e->knob[i].value);
    return s.text;
}

/* A decimal number after a word; false: it is not there, or not between the two. */
static bool read_number(const char **at, const char *word, long long low, long long high, long long *out)
{
    size_t n = strlen(word);
    char *end;
    if (strncmp(*at, word, n)) return false;
    const char *digits = *at + n, *first = *digits == '-' ? digits + 1 : digits;
    if (*first < '0' || *first > '9' || strspn(first, "0123456789") > 18) return false;
    *out = strtoll(digits, &end, 10);
    *at = end;
    return *out >= low && *out <= high;
}

static bool has_knob(const struct cg_engine *e, long long type)
{
    for (uint32_t i = 0; i < e->nknob; i++)
        if (e->knob[i].type == type) return true;
    return false;
}

bool cg_engine_read(const char *text, const char **end, struct cg_engine *out)
{
    long long number, space, type, value;
    *out = (struct cg_engine){0};
    if (!read_number(&text, "cudnn engine=", 0, INT32_MAX, &number) || !read_number(&text, " space=", 0, INT64_MAX, &space)) return false;
    out->number = (uint32_t)number;
    out->space = (uint64_t)space;
    while (*text == ' ') {
        if (!read_number(&text, " ", 0, INT32_MAX, &type) || !read_number(&text, "=", INT32_MIN, INT32_MAX, &value)) return false;
        if (out->nknob == YM_MAX_KNOBS || has_knob(out, type)) return false;
        out->knob[out->nknob++] = (struct ym_knob){(uint32_t)type, (int32_t)value};
    }
    *end = text;
    return true;
}
