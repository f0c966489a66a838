/* The precision of a network and of single layers: from the options, from a file, and from modules. */
#include "driver.h"

#include <string.h>

#include "check.h"
#include "infile.h"

enum { MAX_FILE = 1 << 20, MAX_LAYERS = 10000 };

/* Kernel bounds below fp32: products of operands that are rounded on the way in, which the evaluator does not do, at the largest of some thousand
 * elements; up to 7e-3 is seen in tf32 and 1.3e-2 in bf16. */
static const struct name {
    const char *name;
    enum yir_dtype dtype;
    bool tf32;
    double kernel_bound, layer_bound;
} names[] = {{"fp32", YIR_F32, false, 1e-3, 1e-3},
             {"tf32", YIR_F32, true, 1e-2, 5e-2},
             {"fp16", YIR_F16, false, 5e-3, 5e-2},
             {"bf16", YIR_BF16, false, 3e-2, 0.4}};

#define UNKNOWN "'%s' is no precision: fp32, tf32, fp16 and bf16 are"

static const struct name *find_name(const char *text, size_t len)
{
    for (size_t i = 0; i < YIR_COUNT(names); i++)
        if (strlen(names[i].name) == len && !memcmp(names[i].name, text, len)) return &names[i];
    return NULL;
}

static const struct name *name_of(enum yir_dtype t, bool tf32)
{
    for (size_t i = 0; i < YIR_COUNT(names); i++)
        if (names[i].dtype == t && names[i].tf32 == tf32) return &names[i];
    YIR_BUG("no precision is called %s", yir_dtype_name(t));
}

/* A precision growing layer by layer. */
struct reading {
    struct call *k;
    struct precision *to;
    struct pass_layer *layer;
    size_t n, cap;
};

static void add_layer(struct reading *r, const char *pattern, size_t len, enum yir_dtype t)
{
    r->layer = yir_grow(r->k->arena, r->layer, &r->cap, r->n + 1, sizeof *r->layer);
    r->layer[r->n++] = (struct pass_layer){yir_strndup(r->k->arena, pattern, len), t};
    r->to->layer = r->layer;
    r->to->nlayer = r->n;
}

/* --- a module's text: "fp16 model.22*=fp32" ----------------------------------------------------------------- */

static void put_text(struct call *k, struct precision *p)
{
    struct yir_str s = {.arena = k->arena};
    yir_str_fmt(&s, "%s", name_of(p->dtype, p->tf32)->name);
    for (size_t i = 0; i < p->nlayer; i++)
        yir_str_fmt(&s, " %s=%s", p->layer[i].pattern, name_of(p->layer[i].dtype, false)->name);
    p->text = s.text;
}

static bool take_name(struct precision *p, const char *text, size_t len)
{
    const struct name *n = find_name(text, len);
    if (!n) return false;
    p->dtype = n->dtype;
    p->tf32 = n->tf32;
    return true;
}

/* False when the text is none that put_text makes. */
static bool take_text(struct reading *r, const char *text)
{
    size_t len = strcspn(text, " ");
    if (!*text) return true; /* of a module without a program */
    if (!take_name(r->to, text, len)) return false;
    for (text += len; *text; text += len) {
        len = strcspn(++text, " ");
        const char *eq = memchr(text, '=', len);
        if (!eq || eq == text || r->n == MAX_LAYERS) return false;
        const struct name *n = find_name(eq + 1, (size_t)(text + len - eq - 1));
        if (!n || n->tf32) return false;
        add_layer(r, text, (size_t)(eq - text), n->dtype);
    }
    return true;
}

/* --- the file ----------------------------------------------------------------------------------------------- */

static const char *nearest_layer(struct call *k, const struct yir_func *f, const char *pattern)
{
    const char **all = yir_alloc_n(k->arena, f->nloc, sizeof *all);
    for (uint32_t i = 0; i < f->nloc; i++) all[i] = f->loc[i].name;
    return yir_nearest(pattern, all, f->nloc);
}

static int check_layer(struct call *k, const struct yir_func *f, struct yir_loc at, const char *pattern)
{
    for (uint32_t i = 0; i < f->nloc; i++)
        if (*f->loc[i].name && pass_layer_matches(pattern, f->loc[i].name)) return 0;
    const char *near = nearest_layer(k, f, pattern);
    if (near && *near)
        return yir_diag(k->diags, at, E_PRECISION, "no layer is called %s; did you mean %s?", pattern, near);
    return yir_diag(k->diags, at, E_PRECISION, "no layer is called %s", pattern);
}

/* A line without its comment: "model.22* fp32", or nothing. */
static int take_line(struct reading *r, const struct yir_func *f, struct yir_loc at, const char *line, size_t len)
{
    static const char blank[] = " \t\r";
    const char *end = line + len, *word[2] = {"", ""};
    size_t n[2] = {0}, words = 0;
    for (const char *p = line; p < end;) {
        size_t skip = strspn(p, blank), run = strcspn(p + skip, " \t\r\n#");
        if (p + skip >= end || !run) break;
        if (words == 2) {
            at.col = (uint32_t)(p + skip - line) + 1;
            return yir_diag(r->k->diags, at, E_PRECISION, "a line is a layer's name and a precision, no more");
        }
        word[words] = p + skip;
        n[words++] = run;
        p += skip + run;
    }
    if (!words) return 0;
    at.col = (uint32_t)(word[0] - line) + 1;
    if (words == 1 || memchr(word[0], '=', n[0]))
        return yir_diag(r->k->diags, at, E_PRECISION, "expected a layer's name, a space and a precision");
    const char *pattern = yir_strndup(r->k->arena, word[0], n[0]);
    if (r->n == MAX_LAYERS) return yir_diag(r->k->diags, at, E_LIMIT, "more than %d lines", MAX_LAYERS);
    if (check_layer(r->k, f, at, pattern)) return -1;
    at.col = (uint32_t)(word[1] - line) + 1;
    const struct name *name = find_name(word[1], n[1]);
    if (!name) return yir_diag(r->k->diags, at, E_PRECISION, UNKNOWN, yir_strndup(r->k->arena, word[1], n[1]));
    if (name->tf32 || (name->dtype == YIR_F32 && r->to->tf32))
        return yir_diag(r->k->diags, at, E_PRECISION, "fp32 and tf32 are for a whole network, not side by side");
    add_layer(r, word[0], n[0], name->dtype);
    return 0;
}

static int read_file(struct reading *r, const struct yir_func *f, const char *path)
{
    const uint8_t *bytes;
    size_t len;
    struct yir_loc at = {.file = yir_diag_file(r->k->diags, path, NULL, 0)};
    if (fe_infile_read(r->k->arena, r->k->diags, path, at.file, MAX_FILE, "", &bytes, &len)) return -1;
    const char *p = (const char *)bytes, *end = p + len;
    at.file = yir_diag_file(r->k->diags, path, p, len);
    if (memchr(p, 0, len)) return yir_diag(r->k->diags, at, E_PRECISION, "is no text");
    while (p < end) {
        size_t n = strcspn(p, "\n");
        at.line++;
        if (take_line(r, f, at, p, n)) return -1;
        p += n + 1;
    }
    return 0;
}

/* The widest of what is in the network. */
static void set_bounds(struct precision *p)
{
    const struct name *n = name_of(p->dtype, p->tf32);
    p->kernel_bound = n->kernel_bound;
    p->layer_bound = n->layer_bound;
    for (size_t i = 0; i < p->nlayer; i++) {
        n = name_of(p->layer[i].dtype, false);
        if (n->kernel_bound > p->kernel_bound) p->kernel_bound = n->kernel_bound;
        if (n->layer_bound > p->layer_bound) p->layer_bound = n->layer_bound;
    }
}

int call_precision(struct call *k, const struct yir_func *f, const char *of_module, struct precision *out)
{
    struct reading r = {.k = k, .to = out};
    const yoloc_opts *o = k->o;
    *out = (struct precision){.dtype = YIR_F32};
    if (of_module && FE_BREAKS(MODULE_PRECISION, !take_text(&r, of_module)))
        return yir_diag(k->diags, (struct yir_loc){0}, E_MODULE_FILE, "the precision of the module makes no sense");
    if (o->precision || o->precision_file) {
        r = (struct reading){.k = k, .to = out};
        out->layer = NULL;
        out->nlayer = 0;
    }
    if (o->precision && !take_name(out, o->precision, strlen(o->precision)))
        return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, UNKNOWN, o->precision);
    if (o->precision_file && read_file(&r, f, o->precision_file)) return -1;
    put_text(k, out);
    set_bounds(out);
    return 0;
}

bool call_precision_lower(const struct precision *p)
{
    bool lower = p->tf32 || p->dtype != YIR_F32;
    for (size_t i = 0; i < p->nlayer; i++) lower |= p->layer[i].dtype != YIR_F32;
    return lower;
}

int call_precision_target(struct call *k, const struct precision *p, struct cg_target *t)
{
    if (p->tf32 && t->kb.sm < 80)
        return yir_diag(k->diags, (struct yir_loc){0}, E_PRECISION, "%s has no tf32: GPUs have it from sm_80 on", t->text);
    t->kb.tf32 = p->tf32;
    return 0;
}
