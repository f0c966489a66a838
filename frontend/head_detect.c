/*
 * Anchor-free heads of Ultralytics: distances to the box sides (as distributions over reg_max bins, or as they are) and
 * classes; with mask coefficients, keypoints or an angle for each place. Newer ones have a second, one-to-one set of
 * branches, whose boxes need no suppression of overlaps.
 */
#include "heads.h"

#include <math.h>
#include <string.h>

#include "check.h"

enum extra { EXTRA_NONE, EXTRA_MASK, EXTRA_POINTS, EXTRA_ANGLE };

struct detect {
    struct fe_lower *l;
    const struct fe_site *s;
    int64_t r, box_width, cls_width;
    enum extra extra;
    int64_t nextra, dims; /* channels; numbers of a keypoint */
    bool newer;           /* as in 26 */
    bool separable;       /* the box branch is of separable convolutions */
    bool text;            /* classes by nearness to texts: the class branch ends in an embedding */
    bool fused;           /* the texts are in the last convolutions of that branch, which give classes then */
    int64_t embed;
    bool text_norm;       /* BatchNorm of the embedding, instead of its length taken off */
    yir_ref texts;
    bool many, one;       /* the sets that the head has */
};

/* What one set of branches gives, by level, before decoding. */
struct set {
    yir_ref box[FE_MAX_LEVELS], cls[FE_MAX_LEVELS], extra[FE_MAX_LEVELS];
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t settle_reg_max(struct fe_lower *l)
{
    static const char *const names[] = {"cv2.0.2.weight", "one2one_cv2.0.2.weight", "cv2.0.3.weight"};
    const struct fe_tensor *t = NULL;
    int64_t r = fe_int(l, "reg_max", 0, l->reg_max);
    for (size_t i = 0; i < YIR_COUNT(names) && !t; i++)
        t = fe_tensor(l, names[i]);
    if (t && t->rank == 4 && t->dim[0] >= 4 && t->dim[0] % 4 == 0) r = t->dim[0] / 4;
    if (r != l->reg_max && fe_get(l->description, "reg_max"))
        fe_warn(l, W_DISAGREE, "reg_max is %lld in the yaml and %lld in the weights, which decide",
                (long long)l->reg_max, (long long)r);
    return r;
}

/* --- branches ------------------------------------------------------------------------------------------------- */

static const char *branch(const struct detect *d, const char *set, const char *name, int level)
{
    return yir_format(d->l->arena, "%s%s.%d", set, name, level);
}

/* Children 0 and 1: two 3x3 convolutions. */
static yir_ref two_convs(struct fe_lower *l, yir_ref x, int64_t width)
{
    x = fe_conv(l, "0", x, fe_conv_of(l, width, 3, 1));
    return fe_conv(l, "1", x, fe_conv_of(l, width, 3, 1));
}

/* As two_convs, of the kind a fork has. */
static yir_ref branch_convs(const struct detect *d, yir_ref x, int64_t width)
{
    if (!d->separable) return two_convs(d->l, x, width);
    x = fe_ds_conv(d->l, "0", x, width);
    return fe_ds_conv(d->l, "1", x, width);
}

/* LeYOLO: a 1x1, two depthwise ones, and the last in fourth place. */
static yir_ref light_branch(struct fe_lower *l, yir_ref x, int64_t width, int64_t c2)
{
    x = fe_conv(l, "0", x, fe_conv_of(l, width, 1, 1));
    for (int i = 1; i < 3; i++) {
        struct fe_conv dw = fe_depthwise_of(l, fe_channels(l, x), 3, 1);
        dw.act = l->act;
        x = fe_conv(l, i == 1 ? "1" : "2", x, dw);
    }
    return fe_predict(l, "3", x, c2);
}

static yir_ref plain_branch(const struct detect *d, const char *set, const char *name, int level, int64_t width,
                            int64_t c2)
{
    struct fe_lower *l = d->l;
    yir_ref x = d->s->in[level];
    fe_child(l, branch(d, set, name, level));
    if (fe_has(l, "3.weight", false)) {
        x = light_branch(l, x, width, c2);
        fe_leave(l);
        return x;
    }
    x = branch_convs(d, x, width);
    x = fe_predict(l, "2", x, c2);
    fe_leave(l);
    return x;
}

static yir_ref depthwise_pair(struct fe_lower *l, const char *child, yir_ref x, int64_t c2)
{
    struct fe_conv dw = fe_conv_of(l, fe_channels(l, x), 3, 1);
    dw.g = FE_DEPTHWISE;
    fe_child(l, child);
    x = fe_conv(l, "0", x, dw);
    x = fe_conv(l, "1", x, fe_conv_of(l, c2, 1, 1));
    fe_leave(l);
    return x;
}

static yir_ref class_branch(const struct detect *d, const char *set, int level)
{
    struct fe_lower *l = d->l;
    yir_ref x = d->s->in[level];
    fe_child(l, branch(d, set, "cv3", level));
    if (fe_has(l, "3.weight", false)) {
        x = light_branch(l, x, d->cls_width, l->nc);
        fe_leave(l);
        return x;
    }
    if (fe_has(l, "0.0.conv.weight", !l->legacy)) {
        x = depthwise_pair(l, "0", x, d->cls_width);
        x = depthwise_pair(l, "1", x, d->cls_width);
    } else {
        x = two_convs(l, x, d->cls_width);
    }
    x = fe_predict(l, "2", x, d->text && !d->fused ? d->embed : l->nc);
    fe_leave(l);
    return x;
}

static void boxes_and_classes(const struct detect *d, const char *name, struct set *set)
{
    for (int i = 0; i < d->s->nin; i++)
        set->box[i] = plain_branch(d, name, "cv2", i, d->box_width, 4 * d->r);
    for (int i = 0; i < d->s->nin; i++)
        set->cls[i] = class_branch(d, name, i);
}

static void declare_dfl(struct fe_lower *l, int64_t r)
{
    if (r == 1) return;
    fe_child(l, "dfl.conv");
    fe_declare(l, "weight", (int64_t[]){1, r, 1, 1}, 4, true);
    fe_leave(l);
}

/* --- classes by texts ----------------------------------------------------------------------------------------- */

/* Each place's channels divided by their length. */
static yir_ref unit_length(struct fe_lower *l, yir_ref x)
{
    yir_ref inverse = fe_unary(l, YIR_rnorm, x);
    return fe_op(l, YIR_gate, (yir_ref[]){x, inverse}, 2, NULL);
}

static void contrast_classes(const struct detect *d, const char *name, struct set *set)
{
    struct fe_lower *l = d->l;
    for (int i = 0; i < d->s->nin; i++) {
        int64_t one = 1;
        fe_child(l, branch(d, name, "cv4", i));
        yir_ref src[4] = {YIR_NONE, d->texts};
        src[3] = fe_weight(l, "bias", &one, 1, 0);
        src[2] = fe_weight_scalar(l, "logit_scale");
        src[0] = d->text_norm ? fe_batchnorm(l, "norm", set->cls[i]) : unit_length(l, set->cls[i]);
        set->cls[i] = fe_op(l, YIR_contrast, src, 4, NULL);
        fe_leave(l);
    }
}

/* The texts that YOLOE compares with: t + w3(SiLU(a) * b), a and b the halves of w12(t). */
static yir_ref refine_texts(struct fe_lower *l, yir_ref t)
{
    int64_t c = fe_channels(l, t), h = 2 * c;
    fe_child(l, "reprta.m");
    yir_ref x = fe_linear(l, "w12", t, 2 * h, true);
    yir_ref a = fe_unary(l, YIR_silu, fe_slice(l, x, 0, h));
    x = fe_mul(l, a, fe_slice(l, x, h, h));
    x = fe_add(l, t, fe_linear(l, "w3", x, c, true));
    fe_leave(l);
    return x;
}

/* The branch for visual prompts, which inference by texts leaves alone. */
static void declare_visual_prompts(const struct detect *d)
{
    enum { MIX = 16 };
    struct fe_lower *l = d->l;
    int64_t w = d->cls_width;
    fe_child(l, "savpe");
    for (int i = 0; i < d->s->nin; i++) {
        fe_child(l, fe_indexed(l, "cv1", i));
        fe_declare_conv(l, "0", fe_channels(l, d->s->in[i]), w, 3);
        fe_declare_conv(l, "1", w, w, 3);
        fe_leave(l);
    }
    for (int i = 0; i < d->s->nin; i++)
        fe_declare_conv(l, yir_format(l->arena, "cv2.%d.0", i), fe_channels(l, d->s->in[i]), w, 1);
    fe_declare_predict(l, "cv3", d->s->nin * w, d->embed, 1);
    fe_declare_predict(l, "cv4", d->s->nin * w, MIX, 3);
    fe_declare_predict(l, "cv5", 1, MIX, 3);
    fe_declare_conv(l, "cv6.0", 2 * MIX, MIX, 3);
    fe_declare_predict(l, "cv6.1", MIX, MIX, 3);
    fe_leave(l);
}

/* --- what a place tells beside box and class ------------------------------------------------------------------ */

static void masks_or_angles(const struct detect *d, const char *name, const char *child, struct set *set)
{
    int64_t width = larger(d->s->c1 / 4, d->nextra);
    for (int i = 0; i < d->s->nin; i++)
        set->extra[i] = plain_branch(d, name, child, i, width, d->nextra);
}

/* 26: the convolutions are shared by keypoints and what training needs beside them. */
static void shared_points(const struct detect *d, const char *name, struct set *set)
{
    int64_t width = larger(d->s->c1 / 4, d->nextra / d->dims * (d->dims + 2));
    for (int i = 0; i < d->s->nin; i++) {
        fe_child(d->l, branch(d, name, "cv4", i));
        set->extra[i] = two_convs(d->l, d->s->in[i], width);
        fe_leave(d->l);
    }
}

static void points_of_shared(const struct detect *d, const char *name, struct set *set)
{
    struct fe_lower *l = d->l;
    int64_t width = fe_channels(l, set->extra[0]);
    for (int i = 0; i < d->s->nin; i++)
        set->extra[i] = fe_predict(l, branch(d, name, "cv4_kpts", i), set->extra[i], d->nextra);
    for (int i = 0; i < d->s->nin; i++)
        fe_declare_predict(l, branch(d, name, "cv4_sigma", i), width, d->nextra / d->dims * 2, 1);
}

/* The density model of the training of keypoints. */
static void declare_flow(struct fe_lower *l)
{
    enum { STEPS = 6, WIDTH = 64 };
    fe_child(l, "flow_model");
    fe_declare(l, "loc", (int64_t[]){2}, 1, false);
    fe_declare(l, "cov", (int64_t[]){2, 2}, 2, false);
    fe_declare(l, "mask", (int64_t[]){STEPS, 2}, 2, false);
    for (int k = 0; k < 2 * STEPS; k++)
        for (int j = 0; j < 3; j++) {
            int64_t in = j ? WIDTH : 2, out = j < 2 ? WIDTH : 2;
            fe_child(l, yir_format(l->arena, "%s.%d.%d", k < STEPS ? "s" : "t", k % STEPS, 2 * j));
            fe_declare(l, "weight", (int64_t[]){out, in}, 2, true);
            fe_declare(l, "bias", &out, 1, true);
            fe_leave(l);
        }
    fe_leave(l);
}

static void extras(const struct detect *d, struct set *many, struct set *one)
{
    const char *child = d->text ? "cv5" : "cv4";
    if (d->extra == EXTRA_NONE) return;
    if (d->extra != EXTRA_POINTS || !d->newer) {
        if (d->many) masks_or_angles(d, "", child, many);
        if (d->one) masks_or_angles(d, "one2one_", child, one);
        return;
    }
    if (d->many) shared_points(d, "", many);
    if (d->one) shared_points(d, "one2one_", one);
    declare_flow(d->l);
    if (d->many) points_of_shared(d, "", many);
    if (d->one) points_of_shared(d, "one2one_", one);
}

/* --- decoding ------------------------------------------------------------------------------------------------- */

static yir_ref decode_box(const struct detect *d, const struct set *set, int level, bool corners)
{
    struct yir_a_box a = {(int32_t)d->r, (float)fe_level_stride(d->l, level, set->box[level]), 0};
    if (d->extra == EXTRA_ANGLE)
        return fe_op(d->l, YIR_obb_box, (yir_ref[]){set->box[level], set->extra[level]}, 2, &a);
    a.corners = corners;
    return fe_op(d->l, YIR_dfl_box, &set->box[level], 1, &a);
}

/* Keypoints in pixels; coefficients and angles as they are. */
static yir_ref decode_extra(const struct detect *d, yir_ref x, int level)
{
    if (d->extra != EXTRA_POINTS) return fe_unary(d->l, YIR_flatten, x);
    struct yir_a_points a = {(int32_t)d->dims, d->newer ? 1.0f : 2.0f, d->newer ? 0.5f : 0.0f,
                             (float)d->l->head.stride[level]};
    return fe_op(d->l, YIR_points, &x, 1, &a);
}

/* One level's part of `decoded`, [n, 4+nc+extra, h*w]. */
static yir_ref decode(const struct detect *d, const struct set *set, int level, bool corners)
{
    struct fe_lower *l = d->l;
    yir_ref part[3] = {decode_box(d, set, level, corners)};
    yir_ref score = fe_unary(l, YIR_sigmoid, set->cls[level]);
    part[1] = fe_unary(l, YIR_flatten, score);
    if (d->extra == EXTRA_NONE) return fe_concat(l, part, 2, 1);
    part[2] = decode_extra(d, set->extra[level], level);
    return fe_concat(l, part, 3, 1);
}

static void give(const struct detect *d, const char *set, const char *name, const yir_ref *level)
{
    struct fe_lower *l = d->l;
    yir_ref flat[FE_MAX_LEVELS];
    for (int i = 0; i < d->s->nin; i++)
        flat[i] = fe_unary(l, YIR_flatten, level[i]);
    fe_output(l, yir_format(l->arena, "%s%s", set, name), fe_concat(l, flat, d->s->nin, 2));
}

/* Angles as boxes and readers take them, in radians. */
static void turn_angles(const struct detect *d, struct set *set)
{
    for (int i = 0; i < d->s->nin && d->extra == EXTRA_ANGLE && !d->newer; i++)
        set->extra[i] = fe_affine(d->l, fe_unary(d->l, YIR_sigmoid, set->extra[i]), M_PI, -0.25 * M_PI);
}

static void give_set(const struct detect *d, struct set *set, const char *name, bool one)
{
    static const char *const extra[] = {"", "mask_coefficient", "kpts", "angle"};
    yir_ref part[FE_MAX_LEVELS];
    turn_angles(d, set);
    for (int i = 0; i < d->s->nin; i++)
        part[i] = decode(d, set, i, one);
    fe_output(d->l, yir_format(d->l->arena, "%sdecoded", name), fe_concat(d->l, part, d->s->nin, 2));
    give(d, name, "boxes", set->box);
    give(d, name, "scores", set->cls);
    if (d->extra != EXTRA_NONE) give(d, name, extra[d->extra], set->extra);
}

/* --- the head ------------------------------------------------------------------------------------------------- */

static bool description_is_end2end(const struct fe_lower *l)
{
    const struct fe_value *v = fe_get(l->description, "end2end");
    return v && (v->kind == FE_BOOL || v->kind == FE_INT) && v->i;
}

/* Which sets the head has, and which of them is given out. A fused file may have one of the two alone. */
static void settle_sets(struct detect *d, bool end2end)
{
    struct fe_lower *l = d->l;
    d->one = fe_has(l, "one2one_cv2.0.2.weight", end2end || description_is_end2end(l));
    d->many = fe_has(l, "cv2.0.2.weight", true) || !d->one;
    l->head.one2one = d->one && (l->one2one || !d->many);
}

static void give_sets(const struct detect *d, struct set *many, struct set *one)
{
    struct fe_lower *l = d->l;
    if (l->both) {
        if (d->many) give_set(d, many, "", false);
        if (d->one) give_set(d, one, "o2o_", true);
        return;
    }
    l->head.spare = d->many && d->one;
    give_set(d, l->head.one2one ? one : many, "", l->head.one2one);
}

static int begin(struct detect *d)
{
    struct fe_lower *l = d->l;
    if (fe_head_begin(l, d->s, FE_HEAD_FREE)) return -1;
    d->r = settle_reg_max(l);
    if (FE_BREAKS(HEAD_REG_MAX, d->r < 1 || d->r > 1024)) return fe_fail(l, E_ARGS, "%s: reg_max must be 1 to 1024", d->s->module->name);
    d->box_width = larger(larger(16, d->s->c1 / 4), 4 * d->r);
    d->cls_width = larger(d->s->c1, l->nc < 100 ? l->nc : 100);
    l->head.reg_max = (int)d->r;
    l->head.iou = 0.7f;
    return 0;
}

static void lower_text(struct detect *d, bool refined, struct set *many, struct set *one)
{
    struct fe_lower *l = d->l;
    yir_ref t = fe_text(l, d->embed);
    for (int i = 0; i < 2 * d->s->nin; i++) {
        bool second = i >= d->s->nin;
        if (second ? d->one : d->many) fe_order(l, branch(d, second ? "one2one_" : "", "cv4", i % d->s->nin));
    }
    if (refined) t = refine_texts(l, t);
    d->texts = unit_length(l, t);
    if (d->many) contrast_classes(d, "", many);
    if (d->one) contrast_classes(d, "one2one_", one);
    if (refined && fe_has(l, "savpe.cv3.weight", true)) declare_visual_prompts(d);
}

/* proto: the head has prototypes of masks, of npr channels inside. */
static yir_ref lower(struct detect *d, bool end2end, bool refined, int64_t npr)
{
    struct fe_lower *l = d->l;
    struct set many = {0}, one = {0};
    if (begin(d)) return YIR_NONE;
    settle_sets(d, end2end);
    if (d->many) boxes_and_classes(d, "", &many);
    declare_dfl(l, d->r);
    if (d->one) boxes_and_classes(d, "one2one_", &one);
    if (d->text && !d->fused) lower_text(d, refined, &many, &one);
    if (npr) fe_output(l, "proto", fe_mask_proto(l, d->s, npr, d->nextra, d->newer));
    extras(d, &many, &one);
    give_sets(d, &many, &one);
    return YIR_NONE;
}

yir_ref fe_low_detect(struct fe_lower *l, const struct fe_site *s)
{
    struct detect d = {.l = l, .s = s};
    return lower(&d, false, false, 0);
}

yir_ref fe_low_espdetect(struct fe_lower *l, const struct fe_site *s)
{
    struct detect d = {.l = l, .s = s, .separable = true};
    l->legacy = false;
    l->reg_max = 1;
    return lower(&d, false, false, 0);
}

/* Its bins are 16, whatever the description says. */
yir_ref fe_low_v10detect(struct fe_lower *l, const struct fe_site *s)
{
    enum { BINS = 16 };
    struct detect d = {.l = l, .s = s};
    if (l->reg_max != BINS && !l->weights)
        fe_warn(l, W_YAML, "v10Detect has %d bins a side; reg_max of %lld has no effect", BINS, (long long)l->reg_max);
    l->reg_max = BINS;
    l->legacy = false;
    return lower(&d, true, false, 0);
}

static int take_mask_args(struct detect *d)
{
    d->extra = EXTRA_MASK;
    d->nextra = fe_int(d->l, "nm", 0, fe_arg_int(d->s, "nm"));
    if (FE_BREAKS(HEAD_MASKS, d->nextra < 1 || d->nextra > 4096)) return fe_fail(d->l, E_ARGS, "%s: nm must be 1 to 4096", d->s->module->name);
    d->l->head.task = "segment";
    d->l->head.nm = (int)d->nextra;
    return 0;
}

static yir_ref lower_segment(struct fe_lower *l, const struct fe_site *s, bool newer)
{
    struct detect d = {.l = l, .s = s, .newer = newer};
    return take_mask_args(&d) ? YIR_NONE : lower(&d, false, false, fe_arg_int(s, "npr"));
}

yir_ref fe_low_segment(struct fe_lower *l, const struct fe_site *s)
{
    return lower_segment(l, s, false);
}

yir_ref fe_low_segment26(struct fe_lower *l, const struct fe_site *s)
{
    return lower_segment(l, s, true);
}

static yir_ref lower_pose(struct fe_lower *l, const struct fe_site *s, bool newer)
{
    const struct fe_arg *shape = fe_arg(s, "kpt_shape");
    struct detect d = {.l = l, .s = s, .newer = newer, .extra = EXTRA_POINTS};
    if (FE_BREAKS(HEAD_POINTS, shape->nlist != 2)) return fe_fail(l, E_ARGS, "%s: kpt_shape must be [points, numbers]", s->module->name), YIR_NONE;
    int64_t n = fe_int(l, "kpt_shape", 0, shape->list[0]);
    d.dims = fe_int(l, "kpt_shape", 1, shape->list[1]);
    if (FE_BREAKS(HEAD_POINT_SIZES, n < 1 || n > 1024 || d.dims < 2 || d.dims > 3))
        return fe_fail(l, E_ARGS, "%s: kpt_shape must be 1 to 1024 points of 2 or 3 numbers", s->module->name), YIR_NONE;
    d.nextra = n * d.dims;
    l->head.task = "pose";
    l->head.kpts = (int)n;
    l->head.kpt_dims = (int)d.dims;
    return lower(&d, false, false, 0);
}

yir_ref fe_low_pose(struct fe_lower *l, const struct fe_site *s)
{
    return lower_pose(l, s, false);
}

yir_ref fe_low_pose26(struct fe_lower *l, const struct fe_site *s)
{
    return lower_pose(l, s, true);
}

static yir_ref lower_obb(struct fe_lower *l, const struct fe_site *s, bool newer)
{
    struct detect d = {.l = l, .s = s, .newer = newer, .extra = EXTRA_ANGLE, .nextra = fe_arg_int(s, "ne")};
    if (FE_BREAKS(HEAD_ANGLES, d.nextra != 1)) return fe_fail(l, E_UNSUPPORTED, "%s: only one angle a box is supported", s->module->name), YIR_NONE;
    l->head.task = "obb";
    return lower(&d, false, false, 0);
}

yir_ref fe_low_obb(struct fe_lower *l, const struct fe_site *s)
{
    return lower_obb(l, s, false);
}

yir_ref fe_low_obb26(struct fe_lower *l, const struct fe_site *s)
{
    return lower_obb(l, s, true);
}

static yir_ref lower_texts(struct fe_lower *l, const struct fe_site *s, bool refined, bool masks, bool newer)
{
    struct detect d = {.l = l, .s = s, .newer = newer, .text = true, .embed = fe_arg_int(s, "embed"),
                       .text_norm = fe_arg_int(s, "with_bn") != 0};
    if (FE_BREAKS(HEAD_EMBED, d.embed < 1 || d.embed > 65536)) return fe_fail(l, E_ARGS, "%s: embed must be 1 to 65536", s->module->name), YIR_NONE;
    if (masks && take_mask_args(&d)) return YIR_NONE;
    if (FE_BREAKS(HEAD_VOCABULARY, fe_has(l, "lrpc.0.vocab.weight", false)))
        return fe_fail(l, E_UNSUPPORTED, "%s: these weights are of the form without prompts (lrpc), which is not supported",
                       s->module->name),
               YIR_NONE;
    d.fused = refined && !fe_has(l, "cv4.0.logit_scale", true) && !fe_has(l, "one2one_cv4.0.logit_scale", true);
    return lower(&d, false, refined, masks ? fe_arg_int(s, "npr") : 0);
}

yir_ref fe_low_world(struct fe_lower *l, const struct fe_site *s)
{
    return lower_texts(l, s, false, false, false);
}

yir_ref fe_low_yoloe(struct fe_lower *l, const struct fe_site *s)
{
    return lower_texts(l, s, true, false, false);
}

yir_ref fe_low_yoloe_segment(struct fe_lower *l, const struct fe_site *s)
{
    return lower_texts(l, s, true, true, false);
}

yir_ref fe_low_yoloe_segment26(struct fe_lower *l, const struct fe_site *s)
{
    return lower_texts(l, s, true, true, true);
}
