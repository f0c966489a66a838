#include "modules.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "check.h"

enum { MAX_KERNEL = 255, MAX_INT = 1 << 20 };

#define UL      FE_UL
#define Y5      FE_Y5
#define X       FE_X
#define ANY     (FE_UL | FE_Y5 | FE_X)
#define SCALED  FE_M_SCALED
#define REPEATS FE_M_REPEATS
#define HEAD    FE_M_HEAD
#define JOINS   FE_M_JOINS

static const struct fe_module table[] = {
#define MODULE(name, alias, dialects, flags, lowering, schema)                                               \
    {name, alias, dialects, flags, fe_low_##lowering, schema},
#include "modules.def"
#undef MODULE
};

/* --- names
 * -------------------------------------------------------------------------------------------------- */

static const struct fe_module *find_module(unsigned dialects, const char *name)
{
    for (size_t i = 0; i < YIR_COUNT(table); i++) {
        const struct fe_module *m = &table[i];
        if ((m->dialects & dialects) &&
            (strcmp(m->name, name) == 0 || (*m->alias && strcmp(m->alias, name) == 0)))
            return m;
    }
    return NULL;
}

/* Whether a module is complained of for the first time; a file names most of its blocks many times. */
static bool is_first(struct fe_lower *l, const char *name)
{
    l->failed = true;
    for (size_t i = 0; i < l->nreported; i++)
        if (strcmp(l->reported[i], name) == 0) return false;
    l->reported = yir_grow(l->arena, l->reported, &l->cap_reported, l->nreported + 1, sizeof *l->reported);
    l->reported[l->nreported++] = name;
    return true;
}

static int report_unknown(struct fe_lower *l, struct yir_loc loc, const char *name)
{
    const char *names[YIR_COUNT(table)];
    for (size_t i = 0; i < YIR_COUNT(table); i++)
        names[i] = table[i].name;
    const char *near = yir_nearest(name, names, YIR_COUNT(table));
    if (near) return fe_fail_at(l, loc, E_MODULE, "unknown module %s; did you mean %s?", name, near);
    near = yir_nearest_within(name, names, YIR_COUNT(table), UINT_MAX);
    return fe_fail_at(l, loc, E_MODULE,
                      "unknown module %s; the nearest that is known is %s (`yoloc --list-modules` lists all)", name,
                      near);
}

const struct fe_module *fe_module_find(struct fe_lower *l, struct yir_loc loc, const char *name)
{
    const char *bare = strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
    const struct fe_module *m = find_module(l->dialect, bare);
    if (!m) m = find_module(ANY, bare);
    if (FE_BREAKS(MODULE_KNOWN, !m) && is_first(l, name)) report_unknown(l, loc, name);
    return m;
}

/* --- arguments
 * ---------------------------------------------------------------------------------------------- */

struct field {               /* "name:kind=default" of a schema */
    const char *name, *dflt; /* dflt NULL: required */
    size_t len;
    char kind;
};

/* The next field of a schema; false at its end. */
static bool next_field(struct yir_arena *a, const char **schema, struct field *f)
{
    const char *s = *schema + strspn(*schema, " ");
    size_t n = strcspn(s, " ");
    if (n == 0) return false;
    const char *colon = memchr(s, ':', n), *eq = memchr(s, '=', n);
    YIR_ASSERT(colon);
    *f = (struct field){.name = s, .len = (size_t)(colon - s), .kind = colon[1]};
    if (eq) f->dflt = yir_strndup(a, eq + 1, (size_t)(s + n - eq - 1));
    *schema = s + n;
    return true;
}

/* Values of names that a description may use as arguments; NULL for other texts. */
static const struct fe_value *named_value(struct fe_lower *l, const struct fe_value *v)
{
    static const char *const keys[] = {"anchors", "kpt_shape", "reg_max", "end2end", "scale", "ch"};
    if (strcmp(v->s, "nc") == 0) {
        struct fe_value *nc = yir_alloc(l->arena, sizeof *nc);
        *nc = (struct fe_value){.kind = FE_INT, .loc = v->loc, .i = l->nc, .f = (double)l->nc};
        return nc;
    }
    for (size_t i = 0; i < YIR_COUNT(keys); i++)
        if (strcmp(v->s, keys[i]) == 0) return fe_get(l->description, keys[i]);
    return NULL;
}

/* The value an argument stands for: texts that name something, or that are literals as "None", are
 * replaced. */
static const struct fe_value *resolve(struct fe_lower *l, const struct fe_value *v)
{
    if (v->kind != FE_STR) return v;
    const struct fe_value *r = named_value(l, v);
    if (!r) r = fe_literal(l->arena, v->s, v->loc);
    return r ? r : v;
}

static const char *kind_text(char kind)
{
    switch (kind) {
    case 'c':
        return "a channel count (1 to 65536)";
    case 'i':
        return "an integer from 0 to 1048576";
    case 'k':
        return "an integer from 0 to 255 or a pair of them";
    case 'p':
        return "None, an integer from 0 to 255 or a pair of them";
    case 'b':
        return "True or False";
    case 'f':
        return "a number above 0";
    case 'l':
        return "a list of integers up to 1048576";
    case 'a':
        return "True, False or an activation";
    case 's':
        return "a text";
    default:
        return "something else";
    }
}

static bool int_between(const struct fe_value *v, int64_t lo, int64_t hi, int64_t *out)
{
    return FE_HOLDS(ARG_INT, v->kind != FE_BOOL && fe_as_int(v, out)) &&
           FE_HOLDS(ARG_RANGE, *out >= lo && *out <= hi);
}

static bool take_pair(struct fe_arg *a, const struct fe_value *v)
{
    if (v->kind != FE_LIST) {
        bool ok = int_between(v, 0, MAX_KERNEL, &a->i[0]);
        a->i[1] = a->i[0];
        return ok;
    }
    return FE_HOLDS(ARG_PAIR, v->n == 2) && int_between(v->item[0], 0, MAX_KERNEL, &a->i[0]) &&
           int_between(v->item[1], 0, MAX_KERNEL, &a->i[1]);
}

static bool take_list(struct fe_lower *l, struct fe_arg *a, const struct fe_value *v)
{
    size_t n = v->kind == FE_LIST ? v->n : 1;
    int64_t *list = yir_alloc_n(l->arena, n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++)
        if (!int_between(v->kind == FE_LIST ? v->item[i] : v, -MAX_INT, MAX_INT, &list[i])) return false;
    a->list = list;
    a->nlist = n;
    return true;
}

static bool take_activation(struct fe_lower *l, struct fe_arg *a, const struct fe_value *v)
{
    a->act = (struct fe_act){YIR_NOP, 0};
    if (v->kind == FE_STR) {
        if (fe_act_parse(l->arena, l->diags, v->loc, v->s, &a->act)) l->failed = true;
        return true;
    }
    if (v->kind == FE_BOOL && v->i) a->act = l->act;
    return FE_HOLDS(ARG_ACTIVATION, v->kind == FE_BOOL || v->kind == FE_NONE);
}

/* Numbers and None count as Python has it: what is not 0 is true. */
static bool take_bool(struct fe_arg *a, const struct fe_value *v)
{
    double f = 0;
    if (FE_BREAKS(ARG_BOOL, v->kind != FE_BOOL && v->kind != FE_NONE && !fe_as_float(v, &f))) return false;
    a->i[0] = v->kind == FE_BOOL ? v->i : f != 0;
    return true;
}

static void warn_bool(struct fe_lower *l, const struct fe_site *s, const struct fe_arg *a)
{
    double f = 0;
    if (a->kind != 'b' || !a->v || a->v->kind == FE_BOOL || (fe_as_float(a->v, &f) && (f == 0 || f == 1))) return;
    fe_warn(l, W_CHANGED, "%s: the argument %.*s is True or False; %s counts as %s", s->module->name, (int)a->len, a->name,
            fe_describe(l->arena, a->v), a->i[0] ? "True" : "False");
}

/* Types one value as the schema says. */
static bool take_value(struct fe_lower *l, struct fe_arg *a, const struct fe_value *v)
{
    a->none = v->kind == FE_NONE;
    switch (a->kind) {
    case 'c':
        return int_between(v, 1, (int64_t)yir_limits_of(l->diags)->max_channels, &a->i[0]);
    case 'i':
        return int_between(v, 0, MAX_INT, &a->i[0]);
    case 'k':
        return take_pair(a, v);
    case 'p':
        return a->none || take_pair(a, v);
    case 'b':
        return take_bool(a, v);
    case 'f':
        a->f = (double)v->i; /* True is the number 1, as the tools that read such files have it */
        return FE_HOLDS(ARG_FINITE, (v->kind == FE_BOOL || fe_as_float(v, &a->f)) && isfinite(a->f) && a->f > 0);
    case 'l':
        return take_list(l, a, v);
    case 'a':
        return take_activation(l, a, v);
    case 's':
        return FE_HOLDS(ARG_TEXT, a->none || v->kind == FE_STR);
    default:
        return true;
    }
}

/* Channels after width: never more than max_channels before it, a multiple of 8 after it. In yolov5's rule
 * the outputs of an anchor head are exempt. */
static int64_t scale_channels(struct fe_lower *l, int64_t c, struct yir_loc loc)
{
    if (l->dialect == FE_Y5 && l->na && c == l->na * (l->nc + 5)) return c;
    double capped = l->dialect == FE_Y5 ? (double)c : fmin((double)c, l->max_channels);
    int64_t scaled = (int64_t)ceil(capped * l->width / 8) * 8;
    if (l->width == 1 && capped == (double)c && scaled != c && !l->rounded[0]) {
        l->rounded[0] = c;
        l->rounded[1] = scaled;
        l->rounded_at = loc;
    }
    return scaled < 8 ? 8 : scaled;
}

static const struct fe_value *text_value(struct fe_lower *l, const char *text, struct yir_loc loc)
{
    struct fe_value *v = yir_alloc(l->arena, sizeof *v);
    *v = (struct fe_value){.kind = FE_STR, .loc = loc, .s = text};
    return v;
}

static int bind_one(struct fe_lower *l, struct fe_site *s, const struct field *f, const struct fe_value *args,
                    size_t k)
{
    struct fe_arg *a = &s->arg[s->narg++];
    *a = (struct fe_arg){.name = f->name, .len = f->len, .kind = f->kind, .given = k < args->n};
    const struct fe_value *v = NULL;
    if (a->given) {
        a->v = v = resolve(l, args->item[k]);
    } else if (f->dflt) {
        char *text = f->kind == 'l' ? yir_format(l->arena, "[%s]", f->dflt) : yir_strdup(l->arena, f->dflt);
        v = f->kind == 's' ? NULL : fe_literal(l->arena, text, args->loc);
        if (!v && f->kind == 'a') v = text_value(l, text, args->loc); /* an activation by name */
        YIR_ASSERT(v || f->kind == 's');
    } else {
        return fe_fail_at(l, args->loc, E_ARGS, "%s needs the argument %.*s, %s", s->module->name,
                          (int)f->len, f->name, kind_text(f->kind));
    }
    if (v && !take_value(l, a, v)) {
        struct yir_loc loc = a->given ? args->item[k]->loc : args->loc;
        return fe_fail_at(l, loc, E_ARGS, "%s: the argument %.*s must be %s, not %s", s->module->name,
                          (int)f->len, f->name, kind_text(f->kind), fe_describe(l->arena, v));
    }
    warn_bool(l, s, a);
    if (f->kind == 'c' && (s->module->flags & FE_M_SCALED)) a->i[0] = scale_channels(l, a->i[0], v->loc);
    return 0;
}

int fe_args_bind(struct fe_lower *l, struct fe_site *s, const struct fe_value *args)
{
    const char *schema = s->module->schema;
    struct field f;
    s->written = args->n;
    for (size_t k = 0; next_field(l->arena, &schema, &f); k++) {
        YIR_ASSERT(k < FE_MAX_ARGS);
        if (bind_one(l, s, &f, args, k)) return -1;
    }
    if (FE_HOLDS(ARG_MANY, args->n <= (size_t)s->narg)) return 0;
    return fe_fail_at(l, args->item[s->narg]->loc, E_ARGS, "%s takes at most %d argument%s, not %zu",
                      s->module->name, s->narg, s->narg == 1 ? "" : "s", args->n);
}

const struct fe_arg *fe_arg(const struct fe_site *s, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < s->narg; i++)
        if (s->arg[i].len == n && memcmp(s->arg[i].name, name, n) == 0) return &s->arg[i];
    YIR_BUG("the schema of %s has no argument %s", s->module->name, name);
}

int64_t fe_arg_int(const struct fe_site *s, const char *name)
{
    return fe_arg(s, name)->i[0];
}

/* --- listing
 * ------------------------------------------------------------------------------------------------ */

static void put_module(struct yir_arena *a, struct yir_str *out, const struct fe_module *m)
{
    static const struct {
        unsigned bit;
        const char *text;
    } dialects[] = {{FE_UL, "ultralytics"}, {FE_Y5, "yolov5"}, {FE_X, "yolox"}};
    yir_str_fmt(out, "%-16s [", m->name);
    const char *schema = m->schema, *comma = "";
    for (struct field f; next_field(a, &schema, &f); comma = ", ") {
        yir_str_fmt(out, "%s%.*s", comma, (int)f.len, f.name);
        if (f.dflt) yir_str_fmt(out, f.kind == 'l' ? "=[%s]" : "=%s", f.dflt);
    }
    yir_str_fmt(out, "]");
    if (m->flags & FE_M_REPEATS) yir_str_fmt(out, "; repeats inside");
    if (m->flags & FE_M_HEAD) yir_str_fmt(out, "; head");
    if (m->dialects != ANY)
        for (size_t i = 0; i < YIR_COUNT(dialects); i++)
            if (m->dialects & dialects[i].bit) yir_str_fmt(out, "; %s", dialects[i].text);
    yir_str_fmt(out, "\n");
}

void fe_modules_list(struct yir_str *out)
{
    for (size_t i = 0; i < YIR_COUNT(table); i++)
        put_module(out->arena, out, &table[i]);
}
