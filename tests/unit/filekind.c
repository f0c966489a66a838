#include <criterion/criterion.h>
#include <string.h>

#include "readcheck.h"

Test(filekind, what_is_no_weights_file)
{
    static char tar[512] = "name";
    memcpy(tar + 257, "ustar", 5);
    const struct {
        const char *bytes;
        size_t len;
        const char *part;
    } rows[] = {
        {"", 0, "is empty"},
        {"  <!DOCTYPE html><html>", 23, "web page"},
        {"\xef\xbb\xbf<HTML>", 9, "web page"},
        {"version https://git-lfs.github.com/spec/v1\n", 43, "Git LFS"},
        {"PYTORCH1", 8, "PYTORCH1"},
        {"\x80\2}q\0.", 6, "plain pickle"},
        {"\x1f\x8b\x08\x00", 4, "gzip"},
        {"\x08\x06\x12\x07pytorch\x1a\x05xxxxx", 18, "ONNX"},
        {"\x7f"
         "ELF\2",
         5, "program"},
        {"\0\0\0\0\2\0\0\0\5\0\0\0", 12, "Darknet"},
        {"just text\n", 10, "text file"},
        {"\1\2\3", 3, "neither"},
        {tar, sizeof tar, "tar"},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct readcheck r = readcheck_bytes(rows[i].bytes, rows[i].len, NULL);
        cr_assert(!r.w && readcheck_id(&r) == E_PT_KIND, "row %zu", i);
        cr_assert(strstr(readcheck_text(&r), rows[i].part), "%s, not: %s", readcheck_text(&r), rows[i].part);
        cr_assert_null(strchr(readcheck_text(&r), '\n'));
        readcheck_end(&r);
    }
    struct readcheck r = readcheck_file("tests");
    cr_assert(!r.w && readcheck_id(&r) == E_OPEN && strstr(readcheck_text(&r), "directory"));
    readcheck_end(&r);
    r = readcheck_file("tests/no-such-file.pt");
    cr_assert(!r.w && readcheck_id(&r) == E_OPEN);
    readcheck_end(&r);
}
