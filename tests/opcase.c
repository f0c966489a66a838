#include "opcase.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *opcase_load(void)
{
    json_error_t e;
    json_t *root = json_load_file("tests/ops/cases.json", 0, &e);
    if (root) return root;
    fprintf(stderr, "%s:%d: %s\n", e.source, e.line, e.text);
    abort();
}

static float *floats(struct yir_arena *a, const json_t *list)
{
    float *v = yir_alloc_n(a, json_array_size(list), sizeof *v);
    for (size_t i = 0; i < json_array_size(list); i++) v[i] = (float)json_number_value(json_array_get(list, i));
    return v;
}

const char *opcase_name(struct yir_arena *a, const json_t *c)
{
    return yir_format(a, "%s (%s)", json_string_value(json_object_get(c, "op")), json_string_value(json_object_get(c, "note")));
}

struct yir_func *opcase_parse(struct yir_arena *a, struct yir_types *types, struct yir_diags *d, const json_t *c)
{
    const char *ir = json_string_value(json_object_get(c, "ir")), *name;
    struct yir_func *f = yir_parse(a, types, d, opcase_name(a, c), ir, strlen(ir));
    json_t *data;
    if (!f) return NULL;
    json_object_foreach(json_object_get((json_t *)c, "weights"), name, data)
        f->weight[yir_index(yir_find_weight(f, name))].data = floats(a, data);
    return f;
}

void opcase_print(void *user, const struct yir_diag *d)
{
    (void)user;
    fprintf(stderr, "%s\n", d->rendered);
}
