/* Outlines of masks. */
#include "frontend/cli/outline.h"

#include <criterion/criterion.h>
#include <string.h>

struct corners {
    int n, at[64][2];
};

static void add(void *with, int x, int y)
{
    struct corners *c = with;
    cr_assert_lt(c->n, 64);
    c->at[c->n][0] = x;
    c->at[c->n++][1] = y;
}

/* Of a picture of 6 x 5 characters, '#' inside. */
static int outline(const char *text, struct corners *c)
{
    uint8_t mask[30];
    struct cli_rle r;
    cr_assert_eq(strlen(text), 30);
    for (int i = 0; i < 30; i++)
        mask[i] = text[i] == '#';
    cr_assert_eq(cli_rle_new(&r, mask, 6, 5), 0);
    c->n = 0;
    int rc = cli_outline(&r, add, c);
    cli_rle_free(&r);
    return rc;
}

static void expect(const struct corners *c, int n, const int (*at)[2])
{
    cr_assert_eq(c->n, n, "%d corners", c->n);
    cr_expect_arr_eq(c->at, at, (size_t)n * sizeof *at);
}

Test(cli_outline, one_pixel_and_all_of_them)
{
    struct corners c;
    cr_assert_eq(outline("......" "..#..." "......" "......" "......", &c), 0);
    expect(&c, 4, (const int[][2]){{2, 1}, {3, 1}, {3, 2}, {2, 2}});
    cr_assert_eq(outline("######" "######" "######" "######" "######", &c), 0);
    expect(&c, 4, (const int[][2]){{0, 0}, {6, 0}, {6, 5}, {0, 5}});
    cr_assert_eq(outline("......" "......" "......" "......" "......", &c), 1);
    cr_expect_eq(c.n, 0);
}

/* An L; a ring, whose hole is not told. */
Test(cli_outline, corners_in_order)
{
    struct corners c;
    cr_assert_eq(outline(".#...." ".#...." ".###.." "......" "......", &c), 0);
    expect(&c, 6, (const int[][2]){{1, 0}, {2, 0}, {2, 2}, {4, 2}, {4, 3}, {1, 3}});
    cr_assert_eq(outline("####.." "#..#.." "#..#.." "####.." "......", &c), 0);
    expect(&c, 4, (const int[][2]){{0, 0}, {4, 0}, {4, 4}, {0, 4}});
}

/* Of two regions the larger; those that touch by a corner are two. */
Test(cli_outline, the_largest_region)
{
    struct corners c;
    cr_assert_eq(outline("#....." "...##." "...##." "......" "......", &c), 0);
    expect(&c, 4, (const int[][2]){{3, 1}, {5, 1}, {5, 3}, {3, 3}});
    cr_assert_eq(outline("#....." ".##..." ".##..." "......" "......", &c), 0);
    expect(&c, 4, (const int[][2]){{1, 1}, {3, 1}, {3, 3}, {1, 3}});
}
