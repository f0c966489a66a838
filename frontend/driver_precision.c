/* The precision of a network and of single layers: from the options, from a file, and from modules. */
#include "driver.h"

#include <string.h>

#include "infile.h"

enum { MAX_FILE = 1 << 20, MAX_LAYERS = 10000 };

static const struct {
    const char *name;
    enum yir_dtype dtype;
} names[] = {{"fp32", YIR_F32}, {"fp16", YIR_F16}, {"bf16", YIR_BF16}};

static bool find_name(const char *text, size_t len, enum yir_dtype *out)
{
    for (size_t i = 0; i < YIR_COUNT(names); i++)
        if (strlen(names[i].name) == len && !memcmp(names[i].name, text, len)) {
            *out = names[i].dtype;
            return true;
        }
    return false;
}

static const char *name_of(enum yir_dtype t)
{
    for (size_t i = 0; i < YIR_COUNT(names); i++)
        if (names[i].dtype == t) return names[i].name;
    YIR_BUG("no precision is called %s", yir_dtype_name(t));
}

/* A precision growing layer by layer. */
struct reading {
    struct call *k;
    struct precision *to;
    struct pass_layer *layer;
    size_t n, cap;
};

#define UNKNOWN "'%s' is no precision: fp32, fp16 and bf16 are"

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
    yir_str_fmt(&s, "%s", name_of(p->dtype));
    for (size_t i = 0; i < p->nlayer; i++) yir_str_fmt(&s, " %s=%s", p->layer[i].pattern, name_of(p->layer[i].dtype));
    p->text = s.text;
}

/* False when the text is none that put_text makes. */
static bool take_text(struct reading *r, const char *text)
{
    size_t len = strcspn(text, " ");
    if (!*text) return true; /* of a module without a program */
    if (!find_name(text, len, &r->to->dtype)) return false;
    for (text += len; *text; text += len) {
        enum yir_dtype t;
        len = strcspn(++text, " ");
        const char *eq = memchr(text, '=', len);
        if (!eq || eq == text || r->n == MAX_LAYERS) return false;
        if (!find_name(eq + 1, (size_t)(text + len - eq - 1), &t)) return false;
        add_layer(r, text, (size_t)(eq - text), t);
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
    enum yir_dtype t;
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
    if (!find_name(word[1], n[1], &t))
        return yir_diag(r->k->diags, at, E_PRECISION, UNKNOWN, yir_strndup(r->k->arena, word[1], n[1]));
    add_layer(r, word[0], n[0], t);
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

int call_precision(struct call *k, const struct yir_func *f, const char *of_module, struct precision *out)
{
    struct reading r = {.k = k, .to = out};
    const yoloc_opts *o = k->o;
    *out = (struct precision){.dtype = YIR_F32};
    if (of_module && !take_text(&r, of_module))
        return yir_diag(k->diags, (struct yir_loc){0}, E_MODULE_FILE, "the precision of the module makes no sense");
    if (o->precision || o->precision_file) {
        r = (struct reading){.k = k, .to = out};
        out->layer = NULL;
        out->nlayer = 0;
    }
    if (o->precision && !find_name(o->precision, strlen(o->precision), &out->dtype))
        return yir_diag(k->diags, (struct yir_loc){0}, E_USAGE, UNKNOWN, o->precision);
    if (o->precision_file && read_file(&r, f, o->precision_file)) return -1;
    put_text(k, out);
    return 0;
}
