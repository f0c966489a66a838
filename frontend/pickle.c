#include "pickle.h"

#include <string.h>

#include "check.h"
#include "rebuild.h"

enum { MAX_GLOBAL = 255 };

struct machine {
    struct fe_pickle *p;
    const uint8_t *bytes;
    uint64_t len, pos; /* pos: after what was read of the operation being run */
    struct fe_obj **stack;
    size_t n, stack_cap;
    size_t *mark; /* heights of the stack */
    size_t nmark, mark_cap;
    struct fe_obj **memo;
    size_t memo_cap, nput; /* nput: entries set */
    struct fe_obj *none, *yes, *no;
    struct fe_obj *result; /* set by STOP */
};

#define BAD(m, ...) FE_PICKLE_BAD((m)->p, E_PICKLE, __VA_ARGS__)

/* Objects. */

struct fe_obj *fe_obj_new(struct fe_pickle *p, enum fe_objkind kind)
{
    struct fe_obj *o = yir_alloc(p->a, sizeof *o);
    o->kind = (uint8_t)kind;
    o->at = (uint32_t)p->at;
    return o;
}

void fe_obj_append(struct fe_pickle *p, struct fe_obj *seq, struct fe_obj *item)
{
    YIR_ASSERT(seq->kind >= FE_O_LIST && seq->kind <= FE_O_DICT);
    seq->u.seq.item =
        yir_grow(p->a, seq->u.seq.item, &seq->u.seq.cap, seq->u.seq.n + 1, sizeof(struct fe_obj *));
    seq->u.seq.item[seq->u.seq.n++] = item;
}

bool fe_obj_is_str(const struct fe_obj *o, const char *text)
{
    return o && o->kind == FE_O_STR && o->u.str.n == strlen(text) &&
           memcmp(o->u.str.s, text, o->u.str.n) == 0;
}

struct fe_obj *fe_obj_get(const struct fe_obj *d, const char *key)
{
    if (!d || d->kind != FE_O_DICT) return NULL;
    for (size_t i = 0; i + 1 < d->u.seq.n; i += 2) {
        if (fe_obj_is_str(d->u.seq.item[i], key)) return d->u.seq.item[i + 1];
    }
    return NULL;
}

const char *fe_obj_kind_name(const struct fe_obj *o)
{
    static const char *const names[] = {
        [FE_O_NONE] = "None",        [FE_O_BOOL] = "a bool",       [FE_O_INT] = "an int",
        [FE_O_LONG] = "a long int",  [FE_O_FLOAT] = "a float",     [FE_O_STR] = "a string",
        [FE_O_BYTES] = "bytes",      [FE_O_LIST] = "a list",       [FE_O_TUPLE] = "a tuple",
        [FE_O_SET] = "a set",        [FE_O_DICT] = "a dict",       [FE_O_GLOBAL] = "a global",
        [FE_O_OBJECT] = "an object", [FE_O_STORAGE] = "a storage", [FE_O_TENSOR] = "a tensor",
    };
    return names[o->kind];
}

/* Stream and stack. */

/* The next n bytes, or NULL after reporting. */
static const uint8_t *take(struct machine *m, uint64_t n)
{
    if (FE_BREAKS(PKL_ROOM, n > m->len - m->pos)) {
        bool limit = m->len == m->p->limits->max_pickle;
        FE_PICKLE_BAD(m->p, limit ? E_LIMIT : E_PICKLE, "%s",
                      limit ? "the pickle is larger than the limit" : "the pickle ends inside an operation");
        return NULL;
    }
    const uint8_t *p = m->bytes + m->pos;
    m->pos += n;
    return p;
}

/* Little-endian unsigned of n bytes. */
static uint64_t unsigned_of(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

static bool take_uint(struct machine *m, unsigned n, uint64_t *out)
{
    const uint8_t *p = take(m, n);
    if (p) *out = unsigned_of(p, n);
    return p != NULL;
}

static int push(struct machine *m, struct fe_obj *o)
{
    m->stack = yir_grow(m->p->a, m->stack, &m->stack_cap, m->n + 1, sizeof *m->stack);
    m->stack[m->n++] = o;
    return 0;
}

/* Number of objects above the newest mark: what an operation may take. */
static size_t above(const struct machine *m)
{
    return m->n - (m->nmark ? m->mark[m->nmark - 1] : 0);
}

static bool need(struct machine *m, size_t n)
{
    if (FE_HOLDS(PKL_STACK, above(m) >= n)) return true;
    BAD(m, "the pickle takes more from its stack than is there");
    return false;
}

/* Removes the newest mark; *n: number of objects above it, which start at the returned place and stay on the
 * stack. */
static struct fe_obj **pop_mark(struct machine *m, size_t *n)
{
    if (FE_BREAKS(PKL_MARK, m->nmark == 0)) {
        BAD(m, "an operation of the pickle lacks its mark");
        return NULL;
    }
    size_t from = m->mark[--m->nmark];
    *n = m->n - from;
    return m->stack + from;
}

static struct fe_obj *top(const struct machine *m)
{
    return m->stack[m->n - 1];
}

static bool is_utf8(const uint8_t *p, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    for (size_t i = 0; i < n;) {
        if (p[i] < 0x80) {
            i++;
            continue;
        }
        size_t k = p[i] >= 0xf0 ? 4 : p[i] >= 0xe0 ? 3 : 2;
        if (FE_BREAKS(PKL_UTF8_LEAD, p[i] < 0xc2 || p[i] > 0xf4)) return false;
        if (FE_BREAKS(PKL_UTF8_ROOM, k > n - i)) return false;
        uint32_t c = p[i] & (0xffu >> (k + 1));
        for (size_t j = 1; j < k; j++) {
            if (FE_BREAKS(PKL_UTF8_TAIL, (p[i + j] & 0xc0) != 0x80)) return false;
            c = c << 6 | (p[i + j] & 0x3f);
        }
        if (FE_BREAKS(PKL_UTF8_VALUE, c < least[k] || c > 0x10ffff)) return false;
        if (FE_BREAKS(PKL_UTF8_SURROGATE, c >= 0xd800 && c < 0xe000)) return false;
        i += k;
    }
    return true;
}

/* Operations: literals. */

static int op_proto(struct machine *m, unsigned arg)
{
    uint64_t version;
    (void)arg;
    if (!take_uint(m, 1, &version)) return -1;
    if (FE_BREAKS(PKL_PROTO_TWICE, m->p->at != 0)) return BAD(m, "the pickle names its protocol twice");
    if (FE_BREAKS(PKL_PROTO, version < 2 || version > 5))
        return BAD(m, "pickle protocol %u is not read", (unsigned)version);
    return 0;
}

static int op_stop(struct machine *m, unsigned arg)
{
    (void)arg;
    if (FE_BREAKS(PKL_STOP_MARK, m->nmark != 0)) return BAD(m, "the pickle ends inside a mark");
    if (FE_BREAKS(PKL_STOP, m->n != 1))
        return BAD(m, "the pickle ends with %zu objects instead of one", m->n);
    m->result = m->stack[0];
    return 0;
}

/* Frames only group bytes for reading ahead; ours are all there. */
static int op_frame(struct machine *m, unsigned arg)
{
    uint64_t size;
    (void)arg;
    if (!take_uint(m, 8, &size)) return -1;
    if (FE_BREAKS(PKL_FRAME, size > m->len - m->pos))
        return BAD(m, "a frame of the pickle is longer than the pickle");
    return 0;
}

static int op_none(struct machine *m, unsigned arg)
{
    (void)arg;
    return push(m, m->none);
}

static int op_bool(struct machine *m, unsigned arg)
{
    return push(m, arg ? m->yes : m->no);
}

static int push_int(struct machine *m, int64_t i)
{
    struct fe_obj *o = fe_obj_new(m->p, FE_O_INT);
    o->u.i = i;
    return push(m, o);
}

static int op_int(struct machine *m, unsigned size)
{
    uint64_t v;
    if (!take_uint(m, size, &v)) return -1;
    return push_int(m, size == 4 ? (int64_t)(int32_t)(uint32_t)v : (int64_t)v);
}

/* Two's complement of n bytes, n > 0; false when it does not fit: those above the eighth must repeat the sign. */
static bool long_fits(const uint8_t *p, uint64_t n, int64_t *out)
{
    bool minus = p[n - 1] & 0x80;
    uint64_t v = unsigned_of(p, n < 8 ? (unsigned)n : 8);
    if (n < 8 && minus) v |= UINT64_MAX << (8 * n);
    bool fits = n <= 8 || (v >> 63) == minus;
    for (uint64_t i = 8; i < n; i++)
        fits &= p[i] == (minus ? 0xff : 0);
    *out = (int64_t)v;
    return fits;
}

static int op_long(struct machine *m, unsigned size)
{
    uint64_t n;
    int64_t v;
    if (!take_uint(m, size, &n)) return -1;
    if (FE_BREAKS(PKL_LONG, n > m->p->limits->max_long))
        return FE_PICKLE_BAD(m->p, E_LIMIT, "an integer of %u bytes%s", (unsigned)n, YIR_RAISE(max_long));
    const uint8_t *p = take(m, n);
    if (!p) return -1;
    if (n == 0) return push_int(m, 0);
    if (long_fits(p, n, &v)) return push_int(m, v);
    struct fe_obj *o = fe_obj_new(m->p, FE_O_LONG);
    o->u.str.s = (const char *)p;
    o->u.str.n = n;
    return push(m, o);
}

static int op_float(struct machine *m, unsigned arg)
{
    const uint8_t *p = take(m, 8);
    uint64_t bits = 0;
    (void)arg;
    if (!p) return -1;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    struct fe_obj *o = fe_obj_new(m->p, FE_O_FLOAT);
    memcpy(&o->u.f, &bits, 8);
    return push(m, o);
}

static struct fe_obj *text(struct machine *m, unsigned size)
{
    uint64_t n;
    if (!take_uint(m, size, &n)) return NULL;
    if (FE_BREAKS(PKL_STRING, n > m->p->limits->max_string)) {
        FE_PICKLE_BAD(m->p, E_LIMIT, "a string of %llu bytes in the pickle%s", (unsigned long long)n,
                      YIR_RAISE(max_string));
        return NULL;
    }
    const uint8_t *p = take(m, n);
    if (!p) return NULL;
    struct fe_obj *o = fe_obj_new(m->p, FE_O_BYTES);
    o->u.str.s = (const char *)p;
    o->u.str.n = n;
    return o;
}

static int op_bytes(struct machine *m, unsigned size)
{
    struct fe_obj *o = text(m, size);
    return o ? push(m, o) : -1;
}

/* The byte string of Python 2: text when it can be. */
static int op_string(struct machine *m, unsigned size)
{
    struct fe_obj *o = text(m, size);
    if (!o) return -1;
    if (is_utf8((const uint8_t *)o->u.str.s, o->u.str.n)) o->kind = FE_O_STR;
    return push(m, o);
}

static int op_unicode(struct machine *m, unsigned size)
{
    struct fe_obj *o = text(m, size);
    if (!o) return -1;
    if (FE_BREAKS(PKL_UTF8, !is_utf8((const uint8_t *)o->u.str.s, o->u.str.n)))
        return BAD(m, "a string of the pickle is not UTF-8");
    o->kind = FE_O_STR;
    return push(m, o);
}

/* Operations: containers. */

/* A sequence of the n objects from `item` on, which leave the stack with all above them. */
static int collect(struct machine *m, enum fe_objkind kind, struct fe_obj **item, size_t n)
{
    struct fe_obj *o = fe_obj_new(m->p, kind);
    if (n) {
        o->u.seq.item = yir_alloc_n(m->p->a, n, sizeof *o->u.seq.item);
        memcpy(o->u.seq.item, item, n * sizeof *item);
    }
    o->u.seq.n = o->u.seq.cap = n;
    m->n -= n;
    return push(m, o);
}

static int op_empty(struct machine *m, unsigned kind)
{
    return collect(m, (enum fe_objkind)kind, NULL, 0);
}

static int op_tuple(struct machine *m, unsigned n)
{
    if (!need(m, n)) return -1;
    return collect(m, FE_O_TUPLE, n ? m->stack + m->n - n : NULL, n);
}

static int collect_mark(struct machine *m, enum fe_objkind kind)
{
    size_t n;
    struct fe_obj **item = pop_mark(m, &n);
    return item ? collect(m, kind, item, n) : -1;
}

static int op_tuple_mark(struct machine *m, unsigned arg)
{
    (void)arg;
    return collect_mark(m, FE_O_TUPLE);
}

static int op_frozenset(struct machine *m, unsigned arg)
{
    (void)arg;
    return collect_mark(m, FE_O_SET);
}

/* Moves the top n objects into the container below them. An object of a class (derived from dict or list,
 * say) takes them too; its contents are of no use to us and go. */
static int fill(struct machine *m, enum fe_objkind kind, size_t n)
{
    if (!need(m, n + 1)) return -1;
    struct fe_obj *into = m->stack[m->n - n - 1];
    if (FE_BREAKS(PKL_FILL, into->kind != kind && into->kind != FE_O_OBJECT)) {
        return BAD(m, "the pickle adds items to %s", fe_obj_kind_name(into));
    }
    if (into->kind == kind) {
        struct fe_obj **item = m->stack + m->n - n;
        for (size_t i = 0; i < n; i++)
            fe_obj_append(m->p, into, item[i]);
        into->checked = false;
    }
    m->n -= n;
    return 0;
}

static int fill_mark(struct machine *m, enum fe_objkind kind)
{
    size_t n;
    if (!pop_mark(m, &n)) return -1;
    if (FE_BREAKS(PKL_PAIRS, kind == FE_O_DICT && n % 2))
        return BAD(m, "the pickle sets a key of a dict without a value");
    return fill(m, kind, n);
}

static int op_append(struct machine *m, unsigned n)
{
    return fill(m, FE_O_LIST, n);
}

static int op_appends(struct machine *m, unsigned arg)
{
    (void)arg;
    return fill_mark(m, FE_O_LIST);
}

static int op_setitem(struct machine *m, unsigned n)
{
    return fill(m, FE_O_DICT, n);
}

static int op_setitems(struct machine *m, unsigned arg)
{
    (void)arg;
    return fill_mark(m, FE_O_DICT);
}

static int op_additems(struct machine *m, unsigned arg)
{
    (void)arg;
    return fill_mark(m, FE_O_SET);
}

/* Operations: stack and memo. */

static int op_mark(struct machine *m, unsigned arg)
{
    (void)arg;
    if (FE_BREAKS(PKL_MARKS, m->nmark >= m->p->limits->max_marks))
        return FE_PICKLE_BAD(m->p, E_LIMIT, "the pickle has %zu open marks%s", m->nmark,
                             YIR_RAISE(max_marks));
    m->mark = yir_grow(m->p->a, m->mark, &m->mark_cap, m->nmark + 1, sizeof *m->mark);
    m->mark[m->nmark++] = m->n;
    return 0;
}

static int op_pop(struct machine *m, unsigned arg)
{
    (void)arg;
    /* Right above a mark, POP takes the mark. */
    if (above(m) == 0 && m->nmark) {
        m->nmark--;
        return 0;
    }
    if (!need(m, 1)) return -1;
    m->n--;
    return 0;
}

static int op_pop_mark(struct machine *m, unsigned arg)
{
    size_t n;
    (void)arg;
    if (!pop_mark(m, &n)) return -1;
    m->n -= n;
    return 0;
}

static int op_dup(struct machine *m, unsigned arg)
{
    (void)arg;
    return need(m, 1) ? push(m, top(m)) : -1;
}

static int op_get(struct machine *m, unsigned size)
{
    uint64_t i;
    if (!take_uint(m, size, &i)) return -1;
    if (FE_BREAKS(PKL_GET_ROOM, i >= m->memo_cap) || FE_BREAKS(PKL_GET_SET, !m->memo[i]))
        return BAD(m, "the pickle reads memo %u, which is not set", (unsigned)i);
    return push(m, m->memo[i]);
}

static int put(struct machine *m, uint64_t i)
{
    if (!need(m, 1)) return -1;
    if (FE_BREAKS(PKL_PUT, i >= m->nput + m->p->limits->max_memo_gap))
        return FE_PICKLE_BAD(m->p, E_LIMIT, "memo index %u%s", (unsigned)i, YIR_RAISE(max_memo_gap));
    m->memo = yir_grow(m->p->a, m->memo, &m->memo_cap, i + 1, sizeof *m->memo);
    if (!m->memo[i]) m->nput++;
    m->memo[i] = top(m);
    return 0;
}

static int op_put(struct machine *m, unsigned size)
{
    uint64_t i;
    return take_uint(m, size, &i) ? put(m, i) : -1;
}

static int op_memoize(struct machine *m, unsigned arg)
{
    (void)arg;
    return put(m, m->nput);
}

/* Operations: classes, calls, storages. */

/* A name of a global: printable enough to be shown, and the same to every reader. */
static char *global_name(struct machine *m, const uint8_t *p, size_t n)
{
    bool ok = FE_HOLDS(PKL_NAME_LENGTH, n != 0 && n <= MAX_GLOBAL) &&
              FE_HOLDS(PKL_NAME_ZERO, !memchr(p, 0, n)) && FE_HOLDS(PKL_NAME_LINE, !memchr(p, '\n', n)) &&
              FE_HOLDS(PKL_NAME_UTF8, is_utf8(p, n));
    if (!ok) {
        BAD(m, "a global of the pickle has no proper name");
        return NULL;
    }
    return yir_strndup(m->p->a, (const char *)p, n);
}

static int push_global(struct machine *m, const char *module, const char *name)
{
    if (!module || !name) return -1;
    struct fe_obj *o = fe_obj_new(m->p, FE_O_GLOBAL);
    o->u.global.module = module;
    o->u.global.name = name;
    o->u.global.call = fe_callable_find(module, name);
    return push(m, o);
}

static char *take_line(struct machine *m)
{
    const uint8_t *p = m->bytes + m->pos;
    const uint8_t *end = memchr(p, '\n', m->len - m->pos);
    if (FE_BREAKS(PKL_NAME_END, !end)) {
        BAD(m, "a global of the pickle does not end");
        return NULL;
    }
    m->pos += (uint64_t)(end - p) + 1;
    return global_name(m, p, (size_t)(end - p));
}

static int op_global(struct machine *m, unsigned arg)
{
    (void)arg;
    char *module = take_line(m);
    char *name = module ? take_line(m) : NULL;
    return push_global(m, module, name);
}

static int op_stack_global(struct machine *m, unsigned arg)
{
    (void)arg;
    if (!need(m, 2)) return -1;
    const struct fe_obj *module = m->stack[m->n - 2], *name = m->stack[m->n - 1];
    if (FE_BREAKS(PKL_NAME_KIND, module->kind != FE_O_STR || name->kind != FE_O_STR))
        return BAD(m, "a global is named by no string");
    m->n -= 2;
    char *s = global_name(m, (const uint8_t *)module->u.str.s, module->u.str.n);
    return push_global(m, s, s ? global_name(m, (const uint8_t *)name->u.str.s, name->u.str.n) : NULL);
}

static int op_newobj(struct machine *m, unsigned arg)
{
    (void)arg;
    if (!need(m, 2)) return -1;
    struct fe_obj *cls = m->stack[m->n - 2], *args = m->stack[m->n - 1];
    if (FE_BREAKS(PKL_NEW_CLASS, cls->kind != FE_O_GLOBAL))
        return BAD(m, "the pickle makes an instance of %s", fe_obj_kind_name(cls));
    if (FE_BREAKS(PKL_NEW_ARGS, args->kind != FE_O_TUPLE))
        return BAD(m, "the arguments of an instance are %s", fe_obj_kind_name(args));
    m->n -= 2;
    struct fe_obj *o = fe_obj_new(m->p, FE_O_OBJECT);
    o->u.object.cls = cls;
    o->u.object.args = args;
    return push(m, o);
}

static int op_reduce(struct machine *m, unsigned arg)
{
    (void)arg;
    if (!need(m, 2)) return -1;
    struct fe_obj *fn = m->stack[m->n - 2], *args = m->stack[m->n - 1];
    if (FE_BREAKS(PKL_CALL, fn->kind != FE_O_GLOBAL && fn->kind != FE_O_OBJECT)) {
        return BAD(m, "the pickle calls %s", fe_obj_kind_name(fn));
    }
    if (FE_BREAKS(PKL_CALL_ARGS, args->kind != FE_O_TUPLE))
        return BAD(m, "the arguments of a call are %s", fe_obj_kind_name(args));
    m->n -= 2;
    struct fe_obj *o = fe_rebuild_call(m->p, fn, args);
    return o ? push(m, o) : -1;
}

static int op_build(struct machine *m, unsigned arg)
{
    (void)arg;
    if (!need(m, 2)) return -1;
    struct fe_obj *into = m->stack[m->n - 2], *state = m->stack[m->n - 1];
    m->n--;
    /* Attributes of an OrderedDict: nothing we use. */
    if (into->kind == FE_O_DICT && state->kind == FE_O_DICT) return 0;
    if (FE_BREAKS(PKL_BUILD, into->kind != FE_O_OBJECT))
        return BAD(m, "the pickle sets the state of %s", fe_obj_kind_name(into));
    if (FE_BREAKS(PKL_BUILD_TWICE, into->u.object.state))
        return BAD(m, "the pickle sets the state of an object twice");
    into->u.object.state = state;
    return 0;
}

static int op_persid(struct machine *m, unsigned arg)
{
    (void)arg;
    if (!need(m, 1)) return -1;
    struct fe_obj *o = fe_rebuild_persistent(m->p, m->stack[--m->n]);
    return o ? push(m, o) : -1;
}

/* The machine. */

struct op {
    int (*run)(struct machine *m, unsigned arg);
    unsigned arg;
};

static const struct op ops[256] = {
#define OP(byte, name, run, arg) [byte] = {op_##run, arg},
#include "pickle.def"
#undef OP
};

static int step(struct machine *m)
{
    m->p->at = m->pos;
    const uint8_t *code = take(m, 1);
    if (!code) return -1;
    if (FE_BREAKS(PKL_FIRST, m->p->at == 0 && *code != 0x80))
        return BAD(m, "a pickle of protocol 0 or 1, or no pickle");
    const struct op *o = &ops[*code];
    if (FE_BREAKS(PKL_OPERATION, !o->run)) return BAD(m, "pickle operation 0x%02x is not read", *code);
    return o->run(m, o->arg);
}

static struct fe_obj *constant(struct fe_pickle *p, enum fe_objkind kind, bool value)
{
    struct fe_obj *o = fe_obj_new(p, kind);
    o->u.i = value;
    return o;
}

struct fe_obj *fe_pickle_load(struct fe_pickle *p, const uint8_t *bytes, uint64_t len, uint64_t *used)
{
    struct machine m = {.p = p, .bytes = bytes, .len = len};
    p->at = 0;
    if (FE_BREAKS(PKL_SIZE, len > p->limits->max_pickle)) m.len = p->limits->max_pickle;
    m.none = constant(p, FE_O_NONE, false);
    m.yes = constant(p, FE_O_BOOL, true);
    m.no = constant(p, FE_O_BOOL, false);
    /* Never NULL, which pop_mark returns for a failure. */
    m.stack = yir_grow(p->a, NULL, &m.stack_cap, 16, sizeof *m.stack);
    for (uint64_t i = 0; !m.result; i++) {
        if (FE_BREAKS(PKL_OPS, i == p->limits->max_ops)) {
            FE_PICKLE_BAD(p, E_LIMIT, "the pickle has more than %llu operations%s", (unsigned long long)i,
                          YIR_RAISE(max_ops));
            return NULL;
        }
        if (step(&m) != 0) return NULL;
    }
    *used = m.pos;
    return m.result;
}
