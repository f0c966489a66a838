#include "rle.h"

#include <stdlib.h>

static int at(const uint8_t *mask, size_t i, size_t width, size_t height)
{
    return mask[i % height * width + i / height] != 0;
}

static size_t count_runs(const uint8_t *mask, size_t width, size_t height)
{
    size_t n = 1;
    for (size_t x = 0; x < width; x++)
        for (size_t y = 0; y < height; y++) {
            size_t i = x * height + y;
            n += at(mask, i, width, height) != (i ? at(mask, i - 1, width, height) : 0);
        }
    return n;
}

int cli_rle_new(struct cli_rle *r, const uint8_t *mask, int width, int height)
{
    size_t w = (size_t)width, h = (size_t)height, k = 0;
    *r = (struct cli_rle){NULL, count_runs(mask, w, h), width, height};
    r->count = calloc(r->n, sizeof *r->count);
    if (!r->count)
        return -1;
    int now = 0;
    for (size_t x = 0; x < w; x++)
        for (size_t y = 0; y < h; y++) {
            int v = mask[y * w + x] != 0;
            k += v != now;
            now = v;
            r->count[k]++;
        }
    return 0;
}

void cli_rle_free(struct cli_rle *r)
{
    free(r->count);
    *r = (struct cli_rle){NULL, 0, 0, 0};
}

void cli_rle_counts(struct cli_text *t, const struct cli_rle *r)
{
    cli_text_add(t, "[");
    for (size_t i = 0; i < r->n; i++)
        cli_text_addf(t, i ? ",%u" : "%u", (unsigned)r->count[i]);
    cli_text_add(t, "]");
}

/* From the fourth on, counts are differences to the one two before. A number is groups of five bits, the low ones first, with
 * the sign in the last one's highest; bit 5 says that another group follows. Groups are characters from '0' on. */
void cli_rle_packed(struct cli_text *t, const struct cli_rle *r)
{
    cli_text_add(t, "\"");
    for (size_t i = 0; i < r->n; i++) {
        int64_t v = (int64_t)r->count[i] - (i > 2 ? (int64_t)r->count[i - 2] : 0);
        int more = 1;
        while (more) {
            int group = (int)(v & 31);
            v = v >= 0 ? v / 32 : -((-v + 31) / 32); /* rounds down */
            more = group & 16 ? v != -1 : v != 0;
            char c = (char)('0' + group + (more ? 32 : 0));
            cli_text_addf(t, c == '\\' ? "\\%c" : "%c", c);
        }
    }
    cli_text_add(t, "\"");
}
