#include "filekind.h"

#include <string.h>
#include <strings.h>

/* Bytes by which a kind of file is known. The first row that fits counts. */
struct row {
    const char *magic;
    uint16_t n, at;
    bool text; /* compared without case, after blanks and a byte order mark */
    enum fe_filekind kind;
    const char *what;
};

#define READ(magic, kind)                                                                                    \
    {                                                                                                        \
        magic, sizeof magic - 1, 0, false, kind, ""                                                          \
    }
#define OTHER(magic, at, what)                                                                               \
    {                                                                                                        \
        magic, sizeof magic - 1, at, false, FE_FILE_OTHER, what                                              \
    }
#define TEXT(magic, what)                                                                                    \
    {                                                                                                        \
        magic, sizeof magic - 1, 0, true, FE_FILE_OTHER, what                                                \
    }

static const struct row rows[] = {
    READ("PK\3\4", FE_FILE_PT_ZIP),
    READ("PK\5\6", FE_FILE_PT_ZIP),
    /* The pickle of 0x1950a86a20f9469cfc6c. */
    READ("\x80\2\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", FE_FILE_PT_LEGACY),
    OTHER("\x80", 0, "is a plain pickle, not a checkpoint made by torch.save"),
    TEXT("<!doctype", "is a web page, not a weights file: the download went wrong"),
    TEXT("<html", "is a web page, not a weights file: the download went wrong"),
    TEXT("<", "is HTML or XML text, not a weights file"),
    TEXT("version https://git-lfs",
         "is a Git LFS pointer, not the weights themselves: fetch them with `git lfs pull`"),
    OTHER("ustar", 257,
          "is a tar archive; checkpoints in tar form (of the first PyTorch versions) are not read"),
    OTHER("PYTORCH1", 0, "is in the preview format PYTORCH1, which is not read"),
    OTHER("\x1f\x8b", 0, "is compressed with gzip: unpack it first"),
    OTHER("7z\xbc\xaf\x27\x1c", 0, "is a 7z archive: unpack it first"),
    OTHER("Rar!", 0, "is a rar archive: unpack it first"),
    OTHER("\x89HDF", 0, "is an HDF5 file (Keras?), not a PyTorch checkpoint"),
    OTHER("GGUF", 0, "is a GGUF file, not a PyTorch checkpoint"),
    OTHER("TFL3", 4, "is a TensorFlow Lite model, not a PyTorch checkpoint"),
    OTHER("\177ELF", 0, "is a program or library, not a weights file"),
    OTHER("\xff\xd8\xff", 0, "is a JPEG image, not a weights file"),
    OTHER("\x89PNG", 0, "is a PNG image, not a weights file"),
    /* major, minor, revision of the format: 0.1.0 and 0.2.x */
    OTHER("\0\0\0\0\1\0\0\0\0\0\0\0", 0, "looks like Darknet weights, which are not read"),
    OTHER("\0\0\0\0\2\0\0\0", 0, "looks like Darknet weights, which are not read"),
};

static size_t skip_blanks(const uint8_t *p, size_t len)
{
    size_t at = len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < len && strchr(" \t\r\n", p[at]) && p[at])
        at++;
    return at;
}

static bool fits(const struct row *r, const uint8_t *p, size_t len, size_t blanks)
{
    size_t at = r->text ? blanks : r->at;
    if (len < at + r->n) return false;
    const char *s = (const char *)p + at;
    return r->text ? strncasecmp(s, r->magic, r->n) == 0 : memcmp(s, r->magic, r->n) == 0;
}

/* Protocol buffer that starts with the field ir_version and one of the next few. */
static bool is_onnx(const uint8_t *p, size_t len)
{
    return len > 16 && p[0] == 0x08 && p[1] > 0 && p[1] < 32 && p[2] &&
           strchr("\x12\x1a\x22\x2a\x32\x3a\x42", p[2]);
}

static bool is_text(const uint8_t *p, size_t len)
{
    size_t n = len < 512 ? len : 512;
    for (size_t i = 0; i < n; i++) {
        if ((p[i] < 32 && !strchr("\t\r\n\f", p[i])) || p[i] == 0 || p[i] == 127) return false;
    }
    return true;
}

enum fe_filekind fe_filekind_of(const uint8_t *p, size_t len, const char **what)
{
    static const uint8_t zeros[4] = {0};
    size_t blanks = skip_blanks(p, len);
    *what = "";
    /* First of all: the low byte of a header's size may be that of any other kind. */
    if (len >= 9 && p[8] == '{' && memcmp(p + 4, zeros, 4) == 0) return FE_FILE_SAFETENSORS;
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        if (!fits(&rows[i], p, len, blanks)) continue;
        *what = rows[i].what;
        return rows[i].kind;
    }
    if (len >= 9 && p[8] == '{') return FE_FILE_SAFETENSORS;
    if (len == 0)
        *what = "is empty";
    else if (is_onnx(p, len))
        *what = "looks like an ONNX model, not like a PyTorch checkpoint";
    else if (is_text(p, len))
        *what = "is a text file, not a weights file";
    else
        *what = "is neither a PyTorch checkpoint nor a safetensors file";
    return FE_FILE_OTHER;
}
