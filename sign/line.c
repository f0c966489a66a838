#include "line.h"

#include <sodium.h>
#include <string.h>

#include "check.h"
#include "yolosign.h"

void sign_line_put(const struct sign_kind *k, const unsigned char *bytes, char *text)
{
    size_t n = strlen(k->name);
    memcpy(text, k->name, n);
    text[n] = ' ';
    sodium_bin2hex(text + n + 1, YOLOSIGN_TEXT - n - 1, bytes, k->bytes);
    n += 1 + 2 * k->bytes;
    text[n] = '\n';
    text[n + 1] = 0;
}

/* sodium_hex2bin also takes capitals; here one value has one text, so that no changed byte goes unnoticed. */
int sign_line_get(const struct sign_kind *k, const char *text, size_t n, unsigned char *bytes)
{
    char again[YOLOSIGN_TEXT];
    size_t head = strlen(k->name) + 1, got = 0;
    if (!SIGN_HOLDS(SIGN_LENGTH, n == head + 2 * k->bytes + 1)) return -1;
    if (sodium_hex2bin(bytes, k->bytes, text + head, 2 * k->bytes, NULL, &got, NULL) != 0 || got != k->bytes) return -1;
    sign_line_put(k, bytes, again);
    int same = sodium_memcmp(text, again, n) == 0;
    sodium_memzero(again, sizeof again);
    if (SIGN_HOLDS(SIGN_CANONICAL, same)) return 0;
    sodium_memzero(bytes, k->bytes);
    return -1;
}
