#include "ir.h"

#include <string.h>

/* Weight and input names to references; open addressing over their hashes. */
struct yir_names {
    struct entry {
        const char *name;
        yir_ref ref;
    } * slot;
    size_t n, cap; /* cap: a power of two */
};

static size_t hash_name(const char *s)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *s; s++) h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 29);
}

static struct entry *name_slot(const struct yir_names *t, const char *name)
{
    size_t i = hash_name(name) & (t->cap - 1);
    while (t->slot[i].name && strcmp(t->slot[i].name, name)) i = (i + 1) & (t->cap - 1);
    return &t->slot[i];
}

static void name_add(struct yir_func *f, const char *name, yir_ref r)
{
    struct yir_names *t = f->names;
    if (2 * (t->n + 1) > t->cap) {
        struct yir_names old = *t;
        t->cap = old.cap ? 2 * old.cap : 64;
        t->slot = yir_alloc_n(f->arena, t->cap, sizeof *t->slot);
        for (size_t i = 0; i < old.cap; i++)
            if (old.slot[i].name) *name_slot(t, old.slot[i].name) = old.slot[i];
    }
    struct entry *e = name_slot(t, name);
    YIR_ASSERT(!e->name);
    *e = (struct entry){name, r};
    t->n++;
}

struct yir_func *yir_func_new(struct yir_arena *a, struct yir_types *t, struct yir_diags *d, const char *name)
{
    struct yir_func *f = yir_alloc(a, sizeof *f);
    f->arena = a;
    f->types = t;
    f->diags = d;
    f->name = yir_strdup(a, name);
    f->image_div = 255;
    f->names = yir_alloc(a, sizeof *f->names);
    f->op = yir_grow(a, NULL, &f->cap_op, 1, sizeof *f->op);
    f->nop = 1;
    f->loc = yir_grow(a, NULL, &f->cap_loc, 1, sizeof *f->loc);
    f->loc[0].name = "";
    f->nloc = 1;
    return f;
}

yir_ref yir_add_input(struct yir_func *f, const char *name, yir_type ty)
{
    f->input = yir_grow(f->arena, f->input, &f->cap_input, f->ninput + 1u, sizeof *f->input);
    f->input[f->ninput] = (struct yir_input){yir_strdup(f->arena, name), ty};
    return yir_mkref(YIR_INP, f->ninput++);
}

yir_ref yir_keep_weight(struct yir_func *f, const struct yir_weight *w)
{
    yir_ref r = yir_add_weight(f, w->name, w->type, w->data);
    f->weight[yir_index(r)].origin = w->origin;
    f->weight[yir_index(r)].factor = w->factor;
    return r;
}

yir_ref yir_add_weight(struct yir_func *f, const char *name, yir_type ty, const void *data)
{
    f->weight = yir_grow(f->arena, f->weight, &f->cap_weight, f->nweight + 1u, sizeof *f->weight);
    f->weight[f->nweight] = (struct yir_weight){.name = yir_strdup(f->arena, name), .type = ty, .data = data};
    yir_ref r = yir_mkref(YIR_WGT, f->nweight++);
    name_add(f, f->weight[yir_index(r)].name, r);
    return r;
}

yir_ref yir_find_weight(const struct yir_func *f, const char *name)
{
    return f->names->cap ? name_slot(f->names, name)->ref : YIR_NONE;
}

void yir_add_output(struct yir_func *f, const char *name, yir_ref r, bool layer)
{
    f->output = yir_grow(f->arena, f->output, &f->cap_output, f->noutput + 1u, sizeof *f->output);
    f->output[f->noutput++] = (struct yir_output){yir_strdup(f->arena, name), r, layer};
}

uint32_t yir_set_loc(struct yir_func *f, struct yir_loc loc, const char *name)
{
    const struct yir_place_of *now = &f->loc[f->cur_loc];
    if (!memcmp(&now->loc, &loc, sizeof loc) && !strcmp(now->name, name)) return f->cur_loc;
    f->loc = yir_grow(f->arena, f->loc, &f->cap_loc, f->nloc + 1u, sizeof *f->loc);
    f->loc[f->nloc] = (struct yir_place_of){loc, yir_strdup(f->arena, name)};
    return f->cur_loc = f->nloc++;
}

static yir_ref append(struct yir_func *f, enum yir_code c, const yir_ref *src, int nsrc, const void *attr, yir_type ty)
{
    const struct yir_opinfo *info = yir_opinfo(c);
    f->op = yir_grow(f->arena, f->op, &f->cap_op, f->nop + 1u, sizeof *f->op);
    f->ref = yir_grow(f->arena, f->ref, &f->cap_ref, f->nref + (size_t)nsrc, sizeof *f->ref);
    f->word = yir_grow(f->arena, f->word, &f->cap_word, f->nword + (size_t)info->nwords + 1, sizeof *f->word);
    f->op[f->nop] = (struct yir_op){.code = (uint16_t)c,
                                    .nsrc = (uint8_t)nsrc,
                                    .type = ty,
                                    .src = f->nref,
                                    .attr = f->nword,
                                    .loc = f->cur_loc};
    memcpy(f->ref + f->nref, src, (size_t)nsrc * sizeof *src);
    if (info->nwords) memcpy(f->word + f->nword, attr, (size_t)info->nwords * sizeof *f->word);
    f->nref += (uint32_t)nsrc;
    f->nword += (uint32_t)info->nwords;
    return yir_mkref(YIR_VAL, f->nop++);
}

yir_ref yir_emit(struct yir_func *f, enum yir_code c, const yir_ref *src, int nsrc, const void *attr)
{
    int32_t dflt[16] = {0};
    YIR_ASSERT(nsrc >= 0 && yir_opinfo(c)->nwords <= (int)YIR_COUNT(dflt));
    for (int k = 0; k < nsrc; k++)
        if (yir_kind(src[k]) == YIR_NIL) return YIR_NONE;
    if (!attr) {
        yir_attr_defaults(c, dflt);
        attr = dflt;
    }
    yir_type ty = yir_infer(f, c, src, nsrc, attr, true);
    if (!ty.id) return YIR_NONE;
    return append(f, c, src, nsrc, attr, ty);
}

yir_type yir_typeof(const struct yir_func *f, yir_ref r)
{
    uint32_t i = yir_index(r);
    switch (yir_kind(r)) {
    case YIR_VAL: YIR_ASSERT(i && i < f->nop); return f->op[i].type;
    case YIR_WGT: YIR_ASSERT(i < f->nweight); return f->weight[i].type;
    case YIR_INP: YIR_ASSERT(i < f->ninput); return f->input[i].type;
    case YIR_NIL: break;
    }
    YIR_BUG("type of a reference to nothing");
}

const struct yir_tdesc *yir_desc(const struct yir_func *f, yir_ref r)
{
    return yir_tdesc(f->types, yir_typeof(f, r));
}

struct yir_func *yir_func_bare(const struct yir_func *old)
{
    struct yir_func *f = yir_func_new(old->arena, old->types, old->diags, old->name);
    f->image_div = old->image_div;
    f->image_bgr = old->image_bgr;
    for (uint32_t i = 0; i < old->ninput; i++) yir_add_input(f, old->input[i].name, old->input[i].type);
    f->loc = yir_grow(f->arena, f->loc, &f->cap_loc, old->nloc, sizeof *f->loc);
    memcpy(f->loc, old->loc, old->nloc * sizeof *f->loc);
    f->nloc = old->nloc;
    f->cur_loc = old->cur_loc;
    return f;
}

struct yir_func *yir_func_like(const struct yir_func *old)
{
    struct yir_func *f = yir_func_bare(old);
    for (uint32_t i = 0; i < old->nweight; i++) yir_keep_weight(f, &old->weight[i]);
    return f;
}

yir_ref yir_map(const yir_ref *map, yir_ref old)
{
    return yir_kind(old) == YIR_VAL ? map[yir_index(old)] : old;
}

yir_ref yir_copy_op(struct yir_func *f, const struct yir_func *old, uint32_t op, const yir_ref *map)
{
    const struct yir_op *o = &old->op[op];
    yir_ref src[64];
    for (int k = 0; k < o->nsrc; k++) src[k] = yir_map(map, yir_src(old, op, k));
    f->cur_loc = o->loc;
    yir_ref r = yir_emit(f, (enum yir_code)o->code, src, o->nsrc, yir_attrs(old, op));
    if (yir_kind(r) == YIR_NIL) return r;
    struct yir_op *n = yir_opof(f, r);
    n->flags = o->flags;
    n->kernel = o->kernel;
    return r;
}

void yir_copy_outputs(struct yir_func *f, const struct yir_func *old, const yir_ref *map)
{
    for (uint32_t i = 0; i < old->noutput; i++)
        yir_add_output(f, old->output[i].name, yir_map(map, old->output[i].ref), old->output[i].layer);
}

uint32_t *yir_uses(const struct yir_func *f, struct yir_arena *a)
{
    uint32_t *n = yir_alloc_n(a, f->nop, sizeof *n);
    for (uint32_t i = 1; i < f->nop; i++)
        for (int k = 0; k < f->op[i].nsrc; k++)
            if (yir_kind(yir_src(f, i, k)) == YIR_VAL) n[yir_index(yir_src(f, i, k))]++;
    for (uint32_t i = 0; i < f->noutput; i++)
        if (yir_kind(f->output[i].ref) == YIR_VAL) n[yir_index(f->output[i].ref)]++;
    return n;
}

struct yir_func *yir_retype(const struct yir_func *f, const yir_type *input_types)
{
    struct yir_func *n = yir_func_like(f);
    for (uint32_t i = 0; i < f->ninput; i++) n->input[i].type = input_types[i];
    yir_ref *map = yir_alloc_n(f->arena, f->nop, sizeof *map);
    for (uint32_t i = 1; i < f->nop; i++) {
        map[i] = yir_copy_op(n, f, i, map);
        if (yir_kind(map[i]) == YIR_NIL) return NULL;
    }
    yir_copy_outputs(n, f, map);
    return n;
}
