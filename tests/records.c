/*
 * Stored records of whole networks (rule weights and the tiny checkpoints) against compiled code:
 *   records [--family F] [--record TEXT] [--task TASK] [--max-params N] [--min-params N] [--names] [--own] [--bound X]
 *           [--no-fast] [--checked] [--guard] [--no-fuse] [--no-reuse]
 * --names compares only weight names, shapes and parameter counts; --own compiles our models/ in place of the
 * official files. An error is |ours - stored| relative to the tensor's stored mean of absolute values.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datafile.h"
#include "network.h"

struct args {
    const char *family, *record, *task;
    double max_params, min_params, bound;
    int names, own, guard;
    yoloc_opts opts;
};

/* One record, with the files that it is compiled from. */
struct job {
    const json_t *record;
    const char *family;
    char model[1024], scale[2];
    const char *weights;
};

struct worst {
    double error;
    char where[96];
    int faults;
};

static const struct {
    const char *name, *file;
} families[] = {
    {"v3", "expected/rule/v3.json"},
    {"v5", "expected/rule/v5.json"},
    {"v6", "expected/rule/v6.json"},
    {"v8", "expected/rule/v8.json"},
    {"v9", "expected/rule/v9.json"},
    {"v10", "expected/rule/v10.json"},
    {"11", "expected/rule/11.json"},
    {"12", "expected/rule/12.json"},
    {"26", "expected/rule/26.json"},
    {"rt-detr", "expected/rule/rt-detr.json"},
    {"yolov3-repo", "expected/rule/yolov3-repo.json"},
    {"yolov5-repo", "expected/rule/yolov5-repo.json"},
    {"extra", "expected/extra.json"},
    {"tiny", "expected/tiny.json"},
};

/* --- names, shapes, counts ------------------------------------------------------------------------------ */

static uint64_t fnv(const char *text, size_t size)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001B3u;
    return h;
}

static int same_digest(const json_t *record, const char *key, const yoloc_result *text)
{
    uint64_t want = strtoull(test_json_text(record, key), NULL, 16);
    return fnv(text->bytes, text->size) == want;
}

/* First stored line that differs, for the records that keep the lines themselves. */
static void print_difference(const json_t *record, const char *ours)
{
    const json_t *lines = json_object_get(record, "state_w");
    const char *at = ours;
    for (size_t i = 0; lines && i < json_array_size(lines); i++) {
        const char *want = json_string_value(json_array_get(lines, i));
        size_t n = strcspn(at, "\n");
        if (want && (strlen(want) != n || memcmp(want, at, n) != 0)) {
            printf("  line %zu: wanted \"%s\", ours \"%.*s\"\n", i + 1, want, (int)n, at);
            return;
        }
        at += n + (at[n] == '\n');
    }
}

static int check_names(yoloc *c, const struct job *j)
{
    yoloc_result text = {0};
    if (yoloc_wanted_text(c, j->model, 0, &text) != YOLOC_OK)
        return 1;
    int ok = same_digest(j->record, "digest_w", &text) || same_digest(j->record, "digest", &text);
    if (!ok) {
        printf("  names or shapes differ\n");
        print_difference(j->record, text.bytes);
    }
    yoloc_free_result(&text);
    return !ok;
}

/* Every number of a line but those inside words, in order: the parameter text is compared by its numbers. */
static size_t numbers_of(const char *text, double *out, size_t room)
{
    size_t n = 0;
    for (const char *p = text; *p && n < room;) {
        if (isdigit((unsigned char)*p)) {
            out[n++] = strtod(p, (char **)&p);
            continue;
        }
        while (*p && !isspace((unsigned char)*p) && !isdigit((unsigned char)*p))
            p++;
        while (*p && isspace((unsigned char)*p))
            p++;
    }
    return n;
}

static int check_params(yoloc *c, const struct job *j)
{
    yoloc_result text = {0};
    if (yoloc_wanted_text(c, j->model, 1, &text) != YOLOC_OK)
        return 1;
    static double number[8192];
    size_t n = numbers_of(text.bytes, number, 8192);
    int found = 0;
    for (size_t i = 0; i < n; i++)
        found |= number[i] == test_json_number(j->record, "params");
    if (!found)
        printf("  %.0f parameters is not what this says:\n%s\n", test_json_number(j->record, "params"),
               (char *)text.bytes);
    yoloc_free_result(&text);
    return !found;
}

/* --- values --------------------------------------------------------------------------------------------- */

static void note(struct worst *w, double error, double bound, const char *what, const char *part)
{
    int bad = !(error <= bound);
    w->faults += bad;
    if (bad && w->faults <= 5)
        printf("  %s: %s is off by %.3g of the mean\n", what, part, error);
    if (error <= w->error)
        return;
    w->error = error;
    snprintf(w->where, sizeof w->where, "%s %s", what, part);
}

/* The k-th sample of a tensor is element mix((k + 1) * G) modulo its size. */
static uint64_t mix(uint64_t z)
{
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int same_shape(const yolort_io *io, const json_t *shape)
{
    if ((size_t)io->rank != json_array_size(shape))
        return 0;
    for (int i = 0; i < io->rank; i++)
        if ((double)io->dim[i] != test_json_at(shape, (size_t)i))
            return 0;
    return 1;
}

static double mean_of(const json_t *values, int absolute)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        sum += absolute ? fabs(test_json_at(values, i)) : test_json_at(values, i);
    return sum / (double)json_array_size(values);
}

static void compare_means(struct worst *w, const char *what, const float *x, size_t n, double mean, double abs_mean,
                          double bound)
{
    double sum = 0, abs_sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        abs_sum += fabs((double)x[i]);
    }
    note(w, fabs(sum / (double)n - mean) / abs_mean, bound, what, "mean");
    note(w, fabs(abs_sum / (double)n - abs_mean) / abs_mean, bound, what, "abs mean");
}

static void compare_samples(struct worst *w, const char *what, const float *x, size_t n, const json_t *samples,
                            int all, double abs_mean, double bound)
{
    for (size_t k = 0; k < json_array_size(samples); k++) {
        size_t i = all ? k : (size_t)(mix((k + 1) * 0x9E3779B97F4A7C15u) % n);
        char part[32];
        snprintf(part, sizeof part, "element %zu", i);
        note(w, fabs((double)x[i] - test_json_at(samples, k)) / abs_mean, bound, what, part);
    }
}

/* The first dimension of some stored tensors is a 1 that stands for the last layer of a decoder. */
static json_t *shape_of(const json_t *row, const char *name)
{
    json_t *shape = json_deep_copy(json_array_get(row, 1));
    if (strncmp(name, "dec_", 4) == 0)
        json_array_remove(shape, 0);
    return shape;
}

/* --- the best of a one-to-one head ---------------------------------------------------------------------- */

struct best {
    double score;
    size_t anchor, cls;
};

static int by_score(const void *x, const void *y)
{
    const struct best *a = x, *b = y;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->anchor != b->anchor)
        return a->anchor < b->anchor ? -1 : 1;
    return a->cls < b->cls ? -1 : a->cls > b->cls;
}

/* The k places with the best score of any class, then the k best scores of those: in descending order. x: [4+nc+extra, n]. */
static struct best *best_of(const float *x, size_t nc, size_t n, size_t k)
{
    struct best *place = calloc(n, sizeof *place), *all = calloc(k * nc, sizeof *all);
    for (size_t i = 0; i < n; i++) {
        place[i] = (struct best){-INFINITY, i, 0};
        for (size_t c = 0; c < nc; c++)
            place[i].score = fmax(place[i].score, (double)x[(4 + c) * n + i]);
    }
    qsort(place, n, sizeof *place, by_score);
    for (size_t i = 0; i < k; i++)
        for (size_t c = 0; c < nc; c++)
            all[i * nc + c] = (struct best){(double)x[(4 + c) * n + place[i].anchor], place[i].anchor, c};
    free(place);
    qsort(all, k * nc, sizeof *all, by_score);
    return all;
}

/* [batch, row, gap, box, score, class, extra...] for rows whose place in the order is certain; boxes of RT-DETR are centre and
 * size as parts of the image. */
static void compare_top_row(struct worst *w, const json_t *row, const float *x, const struct best *b, size_t nc, size_t n,
                            size_t extra, const json_t *input, double bound)
{
    char part[48];
    double want[6], ours[6], box[4];
    snprintf(part, sizeof part, "row %.0f", test_json_at(row, 1));
    for (size_t i = 0; i < 6; i++)
        want[i] = test_json_at(row, 3 + i);
    for (size_t i = 0; i < 4; i++)
        box[i] = (double)x[i * n + b->anchor];
    memcpy(ours, box, sizeof box);
    if (input) {
        double h = test_json_at(input, 2), width = test_json_at(input, 3);
        ours[0] = (box[0] + box[2]) / 2 / width;
        ours[1] = (box[1] + box[3]) / 2 / h;
        ours[2] = (box[2] - box[0]) / width;
        ours[3] = (box[3] - box[1]) / h;
    }
    ours[4] = b->score;
    ours[5] = (double)b->cls;
    for (size_t i = 0; i < 6; i++)
        note(w, fabs(ours[i] - want[i]) / fmax(fabs(want[i]), 1), bound, "topk", part);
    for (size_t i = 0; i < extra; i++) {
        double v = test_json_at(row, 9 + i), o = (double)x[(4 + nc + i) * n + b->anchor];
        note(w, fabs(o - v) / fmax(fabs(v), 1), bound, "topk", part);
    }
}

/* decoded: the output that the best are taken of. */
static void compare_topk(struct worst *w, const struct test_net *net, const json_t *record, const char *decoded,
                         int queries, double bound)
{
    const yolort_io *io;
    const float *x = test_net_output(net, decoded, &io);
    size_t nc = (size_t)test_json_number(record, "nc"), n = x ? (size_t)io->dim[2] : 0, channels = x ? (size_t)io->dim[1] : 0;
    size_t k = n < 300 ? n : 300, most = queries ? (n * nc < 300 ? n * nc : 300) : k, i;
    json_t *row;
    if (!x) {
        printf("  %s: no such output\n", decoded);
        w->faults++;
        return;
    }
    json_array_foreach(test_json_list(record, "topk_rows"), i, row) {
        size_t at = (size_t)test_json_at(row, 1);
        const float *image = x + (size_t)test_json_at(row, 0) * channels * n;
        struct best *b = best_of(image, nc, n, k);
        if (at < most)
            compare_top_row(w, row, image, &b[at], nc, n, channels - 4 - nc, queries ? test_json_list(record, "input") : NULL,
                            bound);
        else
            w->faults++;
        free(b);
    }
}

/* [name, shape, mean, abs mean, samples], or in tiny.json [name, shape, "all" or "sample", values] */
static void compare_row(struct worst *w, const char *name, const float *x, size_t count, const json_t *row, double bound)
{
    const char *kind = json_string_value(json_array_get(row, 2));
    const json_t *values = json_array_get(row, kind ? 3 : 4);
    int all = kind && strcmp(kind, "all") == 0;
    if (all && json_array_size(values) != count) {
        w->faults++;
        return;
    }
    double abs_mean = kind ? mean_of(values, 1) : test_json_at(row, 3);
    if (!kind)
        compare_means(w, name, x, count, test_json_at(row, 2), abs_mean, bound);
    compare_samples(w, name, x, count, values, all, abs_mean, bound);
}

/* The score column of the best, [batch, k]: certain everywhere. */
static void compare_top_scores(struct worst *w, const struct test_net *net, const json_t *record, const json_t *row,
                               double bound)
{
    const yolort_io *io;
    const float *x = test_net_output(net, "o2o_decoded", &io);
    size_t nc = (size_t)test_json_number(record, "nc"), batch = (size_t)test_json_at(json_array_get(row, 1), 0);
    size_t k = (size_t)test_json_at(json_array_get(row, 1), 1), n = x ? (size_t)io->dim[2] : 0;
    float *score = calloc(batch * k, sizeof *score);
    if (!x || !score || k != (n < 300 ? n : 300) || batch != (size_t)io->dim[0]) {
        printf("  o2o_topk_scores: another shape\n");
        w->faults++;
        free(score);
        return;
    }
    for (size_t i = 0; i < batch; i++) {
        struct best *b = best_of(x + i * (size_t)io->dim[1] * n, nc, n, k);
        for (size_t r = 0; r < k; r++)
            score[i * k + r] = (float)b[r].score;
        free(b);
    }
    compare_row(w, "o2o_topk_scores", score, batch * k, row, bound);
    free(score);
}

/* Our output of that name, of that shape; NULL is counted as a fault. */
static const float *output_like(struct worst *w, const struct test_net *n, const char *name, const json_t *shape,
                                size_t *count)
{
    const yolort_io *io;
    const float *x = test_net_output(n, name, &io);
    if (!x || !same_shape(io, shape)) {
        printf("  %s: %s\n", name, x ? "another shape" : "no such output");
        w->faults++;
        return NULL;
    }
    *count = test_io_elements(io);
    return x;
}

/* [layer, part, class, shape, mean, abs mean, samples] */
static void compare_layer(struct worst *w, const struct test_net *n, const json_t *row, double bound)
{
    char name[32];
    int layer = (int)test_json_at(row, 0), part = (int)test_json_at(row, 1);
    snprintf(name, sizeof name, part ? "layer.%d.%d" : "layer.%d", layer, part);
    size_t count;
    const float *x = output_like(w, n, name, json_array_get(row, 3), &count);
    if (!x)
        return;
    double abs_mean = test_json_at(row, 5);
    compare_means(w, name, x, count, test_json_at(row, 4), abs_mean, bound);
    compare_samples(w, name, x, count, json_array_get(row, 6), 0, abs_mean, bound);
}

static void compare_final(struct worst *w, const struct test_net *n, const json_t *row, double bound)
{
    const char *name = json_string_value(json_array_get(row, 0));
    size_t count;
    json_t *shape = shape_of(row, name);
    const float *x = output_like(w, n, name, shape, &count);
    json_decref(shape);
    if (!x)
        return;
    compare_row(w, name, x, count, row, bound);
}

static int check_values(const struct args *a, const struct job *j, const yoloc_opts *opts, struct worst *w)
{
    struct test_net net;
    int rc = test_net_open(&net, j->model, j->weights, opts, a->guard);
    if (rc == 0)
        rc = test_net_run(&net, (uint32_t)test_json_number(j->record, "seed"));
    if (rc == 0) {
        size_t i;
        json_t *row;
        json_array_foreach(test_json_list(j->record, "layer_out"), i, row)
            compare_layer(w, &net, row, a->bound);
        json_array_foreach(test_json_list(j->record, "final"), i, row) {
            const char *name = json_string_value(json_array_get(row, 0));
            if (strcmp(name, "topk") == 0)
                compare_topk(w, &net, j->record, "decoded", 1, a->bound);
            else if (strcmp(name, "o2o_topk") == 0)
                compare_topk(w, &net, j->record, "o2o_decoded", 0, a->bound);
            else if (strcmp(name, "o2o_topk_scores") == 0)
                compare_top_scores(w, &net, j->record, row, a->bound);
            else
                compare_final(w, &net, row, a->bound);
        }
    }
    test_net_free(&net);
    return rc < 0 || w->faults > 0;
}

/* --- records -------------------------------------------------------------------------------------------- */

static int wanted(const struct args *a, const struct job *j)
{
    const char *yaml = test_json_text(j->record, "yaml");
    double params = test_json_number(j->record, "params");
    if (a->task && strcmp(test_json_text(j->record, "task"), a->task) != 0)
        return 0;
    char label[128];
    snprintf(label, sizeof label, "%s:%s", yaml, test_json_text(j->record, "scale"));
    if (a->record && !strstr(label, a->record))
        return 0;
    return params >= a->min_params && params < a->max_params;
}

/* Our own description of the same network, if there is one. */
static int own_model(struct job *j)
{
    const char *yaml = test_json_text(j->record, "yaml");
    const char *base = strrchr(yaml, '/') ? strrchr(yaml, '/') + 1 : yaml;
    int repo = strcmp(j->family, "yolov5-repo") == 0, segment = strstr(yaml, "/segment/") != NULL;
    if (strcmp(j->family, "tiny") == 0 || strcmp(j->family, "extra") == 0 || strcmp(j->family, "yolov3-repo") == 0)
        return 0;
    if (repo && !segment && (strchr(yaml, '/') + 1 != base || strlen(base) != strlen("yolov5n.yaml")))
        return 0;
    snprintf(j->model, sizeof j->model, "models/%s",
             segment ? "yolov5-anchor-seg.yaml" : repo ? "yolov5-anchor.yaml" : base);
    if (repo)
        j->scale[0] = base[strlen("yolov5")];
    return access(j->model, R_OK) == 0;
}

static int choose_files(const struct args *a, struct job *j)
{
    const char *file = json_string_value(json_object_get(j->record, "file"));
    char name[512];
    snprintf(j->scale, sizeof j->scale, "%s", file ? "" : test_json_text(j->record, "scale"));
    j->weights = file ? NULL : "rule";
    if (a->own)
        return own_model(j);
    if (file)
        snprintf(name, sizeof name, "weights/%s", file);
    else
        snprintf(name, sizeof name, strcmp(j->family, "extra") == 0 ? "expected/%s" : "models/official/%s",
                 test_json_text(j->record, "yaml"));
    test_data_path(j->model, sizeof j->model, name);
    return 1;
}

static int check_record(const struct args *a, const struct job *j)
{
    const json_t *input = test_json_list(j->record, "input");
    yoloc_opts o = a->opts;
    o.scale = j->scale[0] ? j->scale : NULL;
    o.batch = (int)test_json_at(input, 0);
    o.height = (int)test_json_at(input, 2);
    o.width = (int)test_json_at(input, 3);
    o.layers = 1;
    o.strip = 1;
    yoloc *c = test_compiler(&o);
    if (!c)
        return 1;
    int bad = check_names(c, j) + check_params(c, j);
    yoloc_close(c);
    struct worst w = {0};
    if (!a->names)
        bad += check_values(a, j, &o, &w);
    const char *model = a->own ? j->model : test_json_text(j->record, "yaml");
    printf("%-4s %s %s %s: ", bad ? "FAIL" : "ok", j->family, model, j->scale);
    if (a->names)
        printf("names, shapes, parameters\n");
    else
        printf("worst %.2g at %s\n", w.error, w.where[0] ? w.where : "nothing");
    fflush(stdout);
    return bad != 0;
}

static int check_family(const struct args *a, const char *family, const char *file, int *count)
{
    json_t *records = test_data_json(file);
    int bad = 0;
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record) {
        struct job j = {.record = record, .family = family};
        if (!wanted(a, &j) || !choose_files(a, &j))
            continue;
        bad += check_record(a, &j);
        ++*count;
    }
    json_decref(records);
    return bad;
}

static int parse_flag(struct args *a, const char *word)
{
    const struct {
        const char *name;
        int *flag;
    } flags[] = {{"--names", &a->names},          {"--own", &a->own},
                 {"--guard", &a->guard},          {"--no-fast", &a->opts.no_fast},
                 {"--checked", &a->opts.checked}, {"--no-fuse", &a->opts.no_fuse},
                 {"--no-reuse", &a->opts.no_reuse}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(word, flags[i].name) == 0)
            return *flags[i].flag = 1;
    return 0;
}

static int parse_value(struct args *a, const char *word, const char *value)
{
    if (strcmp(word, "--family") == 0)
        a->family = value;
    else if (strcmp(word, "--record") == 0)
        a->record = value;
    else if (strcmp(word, "--task") == 0)
        a->task = value;
    else if (strcmp(word, "--max-params") == 0)
        a->max_params = atof(value);
    else if (strcmp(word, "--min-params") == 0)
        a->min_params = atof(value);
    else if (strcmp(word, "--bound") == 0)
        a->bound = atof(value);
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    struct args a = {.max_params = 1e12, .bound = 1e-3};
    yoloc_opts_init(&a.opts, sizeof a.opts);
    for (int i = 1; i < argc; i++) {
        if (parse_flag(&a, argv[i]))
            continue;
        if (i + 1 >= argc || !parse_value(&a, argv[i], argv[i + 1])) {
            fprintf(stderr, "records: %s is unknown or lacks its value\n", argv[i]);
            return 2;
        }
        i++;
    }
    if (!test_data_exists("expected/rule")) {
        printf("skipped: no expected/rule below the test data folder\n");
        return TEST_SKIP;
    }
    int count = 0, bad = 0;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        if (!a.family || strcmp(a.family, families[f].name) == 0)
            bad += check_family(&a, families[f].name, families[f].file, &count);
    printf("%d records, %d with faults\n", count, bad);
    return bad || !count;
}
