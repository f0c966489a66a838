/* A growing text, and the pieces of JSON that are easily got wrong. Nothing here depends on the locale. When
 * memory runs out the text is marked failed and stays as it is; the one check is made where it is written
 * out. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include "error.h"

#include <stddef.h>
#include <stdio.h>

struct cli_text {
    char *p;        /* NUL-terminated once something was added; NULL before */
    size_t n, cap;
    int failed;
};

void cli_text_add(struct cli_text *t, const char *s);
void cli_text_addf(struct cli_text *t, const char *format, ...)
    CLI_PRINTF(2, 3); /* integers and strings only */

/* At most `decimals` (0..9), without trailing zeros but with one decimal at least: 48.5, 3.0. NaN and numbers
 * beyond 1e15 give "null". */
void cli_text_number(struct cli_text *t, double v, int decimals);

/* Exactly `decimals`, right-aligned in `width` columns; "-" for NaN. */
void cli_text_column(struct cli_text *t, double v, int decimals, int width);

/* For a terminal: what it must not get (ir/utf8.h) becomes '?'; filled with spaces up to `width` characters. */
void cli_text_plain(struct cli_text *t, const char *s, int width);

/* In quotes, escaped; bytes that are not UTF-8 become U+FFFD. */
void cli_text_json(struct cli_text *t, const char *s);

/* A member of a JSON object, with the comma before it. */
void cli_text_member(struct cli_text *t, const char *key, const char *value);
void cli_text_member_number(struct cli_text *t, const char *key, double v, int decimals);

/* Writes to the stream and empties the text. */
int cli_text_flush(struct cli_text *t, FILE *to, struct cli_error *e);
void cli_text_free(struct cli_text *t);

#endif
