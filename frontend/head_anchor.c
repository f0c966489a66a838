/* Anchor head of the yolov5 and yolov3 repositories. */
#include "heads.h"

#include <math.h>
#include <string.h>

#include "check.h"

enum { MAX_ANCHORS = 64 }; /* a level */

struct anchors {
    int64_t na;
    float px[FE_MAX_LEVELS][MAX_ANCHORS][2]; /* in pixels of the network's input */
};

/* All numbers of a list, of lists of lists at most, in order; false when it holds anything else, or more. */
static bool flatten_numbers(const struct fe_value *v, double *out, size_t *n, size_t max, int depth)
{
    if (v->kind != FE_LIST) return FE_HOLDS(ANCHORS_ROOM, *n < max) && fe_as_float(v, &out[(*n)++]);
    for (size_t i = 0; i < v->n; i++)
        if (FE_BREAKS(ANCHORS_DEPTH, depth == 0) || !flatten_numbers(v->item[i], out, n, max, depth - 1))
            return false;
    return true;
}

static int read_level(struct fe_lower *l, const struct fe_value *v, int level, struct anchors *a)
{
    double xy[2 * MAX_ANCHORS];
    size_t n = 0;
    bool ok = FE_HOLDS(ANCHORS_NUMBERS, flatten_numbers(v, xy, &n, 2 * MAX_ANCHORS, 2)) &&
              FE_HOLDS(ANCHORS_PAIRS, n >= 2 && n % 2 == 0);
    for (size_t k = 0; ok && k < n; k++)
        ok = FE_HOLDS(ANCHORS_SIZE, xy[k] > 0 && isfinite((float)xy[k]));
    if (!ok || FE_BREAKS(ANCHORS_EQUAL, level && (int64_t)n != 2 * a->na))
        return fe_fail_at(l, v->loc, E_ANCHORS,
                          "anchors of a level are x,y pairs of sizes above 0, equally many at each level and at most %d",
                          MAX_ANCHORS);
    a->na = (int64_t)n / 2;
    for (size_t k = 0; k < n; k++)
        a->px[level][k / 2][k % 2] = (float)xy[k];
    return 0;
}

static int read_yaml_anchors(struct fe_lower *l, const struct fe_value *v, int nl, struct anchors *a)
{
    if (FE_BREAKS(ANCHORS_LIST, v->kind != FE_LIST))
        return fe_fail_at(l, v->loc, E_ANCHORS,
                          "anchors must be a list with a row for each level, or a count, not %s",
                          fe_describe(l->arena, v));
    if (FE_BREAKS(ANCHORS_LEVELS, v->n != (size_t)nl))
        return fe_fail_at(l, v->loc, E_ANCHORS, "the head has %d levels, anchors are given for %zu", nl,
                          v->n);
    for (int i = 0; i < nl; i++)
        if (read_level(l, v->item[i], i, a)) return -1;
    return 0;
}

static double mean_area(const struct anchors *a, int level)
{
    double sum = 0;
    for (int64_t k = 0; k < a->na; k++)
        sum += (double)a->px[level][k][0] * (double)a->px[level][k][1];
    return sum / (double)a->na;
}

/* Small anchors belong to small strides; descriptions list the levels in either order. */
static void order_levels(struct anchors *a, int nl, const double *stride)
{
    double areas = mean_area(a, nl - 1) - mean_area(a, 0), strides = stride[nl - 1] - stride[0];
    if (areas * strides >= 0) return;
    for (int i = 0, j = nl - 1; i < j; i++, j--) {
        float swap[MAX_ANCHORS][2];
        memcpy(swap, a->px[i], sizeof swap);
        memcpy(a->px[i], a->px[j], sizeof swap);
        memcpy(a->px[j], swap, sizeof swap);
    }
}

/* A count of anchors: their values come with training, what stands here until then is 0, 1, 2 ... */
static void count_anchors(struct anchors *a, int nl)
{
    for (int i = 0; i < nl; i++)
        for (int64_t k = 0; k < 2 * a->na; k++)
            a->px[i][k / 2][k % 2] = (float)k;
}

/* What the description says; na 0 when it says nothing. -1 after reporting. */
static int from_yaml(struct fe_lower *l, const struct fe_value *v, int nl, struct anchors *a)
{
    a->na = 0;
    if (!v || v->kind == FE_NONE || (v->kind == FE_STR && strcmp(v->s, "anchors") == 0))
        return 0; /* the key is missing */
    if (v->kind != FE_INT) return read_yaml_anchors(l, v, nl, a);
    if (FE_BREAKS(ANCHORS_COUNT, v->i < 1 || v->i > MAX_ANCHORS))
        return fe_fail(l, E_ANCHORS, "anchors must be 1 to %d a level", MAX_ANCHORS);
    a->na = v->i;
    count_anchors(a, nl);
    return 0;
}

static bool differ(const struct anchors *a, const struct anchors *b, int nl)
{
    if (a->na != b->na) return true;
    for (int i = 0; i < nl; i++)
        for (int64_t k = 0; k < 2 * a->na; k++) {
            float x = a->px[i][k / 2][k % 2], y = b->px[i][k / 2][k % 2];
            if (fabsf(x - y) > 0.01f * fabsf(y)) return true;
        }
    return false;
}

/* The buffer holds anchors in units of their level's stride. */
static int from_weights(struct fe_lower *l, const struct fe_tensor *t, int nl, const double *stride,
                        struct anchors *a)
{
    if (FE_BREAKS(ANCHORS_SHAPE, t->rank != 3 || t->dim[0] != nl || t->dim[1] < 1 ||
                                     t->dim[1] > MAX_ANCHORS || t->dim[2] != 2))
        return fe_fail(l, E_ANCHORS, "%s: expected shape [%d,anchors,2], found %s", t->name, nl,
                       fe_shape_text(l->arena, t->dim, t->rank));
    float *v = yir_alloc_n(l->arena, (size_t)t->numel, sizeof *v);
    fe_tensor_f32(t, v);
    a->na = t->dim[1];
    for (int i = 0; i < nl; i++)
        for (int64_t k = 0; k < 2 * a->na; k++)
            a->px[i][k / 2][k % 2] = v[2 * a->na * i + k] * (float)stride[i];
    return 0;
}

static int settle_anchors(struct fe_lower *l, const struct fe_value *written, int nl, struct anchors *a)
{
    const struct fe_tensor *t = fe_tensor(l, "anchors");
    struct anchors yaml;
    if (from_yaml(l, written, nl, &yaml)) return -1;
    if (yaml.na) order_levels(&yaml, nl, l->head.stride);
    bool counted = yaml.na && written->kind == FE_INT;
    if (t) {
        if (from_weights(l, t, nl, l->head.stride, a)) return -1;
        if (yaml.na && !counted && differ(a, &yaml, nl))
            fe_warn(l, W_DISAGREE,
                    "the anchors in the weights are not those of the yaml; the weights decide");
        return 0;
    }
    if (!yaml.na) return fe_fail(l, E_ANCHORS, "the head has no anchors: the key anchors is missing");
    if (counted && l->weights)
        return fe_fail(l, E_ANCHORS, "the yaml only counts anchors (%lld a level) and %s does not hold them",
                       (long long)yaml.na, l->weights->path);
    *a = yaml;
    for (int i = 0; i < nl; i++) /* as stored in, and read back from, the buffer */
        for (int64_t k = 0; k < 2 * a->na; k++)
            a->px[i][k / 2][k % 2] =
                a->px[i][k / 2][k % 2] / (float)l->head.stride[i] * (float)l->head.stride[i];
    return 0;
}

/* Anchors a level, known before the strides are. */
static int64_t anchor_count(struct fe_lower *l, const struct fe_value *written, int nl)
{
    struct anchors yaml;
    const struct fe_tensor *t = fe_tensor(l, "anchors");
    if (t && t->rank == 3 && t->dim[1] >= 1 && t->dim[1] <= MAX_ANCHORS) return t->dim[1];
    if (from_yaml(l, written, nl, &yaml)) return 0;
    if (!yaml.na) fe_fail(l, E_ANCHORS, "the head has no anchors: the key anchors is missing");
    return yaml.na;
}

static yir_ref anchors_weight(struct fe_lower *l, const struct anchors *a, int level)
{
    float *data = yir_alloc_n(l->arena, (size_t)a->na * 2, sizeof *data);
    for (int64_t k = 0; k < 2 * a->na; k++)
        data[k] = a->px[level][k / 2][k % 2];
    return fe_constant(l, fe_indexed(l, "anchors_px", level), (int64_t[]){a->na, 2}, 2, data);
}

/* nm: mask coefficients at the end of an anchor's numbers; npr 0: no masks. */
static yir_ref lower(struct fe_lower *l, const struct fe_site *s, int64_t nm, int64_t npr)
{
    const struct fe_value *written = fe_arg(s, "anchors")->v;
    yir_ref x[FE_MAX_LEVELS], part[FE_MAX_LEVELS];
    struct anchors anchors = {0};
    if (fe_head_begin(l, s, FE_HEAD_ANCHOR)) return YIR_NONE;
    if (!written || written->kind == FE_NONE) written = fe_get(l->description, "anchors");
    int64_t na = anchor_count(l, written, s->nin);
    if (!na) return YIR_NONE;
    fe_declare(l, "anchors", (int64_t[]){s->nin, na, 2}, 3, false);
    for (int i = 0; i < s->nin; i++) {
        x[i] = fe_predict(l, fe_indexed(l, "m", i), s->in[i], na * (l->nc + 5 + nm));
        fe_level_stride(l, i, x[i]);
    }
    if (l->failed || settle_anchors(l, written, s->nin, &anchors)) return YIR_NONE;
    for (int i = 0; i < s->nin; i++) {
        struct yir_a_anchor a = {(int32_t)na, (float)l->head.stride[i], (int32_t)nm};
        part[i] = fe_op(l, YIR_anchor_box, (yir_ref[]){x[i], anchors_weight(l, &anchors, i)}, 2, &a);
        x[i] = fe_op(l, YIR_anchor_raw, &x[i], 1, &a);
    }
    fe_output(l, "decoded", fe_concat(l, part, s->nin, 1));
    for (int i = 0; i < s->nin; i++)
        fe_output(l, yir_format(l->arena, "raw%d", i), x[i]);
    if (npr) fe_output(l, "proto", fe_mask_proto(l, s, npr, nm, false));
    l->head.na = (int)na;
    l->head.nm = (int)nm;
    l->head.iou = 0.45f;
    return YIR_NONE;
}

yir_ref fe_low_anchor_detect(struct fe_lower *l, const struct fe_site *s)
{
    return lower(l, s, 0, 0);
}

yir_ref fe_low_anchor_segment(struct fe_lower *l, const struct fe_site *s)
{
    int64_t nm = fe_int(l, "nm", 0, fe_arg_int(s, "nm"));
    if (FE_BREAKS(ANCHORS_MASKS, nm < 1 || nm > 4096)) return fe_fail(l, E_ARGS, "Segment: nm must be 1 to 4096"), YIR_NONE;
    l->head.task = "segment";
    return lower(l, s, nm, fe_arg_int(s, "npr"));
}
