#include "lower.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "numbers.h"

/* No attribute of a module is larger. */
enum { MAX_ATTR = 1 << 24 };

static struct fe_unit *new_unit(struct fe_lower *l, struct fe_unit *parent, const char *name)
{
    struct fe_unit *u = yir_alloc(l->arena, sizeof *u);
    u->name = yir_strdup(l->arena, name);
    u->path = parent && *parent->path ? yir_format(l->arena, "%s.%s", parent->path, name) : u->name;
    u->parent = parent;
    if (!parent) return u;
    if (parent->last)
        parent->last->next = u;
    else
        parent->first = u;
    parent->last = u;
    return u;
}

void fe_lower_init(struct fe_lower *l)
{
    l->root = new_unit(l, NULL, "");
    l->at = l->root;
    if (l->weights) l->used = yir_alloc(l->arena, l->weights->ntensor + 1);
}

static struct yir_loc place(const struct fe_lower *l)
{
    if (l->row.line || !l->weights) return l->row;
    return (struct yir_loc){l->weights->file, 0, 0};
}

static const char *format(struct fe_lower *l, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    YIR_ASSERT(n >= 0);
    char *text = yir_alloc(l->arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    return text;
}

int fe_fail(struct fe_lower *l, enum yir_diag_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = format(l, fmt, ap);
    va_end(ap);
    l->failed = true;
    return yir_diag(l->diags, place(l), id, "%s", text);
}

int fe_fail_at(struct fe_lower *l, struct yir_loc loc, enum yir_diag_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = format(l, fmt, ap);
    va_end(ap);
    l->failed = true;
    return yir_diag(l->diags, loc.line ? loc : place(l), id, "%s", text);
}

void fe_warn(struct fe_lower *l, enum yir_diag_id id, const char *fmt, ...)
{
    if (!l->final) return;
    va_list ap;
    va_start(ap, fmt);
    const char *text = format(l, fmt, ap);
    va_end(ap);
    yir_diag(l->diags, place(l), id, "%s", text);
}

/* --- the path
 * ----------------------------------------------------------------------------------------------- */

static const struct fe_node *child_node(const struct fe_node *n, const char *name)
{
    while (n && *name) {
        size_t len = strcspn(name, ".");
        const struct fe_node *found = NULL;
        for (size_t i = 0; i < n->nchild && !found; i++) {
            const char *c = n->child[i]->name;
            if (strlen(c) == len && memcmp(c, name, len) == 0) found = n->child[i];
        }
        n = found;
        name += len + (name[len] == '.');
    }
    return n;
}

static bool count_unit(struct fe_lower *l)
{
    uint64_t most = yir_limits_of(l->diags)->max_modules;
    if (FE_HOLDS(MODULES, ++l->nunit <= most)) return true;
    if (!l->full)
        fe_fail(l, E_LIMIT, "the network has more than %llu modules%s", (unsigned long long)most,
                YIR_RAISE(max_modules));
    l->full = true;
    return false;
}

static void go_to(struct fe_lower *l, struct fe_unit *u)
{
    l->at = u;
    l->moved = true;
}

void fe_enter(struct fe_lower *l, const char *path, struct yir_loc row)
{
    count_unit(l);
    l->row = row;
    struct fe_unit *u = new_unit(l, l->root, path);
    if (l->weights) u->node = fe_weights_node(l->weights, path);
    go_to(l, u);
}

static struct fe_unit *find_child(struct fe_unit *parent, const char *name)
{
    for (struct fe_unit *u = parent->first; u; u = u->next)
        if (strcmp(u->name, name) == 0) return u;
    return NULL;
}

void fe_child(struct fe_lower *l, const char *name)
{
    struct fe_unit *u = find_child(l->at, name);
    if (!u) {
        count_unit(l);
        u = new_unit(l, l->at, name);
        u->node = child_node(l->at->node, name);
    }
    go_to(l, u);
}

void fe_leave(struct fe_lower *l)
{
    YIR_ASSERT(l->at->parent);
    go_to(l, l->at->parent);
}

void fe_order(struct fe_lower *l, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, ",");
        fe_child(l, yir_strndup(l->arena, names, n));
        fe_leave(l);
        names += n + (names[n] == ',');
    }
}

/* --- attributes of pickled modules
 * -------------------------------------------------------------------------- */

static const struct fe_value *attribute(struct fe_lower *l, const char *key, int at)
{
    const struct fe_value *v = fe_node_attr(l->at->node, key);
    if (v && v->kind == FE_LIST) return (size_t)at < v->n ? v->item[at] : NULL;
    return v;
}

int64_t fe_int(struct fe_lower *l, const char *key, int at, int64_t implied)
{
    const struct fe_value *v = attribute(l, key, at);
    int64_t i;
    if (v && v->kind == FE_BOOL) return v->i;
    if (!fe_as_int(v, &i)) return implied;
    if (FE_HOLDS(ATTR_RANGE, i >= 0 && i <= MAX_ATTR)) return i;
    fe_fail(l, E_WEIGHT, "%s: the pickled attribute %s is %lld, which no network has", l->at->path, key,
            (long long)i);
    return implied;
}

double fe_float(struct fe_lower *l, const char *key, double implied)
{
    const struct fe_value *v = attribute(l, key, 0);
    double f;
    if (!fe_as_float(v, &f)) return implied;
    if (FE_HOLDS(ATTR_FINITE, isfinite((float)f))) return f;
    fe_fail(l, E_WEIGHT, "%s: the pickled attribute %s is %g, which no network has", l->at->path, key, f);
    return implied;
}

/* --- weights
 * ------------------------------------------------------------------------------------------------ */

const char *fe_shape_text(struct yir_arena *a, const int64_t *dim, int rank)
{
    struct yir_str s = {.arena = a};
    for (int i = 0; i < rank; i++)
        yir_str_fmt(&s, "%s%lld", i ? "," : "", (long long)dim[i]);
    return yir_format(a, "[%s]", s.text ? s.text : "");
}

static const char *full_name(struct fe_lower *l, const char *name)
{
    return *l->at->path ? yir_format(l->arena, "%s.%s", l->at->path, name) : name;
}

static const struct fe_tensor *find_tensor(struct fe_lower *l, const char *full)
{
    const struct fe_tensor *t = l->weights ? fe_weights_find(l->weights, full) : NULL;
    if (t) l->used[t - l->weights->tensor] = 1;
    return t;
}

const struct fe_tensor *fe_tensor(struct fe_lower *l, const char *name)
{
    return find_tensor(l, full_name(l, name));
}

bool fe_has(struct fe_lower *l, const char *name, bool implied)
{
    return l->weights ? fe_weights_find(l->weights, full_name(l, name)) != NULL : implied;
}

int fe_shape(struct fe_lower *l, const char *name, int64_t *dim)
{
    const struct fe_tensor *t =
        l->data && l->weights ? fe_weights_find(l->weights, full_name(l, name)) : NULL;
    if (!t) return 0;
    memcpy(dim, t->dim, sizeof t->dim);
    return t->rank;
}

static void add_want(struct fe_lower *l, const char *full, const int64_t *dim, int rank, bool counted)
{
    struct fe_unit *u = l->at;
    u->want = yir_grow(l->arena, u->want, &u->cap_want, u->nwant + 1, sizeof *u->want);
    struct fe_want *w = &u->want[u->nwant++];
    *w = (struct fe_want){.name = full, .rank = rank, .counted = counted};
    for (int i = 0; i < rank; i++)
        w->dim[i] = dim[i];
}

void fe_declare(struct fe_lower *l, const char *name, const int64_t *dim, int rank, bool counted)
{
    const char *full = full_name(l, name);
    find_tensor(l, full);
    add_want(l, full, dim, rank, counted);
}

/* Told at the end; the build goes on as if the weight were what was expected, so that others are found too. */
static void add_wrong(struct fe_lower *l, const char *text)
{
    l->failed = true;
    if (l->nwrong < FE_TOLD) l->wrong[l->nwrong] = (struct fe_wrong){place(l), text};
    l->nwrong++;
}

void fe_lower_wrong(struct fe_lower *l)
{
    if (!l->nwrong) return;
    struct yir_loc file = {l->weights->file, 0, 0};
    yir_diag(l->diags, l->wrong[0].row, E_WEIGHT, "%s", l->wrong[0].text);
    for (size_t i = 1; i < l->nwrong && i < FE_TOLD; i++)
        yir_diag_note(l->diags, file, "%s", l->wrong[i].text);
    if (l->nwrong > FE_TOLD) yir_diag_note(l->diags, file, "and %zu more", l->nwrong - FE_TOLD);
    if (l->weights->ntensor)
        yir_diag_note(l->diags, file, "the file holds %zu tensors, the first is %s", l->weights->ntensor,
                      l->weights->tensor[0].name);
}

/* Compares shapes; soft dimensions of dim become the file's. */
static int settle_shape(struct fe_lower *l, const struct fe_tensor *t, const char *full, int64_t *dim,
                        int rank, unsigned flags)
{
    bool same = t->rank == rank, fits = same;
    for (int i = 0; i < rank && fits; i++) {
        if (t->dim[i] == dim[i]) continue;
        same = false;
        fits = FE_HOLDS(WEIGHT_SHAPE, (flags & (unsigned)FE_W_SOFT0 << i) != 0) &&
               FE_HOLDS(WEIGHT_EMPTY, t->dim[i] > 0);
    }
    if (same) return 0;
    const char *expected = fe_shape_text(l->arena, dim, rank),
               *found = fe_shape_text(l->arena, t->dim, t->rank);
    if (!fits) {
        add_wrong(l, yir_format(l->arena, "%s: expected shape %s, found %s in %s", full, expected, found,
                                l->weights->path));
        return -1;
    }
    if (l->nmisfit++ == 0) l->first = (struct fe_misfit){full, expected, found};
    for (int i = 0; i < rank; i++)
        dim[i] = t->dim[i];
    return 0;
}

/* Elements of a weight, or 0 after reporting that the network is too large. */
static uint64_t count_elements(struct fe_lower *l, const int64_t *dim, int rank)
{
    uint64_t n = 1, most = yir_limits_of(l->diags)->max_weights;
    bool ok = true;
    for (int i = 0; i < rank; i++) {
        if (FE_BREAKS(WEIGHT_DIM, dim[i] < 1)) {
            fe_fail(l, E_ARGS, "%s: a weight of shape %s is not possible", l->at->path,
                    fe_shape_text(l->arena, dim, rank));
            return 0;
        }
        ok = ok && dim[i] <= YIR_MAX_DIM && yir_mul_u64(n, (uint64_t)dim[i], &n);
    }
    if (FE_HOLDS(WEIGHTS, ok && n <= most && l->nelem + n <= most)) {
        l->nelem += n;
        return n;
    }
    if (!l->full)
        fe_fail(l, E_LIMIT, "the network has more than %llu weights%s", (unsigned long long)most,
                YIR_RAISE(max_weights));
    l->full = true;
    return 0;
}

static yir_ref add_weight(struct fe_lower *l, const char *full, const int64_t *dim, int rank,
                          const float *data)
{
    struct yir_tdesc d = {.dtype = YIR_F32, .layout = rank == 4 ? YIR_OIHW : YIR_ROW, .rank = rank};
    for (int i = 0; i < rank; i++)
        d.dim[i] = dim[i];
    if (FE_BREAKS(WEIGHT_TWICE, yir_kind(yir_find_weight(l->func, full)) != YIR_NIL)) {
        fe_fail(l, E_ROW, "two modules have the weight %s", full);
        return YIR_NONE;
    }
    return yir_add_weight(l->func, full, yir_type_of(l->func->types, &d), data);
}

/* A weight about to be added: what the file and the rule say about it. */
struct settled {
    const char *full;
    int64_t dim[FE_MAX_RANK];
    uint64_t n;
    const float *data; /* NULL: none yet */
};

static const float *rule_data(struct fe_lower *l, const struct settled *w, int rank)
{
    float *data = yir_alloc_n(l->arena, w->n, sizeof *data);
    fe_rule_fill(w->full, w->dim, rank, data);
    return data;
}

static bool settle_weight(struct fe_lower *l, const char *name, const int64_t *dim, int rank, unsigned flags,
                          struct settled *w)
{
    *w = (struct settled){.full = full_name(l, name)};
    const struct fe_tensor *t = l->data ? find_tensor(l, w->full) : NULL;
    YIR_ASSERT(rank <= YIR_MAX_RANK);
    if (l->full || (!t && (flags & FE_W_OPTIONAL))) return false;
    for (int i = 0; i < rank; i++)
        w->dim[i] = dim[i];
    add_want(l, w->full, dim, rank, !(flags & FE_W_BUFFER));
    if (FE_BREAKS(WEIGHT_MISSING, l->data && l->weights && !t))
        add_wrong(l, yir_format(l->arena, "%s, of shape %s, is missing in %s", w->full,
                                fe_shape_text(l->arena, dim, rank), l->weights->path));
    if (t && settle_shape(l, t, w->full, w->dim, rank, flags)) t = NULL;
    w->n = count_elements(l, w->dim, rank);
    if (!w->n) return false;
    if (l->final && t) w->data = fe_tensor_floats(l->arena, t);
    else if (l->final && l->rule) w->data = rule_data(l, w, rank);
    return true;
}

yir_ref fe_weight(struct fe_lower *l, const char *name, const int64_t *dim, int rank, unsigned flags)
{
    struct settled w;
    return settle_weight(l, name, dim, rank, flags, &w) ? add_weight(l, w.full, w.dim, rank, w.data) : YIR_NONE;
}

/* The shape of a matrix or vector as that of a 1x1 convolution's weight. */
static int as_map(int64_t *dim, int rank)
{
    YIR_ASSERT(rank >= 1 && rank <= 4);
    for (; rank < 4; rank++)
        dim[rank] = 1;
    return rank;
}

yir_ref fe_weight_map(struct fe_lower *l, const char *name, const int64_t *dim, int rank, unsigned flags)
{
    struct settled w;
    if (!settle_weight(l, name, dim, rank, flags, &w)) return YIR_NONE;
    return add_weight(l, w.full, w.dim, as_map(w.dim, rank), w.data);
}

yir_ref fe_weight_scalar(struct fe_lower *l, const char *name)
{
    struct settled w;
    return settle_weight(l, name, NULL, 0, 0, &w) ? add_weight(l, w.full, (int64_t[]){1}, 1, w.data) : YIR_NONE;
}

int fe_weight_parts(struct fe_lower *l, const char *name, const int64_t *dim, int rank, int parts, yir_ref *out)
{
    struct settled w;
    memset(out, 0, (size_t)parts * sizeof *out);
    if (!settle_weight(l, name, dim, rank, 0, &w)) return -1;
    uint64_t run = w.n / (uint64_t)parts;
    YIR_ASSERT(w.dim[0] % parts == 0);
    w.dim[0] /= parts;
    int as = rank > 1 ? as_map(w.dim, rank) : rank;
    for (int i = 0; i < parts; i++)
        out[i] = add_weight(l, yir_format(l->arena, "%s-%d", w.full, i), w.dim, as,
                            w.data ? w.data + run * (uint64_t)i : NULL);
    return 0;
}

yir_ref fe_weight_implied(struct fe_lower *l, const char *name, const int64_t *dim, int rank, float implied)
{
    if (l->data && fe_tensor(l, name)) return fe_weight(l, name, dim, rank, FE_W_BUFFER);
    uint64_t n = count_elements(l, dim, rank);
    float *data = n ? yir_alloc_n(l->arena, n, sizeof *data) : NULL;
    for (uint64_t i = 0; i < n; i++)
        data[i] = implied;
    fe_declare(l, name, dim, rank, false);
    return n ? add_weight(l, full_name(l, name), dim, rank, data) : YIR_NONE;
}

yir_ref fe_text(struct fe_lower *l, int64_t width)
{
    if (l->text_asked) return l->text;
    l->text_asked = true;
    struct yir_tdesc d = {.dtype = YIR_F32, .layout = YIR_ROW, .rank = 3};
    d.dim[0] = yir_tdesc(l->func->types, l->func->input[0].type)->dim[0];
    d.dim[1] = l->nc;
    d.dim[2] = width;
    yir_ref rows = yir_add_input(l->func, "txt_feats", yir_type_of(l->func->types, &d));
    yir_ref tokens = fe_op(l, YIR_from_rows, &rows, 1, NULL);
    struct yir_a_cast a = {YIR_F32, YIR_NCHW};
    l->text = fe_op(l, YIR_cast, &tokens, 1, &a);
    return l->text;
}

void fe_add_parts(struct fe_lower *l, yir_ref x, const yir_ref *part, int n)
{
    l->parts = yir_grow(l->arena, l->parts, &l->cap_parts, l->nparts + 1, sizeof *l->parts);
    l->parts[l->nparts++] = (struct fe_parts){x, part, n};
}

const struct fe_parts *fe_parts_of(const struct fe_lower *l, yir_ref x)
{
    for (size_t i = 0; i < l->nparts; i++)
        if (yir_same(l->parts[i].whole, x)) return &l->parts[i];
    return NULL;
}

yir_ref fe_constant(struct fe_lower *l, const char *name, const int64_t *dim, int rank, const float *data)
{
    return count_elements(l, dim, rank) ? add_weight(l, full_name(l, name), dim, rank, data) : YIR_NONE;
}

/* --- ops
 * ---------------------------------------------------------------------------------------------------- */

int64_t fe_channels(struct fe_lower *l, yir_ref x)
{
    return yir_kind(x) == YIR_NIL ? 1 : yir_desc(l->func, x)->dim[1];
}

yir_ref fe_op(struct fe_lower *l, enum yir_code c, const yir_ref *src, int nsrc, const void *attr)
{
    if (l->full) return YIR_NONE;
    if (l->moved) yir_set_loc(l->func, l->row, l->at->path);
    l->moved = false;
    int before = yir_diag_errors(l->diags);
    yir_ref r = yir_emit(l->func, c, src, nsrc, attr);
    if (yir_diag_errors(l->diags) == before) return r;
    l->failed = true;
    yir_diag_note(l->diags, (struct yir_loc){0}, "in module %s", l->at->path);
    return r;
}

/* --- the end of a build
 * ------------------------------------------------------------------------------------- */

/* Tensors that models hold beside what inference needs. */
static bool is_ignored(const char *name)
{
    static const char *const ends[] = {"num_batches_tracked", "anchor_grid", "anchors",
                                       "dfl.conv.weight",     ".stride",     ".strides",
                                       "denoising_class_embed.weight"};
    static const char *const parts[] = {".flow_model.", ".savpe.", "cv4_sigma.", ".semseg.", ".aux_head."};
    size_t n = strlen(name);
    for (size_t i = 0; i < YIR_COUNT(ends); i++) {
        size_t k = strlen(ends[i]);
        if (n >= k && strcmp(name + n - k, ends[i]) == 0) return true;
    }
    for (size_t i = 0; i < YIR_COUNT(parts); i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

static void warn_unused(struct fe_lower *l)
{
    const char *first = NULL;
    size_t n = 0;
    for (size_t i = 0; i < l->weights->ntensor; i++) {
        const struct fe_tensor *t = &l->weights->tensor[i];
        if (l->used[i] || is_ignored(t->name)) continue;
        if (!first) first = t->name;
        n++;
    }
    if (n) fe_warn(l, W_UNUSED, "not used: %zu tensor%s, the first is %s", n, n == 1 ? "" : "s", first);
}

void fe_lower_finish(struct fe_lower *l)
{
    if (!l->data || !l->weights) return;
    l->row = (struct yir_loc){l->weights->file, 0, 0};
    if (l->nmisfit)
        fe_warn(l, W_DISAGREE,
                "%zu weight%s of other shape than the yaml gives, the first is %s: expected %s, found %s",
                l->nmisfit, l->nmisfit == 1 ? "" : "s", l->first.name, l->first.expected, l->first.found);
    warn_unused(l);
    if (fe_numbers_of_func(l->diags, l->row, l->func, l->strict)) l->failed = true;
}

/* The unit after u in a walk over the tree under `top`, parents first; NULL at the end. */
static const struct fe_unit *walk(const struct fe_unit *u, const struct fe_unit *top)
{
    if (u->first) return u->first;
    while (u != top && !u->next)
        u = u->parent;
    return u == top ? NULL : u->next;
}

struct fe_want *fe_wants(struct fe_lower *l, size_t *n)
{
    size_t total = 0, k = 0;
    for (const struct fe_unit *u = l->root; u; u = walk(u, l->root))
        total += u->nwant;
    struct fe_want *all = yir_alloc_n(l->arena, total + 1, sizeof *all);
    for (const struct fe_unit *u = l->root; u; u = walk(u, l->root))
        for (size_t i = 0; i < u->nwant; i++)
            all[k++] = u->want[i];
    *n = total;
    return all;
}

int64_t fe_unit_params(const struct fe_unit *u)
{
    int64_t total = 0;
    for (const struct fe_unit *v = u; v; v = walk(v, u)) {
        for (size_t i = 0; i < v->nwant; i++) {
            int64_t n = 1;
            for (int k = 0; k < v->want[i].rank; k++)
                n *= v->want[i].dim[k];
            total += v->want[i].counted ? n : 0;
        }
    }
    return total;
}
