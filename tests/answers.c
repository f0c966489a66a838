/*
 * Answers of every task on a device against its network and the CPU's functions before and after it: answers MODULE RUNS PICTURE.ppm...
 * Each picture in each format, one by one and in batches: boxes, what they have beside them, masks, classes and maps have to be the
 * same bits (a NaN of a map: any NaN). Then the first picture is timed RUNS times.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pixels.h"
#include "stopwatch.h"

enum { MOST = 16, CAPACITY = 300 };

struct answers {
    yolort_module *m;
    yolort_context *c;
    const yolort_info *info;
    yolort_answer answer;
    int input, output, proto; /* io; proto -1: none */
    size_t rows, extras;
    yolort_picture picture[MOST][PIXELS_KINDS];
    int n;
    uint8_t *in;
    float *out, *protos; /* of a batch, as the network gives them to the host */
    long compared, found, masks;
};

/* Room for the answers of a batch. */
struct room {
    yolort_detection box[MOST * CAPACITY];
    yolort_turned turned[MOST * CAPACITY];
    size_t count[MOST];
    float *extra, *prob;
    uint16_t *label[MOST];
    float *depth[MOST];
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "answers: %s: %s\n", what, why);
    return 1;
}

static size_t io_bytes(const struct answers *s, int io)
{
    return yolort_io_at(s->m, (size_t)io)->bytes_per_image;
}

static size_t pixels_of(const yolort_picture *p)
{
    return (size_t)p->width * (size_t)p->height;
}

/* --- here --------------------------------------------------------------------------------------------------- */

static int bring(struct answers *s, const yolort_picture *p, int i, yolort_placement *place)
{
    size_t bytes = io_bytes(s, s->input);
    uint8_t *rgb = pixels_rgb(p), *to = s->in + (size_t)i * bytes;
    const yolort_image image = {rgb, p->width, p->height, 0};
    int bad = !rgb || yolort_letterbox_plan(p->width, p->height, s->info->width, s->info->height, s->info->letterbox, s->info->stride, 1,
                                            place);
    if (!bad && s->answer == YOLORT_CLASSES) bad = yolort_crop(&image, s->info->width, s->info->height, to, bytes) != YOLORT_OK;
    if (!bad && s->answer != YOLORT_CLASSES) bad = yolort_letterbox(&image, place, to, bytes) != YOLORT_OK;
    free(rgb);
    return bad ? fail("picture", "cannot be brought in") : 0;
}

static int run_network(struct answers *s, const yolort_picture *p, int n, yolort_placement *place)
{
    for (int i = 0; i < n; i++)
        if (bring(s, &p[i], i, &place[i])) return 1;
    return yolort_run(s->c, n, NULL) || yolort_wait(s->c) ? fail("run", yolort_error(s->c)) : 0;
}

static const float *output_of(const struct answers *s, int i)
{
    return s->out + (size_t)i * io_bytes(s, s->output) / sizeof(float);
}

/* --- both --------------------------------------------------------------------------------------------------- */

static int compare_masks(struct answers *s, const struct room *r, const yolort_picture *p, int i)
{
    size_t bytes = pixels_of(p), n = r->count[i] < 40 ? r->count[i] : 40, first = (size_t)i * CAPACITY;
    const yolort_io *io = yolort_io_at(s->m, (size_t)s->proto);
    const float *protos = s->protos + (size_t)i * io->bytes_per_image / sizeof(float);
    const yolort_proto proto = {protos, (int)io->dim[1], (int)io->dim[2], (int)io->dim[3]};
    uint8_t *got = malloc(n * bytes + 1), *want = malloc(bytes), *work = malloc(yolort_mask_work_size(&proto));
    int bad = !got || !want || !work;
    if (!bad && yolort_masks(s->c, i, p->width, p->height, r->box + first, r->extra + first * s->extras, n, got, n * bytes, NULL))
        bad = fail("masks", yolort_error(s->c));
    for (size_t k = 0; k < n && !bad; k++) {
        const float *coefficient = r->extra + (first + k) * s->extras;
        bad = yolort_mask(&proto, coefficient, &r->box[first + k], p->width, p->height, work, want, bytes) != YOLORT_OK;
        if (!bad && memcmp(want, got + k * bytes, bytes)) bad = fail("masks", "another mask");
        s->masks++;
    }
    free(got);
    free(want);
    free(work);
    return bad;
}

static int compare_box(const struct answers *s, const struct room *r, const yolort_picture *p, const yolort_placement *place,
                       int i, size_t k, yolort_detection want, float *extra)
{
    const float *rows = output_of(s, i);
    size_t at = (size_t)i * CAPACITY + k;
    yolort_turned turned;
    yolort_unletterbox(&want, 1, s->info->head, place, p->width, p->height);
    if (s->info->angles) {
        yolort_turn(rows, s->rows, s->info, place, p->width, p->height, &want, &turned);
        if (memcmp(&turned, &r->turned[at], sizeof turned)) return fail("boxes", "another turned box");
    }
    if (memcmp(&want, &r->box[at], sizeof want)) return fail("boxes", "another box");
    yolort_extra(rows, s->rows, s->info, want.row, extra);
    return memcmp(extra, r->extra + at * s->extras, s->extras * sizeof *extra) ? fail("boxes", "other numbers beside a box") : 0;
}

static int compare_boxes(struct answers *s, const struct room *r, const yolort_picture *p, const yolort_placement *place, int i,
                         const yolort_nms_opts *opts)
{
    yolort_nms_opts o = *opts;
    o.extra = (int)s->extras;
    o.rotated = s->info->angles;
    yolort_detection *want = calloc(CAPACITY, sizeof *want);
    float *extra = calloc(s->extras + 1, sizeof *extra);
    void *work = malloc(yolort_nms_work_size(s->rows));
    size_t n = 0;
    int bad = !want || !extra || !work ||
              yolort_nms(output_of(s, i), s->rows, s->info->nc, s->info->head, &o, work, want, CAPACITY, &n) != YOLORT_OK;
    if (!bad && n != r->count[i]) bad = fail("boxes", "another number of boxes");
    for (size_t k = 0; k < n && !bad; k++) bad = compare_box(s, r, p, place, i, k, want[k], extra);
    s->found += (long)n;
    free(want);
    free(extra);
    free(work);
    return !bad && s->proto >= 0 ? compare_masks(s, r, p, i) : bad;
}

static int are_same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return 0;
    return 1;
}

static int compare_map(const struct answers *s, const struct room *r, const yolort_picture *p, const yolort_placement *place, int i)
{
    size_t n = pixels_of(p);
    int labels = s->answer == YOLORT_LABELS, bad;
    void *want = malloc(n * sizeof(float));
    if (!want) return fail("map", "no memory");
    if (labels)
        bad = yolort_labels(output_of(s, i), s->info->nc, place, p->width, p->height, want, n) ||
              memcmp(want, r->label[i], n * sizeof(uint16_t));
    else
        bad = yolort_depths(output_of(s, i), place, p->width, p->height, want, n) || !are_same(want, r->depth[i], n);
    free(want);
    return bad ? fail("map", "another number") : 0;
}

static int compare_one(struct answers *s, const struct room *r, const yolort_picture *p, const yolort_placement *place, int i,
                       const yolort_nms_opts *o)
{
    size_t nc = (size_t)s->info->nc;
    s->compared++;
    if (s->answer == YOLORT_BOXES) return compare_boxes(s, r, p, place, i, o);
    if (s->answer != YOLORT_CLASSES) return compare_map(s, r, p, place, i);
    return memcmp(output_of(s, i), r->prob + (size_t)i * nc, nc * sizeof *r->prob) ? fail("classes", "other probabilities") : 0;
}

static yolort_results results_of(const struct answers *s, struct room *r)
{
    yolort_results to;
    yolort_results_init(&to, sizeof to);
    to.boxes = r->box;
    to.capacity = CAPACITY;
    to.counts = r->count;
    to.extra = r->extra;
    to.turned = r->turned;
    to.protos = s->proto >= 0;
    to.prob = r->prob;
    to.labels = r->label;
    to.depths = r->depth;
    return to;
}

static int compare_batch(struct answers *s, struct room *r, const yolort_picture *p, int n)
{
    static const float conf[] = {0.25f, 0.001f, -1};
    const yolort_results to = results_of(s, r);
    yolort_placement place[MOST];
    int bad = run_network(s, p, n, place);
    for (size_t k = 0; k < (s->answer == YOLORT_BOXES ? sizeof conf / sizeof *conf : 1) && !bad; k++) {
        yolort_nms_opts o;
        yolort_nms_opts_init(&o, sizeof o);
        o.conf = conf[k];
        if (yolort_predict(s->c, p, NULL, n, &o, &to, NULL)) bad = fail("predict", yolort_error(s->c));
        for (int i = 0; i < n && !bad; i++) bad = compare_one(s, r, &p[i], &place[i], i, &o);
    }
    return bad;
}

static int compare_all(struct answers *s, struct room *r)
{
    int bad = 0, most = s->info->max_batch < MOST ? s->info->max_batch : MOST;
    for (int format = 0; format < PIXELS_KINDS && !bad; format++)
        for (int batch = 1; batch <= most && !bad; batch += most > 1 ? most - 1 : 1)
            for (int first = 0; first < s->n && !bad; first += batch) {
                yolort_picture p[MOST];
                int n = s->n - first < batch ? s->n - first : batch;
                for (int i = 0; i < n; i++) p[i] = s->picture[first + i][format];
                bad = compare_batch(s, r, p, n);
                if (bad) fprintf(stderr, "answers: pictures from %d on, %d of them, format %d\n", first, n, format);
            }
    return bad;
}

/* --- time --------------------------------------------------------------------------------------------------- */

/* ms: of the call, and of the masks of what it found. */
static int predict_timed(struct answers *s, struct room *r, uint8_t *mask, double ms[2])
{
    const yolort_results to = results_of(s, r);
    const yolort_picture *p = &s->picture[0][YOLORT_RGB];
    double start = now_ms();
    if (yolort_predict(s->c, p, NULL, 1, NULL, &to, NULL)) return fail("predict", yolort_error(s->c));
    ms[0] = now_ms() - start;
    start = now_ms();
    if (s->proto >= 0 && yolort_masks(s->c, 0, p->width, p->height, r->box, r->extra, r->count[0], mask, r->count[0] * pixels_of(p), NULL))
        return fail("masks", yolort_error(s->c));
    ms[1] = now_ms() - start;
    return 0;
}

static int measure(struct answers *s, struct room *r, int runs)
{
    double *ms[2] = {calloc((size_t)runs, sizeof **ms), calloc((size_t)runs, sizeof **ms)}, one[2];
    uint8_t *mask = s->proto < 0 ? NULL : malloc(CAPACITY * pixels_of(&s->picture[0][0]));
    yolort_parts parts = {0};
    int bad = !ms[0] || !ms[1] || (s->proto >= 0 && !mask);
    for (int i = -3; i < runs && !bad; i++) {
        bad = predict_timed(s, r, mask, one);
        for (int k = 0; k < 2 && i >= 0; k++) ms[k][i] = one[k];
    }
    yolort_profile(s->c, YOLORT_PARTS);
    if (!bad) bad = predict_timed(s, r, mask, one);
    yolort_parts_of(s->c, &parts);
    for (int k = 0; k < 2 && !bad; k++) qsort(ms[k], (size_t)runs, sizeof **ms, by_value);
    if (!bad)
        printf("%s: median %.3f ms, masks of %zu boxes %.3f ms; in %.3f letterbox or crop %.3f network %.3f select %.3f out %.3f\n",
               s->info->task, ms[0][runs / 2], s->answer == YOLORT_BOXES ? r->count[0] : 0, ms[1][runs / 2], parts.in_ms,
               parts.letterbox_ms, parts.network_ms, parts.select_ms, parts.out_ms);
    for (int k = 0; k < 2; k++) free(ms[k]);
    free(mask);
    return bad;
}

/* --- the module --------------------------------------------------------------------------------------------- */

static int bind(const struct answers *s, int io, void *data)
{
    size_t bytes = io_bytes(s, io) * (size_t)s->info->max_batch;
    return !data || yolort_bind(s->c, (size_t)io, data, bytes) ? fail("bind", yolort_error(s->c)) : 0;
}

static int open_module(struct answers *s, const char *path)
{
    char why[512];
    if (yolort_load_file(&s->m, path, why, sizeof why)) return fail("module", why);
    if (yolort_context_new(&s->c, s->m, NULL)) return fail(path, "no context");
    s->info = yolort_module_info(s->m);
    s->input = yolort_io_find(s->m, "input_u8");
    s->answer = yolort_answer_of(s->m, &s->output);
    s->proto = s->info->coefficients ? yolort_io_find(s->m, "proto") : -1;
    if (s->input < 0 || !s->answer) return fail(path, "finds nothing in pictures");
    size_t batch = (size_t)s->info->max_batch;
    const yolort_io *out = yolort_io_at(s->m, (size_t)s->output);
    int across = s->info->head == YOLORT_HEAD_FREE || s->info->head == YOLORT_HEAD_BEST;
    s->rows = s->answer == YOLORT_BOXES ? (size_t)out->dim[across ? 2 : 1] : 0;
    s->extras = yolort_extra_count(s->info);
    s->in = calloc(batch, io_bytes(s, s->input));
    s->out = calloc(batch, io_bytes(s, s->output));
    s->protos = s->proto < 0 ? NULL : calloc(batch, io_bytes(s, s->proto));
    return bind(s, s->input, s->in) || bind(s, s->output, s->out) || (s->proto >= 0 && bind(s, s->proto, s->protos));
}

static int make_room(const struct answers *s, struct room *r)
{
    size_t most = 1;
    for (int i = 0; i < s->n; i++)
        if (pixels_of(&s->picture[i][0]) > most) most = pixels_of(&s->picture[i][0]);
    r->extra = calloc(MOST * CAPACITY, (s->extras + 1) * sizeof *r->extra);
    r->prob = calloc(MOST, ((size_t)s->info->nc + 1) * sizeof *r->prob);
    int bad = !r->extra || !r->prob;
    for (int i = 0; i < MOST && !bad; i++) {
        r->label[i] = calloc(most, sizeof **r->label);
        r->depth[i] = calloc(most, sizeof **r->depth);
        bad = !r->label[i] || !r->depth[i];
    }
    return bad ? fail("answers", "no memory") : 0;
}

static void drop_room(struct room *r)
{
    free(r->extra);
    free(r->prob);
    for (int i = 0; i < MOST; i++) {
        free(r->label[i]);
        free(r->depth[i]);
    }
}

int main(int argc, char **argv)
{
    static struct answers s;
    static struct room r;
    if (argc < 4 || argc - 3 > MOST) return fail("usage", "answers MODULE RUNS PICTURE.ppm...");
    if (open_module(&s, argv[1])) return 1;
    for (; s.n < argc - 3; s.n++)
        if (pixels_load(s.picture[s.n], argv[3 + s.n])) return 1;
    if (make_room(&s, &r) || compare_all(&s, &r)) return 1;
    printf("%s: %s, %ld times the same answers, %ld boxes, %ld masks\n", argv[1], s.info->model, s.compared, s.found, s.masks);
    int bad = atoi(argv[2]) > 0 && measure(&s, &r, atoi(argv[2]));
    drop_room(&r);
    yolort_context_free(s.c);
    yolort_module_free(s.m);
    free(s.in);
    free(s.out);
    free(s.protos);
    return bad;
}
