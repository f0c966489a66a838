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
#include <time.h>

#include "runtime/yolort.h"

enum { MOST = 64, CAPACITY = 3000, KINDS = 4 };

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

static int is_nv12(const yolort_picture *p)
{
    return p->format >= YOLORT_NV12;
}

static size_t luma_bytes(const yolort_picture *p)
{
    return p->row_bytes * (size_t)p->height;
}

static size_t chroma_bytes(const yolort_picture *p)
{
    return is_nv12(p) ? p->chroma_row_bytes * (size_t)((p->height + 1) / 2) : 0;
}

static yolort_picture moved(const yolort_picture *p, enum where where)
{
    yolort_picture q = *p;
    q.data = move(p->data, luma_bytes(p), where);
    q.chroma = move(p->chroma, chroma_bytes(p), where);
    return q;
}

static uint8_t *read_ppm(const char *path, int *width, int *height)
{
    FILE *f = fopen(path, "rb");
    if (!f || fscanf(f, "P6 %d %d 255", width, height) != 2 || fgetc(f) == EOF || *width < 1 || *height < 1) return NULL;
    size_t bytes = (size_t)*width * (size_t)*height * 3;
    uint8_t *rgb = malloc(bytes);
    if (rgb && fread(rgb, 1, bytes, f) != bytes) rgb = NULL;
    fclose(f);
    return rgb;
}

/* Green as luma, the others as chroma: a picture, if not the same. Rows are not dense. */
static void make_nv12(yolort_picture *to, const uint8_t *rgb, int width, int height, yolort_pixels format)
{
    *to = (yolort_picture){.width = width, .height = height, .format = format};
    to->row_bytes = (size_t)width + 7;
    to->chroma_row_bytes = (size_t)(width + 1) / 2 * 2 + 2;
    uint8_t *luma = calloc(1, luma_bytes(to)), *chroma = calloc(1, chroma_bytes(to));
    for (int y = 0; y < height && luma && chroma; y++)
        for (int x = 0; x < width; x++) {
            const uint8_t *p = rgb + 3 * ((size_t)y * (size_t)width + (size_t)x);
            luma[(size_t)y * to->row_bytes + (size_t)x] = p[1];
            uint8_t *uv = chroma + (size_t)(y / 2) * to->chroma_row_bytes + x / 2 * 2;
            uv[0] = (uint8_t)(128 + (p[2] - p[1]) / 4);
            uv[1] = (uint8_t)(128 + (p[0] - p[1]) / 4);
        }
    to->data = luma;
    to->chroma = chroma;
}

static int load_picture(yolort_picture *to, const char *path)
{
    int width, height;
    uint8_t *rgb = read_ppm(path, &width, &height);
    if (!rgb) return fail(path, "no picture");
    size_t bytes = (size_t)width * (size_t)height * 3;
    uint8_t *bgr = malloc(bytes);
    for (size_t i = 0; bgr && i < bytes; i += 3) bgr[i] = rgb[i + 2], bgr[i + 1] = rgb[i + 1], bgr[i + 2] = rgb[i];
    to[YOLORT_RGB] = (yolort_picture){rgb, NULL, width, height, (size_t)width * 3, 0, YOLORT_RGB};
    to[YOLORT_BGR] = (yolort_picture){bgr, NULL, width, height, (size_t)width * 3, 0, YOLORT_BGR};
    make_nv12(&to[YOLORT_NV12], rgb, width, height, YOLORT_NV12);
    make_nv12(&to[YOLORT_NV12_709], rgb, width, height, YOLORT_NV12_709);
    return !bgr || !to[YOLORT_NV12].data;
}

/* --- the other way ------------------------------------------------------------------------------------------ */

/* A module for CPUs knows all kinds of pictures, too; here a picture becomes RGB by hand. */
static uint8_t *as_rgb(const yolort_picture *p)
{
    static const long hd[] = {1220945, 1879825, 223607, 558796, 2215014}, sd[] = {1220542, 1673527, 409993, 852492, 2116026};
    const long *k = p->format == YOLORT_NV12_709 ? hd : sd;
    uint8_t *rgb = malloc((size_t)p->width * (size_t)p->height * 3), *to = rgb;
    for (int y = 0; rgb && y < p->height; y++)
        for (int x = 0; x < p->width; x++, to += 3) {
            const uint8_t *at = p->data + (size_t)y * p->row_bytes + (is_nv12(p) ? 1 : 3) * x;
            for (int c = 0; c < 3 && !is_nv12(p); c++) to[c] = at[p->format == YOLORT_BGR ? 2 - c : c];
            if (!is_nv12(p)) continue;
            const uint8_t *uv = p->chroma + (size_t)(y / 2) * p->chroma_row_bytes + x / 2 * 2;
            long u = uv[0] - 128, v = uv[1] - 128, luma = (at[0] > 16 ? at[0] - 16 : 0) * k[0] + (1 << 19);
            const long all[] = {luma + k[1] * v, luma - k[3] * v - k[2] * u, luma + k[4] * u};
            for (int c = 0; c < 3; c++) to[c] = (uint8_t)(all[c] < 0 ? 0 : all[c] >> 20 > 255 ? 255 : all[c] >> 20);
        }
    return rgb;
}

/* decoded of n pictures, letterboxed here. */
static int decode(struct served *s, const yolort_picture *p, int n)
{
    size_t bytes = yolort_io_at(s->m, (size_t)s->input)->bytes_per_image;
    for (int i = 0; i < n; i++) {
        yolort_placement place;
        uint8_t *rgb = as_rgb(&p[i]);
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

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

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
        if (load_picture(s.picture[s.n], argv[3 + s.n])) return 1;
    if (compare_all(&s)) return 1;
    printf("%s: %s, %ld times the same boxes, %ld of them\n", argv[1], s.info->model, s.compared, s.boxes);
    int bad = atoi(argv[2]) > 0 && measure(&s, atoi(argv[2]));
    yolort_context_free(s.c);
    yolort_module_free(s.m);
    return bad;
}
