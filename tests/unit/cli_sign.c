/* Keys and signatures: against the vectors of RFC 8032, every changed bit, every cut, and files that are none. */
#include "sign/yolosign.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* RFC 8032, 7.1, TEST 2: the message is the byte 0x72. */
#define SEED      "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
#define PUB       "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
#define SIGNATURE "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" \
                  "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
static const char secret_text[] = "yolosign-secret-1 " SEED PUB "\n";
static const char pub_text[] = "yolosign-public-1 " PUB "\n";
static const char signature_text[] = "yolosign-signature-1 3d4017c3e843895a" SIGNATURE "\n";
static const char message[] = "r";

static yolosign_status check(const char *pub, size_t npub, const char *sig, size_t nsig)
{
    return yolosign_check(pub, npub, sig, nsig, message, 1);
}

Test(cli_sign, vector_of_the_standard)
{
    char out[YOLOSIGN_TEXT];
    cr_assert_eq(yolosign_make(secret_text, strlen(secret_text), message, 1, out), YOLOSIGN_OK);
    cr_expect_str_eq(out, signature_text);
    cr_expect_eq(check(pub_text, strlen(pub_text), out, strlen(out)), YOLOSIGN_OK);
    cr_expect_eq(yolosign_check(pub_text, strlen(pub_text), out, strlen(out), "s", 1), YOLOSIGN_MISMATCH);
    cr_expect_eq(yolosign_check(pub_text, strlen(pub_text), out, strlen(out), "r", 0), YOLOSIGN_MISMATCH);
    cr_expect_eq(yolosign_check(pub_text, strlen(pub_text), out, strlen(out), "rr", 2), YOLOSIGN_MISMATCH);
}

Test(cli_sign, fresh_keys)
{
    char secret[2][YOLOSIGN_TEXT], pub[2][YOLOSIGN_TEXT], sig[YOLOSIGN_TEXT];
    for (int i = 0; i < 2; i++) cr_assert_eq(yolosign_key_new(secret[i], pub[i]), YOLOSIGN_OK);
    cr_expect_str_neq(pub[0], pub[1]);
    cr_assert_eq(yolosign_make(secret[0], strlen(secret[0]), message, 1, sig), YOLOSIGN_OK);
    cr_expect_eq(check(pub[0], strlen(pub[0]), sig, strlen(sig)), YOLOSIGN_OK);
    cr_expect_eq(check(pub[1], strlen(pub[1]), sig, strlen(sig)), YOLOSIGN_KEY);
    yolosign_wipe(secret[0]);
    for (size_t i = 0; i < YOLOSIGN_TEXT; i++) cr_assert_eq(secret[0][i], 0);
}

/* The public key is named in the signature; a name that was put there by hand does not help. */
Test(cli_sign, name_of_the_key_is_no_proof)
{
    char secret[YOLOSIGN_TEXT], pub[YOLOSIGN_TEXT], sig[YOLOSIGN_TEXT];
    cr_assert_eq(yolosign_key_new(secret, pub), YOLOSIGN_OK);
    cr_assert_eq(yolosign_make(secret_text, strlen(secret_text), message, 1, sig), YOLOSIGN_OK);
    memcpy(sig + strlen("yolosign-signature-1 "), pub + strlen("yolosign-public-1 "), 16);
    cr_expect_eq(check(pub, strlen(pub), sig, strlen(sig)), YOLOSIGN_MISMATCH);
}

/* `text` with one bit changed, or cut, or longer, in each way: never accepted. */
static void spoil(const char *text, yolosign_status (*use)(const char *text, size_t n))
{
    size_t n = strlen(text);
    char *copy = malloc(n + 1);
    cr_assert_eq(use(text, n), YOLOSIGN_OK);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        memcpy(copy, text, n);
        copy[bit / 8] ^= (char)(1 << bit % 8);
        cr_assert_neq(use(copy, n), YOLOSIGN_OK, "bit %zu of '%s'", bit, text);
    }
    free(copy);
    for (size_t k = 0; k < n; k++) {
        copy = malloc(k + 1); /* exactly: a read beyond is seen by the sanitizer */
        memcpy(copy, text, k);
        cr_assert_eq(use(copy, k), YOLOSIGN_FORMAT, "the first %zu bytes of '%s'", k, text);
        free(copy);
    }
    copy = malloc(n + 1);
    for (int c = 0; c < 256; c++) {
        memcpy(copy, text, n);
        copy[n] = (char)c;
        cr_assert_eq(use(copy, n + 1), YOLOSIGN_FORMAT);
    }
    free(copy);
}

static yolosign_status as_pub(const char *text, size_t n)
{
    return check(text, n, signature_text, strlen(signature_text));
}

static yolosign_status as_signature(const char *text, size_t n)
{
    return check(pub_text, strlen(pub_text), text, n);
}

static yolosign_status as_secret(const char *text, size_t n)
{
    char out[YOLOSIGN_TEXT];
    return yolosign_make(text, n, message, 1, out);
}

Test(cli_sign, spoiled_public_keys)
{
    spoil(pub_text, as_pub);
}

Test(cli_sign, spoiled_signatures)
{
    spoil(signature_text, as_signature);
}

Test(cli_sign, spoiled_secret_keys)
{
    spoil(secret_text, as_secret);
}

Test(cli_sign, every_bit_of_what_is_signed)
{
    enum { N = 300 };
    unsigned char bytes[N];
    char sig[YOLOSIGN_TEXT];
    for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(i * 7);
    cr_assert_eq(yolosign_make(secret_text, strlen(secret_text), bytes, N, sig), YOLOSIGN_OK);
    for (int bit = 0; bit < 8 * N; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        cr_assert_eq(yolosign_check(pub_text, strlen(pub_text), sig, strlen(sig), bytes, N), YOLOSIGN_MISMATCH);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

/* The order of the group added to S: the same point, but not the one number that a signature may hold; and keys of small
 * order, under which anything could be signed. */
Test(cli_sign, weak_points_and_numbers)
{
    static const char *const signatures[] = {
        "yolosign-signature-1 3d4017c3e843895a"
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "f52db7415978abc61b2c2eb6aeebfca0387b2eaeb4302aeeb00d291612bb0c10\n",
        "yolosign-signature-1 3d4017c3e843895a"
        "0000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000\n",
    };
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        cr_expect_eq(as_signature(signatures[i], strlen(signatures[i])), YOLOSIGN_MISMATCH);
    static const char zero_key[] =
        "yolosign-public-1 0100000000000000000000000000000000000000000000000000000000000000\n";
    static const char zero_signature[] =
        "yolosign-signature-1 0100000000000000"
        "0100000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000\n";
    cr_expect_eq(check(zero_key, strlen(zero_key), zero_signature, strlen(zero_signature)), YOLOSIGN_MISMATCH);
}

/* --- files --- */

static char folder[64];

static char *put(const char *name, const char *text, size_t n)
{
    static char path[4][128];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    FILE *f = fopen(p, "wb");
    cr_assert_not_null(f);
    fwrite(text, 1, n, f);
    fclose(f);
    return p;
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/cli_sign.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

Test(cli_sign, files, .init = make_folder, .fini = remove_folder)
{
    char error[200] = "", out[YOLOSIGN_TEXT], fifo[128];
    const char *pub = put("k.pub", pub_text, strlen(pub_text)), *key = put("k.key", secret_text, strlen(secret_text));
    const char *sig = put("m.sig", signature_text, strlen(signature_text));
    cr_expect_eq(yolosign_check_files(pub, sig, message, 1, error, sizeof error), YOLOSIGN_OK, "%s", error);
    cr_expect_eq(yolosign_make_file(key, message, 1, out, error, sizeof error), YOLOSIGN_OK, "%s", error);
    cr_expect_str_eq(out, signature_text);
    cr_expect_eq(yolosign_check_files(pub, "/nowhere", message, 1, error, sizeof error), YOLOSIGN_IO);
    cr_expect(strstr(error, "/nowhere: No such file"), "%s", error);
    cr_expect_eq(yolosign_check_files(pub, folder, message, 1, error, sizeof error), YOLOSIGN_IO);
    cr_expect(strstr(error, "not a regular file"), "%s", error);
    cr_expect_eq(yolosign_check_files(key, sig, message, 1, error, sizeof error), YOLOSIGN_FORMAT);
    cr_expect(strstr(error, "k.key: not a public key"), "%s", error);
    cr_expect_eq(yolosign_check_files(pub, pub, message, 1, error, sizeof error), YOLOSIGN_FORMAT);
    cr_expect(strstr(error, "k.pub: not a signature of `yoloc sign`"), "%s", error);
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    cr_expect_eq(yolosign_check_files(fifo, sig, message, 1, error, sizeof error), YOLOSIGN_IO);
    cr_expect_eq(yolosign_check_files(pub, fifo, message, 1, NULL, 0), YOLOSIGN_IO);
    cr_expect_eq(yolosign_check_files("/dev/zero", sig, message, 1, error, 1), YOLOSIGN_IO);
    cr_expect_eq(error[0], 0);
}

Test(cli_sign, arguments)
{
    char error[64], out[YOLOSIGN_TEXT];
    cr_expect_eq(yolosign_key_new(NULL, out), YOLOSIGN_ARG);
    cr_expect_eq(yolosign_make(NULL, 0, message, 1, out), YOLOSIGN_ARG);
    cr_expect_eq(check(NULL, 0, signature_text, 1), YOLOSIGN_ARG);
    cr_expect_eq(yolosign_check_files(NULL, "x", message, 1, error, sizeof error), YOLOSIGN_ARG);
    cr_expect_eq(yolosign_check_files("x", NULL, message, 1, error, sizeof error), YOLOSIGN_ARG);
    yolosign_wipe(NULL);
    cr_expect_eq(yolosign_version(), YOLOC_VERSION);
    for (int s = 0; s <= YOLOSIGN_RESOURCE; s++) cr_expect_neq(yolosign_status_text((yolosign_status)s)[0], 0);
    cr_expect_str_eq(yolosign_status_text((yolosign_status)99), "unknown status");
}
