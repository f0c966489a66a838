#include "output.h"

#include "outline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCORE_DECIMALS 6
#define BOX_DECIMALS 3
#define NAME_COLUMNS 20

static void nothing(struct cli_text *t)
{
    (void)t;
}

const char *cli_class_name(const struct cli_record *r, int cls)
{
    return cls >= 0 && cls < r->nc ? r->names[cls] : NULL;
}

/* --- table --- */

static void table_classes(struct cli_text *t, const struct cli_record *r)
{
    for (size_t i = 0; i < r->ntop; i++) {
        const char *name = cli_class_name(r, r->top[i].cls);
        cli_text_add(t, "  ");
        cli_text_plain(t, name ? name : "", NAME_COLUMNS);
        cli_text_add(t, " ");
        cli_text_column(t, (double)r->top[i].prob, 4, 7);
        cli_text_add(t, "\n");
    }
}

struct range {
    double least, mean, most;
};

static struct range range_of(const float *v, size_t n)
{
    struct range r = {(double)v[0], 0, (double)v[0]};
    for (size_t i = 0; i < n; i++) {
        r.least = fmin(r.least, (double)v[i]);
        r.most = fmax(r.most, (double)v[i]);
        r.mean += (double)v[i];
    }
    r.mean /= (double)n;
    return r;
}

static size_t pixels(const struct cli_record *r)
{
    return (size_t)r->width * (size_t)r->height;
}

/* The share of each class that a pixel has. */
static void table_labels(struct cli_text *t, const struct cli_record *r)
{
    size_t *count = calloc((size_t)r->nc + 1, sizeof *count);
    if (!count) {
        t->failed = 1;
        return;
    }
    for (size_t i = 0; i < pixels(r); i++)
        count[r->labels[i] < r->nc ? r->labels[i] : r->nc]++;
    for (int k = 0; k < r->nc; k++) {
        if (!count[k])
            continue;
        cli_text_add(t, "  ");
        cli_text_plain(t, r->names[k], NAME_COLUMNS);
        cli_text_column(t, 100 * (double)count[k] / (double)pixels(r), 1, 7);
        cli_text_add(t, " %\n");
    }
    free(count);
}

static void table_depths(struct cli_text *t, const struct cli_record *r)
{
    struct range v = range_of(r->depths, pixels(r));
    cli_text_add(t, "  depth");
    cli_text_column(t, v.least, 3, 10);
    cli_text_add(t, " to");
    cli_text_column(t, v.most, 3, 10);
    cli_text_add(t, ", mean");
    cli_text_column(t, v.mean, 3, 10);
    cli_text_add(t, "\n");
}

static void table_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    cli_text_add(t, before->images ? "\n" : "");
    cli_text_plain(t, r->path, 0);
    cli_text_addf(t, ": %d x %d", r->width, r->height);
    if (!r->top && !r->labels && !r->depths)
        cli_text_addf(t, ", %zu object%s", r->n, r->n == 1 ? "" : "s");
    if (r->ms >= 0) {
        cli_text_add(t, ", ");
        cli_text_column(t, r->ms, 1, 0);
        cli_text_add(t, " ms");
    }
    cli_text_add(t, "\n");
    table_classes(t, r);
    if (r->labels)
        table_labels(t, r);
    if (r->depths)
        table_depths(t, r);
    if (r->n)
        cli_text_addf(t, "  %-*s %7s %9s %9s %9s %9s\n", NAME_COLUMNS, "class", "score", "x1", "y1", "x2",
                      "y2");
    for (size_t i = 0; i < r->n; i++) {
        const yolort_detection *d = &r->d[i];
        const char *name = cli_class_name(r, d->cls);
        cli_text_add(t, "  ");
        if (name)
            cli_text_plain(t, name, NAME_COLUMNS);
        else
            cli_text_addf(t, "%-*d", NAME_COLUMNS, (int)d->cls);
        cli_text_add(t, " ");
        cli_text_column(t, (double)d->score, 3, 7);
        const float edge[4] = {d->x1, d->y1, d->x2, d->y2};
        for (int k = 0; k < 4; k++) {
            cli_text_add(t, " ");
            cli_text_column(t, (double)edge[k], 1, 9);
        }
        cli_text_add(t, "\n");
    }
}

const struct cli_format cli_format_table = {"table", nothing, table_image, nothing};

/* --- json --- */

static void add_numbers(struct cli_text *t, const double v[4], int decimals, const char *between)
{
    for (int k = 0; k < 4; k++) {
        cli_text_add(t, k ? between : "");
        cli_text_number(t, v[k], decimals);
    }
}

static void json_begin(struct cli_text *t)
{
    cli_text_add(t, "{\"version\":1,\"images\":[");
}

static void add_point(struct cli_text *t, const float *p, int dims)
{
    for (int k = 0; k < dims; k++) {
        cli_text_add(t, k ? "," : "[");
        cli_text_number(t, (double)p[k], k < 2 ? BOX_DECIMALS : SCORE_DECIMALS);
    }
    cli_text_add(t, "]");
}

static void json_points(struct cli_text *t, const struct cli_record *r, size_t i)
{
    const float *p = r->points + i * (size_t)r->npoint * (size_t)r->point_dims;
    cli_text_add(t, ",\"keypoints\":[");
    for (int k = 0; k < r->npoint; k++, p += r->point_dims) {
        cli_text_add(t, k ? "," : "");
        add_point(t, p, r->point_dims);
    }
    cli_text_add(t, "]");
}

static void json_turned(struct cli_text *t, const yolort_turned *o)
{
    cli_text_add(t, ",\"obb\":{\"cx\":");
    cli_text_number(t, (double)o->cx, BOX_DECIMALS);
    cli_text_member_number(t, "cy", (double)o->cy, BOX_DECIMALS);
    cli_text_member_number(t, "w", (double)o->w, BOX_DECIMALS);
    cli_text_member_number(t, "h", (double)o->h, BOX_DECIMALS);
    cli_text_member_number(t, "angle", (double)o->angle, SCORE_DECIMALS);
    cli_text_add(t, ",\"corners\":[");
    for (int k = 0; k < 4; k++) {
        cli_text_add(t, k ? "," : "");
        add_point(t, o->corner[k], 2);
    }
    cli_text_add(t, "]}");
}

static void json_size(struct cli_text *t, const struct cli_rle *m)
{
    cli_text_addf(t, "{\"size\":[%d,%d],\"counts\":", m->height, m->width);
}

static void json_extras(struct cli_text *t, const struct cli_record *r, size_t i)
{
    if (r->points)
        json_points(t, r, i);
    if (r->turned)
        json_turned(t, &r->turned[i]);
    if (!r->masks)
        return;
    cli_text_add(t, ",\"mask\":");
    json_size(t, &r->masks[i]);
    cli_rle_counts(t, &r->masks[i]);
    cli_text_add(t, "}");
}

static void json_classes(struct cli_text *t, const struct cli_record *r)
{
    cli_text_add(t, ",\"probs\":[");
    for (size_t i = 0; i < r->ntop; i++) {
        const char *name = cli_class_name(r, r->top[i].cls);
        cli_text_addf(t, i ? ",\n {\"class\":%d,\"name\":" : "\n {\"class\":%d,\"name\":", (int)r->top[i].cls);
        cli_text_json(t, name ? name : "");
        cli_text_member_number(t, "prob", (double)r->top[i].prob, SCORE_DECIMALS);
        cli_text_add(t, "}");
    }
    cli_text_add(t, "]");
}

static void json_labels(struct cli_text *t, const struct cli_record *r)
{
    size_t from = 0;
    cli_text_addf(t, ",\"labels\":{\"size\":[%d,%d],\"runs\":[", r->height, r->width);
    for (size_t i = 1; i <= pixels(r); i++) {
        if (i < pixels(r) && r->labels[i] == r->labels[from])
            continue;
        cli_text_addf(t, from ? ",%d,%zu" : "%d,%zu", (int)r->labels[from], i - from);
        from = i;
    }
    cli_text_add(t, "]}");
}

static void json_depths(struct cli_text *t, const struct cli_record *r)
{
    struct range v = range_of(r->depths, pixels(r));
    cli_text_add(t, ",\"depth\":{\"least\":");
    cli_text_number(t, v.least, SCORE_DECIMALS);
    cli_text_member_number(t, "mean", v.mean, SCORE_DECIMALS);
    cli_text_member_number(t, "most", v.most, SCORE_DECIMALS);
    cli_text_add(t, "}");
}

static void json_detection(struct cli_text *t, const struct cli_record *r, size_t i)
{
    const yolort_detection *d = &r->d[i];
    const double box[4] = {d->x1, d->y1, d->x2, d->y2};
    const char *name = cli_class_name(r, d->cls);
    cli_text_addf(t, "{\"class\":%d,\"name\":", (int)d->cls);
    cli_text_json(t, name ? name : "");
    cli_text_add(t, ",\"score\":");
    cli_text_number(t, (double)d->score, SCORE_DECIMALS);
    cli_text_add(t, ",\"box\":[");
    add_numbers(t, box, BOX_DECIMALS, ",");
    cli_text_add(t, "]");
    json_extras(t, r, i);
    cli_text_add(t, "}");
}

static void json_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    cli_text_add(t, before->images ? ",\n{\"path\":" : "\n{\"path\":");
    cli_text_json(t, r->path);
    cli_text_addf(t, ",\"width\":%d,\"height\":%d,\"detections\":[", r->width, r->height);
    for (size_t i = 0; i < r->n; i++) {
        cli_text_add(t, i ? ",\n " : "\n ");
        json_detection(t, r, i);
    }
    cli_text_add(t, "]");
    if (r->top)
        json_classes(t, r);
    if (r->labels)
        json_labels(t, r);
    if (r->depths)
        json_depths(t, r);
    cli_text_add(t, "}");
}

static void json_end(struct cli_text *t)
{
    cli_text_add(t, "\n]}\n");
}

const struct cli_format cli_format_json = {"json", json_begin, json_image, json_end};

/* --- txt --- */

static void txt_classes(struct cli_text *t, const struct cli_record *r)
{
    for (size_t i = 0; i < r->ntop; i++) {
        const char *name = cli_class_name(r, r->top[i].cls);
        cli_text_number(t, (double)r->top[i].prob, SCORE_DECIMALS);
        cli_text_add(t, " ");
        cli_text_plain(t, name ? name : "", 0);
        cli_text_add(t, "\n");
    }
}

static void txt_point(struct cli_text *t, const struct cli_record *r, const float *p, int dims)
{
    for (int k = 0; k < dims; k++) {
        int side = k == 0 ? r->width : k == 1 ? r->height : 1;
        cli_text_add(t, " ");
        cli_text_number(t, (double)p[k] / side, SCORE_DECIMALS);
    }
}

static void txt_box(struct cli_text *t, const struct cli_record *r, const yolort_detection *d)
{
    double x1 = (double)d->x1, y1 = (double)d->y1, x2 = (double)d->x2, y2 = (double)d->y2;
    const double box[4] = {(x1 + x2) / 2 / r->width, (y1 + y2) / 2 / r->height, (x2 - x1) / r->width,
                           (y2 - y1) / r->height};
    cli_text_add(t, " ");
    add_numbers(t, box, SCORE_DECIMALS, " ");
}

struct outline_text {
    struct cli_text *t;
    const struct cli_record *r;
};

static void txt_corner(void *with, int x, int y)
{
    struct outline_text *o = with;
    const float p[2] = {(float)x, (float)y};
    txt_point(o->t, o->r, p, 2);
}

/* A mask without pixels has the box's corners. */
static void txt_outline(struct cli_text *t, const struct cli_record *r, size_t i)
{
    const yolort_detection *d = &r->d[i];
    const float corner[4][2] = {{d->x1, d->y1}, {d->x2, d->y1}, {d->x2, d->y2}, {d->x1, d->y2}};
    struct outline_text with = {t, r};
    int rc = cli_outline(&r->masks[i], txt_corner, &with);
    t->failed |= rc < 0;
    for (int k = 0; rc == 1 && k < 4; k++)
        txt_point(t, r, corner[k], 2);
}

static void txt_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    (void)before;
    txt_classes(t, r);
    for (size_t i = 0; i < r->n; i++) {
        const float *p = r->points ? r->points + i * (size_t)r->npoint * (size_t)r->point_dims : NULL;
        cli_text_addf(t, "%d", (int)r->d[i].cls);
        for (int k = 0; r->turned && k < 4; k++)
            txt_point(t, r, r->turned[i].corner[k], 2);
        if (r->masks)
            txt_outline(t, r, i);
        else if (!r->turned)
            txt_box(t, r, &r->d[i]);
        for (int k = 0; p && k < r->npoint; k++)
            txt_point(t, r, p + k * r->point_dims, r->point_dims);
        cli_text_add(t, " ");
        cli_text_number(t, (double)r->d[i].score, SCORE_DECIMALS);
        cli_text_add(t, "\n");
    }
}

const struct cli_format cli_format_txt = {"txt", nothing, txt_image, nothing};

/* --- coco --- */

static void coco_begin(struct cli_text *t)
{
    cli_text_add(t, "[");
}

/* COCO names its files by zero-padded image ids. */
static void add_image_id(struct cli_text *t, const char *file)
{
    const char *dot = strrchr(file, '.');
    size_t n = dot && dot != file ? (size_t)(dot - file) : strlen(file);
    size_t digits = strspn(file, "0123456789"), zeros = strspn(file, "0");
    if (digits != n || n == 0 || n - zeros > 15) {
        char stem[256];
        n = n < sizeof stem ? n : sizeof stem - 1;
        memcpy(stem, file, n);
        stem[n] = 0;
        cli_text_json(t, stem);
        return;
    }
    if (zeros == n)
        cli_text_add(t, "0");
    else
        cli_text_addf(t, "%.*s", (int)(n - zeros), file + zeros);
}

/* Points without a visibility are visible. */
static void coco_points(struct cli_text *t, const struct cli_record *r, size_t i)
{
    const float *p = r->points + i * (size_t)r->npoint * (size_t)r->point_dims;
    cli_text_add(t, ",\"keypoints\":[");
    for (int k = 0; k < r->npoint; k++, p += r->point_dims) {
        const double v[3] = {(double)p[0], (double)p[1], r->point_dims > 2 ? (double)p[2] : 1};
        for (int c = 0; c < 3; c++) {
            cli_text_add(t, k + c ? "," : "");
            cli_text_number(t, v[c], c < 2 ? BOX_DECIMALS : SCORE_DECIMALS);
        }
    }
    cli_text_add(t, "]");
}

static void coco_turned(struct cli_text *t, const yolort_turned *o)
{
    const double box[4] = {(double)o->cx, (double)o->cy, (double)o->w, (double)o->h};
    cli_text_add(t, ",\"rbox\":[");
    add_numbers(t, box, BOX_DECIMALS, ",");
    cli_text_add(t, ",");
    cli_text_number(t, (double)o->angle, SCORE_DECIMALS);
    cli_text_add(t, "],\"poly\":[");
    for (int k = 0; k < 8; k++) {
        cli_text_add(t, k ? "," : "");
        cli_text_number(t, (double)o->corner[k / 2][k % 2], BOX_DECIMALS);
    }
    cli_text_add(t, "]");
}

static void coco_extras(struct cli_text *t, const struct cli_record *r, size_t i)
{
    if (r->points)
        coco_points(t, r, i);
    if (r->turned)
        coco_turned(t, &r->turned[i]);
    if (!r->masks)
        return;
    cli_text_add(t, ",\"segmentation\":");
    json_size(t, &r->masks[i]);
    cli_rle_packed(t, &r->masks[i]);
    cli_text_add(t, "}");
}

static void coco_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    const char *slash = strrchr(r->path, '/');
    const char *file = slash ? slash + 1 : r->path;
    for (size_t i = 0; i < r->n; i++) {
        const yolort_detection *d = &r->d[i];
        const double box[4] = {d->x1, d->y1, (double)d->x2 - (double)d->x1, (double)d->y2 - (double)d->y1};
        cli_text_add(t, before->detections + i ? ",\n{\"image_id\":" : "\n{\"image_id\":");
        add_image_id(t, file);
        cli_text_add(t, ",\"file_name\":");
        cli_text_json(t, file);
        cli_text_addf(t, ",\"category_id\":%d,\"bbox\":[", (int)d->cls);
        add_numbers(t, box, BOX_DECIMALS, ",");
        cli_text_add(t, "],\"score\":");
        cli_text_number(t, (double)d->score, SCORE_DECIMALS);
        coco_extras(t, r, i);
        cli_text_add(t, "}");
    }
}

static void coco_end(struct cli_text *t)
{
    cli_text_add(t, "\n]\n");
}

const struct cli_format cli_format_coco = {"coco", coco_begin, coco_image, coco_end};
