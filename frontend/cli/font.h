/* A fixed bitmap font for labels. */
#ifndef CLI_FONT_H
#define CLI_FONT_H

#define CLI_FONT_WIDTH 8
#define CLI_FONT_HEIGHT 12

/* 1 when the pixel belongs to the glyph; bytes outside ASCII 32..126 look like '?'. */
int cli_font_pixel(unsigned char c, int x, int y);

#endif
