/* Text from outside, character by character, for what prints it. Needs nothing else, so that the command may use it too. */
#ifndef YIR_UTF8_H
#define YIR_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes of the well-formed UTF-8 sequence at s (Unicode table 3-7), of which n may be read or up to a NUL; *c: the character. 0 when
 * there is none. */
static inline size_t yir_utf8(const char *s, size_t n, uint32_t *c)
{
    const unsigned char *p = (const unsigned char *)s;
    if (!n) return 0;
    *c = p[0];
    if (p[0] < 0x80) return 1;
    size_t k = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || k > n) return 0;
    *c &= 0xffu >> (k + 1);
    for (size_t i = 1; i < k; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        *c = *c << 6 | (p[i] & 0x3f);
    }
    uint32_t least = k == 4 ? 0x10000 : k == 3 ? 0x800 : 0x80;
    return *c < least || *c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000) ? 0 : k;
}

/* A terminal may get it as it is: no control character, of which C1 has introducers of escape sequences too, and none that breaks
 * lines or turns the direction of what follows. */
static inline int yir_is_shown(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return 0;
    return c != 0x61c && c != 0x200e && c != 0x200f && !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069);
}

/* Bytes of the character at s when a terminal may get it, else 0. */
static inline size_t yir_shown(const char *s, size_t n)
{
    uint32_t c;
    size_t k = yir_utf8(s, n, &c);
    return k && yir_is_shown(c) ? k : 0;
}

/* The character at s, read as by yir_utf8, as it stands in a JSON string: out gets *len bytes of it. Returns how many it takes at s, one
 * where there is none, which gives U+FFFD. */
static inline size_t yir_json(const char *s, size_t n, char out[6], size_t *len)
{
    uint32_t c;
    size_t k = yir_utf8(s, n, &c);
    if (k && yir_is_shown(c)) {
        size_t mark = c == '"' || c == '\\';
        out[0] = '\\';
        memcpy(out + mark, s, k);
        *len = mark + k;
        return k;
    }
    if (!k) c = 0xfffd;
    memcpy(out, "\\u", 2); /* none that must not be shown has more than 16 bits */
    for (int i = 0; i < 4; i++)
        out[2 + i] = "0123456789abcdef"[c >> (12 - 4 * i) & 15];
    *len = 6;
    return k ? k : 1;
}

#endif
