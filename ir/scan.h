/* Tokens of the text form. Blanks before a token are skipped; every failure is reported at its place, and
 * gives -1. */
#ifndef YIR_SCAN_H
#define YIR_SCAN_H

#include "limits.h"

struct yir_scan {
    struct yir_diags *diags;
    const char *p, *end, *line; /* line: start of the current one */
    uint32_t file, lineno;
};

struct yir_span { /* bytes of the text */
    const char *s;
    size_t n;
};

struct yir_loc yir_scan_loc(const struct yir_scan *s, const char *at);
#define YIR_SCAN_FAIL(s, at, id, ...) yir_diag((s)->diags, yir_scan_loc(s, at), id, __VA_ARGS__)
#define YIR_SCAN_SYNTAX(s, ...)       YIR_SCAN_FAIL(s, (s)->p, E_IR_SYNTAX, __VA_ARGS__)

void yir_skip(struct yir_scan *s);   /* blanks of the line */
bool yir_at_eol(struct yir_scan *s); /* nothing, or a comment, is left of the line */
bool yir_peek(struct yir_scan *s, char c);
bool yir_accept(struct yir_scan *s, char c);
int yir_expect(struct yir_scan *s, char c);
/* Takes `text` when it comes next; a word is taken whole or not at all. */
bool yir_accept_text(struct yir_scan *s, const char *text);
int yir_expect_text(struct yir_scan *s, const char *text);

bool yir_is_digit(char c);
bool yir_is_word_char(char c); /* letter, digit, '_' */
bool yir_span_is(struct yir_span w, const char *text);
/* The longest run of such characters, maybe none. */
struct yir_span yir_take(struct yir_scan *s, bool (*in_set)(char));
int yir_take_name(struct yir_scan *s, struct yir_span *out);

int yir_take_uint(struct yir_scan *s, uint64_t max, uint64_t *out); /* digits without sign, at most max */
int yir_take_index(struct yir_scan *s, char letter, uint64_t max, uint64_t *out); /* as b3: no blank between */
int yir_take_field(struct yir_scan *s, const char *name, uint64_t max, uint64_t *out); /* NAME=number */
int yir_take_int32(struct yir_scan *s, int32_t *out);
int yir_take_float(struct yir_scan *s, float *out); /* or inf; not nan */

#endif
