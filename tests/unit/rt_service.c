/* Detections by the service kernels, on the host beside the mock driver: letterboxes and boxes are those of the CPU's functions. */
#include <math.h>
#include <stdio.h>

#include "modbuild.h"
#include "servicebox.h"

TestSuite(rt_service, .init = start, .fini = stop);

/* --- modules ------------------------------------------------------------------------------------------------ */

enum { BATCH = 20 };

struct setup {
    yolort_head head;
    int nc, rows, width, height;
    yolort_letterbox_mode letterbox;
    int coefficients, points, angles, without; /* without: no service kernels */
};

struct detector {
    struct setup is;
    struct modbuild b;
    uint8_t *bytes;
    size_t size;
    yolort_module *m;
    yolort_context *c;
    char why[256];
    uint32_t cpu; /* arch of this machine */
    size_t row; /* numbers of a row of decoded */
    float *decoded;
};

static int is_across(yolort_head head)
{
    return head == YOLORT_HEAD_FREE || head == YOLORT_HEAD_BEST;
}

static void describe_step(struct detector *d)
{
    struct modbuild *b = &d->b;
    const struct setup *s = &d->is;
    uint64_t in = (uint64_t)s->height * (uint64_t)s->width * 3, out = d->row * (uint64_t)s->rows;
    const struct ym_param p[] = {{.first = in, .each = in, .dtype = YOLORT_U8},
                                 {.first = out * sizeof(float), .each = out * sizeof(float), .written = 1}};
    int64_t a = (int64_t)d->row, r = s->rows;
    b->nkernel = b->nparam = b->narg = 0;
    uint32_t k = modbuild_kernel(b, MB_COPY, (int64_t)out, p, 2);
    b->kernel[k].threads = b->kernel[k].per_block = 128;
    b->io[0] = (struct ym_io){.name = b->io[0].name, .dtype = YOLORT_U8, .rank = 4, .dim = {BATCH, s->height, s->width, 3}};
    b->io[1] = (struct ym_io){.name = b->io[2].name, .rank = 3, .flags = YM_IO_OUTPUT, .dim = {BATCH, is_across(s->head) ? a : r}};
    b->io[1].dim[2] = is_across(s->head) ? r : a;
    b->nio = 2;
    b->step[0] = (struct ym_step){.need = {1}, .want = {2}, .kernel = k, .narg = 2, .grain = 1};
    b->nstep = 1;
    b->arg[b->narg++] = (struct ym_arg){.slot = YM_SLOT_IO, .io = 0};
    b->arg[b->narg++] = (struct ym_arg){.slot = YM_SLOT_IO, .io = 1};
}

static void describe(struct detector *d, const struct setup *s)
{
    memset(d, 0, sizeof *d);
    modbuild_init(&d->b);
    d->is = *s;
    d->row = (is_across(s->head) ? 4u : 5u) + (size_t)(s->nc + s->coefficients + 3 * s->points + s->angles);
    struct ym_meta *m = &d->b.meta;
    struct ym_target *t = d->b.target;
    m->head = (uint32_t)s->head;
    m->letterbox = (uint32_t)s->letterbox;
    m->nc = s->nc;
    m->height = t->height = s->height;
    m->width = t->width = s->width;
    m->max_batch = t->max_batch = BATCH;
    m->coefficients = s->coefficients;
    m->points = s->points;
    m->point_dims = s->points ? 3 : 0;
    m->angles = s->angles;
    for (d->b.nname = 0; d->b.nname < (uint32_t)s->nc; d->b.nname++) d->b.name[d->b.nname] = d->b.name[0];
    t->kind = YM_CUDA;
    d->cpu = t->arch;
    t->arch = modbuild_string(&d->b, "sm_90a");
    t->features = 0;
    describe_step(d);
    if (!s->without) modbuild_service(&d->b);
    d->decoded = calloc((size_t)BATCH * d->row * (size_t)s->rows, sizeof(float));
    *net.given = d->decoded;
}

static yolort_status load(struct detector *d)
{
    d->bytes = modbuild_finish(&d->b, &d->size);
    d->why[0] = 0;
    return yolort_load(&d->m, d->bytes, d->size, d->why, sizeof d->why);
}

static struct detector *opened(const struct setup *s)
{
    struct detector *d = malloc(sizeof *d);
    describe(d, s);
    cr_assert_eq(load(d), YOLORT_OK, "%s", d->why);
    cr_assert_eq(yolort_context_new(&d->c, d->m, NULL), YOLORT_OK);
    return d;
}

static void closed(struct detector *d)
{
    yolort_context_free(d->c);
    yolort_module_free(d->m);
    free(d->bytes);
    free(d->decoded);
    free(d);
}

static const struct setup plain = {.head = YOLORT_HEAD_FREE, .nc = 3, .rows = 40, .width = 64, .height = 48};

/* --- letterbox ---------------------------------------------------------------------------------------------- */

static void expect_letterbox(const struct detector *d, const yolort_picture *p, const uint8_t *got)
{
    const struct setup *s = &d->is;
    size_t bytes = (size_t)s->width * (size_t)s->height * 3;
    yolort_placement place;
    uint8_t *rgb = malloc((size_t)p->width * (size_t)p->height * 3), *want = malloc(bytes);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) rgb_of(p, x, y, rgb + 3 * ((size_t)y * (size_t)p->width + (size_t)x));
    const yolort_image image = {rgb, p->width, p->height, 0};
    cr_assert_eq(yolort_letterbox_plan(p->width, p->height, s->width, s->height, s->letterbox, 4, 1, &place), YOLORT_OK);
    cr_assert_eq(yolort_letterbox(&image, &place, want, bytes), YOLORT_OK);
    size_t at = 0;
    while (at < bytes && want[at] == got[at]) at++;
    cr_expect_eq(at, bytes, "%d x %d, format %d, to %d x %d: pixel %zu", p->width, p->height, (int)p->format, s->width, s->height, at / 3);
    free(rgb);
    free(want);
}

static void letterbox_all(struct detector *d, const int (*side)[2], int n)
{
    size_t bytes = (size_t)d->is.width * (size_t)d->is.height * 3, counts[BATCH];
    yolort_picture picture[BATCH];
    yolort_detection out[BATCH];
    uint8_t *seen = calloc((size_t)n, bytes);
    for (int format = YOLORT_RGB; format <= YOLORT_NV12_709; format++) {
        for (int i = 0; i < n; i++) picture[i] = new_picture(side[i][0], side[i][1], (yolort_pixels)format);
        *net.seen = seen;
        *net.bytes = (long long)bytes * n;
        cr_assert_eq(yolort_detect_batch(d->c, picture, n, NULL, out, 1, counts, NULL, NULL), YOLORT_OK, "%s", yolort_error(d->c));
        for (int i = 0; i < n; i++) expect_letterbox(d, &picture[i], seen + (size_t)i * bytes);
        for (int i = 0; i < n; i++) free_picture(&picture[i]);
    }
    *net.bytes = 0;
    free(seen);
}

Test(rt_service, letterbox)
{
    static const int side[BATCH][2] = {{1, 1},    {2, 2},   {128, 96}, {64, 48}, {63, 48}, {100, 100}, {333, 77}, {7, 200}, {200, 7}, {129, 97},
                                       {128, 97}, {50, 35}, {100, 70}, {49, 36}, {3, 500}, {640, 480}, {65, 49},  {1, 90},  {90, 1},  {127, 95}};
    static const int target[][2] = {{64, 48}, {50, 35}, {9, 9}, {160, 160}};
    for (size_t t = 0; t < sizeof target / sizeof *target; t++)
        for (int mode = 0; mode < 2; mode++) {
            struct setup s = plain;
            s.width = target[t][0];
            s.height = target[t][1];
            s.letterbox = mode ? YOLORT_TOPLEFT : YOLORT_SQUARE;
            struct detector *d = opened(&s);
            letterbox_all(d, side, 1);
            letterbox_all(d, side + 3, BATCH - 3);
            letterbox_all(d, side, BATCH);
            closed(d);
        }
}

/* Pictures that lie in the device's memory are read in place. */
Test(rt_service, on_the_device)
{
    struct detector *d = opened(&plain);
    yolort_picture p = new_picture(100, 60, YOLORT_RGB);
    yolort_detection out;
    uint8_t seen[64 * 48 * 3];
    size_t count;
    *net.seen = seen;
    *net.bytes = sizeof seen;
    mock.device_memory(p.data, 0);
    mock.fail("cuMemcpyHtoDAsync_v2", 1, 1);
    cr_expect_eq(yolort_detect_batch(d->c, &p, 1, NULL, &out, 1, &count, NULL, NULL), YOLORT_OK, "%s", yolort_error(d->c));
    mock.fail("", 0, 0);
    expect_letterbox(d, &p, seen);
    mock.device_memory(p.data, 3);
    cr_expect_eq(yolort_detect_batch(d->c, &p, 1, NULL, &out, 1, &count, NULL, NULL), YOLORT_ARG);
    mock.device_memory(NULL, 0);
    free_picture(&p);
    closed(d);
}

/* --- boxes -------------------------------------------------------------------------------------------------- */

enum mood { SCATTERED, CROWDED, TIED, BROKEN, NOTHING, MOODS };

static float score_in(enum mood mood)
{
    float v = uniform();
    if (mood == NOTHING) return v * 0.2f;
    if (mood == TIED) return (float)(int)(v * 4) / 4;
    if (mood == SCATTERED) return v * v * v;
    if (mood == BROKEN && noise() % 40 == 0) {
        static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 0, 3e38f, 1e-42f};
        return odd[noise() % 7];
    }
    return v;
}

static float coordinate_in(enum mood mood, float side)
{
    float v = uniform() * side;
    if (mood == CROWDED) return side / 2 + v / 16;
    if (mood == TIED) return floorf(v / 8) * 8;
    if (mood == BROKEN && noise() % 60 == 0) return noise() % 2 ? NAN : (float)(noise() % 5) * 1e38f - 2e38f;
    return v;
}

static void fill(struct detector *d, int images, enum mood mood)
{
    size_t rows = (size_t)d->is.rows, first = is_across(d->is.head) ? 4 : 5, n = first + (size_t)d->is.nc;
    for (size_t i = 0; i < (size_t)images; i++)
        for (size_t r = 0; r < rows; r++)
            for (size_t k = 0; k < d->row; k++) {
                float v = k < 2 ? coordinate_in(mood, 64) : k < 4 ? coordinate_in(mood, 24) : score_in(mood);
                if (k >= n) v = uniform() * 3;
                d->decoded[i * d->row * rows + (is_across(d->is.head) ? k * rows + r : r * d->row + k)] = v;
            }
}

/* By the functions for CPUs. */
static size_t expected(const struct detector *d, int i, const yolort_nms_opts *o, yolort_detection *out, size_t capacity,
                       const yolort_picture *p, float *extra)
{
    const yolort_info *m = yolort_module_info(d->m);
    size_t rows = (size_t)d->is.rows, count = 0, extras = yolort_extra_count(m);
    const float *data = d->decoded + (size_t)i * rows * d->row;
    void *work = malloc(yolort_nms_work_size(rows));
    yolort_placement place;
    yolort_turned turned;
    cr_assert_eq(yolort_letterbox_plan(p->width, p->height, m->width, m->height, m->letterbox, m->stride, 1, &place), YOLORT_OK);
    cr_assert_eq(yolort_nms(data, rows, m->nc, m->head, o, work, out, capacity, &count), YOLORT_OK);
    yolort_unletterbox(out, count, m->head, &place, p->width, p->height);
    for (size_t k = 0; k < count; k++) {
        if (m->angles) cr_assert_eq(yolort_turn(data, rows, m, &place, p->width, p->height, &out[k], &turned), YOLORT_OK);
        cr_assert_eq(yolort_extra(data, rows, m, out[k].row, extra + k * extras), YOLORT_OK);
    }
    free(work);
    return count;
}

static void compare(struct detector *d, const yolort_nms_opts *opts, size_t capacity, int images, const char *what)
{
    const yolort_info *m = yolort_module_info(d->m);
    size_t extras = yolort_extra_count(m), counts[BATCH];
    yolort_detection *got = calloc(capacity * (size_t)images + 1, sizeof *got), *want = calloc(capacity + 1, sizeof *want);
    float *extra = calloc(capacity * (size_t)images * extras + 1, sizeof *extra), *right = calloc(capacity * extras + 1, sizeof *right);
    yolort_picture p[BATCH];
    yolort_nms_opts o = *opts;
    o.extra = (int)extras;
    o.rotated = m->angles;
    for (int i = 0; i < images; i++) p[i] = new_picture(100 + 7 * i, 60, YOLORT_RGB);
    long before = mock.launches();
    cr_assert_eq(yolort_detect_batch(d->c, p, images, opts, got, capacity, counts, extra, NULL), YOLORT_OK, "%s: %s", what,
                 yolort_error(d->c));
    cr_expect(!capacity || !o.max_det || mock.launches() - before >= 6, "%s: the kernels have run", what);
    for (int i = 0; i < images; i++) {
        size_t n = expected(d, i, &o, want, capacity, &p[i], right), at = 0;
        cr_expect_eq(counts[i], n, "%s, image %d: %zu boxes instead of %zu", what, i, counts[i], n);
        while (at < n && at < counts[i] && !memcmp(&want[at], &got[(size_t)i * capacity + at], sizeof *want)) at++;
        cr_expect_eq(at, n, "%s, image %d: box %zu of %zu differs", what, i, at, n);
        cr_expect(!memcmp(extra + (size_t)i * capacity * extras, right, n * extras * sizeof *extra), "%s: numbers beside boxes", what);
        free_picture(&p[i]);
    }
    free(got);
    free(want);
    free(extra);
    free(right);
}

static void compare_all(const struct setup *s)
{
    static const float conf[] = {0.25f, 0.001f, -1, 0.9f, 0.25f, 0.25f}, iou[] = {0.45f, 0.7f, 0, 1, -1, 0.45f};
    static const int max_det[] = {300, 5000, 1, 33, 0, 300};
    struct detector *d = opened(s);
    uint8_t classes[128];
    for (int mood = 0; mood < MOODS; mood++)
        for (size_t k = 0; k < sizeof conf / sizeof *conf; k++) {
            char what[128];
            int images = k == 0 ? 3 : 1;
            yolort_nms_opts o;
            yolort_nms_opts_init(&o, sizeof o);
            o.conf = conf[k];
            o.iou = iou[k];
            o.max_det = max_det[k];
            o.agnostic = k % 2;
            for (int i = 0; i < s->nc; i++) classes[i] = noise() % 3 != 0;
            if (k == 5) o.classes = classes;
            fill(d, images, (enum mood)mood);
            snprintf(what, sizeof what, "head %d, %d classes, %d rows, mood %d, options %zu", (int)s->head, s->nc, s->rows, mood, k);
            compare(d, &o, k == 2 ? 5 : 2000, images, what);
        }
    closed(d);
}

Test(rt_service, boxes)
{
    static const struct {
        int rows, nc, coefficients, points;
    } shape[] = {{1, 1, 0, 0}, {31, 3, 0, 2}, {33, 80, 5, 0}, {513, 9, 0, 0}, {1100, 2, 0, 0}};
    for (int head = YOLORT_HEAD_FREE; head <= YOLORT_HEAD_BEST; head++)
        for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
            struct setup s = plain;
            s.head = (yolort_head)head;
            s.rows = shape[i].rows;
            s.nc = shape[i].nc;
            s.coefficients = shape[i].coefficients;
            s.points = shape[i].points;
            compare_all(&s);
        }
}

Test(rt_service, turned_boxes)
{
    static const int rows[] = {1, 40, 300};
    for (int head = YOLORT_HEAD_FREE; head <= YOLORT_HEAD_BEST; head++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            struct setup s = plain;
            s.head = (yolort_head)head;
            s.rows = rows[i];
            s.angles = 1;
            compare_all(&s);
        }
}

/* All of many rows are candidates, and none yields. */
Test(rt_service, thousands)
{
    struct setup s = plain;
    s.rows = 8400;
    struct detector *d = opened(&s);
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    fill(d, 1, SCATTERED);
    o.conf = 0;
    o.max_det = 8400;
    compare(d, &o, 8400, 1, "few overlaps");
    o.iou = 1;
    compare(d, &o, 8400, 1, "no overlaps");
    fill(d, 1, CROWDED);
    o.iou = 0.1f;
    compare(d, &o, 300, 1, "a crowd");
    closed(d);
}

/* A program without service kernels gives the same. */
Test(rt_service, without)
{
    struct setup s = plain;
    yolort_detection out[2][40];
    size_t count[2];
    yolort_picture p = new_picture(77, 99, YOLORT_NV12);
    float extra[2][40 * 2];
    s.coefficients = 2;
    for (int head = YOLORT_HEAD_FREE; head <= YOLORT_HEAD_BEST; head++) {
        s.head = (yolort_head)head;
        for (s.without = 0; s.without < 2; s.without++) {
            struct detector *d = opened(&s);
            int i = s.without;
            seed = 5;
            fill(d, 1, SCATTERED);
            long before = mock.launches();
            cr_assert_eq(yolort_detect_batch(d->c, &p, 1, NULL, out[i], 40, &count[i], extra[i], NULL), YOLORT_OK);
            cr_expect_eq(mock.launches() - before, i ? 1 : head == YOLORT_HEAD_BEST ? 7 : 6);
            closed(d);
        }
        cr_expect(count[0] > 0 && count[0] == count[1] && !memcmp(out[0], out[1], count[0] * sizeof **out), "head %d", head);
        cr_expect(!memcmp(extra[0], extra[1], count[0] * 2 * sizeof **extra), "head %d", head);
    }
    free_picture(&p);
}

Test(rt_service, parts)
{
    struct detector *d = opened(&plain);
    yolort_picture p = new_picture(10, 10, YOLORT_RGB);
    yolort_detection out;
    yolort_parts parts;
    size_t count;
    cr_assert_eq(yolort_profile(d->c, YOLORT_PARTS), YOLORT_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(yolort_detect_batch(d->c, &p, 1, NULL, &out, 1, &count, NULL, NULL), YOLORT_OK, "%s", yolort_error(d->c));
        cr_assert_eq(yolort_parts_of(d->c, &parts), YOLORT_OK);
        cr_expect(parts.in_ms == 0.5 && parts.letterbox_ms == 0.5 && parts.network_ms == 0.5 && parts.select_ms == 0.5 && parts.out_ms == 0.5);
    }
    cr_expect_eq(yolort_parts_of(d->c, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_parts_of(NULL, &parts), YOLORT_ARG);
    free_picture(&p);
    closed(d);
}

/* --- what is refused, and what fails ------------------------------------------------------------------------ */

static void expect_refused(struct detector *d, yolort_picture p, const char *part)
{
    yolort_detection out;
    size_t count;
    cr_expect_eq(yolort_detect_batch(d->c, &p, 1, NULL, &out, 1, &count, NULL, NULL), YOLORT_ARG, "%s", part);
    cr_expect(strstr(yolort_error(d->c), part), "\"%s\" is not in \"%s\"", part, yolort_error(d->c));
}

Test(rt_service, refuses)
{
    struct detector *d = opened(&plain);
    const yolort_picture good = new_picture(31, 17, YOLORT_NV12);
    const yolort_picture rgb = new_picture(31, 17, YOLORT_RGB);
    yolort_picture p = rgb;
    p.format = (yolort_pixels)4;
    expect_refused(d, p, "format that is none");
    p.format = (yolort_pixels)-1;
    expect_refused(d, p, "format that is none");
    p = good;
    p.chroma = NULL;
    expect_refused(d, p, "no pixels");
    p = good;
    p.data = NULL;
    expect_refused(d, p, "no pixels");
    p = good;
    p.row_bytes = 30;
    expect_refused(d, p, "short rows");
    p = good;
    p.row_bytes = SIZE_MAX / 65535 + 1;
    expect_refused(d, p, "short rows");
    p = good;
    p.chroma_row_bytes = 31;
    expect_refused(d, p, "short rows");
    p = good;
    p.width = 0;
    expect_refused(d, p, "0 x 17");
    mock.device_memory(good.chroma, 0);
    expect_refused(d, good, "another device");
    mock.device_memory(good.data, 5);
    expect_refused(d, good, "another device");
    mock.device_memory(NULL, 0);
    closed(d);

    struct modbuild b;
    uint8_t *bytes;
    size_t size, count;
    yolort_module *m;
    yolort_context *c;
    modbuild_init(&b);
    bytes = modbuild_finish(&b, &size);
    cr_assert_eq(yolort_load(&m, bytes, size, NULL, 0), YOLORT_OK);
    cr_assert_eq(yolort_context_new(&c, m, NULL), YOLORT_OK);
    yolort_detection out[2];
    cr_expect_eq(yolort_detect_batch(c, &good, 1, NULL, out, 2, &count, NULL, &b), YOLORT_ARG);
    cr_expect(strstr(yolort_error(c), "no stream"));
    cr_expect_eq(yolort_detect_batch(c, &good, 1, NULL, out, 2, &count, NULL, NULL), YOLORT_OK, "%s", yolort_error(c));
    yolort_context_free(c);
    yolort_module_free(m);
    free(bytes);
    free_picture(&good);
    free_picture(&rgb);
}

/* Kernels that do nothing leave memory as it was. */
Test(rt_service, nonsense)
{
    unsetenv("MOCKCUDA_KERNELS");
    struct detector *d = opened(&plain);
    yolort_picture p = new_picture(10, 10, YOLORT_RGB);
    yolort_detection out;
    size_t count;
    cr_expect_eq(yolort_detect_batch(d->c, &p, 1, NULL, &out, 1, &count, NULL, NULL), YOLORT_FORMAT);
    free_picture(&p);
    closed(d);
}

/* SERVICE under a digest that is right. */
Test(rt_service, bad_rows)
{
    for (int i = 0; i < 9; i++) {
        struct detector d;
        describe(&d, &plain);
        if (i == 1) modbuild_service(&d.b);
        if (i == 2) d.b.service[0].offset += 64;
        if (i == 3) d.b.service[0].offset = 1 << 20;
        if (i == 4) d.b.service[0].nparam = 1;
        if (i == 5) d.b.target[0].kind = YM_CPU, d.b.target[0].arch = d.cpu, d.b.kernel[0].threads = d.b.kernel[0].per_block = 0;
        if (i == 8) d.b.service[0].units++;
        yolort_status s = load(&d);
        if (i == 6) {
            uint8_t *at = d.bytes + d.size;
            yolort_module_free(d.m);
            while (memcmp(at, "\177ELF", 4)) at--;
            at[18] = 62;
            modbuild_sign(d.bytes, d.size);
            s = yolort_load(&d.m, d.bytes, d.size, d.why, sizeof d.why);
        }
        if (i == 7) { /* the row alone: not what CODE was sealed with */
            uint8_t *at = d.bytes + d.size - sizeof(struct ym_kernel);
            yolort_module_free(d.m);
            while (memcmp(at, d.b.service, sizeof(struct ym_kernel))) at--;
            ((struct ym_kernel *)(void *)at)->scratch = 1;
            modbuild_sign(d.bytes, d.size);
            s = yolort_load(&d.m, d.bytes, d.size, d.why, sizeof d.why);
        }
        cr_expect_eq(s, !i ? YOLORT_OK : i == 8 ? YOLORT_INCOMPATIBLE : YOLORT_FORMAT, "%d: %s", i, d.why);
        cr_expect(!i || strstr(d.why, "SERVICE"), "%d: %s", i, d.why);
        if (!s) yolort_module_free(d.m);
        free(d.bytes);
        free(d.decoded);
    }
}

/* Each call of the driver fails once; nothing is left behind, and the next detection is right. */
Test(rt_service, each_call_fails)
{
    static const char *const call[] = {"cuMemAlloc_v2",   "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2", "cuMemcpy2DAsync_v2", "cuMemsetD8Async",
                                       "cuLaunchKernel",  "cuEventRecord",  "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuCtxPushCurrent_v2",
                                       "cuStreamWaitEvent", "cuEventCreate", "cuEventElapsedTime",  "cuEventSynchronize"};
    yolort_picture p[2] = {new_picture(10, 10, YOLORT_NV12), new_picture(20, 10, YOLORT_RGB)};
    p[0].width = 3; /* its rows are far apart */
    mock.virtual_memory(0); /* memory is a call each time, not now and then */
    p[1].row_bytes = 60;
    for (size_t i = 0; i < sizeof call / sizeof *call; i++)
        for (int nth = 1; nth <= 12; nth++)
            for (int fatal = 0; fatal < 2; fatal++) {
                struct detector *d = opened(&plain);
                yolort_detection out[2][10];
                size_t count[2];
                yolort_profile(d->c, YOLORT_PARTS);
                mock.fail(call[i], nth, fatal ? 700 : 2);
                yolort_status s = yolort_detect_batch(d->c, p, 2, NULL, out[0], 10, count, NULL, NULL);
                mock.fail("", 0, 0);
                cr_expect(s == YOLORT_OK ? nth > 1 || !strcmp(call[i], "cuEventSynchronize") || !strcmp(call[i], "cuCtxPushCurrent_v2")
                                         : s == (fatal ? YOLORT_DEVICE_LOST : YOLORT_OOM_DEVICE),
                          "%s, call %d: %s", call[i], nth, yolort_status_name(s));
                yolort_status again = yolort_detect_batch(d->c, p, 2, NULL, out[0], 10, count, NULL, NULL);
                cr_expect_eq(again, s == YOLORT_DEVICE_LOST ? YOLORT_DEVICE_LOST : YOLORT_OK, "%s, call %d: then %s", call[i], nth,
                             yolort_status_name(again));
                closed(d);
                cr_assert_eq(mock.live(), 0, "%s, call %d: %ld left", call[i], nth, mock.live());
            }
    free_picture(&p[0]);
    free_picture(&p[1]);
}
