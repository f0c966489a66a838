#include "value.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ir/utf8.h"

const struct fe_value *fe_get(const struct fe_value *d, const char *key)
{
    if (!d || d->kind != FE_DICT) return NULL;
    for (size_t i = 0; i < d->n; i++) {
        if (d->key[i]->kind == FE_STR && strcmp(d->key[i]->s, key) == 0) return d->item[i];
    }
    return NULL;
}

bool fe_as_int(const struct fe_value *v, int64_t *out)
{
    if (!v) return false;
    if (v->kind == FE_INT) {
        *out = v->i;
        return true;
    }
    if (v->kind != FE_FLOAT || !(v->f >= -0x1p63 && v->f < 0x1p63) || v->f != trunc(v->f)) return false;
    *out = (int64_t)v->f;
    return true;
}

bool fe_as_float(const struct fe_value *v, double *out)
{
    if (!v || (v->kind != FE_INT && v->kind != FE_FLOAT)) return false;
    *out = v->kind == FE_INT ? (double)v->i : v->f;
    return true;
}

/* Shortest text that reads back as v, as yaml 1.1 wants it: with a dot, also before an exponent. */
static void put_float(struct yir_str *out, double v)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        yir_str_fmt(out, "%s", isnan(v) ? ".nan" : v < 0 ? "-.inf" : ".inf");
        return;
    }
    /* The program that calls us may have set a locale with a decimal comma. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = uselocale(c);
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (sscanf(text, "%lf", &back) == 1 && back == v) break;
    }
    uselocale(old);
    freelocale(c);
    size_t whole = strcspn(text, ".e");
    yir_str_put(out, text, whole);
    if (text[whole] != '.') yir_str_put(out, ".0", 2);
    yir_str_put(out, text + whole, strlen(text + whole));
}

/* Text that yaml reads back as the same string without quotes, also inside brackets. */
static bool is_plain(const char *s)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
    for (size_t i = 0; i < YIR_COUNT(words); i++) {
        if (strcasecmp(s, words[i]) == 0) return false;
    }
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (!*s || !strchr(first, *s)) return false;
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.-+/ ");
    return s[n] == 0 && s[n - 1] != ' ';
}

static void put_string(struct yir_str *out, const char *s)
{
    if (is_plain(s)) {
        yir_str_put(out, s, strlen(s));
        return;
    }
    yir_str_put(out, "\"", 1);
    for (size_t n; *s; s += n ? n : 1) {
        uint32_t c = (unsigned char)*s;
        n = yir_utf8(s, 4, &c);
        if (c == '"' || c == '\\')
            yir_str_fmt(out, "\\%c", (char)c);
        else if (c == '\n')
            yir_str_put(out, "\\n", 2);
        else if (n && yir_is_shown(c))
            yir_str_put(out, s, n);
        else
            yir_str_fmt(out, n && c > 0xff ? "\\u%04x" : "\\x%02x", n ? c : (unsigned char)*s);
    }
    yir_str_put(out, "\"", 1);
}

static void put_items(struct yir_str *out, const struct fe_value *v)
{
    bool dict = v->kind == FE_DICT;
    yir_str_put(out, dict ? "{" : "[", 1);
    for (size_t i = 0; i < v->n; i++) {
        if (i) yir_str_put(out, ", ", 2);
        if (dict) {
            fe_print(out, v->key[i]);
            yir_str_put(out, ": ", 2);
        }
        fe_print(out, v->item[i]);
    }
    yir_str_put(out, dict ? "}" : "]", 1);
}

/* Recursion is bounded: whoever builds a value bounds its depth. */
void fe_print(struct yir_str *out, const struct fe_value *v)
{
    switch (v->kind) {
    case FE_NONE:
        yir_str_put(out, "null", 4);
        break;
    case FE_BOOL:
        yir_str_fmt(out, "%s", v->i ? "true" : "false");
        break;
    case FE_INT:
        yir_str_fmt(out, "%lld", (long long)v->i);
        break;
    case FE_FLOAT:
        put_float(out, v->f);
        break;
    case FE_STR:
        put_string(out, v->s);
        break;
    case FE_OPAQUE:
        yir_str_fmt(out, "\"<%s>\"", v->s);
        break;
    case FE_LIST:
    case FE_DICT:
        put_items(out, v);
        break;
    }
}

const char *fe_describe(struct yir_arena *a, const struct fe_value *v)
{
    struct yir_str text = {.arena = a};
    if (!v) return "nothing";
    switch (v->kind) {
    case FE_NONE:
        return "null";
    case FE_BOOL:
        return v->i ? "the boolean true" : "the boolean false";
    case FE_INT:
        return yir_format(a, "the integer %lld", (long long)v->i);
    case FE_FLOAT:
        yir_str_fmt(&text, "the number ");
        put_float(&text, v->f);
        return text.text;
    case FE_STR:
        return yir_format(a, strlen(v->s) > 60 ? "the string '%.60s...'" : "the string '%s'", v->s);
    case FE_LIST:
        return v->n == 0 ? "an empty list" : yir_format(a, "a list of %zu", v->n);
    case FE_DICT:
        return "a mapping";
    case FE_OPAQUE:
        return yir_format(a, "an object of class %s", v->s);
    }
    YIR_BUG("value of kind %d", (int)v->kind);
}
