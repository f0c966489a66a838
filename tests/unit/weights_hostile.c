/* Weights files that lie in one place each: the old form, names, values, safetensors headers, files that are
 * no files; truncation of a large one; and what nests or shares without end, read on a small stack. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "frontend/safetensors.h"
#include "longer.h"
#include "ptwrite.h"
#include "readcheck.h"

static struct yir_arena *a;
static struct ptwrite w;
static struct yir_limits limits;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    ptwrite_init(&w, a);
    yir_limits_init(&limits);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(weights_hostile, .init = setup, .fini = teardown);

static void expect(const void *bytes, size_t len, enum yir_diag_id id, const char *part)
{
    struct readcheck r = readcheck_bytes(bytes, len, &limits);
    if (id == YIR_DIAG_NONE)
        cr_assert(r.w, "%s", readcheck_text(&r));
    else
        cr_assert(!r.w && readcheck_id(&r) == id && strstr(readcheck_text(&r), part), "%s, not: %s",
                  r.w ? "accepted" : readcheck_text(&r), part);
    readcheck_end(&r);
}

static void expect_zip(enum yir_diag_id id, const char *part)
{
    size_t len;
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    expect(bytes, len, id, part);
    ptwrite_init(&w, a);
}

/* --- the old form
 * ------------------------------------------------------------------------------------------- */

#define MAGIC  "\x80\2\x8a\12l\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
#define SYSTEM "\x80\2}X\15\0\0\0little_endian\x88s."
#define ID                                                                                                   \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                                   \
    "0U\3cpuK\2NtQ"
#define VIEW   "ctorch._utils\n_rebuild_tensor_v2\n(" ID "K\0K\2\x85K\1\x85\x89NtR"
#define OBJECT "\x80\2}U\1t" VIEW "s."
#define KEYS                                                                                                 \
    "\x80\2]U\1"                                                                                             \
    "0a."
#define COUNT                                    "\2\0\0\0\0\0\0\0"
#define DATA                                     "12345678"
#define OLD(version, system, object, keys, rest) MAGIC version system object keys rest
#define VERSION                                  "\x80\2M\xe9\3."

Test(weights_hostile, old_form)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum yir_diag_id id;
        const char *part;
    } rows[] = {
#define ROW(id, part, ...) {OLD(__VA_ARGS__), sizeof(OLD(__VA_ARGS__)) - 1, id, part}
        ROW(YIR_DIAG_NONE, "", VERSION, SYSTEM, OBJECT, KEYS, COUNT DATA),
        ROW(E_PT_KIND, "not 1001", "\x80\2M\xea\3.", SYSTEM, OBJECT, KEYS, COUNT DATA),
        ROW(E_PT_KIND, "not 1001", "\x80\2N.", SYSTEM, OBJECT, KEYS, COUNT DATA),
        ROW(E_PT_KIND, "little-endian", VERSION, "\x80\2}X\15\0\0\0little_endian\x89s.", OBJECT, KEYS,
            COUNT DATA),
        ROW(E_PT_KIND, "little-endian", VERSION, "\x80\2}.", OBJECT, KEYS, COUNT DATA),
        ROW(E_PT_KIND, "little-endian", VERSION, "\x80\2N.", OBJECT, KEYS, COUNT DATA),
        ROW(E_TENSOR, "does not fit", VERSION, SYSTEM, OBJECT, "\x80\2].", COUNT DATA),
        ROW(E_TENSOR, "does not fit", VERSION, SYSTEM, OBJECT,
            "\x80\2]U\1"
            "0aU\1"
            "0a.",
            COUNT DATA),
        ROW(E_TENSOR, "does not fit", VERSION, SYSTEM, OBJECT,
            "\x80\2U\1"
            "0\x85.",
            COUNT DATA),
        ROW(E_TENSOR, "not used", VERSION, SYSTEM, OBJECT,
            "\x80\2]U\1"
            "7a.",
            COUNT DATA),
        ROW(E_TENSOR, "not used", VERSION, SYSTEM, OBJECT,
            "\x80\2]C\1"
            "0a.",
            COUNT DATA),
        ROW(E_TENSOR, "not used", VERSION, SYSTEM, OBJECT, "\x80\2]Na.", COUNT DATA),
        ROW(E_TENSOR, "before a storage", VERSION, SYSTEM, OBJECT, KEYS, ""),
        ROW(E_TENSOR, "before a storage", VERSION, SYSTEM, OBJECT, KEYS, "\2\0\0\0\0\0\0"),
        ROW(E_TENSOR, "3 elements", VERSION, SYSTEM, OBJECT, KEYS, "\3\0\0\0\0\0\0\0" DATA "1234"),
        ROW(E_TENSOR, "2 are declared", VERSION, SYSTEM, OBJECT, KEYS,
            "\xff\xff\xff\xff\xff\xff\xff\xff" DATA),
        ROW(E_TENSOR, "inside a storage", VERSION, SYSTEM, OBJECT, KEYS, COUNT "1234567"),
        ROW(E_TENSOR, "after the last storage", VERSION, SYSTEM, OBJECT, KEYS, COUNT DATA "1"),
#undef ROW
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        expect(rows[i].bytes, rows[i].len, rows[i].id, rows[i].part);
    static const char twice[] = OLD(VERSION, SYSTEM,
                                    "\x80\2}(U\1t" VIEW "U\1u(U\7storagectorch\nFloatStorage\nU\1"
                                    "1U\3cpuK\2NtQu.",
                                    "\x80\2](U\1"
                                    "0U\1"
                                    "0e.",
                                    COUNT DATA COUNT DATA);
    expect(twice, sizeof twice - 1, E_TENSOR, "stands twice");
    static const char huge[] = OLD(VERSION, SYSTEM,
                                   "\x80\2}U\1t(U\7storagectorch\nFloatStorage\nU\1"
                                   "0U\3cpu\x8a\10\0\0\0\0\0\0\0\100NtQs.",
                                   KEYS, "\0\0\0\0\0\0\0\100");
    expect(huge, sizeof huge - 1, E_TENSOR, "inside a storage");
}

/* --- names, values and kinds
 * -------------------------------------------------------------------------------- */

static void put_state(const char *key, size_t n)
{
    ptwrite_op(&w, '}');
    ptwrite_raw(&w, key, n);
    ptwrite_floats(&w, 1, 1);
    ptwrite_op(&w, 's');
}

Test(weights_hostile, names)
{
    put_state("C\1a", 3);
    expect_zip(E_PICKLE, "proper name");
    put_state("U\0", 2);
    expect_zip(E_PICKLE, "proper name");
    put_state("U\3a\0b", 5);
    expect_zip(E_PICKLE, "proper name");
    put_state("U\1a", 3);
    expect_zip(YIR_DIAG_NONE, "");
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "x");
    ptwrite_ops(&w, "K\5");
    ptwrite_module_attrs(&w);
    ptwrite_module_end(&w);
    expect_zip(E_PICKLE, "is an int");
}

Test(weights_hostile, one_tensor_under_many_names)
{
    limits.max_tensors = 2;
    for (int names = 2; names <= 3; names++) {
        ptwrite_ops(&w, "}(");
        for (int i = 0; i < names; i++) {
            ptwrite_key(&w, yir_format(a, "n%d", i));
            if (i == 0) ptwrite_floats(&w, 1, 1);
            if (i == 0)
                ptwrite_put(&w, 9);
            else
                ptwrite_get(&w, 9);
        }
        ptwrite_op(&w, 'u');
        expect_zip(names == 2 ? YIR_DIAG_NONE : E_LIMIT, "--limit tensors=N");
    }
}

/* An attribute "v" made by these operations, as a reader of the model sees it; NULL: the file is refused. */
static enum fe_kind attribute(const char *ops, size_t n)
{
    size_t len;
    ptwrite_init(&w, a);
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    ptwrite_key(&w, "v");
    ptwrite_raw(&w, ops, n);
    ptwrite_module_end(&w);
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    struct readcheck r = readcheck_bytes(bytes, len, &limits);
    cr_assert(r.w, "%s", readcheck_text(&r));
    enum fe_kind kind = fe_node_attr(r.w->root, "v")->kind;
    readcheck_end(&r);
    return kind;
}

#define SCALAR(type, raw) "cnumpy.core.multiarray\nscalar\ncnumpy\ndtype\n" type "\x89\x88\x87R" raw "\x86R"
#define ATTRIBUTE(ops)    attribute(ops, sizeof(ops) - 1)

Test(weights_hostile, scalars_of_numpy)
{
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2f8", "C\10\0\0\0\0\0\0\0\0")), FE_FLOAT);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2i4", "C\4\1\0\0\0")), FE_INT);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2f8", "C\7\0\0\0\0\0\0\0")), FE_OPAQUE);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2f8", "C\11\0\0\0\0\0\0\0\0\0")), FE_OPAQUE);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2f8", "U\10aaaaaaaa")), FE_OPAQUE);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2f8", "N")), FE_OPAQUE);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\1O", "C\10\0\0\0\0\0\0\0\0")), FE_OPAQUE);
    cr_assert_eq(ATTRIBUTE(SCALAR("U\2V8", "C\10\0\0\0\0\0\0\0\0")), FE_OPAQUE);
}

Test(weights_hostile, tensors_as_values)
{
    static const int64_t two[] = {2};
    for (int i = 0; i < 2; i++) {
        size_t len;
        ptwrite_init(&w, a);
        ptwrite_module(&w, "m", "C");
        ptwrite_module_buffers(&w);
        ptwrite_module_children(&w);
        ptwrite_module_attrs(&w);
        ptwrite_key(&w, "v");
        ptwrite_tensor(&w, i ? "ShortStorage" : "HalfStorage", 2, "1234", two, 1);
        ptwrite_module_end(&w);
        const uint8_t *bytes = ptwrite_zip(&w, &len);
        struct readcheck r = readcheck_bytes(bytes, len, NULL);
        cr_assert_eq(fe_node_attr(r.w->root, "v")->kind, i ? FE_OPAQUE : FE_LIST);
        readcheck_end(&r);
    }
}

/* --- safetensors
 * -------------------------------------------------------------------------------------------- */

static void expect_header(const char *header, size_t n, enum yir_diag_id id, const char *part)
{
    struct yir_str s = {.arena = a};
    size_t len = strlen(header);
    yir_str_put(&s, (const char[8]){(char)len, (char)(len >> 8)}, 8);
    yir_str_put(&s, header, len);
    for (size_t i = 0; i < n; i++)
        yir_str_put(&s, "", 1);
    expect(s.text, s.len, id, part);
}

#define T(dtype, shape, from, to)                                                                            \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}}"

Test(weights_hostile, headers)
{
    static const struct {
        const char *header;
        size_t n;
        const char *part;
    } rows[] = {
        {T("U8", "[1]", "0", "9007199254740993"), 1, "no count"},
        {T("U8", "[01]", "0", "1"), 1, "no count"},
        {T("U8", "[-0]", "0", "0"), 0, "no count"},
        {T("U8", "[1]", "-0", "1"), 1, "no count"},
        {T("U8", "[1.0]", "0", "1"), 1, "no count"},
        {T("U8", "[1e0]", "0", "1"), 1, "no count"},
        {T("U8", "[1E0]", "0", "1"), 1, "no count"},
        {"{\"a\":{\"dtype\":\"U8\"", 1, "inside an object"},
        {"{", 0, "header of 1 bytes"},
        {T("F7", "[1]", "0", "4"), 4, "element type F7"},
        {T("U8", "[\"1\"]", "0", "0"), 0, "something else than sizes"},
        {T("U8", "[null]", "0", "0"), 0, "something else than sizes"},
        {T("U8", "[0,65536,65536,65536,65536]", "0", "0"), 0, "too many elements"},
        {T("U8", "[0]", "\"0\"", "\"0\""), 0, "two counts"},
        {T("U8", "[0]", "0", "null"), 0, "two counts"},
        {T("U8", "[2]", "0", "2"), 1, "outside the file"},
        {T("U8", "[2]", "2", "0"), 2, "outside the file"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "only these"},
        {"{\"a\":{\"dtypo\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "only these"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "only these"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "only these"},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        expect_header(rows[i].header, rows[i].n, E_SAFETENSORS, rows[i].part);
    limits.max_tensors = 1;
    expect_header(T("U8", "[1]", "0", "1"), 1, YIR_DIAG_NONE, "");
    expect_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\","
                  "\"shape\":[1],\"data_offsets\":[1,2]}}",
                  2, E_LIMIT, "2 tensors");
    expect_header("{\"a\":{},\"b\":{},\"c\":{},\"d\":{}}", 0, E_LIMIT, "more than 1 tensors");
}

/* What the kind of a file, known before, keeps from the reader. */
Test(weights_hostile, headers_without_a_kind)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *part;
    } rows[] = {
        {"", 0, "too short"},
        {"\2\0\0\0\0\0\0\0", 8, "too short"},
        {"\2\0\0\0\0\0\0\0[]", 10, "does not begin with"},
        {"\0\0\0\0\0\0\0\0{}", 10, "header of 0 bytes"},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct yir_diags *d = yir_diags_new(a, NULL, NULL);
        struct fe_weights out = {0};
        uint8_t *copy = yir_alloc(a, rows[i].len + 1);
        memcpy(copy, rows[i].bytes, rows[i].len);
        cr_assert_eq(fe_safetensors_read(a, d, copy, rows[i].len, &limits, &out), -1);
        cr_assert(strstr(yir_diag_at(d, 0)->text, rows[i].part), "%s", yir_diag_at(d, 0)->text);
    }
}

/* --- files
 * -------------------------------------------------------------------------------------------------- */

static void expect_file(const char *path, enum yir_diag_id id, const char *part)
{
    struct readcheck r = readcheck_file(path);
    cr_assert(!r.w && readcheck_id(&r) == id && strstr(readcheck_text(&r), part), "%s: %s", path,
              readcheck_text(&r));
    readcheck_end(&r);
}

Test(weights_hostile, files_that_are_none)
{
    char fifo[] = "/tmp/weights_hostileXXXXXX";
    int fd = mkstemp(fifo);
    close(fd);
    unlink(fifo);
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    expect_file(fifo, E_OPEN, "not a regular file");
    unlink(fifo);
    expect_file("/dev/zero", E_OPEN, "not a regular file");
    expect_file("/", E_OPEN, "is a directory");
    expect_file("/nonexistent/a.pt", E_OPEN, "cannot be opened");
}

/* Files of the kernel say a size that reading does not give. */
Test(weights_hostile, files_that_become_shorter, .timeout = 10)
{
    static const char path[] = "/sys/kernel/mm/transparent_hugepage/enabled";
    if (access(path, R_OK) != 0) cr_skip_test("no such file here");
    expect_file(path, E_OPEN, "became shorter");
}

Test(weights_hostile, size_of_a_file)
{
    char path[] = "/tmp/weights_hostileXXXXXX";
    int fd = mkstemp(path);
    size_t len;
    ptwrite_conv(&w, 1);
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    cr_assert_eq(write(fd, bytes, len), (ssize_t)len);
    limits.max_file = len;
    for (int i = 0; i < 2; i++, limits.max_file--) {
        struct yir_diags *d = yir_diags_new(a, NULL, NULL);
        const struct fe_weights *f = fe_weights_open(a, d, path, &limits);
        cr_assert_eq(f != NULL, i == 0);
        if (i) cr_assert(strstr(yir_diag_at(d, 0)->text, "--limit weights-bytes=N"));
    }
    /* A hole of 1 TiB: refused by its size, not read. */
    cr_assert_eq(ftruncate(fd, (off_t)1 << 40), 0);
    expect_file(path, E_LIMIT, "larger than the limit");
    close(fd);
    unlink(path);
}

/* --- truncation of a large file
 * ----------------------------------------------------------------------------- */

Test(weights_hostile, large_files_cut_off, .timeout = 300)
{
    size_t len;
    uint64_t seed = 1;
    int cuts = test_count(1000, 10000);
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "model");
    ptwrite_model(&w, 1);
    for (int i = 0; i < 300; i++) {
        ptwrite_key(&w, yir_format(a, "extra.%d", i));
        ptwrite_floats(&w, i, 1000);
    }
    ptwrite_op(&w, 'u');
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    cr_assert_gt(len, 1000000u);
    expect(bytes, len, YIR_DIAG_NONE, "");
    for (int i = 0; i < cuts; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t n = (seed >> 20) % len;
        struct readcheck r = readcheck_bytes(bytes, n, NULL);
        cr_assert(!r.w && readcheck_id(&r) != YIR_DIAG_NONE, "the first %zu of %zu bytes are accepted", n,
                  len);
        readcheck_end(&r);
    }
}

/* --- a small stack
 * ------------------------------------------------------------------------------------------ */

struct job {
    const uint8_t *bytes;
    size_t len;
    enum yir_diag_id id;
};

static void *run_job(void *p)
{
    struct job *j = p;
    struct readcheck r = readcheck_bytes(j->bytes, j->len, NULL);
    j->id = r.w ? YIR_DIAG_NONE : readcheck_id(&r);
    readcheck_end(&r);
    return NULL;
}

/* What reading reports on a stack of 256 KiB; it takes less than a second. */
static enum yir_diag_id small_stack(void)
{
    struct job j = {.id = YIR_DIAG_NONE};
    pthread_attr_t attr;
    pthread_t thread;
    j.bytes = ptwrite_zip(&w, &j.len);
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    cr_assert_eq(pthread_attr_init(&attr), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attr, 256 << 10), 0);
    cr_assert_eq(pthread_create(&thread, &attr, run_job, &j), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    cr_assert_lt((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9, 5.0);
    ptwrite_init(&w, a);
    return j.id;
}

static void repeat(const char *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ptwrite_ops(&w, ops);
}

Test(weights_hostile, nesting_without_end)
{
    for (int at_top = 0; at_top < 2; at_top++) {
        for (size_t i = 0; i < 3; i++) {
            if (!at_top) {
                ptwrite_module(&w, "m", "C");
                ptwrite_module_buffers(&w);
                ptwrite_module_children(&w);
                ptwrite_module_attrs(&w);
            } else {
                ptwrite_ops(&w, "}(");
                ptwrite_key(&w, "t");
                ptwrite_floats(&w, 1, 1);
            }
            ptwrite_key(&w, "v");
            if (i == 0) ptwrite_op(&w, ')');
            if (i == 0) repeat("\x85", 1000000);
            if (i == 1) repeat("]", 1000000), repeat("a", 999999);
            if (i == 2) repeat("}U\1a", 1000000), ptwrite_op(&w, 'N'), repeat("s", 1000000);
            if (at_top)
                ptwrite_op(&w, 'u');
            else
                ptwrite_module_end(&w);
            cr_assert_eq(small_stack(), E_LIMIT, "%d %zu", at_top, i);
        }
    }
}

/* 2^30 paths through 30 objects, and containers that hold themselves. */
Test(weights_hostile, sharing_without_end)
{
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    ptwrite_key(&w, "v");
    ptwrite_op(&w, ')');
    repeat("2\x86", 30);
    ptwrite_module_end(&w);
    cr_assert_eq(small_stack(), E_LIMIT);
    for (int i = 0; i < 2; i++) {
        ptwrite_module(&w, "m", "C");
        ptwrite_module_buffers(&w);
        ptwrite_module_children(&w);
        ptwrite_module_attrs(&w);
        ptwrite_key(&w, "v");
        if (i == 0) ptwrite_ops(&w, "]2a");
        if (i == 1) {
            ptwrite_op(&w, '}');
            ptwrite_put(&w, 77);
            ptwrite_str(&w, "a");
            ptwrite_get(&w, 77);
            ptwrite_op(&w, 's');
        }
        ptwrite_module_end(&w);
        cr_assert_eq(small_stack(), E_LIMIT);
    }
}

/* "_aaa...hook", as memo 7. */
static void put_long(void)
{
    size_t n = 1 << 20;
    char *s = yir_alloc(a, n + 1);
    memset(s, 'a', n);
    s[0] = '_';
    memcpy(s + n - 4, "hook", 4);
    ptwrite_str(&w, s);
    ptwrite_put(&w, 7);
}

/* A module whose attribute v is what `ops` makes, a hundred times over, of the long string on the stack and in memo 7. */
static void put_shared(const char *open, const char *ops, const char *close)
{
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    put_long();
    ptwrite_op(&w, '0');
    ptwrite_key(&w, "v");
    ptwrite_ops(&w, open);
    repeat(ops, 100);
    ptwrite_ops(&w, close);
    ptwrite_module_end(&w);
}

/* A string of a megabyte in a hundred places is copied, hashed or searched a hundred times. */
Test(weights_hostile, long_strings_that_are_shared)
{
    put_shared("](", "h\7", "e");
    expect_zip(E_LIMIT, "pickle-objects");
    put_shared("](", "}h\7Ns", "e");
    expect_zip(E_LIMIT, "pickle-objects");
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "0");
    put_shared("", "", "Nh\7N");
    ptwrite_put(&w, 8);
    for (int i = 1; i < 100; i++) {
        ptwrite_key(&w, yir_format(a, "%d", i));
        ptwrite_get(&w, 8);
    }
    ptwrite_module_attrs(&w);
    ptwrite_module_end(&w);
    expect_zip(E_LIMIT, "pickle-objects");
}

/* No buffer has so long a name, whatever the set of those that are not stored says. */
Test(weights_hostile, long_names_are_not_compared)
{
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    put_long();
    ptwrite_floats(&w, 1, 1);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    ptwrite_key(&w, "_non_persistent_buffers_set");
    ptwrite_global(&w, "builtins", "set");
    ptwrite_ops(&w, "](h\7e\x85R");
    ptwrite_module_end(&w);
    expect_zip(E_LIMIT, "name-bytes");
}

/* Memory that a few bytes may ask for: a sparse memo, long strings, deep marks. */
Test(weights_hostile, memory_of_a_memo)
{
    ptwrite_op(&w, '}');
    for (unsigned i = 0; i < 60000; i += 1000)
        ptwrite_put(&w, i);
    ptwrite_put(&w, 65590);
    ptwrite_put(&w, 0xffffffffu);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    expect_zip(E_LIMIT, "memo index");
    getrusage(RUSAGE_SELF, &after);
    cr_assert_lt(after.ru_maxrss - before.ru_maxrss, 64 << 10, "%ld KiB", after.ru_maxrss - before.ru_maxrss);
}
