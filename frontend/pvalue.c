#include "pvalue.h"

#include <string.h>

#include "check.h"
#include "rebuild.h"

enum { MAX_ELEMENTS = 4096 };

static struct fe_value *convert(struct fe_values *v, struct fe_obj *o, bool tensors, int depth);

int fe_values_count(struct fe_values *v, uint64_t n)
{
    v->nodes += n;
    if (FE_HOLDS(PT_NODES, v->nodes <= v->p->limits->max_nodes)) return 0;
    return FE_PICKLE_BAD(v->p, E_LIMIT, "the checkpoint holds more than %llu objects%s",
                         (unsigned long long)v->p->limits->max_nodes, YIR_RAISE(max_nodes));
}

static int count_text(struct fe_values *v, const struct fe_obj *o)
{
    return fe_values_count(v, o->u.str.n / FE_VALUES_TEXT);
}

int fe_values_check_keys(struct fe_values *v, struct fe_obj *dict)
{
    if (dict->checked) return 0;
    struct yir_arena_mark mark = yir_arena_mark(v->p->a);
    struct fe_strmap texts, ints;
    fe_strmap_init(&texts, v->p->a, dict->u.seq.n / 2);
    fe_strmap_init(&ints, v->p->a, 0);
    bool distinct = true;
    for (size_t i = 0; distinct && i + 1 < dict->u.seq.n; i += 2) {
        const struct fe_obj *k = dict->u.seq.item[i];
        size_t at = i;
        v->p->at = k->at;
        if (k->kind == FE_O_STR) {
            if (count_text(v, k) != 0) return -1;
            distinct = fe_strmap_add(&texts, k->u.str.s, k->u.str.n, &at);
        } else if (k->kind == FE_O_INT || k->kind == FE_O_BOOL) {
            distinct = fe_strmap_add(&ints, (const char *)&k->u.i, sizeof k->u.i, &at);
        }
    }
    yir_arena_reset(v->p->a, mark);
    dict->checked = distinct;
    return FE_HOLDS(PT_KEY_TWICE, distinct)
               ? 0
               : FE_PICKLE_BAD(v->p, E_PICKLE, "a key stands twice in a dict of the checkpoint");
}

const char *fe_obj_class(struct yir_arena *a, const struct fe_obj *o)
{
    const struct fe_obj *cls = o->kind == FE_O_OBJECT ? o->u.object.cls : o;
    if (cls->kind != FE_O_GLOBAL) return "";
    return yir_format(a, "%s.%s", cls->u.global.module, cls->u.global.name);
}

struct fe_obj *fe_obj_state(const struct fe_obj *o)
{
    struct fe_obj *s = o->kind == FE_O_OBJECT ? o->u.object.state : NULL;
    if (s && s->kind == FE_O_TUPLE && s->u.seq.n == 2) s = s->u.seq.item[0];
    return s && s->kind == FE_O_DICT ? s : NULL;
}

static struct fe_value *make(struct fe_values *v, enum fe_kind kind)
{
    struct fe_value *out = yir_alloc(v->p->a, sizeof *out);
    out->kind = kind;
    return out;
}

static struct fe_value *number(struct fe_values *v, enum fe_kind kind, int64_t i, double f)
{
    struct fe_value *out = make(v, kind);
    out->i = i;
    out->f = f;
    return out;
}

/* An element of a tensor or array. */
static struct fe_value *element(struct fe_values *v, enum yir_dtype t, const void *data, size_t at)
{
    double f = yir_dtype_load(t, data, at);
    if (yir_dtype_is_float(t)) return number(v, FE_FLOAT, 0, f);
    return number(v, t == YIR_BOOL ? FE_BOOL : FE_INT, f < 0x1p63 ? (int64_t)f : INT64_MAX, f);
}

static struct fe_value *opaque(struct fe_values *v, const char *s)
{
    struct fe_value *out = make(v, FE_OPAQUE);
    out->s = s;
    return out;
}

static struct fe_value *text(struct fe_values *v, const struct fe_obj *o)
{
    if (count_text(v, o) != 0) return NULL;
    if (memchr(o->u.str.s, 0, o->u.str.n)) return opaque(v, "str");
    struct fe_value *out = make(v, FE_STR);
    out->s = yir_strndup(v->p->a, o->u.str.s, o->u.str.n);
    return out;
}

static struct fe_value *list(struct fe_values *v, const struct fe_obj *o, bool tensors, int depth)
{
    struct fe_value *out = make(v, FE_LIST);
    if (fe_values_count(v, o->u.seq.n) != 0) return NULL;
    out->item = yir_alloc_n(v->p->a, o->u.seq.n, sizeof(struct fe_value *));
    for (; out->n < o->u.seq.n; out->n++) {
        out->item[out->n] = convert(v, o->u.seq.item[out->n], tensors, depth + 1);
        if (!out->item[out->n]) return NULL;
    }
    return out;
}

static struct fe_value *dict(struct fe_values *v, struct fe_obj *o, bool tensors, int depth)
{
    struct fe_value *out = make(v, FE_DICT);
    size_t n = o->u.seq.n / 2;
    if (fe_values_count(v, n) != 0 || fe_values_check_keys(v, o) != 0) return NULL;
    out->key = yir_alloc_n(v->p->a, n, sizeof(struct fe_value *));
    out->item = yir_alloc_n(v->p->a, n, sizeof(struct fe_value *));
    for (size_t i = 0; i < n; i++) {
        const struct fe_obj *k = o->u.seq.item[2 * i];
        if (k->kind != FE_O_STR && k->kind != FE_O_INT && k->kind != FE_O_BOOL) continue;
        struct fe_value *key =
            k->kind == FE_O_STR ? text(v, k) : number(v, FE_INT, k->u.i, (double)k->u.i);
        if (!key) return NULL;
        if (key->kind == FE_OPAQUE) continue;
        struct fe_value *item = convert(v, o->u.seq.item[2 * i + 1], tensors, depth + 1);
        if (!item) return NULL;
        out->key[out->n] = key;
        out->item[out->n++] = item;
    }
    return out;
}

/* The elements of a view in row-major order. */
static struct fe_value *elements(struct fe_values *v, const struct fe_view *t)
{
    struct fe_value *out = make(v, FE_LIST);
    if (fe_values_count(v, (uint64_t)t->numel) != 0) return NULL;
    out->item = yir_alloc_n(v->p->a, (size_t)t->numel, sizeof(struct fe_value *));
    const uint8_t *data = fe_storage_data(t->storage);
    for (int64_t e = 0; e < t->numel; e++) {
        int64_t at = t->offset, rest = e;
        for (int k = t->rank; k-- > 0; rest /= t->dim[k])
            at += rest % t->dim[k] * t->stride[k];
        out->item[out->n++] = element(v, t->dtype, data, (size_t)at);
    }
    return out;
}

static struct fe_value *tensor(struct fe_values *v, const struct fe_view *t, bool tensors)
{
    if (!tensors || t->numel > MAX_ELEMENTS) return opaque(v, "torch.Tensor");
    if (FE_BREAKS(PT_VALUE_TYPE, t->dtype == YIR_NDTYPE)) return opaque(v, "torch.Tensor");
    return elements(v, t);
}

/* Element types of numpy, as the first argument of its dtype names them. */
static const struct {
    const char *name;
    enum yir_dtype type;
} numpy_types[] = {
    {"f8", YIR_F64}, {"f4", YIR_F32}, {"f2", YIR_F16}, {"i8", YIR_I64},
    {"i4", YIR_I32}, {"i1", YIR_I8},  {"u1", YIR_U8},  {"b1", YIR_BOOL},
};

/* The dtype object of numpy: YIR_NDTYPE unless it is a plain little-endian one. */
static enum yir_dtype numpy_dtype(const struct fe_obj *o)
{
    if (o->kind != FE_O_OBJECT || !o->reduced || o->u.object.args->u.seq.n == 0) return YIR_NDTYPE;
    const struct fe_obj *state = o->u.object.state;
    if (state &&
        (state->kind != FE_O_TUPLE || state->u.seq.n < 2 || fe_obj_is_str(state->u.seq.item[1], ">")))
        return YIR_NDTYPE;
    for (size_t i = 0; i < YIR_COUNT(numpy_types); i++) {
        if (fe_obj_is_str(o->u.object.args->u.seq.item[0], numpy_types[i].name)) return numpy_types[i].type;
    }
    return YIR_NDTYPE;
}

/* scalar(dtype, bytes) of numpy's multiarray module, under its old and new path; else NULL. */
static struct fe_value *numpy_scalar(struct fe_values *v, const struct fe_obj *o)
{
    const struct fe_obj *cls = o->u.object.cls, *args = o->u.object.args;
    if (!o->reduced || cls->kind != FE_O_GLOBAL || strcmp(cls->u.global.name, "scalar") != 0) return NULL;
    if (strncmp(cls->u.global.module, "numpy.", 6) != 0 || args->u.seq.n != 2) return NULL;
    enum yir_dtype t = numpy_dtype(args->u.seq.item[0]);
    const struct fe_obj *raw = args->u.seq.item[1];
    if (FE_BREAKS(PT_SCALAR_TYPE, t == YIR_NDTYPE) || FE_BREAKS(PT_SCALAR_KIND, raw->kind != FE_O_BYTES) ||
        FE_BREAKS(PT_SCALAR_SIZE, raw->u.str.n != yir_dtype_size(t)))
        return NULL;
    return element(v, t, raw->u.str.s, 0);
}

/* Bags of options: their attributes are what counts. */
static bool is_namespace(const struct fe_obj *o)
{
    static const char *const names[] = {"IterableSimpleNamespace", "SimpleNamespace", "Namespace"};
    const struct fe_obj *cls = o->u.object.cls;
    for (size_t i = 0; cls->kind == FE_O_GLOBAL && i < YIR_COUNT(names); i++) {
        if (strcmp(cls->u.global.name, names[i]) == 0) return true;
    }
    return false;
}

static struct fe_value *object(struct fe_values *v, struct fe_obj *o, bool tensors, int depth)
{
    struct fe_value *scalar = numpy_scalar(v, o);
    if (scalar) return scalar;
    if (is_namespace(o) && fe_obj_state(o)) return dict(v, fe_obj_state(o), tensors, depth);
    const char *name = fe_obj_class(v->p->a, o);
    return opaque(v, *name ? name : "object");
}

static struct fe_value *convert(struct fe_values *v, struct fe_obj *o, bool tensors, int depth)
{
    v->p->at = o->at;
    if (FE_BREAKS(PT_VALUE_DEPTH, (uint64_t)depth > v->p->limits->max_value_depth)) {
        FE_PICKLE_BAD(v->p, E_LIMIT, "the checkpoint nests values more than %d deep%s", depth - 1,
                      YIR_RAISE(max_value_depth));
        return NULL;
    }
    switch ((enum fe_objkind)o->kind) {
    case FE_O_NONE:
        return make(v, FE_NONE);
    case FE_O_BOOL:
        return number(v, FE_BOOL, o->u.i, (double)o->u.i);
    case FE_O_INT:
        return number(v, FE_INT, o->u.i, (double)o->u.i);
    case FE_O_LONG:
        return opaque(v, "int");
    case FE_O_FLOAT:
        return number(v, FE_FLOAT, 0, o->u.f);
    case FE_O_STR:
        return text(v, o);
    case FE_O_BYTES:
        return opaque(v, "bytes");
    case FE_O_LIST:
    case FE_O_TUPLE:
    case FE_O_SET:
        return list(v, o, tensors, depth);
    case FE_O_DICT:
        return dict(v, o, tensors, depth);
    case FE_O_GLOBAL:
        return opaque(v, fe_obj_class(v->p->a, o));
    case FE_O_OBJECT:
        return object(v, o, tensors, depth);
    case FE_O_STORAGE:
        return opaque(v, "torch.Storage");
    case FE_O_TENSOR:
        return tensor(v, o->u.tensor, tensors);
    }
    YIR_BUG("object of kind %d", o->kind);
}

struct fe_value *fe_obj_value(struct fe_values *v, struct fe_obj *o, bool tensors)
{
    if (fe_values_count(v, 1) != 0) return NULL;
    return convert(v, o, tensors, 0);
}
