#include "frontend/rule.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const int64_t conv[] = {16, 3, 3, 3}, vector[] = {16};

Test(rule, generator)
{
    cr_assert_eq(fe_rule_hash("model.0.conv.weight"), 0xed98a512276e3fdeu);
    cr_assert_eq(fe_rule_mix(0x9E3779B97F4A7C15u), 0xe220a8397b1dcdafu);
}

/* Values with nine digits name a float uniquely. */
static void check_first(const char *name, const int64_t *dim, int rank, float v0, float v1, float v2)
{
    float out[16 * 27];
    cr_assert(fe_rule_fill(name, dim, rank, out));
    cr_assert(out[0] == v0 && out[1] == v1 && out[2] == v2, "%s: %.9g %.9g %.9g", name, (double)out[0],
              (double)out[1], (double)out[2]);
}

Test(rule, first_values)
{
    check_first("model.0.conv.weight", conv, 4, -0.294817239f, 0.327380002f, 0.3115035f);
    check_first("model.0.bn.running_var", vector, 1, 0.60182035f, 0.721297801f, 0.782902837f);
    check_first("model.0.bn.bias", vector, 1, 0.0544849038f, 0.487364113f, 0.351551116f);
}

Test(rule, constants_are_kept)
{
    static const char *const names[] = {"model.22.dfl.conv.weight",
                                        "model.24.anchors",
                                        "model.24.anchor_grid",
                                        "model.0.bn.num_batches_tracked",
                                        "model.24.stride",
                                        "model.23.flow_model.loc",
                                        "model.23.flow_model.cov",
                                        "model.23.flow_model.mask",
                                        "a.cal_a",
                                        "a.cal_b"};
    for (size_t i = 0; i < YIR_COUNT(names); i++) {
        float out[16] = {7};
        cr_assert_not(fe_rule_fill(names[i], vector, 1, out), "%s", names[i]);
        cr_assert_eq(out[0], 7.0f);
    }
}

/* The gain of a weight is its value over v * sqrt(3 / F). */
static double gain_of(const char *name, int rank)
{
    static const int64_t dim[] = {4, 3, 1, 1};
    float out[12];
    cr_assert(fe_rule_fill(name, dim, rank, out));
    double v = 2 * fe_rule_uniform(name, 5) - 1;
    return (double)out[5] / v;
}

Test(rule, gains)
{
    static const struct {
        const char *name;
        int rank;
        double gain;
    } rows[] = {
        {"model.0.conv.weight", 4, 1.25},
        {"model.10.m.0.attn.proj.conv.weight", 4, 0.375},
        {"model.6.m.0.0.mlp.1.conv.weight", 4, 0.375},
        {"model.10.m.0.ffn.1.conv.weight", 4, 0.375},
        {"model.2.conv.2.cv1.conv.weight", 4, 0.375},
        {"model.2.conv.2.cv2.conv.weight", 4, 0.375},
        {"model.1.layer.0.cv3.conv.weight", 4, 0.375},
        {"model.1.layer.0.cv2.conv.weight", 4, 1.25},
        {"model.2.m.0.cv2.conv.weight", 4, 0.5},
        {"model.2.m.0.m.1.cv2.conv.weight", 4, 0.5},
        {"model.2.0.1.cv2.conv.weight", 4, 0.5},
        {"model.2.cv2.conv.weight", 4, 1.25},
        {"a3.1.cv2.conv.weight", 4, 0.5},
        {"am.1.cv2.conv.weight", 4, 1.25},
        {"model.22.cv2.0.2.weight", 4, 3.0},
        {"model.22.cv2.0.2.weight", 2, 1.25},
        {"model.22.cv2x.weight", 4, 1.25},
        {"model.22.cv2.2a.weight", 4, 1.25},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        double got = gain_of(rows[i].name, rows[i].rank);
        cr_assert(fabs(got - rows[i].gain) < 1e-6, "%s: %g, not %g", rows[i].name, got, rows[i].gain);
    }
}

Test(rule, laws_by_the_last_part)
{
    static const struct {
        const char *name;
        double at_zero, at_one;
    } rows[] = {
        {"a.running_var", 0.5, 1.5}, {"a.running_mean", -0.25, 0.25}, {"a.in_proj_bias", -0.5, 0.5},
        {"bias", -0.5, 0.5},         {"a.gamma", 0.25, 0.75},         {"a.logit_scale", 0, 1},
        {"a.bn.weight", 0.75, 1.25},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        float out[16];
        cr_assert(fe_rule_fill(rows[i].name, vector, 1, out));
        double u = fe_rule_uniform(rows[i].name, 9);
        double want = rows[i].at_zero + u * (rows[i].at_one - rows[i].at_zero);
        cr_assert(fabs((double)out[9] - want) < 1e-6, "%s", rows[i].name);
    }
}

Test(rule, image)
{
    static uint8_t rgb[64 * 96 * 3];
    static const uint8_t first[] = {17, 57, 38, 8, 33, 35, 10, 23, 58};
    fe_rule_image(rgb, 64, 96, 1);
    cr_assert_arr_eq(rgb, first, sizeof first);
    uint8_t one[3];
    fe_rule_image(one, 1, 1, 3);
    cr_assert(one[0] < 64 && one[1] < 64 && one[2] < 64);
}

Test(rule, samples)
{
    cr_assert_eq(fe_rule_sample(0, 1000), 0xe220a8397b1dcdafu % 1000);
    for (uint64_t k = 0; k < 100; k++)
        cr_assert_lt(fe_rule_sample(k, 7), 7u);
}
