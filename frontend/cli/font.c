#include "font.h"

#define BAND 8

static const char *const rows[] = {
#include "font.def"
};
_Static_assert(sizeof rows / sizeof *rows == (127 - 32 + BAND) / BAND * CLI_FONT_HEIGHT,
               "font.def lacks rows");

int cli_font_pixel(unsigned char c, int x, int y)
{
    if (x < 0 || y < 0 || x >= CLI_FONT_WIDTH - 1 || y >= CLI_FONT_HEIGHT)
        return 0;
    int glyph = (c >= 32 && c <= 126 ? c : '?') - 32;
    return rows[glyph / BAND * CLI_FONT_HEIGHT + y][glyph % BAND * CLI_FONT_WIDTH + x] == '#';
}
