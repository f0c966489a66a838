/* NMS: the stored cases through each head's row layout, random rows against a plain rewrite of the rule, limits. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datafile.h"
#include "runtime/yolort.h"

struct rows {
    size_t n;
    int nc;
    float *box;   /* [n][4] */
    float *score; /* [n][nc] */
};

static void rows_new(struct rows *r, size_t n, int nc)
{
    *r = (struct rows){n, nc, malloc((n + 1) * 4 * sizeof(float)), malloc((n + 1) * (size_t)nc * sizeof(float))};
    cr_assert(r->box && r->score);
}

static void rows_free(struct rows *r)
{
    free(r->box);
    free(r->score);
}

/* As the head lays it out; obj: objectness of each row, NULL: 1. free() */
static float *lay_out(const struct rows *r, yolort_head head, const float *obj)
{
    size_t nc = (size_t)r->nc, width = nc + (head == YOLORT_HEAD_FREE ? 4 : 5);
    float *d = malloc((r->n * width + 1) * sizeof *d);
    cr_assert(d);
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < width; k++) {
            float v = k < 4            ? r->box[4 * i + k]
                      : k < width - nc ? (obj ? obj[i] : 1)
                                       : r->score[nc * i + k - (width - nc)];
            d[head == YOLORT_HEAD_FREE ? k * r->n + i : i * width + k] = v;
        }
    }
    return d;
}

static size_t run(const struct rows *r, yolort_head head, const float *obj, const yolort_nms_opts *o,
                  yolort_detection *out, size_t capacity)
{
    size_t count = SIZE_MAX;
    float *d = lay_out(r, head, obj);
    void *work = malloc(yolort_nms_work_size(r->n) + 1);
    cr_assert_eq(yolort_nms(d, r->n, r->nc, head, o, work, out, capacity, &count), YOLORT_OK);
    free(work);
    free(d);
    return count;
}

static void read_rows(struct rows *r, const json_t *c)
{
    json_t *list = test_json_list(c, "rows");
    rows_new(r, json_array_size(list), (int)test_json_number(c, "nc"));
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < 4 + (size_t)r->nc; k++) {
            const json_t *v = json_array_get(json_array_get(list, i), k);
            float f = json_is_null(v) ? NAN : (float)json_number_value(v);
            if (k < 4) r->box[4 * i + k] = f;
            else r->score[(size_t)r->nc * i + k - 4] = f;
        }
    }
}

static void check_case(const json_t *c, yolort_head head)
{
    struct rows r;
    yolort_nms_opts o;
    uint8_t classes[256] = {0};
    yolort_detection out[400];
    const char *name = test_json_text(c, "name");
    const json_t *keep = json_object_get(c, "classes"), *expected = test_json_list(c, "expected");
    read_rows(&r, c);
    yolort_nms_opts_init(&o, sizeof o);
    o.conf = (float)test_json_number(c, "conf");
    o.iou = (float)test_json_number(c, "iou");
    o.max_det = (int)test_json_number(c, "max_det");
    o.agnostic = json_is_true(json_object_get(c, "agnostic"));
    for (size_t i = 0; i < json_array_size(keep); i++) classes[(int)test_json_at(keep, i)] = 1;
    if (json_is_array(keep)) o.classes = classes;
    size_t n = run(&r, head, NULL, &o, out, 400);
    cr_assert_eq(n, json_array_size(expected), "%s, head %d: %zu boxes", name, head, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = json_array_get(expected, i), *box = test_json_list(e, "xyxy");
        const float found[] = {out[i].x1, out[i].y1, out[i].x2, out[i].y2};
        cr_expect_eq(out[i].row, (int)test_json_number(e, "row"), "%s, head %d: box %zu", name, head, i);
        cr_expect_eq(out[i].cls, (int)test_json_number(e, "cls"), "%s, head %d: box %zu", name, head, i);
        cr_expect_eq(out[i].score, (float)test_json_number(e, "score"), "%s, head %d: box %zu", name, head, i);
        for (size_t k = 0; k < 4; k++)
            cr_expect_float_eq(found[k], (float)test_json_at(box, k), 1e-4, "%s, head %d: box %zu", name, head, i);
    }
    rows_free(&r);
}

Test(rt_nms, stored_cases)
{
    if (!test_data_exists("expected/nms.json")) cr_skip("no test data");
    json_t *all = test_data_json("expected/nms.json"), *c;
    size_t i, done = 0;
    cr_assert(all);
    json_array_foreach(test_json_list(all, "cases"), i, c) {
        for (int head = YOLORT_HEAD_FREE; head <= YOLORT_HEAD_X; head++) check_case(c, (yolort_head)head);
        done++;
    }
    cr_assert_geq(done, 18);
    json_decref(all);
}

/* --- random rows against a plain rewrite ---------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Few distinct scores, so that many are equal; a NaN now and then. */
static void fill_random(struct rows *r, float *obj, uint32_t seed, int side)
{
    for (size_t i = 0; i < r->n; i++) {
        for (size_t k = 0; k < 4; k++)
            r->box[4 * i + k] = (float)(next_random(&seed) % (uint32_t)(k < 2 ? side : 40)) * 0.5f;
        obj[i] = (float)(next_random(&seed) % 33) / 32;
        for (int k = 0; k < r->nc; k++) {
            uint32_t v = next_random(&seed) % 1000;
            r->score[i * (size_t)r->nc + (size_t)k] = v == 999 ? NAN : (float)(v % 65) / 64;
        }
    }
}

struct plain {
    float x1, y1, x2, y2, score;
    int cls, row;
};

static int in_order(const void *a, const void *b)
{
    const struct plain *p = a, *q = b;
    if (p->score != q->score) return p->score > q->score ? -1 : 1;
    return p->row < q->row ? -1 : 1;
}

static int plain_overlap(const struct plain *a, const struct plain *b, float limit)
{
    float w = fmaxf(0, fminf(a->x2, b->x2) - fmaxf(a->x1, b->x1));
    float h = fmaxf(0, fminf(a->y2, b->y2) - fmaxf(a->y1, b->y1));
    float inter = w * h, aa = (a->x2 - a->x1) * (a->y2 - a->y1), bb = (b->x2 - b->x1) * (b->y2 - b->y1);
    return inter / (aa + bb - inter) > limit;
}

static size_t plain_candidates(const struct rows *r, const float *obj, const yolort_nms_opts *o, struct plain *to)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const float *s = r->score + i * (size_t)r->nc, *b = r->box + 4 * i;
        float best = -1;
        int cls = 0, nan = 0;
        for (int k = 0; k < r->nc; k++) {
            float v = obj ? obj[i] * s[k] : s[k];
            nan |= isnan(v);
            if (v > best) {
                best = v;
                cls = k;
            }
        }
        if (nan || !(best > o->conf)) continue;
        float w = b[2] / 2, h = b[3] / 2;
        to[n++] = (struct plain){b[0] - w, b[1] - h, b[0] + w, b[1] + h, best, cls, (int)i};
    }
    return n;
}

/* Marks what each kept box drops: another way round than the library goes. */
static size_t plain_nms(struct plain *p, size_t n, const yolort_nms_opts *o)
{
    size_t kept = 0;
    char *dropped = calloc(n + 1, 1);
    qsort(p, n, sizeof *p, in_order);
    for (size_t i = 0; i < n && kept < (size_t)o->max_det; i++) {
        if (dropped[i]) continue;
        for (size_t k = i + 1; k < n; k++)
            if ((o->agnostic || p[k].cls == p[i].cls) && plain_overlap(&p[i], &p[k], o->iou)) dropped[k] = 1;
        p[kept++] = p[i];
    }
    free(dropped);
    return kept;
}

static void check_random(size_t rows, int nc, uint32_t seed, const yolort_nms_opts *o, int side)
{
    struct rows r;
    struct plain *want = malloc((rows + 1) * sizeof *want);
    float *obj = malloc((rows + 1) * sizeof *obj);
    yolort_detection *out = malloc((rows + 1) * sizeof *out);
    rows_new(&r, rows, nc);
    fill_random(&r, obj, seed, side);
    for (int head = YOLORT_HEAD_FREE; head <= YOLORT_HEAD_X; head++) {
        const float *with = head == YOLORT_HEAD_FREE ? NULL : obj;
        size_t n = run(&r, (yolort_head)head, with, o, out, rows);
        size_t m = plain_nms(want, plain_candidates(&r, with, o, want), o);
        cr_assert_eq(n, m, "seed %u head %d: %zu boxes instead of %zu", seed, head, n, m);
        for (size_t i = 0; i < n; i++) {
            cr_assert_eq(out[i].row, want[i].row, "seed %u head %d box %zu", seed, head, i);
            cr_assert_eq(out[i].cls, want[i].cls, "seed %u head %d box %zu", seed, head, i);
            cr_assert_eq(out[i].score, want[i].score, "seed %u head %d box %zu", seed, head, i);
            cr_assert_eq(out[i].x2, want[i].x2, "seed %u head %d box %zu", seed, head, i);
        }
    }
    rows_free(&r);
    free(want);
    free(obj);
    free(out);
}

Test(rt_nms, random_rows)
{
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    for (uint32_t seed = 1; seed <= 100; seed++) {
        o.conf = seed % 3 ? 0.25f : 0;
        o.iou = seed % 2 ? 0.45f : 0.7f;
        o.agnostic = seed % 5 == 0;
        o.max_det = seed % 7 ? 300 : 5;
        check_random(seed * 7 % 1200, 1 + (int)(seed % 9), seed, &o, seed % 4 ? 400 : 60);
    }
}

Test(rt_nms, many_candidates)
{
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.conf = -1;
    check_random(4000, 3, 5, &o, 1280);
    o.max_det = 100000;
    check_random(8400, 2, 6, &o, 100);
}

/* --- limits --------------------------------------------------------------------------------------------------- */

/* A hundred thousand equal boxes: one is kept, and it is the first. */
Test(rt_nms, all_equal)
{
    struct rows r;
    yolort_detection out[300];
    rows_new(&r, 100000, 1);
    for (size_t i = 0; i < r.n; i++) {
        for (size_t k = 0; k < 4; k++) r.box[4 * i + k] = 10;
        r.score[i] = 0.5f;
    }
    cr_expect_eq(run(&r, YOLORT_HEAD_FREE, NULL, NULL, out, 300), 1);
    cr_expect_eq(out[0].row, 0);
    rows_free(&r);
}

Test(rt_nms, capacity_and_scores)
{
    struct rows r;
    yolort_detection out[4];
    yolort_nms_opts o;
    rows_new(&r, 4, 1);
    for (size_t i = 0; i < 4; i++) {
        const float box[] = {(float)i * 100, 0, 10, 10};
        memcpy(r.box + 4 * i, box, sizeof box);
    }
    r.score[0] = -0.0f, r.score[1] = 0, r.score[2] = INFINITY, r.score[3] = -0.5f;
    yolort_nms_opts_init(&o, sizeof o);
    o.conf = -1;
    cr_expect_eq(run(&r, YOLORT_HEAD_FREE, NULL, &o, out, 4), 4);
    const int order[] = {2, 0, 1, 3};
    for (int i = 0; i < 4; i++) cr_expect_eq(out[i].row, order[i], "place %d", i);
    cr_expect_eq(out[0].score, INFINITY);
    cr_expect_eq(out[3].score, -0.5f);
    out[2].row = 77;
    cr_expect_eq(run(&r, YOLORT_HEAD_FREE, NULL, &o, out, 2), 2);
    cr_expect_eq(out[2].row, 77);
    o.max_det = 0;
    cr_expect_eq(run(&r, YOLORT_HEAD_FREE, NULL, &o, out, 4), 0);
    rows_free(&r);
}

/* The default options, and structs of other versions of the library. */
Test(rt_nms, option_struct)
{
    struct {
        yolort_nms_opts o;
        uint64_t later[2];
    } wide;
    yolort_nms_opts o;
    yolort_detection out[2];
    size_t count;
    memset(&wide, 0xff, sizeof wide);
    yolort_nms_opts_init(&wide.o, sizeof wide);
    cr_expect_eq(wide.o.size, sizeof wide);
    cr_expect_eq(wide.o.conf, 0.25f);
    cr_expect_eq(wide.o.iou, 0.45f);
    cr_expect_eq(wide.o.max_det, 300);
    cr_expect_null(wide.o.classes);
    cr_expect_eq(wide.later[0] | wide.later[1], 0);
    cr_expect_eq(yolort_nms(NULL, 0, 1, YOLORT_HEAD_FREE, &wide.o, NULL, out, 2, &count), YOLORT_OK);
    cr_expect_eq(count, 0);
    yolort_nms_opts_init(NULL, sizeof o);
    memset(&o, 0xff, sizeof o);
    yolort_nms_opts_init(&o, sizeof o.size - 1); /* no room for the size itself */
    cr_expect_eq(o.size, SIZE_MAX);
    wide.later[1] = 1;
    cr_expect_eq(yolort_nms(NULL, 0, 1, YOLORT_HEAD_FREE, &wide.o, NULL, out, 2, &count), YOLORT_ARG);
    yolort_nms_opts_init(&o, sizeof o);
    o.size = 0;
    cr_expect_eq(yolort_nms(NULL, 0, 1, YOLORT_HEAD_FREE, &o, NULL, out, 2, &count), YOLORT_ARG);
    o.size = offsetof(yolort_nms_opts, max_det); /* an older caller: the rest is garbage to us */
    o.max_det = -9;
    cr_expect_eq(yolort_nms(NULL, 0, 1, YOLORT_HEAD_FREE, &o, NULL, out, 2, &count), YOLORT_OK);
}

Test(rt_nms, refuses)
{
    float d[6] = {0};
    uint64_t work[4];
    yolort_detection out[2];
    yolort_nms_opts o;
    size_t count = 5;
    const yolort_head f = YOLORT_HEAD_FREE;
    yolort_nms_opts_init(&o, sizeof o);
    cr_expect_eq(yolort_nms(NULL, 1, 1, f, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, NULL, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, (char *)work + 4, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, work, NULL, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, work, out, 2, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 0, f, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, -3, f, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 1, YOLORT_HEAD_NONE, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, 1, 1, (yolort_head)9, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, (size_t)1 << 40, 1, f, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(yolort_nms(d, INT32_MAX, INT32_MAX, f, &o, work, out, 2, &count), YOLORT_ARG);
    o.conf = NAN;
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, work, out, 2, &count), YOLORT_ARG);
    o.conf = 0.1f, o.iou = NAN;
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, work, out, 2, &count), YOLORT_ARG);
    o.iou = 0.5f, o.max_det = -1;
    cr_expect_eq(yolort_nms(d, 1, 1, f, &o, work, out, 2, &count), YOLORT_ARG);
    cr_expect_eq(count, 5);
}
