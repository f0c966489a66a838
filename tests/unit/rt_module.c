/* The loader: what a good module says, and modules that are damaged or for another machine. Bad tables: rt_modtable; files: rt_modfile. */
#include <criterion/criterion.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loadbox.h"
#include "runtime/cpufeature.h"

Test(rt_module, describes)
{
    struct modbuild b;
    size_t size;
    yolort_module *m = NULL;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    cr_assert_eq(yolort_load(&m, bytes, size, NULL, 0), YOLORT_OK);
    const yolort_info *i = yolort_module_info(m);
    cr_expect_str_eq(i->model, "tiny");
    cr_expect_str_eq(i->task, "detect");
    cr_expect_str_eq(i->target, "cpu:test");
    cr_expect_str_eq(i->precision, "f32");
    cr_expect_str_eq(i->producer, "yoloc 1.2.3");
    cr_expect_eq(i->head, YOLORT_HEAD_FREE);
    cr_expect_eq(i->letterbox, YOLORT_SQUARE);
    cr_expect(i->nc == 2 && i->height == 8 && i->width == 8 && i->max_batch == 2 && i->stride == 4);
    cr_expect(i->max_det == 300 && i->conf == 0.25f && i->iou == 0.5f);
    cr_expect_str_eq(i->names[0], "cat");
    cr_expect_str_eq(i->names[1], "dog");
    cr_expect_eq(i->arena_bytes, 1536);
    cr_expect_eq(i->constant_bytes, 96);
    cr_expect_gt(i->code_bytes, 0);
    cr_expect_eq(yolort_io_count(m), 4);
    const yolort_io *io = yolort_io_at(m, MB_DECODED);
    cr_expect_str_eq(io->name, "decoded");
    cr_expect(io->dtype == YOLORT_F32 && io->is_output && io->rank == 3);
    cr_expect(io->dim[0] == 2 && io->dim[1] == 6 && io->dim[2] == 2 && io->bytes_per_image == 48);
    cr_expect_eq(yolort_io_find(m, "echo"), MB_ECHO);
    cr_expect_eq(yolort_io_find(m, "nothing"), -1);
    cr_expect_eq(yolort_io_find(m, NULL), -1);
    cr_expect_null(yolort_io_at(m, 4));
    cr_expect_eq(yolort_step_count(m), 4);
    yolort_module_free(m);
    free(bytes);
}

/* Bytes at any address: only a copy can be aligned. */
Test(rt_module, unaligned_bytes)
{
    struct modbuild b;
    size_t size;
    yolort_module *m = NULL;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size), *odd = malloc(size + 3);
    memcpy(odd + 3, bytes, size);
    cr_assert_eq(yolort_load(&m, odd + 3, size, NULL, 0), YOLORT_OK);
    memset(odd, 0, size + 3);
    cr_expect_str_eq(yolort_module_info(m)->names[1], "dog");
    yolort_module_free(m);
    free(odd);
    free(bytes);
}

Test(rt_module, null_arguments)
{
    yolort_module *m = NULL;
    char t[8] = "";
    uint64_t wrong[64] = {0};
    cr_expect_eq(yolort_load(NULL, t, 8, t, 8), YOLORT_ARG);
    cr_expect_eq(yolort_load(&m, NULL, 8, t, 8), YOLORT_ARG);
    cr_expect_eq(yolort_load_file(NULL, "x", t, 8), YOLORT_ARG);
    cr_expect_eq(yolort_load_file(&m, NULL, t, 8), YOLORT_ARG);
    yolort_module_free(NULL);
    cr_expect_null(yolort_module_info(NULL));
    cr_expect_null(yolort_module_info((yolort_module *)(void *)wrong));
    cr_expect_eq(yolort_io_count(NULL), 0);
    cr_expect_eq(yolort_step_count(NULL), 0);
    cr_expect_null(yolort_io_at(NULL, 0));
    cr_expect_eq(yolort_io_find(NULL, "x"), -1);
    cr_expect_null(m);
}

Test(rt_module, text_is_cut)
{
    char t[8] = "zzzzzzz";
    yolort_module *m;
    cr_expect_eq(yolort_load_file(&m, "no/such/file", t, 4), YOLORT_IO);
    cr_expect_str_eq(t, "no/");
    cr_expect_eq(t[4], 'z');
}

/* --- damage ----------------------------------------------------------------------------------------------------- */

Test(rt_module, every_bit)
{
    struct modbuild b;
    size_t size, integrity = 0;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        yolort_status s = load(bytes, size);
        cr_assert_neq(s, YOLORT_OK, "bit %zu", bit);
        integrity += s == YOLORT_INTEGRITY;
        /* Before the digest only magic, versions and size are looked at. */
        cr_assert(bit < offsetof(struct ym_header, digest) * 8 || s == YOLORT_INTEGRITY, "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    cr_expect_eq(integrity, (size - offsetof(struct ym_header, digest)) * 8);
    cr_expect_eq(load(bytes, size), YOLORT_OK);
    free(bytes);
}

Test(rt_module, every_length)
{
    struct modbuild b;
    size_t size;
    modbuild_init(&b);
    uint8_t *bytes = modbuild_finish(&b, &size), *longer = aligned_alloc(64, size + 64);
    for (size_t n = 0; n < size; n++) {
        /* An allocation of just this size, so that a sanitizer sees each byte read too many. */
        void *part;
        cr_assert(!posix_memalign(&part, 64, n + !n));
        memcpy(part, bytes, n);
        cr_assert_eq(load(part, n), YOLORT_FORMAT, "%zu bytes", n);
        free(part);
    }
    memset(longer, 0, size + 64);
    memcpy(longer, bytes, size);
    cr_expect_eq(load(longer, size + 1), YOLORT_FORMAT);
    cr_expect_eq(load(longer, size + 64), YOLORT_FORMAT);
    free(longer);
    free(bytes);
}

/* More bytes than a module may have: nothing behind the header is looked at. */
Test(rt_module, too_large)
{
    size_t size = YM_MAX_FILE + 64;
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) cr_skip("no room for an address range of 8 GiB");
    struct modbuild b;
    modbuild_init(&b);
    memcpy(p, &b.header, sizeof b.header);
    cr_expect_eq(load(p, size), YOLORT_LIMIT);
    cr_expect_eq(load(p, size - 64), YOLORT_FORMAT);
    cr_assert(!mprotect(p, size, PROT_NONE));
    cr_expect_eq(load(p + 1, size - 1), YOLORT_LIMIT, "without a look at the bytes");
    munmap(p, size);
}

/* --- other machines --------------------------------------------------------------------------------------------- */

/* A feature that LLVM knows and this CPU has not; NULL when it has all that are tried (from both makers). */
static const char *missing_feature(void)
{
    static const char *const rare[] = {"xop", "fma4", "sse4a", "amx-complex", "sve2", "sm4", "fp16fml"};
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++)
        if (rt_cpu_knows(rare[i]) && !rt_cpu_has(rare[i])) return rare[i];
    return NULL;
}

Test(rt_module, cpu_features)
{
    struct modbuild b;
    char list[4096], want[128];
    const char *missing = missing_feature();
    modbuild_init(&b);
    cr_assert_gt(rt_cpu_list(list, sizeof list), 0);
    /* Asking for AMX state changes this process; the other features are as they are. */
    char *amx = strstr(list, ",amx-");
    if (amx) *amx = 0;
    b.target[0].features = modbuild_string(&b, list);
    expect(&b, YOLORT_OK, "");
    b.target[0].features = modbuild_string(&b, "warp-drive");
    expect(&b, YOLORT_INCOMPATIBLE, "cpu:test needs warp-drive, which this runtime does not know");
    b.target[0].features = modbuild_string(&b, ",,");
    expect(&b, YOLORT_FORMAT, "bad list of CPU features");
    b.target[0].features = modbuild_string(&b, "a-name-that-is-much-too-long-for-any-feature");
    expect(&b, YOLORT_FORMAT, "bad list of CPU features");
    if (!missing) cr_skip("this CPU has everything");
    snprintf(want, sizeof want, "cpu:test needs %s, this CPU has not", missing);
    b.target[0].features = modbuild_string(&b, missing);
    expect(&b, YOLORT_INCOMPATIBLE, want);
}

Test(rt_module, other_arch)
{
    struct modbuild b;
    char want[64];
    modbuild_init(&b);
    b.target[0].arch = modbuild_string(&b, "vax");
    snprintf(want, sizeof want, "cpu:test is for vax, this machine is %s", rt_cpu_arch());
    expect(&b, YOLORT_INCOMPATIBLE, want);
}

/* Of several programs the first that can run here is taken, and its own numbers count. */
Test(rt_module, several_programs)
{
    struct modbuild b;
    size_t size;
    yolort_module *m = NULL;
    modbuild_init(&b);
    b.ntarget = 2;
    b.target[1] = b.target[0];
    b.target[0].features = modbuild_string(&b, "warp-drive");
    b.target[1].name = modbuild_string(&b, "cpu:second");
    b.target[1].arena_size = 4096;
    uint8_t *bytes = modbuild_finish(&b, &size);
    cr_assert_eq(yolort_load(&m, bytes, size, text, sizeof text), YOLORT_OK, "%s", text);
    cr_expect_str_eq(yolort_module_info(m)->target, "cpu:second");
    cr_expect_eq(yolort_module_info(m)->arena_bytes, 4096);
    yolort_module_free(m);
    free(bytes);
    b.target[1].arch = modbuild_string(&b, "vax");
    expect(&b, YOLORT_INCOMPATIBLE,
           "cpu:test needs warp-drive, which this runtime does not know; cpu:second is for vax");
    b.target[0].features = 0;
    expect(&b, YOLORT_OK, "");
    b.target[1].max_batch = -1;
    expect(&b, YOLORT_FORMAT, "TARGET 1: batch -1");
}
