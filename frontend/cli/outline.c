#include "outline.h"

#include <stdlib.h>

enum { INSIDE = 1, SEEN = 2 /* its left edge */ };
enum way { UP, RIGHT, DOWN, LEFT };

struct grid {
    uint8_t *pixel;
    int width, height;
};

static int is_inside(const struct grid *g, int x, int y)
{
    return x >= 0 && y >= 0 && x < g->width && y < g->height &&
           (g->pixel[(size_t)y * (size_t)g->width + (size_t)x] & INSIDE);
}

/* 0, or -1 without memory. */
static int grid_new(struct grid *g, const struct cli_rle *r)
{
    size_t height = (size_t)r->height, i = 0;
    *g = (struct grid){calloc((size_t)r->width + 1, height + 1), r->width, r->height};
    if (!g->pixel)
        return -1;
    for (size_t k = 0; k < r->n; i += r->count[k++])
        for (size_t at = i; k % 2 && at < i + r->count[k]; at++)
            g->pixel[at % height * (size_t)r->width + at / height] = INSIDE;
    return 0;
}

/* At a corner of pixels, having come `way`: the inside lies at the right hand, also where two pixels touch by a corner alone. */
static enum way turn(const struct grid *g, int x, int y, enum way way)
{
    static const int ahead[4][2][2] = {{{-1, -1}, {0, -1}}, {{0, -1}, {0, 0}}, {{0, 0}, {-1, 0}}, {{-1, 0}, {-1, -1}}};
    const int *left = ahead[way][0], *right = ahead[way][1];
    if (!is_inside(g, x + right[0], y + right[1]))
        return (enum way)((way + 1) % 4);
    return is_inside(g, x + left[0], y + left[1]) ? (enum way)((way + 3) % 4) : way;
}

/* Around from the left edge of a pixel; twice the area within, below 0 around a hole. */
static int64_t follow(struct grid *g, int px, int py, void (*corner)(void *with, int x, int y), void *with)
{
    static const int step[4][2] = {{0, -1}, {1, 0}, {0, 1}, {-1, 0}};
    int x = px, y = py + 1;
    enum way way = UP;
    int64_t area = 0;
    do {
        int nx = x + step[way][0], ny = y + step[way][1];
        area += (int64_t)x * ny - (int64_t)nx * y;
        if (way == UP)
            g->pixel[(size_t)ny * (size_t)g->width + (size_t)nx] |= SEEN;
        x = nx;
        y = ny;
        enum way next = turn(g, x, y, way);
        if (next != way && corner)
            corner(with, x, y);
        way = next;
    } while (x != px || y != py + 1 || way != UP);
    return area;
}

int cli_outline(const struct cli_rle *r, void (*corner)(void *with, int x, int y), void *with)
{
    struct grid g;
    int64_t most = 0;
    int best_x = 0, best_y = 0;
    if (grid_new(&g, r) != 0)
        return -1;
    for (int y = 0; y < g.height; y++)
        for (int x = 0; x < g.width; x++) {
            if (g.pixel[(size_t)y * (size_t)g.width + (size_t)x] != INSIDE || is_inside(&g, x - 1, y))
                continue;
            int64_t area = follow(&g, x, y, NULL, NULL);
            if (area <= most)
                continue;
            most = area;
            best_x = x;
            best_y = y;
        }
    if (most)
        follow(&g, best_x, best_y, corner, with);
    free(g.pixel);
    return most ? 0 : 1;
}
