/* Machine-readable listing of a weights file. */
#include "weights.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *names_list(const struct fe_value *names)
{
    json_t *list = json_array();
    for (size_t i = 0; names && i < names->n; i++)
        json_array_append_new(list, json_string(names->item[i]->kind == FE_STR ? names->item[i]->s : ""));
    return list;
}

static json_t *tensor_list(const struct fe_weights *w)
{
    json_t *list = json_array();
    for (size_t i = 0; i < w->ntensor; i++) {
        const struct fe_tensor *t = &w->tensor[i];
        json_t *shape = json_array();
        for (int k = 0; k < t->rank; k++) json_array_append_new(shape, json_integer(t->dim[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", t->name, "dtype", yir_dtype_name(t->dtype), "shape", shape));
    }
    return list;
}

int fe_weights_json(struct yir_str *out, const struct fe_weights *w)
{
    struct yir_str yaml = {.arena = out->arena};
    if (w->yaml) fe_print(&yaml, w->yaml);
    json_t *root = json_pack("{s:i, s:s, s:s, s:s, s:s?, s:i, s:o, s:o}", "version", 1, "file", w->path, "kind",
                             w->kind == FE_WEIGHTS_PT ? "pt" : "safetensors", "stored_in", w->stored_in, "yaml", yaml.text, "nc",
                             (int)(w->names ? w->names->n : 0), "names", names_list(w->names), "tensors", tensor_list(w));
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text) return -1;
    yir_str_fmt(out, "%s\n", text);
    free(text);
    return 0;
}
