#include "output.h"

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

static void table_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    cli_text_add(t, before->images ? "\n" : "");
    cli_text_plain(t, r->path, 0);
    cli_text_addf(t, ": %d x %d, %zu object%s", r->width, r->height, r->n, r->n == 1 ? "" : "s");
    if (r->ms >= 0) {
        cli_text_add(t, ", ");
        cli_text_column(t, r->ms, 1, 0);
        cli_text_add(t, " ms");
    }
    cli_text_add(t, "\n");
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

static void json_detection(struct cli_text *t, const struct cli_record *r, const yolort_detection *d)
{
    const double box[4] = {d->x1, d->y1, d->x2, d->y2};
    const char *name = cli_class_name(r, d->cls);
    cli_text_addf(t, "{\"class\":%d,\"name\":", (int)d->cls);
    cli_text_json(t, name ? name : "");
    cli_text_add(t, ",\"score\":");
    cli_text_number(t, (double)d->score, SCORE_DECIMALS);
    cli_text_add(t, ",\"box\":[");
    add_numbers(t, box, BOX_DECIMALS, ",");
    cli_text_add(t, "]}");
}

static void json_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    cli_text_add(t, before->images ? ",\n{\"path\":" : "\n{\"path\":");
    cli_text_json(t, r->path);
    cli_text_addf(t, ",\"width\":%d,\"height\":%d,\"detections\":[", r->width, r->height);
    for (size_t i = 0; i < r->n; i++) {
        cli_text_add(t, i ? ",\n " : "\n ");
        json_detection(t, r, &r->d[i]);
    }
    cli_text_add(t, "]}");
}

static void json_end(struct cli_text *t)
{
    cli_text_add(t, "\n]}\n");
}

const struct cli_format cli_format_json = {"json", json_begin, json_image, json_end};

/* --- txt --- */

static void txt_image(struct cli_text *t, const struct cli_record *r, const struct cli_count *before)
{
    (void)before;
    for (size_t i = 0; i < r->n; i++) {
        const yolort_detection *d = &r->d[i];
        double x1 = (double)d->x1, y1 = (double)d->y1, x2 = (double)d->x2, y2 = (double)d->y2;
        const double box[4] = {(x1 + x2) / 2 / r->width, (y1 + y2) / 2 / r->height, (x2 - x1) / r->width,
                               (y2 - y1) / r->height};
        cli_text_addf(t, "%d ", (int)d->cls);
        add_numbers(t, box, SCORE_DECIMALS, " ");
        cli_text_add(t, " ");
        cli_text_number(t, (double)d->score, SCORE_DECIMALS);
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
        cli_text_add(t, "}");
    }
}

static void coco_end(struct cli_text *t)
{
    cli_text_add(t, "\n]\n");
}

const struct cli_format cli_format_coco = {"coco", coco_begin, coco_image, coco_end};
