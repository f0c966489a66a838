/* Handles that are none, and option structs of other versions of the header. */
#include <criterion/criterion.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "modbuild.h"
#include "runtime/yolort.h"

static uint8_t *bytes;
static yolort_module *module;
static yolort_context *context;

static void open_module(void)
{
    struct modbuild b;
    size_t size;
    modbuild_init(&b);
    bytes = modbuild_finish(&b, &size);
    cr_assert_eq(yolort_load(&module, bytes, size, NULL, 0), YOLORT_OK);
    cr_assert_eq(yolort_context_new(&context, module, NULL), YOLORT_OK);
}

static void close_module(void)
{
    yolort_context_free(context);
    yolort_module_free(module);
    free(bytes);
}

/* Memory that is no object of ours: zeroes, ones, and text. */
static const uint64_t foreign[3][64] = {{0}, {1, 1, 1, 1}, {0x4c4f59204f4c4f59}};

static void expect_no_context(yolort_context *c)
{
    static float data[2 * MB_ELEMENTS];
    uint8_t rgb[3] = {0};
    yolort_image image = {rgb, 1, 1, 0};
    yolort_detection d;
    yolort_step step;
    size_t count = 7, size = 7;
    cr_expect_eq(yolort_bind(c, MB_IMAGES, data, sizeof data), YOLORT_ARG);
    cr_expect_eq(yolort_run(c, 1, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_wait(c), YOLORT_ARG);
    cr_expect_eq(yolort_profile(c, 1), YOLORT_ARG);
    cr_expect_eq(yolort_step_at(c, 0, &step), YOLORT_ARG);
    cr_expect_eq(yolort_detect(c, &image, 1, NULL, &d, 1, &count), YOLORT_ARG);
    cr_expect_eq(yolort_predict(c, NULL, NULL, 1, NULL, NULL, NULL), YOLORT_ARG);
    cr_expect_eq(yolort_masks(c, 0, 1, 1, NULL, NULL, 0, NULL, 0, NULL), YOLORT_ARG);
    cr_expect_str_eq(yolort_error(c), "");
    cr_expect_null(yolort_arena(c, &size));
    cr_expect(count == 7 && size == 0);
    yolort_context_free(c);
}

static void expect_no_module(yolort_module *m)
{
    yolort_context *c = NULL;
    cr_expect_null(yolort_module_info(m));
    cr_expect_eq(yolort_io_count(m), 0);
    cr_expect_null(yolort_io_at(m, 0));
    cr_expect_eq(yolort_io_find(m, "images"), -1);
    cr_expect_eq(yolort_step_count(m), 0);
    cr_expect_eq(yolort_answer_of(m, NULL), YOLORT_NOTHING);
    cr_expect_eq(yolort_context_new(&c, m, NULL), YOLORT_ARG);
    cr_expect_null(c);
    yolort_module_free(m);
}

/* Every function of yolort.h that takes a handle, with NULL, other memory, and a handle of the other kind. */
Test(rt_api, handles_that_are_none)
{
    static float in[2 * MB_ELEMENTS], out[2 * MB_ELEMENTS];
    open_module();
    expect_no_context(NULL);
    expect_no_module(NULL);
    for (int i = 0; i < 3; i++) {
        expect_no_context((yolort_context *)(uintptr_t)foreign[i]);
        expect_no_module((yolort_module *)(uintptr_t)foreign[i]);
    }
    expect_no_context((yolort_context *)(void *)module);
    expect_no_module((yolort_module *)(void *)context);
    in[5] = 3;
    cr_expect_eq(yolort_bind(context, MB_IMAGES, in, sizeof in), YOLORT_OK);
    cr_expect_eq(yolort_bind(context, MB_ECHO, out, sizeof out), YOLORT_OK);
    cr_expect_eq(yolort_run(context, 2, NULL), YOLORT_OK, "the true ones are still good");
    cr_expect_eq(out[5], 3);
    close_module();
}

/* A struct of `size` bytes in front of memory that may not be looked at (a sanitizer tells). */
static yolort_status try_context_opts(size_t size, size_t dirty)
{
    yolort_context *c = NULL;
    uint8_t *p = calloc(1, size > sizeof size ? size : sizeof size);
    cr_assert(p);
    yolort_context_opts_init((yolort_context_opts *)(void *)p, size);
    memcpy(p, &size, sizeof size);
    if (dirty) p[dirty] = 1;
    yolort_status s = yolort_context_new(&c, module, (const yolort_context_opts *)(const void *)p);
    cr_expect_eq(c != NULL, s == YOLORT_OK);
    yolort_context_free(c);
    free(p);
    return s;
}

static yolort_status try_nms_opts(size_t size, size_t dirty)
{
    size_t count;
    uint8_t *p = calloc(1, size > sizeof size ? size : sizeof size);
    cr_assert(p);
    yolort_nms_opts_init((yolort_nms_opts *)(void *)p, size);
    memcpy(p, &size, sizeof size);
    if (dirty) p[dirty] = 1;
    yolort_status s = yolort_nms(NULL, 0, 1, YOLORT_HEAD_FREE, (const yolort_nms_opts *)(const void *)p, NULL, NULL, 0, &count);
    free(p);
    return s;
}

/* Older headers know a prefix of the struct, newer ones more; what they set beyond ours is refused, never ignored. */
Test(rt_api, structs_of_other_headers)
{
    static const struct {
        yolort_status (*try)(size_t size, size_t dirty);
        size_t size;
    } structs[] = {{try_context_opts, sizeof(yolort_context_opts)}, {try_nms_opts, sizeof(yolort_nms_opts)}};
    open_module();
    for (int k = 0; k < 2; k++) {
        for (size_t size = 0; size < sizeof(size_t); size++) cr_expect_eq(structs[k].try(size, 0), YOLORT_ARG, "%zu", size);
        for (size_t size = sizeof(size_t); size <= structs[k].size + 64; size++) {
            yolort_status wanted = size % sizeof(size_t) ? YOLORT_ARG : YOLORT_OK;
            cr_expect_eq(structs[k].try(size, 0), wanted, "%d: %zu bytes", k, size);
        }
        cr_expect_eq(structs[k].try(4096, 0), YOLORT_OK);
        cr_expect_eq(structs[k].try(4097, 0), YOLORT_ARG);
        for (size_t dirty = structs[k].size; dirty < structs[k].size + 64; dirty++)
            cr_expect_eq(structs[k].try(structs[k].size + 64, dirty), YOLORT_ARG, "%d: byte %zu is set", k, dirty);
    }
    close_module();
}
