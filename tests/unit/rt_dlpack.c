/* Tensors of other libraries as inputs and outputs, and host memory: on the CPU, and on a GPU beside the mock driver. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "mocklib.h"
#include "modbuild.h"
#include "runtime/dlpack.h"
#include "runtime/yolort.h"

struct net {
    struct modbuild b;
    uint8_t *bytes;
    yolort_module *m;
    yolort_context *c;
};

static long (*live)(void);

static void open_net(struct net *n, int gpu)
{
    size_t size;
    char why[256];
    modbuild_init(&n->b);
    if (gpu) {
        mock_take(mock_library("YOLOC_LIBCUDA", MOCKCUDA), "mockcuda_live", &live);
        modbuild_cuda(&n->b, "sm_90a");
    }
    n->bytes = modbuild_finish(&n->b, &size);
    cr_assert_eq(yolort_load(&n->m, n->bytes, size, why, sizeof why), YOLORT_OK, "%s", why);
    cr_assert_eq(yolort_context_new(&n->c, n->m, NULL), YOLORT_OK);
}

static void close_net(struct net *n)
{
    yolort_context_free(n->c);
    yolort_module_free(n->m);
    free(n->bytes);
}

static int deleted;

static void count_deleted(struct DLManagedTensor *t)
{
    (void)t;
    deleted++;
}

static float images[2 * MB_ELEMENTS], echo[2 * MB_ELEMENTS];
static int64_t shape[4] = {2, 3, 8, 8}, strides[4] = {192, 64, 8, 1};

/* The images, as another library would hand them over. */
static struct DLManagedTensor tensor(void)
{
    const int64_t s[4] = {2, 3, 8, 8}, d[4] = {192, 64, 8, 1};
    memcpy(shape, s, sizeof s);
    memcpy(strides, d, sizeof d);
    for (int i = 0; i < 2 * MB_ELEMENTS; i++) images[i] = (float)i;
    return (struct DLManagedTensor){{images, {DL_CPU, 0}, 4, {DL_FLOAT, 32, 1}, shape, strides, 0}, NULL, count_deleted};
}

Test(rt_dlpack, input)
{
    struct net n;
    open_net(&n, 0);
    struct DLManagedTensor t = tensor(), second = tensor();
    deleted = 0;
    cr_assert_eq(yolort_bind_dlpack(n.c, MB_IMAGES, &t), YOLORT_OK, "%s", yolort_error(n.c));
    cr_assert_eq(yolort_bind(n.c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_arr_eq(echo, images, sizeof echo);
    cr_expect_eq(deleted, 0);
    second.tensor.byte_offset = MB_ELEMENTS * sizeof(float); /* the second image alone */
    shape[0] = 1;
    strides[0] = 77; /* of a dimension of one element: no matter */
    cr_assert_eq(yolort_bind_dlpack(n.c, MB_IMAGES, &second), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_eq(deleted, 1, "the first one");
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_ARG, "there is one image");
    cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_arr_eq(echo, images + MB_ELEMENTS, sizeof echo / 2);
    uint8_t u8[2 * MB_ELEMENTS] = {0};
    cr_assert_eq(yolort_bind(n.c, MB_INPUT_U8, u8, sizeof u8), YOLORT_OK, "the other form of the picture");
    cr_expect_eq(deleted, 2);
    t.deleter = NULL;
    cr_assert_eq(yolort_bind_dlpack(n.c, MB_IMAGES, &t), YOLORT_OK, "%s", yolort_error(n.c));
    close_net(&n);
    cr_expect_eq(deleted, 2);
}

static void refused(struct net *n, struct DLManagedTensor *t, const char *part)
{
    cr_expect_eq(yolort_bind_dlpack(n->c, MB_IMAGES, t), YOLORT_ARG, "%s", part);
    cr_expect(strstr(yolort_error(n->c), part), "\"%s\" is not in \"%s\"", part, yolort_error(n->c));
}

Test(rt_dlpack, refuses)
{
    struct net n;
    open_net(&n, 0);
    deleted = 0;
    struct DLManagedTensor t = tensor();
    refused(&n, NULL, "NULL");
    t.tensor.rank = 3;
    refused(&n, &t, "rank 3");
    t = tensor();
    t.tensor.shape = NULL;
    refused(&n, &t, "rank 4");
    t = tensor();
    shape[0] = 3;
    refused(&n, &t, "3 images");
    shape[0] = 0;
    refused(&n, &t, "0 images");
    t = tensor();
    shape[2] = 9;
    refused(&n, &t, "dimension 2 of the tensor is 9, not 8");
    t = tensor();
    strides[3] = 3; /* pixels side by side */
    refused(&n, &t, "side by side");
    static const struct dl_type type[] = {{DL_INT, 32, 1}, {DL_FLOAT, 16, 1}, {DL_FLOAT, 32, 4}};
    for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
        t = tensor();
        t.tensor.type = type[i];
        refused(&n, &t, "element type");
    }
    t = tensor();
    t.tensor.device.type = DL_CUDA;
    refused(&n, &t, "device of kind 2");
    t = tensor();
    t.tensor.data = NULL;
    refused(&n, &t, "without data");
    t = tensor();
    t.tensor.byte_offset = 2;
    refused(&n, &t, "no multiple of 4");
    cr_expect_eq(yolort_bind_dlpack(n.c, 9, &t), YOLORT_ARG);
    cr_expect_eq(yolort_bind_dlpack(NULL, 0, &t), YOLORT_ARG);
    cr_expect_eq(deleted, 0, "what is refused stays the caller's");
    close_net(&n);
}

/* What runs write is there as long as the tensor is, without the context and the module. */
Test(rt_dlpack, output)
{
    struct net n;
    struct DLManagedTensor *out, *other;
    open_net(&n, 0);
    struct DLManagedTensor t = tensor();
    cr_assert_eq(yolort_bind_dlpack(n.c, MB_IMAGES, &t), YOLORT_OK);
    cr_assert_eq(yolort_output_dlpack(n.c, MB_ECHO, 2, &out), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_assert_eq(yolort_output_dlpack(n.c, MB_ECHO, 1, &other), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_ARG, "there is room for one image");
    other->deleter(other); /* the binding stays good */
    cr_expect_eq(yolort_run(n.c, 1, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    close_net(&n);
    const struct dl_tensor *v = &out->tensor;
    cr_expect(v->device.type == DL_CPU && v->rank == 2 && v->shape[0] == 2 && v->shape[1] == 192 && v->strides[0] == 192 && v->strides[1] == 1);
    cr_expect(v->type.code == DL_FLOAT && v->type.bits == 32 && v->type.lanes == 1 && !v->byte_offset);
    cr_expect_arr_eq(v->data, images, sizeof images);
    out->deleter(out);
}

Test(rt_dlpack, refuses_outputs)
{
    struct net n;
    struct DLManagedTensor *out;
    open_net(&n, 0);
    cr_expect_eq(yolort_output_dlpack(n.c, MB_IMAGES, 1, &out), YOLORT_ARG);
    cr_expect_eq(yolort_output_dlpack(n.c, 9, 1, &out), YOLORT_ARG);
    cr_expect_eq(yolort_output_dlpack(n.c, MB_ECHO, 0, &out), YOLORT_ARG);
    cr_expect_eq(yolort_output_dlpack(n.c, MB_ECHO, 3, &out), YOLORT_ARG);
    cr_expect_eq(yolort_output_dlpack(n.c, MB_ECHO, 1, NULL), YOLORT_ARG);
    close_net(&n);
}

/* From one context into another on the same device; the tensor outlives both. */
Test(rt_dlpack, on_a_gpu)
{
    struct net n, next;
    struct DLManagedTensor *out, *again, t = tensor();
    open_net(&n, 1);
    open_net(&next, 1);
    cr_assert_eq(yolort_bind_dlpack(n.c, MB_IMAGES, &t), YOLORT_OK, "host memory: %s", yolort_error(n.c));
    cr_assert_eq(yolort_output_dlpack(n.c, MB_ECHO, 2, &out), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect(out->tensor.device.type == DL_CUDA && out->tensor.device.id == 0);
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    out->tensor.rank = 4; /* the same numbers as images */
    out->tensor.shape = shape;
    out->tensor.strides = NULL;
    cr_assert_eq(yolort_bind_dlpack(next.c, MB_IMAGES, out), YOLORT_OK, "%s", yolort_error(next.c));
    cr_assert_eq(yolort_output_dlpack(next.c, MB_ECHO, 1, &again), YOLORT_OK);
    cr_expect_eq(yolort_run(next.c, 1, NULL), YOLORT_OK, "%s", yolort_error(next.c));
    close_net(&n);
    close_net(&next);
    cr_expect_gt(live(), 0, "the device is kept for the tensor");
    again->deleter(again);
    cr_expect_eq(live(), 0);
}

static void expect_host_memory(int gpu)
{
    struct net n;
    void *p = NULL, *q = NULL, *r = NULL;
    open_net(&n, gpu);
    cr_assert_eq(yolort_host_alloc(n.c, 1000, &p), YOLORT_OK, "%s", yolort_error(n.c));
    cr_assert_eq(yolort_host_alloc(n.c, sizeof images, &q), YOLORT_OK, "%s", yolort_error(n.c));
    cr_assert_eq(yolort_host_alloc(n.c, 1, &r), YOLORT_OK, "%s", yolort_error(n.c));
    memset(p, 1, 1000);
    memset(q, 0, sizeof images);
    cr_assert_eq(yolort_bind(n.c, MB_IMAGES, q, sizeof images), YOLORT_OK);
    cr_assert_eq(yolort_bind(n.c, MB_ECHO, echo, sizeof echo), YOLORT_OK);
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_eq(yolort_host_free(n.c, p), YOLORT_OK);
    cr_expect_eq(yolort_host_free(n.c, p), YOLORT_ARG, "twice");
    cr_expect_eq(yolort_host_free(n.c, echo), YOLORT_ARG);
    cr_expect_eq(yolort_host_free(n.c, NULL), YOLORT_OK);
    cr_expect_eq(yolort_host_alloc(n.c, 0, &p), YOLORT_ARG);
    cr_expect_eq(yolort_host_alloc(n.c, SIZE_MAX, &p), YOLORT_ARG);
    cr_expect_eq(yolort_host_alloc(n.c, 1, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_host_alloc(NULL, 1, &p), YOLORT_ARG);
    yolort_context *other;
    yolort_context_opts o;
    yolort_context_opts_init(&o, sizeof o);
    o.memory = q;
    o.memory_bytes = sizeof images;
    cr_expect_eq(yolort_context_new(&other, n.m, &o), YOLORT_ARG, "is none for a context");
    close_net(&n); /* and what is left of it */
    if (gpu) cr_expect_eq(live(), 0);
}

Test(rt_dlpack, host_memory)
{
    expect_host_memory(0);
    expect_host_memory(1);
}
