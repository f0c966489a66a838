#include "mutate.h"

#include <string.h>

#include "frontend/zip.h"
#include "ptwrite.h"

/* How the argument of an operation is laid out; sizes are those of the argument or of its count. */
enum form { NUMBER, COUNTED, LINES };

struct op {
    uint8_t byte, size;
    uint8_t form;
};

/* Handlers of pickle.def, and what stands behind the operation for each: size of an argument of form NUMBER, unless the
 * row's own column says it. */
#define FORM_proto(n)        1, NUMBER
#define FORM_frame(n)        8, NUMBER
#define FORM_float(n)        8, NUMBER
#define FORM_int(n)          n, NUMBER
#define FORM_get(n)          n, NUMBER
#define FORM_put(n)          n, NUMBER
#define FORM_long(n)         n, COUNTED
#define FORM_unicode(n)      n, COUNTED
#define FORM_string(n)       n, COUNTED
#define FORM_bytes(n)        n, COUNTED
#define FORM_global(n)       2, LINES
#define FORM_stop(n)         0, NUMBER
#define FORM_none(n)         0, NUMBER
#define FORM_bool(n)         0, NUMBER
#define FORM_tuple(n)        0, NUMBER
#define FORM_tuple_mark(n)   0, NUMBER
#define FORM_empty(n)        0, NUMBER
#define FORM_append(n)       0, NUMBER
#define FORM_appends(n)      0, NUMBER
#define FORM_setitem(n)      0, NUMBER
#define FORM_setitems(n)     0, NUMBER
#define FORM_additems(n)     0, NUMBER
#define FORM_frozenset(n)    0, NUMBER
#define FORM_mark(n)         0, NUMBER
#define FORM_pop(n)          0, NUMBER
#define FORM_pop_mark(n)     0, NUMBER
#define FORM_dup(n)          0, NUMBER
#define FORM_memoize(n)      0, NUMBER
#define FORM_stack_global(n) 0, NUMBER
#define FORM_newobj(n)       0, NUMBER
#define FORM_reduce(n)       0, NUMBER
#define FORM_build(n)        0, NUMBER
#define FORM_persid(n)       0, NUMBER

static const struct op ops[] = {
#define OP(byte, name, run, arg) {byte, FORM_##run(arg)},
#include "frontend/pickle.def"
#undef OP
};

static const char *const globals[] = {
#define NAME(module, name) "c" module "\n" name "\n",
#include "globals.def"
#undef NAME
};

struct code {
    uint8_t *data;
    size_t size, most;
    uint64_t random;
};

static size_t below(struct code *c, size_t n)
{
    c->random = c->random * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)(c->random >> 33) % n : 0;
}

static const struct op *op_of(uint8_t byte)
{
    for (size_t i = 0; i < YIR_COUNT(ops); i++)
        if (ops[i].byte == byte) return &ops[i];
    return NULL;
}

/* Length of the operation at `at`; 1 when it is not known, and no more than is there. */
static size_t op_length(const struct code *c, size_t at)
{
    const struct op *o = op_of(c->data[at]);
    size_t left = c->size - at, n = 1, count = 0;
    if (!o) return 1;
    if (o->form == LINES) {
        for (int line = 0; line < 2 && n < left; n++) line += c->data[at + n] == '\n';
        return n;
    }
    n += o->size;
    for (size_t i = 0; o->form == COUNTED && i < o->size && i < 4 && at + 1 + i < c->size; i++)
        count |= (size_t)c->data[at + 1 + i] << (8 * i);
    return count < left && n + count < left ? n + count : n < left ? n : left;
}

static size_t any_op(struct code *c)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < c->size; i += op_length(c, i)) n++;
    for (size_t k = below(c, n); k > 0; k--) at += op_length(c, at);
    return at;
}

static void insert(struct code *c, size_t at, const uint8_t *bytes, size_t n)
{
    if (n > c->most - c->size) return;
    memmove(c->data + at + n, c->data + at, c->size - at);
    memcpy(c->data + at, bytes, n);
    c->size += n;
}

static void erase(struct code *c, size_t at, size_t n)
{
    memmove(c->data + at, c->data + at + n, c->size - at - n);
    c->size -= n;
}

/* --- changes ------------------------------------------------------------------------------------------------- */

static void put_edge(struct code *c, uint8_t *to, size_t size)
{
    static const uint64_t edges[] = {0, 1, 2, 8, 9, 127, 255, 256, 65535, 65536, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX,
                                     INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, UINT64_MAX - 1};
    uint64_t v = edges[below(c, YIR_COUNT(edges))];
    for (size_t i = 0; i < size; i++) to[i] = (uint8_t)(v >> (i < 8 ? 8 * i : 0));
}

static void new_op(struct code *c)
{
    uint8_t bytes[16] = {0};
    const struct op *o = &ops[below(c, YIR_COUNT(ops))];
    bytes[0] = o->byte;
    if (o->form == LINES) {
        const char *g = globals[below(c, YIR_COUNT(globals))];
        insert(c, any_op(c), (const uint8_t *)g, strlen(g));
        return;
    }
    if (o->form == NUMBER) put_edge(c, bytes + 1, o->size);
    else bytes[1] = (uint8_t)below(c, 3);
    insert(c, any_op(c), bytes, 1 + (size_t)o->size + (o->form == COUNTED ? bytes[1] : 0));
}

static void change_argument(struct code *c)
{
    size_t at = any_op(c), n = op_length(c, at);
    const struct op *o = op_of(c->data[at]);
    if (!o || n <= o->size) return;
    if (o->form == LINES) {
        const char *g = globals[below(c, YIR_COUNT(globals))];
        erase(c, at, n);
        insert(c, at, (const uint8_t *)g, strlen(g));
    } else if (o->form == NUMBER && below(c, 2)) {
        put_edge(c, c->data + at + 1, o->size);
    } else if (o->size) {
        c->data[at + 1] = (uint8_t)(c->data[at + 1] + (below(c, 2) ? 1 : -1));
    }
}

/* One operation becomes another of the same form, so that the rest keeps its place. */
static void change_op(struct code *c)
{
    size_t at = any_op(c);
    const struct op *o = op_of(c->data[at]), *to = &ops[below(c, YIR_COUNT(ops))];
    if (o && o->form == to->form && o->size == to->size) c->data[at] = to->byte;
}

static void drop_ops(struct code *c)
{
    for (size_t k = 1 + below(c, 3), at = any_op(c); k > 0 && at < c->size; k--) erase(c, at, op_length(c, at));
}

static void copy_ops(struct code *c)
{
    uint8_t part[64];
    size_t from = any_op(c), n = 0;
    for (size_t k = 1 + below(c, 6); k > 0 && from + n < c->size; k--) n += op_length(c, from + n);
    if (n > sizeof part) return;
    memcpy(part, c->data + from, n);
    insert(c, any_op(c), part, n);
}

static void swap_ops(struct code *c)
{
    uint8_t part[64];
    size_t at = any_op(c), n = op_length(c, at);
    if (n > sizeof part || at + n >= c->size) return;
    size_t next = op_length(c, at + n);
    memcpy(part, c->data + at, n);
    memmove(c->data + at, c->data + at + n, next);
    memcpy(c->data + at + next, part, n);
}

size_t mutate_pickle(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static void (*const changes[])(struct code *) = {new_op, change_argument, change_argument, change_op, drop_ops, copy_ops, swap_ops};
    struct code c = {data, size, most, (uint64_t)seed * 0x9E3779B97F4A7C15u};
    if (size == 0 || below(&c, 8) == 0) return LLVMFuzzerMutate(data, size, most);
    for (size_t k = 1 + below(&c, 4); k > 0 && c.size; k--) changes[below(&c, YIR_COUNT(changes))](&c);
    return c.size;
}

/* --- archives ------------------------------------------------------------------------------------------------ */

static const uint8_t *repack(struct ptwrite *w, const struct fe_zip *z, size_t *size, unsigned seed)
{
    enum { ROOM = 512 };
    struct ptwrite_record *r = yir_alloc_n(w->a, z->n, sizeof *r);
    for (size_t i = 0; i < z->n; i++) {
        const struct fe_zip_entry *e = &z->entry[i];
        r[i] = (struct ptwrite_record){e->name, e->data, (size_t)e->size};
        if (!strstr(e->name, "data.pkl")) continue;
        uint8_t *code = yir_alloc(w->a, r[i].len + ROOM);
        memcpy(code, r[i].bytes, r[i].len);
        r[i].len = mutate_pickle(code, r[i].len, r[i].len + ROOM, seed);
        r[i].bytes = code;
    }
    return ptwrite_archive(w, r, z->n, size);
}

size_t mutate_pt(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct ptwrite w;
    size_t n = 0;
    ptwrite_init(&w, a);
    const struct fe_zip *z = seed % 4 ? fe_zip_open(a, yir_diags_new(a, NULL, NULL), 0, data, size, true) : NULL;
    const uint8_t *bytes = z ? repack(&w, z, &n, seed / 4) : NULL;
    if (bytes && n <= most) memcpy(data, bytes, n);
    else n = LLVMFuzzerMutate(data, size, most);
    yir_arena_free(a);
    return n;
}
