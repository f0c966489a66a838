/* Python literal text -> value. Grammar (blanks between tokens; line ends count as blanks inside brackets):
 *   text    = value [ "," [ value { "," value } [ "," ] ] ]          a comma makes a tuple, which is a list
 * here value   = None | True | False | [+-] number | string | list | tuple | dict Strings have the prefixes u
 * and r, one line, and the escapes below. No bytes, sets, complex numbers, concatenation. */
#include "check.h"
#include "value.h"

#include <ctype.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 65536, MAX_DEPTH = 32 };

struct reader {
    struct yir_arena *a;
    struct yir_loc loc;
    const char *p; /* NUL ends the text */
    int depth;     /* of open brackets */
    locale_t c;
};

static struct fe_value *read_value(struct reader *r);

static struct fe_value *make(struct reader *r, enum fe_kind kind)
{
    struct fe_value *v = yir_alloc(r->a, sizeof *v);
    v->kind = kind;
    v->loc = r->loc;
    return v;
}

static void skip(struct reader *r)
{
    r->p += strspn(r->p, r->depth ? " \t\f\r\n" : " \t\f");
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->p, word, n) != 0 || word_char(r->p[n])) return false;
    r->p += n;
    return true;
}

/* Copies the digits of a number to text without the underscores, which may stand between two digits only. */
static bool copy_number(struct reader *r, char *text, size_t cap)
{
    size_t n = 0;
    bool hex = r->p[0] == '0' && (r->p[1] | 32) == 'x';
    for (; *r->p && n + 1 < cap; r->p++) {
        char c = *r->p;
        bool sign = (c == '+' || c == '-') && n > 0 && !hex && (text[n - 1] | 32) == 'e';
        if (c == '_') {
            bool between = n > 0 && isxdigit((unsigned char)text[n - 1]) && isxdigit((unsigned char)r->p[1]);
            if (FE_BREAKS(LIT_UNDERSCORE, !between)) return false;
            continue;
        }
        if (!isalnum((unsigned char)c) && c != '.' && !sign) break;
        text[n++] = c;
    }
    text[n] = 0;
    return FE_HOLDS(LIT_NUMBER_ROOM, n + 1 < cap) && n > 0 && !word_char(*r->p);
}

static bool read_int(const char *text, int64_t *out)
{
    static const struct {
        char letter;
        int base;
    } bases[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    int base = 10;
    for (size_t i = 0; i < YIR_COUNT(bases); i++) {
        if (text[0] == '0' && (text[1] | 32) == bases[i].letter) base = bases[i].base;
    }
    uint64_t v = 0;
    const char *p = base == 10 ? text : text + 2;
    if (!*p) return false;
    for (; *p; p++) {
        int digit = isdigit((unsigned char)*p)   ? *p - '0'
                    : isalpha((unsigned char)*p) ? (*p | 32) - 'a' + 10
                                                 : 99;
        if (FE_BREAKS(LIT_DIGIT, digit >= base)) return false;
        if (FE_BREAKS(LIT_INT, v > (INT64_MAX - (uint64_t)digit) / (uint64_t)base)) return false;
        v = v * (uint64_t)base + (uint64_t)digit;
    }
    /* 007 is no number in Python, but 000 is. */
    if (FE_BREAKS(LIT_ZEROS, base == 10 && text[0] == '0' && v != 0)) return false;
    *out = (int64_t)v;
    return true;
}

static struct fe_value *read_number(struct reader *r)
{
    bool minus = *r->p == '-';
    if (*r->p == '-' || *r->p == '+') r->p++;
    char text[128];
    int64_t i;
    if (!isdigit((unsigned char)*r->p) && *r->p != '.') return NULL;
    if (!copy_number(r, text, sizeof text)) return NULL;
    if (read_int(text, &i)) {
        struct fe_value *v = make(r, FE_INT);
        v->i = minus ? -i : i;
        v->f = (double)v->i;
        return v;
    }
    /* strtod knows more forms (hexadecimal, inf) than Python; a decimal integer that does not fit is none of
     * ours. */
    if (FE_BREAKS(LIT_FLOAT, strspn(text, "0123456789.eE+-") != strlen(text) || !strpbrk(text, ".eE")))
        return NULL;
    char *end;
    double f = strtod_l(text, &end, r->c);
    if (FE_BREAKS(LIT_FLOAT_END, *end)) return NULL;
    struct fe_value *v = make(r, FE_FLOAT);
    v->f = minus ? -f : f;
    return v;
}

static void put_utf8(struct yir_str *s, uint32_t c)
{
    char b[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        b[i] = (char)(0x80 | (c & 0x3f));
    b[0] = (char)(lead[n] | c);
    yir_str_put(s, b, n);
}

static bool hex_digits(struct reader *r, int digits, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < digits; i++, r->p++) {
        unsigned char h = (unsigned char)*r->p;
        if (FE_BREAKS(LIT_HEX, !isxdigit(h))) return false;
        *c = *c << 4 | (uint32_t)(isdigit(h) ? h - '0' : (h | 32) - 'a' + 10);
    }
    return true;
}

/* \xHH, \uHHHH, \UHHHHHHHH after the letter; a pair of surrogates is the one character that JSON means by it. */
static bool hex_escape(struct reader *r, int digits, struct yir_str *s)
{
    uint32_t c, low;
    if (!hex_digits(r, digits, &c)) return false;
    if (c >= 0xd800 && c < 0xdc00 && r->p[0] == '\\' && r->p[1] == 'u') {
        r->p += 2;
        if (!hex_digits(r, 4, &low)) return false;
        if (low >= 0xdc00 && low < 0xe000) c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (FE_BREAKS(LIT_HEX_ZERO, c == 0)) return false;
    if (FE_BREAKS(LIT_HEX_VALUE, c > 0x10ffff || (c >= 0xd800 && c < 0xe000))) return false;
    put_utf8(s, c);
    return true;
}

static bool escape(struct reader *r, struct yir_str *s)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char c = *r->p++;
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        yir_str_put(s, to + (at - from), 1);
    else if (c == 'x')
        return hex_escape(r, 2, s);
    else if (c == 'u')
        return hex_escape(r, 4, s);
    else if (c == 'U')
        return hex_escape(r, 8, s);
    else
        return FE_HOLDS(LIT_ESCAPE, false);
    return true;
}

static struct fe_value *read_string(struct reader *r)
{
    bool raw = (*r->p | 32) == 'r';
    if (*r->p != '\'' && *r->p != '"') r->p++;
    char quote = *r->p++;
    struct yir_str s = {.arena = r->a};
    yir_str_put(&s, "", 0);
    while (*r->p != quote) {
        if (FE_BREAKS(LIT_STRING_END, !*r->p) || FE_BREAKS(LIT_STRING_LINE, *r->p == '\n')) return NULL;
        if (FE_BREAKS(LIT_RAW, *r->p == '\\' && raw)) return NULL;
        if (*r->p == '\\') {
            r->p++;
            if (!escape(r, &s)) return NULL;
        } else {
            yir_str_put(&s, r->p++, 1);
        }
    }
    r->p++;
    struct fe_value *v = make(r, FE_STR);
    v->s = yir_strndup(r->a, s.text ? s.text : "", s.len);
    return v;
}

static bool same_key(const struct fe_value *x, const struct fe_value *y)
{
    if (x->kind != y->kind) return false;
    return x->kind == FE_INT ? x->i == y->i : strcmp(x->s, y->s) == 0;
}

/* key ":" value; a later value replaces an earlier one under the same key. */
static bool read_pair(struct reader *r, struct fe_value *d, size_t *cap)
{
    struct fe_value *key = read_value(r);
    if (!key || FE_BREAKS(LIT_KEY, key->kind != FE_STR && key->kind != FE_INT)) return false;
    skip(r);
    if (FE_BREAKS(LIT_COLON, *r->p++ != ':')) return false;
    struct fe_value *item = read_value(r);
    if (!item) return false;
    for (size_t i = 0; i < d->n; i++) {
        if (!same_key(d->key[i], key)) continue;
        d->item[i] = item;
        return true;
    }
    size_t key_cap = *cap;
    d->key = yir_grow(r->a, d->key, &key_cap, d->n + 1, sizeof(struct fe_value *));
    d->item = yir_grow(r->a, d->item, cap, d->n + 1, sizeof(struct fe_value *));
    d->key[d->n] = key;
    d->item[d->n++] = item;
    return true;
}

static bool read_item(struct reader *r, struct fe_value *v, size_t *cap)
{
    if (v->kind == FE_DICT) return read_pair(r, v, cap);
    struct fe_value *item = read_value(r);
    if (!item) return false;
    v->item = yir_grow(r->a, v->item, cap, v->n + 1, sizeof(struct fe_value *));
    v->item[v->n++] = item;
    return true;
}

/* Items up to the closing character; *comma: one stood between or after them. */
static bool read_items(struct reader *r, struct fe_value *v, char close, bool *comma)
{
    size_t cap = 0;
    bool open = true; /* an item may come: at the start, or after a comma */
    for (;;) {
        skip(r);
        if (*r->p == close && (v->n || !*comma)) return true;
        if (*r->p == ',' && !open) {
            r->p++;
            *comma = open = true;
            continue;
        }
        if (FE_BREAKS(LIT_COMMA, !open) || !read_item(r, v, &cap)) return false;
        open = false;
    }
}

static struct fe_value *read_bracket(struct reader *r)
{
    static const char opens[] = "[({", closes[] = "])}";
    size_t i = (size_t)(strchr(opens, *r->p) - opens);
    struct fe_value *v = make(r, *r->p == '{' ? FE_DICT : FE_LIST);
    bool comma = false;
    if (FE_BREAKS(LIT_DEPTH, r->depth == MAX_DEPTH)) return NULL;
    r->depth++;
    r->p++;
    if (!read_items(r, v, closes[i], &comma)) return NULL;
    r->p++;
    r->depth--;
    return opens[i] == '(' && v->n == 1 && !comma ? v->item[0] : v;
}

static bool starts_string(const char *p)
{
    if (strchr("uUrR", *p)) p++;
    return *p == '\'' || *p == '"';
}

static struct fe_value *read_value(struct reader *r)
{
    skip(r);
    char c = *r->p;
    if (!c) return NULL;
    if (strchr("[({", c)) return read_bracket(r);
    if (starts_string(r->p)) return read_string(r);
    if (take_word(r, "None")) return make(r, FE_NONE);
    bool yes = take_word(r, "True");
    if (!yes && !take_word(r, "False")) return read_number(r);
    struct fe_value *v = make(r, FE_BOOL);
    v->i = yes;
    v->f = yes;
    return v;
}

struct fe_value *fe_literal(struct yir_arena *a, const char *text, struct yir_loc loc)
{
    struct reader r = {.a = a, .loc = loc, .p = text};
    if (FE_BREAKS(LIT_LENGTH, strnlen(text, MAX_TEXT + 1) > MAX_TEXT)) return NULL;
    struct fe_value *v = make(&r, FE_LIST);
    bool comma = false;
    /* The C locale is a constant of the library: no release is missed when the arena's out-of-memory jump
     * leaves here. */
    r.c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!read_items(&r, v, 0, &comma) || v->n == 0) return NULL;
    return v->n == 1 && !comma ? v->item[0] : v;
}
