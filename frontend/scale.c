#include "scale.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static size_t stem_length(const char *base)
{
    const char *dot = strrchr(base, '.');
    return dot && dot != base ? (size_t)(dot - base) : strlen(base);
}

/* Where a scale stands in a file name, or belongs. */
struct spot {
    size_t at, len; /* its text within the base name; len 0: none there */
    size_t cut;     /* bytes to cut from here to take it out, with what joins it to the family's name */
    size_t cut_at;
    bool x;     /* YOLOX: a word after yolox */
    bool found; /* a family's name is there */
};

/* After "yolo", "yoloe-", an optional v and digits: one of the letters n s m l x. */
static struct spot find_letter(const char *base, size_t n)
{
    for (const char *p = base; (p = strstr(p, "yolo")) != NULL && p < base + n; p += 4) {
        const char *s = p + 4;
        if (s[0] == 'e' && s[1] == '-') s += 2;
        if (*s == 'v') s++;
        if (!isdigit((unsigned char)*s)) continue;
        while (isdigit((unsigned char)*s))
            s++;
        size_t len = *s && strchr("nslmx", *s) ? 1 : 0, at = (size_t)(s - base);
        return (struct spot){.at = at, .len = len, .cut_at = at, .cut = len, .found = true};
    }
    return (struct spot){0};
}

/* "yolox_nano", "yolox-s", "yoloxs". */
static struct spot find_word(const char *base, size_t n)
{
    const char *p = strstr(base, "yolox");
    if (!p || p >= base + n) return (struct spot){0};
    size_t end = (size_t)(p - base) + 5, at = end + (base[end] == '_' || base[end] == '-');
    size_t len = at < n ? strcspn(base + at, "-_.") : 0;
    return (struct spot){
        .at = at, .len = len, .cut_at = end, .cut = at + len - end, .x = true, .found = true};
}

static struct spot find_spot(const char *base)
{
    size_t n = stem_length(base);
    struct spot s = find_letter(base, n);
    return s.found ? s : find_word(base, n);
}

static int find_scale(const struct fe_desc *desc, const char *name, size_t len)
{
    for (int i = 0; i < desc->nscale; i++)
        if (strlen(desc->scale[i].name) == len && memcmp(desc->scale[i].name, name, len) == 0) return i;
    return -1;
}

static int report_scale(struct yir_diags *d, const struct fe_desc *desc, const char *name, size_t len,
                        const char *from)
{
    char keys[256] = "";
    size_t n = 0;
    for (int i = 0; i < desc->nscale && n + strlen(desc->scale[i].name) + 3 < sizeof keys; i++) {
        if (i) n = (size_t)(stpcpy(keys + n, ", ") - keys);
        n = (size_t)(stpcpy(keys + n, desc->scale[i].name) - keys);
    }
    const struct fe_value *scales = fe_get(desc->root, "scales");
    struct yir_loc loc = scales ? scales->loc : (struct yir_loc){0};
    if (!scales)
        return yir_diag(d, loc, E_SCALE, "scale %.*s (from %s): this model has no scales", (int)len, name,
                        from);
    return yir_diag(d, loc, E_SCALE, "scale %.*s (from %s) is not among the model's scales: %s", (int)len,
                    name, from, keys);
}

int fe_scale_named(struct yir_diags *d, const struct fe_desc *desc, const struct fe_model_opts *o, int *index)
{
    bool scaled = *desc->scale[0].name != 0;
    *index = scaled ? -1 : 0;
    if (o->scale) {
        *index = find_scale(desc, o->scale, strlen(o->scale));
        if (!*o->scale || *index < 0 || !scaled)
            return report_scale(d, desc, o->scale, strlen(o->scale), "--scale");
        return 0;
    }
    if (!scaled) return 0;
    bool pickled = desc->root->loc.line == 0; /* how a checkpoint's file is called says nothing */
    const char *base = pickled ? "" : base_name(o->path);
    struct spot s = find_spot(base);
    const struct fe_value *key = fe_get(desc->root, "scale");
    if (s.len) {
        *index = find_scale(desc, base + s.at, s.len);
        if (*index < 0 && !s.x) return report_scale(d, desc, base + s.at, s.len, "the file name");
    }
    if (*index >= 0 || !key || key->kind != FE_STR || !*key->s) return 0;
    *index = find_scale(desc, key->s, strlen(key->s));
    return *index < 0 ? report_scale(d, desc, key->s, strlen(key->s), "the key scale") : 0;
}

const char *fe_model_name(struct yir_arena *a, const struct fe_desc *desc, const struct fe_model_opts *o,
                          const char *scale)
{
    const char *base = base_name(*o->path || !o->weights ? o->path : o->weights->path);
    int n = (int)stem_length(base);
    struct spot s = find_spot(base);
    if (n == 0) return "model";
    if (!*scale || desc->nscale == 1 || desc->root->loc.line == 0) return yir_strndup(a, base, (size_t)n);
    if (s.found && s.len && find_scale(desc, base + s.at, s.len) >= 0) return yir_strndup(a, base, (size_t)n);
    if (s.found && !s.x)
        return yir_format(a, "%.*s%s%.*s", (int)s.at, base, scale, n - (int)s.at, base + s.at);
    return yir_format(a, "%.*s_%s", n, base, scale);
}

const char *fe_model_file(struct yir_arena *a, const char *path)
{
    const char *base = base_name(path);
    struct spot s = find_spot(base);
    if (!s.len || access(path, F_OK) == 0) return path;
    const char *bare =
        yir_format(a, "%.*s%.*s%s", (int)(base - path), path, (int)s.cut_at, base, base + s.cut_at + s.cut);
    return access(bare, F_OK) == 0 ? bare : path;
}

int64_t fe_scale_repeats(double n, double depth)
{
    if (n <= 1) return (int64_t)n;
    double scaled = n * depth, r = floor(scaled);
    double part = scaled - r;
    if (part > 0.5 || (part == 0.5 && fmod(r, 2) == 1)) r += 1;
    return r < 1 ? 1 : (int64_t)r;
}
