#include "frontend/pickle.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ptwrite.h"

static struct yir_arena *a;
static struct yir_diags *d;
static struct yir_limits limits;
static struct ptwrite w;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    d = yir_diags_new(a, NULL, NULL);
    yir_limits_init(&limits);
    ptwrite_init(&w, a);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(pickle, .init = setup, .fini = teardown);

/* Every storage is a block of 64 zero bytes, whatever it declares. */
static int resolve(struct fe_pickle *p, struct fe_storage *s)
{
    s->data = yir_alloc(p->a, 64);
    return 0;
}

static struct fe_obj *load(const void *bytes, size_t n)
{
    struct fe_pickle p = {.a = a, .d = d, .limits = &limits, .resolve = resolve};
    uint64_t used;
    uint8_t *copy = malloc(n ? n : 1); /* so that reading past the end shows */
    cr_assert(copy);
    memcpy(copy, bytes, n);
    yir_arena_defer(a, free, copy);
    struct fe_obj *o = fe_pickle_load(&p, copy, n, &used);
    if (o) cr_assert_eq(used, n);
    return o;
}

static const char *last_report(void)
{
    return yir_diag_count(d) ? yir_diag_at(d, yir_diag_count(d) - 1)->text : "";
}

/* Byte string after PROTO 2; a string literal's size counts. */
#define LOAD(ops) load("\x80\2" ops, sizeof(ops) + 1)

static bool is_tuple_of(const struct fe_obj *o, size_t n)
{
    return o && o->kind == FE_O_TUPLE && o->u.seq.n == n;
}

/* What is read. */

Test(pickle, numbers)
{
    static const struct {
        const char *ops;
        size_t n;
        int64_t value;
    } rows[] = {
#define ROW(ops, value) {"\x80\2" ops ".", sizeof(ops) + 2, value}
        ROW("K\xff", 255),
        ROW("M\x01\x02", 513),
        ROW("J\xff\xff\xff\xff", -1),
        ROW("J\xff\xff\xff\x7f", INT32_MAX),
        ROW("\x8a\x00", 0),
        ROW("\x8a\x01\xff", -1),
        ROW("\x8a\x02\xff\x00", 255),
        ROW("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", INT64_MAX),
        ROW("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", INT64_MIN),
        ROW("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\x00", INT64_MAX),
        ROW("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff", INT64_MIN),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        const struct fe_obj *o = load(rows[i].ops, rows[i].n);
        cr_assert(o && o->kind == FE_O_INT && o->u.i == rows[i].value, "row %zu: %s", i, last_report());
    }
    const struct fe_obj *o = LOAD("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.");
    cr_assert(o && o->kind == FE_O_LONG && o->u.str.n == 9);
    o = LOAD("G\x3f\xf8\0\0\0\0\0\0.");
    cr_assert(o && o->kind == FE_O_FLOAT && o->u.f == 1.5);
}

Test(pickle, singletons_and_strings)
{
    cr_assert_eq(LOAD("N.")->kind, FE_O_NONE);
    const struct fe_obj *o = LOAD("\x88.");
    cr_assert(o->kind == FE_O_BOOL && o->u.i == 1);
    o = LOAD("\x89.");
    cr_assert(o->kind == FE_O_BOOL && o->u.i == 0);
    cr_assert(fe_obj_is_str(LOAD("X\3\0\0\0abc."), "abc"));
    cr_assert(fe_obj_is_str(LOAD("\x8c\3abc."), "abc"));
    cr_assert(fe_obj_is_str(LOAD("\x8d\3\0\0\0\0\0\0\0abc."), "abc"));
    cr_assert(fe_obj_is_str(LOAD("U\3abc."), "abc"));
    cr_assert(fe_obj_is_str(LOAD("T\3\0\0\0abc."), "abc"));
    cr_assert(fe_obj_is_str(LOAD("X\4\0\0\0\xf0\x9f\x98\x80."), "\xf0\x9f\x98\x80"));
    cr_assert_eq(LOAD("U\2\xff\xfe.")->kind, FE_O_BYTES);
    cr_assert_eq(LOAD("C\2ab.")->kind, FE_O_BYTES);
    cr_assert_eq(LOAD("B\2\0\0\0ab.")->kind, FE_O_BYTES);
}

Test(pickle, containers)
{
    cr_assert(is_tuple_of(LOAD(")."), 0));
    cr_assert(is_tuple_of(LOAD("N\x85."), 1));
    cr_assert(is_tuple_of(LOAD("NN\x86."), 2));
    cr_assert(is_tuple_of(LOAD("NNN\x87."), 3));
    cr_assert(is_tuple_of(LOAD("(NNNNt."), 4));
    cr_assert(is_tuple_of(LOAD("(t."), 0));
    const struct fe_obj *o = LOAD("]Na(K\1K\2e.");
    cr_assert(o->kind == FE_O_LIST && o->u.seq.n == 3 && o->u.seq.item[2]->u.i == 2);
    o = LOAD("}U\1aK\1s(U\1bK\2U\1cK\3u.");
    cr_assert(o->kind == FE_O_DICT && o->u.seq.n == 6 && fe_obj_get(o, "c")->u.i == 3);
    cr_assert_null(fe_obj_get(o, "d"));
    o = LOAD("\x8f(K\1K\2\x90.");
    cr_assert(o->kind == FE_O_SET && o->u.seq.n == 2);
    o = LOAD("(K\1\x91.");
    cr_assert(o->kind == FE_O_SET && o->u.seq.n == 1);
}

Test(pickle, stack_and_memo)
{
    cr_assert_eq(LOAD("K\1N0.")->u.i, 1);
    cr_assert_eq(LOAD("K\1(NN1.")->u.i, 1);
    cr_assert_eq(LOAD("K\1(0.")->u.i, 1);
    cr_assert(is_tuple_of(LOAD("K\1"
                               "2\x86."),
                          2));
    cr_assert_eq(LOAD("K\1q\5"
                      "0Nh\5\x86.")
                     ->u.seq.item[1]
                     ->u.i,
                 1);
    cr_assert_eq(LOAD("K\1r\5\0\0\0"
                      "0j\5\0\0\0.")
                     ->u.i,
                 1);
    cr_assert_eq(LOAD("K\7\x94"
                      "0h\0.")
                     ->u.i,
                 7);
    /* A list that holds itself is a graph like any other. */
    const struct fe_obj *o = LOAD("]q\0h\0a.");
    cr_assert(o && o->u.seq.item[0] == o);
}

Test(pickle, protocol_4)
{
    static const char ops[] =
        "\x80\4\x95\x16\0\0\0\0\0\0\0\x8c\4math\x94\x8c\3sin\x94\x93\x94K\5\x85\x94R\x94.";
    const struct fe_obj *o = load(ops, sizeof ops - 1);
    cr_assert(o && o->kind == FE_O_OBJECT && o->reduced, "%s", last_report());
    cr_assert_str_eq(o->u.object.cls->u.global.module, "math");
    cr_assert_str_eq(o->u.object.cls->u.global.name, "sin");
}

/* Globals that run programs elsewhere are names here. */
Test(pickle, nothing_is_called)
{
    static const char *const names[][2] = {
        {"os", "system"},           {"posix", "system"},
        {"nt", "system"},           {"builtins", "eval"},
        {"builtins", "exec"},       {"__builtin__", "eval"},
        {"subprocess", "Popen"},    {"pip", "main"},
        {"runpy", "run_path"},      {"webbrowser", "open"},
        {"builtins", "__import__"}, {"importlib", "import_module"},
    };
    for (size_t i = 0; i < YIR_COUNT(names); i++) {
        ptwrite_init(&w, a);
        ptwrite_global(&w, names[i][0], names[i][1]);
        ptwrite_str(&w, "exit 1");
        ptwrite_op(&w, 0x85);
        ptwrite_ops(&w, "R.");
        const struct fe_obj *o = load(w.code.text, w.code.len);
        cr_assert(o && o->kind == FE_O_OBJECT && o->reduced);
        cr_assert_str_eq(o->u.object.cls->u.global.name, names[i][1]);
    }
    const struct fe_obj *o = LOAD("c__builtin__\ngetattr\nc__builtin__\nobject\nU\7forward\x86R)R.");
    cr_assert(o && o->kind == FE_O_OBJECT && o->u.object.cls->kind == FE_O_OBJECT);
}

Test(pickle, known_calls)
{
    const struct fe_obj *o = LOAD("ccollections\nOrderedDict\n)RU\1aK\1s}U\1zNsb.");
    cr_assert(o && o->kind == FE_O_DICT && o->u.seq.n == 2);
    o = LOAD("ccollections\nOrderedDict\n]]U\1aaK\1aa\x85R.");
    cr_assert(o && o->kind == FE_O_DICT && fe_obj_get(o, "a")->u.i == 1, "%s", last_report());
    o = LOAD("ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R.");
    cr_assert(o && o->kind == FE_O_DICT);
    o = LOAD("c__builtin__\nset\n]U\1aa\x85R.");
    cr_assert(o && o->kind == FE_O_SET && o->u.seq.n == 1);
    o = LOAD("ctorch\nSize\n(K\1K\2t\x85R.");
    cr_assert(is_tuple_of(o, 2));
    o = LOAD("c_codecs\nencode\nX\3\0\0\0a\xc3\xbfU\6latin1\x86R.");
    cr_assert(o && o->kind == FE_O_BYTES && o->u.str.n == 2 && memcmp(o->u.str.s, "a\xff", 2) == 0);
    o = LOAD("ccopy_reg\n_reconstructor\ncm\nC\nc__builtin__\nobject\nN\x87R}U\1xK\1sb.");
    cr_assert(o && o->kind == FE_O_OBJECT && !o->reduced && o->u.object.state->kind == FE_O_DICT);
    o = LOAD("cm\nC\n)\x81}U\1xK\1sb.");
    cr_assert(o && o->kind == FE_O_OBJECT && o->u.object.state);
}

/* What is refused. */

Test(pickle, broken_code)
{
    static const struct {
        const char *ops;
        size_t n;
        const char *part;
    } rows[] = {
#define ROW(ops, part) {"\x80\2" ops, sizeof(ops) + 1, part}
        ROW("", "ends inside"),
        ROW("N", "ends inside"),
        ROW(".", "0 objects"),
        ROW("NN.", "2 objects"),
        ROW("(N.", "inside a mark"),
        ROW("K", "ends inside"),
        ROW("J\1\2\3", "ends inside"),
        ROW("X\xff\xff\xff\xff", "string of"),
        ROW("X\5\0\0\0abc", "ends inside"),
        ROW("X\2\0\0\0\xc3\x28.", "UTF-8"),
        ROW("X\3\0\0\0\xed\xa0\x80.", "UTF-8"),
        ROW("X\2\0\0\0\xc0\x80.", "UTF-8"),
        ROW("X\4\0\0\0\xf4\x90\x80\x80.", "UTF-8"),
        ROW("X\4\0\0\0\xf8\x90\x80\x80.", "UTF-8"),
        ROW("X\1\0\0\0\xc3\x85.", "UTF-8"),
        ROW("X\1\0\0\0\xc3.", "UTF-8"),
        ROW("\x8a\x21", "integer of 33"),
        ROW("\x80\2N.", "twice"),
        ROW("\x95\xff\0\0\0\0\0\0\0N.", "frame"),
        ROW("t.", "mark"),
        ROW("Ne.", "mark"),
        ROW("1.", "mark"),
        ROW("0.", "stack"),
        ROW("2.", "stack"),
        ROW("\x85.", "stack"),
        ROW("N(\x85t.", "stack"),
        ROW("N\x86.", "stack"),
        ROW("NNa.", "adds items to None"),
        ROW(")Na.", "adds items to a tuple"),
        ROW("}Na.", "adds items to a dict"),
        ROW("N(NNu.", "adds items to None"),
        ROW(")(NNu.", "adds items to a tuple"),
        ROW("](NNu.", "adds items to a list"),
        ROW("]NNs.", "adds items to a list"),
        ROW("}(Nu.", "without a value"),
        ROW("](N\x90.", "adds items to a list"),
        ROW("a.", "stack"),
        ROW("s.", "stack"),
        ROW("h\0.", "not set"),
        ROW("Nq\5h\3.", "not set"),
        ROW("j\xff\xff\xff\xff.", "not set"),
        ROW("Nr\xff\xff\xff\xff.", "memo index"),
        ROW("q\0.", "stack"),
        ROW("cos\nsystem", "does not end"),
        ROW("cos", "does not end"),
        ROW("c\nsystem\n.", "proper name"),
        ROW("cos\n\n.", "proper name"),
        ROW("co\0s\nsystem\n.", "proper name"),
        ROW("co\xff\nsystem\n.", "proper name"),
        ROW("NN\x93.", "named by no string"),
        ROW("U\1aU\2b\n\x93.", "proper name"),
        ROW("N)\x81.", "instance of None"),
        ROW("cm\nC\nN\x81.", "arguments of an instance are None"),
        ROW("N)R.", "calls None"),
        ROW("U\1a)R.", "calls a string"),
        ROW("cm\nf\n]R.", "arguments of a call are a list"),
        ROW("N}b.", "state of None"),
        ROW("]}b.", "state of a list"),
        ROW("cm\nC\n}b.", "state of a global"),
        ROW("cm\nC\n)\x81}b}b.", "twice"),
        ROW("ccollections\nOrderedDict\nN\x85R.", "other things than pairs"),
        ROW("ccollections\nOrderedDict\nNN\x86R.", "with 2 arguments"),
        ROW("c__builtin__\nset\nN\x85R.", "made from None"),
        ROW("ctorch\nSize\n(Nt\x85R.", "other things than integers"),
        ROW("ctorch\nSize\nN\x85R.", "other things than integers"),
        ROW("ccollections\nOrderedDict\n]c__builtin__\nset\n](K\1K\2e\x85Ra\x85R.",
            "other things than pairs"),
        ROW("ccollections\nOrderedDict\n]NNN\x87"
            "a\x85R.",
            "other things than pairs"),
        ROW("c_codecs\nencode\nC\1aU\6latin1\x86R.", "unknown way"),
        ROW("ccopy_reg\n_reconstructor\nNNN\x87R.", "an instance of None"),
        ROW("ctorch._utils\n_rebuild_tensor_v3\n(NK\0K\4\x85K\1\x85\x89Nctorch\nbfloat16\ntR.",
            "an untyped storage"),
        ROW("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_parameter\ncm\nC\n)NtR.",
            "wrong arguments"),
        ROW("c_codecs\nencode\nU\1aU\5ascii\x86R.", "unknown way"),
        ROW("c_codecs\nencode\nX\2\0\0\0\xc4\x80U\6latin1\x86R.", "beyond latin1"),
        ROW("ctorch._utils\n_rebuild_parameter\nN\x89N\x87R.", "instead of a tensor"),
        ROW("ctorch._utils\n_rebuild_tensor_v2\n(NK\0))NNtR.", "instead of a storage"),
        ROW("ctorch._utils\n_rebuild_tensor_v2\n(Nt\x85R.", "with 1 arguments"),
        ROW("ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\ncm\nC\n)NtR.", "unknown function"),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        cr_assert_null(load(rows[i].ops, rows[i].n), "row %zu accepted, not: %s", i, rows[i].part);
        cr_assert(strstr(last_report(), rows[i].part), "row %zu: %s, not: %s", i, last_report(),
                  rows[i].part);
        d = yir_diags_new(a, NULL, NULL);
    }
}

Test(pickle, protocols)
{
    for (int version = 0; version < 256; version++) {
        const char ops[] = {(char)0x80, (char)version, 'N', '.'};
        cr_assert_eq(load(ops, 4) != NULL, version >= 2 && version <= 5);
    }
    cr_assert_null(load("N.", 2));
    cr_assert_null(load("(lp0\n.", 6));
    cr_assert_null(load("", 0));
}

/* Operations outside the table, wherever they stand. */
Test(pickle, every_operation_byte)
{
    static const uint8_t known[] = {
#define OP(byte, name, run, arg) byte,
#include "frontend/pickle.def"
#undef OP
    };
    for (int op = 0; op < 256; op++) {
        const char ops[] = {(char)0x80, 2, (char)op};
        d = yir_diags_new(a, NULL, NULL);
        cr_assert_null(load(ops, 3));
        bool refused = strstr(last_report(), "is not read") != NULL;
        cr_assert_eq(refused, memchr(known, op, sizeof known) == NULL, "0x%02x: %s", (unsigned)op,
                     last_report());
    }
}

/* Persistent ids and tensors. */

#define ID(type, key, numel) "(U\7storagec" type key "U\3cpu" numel "tQ"
#define KEY                                                                                                  \
    "U\1"                                                                                                    \
    "0"
#define FLOAT "torch\nFloatStorage\n"

Test(pickle, storages)
{
    const struct fe_obj *o = LOAD(ID(FLOAT, KEY, "K\4") ".");
    cr_assert(o && o->kind == FE_O_STORAGE && o->u.storage->numel == 4 && o->u.storage->itemsize == 4, "%s",
              last_report());
    o = LOAD(ID(FLOAT, KEY, "K\4") ID(FLOAT, KEY, "K\4") "\x86.");
    cr_assert(o && o->u.seq.item[0]->u.storage == o->u.seq.item[1]->u.storage);
    o = LOAD(ID("torch.storage\nUntypedStorage\n", KEY, "K\4") ".");
    cr_assert(o && o->u.storage->itemsize == 1);
}

Test(pickle, storages_refused)
{
    static const struct {
        const char *ops;
        size_t n;
    } rows[] = {
#define ROW(ops) {"\x80\2" ops ".", sizeof(ops) + 2}
        ROW("NQ"),
        ROW("U\1aQ"),
        ROW(")Q"),
        ROW("(U\7storaget"
            "Q"),
        ROW("(U\7storagec" FLOAT KEY "U\3cpuK\4NtQ"),
        ROW("(U\6modulecm\nC\nU\1fU\1stQ"),
        ROW("(U\7storageU\1aU\1"
            "0U\3cpuK\4tQ"),
        ROW(ID("torch\nBadStorage\n", KEY, "K\4")),
        ROW(ID("evil\nFloatStorage\n", KEY, "K\4")),
        ROW(ID(FLOAT, "U\4../0", "K\4")),
        ROW(ID(FLOAT, "U\0", "K\4")),
        ROW(ID(FLOAT, "K\0", "K\4")),
        ROW(ID(FLOAT,
               "C\1"
               "0",
               "K\4")),
        ROW("(U\7storagec" FLOAT KEY "NK\4tQ"),
        ROW(ID(FLOAT,
               "U\x41"
               "11111111111111111111111111111111111111111111111111111111111111111",
               "K\4")),
        ROW(ID(FLOAT, KEY, "J\xff\xff\xff\xff")),
        ROW(ID(FLOAT, KEY, "N")),
        ROW(ID(FLOAT, KEY, "\x8a\x09\0\0\0\0\0\0\0\0\1")),
        ROW(ID(FLOAT, KEY, "K\4") ID(FLOAT, KEY, "K\5") "\x86"),
        ROW(ID(FLOAT, KEY, "K\4") ID("torch\nIntStorage\n", KEY, "K\4") "\x86"),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        cr_assert_null(load(rows[i].ops, rows[i].n), "row %zu", i);
}

/* A float tensor of one dimension over a storage of 8 elements. */
static const struct fe_obj *view(int64_t offset, int64_t size, int64_t stride)
{
    static float values[8];
    ptwrite_init(&w, a);
    ptwrite_storage(&w, "FloatStorage", values, sizeof values, 8);
    ptwrite_view(&w, offset, &size, &stride, 1);
    ptwrite_op(&w, '.');
    return load(w.code.text, w.code.len);
}

Test(pickle, views_stay_inside)
{
    static const int64_t edge[] = {-1,
                                   0,
                                   1,
                                   2,
                                   7,
                                   8,
                                   9,
                                   INT32_MAX,
                                   (int64_t)INT32_MAX + 1,
                                   (int64_t)1 << 32,
                                   (int64_t)1 << 62,
                                   INT64_MAX,
                                   INT64_MIN};
    for (size_t o = 0; o < YIR_COUNT(edge); o++) {
        for (size_t n = 0; n < YIR_COUNT(edge); n++) {
            for (size_t s = 0; s < YIR_COUNT(edge); s++) {
                int64_t offset = edge[o], size = edge[n], stride = edge[s];
                bool small = offset >= 0 && offset <= 8 && size >= 0 && size <= 8 && stride >= 0;
                bool still = size <= 1 || stride == 0; /* the stride does not matter, or does not move */
                bool fits = offset >= 0 && size >= 0 && size <= INT32_MAX && stride >= 0 &&
                            (size == 0 ? offset <= 8
                             : still   ? offset < 8
                                       : small && stride <= 8 && offset + (size - 1) * stride < 8);
                const struct fe_obj *v = view(offset, size, stride);
                cr_assert_eq(v != NULL, fits, "%lld %lld %lld", (long long)offset, (long long)size,
                             (long long)stride);
                if (v) cr_assert_eq(v->u.tensor->numel, size);
            }
        }
    }
}

Test(pickle, tensors_of_many_dimensions)
{
    static const int64_t ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, huge[] = {INT32_MAX, INT32_MAX, INT32_MAX};
    static const int64_t still[16] = {0};
    static float value[1];
    for (int rank = 0; rank < 10; rank++) {
        ptwrite_init(&w, a);
        ptwrite_storage(&w, "FloatStorage", value, 4, 1);
        ptwrite_view(&w, 0, ones, ones, rank);
        ptwrite_op(&w, '.');
        cr_assert_eq(load(w.code.text, w.code.len) != NULL, rank <= 8);
    }
    ptwrite_init(&w, a);
    ptwrite_storage(&w, "FloatStorage", value, 4, 1);
    ptwrite_view(&w, 0, huge, still, 3);
    ptwrite_op(&w, '.');
    cr_assert_null(load(w.code.text, w.code.len), "a product beyond 63 bits");
    const struct fe_obj *o =
        LOAD("ctorch._utils\n_rebuild_tensor_v2\n(" ID(FLOAT, KEY, "K\4") "K\0K\2\x85)\x89NtR.");
    cr_assert_null(o, "size and stride of different lengths");
}

Test(pickle, tensor_with_a_type_of_its_own)
{
#define V3(bytes, type)                                                                                      \
    "ctorch._utils\n_rebuild_tensor_v3\n(" ID("torch.storage\nUntypedStorage\n", KEY,                        \
                                              bytes) "K\0K\4\x85K\1\x85\x89N" type "tR."
    const struct fe_obj *o = LOAD(V3("K\x8", "ctorch\nbfloat16\n"));
    cr_assert(o && o->kind == FE_O_TENSOR && o->u.tensor->dtype == YIR_BF16, "%s", last_report());
    cr_assert_null(LOAD(V3("K\7", "ctorch\nbfloat16\n")));
    cr_assert_null(LOAD(V3("K\x8", "ctorch\nfloat128\n")));
    cr_assert_null(LOAD(V3("K\x8", "N")));
    o = LOAD(V3("K\4", "ctorch\nfloat8_e5m2\n"));
    cr_assert(o && o->u.tensor->dtype == YIR_NDTYPE);
}

/* Costs. */

static const struct fe_obj *repeat(const char *head, const char *part, size_t n, const char *tail)
{
    ptwrite_init(&w, a);
    ptwrite_ops(&w, head);
    for (size_t i = 0; i < n; i++)
        ptwrite_ops(&w, part);
    ptwrite_ops(&w, tail);
    return load(w.code.text, w.code.len);
}

Test(pickle, depth_and_length_are_bounded)
{
    cr_assert(repeat(")", "\x85", 1000000, "."), "nesting costs no stack");
    cr_assert(repeat("]", "]a", 10, "."));
    cr_assert_null(repeat("", "(", 1025, "t."));
    cr_assert(strstr(last_report(), "open marks"));
    limits.max_ops = 1000;
    cr_assert_null(repeat("", "N0", 1000, "N."));
    cr_assert(strstr(last_report(), "operations"));
    limits.max_ops = 1 << 20;
    limits.max_pickle = 1000;
    cr_assert_null(repeat("", "N0", 1000, "N."));
    cr_assert(strstr(last_report(), "larger than the limit"));
}

/* A long list that many short calls go through. */
Test(pickle, calls_are_charged)
{
    ptwrite_init(&w, a);
    ptwrite_ops(&w, "](");
    for (int i = 0; i < 10000; i++)
        ptwrite_op(&w, 'N');
    ptwrite_ops(&w, "e\x85");
    ptwrite_put(&w, 0);
    for (int i = 0; i < 10000; i++) {
        ptwrite_ops(&w, "0");
        ptwrite_global(&w, "builtins", "set");
        ptwrite_get(&w, 0);
        ptwrite_ops(&w, "R");
    }
    ptwrite_op(&w, '.');
    cr_assert_null(load(w.code.text, w.code.len));
    cr_assert(strstr(last_report(), "go through"), "%s", last_report());
}

#define VIEW(offset, size, stride)                                                                           \
    "ctorch._utils\n_rebuild_tensor_v2\n(" ID(FLOAT, KEY, "K\4") offset size stride "\x89NtR"

Test(pickle, kinds_of_a_tensors_numbers)
{
    static const struct {
        const char *ops;
        size_t n;
        bool good;
    } rows[] = {
#define ROW(ops, good) {"\x80\2" ops ".", sizeof(ops) + 2, good}
        ROW(VIEW("K\0", ")", ")"), true),
        ROW(VIEW("K\1", "K\3\x85", "K\1\x85"), true),
        ROW(VIEW("\x88", ")", ")"), false),
        ROW(VIEW("N", ")", ")"), false),
        ROW(VIEW("K\0", "N", "N"), false),
        ROW(VIEW("K\0", ")", "N"), false),
        ROW(VIEW("K\0", "\x88\x85", "K\1\x85"), false),
        ROW(VIEW("K\0", "K\1\x85", "\x88\x85"), false),
        ROW(VIEW("K\0", "N\x85", "K\1\x85"), false),
        ROW(VIEW("J\xff\xff\xff\xff", "K\1\x85", "K\1\x85"), false),
        ROW(VIEW("J\xff\xff\xff\xff", "K\0\x85", "K\1\x85"), false),
        ROW(VIEW("J\xff\xff\xff\xff", "K\2\x85", "K\1\x85"), false),
        ROW(VIEW("K\0", "J\xff\xff\xff\x7fJ\xff\xff\xff\x7fK\3\x87", "K\0K\0K\0\x87"), false),
        ROW("ctorch._utils\n_rebuild_tensor_v3\n(" ID(FLOAT, KEY,
                                                      "K\4") "K\0K\4\x85K\1\x85\x89Nctorch\nbfloat16\ntR",
            false),
        ROW("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_parameter\ncm\nC\n(" VIEW(
                "K\0", ")", ")") "\x89NtNtR",
            true),
        ROW("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_parameter\ncm\nC\n](" VIEW(
                "K\0", ")", ")") "\x89NeNtR",
            false),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        cr_assert_eq(load(rows[i].ops, rows[i].n) != NULL, rows[i].good, "row %zu: %s", i, last_report());
}

Test(pickle, tensors_are_counted)
{
    static const char two[] = "\x80\2" VIEW("K\0", ")", ")") VIEW("K\0", ")", ")") "\x86.";
    limits.max_tensors = 2;
    cr_assert(load(two, sizeof two - 1), "%s", last_report());
    limits.max_tensors = 1;
    cr_assert_null(load(two, sizeof two - 1));
    cr_assert(strstr(last_report(), "more than 1 tensors"), "%s", last_report());
}

#define WINDOW(view) "\x80\2(U\7storagec" FLOAT KEY "U\3cpuK\6" view "tQ."

/* The sixth field of the old form's ids. */
Test(pickle, windows_of_storages)
{
    static const struct {
        const char *ops;
        size_t n;
        bool good;
    } rows[] = {
#define ROW(view, good) {WINDOW(view), sizeof(WINDOW(view)) - 1, good}
        ROW("N", true),
        ROW("(U\1x"
            "K\1K\5t",
            true),
        ROW("(U\1x"
            "K\6K\0t",
            true),
        ROW("(U\1x"
            "K\1K\6t",
            false),
        ROW("(U\1x"
            "K\7K\0t",
            false),
        ROW("(U\1x"
            "J\xff\xff\xff\xffK\7t",
            false),
        ROW("(U\1x"
            "K\0J\xff\xff\xff\xfft",
            false),
        ROW("(U\1x"
            "K\1t",
            false),
        ROW("](U\1x"
            "K\1K\5e",
            false),
        ROW("(U\1x"
            "\x88\x88t",
            false),
        ROW("(U\1x"
            "K\1\x88t",
            false),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct fe_pickle p = {.a = a, .d = d, .limits = &limits};
        uint64_t used;
        const void *o = fe_pickle_load(&p, (const uint8_t *)rows[i].ops, rows[i].n, &used);
        cr_assert_eq(o != NULL, rows[i].good, "row %zu: %s", i, last_report());
    }
}
