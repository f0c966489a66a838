#include "rebuild.h"

#include <string.h>

#include "check.h"

enum { MAX_KEY = 64 };

#define BAD(p, ...)        FE_PICKLE_BAD(p, E_PICKLE, __VA_ARGS__)
#define BAD_TENSOR(p, ...) FE_PICKLE_BAD(p, E_TENSOR, __VA_ARGS__)

/* Storage classes and the names of their element types. YIR_NDTYPE: known, so that sizes can be checked, but
 * not read. */
struct element {
    const char *storage, *dtype;
    enum yir_dtype type;
    unsigned size;
};
static const struct element elements[] = {
    {"FloatStorage", "float32", YIR_F32, 4},
    {"HalfStorage", "float16", YIR_F16, 2},
    {"BFloat16Storage", "bfloat16", YIR_BF16, 2},
    {"DoubleStorage", "float64", YIR_F64, 8},
    {"LongStorage", "int64", YIR_I64, 8},
    {"IntStorage", "int32", YIR_I32, 4},
    {"CharStorage", "int8", YIR_I8, 1},
    {"ByteStorage", "uint8", YIR_U8, 1},
    {"BoolStorage", "bool", YIR_BOOL, 1},
    {"UntypedStorage", "", YIR_NDTYPE, 1},
    {"ShortStorage", "int16", YIR_NDTYPE, 2},
    {"ComplexFloatStorage", "complex64", YIR_NDTYPE, 8},
    {"ComplexDoubleStorage", "complex128", YIR_NDTYPE, 16},
    {"QInt8Storage", "qint8", YIR_NDTYPE, 1},
    {"QUInt8Storage", "quint8", YIR_NDTYPE, 1},
    {"QInt32Storage", "qint32", YIR_NDTYPE, 4},
    {"", "uint16", YIR_NDTYPE, 2},
    {"", "uint32", YIR_NDTYPE, 4},
    {"", "uint64", YIR_NDTYPE, 8},
    {"", "complex32", YIR_NDTYPE, 4},
    {"", "float8_e4m3fn", YIR_NDTYPE, 1},
    {"", "float8_e5m2", YIR_NDTYPE, 1},
    {"", "float8_e4m3fnuz", YIR_NDTYPE, 1},
    {"", "float8_e5m2fnuz", YIR_NDTYPE, 1},
    {"", "float8_e8m0fnu", YIR_NDTYPE, 1},
};

/* A callable that has a meaning: number of arguments and what it makes. */
struct fe_callable {
    const char *module, *name;
    size_t least, most;
    struct fe_obj *(*run)(struct fe_pickle *p, struct fe_obj *const *arg, size_t n);
};

static bool is_int(const struct fe_obj *o)
{
    return o->kind == FE_O_INT;
}

static bool is_seq(const struct fe_obj *o)
{
    return o->kind == FE_O_LIST || o->kind == FE_O_TUPLE;
}

/* Accounts for going through n items. */
static bool charge(struct fe_pickle *p, uint64_t n)
{
    p->copied += n;
    if (FE_HOLDS(PKL_CHARGE, p->copied <= p->limits->max_ops)) return true;
    FE_PICKLE_BAD(p, E_LIMIT, "the calls of the pickle go through more than %llu items%s",
                  (unsigned long long)p->limits->max_ops, YIR_RAISE(max_ops));
    return false;
}

/* Storages. */

const uint8_t *fe_storage_data(const struct fe_storage *s)
{
    return s->root ? fe_storage_data(s->root) + (uint64_t)s->from * s->itemsize : s->data;
}

static const struct element *storage_element(const struct fe_obj *cls)
{
    static const char *const modules[] = {"torch", "torch.storage", "torch.cuda"};
    if (cls->kind != FE_O_GLOBAL) return NULL;
    bool torch = false;
    for (size_t i = 0; i < YIR_COUNT(modules); i++)
        torch |= strcmp(cls->u.global.module, modules[i]) == 0;
    for (size_t i = 0; torch && i < YIR_COUNT(elements); i++) {
        if (*elements[i].storage && strcmp(elements[i].storage, cls->u.global.name) == 0) return &elements[i];
    }
    return NULL;
}

static bool key_ok(const struct fe_obj *key)
{
    if (FE_BREAKS(PID_KEY_KIND, key->kind != FE_O_STR)) return false;
    if (FE_BREAKS(PID_KEY_LENGTH, key->u.str.n == 0 || key->u.str.n > MAX_KEY)) return false;
    for (size_t i = 0; i < key->u.str.n; i++) {
        if (FE_BREAKS(PID_KEY_DIGITS, key->u.str.s[i] < '0' || key->u.str.s[i] > '9')) return false;
    }
    return true;
}

/* The storage of that key, new or seen before with the same type and size. */
static struct fe_storage *intern(struct fe_pickle *p, const struct fe_obj *key, const struct element *e,
                                 int64_t numel)
{
    size_t i = p->nstorage;
    if (!p->keys.slot) fe_strmap_init(&p->keys, p->a, 256);
    if (!fe_strmap_add(&p->keys, key->u.str.s, key->u.str.n, &i)) {
        struct fe_storage *old = p->storage[i];
        if (FE_HOLDS(PID_ONE_TYPE, strcmp(old->type_name, e->storage) == 0) &&
            FE_HOLDS(PID_ONE_SIZE, old->numel == numel))
            return old;
        BAD_TENSOR(p, "storage %.*s has two types or sizes", (int)key->u.str.n, key->u.str.s);
        return NULL;
    }
    struct fe_storage *s = yir_alloc(p->a, sizeof *s);
    *s = (struct fe_storage){.key = key->u.str.s,
                             .key_len = key->u.str.n,
                             .type_name = e->storage,
                             .dtype = e->type,
                             .itemsize = e->size,
                             .numel = numel};
    p->storage = yir_grow(p->a, p->storage, &p->storage_cap, p->nstorage + 1, sizeof(struct fe_storage *));
    p->storage[p->nstorage++] = s;
    return p->resolve && p->resolve(p, s) != 0 ? NULL : s;
}

/* The sixth field of a legacy id: (key of the view, first element, elements) within the storage. */
static struct fe_storage *window(struct fe_pickle *p, struct fe_storage *root, const struct fe_obj *view)
{
    struct fe_obj *const *f = view->u.seq.item;
    if (FE_BREAKS(PID_VIEW_TUPLE, view->kind != FE_O_TUPLE || view->u.seq.n != 3) ||
        FE_BREAKS(PID_VIEW_INTS, !is_int(f[1]) || !is_int(f[2]))) {
        BAD(p, "a storage's view is malformed");
        return NULL;
    }
    int64_t from = f[1]->u.i, numel = f[2]->u.i;
    if (FE_BREAKS(PID_VIEW_FROM, from < 0 || from > root->numel) ||
        FE_BREAKS(PID_VIEW_SIZE, numel < 0 || numel > root->numel - from)) {
        BAD_TENSOR(p, "a storage's view lies outside the storage");
        return NULL;
    }
    struct fe_storage *s = yir_alloc(p->a, sizeof *s);
    *s = *root;
    s->root = root;
    s->from = from;
    s->numel = numel;
    return s;
}

static struct fe_obj *storage_of(struct fe_pickle *p, struct fe_obj *const *f, size_t n)
{
    const struct element *e = storage_element(f[1]);
    if (FE_BREAKS(PID_TYPE, !e)) {
        BAD_TENSOR(p, "a storage of unknown type%s%s", f[1]->kind == FE_O_GLOBAL ? " " : "",
                   f[1]->kind == FE_O_GLOBAL ? f[1]->u.global.name : "");
        return NULL;
    }
    if (!key_ok(f[2]) || FE_BREAKS(PID_PLACE, f[3]->kind != FE_O_STR)) {
        BAD(p, "a storage's key is no number");
        return NULL;
    }
    if (FE_BREAKS(PID_SIZE_KIND, !is_int(f[4])) || FE_BREAKS(PID_SIZE, f[4]->u.i < 0)) {
        BAD_TENSOR(p, "a storage's size is no count");
        return NULL;
    }
    struct fe_storage *s = intern(p, f[2], e, f[4]->u.i);
    if (s && n == 6 && f[5]->kind != FE_O_NONE) s = window(p, s, f[5]);
    if (!s) return NULL;
    struct fe_obj *o = fe_obj_new(p, FE_O_STORAGE);
    o->u.storage = s;
    return o;
}

struct fe_obj *fe_rebuild_persistent(struct fe_pickle *p, const struct fe_obj *pid)
{
    struct fe_obj *const *f = pid->u.seq.item;
    bool legacy = !p->resolve;
    bool tuple = FE_HOLDS(PID_TUPLE, pid->kind == FE_O_TUPLE) && FE_HOLDS(PID_EMPTY, pid->u.seq.n > 0);
    if (tuple && fe_obj_is_str(f[0], "storage") && FE_HOLDS(PID_FIELDS, pid->u.seq.n == (legacy ? 6 : 5))) {
        return storage_of(p, f, pid->u.seq.n);
    }
    if (tuple && legacy && fe_obj_is_str(f[0], "module") && pid->u.seq.n == 4 && f[1]->kind == FE_O_GLOBAL) {
        return f[1];
    }
    BAD(p, "a persistent id that is no storage");
    return NULL;
}

/* Tensors. */

/* Sizes and strides, checked one by one: each fits 31 bits or the storage, and none is negative. */
static bool read_dims(struct fe_pickle *p, const struct fe_obj *size, const struct fe_obj *stride,
                      struct fe_view *v)
{
    if (FE_BREAKS(TSR_DIMS_KIND, !is_seq(size) || !is_seq(stride)) ||
        FE_BREAKS(TSR_RANKS, size->u.seq.n != stride->u.seq.n)) {
        return BAD_TENSOR(p, "a tensor's size and stride do not match"), false;
    }
    if (FE_BREAKS(TSR_RANK, size->u.seq.n > FE_MAX_RANK)) {
        return BAD_TENSOR(p, "a tensor of %zu dimensions; at most %d are read", size->u.seq.n, FE_MAX_RANK),
               false;
    }
    v->rank = (int)size->u.seq.n;
    for (int i = 0; i < v->rank; i++) {
        const struct fe_obj *n = size->u.seq.item[i], *step = stride->u.seq.item[i];
        if (FE_BREAKS(TSR_DIM_KIND, !is_int(n) || !is_int(step)) ||
            FE_BREAKS(TSR_DIM, n->u.i < 0 || n->u.i > INT32_MAX) || FE_BREAKS(TSR_STRIDE, step->u.i < 0)) {
            return BAD_TENSOR(p, "a tensor's size or stride is out of range in dimension %d", i), false;
        }
        v->dim[i] = n->u.i;
        v->stride[i] = step->u.i;
    }
    return true;
}

/* Number of elements, and that the last one that strides reach lies below `limit` elements. */
static bool read_extent(struct fe_view *v, uint64_t limit)
{
    uint64_t numel = 1, last = (uint64_t)v->offset;
    bool ok = true;
    for (int i = 0; i < v->rank; i++)
        ok = ok && yir_mul_u64(numel, (uint64_t)v->dim[i], &numel);
    if (FE_BREAKS(TSR_NUMEL, !ok || numel > INT64_MAX)) return false;
    v->numel = (int64_t)numel;
    if (numel == 0) return FE_HOLDS(TSR_OFFSET, last <= limit);
    for (int i = 0; i < v->rank; i++) {
        uint64_t reach = 0;
        ok = ok && yir_mul_u64((uint64_t)v->dim[i] - 1, (uint64_t)v->stride[i], &reach) &&
             yir_add_u64(last, reach, &last);
    }
    return FE_HOLDS(TSR_EXTENT, ok && last < limit);
}

/* e: element type where the storage has none, else NULL. */
static struct fe_obj *tensor_of(struct fe_pickle *p, struct fe_obj *const *arg, const struct element *e)
{
    if (FE_BREAKS(TSR_STORAGE, arg[0]->kind != FE_O_STORAGE)) {
        BAD_TENSOR(p, "a tensor is made from %s instead of a storage", fe_obj_kind_name(arg[0]));
        return NULL;
    }
    const struct fe_storage *s = arg[0]->u.storage;
    struct fe_view v = {.storage = s, .dtype = e ? e->type : s->dtype};
    if (FE_BREAKS(TSR_OFFSET_KIND, !is_int(arg[1]))) {
        BAD_TENSOR(p, "a tensor's offset is no count");
        return NULL;
    }
    v.offset = arg[1]->u.i; /* a negative one reaches outside any storage */
    if (!read_dims(p, arg[2], arg[3], &v)) return NULL;
    uint64_t limit = e ? (uint64_t)s->numel * s->itemsize / e->size : (uint64_t)s->numel;
    if (!read_extent(&v, limit)) {
        BAD_TENSOR(p, "a tensor reaches outside its storage %.*s", (int)s->key_len, s->key);
        return NULL;
    }
    if (FE_BREAKS(TSR_COUNT, ++p->ntensor > p->limits->max_tensors)) {
        FE_PICKLE_BAD(p, E_LIMIT, "more than %llu tensors%s", (unsigned long long)p->limits->max_tensors,
                      YIR_RAISE(max_tensors));
        return NULL;
    }
    struct fe_obj *o = fe_obj_new(p, FE_O_TENSOR);
    o->u.tensor = yir_alloc(p->a, sizeof v);
    *o->u.tensor = v;
    return o;
}

/* (storage, offset, size, stride), then requires_grad, hooks, metadata. */
static struct fe_obj *run_tensor(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    (void)n;
    return tensor_of(p, arg, NULL);
}

/* (storage, offset, size, stride, requires_grad, hooks, dtype) over an untyped storage. */
static struct fe_obj *run_tensor_v3(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    const struct fe_obj *t = arg[6];
    (void)n;
    if (FE_BREAKS(TSR_UNTYPED_KIND, arg[0]->kind != FE_O_STORAGE) ||
        FE_BREAKS(TSR_UNTYPED, strcmp(arg[0]->u.storage->type_name, "UntypedStorage") != 0)) {
        BAD_TENSOR(p, "a tensor with an element type of its own needs an untyped storage");
        return NULL;
    }
    for (size_t i = 0; i < YIR_COUNT(elements) && t->kind == FE_O_GLOBAL; i++) {
        if (*elements[i].dtype && strcmp(elements[i].dtype, t->u.global.name) == 0 &&
            strcmp(t->u.global.module, "torch") == 0)
            return tensor_of(p, arg, &elements[i]);
    }
    BAD_TENSOR(p, "a tensor of unknown element type");
    return NULL;
}

/* (tensor, requires_grad, hooks[, state]). */
static struct fe_obj *run_parameter(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    (void)n;
    if (FE_HOLDS(TSR_PARAMETER, arg[0]->kind == FE_O_TENSOR)) return arg[0];
    BAD_TENSOR(p, "a parameter is made from %s instead of a tensor", fe_obj_kind_name(arg[0]));
    return NULL;
}

/* (function, class, arguments, state): the tensor without what the class adds. */
static struct fe_obj *run_from_type(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    (void)n;
    const struct fe_callable *call = arg[0]->kind == FE_O_GLOBAL ? arg[0]->u.global.call : NULL;
    if (FE_BREAKS(TSR_MAKER, !call || (call->run != run_tensor && call->run != run_tensor_v3 &&
                                       call->run != run_parameter))) {
        BAD_TENSOR(p, "a tensor is made by an unknown function");
        return NULL;
    }
    if (FE_BREAKS(TSR_MAKER_TUPLE, arg[2]->kind != FE_O_TUPLE) ||
        FE_BREAKS(TSR_MAKER_ARGS, arg[2]->u.seq.n < call->least || arg[2]->u.seq.n > call->most)) {
        BAD_TENSOR(p, "a tensor is made with the wrong arguments");
        return NULL;
    }
    return call->run(p, arg[2]->u.seq.item, arg[2]->u.seq.n);
}

/* Containers and others. */

static struct fe_obj *run_size(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    (void)n;
    bool ok = FE_HOLDS(CALL_SIZE, is_seq(arg[0]));
    if (ok && !charge(p, arg[0]->u.seq.n)) return NULL;
    for (size_t i = 0; ok && i < arg[0]->u.seq.n; i++)
        ok = FE_HOLDS(CALL_SIZE_INTS, is_int(arg[0]->u.seq.item[i]));
    if (!ok) {
        BAD(p, "a torch.Size holds other things than integers");
        return NULL;
    }
    struct fe_obj *o = fe_obj_new(p, FE_O_TUPLE);
    o->u.seq = arg[0]->u.seq;
    return o;
}

/* No argument, or a list of pairs as Python 2 wrote it. */
static struct fe_obj *run_dict(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    struct fe_obj *o = fe_obj_new(p, FE_O_DICT);
    if (n == 0) return o;
    bool ok = FE_HOLDS(CALL_DICT, is_seq(arg[0]));
    if (ok && !charge(p, arg[0]->u.seq.n)) return NULL;
    for (size_t i = 0; ok && i < arg[0]->u.seq.n; i++) {
        const struct fe_obj *pair = arg[0]->u.seq.item[i];
        ok = FE_HOLDS(CALL_PAIR, is_seq(pair)) && FE_HOLDS(CALL_PAIR_TWO, pair->u.seq.n == 2);
        for (size_t k = 0; ok && k < 2; k++)
            fe_obj_append(p, o, pair->u.seq.item[k]);
    }
    if (ok) return o;
    BAD(p, "a dict is made from other things than pairs");
    return NULL;
}

/* The argument is what makes missing values. */
static struct fe_obj *run_defaultdict(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    (void)arg, (void)n;
    return fe_obj_new(p, FE_O_DICT);
}

static struct fe_obj *run_set(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    struct fe_obj *o = fe_obj_new(p, FE_O_SET);
    if (FE_BREAKS(CALL_SET, n && !is_seq(arg[0]))) {
        BAD(p, "a set is made from %s", fe_obj_kind_name(arg[0]));
        return NULL;
    }
    if (n && !charge(p, arg[0]->u.seq.n)) return NULL;
    for (size_t i = 0; n && i < arg[0]->u.seq.n; i++)
        fe_obj_append(p, o, arg[0]->u.seq.item[i]);
    return o;
}

/* encode(text, 'latin1'): how protocol 2 writes bytes. */
static struct fe_obj *run_encode(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    bool latin = n == 2 && (fe_obj_is_str(arg[1], "latin1") || fe_obj_is_str(arg[1], "latin-1"));
    if (FE_BREAKS(CALL_ENCODE, !latin) || FE_BREAKS(CALL_ENCODE_TEXT, arg[0]->kind != FE_O_STR)) {
        BAD(p, "bytes are written in an unknown way");
        return NULL;
    }
    if (!charge(p, arg[0]->u.str.n)) return NULL;
    struct fe_obj *o = fe_obj_new(p, FE_O_BYTES);
    char *out = yir_alloc(p->a, arg[0]->u.str.n);
    const unsigned char *s = (const unsigned char *)arg[0]->u.str.s;
    for (size_t i = 0; i < arg[0]->u.str.n; i++) {
        unsigned c = s[i];
        if (FE_BREAKS(CALL_LATIN1, c >= 0xc4)) {
            BAD(p, "bytes hold a character beyond latin1");
            return NULL;
        }
        /* The string is valid UTF-8, so a byte follows. */
        if (c >= 0x80) c = (c & 3) << 6 | (s[++i] & 0x3f);
        out[o->u.str.n++] = (char)c;
    }
    o->u.str.s = out;
    return o;
}

/* (class, base, state of base): an instance in the manner of old protocols. */
static struct fe_obj *run_reconstructor(struct fe_pickle *p, struct fe_obj *const *arg, size_t n)
{
    (void)n;
    if (FE_BREAKS(CALL_RECONSTRUCT, arg[0]->kind != FE_O_GLOBAL)) {
        BAD(p, "the pickle makes an instance of %s", fe_obj_kind_name(arg[0]));
        return NULL;
    }
    struct fe_obj *o = fe_obj_new(p, FE_O_OBJECT);
    o->u.object.cls = arg[0];
    o->u.object.args = fe_obj_new(p, FE_O_TUPLE);
    return o;
}

static const struct fe_callable callables[] = {
    {"torch._utils", "_rebuild_tensor", 4, 4, run_tensor},
    {"torch._utils", "_rebuild_tensor_v2", 6, 7, run_tensor},
    {"torch._utils", "_rebuild_tensor_v3", 7, 8, run_tensor_v3},
    {"torch._utils", "_rebuild_parameter", 3, 3, run_parameter},
    {"torch._utils", "_rebuild_parameter_with_state", 4, 4, run_parameter},
    {"torch._tensor", "_rebuild_from_type_v2", 4, 4, run_from_type},
    {"torch", "Size", 1, 1, run_size},
    {"collections", "OrderedDict", 0, 1, run_dict},
    {"collections", "defaultdict", 0, 1, run_defaultdict},
    {"__builtin__", "set", 0, 1, run_set},
    {"builtins", "set", 0, 1, run_set},
    {"__builtin__", "frozenset", 0, 1, run_set},
    {"builtins", "frozenset", 0, 1, run_set},
    {"_codecs", "encode", 1, 2, run_encode},
    {"copy_reg", "_reconstructor", 3, 3, run_reconstructor},
    {"copyreg", "_reconstructor", 3, 3, run_reconstructor},
};

const struct fe_callable *fe_callable_find(const char *module, const char *name)
{
    for (size_t i = 0; i < YIR_COUNT(callables); i++) {
        if (strcmp(callables[i].name, name) == 0 && strcmp(callables[i].module, module) == 0)
            return &callables[i];
    }
    return NULL;
}

struct fe_obj *fe_rebuild_call(struct fe_pickle *p, struct fe_obj *fn, struct fe_obj *args)
{
    const struct fe_callable *call = fn->kind == FE_O_GLOBAL ? fn->u.global.call : NULL;
    if (FE_BREAKS(CALL_ARGS, call && (args->u.seq.n < call->least || args->u.seq.n > call->most))) {
        BAD(p, "%s.%s is called with %zu arguments", call->module, call->name, args->u.seq.n);
        return NULL;
    }
    if (call) return call->run(p, args->u.seq.item, args->u.seq.n);
    struct fe_obj *o = fe_obj_new(p, FE_O_OBJECT);
    o->reduced = true;
    o->u.object.cls = fn;
    o->u.object.args = args;
    return o;
}
