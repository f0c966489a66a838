/* Networks of every official description against the stored records: names, shapes, counts, strides. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "datafile.h"
#include "frontend/model.h"

static uint64_t fnv(uint64_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    return h;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *want_line(struct yir_arena *a, const struct fe_want *w)
{
    struct yir_str s = {.arena = a};
    yir_str_fmt(&s, "%s ", w->name);
    for (int i = 0; i < w->rank; i++)
        yir_str_fmt(&s, "%s%lld", i ? "," : "", (long long)w->dim[i]);
    if (!w->rank) yir_str_fmt(&s, "-");
    return s.text;
}

static const char *digest_of(struct yir_arena *a, const char **line, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        h = fnv(fnv(h, line[i]), "\n");
    return yir_format(a, "%016llx", (unsigned long long)h);
}

static void check_state(struct yir_arena *a, const struct fe_model *m, const json_t *r, const char *what)
{
    const char **all = yir_alloc_n(a, m->nwant + 1, sizeof *all),
               **some = yir_alloc_n(a, m->nwant + 1, sizeof *some);
    const json_t *lines = json_object_get(r, "state_w");
    size_t n = 0;
    for (size_t i = 0; i < m->nwant; i++) {
        all[i] = want_line(a, &m->want[i]);
        if (!strstr(all[i], "num_batches_tracked")) some[n++] = all[i];
    }
    for (size_t i = 0; i < json_array_size(lines) && i < n; i++)
        cr_assert_str_eq(some[i], json_string_value(json_array_get(lines, i)), "%s: line %zu", what, i);
    cr_expect_eq((json_int_t)m->nwant, json_integer_value(json_object_get(r, "tensors")), "%s: %zu tensors",
                 what, m->nwant);
    cr_expect_eq((json_int_t)n, json_integer_value(json_object_get(r, "tensors_w")), "%s", what);
    cr_expect_str_eq(digest_of(a, all, m->nwant), test_json_text(r, "digest"), "%s: digest", what);
    cr_expect_str_eq(digest_of(a, some, n), test_json_text(r, "digest_w"), "%s: digest_w", what);
    qsort(some, n, sizeof *some, by_text);
    cr_expect_str_eq(digest_of(a, some, n), test_json_text(r, "digest_s"), "%s: digest_s", what);
}

static void check_layers(const struct fe_model *m, const json_t *r, const char *what)
{
    const json_t *np = json_object_get(r, "np"), *types = json_object_get(r, "types");
    json_int_t params = 0;
    cr_assert_eq((size_t)m->nlayer, json_array_size(np), "%s", what);
    for (int i = 0; i < m->nlayer; i++) {
        params += m->layer[i].params;
        cr_expect_eq(m->layer[i].params, json_integer_value(json_array_get(np, (size_t)i)),
                     "%s: row %d has %lld parameters", what, i, (long long)m->layer[i].params);
        cr_expect_str_eq(m->layer[i].type, json_string_value(json_array_get(types, (size_t)i)), "%s", what);
    }
    cr_expect_eq(params, json_integer_value(json_object_get(r, "params")), "%s", what);
}

static void check_shape(const struct yir_tdesc *d, const json_t *shape, const char *what, const char *name)
{
    cr_assert_eq((size_t)d->rank, json_array_size(shape), "%s: rank of %s", what, name);
    for (int i = 0; i < d->rank; i++)
        cr_expect_eq(d->dim[i], json_integer_value(json_array_get(shape, (size_t)i)),
                     "%s: dimension %d of %s is %lld", what, i, name, (long long)d->dim[i]);
}

static const struct yir_tdesc *output(const struct fe_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->func->noutput; i++)
        if (strcmp(m->func->output[i].name, name) == 0) return yir_desc(m->func, m->func->output[i].ref);
    return NULL;
}

static void check_outputs(struct yir_arena *a, const struct fe_model *m, const json_t *r, const char *what)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(r, "final"), i, row)
    {
        const char *name = json_string_value(json_array_get(row, 0));
        cr_assert(output(m, name), "%s: no output %s", what, name);
        check_shape(output(m, name), json_array_get(row, 1), what, name);
    }
    json_array_foreach(json_object_get(r, "layer_out"), i, row)
    {
        const char *name = yir_format(a, "layer.%lld", (long long)json_integer_value(json_array_get(row, 0)));
        cr_assert(output(m, name), "%s: no output %s", what, name);
        check_shape(output(m, name), json_array_get(row, 3), what, name);
    }
    const json_t *stride = json_object_get(r, "stride");
    cr_assert_eq((size_t)m->nl, json_array_size(stride), "%s", what);
    for (i = 0; i < (size_t)m->nl; i++)
        cr_expect_eq(m->stride[i], json_number_value(json_array_get(stride, i)), "%s: stride", what);
    cr_expect_eq(m->nc, json_integer_value(json_object_get(r, "nc")), "%s", what);
    if (json_object_get(r, "reg_max"))
        cr_expect_eq(m->reg_max, json_integer_value(json_object_get(r, "reg_max")), "%s", what);
}

static void show(void *user, const struct yir_diag *d)
{
    (void)user;
    if (d->severity == YIR_ERROR) cr_log_error("%s", d->rendered);
}

static void check_record(const json_t *r)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    struct yir_diags *d = yir_diags_new(a, show, NULL);
    const json_t *input = json_object_get(r, "input");
    const char *yaml = test_json_text(r, "yaml"), *scale = test_json_text(r, "scale");
    const char *what = yir_format(a, "%s %s", yaml, scale);
    char path[512];
    test_data_path(path, sizeof path, yir_format(a, "models/official/%s", yaml));
    const struct fe_value *root = fe_yaml_read(a, d, path);
    cr_assert(root, "%s", what);
    struct fe_model_opts o = {.path = path, .scale = *scale ? scale : NULL, .layers = true};
    o.batch = (int)json_integer_value(json_array_get(input, 0));
    o.height = (int)json_integer_value(json_array_get(input, 2));
    o.width = (int)json_integer_value(json_array_get(input, 3));
    const struct fe_model *m = fe_model_build(a, yir_types_new(a), d, root, &o);
    cr_assert(m, "%s", what);
    check_layers(m, r, what);
    check_state(a, m, r, what);
    check_outputs(a, m, r, what);
    cr_expect_eq(yir_verify(m->func, 0), 0, "%s", what);
    cr_expect_eq(yir_diag_count(d), 0, "%s: a diagnostic", what);
    yir_arena_free(a);
}

static void check_family(const char *family, int least)
{
    if (!test_data_exists(family)) cr_skip("no %s", family);
    json_t *records = test_data_json(family), *r;
    cr_assert(records);
    size_t i;
    int n = 0;
    json_array_foreach(records, i, r)
    {
        if (strcmp(test_json_text(r, "task"), "detect") != 0) continue;
        check_record(r);
        n++;
    }
    cr_expect_geq(n, least, "only %d records of %s", n, family);
    json_decref(records);
}

Test(front_records, v8)
{
    check_family("expected/rule/v8.json", 29);
}

Test(front_records, v5)
{
    check_family("expected/rule/v5.json", 10);
}

Test(front_records, v3)
{
    check_family("expected/rule/v3.json", 3);
}

Test(front_records, yolov5_repository)
{
    check_family("expected/rule/yolov5-repo.json", 21);
}

Test(front_records, yolov3_repository)
{
    check_family("expected/rule/yolov3-repo.json", 3);
}
