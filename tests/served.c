/*
 * Detections on a device against its network and the CPU's functions before and after it: served MODULE RUNS PICTURE.ppm...
 * Each picture, as RGB, BGR and NV12, from host memory, pinned memory and the device's, alone and in batches, with options from mild to
 * hostile: boxes and the numbers beside them have to be the same bits. Then the first picture is timed RUNS times.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pixels.h"
#include "stopwatch.h"

enum { MOST = 64, CAPACITY = 3000, KINDS = PIXELS_KINDS };

struct served {
    yolort_module *m;
    yolort_context *c;
    const yolort_info *info;
    int input, decoded;
    size_t rows, extras;
    yolort_picture picture[MOST][KINDS]; /* by yolort_pixels; in host memory */
    int n;
    uint8_t *boxed;
    float *rows_of; /* decoded */
    long compared, boxes;
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "served: %s: %s\n", what, why);
    return 1;
}

/* --- memory ------------------------------------------------------------------------------------------------- */

/* As the driver gives it; NULL: there is no driver. */
static struct {
    int (*init)(unsigned);
    int (*retain)(void **, int);
    int (*push)(void *);
    int (*alloc)(uint64_t *, size_t);
    int (*pin)(void **, size_t, unsigned);
    int (*copy)(uint64_t, const void *, size_t, void *);
    int (*sync)(void *);
} cuda;

static int load_driver(void)
{
    static const char *const name[] = {"cuInit",         "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemAlloc_v2",
                                       "cuMemHostAlloc", "cuMemcpyHtoDAsync_v2",     "cuStreamSynchronize"};
    const char *given = getenv("YOLOC_LIBCUDA");
    void *lib = dlopen(given ? given : "libcuda.so.1", RTLD_NOW), *context;
    char *to = (char *)&cuda;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        void *p = lib ? dlsym(lib, name[i]) : NULL;
        if (!p) return fail("driver", name[i]);
        memcpy(to + i * sizeof p, &p, sizeof p);
    }
    if (cuda.init(0) || cuda.retain(&context, 0) || cuda.push(context)) return fail("driver", "no context");
    return 0;
}

enum where { HOST, PINNED, DEVICE };

static uint8_t *move(const uint8_t *from, size_t bytes, enum where where)
{
    void *p = NULL;
    uint64_t at = 0;
    if (!from || where == HOST) return (uint8_t *)(uintptr_t)from;
    if (where == PINNED) return cuda.pin(&p, bytes, 0) ? NULL : memcpy(p, from, bytes);
    if (cuda.alloc(&at, bytes) || cuda.copy(at, from, bytes, NULL) || cuda.sync(NULL)) return NULL;
    return (uint8_t *)(uintptr_t)at;
}

/* --- pictures ----------------------------------------------------------------------------------------------- */

static yolort_picture moved(const yolort_picture *p, enum where where)
{
    yolort_picture q = *p;
    q.data = move(p->data, pixels_luma_bytes(p), where);
    q.chroma = move(p->chroma, pixels_chroma_bytes(p), where);
    return q;
}

/* --- the other way ------------------------------------------------------------------------------------------ */

/* decoded of n pictures, letterboxed here. */
static int decode(struct served *s, const yolort_picture *p, int n)
{
    size_t bytes = yolort_io_at(s->m, (size_t)s->input)->bytes_per_image;
    for (int i = 0; i < n; i++) {
        yolort_placement place;
        uint8_t *rgb = pixels_rgb(&p[i]);
        const yolort_image image = {rgb, p[i].width, p[i].height, 0};
        int bad = !rgb || yolort_letterbox_plan(p[i].width, p[i].height, s->info->width, s->info->height, s->info->letterbox,
                                                s->info->stride, 1, &place) ||
                  yolort_letterbox(&image, &place, s->boxed + (size_t)i * bytes, bytes);
        free(rgb);
        if (bad) return fail("letterbox", "fails");
    }
    if (yolort_run(s->c, n, NULL) || yolort_wait(s->c)) return fail("run", yolort_error(s->c));
    return 0;
}

static size_t select_boxes(struct served *s, const yolort_picture *p, int i, const yolort_nms_opts *o, yolort_detection *out, float *extra)
{
    const yolort_info *m = s->info;
    const float *rows = s->rows_of + (size_t)i * (yolort_io_at(s->m, (size_t)s->decoded)->bytes_per_image / sizeof *rows);
    void *work = malloc(yolort_nms_work_size(s->rows));
    yolort_placement place;
    yolort_turned turned;
    size_t n = 0;
    yolort_letterbox_plan(p->width, p->height, m->width, m->height, m->letterbox, m->stride, 1, &place);
    yolort_nms(rows, s->rows, m->nc, m->head, o, work, out, CAPACITY, &n);
    yolort_unletterbox(out, n, m->head, &place, p->width, p->height);
    for (size_t k = 0; k < n; k++) {
        if (m->angles) yolort_turn(rows, s->rows, m, &place, p->width, p->height, &out[k], &turned);
        yolort_extra(rows, s->rows, m, out[k].row, extra + k * s->extras);
    }
    free(work);
    return n;
}

/* --- both --------------------------------------------------------------------------------------------------- */

static const struct mood {
    float conf, iou;
    int max_det, agnostic, some;
} moods[] = {
    {0.25f, 0.45f, 300, 0, 0}, {0.001f, 0.7f, 300, 0, 0}, {0.001f, 0.7f, CAPACITY, 1, 0}, {0, 0.05f, 1000, 1, 0},
    {-1, 0.9f, CAPACITY, 0, 0}, {0.1f, 0.45f, 7, 0, 1},    {0.9999f, 0.45f, 300, 0, 0},    {0.01f, 1, 300, 1, 1},
};

static yolort_nms_opts options(const struct served *s, const struct mood *mood, uint8_t *classes)
{
    yolort_nms_opts o;
    yolort_nms_opts_init(&o, sizeof o);
    o.conf = mood->conf;
    o.iou = mood->iou;
    o.max_det = mood->max_det;
    o.agnostic = mood->agnostic;
    for (int i = 0; i < s->info->nc; i++) classes[i] = i % 3 != 1;
    if (mood->some) o.classes = classes;
    o.extra = (int)s->extras;
    o.rotated = s->info->angles;
    return o;
}

static int compare(struct served *s, const yolort_picture *given, const yolort_picture *p, int n, const yolort_nms_opts *o, const char *what)
{
    size_t counts[MOST], room = (size_t)n * CAPACITY;
    yolort_detection *got = calloc(room, sizeof *got), *want = calloc(CAPACITY, sizeof *want);
    float *extra = calloc(room * s->extras + 1, sizeof *extra), *right = calloc(CAPACITY * s->extras + 1, sizeof *right);
    int bad = !got || !want || !extra || !right ? fail(what, "no memory") : 0;
    if (!bad && yolort_detect_batch(s->c, given, n, o, got, CAPACITY, counts, extra, NULL)) bad = fail(what, yolort_error(s->c));
    for (int i = 0; i < n && !bad; i++) {
        size_t count = select_boxes(s, &p[i], i, o, want, right), first = (size_t)i * CAPACITY;
        s->compared++;
        s->boxes += (long)count;
        if (counts[i] != count) {
            fprintf(stderr, "served: %s, picture %d, conf %g: %zu boxes instead of %zu\n", what, i, (double)o->conf, counts[i], count);
            bad = 1;
        } else if (memcmp(got + first, want, count * sizeof *got)) {
            bad = fail(what, "other boxes");
        } else if (memcmp(extra + first * s->extras, right, count * s->extras * sizeof *extra)) {
            bad = fail(what, "other numbers beside boxes");
        }
    }
    free(got);
    free(want);
    free(extra);
    free(right);
    return bad;
}

static int compare_all(struct served *s)
{
    static const char *const kind[] = {"RGB", "BGR", "NV12", "NV12 of BT.709"}, *const at[] = {"host", "pinned", "device"};
    uint8_t *classes = calloc((size_t)s->info->nc, 1);
    int bad = !classes;
    for (int format = 0; format < KINDS && !bad; format++)
        for (int first = 0; first < s->n && !bad; first += s->info->max_batch) {
            yolort_picture p[MOST], q[MOST];
            char what[96];
            int n = s->n - first < s->info->max_batch ? s->n - first : s->info->max_batch;
            enum where where = (enum where)((format + first) % 3);
            for (int i = 0; i < n; i++) p[i] = s->picture[first + i][format], q[i] = moved(&p[i], where);
            bad = decode(s, p, n);
            for (size_t k = 0; k < sizeof moods / sizeof *moods && !bad; k++) {
                yolort_nms_opts o = options(s, &moods[k], classes);
                snprintf(what, sizeof what, "pictures from %d on as %s in %s memory", first, kind[format], at[where]);
                bad = compare(s, q, p, n, &o, what);
            }
        }
    free(classes);
    return bad;
}

/* --- time --------------------------------------------------------------------------------------------------- */

static int measure_one(struct served *s, const yolort_picture *p, int n, int runs, const char *what)
{
    double *ms = calloc((size_t)runs, sizeof *ms);
    yolort_detection *out = calloc((size_t)n * 300, sizeof *out);
    size_t counts[MOST];
    yolort_parts parts = {0};
    int bad = !ms || !out;
    for (int i = -5; i < runs && !bad; i++) {
        double start = now_ms();
        if (yolort_detect_batch(s->c, p, n, NULL, out, 300, counts, NULL, NULL)) bad = fail(what, yolort_error(s->c));
        if (i >= 0) ms[i] = now_ms() - start;
    }
    yolort_profile(s->c, YOLORT_PARTS);
    if (!bad && yolort_detect_batch(s->c, p, n, NULL, out, 300, counts, NULL, NULL)) bad = fail(what, yolort_error(s->c));
    yolort_parts_of(s->c, &parts);
    yolort_profile(s->c, 0);
    if (!bad) qsort(ms, (size_t)runs, sizeof *ms, by_value);
    if (!bad)
        printf("%-28s %d picture(s), %zu boxes: median %.3f ms, best %.3f; in %.3f letterbox %.3f network %.3f select %.3f out %.3f\n", what, n,
               counts[0], ms[runs / 2], ms[0], parts.in_ms, parts.letterbox_ms, parts.network_ms, parts.select_ms, parts.out_ms);
    free(ms);
    free(out);
    return bad;
}

static int measure(struct served *s, int runs)
{
    static const char *const at[] = {"host", "pinned", "device"};
    int bad = 0;
    for (int where = HOST; where <= DEVICE && !bad; where++)
        for (int format = 0; format < YOLORT_NV12_709 && !bad; format += 2) {
            yolort_picture p[MOST];
            char what[64];
            int n = s->info->max_batch < MOST ? s->info->max_batch : MOST;
            p[0] = moved(&s->picture[0][format], (enum where)where);
            for (int i = 1; i < n; i++) p[i] = p[0];
            snprintf(what, sizeof what, "%s from %s memory", format ? "NV12" : "RGB", at[where]);
            bad = measure_one(s, p, 1, runs, what) || (n > 1 && measure_one(s, p, n, runs, what));
        }
    return bad;
}

static int open_module(struct served *s, const char *path)
{
    char why[512];
    if (yolort_load_file(&s->m, path, why, sizeof why)) return fail("module", why);
    if (yolort_context_new(&s->c, s->m, NULL)) return fail(path, "no context");
    s->info = yolort_module_info(s->m);
    s->input = yolort_io_find(s->m, "input_u8");
    s->decoded = yolort_io_find(s->m, "decoded");
    if (s->input < 0 || s->decoded < 0) return fail(path, "no detector");
    const yolort_io *in = yolort_io_at(s->m, (size_t)s->input), *out = yolort_io_at(s->m, (size_t)s->decoded);
    size_t batch = (size_t)s->info->max_batch;
    s->rows = (size_t)out->dim[s->info->head == YOLORT_HEAD_FREE || s->info->head == YOLORT_HEAD_BEST ? 2 : 1];
    s->extras = yolort_extra_count(s->info);
    s->boxed = calloc(batch, in->bytes_per_image);
    s->rows_of = calloc(batch, out->bytes_per_image);
    if (!s->boxed || !s->rows_of) return fail(path, "no memory");
    if (yolort_bind(s->c, (size_t)s->input, s->boxed, batch * in->bytes_per_image) ||
        yolort_bind(s->c, (size_t)s->decoded, s->rows_of, batch * out->bytes_per_image))
        return fail(path, yolort_error(s->c));
    return 0;
}

int main(int argc, char **argv)
{
    static struct served s;
    if (argc < 4 || argc - 3 > MOST) return fail("usage", "served MODULE RUNS PICTURE.ppm...");
    if (load_driver() || open_module(&s, argv[1])) return 1;
    for (; s.n < argc - 3; s.n++)
        if (pixels_load(s.picture[s.n], argv[3 + s.n])) return 1;
    if (compare_all(&s)) return 1;
    printf("%s: %s, %ld times the same boxes, %ld of them\n", argv[1], s.info->model, s.compared, s.boxes);
    int bad = atoi(argv[2]) > 0 && measure(&s, atoi(argv[2]));
    yolort_context_free(s.c);
    yolort_module_free(s.m);
    return bad;
}
