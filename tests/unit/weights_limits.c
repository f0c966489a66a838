/* Each limit of the weights readers: the least value that lets a file pass is exact, and one below it the
 * report names the limit. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/weights.h"
#include "ptwrite.h"

static struct yir_arena *a, *reading;
static struct yir_diags *d;
static struct yir_limits limits;
static struct ptwrite w;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    yir_limits_init(&limits);
    ptwrite_init(&w, a);
}

static void teardown(void)
{
    yir_arena_free(reading);
    reading = NULL;
    yir_arena_free(a);
}

TestSuite(weights_limits, .init = setup, .fini = teardown);

static bool reads(const uint8_t *bytes, size_t len)
{
    yir_arena_free(reading);
    reading = yir_arena_new(NULL, NULL);
    d = yir_diags_new(reading, NULL, NULL);
    yir_diags_set_limits(d, &limits);
    return fe_weights_read(reading, d, "test.pt", bytes, len, NULL) != NULL;
}

static uint64_t *field(size_t at)
{
    return (uint64_t *)((char *)&limits + at);
}

/* The least value of a limit with which the file loads. */
static uint64_t least(size_t at, const uint8_t *bytes, size_t len)
{
    uint64_t low = 0, high = *field(at), before = high;
    while (low + 1 < high) {
        *field(at) = low + (high - low) / 2;
        if (reads(bytes, len))
            high = *field(at);
        else
            low = *field(at);
    }
    *field(at) = before;
    return high;
}

struct row {
    const char *name;
    size_t at;
    uint64_t least;
};

#define ROW(name, field, least)                                                                              \
    {                                                                                                        \
        name, offsetof(struct yir_limits, field), least                                                      \
    }

static void check(const struct row *r, const uint8_t *bytes, size_t len)
{
    cr_assert(reads(bytes, len), "%s", yir_diag_at(d, 0)->text);
    uint64_t found = least(r->at, bytes, len), before = *field(r->at);
    cr_assert_eq(found, r->least, "%s: %llu", r->name, (unsigned long long)found);
    *field(r->at) = found;
    cr_assert(reads(bytes, len));
    *field(r->at) = found - 1;
    cr_assert_not(reads(bytes, len));
    const struct yir_diag *g = yir_diag_at(d, 0);
    const char *raise = yir_format(reading, "--limit %s=N", r->name);
    cr_assert(g->id == E_LIMIT && strstr(g->text, raise), "%s: %s", r->name, g->text);
    *field(r->at) = before;
}

/* {"t": tensor [3], "u": [2], "model": module a with 4 levels, values, a string, an integer of 9 bytes}. */
static const uint8_t *sample(size_t *len)
{
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "model");
    for (int i = 0; i < 3; i++) {
        ptwrite_module(&w, "m", "C");
        ptwrite_module_buffers(&w);
        ptwrite_module_children(&w);
        ptwrite_key(&w, "abcdefg");
    }
    ptwrite_conv(&w, 1);
    for (int i = 0; i < 3; i++) {
        ptwrite_module_attrs(&w);
        if (i == 2) {
            ptwrite_key(&w, "deep");
            ptwrite_ops(&w, "N\x85\x85\x85\x85\x85");
            ptwrite_key(&w, "long");
            ptwrite_raw(&w, "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11);
            ptwrite_key(&w, "a text of thirty-five bytes or less");
            ptwrite_ops(&w, "Nr\x99");
            ptwrite_raw(&w, "\0\0\0", 3);
        }
        ptwrite_module_end(&w);
    }
    ptwrite_op(&w, 'u');
    return ptwrite_zip(&w, len);
}

Test(weights_limits, pickles)
{
    size_t len;
    const uint8_t *bytes = sample(&len);
    size_t pickle = w.code.len;
    const struct row rows[] = {
        ROW("zip-entries", max_zip_entries, 4),
        ROW("zip-name-bytes", max_zip_name, strlen("archive/byteorder")),
        ROW("pickle-bytes", max_pickle, pickle),
        ROW("pickle-marks", max_marks, 11),
        ROW("pickle-string-bytes", max_string, 35),
        ROW("pickle-integer-bytes", max_long, 9),
        ROW("pickle-value-depth", max_value_depth, 6),
        ROW("pickle-module-depth", max_module_depth, 3),
        ROW("tensors", max_tensors, 1),
        ROW("tensor-bytes", max_tensor_bytes, 8),
        ROW("name-bytes", max_name, strlen("abcdefg.abcdefg.abcdefg.weight") + 1),
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        check(&rows[i], bytes, len);
}

/* Counts of operations and objects are not for a test to know; that they are exact is. */
Test(weights_limits, counts)
{
    size_t len;
    const uint8_t *bytes = sample(&len);
    struct row ops = ROW("pickle-ops", max_ops, 0), objects = ROW("pickle-objects", max_nodes, 0);
    ops.least = least(ops.at, bytes, len);
    objects.least = least(objects.at, bytes, len);
    cr_assert(ops.least > 50 && ops.least < w.code.len && objects.least > 10 && objects.least < ops.least);
    check(&ops, bytes, len);
    check(&objects, bytes, len);
}

/* A memo index far above the number of entries so far. */
Test(weights_limits, memo)
{
    static const struct row row = ROW("pickle-memo-gap", max_memo_gap, 1001);
    size_t len;
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_put(&w, 1000);
    ptwrite_raw(&w, "ctorch._utils\n_rebuild_tensor_v2\n(", 34);
    ptwrite_storage(&w, "FloatStorage", "1234", 4, 1);
    ptwrite_ops(&w, "K");
    ptwrite_raw(&w, "\0", 1);
    ptwrite_ops(&w, "))\x89NtRs");
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    check(&row, bytes, len);
}

/* Many tensors of one element, shown larger by strides of 0. */
Test(weights_limits, expansion)
{
    static const int64_t dim[] = {1000}, stride[] = {0};
    size_t len;
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_storage(&w, "FloatStorage", "1234", 4, 1);
    ptwrite_view(&w, 0, dim, stride, 1);
    ptwrite_op(&w, 's');
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    const struct row row = ROW("tensor-ratio", max_tensor_ratio, (4000 + len - 1) / len);
    limits.max_tensor_ratio = 100;
    cr_assert(row.least >= 3, "%zu", len);
    check(&row, bytes, len);
}

Test(weights_limits, safetensors)
{
    static const char header[] =
        "{\"__metadata__\":{\"names\":\"b,c,d\"},\"abcdefgh\":{\"dtype\":\"U8\",\"shape\":[1],"
        "\"data_offsets\":[0,1]},\"i\":{\"dtype\":\"U8\",\"shape\":[],"
        "\"data_offsets\":[1,2]}}";
    uint8_t bytes[8 + sizeof header - 1 + 2] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    const struct row rows[] = {
        ROW("safetensors-header", max_header, sizeof header - 1),
        ROW("safetensors-depth", max_json_depth, 3),
        ROW("tensors", max_tensors, 2),
        ROW("name-bytes", max_name, 8),
        ROW("classes", max_classes, 3),
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        check(&rows[i], bytes, sizeof bytes);
}
