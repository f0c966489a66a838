/*
 * yolosign: detached Ed25519 signatures of module files, through libsodium. C11 and C++. It is a library of its own so
 * that yolort needs none; docs/verify-origin.md shows both together.
 *
 * A signature is that of RFC 8032 (Ed25519, not prehashed) over the bytes of the file as they are. Keys and signatures
 * are texts of one line: what it is, a blank, lower-case hexadecimal digits, a newline, and nothing else:
 *   yolosign-public-1 <32 bytes: the key>
 *   yolosign-secret-1 <64 bytes: the seed, then the public key that follows from it>
 *   yolosign-signature-1 <72 bytes: the first 8 of the public key, then the signature>
 *
 * Threads: all functions may be called from any thread. Nothing is kept between calls.
 */
#ifndef YOLOSIGN_H
#define YOLOSIGN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define YOLOSIGN_API __attribute__((visibility("default")))
#else
#define YOLOSIGN_API
#endif

#define YOLOSIGN_TEXT 192 /* room for each of the three texts with its NUL */

typedef enum yolosign_status {
    YOLOSIGN_OK = 0,
    YOLOSIGN_FORMAT = 1,   /* a text is not what it should be: another kind, damaged, cut short, or longer */
    YOLOSIGN_KEY = 2,      /* the signature was made with another key */
    YOLOSIGN_MISMATCH = 3, /* by this key, but not over these bytes */
    YOLOSIGN_IO = 4,
    YOLOSIGN_ARG = 5,
    YOLOSIGN_RESOURCE = 6  /* no randomness */
} yolosign_status;

/* 0x00XXYYZZ of the library, and what a status says, in lower case. */
YOLOSIGN_API uint32_t yolosign_version(void);
YOLOSIGN_API const char *yolosign_status_text(yolosign_status s);

/* A fresh pair; texts are NUL-terminated. The secret one is wiped with yolosign_wipe once it is stored. */
YOLOSIGN_API yolosign_status yolosign_key_new(char secret[YOLOSIGN_TEXT], char pub[YOLOSIGN_TEXT]);
YOLOSIGN_API void yolosign_wipe(char text[YOLOSIGN_TEXT]);

/* The signature of `size` bytes with a secret key's text of n bytes. */
YOLOSIGN_API yolosign_status yolosign_make(const char *secret, size_t n, const void *bytes, size_t size,
                                           char signature[YOLOSIGN_TEXT]);

/* OK only when the signature is by this key over exactly these bytes. The texts may hold anything. */
YOLOSIGN_API yolosign_status yolosign_check(const char *pub, size_t npub, const char *signature, size_t nsignature,
                                            const void *bytes, size_t size);

/* The same with the texts in files. `error` (may be NULL) gets one line that names the file, always terminated, when the
 * status is not OK. The bytes are the caller's, in memory, and those it loads afterwards: a file that was checked and is
 * then opened again may be another one. */
YOLOSIGN_API yolosign_status yolosign_make_file(const char *secret_path, const void *bytes, size_t size,
                                                char signature[YOLOSIGN_TEXT], char *error, size_t error_size);
YOLOSIGN_API yolosign_status yolosign_check_files(const char *pub_path, const char *signature_path, const void *bytes,
                                                  size_t size, char *error, size_t error_size);

#ifdef __cplusplus
}
#endif
#endif
