#include "rotate.h"

#include <math.h>

static const double TINY = 1e-7; /* keeps divisions, roots and logarithms of flat boxes finite; part of the definition */

/* A side s of a uniform distribution has the variance s^2 / 12. */
struct rt_rotated rt_rotated_of(double x, double y, double w, double h, double angle)
{
    double a = w * w / 12, b = h * h / 12, c = cos(angle), s = sin(angle);
    return (struct rt_rotated){x, y, a * c * c + b * s * s, a * s * s + b * c * c, (a - b) * c * s};
}

static double determinant(double xx, double yy, double xy)
{
    return xx * yy - xy * xy;
}

static double positive(double v)
{
    return v < 0 ? 0 : v;
}

/* By way of the Bhattacharyya distance, which is kept within TINY .. 100. */
double rt_rotated_overlap(const struct rt_rotated *a, const struct rt_rotated *b)
{
    double xx = a->xx + b->xx, yy = a->yy + b->yy, xy = a->xy + b->xy, dx = a->x - b->x, dy = a->y - b->y;
    double det = determinant(xx, yy, xy);
    double far = (xx * dy * dy + yy * dx * dx - 2 * xy * dx * dy) / (det + TINY) / 4;
    double own = sqrt(positive(determinant(a->xx, a->yy, a->xy)) * positive(determinant(b->xx, b->yy, b->xy)));
    double apart = far + log(det / (4 * own + TINY) + TINY) / 2;
    if (isnan(apart)) return apart;
    apart = apart < TINY ? TINY : apart > 100 ? 100 : apart;
    return 1 - sqrt(1 - exp(-apart) + TINY);
}
