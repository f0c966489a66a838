#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "datafile.h"
#include "readcheck.h"

/* A file of header text and n data bytes 0, 1, 2 ... The header's size is as given, or that of the text. */
static struct readcheck read_sized(const char *header, size_t n, uint64_t size)
{
    size_t len = strlen(header);
    uint8_t *bytes = malloc(8 + len + n);
    cr_assert(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(size >> (8 * i));
    memcpy(bytes + 8, header, len);
    for (size_t i = 0; i < n; i++)
        bytes[8 + len + i] = (uint8_t)i;
    struct readcheck r = readcheck_bytes(bytes, 8 + len + n, NULL);
    free(bytes);
    return r;
}

static struct readcheck read_text(const char *header, size_t n)
{
    return read_sized(header, n, strlen(header));
}

#define T(name, dtype, shape, from, to)                                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

Test(weights_safetensors, reads)
{
    struct readcheck r = read_text(
        "{\"__metadata__\":{\"names\":\"cat,hot dog\",\"n\":\"x\"}," T("b", "U8", "[2,3]", "4", "10") "," T(
            "a.weight", "F16", "[2]", "0", "4") "," T("none", "F32", "[0,7]", "4", "4") "}   ",
        10);
    cr_assert(r.w, "%s", readcheck_text(&r));
    cr_assert(r.w->kind == FE_WEIGHTS_SAFETENSORS && r.w->ntensor == 3 && !r.w->root);
    cr_assert_str_eq(r.w->tensor[0].name, "b");
    const struct fe_tensor *b = fe_weights_find(r.w, "b");
    float v[6];
    fe_tensor_f32(b, v);
    cr_assert(b->rank == 2 && b->dim[1] == 3 && b->stride[0] == 3 && v[0] == 4 && v[5] == 9);
    cr_assert_eq(fe_weights_find(r.w, "none")->numel, 0);
    cr_assert(r.w->names && r.w->names->n == 2 && strcmp(r.w->names->item[1]->s, "hot dog") == 0);
    cr_assert_str_eq(fe_get(r.w->top, "n")->s, "x");
    cr_assert_null(fe_weights_find(r.w, "__metadata__"));
    readcheck_end(&r);
}

Test(weights_safetensors, small_and_prefixed)
{
    struct readcheck r = read_text("{}", 0);
    cr_assert(r.w && r.w->ntensor == 0, "%s", readcheck_text(&r));
    readcheck_end(&r);
    r = read_text("{" T("module.a", "F32", "[]", "0", "4") "}", 4);
    cr_assert(r.w && fe_weights_find(r.w, "a") && r.w->tensor[0].rank == 0 && r.w->tensor[0].numel == 1);
    readcheck_end(&r);
    r = read_text("{" T("model.model.0.a", "F32", "[]", "0", "4") "," T("model.model.12.b", "F32", "[]", "4", "8") "}", 8);
    cr_assert(r.w && fe_weights_find(r.w, "model.0.a") && fe_weights_find(r.w, "model.12.b"));
    readcheck_end(&r);
    r = read_text("{" T("0.a", "F32", "[]", "0", "4") "," T("12.b", "F32", "[]", "4", "8") "}", 8);
    cr_assert(r.w && fe_weights_find(r.w, "model.0.a") && fe_weights_find(r.w, "model.12.b"));
    readcheck_end(&r);
    r = read_text("{" T("0.a", "F32", "[]", "0", "4") "," T("model.12.b", "F32", "[]", "4", "8") "}", 8);
    cr_assert(r.w && fe_weights_find(r.w, "0.a") && fe_weights_find(r.w, "model.12.b"));
    readcheck_end(&r);
    r = read_text("{\"__metadata__\":{\"names\":\"{0: 'cat', 1: 'dog'}\"}}", 0);
    cr_assert(r.w && r.w->names->kind == FE_DICT && r.w->names->n == 2);
    readcheck_end(&r);
}

struct bad {
    const char *header;
    size_t n;
};

static void refuse(const struct bad *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct readcheck r = read_text(rows[i].header, rows[i].n);
        cr_assert_null(r.w, "accepted: %s", rows[i].header);
        cr_assert_eq(readcheck_id(&r), E_SAFETENSORS, "%s: %s", rows[i].header, readcheck_text(&r));
        readcheck_end(&r);
    }
}

Test(weights_safetensors, broken_json)
{
    static const struct bad rows[] = {
        {"{", 0},
        {"{]", 0},
        {"{}x", 0},
        {"{}\n", 0},
        {"{}\t", 0},
        {"{} {}", 0},
        {"{\"a\"}", 0},
        {"{\"a\":}", 0},
        {"{\"a\":1,}", 0},
        {"{\"a\":\"", 0},
        {"{\"a\":\"\\", 0},
        {"{\"a\":\"\\q\"}", 0},
        {"{\"a\\u0000b\":{}}", 0},
        {"{\"\xff\":{}}", 0},
        {"{\"a\":[[[]]]}", 0},
        {"{'a':1}", 0},
        {"{" T("a", "U8", "[1]", "0", "1") "," T("a", "U8", "[1]", "0", "1") "}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1},
        {"{\"__metadata__\":[]}", 0},
        {"{\"__metadata__\":{\"a\":1}}", 0},
        {"{\"__metadata__\":{\"a\":{}}}", 0},
    };
    refuse(rows, YIR_COUNT(rows));
}

Test(weights_safetensors, broken_tensors)
{
    static const struct bad rows[] = {
        {"{\"a\":1}", 0},
        {"{\"a\":[]}", 0},
        {"{\"a\":{}}", 0},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"x\":1}}", 1},
        {"{\"a\":{\"dtype\":1,\"shape\":[],\"data_offsets\":[0,1]}}", 1},
        {"{" T("", "U8", "[1]", "0", "1") "}", 1},
        {"{" T("a", "F7", "[1]", "0", "1") "}", 1},
        {"{" T("a", "u8", "[1]", "0", "1") "}", 1},
        {"{" T("a", "F8_E4M3", "[1]", "0", "1") "}", 1},
        {"{" T("a", "U8", "1", "0", "1") "}", 1},
        {"{" T("a", "U8", "{}", "0", "1") "}", 1},
        {"{" T("a", "U8", "[\"1\"]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[-1]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[1.0]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[1e0]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[01]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[null]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[9007199254740993]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[99999999999999999999]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[2147483648,0]", "0", "0") "}", 0},
        {"{" T("a", "U8", "[4194305,4194305,211106198978564]", "0", "4") "}", 4},
        {"{" T("a", "U8", "[65536,65536,65536,65536]", "0", "0") "}", 0},
        {"{" T("a", "U8", "[1]", "0", "2") "}", 2},
        {"{" T("a", "U8", "[2]", "0", "1") "}", 1},
        {"{" T("a", "F32", "[1]", "0", "1") "}", 1},
        {"{" T("a", "U8", "[1]", "1", "0") "}", 1},
        {"{" T("a", "U8", "[1]", "-1", "0") "}", 1},
        {"{" T("a", "U8", "[1]", "0.0", "1") "}", 1},
        {"{" T("a", "U8", "[1]", "0", "1e0") "}", 1},
        {"{" T("a", "U8", "[1]", "0", "\"1\"") "}", 1},
        {"{" T("a", "U8", "[1]", "0", "1,2") "}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":{}}}", 1},
        {"{" T("a", "U8", "[1]", "0", "1") "," T("module.a", "U8", "[1]", "1", "2") "}", 2},
    };
    refuse(rows, YIR_COUNT(rows));
}

Test(weights_safetensors, places_of_data)
{
    static const struct bad rows[] = {
        {"{" T("a", "U8", "[1]", "0", "1") "}", 0},
        {"{" T("a", "U8", "[1]", "0", "1") "}", 2},
        {"{}", 1},
        {"{" T("a", "U8", "[1]", "1", "2") "}", 2},
        {"{" T("a", "U8", "[1]", "0", "1") "," T("b", "U8", "[1]", "2", "3") "}", 3},
        {"{" T("a", "U8", "[2]", "0", "2") "," T("b", "U8", "[2]", "1", "3") "}", 3},
        {"{" T("a", "U8", "[2]", "0", "2") "," T("b", "U8", "[2]", "0", "2") "}", 2},
        {"{" T("a", "U8", "[0]", "1", "1") "," T("b", "U8", "[2]", "0", "2") "}", 2},
        {"{" T("a", "U8", "[9007199254740992]", "0", "9007199254740992") "}", 2},
    };
    refuse(rows, YIR_COUNT(rows));
}

Test(weights_safetensors, size_of_the_header)
{
    static const uint64_t sizes[] = {
        0, 1, 3, 100, (uint64_t)1 << 32, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < YIR_COUNT(sizes); i++) {
        struct readcheck r = read_sized("{}", 0, sizes[i]);
        cr_assert(!r.w && readcheck_id(&r) == E_SAFETENSORS, "%llu", (unsigned long long)sizes[i]);
        readcheck_end(&r);
    }
    struct yir_limits limits;
    yir_limits_init(&limits);
    limits.max_header = 1;
    struct readcheck r = readcheck_bytes("\2\0\0\0\0\0\0\0{}", 10, &limits);
    cr_assert(!r.w && readcheck_id(&r) == E_LIMIT);
    readcheck_end(&r);
}

Test(weights_safetensors, every_prefix_is_refused)
{
    static const char header[] = "{" T("a", "U8", "[3]", "0", "3") "}";
    uint8_t bytes[8 + sizeof header - 1 + 3] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        struct readcheck r = readcheck_bytes(bytes, n, NULL);
        cr_assert_eq(r.w != NULL, n == sizeof bytes, "%zu", n);
        readcheck_end(&r);
    }
}

/* The low byte of the header's size may look like the start of another kind of file. */
Test(weights_safetensors, every_size_of_header)
{
    char header[400] = "{" T("a", "U8", "[]", "0", "1") "}";
    for (size_t n = strlen(header); n < sizeof header; n++) {
        struct readcheck r = read_text(header, 1);
        cr_assert(r.w, "%zu: %s", n, readcheck_text(&r));
        readcheck_end(&r);
        header[n] = ' ';
    }
}

Test(weights_safetensors, stored_file)
{
    char path[1024];
    if (!test_data_exists("weights/yolox_nano.safetensors")) cr_skip("no test data");
    struct readcheck r = readcheck_file(test_data_path(path, sizeof path, "weights/yolox_nano.safetensors"));
    cr_assert(r.w, "%s", readcheck_text(&r));
    cr_assert_eq(r.w->ntensor, 226u);
    cr_assert(r.w->names->n == 80 && strcmp(r.w->names->item[0]->s, "person") == 0);
    cr_assert_str_eq(fe_get(r.w->top, "imgsz")->s, "416");
    const struct fe_tensor *t = fe_weights_find(r.w, "backbone.C3_n3.conv1.conv.weight");
    cr_assert(t && t->dtype == YIR_F16 && t->rank == 4 && t->dim[0] == 64 && t->dim[1] == 128);
    readcheck_end(&r);
}
