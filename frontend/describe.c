#include "describe.h"

#include <math.h>
#include <string.h>

#include "check.h"

struct reader {
    struct yir_arena *arena;
    struct yir_diags *diags;
    struct fe_desc *desc;
    const struct yir_limits *limits;
    size_t cap_row;
};

/* --- rows
 * --------------------------------------------------------------------------------------------------- */

/* One element of `from`: a row before this one. */
static int read_from(struct reader *r, const struct fe_value *v, struct yir_loc row, int index, int *out)
{
    struct yir_loc loc = v->loc.line ? v->loc : row;
    int64_t f = -1;
    if (FE_BREAKS(ROW_FROM_KIND, !fe_as_int(v, &f) || v->kind == FE_BOOL))
        return yir_diag(r->diags, loc, E_FROM, "row %d: from must be a row number or a list of them, not %s",
                        index, fe_describe(r->arena, v));
    int64_t at = f < 0 ? f + index : f;
    if (f == -1 && index == 0)
        at = -1;
    else if (FE_BREAKS(ROW_FROM_BEFORE, at < 0))
        return yir_diag(r->diags, loc, E_FROM, "row %d: from %lld is before the first row", index,
                        (long long)f);
    if (FE_BREAKS(ROW_FROM_LATER, at >= index))
        return yir_diag(r->diags, loc, E_FROM, "row %d: from %lld is not an earlier row", index,
                        (long long)f);
    *out = (int)at;
    return 0;
}

static int read_froms(struct reader *r, const struct fe_value *v, struct fe_row *row)
{
    bool list = v->kind == FE_LIST;
    size_t n = list ? v->n : 1;
    if (FE_BREAKS(ROW_FROM_NONE, n == 0))
        return yir_diag(r->diags, v->loc.line ? v->loc : row->loc, E_FROM, "row %d: from is an empty list",
                        row->index);
    int *from = yir_alloc_n(r->arena, n, sizeof *from), rc = 0;
    for (size_t i = 0; i < n; i++)
        if (read_from(r, list ? v->item[i] : v, row->loc, row->index, &from[i])) rc = -1;
    row->from = from;
    row->nfrom = (int)n;
    return rc;
}

/* Weights are named in IR text, which has no quotes. */
static bool is_path(const char *s)
{
    size_t n = 0;
    while (s[n] && yir_is_name_char(s[n])) n++;
    return n && !s[n];
}

/* Fifth field of our own descriptions: {name: path of the weights}. */
static int read_extra(struct reader *r, const struct fe_value *v, struct fe_row *row)
{
    const struct fe_value *name = fe_get(v, "name");
    if (FE_BREAKS(ROW_EXTRA, v->kind != FE_DICT || v->n != 1 || !name || name->kind != FE_STR || !*name->s))
        return yir_diag(r->diags, v->loc.line ? v->loc : row->loc, E_ROW,
                        "row %d: the fifth field must be `name: path of its weights`", row->index);
    if (FE_BREAKS(ROW_PATH, !is_path(name->s)))
        return yir_diag(r->diags, name->loc.line ? name->loc : row->loc, E_ROW,
                        "row %d: the path of its weights, '%s', has characters other than letters, digits, '.', '_' and '-'",
                        row->index, name->s);
    row->path = name->s;
    return 0;
}

static int read_row(struct reader *r, const char *part, const struct fe_value *v)
{
    struct fe_desc *d = r->desc;
    int index = d->nrow;
    d->row = yir_grow(r->arena, d->row, &r->cap_row, (size_t)index + 1, sizeof *d->row);
    struct fe_row *row = &d->row[d->nrow++];
    *row = (struct fe_row){.index = index, .loc = v->loc, .path = yir_format(r->arena, "model.%d", index)};
    if (FE_BREAKS(ROW_LIST, v->kind != FE_LIST) || FE_BREAKS(ROW_FIELDS, v->n < 4 || v->n > 5))
        return yir_diag(r->diags, v->loc, E_ROW,
                        "row %d of %s has %zu fields; a row is [from, repeats, module, args]", index, part,
                        v->kind == FE_LIST ? v->n : 1);
    const struct fe_value *n = v->item[1], *module = v->item[2], *args = v->item[3];
    if (!fe_as_float(n, &row->repeats) || FE_BREAKS(ROW_REPEATS_NONE, !(row->repeats >= 0)) ||
        FE_BREAKS(ROW_REPEATS, row->repeats > (double)r->limits->max_repeats))
        return yir_diag(r->diags, n->loc.line ? n->loc : v->loc, E_ROW,
                        "row %d: repeats must be a number from 0 to %llu, not %s%s", index,
                        (unsigned long long)r->limits->max_repeats, fe_describe(r->arena, n),
                        n->kind == FE_INT && n->i > 1 ? YIR_RAISE(max_repeats) : "");
    if (FE_BREAKS(ROW_MODULE, module->kind != FE_STR))
        return yir_diag(r->diags, module->loc.line ? module->loc : v->loc, E_ROW,
                        "row %d: the third field must name a module, not %s", index,
                        fe_describe(r->arena, module));
    if (FE_BREAKS(ROW_ARGS, args->kind != FE_LIST))
        return yir_diag(r->diags, args->loc.line ? args->loc : v->loc, E_ROW,
                        "row %d: the arguments must be a list, not %s", index, fe_describe(r->arena, args));
    row->module = module->s;
    row->module_loc = module->loc;
    row->args = args;
    if (v->n == 5 && read_extra(r, v->item[4], row)) return -1;
    return read_froms(r, v->item[0], row);
}

enum { ROWS_WRONG = -1, NO_ROWS = -2 };

static int read_part(struct reader *r, const char *part)
{
    const struct fe_value *rows = fe_get(r->desc->root, part);
    if (FE_BREAKS(YAML_PART, !rows)) {
        yir_diag(r->diags, r->desc->root->loc, E_YAML_KEY, "the key %s is missing", part);
    } else if (FE_BREAKS(YAML_PART_KIND, rows->kind != FE_LIST)) {
        yir_diag(r->diags, rows->loc, E_YAML_KEY, "%s must be a list of rows, not %s", part,
                 fe_describe(r->arena, rows));
    } else if (FE_BREAKS(YAML_ROWS, rows->n > r->limits->max_rows)) {
        yir_diag(r->diags, rows->loc, E_LIMIT, "%s has more than %llu rows%s", part,
                 (unsigned long long)r->limits->max_rows, YIR_RAISE(max_rows));
    } else {
        int rc = 0;
        for (size_t i = 0; i < rows->n; i++)
            if (read_row(r, part, rows->item[i])) rc = ROWS_WRONG;
        return rc;
    }
    return NO_ROWS;
}

/* Mistakes of both parts are told at once; without a backbone the numbers in the head's `from` mean
 * nothing. */
static int read_parts(struct reader *r)
{
    int backbone = read_part(r, "backbone");
    if (backbone == NO_ROWS) return -1;
    int head = read_part(r, "head");
    return backbone || head ? -1 : 0;
}

/* --- scales
 * ------------------------------------------------------------------------------------------------- */

static bool in_list(const struct fe_value *list, const char *name)
{
    for (size_t i = 0; list && list->kind == FE_LIST && i < list->n; i++)
        if (list->item[i]->kind == FE_STR && strcmp(list->item[i]->s, name) == 0) return true;
    return false;
}

static bool factor(const struct fe_value *v, double *out)
{
    return FE_HOLDS(SCALE_NUMBER, fe_as_float(v, out)) && FE_HOLDS(SCALE_POSITIVE, *out > 0) &&
           FE_HOLDS(SCALE_LARGE, *out <= 1024);
}

static int read_scale(struct reader *r, const struct fe_value *key, const struct fe_value *v,
                      struct fe_scale *s)
{
    double cap = INFINITY;
    bool ok = FE_HOLDS(SCALE_NAME, key->kind == FE_STR) && FE_HOLDS(SCALE_LIST, v->kind == FE_LIST) &&
              FE_HOLDS(SCALE_FIELDS, v->n == 2 || v->n == 3) && factor(v->item[0], &s->depth) &&
              factor(v->item[1], &s->width);
    if (ok && v->n == 3) ok = FE_HOLDS(SCALE_CAP, fe_as_float(v->item[2], &cap) && cap >= 1);
    if (!ok)
        return yir_diag(r->diags, v->loc, E_YAML_KEY,
                        "a scale is written as `n: [depth, width, max_channels]`");
    s->name = key->s;
    s->max_channels = cap;
    s->depthwise = in_list(fe_get(r->desc->root, "depthwise"), key->s);
    return 0;
}

static int read_multiple(struct reader *r, const char *key, double *out)
{
    const struct fe_value *v = fe_get(r->desc->root, key);
    *out = 1;
    if (FE_HOLDS(MULTIPLE, !v || factor(v, out))) return 0;
    return yir_diag(r->diags, v->loc, E_YAML_KEY, "%s must be a positive number, not %s", key,
                    fe_describe(r->arena, v));
}

static int read_scales(struct reader *r)
{
    struct fe_desc *d = r->desc;
    const struct fe_value *v = fe_get(d->root, "scales");
    size_t n = v && v->kind == FE_DICT ? v->n : 0;
    d->nscale = n ? (int)n : 1;
    d->scale = yir_alloc_n(r->arena, (size_t)d->nscale, sizeof *d->scale);
    d->scale[0] = (struct fe_scale){.name = "", .max_channels = INFINITY};
    if (FE_BREAKS(SCALES, v && !n))
        return yir_diag(r->diags, v->loc, E_YAML_KEY,
                        "scales must hold lines as `n: [depth, width, max_channels]`");
    int rc = 0;
    for (size_t i = 0; i < n; i++)
        if (read_scale(r, v->key[i], v->item[i], &d->scale[i])) rc = -1;
    if (n) return rc;
    if (read_multiple(r, "depth_multiple", &d->scale[0].depth)) rc = -1;
    if (read_multiple(r, "width_multiple", &d->scale[0].width)) rc = -1;
    return rc;
}

/* --- other keys
 * --------------------------------------------------------------------------------------------- */

static int read_count(struct reader *r, const struct fe_value *where, const char *key, int64_t max,
                      int64_t *out)
{
    const struct fe_value *v = fe_get(where, key);
    if (!v || (FE_HOLDS(COUNT_KIND, fe_as_int(v, out) && v->kind != FE_BOOL) &&
               FE_HOLDS(COUNT_NONE, *out >= 1) && FE_HOLDS(COUNT, *out <= max)))
        return 0;
    return yir_diag(r->diags, v->loc, E_YAML_KEY, "%s must be an integer from 1 to %lld, not %s", key,
                    (long long)max, fe_describe(r->arena, v));
}

static int read_activation(struct reader *r)
{
    const struct fe_value *v = fe_get(r->desc->root, "activation");
    r->desc->act = (struct fe_act){YIR_silu, 0};
    if (!v || v->kind == FE_NONE) return 0;
    if (FE_BREAKS(ACTIVATION_KIND, v->kind != FE_STR))
        return yir_diag(r->diags, v->loc, E_ACTIVATION, "activation must be a text as nn.ReLU(), not %s",
                        fe_describe(r->arena, v));
    return fe_act_parse(r->arena, r->diags, v->loc, v->s, &r->desc->act);
}

/* A text among two; the first is the default. */
static int read_choice(struct reader *r, const struct fe_value *input, const char *key,
                       const char *const words[2], int *out)
{
    const struct fe_value *v = fe_get(input, key);
    *out = 0;
    if (!v) return 0;
    for (int i = 0; i < 2; i++)
        if (FE_HOLDS(INPUT_WORD, v->kind == FE_STR && strcmp(v->s, words[i]) == 0)) return *out = i, 0;
    return yir_diag(r->diags, v->loc, E_YAML_KEY, "input: %s must be %s or %s", key, words[0], words[1]);
}

/* input: {color: bgr, scale: 255, letterbox: topleft, size: 416}; scale is the largest value a pixel has. */
static int read_input(struct reader *r)
{
    static const char *const colors[2] = {"rgb", "bgr"}, *const boxes[2] = {"square", "topleft"};
    struct fe_desc *d = r->desc;
    const struct fe_value *v = fe_get(d->root, "input"), *scale = fe_get(v, "scale");
    int bgr, topleft;
    double largest = 1;
    if (FE_BREAKS(INPUT_KIND, v && v->kind != FE_DICT))
        return yir_diag(r->diags, v->loc, E_YAML_KEY,
                        "input must be as {color: rgb, scale: 1, letterbox: square}");
    if (read_choice(r, v, "color", colors, &bgr) || read_choice(r, v, "letterbox", boxes, &topleft))
        return -1;
    if (read_count(r, v, "size", 8192, &d->size)) return -1;
    if (FE_BREAKS(INPUT_SCALE, scale && !(fe_as_float(scale, &largest) && largest > 0 && largest <= 65536)))
        return yir_diag(r->diags, scale->loc, E_YAML_KEY,
                        "input: scale must be the largest value of a pixel, 1 or 255");
    d->input_bgr = bgr != 0;
    d->letterbox = topleft ? 2 : 0;
    d->input_div = (float)(255 / largest);
    return 0;
}

/* Anchors a level, as far as the channel rule needs to know; the head reads them in full. */
static int64_t count_anchors(const struct fe_value *v)
{
    if (!v || v->kind == FE_INT) return v ? v->i : 0;
    if (v->kind != FE_LIST || !v->n || v->item[0]->kind != FE_LIST) return 0;
    const struct fe_value *first = v->item[0];
    size_t numbers = first->n;
    if (first->n && first->item[0]->kind == FE_LIST) numbers *= first->item[0]->n;
    return (int64_t)(numbers / 2);
}

/* Whether anchors are the head's second argument: as [nc, anchors], as numbers, or as a count, which Segment's arguments without
 * anchors, [nc, masks, channels], do not reach by their number. The key anchors says nothing: files keep it beside other heads. */
static bool takes_anchors(const struct fe_row *head)
{
    const struct fe_value *args = head->args, *second = args->n > 1 ? args->item[1] : NULL;
    bool detect = strcmp(head->module, "Detect") == 0, segment = strcmp(head->module, "Segment") == 0;
    if (in_list(args, "anchors")) return true;
    if (!second || !(detect || segment)) return false;
    return second->kind == FE_LIST || (second->kind == FE_INT && (detect || args->n > 3));
}

static void find_anchors(struct fe_desc *d)
{
    const struct fe_row *head = d->nrow ? &d->row[d->nrow - 1] : NULL;
    const struct fe_value *key = fe_get(d->root, "anchors");
    d->anchors = head && head->args && takes_anchors(head);
    bool written = d->anchors && head->args->n > 1 && head->args->item[1]->kind != FE_STR;
    d->na = count_anchors(written ? head->args->item[1] : key);
}

/* clang-format off */
static const char *const known_keys[] = {
    "nc", "names", "ch", "channels", "scales", "scale", "depth_multiple", "width_multiple", "anchors", "activation",
    "kpt_shape", "end2end", "reg_max", "backbone", "head", "input", "depthwise", "yaml_file", "task",
    "text_model",
};
/* clang-format on */

static bool is_known_key(const struct fe_value *k)
{
    for (size_t i = 0; i < YIR_COUNT(known_keys); i++)
        if (k->kind == FE_STR && strcmp(k->s, known_keys[i]) == 0) return true;
    return false;
}

/* Whether an alias stands for v or for something in it. */
static bool is_repeated(const struct fe_value *v)
{
    bool found = v->repeated;
    for (size_t i = 0; i < v->n && !found; i++)
        found = is_repeated(v->item[i]);
    return found;
}

/* Pickled descriptions carry what a training tool added; only files that people write are checked. */
static void warn_unknown_keys(struct reader *r)
{
    const struct fe_value *root = r->desc->root;
    for (size_t i = 0; i < root->n && root->loc.line; i++) {
        const struct fe_value *k = root->key[i];
        if (is_known_key(k) || is_repeated(root->item[i])) continue;
        const char *name = k->kind == FE_STR ? k->s : yir_format(r->arena, "%lld", (long long)k->i);
        const char *near = strlen(name) > 3 ? yir_nearest(name, known_keys, YIR_COUNT(known_keys)) : NULL;
        if (near)
            yir_diag(r->diags, k->loc, W_YAML, "the key %s has no effect; did you mean %s?", name, near);
        else
            yir_diag(r->diags, k->loc, W_YAML, "the key %s has no effect", name);
    }
}

int fe_describe_model(struct yir_arena *a, struct yir_diags *d, const struct fe_value *root,
                      struct fe_desc *out)
{
    struct reader r = {.arena = a, .diags = d, .desc = out, .limits = yir_limits_of(d)};
    *out = (struct fe_desc){.root = root, .ch = 3, .reg_max = 16};
    if (FE_BREAKS(YAML_ROOT, root->kind != FE_DICT))
        return yir_diag(d, root->loc, E_KIND,
                        "this is no model description: it holds %s, not keys such as backbone and head",
                        fe_describe(a, root));
    int rc = read_parts(&r);
    if (read_scales(&r)) rc = -1;
    if (read_count(&r, root, "nc", (int64_t)r.limits->max_classes, &out->nc)) rc = -1;
    if (read_count(&r, root, "channels", 1024, &out->ch) || read_count(&r, root, "ch", 1024, &out->ch))
        rc = -1;
    if (read_count(&r, root, "reg_max", 1024, &out->reg_max)) rc = -1;
    if (read_activation(&r) || read_input(&r)) rc = -1;
    find_anchors(out);
    if (rc) return -1;
    if (FE_BREAKS(YAML_NO_ROWS, !out->nrow))
        return yir_diag(d, root->loc, E_YAML_KEY, "backbone and head have no rows");
    warn_unknown_keys(&r);
    return 0;
}
