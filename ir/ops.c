#include "infer.h"

#include <string.h>

/* Shorthands of the op table's columns. */
#define T_VIEW YIR_T_VIEW
#define T_LANES YIR_T_LANES
#define T_COMM YIR_T_COMM
#define T_FREE YIR_T_FREE

/* --- attribute schemas: yir_a_<schema> field by field ------------------------------------------------------- */

#define AT(schema, field) (uint16_t)(offsetof(struct yir_a_##schema, field) / sizeof(int32_t))
#define F_255 0x437f0000 /* bits of 255.0f */
#define F_1 0x3f800000   /* bits of 1.0f */

static const struct yir_attr attrs_conv[] = {
    {"stride", AT(conv, stride), 2, 'i', {1, 1}},
    {"pad", AT(conv, pad), 4, 'i', {0}},
    {"dil", AT(conv, dil), 2, 'i', {1, 1}},
    {"groups", AT(conv, groups), 1, 'i', {1}},
};
static const struct yir_attr attrs_eps[] = {{"eps", AT(eps, eps), 1, 'f', {0}}};
static const struct yir_attr attrs_slope[] = {{"slope", AT(slope, slope), 1, 'f', {0}}};
static const struct yir_attr attrs_axis[] = {{"axis", AT(axis, axis), 1, 'i', {1}}};
static const struct yir_attr attrs_slice[] = {
    {"axis", AT(slice, axis), 1, 'i', {1}},
    {"start", AT(slice, start), 1, 'i', {0}},
    {"count", AT(slice, count), 1, 'i', {0}},
};
static const struct yir_attr attrs_factor[] = {{"factor", AT(factor, factor), 1, 'i', {2}}};
static const struct yir_attr attrs_pad[] = {
    {"pad", AT(pad, pad), 4, 'i', {0}},
    {"value", AT(pad, value), 1, 'f', {0}},
};
static const struct yir_attr attrs_pool[] = {
    {"kernel", AT(pool, kernel), 2, 'i', {1, 1}},
    {"stride", AT(pool, stride), 2, 'i', {1, 1}},
    {"pad", AT(pool, pad), 4, 'i', {0}},
};
static const struct yir_attr attrs_cast[] = {
    {"dtype", AT(cast, dtype), 1, 'd', {YIR_F32}},
    {"layout", AT(cast, layout), 1, 'l', {YIR_ROW}},
};
static const struct yir_attr attrs_box[] = {
    {"bins", AT(box, bins), 1, 'i', {1}},
    {"stride", AT(box, stride), 1, 'f', {F_1}},
    {"corners", AT(box, corners), 1, 'i', {0}},
};
static const struct yir_attr attrs_anchor[] = {
    {"na", AT(anchor, na), 1, 'i', {1}},
    {"stride", AT(anchor, stride), 1, 'f', {F_1}},
    {"plain", AT(anchor, plain), 1, 'i', {0}},
};
static const struct yir_attr attrs_affine[] = {
    {"mul", AT(affine, mul), 1, 'f', {F_1}},
    {"add", AT(affine, add), 1, 'f', {0}},
};
static const struct yir_attr attrs_deconv[] = {
    {"stride", AT(deconv, stride), 2, 'i', {1, 1}},
    {"pad", AT(deconv, pad), 2, 'i', {0}},
    {"grow", AT(deconv, grow), 2, 'i', {0}},
    {"groups", AT(deconv, groups), 1, 'i', {1}},
};
static const struct yir_attr attrs_attn[] = {
    {"heads", AT(attn, heads), 1, 'i', {1}},   {"dim", AT(attn, dim), 1, 'i', {1}},
    {"qat", AT(attn, qat), 1, 'i', {0}},       {"kat", AT(attn, kat), 1, 'i', {0}},
    {"areas", AT(attn, areas), 1, 'i', {1}},   {"scale", AT(attn, scale), 1, 'f', {F_1}},
};
static const struct yir_attr attrs_attention[] = {
    {"heads", AT(attention, score.heads), 1, 'i', {1}},   {"dim", AT(attention, score.dim), 1, 'i', {1}},
    {"qat", AT(attention, score.qat), 1, 'i', {0}},       {"kat", AT(attention, score.kat), 1, 'i', {0}},
    {"areas", AT(attention, score.areas), 1, 'i', {1}},   {"scale", AT(attention, score.scale), 1, 'f', {F_1}},
    {"values", AT(attention, values), 1, 'i', {1}},       {"vat", AT(attention, vat), 1, 'i', {0}},
};
static const struct yir_attr attrs_mix[] = {
    {"dim", AT(mix, dim), 1, 'i', {1}},
    {"at", AT(mix, at), 1, 'i', {0}},
    {"areas", AT(mix, areas), 1, 'i', {1}},
};
static const struct yir_attr attrs_resize[] = {
    {"factor", AT(resize, factor), 1, 'i', {2}},
    {"corners", AT(resize, corners), 1, 'i', {0}},
};
static const struct yir_attr attrs_count[] = {{"count", AT(count, count), 1, 'i', {1}}};
static const struct yir_attr attrs_points[] = {
    {"dims", AT(points, dims), 1, 'i', {2}},
    {"scale", AT(points, scale), 1, 'f', {F_1}},
    {"shift", AT(points, shift), 1, 'f', {0}},
    {"stride", AT(points, stride), 1, 'f', {F_1}},
};
static const struct yir_attr attrs_side[] = {{"side", AT(side, side), 1, 'f', {0}}};
static const struct yir_attr attrs_deform[] = {
    {"heads", AT(deform, heads), 1, 'i', {1}},
    {"levels", AT(deform, levels), 1, 'i', {1}},
    {"level", AT(deform, level), 1, 'i', {0}},
    {"points", AT(deform, points), 1, 'i', {1}},
};
static const struct yir_attr attrs_stride[] = {{"stride", AT(stride, stride), 1, 'f', {F_1}}};
static const struct yir_attr attrs_image[] = {
    {"div", AT(image, div), 1, 'f', {F_255}},
    {"bgr", AT(image, bgr), 1, 'i', {0}},
    {"dtype", AT(image, dtype), 1, 'd', {YIR_F32}},
};

#define SCHEMA(s) attrs_##s, (int)YIR_COUNT(attrs_##s), (int)(sizeof(struct yir_a_##s) / sizeof(int32_t))
#define SCHEMA_none NULL, 0, 0
#define SCHEMA_conv SCHEMA(conv)
#define SCHEMA_eps SCHEMA(eps)
#define SCHEMA_slope SCHEMA(slope)
#define SCHEMA_axis SCHEMA(axis)
#define SCHEMA_slice SCHEMA(slice)
#define SCHEMA_factor SCHEMA(factor)
#define SCHEMA_pad SCHEMA(pad)
#define SCHEMA_pool SCHEMA(pool)
#define SCHEMA_cast SCHEMA(cast)
#define SCHEMA_box SCHEMA(box)
#define SCHEMA_anchor SCHEMA(anchor)
#define SCHEMA_stride SCHEMA(stride)
#define SCHEMA_image SCHEMA(image)
#define SCHEMA_affine SCHEMA(affine)
#define SCHEMA_deconv SCHEMA(deconv)
#define SCHEMA_attn SCHEMA(attn)
#define SCHEMA_attention SCHEMA(attention)
#define SCHEMA_mix SCHEMA(mix)
#define SCHEMA_resize SCHEMA(resize)
#define SCHEMA_count SCHEMA(count)
#define SCHEMA_points SCHEMA(points)
#define SCHEMA_side SCHEMA(side)
#define SCHEMA_deform SCHEMA(deform)

static const struct yir_opinfo op_table[YIR_NCODE] = {
#define OP(name, lo, hi, cls, shape, attrs, traits, text) \
    [YIR_##name] = {#name, text, lo, hi, YIR_##cls, traits, SCHEMA_##attrs},
#include "ops.def"
#undef OP
};

const struct yir_opinfo *yir_opinfo(enum yir_code c)
{
    YIR_ASSERT(c > YIR_NOP && c < YIR_NCODE);
    return &op_table[c];
}

bool yir_op_by_name(const char *s, size_t n, enum yir_code *out)
{
    for (int c = 1; c < YIR_NCODE; c++)
        if (strlen(op_table[c].name) == n && !memcmp(op_table[c].name, s, n)) {
            *out = (enum yir_code)c;
            return true;
        }
    return false;
}

void yir_attr_defaults(enum yir_code c, void *attr)
{
    const struct yir_opinfo *info = yir_opinfo(c);
    for (int i = 0; i < info->nattr; i++)
        for (int k = 0; k < info->attr[i].n; k++) ((int32_t *)attr)[info->attr[i].at + k] = info->attr[i].dflt[k];
}

/* --- shape rules -------------------------------------------------------------------------------------------- */

const char *yir_infer_name(const struct infer *i)
{
    return op_table[i->code].name;
}

int yir_need_map(const struct infer *i)
{
    const struct yir_tdesc *x = i->in[0];
    if (YIR_BREAKS(OP_MAP, x->rank != 4 || !yir_dtype_is_float(x->dtype) || x->layout == YIR_OIHW))
        return BAD(i, "%s: the input must be a float tensor of 4 dimensions, found %d", yir_infer_name(i), x->rank);
    return 0;
}

/* Output size of a window; checks that every number makes sense. */
static int window_dim(const struct infer *i, int axis, int64_t kernel, int64_t stride, int64_t dil, int64_t before,
                      int64_t after, int64_t *out)
{
    if (YIR_BREAKS(OP_KERNEL, kernel < 1 || kernel > 4096) || YIR_BREAKS(OP_STRIDE, stride < 1 || stride > 4096) ||
        YIR_BREAKS(OP_DILATION, dil < 1 || dil > 4096) ||
        YIR_BREAKS(OP_PADDING, before < 0 || before > 65536 || after < 0 || after > 65536))
        return BAD(i, "%s: kernel %lld, stride %lld, dilation %lld, padding %lld,%lld are not possible",
                   yir_infer_name(i),
                   ll(kernel), ll(stride), ll(dil), ll(before), ll(after));
    int64_t span = dil * (kernel - 1) + 1, size = i->in[0]->dim[axis] + before + after;
    if (YIR_BREAKS(OP_WINDOW, size < span))
        return BAD(i,
                   "%s: a window of %lld does not fit into a map of %lld (padding included); the image is too small",
                   yir_infer_name(i), ll(span), ll(size));
    *out = (size - span) / stride + 1;
    return 0;
}

int yir_shape_same(struct infer *i)
{
    if (YIR_BREAKS(OP_FLOAT, !yir_dtype_is_float(i->in[0]->dtype)))
        return BAD(i, "%s: the input must be of a float type", yir_infer_name(i));
    if (i->code != YIR_batchnorm) return 0;
    const struct yir_a_eps *a = i->attr;
    if (YIR_BREAKS(OP_EPS, !(a->eps >= 0 && a->eps <= 1)))
        return BAD(i, "batchnorm: eps %g is not in [0, 1]", (double)a->eps);
    if (YIR_BREAKS(OP_BN_CHANNELS, i->in[0]->rank < 2)) return BAD(i, "batchnorm: the input has no channels");
    for (int k = 1; k < 5; k++)
        if (YIR_BREAKS(OP_BN_SHAPES, i->in[k]->rank != 1 || i->in[k]->dim[0] != i->in[0]->dim[1]))
            return BAD(i, "batchnorm: %lld statistics for %lld channels", ll(i->in[k]->dim[0]), ll(i->in[0]->dim[1]));
    return 0;
}

int yir_shape_same2(struct infer *i)
{
    const struct yir_tdesc *a = i->in[0], *b = i->in[1];
    if (YIR_BREAKS(OP_SAME_TYPE, a->dtype != b->dtype || a->layout != b->layout || !yir_dtype_is_float(a->dtype)))
        return BAD(i, "%s: the inputs differ in type or layout", yir_infer_name(i));
    if (YIR_BREAKS(OP_SAME_RANK, a->rank != b->rank))
        return BAD(i, "%s: the inputs have %d and %d dimensions", yir_infer_name(i), a->rank, b->rank);
    for (int k = 0; k < a->rank; k++)
        if (YIR_BREAKS(OP_SAME_DIMS, a->dim[k] != b->dim[k]))
            return BAD(i, "%s: inputs differ at dimension %d: %lld and %lld", yir_infer_name(i), k, ll(a->dim[k]),
                       ll(b->dim[k]));
    return 0;
}

int yir_shape_conv(struct infer *i)
{
    const struct yir_a_conv *a = i->attr;
    const struct yir_tdesc *x = i->in[0], *w = i->in[1];
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_WEIGHT, w->rank != 4 || !yir_dtype_is_float(w->dtype)))
        return BAD(i, "conv2d: the weight must have 4 dimensions");
    if (YIR_BREAKS(OP_GROUPS, a->groups < 1 || x->dim[1] % a->groups || w->dim[0] % a->groups))
        return BAD(i, "conv2d: %d groups do not divide %lld input and %lld output channels", a->groups, ll(x->dim[1]),
                   ll(w->dim[0]));
    if (YIR_BREAKS(OP_WEIGHT_INPUTS, w->dim[1] != x->dim[1] / a->groups))
        return BAD(i, "conv2d: the weight wants %lld input channels, the input has %lld", ll(w->dim[1] * a->groups),
                   ll(x->dim[1]));
    if (YIR_BREAKS(OP_BIAS, i->n == 3 && (i->in[2]->rank != 1 || i->in[2]->dim[0] != w->dim[0])))
        return BAD(i, "conv2d: the bias must have %lld elements", ll(w->dim[0]));
    i->out.dim[1] = w->dim[0];
    return window_dim(i, 2, w->dim[2], a->stride[0], a->dil[0], a->pad[0], a->pad[2], &i->out.dim[2])
               ? -1
               : window_dim(i, 3, w->dim[3], a->stride[1], a->dil[1], a->pad[1], a->pad[3], &i->out.dim[3]);
}

int yir_shape_pool(struct infer *i)
{
    const struct yir_a_pool *a = i->attr;
    if (yir_need_map(i)) return -1;
    for (int k = 0; k < 2; k++) {
        if (YIR_BREAKS(OP_POOL_PADDING, a->pad[k] >= a->kernel[k] || a->pad[k + 2] >= a->kernel[k]))
            return BAD(i, "%s: padding %d,%d reaches the window %d", yir_infer_name(i), a->pad[k], a->pad[k + 2],
                       a->kernel[k]);
        if (window_dim(i, 2 + k, a->kernel[k], a->stride[k], 1, a->pad[k], a->pad[k + 2],
                       &i->out.dim[2 + k])) return -1;
    }
    return 0;
}

int yir_shape_concat(struct infer *i)
{
    int axis = ((const struct yir_a_axis *)i->attr)->axis;
    if (YIR_BREAKS(OP_AXIS, axis < 1 || axis >= i->in[0]->rank))
        return BAD(i, "concat: axis %d of %d dimensions (the batch, 0, can't be joined)", axis, i->in[0]->rank);
    int64_t sum = 0;
    for (int k = 0; k < i->n; k++) {
        const struct yir_tdesc *a = i->in[0], *b = i->in[k];
        if (YIR_BREAKS(OP_JOIN_TYPE, a->dtype != b->dtype || a->layout != b->layout || a->rank != b->rank))
            return BAD(i, "concat: input %d differs in type, layout or number of dimensions", k);
        for (int j = 0; j < a->rank; j++)
            if (YIR_BREAKS(OP_JOIN_DIMS, j != axis && a->dim[j] != b->dim[j]))
                return BAD(i, "concat: inputs differ at dimension %d: %lld and %lld", j, ll(a->dim[j]),
                           ll(b->dim[j]));
        sum += b->dim[axis];
    }
    i->out.dim[axis] = sum;
    return 0;
}

int yir_shape_slice(struct infer *i)
{
    const struct yir_a_slice *a = i->attr;
    if (YIR_BREAKS(OP_SLICE_AXIS, a->axis < 1 || a->axis >= i->in[0]->rank) ||
        YIR_BREAKS(OP_SLICE, a->start < 0 || a->count < 1 ||
                                 (int64_t)a->start + a->count > i->in[0]->dim[a->axis]))
        return BAD(i, "slice: %d elements from %d along axis %d are not inside the input", a->count, a->start,
                   a->axis);
    i->out.dim[a->axis] = a->count;
    return 0;
}

int yir_shape_upsample(struct infer *i)
{
    int32_t factor = ((const struct yir_a_factor *)i->attr)->factor;
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_FACTOR, factor < 1 || factor > 64))
        return BAD(i, "upsample: the factor %d is not in 1 .. 64", factor);
    i->out.dim[2] *= factor;
    i->out.dim[3] *= factor;
    return 0;
}

int yir_shape_s2d(struct infer *i)
{
    int32_t factor = ((const struct yir_a_factor *)i->attr)->factor;
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_S2D, factor < 1 || factor > 64 || i->in[0]->dim[2] % factor || i->in[0]->dim[3] % factor))
        return BAD(i, "s2d: the factor %d does not divide the map %lldx%lld", factor, ll(i->in[0]->dim[2]),
                   ll(i->in[0]->dim[3]));
    i->out.dim[1] *= (int64_t)factor * factor;
    i->out.dim[2] /= factor;
    i->out.dim[3] /= factor;
    return 0;
}

int yir_shape_pad(struct infer *i)
{
    const struct yir_a_pad *a = i->attr;
    if (yir_need_map(i)) return -1;
    for (int k = 0; k < 4; k++)
        if (YIR_BREAKS(OP_PAD, a->pad[k] < 0 || a->pad[k] > 65536))
            return BAD(i, "pad: %d rows or columns are not possible", a->pad[k]);
    i->out.dim[2] += a->pad[0] + a->pad[2];
    i->out.dim[3] += a->pad[1] + a->pad[3];
    return 0;
}

int yir_shape_cast(struct infer *i)
{
    const struct yir_a_cast *a = i->attr;
    bool map = a->layout == YIR_NCHW || a->layout == YIR_NHWC || a->layout == YIR_OIHW;
    if (YIR_BREAKS(OP_CAST, a->dtype < 0 || a->dtype >= YIR_NDTYPE || a->layout < 0 || a->layout >= YIR_NLAYOUT ||
                                map != (i->in[0]->rank == 4)))
        return BAD(i, "cast: the layout does not fit %d dimensions", i->in[0]->rank);
    i->out.dtype = (enum yir_dtype)a->dtype;
    i->out.layout = (enum yir_layout)a->layout;
    return 0;
}

void yir_set_shape(struct infer *i, int rank, const int64_t *dim)
{
    i->out.rank = rank;
    i->out.layout = yir_default_layout(rank);
    memset(i->out.dim, 0, sizeof i->out.dim);
    memcpy(i->out.dim, dim, (size_t)rank * sizeof dim[0]);
}

int yir_shape_flatten(struct infer *i)
{
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i)) return -1;
    yir_set_shape(i, 3, (int64_t[]){d[0], d[1], d[2] * d[3]});
    return 0;
}

int yir_need_stride(const struct infer *i, float stride)
{
    if (YIR_BREAKS(OP_HEAD_STRIDE, !(stride > 0 && stride <= 65536)))
        return BAD(i, "%s: the stride %g is not possible", yir_infer_name(i), (double)stride);
    return 0;
}

int yir_shape_dfl_box(struct infer *i)
{
    const struct yir_a_box *a = i->attr;
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i) || yir_need_stride(i, a->stride)) return -1;
    if (YIR_BREAKS(OP_BINS, a->bins < 1 || a->bins > 4096 || d[1] != 4 * (int64_t)a->bins))
        return BAD(i, "dfl_box: %lld channels are not 4 x %d bins", ll(d[1]), a->bins);
    yir_set_shape(i, 3, (int64_t[]){d[0], 4, d[2] * d[3]});
    return 0;
}

static int need_anchors(const struct infer *i)
{
    const struct yir_a_anchor *a = i->attr;
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i) || yir_need_stride(i, a->stride)) return -1;
    if (YIR_BREAKS(OP_ANCHORS, a->na < 1 || d[1] % a->na || d[1] / a->na < 6))
        return BAD(i, "%s: %lld channels are not %d anchors of 5 + classes", yir_infer_name(i), ll(d[1]), a->na);
    return 0;
}

int yir_shape_anchor_raw(struct infer *i)
{
    const struct yir_a_anchor *a = i->attr;
    const int64_t *d = i->in[0]->dim;
    if (need_anchors(i)) return -1;
    yir_set_shape(i, 5, (int64_t[]){d[0], a->na, d[2], d[3], d[1] / a->na});
    return 0;
}

int yir_shape_anchor_box(struct infer *i)
{
    const struct yir_a_anchor *a = i->attr;
    const int64_t *d = i->in[0]->dim;
    if (need_anchors(i)) return -1;
    if (YIR_BREAKS(OP_ANCHOR_SHAPE, i->in[1]->rank != 2 || i->in[1]->dim[0] != a->na || i->in[1]->dim[1] != 2))
        return BAD(i, "anchor_box: the anchors must be [%d, 2]", a->na);
    yir_set_shape(i, 3, (int64_t[]){d[0], a->na * d[2] * d[3], d[1] / a->na});
    return 0;
}

int yir_shape_x_box(struct infer *i)
{
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i) || yir_need_stride(i, ((const struct yir_a_stride *)i->attr)->stride)) return -1;
    if (YIR_BREAKS(OP_X_CHANNELS, d[1] < 6))
        return BAD(i, "x_box: %lld channels are not 5 + classes", ll(d[1]));
    yir_set_shape(i, 3, (int64_t[]){d[0], d[2] * d[3], d[1]});
    return 0;
}

int yir_shape_image(struct infer *i)
{
    const struct yir_a_image *a = i->attr;
    const struct yir_tdesc *x = i->in[0];
    if (YIR_BREAKS(OP_IMAGE, x->rank != 4 || x->dtype != YIR_U8 || x->dim[3] != 3))
        return BAD(i, "image: the input must be u8[n,h,w,3]");
    if (YIR_BREAKS(OP_IMAGE_DIV, !(a->div > 0))) return BAD(i, "image: div must be positive");
    bool known = a->dtype >= 0 && a->dtype < YIR_NDTYPE;
    if (YIR_BREAKS(OP_IMAGE_TYPE, !known || !yir_dtype_is_float((enum yir_dtype)a->dtype)))
        return BAD(i, "image: the result must be of a float type");
    yir_set_shape(i, 4, (int64_t[]){x->dim[0], 3, x->dim[1], x->dim[2]});
    i->out.dtype = (enum yir_dtype)a->dtype;
    i->out.layout = YIR_NHWC;
    return 0;
}

typedef int (*shape_fn)(struct infer *);
static const shape_fn shape_table[YIR_NCODE] = {
#define OP(name, lo, hi, cls, shape, attrs, traits, text) [YIR_##name] = yir_shape_##shape,
#include "ops.def"
#undef OP
};

static int check_size(const struct infer *i)
{
    uint64_t n = 1;
    for (int k = 0; k < i->out.rank; k++) {
        if (YIR_BREAKS(OP_DIM, i->out.dim[k] < 1 || i->out.dim[k] > YIR_MAX_DIM) ||
            YIR_BREAKS(OP_ELEMENTS, !yir_mul_u64(n, (uint64_t)i->out.dim[k], &n) || n > UINT64_C(1) << 40))
            return BAD(i, "%s: the result would be too large", yir_infer_name(i));
    }
    return 0;
}

yir_type yir_infer(struct yir_func *f, enum yir_code c, const yir_ref *src, int nsrc, const void *attr, bool report)
{
    const struct yir_opinfo *info = yir_opinfo(c);
    struct infer i = {.f = f, .code = c, .n = nsrc, .attr = attr, .report = report};
    if (YIR_BREAKS(OP_INPUTS, nsrc < info->lo || nsrc > info->hi)) {
        BAD(&i, "%s: %d inputs where %d to %d are possible", info->name, nsrc, info->lo, info->hi);
        return (yir_type){0};
    }
    for (int k = 0; k < nsrc; k++) i.in[k] = yir_desc(f, src[k]);
    i.out = *i.in[0];
    if (shape_table[c](&i) || check_size(&i)) return (yir_type){0};
    return yir_type_of(f->types, &i.out);
}
