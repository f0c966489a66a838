/* Gives the network a second way in: beside the normalised tensor `images`, the picture itself as bytes,
 * `input_u8`. Whichever the caller binds is used. Changes nothing when `input_u8` is there, or `images` is
 * no batch of pictures. */
#include "walk.h"

#include <string.h>

static const struct yir_tdesc *picture_input(const struct yir_func *f, yir_ref *out)
{
    const struct yir_tdesc *found = NULL;
    for (uint32_t i = 0; i < f->ninput; i++) {
        const struct yir_tdesc *d = yir_tdesc(f->types, f->input[i].type);
        if (!strcmp(f->input[i].name, "input_u8")) return NULL;
        if (strcmp(f->input[i].name, "images") || d->rank != 4 || d->dim[1] != 3 ||
            !yir_dtype_is_float(d->dtype))
            continue;
        *out = yir_mkref(YIR_INP, i);
        found = d;
    }
    return found;
}

static yir_ref cast_to(struct yir_func *f, yir_ref x, yir_type ty)
{
    const struct yir_tdesc *d = yir_tdesc(f->types, ty);
    struct yir_a_cast a = {(int32_t)d->dtype, (int32_t)d->layout};
    return yir_typeof(f, x).id == ty.id ? x : yir_emit(f, YIR_cast, &x, 1, &a);
}

/* The value that stands for `images` from now on; of its type, so that every reader takes it. */
static yir_ref emit_either(struct yir_func *f, yir_ref images, const struct yir_tdesc *d)
{
    struct yir_tdesc bytes = {.dtype = YIR_U8,
                              .layout = yir_default_layout(4),
                              .rank = 4,
                              .dim = {d->dim[0], d->dim[2], d->dim[3], 3}};
    struct yir_a_image a = {f->image_div, f->image_bgr, YIR_F32};
    f->cur_loc = 0;
    yir_ref u8 = yir_add_input(f, "input_u8", yir_type_of(f->types, &bytes));
    yir_ref picture = yir_emit(f, YIR_image, &u8, 1, &a);
    yir_ref tensor = cast_to(f, images, yir_typeof(f, picture));
    yir_ref src[2] = {picture, tensor};
    yir_ref either = yir_emit(f, YIR_either, src, 2, NULL);
    return cast_to(f, either, yir_typeof(f, images));
}

int pass_inputs(struct pass *p)
{
    yir_ref images = YIR_NONE;
    const struct yir_tdesc *d = picture_input(p->in, &images);
    if (!d) return 0;
    struct rebuild r;
    pass_rebuild_begin(&r, p);
    yir_ref value = emit_either(r.f, images, d);
    for (uint32_t i = 1; i < p->in->nop; i++) {
        yir_ref x = pass_rebuild_copy(&r, i);
        if (yir_kind(x) == YIR_NIL) return -1;
        const struct yir_op *o = yir_opof(r.f, x);
        for (int k = 0; k < o->nsrc; k++)
            if (yir_same(r.f->ref[o->src + (uint32_t)k], images)) r.f->ref[o->src + (uint32_t)k] = value;
    }
    yir_copy_outputs(r.f, p->in, r.map);
    for (uint32_t i = 0; i < r.f->noutput; i++)
        if (yir_same(r.f->output[i].ref, images)) r.f->output[i].ref = value;
    return pass_rebuild_done(&r, p);
}
