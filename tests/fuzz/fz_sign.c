/* A public key's line, a signature's line and the signed bytes. Nobody who knows no secret finds a signature, so what is right
 * is right to the letter: the key of the seeds, and the text that its secret key gives. */
#include <stdlib.h>
#include <string.h>

#include "sign/yolosign.h"
#include "signkey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The line at the start of the n bytes of *text, alone in memory; the rest is left. */
static char *take_line(const uint8_t **text, size_t *n, size_t *length)
{
    const uint8_t *end = memchr(*text, '\n', *n);
    *length = end ? (size_t)(end - *text) + 1 : *n;
    char *line = malloc(*length ? *length : 1);
    if (!line) abort();
    memcpy(line, *text, *length);
    *text += *length;
    *n -= *length;
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char right[YOLOSIGN_TEXT];
    size_t npub, nsig;
    if (!size) return 0;
    char *pub = take_line(&data, &size, &npub), *sig = take_line(&data, &size, &nsig);
    if (yolosign_check(pub, npub, sig, nsig, data, size) == YOLOSIGN_OK) {
        if (yolosign_make(sign_key_secret, strlen(sign_key_secret), data, size, right)) __builtin_trap();
        if (npub != strlen(sign_key_public) || memcmp(pub, sign_key_public, npub) != 0) __builtin_trap();
        if (nsig != strlen(right) || memcmp(sig, right, nsig) != 0) __builtin_trap();
    }
    yolosign_make(pub, npub, data, size, right);
    free(pub);
    free(sig);
    return 0;
}
