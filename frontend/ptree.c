#include "ptree.h"

#include <string.h>

#include "check.h"
#include "pvalue.h"
#include "rebuild.h"

/* Tensors of one node: contiguous in the order of the walk, but the array still moves while it grows. */
struct own {
    struct fe_node *node;
    size_t first;
};

struct walk {
    struct fe_pickle *p;
    struct fe_values values;
    struct fe_tensor *tensor;
    size_t n, cap;
    struct own *own;
    size_t nown, own_cap;
    struct fe_strmap names;
    uint64_t bytes, max_bytes; /* of all tensors when dense */
    char *path; /* max_name + 1 bytes: of the module being walked, with a dot at the end unless empty */
    size_t path_len;
};

static const char *const wrappers[] = {"module", "_orig_mod"};

const char *fe_bare_name(const char *name)
{
    for (size_t i = 0; i < YIR_COUNT(wrappers); i++) {
        size_t n = strlen(wrappers[i]);
        if (strncmp(name, wrappers[i], n) != 0 || name[n] != '.' || !name[n + 1]) continue;
        name += n + 1;
        i = SIZE_MAX; /* from the first again: they nest in either order */
    }
    return name;
}

/* Tensors. */

/* Puts a key of a dict behind the path. NULL after reporting. */
static const char *join(struct walk *w, const struct fe_obj *key)
{
    w->p->at = key->at;
    if (FE_BREAKS(PT_NAME_KIND, key->kind != FE_O_STR) || FE_BREAKS(PT_NAME_EMPTY, key->u.str.n == 0) ||
        FE_BREAKS(PT_NAME_ZERO, memchr(key->u.str.s, 0, key->u.str.n))) {
        FE_PICKLE_BAD(w->p, E_PICKLE, "a module or tensor below '%s' has no proper name", w->path);
        return NULL;
    }
    uint64_t most = w->p->limits->max_name;
    if (FE_BREAKS(PT_NAME_LENGTH, key->u.str.n > most || w->path_len + key->u.str.n + 1 > most)) {
        FE_PICKLE_BAD(w->p, E_LIMIT, "a name of more than %llu bytes below '%.80s'%s",
                      (unsigned long long)most, w->path, YIR_RAISE(max_name));
        return NULL;
    }
    memcpy(w->path + w->path_len, key->u.str.s, key->u.str.n);
    w->path[w->path_len + key->u.str.n] = 0;
    return w->path;
}

/* What a tensor costs as a dense copy, within the limits. */
static int account(struct walk *w, const struct fe_view *v, const char *name)
{
    uint64_t bytes = 0;
    if (FE_BREAKS(PT_TENSOR_BYTES, !yir_mul_u64((uint64_t)v->numel, yir_dtype_size(v->dtype), &bytes) ||
                                       !yir_add_u64(bytes, w->bytes, &bytes) || bytes > w->max_bytes)) {
        return FE_PICKLE_BAD(w->p, E_LIMIT,
                             "with '%s' the tensors are larger than %llu bytes, the limit for this file%s",
                             name, (unsigned long long)w->max_bytes,
                             w->max_bytes == w->p->limits->max_tensor_bytes ? YIR_RAISE(max_tensor_bytes)
                                                                            : YIR_RAISE(max_tensor_ratio));
    }
    w->bytes = bytes;
    if (FE_HOLDS(PT_TENSORS, w->n < w->p->limits->max_tensors)) return 0;
    return FE_PICKLE_BAD(w->p, E_LIMIT, "more than %zu tensors%s", w->n, YIR_RAISE(max_tensors));
}

static int add_tensor(struct walk *w, const struct fe_obj *key, const struct fe_obj *o, bool buffer)
{
    const char *name = join(w, key);
    if (!name) return -1;
    if (FE_BREAKS(PT_TENSOR_KIND, o->kind != FE_O_TENSOR)) {
        const char *cls = fe_obj_class(w->p->a, o);
        return FE_PICKLE_BAD(w->p, E_TENSOR, "'%s' is no plain tensor, but %s %s", name, fe_obj_kind_name(o),
                             cls);
    }
    const struct fe_view *v = o->u.tensor;
    if (FE_BREAKS(PT_TENSOR_TYPE, v->dtype == YIR_NDTYPE)) {
        return FE_PICKLE_BAD(w->p, E_TENSOR, "'%s' has an element type that is not read (%s)", name,
                             v->storage->type_name);
    }
    if (account(w, v, name) != 0) return -1;
    w->tensor = yir_grow(w->p->a, w->tensor, &w->cap, w->n + 1, sizeof *w->tensor);
    struct fe_tensor *t = &w->tensor[w->n];
    *t = (struct fe_tensor){.name = yir_strdup(w->p->a, fe_bare_name(name)),
                            .dtype = v->dtype,
                            .rank = v->rank,
                            .numel = v->numel,
                            .buffer = buffer};
    memcpy(t->dim, v->dim, sizeof t->dim);
    memcpy(t->stride, v->stride, sizeof t->stride);
    t->data = fe_storage_data(v->storage) + (uint64_t)v->offset * yir_dtype_size(v->dtype);
    size_t at = w->n;
    if (FE_BREAKS(PT_NAME_TWICE, !fe_strmap_add(&w->names, t->name, strlen(t->name), &at))) {
        return FE_PICKLE_BAD(w->p, E_PICKLE, "two tensors are named '%s'", t->name);
    }
    w->n++;
    return 0;
}

static bool in_set(const struct fe_obj *set, const struct fe_obj *key)
{
    if (!set || set->kind != FE_O_SET || key->kind != FE_O_STR) return false;
    for (size_t i = 0; i < set->u.seq.n; i++) {
        const struct fe_obj *o = set->u.seq.item[i];
        if (o->kind == FE_O_STR && o->u.str.n == key->u.str.n &&
            memcmp(o->u.str.s, key->u.str.s, key->u.str.n) == 0)
            return true;
    }
    return false;
}

/* Modules. */

static struct fe_obj *modules_of(const struct fe_obj *o)
{
    struct fe_obj *m = fe_obj_get(fe_obj_state(o), "_modules");
    return m && m->kind == FE_O_DICT ? m : NULL;
}

static bool is_module(const struct fe_obj *o)
{
    return o && o->kind == FE_O_OBJECT && !o->reduced && modules_of(o);
}

/* Parts of a module's state that are no attributes: its children and tensors, and what hangs on it while it
 * runs. */
static bool is_inner(const struct fe_obj *key)
{
    static const char *const names[] = {"_modules", "_parameters", "_buffers", "_non_persistent_buffers_set",
                                        "_backend"};
    for (size_t i = 0; i < YIR_COUNT(names); i++) {
        if (fe_obj_is_str(key, names[i])) return true;
    }
    /* Longer ones stay, and are charged for their length. */
    return key->kind == FE_O_STR && key->u.str.n > 4 && key->u.str.n < FE_VALUES_TEXT &&
           key->u.str.s[0] == '_' && memmem(key->u.str.s, key->u.str.n, "hook", 4);
}

/* A dict with the entries of d but those that `skip` names. Shares the objects. */
static struct fe_obj *without(struct fe_pickle *p, const struct fe_obj *d,
                              bool (*skip)(const struct fe_obj *key))
{
    struct fe_obj *o = fe_obj_new(p, FE_O_DICT);
    o->at = d->at;
    for (size_t i = 0; i + 1 < d->u.seq.n; i += 2) {
        if (skip(d->u.seq.item[i])) continue;
        fe_obj_append(p, o, d->u.seq.item[i]);
        fe_obj_append(p, o, d->u.seq.item[i + 1]);
    }
    return o;
}

static int own_tensors(struct walk *w, struct fe_obj *dict, const struct fe_obj *except, bool buffer)
{
    if (!dict || dict->kind != FE_O_DICT) return 0;
    if (fe_values_check_keys(&w->values, dict) != 0 || fe_values_count(&w->values, dict->u.seq.n / 2) != 0)
        return -1;
    /* Each buffer is looked for in the set of those that are not stored. */
    uint64_t pairs = except && except->kind == FE_O_SET ? dict->u.seq.n * except->u.seq.n : 0;
    if (fe_values_count(&w->values, pairs) != 0) return -1;
    for (size_t i = 0; i + 1 < dict->u.seq.n; i += 2) {
        const struct fe_obj *key = dict->u.seq.item[i], *o = dict->u.seq.item[i + 1];
        /* Only what can be a name is looked for: comparing long strings that are alike takes long. */
        if (o->kind == FE_O_NONE) continue;
        if (!join(w, key)) return -1;
        if (!in_set(except, key) && add_tensor(w, key, o, buffer) != 0) return -1;
    }
    return 0;
}

static int walk_module(struct walk *w, struct fe_obj *o, const struct fe_obj *name, int depth,
                       struct fe_node **out);

static int walk_children(struct walk *w, struct fe_node *n, struct fe_obj *modules, int depth)
{
    if (fe_values_check_keys(&w->values, modules) != 0) return -1;
    if (fe_values_count(&w->values, modules->u.seq.n / 2) != 0) return -1;
    n->child = yir_alloc_n(w->p->a, modules->u.seq.n / 2, sizeof(struct fe_node *));
    for (size_t i = 0; i + 1 < modules->u.seq.n; i += 2) {
        const struct fe_obj *key = modules->u.seq.item[i];
        struct fe_obj *o = modules->u.seq.item[i + 1];
        if (o->kind == FE_O_NONE) continue;
        if (!join(w, key)) return -1;
        if (FE_BREAKS(PT_MODULE_KIND, o->kind != FE_O_OBJECT)) {
            return FE_PICKLE_BAD(w->p, E_PICKLE, "module '%s' is %s", w->path, fe_obj_kind_name(o));
        }
        size_t len = w->path_len;
        w->path_len += key->u.str.n;
        w->path[w->path_len++] = '.';
        w->path[w->path_len] = 0;
        if (walk_module(w, o, key, depth + 1, &n->child[n->nchild]) != 0) return -1;
        n->nchild++;
        w->path_len = len;
        w->path[len] = 0;
    }
    return 0;
}

static int walk_state(struct walk *w, struct fe_node *n, struct fe_obj *state, int depth)
{
    size_t first = w->n;
    if (fe_values_check_keys(&w->values, state) != 0) return -1;
    if (fe_values_count(&w->values, state->u.seq.n / 2) != 0) return -1;
    if (own_tensors(w, fe_obj_get(state, "_parameters"), NULL, false) != 0) return -1;
    const struct fe_obj *except = fe_obj_get(state, "_non_persistent_buffers_set");
    if (own_tensors(w, fe_obj_get(state, "_buffers"), except, true) != 0) return -1;
    n->ntensor = w->n - first;
    w->own = yir_grow(w->p->a, w->own, &w->own_cap, w->nown + 1, sizeof *w->own);
    w->own[w->nown++] = (struct own){n, first};
    n->attrs = fe_obj_value(&w->values, without(w->p, state, is_inner), true);
    if (!n->attrs) return -1;
    struct fe_obj *modules = fe_obj_get(state, "_modules");
    if (!modules || modules->kind != FE_O_DICT) return 0;
    return walk_children(w, n, modules, depth);
}

/* One level of recursion a level of modules, at most max_module_depth. A module may occur on many paths, but
 * not below itself. */
static int walk_module(struct walk *w, struct fe_obj *o, const struct fe_obj *name, int depth,
                       struct fe_node **out)
{
    w->p->at = o->at;
    if (FE_BREAKS(PT_MODULE_DEPTH, (uint64_t)depth > w->p->limits->max_module_depth))
        return FE_PICKLE_BAD(w->p, E_LIMIT, "modules nest more than %d deep%s", depth - 1,
                             YIR_RAISE(max_module_depth));
    if (FE_BREAKS(PT_MODULE_CYCLE, o->on_path))
        return FE_PICKLE_BAD(w->p, E_PICKLE, "module '%.*s' contains itself", (int)w->path_len, w->path);
    if (fe_values_count(&w->values, 1) != 0) return -1;
    struct fe_node *n = yir_alloc(w->p->a, sizeof *n);
    n->name = name ? yir_strndup(w->p->a, name->u.str.s, name->u.str.n) : "";
    n->class_path = fe_obj_class(w->p->a, o);
    const char *dot = strrchr(n->class_path, '.');
    n->class_name = dot ? dot + 1 : n->class_path;
    *out = n;
    struct fe_obj *state = fe_obj_state(o);
    if (!state) state = fe_obj_new(w->p, FE_O_DICT);
    o->on_path = true;
    int rc = walk_state(w, n, state, depth);
    o->on_path = false;
    return rc;
}

/* The top of the file. */

/* Where a checkpoint keeps its model, in order of preference. */
struct found {
    struct fe_obj *module; /* a module object, or */
    struct fe_obj *dict;   /* a state_dict */
    const char *where;
};

/* ema of old yolov5 files: (module, updates). */
static struct fe_obj *unpair(struct fe_obj *o)
{
    return o && (o->kind == FE_O_TUPLE || o->kind == FE_O_LIST) && o->u.seq.n ? o->u.seq.item[0] : o;
}

/* A dict that holds tensors. */
static bool is_state_dict(const struct fe_obj *d)
{
    if (!d || d->kind != FE_O_DICT) return false;
    for (size_t i = 1; i < d->u.seq.n; i += 2) {
        if (d->u.seq.item[i]->kind == FE_O_TENSOR) return true;
    }
    return false;
}

static struct found find_model(struct fe_obj *top)
{
    if (is_module(top)) return (struct found){.module = top, .where = "root"};
    struct fe_obj *ema = unpair(fe_obj_get(top, "ema")), *model = fe_obj_get(top, "model");
    if (is_module(ema)) return (struct found){.module = ema, .where = "ema"};
    if (is_module(model)) return (struct found){.module = model, .where = "model"};
    struct fe_obj *state = fe_obj_get(top, "state_dict"), *model_state = fe_obj_get(top, "model_state_dict");
    const struct found dicts[] = {
        {.dict = ema, .where = "ema"},
        {.dict = fe_obj_get(ema, "module"), .where = "ema"},
        {.dict = model, .where = "model"},
        {.dict = state, .where = "state_dict"},
        {.dict = model_state, .where = "state_dict"},
        {.dict = top, .where = "root"},
    };
    for (size_t i = 0; i < YIR_COUNT(dicts); i++) {
        if (is_state_dict(dicts[i].dict)) return dicts[i];
    }
    return (struct found){.where = ""};
}

/* Whether a module's child `model` has a child of that name too: then it only wraps the network. */
static bool wraps_model(const struct fe_obj *modules)
{
    if (!fe_obj_is_str(modules->u.seq.item[0], "model")) return false;
    const struct fe_obj *inner = modules_of(modules->u.seq.item[1]);
    return inner && inner->kind == FE_O_DICT && fe_obj_get(inner, "model");
}

/* The model inside the wrappers for parallel, compiled and convenient runs, whose only child it is. */
static struct fe_obj *unwrap(struct fe_obj *o)
{
    for (int level = 0; level < 8; level++) {
        const struct fe_obj *modules = modules_of(o);
        if (!modules || modules->u.seq.n != 2 || !is_module(modules->u.seq.item[1])) return o;
        bool wrapped = wraps_model(modules);
        for (size_t i = 0; i < YIR_COUNT(wrappers); i++)
            wrapped |= fe_obj_is_str(modules->u.seq.item[0], wrappers[i]);
        if (!wrapped) return o;
        o = modules->u.seq.item[1];
    }
    return o;
}

static int walk_dict(struct walk *w, struct fe_obj *dict)
{
    if (fe_values_check_keys(&w->values, dict) != 0) return -1;
    for (size_t i = 0; i + 1 < dict->u.seq.n; i += 2) {
        const struct fe_obj *o = dict->u.seq.item[i + 1];
        if (o->kind == FE_O_TENSOR && add_tensor(w, dict->u.seq.item[i], o, false) != 0) return -1;
    }
    return 0;
}

static bool is_heavy(const struct fe_obj *key)
{
    static const char *const names[] = {"ema", "model", "state_dict", "model_state_dict", "optimizer"};
    for (size_t i = 0; i < YIR_COUNT(names); i++) {
        if (fe_obj_is_str(key, names[i])) return true;
    }
    return false;
}

/* The literal entries of the top dict. */
static const struct fe_value *read_top(struct walk *w, struct fe_obj *top)
{
    struct fe_obj *rest = fe_obj_new(w->p, FE_O_DICT);
    struct fe_obj *all = top->kind == FE_O_DICT ? without(w->p, top, is_heavy) : rest;
    for (size_t i = 0; i + 1 < all->u.seq.n; i += 2) {
        if (all->u.seq.item[i + 1]->kind == FE_O_TENSOR) continue;
        fe_obj_append(w->p, rest, all->u.seq.item[i]);
        fe_obj_append(w->p, rest, all->u.seq.item[i + 1]);
    }
    return fe_obj_value(&w->values, rest, false);
}

/* Nodes point into the array of tensors now that it stands still. */
static void settle(struct walk *w)
{
    for (size_t i = 0; i < w->nown; i++) {
        struct fe_node *n = w->own[i].node;
        const struct fe_tensor **at = yir_alloc_n(w->p->a, n->ntensor, sizeof *at);
        for (size_t k = 0; k < n->ntensor; k++)
            at[k] = &w->tensor[w->own[i].first + k];
        n->tensor = at;
    }
}

static const struct fe_value *of_kind(const struct fe_value *v, enum fe_kind kind)
{
    return v && v->kind == kind ? v : NULL;
}

static int no_model(struct fe_pickle *p, const struct fe_obj *top)
{
    p->at = top->at;
    const struct fe_obj *model = fe_obj_get(top, "model");
    if (top->kind == FE_O_DICT && model && model->kind == FE_O_OBJECT) {
        return FE_PICKLE_BAD(p, E_PT_KIND, "'model' is an object of class %s, which is no module",
                             fe_obj_class(p->a, model));
    }
    if (top->kind == FE_O_DICT) {
        return FE_PICKLE_BAD(p, E_PT_KIND,
                             "no model in the file: neither 'ema', 'model' nor 'state_dict' is there");
    }
    return FE_PICKLE_BAD(p, E_PT_KIND, "no model in the file: it holds %s %s", fe_obj_kind_name(top),
                         fe_obj_class(p->a, top));
}

int fe_ptree_read(struct fe_pickle *p, struct fe_obj *top, struct fe_weights *out)
{
    struct walk *w = yir_alloc(p->a, sizeof *w);
    *w = (struct walk){.p = p, .values = {.p = p}, .max_bytes = p->limits->max_tensor_bytes};
    w->path = yir_alloc(p->a, p->limits->max_name + 1);
    uint64_t ratio = p->limits->max_tensor_ratio;
    if (out->file_size < w->max_bytes / ratio) w->max_bytes = out->file_size * ratio;
    fe_strmap_init(&w->names, p->a, 512);
    if (top->kind == FE_O_DICT && fe_values_check_keys(&w->values, top) != 0) return -1;
    struct found f = find_model(top);
    struct fe_node *root = NULL;
    if (FE_BREAKS(PT_MODEL, !f.module && !f.dict)) return no_model(p, top);
    if (f.module ? walk_module(w, unwrap(f.module), NULL, 0, &root) : walk_dict(w, f.dict)) return -1;
    settle(w);
    out->top = read_top(w, top);
    if (!out->top) return -1;
    const struct fe_value *from = root ? root->attrs : out->top;
    out->tensor = w->tensor;
    out->ntensor = w->n;
    out->root = root;
    out->yaml = of_kind(fe_get(from, "yaml"), FE_DICT);
    out->names = of_kind(fe_get(from, "names"), FE_DICT);
    if (!out->names) out->names = of_kind(fe_get(from, "names"), FE_LIST);
    out->stored_in = f.where;
    return 0;
}
