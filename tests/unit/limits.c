/* The table of limits, and that each reader goes by it: what the default refuses passes once it is raised. */
#include "ir/limits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "frontend/cli/image.h"
#include "frontend/model.h"
#include "frontend/zip.h"
#include "modbuild.h"
#include "picwrite.h"
#include "ptwrite.h"
#include "runtime/yolort.h"

static struct yir_arena *a;
static struct yir_diags *d;
static struct yir_limits limits;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    d = yir_diags_new(a, NULL, NULL);
    yir_limits_init(&limits);
    yir_diags_set_limits(d, &limits);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(limits, .init = setup, .fini = teardown);

static const char *parse(const char *text)
{
    static char error[256];
    yir_limits_init(&limits);
    return yir_limits_parse(&limits, text, error, sizeof error);
}

Test(limits, texts_are_read)
{
    cr_assert_null(parse(""));
    cr_assert_null(parse("yaml-depth=64,tensors=7,picture-pixels=3M,yaml-bytes=2K,module-bytes=9G"));
    cr_expect_eq(limits.max_yaml_depth, 64);
    cr_expect_eq(limits.max_tensors, 7);
    cr_expect_eq(limits.max_pixels, 3u << 20);
    cr_expect_eq(limits.max_yaml, 2048);
    cr_expect_eq(limits.max_module, 9ull << 30);
    cr_expect_eq(limits.max_repeats, 1000);
}

Test(limits, bad_texts_are_refused)
{
    static const char *const texts[] = {
        "yaml-depth", "yaml-depth=", "yaml-depth=0", "yaml-depth=-1", "yaml-depth=1e2", "yaml-depth=513",
        "yaml-depth=K", "yaml-depth= 3", "yaml-depth=18446744073709551616", "yaml-depth=99999999999999999999G",
        "=3", ",", "yaml-depth=33,,", "max_yaml_depth=33", "yaml-depth=0x21",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        cr_expect(parse(texts[i]), "accepted: %s", texts[i]);
    cr_expect(strstr(parse("yaml-dept=3"), "did you mean yaml-depth?"));
    cr_expect(strstr(parse("yaml-depth=0"), "from 1 to 512"));
}

/* Every row: its default and its largest value are taken, one more is not. */
Test(limits, every_row)
{
    static const struct {
        const char *name;
        uint64_t normal, most;
    } rows[] = {
#define LIMIT(field, name, normal, most, help) {name, normal, most},
#include "ir/limits.def"
#undef LIMIT
    };
    struct yir_str list = {.arena = a};
    yir_limits_list(&list);
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        char text[96];
        uint64_t v;
        parse("");
        cr_assert(yir_limits_get(&limits, rows[i].name, &v));
        cr_expect_eq(v, rows[i].normal, "%s", rows[i].name);
        snprintf(text, sizeof text, "%s=%llu", rows[i].name, (unsigned long long)rows[i].most);
        cr_expect_null(parse(text), "%s", text);
        cr_assert(yir_limits_get(&limits, rows[i].name, &v) && v == rows[i].most);
        snprintf(text, sizeof text, "%s=%llu", rows[i].name, (unsigned long long)rows[i].most + 1);
        cr_expect(parse(text), "%s", text);
        cr_expect(strstr(yir_limit_raise((enum yir_limit_id)i), rows[i].name));
        cr_expect(strstr(list.text, rows[i].name));
        for (size_t k = 0; k < i; k++) cr_expect_str_neq(rows[i].name, rows[k].name);
    }
}

/* --- readers ------------------------------------------------------------------------------------------------- */

/* Refused with a text that names the limit; read when the limit is what `raise` says. */
#define RAISED(name, raise, read) \
    do { \
        cr_assert_null(parse("")); \
        cr_assert_not(read, "%s: accepted", name); \
        const struct yir_diag *last = yir_diag_at(d, yir_diag_count(d) - 1); \
        cr_assert(strstr(last->text, "--limit " name "=N"), "%s: %s", name, last->text); \
        cr_assert_null(parse(raise)); \
        cr_assert(read, "%s: %s", name, yir_diag_at(d, yir_diag_count(d) - 1)->text); \
    } while (0)

static char *repeated(const char *head, const char *one, size_t n, const char *tail)
{
    struct yir_str s = {.arena = a};
    yir_str_fmt(&s, "%s", head);
    for (size_t i = 0; i < n; i++) yir_str_fmt(&s, "%s", one);
    yir_str_fmt(&s, "%s", tail);
    return s.text;
}

static bool yaml(const char *text)
{
    return fe_yaml_parse(a, d, "t.yaml", text, strlen(text)) != NULL;
}

Test(limits, yaml)
{
    char close[64] = "";
    memset(close, ']', 33);
    const char *deep = repeated("", "[", 33, close);
    const char *many = repeated("[", "1, ", 100000, "1]");
    const char *large = repeated("a: 1\n", "# 89 123456789 123456789 1234567\n", 40000, "");
    RAISED("yaml-depth", "yaml-depth=33", yaml(deep));
    RAISED("yaml-values", "yaml-values=200K", yaml(many));
    RAISED("yaml-bytes", "yaml-bytes=2M", yaml(large));
}

static bool model(const char *text, int size, int batch)
{
    struct fe_model_opts o = {.path = "m.yaml", .batch = batch, .height = size, .width = size, .rule = false};
    const struct fe_value *root = fe_yaml_parse(a, d, "m.yaml", text, strlen(text));
    return root && fe_model_build(a, yir_types_new(a), d, root, &o);
}

#define HEAD "head:\n- [-1, 1, Conv, [256, 3, 2]]\n- [-1, 1, Conv, [256, 3, 2]]\n- [[0, 1, 2], 1, Detect, [nc]]\n"
#define SMALL "nc: 3\nbackbone:\n- [-1, 1, Conv, [16, 3, 8]]\n" HEAD

Test(limits, graph)
{
    cr_assert_null(parse(""));
    cr_assert(model(SMALL, 64, 1), "%s", yir_diag_at(d, 0)->text);
    RAISED("image-size", "image-size=16K", model(SMALL, 8256, 1));
    RAISED("batch", "batch=5000", model(SMALL, 64, 5000));
    RAISED("repeats", "repeats=2000", model("nc: 3\nbackbone:\n- [-1, 1001, nn.Identity, []]\n- [-1, 1, Conv, [16, 3, 8]]\n"
                                            "head:\n- [-1, 1, Conv, [256, 3, 2]]\n- [-1, 1, Conv, [256, 3, 2]]\n"
                                            "- [[1, 2, 3], 1, Detect, [nc]]\n", 64, 1));
}

static bool ir(const char *text)
{
    return yir_parse(a, yir_types_new(a), d, "t.yir", text, strlen(text)) != NULL;
}

Test(limits, ir_text)
{
    const char *name = repeated("in %", "n", 513, " : f32[1]\n");
    struct yir_str weights = {.arena = a}, buffers = {.arena = a};
    for (int i = 0; i <= 100000; i++) yir_str_fmt(&weights, "w $w%d : f32[1]\n", i);
    for (int i = 0; i <= 16384; i++) yir_str_fmt(&buffers, "buf b%d arena bytes=4\n", i);
    RAISED("name-bytes", "name-bytes=1000", ir(name));
    RAISED("ir-weights", "ir-weights=200K", ir(weights.text));
    RAISED("ir-buffers", "ir-buffers=20000", ir(buffers.text));
    RAISED("ir-bytes", "ir-bytes=65M", ir(repeated("", "# 89 123456789 123456789 123456\n", 2100000, "")));
}

/* --- weights ------------------------------------------------------------------------------------------------- */

static bool archive(const char *name)
{
    struct ptwrite w;
    size_t len;
    const struct ptwrite_record r[] = {{name, "x", 1}};
    ptwrite_init(&w, a);
    const uint8_t *bytes = ptwrite_archive(&w, r, 1, &len);
    return fe_zip_open(a, d, 0, bytes, len, false) != NULL;
}

Test(limits, zip)
{
    RAISED("zip-name-bytes", "zip-name-bytes=1000", archive(repeated("", "n", 600, "")));
    cr_assert_null(parse("zip-entries=1"));
    struct ptwrite w;
    size_t len;
    const struct ptwrite_record two[] = {{"a", "x", 1}, {"b", "y", 1}};
    ptwrite_init(&w, a);
    const uint8_t *bytes = ptwrite_archive(&w, two, 2, &len);
    cr_assert_null(fe_zip_open(a, d, 0, bytes, len, false));
    cr_assert(strstr(yir_diag_at(d, yir_diag_count(d) - 1)->text, "zip-entries"));
}

/* A safetensors file of one empty tensor with a name of n letters. */
static bool tensors(size_t n, size_t blanks)
{
    struct yir_str s = {.arena = a};
    const char *json = repeated("{\"", "n", n, "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    size_t header = strlen(json) + blanks;
    for (int i = 0; i < 8; i++) yir_str_put(&s, &(char){(char)(header >> 8 * i)}, 1);
    yir_str_put(&s, json, strlen(json));
    for (size_t i = 0; i < blanks; i++) yir_str_put(&s, " ", 1);
    return fe_weights_read(a, d, "t.safetensors", s.text, s.len, NULL) != NULL;
}

Test(limits, safetensors)
{
    RAISED("name-bytes", "name-bytes=1000", tensors(513, 0));
    RAISED("safetensors-header", "safetensors-header=17M", tensors(5, 16 << 20));
    cr_assert_null(parse("safetensors-depth=2"));
    cr_assert_not(tensors(5, 0));
    cr_assert(strstr(yir_diag_at(d, yir_diag_count(d) - 1)->text, "safetensors-depth"));
}

/* --- modules and pictures ------------------------------------------------------------------------------------ */

/* The runtime's own defaults are those of the table. */
Test(limits, modules)
{
    struct modbuild b;
    size_t size;
    char text[256];
    yolort_module *m;
    yolort_load_opts o;
    cr_assert_null(parse(""));
    yolort_load_opts_init(&o, sizeof o);
    cr_expect_eq(o.max_bytes, limits.max_module);
    cr_expect_eq(o.max_sections, limits.max_sections);
    cr_expect_eq(o.max_table_bytes, limits.max_table);
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    o.max_bytes = size;
    o.max_sections = 14;
    o.max_table_bytes = sizeof b.strings;
    cr_assert_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_OK, "%s", text);
    yolort_module_free(m);
    o.max_sections = 13;
    cr_expect_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_LIMIT);
    o.max_sections = 14;
    o.max_table_bytes = 40;
    cr_expect_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_LIMIT);
    o.max_table_bytes = sizeof b.strings;
    o.max_bytes = size - 1;
    cr_expect_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_LIMIT);
    o.max_bytes = size;
    for (o.threads = -1; o.threads < 2000; o.threads += 1026)
        cr_expect_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_ARG);
    o.threads = 1;
    cr_assert_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_OK, "%s", text);
    yolort_module_free(m);
    for (o.look = -1; o.look < 4; o.look += 3)
        cr_expect_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_ARG);
    o.size = 4;
    cr_expect_eq(yolort_load_within(&m, bytes, size, &o, text, sizeof text), YOLORT_ARG);
    free(bytes);
}

/* What a picture of the tests gives under --limit `text`: E_LIMIT as the number, or 0. */
static int picture(struct picwrite p, const char *text)
{
    struct cli_limits l;
    struct cli_error e;
    struct cli_image im;
    const struct cli_texts given = {1, {text}};
    cr_assert_eq(cli_limits_read(&l, &given, &e), 0, "%s", e.text);
    int rc = cli_image_decode_within(&im, "p", p.p, p.n, &l, &e);
    if (rc != 0) cr_assert(strstr(e.text, "--limit "), "%s", e.text);
    if (rc == 0) cli_image_free(&im);
    return rc ? e.number : 0;
}

Test(limits, pictures)
{
    struct picwrite png = picwrite_png(PNG_COLOR_TYPE_RGB, 8, 0, 1);
    struct picwrite jpeg = picwrite_jpeg(3, JCS_RGB, 0, 1);
    cr_expect_eq(picture(png, "picture-side=19"), 0);
    cr_expect_eq(picture(png, "picture-side=18"), CLI_LIMIT);
    cr_expect_eq(picture(jpeg, "picture-pixels=209"), 0);
    cr_expect_eq(picture(jpeg, "picture-pixels=208"), CLI_LIMIT);
    cr_expect_eq(picture(jpeg, "jpeg-scans=10"), 0);
    cr_expect_eq(picture(jpeg, "jpeg-scans=3"), CLI_LIMIT);
    free(png.p);
    free(jpeg.p);
}

Test(limits, given_by_the_command)
{
    struct cli_limits l;
    struct cli_error e;
    struct cli_texts given = {2, {"picture-bytes=2G", "yaml-depth=40,module-bytes=1M"}};
    cr_assert_eq(cli_limits_read(&l, &given, &e), 0, "%s", e.text);
    cr_expect_eq(l.picture_bytes, 2ull << 30);
    cr_expect_eq(l.module_bytes, 1 << 20);
    cr_expect_eq(l.pixels, 1 << 28);
    cr_expect_str_eq(l.text, "picture-bytes=2G,yaml-depth=40,module-bytes=1M");
    given.at[1] = "yaml-dept=40";
    cr_assert_eq(cli_limits_read(&l, &given, &e), -1);
    cr_expect(e.number == CLI_USAGE && strstr(e.text, "did you mean yaml-depth?"), "%s", e.text);
    given.at[1] = repeated("", "a", 2000, "");
    cr_assert_eq(cli_limits_read(&l, &given, &e), -1);
}
