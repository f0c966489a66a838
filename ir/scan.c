#include "scan.h"

#include <math.h>
#include <string.h>

#include "check.h"
#include "ir.h"

struct yir_loc yir_scan_loc(const struct yir_scan *s, const char *at)
{
    return (struct yir_loc){s->file, s->lineno, (uint32_t)(at - s->line) + 1};
}

void yir_skip(struct yir_scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\r')) s->p++;
}

bool yir_at_eol(struct yir_scan *s)
{
    yir_skip(s);
    return s->p == s->end || *s->p == '\n' || *s->p == '#';
}

bool yir_peek(struct yir_scan *s, char c)
{
    yir_skip(s);
    return s->p < s->end && *s->p == c;
}

bool yir_accept(struct yir_scan *s, char c)
{
    if (!yir_peek(s, c)) return false;
    s->p++;
    return true;
}

int yir_expect(struct yir_scan *s, char c)
{
    return YIR_HOLDS(IR_EXPECT, yir_accept(s, c)) ? 0 : YIR_SCAN_SYNTAX(s, "expected '%c'", c);
}

bool yir_is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool yir_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct yir_span yir_take(struct yir_scan *s, bool (*in_set)(char))
{
    yir_skip(s);
    struct yir_span w = {s->p, 0};
    while (s->p < s->end && in_set(*s->p)) s->p++;
    w.n = (size_t)(s->p - w.s);
    return w;
}

bool yir_span_is(struct yir_span w, const char *text)
{
    return strlen(text) == w.n && memcmp(w.s, text, w.n) == 0;
}

bool yir_accept_text(struct yir_scan *s, const char *text)
{
    size_t n = strlen(text);
    yir_skip(s);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, text, n) != 0) return false;
    if (yir_is_word_char(text[n - 1]) && s->p + n < s->end && yir_is_word_char(s->p[n])) return false;
    s->p += n;
    return true;
}

int yir_expect_text(struct yir_scan *s, const char *text)
{
    return YIR_HOLDS(IR_EXPECT_TEXT, yir_accept_text(s, text)) ? 0 : YIR_SCAN_SYNTAX(s, "expected '%s'", text);
}

int yir_take_name(struct yir_scan *s, struct yir_span *out)
{
    *out = yir_take(s, yir_is_name_char);
    if (YIR_BREAKS(IR_NAME, !out->n))
        return YIR_SCAN_SYNTAX(s, "expected a name (letters, digits, '.', '_', '-')");
    uint64_t most = yir_limits_of(s->diags)->max_name;
    if (YIR_BREAKS(IR_NAME_LENGTH, out->n > most))
        return YIR_SCAN_FAIL(s, out->s, E_LIMIT, "the name is longer than %llu characters%s", (unsigned long long)most,
                             YIR_RAISE(max_name));
    return 0;
}

int yir_take_uint(struct yir_scan *s, uint64_t max, uint64_t *out)
{
    yir_skip(s);
    const char *at = s->p;
    uint64_t v = 0;
    while (s->p < s->end && yir_is_digit(*s->p)) {
        bool fits = yir_mul_u64(v, 10, &v) && yir_add_u64(v, (uint64_t)(*s->p - '0'), &v) && v <= max;
        if (YIR_BREAKS(IR_NUMBER_LARGE, !fits))
            return YIR_SCAN_FAIL(s, at, E_IR_SYNTAX, "the number is larger than %llu", (unsigned long long)max);
        s->p++;
    }
    *out = v;
    return YIR_BREAKS(IR_NUMBER, s->p == at) ? YIR_SCAN_SYNTAX(s, "expected a number") : 0;
}

int yir_take_index(struct yir_scan *s, char letter, uint64_t max, uint64_t *out)
{
    if (YIR_BREAKS(IR_INDEX, !yir_peek(s, letter)))
        return YIR_SCAN_SYNTAX(s, "expected '%c' and a number", letter);
    s->p++;
    if (YIR_BREAKS(IR_INDEX_DIGIT, s->p == s->end || !yir_is_digit(*s->p)))
        return YIR_SCAN_SYNTAX(s, "expected a number after '%c'", letter);
    return yir_take_uint(s, max, out);
}

int yir_take_field(struct yir_scan *s, const char *name, uint64_t max, uint64_t *out)
{
    if (yir_expect_text(s, name) || yir_expect(s, '=')) return -1;
    return yir_take_uint(s, max, out);
}

int yir_take_int32(struct yir_scan *s, int32_t *out)
{
    bool minus = yir_accept(s, '-');
    uint64_t v;
    if (yir_take_uint(s, minus ? UINT64_C(0x80000000) : INT32_MAX, &v)) return -1;
    *out = (int32_t)(minus ? -(int64_t)v : (int64_t)v);
    return 0;
}

/* Digits, at most 17 of which count; *scale is the power of ten that the rest asks for. */
static double take_digits(struct yir_scan *s, int *ndigit, int *scale)
{
    double v = 0;
    bool point = false;
    for (; s->p < s->end && (yir_is_digit(*s->p) || (*s->p == '.' && !point)); s->p++) {
        if (*s->p == '.') {
            point = true;
            continue;
        }
        if (*ndigit < 17) v = v * 10 + (*s->p - '0');
        *scale += (*ndigit >= 17) - point;
        *ndigit += *ndigit > 0 || *s->p != '0';
    }
    return v;
}

/* strtof would follow the locale. Nine digits, as the printer writes them, give back the same float: the two
 * roundings here are in double, far finer than half a unit of the float. */
int yir_take_float(struct yir_scan *s, float *out)
{
    yir_skip(s);
    const char *at = s->p;
    bool minus = yir_accept(s, '-');
    if (yir_accept_text(s, "inf")) {
        *out = minus ? -INFINITY : INFINITY;
        return 0;
    }
    const char *first = s->p;
    int ndigit = 0, scale = 0;
    double v = take_digits(s, &ndigit, &scale);
    if (YIR_BREAKS(IR_FLOAT, s->p == first || (s->p == first + 1 && *first == '.')))
        return YIR_SCAN_FAIL(s, at, E_IR_SYNTAX, "expected a number");
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        bool down = s->p < s->end && *s->p == '-';
        if (s->p < s->end && (*s->p == '-' || *s->p == '+')) s->p++;
        uint64_t e;
        if (yir_take_uint(s, 400, &e)) return -1;
        scale += down ? -(int)e : (int)e;
    }
    if (YIR_BREAKS(IR_FLOAT_DIGITS, scale < -400 || scale > 400))
        return YIR_SCAN_FAIL(s, at, E_IR_SYNTAX, "the number has too many digits");
    if (v == 0) scale = 0; /* 0e400 is 0, not 0 * infinity */
    v = scale < 0 ? v / pow(10, -scale) : v * pow(10, scale);
    *out = (float)(minus ? -v : v);
    if (YIR_HOLDS(IR_FLOAT_RANGE, isfinite(*out))) return 0;
    return YIR_SCAN_FAIL(s, at, E_IR_SYNTAX, "the number is out of a float's range");
}
