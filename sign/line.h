/* The one-line texts of keys and signatures. */
#ifndef SIGN_LINE_H
#define SIGN_LINE_H

#include <stddef.h>

struct sign_kind {
    const char *name;
    size_t bytes;
};

/* text has room for YOLOSIGN_TEXT. */
void sign_line_put(const struct sign_kind *k, const unsigned char *bytes, char *text);

/* 0 when the n bytes of text are exactly what put would write; then `bytes` is filled. Takes the same time for all
 * digits. */
int sign_line_get(const struct sign_kind *k, const char *text, size_t n, unsigned char *bytes);

/* Whether the text is a public key (yolosign.c). */
int sign_is_public(const char *text, size_t n);

#endif
