#include <criterion/criterion.h>
#include <string.h>

#include "ptwrite.h"
#include "readcheck.h"

static struct yir_arena *a;
static struct ptwrite w;

static void setup(void)
{
    a = yir_arena_new(NULL, NULL);
    ptwrite_init(&w, a);
}

static void teardown(void)
{
    yir_arena_free(a);
}

TestSuite(weights_pt, .init = setup, .fini = teardown);

static struct readcheck read_zip(void)
{
    size_t len;
    const uint8_t *bytes = ptwrite_zip(&w, &len);
    return readcheck_bytes(bytes, len, NULL);
}

static void check_model(const struct fe_weights *f, double first)
{
    static const char *const names[] = {"model.0.conv.weight", "model.0.bn.weight", "model.0.bn.bias",
                                        "model.0.bn.running_mean", "model.0.bn.num_batches_tracked"};
    cr_assert_eq(f->ntensor, YIR_COUNT(names));
    for (size_t i = 0; i < f->ntensor; i++) {
        cr_assert_str_eq(f->tensor[i].name, names[i]);
        cr_assert_eq(f->tensor[i].buffer, i >= 3);
        cr_assert_eq(fe_weights_find(f, names[i]), &f->tensor[i]);
    }
    cr_assert_null(fe_weights_find(f, "model.0.bn.scratch"));
    float v[2];
    cr_assert_eq(f->tensor[0].rank, 4);
    fe_tensor_f32(&f->tensor[0], v);
    cr_assert(v[0] == (float)first && v[1] == (float)first + 1);
    double many;
    fe_tensor_f64(&f->tensor[4], &many);
    cr_assert(f->tensor[4].rank == 0 && f->tensor[4].dtype == YIR_I64 && many == 7);
}

static void check_tree(const struct fe_weights *f)
{
    int64_t i;
    double eps;
    cr_assert_str_eq(f->root->class_path, "ultralytics.nn.tasks.DetectionModel");
    const struct fe_node *seq = fe_weights_node(f, "model"), *conv = fe_weights_node(f, "model.0.conv");
    cr_assert(seq && seq->nchild == 2 && strcmp(seq->child[1]->class_name, "Identity") == 0);
    cr_assert(conv && conv->ntensor == 1 && conv->tensor[0] == &f->tensor[0]);
    cr_assert_eq(fe_weights_node(f, "model.0.bn")->ntensor, 4u);
    cr_assert_str_eq(fe_weights_node(f, "model.0.act")->class_path, "torch.nn.modules.activation.SiLU");
    cr_assert_null(fe_weights_node(f, "model.0.co"));
    cr_assert_null(fe_weights_node(f, "model.7"));
    cr_assert_eq(fe_weights_node(f, ""), f->root);
    const struct fe_value *k = fe_node_attr(conv, "kernel_size");
    cr_assert(k && k->kind == FE_LIST && k->n == 2 && k->item[1]->i == 3);
    cr_assert(fe_as_float(fe_node_attr(fe_weights_node(f, "model.0.bn"), "eps"), &eps) && eps == 1e-3);
    cr_assert(fe_as_int(fe_node_attr(fe_weights_node(f, "model.0"), "f"), &i) && i == -1);
    const struct fe_value *loss = fe_node_attr(fe_weights_node(f, "model.0"), "loss");
    cr_assert(loss && loss->kind == FE_OPAQUE &&
              strcmp(loss->s, "ultralytics.utils.loss.v8DetectionLoss") == 0);
    cr_assert_null(fe_node_attr(conv, "_parameters"));
    cr_assert_null(fe_node_attr(conv, "_forward_hooks"));
    cr_assert_null(fe_node_attr(NULL, "eps"));
    const struct fe_value *stride = fe_node_attr(f->root, "stride");
    cr_assert(stride && stride->kind == FE_LIST && stride->n == 2 && stride->item[1]->f == 9.0);
    cr_assert_eq(fe_node_attr(f->root, "big")->kind, FE_OPAQUE);
    cr_assert(fe_as_int(fe_get(f->yaml, "nc"), &i) && i == 3);
    cr_assert(f->names->kind == FE_DICT && f->names->key[0]->i == 0 &&
              strcmp(f->names->item[0]->s, "cat") == 0);
}

Test(weights_pt, checkpoint)
{
    ptwrite_checkpoint(&w);
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    cr_assert_eq(r.w->kind, FE_WEIGHTS_PT);
    cr_assert_str_eq(r.w->stored_in, "model");
    check_model(r.w, 1);
    check_tree(r.w);
    int64_t i;
    double fitness;
    cr_assert(fe_as_int(fe_get(r.w->top, "epoch"), &i) && i == -1);
    cr_assert_str_eq(fe_get(r.w->top, "version")->s, "8.4");
    cr_assert(fe_as_int(fe_get(fe_get(r.w->top, "opt"), "imgsz"), &i) && i == 96);
    cr_assert(fe_as_float(fe_get(r.w->top, "fitness"), &fitness) && fitness > 1.0 && fitness < 1.1, "%g",
              fitness);
    cr_assert_null(fe_get(r.w->top, "model"));
    readcheck_end(&r);
}

Test(weights_pt, ema_wins)
{
    ptwrite_ops(&w, "}(");
    ptwrite_key(&w, "model");
    ptwrite_model(&w, 1);
    ptwrite_key(&w, "ema");
    ptwrite_model(&w, 5);
    ptwrite_op(&w, 'u');
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    cr_assert_str_eq(r.w->stored_in, "ema");
    check_model(r.w, 5);
    readcheck_end(&r);
}

Test(weights_pt, whole_model_and_wrapper)
{
    ptwrite_module(&w, "torch.nn.parallel.distributed", "DistributedDataParallel");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "module");
    ptwrite_model(&w, 1);
    ptwrite_module_attrs(&w);
    ptwrite_module_end(&w);
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    cr_assert_str_eq(r.w->stored_in, "root");
    check_model(r.w, 1);
    check_tree(r.w);
    readcheck_end(&r);
}

/* The object that users call, whose only child is the model. */
Test(weights_pt, whole_object_around_a_model)
{
    ptwrite_module(&w, "ultralytics.models.yolo.model", "YOLO");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "model");
    ptwrite_model(&w, 1);
    ptwrite_module_attrs(&w);
    ptwrite_module_end(&w);
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    check_model(r.w, 1);
    check_tree(r.w);
    readcheck_end(&r);
}

/* where NULL: the state dict is the root. */
static void check_state_dict(const char *where, const char *stored_in)
{
    ptwrite_init(&w, a);
    if (where) ptwrite_ops(&w, "}");
    if (where) ptwrite_key(&w, where);
    ptwrite_ops(&w, "ccollections\nOrderedDict\n)R(");
    ptwrite_key(&w, "module.a.weight");
    ptwrite_floats(&w, 3, 4);
    ptwrite_key(&w, "_orig_mod.module.b");
    ptwrite_floats(&w, 4, 2);
    ptwrite_key(&w, "extra");
    ptwrite_op(&w, 'N');
    ptwrite_ops(&w, "u}");
    ptwrite_str(&w, "_metadata");
    ptwrite_ops(&w, "Nsb");
    if (where) ptwrite_op(&w, 's');
    struct readcheck r = read_zip();
    cr_assert(r.w, "%s", readcheck_text(&r));
    cr_assert_str_eq(r.w->stored_in, stored_in);
    cr_assert(r.w->ntensor == 2 && !r.w->root && !r.w->yaml);
    cr_assert(fe_weights_find(r.w, "a.weight") && fe_weights_find(r.w, "b"));
    cr_assert_null(fe_weights_node(r.w, "a"));
    readcheck_end(&r);
}

Test(weights_pt, state_dicts)
{
    check_state_dict(NULL, "root");
    check_state_dict("state_dict", "state_dict");
    check_state_dict("model_state_dict", "state_dict");
    check_state_dict("model", "model");
    check_state_dict("ema", "ema");
}

/* One module object at many places, as with activations. */
Test(weights_pt, shared_modules)
{
    ptwrite_module(&w, "m", "Top");
    ptwrite_module_buffers(&w);
    ptwrite_module_children(&w);
    ptwrite_key(&w, "a");
    ptwrite_conv(&w, 1);
    ptwrite_put(&w, 7);
    ptwrite_key(&w, "b");
    ptwrite_get(&w, 7);
    ptwrite_module_attrs(&w);
    ptwrite_module_end(&w);
    struct readcheck r = read_zip();
    cr_assert(r.w && r.w->ntensor == 2, "%s", readcheck_text(&r));
    cr_assert(fe_weights_find(r.w, "b.weight")->data == fe_weights_find(r.w, "a.weight")->data);
    readcheck_end(&r);
}

Test(weights_pt, legacy_form)
{
    size_t len;
    w.legacy = true;
    ptwrite_model(&w, 1);
    const uint8_t *bytes = ptwrite_legacy(&w, &len);
    struct readcheck r = readcheck_bytes(bytes, len, NULL);
    /* The writer counts in floats, so the int64 scalar has two. */
    cr_assert_null(r.w);
    cr_assert(strstr(readcheck_text(&r), "2 elements, but 1 are declared"), "%s", readcheck_text(&r));
    readcheck_end(&r);

    ptwrite_init(&w, a);
    w.legacy = true;
    ptwrite_conv(&w, 1);
    bytes = ptwrite_legacy(&w, &len);
    for (size_t n = 0; n <= len; n++) {
        r = readcheck_bytes(bytes, n, NULL);
        cr_assert_eq(r.w != NULL, n == len, "%zu of %zu bytes: %s", n, len, readcheck_text(&r));
        float v[2];
        if (r.w) fe_tensor_f32(&r.w->tensor[0], v);
        if (r.w) cr_assert(v[0] == 1 && v[1] == 2);
        readcheck_end(&r);
    }
}

/* What only the legacy form has: classes with their source text, and storages that are windows of others. */
Test(weights_pt, legacy_classes_and_windows)
{
    static const float values[] = {0, 1, 2, 3, 4, 5};
    for (int64_t from = 0; from <= 4; from++) {
        size_t len;
        ptwrite_init(&w, a);
        w.legacy = true;
        w.record = yir_alloc(a, sizeof *w.record);
        w.record[0] = (struct ptwrite_record){"data/5", values, sizeof values};
        w.nrecord = w.cap = 1;
        ptwrite_ops(&w, "}");
        ptwrite_key(&w, "t");
        ptwrite_ops(&w, "(U\7storagectorch\nFloatStorage\nU\1"
                        "5U\3cpuK\6(U\1"
                        "6");
        ptwrite_int(&w, from);
        ptwrite_ops(&w, "K\3ttQ");
        ptwrite_view(&w, 1, (const int64_t[]){2}, (const int64_t[]){1}, 1);
        ptwrite_ops(&w, "s");
        ptwrite_key(&w, "class");
        ptwrite_ops(&w, "(U\6modulecm\nC\nU\4m.pyU\4passtQs");
        const uint8_t *bytes = ptwrite_legacy(&w, &len);
        struct readcheck r = readcheck_bytes(bytes, len, NULL);
        float v[2];
        if (r.w) fe_tensor_f32(&r.w->tensor[0], v);
        if (from == 4)
            cr_assert_null(r.w);
        else
            cr_assert(r.w && v[0] == (float)from + 1 && v[1] == (float)from + 2, "%s", readcheck_text(&r));
        readcheck_end(&r);
    }
}

static void check_values(const char *type, const void *bytes, size_t itemsize, enum yir_dtype want)
{
    static const int64_t three = 3;
    ptwrite_init(&w, a);
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_tensor(&w, type, itemsize, bytes, &three, 1);
    ptwrite_op(&w, 's');
    struct readcheck r = read_zip();
    cr_assert(r.w && r.w->tensor[0].dtype == want, "%s: %s", type, readcheck_text(&r));
    double v[3];
    fe_tensor_f64(&r.w->tensor[0], v);
    bool flag = want == YIR_BOOL;
    cr_assert(v[0] == 1 && v[1] == 0 && v[2] == (flag ? 1 : 2), "%s: %g %g %g", type, v[0], v[1], v[2]);
    readcheck_end(&r);
}

Test(weights_pt, element_types)
{
    check_values("FloatStorage", (const float[]){1, 0, 2}, 4, YIR_F32);
    check_values("DoubleStorage", (const double[]){1, 0, 2}, 8, YIR_F64);
    check_values("HalfStorage", (const uint16_t[]){0x3c00, 0, 0x4000}, 2, YIR_F16);
    check_values("BFloat16Storage", (const uint16_t[]){0x3f80, 0, 0x4000}, 2, YIR_BF16);
    check_values("LongStorage", (const int64_t[]){1, 0, 2}, 8, YIR_I64);
    check_values("IntStorage", (const int32_t[]){1, 0, 2}, 4, YIR_I32);
    check_values("CharStorage", (const int8_t[]){1, 0, 2}, 1, YIR_I8);
    check_values("ByteStorage", (const uint8_t[]){1, 0, 2}, 1, YIR_U8);
    check_values("BoolStorage", (const uint8_t[]){1, 0, 1}, 1, YIR_BOOL);
}

/* A tensor [2,3] over a storage of 8 floats 0..7. */
static struct readcheck read_view(int64_t offset, const int64_t *stride)
{
    static const float values[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int64_t dim[] = {2, 3};
    ptwrite_init(&w, a);
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_storage(&w, "FloatStorage", values, sizeof values, 8);
    ptwrite_view(&w, offset, dim, stride, 2);
    ptwrite_op(&w, 's');
    return read_zip();
}

Test(weights_pt, strides)
{
    static const struct {
        int64_t offset, stride[2];
        float want[6];
    } rows[] = {
        {1, {3, 1}, {1, 2, 3, 4, 5, 6}}, {0, {1, 2}, {0, 2, 4, 1, 3, 5}}, {4, {0, 0}, {4, 4, 4, 4, 4, 4}},
        {0, {4, 0}, {0, 0, 0, 4, 4, 4}}, {0, {1, 1}, {0, 1, 2, 1, 2, 3}},
    };
    for (size_t i = 0; i < YIR_COUNT(rows); i++) {
        struct readcheck r = read_view(rows[i].offset, rows[i].stride);
        cr_assert(r.w, "%s", readcheck_text(&r));
        float v[6];
        fe_tensor_f32(&r.w->tensor[0], v);
        cr_assert_arr_eq(v, rows[i].want, sizeof v, "row %zu", i);
        readcheck_end(&r);
    }
}

/* The digest is of values, not of how they are stored. */
Test(weights_pt, digest)
{
    struct readcheck x = read_view(0, (const int64_t[]){1, 1}), y = read_view(0, (const int64_t[]){3, 1});
    cr_assert_neq(x.w->digest[0], y.w->digest[0]);
    static const float dense[] = {0, 1, 2, 1, 2, 3};
    static const int64_t dim[] = {2, 3};
    ptwrite_init(&w, a);
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_tensor(&w, "FloatStorage", 4, dense, dim, 2);
    ptwrite_op(&w, 's');
    struct readcheck z = read_zip();
    cr_assert(x.w->digest[0] == z.w->digest[0] && x.w->digest[1] == z.w->digest[1]);
    readcheck_end(&x);
    readcheck_end(&y);
    readcheck_end(&z);
}

Test(weights_pt, nonfinite)
{
    static const uint16_t values[] = {0x7c00, 0x3c00, 0x7e00, 0xfc00};
    static const int64_t four = 4;
    ptwrite_op(&w, '}');
    ptwrite_key(&w, "t");
    ptwrite_tensor(&w, "HalfStorage", 2, values, &four, 1);
    ptwrite_op(&w, 's');
    struct readcheck r = read_zip();
    cr_assert_eq(fe_tensor_nonfinite(&r.w->tensor[0]), 3);
    readcheck_end(&r);
}
