#include "diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

enum { MAX_KEPT_ERRORS = 20, MAX_TOLD = 10, MAX_SOURCE_COLUMNS = 160 };

static const struct row {
    const char *name, *text;
    unsigned number;
    enum yir_severity severity;
} rows[] = {
    [YIR_DIAG_NONE] = {"", "", 0, YIR_NOTE},
#define DIAG(id, number, severity, text) [id] = {#id, text, number, severity},
#include "diag.def"
#undef DIAG
};

struct file {
    const char *name, *text;
    size_t len;
};

struct yir_diags {
    struct yir_arena *arena;
    struct file *file;
    size_t nfile, cap_file;
    struct yir_diag *diag;
    size_t ndiag, cap_diag;
    int errors;
    bool one_error;
    int told; /* errors that became notes */
    enum yir_class cls;
    const struct yir_limits *limits;
    void (*sink)(void *user, const struct yir_diag *);
    void *user;
};

struct yir_diags *yir_diags_new(struct yir_arena *a, void (*sink)(void *user, const struct yir_diag *), void *user)
{
    struct yir_diags *d = yir_alloc(a, sizeof *d);
    d->arena = a;
    d->sink = sink;
    d->user = user;
    return d;
}

void yir_diags_one_error(struct yir_diags *d, bool on)
{
    d->one_error = on;
}

void yir_diags_set_limits(struct yir_diags *d, const struct yir_limits *l)
{
    d->limits = l;
}

const struct yir_limits *yir_diags_limits(const struct yir_diags *d)
{
    return d->limits;
}

uint32_t yir_diag_file(struct yir_diags *d, const char *name, const char *text, size_t len)
{
    d->file = yir_grow(d->arena, d->file, &d->cap_file, d->nfile + 1, sizeof *d->file);
    d->file[d->nfile++] = (struct file){yir_strdup(d->arena, name), text, len};
    return (uint32_t)d->nfile;
}

const char *yir_diag_file_name(const struct yir_diags *d, uint32_t file)
{
    return file && file <= d->nfile ? d->file[file - 1].name : "";
}

/* Bytes from outside must not move the cursor or break the line. Other UTF-8 passes. */
static void put_printable(struct yir_str *s, const char *text)
{
    for (const char *p = text; *p;) {
        size_t n = yir_shown(p, 4);
        if (n) yir_str_put(s, p, n);
        else yir_str_fmt(s, "\\x%02x", (unsigned char)*p);
        p += n ? n : 1;
    }
}

const char *yir_printable(struct yir_arena *a, const char *text)
{
    struct yir_str s = {.arena = a};
    const char *p = text;
    while (*p && yir_shown(p, 4))
        p += yir_shown(p, 4);
    if (!*p) return text;
    put_printable(&s, text);
    return s.text;
}

/* The line's text, without its newline. */
static const char *source_line(const struct file *f, uint32_t line, size_t *len)
{
    const char *p = f->text, *end = f->text + f->len;
    for (uint32_t i = 1; i < line && p < end; i++) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl) return NULL;
        p = nl + 1;
    }
    if (p >= end) return NULL;
    const char *nl = memchr(p, '\n', (size_t)(end - p));
    *len = nl ? (size_t)(nl - p) : (size_t)(end - p);
    return p;
}

/* The source line and a caret under the byte column; tabs and what a terminal must not get become spaces, UTF-8 continuation bytes take no column. */
static void put_source(struct yir_str *s, const struct yir_diags *d, struct yir_loc loc)
{
    const struct file *f = &d->file[loc.file - 1];
    size_t len = 0;
    const char *p = f->text ? source_line(f, loc.line, &len) : NULL;
    if (!p) return;
    if (len > MAX_SOURCE_COLUMNS) len = MAX_SOURCE_COLUMNS;
    yir_str_fmt(s, "\n%5u | ", loc.line);
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = yir_shown(p + i, len - i);
        if (n) yir_str_put(s, p + i, n);
        else if (((unsigned char)p[i] & 0xc0) != 0x80) yir_str_put(s, " ", 1);
    }
    if (!loc.col || loc.col > len + 1) return;
    yir_str_fmt(s, "\n      | ");
    for (size_t i = 0; i + 1 < loc.col; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) yir_str_put(s, " ", 1);
    yir_str_put(s, "^", 1);
}

static const char *const severity_name[] = {"note", "warning", "error"};

static void put_head(struct yir_str *s, const struct yir_diags *d, struct yir_loc loc)
{
    if (!loc.file || loc.file > d->nfile) return;
    put_printable(s, d->file[loc.file - 1].name);
    if (loc.line) yir_str_fmt(s, ":%u", loc.line);
    if (loc.line && loc.col) yir_str_fmt(s, ":%u", loc.col);
    yir_str_put(s, ": ", 2);
}

static enum yir_class class_of(enum yir_diag_id id)
{
    switch (id) {
    case E_USAGE: return YIR_CLASS_USAGE;
    case E_TARGET:
    case E_PASS: return YIR_CLASS_USAGE;
    case E_OPEN: return YIR_CLASS_INPUT;
    case E_WRITE:
    case E_MEMORY:
    case E_CACHE:
    case E_INTERRUPTED:
    case E_LLVM:
    case E_LINK:
    case E_MODULE_TARGET:
    case E_TUNE:
    case E_RUN: return YIR_CLASS_RESOURCE;
    default: return YIR_CLASS_INPUT;
    }
}

static int report(struct yir_diags *d, enum yir_diag_id id, struct yir_loc loc, const char *where, const char *text)
{
    const struct row *r = &rows[id];
    if (r->severity == YIR_ERROR && d->one_error && d->errors) {
        if (d->told++ < MAX_TOLD) yir_diag_note(d, loc, "%s%s", where, text);
        return -1;
    }
    if (r->severity == YIR_ERROR) {
        if (!d->errors++) d->cls = class_of(id);
        if (d->errors > MAX_KEPT_ERRORS) return -1;
    }
    struct yir_str s = {.arena = d->arena};
    put_head(&s, d, loc);
    yir_str_fmt(&s, "%s%s: ", where, severity_name[r->severity]);
    put_printable(&s, text);
    yir_str_fmt(&s, " [%c%03u]", r->severity == YIR_ERROR ? 'E' : 'W', r->number);
    if (loc.file && loc.file <= d->nfile && loc.line) put_source(&s, d, loc);
    d->diag = yir_grow(d->arena, d->diag, &d->cap_diag, d->ndiag + 1, sizeof *d->diag);
    d->diag[d->ndiag] = (struct yir_diag){id, r->severity, loc, text, s.text};
    if (d->sink) d->sink(d->user, &d->diag[d->ndiag]);
    d->ndiag++;
    return -1;
}

static char *format_v(struct yir_arena *a, const char *fmt, va_list ap)
{
    char buf[1024];
    vsnprintf(buf, sizeof buf, fmt, ap);
    return yir_strdup(a, buf);
}

int yir_diag(struct yir_diags *d, struct yir_loc loc, enum yir_diag_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = format_v(d->arena, fmt, ap);
    va_end(ap);
    return report(d, id, loc, "", text);
}

int yir_diag_bin(struct yir_diags *d, uint32_t file, uint64_t offset, enum yir_diag_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = format_v(d->arena, fmt, ap);
    va_end(ap);
    char where[48];
    snprintf(where, sizeof where, "at byte %llu: ", (unsigned long long)offset);
    return report(d, id, (struct yir_loc){.file = file}, where, text);
}

void yir_diag_note(struct yir_diags *d, struct yir_loc loc, const char *fmt, ...)
{
    if (d->errors > MAX_KEPT_ERRORS) return;
    va_list ap;
    va_start(ap, fmt);
    char *text = format_v(d->arena, fmt, ap);
    va_end(ap);
    struct yir_str s = {.arena = d->arena};
    put_head(&s, d, loc);
    yir_str_fmt(&s, "note: ");
    put_printable(&s, text);
    if (loc.file && loc.file <= d->nfile && loc.line) put_source(&s, d, loc);
    d->diag = yir_grow(d->arena, d->diag, &d->cap_diag, d->ndiag + 1, sizeof *d->diag);
    d->diag[d->ndiag] = (struct yir_diag){YIR_DIAG_NONE, YIR_NOTE, loc, text, s.text};
    if (d->sink) d->sink(d->user, &d->diag[d->ndiag]);
    d->ndiag++;
}

int yir_diag_errors(const struct yir_diags *d)
{
    return d->errors;
}

size_t yir_diag_count(const struct yir_diags *d)
{
    return d->ndiag;
}

const struct yir_diag *yir_diag_at(const struct yir_diags *d, size_t i)
{
    return i < d->ndiag ? &d->diag[i] : NULL;
}

enum yir_class yir_diag_class(const struct yir_diags *d)
{
    return d->cls;
}

enum yir_diag_id yir_diag_by_number(unsigned number)
{
    for (int i = 1; i < YIR_DIAG_COUNT; i++)
        if (rows[i].number == number) return (enum yir_diag_id)i;
    return YIR_DIAG_NONE;
}

unsigned yir_diag_number(enum yir_diag_id id)
{
    return rows[id].number;
}

const char *yir_diag_explain(unsigned number)
{
    enum yir_diag_id id = yir_diag_by_number(number);
    return id ? rows[id].text : NULL;
}

/* Levenshtein distance, cut off at 64 characters; names of modules and options are shorter. */
static unsigned distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > 64 || m > 64) return 1000;
    unsigned row[65];
    for (size_t j = 0; j <= m; j++) row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned change = diagonal + (a[i - 1] != b[j - 1]);
            unsigned least = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = change < least + 1 ? change : least + 1;
        }
    }
    return row[m];
}

const char *yir_nearest(const char *name, const char *const *names, size_t n)
{
    size_t len = strlen(name);
    return yir_nearest_within(name, names, n, len < 6 ? 2 : (unsigned)(len / 3));
}

const char *yir_nearest_within(const char *name, const char *const *names, size_t n, unsigned limit)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++) {
        unsigned dist = distance(name, names[i]);
        if (dist > limit) continue;
        limit = dist ? dist - 1 : 0;
        best = names[i];
        if (!dist) break;
    }
    return best;
}
