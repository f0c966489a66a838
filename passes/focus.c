/* A convolution of what s2d gives, when nothing else reads that, is a convolution of the map itself: kernel, stride and padding
 * times the factor, the weights moved to where their channel's pixel lies. The same products are summed, and the map is read
 * as rows of pixels. */
#include "walk.h"

#include <string.h>

enum { MOST_FACTOR = 4, MOST_KERNEL = 16 }; /* of s2d; of the convolution before it grows, its stride and padding too */

struct focus {
    struct rebuild r;
    const uint32_t *uses;
};

static uint32_t s2d_of(const struct focus *s, uint32_t op)
{
    const struct yir_func *f = s->r.old;
    if (f->op[op].code != YIR_conv2d || !pass_is(f, yir_src(f, op, 0), YIR_s2d)) return 0;
    const struct yir_a_conv *a = yir_attrs(f, op);
    uint32_t s2d = yir_index(yir_src(f, op, 0));
    const struct yir_tdesc *w = yir_desc(f, yir_src(f, op, 1));
    int32_t factor = ((const struct yir_a_factor *)yir_attrs(f, s2d))->factor;
    bool plain = a->groups == 1 && a->dil[0] == 1 && a->dil[1] == 1 && factor <= MOST_FACTOR && w->dim[2] <= MOST_KERNEL &&
                 w->dim[3] <= MOST_KERNEL;
    for (int i = 0; i < 2; i++) plain = plain && a->stride[i] <= MOST_KERNEL;
    for (int i = 0; i < 4; i++) plain = plain && a->pad[i] <= MOST_KERNEL;
    return plain && s->uses[s2d] == 1 && yir_kind(yir_src(f, op, 1)) == YIR_WGT ? s2d : 0;
}

/* [co, f*f*ci, kh, kw] -> [co, ci, kh*f, kw*f]; input channel (column offset, row offset, c). */
static void spread(const struct yir_tdesc *d, size_t size, int64_t f, const char *in, char *out)
{
    int64_t blocks = d->dim[1], ci = blocks / (f * f), kh = d->dim[2], kw = d->dim[3];
    for (int64_t o = 0; o < d->dim[0]; o++)
        for (int64_t b = 0; b < blocks; b++)
            for (int64_t t = 0; t < kh * kw; t++) {
                int64_t offset = b / ci, row = t / kw * f + offset % f, column = t % kw * f + offset / f;
                int64_t to = ((o * ci + b % ci) * kh * f + row) * kw * f + column;
                memcpy(out + (size_t)to * size, in + (size_t)((o * blocks + b) * kh * kw + t) * size, size);
            }
}

static yir_ref spread_weight(struct focus *s, const struct yir_weight *w, int64_t factor)
{
    struct yir_func *f = s->r.f;
    const struct yir_tdesc *from = yir_tdesc(f->types, w->type);
    struct yir_tdesc d = *from;
    size_t size = yir_dtype_size(d.dtype);
    char *data = w->data ? yir_alloc_n(f->arena, (size_t)yir_numel(&d), size) : NULL;
    if (data) spread(from, size, factor, w->data, data);
    d.dim[1] /= factor * factor;
    d.dim[2] *= factor;
    d.dim[3] *= factor;
    return yir_add_weight(f, pass_weight_name(f, w->name, "-spread"), yir_type_of(f->types, &d), data);
}

static void emit_spread(struct focus *s, uint32_t op, uint32_t s2d)
{
    const struct yir_func *f = s->r.old;
    struct yir_a_conv a = *(const struct yir_a_conv *)yir_attrs(f, op);
    int32_t factor = ((const struct yir_a_factor *)yir_attrs(f, s2d))->factor;
    yir_ref src[3];
    for (int i = 0; i < 2; i++) a.stride[i] *= factor;
    for (int i = 0; i < 4; i++) a.pad[i] *= factor;
    src[0] = pass_rebuild_src(&s->r, s2d, 0);
    src[1] = spread_weight(s, &f->weight[yir_index(yir_src(f, op, 1))], factor);
    for (int k = 2; k < f->op[op].nsrc; k++) src[k] = pass_rebuild_src(&s->r, op, k);
    pass_rebuild_emit(&s->r, op, YIR_conv2d, src, f->op[op].nsrc, &a);
}

int pass_focus(struct pass *p)
{
    const struct yir_func *f = p->in;
    struct focus s = {.uses = yir_uses(f, p->arena)};
    bool *gone = yir_alloc_n(p->arena, f->nop, sizeof *gone);
    pass_rebuild_begin(&s.r, p);
    for (uint32_t i = 1; i < f->nop; i++) gone[s2d_of(&s, i)] = true;
    for (uint32_t i = 1; i < f->nop; i++) {
        uint32_t s2d = s2d_of(&s, i);
        if (s2d) emit_spread(&s, i, s2d);
        else if (!gone[i]) pass_rebuild_copy(&s.r, i);
        if (s.r.failed) return -1;
    }
    return pass_rebuild_end(&s.r, p);
}
