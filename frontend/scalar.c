#include "scalar.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char decimal[] = "0123456789_";

static bool is_one_of(const char *s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (*s == *words[i] && strcmp(s, words[i]) == 0) return true;
    return false;
}

static bool is_null(const char *s)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    return is_one_of(s, words, YIR_COUNT(words));
}

static bool is_bool(const char *s, bool *value)
{
    static const char *const yes[] = {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"};
    static const char *const no[] = {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"};
    *value = is_one_of(s, yes, YIR_COUNT(yes));
    return *value || is_one_of(s, no, YIR_COUNT(no));
}

static const char *skip_sign(const char *s, bool *negative)
{
    *negative = *s == '-';
    return *s == '-' || *s == '+' ? s + 1 : s;
}

/* Digits of `base`, underscores skipped; false on overflow. */
static bool read_digits(const char *s, size_t n, unsigned base, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '_') continue;
        unsigned digit = (unsigned)(s[i] <= '9' ? s[i] - '0' : (s[i] | 0x20) - 'a' + 10);
        if (!yir_mul_u64(v, base, &v) || !yir_add_u64(v, digit, &v)) return false;
    }
    *out = v;
    return true;
}

/* Groups ":dd" of base-60 numbers; returns the end, *scaled = *scaled * 60 + group for each. */
static const char *read_sixties(const char *s, double *scaled)
{
    while (*s == ':') {
        size_t n = strspn(s + 1, "0123456789");
        if (n < 1 || n > 2 || (n == 2 && s[1] > '5')) break;
        *scaled = *scaled * 60 + (n == 2 ? (s[1] - '0') * 10 + s[2] - '0' : s[1] - '0');
        s += 1 + n;
    }
    return s;
}

enum match { NO_MATCH, MATCH, TOO_LARGE };

static enum match set_int(struct fe_value *v, bool fits, uint64_t magnitude, bool negative)
{
    if (!fits || magnitude > INT64_MAX) return TOO_LARGE;
    v->kind = FE_INT;
    v->i = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    v->f = (double)v->i;
    return MATCH;
}

static enum match match_int(const char *text, struct fe_value *v)
{
    static const struct form {
        const char *prefix, *digits;
        unsigned base;
    } forms[] = {{"0b", "01_", 2}, {"0x", "0123456789abcdefABCDEF_", 16}, {"0", "01234567_", 8}};
    bool negative;
    const char *s = skip_sign(text, &negative);
    uint64_t n = 0;
    if (strcmp(s, "0") == 0) return set_int(v, true, 0, false);
    for (size_t i = 0; i < YIR_COUNT(forms); i++) {
        size_t skip = strlen(forms[i].prefix);
        if (strncmp(s, forms[i].prefix, skip) != 0) continue;
        size_t len = strspn(s + skip, forms[i].digits);
        if (len == 0 || s[skip + len]) continue;
        bool fits = read_digits(s + skip, len, forms[i].base, &n);
        return set_int(v, fits, n, negative);
    }
    if (*s < '1' || *s > '9') return NO_MATCH;
    size_t len = strspn(s, decimal);
    if (!s[len]) {
        bool fits = read_digits(s, len, 10, &n);
        return set_int(v, fits, n, negative);
    }
    if (s[len] != ':' || !read_digits(s, len, 10, &n)) return NO_MATCH;
    double total = (double)n;
    if (*read_sixties(s + len, &total) || total > 9e15) return NO_MATCH;
    return set_int(v, true, (uint64_t)total, negative);
}

/* Value of a decimal floating-point text with underscores, whatever the locale's decimal sign. */
static double read_float(const char *s)
{
    char digits[320];
    size_t n = 0;
    for (; *s && n + 1 < sizeof digits; s++)
        if (*s != '_') digits[n++] = *s;
    digits[n] = 0;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double f = strtod_l(digits, NULL, c);
    freelocale(c);
    return f;
}

static enum match set_float(struct fe_value *v, double f)
{
    v->kind = FE_FLOAT;
    v->f = f;
    return MATCH;
}

static const char *skip_exponent(const char *s)
{
    if ((*s | 0x20) != 'e' || (s[1] != '+' && s[1] != '-')) return s;
    size_t n = strspn(s + 2, "0123456789");
    return n ? s + 2 + n : s;
}

static enum match match_float(const char *text, struct fe_value *v)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF"}, *const nans[] = {".nan", ".NaN",
                                                                                       ".NAN"};
    bool negative;
    const char *s = skip_sign(text, &negative);
    if (is_one_of(s, infinities, YIR_COUNT(infinities))) return set_float(v, negative ? -INFINITY : INFINITY);
    if (is_one_of(text, nans, YIR_COUNT(nans))) return set_float(v, NAN);
    if (*s == '.') { /* no sign is allowed in front of a bare point */
        size_t n = strspn(s + 1, decimal);
        if (s != text || n == 0 || s[1] == '_' || *skip_exponent(s + 1 + n)) return NO_MATCH;
        return set_float(v, read_float(text));
    }
    size_t whole = strspn(s, decimal);
    if (whole == 0 || *s == '_') return NO_MATCH;
    if (s[whole] == '.') {
        const char *end = skip_exponent(s + whole + 1 + strspn(s + whole + 1, decimal));
        return *end ? NO_MATCH : set_float(v, read_float(text));
    }
    if (s[whole] != ':') return NO_MATCH;
    double total = read_float(s);
    const char *end = read_sixties(s + whole, &total);
    if (*end != '.' || end[1 + strspn(end + 1, decimal)]) return NO_MATCH;
    total += read_float(end);
    return set_float(v, negative ? -total : total);
}

bool fe_scalar_plain(const char *text, struct fe_value *v)
{
    bool b;
    v->s = text;
    if (is_null(text)) {
        v->kind = FE_NONE;
        return true;
    }
    if (is_bool(text, &b)) {
        v->kind = FE_BOOL;
        v->i = b;
        v->f = b;
        return true;
    }
    enum match m = match_int(text, v);
    if (m == NO_MATCH) m = match_float(text, v);
    if (m == NO_MATCH) v->kind = FE_STR;
    return m != TOO_LARGE;
}
