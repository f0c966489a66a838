/* What the tests of descriptions and weights together share: two descriptions, a build of one, and weights made for it. */
#ifndef TEST_FRONTBOX_H
#define TEST_FRONTBOX_H

#include <criterion/criterion.h>
#include <string.h>

#include "frontend/describe.h"
#include "tensorfile.h"

static const char small[] = "nc: 2\n"
                            "scales:\n"
                            "  n: [0.33, 0.25, 1024]\n"
                            "  s: [0.33, 0.50, 1024]\n"
                            "  m: [0.67, 0.50, 1024]\n"
                            "backbone:\n"
                            "  - [-1, 1, Conv, [64, 3, 2]]\n"
                            "  - [-1, 1, Conv, [64, 3, 2]]\n"
                            "  - [-1, 3, C2f, [64, True]]\n"
                            "head:\n"
                            "  - [-1, 1, Conv, [128, 3, 2]]\n"
                            "  - [[2, 3], 1, Detect, [nc]]\n";

static const char anchored[] = "nc: 5\n"
                               "width_multiple: 0.25\n"
                               "anchors:\n"
                               "  - [1,2, 3,4, 5,6]\n"
                               "  - [10,20, 30,40, 50,60]\n"
                               "backbone:\n"
                               "  - [-1, 1, Conv, [64, 3, 2]]\n"
                               "  - [-1, 1, nn.Upsample, ['None', 2, 'nearest']]\n"
                               "head:\n"
                               "  - [-1, 1, Conv, [64, 3, 2]]\n"
                               "  - [[1, 2], 1, Detect, [nc, anchors]]\n";

struct bench { /* one build */
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct fe_model_opts opts;
    const struct fe_model *model;
};

static inline void setup_bench(struct bench *b)
{
    b->arena = yir_arena_new(NULL, NULL);
    b->diags = yir_diags_new(b->arena, NULL, NULL);
    b->opts = (struct fe_model_opts){.path = "my.yaml", .batch = 1, .height = 64, .width = 64};
    b->model = NULL;
}

/* The diagnostics of the build begin anew; the arena stays. */
static inline const struct fe_model *build(struct bench *b, const char *yaml)
{
    b->diags = yir_diags_new(b->arena, NULL, NULL);
    const struct fe_value *root = fe_yaml_parse(b->arena, b->diags, b->opts.path, yaml, strlen(yaml));
    cr_assert_not_null(root, "%s", yir_diag_count(b->diags) ? yir_diag_at(b->diags, 0)->rendered : "");
    b->model = fe_model_build(b->arena, yir_types_new(b->arena), b->diags, root, &b->opts);
    return b->model;
}

static inline const char *all_text(const struct bench *b)
{
    struct yir_str s = {.arena = b->arena};
    for (size_t i = 0; i < yir_diag_count(b->diags); i++)
        yir_str_fmt(&s, "%s\n", yir_diag_at(b->diags, i)->rendered);
    return s.text ? s.text : "";
}

static inline void expect_built(struct bench *b, const char *yaml)
{
    build(b, yaml);
    cr_assert_not_null(b->model, "%s", all_text(b));
}

/* One error of this kind, whose text holds `part`. */
static inline void expect_refused(struct bench *b, const char *yaml, enum yir_diag_id id, const char *part)
{
    cr_assert_null(build(b, yaml), "%s", part);
    cr_expect_eq(yir_diag_errors(b->diags), 1, "%s", all_text(b));
    for (size_t i = 0; i < yir_diag_count(b->diags); i++)
        if (yir_diag_at(b->diags, i)->severity == YIR_ERROR) {
            cr_expect_eq(yir_diag_at(b->diags, i)->id, id, "%s", all_text(b));
            break;
        }
    cr_expect(strstr(all_text(b), part), "%s: lacks %s", all_text(b), part);
}

static inline void expect_warned(const struct bench *b, enum yir_diag_id id, const char *part)
{
    for (size_t i = 0; i < yir_diag_count(b->diags); i++)
        if (yir_diag_at(b->diags, i)->id == id && strstr(yir_diag_at(b->diags, i)->text, part)) return;
    cr_expect_fail("no warning with %s among: %s", part, all_text(b));
}

static inline const struct fe_want *want(const struct bench *b, const char *name)
{
    for (size_t i = 0; i < b->model->nwant; i++)
        if (strcmp(b->model->want[i].name, name) == 0) return &b->model->want[i];
    cr_assert_fail("no weight %s is wanted", name);
    return NULL;
}

static inline int64_t channels(const struct bench *b, const char *name)
{
    return want(b, name)->dim[0];
}

static inline size_t count_ops(const struct bench *b, enum yir_code c)
{
    size_t n = 0;
    for (uint32_t i = 1; i < b->model->func->nop; i++)
        n += b->model->func->op[i].code == c;
    return n;
}

/* --- weights made here -------------------------------------------------------------------------------------- */

static inline const struct fe_weights *finish_weights(struct bench *b, const struct tensorfile *m)
{
    struct yir_str file = tensorfile_finish(b->arena, m);
    const struct fe_weights *w =
        fe_weights_read(b->arena, b->diags, "made.safetensors", file.text, file.len, NULL);
    cr_assert_not_null(w, "%s", all_text(b));
    return w;
}

/* What a change does to each tensor: renames it, alters its shape, or answers false to leave it out. */
typedef bool (*change_fn)(const char **name, int64_t *dim, int *rank);

static inline bool keep(const char **name, int64_t *dim, int *rank)
{
    (void)name, (void)dim, (void)rank;
    return true;
}

/* The weights that `yaml` wants at a scale, with a change. Afterwards the bench builds with them. */
static inline void use_weights(struct bench *b, const char *yaml, const char *scale, change_fn change)
{
    struct tensorfile m = {{.arena = b->arena}, {.arena = b->arena}};
    b->opts.weights = NULL;
    b->opts.scale = scale;
    expect_built(b, yaml);
    for (size_t i = 0; i < b->model->nwant; i++) {
        struct fe_want w = b->model->want[i];
        if (change(&w.name, w.dim, &w.rank)) tensorfile_add(&m, w.name, w.dim, w.rank, 1);
    }
    b->opts.weights = finish_weights(b, &m);
    b->opts.scale = NULL;
}

static struct bench bench;

static inline void setup(void)
{
    setup_bench(&bench);
}

static inline void teardown(void)
{
    yir_arena_free(bench.arena);
}

#endif
