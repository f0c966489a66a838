/* Attributes of pickled modules, which decide over what the yaml implies: those that no network has are refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "frontend/model.h"
#include "ptwrite.h"
#include "readcheck.h"

static const char yaml[] = "nc: 2\nbackbone:\n  - [-1, 1, Conv, [16, 3, 2]]\n  - [-1, 1, nn.MaxPool2d, [2, 2]]\n"
                           "  - [-1, 1, nn.AvgPool2d, [3, 1, 1]]\n  - [-1, 1, nn.ConvTranspose2d, [16, 2, 2]]\nhead:\n  - [-1, 1, Detect, [nc]]\n";

/* One thing in the file: of which module, called what. */
struct odd {
    const char *module; /* "conv", "bn", "act", "pool", "deconv", "head" */
    const char *key;
    int64_t i;
    double f;           /* not 0: the number is this one */
    const char *s;      /* not NULL: a text */
    const char *part;   /* of the report; NULL: there is none about it */
};

static struct ptwrite w;
static const struct odd *odd;

static void end_module(const char *name)
{
    ptwrite_module_attrs(&w);
    if (strcmp(name, odd->module) == 0 && odd->key) {
        ptwrite_key(&w, odd->key);
        if (odd->s)
            ptwrite_str(&w, odd->s);
        else if (odd->f != 0)
            ptwrite_float(&w, odd->f);
        else
            ptwrite_int(&w, odd->i);
    }
    ptwrite_module_end(&w);
}

static void leaf(const char *name, const char *module, const char *class)
{
    ptwrite_module(&w, module, class);
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    end_module(name);
}

static void conv2d(void)
{
    static const int64_t dim[] = {16, 3, 3, 3};
    static const float v[16 * 27];
    ptwrite_module(&w, "torch.nn.modules.conv", "Conv2d");
    ptwrite_key(&w, "weight");
    ptwrite_tensor(&w, "FloatStorage", 4, v, dim, 4);
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    end_module("conv");
}

static void batchnorm(void)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    ptwrite_module(&w, "torch.nn.modules.batchnorm", "BatchNorm2d");
    for (int i = 0; i < 4; i++) {
        if (i == 2) ptwrite_module_buffers(&w);
        ptwrite_key(&w, names[i]);
        ptwrite_floats(&w, 1, 16);
    }
    ptwrite_module_children(&w);
    end_module("bn");
}

/* act: class of the activation. */
static void write_model(const char *act)
{
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "model");
    ptwrite_module(&w, "ultralytics.nn.tasks", "DetectionModel");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "model");
    ptwrite_module(&w, "torch.nn.modules.container", "Sequential");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "0");
    ptwrite_module(&w, "ultralytics.nn.modules.conv", "Conv");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "conv");
    conv2d();
    ptwrite_key(&w, "bn");
    batchnorm();
    ptwrite_key(&w, "act");
    leaf("act", "torch.nn.modules.activation", act);
    end_module("");
    ptwrite_key(&w, "1");
    leaf("pool", "torch.nn.modules.pooling", "MaxPool2d");
    ptwrite_key(&w, "2");
    leaf("mean", "torch.nn.modules.pooling", "AvgPool2d");
    ptwrite_key(&w, "3");
    leaf("deconv", "torch.nn.modules.conv", "ConvTranspose2d");
    ptwrite_key(&w, "4");
    leaf("head", "ultralytics.nn.modules.head", "Detect");
    end_module("");
    end_module("");
    ptwrite_op(&w, 'u');
}

/* Builds with that file; the weights of rows 3 and 4 are not in it, which is reported last. */
static void try_odd(const struct odd *o, const char *act, enum yir_diag_id id)
{
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    size_t len;
    odd = o;
    ptwrite_init(&w, a);
    write_model(act);
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    struct readcheck r = readcheck_bytes(bytes, len, NULL);
    cr_assert(r.w, "%s", readcheck_text(&r));
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct fe_model_opts opts = {.path = "my.yaml", .batch = 1, .height = 64, .width = 64, .weights = r.w};
    const struct fe_value *root = fe_yaml_parse(a, d, "my.yaml", yaml, strlen(yaml));
    cr_assert_null(fe_model_build(a, yir_types_new(a), d, root, &opts));
    size_t i = 0;
    while (yir_diag_at(d, i)->severity != YIR_ERROR) i++;
    const struct yir_diag *g = yir_diag_at(d, i);
    cr_expect(g->id == id && strstr(g->text, o->part), "%s, not: %s", g->rendered, o->part);
    readcheck_end(&r);
    yir_arena_free(a);
}

static const struct odd none = {.module = "none", .part = "is missing in"};

Test(front_pickled, attributes)
{
    static const struct odd rows[] = {
        {"conv", "stride", -1, 0, NULL, "the pickled attribute stride is -1, which no network has"},
        {"conv", "stride", 1ll << 40, 0, NULL, "the pickled attribute stride is 1099511627776"},
        {"conv", "padding", 1 << 30, 0, NULL, "the pickled attribute padding is 1073741824"},
        {"bn", "eps", 0, NAN, NULL, "the pickled attribute eps is nan"},
        {"bn", "eps", 0, INFINITY, NULL, "the pickled attribute eps is inf"},
        {"bn", "eps", 0, 1e300, NULL, "the pickled attribute eps is 1e+300"},
    };
    static const struct odd unsupported[] = {
        {"conv", "padding_mode", 0, 0, "reflect", "the padding mode reflect is not supported"},
        {"mean", "count_include_pad", 0, 0, NULL, "count_include_pad=False is not supported"},
        {"pool", "ceil_mode", 1, 0, NULL, "ceil_mode is not supported"},
        {"deconv", "dilation", 2, 0, NULL, "a transposed convolution with dilation is not supported"},
    };
    static const struct odd args[] = {
        {"head", "reg_max", 0, 0, NULL, "reg_max must be 1 to 1024"},
        {"head", "reg_max", 1025, 0, NULL, "reg_max must be 1 to 1024"},
    };
    try_odd(&none, "SiLU", E_WEIGHT);
    for (size_t i = 0; i < YIR_COUNT(rows); i++) try_odd(&rows[i], "SiLU", E_WEIGHT);
    for (size_t i = 0; i < YIR_COUNT(unsupported); i++) try_odd(&unsupported[i], "SiLU", E_UNSUPPORTED);
    for (size_t i = 0; i < YIR_COUNT(args); i++) try_odd(&args[i], "SiLU", E_ARGS);
}

Test(front_pickled, activations)
{
    static const struct odd class = {"none", NULL, 0, 0, NULL, "the weights hold an activation of class torch.nn.modules.activation.Foo"};
    static const struct odd formula = {"act", "approximate", 0, 0, "tanh", "GELU by the tanh formula is not supported"};
    static const struct odd slope = {"act", "negative_slope", 0, 1e39, NULL, "negative_slope of 1e+39"};
    static const struct odd nan_slope = {"act", "negative_slope", 0, NAN, NULL, "negative_slope of nan"};
    try_odd(&none, "LeakyReLU", E_WEIGHT);
    try_odd(&class, "Foo", E_ACTIVATION);
    try_odd(&formula, "GELU", E_ACTIVATION);
    try_odd(&slope, "LeakyReLU", E_ACTIVATION);
    try_odd(&nan_slope, "LeakyReLU", E_ACTIVATION);
}

/* Rows Conv, Conv, Conv and SemanticSegment, with all their weights. */
static void conv_of(int64_t c2, int64_t c1, int64_t k, bool bias)
{
    static const float v[8 * 8 * 9];
    ptwrite_module(&w, "torch.nn.modules.conv", "Conv2d");
    ptwrite_key(&w, "weight");
    ptwrite_tensor(&w, "FloatStorage", 4, v, (const int64_t[]){c2, c1, k, k}, 4);
    if (bias) ptwrite_key(&w, "bias");
    if (bias) ptwrite_floats(&w, 0, c2);
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    end_module("");
}

static void block_of(const char *key, int64_t c1)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    ptwrite_key(&w, key);
    ptwrite_module(&w, "ultralytics.nn.modules.conv", "Conv");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "conv");
    conv_of(8, c1, 3, false);
    ptwrite_key(&w, "bn");
    ptwrite_module(&w, "torch.nn.modules.batchnorm", "BatchNorm2d");
    for (int i = 0; i < 4; i++) {
        if (i == 2) ptwrite_module_buffers(&w);
        ptwrite_key(&w, names[i]);
        ptwrite_floats(&w, 1, 8);
    }
    ptwrite_module_children(&w);
    end_module("");
    end_module("");
}

static void open_of(const char *key, const char *module, const char *class)
{
    if (key) ptwrite_key(&w, key);
    ptwrite_module(&w, module, class);
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
}

static void write_semantic(void)
{
    ptwrite_ops(&w, "}(");
    open_of("model", "ultralytics.nn.tasks", "SemanticSegmentationModel");
    open_of("model", "torch.nn.modules.container", "Sequential");
    block_of("0", 3);
    block_of("1", 8);
    block_of("2", 8);
    open_of("3", "ultralytics.nn.modules.head", "SemanticSegment");
    open_of("classifier", "torch.nn.modules.container", "Sequential");
    block_of("0", 8);
    ptwrite_key(&w, "1");
    conv_of(2, 8, 1, true);
    end_module("");
    ptwrite_module_attrs(&w);
    ptwrite_key(&w, "stride");
    ptwrite_floats(&w, 32, 1);
    ptwrite_module_end(&w);
    end_module("");
    end_module("");
    ptwrite_op(&w, 'u');
}

/* Trained ones have the stride of the deepest layer as the head's; their map is enlarged to the size of the input all the same. */
Test(front_pickled, stride_of_semantic_heads)
{
    static const char text[] = "nc: 2\nbackbone:\n  - [-1, 1, Conv, [8, 3, 2]]\n  - [-1, 1, Conv, [8, 3, 2]]\n  - [-1, 1, Conv, [8, 3, 2]]\n"
                               "head:\n  - [-1, 1, SemanticSegment, [nc]]\n";
    struct yir_arena *a = yir_arena_new(NULL, NULL);
    size_t len;
    odd = &none;
    ptwrite_init(&w, a);
    write_semantic();
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    struct readcheck r = readcheck_bytes(bytes, len, NULL);
    cr_assert(r.w, "%s", readcheck_text(&r));
    const struct fe_value *stride = fe_node_attr(fe_weights_node(r.w, "model.3"), "stride");
    cr_assert(stride && stride->kind == FE_LIST && stride->item[0]->f == 32);
    struct yir_diags *d = yir_diags_new(a, NULL, NULL);
    struct fe_model_opts opts = {.path = "my.yaml", .batch = 1, .height = 64, .width = 96, .weights = r.w};
    const struct fe_value *root = fe_yaml_parse(a, d, "my.yaml", text, strlen(text));
    const struct fe_model *m = fe_model_build(a, yir_types_new(a), d, root, &opts);
    cr_assert(m, "%s", yir_diag_at(d, 0)->rendered);
    cr_assert_eq(m->func->noutput, 2);
    const struct yir_output *large = &m->func->output[1];
    cr_assert_str_eq(large->name, "logits_x8");
    const struct yir_tdesc *size = yir_desc(m->func, large->ref);
    cr_assert(size->dim[2] == 64 && size->dim[3] == 96);
    readcheck_end(&r);
    yir_arena_free(a);
}
