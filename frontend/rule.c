#include "rule.h"

#include <math.h>
#include <string.h>

#define STEP 0x9E3779B97F4A7C15u

uint64_t fe_rule_mix(uint64_t z)
{
    z ^= z >> 30;
    z *= 0xBF58476D1CE4E5B9u;
    z ^= z >> 27;
    z *= 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t fe_rule_hash(const char *name)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001B3u;
    return h;
}

/* 24 bits of element i. */
static uint64_t bits(uint64_t hash, uint64_t i)
{
    return fe_rule_mix(hash + (i + 1) * STEP) >> 40;
}

double fe_rule_uniform(const char *name, uint64_t i)
{
    return (double)bits(fe_rule_hash(name), i) / 16777216.0;
}

static bool ends_with(const char *s, size_t n, const char *tail)
{
    size_t k = strlen(tail);
    return n >= k && memcmp(s + n - k, tail, k) == 0;
}

static bool is_kept(const char *name)
{
    static const char *const tails[] = {
        "dfl.conv.weight", "anchors",        "anchor_grid",    "num_batches_tracked",
        "stride",          "flow_model.loc", "flow_model.cov", "flow_model.mask",
        "cal_a",           "cal_b"};
    for (size_t i = 0; i < YIR_COUNT(tails); i++) {
        if (ends_with(name, strlen(name), tails[i])) return true;
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Cuts the digits at the end of the text and the dot before them; false when it does not end so. */
static bool cut_number(const char *s, size_t *n)
{
    size_t k = *n;
    while (k > 0 && is_digit(s[k - 1]))
        k--;
    if (k == *n || k == 0 || s[k - 1] != '.') return false;
    *n = k - 1;
    return true;
}

/* (\.m|[0-9])\.[0-9]+\.cv2\.conv\.weight$ : the last convolution of a bottleneck in a list. */
static bool ends_bottleneck(const char *s)
{
    static const char tail[] = ".cv2.conv.weight";
    size_t n = strlen(s);
    if (!ends_with(s, n, tail)) return false;
    n -= sizeof tail - 1;
    return cut_number(s, &n) && n > 0 && (is_digit(s[n - 1]) || ends_with(s, n, ".m"));
}

/* \.[0-9]+\.weight$ : a convolution without batch normalisation in a sequence. */
static bool is_numbered_weight(const char *s)
{
    size_t n = strlen(s);
    if (!ends_with(s, n, ".weight")) return false;
    n -= strlen(".weight");
    return cut_number(s, &n);
}

static double gain(const char *name, int rank)
{
    static const char *const ends[] = {".attn.proj.", ".mlp.1.", ".ffn.1.", ".conv.2.cv1.", ".conv.2.cv2."};
    for (size_t i = 0; i < YIR_COUNT(ends); i++) {
        if (strstr(name, ends[i])) return 0.375;
    }
    if (strstr(name, ".layer.") && strstr(name, ".cv3.")) return 0.375;
    if (ends_bottleneck(name)) return 0.5;
    if (rank == 4 && is_numbered_weight(name)) return 3.0;
    return 1.25;
}

/* value = base + scale * u, or scale * v with v = 2 u - 1 when `centred`. */
struct law {
    bool centred;
    double base, scale;
};

static struct law law_of(const char *name, const int64_t *dim, int rank)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    if (strcmp(last, "running_var") == 0) return (struct law){false, 0.5, 1.0};
    if (strcmp(last, "running_mean") == 0) return (struct law){true, 0, 0.25};
    if (ends_with(last, strlen(last), "bias")) return (struct law){true, 0, 0.5};
    if (strcmp(last, "gamma") == 0) return (struct law){false, 0.25, 0.5};
    if (strcmp(last, "logit_scale") == 0) return (struct law){false, 0.0, 1.0};
    if (rank < 2) return (struct law){false, 0.75, 0.5};
    int64_t fan = 1;
    for (int i = 1; i < rank; i++)
        fan *= dim[i];
    return (struct law){true, 0, gain(name, rank) * sqrt(3.0 / (double)fan)};
}

bool fe_rule_fill(const char *name, const int64_t *dim, int rank, float *out)
{
    uint64_t numel = 1;
    if (is_kept(name)) return false;
    for (int i = 0; i < rank; i++)
        numel *= (uint64_t)dim[i];
    struct law law = law_of(name, dim, rank);
    uint64_t hash = fe_rule_hash(name);
    for (uint64_t i = 0; i < numel; i++) {
        double t = (double)bits(hash, i);
        double v = law.centred ? (t / 8388608.0 - 1.0) * law.scale : law.base + law.scale * (t / 16777216.0);
        out[i] = (float)v;
    }
    return true;
}

/* 0..255 over the length n; 0 when there is no length. */
static int ramp(int at, int n)
{
    return n > 0 ? (int)((int64_t)at * 255 / n) : 0;
}

void fe_rule_image(uint8_t *rgb, int h, int w, uint32_t seed)
{
    uint64_t i = 0;
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            int check = ((x >> 3) ^ (y >> 3)) & 1;
            int grade[3] = {ramp(x, w - 1), ramp(y, h - 1), ramp(x + y, w + h - 2)};
            for (int c = 0; c < 3; c++, i++) {
                int noise = (int)(fe_rule_mix((((uint64_t)seed << 32) + i + 1) * STEP) >> 58);
                rgb[i] = (uint8_t)(grade[c] * 5 / 8 + 32 * check + noise);
            }
        }
    }
}

uint64_t fe_rule_sample(uint64_t k, uint64_t numel)
{
    return fe_rule_mix((k + 1) * STEP) % numel;
}
