/* Run lengths of masks, and their packed form read back by the rule that COCO's tools use. */
#include "frontend/cli/rle.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* 3 high, 2 wide: columns 0 1 1 and 1 0 0. */
static const uint8_t small[6] = {0, 1, 1, 0, 1, 0};

Test(cli_rle, column_by_column)
{
    struct cli_rle r;
    struct cli_text t = {0};
    cr_assert_eq(cli_rle_new(&r, small, 2, 3), 0);
    cli_rle_counts(&t, &r);
    cr_expect_str_eq(t.p, "[1,3,2]");
    cli_text_free(&t);
    cli_rle_free(&r);
    const uint8_t full[2] = {1, 1};
    cr_assert_eq(cli_rle_new(&r, full, 1, 2), 0);
    cr_assert_eq(r.n, 2);
    cr_expect(r.count[0] == 0 && r.count[1] == 2);
    cli_rle_free(&r);
}

/* Counts out of a packed text without its quotes and escapes; how many. */
static size_t unpack(const char *s, int64_t *count, size_t room)
{
    size_t n = 0;
    while (*s && n < room) {
        int64_t v = 0;
        int shift = 0, c;
        do {
            c = *s++ - '0';
            v |= (int64_t)(c & 31) << shift;
            shift += 5;
        } while (c & 32);
        if (c & 16)
            v -= (int64_t)1 << shift;
        count[n] = v + (n > 2 ? count[n - 2] : 0);
        n++;
    }
    return n;
}

static void check_packed(const uint8_t *mask, int width, int height)
{
    struct cli_rle r;
    struct cli_text t = {0};
    cr_assert_eq(cli_rle_new(&r, mask, width, height), 0);
    cli_rle_packed(&t, &r);
    char *plain = calloc(t.n + 1, 1), *to = plain;
    int64_t *count = calloc(r.n + 1, sizeof *count);
    cr_assert(plain && count && t.n >= 2);
    cr_expect(t.p[0] == '"' && t.p[t.n - 1] == '"');
    for (size_t i = 1; i + 1 < t.n; i++) {
        i += t.p[i] == '\\'; /* in JSON it stands twice */
        *to++ = t.p[i];
    }
    cr_assert_eq(unpack(plain, count, r.n + 1), r.n);
    for (size_t i = 0; i < r.n; i++)
        cr_expect_eq(count[i], r.count[i], "%zu", i);
    free(count);
    free(plain);
    cli_text_free(&t);
    cli_rle_free(&r);
}

Test(cli_rle, packed_is_read_back)
{
    static uint8_t mask[90 * 70];
    uint32_t state = 1;
    check_packed(small, 2, 3);
    for (int k = 0; k < 40; k++) {
        uint32_t rare = 1u << (k % 12);
        for (size_t i = 0; i < sizeof mask; i++) {
            state = state * 1664525u + 1013904223u;
            mask[i] = (uint8_t)((i ? mask[i - 1] : 0) ^ ((state >> 12) % rare == 0));
        }
        check_packed(mask, 90, 70);
    }
}
