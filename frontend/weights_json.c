/* Machine-readable listing of a weights file. */
#include "weights.h"

#include "json.h"

/* Takes over both; NULL, and nothing left of them, when memory runs out. */
static json_t *with(json_t *list, json_t *item)
{
    if (json_array_append_new(list, item) == 0) return list;
    json_decref(list);
    return NULL;
}

static json_t *names_list(const struct fe_value *names)
{
    json_t *list = json_array();
    for (size_t i = 0; list && names && i < names->n; i++)
        list = with(list, json_string(names->item[i]->kind == FE_STR ? names->item[i]->s : ""));
    return list;
}

static json_t *shape_list(const struct fe_tensor *t)
{
    json_t *list = json_array();
    for (int k = 0; list && k < t->rank; k++) list = with(list, json_integer(t->dim[k]));
    return list;
}

static json_t *tensor_list(const struct fe_weights *w)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        list = with(list, json_pack("{s:s, s:s, s:o}", "name", t->name, "dtype", yir_dtype_name(t->dtype), "shape", shape_list(t)));
    }
    return list;
}

int fe_weights_json(struct yir_str *out, const struct fe_weights *w)
{
    struct yir_str yaml = {.arena = out->arena};
    if (w->yaml) fe_print(&yaml, w->yaml);
    void **text = yir_arena_slot(out->arena);
    const char *digest = yir_format(out->arena, "%016llx%016llx", (unsigned long long)w->digest[1], (unsigned long long)w->digest[0]);
    json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s?, s:i, s:o, s:o}", "version", 1, "file", w->path, "kind",
                             w->kind == FE_WEIGHTS_PT ? "pt" : "safetensors", "digest", digest, "stored_in", w->stored_in,
                             "yaml", yaml.text, "nc", (int)(w->names ? w->names->n : 0), "names", names_list(w->names),
                             "tensors", tensor_list(w));
    *text = fe_json_text(root);
    json_decref(root);
    if (!*text) return -1;
    yir_str_fmt(out, "%s\n", (const char *)*text);
    return 0;
}
