/* Canonical text of a function; the grammar stands in parse.c. Same function, same bytes: nothing here depends on
 * addresses, hash order or the locale. */
#include "ir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const buf_kind[] = {
    [YIR_BUF_ARENA] = "arena",
    [YIR_BUF_IN] = "in",
    [YIR_BUF_OUT] = "out",
};

bool yir_is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

/* Names of models and modules come from users' files; the text form has no quotes, so other bytes become '_'. Names
 * of inputs, weights and outputs are held to the same set by the verifier. */
static void put_name(struct yir_str *s, const char *name)
{
    for (const char *p = name; *p; p++) yir_str_put(s, yir_is_name_char(*p) ? p : "_", 1);
}

/* The fewest digits that give back the same float (9 always do); a locale's decimal comma is undone at the end. */
static void put_float(struct yir_str *s, float v)
{
    char buf[32];
    int n = 0;
    for (int digits = 1; digits <= 9; digits++) {
        n = snprintf(buf, sizeof buf, "%.*g", digits, (double)v);
        if (strtof(buf, NULL) == v) break;
    }
    for (int i = 0; i < n; i++)
        if (!strchr("0123456789+-einfa", buf[i])) buf[i] = '.';
    yir_str_put(s, buf, (size_t)n);
}

static void put_word(struct yir_str *s, char kind, int32_t word)
{
    float v;
    switch (kind) {
    case 'f':
        memcpy(&v, &word, sizeof v);
        put_float(s, v);
        return;
    case 'd': yir_str_fmt(s, "%s", yir_dtype_name((enum yir_dtype)word)); return;
    case 'l': yir_str_fmt(s, "%s", word == YIR_ROW ? "row" : yir_layout_name((enum yir_layout)word)); return;
    default: yir_str_fmt(s, "%" PRId32, word); return;
    }
}

/* ` {stride=2,2 pad=1,1,1,1}`; fields at their defaults are left out. */
static void put_attrs(struct yir_str *s, const struct yir_opinfo *info, const int32_t *word)
{
    const char *sep = " {";
    for (int i = 0; i < info->nattr; i++) {
        const struct yir_attr *at = &info->attr[i];
        const int32_t *w = word + at->at;
        if (memcmp(w, at->dflt, at->n * sizeof *w) == 0) continue;
        yir_str_fmt(s, "%s%s=", sep, at->name);
        for (int k = 0; k < at->n; k++) {
            if (k) yir_str_put(s, ",", 1);
            put_word(s, at->kind, w[k]);
        }
        sep = " ";
    }
    if (sep[1] == 0) yir_str_put(s, "}", 1);
}

static void put_ref(struct yir_str *s, const struct yir_func *f, yir_ref r)
{
    switch (yir_kind(r)) {
    case YIR_VAL: yir_str_fmt(s, "%%%u", yir_index(r)); return;
    case YIR_WGT: yir_str_fmt(s, "$%s", f->weight[yir_index(r)].name); return;
    case YIR_INP: yir_str_fmt(s, "%%%s", f->input[yir_index(r)].name); return;
    default: yir_str_fmt(s, "nil"); return;
    }
}

void yir_print_type(struct yir_str *s, const struct yir_tdesc *d)
{
    yir_str_fmt(s, "%s[", yir_dtype_name(d->dtype));
    for (int i = 0; i < d->rank; i++) yir_str_fmt(s, "%s%" PRId64, i ? "," : "", d->dim[i]);
    yir_str_put(s, "]", 1);
    if (d->layout != YIR_ROW) yir_str_fmt(s, " %s", yir_layout_name(d->layout));
}

static bool same_strides(const int64_t *a, const int64_t *b, int rank)
{
    return memcmp(a, b, (size_t)rank * sizeof *a) == 0;
}

/* ` -> b3+64 ld=384`: dense strides are left out; those of a run of channels inside wider pixels (an NHWC value, pixel
 * stride ld) are one number; all others are listed. */
static void put_place(struct yir_str *s, const struct yir_tdesc *d, const struct yir_place *p)
{
    yir_str_fmt(s, " -> b%u", p->buf - 1);
    if (p->offset) yir_str_fmt(s, "+%" PRIu64, p->offset);
    int64_t dense[YIR_MAX_RANK] = {0}, wide[YIR_MAX_RANK] = {0};
    yir_dense_strides(d, dense);
    if (same_strides(p->stride, dense, d->rank)) return;
    if (d->layout == YIR_NHWC && yir_pixel_strides(d, p->stride[3], wide) && same_strides(p->stride, wide, 4)) {
        yir_str_fmt(s, " ld=%" PRId64, p->stride[3]);
        return;
    }
    yir_str_fmt(s, " s=");
    for (int i = 0; i < d->rank; i++) yir_str_fmt(s, "%s%" PRId64, i ? "," : "", p->stride[i]);
}

static void put_loc(struct yir_str *s, const struct yir_place_of *at)
{
    if (!at->loc.line && !at->name[0]) return;
    yir_str_fmt(s, " @%u:%u", at->loc.line, at->loc.col);
    if (!at->name[0]) return;
    yir_str_put(s, " ", 1);
    put_name(s, at->name);
}

void yir_print_op(struct yir_str *s, const struct yir_func *f, uint32_t op, unsigned flags)
{
    const struct yir_op *o = &f->op[op];
    const struct yir_opinfo *info = yir_opinfo((enum yir_code)o->code);
    yir_str_fmt(s, "%%%u = %s", op, info->name);
    for (int k = 0; k < o->nsrc; k++) {
        yir_str_fmt(s, k ? ", " : " ");
        put_ref(s, f, yir_src(f, op, k));
    }
    put_attrs(s, info, yir_attrs(f, op));
    yir_str_fmt(s, " : ");
    const struct yir_tdesc *d = yir_tdesc(f->types, o->type);
    yir_print_type(s, d);
    if (o->flags & YIR_F_VIEW) yir_str_fmt(s, " view");
    if (o->kernel && !(o->flags & YIR_F_STORED)) yir_str_fmt(s, " inline");
    if (f->place && f->place[op].buf) put_place(s, d, &f->place[op]);
    if (flags & YIR_PRINT_LOCS) put_loc(s, &f->loc[o->loc]);
}

static void put_buf(struct yir_str *s, const struct yir_func *f, uint32_t i)
{
    const struct yir_buf *b = &f->buf[i];
    yir_str_fmt(s, "buf b%u %s", i, buf_kind[b->kind]);
    if (b->kind == YIR_BUF_IN) yir_str_fmt(s, " %%%s", f->input[b->io].name);
    if (b->kind == YIR_BUF_OUT) yir_str_fmt(s, " %s", f->output[b->io].name);
    yir_str_fmt(s, " bytes=%" PRIu64, b->bytes);
    if (b->offset || b->last) yir_str_fmt(s, " at=%" PRIu64, b->offset);
    if (b->first || b->last) yir_str_fmt(s, " live=%u..%u", b->first, b->last);
    yir_str_put(s, "\n", 1);
}

static void put_kernel_head(struct yir_str *s, const struct yir_func *f, uint32_t kernel)
{
    const struct yir_kernel *k = &f->kernel[kernel - 1];
    yir_str_fmt(s, "kernel k%u", kernel);
    if (k->family[0]) yir_str_fmt(s, " family=%s", k->family);
    if (k->knobs[0]) yir_str_fmt(s, " %s", k->knobs);
    yir_str_fmt(s, " {\n");
}

/* One past the last op of each kernel (index kernel number), so that views between a kernel's ops stay inside its
 * block. */
static uint32_t *kernel_ends(const struct yir_func *f, struct yir_arena *a)
{
    uint32_t *end = yir_alloc_n(a, (size_t)f->nkernel + 1, sizeof *end);
    for (uint32_t i = 1; i < f->nop; i++) {
        YIR_ASSERT(f->op[i].kernel <= f->nkernel);
        end[f->op[i].kernel] = i + 1;
    }
    return end;
}

static void put_ops(struct yir_str *s, const struct yir_func *f, unsigned flags)
{
    uint32_t *end = kernel_ends(f, s->arena);
    uint32_t open = 0;
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t k = f->op[i].kernel;
        if (open && (i >= end[open] || (k && k != open) || (!k && !(f->op[i].flags & YIR_F_VIEW)))) {
            yir_str_put(s, "}\n", 2);
            open = 0;
        }
        if (k && k != open) put_kernel_head(s, f, open = k);
        if (open) yir_str_put(s, "    ", 4);
        yir_print_op(s, f, i, flags);
        yir_str_put(s, "\n", 1);
    }
    if (open) yir_str_put(s, "}\n", 2);
}

static void put_head(struct yir_str *s, const struct yir_func *f)
{
    if (f->name[0]) {
        yir_str_fmt(s, "model ");
        put_name(s, f->name);
        yir_str_put(s, "\n", 1);
    }
    if (f->image_div == 255.0f && !f->image_bgr) return;
    yir_str_fmt(s, "image div=");
    put_float(s, f->image_div);
    yir_str_fmt(s, " bgr=%d\n", f->image_bgr);
}

static void put_named(struct yir_str *s, const struct yir_func *f, const char *head, const char *name,
                      yir_type ty)
{
    yir_str_fmt(s, "%s%s : ", head, name);
    yir_print_type(s, yir_tdesc(f->types, ty));
    yir_str_put(s, "\n", 1);
}

void yir_print(struct yir_str *s, const struct yir_func *f, unsigned flags)
{
    yir_str_put(s, "", 0); /* text even when there is nothing to print */
    put_head(s, f);
    for (uint32_t i = 0; i < f->ninput; i++) put_named(s, f, "in  %", f->input[i].name, f->input[i].type);
    for (uint32_t i = 0; i < f->nweight; i++) put_named(s, f, "w   $", f->weight[i].name, f->weight[i].type);
    if (f->arena_size) yir_str_fmt(s, "arena bytes=%" PRIu64 "\n", f->arena_size);
    for (uint32_t i = 0; i < f->nbuf; i++) put_buf(s, f, i);
    put_ops(s, f, flags);
    for (uint32_t i = 0; i < f->noutput; i++) {
        const struct yir_output *o = &f->output[i];
        yir_str_fmt(s, "%s %s = ", o->layer ? "layer" : "out", o->name);
        put_ref(s, f, o->ref);
        yir_str_put(s, "\n", 1);
    }
}
