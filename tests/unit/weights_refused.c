#include <criterion/criterion.h>
#include <string.h>

#include "ptwrite.h"
#include "readcheck.h"

static struct yir_arena *a;
static struct ptwrite w;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    ptwrite_init(&w, a);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(weights_refused, .init = setup, .fini = teardown);

static struct readcheck read_zip(void)
{
    size_t len;
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    return readcheck_bytes(bytes, len, NULL);
}

static void expect_refused(enum yir_diag_id id, const char *part)
{
    struct readcheck r = read_zip();
    cr_assert_null(r.w, "accepted, not: %s", part);
    cr_assert(readcheck_id(&r) == id && strstr(readcheck_text(&r), part), "%s, not: %s", readcheck_text(&r),
              part);
    readcheck_end(&r);
}

Test(weights_refused, archives_of_other_kinds)
{
    ptwrite_op(&w, '}');
    expect_refused(E_PT_KIND, "no model");
    ptwrite_init(&w, a);
    ptwrite_op(&w, 'N');
    expect_refused(E_PT_KIND, "None");
    static const char *const versions[] = {"0\n", "999\n", "11\n", "",
                                           "x",   "3\n\n", "3x",   "33333333333333333333333\n"};
    for (size_t i = 0; i < YIR_COUNT(versions); i++) {
        ptwrite_init(&w, a);
        w.version = versions[i];
        ptwrite_conv(&w, 1);
        expect_refused(E_ZIP, "version");
    }
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.version = NULL;
    expect_refused(E_ZIP, "version");
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.byteorder = "big";
    expect_refused(E_PT_KIND, "big-endian");
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.byteorder = "middle";
    expect_refused(E_ZIP, "byte order");
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.record[w.nrecord - 1].name = "constants.pkl";
    expect_refused(E_PT_KIND, "TorchScript");
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.record[w.nrecord - 1].name = "other/data.pkl";
    expect_refused(E_PT_KIND, "two checkpoints");
    size_t len;
    struct ptwrite_record numpy = {"a.npy", "x", 1}, text = {"readme", "x", 1};
    const uint8_t *bytes = ptwrite_archive(&w, &numpy, 1, &len);
    struct readcheck r = readcheck_bytes(bytes, len, NULL);
    cr_assert(!r.w && readcheck_id(&r) == E_PT_KIND && strstr(readcheck_text(&r), "NumPy"));
    readcheck_end(&r);
    bytes = ptwrite_archive(&w, &text, 1, &len);
    r = readcheck_bytes(bytes, len, NULL);
    cr_assert(!r.w && readcheck_id(&r) == E_PT_KIND && strstr(readcheck_text(&r), "data.pkl"));
    readcheck_end(&r);
}

Test(weights_refused, old_forms_without_byteorder)
{
    ptwrite_conv(&w, 1);
    w.byteorder = NULL;
    w.zip64 = false;
    w.align = 0;
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    readcheck_end(&r);
}

Test(weights_refused, records_and_declared_sizes)
{
    ptwrite_conv(&w, 1);
    w.record[0].len = 4;
    expect_refused(E_TENSOR, "has 4 bytes, but 2 elements of 4 bytes");
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.record[0].bytes = "123456789abc";
    w.record[0].len = 12;
    expect_refused(E_TENSOR, "has 12 bytes");
    ptwrite_init(&w, a);
    ptwrite_conv(&w, 1);
    w.record[0].name = "data/7";
    expect_refused(E_TENSOR, "no entry 'data/0'");
    ptwrite_init(&w, a);
    ptwrite_storage(&w, "FloatStorage", "", 0, INT64_MAX);
    expect_refused(E_TENSOR, "data/0");
    ptwrite_init(&w, a);
    ptwrite_storage(&w, "DoubleStorage", "", 0, (int64_t)1 << 61);
    expect_refused(E_TENSOR, "data/0");
}

Test(weights_refused, bytes_after_the_pickle)
{
    ptwrite_conv(&w, 1);
    ptwrite_ops(&w, ".N");
    expect_refused(E_PICKLE, "after the end");
}

Test(weights_refused, modules_that_contain_themselves)
{
    ptwrite_global(&w, "m", "C");
    ptwrite_ops(&w, ")\x81");
    ptwrite_put(&w, 1);
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "_modules");
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "x");
    ptwrite_get(&w, 1);
    ptwrite_ops(&w, "ssb");
    expect_refused(E_PICKLE, "contains itself");
}

/* n levels of modules; two: each level has the next one twice. */
static void put_levels(int n, bool two)
{
    for (int i = 0; i < n; i++) {
        ptwrite_module(&w, "m", "C");
        ptwrite_module_buffers(&w);
        ptwrite_module_children(&w);
        ptwrite_key(&w, "a");
    }
    ptwrite_conv(&w, 1);
    for (int i = 0; i < n; i++) {
        if (two) {
            ptwrite_put(&w, (unsigned)i);
            ptwrite_key(&w, "b");
            ptwrite_get(&w, (unsigned)i);
        }
        ptwrite_module_attrs(&w);
        ptwrite_module_end(&w);
    }
}

Test(weights_refused, depth_and_width_are_bounded)
{
    put_levels(200, false);
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    readcheck_end(&r);
    ptwrite_init(&w, a);
    put_levels(300, false);
    expect_refused(E_LIMIT, "");
    ptwrite_init(&w, a);
    put_levels(30, true);
    expect_refused(E_LIMIT, "");
}

/* Values nest and share in the same way. */
static void put_lists(int n, const char *each)
{
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    ptwrite_key(&w, "deep");
    ptwrite_op(&w, 'N');
    for (int i = 0; i < n; i++)
        ptwrite_ops(&w, each);
    ptwrite_module_end(&w);
}

Test(weights_refused, values_are_bounded)
{
    put_lists(60, "\x85");
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    readcheck_end(&r);
    ptwrite_init(&w, a);
    put_lists(100, "\x85");
    expect_refused(E_LIMIT, "deep");
    ptwrite_init(&w, a);
    put_lists(30, "2\x86");
    expect_refused(E_LIMIT, "objects");
    ptwrite_init(&w, a);
    ptwrite_module(&w, "m", "C");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    ptwrite_key(&w, "self");
    ptwrite_ops(&w, "]2a");
    ptwrite_module_end(&w);
    expect_refused(E_LIMIT, "deep");
}

Test(weights_refused, expanded_tensors_are_bounded)
{
    static const int64_t dim[] = {100000, 10000}, stride[] = {0, 0};
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_storage(&w, "FloatStorage", "1234", 4, 1);
    ptwrite_view(&w, 0, dim, stride, 2);
    ptwrite_op(&w, 's');
    expect_refused(E_LIMIT, "larger than");
}

Test(weights_refused, names)
{
    static char longest[600];
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "a");
    ptwrite_floats(&w, 1, 1);
    ptwrite_key(&w, "module.a");
    ptwrite_floats(&w, 1, 1);
    ptwrite_op(&w, 'u');
    expect_refused(E_PICKLE, "two tensors");
    ptwrite_init(&w, a);
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "a");
    ptwrite_floats(&w, 1, 1);
    ptwrite_key(&w, "a");
    ptwrite_floats(&w, 1, 1);
    ptwrite_op(&w, 'u');
    expect_refused(E_PICKLE, "twice");
    ptwrite_init(&w, a);
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "model");
    ptwrite_conv(&w, 1);
    ptwrite_key(&w, "model");
    ptwrite_conv(&w, 2);
    ptwrite_op(&w, 'u');
    expect_refused(E_PICKLE, "twice");
    ptwrite_init(&w, a);
    ptwrite_op(&w, '}');
    memset(longest, 'x', sizeof longest - 1);
    ptwrite_key(&w, longest);
    ptwrite_floats(&w, 1, 1);
    ptwrite_op(&w, 's');
    expect_refused(E_LIMIT, "name");
    ptwrite_init(&w, a);
    ptwrite_ops(&w, "}K\1");
    ptwrite_floats(&w, 1, 1);
    ptwrite_op(&w, 's');
    expect_refused(E_PICKLE, "proper name");
}

Test(weights_refused, parameters_that_are_no_tensors)
{
    ptwrite_module(&w, "m", "C");
    ptwrite_key(&w, "q");
    ptwrite_ops(&w, "ctorch._utils\n_rebuild_qtensor\n)R");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_module_attrs(&w);
    ptwrite_module_end(&w);
    expect_refused(E_TENSOR, "torch._utils._rebuild_qtensor");
    ptwrite_init(&w, a);
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_tensor(&w, "ShortStorage", 2, "12", (const int64_t[]){1}, 1);
    ptwrite_op(&w, 's');
    expect_refused(E_TENSOR, "ShortStorage");
}

/* Damaged files. */

Test(weights_refused, every_prefix_is_refused)
{
    size_t len;
    ptwrite_conv(&w, 1);
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    for (size_t n = 0; n < len; n++) {
        struct readcheck r = readcheck_bytes(bytes, n, NULL);
        cr_assert(!r.w && readcheck_id(&r) != YIR_DIAG_NONE, "the first %zu of %zu bytes are accepted", n,
                  len);
        readcheck_end(&r);
    }
}

/* Bytes of the pickle changed at random, with checksums not looked at: no crash, and an error or a readable
 * file. */
Test(weights_refused, changed_pickles)
{
    size_t len;
    uint64_t seed = 1;
    struct yir_limits limits;
    yir_limits_init(&limits);
    limits.allow_bad_crc = true;
    ptwrite_checkpoint(&w);
    uint8_t *bytes = ptwrite_zip(&w, &len);
    for (int i = 0; i < 8000; i++) {
        uint8_t old[3];
        size_t at[3];
        for (int k = 0; k < 3; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at[k] = 64 + (seed >> 33) % (w.code.len - 1);
            old[k] = bytes[at[k]];
            bytes[at[k]] = (uint8_t)(seed >> 20);
        }
        struct readcheck r = readcheck_bytes(bytes, len, &limits);
        cr_assert(r.w || readcheck_id(&r) != YIR_DIAG_NONE);
        for (size_t t = 0; r.w && t < r.w->ntensor; t++)
            fe_tensor_nonfinite(&r.w->tensor[t]);
        readcheck_end(&r);
        for (int k = 2; k >= 0; k--)
            bytes[at[k]] = old[k];
    }
}
