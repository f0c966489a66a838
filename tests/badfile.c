#include "badfile.h"

#include <string.h>

#include "ptwrite.h"

/* A checkpoint is a dict: what is under test as "x", then a model of one convolution. */
static void open_dict(struct ptwrite *w)
{
    ptwrite_ops(w, "}(");
    ptwrite_key(w, "x");
}

static void close_dict(struct ptwrite *w)
{
    ptwrite_key(w, "model");
    ptwrite_conv(w, 1);
    ptwrite_op(w, 'u');
}

static void pack(struct badfile *f, struct ptwrite *w)
{
    f->bytes = ptwrite_zip(w, &f->len);
}

/* --- calls --------------------------------------------------------------------------------------------------- */

static const char *const calls[][2] = {
#define CALL(module, name) {module, name},
#include "badcall.def"
#undef CALL
};

static void put_call(struct ptwrite *w, const char *const *call)
{
    ptwrite_global(w, call[0], call[1]);
    ptwrite_str(w, "touch /tmp/called");
    ptwrite_ops(w, "\x85R");
}

static void call_value(struct ptwrite *w, const char *const *call)
{
    open_dict(w);
    put_call(w, call);
    close_dict(w);
}

static void call_root(struct ptwrite *w, const char *const *call)
{
    put_call(w, call);
}

/* Protocol 4: the names come from the stack. */
static void call_stack_global(struct ptwrite *w, const char *const *call)
{
    w->code.text[1] = 4;
    open_dict(w);
    ptwrite_str(w, call[0]);
    ptwrite_str(w, call[1]);
    ptwrite_ops(w, "\x93K\1\x85R");
    close_dict(w);
}

/* An instance whose state sets what Python would call later. */
static void call_state(struct ptwrite *w, const char *const *call)
{
    open_dict(w);
    ptwrite_global(w, call[0], call[1]);
    ptwrite_ops(w, ")\x81}(");
    ptwrite_key(w, "__setstate__");
    put_call(w, call);
    ptwrite_key(w, "__class__");
    ptwrite_global(w, call[0], call[1]);
    ptwrite_ops(w, "ub");
    close_dict(w);
}

/* Called, and gone before the object that is returned. */
static void call_dropped(struct ptwrite *w, const char *const *call)
{
    put_call(w, call);
    ptwrite_op(w, '0');
    ptwrite_conv(w, 1);
}

/* In the place of a parameter of a module. */
static void call_parameter(struct ptwrite *w, const char *const *call)
{
    ptwrite_module(w, "torch.nn.modules.conv", "Conv2d");
    ptwrite_key(w, "weight");
    put_call(w, call);
    ptwrite_module_buffers(w);
    ptwrite_module_children(w);
    ptwrite_module_attrs(w);
    ptwrite_module_end(w);
}

static const struct {
    const char *name;
    void (*put)(struct ptwrite *w, const char *const *call);
    enum yir_diag_id expected;
} call_forms[] = {
    {"value", call_value, YIR_DIAG_NONE},     {"root", call_root, E_PT_KIND},
    {"stack global", call_stack_global, YIR_DIAG_NONE}, {"state", call_state, YIR_DIAG_NONE},
    {"dropped", call_dropped, YIR_DIAG_NONE}, {"parameter", call_parameter, E_TENSOR},
};

static void make_call(struct badfile *f, struct ptwrite *w, size_t i)
{
    const char *const *call = calls[i / YIR_COUNT(call_forms)];
    size_t form = i % YIR_COUNT(call_forms);
    f->name = yir_format(w->a, "%s.%s as %s", call[0], call[1], call_forms[form].name);
    f->row = "B1";
    f->expected = call_forms[form].expected;
    call_forms[form].put(w, call);
    pack(f, w);
}

/* --- values of a checkpoint ----------------------------------------------------------------------------------- */

#define ID(type, key, numel) "(U\7storagectorch\n" type "\nU\1" key "U\3cpu" numel "tQ"

static const struct {
    const char *row, *name, *ops;
    size_t n;
    enum yir_diag_id expected;
} values[] = {
#define VALUE(row, name, expected, ops) {row, name, ops, sizeof(ops) - 1, expected}
    VALUE("B2", "getattr chain", YIR_DIAG_NONE, "c__builtin__\ngetattr\nc__builtin__\ngetattr\ncos\nsystem\nU\7forward\x86RU\1a\x86R)R"),
    VALUE("B2", "type that is called", E_TENSOR, "ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\ncm\nC\n)NtR"),
    VALUE("B2", "reconstructor", YIR_DIAG_NONE, "ccopy_reg\n_reconstructor\ncos\nsystem\nc__builtin__\nobject\nN\x87R"),
    VALUE("B2", "reconstructor, Python 3", YIR_DIAG_NONE, "ccopyreg\n_reconstructor\nc_io\nFileIO\nc__builtin__\nobject\nU\1x\x87R"),
    VALUE("B2", "state of __init__", YIR_DIAG_NONE, "cm\nC\n)\x81}U\10__init__cos\nsystem\nsb"),
    VALUE("B2", "state of __reduce__", YIR_DIAG_NONE, "cm\nC\n)\x81}U\12__reduce__cos\nsystem\nsb"),
    VALUE("B2", "state changed through the memo", YIR_DIAG_NONE, "cm\nC\n)\x81}q\1bh\1U\1acos\nsystem\ns0"),
    VALUE("B2", "state set twice", E_PICKLE, "cm\nC\n)\x81}b}b"),
    VALUE("B2", "state of a tuple", E_PICKLE, ")}b"),
    VALUE("B2", "state of a string", E_PICKLE, "U\1a}b"),
    VALUE("B2", "state of a class", E_PICKLE, "ctorch.nn.modules.conv\nConv2d\n}b"),
    VALUE("B2", "state of a storage", E_PICKLE, ID("FloatStorage", "0", "K\2") "}b"),
    VALUE("B2", "append to a tuple", E_PICKLE, ")Na"),
    VALUE("B2", "append to a string", E_PICKLE, "U\1aNa"),
    VALUE("B2", "append to a dict", E_PICKLE, "}(NNe"),
    VALUE("B2", "append to a class", E_PICKLE, "cos\nsystem\nNa"),
    VALUE("B2", "item of a tuple", E_PICKLE, ")NNs"),
    VALUE("B2", "item of None", E_PICKLE, "NNNs"),
    VALUE("B2", "item of a list", E_PICKLE, "](K\0Nu"),
    VALUE("B2", "item of a storage", E_PICKLE, ID("FloatStorage", "0", "K\2") "(K\0Nu"),
    VALUE("B2", "key without a value", E_PICKLE, "}(Nu"),
    VALUE("B2", "set items of a list", E_PICKLE, "](N\x90"),
    VALUE("B2", "instance of a string", E_PICKLE, "U\1a)\x81"),
    VALUE("B2", "instance of an instance", E_PICKLE, "cm\nC\n)\x81)\x81"),
    VALUE("B2", "instance with a list", E_PICKLE, "cos\nsystem\n]\x81"),
    VALUE("B2", "call of a string", E_PICKLE, "U\11os.system)R"),
    VALUE("B2", "call of an integer", E_PICKLE, "K\1)R"),
    VALUE("B2", "call of an instance", YIR_DIAG_NONE, "cm\nC\n)\x81)R"),
    VALUE("B2", "call with a string", E_PICKLE, "cos\nsystem\nU\1aR"),
    VALUE("B2", "ordered dict of code", E_PICKLE, "ccollections\nOrderedDict\ncos\nsystem\n\x85R"),
    VALUE("B2", "default factory", YIR_DIAG_NONE, "ccollections\ndefaultdict\ncos\nsystem\n\x85R"),
    VALUE("B2", "set of a string", E_PICKLE, "c__builtin__\nset\nU\1a\x85R"),
    VALUE("B2", "codec that is code", E_PICKLE, "c_codecs\nencode\nU\1aU\5rot13\x86R"),
    VALUE("B2", "numpy object", YIR_DIAG_NONE, "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\2O8K\0K\1\x87RC\1x\x86R"),
    VALUE("B2", "numpy object array", YIR_DIAG_NONE,
          "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1K\1\x85" "cnumpy\ndtype\nU\1OK\0K\1\x87R\x89](cos\nsystem\netb"),
    VALUE("B2", "parameter of None", E_TENSOR, "ctorch._utils\n_rebuild_parameter\nN\x89N\x87R"),
    VALUE("B2", "tensor of a dict", E_TENSOR, "ctorch._utils\n_rebuild_tensor_v2\n(}K\0))\x89}tR"),
#define REFUSED(name, ops) VALUE("B3", name, E_PICKLE, ops)
    REFUSED("INST", "(U\1aios\nsystem\n"),
    REFUSED("OBJ", "(cos\nsystem\nU\1ao"),
    REFUSED("EXT1", "\x82\1"),
    REFUSED("EXT2", "\x83\1\1"),
    REFUSED("EXT4", "\x84\1\1\1\1"),
    REFUSED("NEWOBJ_EX", "cos\nsystem\n)}\x92"),
    REFUSED("PERSID", "Pstorage\n"),
    REFUSED("INT", "I1\n"),
    REFUSED("LONG", "L1L\n"),
    REFUSED("FLOAT", "F1\n"),
    REFUSED("STRING", "S'a'\n"),
    REFUSED("UNICODE", "Va\n"),
    REFUSED("LIST", "(l"),
    REFUSED("DICT", "(d"),
    REFUSED("GET", "g0\n"),
    REFUSED("PUT", "Np0\n"),
    REFUSED("LONG4", "\x8b\1\0\0\0\1"),
    REFUSED("BINBYTES8", "\x8e\1\0\0\0\0\0\0\0a"),
    REFUSED("BYTEARRAY8", "\x96\1\0\0\0\0\0\0\0a"),
    REFUSED("NEXT_BUFFER", "\x97"),
    REFUSED("READONLY_BUFFER", "N\x98"),
    REFUSED("frame beyond the end", "\x95\xff\xff\xff\xff\xff\xff\xff\x7fN"),
    REFUSED("protocol again", "\x80\2N"),
#undef REFUSED
    VALUE("B4", "tuple without a mark", E_PICKLE, "ttttN"),
    VALUE("B4", "dict pulled away", E_PICKLE, "0000000N"),
    VALUE("B4", "early end", E_PICKLE, "N."),
    VALUE("B5", "memo of 4 G entries", E_LIMIT, "Nr\xff\xff\xff\xff"),
    VALUE("B5", "sparse memo", E_LIMIT, "Nr\xff\xff\xff\0"),
    VALUE("B5", "unset memo", E_PICKLE, "j\xff\xff\xff\x7f"),
    VALUE("B6", "list in itself", E_LIMIT, "]q\1h\1a"),
    VALUE("B6", "dict in itself", E_LIMIT, "}q\1U\1ah\1s"),
    VALUE("B6", "state in itself", YIR_DIAG_NONE, "cm\nC\n)\x81q\1}U\1ah\1sb"),
    VALUE("B7", "string of 4 G bytes", E_LIMIT, "X\xff\xff\xff\xff"),
    VALUE("B7", "string of 2^63 bytes", E_LIMIT, "\x8d\0\0\0\0\0\0\0\x80"),
    VALUE("B7", "string past the end", E_PICKLE, "X\0\0\1\0abc"),
    VALUE("B7", "bytes past the end", E_PICKLE, "B\0\0\1\0abc"),
    VALUE("B7", "text that is not UTF-8", E_PICKLE, "X\2\0\0\0\xc0\x80"),
    VALUE("B7", "lone surrogate", E_PICKLE, "X\3\0\0\0\xed\xa0\x80"),
    VALUE("B7", "zero byte in a global", E_PICKLE, "cos\0x\nsystem\n"),
    VALUE("B7", "line end in a global", E_PICKLE, "U\4os\nxU\6system\x93"),
    VALUE("B7", "integer of 255 bytes", E_LIMIT, "\x8a\xff\1\1\1\1"),
    VALUE("B8", "persistent id None", E_PICKLE, "NQ"),
    VALUE("B8", "persistent id of four", E_PICKLE, "(U\7storagectorch\nFloatStorage\nU\0010U\3cputQ"),
    VALUE("B8", "source of a module", E_PICKLE, "(U\6modulecm\nC\nU\4x.pyU\16import os; os.xtQ"),
    VALUE("B8", "key that is a path", E_PICKLE, "(U\7storagectorch\nFloatStorage\nU\13../../0/x/yU\3cpuK\1tQ"),
    VALUE("B8", "unknown storage", E_TENSOR, "(U\7storagecos\nsystem\nU\0010U\3cpuK\1tQ"),
    VALUE("B8", "negative count", E_TENSOR, ID("FloatStorage", "0", "J\xff\xff\xff\xff")),
    VALUE("B8", "count of 2^64", E_TENSOR, ID("FloatStorage", "0", "\x8a\x09\0\0\0\0\0\0\0\0\1")),
    VALUE("C1", "storage without a record", E_TENSOR, ID("FloatStorage", "9", "K\2")),
    VALUE("C1", "more than the record", E_TENSOR, ID("FloatStorage", "0", "K\3")),
    VALUE("C1", "less than the record", E_TENSOR, ID("FloatStorage", "0", "K\1")),
    VALUE("C1", "more than there is memory", E_TENSOR, ID("FloatStorage", "0", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f")),
    VALUE("C7", "two types of one key", E_TENSOR, ID("FloatStorage", "0", "K\2") "0" ID("IntStorage", "0", "K\2")),
    VALUE("C7", "two counts of one key", E_TENSOR, ID("FloatStorage", "0", "K\2") "0" ID("FloatStorage", "0", "K\1")),
    VALUE("C6", "complex", E_TENSOR, ID("ComplexFloatStorage", "0", "K\2")),
#undef VALUE
};

static void make_value(struct badfile *f, struct ptwrite *w, size_t i)
{
    f->name = values[i].name;
    f->row = values[i].row;
    f->expected = values[i].expected;
    open_dict(w);
    ptwrite_raw(w, values[i].ops, values[i].n);
    close_dict(w);
    pack(f, w);
}

/* --- tensors -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *row, *name;
    int64_t offset, dim[3], stride[3];
    int rank;
    enum yir_diag_id expected;
} views[] = {
    {"C2", "offset -1", -1, {1}, {1}, 1, E_TENSOR},
    {"C2", "offset past the end", 8, {1}, {1}, 1, E_TENSOR},
    {"C2", "offset 2^31", INT64_C(1) << 31, {1}, {1}, 1, E_TENSOR},
    {"C2", "offset 2^32", INT64_C(1) << 32, {1}, {1}, 1, E_TENSOR},
    {"C2", "offset 2^63-1", INT64_MAX, {2}, {1}, 1, E_TENSOR},
    {"C2", "offset -2^63", INT64_MIN, {1}, {1}, 1, E_TENSOR},
    {"C2", "offset that wraps", INT64_MAX - 3, {8}, {1}, 1, E_TENSOR},
    {"C2", "last element outside", 1, {8}, {1}, 1, E_TENSOR},
    {"C2", "stride that wraps", 0, {3}, {INT64_MAX / 2 + 1}, 1, E_TENSOR},
    {"C2", "two strides that wrap", 0, {2, 2}, {INT64_MAX, INT64_MAX}, 2, E_TENSOR},
    {"C3", "stride -1", 7, {8}, {-1}, 1, E_TENSOR},
    {"C3", "stride -2^63", 0, {2}, {INT64_MIN}, 1, E_TENSOR},
    {"C4", "one element 2^30 times", 0, {1 << 15, 1 << 15}, {0, 0}, 2, E_LIMIT},
    {"C4", "one element 2^62 times", 0, {INT32_MAX, INT32_MAX}, {0, 0}, 2, E_LIMIT},
    {"C5", "size -1", 0, {-1}, {1}, 1, E_TENSOR},
    {"C5", "size 2^62 twice", 0, {INT64_C(1) << 62, INT64_C(1) << 62}, {1, 1}, 2, E_TENSOR},
    {"C5", "sizes whose product wraps", 0, {INT64_C(1) << 31, INT64_C(1) << 31, 4}, {0, 0, 0}, 3, E_TENSOR},
    {"C5", "product that wraps to 4", 0, {4194305, 4194305, INT64_C(211106198978564)}, {0, 0, 0}, 3, E_TENSOR},
};

static void make_view(struct badfile *f, struct ptwrite *w, size_t i)
{
    static const float bytes[8];
    f->name = views[i].name;
    f->row = views[i].row;
    f->expected = views[i].expected;
    ptwrite_op(w, '}');
    ptwrite_key(w, "t");
    ptwrite_storage(w, "FloatStorage", bytes, sizeof bytes, 8);
    ptwrite_view(w, views[i].offset, views[i].dim, views[i].stride, views[i].rank);
    ptwrite_op(w, 's');
    pack(f, w);
}

/* --- structures without end ----------------------------------------------------------------------------------- */

static void repeat(struct ptwrite *w, const char *ops, int times)
{
    while (times-- > 0) ptwrite_ops(w, ops);
}

static void many_tuples(struct ptwrite *w)
{
    open_dict(w);
    ptwrite_op(w, 'N');
    repeat(w, "\x85", 1000000);
    close_dict(w);
}

static void many_lists(struct ptwrite *w)
{
    open_dict(w);
    repeat(w, "]", 500000);
    repeat(w, "a", 499999);
    close_dict(w);
}

static void many_marks(struct ptwrite *w)
{
    repeat(w, "(", 100000);
}

/* Each tuple has the one before twice: 2^40 paths. */
static void many_paths(struct ptwrite *w)
{
    ptwrite_op(w, 'N');
    repeat(w, "2\x86", 40);
}

static void many_operations(struct ptwrite *w)
{
    repeat(w, "N0N0N0N0N0N0N0N0", 1100000);
}

static void many_memos(struct ptwrite *w)
{
    for (unsigned i = 0; i < 300000; i++) {
        ptwrite_op(w, 'N');
        ptwrite_put(w, i + 60000);
        ptwrite_op(w, '0');
    }
    ptwrite_op(w, 'N');
}

static void module_in_itself(struct ptwrite *w)
{
    ptwrite_ops(w, "cm\nM\n)\x81");
    ptwrite_put(w, 7);
    ptwrite_ops(w, "}(");
    ptwrite_key(w, "_modules");
    ptwrite_ops(w, "}(");
    ptwrite_key(w, "a");
    ptwrite_get(w, 7);
    ptwrite_ops(w, "uub");
}

static void nested_modules(struct ptwrite *w)
{
    for (int i = 0; i < 3000; i++) {
        ptwrite_module(w, "m", "M");
        ptwrite_module_buffers(w);
        ptwrite_module_children(w);
        ptwrite_key(w, "a");
    }
    ptwrite_op(w, 'N');
    for (int i = 0; i < 3000; i++) {
        ptwrite_module_attrs(w);
        ptwrite_module_end(w);
    }
}

static void shared_modules(struct ptwrite *w)
{
    ptwrite_conv(w, 1);
    ptwrite_put(w, 1);
    ptwrite_op(w, '0');
    for (unsigned level = 1; level < 30; level++) {
        ptwrite_module(w, "m", "M");
        ptwrite_module_buffers(w);
        ptwrite_module_children(w);
        ptwrite_key(w, "a");
        ptwrite_get(w, level);
        ptwrite_key(w, "b");
        ptwrite_get(w, level);
        ptwrite_module_attrs(w);
        ptwrite_module_end(w);
        ptwrite_put(w, level + 1);
        if (level < 29) ptwrite_op(w, '0');
    }
}

static const struct {
    const char *name;
    void (*put)(struct ptwrite *w);
    enum yir_diag_id expected;
} structures[] = {
    {"a million tuples, one in the other", many_tuples, E_LIMIT},
    {"lists, one in the other", many_lists, E_LIMIT},
    {"marks", many_marks, E_LIMIT},
    {"2^40 paths", many_paths, E_PT_KIND},
    {"operations", many_operations, E_LIMIT},
    {"memos", many_memos, E_PT_KIND},
    {"module in itself", module_in_itself, E_PICKLE},
    {"modules, one in the other", nested_modules, E_LIMIT},
    {"2^29 modules by sharing", shared_modules, E_LIMIT},
};

static void make_structure(struct badfile *f, struct ptwrite *w, size_t i)
{
    f->name = structures[i].name;
    f->row = "B6";
    f->expected = structures[i].expected;
    structures[i].put(w);
    pack(f, w);
}

/* --- archives -------------------------------------------------------------------------------------------------- */

/* Byte `at` of the n-th record with a signature is changed by an exclusive or. */
static const struct {
    const char *row, *name, *sig;
    int n, at;
    uint8_t by;
    enum yir_diag_id expected;
} patches[] = {
    {"A2", "another local name", "PK\3\4", 1, 30, 1, E_ZIP},
    {"A2", "another local method", "PK\3\4", 1, 8, 8, E_ZIP},
    {"A2", "other local flags", "PK\3\4", 1, 6, 1, E_ZIP},
    {"A2", "another local size", "PK\3\4", 1, 22, 1, E_ZIP},
    {"A2", "another local checksum", "PK\3\4", 1, 14, 1, E_ZIP},
    {"A2", "another size behind the data", "PK\7\10", 0, 12, 1, E_ZIP},
    {"A2", "another checksum behind the data", "PK\7\10", 0, 4, 1, E_ZIP},
    {"A3", "entry on another", "PK\1\2", 1, 42, 0xff, E_ZIP},
    {"A3", "entry in the directory", "PK\1\2", 0, 45, 0x7f, E_ZIP},
    {"A3", "size past the end", "PK\1\2", 0, 27, 0x80, E_ZIP},
    {"A3", "longer name", "PK\1\2", 0, 29, 0xff, E_ZIP},
    {"A3", "longer extra", "PK\1\2", 0, 31, 0xff, E_ZIP},
    {"A4", "locator elsewhere", "PK\6\7", 0, 8, 1, E_ZIP},
    {"A4", "locator far away", "PK\6\7", 0, 15, 0x80, E_ZIP},
    {"A4", "two disks", "PK\6\7", 0, 16, 3, E_ZIP},
    {"A4", "another count of entries", "PK\5\6", 0, 10, 1, E_ZIP},
    {"A4", "another start of the directory", "PK\5\6", 0, 16, 1, E_ZIP},
    {"A4", "another size of the directory", "PK\6\6", 0, 40, 1, E_ZIP},
    {"A4", "comment that is not there", "PK\5\6", 0, 20, 1, E_ZIP},
    {"A5", "zero byte in a name", "PK\1\2", 0, 47, 'r', E_ZIP},
    {"A6", "deflated", "PK\1\2", 0, 10, 8, E_ZIP},
    {"A6", "bzip2", "PK\1\2", 0, 10, 12, E_ZIP},
    {"A6", "encrypted", "PK\1\2", 0, 8, 1, E_ZIP},
    {"A6", "strongly encrypted", "PK\1\2", 0, 8, 0x40, E_ZIP},
    {"A7", "wrong checksum", "FBZZ", 0, 0, 0, E_CRC},
};

static uint8_t *find_record(uint8_t *bytes, size_t len, const char *sig, int n)
{
    for (size_t at = 0; at + 4 <= len; at++)
        if (!memcmp(bytes + at, sig, 4) && n-- == 0) return bytes + at;
    return NULL;
}

static void make_patch(struct badfile *f, struct ptwrite *w, size_t i)
{
    f->name = patches[i].name;
    f->row = patches[i].row;
    f->expected = patches[i].expected;
    ptwrite_checkpoint(w);
    uint8_t *bytes = ptwrite_zip(w, &f->len);
    uint8_t *record = find_record(bytes, f->len, patches[i].sig, patches[i].n);
    if (record) record[patches[i].at] ^= patches[i].by;
    else bytes[128 + 5] ^= 1; /* in the first payload */
    f->bytes = bytes;
}

static const struct {
    const char *row, *name, *first, *second;
    enum yir_diag_id expected;
} names[] = {
    {"A5", "the same name twice", "a/data.pkl", "a/data.pkl", E_ZIP},
    {"A5", "names alike but for case", "a/data.pkl", "A/DATA.PKL", E_ZIP},
    {"A5", "name above the folder", "a/data.pkl", "../../etc/passwd", E_ZIP},
    {"A5", "name from the root", "a/data.pkl", "/etc/passwd", E_ZIP},
    {"A5", "name with a way back", "a/data.pkl", "a/x/../../../y", E_ZIP},
    {"A5", "backslashes", "a/data.pkl", "a\\..\\x", E_ZIP},
    {"A5", "drive", "a/data.pkl", "C:\\x", E_ZIP},
    {"A5", "no name", "a/data.pkl", "", E_ZIP},
    {"A8", "no pickle", "a/x", "a/y", E_PT_KIND},
    {"A8", "two pickles", "a/data.pkl", "b/data.pkl", E_PT_KIND},
    {"A8", "numpy archive", "a.npy", "b.npy", E_PT_KIND},
    {"A8", "traced module", "a/data.pkl", "a/constants.pkl", E_PT_KIND},
    {"A9", "no version", "a/data.pkl", "a/byteorder", E_ZIP},
};

static void make_names(struct badfile *f, struct ptwrite *w, size_t i)
{
    const struct ptwrite_record r[] = {{names[i].first, "\x80\2}.", 4}, {names[i].second, "3\n", 2}};
    f->name = names[i].name;
    f->row = names[i].row;
    f->expected = names[i].expected;
    f->bytes = ptwrite_archive(w, r, 2, &f->len);
}

static const struct {
    const char *row, *name, *version, *byteorder;
    enum yir_diag_id expected;
} formats[] = {
    {"A9", "big-endian", "3\n", "big", E_PT_KIND},          {"A9", "no byte order", "3\n", "middle", E_ZIP},
    {"A9", "byte order cut off", "3\n", "litt", E_ZIP},      {"A9", "version 0", "0\n", "little", E_ZIP},
    {"A9", "version 999", "999\n", "little", E_ZIP},         {"A9", "version of many digits", "33333333333333333333", "little", E_ZIP},
    {"A9", "version that is no number", "x", "little", E_ZIP}, {"A9", "empty version", "", "little", E_ZIP},
};

static void make_format(struct badfile *f, struct ptwrite *w, size_t i)
{
    f->name = formats[i].name;
    f->row = formats[i].row;
    f->expected = formats[i].expected;
    w->version = formats[i].version;
    w->byteorder = formats[i].byteorder;
    ptwrite_checkpoint(w);
    pack(f, w);
}

/* --- other bytes ------------------------------------------------------------------------------------------------ */

/* head, then a good checkpoint when `rest`, then tail. */
static const struct {
    const char *row, *name, *head;
    size_t nhead;
    bool rest;
    const char *tail;
    size_t ntail;
    enum yir_diag_id expected;
} wraps[] = {
#define WRAP(row, name, head, rest, tail, expected) {row, name, head, sizeof(head) - 1, rest, tail, sizeof(tail) - 1, expected}
    WRAP("A4", "pickle and archive", "cposix\nsystem\n(S'x'\ntR.", true, "", E_PT_KIND),
    WRAP("A4", "program and archive", "#!/bin/sh\nexit\n", true, "", E_PT_KIND),
    WRAP("A4", "text behind the archive", "", true, "trailing", E_ZIP),
    WRAP("A4", "second end behind the archive", "", true, "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", E_ZIP),
    WRAP("A4", "end record alone", "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", false, "", E_ZIP),
    WRAP("A8", "pickle of protocol 0", "cposix\nsystem\n(S'touch x'\ntR.", false, "", E_PT_KIND),
    WRAP("A8", "pickle of protocol 2", "\x80\2cposix\nsystem\nU\1x\x85R.", false, "", E_PT_KIND),
    WRAP("A8", "preview format", "PYTORCH1", false, "", E_PT_KIND),
    WRAP("A8", "nothing", "", false, "", E_PT_KIND),
    WRAP("A8", "page", "<!DOCTYPE html><script>x()</script>", false, "", E_PT_KIND),
    WRAP("A8", "compressed", "\x1f\x8b\x08\0\0\0\0\0", false, "", E_PT_KIND),
    WRAP("A8", "HDF5", "\x89HDF\r\n\x1a\n", false, "", E_PT_KIND),
    WRAP("A8", "ELF", "\x7f" "ELF\2\1\1\0", false, "", E_PT_KIND),
    WRAP("B1", "legacy form with a call for the magic", "\x80\2\x8a\12l\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\2cos\nsystem\nU\1x\x85R.", false, "",
         E_PT_KIND),
#undef WRAP
};

static void make_wrap(struct badfile *f, struct ptwrite *w, size_t i)
{
    struct yir_str s = {.arena = w->a};
    f->name = wraps[i].name;
    f->row = wraps[i].row;
    f->expected = wraps[i].expected;
    ptwrite_checkpoint(w);
    const uint8_t *bytes = ptwrite_zip(w, &f->len);
    yir_str_put(&s, wraps[i].head, wraps[i].nhead);
    if (wraps[i].rest) yir_str_put(&s, (const char *)bytes, f->len);
    yir_str_put(&s, wraps[i].tail, wraps[i].ntail);
    f->bytes = (const uint8_t *)s.text;
    f->len = s.len;
}

/* Cuts of a good file at 24 places. */
enum { CUTS = 24 };

static void make_cut(struct badfile *f, struct ptwrite *w, size_t i)
{
    ptwrite_checkpoint(w);
    pack(f, w);
    f->len = f->len * i / CUTS;
    f->name = yir_format(w->a, "cut after %zu bytes", f->len);
    f->row = "A1";
    f->expected = f->len < 4 ? E_PT_KIND : E_ZIP;
}

/* --- model descriptions ----------------------------------------------------------------------------------------- */

#define MODEL(extra, row) "nc: 2\n" extra "backbone:\n  - [-1, 1, Conv, [16, 3, 2]]\n" row "head:\n  - [[0], 1, Detect, [nc]]\n"
#define TEN(x) "[" x "," x "," x "," x "," x "," x "," x "," x "," x "," x "]\n"
#define BOMB \
    "a: &a " TEN("x") "b: &b " TEN("*a") "c: &c " TEN("*b") "d: &d " TEN("*c") "e: &e " TEN("*d") "f: " TEN("*e")
static const struct {
    const char *row, *name, *text;
    enum yir_diag_id expected;
} yamls[] = {
    {"E4", "code as the activation", MODEL("activation: __import__('os').system('x')\n", ""), E_ACTIVATION},
    {"E4", "lambda as the activation", MODEL("activation: '(lambda: 0)()'\n", ""), E_ACTIVATION},
    {"E4", "code as an argument", MODEL("", "  - [-1, 1, Conv, [\"__import__('os').system('x')\", 3]]\n"), E_ARGS},
    {"E4", "code as a module", MODEL("", "  - [-1, 1, \"os.system('x')\", [16]]\n"), E_MODULE},
    {"E4", "dotted code as a module", MODEL("", "  - [-1, 1, nn.os.system, [16]]\n"), E_MODULE},
    {"E4", "code as repeats", MODEL("", "  - [-1, \"exit()\", Conv, [16]]\n"), E_ROW},
    {"E1", "object of Python", MODEL("x: !!python/object/apply:os.system ['x']\n", ""), E_YAML_FEATURE},
    {"E1", "alias bomb", BOMB, E_LIMIT},
    {"E1", "alias of itself", MODEL("x: &x [1, *x]\n", ""), E_YAML_ALIAS},
    {"E1", "alias of nothing", MODEL("x: *y\n", ""), E_YAML_ALIAS},
    {"E1", "merge of a text", MODEL("<<: x\n", ""), E_YAML_KEY},
};

static void make_yaml(struct badfile *f, struct ptwrite *w, size_t i)
{
    (void)w;
    f->name = yamls[i].name;
    f->row = yamls[i].row;
    f->expected = yamls[i].expected;
    f->bytes = (const uint8_t *)yamls[i].text;
    f->len = strlen(yamls[i].text);
    f->yaml = true;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static const struct {
    size_t n;
    void (*make)(struct badfile *f, struct ptwrite *w, size_t i);
} groups[] = {
    {YIR_COUNT(calls) * YIR_COUNT(call_forms), make_call}, {YIR_COUNT(values), make_value}, {YIR_COUNT(views), make_view},
    {YIR_COUNT(structures), make_structure}, {YIR_COUNT(patches), make_patch}, {YIR_COUNT(names), make_names},
    {YIR_COUNT(formats), make_format}, {YIR_COUNT(wraps), make_wrap}, {CUTS, make_cut}, {YIR_COUNT(yamls), make_yaml},
};

size_t badfile_count(void)
{
    size_t n = 0;
    for (size_t g = 0; g < YIR_COUNT(groups); g++) n += groups[g].n;
    return n;
}

void badfile_make(struct badfile *f, struct yir_arena *a, size_t i)
{
    struct ptwrite w;
    size_t g = 0;
    for (; i >= groups[g].n; g++) i -= groups[g].n;
    ptwrite_init(&w, a);
    *f = (struct badfile){0};
    groups[g].make(f, &w, i);
}
