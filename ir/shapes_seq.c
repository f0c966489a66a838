/* Shape rules of attention, of sequences (maps of one column) and of the heads that need them. */
#include "infer.h"

int yir_need_map_at(const struct infer *i, int k)
{
    const struct yir_tdesc *x = i->in[k];
    if (YIR_BREAKS(OP_OTHER_MAP, x->rank != 4 || x->dtype != i->in[0]->dtype || x->layout == YIR_OIHW))
        return BAD(i, "%s: input %d must be a map of the type of the first", yir_infer_name(i), k);
    if (YIR_BREAKS(OP_OTHER_BATCH, x->dim[0] != i->in[0]->dim[0]))
        return BAD(i, "%s: the inputs are of %lld and %lld images", yir_infer_name(i), (long long)i->in[0]->dim[0],
                   (long long)x->dim[0]);
    return 0;
}

/* Operand k is a weight-like vector of n elements. */
static int need_vector(const struct infer *i, int k, int64_t n)
{
    const struct yir_tdesc *x = i->in[k];
    if (YIR_BREAKS(OP_VECTOR, x->rank != 1 || x->dim[0] != n || !yir_dtype_is_float(x->dtype)))
        return BAD(i, "%s: input %d must be a vector of %lld", yir_infer_name(i), k, (long long)n);
    return 0;
}

/* Operand k is [n, c, h, w] with the map of operand 0. */
static int need_same_map(const struct infer *i, int k, int64_t c)
{
    const struct yir_tdesc *x = i->in[k], *y = i->in[0];
    if (yir_need_map_at(i, k)) return -1;
    if (YIR_BREAKS(OP_OTHER_SHAPE, x->dim[1] != c || x->dim[2] != y->dim[2] || x->dim[3] != y->dim[3]))
        return BAD(i, "%s: input %d must be [%lld,%lld,%lld,%lld]", yir_infer_name(i), k, (long long)y->dim[0],
                   (long long)c, (long long)y->dim[2], (long long)y->dim[3]);
    return 0;
}

/* Operand k is [n, c, l, 1]. */
static int need_tokens(const struct infer *i, int k, int64_t c, int64_t l)
{
    const struct yir_tdesc *x = i->in[k];
    if (yir_need_map_at(i, k)) return -1;
    if (YIR_BREAKS(OP_TOKENS, x->dim[1] != c || x->dim[3] != 1 || (l && x->dim[2] != l)))
        return BAD(i, "%s: input %d must be tokens of %lld channels", yir_infer_name(i), k, (long long)c);
    return 0;
}

/* Channels at .. at + dim of each head lie inside that head's share. */
static int need_share(const struct infer *i, int64_t channels, int64_t heads, int64_t dim, int64_t at)
{
    if (YIR_BREAKS(OP_HEADS, heads < 1 || dim < 1 || at < 0 || channels % heads) ||
        YIR_BREAKS(OP_SHARE, at + dim > channels / heads))
        return BAD(i, "%s: %lld channels are not %lld heads with %lld from %lld", yir_infer_name(i),
                   (long long)channels, (long long)heads, (long long)dim, (long long)at);
    return 0;
}

static int need_areas(const struct infer *i, int64_t areas, int64_t positions)
{
    if (YIR_BREAKS(OP_AREAS, areas < 1 || positions % areas))
        return BAD(i, "%s: %lld positions can't be cut into %lld areas", yir_infer_name(i), (long long)positions,
                   (long long)areas);
    return 0;
}

/* Operand k has, in each area, a position for each of so many keys. */
static int need_keys(const struct infer *i, int k, int64_t areas, int64_t keys)
{
    int64_t n = i->in[k]->dim[2] * i->in[k]->dim[3];
    if (need_areas(i, areas, n)) return -1;
    if (YIR_BREAKS(OP_KEYS, n / areas != keys))
        return BAD(i, "%s: weights of %lld keys for %lld values", yir_infer_name(i), (long long)keys, (long long)n);
    return 0;
}

static int check_attn(const struct infer *i, const struct yir_a_attn *a, int64_t *keys)
{
    const int64_t *q = i->in[0]->dim, *k = i->in[1]->dim;
    if (yir_need_map(i) || yir_need_map_at(i, 1) || need_share(i, q[1], a->heads, a->dim, a->qat) ||
        need_share(i, k[1], a->heads, a->dim, a->kat) || need_areas(i, a->areas, q[2] * q[3]) ||
        need_areas(i, a->areas, k[2] * k[3]))
        return -1;
    *keys = k[2] * k[3] / a->areas;
    return 0;
}

int yir_shape_attn_scores(struct infer *i)
{
    const int64_t *q = i->in[0]->dim;
    int64_t keys;
    if (check_attn(i, i->attr, &keys)) return -1;
    yir_set_shape(i, 5, (int64_t[]){q[0], q[2], q[3], ((const struct yir_a_attn *)i->attr)->heads, keys});
    return 0;
}

int yir_shape_attn_peak(struct infer *i)
{
    int64_t keys;
    if (check_attn(i, i->attr, &keys)) return -1;
    i->out.dim[1] = ((const struct yir_a_attn *)i->attr)->heads;
    return 0;
}

int yir_shape_attn_mix(struct infer *i)
{
    const struct yir_a_mix *a = i->attr;
    const struct yir_tdesc *s = i->in[0], *v = i->in[1];
    if (YIR_BREAKS(OP_SCORES, s->rank != 5 || !yir_dtype_is_float(s->dtype)))
        return BAD(i, "attn_mix: the weights must have 5 dimensions");
    const int64_t *d = s->dim;
    if (yir_need_map_at(i, 1) || need_share(i, v->dim[1], d[3], a->dim, a->at) || need_areas(i, a->areas, d[1] * d[2]) ||
        need_keys(i, 1, a->areas, d[4]))
        return -1;
    i->out = *v;
    i->out.dim[1] = d[3] * a->dim;
    i->out.dim[2] = d[1];
    i->out.dim[3] = d[2];
    return 0;
}

int yir_shape_attention(struct infer *i)
{
    const struct yir_a_attention *a = i->attr;
    int64_t keys;
    if (check_attn(i, &a->score, &keys) || yir_need_map_at(i, 2) ||
        need_share(i, i->in[2]->dim[1], a->score.heads, a->values, a->vat) || need_keys(i, 2, a->score.areas, keys))
        return -1;
    i->out.dim[1] = (int64_t)a->score.heads * a->values;
    return 0;
}

static int need_axis(const struct infer *i)
{
    int axis = ((const struct yir_a_axis *)i->attr)->axis;
    if (YIR_BREAKS(OP_REDUCE_AXIS, axis < 1 || axis >= i->in[0]->rank || !yir_dtype_is_float(i->in[0]->dtype)))
        return BAD(i, "%s: axis %d of a tensor of %d dimensions", yir_infer_name(i), axis, i->in[0]->rank);
    return 0;
}

int yir_shape_lse(struct infer *i)
{
    if (need_axis(i)) return -1;
    i->out.dim[((const struct yir_a_axis *)i->attr)->axis] = 1;
    return 0;
}

int yir_shape_softmax(struct infer *i)
{
    if (need_axis(i)) return -1;
    struct yir_tdesc sums = *i->in[0];
    sums.dim[((const struct yir_a_axis *)i->attr)->axis] = 1;
    if (YIR_BREAKS(OP_SUMS, !yir_tdesc_same(&sums, i->in[1])))
        return BAD(i, "softmax: the second input is not the lse of the first");
    return 0;
}

int yir_shape_moments(struct infer *i)
{
    const struct yir_a_eps *a = i->attr;
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_MOMENTS_EPS, !(a->eps >= 0 && a->eps <= 1)))
        return BAD(i, "moments: eps %g is not in [0, 1]", (double)a->eps);
    i->out.dim[1] = 2;
    return 0;
}

int yir_shape_layernorm(struct infer *i)
{
    int64_t c = i->in[0]->dim[1];
    return yir_need_map(i) || need_same_map(i, 1, 2) || need_vector(i, 2, c) || need_vector(i, 3, c) ? -1 : 0;
}

int yir_shape_one_channel(struct infer *i)
{
    if (yir_need_map(i)) return -1;
    i->out.dim[1] = 1;
    return 0;
}

int yir_shape_gate(struct infer *i)
{
    if (yir_need_map(i) || need_same_map(i, 1, i->in[1]->dim[1])) return -1;
    if (YIR_BREAKS(OP_GATE, i->in[0]->dim[1] % i->in[1]->dim[1]))
        return BAD(i, "gate: %lld channels in %lld groups", (long long)i->in[0]->dim[1], (long long)i->in[1]->dim[1]);
    return 0;
}

int yir_shape_contrast(struct infer *i)
{
    if (yir_need_map(i) || need_tokens(i, 1, i->in[0]->dim[1], 0) || need_vector(i, 2, 1) || need_vector(i, 3, 1))
        return -1;
    i->out.dim[1] = i->in[1]->dim[2];
    return 0;
}

int yir_shape_depth(struct infer *i)
{
    return yir_need_map(i) || need_vector(i, 1, 1) || need_vector(i, 2, 1) ? -1 : 0;
}

int yir_shape_posenc(struct infer *i)
{
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_QUARTERS, i->in[0]->dim[1] % 4))
        return BAD(i, "posenc: %lld channels are not four equal parts", (long long)i->in[0]->dim[1]);
    return need_vector(i, 1, i->in[0]->dim[1] / 4);
}

/* --- moves -------------------------------------------------------------------------------------------------- */

int yir_shape_d2s(struct infer *i)
{
    int32_t factor = ((const struct yir_a_factor *)i->attr)->factor;
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_D2S, factor < 1 || factor > 64 || i->in[0]->dim[1] % ((int64_t)factor * factor)))
        return BAD(i, "d2s: the factor %d does not divide %lld channels", factor, (long long)i->in[0]->dim[1]);
    i->out.dim[1] /= (int64_t)factor * factor;
    i->out.dim[2] *= factor;
    i->out.dim[3] *= factor;
    return 0;
}

int yir_shape_tokens(struct infer *i)
{
    if (yir_need_map(i)) return -1;
    i->out.dim[2] *= i->out.dim[3];
    i->out.dim[3] = 1;
    return 0;
}

int yir_shape_rows(struct infer *i)
{
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i)) return -1;
    yir_set_shape(i, 3, (int64_t[]){d[0], d[2] * d[3], d[1]});
    return 0;
}

/* Rows of channels lie in memory as an nhwc map of one column does. */
int yir_shape_from_rows(struct infer *i)
{
    const int64_t *d = i->in[0]->dim;
    if (YIR_BREAKS(OP_ROWS, i->in[0]->rank != 3 || !yir_dtype_is_float(i->in[0]->dtype)))
        return BAD(i, "from_rows: the input must be a float tensor of 3 dimensions, found %d", i->in[0]->rank);
    yir_set_shape(i, 4, (int64_t[]){d[0], d[2], d[1], 1});
    i->out.layout = YIR_NHWC;
    return 0;
}

int yir_shape_ravel(struct infer *i)
{
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i)) return -1;
    yir_set_shape(i, 2, (int64_t[]){d[0], d[1] * d[2] * d[3]});
    return 0;
}

int yir_shape_nearest(struct infer *i)
{
    if (yir_need_map(i) || yir_need_map_at(i, 1)) return -1;
    i->out.dim[2] = i->in[1]->dim[2];
    i->out.dim[3] = i->in[1]->dim[3];
    return 0;
}

int yir_shape_avgmap(struct infer *i)
{
    if (yir_need_map(i)) return -1;
    i->out.dim[2] = i->out.dim[3] = 1;
    return 0;
}

static int need_count(const struct infer *i, int32_t count)
{
    if (YIR_BREAKS(OP_COUNT, count < 1 || count > 65536))
        return BAD(i, "%s: the count %d is not in 1 .. 65536", yir_infer_name(i), count);
    return 0;
}

int yir_shape_maxbins(struct infer *i)
{
    int32_t count = ((const struct yir_a_count *)i->attr)->count;
    if (yir_need_map(i) || need_count(i, count)) return -1;
    i->out.dim[2] = i->out.dim[3] = count;
    return 0;
}

int yir_shape_bilinear(struct infer *i)
{
    int32_t factor = ((const struct yir_a_resize *)i->attr)->factor;
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_RESIZE, factor < 1 || factor > 64))
        return BAD(i, "bilinear: the factor %d is not in 1 .. 64", factor);
    i->out.dim[2] *= factor;
    i->out.dim[3] *= factor;
    return 0;
}

static int deconv_dim(const struct infer *i, int axis, int64_t kernel, int64_t stride, int64_t pad, int64_t grow,
                      int64_t *out)
{
    if (YIR_BREAKS(OP_DECONV_STEP, kernel < 1 || kernel > 4096 || stride < 1 || stride > 4096) ||
        YIR_BREAKS(OP_DECONV_PAD, pad < 0 || pad > 65536 || grow < 0 || grow >= stride))
        return BAD(i, "deconv2d: kernel %lld, stride %lld, padding %lld, grow %lld are not possible", (long long)kernel,
                   (long long)stride, (long long)pad, (long long)grow);
    *out = (i->in[0]->dim[axis] - 1) * stride + kernel - 2 * pad + grow;
    if (YIR_BREAKS(OP_DECONV_SIZE, *out < 1))
        return BAD(i, "deconv2d: padding %lld leaves nothing of the map", (long long)pad);
    return 0;
}

int yir_shape_deconv(struct infer *i)
{
    const struct yir_a_deconv *a = i->attr;
    const struct yir_tdesc *x = i->in[0], *w = i->in[1];
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_DECONV_WEIGHT, w->rank != 4 || !yir_dtype_is_float(w->dtype) || w->dim[0] != x->dim[1]))
        return BAD(i, "deconv2d: the weight must be [%lld, outputs, rows, columns]", (long long)x->dim[1]);
    if (YIR_BREAKS(OP_DECONV_GROUPS, a->groups < 1 || x->dim[1] % a->groups))
        return BAD(i, "deconv2d: %d groups do not divide %lld channels", a->groups, (long long)x->dim[1]);
    i->out.dim[1] = w->dim[1] * a->groups;
    if (i->n == 3 && need_vector(i, 2, i->out.dim[1])) return -1;
    return deconv_dim(i, 2, w->dim[2], a->stride[0], a->pad[0], a->grow[0], &i->out.dim[2])
               ? -1
               : deconv_dim(i, 3, w->dim[3], a->stride[1], a->pad[1], a->grow[1], &i->out.dim[3]);
}

/* --- heads -------------------------------------------------------------------------------------------------- */

int yir_shape_obb_box(struct infer *i)
{
    return yir_shape_dfl_box(i) || need_same_map(i, 1, 1) ? -1 : 0;
}

int yir_shape_points(struct infer *i)
{
    const struct yir_a_points *a = i->attr;
    const int64_t *d = i->in[0]->dim;
    if (yir_need_map(i) || yir_need_stride(i, a->stride)) return -1;
    if (YIR_BREAKS(OP_POINTS, a->dims < 2 || a->dims > 3 || d[1] % a->dims))
        return BAD(i, "points: %lld channels are not points of %d numbers", (long long)d[1], a->dims);
    yir_set_shape(i, 3, (int64_t[]){d[0], d[1], d[2] * d[3]});
    return 0;
}

int yir_shape_rank(struct infer *i)
{
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_ONE_CHANNEL, i->in[0]->dim[1] != 1))
        return BAD(i, "%s: one channel is needed, found %lld", yir_infer_name(i), (long long)i->in[0]->dim[1]);
    return 0;
}

int yir_shape_order(struct infer *i)
{
    int32_t count = ((const struct yir_a_count *)i->attr)->count;
    if (yir_shape_rank(i) || need_count(i, count)) return -1;
    int64_t all = i->out.dim[2] * i->out.dim[3];
    i->out.dim[2] = count < all ? count : all;
    i->out.dim[3] = 1;
    return 0;
}

int yir_shape_gather(struct infer *i)
{
    if (yir_need_map(i) || need_tokens(i, 1, 1, 0)) return -1;
    i->out.dim[2] = i->in[1]->dim[2];
    i->out.dim[3] = 1;
    return 0;
}

int yir_shape_deform(struct infer *i)
{
    const struct yir_a_deform *a = i->attr;
    if (yir_need_map(i)) return -1;
    if (YIR_BREAKS(OP_DEFORM, a->heads < 1 || a->heads > 4096 || a->levels < 1 || a->levels > 64 || a->points < 1 ||
                                  a->points > 64 || a->level < 0 || a->level >= a->levels ||
                                  i->in[0]->dim[1] % a->heads))
        return BAD(i, "deform: %d heads, level %d of %d and %d points are not possible", a->heads, a->level, a->levels,
                   a->points);
    int64_t samples = (int64_t)a->heads * a->levels * a->points, l = i->in[1]->rank == 4 ? i->in[1]->dim[2] : 0;
    if (need_tokens(i, 1, 4, 0) || need_tokens(i, 2, 2 * samples, l) || need_tokens(i, 3, samples, l)) return -1;
    i->out.dim[2] = l;
    i->out.dim[3] = 1;
    return 0;
}

static int need_side(const struct infer *i)
{
    float side = ((const struct yir_a_side *)i->attr)->side;
    if (YIR_BREAKS(OP_SIDE, !(side > 0 && side < 1)))
        return BAD(i, "%s: the side %g is not between 0 and 1", yir_infer_name(i), (double)side);
    return 0;
}

int yir_shape_detr_valid(struct infer *i)
{
    return yir_need_map(i) || need_side(i) ? -1 : 0;
}

int yir_shape_detr_anchor(struct infer *i)
{
    if (yir_shape_detr_valid(i)) return -1;
    i->out.dim[1] = 4;
    return 0;
}

int yir_shape_query_box(struct infer *i)
{
    if (yir_need_map(i) || need_tokens(i, 0, 4, 0) || yir_need_map_at(i, 1) ||
        yir_need_stride(i, ((const struct yir_a_stride *)i->attr)->stride))
        return -1;
    yir_set_shape(i, 3, (int64_t[]){i->in[0]->dim[0], 4, i->in[0]->dim[2]});
    return 0;
}
