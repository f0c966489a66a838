#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *name, *raise, *help;
    uint64_t normal, most;
    size_t at;
} rows[] = {
#define LIMIT(field, name, normal, most, help) \
    {name, " (raise it with --limit " name "=N)", help, normal, most, offsetof(struct yir_limits, field)},
#include "limits.def"
#undef LIMIT
};

#define LIMIT(field, name, normal, most, help) _Static_assert((normal) > 0 && (normal) <= (most), name);
#include "limits.def"
#undef LIMIT

static const struct yir_limits defaults = {
#define LIMIT(field, name, normal, most, help) .field = normal,
#include "limits.def"
#undef LIMIT
};

void yir_limits_init(struct yir_limits *l)
{
    *l = defaults;
}

const char *yir_limit_raise(enum yir_limit_id id)
{
    return rows[id].raise;
}

static const struct row *find(const char *name, size_t n)
{
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n)) return &rows[i];
    return NULL;
}

static const char *unknown(const char *name, size_t n, char *error, size_t size)
{
    const char *names[YIR_NLIMIT];
    char typed[64];
    for (size_t i = 0; i < YIR_NLIMIT; i++) names[i] = rows[i].name;
    snprintf(typed, sizeof typed, "%.*s", (int)(n < 60 ? n : 60), name);
    const char *near = yir_nearest(typed, names, YIR_NLIMIT);
    snprintf(error, size, "there is no limit '%s'%s%s%s", typed, near ? "; did you mean " : "; see --list-limits",
             near ? near : "", near ? "?" : "");
    return error;
}

const struct yir_limits *yir_limits_of(const struct yir_diags *d)
{
    const struct yir_limits *l = yir_diags_limits(d);
    return l ? l : &defaults;
}

/* Digits, then maybe K, M or G. false: something else, or more than 64 bits. */
static bool number(const char *s, size_t n, uint64_t *out)
{
    uint64_t v = 0, scale = 1;
    if (n > 1 && s[n - 1] == 'K') scale = 1u << 10;
    if (n > 1 && s[n - 1] == 'M') scale = 1u << 20;
    if (n > 1 && s[n - 1] == 'G') scale = 1u << 30;
    n -= scale > 1;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || v > (UINT64_MAX - 9) / 10) return false;
        v = v * 10 + (uint64_t)(s[i] - '0');
    }
    return n && yir_mul_u64(v, scale, out);
}

static const char *parse_one(struct yir_limits *l, const char *s, size_t n, char *error, size_t size)
{
    const char *equals = memchr(s, '=', n);
    size_t len = equals ? (size_t)(equals - s) : n;
    uint64_t v;
    const struct row *r = find(s, len);
    if (!r) return unknown(s, len, error, size);
    if (equals && number(equals + 1, n - len - 1, &v) && v >= 1 && v <= r->most) {
        memcpy((char *)l + r->at, &v, sizeof v);
        return NULL;
    }
    snprintf(error, size, "the limit %s wants a whole number from 1 to %llu, as in %s=%llu", r->name,
             (unsigned long long)r->most, r->name, (unsigned long long)r->normal);
    return error;
}

const char *yir_limits_parse(struct yir_limits *l, const char *text, char *error, size_t error_size)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        const char *why = parse_one(l, text, n, error, error_size);
        if (why) return why;
        text += n + (text[n] == ',');
    }
    return NULL;
}

bool yir_limits_get(const struct yir_limits *l, const char *name, uint64_t *value)
{
    const struct row *r = find(name, strlen(name));
    if (r) memcpy(value, (const char *)l + r->at, sizeof *value);
    return r != NULL;
}

void yir_limits_list(struct yir_str *out)
{
    yir_str_fmt(out, "%-22s %14s %18s\n", "limit", "default", "largest");
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        yir_str_fmt(out, "%-22s %14llu %18llu  %s\n", rows[i].name, (unsigned long long)rows[i].normal,
                     (unsigned long long)rows[i].most, rows[i].help);
}
