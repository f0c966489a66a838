/* CUDA modules that the loader refuses, for the GPUs that are there or for what they hold; maps for tensor copies. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "cudabox.h"

static void expect_refused(const char *arch, yolort_status s, const char *part)
{
    struct net n;
    describe(&n, arch);
    cr_expect_eq(load(&n), s, "%s", arch);
    cr_expect(strstr(n.why, part), "\"%s\" is not in \"%s\"", part, n.why);
    free(n.bytes);
}

Test(rt_cudaload, other_devices)
{
    struct mock k = mock();
    setenv("MOCKCUDA_DEVICES", "89", 1);
    expect_refused("sm_90a", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("sm_90", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("sm_75", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("sm_", YOLORT_INCOMPATIBLE, "8.9");
    expect_refused("x86_64", YOLORT_INCOMPATIBLE, "8.9");
    setenv("MOCKCUDA_DEVICES", "", 1);
    expect_refused("sm_90a", YOLORT_NO_DEVICE, "there is none");
    setenv("YOLOC_LIBCUDA", "/nowhere/libcuda.so", 1);
    expect_refused("sm_90a", YOLORT_NO_DEVICE, "no CUDA driver");
    setenv("YOLOC_LIBCUDA", "libm.so.6", 1);
    expect_refused("sm_90a", YOLORT_NO_DEVICE, "too old");
    setenv("YOLOC_LIBCUDA", MOCKCUDA, 1);
    static const int absent[] = {34, 100, 802};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        k.fail("cuInit", 1, absent[i]);
        expect_refused("sm_90a", YOLORT_NO_DEVICE, "start");
    }
    k.fail("cuInit", 1, 804);
    expect_refused("sm_90a", YOLORT_INCOMPATIBLE, "start");
}

/* The code's own tables, when they point outside it. */
Test(rt_cudaload, bad_code)
{
    struct mock k = mock();
    static const struct {
        size_t at, size;
        uint64_t value;
    } row[] = {{18, 2, 62}, {4, 1, 1}, {40, 8, UINT64_MAX}, {32, 8, UINT64_MAX}, {60, 2, 0xffff}, {56, 2, 0xffff}, {58, 2, 40}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        describe(&n, "sm_90a");
        uint8_t *p = n.bytes;
        while (memcmp(p, "\177ELF", 4)) p++;
        memcpy(p + row[i].at, &row[i].value, row[i].size);
        modbuild_sign(n.bytes, n.size);
        cr_expect_eq(load(&n), YOLORT_FORMAT, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    cr_expect_eq(k.live(), 0);
}

/* What no GPU launches, under a digest that is right. */
Test(rt_cudaload, bad_launches)
{
    struct mock k = mock();
    static const struct {
        uint32_t threads, per_block, shared, waits;
        uint8_t align;
        yolort_status status;
    } row[] = {{128, 128, 0, 0, 0, YOLORT_OK},         {1024, 1, 227 << 10, 1, 4, YOLORT_OK},
               {0, 128, 0, 0, 0, YOLORT_FORMAT},       {100, 128, 0, 0, 0, YOLORT_FORMAT},
               {1056, 128, 0, 0, 0, YOLORT_FORMAT},    {128, 0, 0, 0, 0, YOLORT_FORMAT},
               {128, 1, 1 + (227 << 10), 0, 0, YOLORT_FORMAT}, {128, 1, 0, 0, 5, YOLORT_FORMAT},
               {128, 1, 0, 2, 0, YOLORT_FORMAT}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        describe(&n, "sm_90a");
        free(n.bytes);
        n.b.kernel[2].threads = row[i].threads;
        n.b.kernel[2].per_block = row[i].per_block;
        n.b.kernel[2].shared = row[i].shared;
        n.b.kernel[2].waits = row[i].waits;
        n.b.param[4].align = row[i].align;
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_expect_eq(load(&n), row[i].status, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    cr_expect_eq(k.live(), 0);
}

static void add_map(struct net *n)
{
    describe(n, "sm_90a");
    free(n->bytes);
    n->b.param[4].align = 4;
    n->b.kernel[2].nmap = n->b.nmap = 1;
    n->b.map[0] = (struct ym_map){
        .rank = 3, .swizzle = 1, .dim = {8, MB_ELEMENTS / 8, 2}, .box = {8, 4, 1}, .stride = {32, MB_ELEMENTS * 4}};
}

Test(rt_cudaload, maps)
{
    struct mock k = mock();
    struct net n;
    add_map(&n);
    n.bytes = modbuild_finish(&n.b, &n.size);
    cr_assert_eq(load(&n), YOLORT_OK, "%s", n.why);
    cr_assert_eq(yolort_context_new(&n.c, n.m, NULL), YOLORT_OK);
    bind(&n);
    cr_expect_eq(yolort_run(n.c, 2, NULL), YOLORT_OK, "%s", yolort_error(n.c));
    cr_expect_eq(yolort_wait(n.c), YOLORT_OK);
    closed(&n);
    cr_expect_eq(k.live(), 0);
}

Test(rt_cudaload, bad_maps)
{
    static const struct {
        size_t at, size;
        uint32_t value;
    } row[] = {
#define OF(table, row, field) offsetof(struct modbuild, table) + (row) * sizeof ((struct modbuild *)0)->table[0] + field, 4
#define MAP(field)            OF(map, 0, offsetof(struct ym_map, field))
        {OF(kernel, 2, offsetof(struct ym_kernel, nmap)), 0},
        {OF(kernel, 2, offsetof(struct ym_kernel, nmap)), 2},
        {OF(kernel, 2, offsetof(struct ym_kernel, first_map)), 1},
        {OF(kernel, 1, offsetof(struct ym_kernel, nmap)), 1},
        {offsetof(struct modbuild, nmap), 4, 2},
        {offsetof(struct modbuild, param) + 4 * sizeof(struct ym_param) + offsetof(struct ym_param, align), 1, 3},
        {MAP(param), 1},
        {MAP(param), 2},
        {MAP(rank), 2},
        {MAP(rank), 4},
        {MAP(rank), 6},
        {MAP(swizzle), 0},
        {MAP(swizzle), 2},
        {MAP(swizzle), 4},
        {MAP(pad), 1},
        {MAP(dim[0]), 9},
        {MAP(dim[1]), 0},
        {MAP(dim[1]), MB_ELEMENTS / 8 + 1},
        {MAP(dim[1]), UINT32_MAX},
        {MAP(dim[2]), 3},
        {MAP(dim[3]), 1},
        {MAP(box[0]), 4},
        {MAP(box[1]), 0},
        {MAP(box[1]), 257},
        {MAP(box[2]), 2},
        {MAP(box[4]), 1},
        {MAP(stride[0]), 0},
        {MAP(stride[0]), 40},
        {MAP(stride[0]), 48},
        {MAP(stride[1]), MB_ELEMENTS * 4 - 16},
        {MAP(stride[2]), 16},
#undef MAP
#undef OF
    };
    struct mock k = mock();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct net n;
        add_map(&n);
        memcpy((unsigned char *)&n.b + row[i].at, &row[i].value, row[i].size);
        n.bytes = modbuild_finish(&n.b, &n.size);
        cr_expect_eq(load(&n), YOLORT_FORMAT, "row %zu: %s", i, n.why);
        yolort_module_free(n.m);
        free(n.bytes);
    }
    cr_expect_eq(k.live(), 0);
}
