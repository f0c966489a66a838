#include "text.h"

#include "ir/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int reserve(struct cli_text *t, size_t more)
{
    if (t->failed || more < t->cap - t->n)
        return t->failed ? -1 : 0;
    size_t cap = t->cap * 2 > t->n + more + 1 ? t->cap * 2 : t->n + more + 64;
    char *p = realloc(t->p, cap);
    if (!p) {
        t->failed = 1;
        return -1;
    }
    t->p = p;
    t->cap = cap;
    return 0;
}

static void add_bytes(struct cli_text *t, const char *s, size_t n)
{
    if (reserve(t, n) != 0)
        return;
    memcpy(t->p + t->n, s, n);
    t->n += n;
    t->p[t->n] = 0;
}

void cli_text_add(struct cli_text *t, const char *s)
{
    add_bytes(t, s, strlen(s));
}

void cli_text_addf(struct cli_text *t, const char *format, ...)
{
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n >= 0 && reserve(t, (size_t)n) == 0) {
        vsnprintf(t->p + t->n, (size_t)n + 1, format, again);
        t->n += (size_t)n;
    }
    va_end(again);
}

/* Fixed-point text by integers, as printf's decimal point is the locale's. Returns 0 for numbers it cannot
 * hold. */
static int fixed(char *out, size_t size, double v, int decimals)
{
    int64_t unit = 1;
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    if (!(fabs(v) <= 1e15) || fabs(v) * (double)unit > 9e18)
        return 0;
    int64_t scaled = llrint(v * (double)unit);
    int64_t size_of = scaled < 0 ? -scaled : scaled;
    int n = snprintf(out, size, "%s%lld", scaled < 0 ? "-" : "", (long long)(size_of / unit));
    if (decimals)
        snprintf(out + n, size - (size_t)n, ".%0*lld", decimals, (long long)(size_of % unit));
    return 1;
}

void cli_text_number(struct cli_text *t, double v, int decimals)
{
    char s[48];
    if (!fixed(s, sizeof s, v, decimals)) {
        cli_text_add(t, "null");
        return;
    }
    size_t n = strlen(s);
    while (decimals && s[n - 1] == '0' && s[n - 2] != '.')
        n--;
    add_bytes(t, s, n);
}

void cli_text_column(struct cli_text *t, double v, int decimals, int width)
{
    char s[48];
    cli_text_addf(t, "%*s", width, fixed(s, sizeof s, v, decimals) ? s : "-");
}

void cli_text_plain(struct cli_text *t, const char *s, int width)
{
    int shown = 0;
    for (size_t n, k; *s; s += n ? n : 1, shown++) {
        uint32_t c;
        n = yir_utf8(s, 4, &c);
        k = yir_shown(s, 4);
        add_bytes(t, k ? s : "?", k ? k : 1);
    }
    for (; shown < width; shown++)
        add_bytes(t, " ", 1);
}

void cli_text_json(struct cli_text *t, const char *s)
{
    cli_text_add(t, "\"");
    while (*s) {
        char c[6];
        size_t n;
        s += yir_json(s, 4, c, &n);
        add_bytes(t, c, n);
    }
    cli_text_add(t, "\"");
}

void cli_text_member(struct cli_text *t, const char *key, const char *value)
{
    cli_text_addf(t, ",\"%s\":", key);
    cli_text_json(t, value);
}

void cli_text_member_number(struct cli_text *t, const char *key, double v, int decimals)
{
    cli_text_addf(t, ",\"%s\":", key);
    cli_text_number(t, v, decimals);
}

int cli_text_flush(struct cli_text *t, FILE *to, struct cli_error *e)
{
    if (t->failed)
        return cli_fail(e, CLI_MEMORY, "out of memory");
    size_t n = t->n;
    t->n = 0;
    if (n && fwrite(t->p, 1, n, to) != n)
        return cli_fail(e, CLI_WRITE, "the output could not be written");
    return 0;
}

void cli_text_free(struct cli_text *t)
{
    free(t->p);
    *t = (struct cli_text){0};
}
