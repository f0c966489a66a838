/* Packed weights that the loader makes: what the rows say, rows that lie, and the same bytes on any threads. */
#include <criterion/criterion.h>

#include <fenv.h>
#include <stdlib.h>
#include <string.h>

#include "modbuild.h"
#include "runtime/constants.h"
#include "runtime/object.h"
#include "runtime/packing.h"

enum { BOXES = 96, OBLOCK = 128, HALF = 256, DEPTHWISE = 320, ALL = 448 }; /* places of modbuild_constants */

static void init(struct modbuild *b)
{
    modbuild_init(b);
    modbuild_constants(b);
}

Test(rt_constants, makes_what_the_rows_say)
{
    struct modbuild b;
    size_t size;
    char text[256];
    yolort_module *m;
    init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    cr_assert_eq(yolort_load(&m, bytes, size, text, sizeof text), YOLORT_OK, "%s", text);
    cr_assert_eq(m->t.constants.size, ALL);
    cr_expect_eq(yolort_module_info(m)->constant_bytes, ALL);
    float want[ALL / 4] = {0};
    static const float half[6] = {0, 0, 0, 1.875f, 0, 2}; /* what 0, 1 and 2 read as */
    memcpy(want, b.constant, BOXES);
    memcpy(want + HALF / 4, half, sizeof half);
    for (int o = 0; o < 4; o++)
        for (int i = 0; i < 4; i++) {
            want[OBLOCK / 4 + i * 8 + o] = (float)(modbuild_factor[o] * (double)b.weights[o * 4 + i]);
            want[DEPTHWISE / 4 + i * 8 + o] = b.weights[o * 4 + i];
        }
    cr_expect_arr_eq(m->t.constants.data, want, sizeof want);
    yolort_module_free(m);
    free(bytes);
}

/* --- rows that lie --------------------------------------------------------------------------------------------- */

struct fault {
    size_t at, width; /* of the field in struct modbuild */
    uint64_t value;
    const char *part; /* of the text */
};
#define FIELD(f) offsetof(struct modbuild, f), sizeof ((struct modbuild *)0)->f
#define NEG(v) ((uint64_t)(v))

/* clang-format off */
static const struct fault faults[] = {
    {FIELD(cut), 1 << YM_CONSTANT, "CONSTANT: 159 bytes are no rows of 40"},
    {FIELD(empty), 1 << YM_CONSTANT, "CONSTANT: 0 bytes are no rows of 40"},
    {FIELD(row[1].pad[4]), 1, "CONSTANT 1: padding is not zero"},
    {FIELD(row[0].offset), 64, "CONSTANT 0: at 64 instead of 0"},
    {FIELD(row[1].offset), 96, "CONSTANT 1: at 96 instead of 128"},
    {FIELD(row[2].offset), NEG(-64), "CONSTANT 2: at 18446744073709551552 instead of 256"},
    {FIELD(row[0].arg), 1, "CONSTANT 0: has no weight, but says how it is packed"},
    {FIELD(row[0].dtype), 1, "CONSTANT 0: has no weight, but says how it is packed"},
    {FIELD(row[0].packing), 1, "CONSTANT 0: has no weight, but says how it is packed"},
    {FIELD(row[0].scaled), 1, "CONSTANT 0: has no weight, but says how it is packed"},
    {FIELD(row[0].from), 4, "CONSTANT 0: at 4, outside CONSTANTS or not aligned"},
    {FIELD(row[0].from), 128, "CONSTANT 0: at 128, outside CONSTANTS or not aligned"},
    {FIELD(row[0].from), NEG(-64), "CONSTANT 0: at 18446744073709551552, outside CONSTANTS or not aligned"},
    {FIELD(row[0].size), 161, "CONSTANT 0: at 0, outside CONSTANTS or not aligned"},
    {FIELD(without), 1 << YM_CONSTANTS, "CONSTANT 0: at 0, outside CONSTANTS or not aligned"},
    {FIELD(row[1].weight), 2, "CONSTANT 1: weight 2 of 2"},
    {FIELD(without), 1 << YM_WEIGHT | 1 << YM_WEIGHTS, "CONSTANT 1: weight 0 of 0"},
    {FIELD(row[1].dtype), YOLORT_F16, "CONSTANT 1: can't be made of type 1 from type 0"},
    {FIELD(row[1].dtype), 9, "CONSTANT 1: can't be made of type 9 from type 0"},
    {FIELD(row[2].dtype), YOLORT_F64, "CONSTANT 2: can't be made of type 3 from type 1"},
    {FIELD(weight[0].dtype), YOLORT_I32, "CONSTANT 1: can't be made of type 0 from type 6"},
    {FIELD(row[1].scaled), 2, "CONSTANT 1: can't be made of type 0 from type 0"},
    {FIELD(row[1].packing), YM_NPACK, "CONSTANT 1: packing 7 by 8 of weight 0"},
    {FIELD(row[1].packing), YM_PACK_WINO2, "CONSTANT 1: packing 4 by 8 of weight 0"},
    {FIELD(row[1].packing), YM_PACK_WINO4, "CONSTANT 1: packing 5 by 8 of weight 0"},
    {FIELD(row[1].packing), YM_PACK_OBLOCK_PLANES, "CONSTANT 1: packing 3 by 8 of weight 0"},
    {FIELD(row[1].packing), YM_PACK_NONE, "CONSTANT 1: packing 0 by 8 of weight 0"},
    {FIELD(row[1].arg), 0, "CONSTANT 1: packing 1 by 0 of weight 0"},
    {FIELD(row[1].arg), NEG(-8), "CONSTANT 1: packing 1 by -8 of weight 0"},
    {FIELD(row[1].arg), 16, "CONSTANT 1: 128 bytes, its form has 64 elements"},
    {FIELD(row[1].size), 124, "CONSTANT 1: 124 bytes, its form has 32 elements"},
    {FIELD(row[3].size), 132, "CONSTANT 3: 132 bytes, its form has 32 elements"},
    {FIELD(row[1].from), 132, "CONSTANT 1: factors at 132, outside CONSTANTS or not aligned"},
    {FIELD(row[1].from), 192, "CONSTANT 1: factors at 192, outside CONSTANTS or not aligned"},
    {FIELD(row[1].from), NEG(-64), "CONSTANT 1: factors at 18446744073709551552, outside CONSTANTS or not aligned"},
    {FIELD(row[1].scaled), 0, "CONSTANT 1: factors at 128, outside CONSTANTS or not aligned"},
    {FIELD(arg[6].offset), 424, "STEP 3: argument 0: its kernel would leave the slot"},
};
/* clang-format on */

static void expect(struct modbuild *b, yolort_status want, const char *part)
{
    size_t size;
    char text[256] = "";
    yolort_module *m = NULL;
    uint8_t *bytes = modbuild_finish(b, &size);
    yolort_status s = yolort_load(&m, bytes, size, text, sizeof text);
    cr_expect(s == want && strstr(text, part), "%s: %s: %s", part, yolort_status_name(s), text);
    yolort_module_free(m);
    free(bytes);
}

Test(rt_constants, bad_rows)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct fault *f = &faults[i];
        struct modbuild b;
        init(&b);
        memcpy((uint8_t *)&b + f->at, &f->value, f->width);
        expect(&b, YOLORT_FORMAT, f->part);
    }
}

/* A small file must not ask for much memory. */
Test(rt_constants, more_than_the_file_may_grow)
{
    struct modbuild b;
    init(&b);
    b.row[1].arg = 1 << 20;
    b.row[1].size = (uint64_t)b.row[1].arg * 16;
    expect(&b, YOLORT_LIMIT, "CONSTANT 1: 16777216 bytes; with those before at most ");
    init(&b);
    b.row[3].size = UINT64_MAX;
    expect(&b, YOLORT_LIMIT, "CONSTANT 3: 18446744073709551615 bytes; with those before at most ");
}

/* --- on threads ------------------------------------------------------------------------------------------------- */

enum { CO = 200, CI = 60 };

/* One large weight, with factors, of half precision; made on so many threads. */
static uint8_t *make(const uint16_t *half, const double *factors, int threads, size_t *size)
{
    const yolort_load_opts limits = {.threads = threads};
    static const struct ym_weight weight = {.dtype = YOLORT_F16, .rank = 4, .dim = {CO, CI, 3, 3}};
    static const struct ym_constant row[2] = {
        {.size = 224 * CI * 36 * 4, .arg = 32, .packing = YM_PACK_WINO4, .scaled = 1},
        {.offset = 224 * CI * 36 * 4, .size = 224 * CI * 9 * 4, .arg = 32, .packing = YM_PACK_OBLOCK_BACK, .scaled = 1}};
    struct rt_tables t = {.weight = &weight, .nweight = 1, .constant = row, .nconstant = 2};
    struct rt_block block = {0};
    t.file.limits = &limits;
    t.weights.data = (const uint8_t *)half;
    t.stored.data = (const uint8_t *)factors;
    *size = t.constants.size = (size_t)(row[1].offset + row[1].size);
    cr_assert_eq(rt_constants_make(&block, &t, NULL), YOLORT_OK);
    uint8_t *out = malloc(*size);
    memcpy(out, t.constants.data, *size);
    rt_block_free(&block);
    return out;
}

/* Neither their number nor how the caller's numbers are rounded changes a byte. */
Test(rt_constants, the_same_on_any_threads)
{
    static uint16_t half[CO * CI * 9];
    static double factors[CO];
    size_t size;
    for (int i = 0; i < CO * CI * 9; i++) half[i] = (uint16_t)((unsigned)i * 2654435761u >> 16 & 0xbbff); /* |x| < 2 */
    for (int o = 0; o < CO; o++) factors[o] = 1.0 / (o + 3);
    uint8_t *one = make(half, factors, 1, &size);
    for (int threads = 2; threads <= 8; threads += 3) {
        fesetround(threads == 5 ? FE_UPWARD : FE_TONEAREST);
        uint8_t *many = make(half, factors, threads, &size);
        cr_expect_eq(fegetround(), threads == 5 ? FE_UPWARD : FE_TONEAREST);
        cr_expect_eq(memcmp(many, one, size), 0, "%d threads", threads);
        free(many);
    }
    free(one);
}
