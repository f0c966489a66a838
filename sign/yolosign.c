#include "yolosign.h"

#include <sodium.h>
#include <string.h>

#include "check.h"
#include "line.h"

#define ID_BYTES 8

_Static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_BYTES == 64,
               "Ed25519 as RFC 8032 has it");

static const struct sign_kind public_key = {"yolosign-public-1", crypto_sign_PUBLICKEYBYTES};
static const struct sign_kind secret_key = {"yolosign-secret-1", crypto_sign_SECRETKEYBYTES};
static const struct sign_kind signature_of = {"yolosign-signature-1", ID_BYTES + crypto_sign_BYTES};

uint32_t yolosign_version(void)
{
    return YOLOC_VERSION;
}

const char *yolosign_status_text(yolosign_status s)
{
    static const char *const texts[] = {
        [YOLOSIGN_OK] = "right",
        [YOLOSIGN_FORMAT] = "damaged, or of another kind",
        [YOLOSIGN_KEY] = "made with another key",
        [YOLOSIGN_MISMATCH] = "not a signature of this file, which was changed or swapped",
        [YOLOSIGN_IO] = "cannot be read",
        [YOLOSIGN_ARG] = "an argument is wrong",
        [YOLOSIGN_RESOURCE] = "the system gives no random numbers",
    };
    return (unsigned)s < sizeof texts / sizeof *texts ? texts[s] : "unknown status";
}

yolosign_status yolosign_key_new(char secret[YOLOSIGN_TEXT], char pub[YOLOSIGN_TEXT])
{
    unsigned char sk[crypto_sign_SECRETKEYBYTES], pk[crypto_sign_PUBLICKEYBYTES];
    if (!secret || !pub) return YOLOSIGN_ARG;
    if (sodium_init() < 0) return YOLOSIGN_RESOURCE;
    crypto_sign_keypair(pk, sk);
    sign_line_put(&secret_key, sk, secret);
    sign_line_put(&public_key, pk, pub);
    sodium_memzero(sk, sizeof sk);
    return YOLOSIGN_OK;
}

void yolosign_wipe(char text[YOLOSIGN_TEXT])
{
    if (text) sodium_memzero(text, YOLOSIGN_TEXT);
}

/* A secret key whose halves do not belong together would sign for nobody, and may give the seed away. */
static yolosign_status get_secret(const char *text, size_t n, unsigned char sk[crypto_sign_SECRETKEYBYTES])
{
    unsigned char pk[crypto_sign_PUBLICKEYBYTES], again[crypto_sign_SECRETKEYBYTES];
    if (sign_line_get(&secret_key, text, n, sk) != 0) return YOLOSIGN_FORMAT;
    crypto_sign_seed_keypair(pk, again, sk);
    int same = sodium_memcmp(sk, again, sizeof again) == 0;
    sodium_memzero(again, sizeof again);
    return SIGN_HOLDS(SIGN_SECRET, same) ? YOLOSIGN_OK : YOLOSIGN_FORMAT;
}

yolosign_status yolosign_make(const char *secret, size_t n, const void *bytes, size_t size,
                              char signature[YOLOSIGN_TEXT])
{
    unsigned char sk[crypto_sign_SECRETKEYBYTES], out[ID_BYTES + crypto_sign_BYTES];
    if (!secret || !bytes || !signature) return YOLOSIGN_ARG;
    if (sodium_init() < 0) return YOLOSIGN_RESOURCE;
    yolosign_status s = get_secret(secret, n, sk);
    if (!s) {
        memcpy(out, sk + crypto_sign_SEEDBYTES, ID_BYTES);
        crypto_sign_detached(out + ID_BYTES, NULL, bytes, size, sk);
        sign_line_put(&signature_of, out, signature);
    }
    sodium_memzero(sk, sizeof sk);
    return s;
}

yolosign_status yolosign_check(const char *pub, size_t npub, const char *signature, size_t nsignature,
                               const void *bytes, size_t size)
{
    unsigned char pk[crypto_sign_PUBLICKEYBYTES], sig[ID_BYTES + crypto_sign_BYTES];
    if (!pub || !signature || !bytes) return YOLOSIGN_ARG;
    if (sodium_init() < 0) return YOLOSIGN_RESOURCE;
    if (sign_line_get(&public_key, pub, npub, pk) != 0) return YOLOSIGN_FORMAT;
    if (sign_line_get(&signature_of, signature, nsignature, sig) != 0) return YOLOSIGN_FORMAT;
    if (!SIGN_HOLDS(SIGN_KEY, memcmp(sig, pk, ID_BYTES) == 0)) return YOLOSIGN_KEY;
    int right = crypto_sign_verify_detached(sig + ID_BYTES, bytes, size, pk) == 0;
    return SIGN_HOLDS(SIGN_VERIFY, right) ? YOLOSIGN_OK : YOLOSIGN_MISMATCH;
}

int sign_is_public(const char *text, size_t n)
{
    unsigned char pk[crypto_sign_PUBLICKEYBYTES];
    return sign_line_get(&public_key, text, n, pk) == 0;
}
