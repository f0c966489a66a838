/*
 * The decoder of RT-DETR: the best places of all levels become queries, which layers of attention turn into boxes. There
 * is nothing to suppress: `decoded` has a column for each query, with corners in pixels.
 */
#include "heads.h"

#include "check.h"

enum { WIDTH = 256, QUERIES = 300, POINTS = 4, HEADS = 8, LAYERS = 6, FFN = 1024 };

struct queries {
    struct fe_lower *l;
    const struct fe_site *s;
    yir_ref level[FE_MAX_LEVELS]; /* maps of WIDTH channels */
    struct fe_linear place[2];    /* from a box to where its query looks */
};

static yir_ref gather(struct fe_lower *l, yir_ref x, yir_ref places)
{
    return fe_op(l, YIR_gather, (yir_ref[]){x, places}, 2, NULL);
}

/* "layers.0", "layers.1" ...: matrices with ReLU between them. */
static yir_ref mlp(struct fe_lower *l, const char *child, yir_ref x, const int64_t *width, int n)
{
    fe_child(l, child);
    for (int i = 0; i < n; i++) {
        x = fe_linear(l, fe_indexed(l, "layers", i), x, width[i], true);
        if (i < n - 1) x = fe_unary(l, YIR_relu, x);
    }
    fe_leave(l);
    return x;
}

static yir_ref box_mlp(struct fe_lower *l, const char *child, yir_ref x)
{
    return mlp(l, child, x, (int64_t[]){WIDTH, WIDTH, 4}, 3);
}

static void project_inputs(struct queries *q)
{
    struct fe_lower *l = q->l;
    struct fe_conv c = fe_conv_of(l, WIDTH, 1, 1);
    for (int i = 0; i < q->s->nin; i++) {
        fe_child(l, fe_indexed(l, "input_proj", i));
        fe_child(l, "0");
        q->level[i] = fe_conv2d(l, q->s->in[i], &c, false);
        fe_leave(l);
        q->level[i] = fe_batchnorm(l, "1", q->level[i]);
        fe_leave(l);
        fe_level_stride(l, i, q->level[i]);
    }
}

/* The tokens of all levels, each level's through op c with the side of its anchors. */
static yir_ref join_levels(const struct queries *q, enum yir_code c)
{
    yir_ref part[FE_MAX_LEVELS];
    for (int i = 0; i < q->s->nin; i++) {
        struct yir_a_side a = {0.05f * (float)(1 << i)};
        part[i] = fe_op(q->l, c, &q->level[i], 1, &a);
        part[i] = fe_unary(q->l, YIR_tokens, part[i]);
    }
    return fe_concat(q->l, part, q->s->nin, 2);
}

/* The places with the best scores: their features in *x, the logits of their boxes in *ref. */
static void choose(const struct queries *q, yir_ref *x, yir_ref *ref)
{
    struct fe_lower *l = q->l;
    struct yir_a_count count = {QUERIES};
    fe_child(l, "enc_output");
    yir_ref e = fe_linear(l, "0", join_levels(q, YIR_detr_valid), WIDTH, true);
    e = fe_layernorm(l, "1", e);
    fe_leave(l);
    yir_ref score = fe_linear(l, "enc_score_head", e, l->nc, true);
    yir_ref rank = fe_unary(l, YIR_rank, fe_unary(l, YIR_peak, score));
    yir_ref places = fe_op(l, YIR_order, &rank, 1, &count);
    *x = gather(l, e, places);
    yir_ref box = box_mlp(l, "enc_bbox_head", *x);
    *ref = fe_add(l, box, gather(l, join_levels(q, YIR_detr_anchor), places));
    fe_output(l, "enc_bboxes", fe_unary(l, YIR_rows, fe_unary(l, YIR_sigmoid, *ref)));
    fe_output(l, "enc_scores", fe_unary(l, YIR_rows, gather(l, score, places)));
}

/* All layers use it. */
static void read_place_head(struct queries *q)
{
    fe_child(q->l, "query_pos_head");
    for (int i = 0; i < 2; i++) {
        fe_child(q->l, fe_indexed(q->l, "layers", i));
        q->place[i] = fe_linear_of(q->l, i ? 2 * WIDTH : 4, i ? WIDTH : 2 * WIDTH, true);
        fe_leave(q->l);
    }
    fe_leave(q->l);
}

/* Each query looks at POINTS places of each level, around its box. */
static yir_ref deformable(const struct queries *q, yir_ref x, yir_ref ref)
{
    struct fe_lower *l = q->l;
    int levels = q->s->nin;
    int64_t samples = (int64_t)HEADS * levels * POINTS;
    fe_child(l, "cross_attn");
    yir_ref offsets = fe_linear(l, "sampling_offsets", x, 2 * samples, true);
    yir_ref logits = fe_linear(l, "attention_weights", x, samples, true), part[HEADS];
    for (int64_t h = 0; h < HEADS; h++)
        part[h] = fe_softmax(l, fe_slice(l, logits, h * levels * POINTS, levels * POINTS), 1);
    yir_ref weights = fe_concat(l, part, HEADS, 1), sum = YIR_NONE;
    fe_child(l, "value_proj");
    struct fe_linear value = fe_linear_of(l, WIDTH, WIDTH, true);
    fe_leave(l);
    for (int i = 0; i < levels; i++) {
        struct yir_a_deform a = {HEADS, levels, i, POINTS};
        yir_ref src[4] = {fe_apply(l, q->level[i], &value), ref, offsets, weights};
        yir_ref y = fe_op(l, YIR_deform, src, 4, &a);
        sum = i ? fe_add(l, sum, y) : y;
    }
    sum = fe_linear(l, "output_proj", sum, WIDTH, true);
    fe_leave(l);
    return sum;
}

static yir_ref decoder_layer(const struct queries *q, int i, yir_ref x, yir_ref ref, yir_ref place)
{
    struct fe_lower *l = q->l;
    fe_child(l, fe_indexed(l, "decoder.layers", i));
    yir_ref placed = fe_add(l, x, place);
    x = fe_add(l, x, fe_multihead(l, "self_attn", placed, placed, x, HEADS));
    x = fe_layernorm(l, "norm1", x);
    x = fe_add(l, x, deformable(q, fe_add(l, x, place), ref));
    x = fe_layernorm(l, "norm2", x);
    yir_ref y = fe_unary(l, YIR_relu, fe_linear(l, "linear1", x, FFN, true));
    x = fe_add(l, x, fe_linear(l, "linear2", y, WIDTH, true));
    x = fe_layernorm(l, "norm3", x);
    fe_leave(l);
    return x;
}

/* Tensors in the order of the reference: what the layers use stands after them. */
static void declare_order(struct queries *q)
{
    struct fe_lower *l = q->l;
    for (int i = 0; i < LAYERS; i++)
        fe_order(l, fe_indexed(l, "decoder.layers", i));
    fe_child(l, "denoising_class_embed");
    fe_declare(l, "weight", (int64_t[]){l->nc, WIDTH}, 2, true);
    fe_leave(l);
    fe_order(l, "query_pos_head,enc_output,enc_score_head,enc_bbox_head");
    for (int i = 0; i < LAYERS - 1; i++) {
        fe_child(l, fe_indexed(l, "dec_score_head", i));
        fe_declare(l, "weight", (int64_t[]){l->nc, WIDTH}, 2, true);
        fe_declare(l, "bias", &l->nc, 1, true);
        fe_leave(l);
    }
    fe_order(l, fe_indexed(l, "dec_score_head", LAYERS - 1));
}

static void give_boxes(const struct queries *q, yir_ref x, yir_ref ref)
{
    struct fe_lower *l = q->l;
    yir_ref score = fe_linear(l, fe_indexed(l, "dec_score_head", LAYERS - 1), x, l->nc, true), part[2];
    struct yir_a_stride a = {(float)l->head.stride[0]};
    part[0] = fe_op(l, YIR_query_box, (yir_ref[]){ref, q->level[0]}, 2, &a);
    part[1] = fe_unary(l, YIR_flatten, fe_unary(l, YIR_sigmoid, score));
    fe_output(l, "decoded", fe_concat(l, part, 2, 1));
    fe_output(l, "dec_bboxes", fe_unary(l, YIR_rows, ref));
    fe_output(l, "dec_scores", fe_unary(l, YIR_rows, score));
}

yir_ref fe_low_rtdetr(struct fe_lower *l, const struct fe_site *s)
{
    struct queries q = {.l = l, .s = s};
    yir_ref x, ref;
    if (fe_head_begin(l, s, FE_HEAD_FREE)) return YIR_NONE;
    if (FE_BREAKS(QUERY_LEVELS, s->nin > 4)) return fe_fail(l, E_ARGS, "RTDETRDecoder: %d levels; 4 are the most", s->nin), YIR_NONE;
    project_inputs(&q);
    declare_order(&q);
    choose(&q, &x, &ref);
    ref = fe_unary(l, YIR_sigmoid, ref);
    read_place_head(&q);
    for (int i = 0; i < LAYERS; i++) {
        yir_ref hidden = fe_unary(l, YIR_relu, fe_apply(l, ref, &q.place[0]));
        x = decoder_layer(&q, i, x, ref, fe_apply(l, hidden, &q.place[1]));
        yir_ref box = fe_add(l, box_mlp(l, fe_indexed(l, "dec_bbox_head", i), x), fe_unary(l, YIR_logit, ref));
        ref = fe_unary(l, YIR_sigmoid, box);
    }
    give_boxes(&q, x, ref);
    l->head.one2one = true;
    l->head.iou = 0.7f;
    return YIR_NONE;
}
