/* Answers of every task by the service kernels, on the host beside the mock driver: those of the CPU's functions, to the last bit. */
#include <math.h>
#include <stdio.h>

#include "modbuild.h"
#include "servicebox.h"

TestSuite(rt_predict, .init = start, .fini = stop);

/* --- modules ------------------------------------------------------------------------------------------------ */

enum { BATCH = 18 };

struct setup {
    const char *task, *output;
    yolort_head head;
    int nc, rows, width, height;
    int coefficients, angles;
    int proto_width, proto_height; /* 0: no such output */
    int without;                   /* no service kernels */
};

static const struct setup masked = {.task = "segment",
                                    .output = "decoded",
                                    .head = YOLORT_HEAD_FREE,
                                    .nc = 2,
                                    .rows = 40,
                                    .width = 64,
                                    .height = 48,
                                    .coefficients = 3,
                                    .proto_width = 16,
                                    .proto_height = 12};
static const struct setup classifier = {.task = "classify", .output = "prob", .nc = 7, .width = 32, .height = 32};
static const struct setup semantic = {.task = "semantic", .output = "logits_x8", .nc = 5, .width = 40, .height = 24};
static const struct setup depth = {.task = "depth", .output = "depth_x4", .nc = 1, .width = 40, .height = 24};

struct predictor {
    struct setup is;
    uint8_t *bytes;
    yolort_module *m;
    yolort_context *c;
    float *first, *second; /* what the network puts out, of BATCH images */
    size_t each[2];        /* floats of an image */
};

static void add_output(struct modbuild *b, const char *name, const int64_t *dim, int rank, const char *kernel)
{
    uint64_t in = (uint64_t)b->meta.height * (uint64_t)b->meta.width * 3, out = 1;
    uint32_t at = b->nio++;
    b->io[at] = (struct ym_io){.name = modbuild_string(b, name), .rank = (uint8_t)rank, .flags = YM_IO_OUTPUT, .dim = {BATCH}};
    for (int i = 1; i < rank; i++) out *= (uint64_t)(b->io[at].dim[i] = dim[i - 1]);
    const struct ym_param p[] = {{.first = in, .each = in, .dtype = YOLORT_U8},
                                 {.first = out * sizeof(float), .each = out * sizeof(float), .written = 1}};
    uint32_t k = modbuild_kernel(b, MB_COPY, (int64_t)out, p, 2);
    b->kernel[k].name = modbuild_string(b, kernel);
    b->kernel[k].threads = b->kernel[k].per_block = 128;
    b->step[b->nstep++] = (struct ym_step){.need = {1}, .want = {1ull << at}, .kernel = k, .narg = 2, .first_arg = b->narg, .grain = 1};
    b->arg[b->narg++] = (struct ym_arg){.slot = YM_SLOT_IO, .io = 0};
    b->arg[b->narg++] = (struct ym_arg){.slot = YM_SLOT_IO, .io = at};
}

static void describe_meta(struct modbuild *b, const struct setup *s)
{
    struct ym_meta *m = &b->meta;
    struct ym_target *t = b->target;
    m->task = modbuild_string(b, s->task);
    m->head = (uint32_t)s->head;
    m->nc = s->nc;
    m->height = t->height = s->height;
    m->width = t->width = s->width;
    m->max_batch = t->max_batch = BATCH;
    m->coefficients = s->coefficients;
    m->angles = s->angles;
    for (b->nname = 0; b->nname < (uint32_t)s->nc; b->nname++) b->name[b->nname] = b->name[0];
    t->kind = YM_CUDA;
    t->arch = modbuild_string(b, "sm_90a");
    t->features = 0;
}

/* each: floats of an image. */
static void describe_outputs(struct modbuild *b, const struct setup *s, size_t each[2])
{
    const int64_t row = 4 + s->nc + s->coefficients + s->angles, boxes[] = {row, s->rows}, prob[] = {s->nc};
    const int64_t map[] = {s->nc, s->height, s->width}, proto[] = {s->coefficients, s->proto_height, s->proto_width};
    int is_map = !strcmp(s->task, "semantic") || !strcmp(s->task, "depth");
    const int64_t *dim = s->head ? boxes : is_map ? map : prob;
    int rank = s->head ? 3 : is_map ? 4 : 2;
    add_output(b, s->output, dim, rank, "kernel");
    if (s->proto_width) add_output(b, "proto", proto, 4, "second");
    each[0] = each[1] = 1;
    for (int i = 0; i < rank - 1; i++) each[0] *= (size_t)dim[i];
    for (int i = 0; i < 3; i++) each[1] *= (size_t)proto[i];
}

static struct predictor *opened(const struct setup *s)
{
    static struct modbuild b;
    char why[256];
    size_t size;
    struct predictor *d = calloc(1, sizeof *d);
    modbuild_init(&b);
    d->is = *s;
    b.nkernel = b.nparam = b.narg = b.nio = b.nstep = 0;
    describe_meta(&b, s);
    b.io[b.nio++] =
        (struct ym_io){.name = modbuild_string(&b, "input_u8"), .dtype = YOLORT_U8, .rank = 4, .dim = {BATCH, s->height, s->width, 3}};
    describe_outputs(&b, s, d->each);
    if (!s->without) modbuild_service(&b);
    d->bytes = modbuild_finish(&b, &size);
    cr_assert_eq(yolort_load(&d->m, d->bytes, size, why, sizeof why), YOLORT_OK, "%s", why);
    cr_assert_eq(yolort_context_new(&d->c, d->m, NULL), YOLORT_OK);
    *net.given = d->first = calloc(BATCH * d->each[0] + 1, sizeof(float));
    *net.second = d->second = calloc(BATCH * d->each[1] + 1, sizeof(float));
    return d;
}

static void closed(struct predictor *d)
{
    yolort_context_free(d->c);
    yolort_module_free(d->m);
    free(d->bytes);
    free(d->first);
    free(d->second);
    free(d);
}

enum mood { PLAIN, TIED, CANCELLING, BROKEN, MOODS }; /* CANCELLING: sums depend on their order */

static float odd(void)
{
    static const float v[] = {NAN, INFINITY, -INFINITY, -0.0f, 0, 3e38f, -3e38f, 1e-42f};
    return v[noise() % 8];
}

static float number_in(enum mood mood)
{
    static const float cancelling[] = {3e7f, -3e7f, 1, -1};
    if (mood == BROKEN && noise() % 23 == 0) return odd();
    if (mood == CANCELLING) return cancelling[noise() % 4];
    float v = uniform() * 2 - 1;
    return mood == TIED ? rintf(v * 2) / 2 : v;
}

static void fill(float *to, size_t n, enum mood mood)
{
    for (size_t i = 0; i < n; i++) to[i] = number_in(mood);
}

static yolort_picture *new_pictures(int n, const int (*side)[2], yolort_pixels format)
{
    yolort_picture *p = calloc((size_t)n, sizeof *p);
    for (int i = 0; i < n; i++) p[i] = new_picture(side[i][0], side[i][1], format);
    return p;
}

static void free_pictures(yolort_picture *p, int n)
{
    for (int i = 0; i < n; i++) free_picture(&p[i]);
    free(p);
}

static const int sides[BATCH][2] = {{64, 48}, {1, 1},   {100, 60}, {33, 257}, {257, 33}, {7, 5},   {128, 96}, {31, 31}, {63, 47},
                                    {2, 99},  {99, 2},  {640, 3},  {3, 640},  {65, 49},  {80, 80}, {48, 64},  {90, 1},  {1, 90}};

static yolort_results results_for(yolort_detection *box, size_t capacity, size_t *counts)
{
    yolort_results r;
    yolort_results_init(&r, sizeof r);
    r.boxes = box;
    r.capacity = capacity;
    r.counts = counts;
    return r;
}

/* --- masks -------------------------------------------------------------------------------------------------- */

static float edge_in(int side, int hostile)
{
    if (hostile && noise() % 6 == 0) return noise() % 2 ? odd() : (float)(int)(noise() % 9 - 4) * (float)side;
    float v = uniform() * (float)side;
    return noise() % 3 == 0 ? floorf(v) : v;
}

static void make_boxes(yolort_detection *d, float *extra, size_t n, size_t each, int width, int height, enum mood mood)
{
    for (size_t i = 0; i < n; i++) {
        float x[2] = {edge_in(width, mood == BROKEN), edge_in(width, mood == BROKEN)};
        float y[2] = {edge_in(height, mood == BROKEN), edge_in(height, mood == BROKEN)};
        int turn = noise() % 8 != 0; /* else as it is, which may be an empty box */
        d[i] = (yolort_detection){.x1 = turn && x[1] < x[0] ? x[1] : x[0], .y1 = turn && y[1] < y[0] ? y[1] : y[0]};
        d[i].x2 = turn && x[1] < x[0] ? x[0] : x[1];
        d[i].y2 = turn && y[1] < y[0] ? y[0] : y[1];
    }
    if (n > 2) d[0] = (yolort_detection){.x2 = (float)width, .y2 = (float)height};
    fill(extra, n * each, mood);
}

static yolort_proto proto_of(const struct predictor *d, int image)
{
    return (yolort_proto){d->second + (size_t)image * d->each[1], d->is.coefficients, d->is.proto_height, d->is.proto_width};
}

static void expect_masks(const struct predictor *d, int image, int width, int height, const yolort_detection *box, const float *extra,
                         size_t n, const uint8_t *got)
{
    size_t bytes = (size_t)width * (size_t)height, each = yolort_extra_count(yolort_module_info(d->m));
    const yolort_proto p = proto_of(d, image);
    void *work = malloc(yolort_mask_work_size(&p));
    uint8_t *want = malloc(bytes);
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(yolort_mask(&p, extra + i * each, &box[i], width, height, work, want, bytes), YOLORT_OK);
        cr_expect(!memcmp(want, got + i * bytes, bytes), "%d x %d from %d x %d: mask %zu of %zu: %g %g %g %g", width, height, p.width, p.height,
                  i, n, (double)box[i].x1, (double)box[i].y1, (double)box[i].x2, (double)box[i].y2);
    }
    free(work);
    free(want);
}

/* Prototypes into the context, by a prediction that finds nothing. */
static void run_protos(struct predictor *d, int n)
{
    yolort_picture *p = new_pictures(n, sides, YOLORT_RGB);
    size_t counts[BATCH];
    yolort_detection none[BATCH];
    yolort_results r = results_for(none, 1, counts);
    r.protos = 1;
    cr_assert_eq(yolort_predict(d->c, p, NULL, n, NULL, &r, NULL), YOLORT_OK, "%s", yolort_error(d->c));
    free_pictures(p, n);
}

static void mask_some(struct predictor *d, int image, int width, int height, size_t n, enum mood mood, int launches)
{
    size_t each = yolort_extra_count(yolort_module_info(d->m)), bytes = (size_t)width * (size_t)height;
    yolort_detection *box = calloc(n, sizeof *box);
    float *extra = calloc(n * each, sizeof *extra);
    uint8_t *out = malloc(n * bytes);
    memset(out, 7, n * bytes);
    make_boxes(box, extra, n, each, width, height, mood);
    long before = mock.launches();
    cr_assert_eq(yolort_masks(d->c, image, width, height, box, extra, n, out, n * bytes, NULL), YOLORT_OK, "%s", yolort_error(d->c));
    cr_expect(launches < 0 || mock.launches() - before == launches, "%ld launches", mock.launches() - before);
    expect_masks(d, image, width, height, box, extra, n, out);
    free(box);
    free(extra);
    free(out);
}

Test(rt_predict, masks)
{
    static const int protos[][2] = {{16, 12}, {1, 1}, {5, 9}, {40, 8}, {33, 31}};
    for (size_t k = 0; k < sizeof protos / sizeof *protos; k++)
        for (int mood = 0; mood < MOODS; mood++) {
            struct setup s = masked;
            s.proto_width = protos[k][0];
            s.proto_height = protos[k][1];
            s.coefficients = k % 2 ? 32 : 3;
            s.angles = k == 3;
            struct predictor *d = opened(&s);
            fill(d->second, 3 * d->each[1], (enum mood)mood);
            run_protos(d, 3);
            for (int i = 0; i < BATCH; i++) mask_some(d, i % 3, sides[i][0], sides[i][1], 1 + noise() % 9, (enum mood)mood, -1);
            mask_some(d, 0, 100, 75, 300, (enum mood)mood, 2);
            closed(d);
        }
}

/* More than goes into one round: of boxes, then of values. */
Test(rt_predict, many_masks)
{
    struct setup s = masked;
    struct predictor *d = opened(&s);
    fill(d->second, d->each[1], PLAIN);
    run_protos(d, 1);
    mask_some(d, 0, 31, 17, 2500, PLAIN, 6);
    closed(d);
    s.proto_width = s.proto_height = 700;
    s.coefficients = 1;
    d = opened(&s);
    fill(d->second, d->each[1], PLAIN);
    run_protos(d, 1);
    enum { N = 50, SIDE = 20 };
    yolort_detection box[N];
    float extra[N];
    uint8_t *out = malloc(N * SIDE * SIDE);
    for (int i = 0; i < N; i++) box[i] = (yolort_detection){.x2 = SIDE, .y2 = SIDE}, extra[i] = number_in(PLAIN);
    long before = mock.launches();
    cr_assert_eq(yolort_masks(d->c, 0, SIDE, SIDE, box, extra, N, out, N * SIDE * SIDE, NULL), YOLORT_OK);
    cr_expect_eq(mock.launches() - before, 4, "two rounds: %ld", mock.launches() - before);
    expect_masks(d, 0, SIDE, SIDE, box, extra, N, out);
    free(out);
    closed(d);
}

/* Boxes, the numbers beside them and their masks, as a program without service kernels gives them. */
Test(rt_predict, without)
{
    enum { CAPACITY = 20 };
    static yolort_detection box[2][2 * CAPACITY];
    static float extra[2][2 * CAPACITY * 3];
    static uint8_t mask[2][CAPACITY * 64 * 48];
    size_t counts[2][2];
    struct setup s = masked;
    for (int i = 0; i < 2; i++) {
        s.without = i;
        struct predictor *d = opened(&s);
        seed = 77;
        fill(d->first, 2 * d->each[0], PLAIN);
        for (size_t k = 0; k < 2 * d->each[0]; k++)
            if (k % d->each[0] < 4 * (size_t)s.rows) d->first[k] = 24 + 20 * d->first[k];
        fill(d->second, 2 * d->each[1], PLAIN);
        yolort_picture *p = new_pictures(2, sides, YOLORT_BGR);
        yolort_results r = results_for(box[i], CAPACITY, counts[i]);
        r.extra = extra[i];
        r.protos = 1;
        cr_assert_eq(yolort_predict(d->c, p, NULL, 2, NULL, &r, NULL), YOLORT_OK, "%s", yolort_error(d->c));
        cr_assert_eq(yolort_masks(d->c, 0, 64, 48, box[i], extra[i], counts[i][0], mask[i], sizeof mask[i], NULL), YOLORT_OK, "%s",
                     yolort_error(d->c));
        expect_masks(d, 0, 64, 48, box[i], extra[i], counts[i][0], mask[i]);
        free_pictures(p, 2);
        closed(d);
    }
    cr_expect(counts[0][0] > 2 && counts[0][0] == counts[1][0] && counts[0][1] == counts[1][1]);
    cr_expect(!memcmp(box[0], box[1], sizeof box[0]) && !memcmp(extra[0], extra[1], sizeof extra[0]));
    cr_expect(!memcmp(mask[0], mask[1], counts[0][0] * 64 * 48));
}

/* --- turned boxes, and placements of the caller's ----------------------------------------------------------- */

Test(rt_predict, turned)
{
    enum { CAPACITY = 30 };
    static yolort_turned turned[2][CAPACITY];
    static yolort_detection box[2][CAPACITY];
    size_t count[2];
    struct setup s = masked;
    s.angles = 1;
    s.coefficients = s.proto_width = 0;
    memset(turned, 0, sizeof turned);
    for (int i = 0; i < 2; i++) {
        s.without = i;
        struct predictor *d = opened(&s);
        yolort_picture *p = new_pictures(1, sides + 2, YOLORT_RGB);
        seed = 3;
        for (size_t k = 0; k < d->each[0]; k++) d->first[k] = k < 4 * (size_t)s.rows ? uniform() * 60 : uniform();
        yolort_results r = results_for(box[i], CAPACITY, &count[i]);
        r.turned = turned[i];
        cr_assert_eq(yolort_predict(d->c, p, NULL, 1, NULL, &r, NULL), YOLORT_OK, "%s", yolort_error(d->c));
        free_pictures(p, 1);
        closed(d);
    }
    cr_expect(count[0] > 2 && count[0] == count[1]);
    cr_expect(!memcmp(turned[0], turned[1], sizeof turned[0]) && !memcmp(box[0], box[1], count[0] * sizeof **box));
    cr_expect(turned[0][0].w > 0);
}

Test(rt_predict, placements)
{
    struct predictor *d = opened(&masked);
    static uint8_t seen[64 * 48 * 3], want[sizeof seen];
    const yolort_placement place = {.out_width = 64, .out_height = 48, .left = 3, .top = 9, .right = 11, .bottom = 19,
                                    .resized_width = 50, .resized_height = 20, .scale_x = 0.5, .scale_y = 20.0 / 60};
    yolort_picture p = new_picture(100, 60, YOLORT_RGB);
    const yolort_image image = {p.data, 100, 60, p.row_bytes};
    yolort_detection box;
    size_t count;
    yolort_results r = results_for(&box, 1, &count);
    *net.seen = seen;
    *net.bytes = sizeof seen;
    d->first[0] = 3 + 25, d->first[d->is.rows] = 9 + 10, d->first[2 * d->is.rows] = 50, d->first[3 * d->is.rows] = 20;
    d->first[4 * d->is.rows] = 0.9f;
    cr_assert_eq(yolort_predict(d->c, &p, &place, 1, NULL, &r, NULL), YOLORT_OK, "%s", yolort_error(d->c));
    cr_assert_eq(yolort_letterbox(&image, &place, want, sizeof want), YOLORT_OK);
    cr_expect(!memcmp(seen, want, sizeof want));
    cr_expect_eq(count, 1);
    free_picture(&p);
    closed(d);
}

/* --- classes ------------------------------------------------------------------------------------------------ */

static void crop_some(struct predictor *d, int first, int n, yolort_pixels format)
{
    size_t bytes = (size_t)d->is.width * (size_t)d->is.height * 3;
    yolort_picture *p = new_pictures(n, sides + first, format);
    uint8_t *seen = calloc((size_t)n, bytes), *want = malloc(bytes);
    float prob[BATCH * 7];
    yolort_results r;
    yolort_results_init(&r, sizeof r);
    r.prob = prob;
    *net.seen = seen;
    *net.bytes = (long long)bytes * n;
    long before = mock.launches();
    cr_assert_eq(yolort_predict(d->c, p, NULL, n, NULL, &r, NULL), YOLORT_OK, "%s", yolort_error(d->c));
    cr_expect_eq(mock.launches() - before, 1 + 2 * ((n + 15) / 16));
    for (int i = 0; i < n; i++) {
        uint8_t *rgb = malloc((size_t)p[i].width * (size_t)p[i].height * 3);
        for (int y = 0; y < p[i].height; y++)
            for (int x = 0; x < p[i].width; x++) rgb_of(&p[i], x, y, rgb + 3 * ((size_t)y * (size_t)p[i].width + (size_t)x));
        const yolort_image image = {rgb, p[i].width, p[i].height, 0};
        cr_assert_eq(yolort_crop(&image, d->is.width, d->is.height, want, bytes), YOLORT_OK);
        cr_expect(!memcmp(want, seen + (size_t)i * bytes, bytes), "%d x %d, format %d, to %d x %d", p[i].width, p[i].height, (int)format,
                  d->is.width, d->is.height);
        free(rgb);
    }
    cr_expect(!memcmp(prob, d->first, (size_t)n * d->each[0] * sizeof *prob));
    *net.bytes = 0;
    free(seen);
    free(want);
    free_pictures(p, n);
}

Test(rt_predict, classes)
{
    static const int target[][2] = {{32, 32}, {1, 1}, {9, 20}, {50, 50}};
    for (size_t t = 0; t < sizeof target / sizeof *target; t++) {
        struct setup s = classifier;
        s.width = target[t][0];
        s.height = target[t][1];
        struct predictor *d = opened(&s);
        fill(d->first, BATCH * d->each[0], BROKEN);
        for (int format = YOLORT_RGB; format <= YOLORT_NV12_709; format++) {
            crop_some(d, 0, BATCH, (yolort_pixels)format);
            for (int i = 0; i < 3; i++) crop_some(d, 3 * i + format, 1 + i, (yolort_pixels)format);
        }
        closed(d);
    }
}

/* --- maps --------------------------------------------------------------------------------------------------- */

static size_t pixels_of(const yolort_picture *p)
{
    return (size_t)p->width * (size_t)p->height;
}

/* Which NaN it is depends on the machine. */
static int are_same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return 0;
    return 1;
}

static void map_some(struct predictor *d, int n, const yolort_placement *places, const char *what)
{
    int labels = d->is.nc > 1;
    yolort_picture *p = new_pictures(n, sides, YOLORT_RGB);
    uint16_t *label[BATCH], *label_want;
    float *value[BATCH], *value_want;
    yolort_results r;
    yolort_results_init(&r, sizeof r);
    r.labels = label;
    r.depths = value;
    for (int i = 0; i < n; i++) label[i] = calloc(pixels_of(&p[i]), sizeof **label), value[i] = calloc(pixels_of(&p[i]), sizeof **value);
    cr_assert_eq(yolort_predict(d->c, p, places, n, NULL, &r, NULL), YOLORT_OK, "%s", yolort_error(d->c));
    for (int i = 0; i < n; i++) {
        const float *map = d->first + (size_t)i * d->each[0];
        size_t pixels = pixels_of(&p[i]);
        yolort_placement place;
        yolort_letterbox_plan(p[i].width, p[i].height, d->is.width, d->is.height, YOLORT_SQUARE, 4, 1, &place);
        if (places) place = places[i];
        label_want = calloc(pixels, sizeof *label_want);
        value_want = calloc(pixels, sizeof *value_want);
        if (labels) cr_assert_eq(yolort_labels(map, d->is.nc, &place, p[i].width, p[i].height, label_want, pixels), YOLORT_OK);
        if (!labels) cr_assert_eq(yolort_depths(map, &place, p[i].width, p[i].height, value_want, pixels), YOLORT_OK);
        cr_expect(!memcmp(label_want, label[i], pixels * sizeof *label_want), "%s: labels of %d x %d", what, p[i].width, p[i].height);
        cr_expect(are_same(value_want, value[i], pixels), "%s: depths of %d x %d", what, p[i].width, p[i].height);
        free(label_want);
        free(value_want);
        free(label[i]);
        free(value[i]);
    }
    free_pictures(p, n);
}

Test(rt_predict, maps)
{
    static const int size[][2] = {{40, 24}, {1, 1}, {33, 65}};
    for (int kind = 0; kind < 4; kind++)
        for (size_t k = 0; k < sizeof size / sizeof *size; k++)
            for (int mood = 0; mood < MOODS; mood++) {
                struct setup s = kind % 2 ? semantic : depth;
                char what[64];
                s.width = size[k][0];
                s.height = size[k][1];
                s.without = kind / 2;
                struct predictor *d = opened(&s);
                fill(d->first, BATCH * d->each[0], (enum mood)mood);
                snprintf(what, sizeof what, "kind %d, mood %d, %d x %d", kind, mood, s.width, s.height);
                map_some(d, BATCH, NULL, what);
                const yolort_placement corner = {.out_width = s.width, .out_height = s.height, .right = s.width - 1,
                                                 .bottom = s.height - 1, .resized_width = 1, .resized_height = 1};
                map_some(d, 1, &corner, what);
                closed(d);
            }
}

/* --- what is refused, and what fails ------------------------------------------------------------------------ */

static yolort_status try_predict(struct predictor *d, const yolort_picture *p, const yolort_placement *place, const yolort_results *r,
                                 const char *part)
{
    yolort_status s = yolort_predict(d->c, p, place, 1, NULL, r, NULL);
    cr_expect(strstr(yolort_error(d->c), part), "\"%s\" is not in \"%s\"", part, yolort_error(d->c));
    return s;
}

static void refuse_boxes(const yolort_picture *p)
{
    struct setup s = masked;
    struct predictor *d = opened(&s);
    yolort_detection box;
    size_t count;
    yolort_results r = results_for(&box, 1, &count), none = results_for(NULL, 0, NULL);
    yolort_placement place = {.out_width = 64, .out_height = 48, .resized_width = 64, .resized_height = 47, .bottom = 1};
    yolort_picture flat = *p;
    flat.height = 0;
    cr_expect_eq(try_predict(d, p, NULL, NULL, "bad results"), YOLORT_ARG);
    cr_expect_eq(try_predict(d, p, NULL, &none, "NULL"), YOLORT_ARG);
    cr_expect_eq(try_predict(d, NULL, NULL, &r, "NULL"), YOLORT_ARG);
    cr_expect_eq(try_predict(d, p, &place, &r, ""), YOLORT_OK);
    cr_expect_eq(try_predict(d, &flat, &place, &r, "is 10 x 0"), YOLORT_ARG);
    place.bottom = 2;
    cr_expect_eq(try_predict(d, p, &place, &r, "placement"), YOLORT_ARG);
    place.bottom = 1;
    place.out_width = place.resized_width = 63;
    cr_expect_eq(try_predict(d, p, &place, &r, "placement"), YOLORT_ARG);
    r.size = 4;
    cr_expect_eq(try_predict(d, p, NULL, &r, "bad results"), YOLORT_ARG);
    closed(d);
    s.proto_width = 0;
    d = opened(&s);
    r.size = sizeof r;
    cr_expect_eq(try_predict(d, p, NULL, &r, ""), YOLORT_OK);
    r.protos = 1;
    cr_expect_eq(try_predict(d, p, NULL, &r, "prototypes"), YOLORT_UNSUPPORTED);
    closed(d);
}

Test(rt_predict, refuses)
{
    yolort_picture p = new_picture(10, 10, YOLORT_RGB);
    refuse_boxes(&p);
    const struct setup *others[] = {&classifier, &semantic, &depth};
    for (int i = 0; i < 3; i++) {
        struct predictor *d = opened(others[i]);
        yolort_results r;
        float prob[8];
        void *none[] = {NULL};
        yolort_results_init(&r, sizeof r);
        cr_expect_eq(try_predict(d, &p, NULL, &r, "NULL"), YOLORT_ARG);
        r.labels = (uint16_t *const *)(void *)none;
        r.depths = (float *const *)(void *)none;
        cr_expect_eq(try_predict(d, &p, NULL, &r, "NULL"), YOLORT_ARG);
        r.prob = prob;
        yolort_picture flat = p;
        flat.width = 65536;
        if (i == 0) cr_expect_eq(try_predict(d, &flat, NULL, &r, "65536"), YOLORT_ARG);
        yolort_detection box;
        size_t count;
        cr_expect_eq(yolort_detect_batch(d->c, &p, 1, NULL, &box, 1, &count, NULL, NULL), YOLORT_UNSUPPORTED);
        cr_expect_eq(yolort_answer_of(d->m, NULL), (yolort_answer)(YOLORT_CLASSES + i));
        closed(d);
    }
    struct setup s = semantic;
    s.output = "logits";
    struct predictor *d = opened(&s);
    int io;
    yolort_results r;
    yolort_results_init(&r, sizeof r);
    cr_expect_eq(yolort_answer_of(d->m, &io), YOLORT_NOTHING);
    cr_expect_eq(io, -1);
    cr_expect_eq(try_predict(d, &p, NULL, &r, "finds no"), YOLORT_UNSUPPORTED);
    cr_expect_eq(yolort_answer_of(NULL, NULL), YOLORT_NOTHING);
    closed(d);
    free_picture(&p);
}

static yolort_status try_masks(struct predictor *d, int image, int width, const yolort_detection *box, size_t n, size_t bytes, const char *part)
{
    static uint8_t out[64];
    static const float extra[8 * 3];
    yolort_status s = yolort_masks(d->c, image, width, 4, box, extra, n, out, bytes, NULL);
    cr_expect(strstr(yolort_error(d->c), part), "\"%s\" is not in \"%s\"", part, yolort_error(d->c));
    return s;
}

Test(rt_predict, masks_refuse)
{
    struct predictor *d = opened(&masked);
    static uint8_t input[64 * 48 * 3];
    const yolort_detection box[2] = {{.x2 = 1, .y2 = 1}};
    cr_expect_eq(try_masks(d, 0, 4, box, 1, 16, "no prototypes"), YOLORT_ARG);
    run_protos(d, 2);
    cr_expect_eq(try_masks(d, 1, 4, box, 2, 32, ""), YOLORT_OK);
    cr_expect_eq(try_masks(d, 1, 4, NULL, 0, 0, ""), YOLORT_OK);
    cr_expect_eq(try_masks(d, 2, 4, box, 1, 16, "no prototypes"), YOLORT_ARG);
    cr_expect_eq(try_masks(d, -1, 4, box, 1, 16, "no prototypes"), YOLORT_ARG);
    cr_expect_eq(try_masks(d, 0, 4, NULL, 1, 16, "NULL"), YOLORT_ARG);
    cr_expect_eq(try_masks(d, 0, 0, box, 1, 16, "0 x 4"), YOLORT_ARG);
    cr_expect_eq(try_masks(d, 0, 4, box, 2, 31, "no room"), YOLORT_ARG);
    cr_assert_eq(yolort_bind(d->c, 0, input, sizeof input), YOLORT_OK);
    cr_assert_eq(yolort_bind(d->c, 2, d->second, d->each[1] * sizeof(float)), YOLORT_OK);
    cr_assert_eq(yolort_run(d->c, 1, NULL), YOLORT_OK);
    cr_expect_eq(try_masks(d, 0, 4, box, 1, 16, "no prototypes"), YOLORT_ARG, "they were those of another run");
    closed(d);

    static struct modbuild b;
    size_t size;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    yolort_module *m;
    yolort_context *c;
    cr_assert_eq(yolort_load(&m, bytes, size, NULL, 0), YOLORT_OK);
    cr_assert_eq(yolort_context_new(&c, m, NULL), YOLORT_OK);
    cr_expect_eq(yolort_masks(c, 0, 1, 1, NULL, NULL, 0, NULL, 0, &b), YOLORT_ARG);
    cr_expect(strstr(yolort_error(c), "no stream"));
    yolort_context_free(c);
    yolort_module_free(m);
    free(bytes);
}

static yolort_status run_all(struct predictor *d, const yolort_picture *p)
{
    static yolort_detection box[8];
    static float extra[8 * 3], prob[7], value[100];
    static uint16_t label[100];
    static uint8_t mask[4 * 50];
    uint16_t *labels[] = {label};
    float *values[] = {value};
    size_t count;
    yolort_results r = results_for(box, 8, &count);
    r.extra = extra;
    r.protos = 1;
    r.prob = prob;
    r.labels = labels;
    r.depths = values;
    yolort_status s = yolort_predict(d->c, p, NULL, 1, NULL, &r, NULL);
    if (s || !d->is.coefficients) return s;
    for (int i = 0; i < 4; i++) box[i] = (yolort_detection){.x1 = 1, .y1 = (float)i, .x2 = 9, .y2 = 5};
    return yolort_masks(d->c, 0, 10, 5, box, extra, 4, mask, sizeof mask, NULL);
}

/* Each call of the driver fails once; nothing is left behind, and the next prediction is right. */
Test(rt_predict, each_call_fails)
{
    static const char *const call[] = {"cuMemAlloc_v2",  "cuMemHostAlloc",       "cuMemcpyHtoDAsync_v2", "cuMemcpy2DAsync_v2",
                                       "cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize",  "cuCtxPushCurrent_v2",
                                       "cuEventRecord",  "cuStreamWaitEvent",    "cuMemsetD8Async"};
    static const struct setup *const of[] = {&masked, &classifier, &semantic, &depth};
    yolort_picture p = new_picture(3, 10, YOLORT_NV12);
    int failed[4] = {0};
    mock.virtual_memory(0);
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < sizeof call / sizeof *call; i++)
            for (int nth = 1; nth <= 14; nth++)
                for (int fatal = 0; fatal < 2; fatal++) {
                    struct predictor *d = opened(of[k]);
                    mock.fail(call[i], nth, fatal ? 700 : 2);
                    yolort_status s = run_all(d, &p);
                    mock.fail("", 0, 0);
                    cr_expect(s == YOLORT_OK || s == (fatal ? YOLORT_DEVICE_LOST : YOLORT_OOM_DEVICE), "%s: %s, call %d: %s", of[k]->task,
                              call[i], nth, yolort_status_name(s));
                    failed[k] += s != YOLORT_OK;
                    yolort_status again = run_all(d, &p);
                    cr_expect_eq(again, s == YOLORT_DEVICE_LOST ? YOLORT_DEVICE_LOST : YOLORT_OK, "%s: %s, call %d: then %s", of[k]->task,
                                 call[i], nth, yolort_status_name(again));
                    closed(d);
                    cr_assert_eq(mock.live(), 0, "%s: %s, call %d: %ld left", of[k]->task, call[i], nth, mock.live());
                }
    for (int k = 0; k < 4; k++) cr_expect(failed[k] > 20, "%s: %d failures", of[k]->task, failed[k]);
    free_picture(&p);
}

Test(rt_predict, parts)
{
    static const struct setup *const of[] = {&masked, &classifier, &semantic, &depth};
    yolort_picture p = new_picture(10, 10, YOLORT_RGB);
    for (int k = 0; k < 4; k++) {
        struct predictor *d = opened(of[k]);
        yolort_parts parts;
        yolort_profile(d->c, YOLORT_PARTS);
        cr_assert_eq(run_all(d, &p), YOLORT_OK, "%s", yolort_error(d->c));
        cr_assert_eq(yolort_parts_of(d->c, &parts), YOLORT_OK);
        cr_expect(parts.in_ms == 0.5 && parts.letterbox_ms == 0.5 && parts.network_ms == 0.5 && parts.select_ms == 0.5 && parts.out_ms == 0.5);
        closed(d);
    }
    free_picture(&p);
}
