/* Half precision undone in a fused function, to compare the two value by value. */
#include "walk.h"

#include <string.h>

static enum yir_dtype widened(enum yir_dtype t)
{
    return t == YIR_F16 || t == YIR_BF16 ? YIR_F32 : t;
}

/* The weight that the pass `precision` made f->weight[i] of, which stands before it under the name that the new one begins with. */
static yir_ref origin(const struct yir_func *f, uint32_t i)
{
    const struct yir_weight *w = &f->weight[i];
    struct yir_tdesc d = *yir_tdesc(f->types, w->type);
    d.dtype = YIR_F32;
    const yir_type type = yir_type_of(f->types, &d);
    for (uint32_t k = 0; k < i; k++) {
        size_t n = strlen(f->weight[k].name);
        const char *rest = w->name + n;
        if (f->weight[k].type.id == type.id && !strncmp(f->weight[k].name, w->name, n) &&
            (!strncmp(rest, "-f16", 4) || !strncmp(rest, "-bf16", 5)))
            return yir_mkref(YIR_WGT, k);
    }
    return yir_mkref(YIR_WGT, i);
}

static yir_ref operand(struct yir_func *f, const yir_ref *map, yir_ref old)
{
    if (yir_kind(old) != YIR_WGT || yir_desc(f, old)->dtype == widened(yir_desc(f, old)->dtype)) return yir_map(map, old);
    return origin(f, yir_index(old));
}

static yir_ref emit(struct yir_func *f, const struct yir_func *old, uint32_t op, const yir_ref *map)
{
    const struct yir_op *o = &old->op[op];
    union {
        struct yir_a_cast cast;
        struct yir_a_image image;
    } a;
    const void *attr = yir_attrs(old, op);
    yir_ref src[64];
    for (int k = 0; k < o->nsrc; k++) src[k] = operand(f, map, yir_src(old, op, k));
    if (o->code == YIR_cast) {
        a.cast = *(const struct yir_a_cast *)attr;
        a.cast.dtype = (int32_t)widened((enum yir_dtype)a.cast.dtype);
        attr = &a.cast;
    } else if (o->code == YIR_image) {
        a.image = *(const struct yir_a_image *)attr;
        a.image.dtype = (int32_t)widened((enum yir_dtype)a.image.dtype);
        attr = &a.image;
    }
    f->cur_loc = o->loc;
    return yir_emit(f, (enum yir_code)o->code, src, o->nsrc, attr);
}

struct yir_func *pass_widened(const struct yir_func *old)
{
    struct yir_func *f = yir_func_like(old);
    yir_ref *map = yir_alloc_n(f->arena, old->nop, sizeof *map);
    for (uint32_t i = 1; i < old->nop; i++) {
        map[i] = emit(f, old, i, map);
        if (yir_kind(map[i]) == YIR_NIL) return NULL;
        struct yir_op *o = yir_opof(f, map[i]);
        o->kernel = old->op[i].kernel;
        o->flags = old->op[i].flags;
    }
    f->kernel = yir_grow(f->arena, f->kernel, &f->cap_kernel, old->nkernel, sizeof *f->kernel);
    memcpy(f->kernel, old->kernel, old->nkernel * sizeof *f->kernel);
    f->nkernel = old->nkernel;
    yir_copy_outputs(f, old, map);
    return f;
}
