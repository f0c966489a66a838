/* Description and weights to IR: settles what they disagree on, builds once to learn the strides, then for
 * good. */
#include "check.h"
#include "describe.h"
#include "heads.h"
#include "names.h"
#include "scale.h"

#include <math.h>
#include <string.h>

enum { DEFAULT_SIZE = 640, CLASSIFY_SIZE = 224, LEAST_MULTIPLE = 32 };

struct build { /* everything that stays the same over the builds of one model */
    struct yir_arena *arena;
    struct yir_types *types;
    struct yir_diags *diags;
    const struct fe_model_opts *opts;
    const struct fe_weights *weights; /* a file's; NULL for rule weights and none */
    struct fe_desc desc;
    enum fe_dialect dialect;
    int64_t nc;
    bool nc_fixed;
    double stride[FE_MAX_LEVELS];
};

struct size {
    int64_t batch, height, width;
};

/* --- one build
 * ---------------------------------------------------------------------------------------------- */

struct network { /* of one build */
    struct fe_lower *lower;
    yir_ref *out; /* of each row */
    struct fe_layer *layer;
};

static yir_ref input_of(const struct network *n, int row)
{
    return row < 0 ? yir_mkref(YIR_INP, 0) : n->out[row];
}

/* The module once, or `times` in a chain of children 0, 1, ... */
static yir_ref lower_times(struct fe_lower *l, struct fe_site *s, int64_t times)
{
    if (times == 1) return s->module->lower(l, s);
    if (FE_BREAKS(REPEAT_INPUTS, s->nin > 1))
        return fe_fail(l, E_ARGS, "%s of %d inputs can't be repeated %lld times: it gives one",
                       s->module->name, s->nin, (long long)times),
               YIR_NONE;
    yir_ref x = s->in[0];
    for (int64_t i = 0; i < times && yir_kind(x) != YIR_NIL; i++) {
        if (FE_BREAKS(REPEAT_CHANNELS, i && fe_channels(l, x) != s->c1))
            return fe_fail(l, E_ARGS,
                           "%s repeated %lld times needs as many channels out as in, not %lld and %lld",
                           s->module->name, (long long)times, (long long)fe_channels(l, x), (long long)s->c1),
                   YIR_NONE;
        s->in = &x;
        fe_child(l, yir_format(l->arena, "%lld", (long long)i));
        yir_ref y = s->module->lower(l, s);
        fe_leave(l);
        x = y;
    }
    return x;
}

static const char *type_text(struct fe_lower *l, const struct fe_module *m, int64_t times)
{
    const char *name = strncmp(m->name, "nn.", 3) == 0 ? m->name + 3 : m->name;
    return times > 1 ? yir_format(l->arena, "%s*%lld", name, (long long)times) : name;
}

static int check_place(struct fe_lower *l, const struct fe_row *row, const struct fe_module *m, bool last)
{
    bool head = (m->flags & FE_M_HEAD) != 0;
    if (FE_BREAKS(ROW_INPUTS, row->nfrom > 1 && !(m->flags & (FE_M_HEAD | FE_M_JOINS))))
        return fe_fail(l, E_FROM, "row %d: %s takes one input, not %d", row->index, row->module, row->nfrom);
    if (FE_BREAKS(HEAD_LAST, head && !last))
        return fe_fail_at(l, row->module_loc, E_ROW, "row %d: rows follow the head %s", row->index,
                          row->module);
    if (FE_BREAKS(LAST_HEAD, !head && last))
        return fe_fail_at(l, row->module_loc, E_ROW, "row %d: the last row must be a head as Detect, not %s",
                          row->index, row->module);
    return 0;
}

/* Blocks inside a module may be none at all; any other module is there once, whatever stands below 1. */
static int check_fraction(struct fe_lower *l, const struct fe_row *row, const struct fe_module *m)
{
    if (FE_HOLDS(REPEAT_FRACTION, !(m->flags & FE_M_REPEATS) || !(row->repeats > 0 && row->repeats < 1))) return 0;
    return fe_fail(l, E_ROW, "row %d: %s can't hold %g blocks; numbers above 1 are rounded, none and 1 are whole", row->index,
                   m->name, row->repeats);
}

/* false when a row it reads gave nothing, which was reported there. */
static bool take_inputs(const struct network *n, const struct fe_row *row, struct fe_site *s)
{
    yir_ref *in = yir_alloc_n(n->lower->arena, (size_t)row->nfrom, sizeof *in);
    bool known = true;
    for (int i = 0; i < row->nfrom; i++) {
        in[i] = input_of(n, row->from[i]);
        known = known && yir_kind(in[i]) != YIR_NIL;
    }
    s->in = in;
    s->nin = row->nfrom;
    s->c1 = fe_channels(n->lower, in[0]);
    return known;
}

static void lower_row(struct network *n, const struct fe_row *row, const struct fe_scale *scale, bool last)
{
    struct fe_lower *l = n->lower;
    struct fe_site s = {.n = 1};
    fe_enter(l, row->path, row->loc);
    s.module = fe_module_find(l, row->module_loc, row->module);
    if (!s.module || check_place(l, row, s.module, last)) return;
    bool known = take_inputs(n, row, &s);
    int64_t times = fe_scale_repeats(row->repeats, scale->depth);
    if (FE_BREAKS(HEAD_ONCE, times > 1 && (s.module->flags & FE_M_HEAD))) {
        fe_fail(l, E_ROW, "row %d: the head %s can't be repeated", row->index, row->module);
        return;
    }
    if (check_fraction(l, row, s.module)) return;
    if (s.module->flags & FE_M_REPEATS) s.n = times;
    if (times < 1 || (s.module->flags & FE_M_REPEATS)) times = 1;
    n->layer[row->index] =
        (struct fe_layer){.index = row->index, .type = type_text(l, s.module, times), .loc = row->loc};
    if (fe_args_bind(l, &s, row->args) || !known) return;
    const struct fe_unit *unit = l->at;
    n->out[row->index] = lower_times(l, &s, times);
    n->layer[row->index].params = fe_unit_params(unit);
    YIR_ASSERT(l->at == unit);
    if (FE_BREAKS(HEAD_SETS, last && l->one2one && !l->head.one2one && !l->failed))
        fe_fail(l, E_USAGE, "%s: one2one is asked for, but this network has no such branches", row->module);
}

static const struct fe_row *head_row(const struct build *b)
{
    return &b->desc.row[b->desc.nrow - 1];
}

static bool is_classifier(const struct build *b)
{
    return strcmp(head_row(b)->module, "Classify") == 0;
}

static void set_defaults(const struct build *b, const struct fe_scale *scale, struct fe_lower *l)
{
    l->arena = b->arena;
    l->diags = b->diags;
    l->weights = b->weights;
    l->rule = b->opts->rule;
    l->strict = b->opts->strict;
    l->dialect = b->dialect;
    l->act = b->desc.act;
    l->eps = is_classifier(b) ? 1e-5 : 1e-3; /* a pickle knows its own */
    l->one2one = b->opts->one2one;
    l->both = b->opts->layers;
    l->scale = scale->name;
    l->description = b->desc.root;
    l->nc = b->nc;
    l->nc_fixed = b->nc_fixed;
    l->reg_max = b->desc.reg_max;
    l->na = b->desc.na;
    l->legacy = true;
    l->depthwise = scale->depthwise;
    l->width = scale->width;
    l->max_channels = scale->max_channels;
    memcpy(l->stride, b->stride, sizeof l->stride);
}

/* Builds the network into n; false after reporting. l's fields data and final are set by the caller. */
static bool build_network(const struct build *b, const struct fe_scale *scale, struct size size,
                          struct fe_lower *l, struct network *n)
{
    set_defaults(b, scale, l);
    l->func =
        yir_func_new(b->arena, b->types, b->diags, fe_model_name(b->arena, &b->desc, b->opts, scale->name));
    l->func->image_div = b->desc.input_div;
    l->func->image_bgr = b->desc.input_bgr;
    l->input_height = size.height;
    fe_lower_init(l);
    struct yir_tdesc in = {.dtype = YIR_F32,
                           .layout = YIR_NCHW,
                           .rank = 4,
                           .dim = {size.batch, b->desc.ch, size.height, size.width}};
    yir_add_input(l->func, "images", yir_type_of(b->types, &in));
    *n = (struct network){.lower = l};
    n->out = yir_alloc_n(b->arena, (size_t)b->desc.nrow, sizeof *n->out);
    n->layer = yir_alloc_n(b->arena, (size_t)b->desc.nrow, sizeof *n->layer);
    for (int i = 0; i < b->desc.nrow && !l->full; i++)
        lower_row(n, &b->desc.row[i], scale, i == b->desc.nrow - 1);
    fe_lower_wrong(l);
    return !l->failed;
}

/* --- dialect and classes
 * ------------------------------------------------------------------------------------ */

static bool has_tensor(const struct build *b, const char *name)
{
    return b->weights && fe_weights_find(b->weights, yir_format(b->arena, "%s.%s", head_row(b)->path, name));
}

/* The classes in the weights say it, or the names of the head's tensors; without them, what the description looks like. */
static enum fe_dialect find_dialect(const struct build *b)
{
    const char *module = head_row(b)->module;
    if (strcmp(module, "XHead") == 0 || strcmp(module, "YOLOXHead") == 0) return FE_X;
    const char *path = b->weights && b->weights->root ? b->weights->root->class_path : "";
    if (strncmp(path, "ultralytics.", 12) == 0) return FE_UL;
    if (strstr(path, "models.yolo.")) return FE_Y5;
    if (has_tensor(b, "m.0.weight")) return FE_Y5;
    if (has_tensor(b, "cv3.0.2.weight") || has_tensor(b, "one2one_cv3.0.2.weight")) return FE_UL;
    return b->desc.anchors ? FE_Y5 : FE_UL;
}

static int64_t nc_of_weights(const struct build *b)
{
    if (!b->weights) return 0;
    int64_t nc = fe_head_nc(b->arena, b->weights, head_row(b), b->dialect, b->desc.na);
    if (nc < 1) fe_as_int(fe_node_attr(fe_weights_node(b->weights, head_row(b)->path), "nc"), &nc);
    return nc >= 1 && nc <= 65536 ? nc : 0;
}

static int settle_nc(struct build *b)
{
    int64_t asked = b->opts->nc, yaml = b->desc.nc, found = nc_of_weights(b);
    const struct fe_value *key = fe_get(b->desc.root, "nc");
    struct yir_loc loc = key ? key->loc : (struct yir_loc){0};
    if (FE_BREAKS(NC_AGREES, asked && found && asked != found))
        return yir_diag(b->diags, (struct yir_loc){b->weights->file, 0, 0}, E_NC,
                        "--nc asks for %lld classes, the weights have %lld", (long long)asked,
                        (long long)found);
    if (!asked && found && yaml && found != yaml)
        yir_diag(b->diags, loc, W_DISAGREE, "nc is %lld in the yaml, but %s has %lld classes, which decides",
                 (long long)yaml, b->weights->path, (long long)found);
    b->nc_fixed = asked || found;
    b->nc = asked ? asked : found ? found : yaml;
    if (FE_HOLDS(NC_THERE, b->nc)) return 0;
    return yir_diag(b->diags, b->desc.root->loc, E_YAML_KEY, "the key nc, the number of classes, is missing");
}

/* --- scale and strides, by builds without data
 * -------------------------------------------------------------- */

struct fit { /* how far the weights are from what a scale wants; matrices only, so that fused files fit too */
    size_t wrong, unwanted;
    const char *name, *expected, *found; /* the first that is wrong; found NULL: missing */
};

static bool is_compared(const char *name, int rank)
{
    const char *dfl = strstr(name, "dfl.conv.weight"), *anchor = strstr(name, ".anchor");
    return rank >= 2 && !dfl && !anchor;
}

static struct fit measure_fit(const struct build *b, struct fe_lower *l)
{
    struct fit f = {0};
    size_t n, compared = 0;
    const struct fe_want *want = fe_wants(l, &n);
    for (size_t i = 0; i < n; i++) {
        const struct fe_want *w = &want[i];
        if (!is_compared(w->name, w->rank)) continue;
        const struct fe_tensor *t = fe_weights_find(b->weights, w->name);
        compared += t != NULL;
        if (t && t->rank == w->rank && memcmp(t->dim, w->dim, (size_t)w->rank * sizeof *w->dim) == 0)
            continue;
        if (f.wrong++) continue;
        f.name = w->name;
        f.expected = fe_shape_text(b->arena, w->dim, w->rank);
        f.found = t ? fe_shape_text(b->arena, t->dim, t->rank) : NULL;
    }
    for (size_t i = 0; i < b->weights->ntensor; i++)
        f.unwanted += is_compared(b->weights->tensor[i].name, b->weights->tensor[i].rank);
    f.unwanted -= compared;
    return f;
}

/* Builds scale i at 256 x 256, silently. */
static bool try_scale(const struct build *b, int i, struct fit *f)
{
    struct build quiet = *b;
    quiet.diags = yir_diags_new(b->arena, NULL, NULL);
    struct fe_lower l = {0};
    struct network n;
    if (!build_network(&quiet, &b->desc.scale[i], (struct size){1, 256, 256}, &l, &n)) return false;
    *f = measure_fit(b, &l);
    return true;
}

/* A scale that the weights fit, and better than `than`; -1 when there is none. */
static int fitting_scale(const struct build *b, int than)
{
    struct fit best, f;
    int found = -1;
    if (than < 0 || !try_scale(b, than, &best)) best = (struct fit){.wrong = 1};
    if (best.wrong == 0 && best.unwanted == 0) return -1;
    for (int i = 0; i < b->desc.nscale; i++) {
        if (i == than || !try_scale(b, i, &f) || f.wrong) continue;
        if (best.wrong || f.unwanted < best.unwanted) {
            best = f;
            found = i;
        }
    }
    return found;
}

static int report_wrong_scale(const struct build *b, int asked, int fitting)
{
    struct fit f = {0};
    try_scale(b, asked, &f);
    const char *scale = b->desc.scale[asked].name, *other = b->desc.scale[fitting].name;
    struct yir_loc loc = {b->weights->file, 0, 0};
    if (!f.wrong)
        return yir_diag(b->diags, loc, E_WEIGHT, "scale %s leaves %zu weights unused; the file fits scale %s",
                        scale, f.unwanted, other);
    if (!f.found)
        return yir_diag(b->diags, loc, E_WEIGHT,
                        "%s: expected shape %s at scale %s, not in the file; the file fits scale %s", f.name,
                        f.expected, scale, other);
    return yir_diag(b->diags, loc, E_WEIGHT,
                    "%s: expected shape %s at scale %s, found %s; the file fits scale %s", f.name, f.expected,
                    scale, f.found, other);
}

static int settle_scale(const struct build *b, int *index)
{
    if (fe_scale_named(b->diags, &b->desc, b->opts, index)) return -1;
    bool own = b->weights && b->desc.root == b->weights->yaml; /* its scale was that of the training */
    int fitting = b->weights && b->desc.nscale > 1 && !(own && *index >= 0) ? fitting_scale(b, *index) : -1;
    if (*index >= 0) return fitting >= 0 ? report_wrong_scale(b, *index, fitting) : 0;
    *index = fitting >= 0 ? fitting : 0;
    const struct fe_value *scales = fe_get(b->desc.root, "scales");
    if (fitting < 0 && b->desc.nscale > 1 && !own)
        yir_diag(b->diags, scales->loc, W_SCALE, "no scale is given by --scale or the file name; %s is used",
                 b->desc.scale[0].name);
    return 0;
}

/* A map of one row is too small to tell its stride. */
static bool strides_are_clear(const struct fe_lower *l, int64_t height)
{
    for (int i = 0; i < l->head.nl; i++)
        if (l->head.stride[i] >= (double)height) return false;
    return true;
}

static int settle_strides(struct build *b, const struct fe_scale *scale)
{
    static const int64_t heights[] = {256, 2048};
    for (size_t i = 0; i < YIR_COUNT(heights); i++) {
        struct fe_lower l = {.data = b->weights != NULL};
        struct network n;
        if (!build_network(b, scale, (struct size){1, heights[i], heights[i]}, &l, &n)) return -1;
        memcpy(b->stride, l.head.stride, sizeof b->stride);
        if (strides_are_clear(&l, heights[i])) return 0;
        memset(b->stride, 0, sizeof b->stride);
    }
    return yir_diag(b->diags, head_row(b)->loc, E_UNSUPPORTED, "a level of the head has a stride above 1024");
}

/* --- size
 * --------------------------------------------------------------------------------------------------- */

/* Multiple that sizes are rounded up to: the largest stride, and never less than 32, as in training. */
static int64_t size_multiple(const struct build *b)
{
    double most = LEAST_MULTIPLE;
    for (int i = 0; i < FE_MAX_LEVELS; i++)
        most = fmax(most, ceil(b->stride[i]));
    return (int64_t)most;
}

static bool read_size(const struct build *b, const struct fe_value *v, int64_t *height, int64_t *width)
{
    int64_t most = (int64_t)yir_limits_of(b->diags)->max_imgsz;
    if (v && v->kind == FE_STR)
        v = fe_literal(b->arena, v->s, v->loc); /* metadata of safetensors are texts */
    const struct fe_value *second = v;
    if (v && v->kind == FE_LIST && v->n) {
        second = v->item[v->n > 1];
        v = v->item[0];
    }
    return fe_as_int(v, height) && fe_as_int(second, width) && *height > 0 && *width > 0 && *height <= most &&
           *width <= most;
}

/* Image size of the training, when the checkpoint tells. */
static bool checkpoint_size(const struct build *b, int64_t *height, int64_t *width)
{
    if (!b->weights) return false;
    const struct fe_value *top = b->weights->top;
    return read_size(b, fe_get(fe_get(top, "train_args"), "imgsz"), height, width) ||
           read_size(b, fe_get(fe_get(top, "opt"), "imgsz"), height, width) ||
           read_size(b, fe_get(top, "imgsz"), height, width);
}

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static int settle_size(const struct build *b, struct size *out)
{
    const struct fe_model_opts *o = b->opts;
    const struct yir_limits *most = yir_limits_of(b->diags);
    int64_t multiple = size_multiple(b), h = o->height, w = o->width, side = (int64_t)most->max_imgsz;
    if (FE_BREAKS(BATCH, o->batch < 1 || (uint64_t)o->batch > most->max_batch))
        return yir_diag(b->diags, (struct yir_loc){0}, E_IMGSZ, "the batch must be 1 to %llu, not %d%s",
                        (unsigned long long)most->max_batch, o->batch,
                        o->batch > 1 ? YIR_RAISE(max_batch) : "");
    if (FE_BREAKS(IMGSZ_NEGATIVE, (h == 0) != (w == 0) || h < 0 || w < 0) ||
        FE_BREAKS(IMGSZ, h > side || w > side))
        return yir_diag(b->diags, (struct yir_loc){0}, E_IMGSZ,
                        "the image size must be 1 to %lld, not %lldx%lld%s", (long long)side, (long long)h,
                        (long long)w, h > side || w > side ? YIR_RAISE(max_imgsz) : "");
    bool asked = h != 0;
    if (!asked && !checkpoint_size(b, &h, &w)) h = w = b->desc.size ? b->desc.size : is_classifier(b) ? CLASSIFY_SIZE : DEFAULT_SIZE;
    *out = (struct size){o->batch, round_up(h, multiple), round_up(w, multiple)};
    if (FE_BREAKS(IMGSZ_ROUNDED, out->height > side || out->width > side))
        return yir_diag(b->diags, (struct yir_loc){0}, E_IMGSZ,
                        "multiples of the stride %lld are larger than %lld%s", (long long)multiple,
                        (long long)side, YIR_RAISE(max_imgsz));
    if (asked && (out->height != h || out->width != w))
        yir_diag(b->diags, (struct yir_loc){0}, W_CHANGED,
                 "the image size %lldx%lld (height x width) becomes %lldx%lld, multiples of %lld",
                 (long long)h, (long long)w, (long long)out->height, (long long)out->width,
                 (long long)multiple);
    return 0;
}

/* --- the whole
 * ---------------------------------------------------------------------------------------------- */

static void add_layer_outputs(struct fe_lower *l, const struct network *n, int nrow)
{
    for (int i = 0; i < nrow - 1; i++) {
        const struct fe_parts *parts = fe_parts_of(l, n->out[i]);
        for (int k = 0; k < (parts ? parts->n : 1); k++) {
            yir_ref x = parts ? parts->part[k] : n->out[i];
            const char *name = yir_format(l->arena, k ? "layer.%d.%d" : "layer.%d", i, k);
            if (yir_kind(x) != YIR_NIL) yir_add_output(l->func, name, x, true);
        }
    }
}

static void warn_rounding(const struct build *b, struct fe_lower *l)
{
    if (!l->rounded[0] || b->weights) return;
    l->row = l->rounded_at;
    fe_warn(l, W_CHANGED, "channel counts are rounded up to multiples of 8: %lld becomes %lld",
            (long long)l->rounded[0], (long long)l->rounded[1]);
}

static const struct fe_model *describe_result(const struct build *b, const struct fe_scale *scale,
                                              struct size size, struct fe_lower *l, const struct network *n)
{
    struct fe_model *m = yir_alloc(b->arena, sizeof *m);
    double *stride = yir_alloc_n(b->arena, FE_MAX_LEVELS, sizeof *stride);
    memcpy(stride, l->head.stride, FE_MAX_LEVELS * sizeof *stride);
    *m = (struct fe_model){
        .func = l->func,
        .name = l->func->name,
        .task = l->head.task ? l->head.task : "detect",
        .one2one = l->head.one2one,
        .nm = l->head.nm,
        .kpts = l->head.kpts,
        .kpt_dims = l->head.kpt_dims,
        .head = l->head.one2one ? FE_HEAD_BEST : l->head.kind,
        .nc = (int)l->nc,
        .nl = l->head.nl,
        .reg_max = l->head.reg_max,
        .na = l->head.na,
        .stride_max = (int)size_multiple(b),
        .stride = stride,
        .letterbox = b->desc.letterbox,
        .conf = 0.25f,
        .iou = l->head.iou,
        .max_det = 300,
        .batch = (int)size.batch,
        .height = (int)size.height,
        .width = (int)size.width,
        .layer = n->layer,
        .nlayer = b->desc.nrow,
        .scale = scale->name,
        .input_div = b->desc.input_div,
        .input_bgr = b->desc.input_bgr,
    };
    m->want = fe_wants(l, &m->nwant);
    m->names = fe_names(b->arena, b->diags, b->weights, b->desc.root, l->nc);
    return m;
}

static const struct fe_model *build_model(struct yir_arena *a, struct yir_types *t, struct yir_diags *d,
                                          const struct fe_value *root, const struct fe_model_opts *o)
{
    struct build b = {.arena = a, .types = t, .diags = d, .opts = o};
    struct size size;
    int scale;
    if (o->weights && o->weights->kind != FE_WEIGHTS_RULE) b.weights = o->weights;
    if (fe_describe_model(a, d, root, &b.desc)) return NULL;
    b.dialect = find_dialect(&b);
    if (settle_nc(&b) || settle_scale(&b, &scale)) return NULL;
    const struct fe_scale *s = &b.desc.scale[scale];
    if (settle_strides(&b, s) || settle_size(&b, &size)) return NULL;
    struct fe_lower l = {.data = b.weights != NULL, .final = true};
    struct network n;
    if (!build_network(&b, s, size, &l, &n)) return NULL;
    fe_lower_finish(&l);
    if (l.failed) return NULL;
    warn_rounding(&b, &l);
    if (l.head.spare) l.func = fe_trim(l.func);
    if (o->layers) add_layer_outputs(&l, &n, b.desc.nrow);
    return describe_result(&b, s, size, &l, &n);
}

const struct fe_model *fe_model_build(struct yir_arena *a, struct yir_types *t, struct yir_diags *d,
                                      const struct fe_value *root, const struct fe_model_opts *o)
{
    yir_diags_one_error(d, true);
    const struct fe_model *m = build_model(a, t, d, root, o);
    yir_diags_one_error(d, false);
    return m;
}
