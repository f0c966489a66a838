/* Descriptions with one mistake each: what is refused, by which rule, and that it names the place. Then the
 * limits of descriptions, at the limit and above it. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "frontend/describe.h"
#include "ir/limits.h"

static struct yir_arena *a;
static struct yir_diags *d;
static struct yir_limits limits;
static struct fe_model_opts opts;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    yir_limits_init(&limits);
    opts = (struct fe_model_opts){.path = "my.yaml", .batch = 1, .height = 64, .width = 64};
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(front_rows, .init = setup, .fini = teardown);

static const struct fe_model *build(const char *yaml)
{
    d = yir_diags_new(a, NULL, NULL);
    yir_diags_set_limits(d, &limits);
    const struct fe_value *root = fe_yaml_parse(a, d, opts.path, yaml, strlen(yaml));
    return root ? fe_model_build(a, yir_types_new(a), d, root, &opts) : NULL;
}

static const struct yir_diag *first_error(void)
{
    for (size_t i = 0; i < yir_diag_count(d); i++)
        if (yir_diag_at(d, i)->severity == YIR_ERROR) return yir_diag_at(d, i);
    return NULL;
}

static void accept(const char *yaml)
{
    const struct fe_model *m = build(yaml);
    cr_assert(m, "%s\n%s", first_error() ? first_error()->rendered : "no report", yaml);
    cr_assert_eq(yir_verify(m->func, 0), 0);
}

static void refuse(const char *yaml, enum yir_diag_id id, const char *part)
{
    cr_assert_null(build(yaml), "accepted, not: %s\n%s", part, yaml);
    const struct yir_diag *g = first_error();
    cr_assert(g && g->id == id && strstr(g->text, part), "%s, not: %s\n%s", g ? g->rendered : "", part, yaml);
    cr_assert(g->loc.line > 0, "no place: %s\n%s", g->rendered, yaml);
}

struct bad {
    const char *text;
    enum yir_diag_id id;
    const char *part;
};

#define HEAD  "head:\n  - [-1, 1, Detect, [nc]]\n"
#define FIRST "  - [-1, 1, Conv, [16, 3, 2]]\n"

/* Second row of a backbone. */
static const char *with_row(const char *row)
{
    return yir_format(a, "nc: 2\nbackbone:\n" FIRST "  - %s\n" HEAD, row);
}

/* Rows and blocks of arguments that are written once. The key that only holds them is no mistake. */
Test(front_rows, aliases)
{
    static const char once[] = "nc: 2\ncommon:\n  - &act {activation: nn.ReLU()}\n  - &down [-1, 1, Conv, &wide [16, 3, 2]]\n"
                               "<<: *act\nbackbone:\n  - *down\n  - [-1, 1, DWConv, *wide]\n  - *down\nhead:\n  - [-1, 1, Detect, [nc]]\n";
    static const char whole[] = "nc: 2\nactivation: nn.ReLU()\nbackbone:\n  - [-1, 1, Conv, [16, 3, 2]]\n"
                                "  - [-1, 1, DWConv, [16, 3, 2]]\n  - [-1, 1, Conv, [16, 3, 2]]\nhead:\n  - [-1, 1, Detect, [nc]]\n";
    struct yir_str text[2] = {{.arena = a}, {.arena = a}};
    for (int i = 0; i < 2; i++) {
        const struct fe_model *m = build(i ? whole : once);
        cr_assert(m, "%s", first_error() ? first_error()->rendered : "");
        cr_expect_eq(yir_diag_count(d), 0, "%s", yir_diag_count(d) ? yir_diag_at(d, 0)->rendered : "");
        yir_print(&text[i], m->func, 0);
    }
    cr_expect_str_eq(text[0].text, text[1].text);
}

/* Learnable elements of row 1. */
static int64_t params_of(const char *row)
{
    const struct fe_model *m = build(with_row(row));
    cr_assert(m, "%s: %s", row, first_error() ? first_error()->rendered : "");
    return m->layer[1].params;
}

/* Figures of ultralytics 8.4.190 for c1 = 16. A chain is never empty, the blocks inside a module may be none. */
Test(front_rows, repeats_of_none_and_fractions)
{
    static const struct {
        const char *row;
        int64_t params;
    } rows[] = {
        {"[-1, 0, C1, [32]]", 576},
        {"[-1, 0, C2, [32]]", 1664},
        {"[-1, 0, C2f, [32]]", 1664},
        {"[-1, 0, C3, [32]]", 1664},
        {"[-1, 0, C3x, [32]]", 1664},
        {"[-1, 0, C3TR, [32]]", 1936},
        {"[-1, 0, C3Ghost, [32]]", 1664},
        {"[-1, 0, C3k2, [32, True]]", 1664},
        {"[-1, 0, C2fCIB, [32]]", 1664},
        {"[-1, 0, RepC3, [32]]", 1152},
        {"[-1, 0, RepC3, [32, 0.5]]", 1152},
        {"[-1, 0, BottleneckCSP, [32]]", 1952},
        {"[-1, 0, C2PSA, [16]]", 576},
        {"[-1, 0, C2fPSA, [16]]", 576},
        {"[-1, 0, A2C2f, [64, False]]", 2752},
        {"[-1, 0, A2C2f, [64, True, 1]]", 2752},
        {"[-1, 0, HGBlock, [16, 32, 3]]", 864},
        {"[-1, 0, Conv, [32, 3]]", 4672},
        {"[-1, 0.5, Conv, [32, 3]]", 4672},
        {"[-1, 1.4, Conv, [16, 3]]", 2336},
        {"[-1, 1.6, Conv, [16, 3]]", 4672},
        {"[-1, 2.5, C2f, [16]]", 3200},
        {"[-1, 3.5, C3, [16]]", 3264},
        {"[-1, 1.5, HGBlock, [16, 32, 3]]", 6048},
        {"[-1, 0, nn.Identity, []]", 0},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        cr_expect_eq(params_of(rows[i].row), rows[i].params, "%s: %lld", rows[i].row, (long long)params_of(rows[i].row));
}

static int count_ops(const struct fe_model *m, enum yir_code c)
{
    int n = 0;
    for (uint32_t i = 0; i < m->func->nop; i++)
        n += m->func->op[i].code == c;
    return n;
}

/* Classes of torch.nn that have a row: the op that they become and their elements, n times in a chain. */
Test(front_rows, classes_of_torch)
{
    static const struct {
        const char *row;
        enum yir_code op;
        int n, params;
    } rows[] = {
        {"[-1, 1, nn.Conv2d, [16, 16, 3, 1, 1]]", YIR_conv2d, 1, 2320},
        {"[-1, 2, nn.Conv2d, [16, 16, [3, 1], 1, [1, 0], 1, 16, False]]", YIR_conv2d, 2, 96},
        {"[-1, 1, nn.ConvTranspose2d, [16, 2, 2, 0, 0, 1, False]]", YIR_deconv2d, 1, 1024},
        {"[-1, 1, nn.BatchNorm2d, [99, 1e-3, 0.1]]", YIR_batchnorm, 1, 32},
        {"[-1, 1, nn.AvgPool2d, [2, 2, 0, False, False]]", YIR_avgpool, 1, 0},
        {"[-1, 1, nn.MaxPool2d, [2, 2, 0, 1, False, False]]", YIR_maxpool, 1, 0},
        {"[-1, 2, nn.ReLU, [True]]", YIR_relu, 2, 0},
        {"[-1, 1, torch.nn.ReLU6, []]", YIR_relu6, 1, 0},
        {"[-1, 1, nn.LeakyReLU, [0.1, True]]", YIR_leaky, 1, 0},
        {"[-1, 1, nn.ELU, [0.5]]", YIR_elu, 1, 0},
        {"[-1, 1, nn.Hardswish, []]", YIR_hardswish, 1, 0},
        {"[-1, 1, nn.Hardsigmoid, []]", YIR_hardsigmoid, 1, 0},
        {"[-1, 1, nn.Mish, []]", YIR_mish, 1, 0},
        {"[-1, 1, nn.GELU, []]", YIR_gelu, 1, 0},
        {"[-1, 1, nn.Tanh, []]", YIR_tanh, 1, 0},
        {"[-1, 1, nn.SiLU, []]", YIR_silu, 1, 0},
        {"[-1, 1, nn.Sigmoid, []]", YIR_sigmoid, 1, 0},
        {"[-1, 1, nn.Dropout2d, [0.1]]", YIR_add, 0, 0},
    };
    const char *plain = "[-1, 1, nn.Identity, []]";
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        int before = count_ops(build(with_row(plain)), rows[i].op);
        cr_expect_eq(params_of(rows[i].row), rows[i].params, "%s: %lld", rows[i].row, (long long)params_of(rows[i].row));
        cr_expect_eq(count_ops(build(with_row(rows[i].row)), rows[i].op) - before, rows[i].n, "%s", rows[i].row);
    }
    const struct fe_model *m = build("nc: 2\nbackbone:\n" FIRST "  - [-1, 1, nn.AdaptiveAvgPool2d, [1]]\nhead:\n  - [-1, 1, Classify, [nc]]\n");
    cr_assert(m, "%s", first_error() ? first_error()->rendered : "");
    cr_expect_eq(count_ops(m, YIR_avgmap), 2, "its own and the head's");
}

/* Whether the build warns with this text. */
static bool warns(const char *yaml, enum yir_diag_id id, const char *part)
{
    accept(yaml);
    bool found = false;
    for (size_t i = 0; i < yir_diag_count(d); i++)
        found |= yir_diag_at(d, i)->id == id && strstr(yir_diag_at(d, i)->text, part);
    return found;
}

#define TEN(keys) "nc: 2\n" keys "backbone:\n" FIRST "head:\n  - [[0], 1, v10Detect, [nc]]\n"

/* Where a flag stands, any number is one, and None is False; the head of YOLOv10 does not ask for reg_max. */
Test(front_rows, numbers_that_count_otherwise)
{
    cr_expect(warns(with_row("[-1, 1, C2f, [16, 2]]"), W_CHANGED, "shortcut is True or False; the integer 2 counts as True"));
    cr_expect_eq(count_ops(build(with_row("[-1, 1, C2f, [16, 2]]")), YIR_add), 1);
    cr_expect(warns(with_row("[-1, 1, C2f, [16, None]]"), W_CHANGED, "counts as False"));
    cr_expect_eq(count_ops(build(with_row("[-1, 1, C2f, [16, None]]")), YIR_add), 0);
    cr_expect_not(warns(with_row("[-1, 1, C2f, [16, 1]]"), W_CHANGED, ""));
    cr_expect_eq(params_of("[-1, 1, nn.Identity, [16, 3, 2]]") + params_of("[-1, 1, Silence, []]"), 0);
    struct yir_str text[2] = {{.arena = a}, {.arena = a}};
    cr_expect_not(warns(TEN(""), W_YAML, "reg_max"));
    cr_expect(warns(TEN("reg_max: 8\n"), W_YAML, "reg_max of 8 has no effect"));
    for (int i = 0; i < 2; i++)
        yir_print(&text[i], build(i ? TEN("reg_max: 8\n") : TEN(""))->func, 0);
    cr_expect_str_eq(text[0].text, text[1].text);
}

Test(front_rows, rows)
{
    static const struct bad rows[] = {
        {"[0.5, 1, Conv, [16]]", E_FROM, "row 1"},
        {"[x, 1, Conv, [16]]", E_FROM, "row 1"},
        {"[null, 1, Conv, [16]]", E_FROM, "row 1"},
        {"[True, 1, Conv, [16]]", E_FROM, "row 1"},
        {"[{a: 1}, 1, Conv, [16]]", E_FROM, "row 1"},
        {"[[[0]], 1, Conv, [16]]", E_FROM, "row 1"},
        {"[[], 1, Concat, [1]]", E_FROM, "empty list"},
        {"[1, 1, Conv, [16]]", E_FROM, "not an earlier row"},
        {"[2, 1, Conv, [16]]", E_FROM, "not an earlier row"},
        {"[2147483648, 1, Conv, [16]]", E_FROM, "not an earlier row"},
        {"[4294967296, 1, Conv, [16]]", E_FROM, "not an earlier row"},
        {"[-2, 1, Conv, [16]]", E_FROM, "before the first row"},
        {"[-100, 1, Conv, [16]]", E_FROM, "before the first row"},
        {"[-9223372036854775807, 1, Conv, [16]]", E_FROM, "before the first row"},
        {"[[0, 1], 1, Concat, [1]]", E_FROM, "not an earlier row"},
        {"[[0, 0], 1, Conv, [16]]", E_FROM, "takes one input"},
        {"[-1, .nan, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, 1000.5, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, -0.5, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, 0.5, C2f, [16]]", E_ROW, "can't hold 0.5 blocks"},
        {"[-1, -1, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, 1000000000, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, 9223372036854775807, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, x, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, null, Conv, [16]]", E_ROW, "repeats must be"},
        {"[-1, 1, 7, [16]]", E_ROW, "must name a module"},
        {"[-1, 1, [Conv], [16]]", E_ROW, "must name a module"},
        {"[-1, 1, Conv, 16]", E_ROW, "must be a list"},
        {"[-1, 1, Conv, {c2: 16}]", E_ROW, "must be a list"},
        {"[-1, 1, Conv]", E_ROW, "3 fields"},
        {"[]", E_ROW, "0 fields"},
        {"[-1, 1, Conv, [16], name: a, 7]", E_ROW, "6 fields"},
        {"Conv", E_ROW, "1 fields"},
        {"{from: -1}", E_ROW, "1 fields"},
        {"{a: -1, b: 1, c: Conv, d: [16]}", E_ROW, "1 fields"},
        {"[-1, 1, Conv, [16], 7]", E_ROW, "fifth field"},
        {"[-1, 1, Conv, [16], {name: 7}]", E_ROW, "fifth field"},
        {"[-1, 1, Conv, [16], {name: ''}]", E_ROW, "fifth field"},
        {"[-1, 1, Conv, [16], {name: a, b: 1}]", E_ROW, "fifth field"},
        {"[-1, 1, Conv, [16], {name: 'a?b'}]", E_ROW, "has characters other than"},
        {"[-1, 1, Detect, [nc]]", E_ROW, "rows follow the head"},
        {"[-1, 1, Convv, [16]]", E_MODULE, "did you mean Conv?"},
        {"[-1, 1, os.system, [16]]", E_MODULE, "os.system"},
        {"[-1, 1, \"__import__('os').system('exit 1')\", [16]]", E_MODULE, "unknown module"},
        {"[-1, 2, Conv, [8, 3, 2]]", E_ARGS, "as many channels out as in"},
        {"[[-1, 0], 2, Concat, [1]]", E_ARGS, "can't be repeated"},
    };
    accept(with_row("[[-1, 0], 1, Concat, [1]]"));
    accept(with_row("[-1, 1000, nn.Identity, []]"));
    accept(with_row("[-1, 2, Conv, [16, 3, 1], {name: a}]"));
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        refuse(with_row(rows[i].text), rows[i].id, rows[i].part);
}

Test(front_rows, arguments)
{
    static const struct bad rows[] = {
        {"Conv, []", E_ARGS, "needs the argument c2"},
        {"Conv, [0]", E_ARGS, "c2"},
        {"Conv, [-16]", E_ARGS, "c2"},
        {"Conv, [65537]", E_ARGS, "c2"},
        {"Conv, [2147483648]", E_ARGS, "c2"},
        {"Conv, [16.5]", E_ARGS, "c2"},
        {"Conv, [x]", E_ARGS, "c2"},
        {"Conv, [null]", E_ARGS, "c2"},
        {"Conv, [True]", E_ARGS, "c2"},
        {"Conv, [[16]]", E_ARGS, "c2"},
        {"Conv, [\"16*2\"]", E_ARGS, "c2"},
        {"Conv, [\"__import__('os').system('exit 1')\"]", E_ARGS, "c2"},
        {"Conv, [\"open('x', 'w')\"]", E_ARGS, "c2"},
        {"Conv, [\"[c for c in (16,)]\"]", E_ARGS, "c2"},
        {"Conv, [16, 0]", E_ARGS, "shape [16,16,0,0]"},
        {"Conv, [16, 256]", E_ARGS, "argument k"},
        {"Conv, [16, -1]", E_ARGS, "argument k"},
        {"Conv, [16, 1e9]", E_ARGS, "argument k"},
        {"Conv, [16, [3]]", E_ARGS, "argument k"},
        {"Conv, [16, []]", E_ARGS, "argument k"},
        {"Conv, [16, [3, 3, 3]]", E_ARGS, "argument k"},
        {"Conv, [16, [3, x]]", E_ARGS, "argument k"},
        {"Conv, [16, 3, 0]", E_SHAPE, "stride 0"},
        {"Conv, [16, 3, 2, 0, 0]", E_ARGS, "groups"},
        {"Conv, [16, 3, 2, 0, 3]", E_ARGS, "groups"},
        {"Conv, [24, 3, 2, 0, 16]", E_ARGS, "groups"},
        {"Conv, [16, 3, 2, 0, 2000000]", E_ARGS, "argument g"},
        {"Conv, [16, 3, 1, 0, 1, 0]", E_SHAPE, "dilation 0"},
        {"Conv, [16, 3, 1, 0, 1, 5000]", E_SHAPE, "dilation 5000"},
        {"Conv, [16, 3, 1, 0, 1, 1000]", E_SHAPE, "does not fit"},
        {"Conv, [16, 3, 1, 0, 1, 1, 7]", E_ARGS, "argument act"},
        {"Conv, [16, 3, 1, 0, 1, 1, [nn.ReLU]]", E_ARGS, "argument act"},
        {"Conv, [16, 3, 1, 0, 1, 1, True, 8]", E_ARGS, "at most 7 arguments"},
        {"C2f, [16, [True]]", E_ARGS, "shortcut"},
        {"C2f, [16, yes please]", E_ARGS, "shortcut"},
        {"C2f, [16, True, 1, .nan]", E_ARGS, "argument e"},
        {"C2f, [16, True, 1, 0]", E_ARGS, "above 0"},
        {"C3, [16, True, 1, -0.5]", E_ARGS, "above 0"},
        {"C2f, [16, True, 1, 1e30]", E_LIMIT, "weights"},
        {"C2f, [16, True, 1, .inf]", E_ARGS, "argument e"},
        {"C2f, [16, True, 1, x]", E_ARGS, "argument e"},
        {"C2f, [16, True, 1, False]", E_ARGS, "above 0"},
        {"Bottleneck, [16, True, 1, [3]]", E_ARGS, "pair of kernel sizes"},
        {"Bottleneck, [16, True, 1, [3, 3, 3]]", E_ARGS, "pair of kernel sizes"},
        {"Bottleneck, [16, True, 1, [0, 3]]", E_ARGS, "pair of kernel sizes"},
        {"Bottleneck, [16, True, 1, [3, 256]]", E_ARGS, "pair of kernel sizes"},
        {"SPP, [16, [4]]", E_ARGS, "pool of size 4"},
        {"SPP, [16, [-5]]", E_ARGS, "pool of size -5"},
        {"SPP, [16, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]]", E_ARGS, "more than 16"},
        {"SPP, [16, [2000000]]", E_ARGS, "argument k"},
        {"SPP, [16, [x]]", E_ARGS, "argument k"},
        {"SPPF, [16, 5, 17]", E_ARGS, "more than 16"},
        {"SPPF, [16, 0]", E_SHAPE, "window 0"},
        {"SPPF, [16, 4]", E_SHAPE, "concat"},
        {"nn.ZeroPad2d, [[1, 2]]", E_ARGS, "padding is one integer"},
        {"nn.ZeroPad2d, [[-1, 0, 0, 0]]", E_SHAPE, "-1 rows"},
        {"nn.ZeroPad2d, [70000]", E_SHAPE, "70000 rows"},
        {"nn.Upsample, [64]", E_UNSUPPORTED, "fixed size"},
        {"nn.Upsample, [None, 0, nearest]", E_UNSUPPORTED, "factor 0"},
        {"nn.Upsample, [None, 65, nearest]", E_UNSUPPORTED, "factor 65"},
        {"nn.Upsample, [None, 2, bicubic]", E_UNSUPPORTED, "bicubic"},
        {"nn.Upsample, [None, 2, 3]", E_ARGS, "mode"},
        {"nn.Upsample, [None, 2, [nearest]]", E_ARGS, "mode"},
        {"nn.Upsample, [None, 2, True]", E_ARGS, "mode"},
        {"nn.Upsample, [None, 2, Nearest]", E_UNSUPPORTED, "the mode Nearest"},
        {"nn.Upsample, [None, 2, '']", E_UNSUPPORTED, "the mode  is"},
        {"nn.Upsample, [None, 2, \"nearest' if open('x') else '\"]", E_UNSUPPORTED, "the mode nearest' if"},
        {"nn.Upsample, [None, two, nearest]", E_ARGS, "scale_factor"},
        {"nn.Upsample, ['64', 2, nearest]", E_UNSUPPORTED, "fixed size"},
        {"nn.MaxPool2d, [2, 2, 2]", E_SHAPE, "reaches the window"},
        {"nn.MaxPool2d, [2, 0]", E_SHAPE, "stride 0"},
        {"nn.MaxPool2d, [2, 2, 0, 2]", E_UNSUPPORTED, "dilation"},
        {"nn.MaxPool2d, [2, 2, 0, 1, True]", E_UNSUPPORTED, "return_indices"},
        {"nn.MaxPool2d, [2, 2, 0, 1, False, True]", E_UNSUPPORTED, "ceil_mode"},
        {"nn.AvgPool2d, [2, 2, 0, True]", E_UNSUPPORTED, "ceil_mode"},
        {"nn.AvgPool2d, [3, 2, 1, False, False]", E_UNSUPPORTED, "count_include_pad"},
        {"nn.AvgPool2d, [2, 2, 0, False, True, 3]", E_UNSUPPORTED, "divisor_override"},
        {"nn.AdaptiveAvgPool2d, [2]", E_UNSUPPORTED, "not 2x2"},
        {"nn.AdaptiveAvgPool2d, [[1, 3]]", E_UNSUPPORTED, "not 1x3"},
        {"nn.Conv2d, [32, 32, 3]", E_ARGS, "in_channels is 32, but its input has 16"},
        {"nn.Conv2d, [16, 32, 3]", E_ARGS, "16 channels in and 32 out"},
        {"nn.Conv2d, [16, 3]", E_ARGS, "kernel_size"},
        {"nn.Conv2d, [16, 16, 3, 1, 1, 1, 3]", E_ARGS, "do not divide into 3 groups"},
        {"nn.Conv2d, [16, 16, 3, 1, same]", E_ARGS, "padding"},
        {"nn.ConvTranspose2d, [16, 2, 2, 0, 0, 1, True, 2]", E_UNSUPPORTED, "dilation"},
        {"nn.GELU, [tanh]", E_UNSUPPORTED, "the tanh formula"},
        {"nn.LeakyReLU, [x]", E_ARGS, "negative_slope"},
        {"nn.SiLU, [True, 1]", E_ARGS, "at most 1 argument"},
        {"Concat, [0]", E_UNSUPPORTED, "dimension 0"},
    };
    accept(with_row("[-1, 1, RepC3, [16, True]]"));
    accept(with_row("[-1, 1, nn.AvgPool2d, [3, 1, 1]]\n  - [-1, 1, nn.Dropout, [0.1]]"));
    accept(with_row("[-1, 1, Conv, [4096, 255, 1, 127, 16]]"));
    accept(with_row("[-1, 1, nn.Upsample, [None, 64, nearest]]"));
    accept(with_row("[-1, 1, nn.Upsample, [None, 2, None]]"));
    accept(with_row("[-1, 1, nn.Upsample, [None, 2, bilinear]]"));
    accept(with_row("[-1, 1, nn.Upsample, [None, 2, bilinear, True]]"));
    accept(with_row("[-1, 1, nn.Upsample, [None, 2, 'nearest']]"));
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        refuse(with_row(yir_format(a, "[-1, 1, %s]", rows[i].text)), rows[i].id, rows[i].part);
    refuse("nc: 2\nanchors: 3\nbackbone:\n" FIRST "  - [-1, 1, Contract, [0]]\nhead:\n"
           "  - [-1, 1, Detect, [nc, anchors]]\n",
           E_ARGS, "gain");
}

/* Rules of single modules and heads. */
Test(front_rows, modules)
{
    static const struct bad rows[] = {
        {"[-1, 1, nn.ConvTranspose2d, [16, 2, 2, 0, 0, 3]]", E_ARGS, "16 channels do not divide into 3 groups"},
        {"[-1, 1, nn.ConvTranspose2d, [16, 2, 2, 0, 0, 0]]", E_ARGS, "do not divide into 0 groups"},
        {"[-1, 1, RepConv, [16, 1]]", E_ARGS, "kernel of 3 and a padding of 1, not of 1 and 1"},
        {"[-1, 1, RepConv, [16, 3, 1, 0]]", E_ARGS, "not of 3 and 0"},
        {"[-1, 1, AIFI, [64, 3]]", E_ARGS, "do not divide into 3 heads"},
        {"[-1, 1, AIFI, [64, 0]]", E_ARGS, "do not divide into 0 heads"},
        {"[-1, 1, HGStem, [8, 18]]\n  - [-1, 1, AIFI, [64, 1]]", E_ARGS, "18 channels are not four equal parts"},
        {"[-1, 1, C2PSA, [32]]", E_ARGS, "gives as many channels as it takes, 16, not 32"},
        {"[-1, 1, Conv, [400]]\n  - [-1, 1, PSA, [400]]", E_ARGS, "200 channels do not divide into 3 heads"},
        {"[-1, 1, A2C2f, [24, True]]", E_ARGS, "no multiple of 32"},
        {"[-1, 1, C2fAttn, [16, 128, 3]]", E_ARGS, "do not divide into 3 heads"},
        {"[-1, 1, ImagePoolingAttn, [12]]", E_ARGS, "12 is no multiple of 8"},
        {"[-1, 1, CBLinear, [[8, 0]]]", E_ARGS, "the widths must be 1 to"},
        {"[-1, 1, CBLinear, [[65536, 65536]]]", E_LIMIT, ""},
        {"[-1, 1, CBLinear, [[]]]", E_ARGS, "needs a list of widths"},
        {"[[0, -1], 1, CBFuse, [[0, 0]]]", E_ARGS, "2 indexes for 1 inputs"},
        {"[[0, -1], 1, CBFuse, [[0]]]", E_ARGS, "input 0 is no CBLinear"},
        {"[-1, 1, CBLinear, [[8, 8]]]\n  - [[1, 0], 1, CBFuse, [[2]]]", E_ARGS, "input 0 has no part 2"},
        {"[-1, 1, ResNetLayer, [32, 64]]", E_ARGS, "c1 is 32, the input has 16"},
        {"[-1, 1, ResNetLayer, [16, 64, 1, False, 0]]", E_ARGS, "n must be 1 to"},
        {"[-1, 1, ResNetLayer, [16, 64, 1, False, 1001]]", E_ARGS, "n must be 1 to"},
        {"[-1, 1, TorchVision, [512, resnet50]]", E_UNSUPPORTED, "only resnet18"},
        {"[-1, 1, Index, [16]]", E_ARGS, "the input is no list of maps"},
        {"[-1, 1, TorchVision, [512, resnet18, DEFAULT, True, 2, True]]\n  - [-1, 1, Index, [512, 9]]", E_ARGS,
         "the input has 9 maps, none is number 9"},
        {"[-1, 1, TorchVision, [512, resnet18, DEFAULT, True, 2, True]]\n  - [-1, 1, Index, [512, 7]]", E_ARGS,
         "the map has 256 channels, not 512"},
    };
    accept(with_row("[-1, 1, TorchVision, [512, resnet18, DEFAULT, True, 2, True]]\n  - [1, 1, Index, [16]]\n"
                    "  - [1, 1, Index, [64, 2]]\n  - [1, 1, Index, [512, 8]]"));
    static const struct bad mixed[] = {
        {"MixConv2d, [16, []]", E_ARGS, "MixConv2d: 1 to 16 kernels"},
        {"MixConv2d, [16, [3, 0]]", E_ARGS, "MixConv2d: 1 to 16 kernels"},
        {"MixConv2d, [16, [3, 5000]]", E_ARGS, "kernels of 1 to 255"},
        {"MixConv2d, [8, [1, 3, 3, 3, 3, 3, 3, 3, 3, 3]]", E_ARGS, "8 channels can't be shared by 10 kernels"},
        {"MixConv2d, [8, [1, 9], 1, False]", E_ARGS, "8 channels can't be shared by 2 kernels"},
    };
    for (size_t i = 0; i < YIR_COUNT(mixed); i++)
        refuse(yir_format(a, "nc: 2\nanchors:\n  - [1,2, 3,4]\nbackbone:\n" FIRST "  - [-1, 1, %s]\nhead:\n"
                             "  - [-1, 1, Detect, [nc, anchors]]\n", mixed[i].text),
               mixed[i].id, mixed[i].part);
    static const struct bad heads[] = {
        {"[-1, 1, Segment, [nc, 0]]", E_ARGS, "nm must be 1 to 4096"},
        {"[-1, 1, Pose, [nc, [17]]]", E_ARGS, "kpt_shape must be [points, numbers]"},
        {"[-1, 1, Pose, [nc, [0, 3]]]", E_ARGS, "1 to 1024 points"},
        {"[-1, 1, Pose, [nc, [17, 4]]]", E_ARGS, "of 2 or 3 numbers"},
        {"[-1, 2, Detect, [nc]]", E_ROW, "the head Detect can't be repeated"},
        {"[-1, 1, OBB, [nc, 2]]", E_UNSUPPORTED, "one angle a box"},
        {"[-1, 1, WorldDetect, [nc, 0]]", E_ARGS, "embed must be"},
        {"[-1, 1, Depth, [3]]", E_ARGS, "the width must be 4 to"},
        {"[[0, 0, 0, 0, 0], 1, RTDETRDecoder, [nc]]", E_ARGS, "4 are the most"},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        refuse(with_row(rows[i].text), rows[i].id, rows[i].part);
    for (size_t i = 0; i < YIR_COUNT(heads); i++)
        refuse(yir_format(a, "nc: 2\nbackbone:\n" FIRST "head:\n  - %s\n", heads[i].text), heads[i].id, heads[i].part);
    refuse("nc: 2\nanchors:\n  - [1,2, 3,4]\nbackbone:\n" FIRST "head:\n  - [-1, 1, Segment, [nc, anchors, 0]]\n", E_ARGS,
           "nm must be 1 to 4096");
    opts.one2one = true;
    refuse("nc: 2\nbackbone:\n" FIRST HEAD, E_USAGE, "one2one is asked for");
    refuse("nc: 2\nbackbone:\n" FIRST "head:\n  - [-1, 1, Classify, [nc]]\n", E_USAGE, "one2one is asked for");
    refuse("nc: 2\nanchors:\n  - [1,2, 3,4]\nbackbone:\n" FIRST "head:\n  - [-1, 1, Detect, [nc, anchors]]\n", E_USAGE,
           "one2one is asked for");
    refuse("nc: 2\nend2end: 0\nbackbone:\n" FIRST HEAD, E_USAGE, "one2one is asked for");
    accept("nc: 2\nend2end: 1\nbackbone:\n" FIRST HEAD);
}

#define BODY "backbone:\n" FIRST HEAD

/* Keys above a good backbone and head. */
Test(front_rows, keys)
{
    static const struct bad rows[] = {
        {"nc: 0", E_YAML_KEY, "nc must be"},
        {"nc: -1", E_YAML_KEY, "nc must be"},
        {"nc: 65537", E_YAML_KEY, "nc must be"},
        {"nc: 1.5", E_YAML_KEY, "nc must be"},
        {"nc: yes", E_YAML_KEY, "nc must be"},
        {"nc: [2]", E_YAML_KEY, "nc must be"},
        {"names: [a]", E_YAML_KEY, "nc"},
        {"nc: 2\nch: 0", E_YAML_KEY, "ch must be"},
        {"nc: 2\nch: x", E_YAML_KEY, "ch must be"},
        {"nc: 2\nreg_max: 0", E_YAML_KEY, "reg_max must be"},
        {"nc: 2\nreg_max: 1025", E_YAML_KEY, "reg_max must be"},
        {"nc: 2\nscales: 7", E_YAML_KEY, "scales must hold"},
        {"nc: 2\nscales: {}", E_YAML_KEY, "scales must hold"},
        {"nc: 2\nscales: {n: 1}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1, 1, 1024, 1]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: {a: 1, b: 1}}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {1: [1, 1, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [.nan, 1, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1, .nan, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [0, 1, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1, -1, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1, 1.0e+308, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [.inf, 1, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [x, 1, 1024]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1, 1, 0]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nscales: {n: [1, 1, .nan]}", E_YAML_KEY, "a scale is written"},
        {"nc: 2\nwidth_multiple: 1.0e+308", E_YAML_KEY, "width_multiple"},
        {"nc: 2\nwidth_multiple: .nan", E_YAML_KEY, "width_multiple"},
        {"nc: 2\nwidth_multiple: 0", E_YAML_KEY, "width_multiple"},
        {"nc: 2\ndepth_multiple: -1", E_YAML_KEY, "depth_multiple"},
        {"nc: 2\ndepth_multiple: x", E_YAML_KEY, "depth_multiple"},
        {"nc: 2\ninput: 7", E_YAML_KEY, "input must be"},
        {"nc: 2\ninput: {color: cmyk}", E_YAML_KEY, "color must be"},
        {"nc: 2\ninput: {color: 7}", E_YAML_KEY, "color must be"},
        {"nc: 2\ninput: {scale: 0}", E_YAML_KEY, "scale must be"},
        {"nc: 2\ninput: {scale: .inf}", E_YAML_KEY, "scale must be"},
        {"nc: 2\ninput: {scale: x}", E_YAML_KEY, "scale must be"},
        {"nc: 2\ninput: {size: 0}", E_YAML_KEY, "size must be"},
        {"nc: 2\nactivation: 7", E_ACTIVATION, "must be a text"},
        {"nc: 2\nactivation: [nn.ReLU()]", E_ACTIVATION, "must be a text"},
    };
    accept("nc: 65536\nscales: {n: [1, 1, 1024]}\nwidth_multiple: 1\n" BODY);
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        refuse(yir_format(a, "%s\n" BODY, rows[i].text), rows[i].id, rows[i].part);
}

/* What other tools evaluate is only compared with a table here. */
Test(front_rows, activations)
{
    static const char *const texts[] = {
        "__import__('os').system('exit 1')",
        "eval('1')",
        "nn.ReLU();nn.ReLU()",
        "nn.ReLU(",
        "nn.ReLU())",
        "nn.ReLU() or 1",
        "lambda: 0",
        "nn.ReLU(inplace=print(1))",
        "nn.LeakyReLU(slope=0.1)",
        "nn.LeakyReLU(x)",
        "nn.LeakyReLU([1])",
        "nn.LeakyReLU(1e400)",
        "nn.LeakyReLU(-1e39)",
        "nn.ReLU(0.5)",
        "nn.ReLU(flag=True)",
        "os.system",
        "nn.Foo()",
        "torch.load('x')",
    };
    for (size_t i = 0; i < YIR_COUNT(texts); i++) {
        refuse(yir_format(a, "nc: 2\nactivation: \"%s\"\n" BODY, texts[i]), E_ACTIVATION, "");
        refuse(with_row(yir_format(a, "[-1, 1, Conv, [16, 1, 1, 0, 1, 1, \"%s\"]]", texts[i])), E_ACTIVATION,
               "");
    }
    accept("nc: 2\nactivation: nn.LeakyReLU(negative_slope=0.1, inplace=True)\n" BODY);
}

Test(front_rows, whole_files)
{
    static const struct bad rows[] = {
        {"[1, 2]", E_KIND, "no model description"},
        {"text", E_KIND, "no model description"},
        {"nc: 2\n" HEAD, E_YAML_KEY, "backbone is missing"},
        {"nc: 2\nbackbone:\n" FIRST, E_YAML_KEY, "head is missing"},
        {"nc: 2\nbackbone: 7\n" HEAD, E_YAML_KEY, "must be a list"},
        {"nc: 2\nbackbone: {a: 1}\n" HEAD, E_YAML_KEY, "must be a list"},
        {"nc: 2\nbackbone: []\nhead: []\n", E_YAML_KEY, "no rows"},
        {"nc: 2\nbackbone: []\nhead:\n" FIRST, E_ROW, "must be a head"},
        {"nc: 2\nbackbone:\n" FIRST "head:\n  - [[0, 0, 0, 0, 0, 0, 0, 0, 0], 1, Detect, [nc]]\n", E_LIMIT,
         "levels"},
        {"nc: 2\nbackbone:\n" FIRST "head:\n  - [0, 1, Detect, [0]]\n", E_ARGS, "nc must be at least 1"},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        refuse(rows[i].text, rows[i].id, rows[i].part);
    struct yir_str s = {.arena = a};
    for (int i = 0; i < 65; i++)
        yir_str_fmt(&s, "%s0", i ? ", " : "");
    refuse(with_row(yir_format(a, "[[%s], 1, Concat, [1]]", s.text)), E_LIMIT, "64 are the most");
}

Test(front_rows, anchors)
{
    static const struct bad rows[] = {
        {"[[1,2, 3,4], [1,2, 3,4, 5,6]]", E_ANCHORS, "pairs"},
        {"[[1,2, 3], [1,2, 3]]", E_ANCHORS, "pairs"},
        {"[[], []]", E_ANCHORS, "pairs"},
        {"[[1, x], [1, 2]]", E_ANCHORS, "pairs"},
        {"[[1, .nan], [1, 2]]", E_ANCHORS, "above 0"},
        {"[[1, 2], [.inf, 2]]", E_ANCHORS, "above 0"},
        {"[[0, 0], [1, 2]]", E_ANCHORS, "above 0"},
        {"[[1, 2], [1, -2]]", E_ANCHORS, "above 0"},
        {"[[[[1, 2]]], [[[1, 2]]]]", E_ANCHORS, "pairs"},
        {"[[1,2], [1,2], [1,2]]", E_ANCHORS, "2 levels"},
        {"[[1,2]]", E_ANCHORS, "2 levels"},
        {"0", E_ANCHORS, "1 to 64"},
        {"65", E_ANCHORS, "1 to 64"},
        {"-1", E_ANCHORS, "1 to 64"},
        {"{a: 1}", E_ANCHORS, "must be a list"},
        {"many", E_ANCHORS, "must be a list"},
    };
    static const char tail[] = "nc: 2\nbackbone:\n" FIRST "  - [-1, 1, Conv, [16, 3, 2]]\nhead:\n"
                               "  - [[0, 1], 1, Detect, [nc, anchors]]\n";
    accept(yir_format(a, "anchors: [[1,2], [3,4]]\n%s", tail));
    accept(yir_format(a, "anchors: [[[1,2],[1,2]], [[3,4],[3,4]]]\n%s", tail));
    for (size_t i = 0; i < YIR_COUNT(rows); i++)
        refuse(yir_format(a, "anchors: %s\n%s", rows[i].text, tail), rows[i].id, rows[i].part);
    struct yir_str s = {.arena = a};
    for (int i = 0; i < 130; i++)
        yir_str_fmt(&s, "%s1", i ? "," : "");
    refuse(yir_format(a, "anchors: [[%s], [%s]]\n%s", s.text, s.text, tail), E_ANCHORS, "pairs");
}

static void refuse_size(int batch, int height, int width, const char *part)
{
    opts.batch = batch;
    opts.height = height;
    opts.width = width;
    cr_assert_null(build("nc: 2\n" BODY), "%s", part);
    cr_assert(first_error()->id == E_IMGSZ && strstr(first_error()->text, part), "%s", first_error()->text);
}

Test(front_rows, sizes)
{
    refuse_size(0, 64, 64, "the batch");
    refuse_size(-1, 64, 64, "the batch");
    refuse_size(1, -32, 64, "the image size");
    refuse_size(1, 0, 64, "the image size");
    refuse_size(1, 64, 0, "the image size");
    refuse_size(1, 64, INT32_MAX, "--limit image-size=N");
    limits.max_imgsz = 90;
    refuse_size(1, 80, 80, "multiples of the stride");
    refuse_size(1, 91, 91, "--limit image-size=N");
    opts.height = opts.width = 64;
    limits.max_batch = 3;
    opts.batch = 3;
    accept("nc: 2\n" BODY);
    refuse_size(4, 64, 64, "--limit batch=N");
}

/* --- limits
 * ------------------------------------------------------------------------------------------------- */

static void at_limit(uint64_t *limit, uint64_t value, const char *yaml, enum yir_diag_id id, const char *part)
{
    uint64_t before = *limit;
    *limit = value;
    accept(yaml);
    (*limit)--;
    refuse(yaml, id, part);
    *limit = before;
}

Test(front_rows, limits)
{
    at_limit(&limits.max_rows, 2, "nc: 2\nbackbone:\n" FIRST FIRST HEAD, E_LIMIT, "--limit layers=N");
    at_limit(&limits.max_repeats, 7, with_row("[-1, 7, nn.Identity, []]"), E_ROW, "--limit repeats=N");
    at_limit(&limits.max_channels, 24, with_row("[-1, 1, Conv, [24]]"), E_ARGS, "c2");
    at_limit(&limits.max_classes, 2, "nc: 2\n" BODY, E_YAML_KEY, "nc must be");
    const char *deep = with_row("[-1, 1, SPP, [16, [5]]]");
    at_limit(&limits.max_yaml_depth, 5, deep, E_LIMIT, "--limit yaml-depth=N");
}

/* The counts of what a description unfolds to: the least limit that lets it pass is exact. */
static void least_limit(uint64_t *limit, const char *part)
{
    static const char yaml[] = "nc: 2\n" BODY;
    uint64_t low = 0, high = *limit, before = *limit;
    while (low + 1 < high) {
        *limit = low + (high - low) / 2;
        if (build(yaml))
            high = *limit;
        else
            low = *limit;
    }
    at_limit(limit, high, yaml, E_LIMIT, part);
    cr_assert(high > 4 && high < 200000, "%llu", (unsigned long long)high);
    *limit = before;
}

Test(front_rows, what_a_description_unfolds_to)
{
    least_limit(&limits.max_modules, "--limit modules=N");
    least_limit(&limits.max_weights, "--limit weights=N");
    least_limit(&limits.max_yaml_values, "--limit yaml-values=N");
}

Test(front_rows, bytes)
{
    static const char yaml[] = "nc: 2\n" BODY;
    limits.max_yaml = sizeof yaml - 1;
    accept(yaml);
    limits.max_yaml--;
    cr_assert_null(build(yaml));
    cr_assert(first_error()->id == E_LIMIT && strstr(first_error()->text, "--limit yaml-bytes=N"));
}
