#include "draw.h"

#include "font.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_LABEL 48

/* Steps of the golden ratio around the colour circle keep neighbouring class numbers far apart; after 13 of
 * them the hues come near again, and the next 13 are darker, those after paler. */
void cli_class_colour(int cls, uint8_t rgb[3])
{
    double turns = 0.97 + cls * 0.6180339887498949;
    double hue = 6 * (turns - floor(turns));
    double value = cls / 13 % 3 == 1 ? 0.70 : 0.95, saturation = cls / 13 % 3 == 2 ? 0.55 : 0.88;
    for (int c = 0; c < 3; c++) {
        double from_peak = fabs(fmod(hue + (c == 0 ? 6 : c == 1 ? 4 : 2), 6) - 3) - 1;
        double share = fmin(fmax(from_peak, 0), 1);
        rgb[c] = (uint8_t)lrint(255 * value * (1 - saturation * (1 - share)));
    }
}

/* Black on light colours, white on dark ones; weights of Rec. 709 on the coded values. */
static uint8_t text_colour(const uint8_t rgb[3])
{
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2] > 115 ? 0 : 255;
}

static int clamp(long v, int low, int high)
{
    return v < low ? low : v > high ? high : (int)v;
}

/* [x0, x1) x [y0, y1), cut to the picture. */
static void fill(struct cli_image *im, long x0, long y0, long x1, long y1, const uint8_t rgb[3])
{
    int left = clamp(x0, 0, im->width), right = clamp(x1, 0, im->width);
    int top = clamp(y0, 0, im->height), bottom = clamp(y1, 0, im->height);
    for (int y = top; y < bottom; y++) {
        uint8_t *p = im->rgb + ((size_t)y * (size_t)im->width + (size_t)left) * 3;
        for (int x = left; x < right; x++, p += 3)
            memcpy(p, rgb, 3);
    }
}

struct frame {
    long x0, y0, x1, y1; /* outer edges */
    int thick, scale;    /* of lines, and of the font's pixels */
};

/* Coordinates come from a module: NaN and the infinite become the edges of the picture. */
static long pixel(float v, int side)
{
    return v > 0 ? v < (float)side ? lrintf(v) : side : 0;
}

static struct frame frame_of(const struct cli_image *im, const yolort_detection *d)
{
    int sides = im->width + im->height;
    struct frame f = {pixel(d->x1, im->width), pixel(d->y1, im->height), pixel(d->x2, im->width),
                      pixel(d->y2, im->height), 1 + sides / 900, 1 + sides / 1500};
    return f;
}

static void draw_frame(struct cli_image *im, const struct frame *f, const uint8_t rgb[3])
{
    int t = f->thick;
    fill(im, f->x0, f->y0, f->x1, f->y0 + t, rgb);
    fill(im, f->x0, f->y1 - t, f->x1, f->y1, rgb);
    fill(im, f->x0, f->y0, f->x0 + t, f->y1, rgb);
    fill(im, f->x1 - t, f->y0, f->x1, f->y1, rgb);
}

static void draw_text(struct cli_image *im, long x, long y, int scale, const char *text, const uint8_t rgb[3])
{
    for (; *text; text++, x += CLI_FONT_WIDTH * scale) {
        for (int v = 0; v < CLI_FONT_HEIGHT; v++) {
            for (int u = 0; u < CLI_FONT_WIDTH; u++) {
                long px = x + u * scale, py = y + v * scale;
                if (cli_font_pixel((unsigned char)*text, u, v))
                    fill(im, px, py, px + scale, py + scale, rgb);
            }
        }
    }
}

/* One '?' a character, not one a byte, for names that are not ASCII. */
static void make_label(char *out, size_t size, const yolort_detection *d, const char *const *names, int nc)
{
    size_t n = 0;
    const char *name = d->cls >= 0 && d->cls < nc ? names[d->cls] : NULL;
    if (!name)
        n = (size_t)snprintf(out, size, "%d", (int)d->cls);
    for (; name && *name && n + 8 < size; name++) {
        unsigned char c = (unsigned char)*name;
        if ((c & 0xc0) != 0x80)
            out[n++] = c >= 32 && c <= 126 ? *name : '?';
    }
    snprintf(out + n, size - n, " %.2f", (double)d->score);
}

/* Above the box where there is room, else inside its top edge; never outside the picture. */
static void draw_label(struct cli_image *im, const struct frame *f, const char *text, const uint8_t rgb[3])
{
    int pad = 2 * f->scale, scale = f->scale;
    long width = (long)strlen(text) * CLI_FONT_WIDTH * scale + 2 * pad - scale;
    long height = (long)CLI_FONT_HEIGHT * scale + pad;
    long x = f->x0, y = f->y0 - height + f->thick;
    if (x + width > im->width)
        x = im->width - width;
    x = x < 0 ? 0 : x;
    if (y < 0)
        y = f->y0 + height <= im->height ? f->y0 : 0;
    uint8_t ink[3];
    memset(ink, text_colour(rgb), sizeof ink);
    fill(im, x, y, x + width, y + height, rgb);
    draw_text(im, x + pad, y + pad, scale, text, ink);
}

/* A line of squares of side `thick`; ends far outside are cut by fill. */
static void draw_line(struct cli_image *im, const float a[2], const float b[2], int thick, const uint8_t rgb[3])
{
    double x0 = (double)a[0], y0 = (double)a[1], dx = (double)b[0] - x0, dy = (double)b[1] - y0;
    double far = fmax(fabs(dx), fabs(dy)), limit = 2.0 * (im->width + im->height);
    if (!(far <= limit) || !(fabs(x0) <= limit) || !(fabs(y0) <= limit))
        return; /* also for NaN */
    int steps = (int)far + 1;
    for (int i = 0; i <= steps; i++) {
        long x = lrint(x0 + dx * i / steps) - thick / 2, y = lrint(y0 + dy * i / steps) - thick / 2;
        fill(im, x, y, x + thick, y + thick, rgb);
    }
}

/* Halfway to the colour. */
static void draw_mask(struct cli_image *im, const struct cli_rle *m, const uint8_t rgb[3])
{
    size_t i = 0, height = (size_t)im->height;
    if (m->width != im->width || m->height != im->height)
        return;
    for (size_t k = 0; k < m->n; i += m->count[k++])
        for (size_t at = i; k % 2 && at < i + m->count[k]; at++) {
            uint8_t *p = im->rgb + 3 * (at % height * (size_t)im->width + at / height);
            for (int c = 0; c < 3; c++)
                p[c] = (uint8_t)((p[c] + rgb[c]) / 2);
        }
}

/* Joints of COCO's 17 points of a body. */
static const uint8_t limbs[][2] = {{15, 13}, {13, 11}, {16, 14}, {14, 12}, {11, 12}, {5, 11}, {6, 12}, {5, 6}, {5, 7}, {6, 8},
                                   {7, 9},   {8, 10},  {1, 2},   {0, 1},   {0, 2},   {1, 3},  {2, 4},  {3, 5}, {4, 6}};
enum { BODY_POINTS = 17 };

static int is_visible(const float *p, int dims)
{
    return dims < 3 || p[2] >= 0.5f;
}

static void draw_points(struct cli_image *im, const struct cli_record *r, size_t i, int thick, const uint8_t rgb[3])
{
    const float *p = r->points + i * (size_t)r->npoint * (size_t)r->point_dims;
    for (size_t k = 0; r->npoint == BODY_POINTS && k < sizeof limbs / sizeof *limbs; k++) {
        const float *a = p + limbs[k][0] * r->point_dims, *b = p + limbs[k][1] * r->point_dims;
        if (is_visible(a, r->point_dims) && is_visible(b, r->point_dims))
            draw_line(im, a, b, thick, rgb);
    }
    for (int k = 0; k < r->npoint; k++, p += r->point_dims) {
        uint8_t own[3];
        cli_class_colour(k, own);
        if (is_visible(p, r->point_dims))
            draw_line(im, p, p, 3 * thick, own);
    }
}

static void draw_shape(struct cli_image *im, const struct cli_record *r, size_t i, const uint8_t rgb[3])
{
    struct frame f = frame_of(im, &r->d[i]);
    if (r->masks)
        draw_mask(im, &r->masks[i], rgb);
    for (int k = 0; r->turned && k < 4; k++)
        draw_line(im, r->turned[i].corner[k], r->turned[i].corner[(k + 1) % 4], f.thick, rgb);
    if (!r->turned)
        draw_frame(im, &f, rgb);
    if (r->points)
        draw_points(im, r, i, f.thick, rgb);
}

static void draw_classes(struct cli_image *im, const struct cli_record *r)
{
    yolort_detection d = {.x1 = 0};
    struct frame f = frame_of(im, &d);
    long line = (CLI_FONT_HEIGHT + 2) * f.scale;
    for (size_t i = 0; i < r->ntop; i++) {
        char label[MAX_LABEL];
        uint8_t rgb[3];
        d.cls = r->top[i].cls;
        d.score = r->top[i].prob;
        make_label(label, sizeof label, &d, r->names, r->nc);
        cli_class_colour(d.cls, rgb);
        f.y0 = ((long)i + 1) * line - f.thick; /* its lower edge */
        draw_label(im, &f, label, rgb);
    }
}

static void draw_labels(struct cli_image *im, const uint16_t *label)
{
    uint8_t *p = im->rgb;
    for (size_t i = 0; i < (size_t)im->width * (size_t)im->height; i++, p += 3) {
        uint8_t rgb[3];
        cli_class_colour(label[i], rgb);
        for (int c = 0; c < 3; c++)
            p[c] = (uint8_t)((p[c] + rgb[c]) / 2);
    }
}

/* From the nearest, red, over green to the farthest, blue; black where it is not known. */
static void draw_depths(struct cli_image *im, const float *depth)
{
    size_t n = (size_t)im->width * (size_t)im->height;
    float least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        least = isfinite(depth[i]) && depth[i] < least ? depth[i] : least;
        most = isfinite(depth[i]) && depth[i] > most ? depth[i] : most;
    }
    double range = most > least ? (double)most - (double)least : 1;
    for (size_t i = 0; i < n; i++) {
        double far = isfinite(depth[i]) ? ((double)depth[i] - (double)least) / range : NAN;
        uint8_t *p = im->rgb + 3 * i;
        p[0] = far >= 0 ? (uint8_t)lrint(255 * fmax(0, 1 - 2 * far)) : 0;
        p[1] = far >= 0 ? (uint8_t)lrint(255 * (1 - fabs(2 * far - 1))) : 0;
        p[2] = far >= 0 ? (uint8_t)lrint(255 * fmax(0, 2 * far - 1)) : 0;
    }
}

void cli_draw_record(struct cli_image *im, const struct cli_record *r)
{
    uint8_t rgb[3];
    if (r->labels)
        draw_labels(im, r->labels);
    if (r->depths)
        draw_depths(im, r->depths);
    for (size_t i = r->n; i-- > 0;) {
        cli_class_colour(r->d[i].cls, rgb);
        draw_shape(im, r, i, rgb);
    }
    for (size_t i = r->n; i-- > 0;) {
        struct frame f = frame_of(im, &r->d[i]);
        char label[MAX_LABEL];
        make_label(label, sizeof label, &r->d[i], r->names, r->nc);
        cli_class_colour(r->d[i].cls, rgb);
        draw_label(im, &f, label, rgb);
    }
    draw_classes(im, r);
}

void cli_draw_detections(struct cli_image *im, const yolort_detection *d, size_t n, const char *const *names,
                         int nc)
{
    struct cli_record r = {.d = d, .n = n, .names = names, .nc = nc};
    cli_draw_record(im, &r);
}
