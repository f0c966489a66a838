#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "line.h"
#include "yolosign.h"

struct told {
    char *error;
    size_t size;
};

static yolosign_status tell(const struct told *t, yolosign_status s, const char *path, const char *what)
{
    if (t->error && t->size) snprintf(t->error, t->size, "%s: %s", path, what);
    return s;
}

/* One byte more than any text has, so that what is longer is seen. 0, or -1 with errno. */
static int read_some(int fd, char text[YOLOSIGN_TEXT], size_t *n)
{
    *n = 0;
    while (*n < YOLOSIGN_TEXT) {
        ssize_t got = read(fd, text + *n, YOLOSIGN_TEXT - *n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) return 0;
        *n += (size_t)got;
    }
    return 0;
}

/* Never waits for a FIFO or device. */
static yolosign_status read_text(const char *path, char text[YOLOSIGN_TEXT], size_t *n, const struct told *t)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return tell(t, YOLOSIGN_IO, path, strerror(errno));
    const char *why = NULL;
    if (fstat(fd, &st) != 0)
        why = strerror(errno);
    else if (!SIGN_HOLDS(SIGN_FILE_REGULAR, S_ISREG(st.st_mode)))
        why = "not a regular file";
    else if (read_some(fd, text, n) != 0)
        why = strerror(errno);
    close(fd);
    return why ? tell(t, YOLOSIGN_IO, path, why) : YOLOSIGN_OK;
}

yolosign_status yolosign_make_file(const char *secret_path, const void *bytes, size_t size,
                                   char signature[YOLOSIGN_TEXT], char *error, size_t error_size)
{
    const struct told t = {error, error_size};
    char secret[YOLOSIGN_TEXT];
    size_t n;
    if (!secret_path) return tell(&t, YOLOSIGN_ARG, "secret key", "no file is given");
    yolosign_status s = read_text(secret_path, secret, &n, &t);
    if (s) return s;
    s = yolosign_make(secret, n, bytes, size, signature);
    yolosign_wipe(secret);
    if (s == YOLOSIGN_FORMAT) return tell(&t, s, secret_path, "not a secret key of `yoloc sign`, or a damaged one");
    return s ? tell(&t, s, secret_path, yolosign_status_text(s)) : s;
}

yolosign_status yolosign_check_files(const char *pub_path, const char *signature_path, const void *bytes, size_t size,
                                     char *error, size_t error_size)
{
    const struct told t = {error, error_size};
    char pub[YOLOSIGN_TEXT], signature[YOLOSIGN_TEXT];
    size_t npub, nsignature;
    if (!pub_path || !signature_path) return tell(&t, YOLOSIGN_ARG, "signature", "no file is given");
    yolosign_status s = read_text(pub_path, pub, &npub, &t);
    if (!s) s = read_text(signature_path, signature, &nsignature, &t);
    if (s) return s;
    if (!sign_is_public(pub, npub))
        return tell(&t, YOLOSIGN_FORMAT, pub_path, "not a public key of `yoloc sign`, or a damaged one");
    s = yolosign_check(pub, npub, signature, nsignature, bytes, size);
    if (s == YOLOSIGN_FORMAT)
        return tell(&t, s, signature_path, "not a signature of `yoloc sign`, or a damaged one");
    return s ? tell(&t, s, signature_path, yolosign_status_text(s)) : s;
}
